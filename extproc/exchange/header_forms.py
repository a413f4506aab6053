"""Header maps that are like earlier ones but for the values of a few headers, read without decoding them.

What one client sends again and again, and what a backend answers, differs in ids, dates and lengths. Such maps have
the same bytes at the same places except where these values are, so they are read by comparing a few runs of bytes.
Decoding each header by itself takes four times as long (``docs/topics/performance.md``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from extproc.exchange import names
from extproc.exchange.decode import decode
from extproc.telemetry.redaction import is_sensitive_header
from protos.ext_proc_pb2 import HeaderMap, HeaderValue

# Longer maps and values are not kept, nor more forms than this; then all are forgotten, and learnt again.
_LONGEST_MAP: Final = 4096
_LONGEST_VALUE: Final = 256
_MOST_FORMS: Final = 1024
# Of maps of one length; clients that send other headers make others.
_MOST_ALIKE: Final = 4
# A map is learnt from once in so many that were like none, so that traffic without likeness does not pay for it.
_LEARNT_OF: Final = 4


class _Line(NamedTuple):
    """One header of a map: its name, all the bytes before its value, and the value, or None for one that differs."""

    name: str
    before: bytes
    value: bytes | None

    def fits(self, other: _Line) -> bool:
        """Whether both are the same but for the value, which has the same length as it stands in ``before``."""
        return self.name == other.name and self.before == other.before

    def merged(self, other: _Line) -> _Line:
        return self if self.value == other.value else self._replace(value=None)


class _Form(Struct, frozen=True, eq=False):
    """Maps of one length that are alike.

    Attributes:
        lines: what it was made of.
        runs: the bytes that are the same in all, by their places; all else are values.
        gaps: the names of these, by their places.
        headers: every header in order, those of the gaps without value.
    """

    lines: Sequence[_Line]
    runs: Sequence[tuple[slice, bytes]]
    gaps: Sequence[tuple[slice, str]]
    headers: dict[str, str]

    @classmethod
    def of(cls, lines: Sequence[_Line], sizes: Iterable[int]) -> _Form:
        """The form of such lines, whose values have these sizes."""
        runs: list[tuple[slice, bytes]] = []
        gaps: list[tuple[slice, str]] = []
        headers: dict[str, str] = {}
        run, start, end = b"", 0, 0
        for (name, before, value), size in zip(lines, sizes, strict=True):
            run += before
            end += len(before) + size
            if value is None:
                runs.append((slice(start, end - size), run))
                gaps.append((slice(end - size, end), name))
                run, start = b"", end
                headers[name] = ""
            else:
                run += value
                headers[name] = value.decode("utf-8", "replace")
        if run:
            runs.append((slice(start, end), run))
        return cls(tuple(lines), tuple(runs), tuple(gaps), headers)


class HeaderForms:
    """The forms that were met. Values of headers that carry credentials are never kept."""

    def __init__(self) -> None:
        # By the length of the map.
        self._forms: dict[int, list[_Form]] = {}
        self._count = 0
        self._unlike = 0

    def read(self, encoded: bytes) -> dict[str, str] | None:
        """The headers of a map that has a known form; of none is a name repeated."""
        for form in self._forms.get(len(encoded), ()):
            for place, run in form.runs:
                # Faster than to ask whether it starts there.
                if encoded[place] != run:
                    break
            else:
                headers = form.headers.copy()
                for place, name in form.gaps:
                    headers[name] = encoded[place].decode("utf-8", "replace")
                return headers
        return None

    def learn(self, encoded: bytes, listed: Sequence[bytes]) -> None:
        """Take in a map that has no known form.

        Args:
            encoded: the map.
            listed: its headers, each encoded as it is there. They can be decoded, and no name is repeated.
        """
        self._unlike += 1
        if self._unlike % _LEARNT_OF or len(encoded) > _LONGEST_MAP:
            return
        read = _lines(encoded, listed)
        if read is None:
            return
        lines, sizes = read
        alike = self._forms.setdefault(len(encoded), [])
        for place, form in enumerate(alike):
            if len(form.lines) == len(lines) and all(map(_Line.fits, form.lines, lines)):
                alike[place] = _Form.of(list(map(_Line.merged, form.lines, lines)), sizes)
                return
        if self._count >= _MOST_FORMS:
            self._forms.clear()
            self._count = 0
            alike = self._forms.setdefault(len(encoded), [])
        if len(alike) >= _MOST_ALIKE:
            del alike[0]
            self._count -= 1
        alike.append(_Form.of(lines, sizes))
        self._count += 1


def _lines(encoded: bytes, listed: Sequence[bytes]) -> tuple[list[_Line], list[int]] | None:
    """The lines of a map and the sizes of their values, unless it is encoded otherwise than Envoy does it."""
    lines: list[_Line] = []
    sizes: list[int] = []
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
        kept = len(value) <= _LONGEST_VALUE and header.key != names.INTERNAL_REQUEST_ID
        lines.append(
            _Line(
                header.key,
                line[: len(line) - len(value)],
                value if kept and not is_sensitive_header(header.key) else None,
            )
        )
        sizes.append(len(value))
    return (lines, sizes) if rest == len(encoded) else None
