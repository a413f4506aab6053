"""Takes out of a document the credentials that its API puts there: those of the MCP servers that a model may call.

Clients of the Responses API give them with a tool, in ``authorization`` and ``headers``, those of the Messages API with
a server, in ``authorization_token``. What spans show must not hold them, whatever else they may show.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from extproc.telemetry.redaction import REDACTED
from extproc.telemetry.tracing.readers.lenient import (
    Members,
    as_raw,
    decoded,
    elements_of,
    members_of,
    object_of,
    without,
)

_LISTS: Final = ("tools", "mcp_servers")
_HELD_IN: Final = frozenset({"authorization", "authorization_token", "headers"})
# How the name of such a member is spelled: plainly, or with escapes.
_MARKS: Final = (b"authorization", b"headers", b"\\u")


def read_sealed(document: bytes) -> tuple[Members, str]:
    """The members of a document without credentials, and its text: as it came, where it has none."""
    members = members_of(document)
    replaced = {name: kept for name in _LISTS if (kept := _without(members.get(name))) is not None}
    if not replaced:
        return members, decoded(document)
    members = {**members, **replaced}
    return members, without(members, frozenset())


def _without(value: Raw | None) -> Raw | None:
    """A list with its elements sealed; ``None`` where none of them needs to be."""
    if value is None or not _may_hold(value):
        return None
    elements = [(bytes(element), _sealed(element)) for element in elements_of(value)]
    if all(given == kept for given, kept in elements):
        return None
    return Raw(b"[" + b",".join(kept for _, kept in elements) + b"]")


def _may_hold(value: Raw) -> bool:
    text = bytes(value)
    return any(mark in text for mark in _MARKS)


def _sealed(element: Raw) -> bytes:
    """An element with every value of such a member replaced; an object's names stay."""
    value = object_of(element)
    if _HELD_IN.isdisjoint(value):
        return bytes(element)
    sealed = {name: _hidden(item) if name in _HELD_IN else item for name, item in value.items()}
    # What cannot be written again must not be shown as it came either.
    return bytes(as_raw(sealed) or b"{}")


def _hidden(value: object) -> object:
    return dict.fromkeys(value, REDACTED) if isinstance(value, dict) else REDACTED
