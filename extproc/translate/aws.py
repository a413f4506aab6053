"""What the APIs of Amazon Bedrock have in common: paths of models, and errors, in answers and in streams.

Also what clients of Anthropic's API get to see of it, and which of their beta flags it takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import UNSET, UnsetType

from extproc.formats import jsonedit
from extproc.formats.eventstream import EventMessage
from extproc.translate.base import Target
from extproc.translate.chat.translator import BackendError
from extproc.translate.openai_errors import MAX_MESSAGE_BYTES

FALLBACK_TYPE: Final = "AWSBedrockBackendError"
"""The type of an error that the provider has not named."""

# What stays as it is in a segment of a path, beside letters, digits and ``-_.~`` (contract, chat 8.1).
_SEGMENT_SAFE: Final = "$&+:=@"

# The status that each exception of a stream has when it comes instead of one (service model, ConverseStream).
_STREAM_STATUS: Final[Mapping[str, str]] = {
    "internalServerException": "500",
    "modelStreamErrorException": "424",
    "modelTimeoutException": "408",
    "serviceUnavailableException": "503",
    "throttlingException": "429",
    "validationException": "400",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamError:
    """An error in a stream that began with 200.

    Attributes:
        code: the HTTP status that the provider gives this error outside of streams.
    """

    type: str
    message: str
    code: str


def model_path(model: str, action: str) -> str:
    """The ``:path`` for an action on a model, whose id may be an ARN with slashes.

    A dot segment is escaped as well, so that a model's name never reaches another resource.
    """
    segment = quote(model, safe=_SEGMENT_SAFE, errors="replace")
    if segment in {".", ".."}:
        segment = segment.replace(".", "%2E")
    return f"/model/{segment}/{action}"


class _ErrorBody(msgspec.Struct, frozen=True):
    """AWS services disagree about the names; a member of another type is as good as none."""

    message: object = None
    message_capital: object = msgspec.field(default=None, name="Message")
    error_type: object = msgspec.field(default=None, name="__type")
    code: object = None

    @property
    def text(self) -> str:
        return next((each for each in (self.message, self.message_capital) if isinstance(each, str)), "")

    @property
    def name(self) -> str:
        return next((each for each in (self.error_type, self.code) if isinstance(each, str)), "")


_decode_error = msgspec.json.Decoder(_ErrorBody).decode


def read_aws_error(status: str, headers: Mapping[str, str], body: bytes) -> BackendError:  # noqa: ARG001
    """Read an error answer (contract, chat 8.7). Any bytes can be read, whatever the content type says.

    The header names the error, else the body does; an object without a message is shown as it stands.
    """
    named = _short_name(headers.get("x-amzn-errortype", ""))
    raw = body.decode(errors="replace")
    if not raw.strip():
        return BackendError(type=named or FALLBACK_TYPE, message="")
    try:
        error = _decode_error(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return BackendError(type=FALLBACK_TYPE, message=raw)
    return BackendError(type=named or _short_name(error.name) or FALLBACK_TYPE, message=error.text or raw)


def stream_error(message: EventMessage) -> StreamError | None:
    """The error that a message of an event stream reports; ``None`` for an event.

    An exception is modelled by the service and has a payload; an error is one of the framing and has only headers.
    """
    if message.message_type == "event":
        return None
    headers = message.headers
    name = message.exception_type or headers.get(":error-code") or FALLBACK_TYPE
    text = headers.get(":error-message") or read_aws_error("200", {}, message.payload).message
    return StreamError(type=name, message=text, code=_STREAM_STATUS.get(name, "500"))


def _short_name(name: str) -> str:
    """Without the namespace before ``#`` and the address after ``:`` (contract, chat 8.7, quirk)."""
    return name.partition(":")[0].rpartition("#")[2].strip()


# --- clients of Anthropic's API ---


class _MessagesErrorObject(msgspec.Struct, frozen=True):
    message: str
    type: str


class _MessagesErrorBody(msgspec.Struct, frozen=True):
    """Members stand in the contract's order (contract, messages 3.3)."""

    error: _MessagesErrorObject
    request_id: str | UnsetType = UNSET
    type: str = "error"


_encode = msgspec.json.Encoder().encode


def messages_error_body(kind: str, message: str, request_id: str = "") -> bytes:
    """An error of Anthropic's API, as the body of an answer or the data of an event; ``kind`` is its type."""
    error = _MessagesErrorObject(message[:MAX_MESSAGE_BYTES], kind)
    return _encode(_MessagesErrorBody(error, request_id or UNSET))


_BETA_ALIASES: Final[Mapping[str, str]] = {"advanced-tool-use-2025-11-20": "tool-search-tool-2025-10-19"}


def anthropic_betas(target: Target, body: bytes) -> list[str]:
    """The beta flags that Claude on Bedrock is to have, in order and each once (contract, messages 5.4).

    The service refuses a whole request for a flag that it does not know, so only known ones go on. They come from the
    header ``anthropic-beta``, and after it from the body's own ``anthropic_beta``.
    """
    flags = [flag.strip() for flag in target.headers.get("anthropic-beta", "").split(",")]
    listed = jsonedit.find(body, "anthropic_beta")
    if listed is not None:
        flags += _listed(listed)
    named = (_BETA_ALIASES.get(flag, flag) for flag in flags)
    return list(dict.fromkeys(flag for flag in named if flag in target.bedrock_betas))


def _listed(value: bytes) -> list[str]:
    try:
        flags = msgspec.json.decode(value)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return []
    return [flag for flag in flags if isinstance(flag, str)] if isinstance(flags, list) else []
