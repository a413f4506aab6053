"""RFC 7541 for a peer in tests: builds every representation, wrong ones as well, and reads what a server encoded.

Written from the RFC and independent of any HPACK library, so that a fault which the engine shares with its library
shows. The reader is strict where a client may be: a server that owes a table size update has to send it (RFC 9113,
4.3.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

# RFC 7541, appendix A; entry 1 comes first.
STATIC = tuple(
    (name.encode(), value.encode())
    for name, _, value in (
        line.partition("=")
        for line in (
            ":authority :method=GET :method=POST :path=/ :path=/index.html :scheme=http :scheme=https :status=200"
            " :status=204 :status=206 :status=304 :status=400 :status=404 :status=500 accept-charset"
            " accept-encoding=gzip,_deflate accept-language accept-ranges accept access-control-allow-origin age allow"
            " authorization cache-control content-disposition content-encoding content-language content-length"
            " content-location content-range content-type cookie date etag expect expires from host if-match"
            " if-modified-since if-none-match if-range if-unmodified-since last-modified link location max-forwards"
            " proxy-authenticate proxy-authorization range referer refresh retry-after server set-cookie"
            " strict-transport-security transfer-encoding user-agent vary via www-authenticate"
        )
        .replace("_", "\0")
        .split()
    )
)
STATIC = tuple((name, value.replace(b"\0", b" ")) for name, value in STATIC)

# RFC 7541, appendix B: the code is canonical, so the lengths of the codes of octets 0 to 255 and EOS tell all of it.
# ``n*k`` stands for k octets in a row.
_LENGTHS = (
    "13 23 28*7 24 30 28*2 30 28*8 30 28*9 6 10*2 12 13 6 8 11 10*2 8 11 8 6*3 5*3 6*7 7 8 15 6 12 10 13 6 7*22 8 7 8"
    " 13 19 13 14 6 15 5 6 5 6 5 6*3 5 7*2 6*3 5 6 7 6 5*2 6 7*5 15 11 14 13 28 20 22 20*2 22*3 23 22 23*5 24 23 24*2"
    " 22 23 24 23*4 21 22 23 22 23*2 24 22 21 20 22*2 23*2 21 23 22*2 24 21 22 23*2 21*2 22 21 23 22 23*2 20 22*3 23"
    " 22*2 23 26*2 20 19 22 23 22 25 26*3 27*2 26 24 25 19 21 26 27*2 26 27 24 21*2 26*2 28 27*3 20 24 20 21 22 21*2"
    " 23 22*2 25*2 24*2 26 23 26 27 26*2 27*5 28 27*5 26 30"
)
EOS = 256
ENTRY_OVERHEAD = 32
DEFAULT_TABLE = 4096


def _codes() -> list[tuple[int, int]]:
    """Return (code, number of bits) by symbol."""
    lengths = [
        int(length) for word in _LENGTHS.split() for length, _, n in [word.partition("*")] for _ in range(int(n or 1))
    ]
    codes = [(0, 0)] * len(lengths)
    code = 0
    by_length = groupby(sorted(range(len(lengths)), key=lambda symbol: (lengths[symbol], symbol)), lengths.__getitem__)
    previous = 0
    for length, symbols in by_length:
        code <<= length - previous
        previous = length
        for symbol in symbols:
            codes[symbol] = (code, length)
            code += 1
    return codes


HUFFMAN = _codes()
_SYMBOLS = {(code, bits): symbol for symbol, (code, bits) in enumerate(HUFFMAN)}


# --- building -------------------------------------------------------------------------------------------------------


def integer(value: int, *, prefix: int, first: int = 0, overlong: int = 0) -> bytes:
    """RFC 7541, 5.1: ``value`` in ``prefix`` bits, the rest of the first octet being ``first``.

    ``overlong`` octets that carry nothing are added at the end; the value stays the same.
    """
    limit = (1 << prefix) - 1
    if value < limit and not overlong:
        return bytes([first | value])
    out = bytearray([first | limit])
    value -= limit
    while value > 0x7F:
        out.append(0x80 | value & 0x7F)
        value >>= 7
    out.append(value)
    if overlong:
        out[-1] |= 0x80
        out += b"\x80" * (overlong - 1) + b"\0"
    return bytes(out)


def huffman(data: bytes, *, padding: str | None = None, eos: bool = False) -> bytes:
    """RFC 7541, 5.2: octets as Huffman codes; ``padding`` bits instead of the right ones, or EOS within the string."""
    bits = "".join(format(HUFFMAN[octet][0], f"0{HUFFMAN[octet][1]}b") for octet in data)
    if eos:
        bits += "1" * HUFFMAN[EOS][1]
    bits += "1" * (-len(bits) % 8) if padding is None else padding
    return int("1" + bits, 2).to_bytes(len(bits) // 8 + 1, "big")[1:] if bits else b""


def string(data: bytes, *, coded: bool = False) -> bytes:
    """A string literal, Huffman coded or plain."""
    octets = huffman(data) if coded else data
    return integer(len(octets), prefix=7, first=0x80 if coded else 0) + octets


def coded_string(octets: bytes) -> bytes:
    """A string literal which says that ``octets`` are Huffman codes."""
    return integer(len(octets), prefix=7, first=0x80) + octets


def indexed(index: int) -> bytes:
    return integer(index, prefix=7, first=0x80)


def literal(name: bytes | int, value: bytes, *, coded: bool = False, kind: str = "without") -> bytes:
    """A literal field: ``kind`` is ``incremental``, ``without`` or ``never`` indexing; ``name`` may be an index."""
    prefix, first = {"incremental": (6, 0x40), "without": (4, 0x00), "never": (4, 0x10)}[kind]
    if isinstance(name, int):
        return integer(name, prefix=prefix, first=first) + string(value, coded=coded)
    return bytes([first]) + string(name, coded=coded) + string(value, coded=coded)


def table_size(size: int) -> bytes:
    return integer(size, prefix=5, first=0x20)


def block(fields: Iterable[tuple[bytes, bytes]], *, coded: bool = False, kind: str = "without") -> bytes:
    """Every field as a literal with a literal name."""
    return b"".join(literal(name, value, coded=coded, kind=kind) for name, value in fields)


# --- reading --------------------------------------------------------------------------------------------------------


class BadBlock(Exception):
    """The server's field block breaks a rule."""


class Reader:
    """Decodes field blocks in order, and holds the server to the table size that it acknowledged."""

    def __init__(self) -> None:
        self._table: list[tuple[bytes, bytes]] = []
        self._size = DEFAULT_TABLE
        self._allowed = DEFAULT_TABLE
        self._owed: int | None = None

    def acknowledged(self, size: int) -> None:
        """The server acknowledged a SETTINGS_HEADER_TABLE_SIZE of ``size``."""
        self._allowed = size
        if size < self._size or self._owed is not None:
            self._owed = size if self._owed is None else min(size, self._owed)

    def read(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Return the fields of one block.

        Raises:
            BadBlock: it cannot be decoded, or does not begin with the table size update that is due.
        """
        fields: list[tuple[bytes, bytes]] = []
        position, updates = 0, []
        while position < len(data):
            octet = data[position]
            if octet & 0xE0 == 0x20:
                if fields:
                    raise BadBlock("a table size update after a field")
                size, position = _integer(data, position, 5)
                updates.append(size)
                self._resize(size)
                continue
            self._settle(updates)
            if octet & 0x80:
                index, position = _integer(data, position, 7)
                fields.append(self._entry(index))
                continue
            index, position = _integer(data, position, 6 if octet & 0x40 else 4)
            name, position = (self._entry(index)[0], position) if index else _string(data, position)
            value, position = _string(data, position)
            fields.append((name, value))
            if octet & 0x40:
                self._table.insert(0, (name, value))
                self._evict()
        self._settle(updates)
        return fields

    def _settle(self, updates: list[int]) -> None:
        if self._owed is not None and min(updates, default=DEFAULT_TABLE + 1) > self._owed:
            raise BadBlock(f"a table size update to at most {self._owed} is due, the block begins with {updates}")
        self._owed = None

    def _resize(self, size: int) -> None:
        if size > self._allowed:
            raise BadBlock(f"table size update to {size}, of {self._allowed} that are allowed")
        self._size = size
        self._evict()

    def _evict(self) -> None:
        while sum(len(name) + len(value) + ENTRY_OVERHEAD for name, value in self._table) > self._size:
            self._table.pop()

    def _entry(self, index: int) -> tuple[bytes, bytes]:
        if not 1 <= index <= len(STATIC) + len(self._table):
            raise BadBlock(f"index {index}, the table has {len(self._table)} entries")
        return STATIC[index - 1] if index <= len(STATIC) else self._table[index - len(STATIC) - 1]


def _integer(data: bytes, position: int, prefix: int) -> tuple[int, int]:
    limit = (1 << prefix) - 1
    value = data[position] & limit
    position += 1
    shift = 0
    while value >= limit:
        if position >= len(data):
            raise BadBlock("an integer without an end")
        value += (data[position] & 0x7F) << shift
        shift += 7
        position += 1
        if not data[position - 1] & 0x80:
            break
    return value, position


def _string(data: bytes, position: int) -> tuple[bytes, int]:
    if position >= len(data):
        raise BadBlock("a string is missing")
    coded = data[position] & 0x80
    length, position = _integer(data, position, 7)
    octets = data[position : position + length]
    if len(octets) < length:
        raise BadBlock("a string without an end")
    return _plain(octets) if coded else octets, position + length


def _plain(octets: bytes) -> bytes:
    out = bytearray()
    code = bits = 0
    for octet in octets:
        for shift in range(7, -1, -1):
            code, bits = code << 1 | octet >> shift & 1, bits + 1
            symbol = _SYMBOLS.get((code, bits))
            if symbol is not None:
                if symbol == EOS:
                    raise BadBlock("EOS in a string")
                out.append(symbol)
                code = bits = 0
    if bits > 7 or code != (1 << bits) - 1:
        raise BadBlock("padding that is not the beginning of EOS")
    return bytes(out)
