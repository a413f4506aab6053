"""The document that clients of ``/v1/embeddings`` read, members in the contract's order (contract, embeddings 3.3).

Numbers stay as the provider wrote them: an array is checked, freed of white space, and copied. Only for a client that
asks for ``base64`` are they read, as OpenAI encodes them: little-endian floats of 32 bits.
"""

from __future__ import annotations

import sys
from array import array
from base64 import b64encode
from typing import Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.errors import UnreadableAnswer
from extproc.translate.openai_usage import UNREADABLE

_numbers = msgspec.json.Decoder(list[float])
_encode = msgspec.json.Encoder().encode


class Vector(Struct, frozen=True, kw_only=True):
    """One embedding.

    Attributes:
        values: a JSON array of numbers, unchecked.
        truncated: its text was cut.
    """

    values: Raw
    truncated: bool = False


class Vectors(Struct, frozen=True, kw_only=True):
    """What a backend answers: embeddings in the order of the inputs, and the tokens of all of these."""

    vectors: list[Vector]
    tokens: int


class _Embedding(Struct, frozen=True):
    object: Literal["embedding"]
    embedding: Raw | str
    index: int
    truncated: bool | UnsetType


class _Usage(Struct, frozen=True):
    prompt_tokens: int
    total_tokens: int


class _Answer(Struct, frozen=True):
    object: Literal["list"]
    data: list[_Embedding]
    model: str
    usage: _Usage


def write_answer(found: Vectors, *, model: str, base64: bool) -> bytes:
    """The client's document.

    Raises:
        UnreadableAnswer: an embedding is no array of numbers.
    """
    data = [_embedding(index, vector, base64=base64) for index, vector in enumerate(found.vectors)]
    return _encode(_Answer("list", data, model, _Usage(found.tokens, found.tokens)))


def _embedding(index: int, vector: Vector, *, base64: bool) -> _Embedding:
    try:
        numbers = _numbers.decode(vector.values)
    except UNREADABLE as error:
        raise UnreadableAnswer(f"embedding {index} is no array of numbers: {error}") from error
    values = _base64(numbers) if base64 else Raw(bytes(vector.values).translate(None, b" \t\r\n"))
    return _Embedding("embedding", values, index, vector.truncated or UNSET)


def _base64(numbers: list[float]) -> str:
    floats = array("f", numbers)
    if sys.byteorder == "big":
        floats.byteswap()
    return b64encode(floats).decode()
