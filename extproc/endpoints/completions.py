"""``POST /v1/completions``, the older text API (contract, completions 9)."""

from __future__ import annotations

import msgspec

from extproc.endpoints import text_or_tokens
from extproc.endpoints.base import Operation, ParsedRequest
from extproc.endpoints.openai import ModelRequest, client_error_body, decode, streaming_request
from extproc.errors import ClientError

PATH = "/v1/completions"


class _Request(ModelRequest, frozen=True):
    prompt: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decoder = msgspec.json.Decoder(_Request)


class Completions:
    operation = Operation.COMPLETION

    def parse(self, body: bytes, *, content_type: str, metering: bool) -> ParsedRequest:
        request = decode(body, _decoder, path=PATH, content_type=content_type)
        if isinstance(request.prompt, msgspec.Raw):
            text_or_tokens.read(request.prompt, member="prompt", path=PATH)
        # Streams of this API hide their usage just as those of chat completions do; metering must not be evaded here.
        return streaming_request(request, body, metering=metering)

    def error_body(self, error: ClientError) -> bytes:
        return client_error_body(error)
