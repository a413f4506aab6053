"""Messages from Envoy as the wire library reads them, for tests that hold the reader of the exchange against it."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from extproc.errors import StreamFailure
from extproc.exchange.headers import listed_headers
from extproc.exchange.messages import Message
from protos.ext_proc_pb2 import ProcessingRequest

Plain = tuple[object, ...] | None
"""Everything that a message says; ``None`` of one that cannot be decoded."""


def plainly(data: bytes) -> Plain:
    """What the wire library reads."""
    try:
        request = ProcessingRequest.FromString(data)
        kind = request.WhichOneof("request") or ""
        part = getattr(request, kind, None)
        headers = [] if not kind.endswith("_headers") else listed_headers(part.headers)
    except (DecodeError, StreamFailure):
        return None
    return (
        *(kind, getattr(part, "end_of_stream", False), request.observability_mode, dict(request.attributes)),
        *(request.metadata_context, request.protocol_config),
        _joined([(each.key, (each.raw_value or each.value).decode("utf-8", "replace")) for each in headers]),
        part.body if kind.endswith("_body") else b"",
    )


def told(message: Message) -> Plain:
    """What a message that was read says."""
    envelope = message.envelope
    return (
        *(envelope.kind, envelope.end_of_stream, envelope.observed, envelope.attributes),
        *(envelope.metadata, envelope.protocol, list(message.headers.items()), message.body),
    )


def _joined(listed: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """In order of their first line; the last one counts, but of lists all."""
    headers = dict(listed)
    if "anthropic-beta" in headers:
        headers["anthropic-beta"] = ",".join(value for name, value in listed if name == "anthropic-beta")
    return list(headers.items())
