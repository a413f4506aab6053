"""Requests that are forms: which fields the processor reads, and how it says what is wrong with them.

Contract, transcriptions 13.1. All other fields are between the client and the backend.
"""

from __future__ import annotations

import math
import re

from extproc.endpoints.base import ParsedRequest
from extproc.endpoints.openai import check_model
from extproc.errors import MalformedRequest
from extproc.formats import multipart
from extproc.formats.multipart import Form, MultipartError, Part

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MAX_QUOTED = 64


def read_form(body: bytes, content_type: str) -> Form:
    """Read a form.

    Raises:
        MalformedRequest: it is broken, or ambiguous.
    """
    try:
        return multipart.read(body, multipart.boundary_of(content_type))
    except MultipartError as error:
        raise MalformedRequest(f"failed to parse multipart form data: {error}") from error


def form_request(form: Form, content_type: str, *, may_stream: bool) -> ParsedRequest:
    """The request that a form is. Of a repeated field the last one counts, as backends see it.

    Raises:
        MalformedRequest: the model is missing or cannot stand in a header, or a field cannot be read.
    """
    model = _last_text(form, "model")
    if model is None:
        raise missing("model")
    stream = may_stream and (_last_text(form, "stream") or "").lower() == "true"
    return ParsedRequest(model=check_model(model), stream=stream, body=form.body, content_type=content_type)


def audio_request(body: bytes, content_type: str, *, path: str, may_stream: bool) -> ParsedRequest:
    """A transcription or translation of a file.

    Raises:
        MalformedRequest: it is no form, the model or the file is missing, or the temperature is no number.
    """
    if not multipart.is_form(content_type):
        raise MalformedRequest(f"expected multipart/form-data content type for {path}")
    form = read_form(body, content_type)
    for part in form.named("temperature"):
        _check_number(_text(form, part))
    request = form_request(form, content_type, may_stream=may_stream)
    if not form.named("file"):
        raise missing("file")
    return request


def missing(field: str) -> MalformedRequest:
    return MalformedRequest(f"missing required field '{field}'")


def _last_text(form: Form, name: str) -> str | None:
    texts = [_text(form, part) for part in form.named(name)]
    return texts[-1] if texts else None


def _text(form: Form, part: Part) -> str:
    try:
        return form.text(part)
    except MultipartError as error:
        raise MalformedRequest(f"failed to read {part.name} field: {error}") from error


def _check_number(value: str) -> None:
    if not (_NUMBER.fullmatch(value) and math.isfinite(float(value))):
        raise MalformedRequest(f'invalid temperature value "{value[:_MAX_QUOTED]}": it is not a number')
