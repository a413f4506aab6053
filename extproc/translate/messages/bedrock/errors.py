"""Errors of Amazon's services for a client of the messages API (contract, messages 5.5 and count_tokens 6.4).

The service has an error shape of its own; one in the client's, or in OpenAI's, was written by a gateway on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec
from msgspec import Struct

from extproc.translate.anthropic import read_messages_error
from extproc.translate.base import TranslatedResponse
from extproc.translate.messages.native_errors import messages_error


class _Error(Struct, frozen=True):
    type: str
    message: str


class _Envelope(Struct, frozen=True):
    type: Literal["error"]
    error: _Error


class _Told(Struct, frozen=True):
    message: str


_decode: Final = msgspec.json.Decoder(_Envelope).decode
_encode: Final = msgspec.json.Encoder().encode


def service_error(status: str, headers: Mapping[str, str], body: bytes) -> TranslatedResponse:
    """What becomes of an error answer; its body is always given, as pieces of it have been held back.

    What passes must be the client's API to the letter: its SDKs decide by ``error.type``, and other APIs have other
    words there.
    """
    told = messages_error(status, headers, body)
    if told.body is not None and told.body is not body:
        return told
    if _is_of_the_api(body):
        return msgspec.structs.replace(told, body=body)
    error = read_messages_error(body)
    words = (error.message if error else "") or body.decode(errors="replace")
    return messages_error(status, headers, _encode(_Told(words)))


def _is_of_the_api(body: bytes) -> bool:
    try:
        body.decode()
        _decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True
