"""Cohere's embed models on Bedrock: up to 96 texts for one purpose, version 3 and later.

The purpose (``input_type``) is required. It comes from the client's ``input_type``, else from its ``task_type``, in
Google's words or in Cohere's, else it is ``search_document``: what is indexed is most of what is embedded, and the type
that questions are compared with. ``title`` and ``user`` are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.endpoints.embeddings_request import EmbeddingsRequest, Input
from extproc.errors import UnprocessableRequest, UnreadableAnswer
from extproc.translate.chat.translator import BackendError
from extproc.translate.embeddings.answer import Vector, Vectors
from extproc.translate.embeddings.invoke import counted_tokens, invoke_error, invoke_path
from extproc.translate.embeddings.translator import Asked, dimensions_of, input_of
from extproc.translate.openai_usage import UNREADABLE

MAX_TEXTS: Final = 96
"""The provider's limit for one call."""

_DEFAULT_PURPOSE: Final = "search_document"
_PURPOSES: Final = ("search_document", "search_query", "classification", "clustering")

# Texts whose similarity counts are compared with each other, so one type for all of them is what matters.
_OF_TASK: Final[Mapping[str, str]] = {
    "RETRIEVAL_DOCUMENT": "search_document",
    "RETRIEVAL_QUERY": "search_query",
    "QUESTION_ANSWERING": "search_query",
    "FACT_VERIFICATION": "search_query",
    "CODE_RETRIEVAL_QUERY": "search_query",
    "CLASSIFICATION": "classification",
    "CLUSTERING": "clustering",
    "SEMANTIC_SIMILARITY": "search_document",
} | {purpose: purpose for purpose in _PURPOSES}

_FLOATS: Final = ("float",)


class _Request(Struct, frozen=True, kw_only=True):
    texts: list[str]
    input_type: str
    truncate: str | UnsetType = UNSET
    embedding_types: tuple[str, ...] = _FLOATS
    output_dimension: int | UnsetType = UNSET


class _ByType(Struct, frozen=True):
    float: list[Raw]


class _Answer(Struct, frozen=True):
    """By type when types were asked for, else a list; both are read, whatever was asked for."""

    embeddings: list[Raw] | _ByType

    @property
    def vectors(self) -> list[Raw]:
        return self.embeddings.float if isinstance(self.embeddings, _ByType) else self.embeddings


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(_Answer)


class Cohere:
    """See ``Dialect``.

    Args:
        chooses_dimensions: whether the length of vectors is up to the client, as it is since version 4.
        cuts_at: what the provider calls the end of a text, where one that is too long is cut off.
    """

    def __init__(self, *, chooses_dimensions: bool, cuts_at: str) -> None:
        self._chooses_dimensions = chooses_dimensions
        self._cuts_at = cuts_at

    def path(self, model: str) -> str:
        return invoke_path(model)

    def ask(self, request: EmbeddingsRequest, *, model: str) -> Asked:
        if request.messages is not UNSET:
            raise UnprocessableRequest("messages are not supported by Cohere models on AWSBedrock backends; use input")
        given = input_of(request)
        if not given.items:
            raise UnprocessableRequest(
                f"input must be texts for Cohere models on AWSBedrock backends, not an {given.kind}"
            )
        if len(given.items) > MAX_TEXTS:
            raise UnprocessableRequest(
                f"input has {len(given.items)} texts; Cohere models on AWSBedrock backends take up to {MAX_TEXTS}"
            )
        asked = _Request(
            texts=given.texts,
            input_type=_purpose(request, given),
            truncate=self._truncate(request),
            output_dimension=self._dimension(request, model),
        )
        return Asked(body=_encode(asked), inputs=len(given.items))

    def answer(self, data: bytes, headers: Mapping[str, str]) -> Vectors:
        try:
            answer = _decoder.decode(data)
        except UNREADABLE as error:
            raise UnreadableAnswer(str(error)) from error
        vectors = [Vector(values=values) for values in answer.vectors]
        return Vectors(vectors=vectors, tokens=counted_tokens(headers) or 0)

    def _truncate(self, request: EmbeddingsRequest) -> str | UnsetType:
        """The provider's default is to refuse."""
        if request.auto_truncate is None:
            return UNSET
        return self._cuts_at if request.auto_truncate else "NONE"

    def _dimension(self, request: EmbeddingsRequest, model: str) -> int | UnsetType:
        dimensions = dimensions_of(request)
        if dimensions is None:
            return UNSET
        if not self._chooses_dimensions:
            raise UnprocessableRequest(f"dimensions cannot be chosen for model {model}")
        return dimensions

    def error(self, headers: Mapping[str, str], body: bytes) -> BackendError | None:
        return invoke_error(headers, body)


def _purpose(request: EmbeddingsRequest, given: Input) -> str:
    if request.input_type:
        if request.input_type not in _PURPOSES:
            raise UnprocessableRequest(f"input_type must be one of {', '.join(_PURPOSES)}, not {request.input_type}")
        return request.input_type
    tasks = {request.task_type} if request.task_type else {item.task_type or "" for item in given.items}
    purposes = {_purpose_of(task) for task in tasks}
    if len(purposes) > 1:
        raise UnprocessableRequest(
            f"input has different task types, Cohere models take one for all: {', '.join(sorted(purposes))}"
        )
    return purposes.pop()


def _purpose_of(task: str) -> str:
    if not task:
        return _DEFAULT_PURPOSE
    if (purpose := _OF_TASK.get(task)) is None:
        raise UnprocessableRequest(f"task_type {task} is not known to Cohere models")
    return purpose


COHERE_3: Final = Cohere(chooses_dimensions=False, cuts_at="END")
COHERE: Final = Cohere(chooses_dimensions=True, cuts_at="RIGHT")
