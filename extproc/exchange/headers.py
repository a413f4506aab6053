"""Header maps as Envoy sends them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from extproc.exchange import names
from extproc.exchange.decode import decode
from extproc.telemetry.redaction import is_sensitive_header
from protos.ext_proc_pb2 import HeaderMap, HeaderValue

HeaderDict = dict[str, str]

# What is remembered of headers: so many, none that is longer, and none that carries a credential.
_KNOWN_HEADERS: Final = 4096
_KNOWN_BYTES: Final = 256


class _Known(dict[bytes, tuple[str, str]]):
    """Headers that were decoded before, by their encoded form."""

    def __missing__(self, encoded: bytes) -> tuple[str, str]:
        header = decode(HeaderValue, encoded)
        pair = header.key, (header.raw_value or header.value).decode("utf-8", "replace")
        if len(encoded) <= _KNOWN_BYTES and may_be_kept(pair[0]):
            # Nearly all are met again at once, so forgetting all costs less than minding which one was used last.
            if len(self) >= _KNOWN_HEADERS:
                self.clear()
            self[encoded] = pair
        return pair


def may_be_kept(name: str) -> bool:
    """Whether to remember what was in a header: neither credentials, nor our id of a request, which comes once."""
    return name != names.INTERNAL_REQUEST_ID and not is_sensitive_header(name)


_known: Final = _Known()
# Of these, every line matters to a translation.
_LISTS: Final = ("anthropic-beta",)


def read_headers(encoded: bytes) -> tuple[HeaderDict, Sequence[bytes]]:
    """Headers of a map by name as received (Envoy sends lower case); of a repeated one the last counts (contract 3.2).

    Headers that are lists are put together when they are repeated, as RFC 9110, 5.3, has it.

    Envoy fills ``raw_value``; ``value`` is its older form. Bytes that are not UTF-8 are shown as U+FFFD: nothing here
    could use them, but the header must be known, to be removed for instance.

    Nearly every header came with an earlier map as well, so it is decoded once: an object of the wire library for each
    takes four times as long.

    Returns:
        The headers, and each as it is encoded, repeated ones too.

    Raises:
        StreamFailure: a header cannot be decoded.
    """
    # A slice is a list, which is made at once; to iterate over what the library has takes twice as long.
    listed = decode(HeaderMap, encoded).headers[:]
    headers = dict(map(_known.__getitem__, listed))
    if len(headers) < len(listed):
        _join_lists(headers, [_known[each] for each in listed])
    return headers, listed


def listed_headers(encoded: bytes) -> list[HeaderValue]:
    """Each header of a map as it was sent, repeated ones too.

    Raises:
        StreamFailure: a header cannot be decoded.
    """
    return [decode(HeaderValue, each) for each in decode(HeaderMap, encoded).headers]


def header_map(headers: Iterable[tuple[str, bytes]]) -> bytes:
    """A map as Envoy would send it, for those who ask in its place."""
    return HeaderMap(
        headers=[HeaderValue(key=name, raw_value=value).SerializeToString() for name, value in headers]
    ).SerializeToString()


def _join_lists(headers: HeaderDict, pairs: list[tuple[str, str]]) -> None:
    for name in _LISTS:
        if name in headers:
            headers[name] = ",".join(value for each, value in pairs if each == name)
