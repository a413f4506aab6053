"""``POST /v1/chat/completions``.

Only ``model``, ``stream`` and ``stream_options`` are read: a backend of the same API may know members and types that
this gateway does not, and its client must be able to use them.
"""

from __future__ import annotations

import msgspec

from extproc.endpoints.base import Operation, ParsedRequest
from extproc.endpoints.openai import ModelRequest, client_error_body, decode, streaming_request
from extproc.errors import ClientError

PATH = "/v1/chat/completions"

_decoder = msgspec.json.Decoder(ModelRequest)


class ChatCompletions:
    operation = Operation.CHAT

    def parse(self, body: bytes, *, content_type: str, metering: bool) -> ParsedRequest:
        request = decode(body, _decoder, path=PATH, content_type=content_type)
        return streaming_request(request, body, metering=metering)

    def error_body(self, error: ClientError) -> bytes:
        return client_error_body(error)
