"""Debug log lines: what came and what was answered, with credentials taken out (contract, redaction 8).

Only called when the level is DEBUG. What goes over the wire is never touched.
"""

from __future__ import annotations

from collections.abc import Iterable

from extproc.exchange import names
from extproc.exchange.headers import listed_headers
from extproc.exchange.replies import Reply
from extproc.telemetry.redaction import REDACTED, redact_headers, redacted_body, without_credentials
from protos.ext_proc_pb2 import HeaderMutation, HeaderValue, ProcessingRequest, ProcessingResponse

_PATHS = frozenset({":path", names.ORIGINAL_PATH, names.ENVOY_ORIGINAL_PATH})

# The beginning of a body is enough to see what it is.
_SHOWN_BYTES = 4096


def request_fields(data: bytes, kind: str, *, secret: frozenset[str], redact: bool) -> dict[str, object]:
    """The fields that show a message from Envoy.

    Args:
        data: the message.
        kind: its member that is set.
        secret: names of headers, beside the usual ones, whose values are credentials by configuration.
        redact: show the shape of bodies without their content.
    """
    message = getattr(ProcessingRequest.FromString(data), kind)
    if kind.endswith("_headers"):
        headers = listed_headers(message.headers)
        return {"headers": _headers(headers, secret), "end_of_stream": message.end_of_stream}
    if kind.endswith("_body"):
        return {"body": _body(message.body, redact=redact), "end_of_stream": message.end_of_stream}
    return {}


def reply_fields(encoded: Reply, *, secret: frozenset[str], redact: bool) -> dict[str, object]:
    """The fields that show a reply of ours."""
    reply = ProcessingResponse.FromString(encoded.SerializeToString())
    kind = reply.WhichOneof("response")
    if kind == "immediate_response":
        immediate = reply.immediate_response
        return {
            "reply": kind,
            "status": immediate.status.code,
            **_mutation(immediate.headers, secret),
            "body": _body(immediate.body, redact=redact),
        }
    fields: dict[str, object] = {"reply": kind}
    if kind is not None and not kind.endswith("_trailers"):
        common = getattr(reply, kind).response
        fields |= _mutation(common.header_mutation, secret)
        if common.body_mutation.WhichOneof("mutation") == "body":
            fields["body"] = _body(common.body_mutation.body, redact=redact)
    return fields


def _mutation(mutation: HeaderMutation, secret: frozenset[str]) -> dict[str, object]:
    return {
        "set": _headers((option.header for option in mutation.set_headers), secret),
        "remove": list(mutation.remove_headers),
    }


def _headers(headers: Iterable[HeaderValue], secret: frozenset[str]) -> dict[str, str]:
    return dict(redact_headers(((header.key, _value(header)) for header in headers), secret))


def _value(header: HeaderValue) -> str:
    value = (header.raw_value or header.value).decode("utf-8", "replace")
    if header.key not in _PATHS:
        return value
    # Some clients put a key into the query.
    path, mark, _ = value.partition("?")
    return f"{path}?{REDACTED}" if mark else path


def _body(body: bytes, *, redact: bool) -> str:
    # Cut only when the content is out: half of a document could not be read.
    if redact:
        return redacted_body(body)[:_SHOWN_BYTES]
    # Backends quote a key that they do not know, and we a path with its query.
    return without_credentials(body[:_SHOWN_BYTES].decode("utf-8", "replace"))
