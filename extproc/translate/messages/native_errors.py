"""Error answers of the places that serve the Messages API, for a client of that API (contract, messages 5.2 and 6.4).

An error in the API's own shape stays as it is. Clouds and proxies have shapes of their own, and these become the API's,
whatever their content type says: clients decide by the type whether they wait, retry or give up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.translate.anthropic import error_type, read_messages_error
from extproc.translate.aws import FALLBACK_TYPE, messages_error_body, read_aws_error
from extproc.translate.base import UNTOUCHED, TranslatedResponse
from extproc.translate.gcp import read_google_error

_JSON: Final = (("content-type", "application/json"),)

# The API's own documentation gives every status of a client's mistake that it does not list the type of 400. These
# two are the backend's: a model that took too long, and one that failed (Bedrock).
_NOT_THE_CLIENTS: Final = {"408": "timeout_error", "424": "api_error"}

# Where providers put the id of a request, by which they find it again.
_REQUEST_IDS: Final = ("request-id", "x-amzn-requestid")


def answer_error_type(status: str) -> str:
    """The type of an error that came with this HTTP status and does not name one of the API's."""
    name = _NOT_THE_CLIENTS.get(status) or error_type(status)
    if name == "api_error" and status.startswith("4") and status not in _NOT_THE_CLIENTS:
        return "invalid_request_error"
    return name


def messages_error(status: str, headers: Mapping[str, str], body: bytes) -> TranslatedResponse:
    """What becomes of an error answer."""
    if _is_native(body):
        if "json" in headers.get("content-type", "").lower():
            return UNTOUCHED
        return TranslatedResponse(body=body, headers=_JSON)
    request_id = next((headers[name] for name in _REQUEST_IDS if headers.get(name)), "")
    told = messages_error_body(answer_error_type(status), _message(status, headers, body), request_id)
    return TranslatedResponse(body=told, headers=_JSON)


def _is_native(body: bytes) -> bool:
    """Whether SDKs can read it: an object whose ``error`` has a type."""
    error = read_messages_error(body)
    return error is not None and bool(error.type) and body.lstrip()[:1] == b"{"


def _message(status: str, headers: Mapping[str, str], body: bytes) -> str:
    """What an error says: the words of Google or of Amazon, else the body as it stands."""
    google = read_google_error(body)
    if google is not None and google.message:
        return google.message
    error = read_aws_error(status, headers, body)
    if error.message.strip():
        return error.message
    named = "" if error.type == FALLBACK_TYPE else f": {error.type}"
    return f"the backend answered with status {status}{named}"
