"""Response headers and status trailers of gRPC calls, encoded (RFC 7541, 6.2.2: literals that are never inserted).

Nothing of ours is put into the client's dynamic table, so each block is a constant, or joined from constants.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote_from_bytes

INVALID_ARGUMENT: Final = 3
DEADLINE_EXCEEDED: Final = 4
RESOURCE_EXHAUSTED: Final = 8
UNIMPLEMENTED: Final = 12
INTERNAL: Final = 13
UNAVAILABLE: Final = 14

# Bytes of an encoded grpc-message; the gRPC libraries take 8 KiB of trailers.
_MAX_MESSAGE: Final = 1024
# The gRPC protocol: printable ASCII as it is, all else and the percent sign encoded.
_PLAIN: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
_CUT: Final = re.compile(r"%[0-9A-F]?\Z")


def literal(name: bytes, value: bytes) -> bytes:
    """A header field as a literal with a literal name; the name has fewer than 127 bytes."""
    return bytes((0, len(name))) + name + _length(len(value)) + value


def _length(size: int) -> bytes:
    """RFC 7541, 5.1, with a prefix of 7 bits: the high one says that the string is not Huffman-coded."""
    if size < 0x7F:
        return bytes((size,))
    encoded = bytearray((0x7F,))
    size -= 0x7F
    while size >= 0x80:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    encoded.append(size)
    return bytes(encoded)


# :status 200 has index 8 in the static table; 0x08 is a literal with the name of that entry.
_OK: Final = b"\x88"
_CONTENT_TYPE: Final = literal(b"content-type", b"application/grpc")
_IDENTITY: Final = literal(b"grpc-accept-encoding", b"identity")

RESPONSE: Final = _OK + _CONTENT_TYPE
TRAILERS_OK: Final = literal(b"grpc-status", b"0")
WRONG_METHOD: Final = b"\x08\x03405" + literal(b"allow", b"POST")
WRONG_CONTENT_TYPE: Final = b"\x08\x03415" + literal(b"accept", b"application/grpc")


def trailers(code: int, text: str = "") -> bytes:
    """The block that ends a call which has been answered."""
    if not code and not text:
        return TRAILERS_OK
    block = literal(b"grpc-status", b"%d" % code)
    if text:
        block += literal(b"grpc-message", percent_encoded(text))
    return block


def trailers_only(code: int, text: str = "") -> bytes:
    """The block that is the whole response."""
    return RESPONSE + trailers(code, text)


def unsupported_encoding(text: str) -> bytes:
    """Trailers that also say which encodings messages may have."""
    return trailers(UNIMPLEMENTED, text) + _IDENTITY


def percent_encoded(text: str) -> bytes:
    """A status message as ``grpc-message`` has it, cut where it would be too long."""
    encoded = quote_from_bytes(text.encode(errors="replace"), safe=_PLAIN)
    if len(encoded) > _MAX_MESSAGE:
        encoded = _CUT.sub("", encoded[:_MAX_MESSAGE])
    # A field has no space at either end (RFC 9113, 8.2.1).
    return encoded.strip(" ").encode()
