"""``POST /v1/messages``, Anthropic's API of conversations (contract, messages 5)."""

from __future__ import annotations

from extproc.endpoints.anthropic import client_error_body, read_request
from extproc.endpoints.base import Operation, ParsedRequest
from extproc.errors import ClientError

PATH = "/v1/messages"


class Messages:
    operation = Operation.MESSAGES

    def parse(self, body: bytes, *, content_type: str, metering: bool) -> ParsedRequest:  # noqa: ARG002 - always reported
        model, stream = read_request(body, path=PATH, content_type=content_type)
        return ParsedRequest(model=model, stream=stream, body=body)

    def error_body(self, error: ClientError) -> bytes:
        return client_error_body(error)
