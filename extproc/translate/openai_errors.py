"""Error answers of OpenAI-like backends (contract, upstream error responses 3.18)."""

from __future__ import annotations

from collections.abc import Mapping

from extproc.endpoints.openai import error_body
from extproc.translate.base import UNTOUCHED, TranslatedResponse

# A proxy's error page can be long; its beginning says what it is.
MAX_MESSAGE_BYTES = 64 * 1024


def pass_or_wrap(status: str, headers: Mapping[str, str], body: bytes) -> TranslatedResponse:
    """A JSON error stays as it is; anything else becomes the message of an error that SDKs can read."""
    if "application/json" in headers.get("content-type", "").lower():
        return UNTOUCHED
    message = body[:MAX_MESSAGE_BYTES].decode("utf-8", "replace")
    return TranslatedResponse(
        body=error_body("OpenAIBackendError", status, message), headers=(("content-type", "application/json"),)
    )
