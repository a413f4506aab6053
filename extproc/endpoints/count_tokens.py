"""``POST /v1/messages/count_tokens``: how many tokens a request of the messages API has (contract, count_tokens 6)."""

from __future__ import annotations

from extproc.endpoints.anthropic import client_error_body, read_model
from extproc.endpoints.base import Operation, ParsedRequest
from extproc.errors import ClientError

PATH = "/v1/messages/count_tokens"


class CountTokens:
    operation = Operation.COUNT_TOKENS

    def parse(self, body: bytes, *, content_type: str, metering: bool) -> ParsedRequest:  # noqa: ARG002 - never streams
        model = read_model(body, path=PATH, content_type=content_type)
        return ParsedRequest(model=model, stream=False, body=body)

    def error_body(self, error: ClientError) -> bytes:
        return client_error_body(error)
