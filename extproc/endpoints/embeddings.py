"""``POST /v1/embeddings`` (contract, embeddings 10.1)."""

from __future__ import annotations

import msgspec

from extproc.endpoints.base import Operation, ParsedRequest
from extproc.endpoints.openai import check_model, client_error_body, decode
from extproc.errors import ClientError, MalformedRequest

PATH = "/v1/embeddings"


class _Request(msgspec.Struct, frozen=True):
    model: str | None = None
    input: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    messages: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decoder = msgspec.json.Decoder(_Request)


class Embeddings:
    operation = Operation.EMBEDDINGS

    def parse(self, body: bytes, *, content_type: str, metering: bool) -> ParsedRequest:  # noqa: ARG002 - never streams
        request = decode(body, _decoder, path=PATH, content_type=content_type)
        if isinstance(request.input, msgspec.Raw):
            if isinstance(request.messages, msgspec.Raw):
                raise _malformed("embedding request must have either 'input' or 'messages', not both")
            if bytes(memoryview(request.input)[:1]) not in (b'"', b"[", b"{"):
                raise _malformed("invalid input type (must be string, object, or array)")
        return ParsedRequest(model=check_model(request.model), stream=False, body=body)

    def error_body(self, error: ClientError) -> bytes:
        return client_error_body(error)


def _malformed(detail: str) -> MalformedRequest:
    return MalformedRequest(f"failed to parse JSON for {PATH}: {detail}")
