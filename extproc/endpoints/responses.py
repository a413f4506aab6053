"""``POST /v1/responses`` and ``/v1/responses/input_tokens`` (contract, responses 7 and input tokens 8).

Only ``model`` and ``stream`` are read: item types, tools and members appear in this API faster than gateways change.
"""

from __future__ import annotations

import msgspec

from extproc.endpoints.base import Operation, ParsedRequest
from extproc.endpoints.openai import check_model, client_error_body, decode
from extproc.errors import ClientError

PATH = "/v1/responses"
INPUT_TOKENS_PATH = "/v1/responses/input_tokens"


class _Request(msgspec.Struct, frozen=True):
    model: str | None = None
    stream: bool | None = None


_decoder = msgspec.json.Decoder(_Request)


class Responses:
    operation = Operation.RESPONSES

    def parse(self, body: bytes, *, content_type: str, metering: bool) -> ParsedRequest:  # noqa: ARG002 - always reported
        request = decode(body, _decoder, path=PATH, content_type=content_type)
        return ParsedRequest(model=check_model(request.model), stream=request.stream is True, body=body)

    def error_body(self, error: ClientError) -> bytes:
        return client_error_body(error)


class ResponsesInputTokens:
    operation = Operation.RESPONSES_INPUT_TOKENS

    def parse(self, body: bytes, *, content_type: str, metering: bool) -> ParsedRequest:  # noqa: ARG002 - never streams
        request = decode(body, _decoder, path=INPUT_TOKENS_PATH, content_type=content_type)
        return ParsedRequest(model=check_model(request.model), stream=False, body=body)

    def error_body(self, error: ClientError) -> bytes:
        return client_error_body(error)
