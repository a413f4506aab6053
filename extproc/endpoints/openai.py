"""Pieces that the endpoints of the OpenAI API share: error shape, stream options, decoding."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

import msgspec

from extproc.endpoints.base import ParsedRequest
from extproc.errors import ClientError, MalformedRequest
from extproc.formats import jsonedit
from extproc.headertext import has_control_character

_INCLUDE_USAGE = jsonedit.parse_path("stream_options.include_usage")

T = TypeVar("T")

MAX_MODEL_LENGTH = 2048
"""The name travels in a header, and Envoy bounds those; the longest real ones, ARNs, stay below this."""


class _Error(msgspec.Struct, frozen=True):
    type: str
    code: str
    message: str | msgspec.UnsetType


class _ErrorBody(msgspec.Struct, frozen=True):
    type: str
    error: _Error


_encode = msgspec.json.Encoder().encode


def error_body(reason: str, status: int | str, message: str) -> bytes:
    """An error of the OpenAI API as the gateway writes it: members in this order, ``code`` as text (3.13).

    An empty message is left out (3.18).
    """
    return _encode(_ErrorBody("error", _Error(reason, str(status), message or msgspec.UNSET)))


def client_error_body(error: ClientError) -> bytes:
    return error_body(error.reason, error.status, str(error))


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class ModelRequest(msgspec.Struct, frozen=True):
    """The members that every JSON request of the OpenAI API shares as far as the processor reads them."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None


def decode(body: bytes, decoder: msgspec.json.Decoder[T], *, path: str, content_type: str) -> T:
    """Decode a JSON request body.

    Raises:
        MalformedRequest: it is not JSON, or a member that must be read has another type.
    """
    if content_type.lower().startswith("multipart/form-data"):
        raise MalformedRequest("multipart body not supported for this endpoint")
    try:
        return decoder.decode(body)
    # A body nested deeper than the interpreter's stack is the client's fault as well.
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise MalformedRequest(f"failed to parse JSON for {path}: {error}") from error


# Models are few; what a client makes up is forgotten again.
@lru_cache(maxsize=1024)
def check_model(model: str | None) -> str:
    """The model's name, fit to stand in a header.

    Raises:
        MalformedRequest: it holds a control character, which no header can carry, or is longer than any name.
    """
    if model is None:
        return ""
    if has_control_character(model):
        raise MalformedRequest("model holds a control character")
    if len(model) > MAX_MODEL_LENGTH:
        raise MalformedRequest(f"model is longer than {MAX_MODEL_LENGTH} characters")
    return model


def streaming_request(request: ModelRequest, body: bytes, *, metering: bool) -> ParsedRequest:
    """A request that may stream; where costs depend on it, the backend is made to report usage (3.9.2).

    Streams of this API carry usage only on request. A client that did not ask for it gets its stream without the
    report, hence ``hide_usage``.
    """
    model = check_model(request.model)
    stream = request.stream is True
    options = request.stream_options
    asked = options is not None and options.include_usage is True
    if not (stream and metering) or asked:
        return ParsedRequest(model=model, stream=stream, body=body, include_usage=asked)
    try:
        forced = jsonedit.set_value(body, _INCLUDE_USAGE, b"true", every=True)
    except jsonedit.JSONEditError as error:
        raise MalformedRequest("failed to set stream_options.include_usage") from error
    return ParsedRequest(model=model, stream=True, body=forced, rewritten=True, hide_usage=True)
