"""Which header lists are a request (RFC 9113, 8.2 and 8.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from extproc.transport.http2.application import HeaderList

# RFC 9110, 5.6.2: a field name is a token; RFC 9113, 8.2.1: in lower case.
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
# RFC 9113, 8.2.1: no NUL, LF or CR anywhere, no space or tab at either end.
_VALUE: Final = re.compile(rb"(?:[^\0\n\r\t ](?:[^\0\n\r]*[^\0\n\r\t ])?)?")
_CONNECTION_SPECIFIC: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
_PSEUDO: Final = frozenset({b":authority", b":method", b":path", b":scheme"})
_REQUIRED: Final = (b":method", b":path", b":scheme")


class Malformed(Exception):
    """The header list is not a request, or not a trailer section; the text says why."""


def check_request(headers: HeaderList) -> int | None:
    """Give the length of the content, where the headers say it.

    Raises:
        Malformed: as a server has to treat it by RFC 9113, 8.1.1.
    """
    pseudo: dict[bytes, bytes] = {}
    regular = []
    for name, value in headers:
        if not name.startswith(b":"):
            regular.append((name, value))
            continue
        if regular or name in pseudo or name not in _PSEUDO or not _VALUE.fullmatch(value):
            raise Malformed("pseudo-header field out of place")
        pseudo[name] = value
    _check_target(pseudo)
    _check_fields(regular)
    fields = dict(regular)
    authority = pseudo.get(b":authority")
    if authority is not None and fields.get(b"host", authority).lower() != authority.lower():
        raise Malformed("host differs from :authority")
    return _content_length(value for name, value in regular if name == b"content-length")


def check_trailers(headers: HeaderList) -> None:
    """Raises: ``Malformed``: a field is not one, or a pseudo-header field, which trailers never have."""
    _check_fields(headers)


def _check_target(pseudo: dict[bytes, bytes]) -> None:
    # RFC 9113, 8.5: CONNECT has an authority, and neither scheme nor path.
    if pseudo.get(b":method") == b"CONNECT":
        if pseudo.keys() != {b":method", b":authority"}:
            raise Malformed("CONNECT with other pseudo-header fields than :authority")
        return
    if not all(pseudo.get(name) for name in _REQUIRED):
        raise Malformed("a pseudo-header field is missing or empty")


def _check_fields(fields: Iterable[tuple[bytes, bytes]]) -> None:
    for name, value in fields:
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise Malformed("invalid field")
        if name in _CONNECTION_SPECIFIC or (name == b"te" and value.lower() != b"trailers"):  # codespell:ignore te
            raise Malformed("connection-specific field")


def _content_length(values: Iterable[bytes]) -> int | None:
    """RFC 9110, 8.6: repeated, it has to say the same."""
    lengths = set(values)
    if not lengths:
        return None
    text = lengths.pop()
    if lengths or not text.isdigit() or len(text) > 18:
        raise Malformed("invalid content-length")
    return int(text)
