"""Pieces that the endpoints of Anthropic's API share: error shape, and what is read of a request."""

from __future__ import annotations

import msgspec

from extproc.endpoints.openai import check_model, decode
from extproc.errors import ClientError, MalformedRequest
from extproc.translate.anthropic import error_type

_CLIENT_ERRORS = range(400, 500)


class _Error(msgspec.Struct, frozen=True):
    type: str
    message: str


class _ErrorBody(msgspec.Struct, frozen=True):
    type: str
    error: _Error


_encode = msgspec.json.Encoder().encode


def error_body(name: str, message: str) -> bytes:
    """An error of Anthropic's API; ``name`` is its type, as SDKs know it."""
    return _encode(_ErrorBody("error", _Error(name, message)))


def client_error_body(error: ClientError) -> bytes:
    """An error of ours; what the API has no type for is an invalid request, unless the fault is not the client's."""
    name = error_type(str(error.status))
    if name == "api_error" and error.status in _CLIENT_ERRORS:
        name = "invalid_request_error"
    return error_body(name, str(error))


class MissingModel(MalformedRequest):
    """A request of this API names its model; the text is the one that clients know (contract, parsing 2.2)."""

    def __init__(self) -> None:
        ClientError.__init__(self, "invalid request body: model field is required")


class _NamedModel(msgspec.Struct, frozen=True):
    model: str | None = None


class ModelRequest(_NamedModel, frozen=True):
    """The members that are read of every request: a backend of the same API may know others, and other types."""

    stream: bool | None = None


_decoder = msgspec.json.Decoder(ModelRequest)
_model_decoder = msgspec.json.Decoder(_NamedModel)


def read_request(body: bytes, *, path: str, content_type: str) -> tuple[str, bool]:
    """The model that is asked for, and whether the answer is to be streamed.

    Raises:
        MalformedRequest: it is not JSON, a member that must be read has another type, or there is no model.
    """
    request = decode(body, _decoder, path=path, content_type=content_type)
    return _named(request), request.stream is True


def read_model(body: bytes, *, path: str, content_type: str) -> str:
    """The model that a request is about whose answer is never streamed.

    Raises:
        MalformedRequest: as for ``read_request``.
    """
    return _named(decode(body, _model_decoder, path=path, content_type=content_type))


def _named(request: _NamedModel) -> str:
    model = check_model(request.model)
    if not model:
        raise MissingModel
    return model
