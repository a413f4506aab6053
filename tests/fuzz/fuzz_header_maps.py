"""Fuzz target of header maps: whatever was read before, a map is read as the wire library reads it."""

from __future__ import annotations

import random
from unittest import mock

from extproc.errors import StreamFailure
from extproc.exchange import header_forms, headers
from extproc.exchange.header_forms import HeaderForms
from extproc.exchange.headers import header_map, listed_headers, read_headers
from tests.fuzz.driver import drive

# The first octet seeds what is spoilt; maps are told apart by what no map of Envoy's has in it.
BREAK = b"\0\0\0"
SEEDS = (
    b"\x01" + BREAK.join([header_map([(":path", b"/a"), ("x-request-id", b"%d" % n)]) for n in (11, 22, 33)]),
    b"\x02" + BREAK.join([header_map([("a", b"bc")]), header_map([("ab", b"c")]), header_map([("a", b"cb")])]),
    b"\x03" + BREAK.join([header_map([("a", b""), ("b", b"\xff")]), header_map([("a", b"\xff"), ("b", b"")])]),
    b"\x04" + BREAK.join([header_map([("a", b"1"), ("a", b"2")]), header_map([("a", b"1"), ("b", b"2")])]),
    b"\x05" + header_map([("authorization", b"Bearer sk"), ("long", b"x" * 300)]),
)


def one_input(data: bytes) -> None:
    """Read maps one after the other, each twice, and what becomes of them when octets are changed."""
    chance = random.Random(data[:1])
    maps = data[1:].split(BREAK)[:8]
    with mock.patch.object(headers, "_forms", HeaderForms()), mock.patch.object(header_forms, "_LEARNT_OF", 1):
        for encoded in [*maps, *maps, *(_spoilt(chance.choice(maps), chance) for _ in range(8))]:
            assert _read(encoded) == _plainly(encoded)


def _read(encoded: bytes) -> list[tuple[str, str]] | str:
    try:
        return list(read_headers(encoded).items())
    except StreamFailure as failure:
        return failure.message


def _plainly(encoded: bytes) -> list[tuple[str, str]] | str:
    try:
        listed = listed_headers(encoded)
    except StreamFailure as failure:
        return failure.message
    values = [(each.key, (each.raw_value or each.value).decode("utf-8", "replace")) for each in listed]
    joined = dict(values)
    if "anthropic-beta" in joined:
        joined["anthropic-beta"] = ",".join(value for name, value in values if name == "anthropic-beta")
    return list(joined.items())


def _spoilt(encoded: bytes, chance: random.Random) -> bytes:
    octets = bytearray(encoded)
    for _ in range(chance.randrange(3) if octets else 0):
        octets[chance.randrange(len(octets))] = chance.randrange(256)
    return bytes(octets)


if __name__ == "__main__":
    drive(one_input, name="header-maps", package="extproc.exchange", seeds=SEEDS)
