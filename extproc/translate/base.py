"""The seam between an attempt and a pair of APIs.

One translator serves one attempt: it keeps what it needs between the pieces of one answer, and a retry gets a fresh
one, so nothing of a failed attempt shows in the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from extproc.endpoints.base import ParsedRequest
from extproc.translate.anthropic import BEDROCK_BETAS
from extproc.usage import NO_USAGE, TokenUsage
from filter_config.model import VersionedAPISchema

Headers = list[tuple[str, str]]


DEFAULT_MAX_TOKENS = 4096


class Target(Struct, frozen=True, kw_only=True):
    """The backend of an attempt, as far as translation depends on it.

    Attributes:
        model_override: the backend's name for the model, or empty.
        headers: the client's headers, as they are at this attempt.
        now: the time, in seconds since 1970.
        new_id: a fresh UUID, for what a client's API gives an id and the backend's does not.
        default_max_tokens: limit of output tokens for a request without one, where the backend's API demands it.
        bedrock_betas: flags of ``anthropic-beta`` that Amazon Bedrock knows.
    """

    schema: VersionedAPISchema
    model_override: str
    now: Callable[[], float]
    new_id: Callable[[], str]
    default_max_tokens: int = DEFAULT_MAX_TOKENS
    headers: Mapping[str, str] = {}
    bedrock_betas: frozenset[str] = BEDROCK_BETAS


class TranslatedRequest(Struct, frozen=True, kw_only=True):
    """What an attempt sends.

    Attributes:
        path: the ``:path`` at the backend.
        headers: to set beside the path, in order.
        removes: names of the client's headers that mean nothing to the backend, or something else.
        body: ``None`` leaves the body as the client sent it.
    """

    path: str
    headers: tuple[tuple[str, str], ...] = ()
    removes: tuple[str, ...] = ()
    body: bytes | None = None


class TranslatedResponse(Struct, frozen=True, kw_only=True):
    """What one piece of an answer becomes.

    Attributes:
        body: ``None`` leaves the piece as it came; empty bytes take it out.
        headers: to set on the response; they count only while its headers are still here.
        usage: counts that this piece reports; absent counts keep their former value.
        model: the model that the backend says it used; while it says nothing, the one it was asked for.
        complete: the answer is at its end: nothing that matters can follow.
        failure: the name of the error that it ended with, of which the client has been told; empty without one.
        recovered: an error of the backend has become an answer that the client can use.
        unknown_stop: why the model has stopped, in the backend's word, where no table has it; else empty.
    """

    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    usage: TokenUsage = NO_USAGE
    model: str = ""
    complete: bool = False
    failure: str = ""
    recovered: bool = False
    unknown_stop: str = ""


UNTOUCHED = TranslatedResponse()


class Translator(Protocol):
    def request(self, request: ParsedRequest, *, query: str, force: bool) -> TranslatedRequest:
        """Translate the request.

        Args:
            request: the client's request.
            query: the query of the client's path, without its question mark.
            force: give a body in any case (a retry, or a request that was rewritten before).

        Raises:
            UnprocessableRequest: the backend's API cannot express it.
        """
        ...

    @property
    def rewrites_stream(self) -> bool:
        """Whether the pieces of a streamed answer are replaced, so that its encoding cannot be kept."""
        ...

    @property
    def rebuilds_body(self) -> bool:
        """Whether answers are built anew, so that the backend's own bytes must never reach the client."""
        ...

    def response_headers(self, headers: Mapping[str, str]) -> Headers:
        """Headers to set on a successful response. Called once, before any piece of the body."""
        ...

    def response_body(self, piece: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        """Translate one piece of a successful response, decoded.

        Raises:
            UnreadableAnswer: a whole document is not an answer of the backend's API. Never raised for a stream.
        """
        ...

    def response_error(self, status: str, headers: Mapping[str, str], body: bytes) -> TranslatedResponse:
        """Translate the body of an error response into the client's error shape."""
        ...


Factory = Callable[[Target], Translator]
"""Makes the translator of one attempt."""


def media_type(headers: Mapping[str, str]) -> str:
    """The media type of a body, in lower case and without parameters; empty when it is not told."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()
