"""``POST /v1/embeddings`` (contract, embeddings 10.1).

Of a request, only the model and the form of the input are looked at: a backend of the same API may know members that
this gateway does not, and its client must be able to use them.
"""

from __future__ import annotations

import msgspec

from extproc.endpoints import embeddings_request
from extproc.endpoints.base import Operation, ParsedRequest
from extproc.endpoints.openai import check_model, client_error_body, decode
from extproc.endpoints.text_or_tokens import malformed
from extproc.errors import ClientError

PATH = embeddings_request.PATH


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
                raise malformed(PATH, "embedding request must have either 'input' or 'messages', not both")
            embeddings_request.check_input(request.input)
        return ParsedRequest(model=check_model(request.model), stream=False, body=body)

    def error_body(self, error: ClientError) -> bytes:
        return client_error_body(error)
