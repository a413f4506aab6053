"""The life of one attempt to have tokens counted by a backend of another API.

What differs between backends is a counter: how it is asked, how it answers. A provider tells how many tokens there
are, but neither which ones nor how many would fit, so an answer has a count and nothing else (contract, 15.2). A count
is no usage: no model has run, so nothing is reported that costs could be made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from extproc.endpoints.base import ParsedRequest
from extproc.endpoints.chat_request import ChatRequest
from extproc.endpoints.tokenize_request import decode_tokenize_request
from extproc.errors import UnprocessableRequest, UnreadableAnswer
from extproc.translate.base import Headers, TranslatedRequest, TranslatedResponse, media_type
from extproc.translate.chat.support import SupportTable, refuse_unsupported
from extproc.translate.chat.translator import JSON, BackendError
from extproc.translate.openai_errors import bounded_error
from extproc.usage import as_count


class Counter(Protocol):
    """How one backend schema counts the tokens of a chat. An instance serves one attempt.

    Attributes:
        support: what becomes of the chat's members; the same as in a chat completion.
        count_member: the member of the answer that has the count.
    """

    @property
    def support(self) -> SupportTable: ...

    @property
    def count_member(self) -> str: ...

    def model_name(self, model: str) -> str:
        """What the backend calls a model that clients, or the filter config, call ``model``."""
        ...

    def path(self, model: str) -> str:
        """The ``:path``; relative, where the credentials know what comes before it (contract, chat 1.6)."""
        ...

    def request_headers(self) -> Headers:
        """Headers to set on the request beside path and credentials."""
        ...

    def body(self, chat: ChatRequest, *, model: str) -> bytes:
        """The request's body.

        Raises:
            UnprocessableRequest: the chat holds what this API cannot express, or nothing; the text names the member.
        """
        ...

    def error(self, status: str, headers: Mapping[str, str], body: bytes) -> BackendError:
        """Read an error answer. Anything can be read: what is not of this API is a message as it stands."""
        ...


class _Answer(msgspec.Struct, frozen=True):
    """The client's answer; the length that a model can take is not known, and its tokens are not told."""

    count: int
    max_model_len: int = 0
    tokens: None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class CountingTranslator:
    """One attempt at a count in another API."""

    rewrites_stream = True
    rebuilds_body = True

    def __init__(self, counter: Counter, *, model_override: str) -> None:
        self._counter = counter
        self._model_override = model_override
        self._model = ""
        self._held: list[bytes] = []

    def request(self, request: ParsedRequest, *, query: str, force: bool) -> TranslatedRequest:  # noqa: ARG002
        """The client's query belongs to its own API, so it stays here."""
        tokenize, counter = decode_tokenize_request(request.body), self._counter
        # An answer without what it asks for would not be the answer to it.
        if tokenize.return_token_strs:
            raise UnprocessableRequest(f"return_token_strs is not supported by {counter.support.backend} backends")
        chat = tokenize.as_chat()
        refuse_unsupported(chat, counter.support)
        self._model = counter.model_name(self._model_override or request.model)
        return TranslatedRequest(
            path=counter.path(self._model),
            headers=tuple(counter.request_headers()),
            body=counter.body(chat, model=self._model),
        )

    def response_headers(self, headers: Mapping[str, str]) -> Headers:
        is_json = media_type(headers) == JSON
        return [] if is_json else [("content-type", JSON)]

    def response_body(self, piece: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        self._held.append(piece)
        if not end_of_stream:
            return TranslatedResponse(body=b"", model=self._model)
        count = _read_count(b"".join(self._held), self._counter.count_member)
        self._held.clear()
        return TranslatedResponse(body=_encode(_Answer(count)), model=self._model, complete=True)

    def response_error(self, status: str, headers: Mapping[str, str], body: bytes) -> TranslatedResponse:
        error = self._counter.error(status, headers, body)
        return TranslatedResponse(
            body=bounded_error(error.type, status, error.message), headers=(("content-type", JSON),)
        )


def _read_count(data: bytes, member: str) -> int:
    try:
        value = _decode(data).get(member)
        count = None if value is None else as_count(msgspec.json.decode(value))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UnreadableAnswer(str(error)) from error
    if count is None:
        raise UnreadableAnswer(f"it has no count in {member}")
    return count
