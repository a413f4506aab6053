"""Fuzz target of the content codings: any octets decode or raise `DecodeError`, the same under any cut."""

from __future__ import annotations

import gzip
import zlib

import brotli
import zstandard

from extproc.formats.encoding import DecodeError, acceptable, decoder_for
from tests.fuzz.driver import drive

CODINGS = ("gzip", "deflate", "br", "zstd", "gzip, br", "deflate, zstd", "identity", "br, gzip, zstd")
LIMIT = 1 << 20
# What may be decoded beyond the limit before it is noticed: one step of the slowest library to tell.
SLACK = 32 << 20

_TEXT = b'data: {"choices":[{"delta":{"content":"hello"}}]}\n\n' * 4
_RAW = zlib.compressobj(wbits=-15)

# The first octet chooses the coding, and the second the size of the pieces.
SEEDS = (
    b"\x00\x01" + gzip.compress(_TEXT, mtime=0),
    b"\x00\x05" + gzip.compress(b"a", mtime=0) + gzip.compress(b"b", mtime=0) + bytes(8),
    b"\x01\x01" + zlib.compress(_TEXT),
    b"\x01\x03" + _RAW.compress(_TEXT) + _RAW.flush(),
    b"\x02\x02" + brotli.compress(_TEXT),
    b"\x03\x07" + zstandard.compress(_TEXT) + b"\x50\x2a\x4d\x18\x01\x00\x00\x00x" + zstandard.compress(b"a"),
    b"\x04\x10" + brotli.compress(gzip.compress(_TEXT, mtime=0)),
    b"\x05\x10" + zstandard.compress(zlib.compress(_TEXT)),
    b"\x06\x10" + _TEXT,
    b"\x07\x10" + zstandard.compress(gzip.compress(brotli.compress(_TEXT), mtime=0)),
    b"\x00\x40" + gzip.compress(bytes(2 << 20), mtime=0),
    b"\x03\x40" + zstandard.compress(bytes(2 << 20)),
)


def one_input(data: bytes) -> None:
    """Decode whole and in pieces. Raises nothing; asserts that both agree and keep to the limit."""
    head, body = data[:2].ljust(2, b"\0"), data[2:]
    coding = CODINGS[head[0] % len(CODINGS)]
    size = head[1] or 1
    whole = _decode(coding, [body])
    parts = _decode(coding, [body[i : i + size] for i in range(0, len(body), size)])
    assert whole == parts
    rewritten = acceptable(body[:60].decode("latin-1"))
    assert rewritten is None or acceptable(rewritten) is None


def _decode(coding: str, pieces: list[bytes]) -> bytes | None:
    """What the body decodes to, or ``None`` when it does not."""
    decoder = decoder_for(coding, limit=LIMIT)
    assert decoder is not None
    output = b""
    try:
        for piece in pieces:
            output += decoder.feed(piece)
        output += decoder.finish()
    except DecodeError:
        assert len(output) <= LIMIT + SLACK
        return None
    assert len(output) <= LIMIT or coding == "identity"
    return output


if __name__ == "__main__":
    drive(one_input, name="encoding", package="extproc.formats", seeds=SEEDS)
