"""``POST /v1/audio/transcriptions`` (contract, transcriptions 13)."""

from __future__ import annotations

import msgspec

from extproc.endpoints.base import Operation, ParsedRequest
from extproc.endpoints.openai import check_model, client_error_body, decode
from extproc.errors import ClientError

PATH = "/v1/audio/transcriptions"


class _Request(msgspec.Struct, frozen=True):
    model: str | None = None


_decoder = msgspec.json.Decoder(_Request)


class Transcriptions:
    operation = Operation.TRANSCRIPTION

    def parse(self, body: bytes, *, content_type: str, metering: bool) -> ParsedRequest:  # noqa: ARG002 - never streams
        request = decode(body, _decoder, path=PATH, content_type=content_type)
        return ParsedRequest(model=check_model(request.model), stream=False, body=body)

    def error_body(self, error: ClientError) -> bytes:
        return client_error_body(error)
