"""Decodes HTTP content codings (RFC 9110, 8.4) piece by piece, with a bound on what comes out.

A decoder takes the bytes as they come, cut anywhere, and gives at once what they decode to, in time linear in the
stream. What it allocates is checked while it decodes, not after: a decompression bomb ends in `DecodeError` close to
the limit. The limit is on the output of each coding over the whole stream.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, Protocol

import brotli
import zstandard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

DEFAULT_LIMIT: Final = 256 * 1024 * 1024

# Codings on one body; who applies more means no good.
_MAX_CODINGS: Final = 4
# Input goes to the libraries in slices. After the end of a gzip member or a zstd frame, they copy what is left of the
# slice, so this keeps a body of many tiny members linear; and zstd offers no bound on its output but that of its
# input, of which 4 bytes may stand for a block of 128 KiB.
_SLICE: Final = 8192
_ZSTD_SLICE: Final = 512
_BROTLI_STEP: Final = 1024 * 1024
# RFC 9659: an encoder must not ask for a larger window.
_ZSTD_WINDOW: Final = 8 * 1024 * 1024
# How zlib is told the format.
_GZIP, _ZLIB, _RAW_DEFLATE = 31, 15, -15


class DecodeError(ValueError):
    """The bytes are not what the content coding says, are cut short, or decode to too much."""


class Decoder:
    """Decodes one body, whose codings may be several.

    Attributes:
        started: whether any byte has come. A body of no bytes is whole under every coding.
    """

    __slots__ = ("_failed", "_stages", "started")

    def __init__(self, stages: Sequence[_Stage]) -> None:
        self.started = False
        self._stages = stages
        self._failed = False

    def feed(self, data: bytes) -> bytes:
        """What ``data``, after all before it, decodes to; that may be nothing yet.

        Raises:
            DecodeError: the data is corrupt, or decodes to more than the limit; or it was so before.
        """
        if not data:
            return b""
        if self._failed:
            raise DecodeError("the body could not be decoded before")
        self.started = self._failed = True
        for stage in self._stages:
            if data:
                data = stage.feed(data)
        self._failed = False
        return data

    def finish(self) -> bytes:
        """The body has ended; returns what was held back, which with these codings is nothing.

        Raises:
            DecodeError: the body is cut short, or could not be decoded before.
        """
        if self._failed:
            raise DecodeError("the body could not be decoded before")
        if self.started:
            for stage in self._stages:
                stage.finish()
        return b""


class _Stage(Protocol):
    def feed(self, data: bytes) -> bytes: ...

    def finish(self) -> None:
        """Raise when the end of the coding is missing."""


def decoder_for(content_encoding: str, *, limit: int = DEFAULT_LIMIT) -> Decoder | None:
    """A decoder for a ``content-encoding`` header; ``None`` when a coding is unknown, or there are too many.

    ``identity`` and the empty value give a decoder that changes nothing.

    Args:
        content_encoding: codings in the order in which they were applied, comma-separated, in any case.
        limit: the most bytes that each coding may decode to.
    """
    codings = [name for item in content_encoding.lower().split(",") if (name := item.strip()) not in ("", "identity")]
    if len(codings) > _MAX_CODINGS or not SUPPORTED.issuperset(codings):
        return None
    return Decoder([_STAGES[coding](_Budget(limit)) for coding in reversed(codings)])


def acceptable(accept_encoding: str) -> str | None:
    """A client's ``accept-encoding`` without the codings that cannot be decoded; ``None`` when it may stay as it is.

    ``*`` goes too, for it stands for unknown ones. Weights stay. When nothing is left, it is ``identity``.
    """
    items = [text for item in accept_encoding.split(",") if (text := item.strip())]
    kept = [item for item in items if _is_decodable(item.partition(";")[0].rstrip().lower())]
    if len(kept) == len(items):
        return None
    return ", ".join(kept) or "identity"


def _is_decodable(coding: str) -> bool:
    return coding == "identity" or coding in SUPPORTED


class _Budget:
    """What a coding may still decode to."""

    __slots__ = ("left",)

    def __init__(self, limit: int) -> None:
        self.left = limit

    def spend(self, output: bytes) -> bytes:
        self.left -= len(output)
        if self.left < 0:
            raise DecodeError("decoded data exceeds the limit")
        return output


class _Gzip:
    """Members one after another; zeros may stand between them and behind, for some writers pad so."""

    __slots__ = ("_budget", "_member")

    def __init__(self, budget: _Budget) -> None:
        self._budget = budget
        self._member = zlib.decompressobj(_GZIP)

    def feed(self, data: bytes) -> bytes:
        outputs: list[bytes] = []
        for piece in _slices(data, _SLICE):
            rest = piece
            while rest:
                if self._member.eof:
                    if not (rest := rest.lstrip(b"\0")):
                        break
                    self._member = zlib.decompressobj(_GZIP)
                outputs.append(_inflate(self._member, rest, self._budget))
                rest = self._member.unused_data
        return b"".join(outputs)

    def finish(self) -> None:
        _require_end(ended=self._member.eof)


class _Deflate:
    """The zlib format, as RFC 9110 has it, or raw deflate, as some servers have it."""

    __slots__ = ("_budget", "_head", "_stream")

    def __init__(self, budget: _Budget) -> None:
        self._budget = budget
        self._head = b""
        self._stream: zlib._Decompress | None = None

    def feed(self, data: bytes) -> bytes:
        if self._stream is None:
            self._head += data
            if len(self._head) < 2:
                return b""
            data = self._head
            self._stream = zlib.decompressobj(_ZLIB if _has_zlib_header(data) else _RAW_DEFLATE)
        output = _inflate(self._stream, data, self._budget)
        if self._stream.unused_data:
            raise DecodeError("data after the end")
        return output

    def finish(self) -> None:
        _require_end(ended=self._stream is not None and self._stream.eof)


class _Brotli:
    __slots__ = ("_budget", "_stream")

    def __init__(self, budget: _Budget) -> None:
        self._budget = budget
        self._stream = brotli.Decompressor()

    def feed(self, data: bytes) -> bytes:
        outputs: list[bytes] = []
        try:
            output = self._stream.process(data, output_buffer_limit=_BROTLI_STEP)
            while output:
                outputs.append(self._budget.spend(output))
                if self._stream.is_finished():
                    break
                output = self._stream.process(b"", output_buffer_limit=_BROTLI_STEP)
        except brotli.error as error:
            raise DecodeError(f"corrupt data: {error}") from error
        return b"".join(outputs)

    def finish(self) -> None:
        _require_end(ended=self._stream.is_finished())


class _Zstd:
    """Frames one after another."""

    __slots__ = ("_budget", "_frame", "_library")

    def __init__(self, budget: _Budget) -> None:
        self._budget = budget
        self._library = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
        self._frame: zstandard.ZstdDecompressionObj | None = None

    def feed(self, data: bytes) -> bytes:
        outputs: list[bytes] = []
        try:
            for piece in _slices(data, _ZSTD_SLICE):
                rest = piece
                while rest:
                    frame = self._frame = self._frame or self._library.decompressobj()
                    outputs.append(self._budget.spend(frame.decompress(rest)))
                    rest = frame.unused_data
                    if frame.eof:
                        self._frame = None
        except zstandard.ZstdError as error:
            raise DecodeError(f"corrupt data: {error}") from error
        return b"".join(outputs)

    def finish(self) -> None:
        _require_end(ended=self._frame is None)


def _slices(data: bytes, size: int) -> Iterable[bytes]:
    if len(data) <= size:
        return (data,)
    return (data[start : start + size] for start in range(0, len(data), size))


def _inflate(stream: zlib._Decompress, data: bytes, budget: _Budget) -> bytes:
    try:
        return budget.spend(stream.decompress(data, budget.left + 1))
    except zlib.error as error:
        raise DecodeError(f"corrupt data: {error}") from error


def _has_zlib_header(data: bytes) -> bool:
    """RFC 1950, 2.2. No raw stream begins so: it would be a stored block with its padding bits set."""
    method, flags = data[0], data[1]
    return method & 0x0F == 8 and method >> 4 <= 7 and (method << 8 | flags) % 31 == 0


def _require_end(*, ended: bool) -> None:
    if not ended:
        raise DecodeError("the body is cut short")


_STAGES: Final[dict[str, Callable[[_Budget], _Stage]]] = {
    "br": _Brotli,
    "deflate": _Deflate,
    "gzip": _Gzip,
    "x-gzip": _Gzip,
    "zstd": _Zstd,
}

SUPPORTED: Final = frozenset(_STAGES)
"""The codings that can be decoded, in lower case."""
