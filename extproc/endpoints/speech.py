"""``POST /v1/audio/speech`` (contract, speech 12).

Every answer is a stream: with ``stream_format`` ``sse`` one of events, else one of sound, which the client can play
while the rest is being spoken. So nobody has to hold it.
"""

from __future__ import annotations

import msgspec

from extproc.endpoints.base import Operation, ParsedRequest
from extproc.endpoints.openai import check_model, client_error_body, decode
from extproc.errors import ClientError

PATH = "/v1/audio/speech"


class _Request(msgspec.Struct, frozen=True):
    model: str | None = None


_decoder = msgspec.json.Decoder(_Request)


class Speech:
    operation = Operation.SPEECH

    def parse(self, body: bytes, *, content_type: str, metering: bool) -> ParsedRequest:  # noqa: ARG002 - reported unasked
        request = decode(body, _decoder, path=PATH, content_type=content_type)
        return ParsedRequest(model=check_model(request.model), stream=True, body=body)

    def error_body(self, error: ClientError) -> bytes:
        return client_error_body(error)
