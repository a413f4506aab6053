"""Reads and edits ``multipart/form-data`` (RFC 7578, RFC 2046 5.1) as byte ranges: a form is never rebuilt.

Readers of this format part ways on odd forms, and a gateway that finds other parts than the backend does routes on
one model and buys another. So a form is read where all readers agree, and refused where they may not: line ends that
change, a boundary line with more on it, a part with two names. The only exception raised is `MultipartError`. Time is
linear in the form, and what it may hold is bounded.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

MAX_PARTS: Final = 1000
"""No API takes so many; and no honest form has so many lines that only begin like its boundary."""

MAX_HEADER_BYTES: Final = 16 * 1024
"""Of one part."""

MAX_TEXT_BYTES: Final = 64 * 1024
"""Of a part that is read as text."""

# RFC 2046 allows 70; nobody counts, so leave room.
_MAX_BOUNDARY: Final = 200

_FORM_DATA: Final = b"multipart/form-data"
_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# `; name=value`. What is not quoted goes to the next blank or semicolon: senders leave out quotes that they owe.
_PARAMETER: Final = re.compile(
    rb"""[ \t]*;[ \t]*(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^"; \t]+)))?[ \t]*""", re.DOTALL
)
_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
# What follows a boundary on its line. Without any of it, the line only begins like one, and is content.
_REST_OF_LINE: Final = re.compile(rb"(--)?([ \t]*)(\r\n|\r|\n|\Z)?")
_QUOTED_PRINTABLE: Final = re.compile(rb"(?:[^=]|=[0-9A-Fa-f]{2}|=[ \t]*\r?\n)*")

# Encodings that leave the content as it is (RFC 2045 6.2).
_IDENTITIES: Final = frozenset({"", "7bit", "8bit", "binary"})


class MultipartError(ValueError):
    """A form, or the content type of one, that is broken, or that readers may understand in different ways."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One part: its content is ``body[start:end]`` of its form.

    Attributes:
        name: the field's name; empty when the part has none.
        encoding: its ``content-transfer-encoding``, in lower case; empty when the content stands as it is.
    """

    name: str
    start: int
    end: int
    encoding: str = ""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """A form that has been read.

    Attributes:
        boundary: without the dashes before it.
        newline: what ends its lines, CRLF or LF.
        parts: in their order.
    """

    body: bytes
    boundary: bytes
    newline: bytes = b"\r\n"
    parts: Sequence[Part] = ()

    def named(self, name: str) -> list[Part]:
        """The parts with this name, upper and lower case being different."""
        return [part for part in self.parts if part.name == name]

    def text(self, part: Part) -> str:
        """The content of a part, decoded.

        Raises:
            MultipartError: it is longer than `MAX_TEXT_BYTES`, in an unknown transfer encoding, or not UTF-8.
        """
        if part.end - part.start > MAX_TEXT_BYTES:
            raise MultipartError(f"it is longer than {MAX_TEXT_BYTES} bytes")
        content = self.body[part.start : part.end]
        if part.encoding == "quoted-printable":
            if not _QUOTED_PRINTABLE.fullmatch(content):
                raise MultipartError("it is not quoted-printable")
            content = binascii.a2b_qp(content)
        elif part.encoding:
            raise MultipartError("its content-transfer-encoding is unknown")
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise MultipartError("it is not UTF-8") from error

    def replace(self, parts: Sequence[Part], text: str) -> bytes:
        """The body with ``text`` as the content of these parts of the form; every other byte stays.

        Raises:
            MultipartError: the text holds the boundary, or a part is in an unknown transfer encoding.
        """
        pieces: list[bytes] = []
        position = 0
        for part in sorted(parts, key=lambda part: part.start):
            content = _encoded(text, part.encoding)
            if b"--" + self.boundary in content:
                raise MultipartError("the new content holds the form's boundary")
            pieces += (self.body[position : part.start], content)
            position = part.end
            if not self.body.startswith(self.newline, position):
                # An empty part may share the line end of its headers with the boundary.
                pieces.append(self.newline)
        pieces.append(self.body[position:])
        return b"".join(pieces)


def is_form(content_type: str) -> bool:
    """Whether a ``content-type`` claims to be of this format."""
    return content_type.lower().startswith(_FORM_DATA.decode())


def boundary_of(content_type: str) -> bytes:
    """The boundary that a ``content-type`` header names.

    Raises:
        MultipartError: it is none of a form, or has no boundary that a line could have.
    """
    media_type, parameters = _value_and_parameters(content_type.encode("utf-8", "surrogateescape"))
    if media_type.lower() != _FORM_DATA:
        raise MultipartError("the content type is not multipart/form-data")
    if b"boundary*" in parameters:
        raise MultipartError("an extended boundary parameter is not supported")
    boundary = parameters.get(b"boundary", b"")
    if not boundary:
        raise MultipartError("missing boundary")
    if len(boundary) > _MAX_BOUNDARY:
        raise MultipartError(f"the boundary is longer than {_MAX_BOUNDARY} bytes")
    if _CONTROL.search(boundary) or boundary[-1:] in (b" ", b"\t"):
        raise MultipartError("the boundary cannot stand in a line")
    return boundary


def read(body: bytes, boundary: bytes) -> Form:
    """Find the parts of a form. What is before its first boundary and after its closing one is ignored.

    Lines may end in LF instead of CRLF, if all that belong to the form do (contract, transcriptions 13.1).

    Raises:
        MultipartError: the form is broken, cut short, has more than `MAX_PARTS` parts, or is ambiguous.
    """
    lines = _boundary_lines(body, boundary)
    if not lines:
        raise MultipartError("the body has no part")
    newline = lines[0].newline
    parts = tuple(
        _part(body, line.end, following.start, newline, number)
        for number, (line, following) in enumerate(pairwise(lines), 1)
    )
    return Form(body=body, boundary=boundary, newline=newline, parts=parts)


class _BoundaryLine(msgspec.Struct, frozen=True):
    start: int
    end: int
    newline: bytes


def _boundary_lines(body: bytes, boundary: bytes) -> list[_BoundaryLine]:
    """The boundary's lines up to the closing one, or none at all where the closing one comes first."""
    needle = b"--" + boundary
    lines: list[_BoundaryLine] = []
    for start in _line_starts(body, needle):
        rest = _REST_OF_LINE.match(body, start + len(needle))
        assert rest is not None, "each group of the pattern may be empty"
        closing, blanks, newline = rest.groups()
        if not (closing or blanks) and newline is None:
            continue
        if newline is None or newline == b"\r":
            raise MultipartError("a boundary line goes on after the boundary")
        if not (closing or newline):
            break
        expected = lines[0].newline if lines else newline or b"\r\n"
        if start and not body.endswith(expected, 0, start):
            raise MultipartError("a boundary line follows a line with another line end")
        if closing:
            return [*lines, _BoundaryLine(start, rest.end(), newline)] if lines else []
        if newline != expected:
            raise MultipartError("boundary lines have different line ends")
        lines.append(_BoundaryLine(start, rest.end(), newline))
        if len(lines) > MAX_PARTS:
            raise MultipartError(f"the form has more than {MAX_PARTS} parts")
    if not lines:
        raise MultipartError("the boundary is nowhere in the body")
    raise MultipartError("unexpected end: the closing boundary is missing")


def _line_starts(body: bytes, needle: bytes) -> Iterator[int]:
    """Where lines begin with the boundary, whatever ended the line before."""
    starts = [0] if body.startswith(needle) else []
    for line_end in (b"\n", b"\r"):
        found = body.find(line_end + needle)
        while found >= 0:
            starts.append(found + 1)
            if len(starts) > 2 * MAX_PARTS:
                raise MultipartError("too many lines begin like the boundary")
            found = body.find(line_end + needle, found + len(needle))
    return iter(sorted(starts))


def _part(body: bytes, start: int, limit: int, newline: bytes, number: int) -> Part:
    """The part whose headers begin at ``start``; the boundary that ends it is at ``limit``."""
    try:
        headers_end, content = _end_of_headers(body, start, limit, newline)
        fields = _headers(body[start:headers_end], newline)
        name = _name(fields.get(b"content-disposition"))
    except MultipartError as error:
        raise MultipartError(f"part {number}: {error}") from None
    encoding = fields.get(b"content-transfer-encoding", b"").lower().decode("latin-1")
    return Part(
        name=name,
        start=content,
        # The line end before a boundary is the boundary's.
        end=max(content, limit - len(newline)),
        encoding="" if encoding in _IDENTITIES else encoding,
    )


def _end_of_headers(body: bytes, start: int, limit: int, newline: bytes) -> tuple[int, int]:
    """Where the headers that begin at ``start`` end, and where the content begins."""
    if body.startswith(newline, start):
        return start, start + len(newline)
    end = body.find(newline * 2, start, min(limit, start + MAX_HEADER_BYTES))
    if end >= 0:
        return end, end + 2 * len(newline)
    if limit - start > MAX_HEADER_BYTES:
        raise MultipartError(f"its headers are longer than {MAX_HEADER_BYTES} bytes")
    raise MultipartError("its headers have no end")


def _headers(block: bytes, newline: bytes) -> dict[bytes, bytes]:
    """Headers by name in lower case."""
    lines: list[bytes] = []
    for line in block.split(newline) if block else ():
        if _CONTROL.search(line):
            raise MultipartError("a header holds a control character")
        if line[:1] not in (b" ", b"\t"):
            lines.append(line)
        elif lines:
            lines[-1] += line
        else:
            raise MultipartError("a header begins with a blank")
    fields: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not (colon and _TOKEN.fullmatch(name)):
            raise MultipartError("a header has no name")
        if fields.setdefault(name.lower(), stripped := value.strip(b" \t")) is not stripped:
            raise MultipartError("a header is there twice")
    return fields


def _name(disposition: bytes | None) -> str:
    """The field's name (RFC 7578 4.2)."""
    if disposition is None:
        return ""
    kind, parameters = _value_and_parameters(disposition)
    if kind.lower() != b"form-data":
        raise MultipartError("its content-disposition is not form-data")
    if any(name.startswith(b"name*") for name in parameters):
        raise MultipartError("an extended name is not supported")
    return parameters.get(b"name", b"").decode("utf-8", "replace")


def _value_and_parameters(header: bytes) -> tuple[bytes, Mapping[bytes, bytes]]:
    """A header's value, and its parameters by name in lower case."""
    value, semicolon, _ = header.partition(b";")
    parameters: dict[bytes, bytes] = {}
    position = len(value) if semicolon else len(header)
    while position < len(header):
        match = _PARAMETER.match(header, position)
        if match is None:
            raise MultipartError("a header has a parameter that cannot be read")
        position = match.end()
        name, quoted, bare = match.groups()
        if name is None:
            continue
        if (name := name.lower()) in parameters:
            raise MultipartError("a header has a parameter twice")
        parameters[name] = bare if quoted is None else _unquoted(name, quoted)
    return value.strip(b" \t"), parameters


def _unquoted(name: bytes, quoted: bytes) -> bytes:
    r"""The text of a quoted string.

    In names of files backslashes may be the sender's own, so they stay; elsewhere ``\"`` and ``\\`` are escapes, and
    readers do not agree on others.
    """
    if b"\\" not in quoted or name == b"filename":
        return quoted
    if any(escaped not in b'"\\' for escaped in _ESCAPE.findall(quoted)):
        raise MultipartError("a header has an unknown escape")
    return _ESCAPE.sub(rb"\1", quoted)


def _encoded(text: str, encoding: str) -> bytes:
    content = text.encode()
    if not encoding:
        return content
    if encoding != "quoted-printable":
        raise MultipartError("the content-transfer-encoding of the part is unknown")
    return b"".join(b"%c" % octet if 33 <= octet <= 126 and octet != 61 else b"=%02X" % octet for octet in content)
