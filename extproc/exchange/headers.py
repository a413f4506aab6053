"""Header maps as Envoy sends them."""

from __future__ import annotations

from typing import Final

from extproc.exchange import names
from extproc.exchange.decode import decode
from protos.ext_proc_pb2 import HeaderValue, HttpHeaders

HeaderDict = dict[str, str]

# What is remembered of headers: so many, none that is longer (credentials and cookies for the most part).
_KNOWN_HEADERS: Final = 4096
_KNOWN_BYTES: Final = 256


class HeaderChanges:
    """Header changes of one attempt.

    Attributes:
        sets: by lower-case name, the name as it is written and the value, in the order in which they are sent.
        removes: lower-case names.
    """

    __slots__ = ("removes", "sets")

    def __init__(self) -> None:
        self.sets: dict[str, tuple[str, str]] = {}
        self.removes: list[str] = []

    def set(self, name: str, value: str) -> None:
        """Set a header, in place of what was set under its name before."""
        key = name.lower()
        if key in self.sets:
            del self.sets[key]
        self.sets[key] = (name, value)


class _Known(dict[bytes, tuple[str, str]]):
    """Headers that were decoded before, by their encoded form."""

    def __missing__(self, encoded: bytes) -> tuple[str, str]:
        header = decode(HeaderValue, encoded)
        pair = header.key, (header.raw_value or header.value).decode("utf-8", "replace")
        # Our own id of a request comes once.
        if len(encoded) <= _KNOWN_BYTES and pair[0] != names.INTERNAL_REQUEST_ID:
            # Nearly all are met again at once, so forgetting all costs less than minding which one was used last.
            if len(self) >= _KNOWN_HEADERS:
                self.clear()
            self[encoded] = pair
        return pair


_known: Final = _Known()

# Of these, every line matters to a translation.
_LISTS: Final = ("anthropic-beta",)


def read_headers(message: HttpHeaders) -> HeaderDict:
    """Headers by name as received (Envoy sends lower case); of a repeated one the last counts (contract 3.2).

    Headers that are lists are put together when they are repeated, as RFC 9110, 5.3, has it.

    Envoy fills ``raw_value``; ``value`` is its older form. Bytes that are not UTF-8 are shown as U+FFFD: nothing here
    could use them, but the header must be known, to be removed for instance.

    Nearly every header of a request came with an earlier one, so it is decoded once: an object of the wire library
    for each takes four times as long.

    Raises:
        StreamFailure: a header cannot be decoded.
    """
    # A slice is a list, which is made at once; to iterate over what the library has takes twice as long.
    listed = message.headers.headers[:]
    headers = dict(map(_known.__getitem__, listed))
    if len(headers) < len(listed):
        _join_lists(headers, [_known[encoded] for encoded in listed])
    return headers


def _join_lists(headers: HeaderDict, pairs: list[tuple[str, str]]) -> None:
    for name in _LISTS:
        if name in headers:
            headers[name] = ",".join(value for each, value in pairs if each == name)
