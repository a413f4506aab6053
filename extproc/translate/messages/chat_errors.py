"""Errors of chat completions in the words of Anthropic's API, whose clients decide by the type (BR-65)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.endpoints.anthropic import error_body
from extproc.translate.anthropic import ERROR_TYPES, error_type
from extproc.translate.openai_errors import MAX_MESSAGE_BYTES
from extproc.translate.via_chat.answers import ErrorObject

_CLIENT_ERRORS: Final = range(400, 500)

# Names that OpenAI and servers like it give errors in streams, where there is no status.
_NAMES: Final[Mapping[str, str]] = {
    **{name: name for name in ERROR_TYPES.values()},
    "BadRequestError": "invalid_request_error",
    "NotFoundError": "not_found_error",
    "insufficient_quota": "rate_limit_error",
    "rate_limit_exceeded": "rate_limit_error",
    "requests": "rate_limit_error",
    "tokens": "rate_limit_error",
    "model_not_found": "not_found_error",
    "invalid_api_key": "authentication_error",
    "engine_overloaded": "overloaded_error",
    "server_overloaded": "overloaded_error",
}

# How OpenAI and servers like it say that a prompt does not fit. Coding agents shorten their conversation when they
# read Anthropic's words for it, and give up on any others.
_TOO_LONG: Final = "prompt is too long"
_TOO_LONG_CODE: Final = "context_length_exceeded"
_TOO_LONG_TEXT: Final = "maximum context length"


def status_type(status: str) -> str:
    """The type of an error answer; one that blames the client without a type of its own is an invalid request."""
    name = error_type(status)
    client_error = status.isascii() and status.isdigit() and int(status) in _CLIENT_ERRORS
    return "invalid_request_error" if name == "api_error" and client_error else name


def object_type(error: ErrorObject) -> str:
    """The type of an error without a status: by a code that is one, else by name; ``api_error`` for unknown ones."""
    if len(error.code) == len("400") and error.code.isascii() and error.code.isdigit():
        return status_type(error.code)
    return _NAMES.get(error.code) or _NAMES.get(error.type, "api_error")


def errored(name: str, error: ErrorObject) -> bytes:
    """The error as JSON, an answer's body or an event's data.

    Args:
        name: its type in Anthropic's API.
        error: what the backend says.
    """
    message = error.message[:MAX_MESSAGE_BYTES].strip() or "the backend did not say why"
    too_long = error.code == _TOO_LONG_CODE or _TOO_LONG_TEXT in message
    if too_long and name == "invalid_request_error" and _TOO_LONG not in message.lower():
        message = f"{_TOO_LONG}: {message}"
    return error_body(name, message)
