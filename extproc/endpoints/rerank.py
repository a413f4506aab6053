"""``POST /v2/rerank`` of Cohere's API (contract, rerank 14).

Cohere takes texts only, but other servers of this API (vLLM, Jina) take objects as well, as a query and as documents:
with a text and further fields, or with images. So both go through, and the backend judges; only what none of them
takes is refused here.
"""

from __future__ import annotations

import msgspec

from extproc.endpoints.base import Operation, ParsedRequest
from extproc.endpoints.cohere import client_error_body
from extproc.endpoints.openai import check_model, decode
from extproc.errors import ClientError

PATH = "/v2/rerank"

_Text = str | dict[str, msgspec.Raw] | None


class _Request(msgspec.Struct, frozen=True):
    model: str | None = None
    query: _Text = None
    documents: _Text | list[_Text] = None


_decoder = msgspec.json.Decoder(_Request)


class Rerank:
    operation = Operation.RERANK

    def parse(self, body: bytes, *, content_type: str, metering: bool) -> ParsedRequest:  # noqa: ARG002 - never streams
        request = decode(body, _decoder, path=PATH, content_type=content_type)
        return ParsedRequest(model=check_model(request.model), stream=False, body=body)

    def error_body(self, error: ClientError) -> bytes:
        return client_error_body(error)
