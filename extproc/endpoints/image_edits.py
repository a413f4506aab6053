"""``POST /v1/images/edits``: a form with the images, or JSON that refers to them."""

from __future__ import annotations

from extproc.endpoints.base import Operation, ParsedRequest
from extproc.endpoints.images import image_request
from extproc.endpoints.multipart_request import form_request, read_form
from extproc.endpoints.openai import client_error_body
from extproc.errors import ClientError
from extproc.formats import multipart

PATH = "/v1/images/edits"


class ImageEdits:
    operation = Operation.IMAGE_EDIT

    def parse(self, body: bytes, *, content_type: str, metering: bool) -> ParsedRequest:  # noqa: ARG002 - reported unasked
        if multipart.is_form(content_type):
            return form_request(read_form(body, content_type), content_type, may_stream=True)
        return image_request(body, path=PATH, content_type=content_type)

    def error_body(self, error: ClientError) -> bytes:
        return client_error_body(error)
