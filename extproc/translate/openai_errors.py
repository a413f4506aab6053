"""Error answers of OpenAI-like backends (contract, upstream error responses 3.18)."""

from __future__ import annotations

from collections.abc import Mapping

from extproc.endpoints.openai import error_body
from extproc.translate.base import UNTOUCHED, TranslatedResponse

# A proxy's error page can be long; its beginning says what it is.
MAX_MESSAGE_BYTES = 64 * 1024
MAX_TYPE_LENGTH = 256
"""Names of errors are words, and go into metadata."""


def bounded_error(error_type: str, code: str, message: str) -> bytes:
    """An error of a backend in the client's shape (``error_body``), however much the backend says."""
    return error_body(error_type[:MAX_TYPE_LENGTH], code, message[:MAX_MESSAGE_BYTES])


def pass_or_wrap(status: str, headers: Mapping[str, str], body: bytes) -> TranslatedResponse:
    """A JSON error stays as it is; anything else becomes the message of an error that SDKs can read."""
    if "application/json" in headers.get("content-type", "").lower():
        return UNTOUCHED
    message = body[:MAX_MESSAGE_BYTES].decode("utf-8", "replace")
    return TranslatedResponse(
        body=error_body("OpenAIBackendError", status, message), headers=(("content-type", "application/json"),)
    )
