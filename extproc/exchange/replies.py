"""Building ``ProcessingResponse`` messages.

Every header value goes into ``raw_value``: Envoy ignores ``value``. Every header that is set says that it overwrites,
because the meaning of leaving that open has changed between versions of Envoy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extproc.errors import ClientError
from extproc.exchange import names
from protos.ext_proc_pb2 import (
    HeaderMutation,
    HeaderValueOption,
    ImmediateResponse,
    ProcessingResponse,
)

_OVERWRITE = HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD


def neutral(kind: str) -> ProcessingResponse:
    """The reply that changes nothing. ``kind`` is the member of the request, which the reply has under one name."""
    return _NEUTRAL[kind]


def _neutral(kind: str) -> ProcessingResponse:
    reply = ProcessingResponse()
    getattr(reply, kind).SetInParent()
    return reply


# Shared by all streams: a reply is read-only once it is given away.
_NEUTRAL = {
    kind: _neutral(kind)
    for kind in (
        "request_headers",
        "request_body",
        "request_trailers",
        "response_headers",
        "response_body",
        "response_trailers",
    )
}


def set_headers(mutation: HeaderMutation, headers: Iterable[tuple[str, str]]) -> None:
    # Each dot makes an object of the wire library; this runs some ten times for every request.
    add = mutation.set_headers.add
    for name, value in headers:
        header = add(append_action=_OVERWRITE).header
        header.key = name
        header.raw_value = value.encode()


def immediate(status: int, body: bytes, *, content_type: str | None, grpc_status: int) -> ProcessingResponse:
    """An answer to the client instead of a request to a backend (contract 3.13)."""
    reply = ProcessingResponse()
    response: ImmediateResponse = reply.immediate_response
    response.status.code = status
    response.body = body
    response.grpc_status.status = grpc_status
    if content_type is not None:
        set_headers(response.headers, [("content-type", content_type), ("content-length", str(len(body)))])
    return reply


def client_error(error: ClientError, body: bytes) -> ProcessingResponse:
    return immediate(error.status, body, content_type="application/json", grpc_status=error.grpc_status)


def add_metadata(reply: ProcessingResponse, values: Mapping[str, str | float]) -> None:
    """Put values into our namespace of the reply's dynamic metadata: text as strings, anything else as numbers."""
    fields = reply.dynamic_metadata.fields[names.METADATA_NAMESPACE].struct_value.fields
    for key, value in values.items():
        if isinstance(value, str):
            fields[key].string_value = value
        else:
            fields[key].number_value = value
