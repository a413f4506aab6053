"""Header-to-attribute mappings: which request headers become attributes of metrics, spans and access logs.

Syntax and precedence: contract, header-to-attribute mappings 5.1. Header names are lower-cased here, because Envoy
sends them so; a mapping written ``X-Tenant-Id:tenant`` works (the peer never matches it, quirk Q48).
"""

from __future__ import annotations

from typing import Final

from extproc.flags import pairs
from extproc.golang import quote

HeaderAttributes = tuple[tuple[str, str], ...]
"""Pairs of (lower-case header name, attribute name); each header occurs once."""

SESSION: Final[HeaderAttributes] = (("agent-session-id", "session.id"),)
"""What spans and access logs add to the base mapping unless told otherwise."""


def parse_header_attributes(text: str) -> HeaderAttributes:
    """Read ``header:attribute[,header:attribute…]``; the attribute may contain colons, a repeated header wins.

    Raises:
        ValueError: with the position, counted from 1, of the pair that is wrong.
    """
    mapping: dict[str, str] = {}
    for position, pair, header, attribute in pairs(text, "header-attribute", "header:attribute"):
        if not header or not attribute:
            raise ValueError(f"empty header or attribute at position {position}: {quote(pair)}")
        mapping[header.lower()] = attribute
    return tuple(mapping.items())


def merge(base: HeaderAttributes, own: HeaderAttributes) -> HeaderAttributes:
    """Both mappings; where they name the same header, ``own`` decides."""
    return tuple({**dict(base), **dict(own)}.items())
