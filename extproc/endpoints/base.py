"""What the exchange needs to know of a client API."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Protocol

from msgspec import Struct

from extproc.errors import ClientError


class Operation(StrEnum):
    """Operations, by the value of the metric attribute ``gen_ai.operation.name`` (contract, metrics 7.2)."""

    # An enum hashes in Python; as text it does in C, to the same value.
    __hash__ = str.__hash__

    CHAT = "chat"
    COMPLETION = "completion"
    EMBEDDINGS = "embeddings"
    RESPONSES = "responses"
    RESPONSES_INPUT_TOKENS = "responses_input_tokens"
    SPEECH = "speech"
    TRANSCRIPTION = "transcription"
    TRANSLATION = "translation"
    IMAGE_GENERATION = "image_generation"
    IMAGE_EDIT = "image_edit"
    RERANK = "rerank"
    MESSAGES = "messages"
    COUNT_TOKENS = "count_tokens"
    TOKENIZE = "tokenize"


COUNTING: Final = frozenset({Operation.COUNT_TOKENS, Operation.RESPONSES_INPUT_TOKENS, Operation.TOKENIZE})
"""Operations that only count: what they count has not been spent."""


class ParsedRequest(Struct, frozen=True, kw_only=True):
    """A client's request, read once and used by every attempt.

    Attributes:
        model: the model that the client asks for; may be empty.
        stream: whether the client asks for a stream.
        body: the bytes that translation starts from.
        content_type: the request's ``content-type``, where the API reads bodies that are not JSON; else empty.
        rewritten: ``body`` differs from what the client sent, so every attempt must send it.
        include_usage: the client asked for the usage at the end of its stream.
        hide_usage: the usage report was asked for by us; the client must not see it.
    """

    model: str
    stream: bool
    body: bytes
    content_type: str = ""
    rewritten: bool = False
    include_usage: bool = False
    hide_usage: bool = False


class Endpoint(Protocol):
    @property
    def operation(self) -> Operation: ...

    def parse(self, body: bytes, *, content_type: str, metering: bool) -> ParsedRequest:
        """Read a request body.

        Args:
            body: the whole body.
            content_type: the request's ``content-type`` header, or empty.
            metering: whether the filter config has cost rules, so that usage must be known.

        Raises:
            MalformedRequest: the body is not what this API takes.
        """
        ...

    def error_body(self, error: ClientError) -> bytes:
        """The JSON body that tells a client of this API about ``error``."""
        ...
