"""Messages with headers that are like earlier ones but for the values of a few headers, read without decoding them.

What one client sends again and again, and what a backend answers, differs in ids, dates and lengths. Such messages have
the same bytes at the same places except where these values are, so they are read by comparing a few runs of bytes.
Decoding each of their parts takes four times as long (``docs/topics/performance.md``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import astuple, replace

from extproc.exchange.decode import decode
from extproc.exchange.headers import HeaderDict, may_be_kept
from extproc.exchange.messages import Envelope, Message
from protos.ext_proc_pb2 import HeaderMap, HeaderValue

# Longer messages and values are not kept, nor messages of more headers, nor more forms than this; then all are
# forgotten, and learnt again.
_LONGEST: Final = 4096
_LONGEST_VALUE: Final = 256
_MOST_HEADERS: Final = 100
_MOST_FORMS: Final = 1024
# Of messages of one length; clients that send other headers make others.
_MOST_ALIKE: Final = 4
# One is learnt from in so many that were like none, so that traffic without likeness does not pay for it.
_LEARNT_OF: Final = 4

_METADATA: Final = "\0metadata"
_ATTRIBUTES: Final = "\0attributes"
_OTHERS: Final = frozenset((_METADATA, _ATTRIBUTES))


class _Line(NamedTuple):
    """One header: its name, all the bytes before its value, and the value, or None for one that differs.

    Metadata and the attributes of an attempt are kept likewise, under names that no header has.
    """

    name: str
    before: bytes
    value: bytes | None
    size: int

    def fits(self, other: _Line) -> bool:
        """Whether both are the same but for the value, which has the same size as it stands in ``before``."""
        return self.name == other.name and self.before == other.before

    def merged(self, other: _Line) -> _Line:
        return self if self.value == other.value else self._replace(value=None)


class _Shape(NamedTuple):
    """A message with headers: these, metadata and attributes if it has some, and all the bytes before and after."""

    head: bytes
    lines: list[_Line]
    tail: bytes

    def fits(self, other: _Shape) -> bool:
        """Whether both are the same but for values, which have the same sizes."""
        sides = (self.head, self.tail, len(self.lines)) == (other.head, other.tail, len(other.lines))
        return sides and all(map(_Line.fits, self.lines, other.lines))

    def merged(self, other: _Shape) -> _Shape:
        return self._replace(lines=list(map(_Line.merged, self.lines, other.lines)))


class _Form(Struct, frozen=True, eq=False):
    """Messages of one length that are alike.

    Attributes:
        shape: what it was made of.
        cut: cuts a message into the runs of bytes that are the same in all, and the values between them.
        runs: these runs.
        gaps: where among both the values of headers are, and their names.
        metadata, attributes: where these are; 0 if they are the same in all.
        envelope: the same in all but for them.
        headers: every header in order, those of the gaps without value.
    """

    shape: _Shape
    cut: Callable[[bytes], tuple[bytes, ...]]
    runs: tuple[bytes, ...]
    gaps: tuple[tuple[int, str], ...]
    metadata: int
    attributes: int
    envelope: Envelope
    headers: HeaderDict

    @classmethod
    def of(cls, shape: _Shape, envelope: Envelope) -> _Form:
        """The form of such messages."""
        runs = [shape.head]
        gaps: list[tuple[int, str]] = []
        others = {_METADATA: 0, _ATTRIBUTES: 0}
        layout = ""
        for name, before, value, size in shape.lines:
            runs[-1] += before
            if value is None:
                layout += f"{len(runs[-1])}s{size}s"
                place = 2 * len(runs) - 1
                if name in others:
                    others[name] = place
                else:
                    gaps.append((place, name))
                runs.append(b"")
            else:
                runs[-1] += value
        runs[-1] += shape.tail
        layout += f"{len(runs[-1])}s"
        return cls(
            shape,
            struct.Struct(layout).unpack,
            tuple(runs),
            tuple(gaps),
            others[_METADATA],
            others[_ATTRIBUTES],
            # Some of the metadata may be credentials.
            replace(envelope, metadata=b""),
            {
                line.name: (line.value or b"").decode("utf-8", "replace")
                for line in shape.lines
                if line.name not in others
            },
        )

    def enclosed(self, parts: Sequence[bytes]) -> Envelope:
        """The envelope of a message with these parts."""
        kind, end, observed, attributes, metadata, protocol = astuple(self.envelope)
        if self.attributes:
            attributes = dict.fromkeys(attributes, parts[self.attributes])
        return Envelope(kind, end, observed, attributes, parts[self.metadata] if self.metadata else metadata, protocol)


class MessageForms:
    """The forms that were met. Values of headers that carry credentials are never kept."""

    def __init__(self) -> None:
        # By the length of the message.
        self._forms: dict[int, list[_Form]] = {}
        self._count = 0
        self._unlike = 0

    def read(self, data: bytes) -> Message | None:
        """The message, if it has a known form; no name of a header is repeated in it."""
        for form in self._forms.get(len(data), ()):
            parts = form.cut(data)
            if parts[::2] == form.runs:
                headers = form.headers.copy()
                for place, name in form.gaps:
                    headers[name] = parts[place].decode("utf-8", "replace")
                envelope = form.enclosed(parts) if form.attributes or form.metadata else form.envelope
                return Message(envelope, headers, b"")
        return None

    def wants(self, data: bytes, listed: Sequence[bytes]) -> bool:
        """Whether to learn from a message that has no known form, and these headers."""
        if len(data) > _LONGEST or len(listed) > _MOST_HEADERS:
            return False
        self._unlike += 1
        return self._unlike % _LEARNT_OF == 0

    def learn(self, data: bytes, envelope: Envelope, encoded: bytes, listed: Sequence[bytes]) -> None:
        """Take in a message that has no known form.

        Args:
            data: the message, encoded as the wire library does it: so no field in it was overwritten by a later one,
                which could be a credential.
            envelope: what it has beside headers.
            encoded: its map of headers.
            listed: its headers, each encoded as it is there. They can be decoded, and no name is repeated.
        """
        shape = _shape(data, envelope, encoded, listed)
        if shape is None:
            return
        alike = self._forms.setdefault(len(data), [])
        for place, form in enumerate(alike):
            if form.shape.fits(shape):
                alike[place] = _Form.of(form.shape.merged(shape), envelope)
                return
        if self._count >= _MOST_FORMS:
            self._forms.clear()
            self._count = 0
            alike = self._forms.setdefault(len(data), [])
        if len(alike) >= _MOST_ALIKE:
            del alike[0]
            self._count -= 1
        alike.append(_Form.of(shape, envelope))
        self._count += 1


def _shape(data: bytes, envelope: Envelope, encoded: bytes, listed: Sequence[bytes]) -> _Shape | None:
    """The shape of a message, see ``MessageForms.learn``; ``None`` where it cannot be told."""
    lines = _lines(encoded, listed)
    start = _place(data, encoded)
    if lines is None or start < 0:
        return None
    tail = data[start + len(encoded) :]
    metadata, attributes = envelope.metadata, list(envelope.attributes.values())
    if metadata:
        if _place(data, metadata) < 0:
            return None
        before, _, tail = tail.partition(metadata)
        lines.append(_Line(_METADATA, before, None, len(metadata)))
    if len(attributes) == 1 and _place(data, attributes[0]) >= 0:
        before, value, tail = tail.partition(attributes[0])
        lines.append(_Line(_ATTRIBUTES, before, value, len(value)))
    return _Shape(data[:start], lines, tail)


def _lines(encoded: bytes, listed: Sequence[bytes]) -> list[_Line] | None:
    """The lines of a map, unless it is encoded otherwise than Envoy does it."""
    lines: list[_Line] = []
    rest = 0
    for each in listed:
        header = decode(HeaderValue, each)
        value = header.raw_value
        plain = HeaderValue(key=header.key, raw_value=value).SerializeToString()
        line = HeaderMap(headers=[plain]).SerializeToString()
        # The value is the last field, so it ends where the line does.
        if not encoded.startswith(line, rest):
            return None
        rest += len(line)
        kept = value if len(value) <= _LONGEST_VALUE and may_be_kept(header.key) else None
        lines.append(_Line(header.key, line[: len(line) - len(value)], kept, len(value)))
    return lines if rest == len(encoded) and _OTHERS.isdisjoint([line.name for line in lines]) else None


def _place(data: bytes, part: bytes) -> int:
    """Where in a message a part of it is; -1 where that cannot be told, as something else looks like it."""
    place = data.find(part)
    return place if data.rfind(part) == place else -1
