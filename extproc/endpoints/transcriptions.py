"""``POST /v1/audio/transcriptions`` (contract, transcriptions 13)."""

from __future__ import annotations

from extproc.endpoints.base import Operation, ParsedRequest
from extproc.endpoints.multipart_request import audio_request
from extproc.endpoints.openai import client_error_body
from extproc.errors import ClientError

PATH = "/v1/audio/transcriptions"


class Transcriptions:
    operation = Operation.TRANSCRIPTION

    def parse(self, body: bytes, *, content_type: str, metering: bool) -> ParsedRequest:  # noqa: ARG002 - reported unasked
        return audio_request(body, content_type, path=PATH, may_stream=True)

    def error_body(self, error: ClientError) -> bytes:
        return client_error_body(error)
