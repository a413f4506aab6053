"""``POST /v1/images/generations`` (contract, images 11)."""

from __future__ import annotations

import msgspec

from extproc.endpoints.base import Operation, ParsedRequest
from extproc.endpoints.openai import check_model, client_error_body, decode
from extproc.errors import ClientError

PATH = "/v1/images/generations"


class ImageRequest(msgspec.Struct, frozen=True):
    """What the processor reads of a request for images.

    Its streams report their usage unasked.
    """

    model: str | None = None
    stream: bool | None = None


_decoder = msgspec.json.Decoder(ImageRequest)


def image_request(body: bytes, *, path: str, content_type: str) -> ParsedRequest:
    """Read a JSON request for images.

    Raises:
        MalformedRequest: it cannot be read.
    """
    request = decode(body, _decoder, path=path, content_type=content_type)
    return ParsedRequest(model=check_model(request.model), stream=request.stream is True, body=body)


class ImageGenerations:
    operation = Operation.IMAGE_GENERATION

    def parse(self, body: bytes, *, content_type: str, metering: bool) -> ParsedRequest:  # noqa: ARG002 - reported unasked
        return image_request(body, path=PATH, content_type=content_type)

    def error_body(self, error: ClientError) -> bytes:
        return client_error_body(error)
