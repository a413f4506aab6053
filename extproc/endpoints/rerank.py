"""``POST /v2/rerank`` of Cohere's API (contract, rerank 14)."""

from __future__ import annotations

import msgspec

from extproc.endpoints.base import Operation, ParsedRequest
from extproc.endpoints.openai import check_model, client_error_body, decode
from extproc.errors import ClientError

PATH = "/v2/rerank"


class _Request(msgspec.Struct, frozen=True):
    model: str | None = None


_decoder = msgspec.json.Decoder(_Request)


class Rerank:
    operation = Operation.RERANK

    def parse(self, body: bytes, *, content_type: str, metering: bool) -> ParsedRequest:  # noqa: ARG002 - never streams
        request = decode(body, _decoder, path=PATH, content_type=content_type)
        return ParsedRequest(model=check_model(request.model), stream=False, body=body)

    def error_body(self, error: ClientError) -> bytes:
        return client_error_body(error)
