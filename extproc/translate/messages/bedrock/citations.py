"""Where the model has found what it says: the service's citations as those of the messages API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from extproc.formats.jsonvalue import JSONObject
from extproc.translate.chat.bedrock.answer import member, text_of
from extproc.usage import as_count

_Location = dict[str, object]


def citation(found: object) -> JSONObject | None:
    """One citation, whole or of a stream's delta; ``None`` for a place that the client's API has no word for."""
    location = member(found, "location")
    if not isinstance(location, dict):
        return None
    for kind, convert in _LOCATIONS.items():
        if isinstance(place := location.get(kind), dict):
            return {"cited_text": _cited_text(found), **convert(place, found)}
    return None


def _cited_text(found: object) -> str:
    pieces = member(found, "sourceContent")
    return "".join(text_of(member(each, "text")) for each in pieces) if isinstance(pieces, list) else ""


def _in_document(kind: str, unit: str) -> Callable[[_Location, object], JSONObject]:
    start, end = f"start_{unit}", f"end_{unit}"

    def convert(place: _Location, found: object) -> JSONObject:
        return {
            "type": kind,
            "document_index": _count(place, "documentIndex"),
            "document_title": text_of(member(found, "title")) or None,
            start: _count(place, "start"),
            end: _count(place, "end"),
        }

    return convert


def _in_search_result(place: _Location, found: object) -> JSONObject:
    return {
        "type": "search_result_location",
        "search_result_index": _count(place, "searchResultIndex"),
        "source": text_of(member(found, "source")),
        "title": text_of(member(found, "title")) or None,
        "start_block_index": _count(place, "start"),
        "end_block_index": _count(place, "end"),
    }


def _count(place: _Location, name: str) -> int:
    return as_count(place.get(name)) or 0


_LOCATIONS: Final[Mapping[str, Callable[[_Location, object], JSONObject]]] = {
    "documentChar": _in_document("char_location", "char_index"),
    "documentPage": _in_document("page_location", "page_number"),
    "documentChunk": _in_document("content_block_location", "block_index"),
    "searchResultLocation": _in_search_result,
}
