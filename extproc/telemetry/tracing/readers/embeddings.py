"""Reads embeddings (contract, embeddings 10)."""

from __future__ import annotations

import binascii
import math
import sys
from array import array
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from extproc.telemetry.tracing.readers.chat import chat_messages
from extproc.telemetry.tracing.readers.lenient import (
    Members,
    as_text,
    as_texts,
    decoded,
    elements_of,
    members_of,
    read,
    value_of,
)
from extproc.telemetry.tracing.readers.parts import joined_texts
from extproc.telemetry.tracing.readers.requests import APIReader
from extproc.telemetry.tracing.views import AnswerView, RequestView

_CONTENT: Final = frozenset({"input", "messages"})

Vector = tuple[float, ...]


def _understand(view: RequestView, members: Members) -> RequestView:
    return replace(
        view,
        texts=tuple(_texts(value_of(members.get("input")))),
        messages=chat_messages(members.get("messages")),
    )


def _texts(given: object) -> Iterator[str]:
    """A text, an item with one or several of them, or an array of both; token ids are none."""
    match given:
        case str():
            yield given
        case {"content": str() | list() as content}:
            yield from as_texts(content) or (joined_texts(content),)
        case list():
            for each in given:
                if isinstance(each, str | dict):
                    yield from _texts(each)


class _Embedding(Struct, frozen=True):
    embedding: Raw
    index: object = None


_EMBEDDING: Final = msgspec.json.Decoder(_Embedding)
_FLOATS: Final = msgspec.json.Decoder(tuple[float, ...])
_TEXT: Final = msgspec.json.Decoder(str)


def _read(document: bytes) -> AnswerView:
    members = members_of(document)
    found = [each for element in elements_of(members.get("data")) if (each := read(_EMBEDDING, element))]
    return AnswerView(
        text=decoded(document),
        id=as_text(value_of(members.get("id"))),
        model=as_text(value_of(members.get("model"))),
        vectors=tuple(_vector(each.embedding) for each in sorted(found, key=_place)),
    )


def _place(embedding: _Embedding) -> float:
    """Which input it is of; one that does not say so stays behind the others."""
    return embedding.index if type(embedding.index) is int else math.inf


def _vector(spelled: Raw) -> Vector:
    """Numbers, or 32-bit floats in base64, the lowest byte first; an empty one where it cannot be read."""
    if bytes(memoryview(spelled)[:1]) == b'"':
        return _from_base64(read(_TEXT, spelled) or "")
    return read(_FLOATS, spelled) or ()


def _from_base64(text: str) -> Vector:
    floats = array("f")
    try:
        floats.frombytes(binascii.a2b_base64(text))
    except ValueError:
        return ()
    if sys.byteorder == "big":
        floats.byteswap()
    return tuple(floats)


EMBEDDINGS: Final = APIReader(content=_CONTENT, understand=_understand, read=_read)
