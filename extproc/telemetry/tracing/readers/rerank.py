"""Reads reranked documents (contract, rerank 14)."""

from __future__ import annotations

from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from extproc.telemetry.tracing.readers.lenient import (
    JSONObject,
    Members,
    as_integer,
    as_number,
    as_object,
    as_text,
    decoded,
    elements_of,
    members_of,
    objects_of,
    spelled,
    value_of,
)
from extproc.telemetry.tracing.readers.requests import APIReader
from extproc.telemetry.tracing.views import AnswerView, RequestView

_CONTENT: Final = frozenset({"query", "documents"})


def _understand(view: RequestView, members: Members) -> RequestView:
    query, documents = members.get("query"), members.get("documents")
    return replace(
        view,
        query="" if query is None else _text(query),
        # A single one may stand alone.
        documents=tuple(_text(each) for each in elements_of(documents)) or _alone(documents),
        top_n=as_integer(value_of(members.get("top_n"))),
    )


def _text(given: Raw) -> str:
    """A text, alone or in an object; anything else as JSON, so that documents keep their places."""
    value = value_of(given)
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return as_text(as_object(value).get("text")) or spelled(given)


def _alone(documents: Raw | None) -> tuple[str, ...]:
    return (_text(documents),) if documents is not None and isinstance(value_of(documents), str | dict) else ()


def _read(document: bytes) -> AnswerView:
    members = members_of(document)
    scores = (_score(each) for each in objects_of(members.get("results")))
    return AnswerView(
        text=decoded(document),
        id=as_text(value_of(members.get("id"))),
        model=as_text(value_of(members.get("model"))),
        scores=tuple(score for score in scores if score is not None),
    )


def _score(result: JSONObject) -> float | None:
    """Under the name of Cohere's API, or that of other servers."""
    return as_number(result.get("relevance_score", result.get("score")))


RERANK: Final = APIReader(content=_CONTENT, understand=_understand, read=_read)
