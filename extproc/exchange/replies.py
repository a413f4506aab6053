"""Builds ``ProcessingResponse`` messages, as the bytes that go to Envoy.

A reply is written once, from the inside out, by the few shapes that there are: the wire library's objects, one for each
header and value, took longer than everything else that a request needs (``docs/topics/performance.md``). Tests hold
the bytes against that library.

Every header value goes into ``raw_value``: Envoy ignores ``value``. Every header that is set says that it overwrites,
because the meaning of leaving that open has changed between versions of Envoy.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from extproc.errors import ClientError
from extproc.exchange import names

Metadata = Mapping[str, str | float]
"""Values for our namespace of the dynamic metadata: text as strings, anything else as numbers."""

EncodedMetadata = bytes
"""The same as it goes over the wire; see ``MetadataForm``."""

EncodedMutation = bytes
"""Headers to set and to remove, as they go over the wire; see ``MutationForm``."""

# protobuf encoding: a field is its number and type, then for text, bytes and messages ("len") the size and the content.
# ProcessingResponse: the member of the reply that answers each member of a request.
_KINDS: Final = {
    "request_headers": b"\x0a",
    "response_headers": b"\x12",
    "request_body": b"\x1a",
    "response_body": b"\x22",
    "request_trailers": b"\x2a",
    "response_trailers": b"\x32",
}
_IMMEDIATE: Final = b"\x3a"
_DYNAMIC_METADATA: Final = b"\x42"
# mode_override, with nothing but response_body_mode, STREAMED.
_STREAM_RESPONSE_BODY: Final = b"\x4a\x02\x20\x01"
# CommonResponse: status CONTINUE_AND_REPLACE, and clear_route_cache.
_REPLACE: Final = b"\x08\x01"
_CLEAR_ROUTE_CACHE: Final = b"\x28\x01"
_DOUBLE: Final = struct.Struct("<d").pack
# A number of eight bytes that is still to come: nothing like it is in text, nor in a size.
_HOLE: Final = b"\xff" * 8
_NUMBER: Final = b"\x11" + _HOLE
# HeaderValueOption.append_action, OVERWRITE_IF_EXISTS_OR_ADD.
_OVERWRITE: Final = b"\x18\x02"


class Reply(Struct, frozen=True, gc=False):
    """A message to Envoy."""

    encoded: bytes

    # It may carry credentials and what people have said.
    __repr__ = object.__repr__

    def SerializeToString(self) -> bytes:  # noqa: N802 - named as on messages of the wire library
        """The message as it goes over the wire."""
        return self.encoded


class MutationForm:
    """A header mutation that is the same each time but for the value of one header, so that it is encoded once.

    Args:
        sets: headers to set, in order.
        removes: names of headers to remove.
        varying: the name of that header, as it is among ``sets``; empty where all is the same.
    """

    __slots__ = ("_after", "_before", "_varying")

    def __init__(self, sets: Iterable[tuple[str, str]], removes: Iterable[str], varying: str = "") -> None:
        listed = list(sets)
        names = [name for name, _ in listed]
        place = names.index(varying) if varying else len(listed)
        self._varying = varying
        self._before = _mutation(listed[:place], () if varying else removes)
        self._after = _mutation(listed[place + 1 :], removes) if varying else b""

    def fill(self, value: str) -> EncodedMutation:
        """Put that header's value in place, where there is one."""
        if not self._varying:
            return self._before
        return self._before + _known_header(self._varying, value) + self._after


class MetadataForm:
    """Metadata of which all but the values of numbers is the same each time, so that it is encoded once.

    Args:
        texts: what is the same.
        numbers: the names of numbers; a text of the same name stands in its place.
    """

    __slots__ = ("_hidden", "_pieces")

    def __init__(self, texts: Mapping[str, str], numbers: Iterable[str]) -> None:
        named = tuple(numbers)
        self._hidden = texts.keys() & named
        shown = [name for name in named if name not in texts]
        self._pieces = _around_numbers((*shown, *texts), (*[None] * len(shown), *texts.values()))

    def fill(self, numbers: Mapping[str, float]) -> EncodedMetadata:
        """Put values in place; ``numbers`` has the names that the form was made with, in the same order."""
        if self._hidden:
            numbers = {name: number for name, number in numbers.items() if name not in self._hidden}
        if len(numbers) == 1:
            # Most have one; the general way takes twice as long.
            (number,) = numbers.values()
            return self.fill_one(number)
        return _fill(self._pieces, numbers.values())

    def fill_one(self, number: float) -> EncodedMetadata:
        """Put a value in place in a form of one number, which no text stands for."""
        before, after = self._pieces
        return before + _DOUBLE(number) + after


def neutral(kind: str, metadata: Metadata | EncodedMetadata | None = None) -> Reply:
    """The reply that changes nothing, though it may carry metadata.

    ``kind`` is the member of the request, which the reply has under one name.
    """
    return Reply(_KINDS[kind] + b"\x00" + _metadata(metadata)) if metadata else _NEUTRAL[kind]


def common(
    kind: str,
    *,
    sets: Iterable[tuple[str, str]] = (),
    removes: Iterable[str] = (),
    mutation: EncodedMutation = b"",
    body: bytes | None = None,
    replace: bool = False,
    clear_route_cache: bool = False,
    stream_response_body: bool = False,
    metadata: Metadata | EncodedMetadata | None = None,
) -> Reply:
    """A reply to headers or to a piece of a body.

    Args:
        kind: the member of the request.
        sets: headers to set, in order.
        removes: names of headers to remove.
        mutation: both of these, encoded, in their place.
        body: what takes the place of the body; ``None`` leaves it.
        replace: ext_proc: CONTINUE_AND_REPLACE, the body comes with the headers and is not asked for.
        clear_route_cache: have Envoy choose the route again.
        stream_response_body: have Envoy hand over the body in pieces; ext_proc: only on a reply to headers.
        metadata: values for our namespace of the dynamic metadata.
    """
    before = _REPLACE if replace else b""
    if sets or removes:
        mutation = _mutation(sets, removes)
    if mutation:
        before += b"\x12" + _size[len(mutation)] + mutation
    content = b""
    if body is not None:
        content = body
        bare = b"\x0a" + _size[len(body)]
        before += b"\x1a" + _size[len(bare) + len(body)] + bare
    after = _CLEAR_ROUTE_CACHE if clear_route_cache else b""
    length = len(before) + len(content) + len(after)
    head = b"\x0a" + _size[length] if length else b""
    tail = _metadata(metadata) if metadata else b""
    if stream_response_body:
        tail += _STREAM_RESPONSE_BODY
    # The body may be large: it is copied once, by the join.
    return Reply(b"".join((_KINDS[kind], _size[len(head) + length], head, before, content, after, tail)))


def one_header(kind: str, name: str, value: str, *, removes: tuple[str, ...] = ()) -> Reply:
    """A reply that sets one header, as ``common`` gives it too: for values that differ each time, and rarely in length.

    All around a value of that length is encoded once.
    """
    raw = value.encode()
    before, after = _around_value(kind, name, len(raw), removes)
    return Reply(b"".join((before, raw, after)))


@lru_cache(maxsize=1024)
def _around_value(kind: str, name: str, size: int, removes: tuple[str, ...]) -> tuple[bytes, bytes]:
    before = _before_value(name, size)
    whole = common(kind, sets=[(name, "\0" * size)], removes=removes).SerializeToString()
    end = whole.index(before) + len(before)
    return whole[:end], whole[end + size :]


def piece(kind: str, body: bytes) -> Reply:
    """A reply that puts ``body`` in place of a piece of a body, as ``common`` gives it too.

    All before a body of that length is encoded once.
    """
    return Reply(_before_body(kind, len(body)) + body)


# The pieces of one stream hardly differ in length.
@lru_cache(maxsize=4096)
def _before_body(kind: str, size: int) -> bytes:
    whole = common(kind, body=bytes(size)).SerializeToString()
    return whole[: len(whole) - size]


def immediate(
    status: int, body: bytes, *, content_type: str | None, grpc_status: int, metadata: Metadata | None = None
) -> Reply:
    """An answer to the client instead of a request to a backend (contract 3.13)."""
    code = b"\x08" + _size[status]
    message = b"\x0a" + _size[len(code)] + code
    if content_type is not None:
        headers = _mutation([("content-type", content_type), ("content-length", str(len(body)))], ())
        message += b"\x12" + _size[len(headers)] + headers
    if body:
        message += b"\x1a" + _size[len(body)] + body
    grpc = b"\x08" + _size[grpc_status] if grpc_status else b""
    message += b"\x22" + _size[len(grpc)] + grpc
    tail = _metadata(metadata) if metadata else b""
    return Reply(_IMMEDIATE + _size[len(message)] + message + tail)


def client_error(error: ClientError, body: bytes, metadata: Metadata | None = None) -> Reply:
    return immediate(
        error.status, body, content_type="application/json", grpc_status=error.grpc_status, metadata=metadata
    )


def _mutation(sets: Iterable[tuple[str, str]], removes: Iterable[str]) -> bytes:
    fields = b""
    for name, value in sets:
        fields += _known_header(name, value) if name in _RECURRING else _set_header(name, value)
    return fields + _remove_headers(tuple(removes)) if removes else fields


# The same for nearly all requests to a backend.
@lru_cache(maxsize=1024)
def _remove_headers(names: tuple[str, ...]) -> bytes:
    return b"".join([b"\x12" + _sized(name.encode()) for name in names])


def _set_header(name: str, value: str) -> bytes:
    raw = value.encode()
    return _before_value(name, len(raw)) + raw + _OVERWRITE


# Names come from the configuration; those of a client's headers, which a retry may restore, are forgotten again.
@lru_cache(maxsize=1024)
def _before_value(name: str, size: int) -> bytes:
    """What goes before a ``raw_value`` of so many bytes: HeaderMutation.set_headers, HeaderValueOption.header."""
    fields = b"\x0a" + _sized(name.encode()) + b"\x1a" + _size[size]
    header = b"\x0a" + _size[len(fields) + size] + fields
    return b"\x0a" + _size[len(header) + size + len(_OVERWRITE)] + header


# Headers with few values, none of them a secret: they need not be written anew for every request.
_RECURRING: Final = frozenset(
    {":path", "accept-encoding", "content-length", "content-type", names.MODEL, names.ORIGINAL_PATH}
    | {names.ENVOY_ORIGINAL_PATH}
)
_known_header = lru_cache(maxsize=4096)(_set_header)


def _metadata(values: Metadata | EncodedMetadata) -> EncodedMetadata:
    if isinstance(values, bytes):
        return values
    texts: list[str | None] = []
    numbers = []
    for value in values.values():
        if isinstance(value, str):
            texts.append(value)
        else:
            texts.append(None)
            numbers.append(value)
    return _fill(_known_around_numbers(tuple(values), tuple(texts)), numbers)


def _fill(pieces: Sequence[bytes], numbers: Iterable[float]) -> EncodedMetadata:
    """Put a number between each of the pieces and the next."""
    first, *others = pieces
    filled = [first]
    for number, piece in zip(numbers, others, strict=True):
        filled += (_DOUBLE(number), piece)
    return b"".join(filled)


def _around_numbers(keys: tuple[str, ...], texts: tuple[str | None, ...]) -> Sequence[bytes]:
    """Metadata, cut where each number is to be, which ``None`` stands for."""
    fields = b"".join(
        [
            _map_entry(key, _NUMBER if text is None else b"\x1a" + _sized(text.encode()))
            for key, text in zip(keys, texts, strict=True)
        ]
    )
    entry = _NAMESPACE + b"\x12" + _sized(b"\x2a" + _sized(fields))
    return (_DYNAMIC_METADATA + _sized(b"\x0a" + _sized(entry))).split(_HOLE)


# Errors and mapped headers are few for the most part; what a client makes up is forgotten again.
_known_around_numbers = lru_cache(maxsize=4096)(_around_numbers)


def _map_entry(key: str, value: bytes) -> bytes:
    entry = b"\x0a" + _sized(key.encode()) + b"\x12" + _sized(value)
    return b"\x0a" + _sized(entry)


def _sized(content: bytes) -> bytes:
    """A field without its number and type."""
    return _size[len(content)] + content


class _Sizes(dict[int, bytes]):
    """Numbers as varints; the lower ones are kept."""

    def __missing__(self, number: int) -> bytes:
        encoded, rest = bytearray(), number
        while rest > 0x7F:
            encoded.append(rest & 0x7F | 0x80)
            rest >>= 7
        encoded.append(rest)
        if number < _KNOWN_SIZES:
            self[number] = bytes(encoded)
        return bytes(encoded)


_KNOWN_SIZES: Final = 4096
_size: Final = _Sizes()

_NAMESPACE: Final = b"\x0a" + _sized(names.METADATA_NAMESPACE.encode())
_NEUTRAL: Final = {kind: Reply(tag + b"\x00") for kind, tag in _KINDS.items()}
