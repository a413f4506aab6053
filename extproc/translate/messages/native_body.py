"""Edits of a Messages request for the places that serve it: only what a place demands, and every spelling of it.

Of a member that is there twice the last counts here, and which one counts behind us is not known. So an edit changes
all of them, or a client could get past it (contract, model override 3.2). Bytes outside of an edit stay as they came.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from extproc.formats import jsonedit, jsonscan
from extproc.translate.aws import anthropic_betas
from extproc.translate.base import Target

# What stands before a member's value, and what ends an object.
_KEY: Final = re.compile(rb'[\x20\t\n\r]*+,?+[\x20\t\n\r]*+"([^"\\]*+)"[\x20\t\n\r]*+:[\x20\t\n\r]*+')
_CLOSING: Final = re.compile(rb"[\x20\t\n\r]*+}")
# Letters and the underscore of a key, as escapes.
_ESCAPED: Final = re.compile(rb"\\u00[5-7]")
# How the versions of the two clouds begin.
_FAMILIES: Final = ("bedrock-", "vertex-")
_FLAG: Final = re.compile(r"[A-Za-z0-9._:-]+")

# So much of a part says how it ends, nearly always.
_TAIL: Final = 16

_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_string = msgspec.json.Decoder(str).decode
_decode_flags = msgspec.json.Decoder(list[str]).decode

_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError)


class TopLevel:
    """A JSON object as text, and where its members stand.

    A decoder finds them in a tenth of the time of a scan; where a key is there twice or is spelled with escapes, it
    does not say where, and the text is scanned.
    """

    __slots__ = ("_body", "_closing", "_found")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._closing = -1
        self._found = self._decoded()

    def _decoded(self) -> Mapping[str, jsonscan.Member] | None:
        body = self._body
        try:
            values = _decode_members(body)
        except _UNREADABLE:
            return None
        found: dict[str, jsonscan.Member] = {}
        position = jsonscan.top(body) + 1
        for name, value in values.items():
            key = _KEY.match(body, position)
            if key is None or key[1] != name.encode():
                return None
            start, position = key.end(), key.end() + len(value)
            if not body.startswith(bytes(value), start):
                return None
            found[name] = jsonscan.Member(key.start(1) - 1, start, position)
        closing = _CLOSING.match(body, position)
        if closing is None:
            return None
        self._closing = closing.end() - 1
        return found

    def members(self, name: str) -> list[jsonscan.Member]:
        """All members of this name, in their order."""
        if self._found is not None:
            return [self._found[name]] if name in self._found else []
        found, self._closing = jsonscan.members(self._body, jsonscan.top(self._body), name)
        return found

    def value(self, name: str) -> bytes | None:
        """The text of a member's value; of several the last, as decoders have it."""
        found = self.members(name)
        return self._body[found[-1].start : found[-1].end] if found else None

    def edited(self, *, sets: Mapping[str, bytes] = MappingProxyType({}), cuts: Iterable[str] = ()) -> bytes:
        """The text with these values, at the end where a member is missing, and without the members in ``cuts``."""
        edits: list[tuple[int, int, bytes]] = []
        missing: list[bytes] = []
        for name, raw in sets.items():
            found = self.members(name)
            edits += ((member.start, member.end, raw) for member in found)
            if not found:
                missing.append(b"%b:%b" % (jsonedit.encode_string(name), raw))
        edits += self._cut(sorted(member for name in cuts for member in self.members(name)))
        parts = list(_kept(self._body, edits, self._closing if missing else len(self._body)))
        if missing:
            parts += (b"" if _opens(parts) else b",", b",".join(missing), b"}")
        return b"".join(parts)

    def _cut(self, members: Iterable[jsonscan.Member]) -> Iterable[tuple[int, int, bytes]]:
        """Each with the comma before it; the first of the object, or after others that go, with the one behind it."""
        body, position = self._body, 0
        for member in members:
            before = member.key - 1
            while body[before] <= ord(" "):
                before -= 1
            if body[before] == ord(",") and before >= position:
                start, end = before, member.end
            else:
                start, end = max(before + 1, position), jsonscan.after_comma(body, member.end)
            yield start, end, b""
            position = end


def _kept(body: bytes, edits: list[tuple[int, int, bytes]], size: int) -> Iterator[bytes]:
    """The first ``size`` bytes in parts, with edits that do not overlap."""
    position = 0
    for start, end, text in sorted(edits):
        yield body[position:start]
        yield text
        position = end
    yield body[position:size]


def _opens(parts: list[bytes]) -> bool:
    """Whether nothing but the object's bracket is in these parts."""
    text = next(stripped for part in reversed(parts) if (stripped := part[-_TAIL:].rstrip() or part.rstrip()))
    return text.endswith(b"{")


def may_repeat(body: bytes, *names: str) -> bool:
    """Whether one of these members may be there more than once: a cheap look that is never wrong in a no."""
    return any(body.count(b'"%b"' % name.encode()) > 1 for name in names) or _ESCAPED.search(body) is not None


def without(body: bytes, name: str) -> bytes:
    """The body without a member, however often it is there."""
    return TopLevel(body).edited(cuts=[name])


def version(members: TopLevel, configured: str, default: str) -> bytes:
    """A place's ``anthropic_version``, as JSON.

    Args:
        members: of the client's request.
        configured: what the backend's schema says, which counts before anything that a client sends; or empty.
        default: the version that the place has had since its beginning. Another one, which the client may have sent,
            stays, unless it is that of another place.
    """
    sent = None if configured else _text(members.value("anthropic_version"))
    if sent is not None and sent.startswith(_FAMILIES) and sent.partition("-")[0] != default.partition("-")[0]:
        sent = None
    return jsonedit.encode_string(configured or sent or default)


def _text(raw: bytes | None) -> str | None:
    try:
        return None if raw is None else _decode_string(raw)
    except _UNREADABLE:
        return None


def versioned(body: bytes, configured: str, default: str) -> bytes:
    """The body with the place's ``version``."""
    members = TopLevel(body)
    return members.edited(sets={"anthropic_version": version(members, configured, default)})


def bedrock_betas(members: TopLevel, target: Target) -> bytes | None:
    """The ``anthropic_beta`` that Bedrock takes, as JSON, or ``None`` for none (contract, messages 5.4)."""
    listed = members.value("anthropic_beta")
    flags = anthropic_betas(target, b"{}" if listed is None else b'{"anthropic_beta":%b}' % listed)
    return msgspec.json.encode(flags) if flags else None


def with_bedrock_betas(body: bytes, target: Target) -> bytes:
    """The body with the flags that Bedrock takes, or without any."""
    members = TopLevel(body)
    flags = bedrock_betas(members, target)
    if flags is None:
        return members.edited(cuts=["anthropic_beta"])
    return members.edited(sets={"anthropic_beta": flags})


def header_betas(members: TopLevel, headers: Mapping[str, str]) -> list[str] | None:
    """The flags for the header ``anthropic-beta`` of a place that does not want them in a body (BR-69).

    They are those of the client's header, and after them those of the body's list, each once. ``None``: the body has
    no such list, or one that no header can carry, of which the place may say what it thinks.
    """
    listed = members.value("anthropic_beta")
    try:
        flags = None if listed is None else _decode_flags(listed)
    except _UNREADABLE:
        return None
    if flags is None or not all(map(_FLAG.fullmatch, flags)):
        return None
    sent = [flag.strip() for flag in headers.get("anthropic-beta", "").split(",")]
    return list(dict.fromkeys(flag for flag in sent + flags if flag))
