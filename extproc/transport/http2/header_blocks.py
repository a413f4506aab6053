"""Encoded header blocks → header lists (RFC 7541), and what has been made of them.

A client sends the same request again and again: its block consists of references to the dynamic table, and of
literals that leave the table alone. As long as the table does not change, equal blocks are equal header lists. So
what was made of such a block is remembered, and everything is forgotten with the first block that changes the table.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from hpack import Decoder, HPACKError, OversizedHeaderListError
from hpack.table import HeaderTable

from extproc.transport.http2.application import HeaderList
from extproc.transport.http2.frames import ConnectionFault, ErrorCode
from extproc.transport.http2.limits import Limits

_FIELD_OVERHEAD: Final = 32
_SIZE_UPDATE_MASK: Final = 0xE0
_SIZE_UPDATE: Final = 0x20

T = TypeVar("T")


class _WatchedTable(HeaderTable):
    """A dynamic table that counts its insertions."""

    def __init__(self) -> None:
        super().__init__()
        self.insertions = 0

    def add(self, name: bytes, value: bytes) -> None:
        self.insertions += 1
        super().add(name, value)


class HeaderBlocks(Generic[T]):
    """The decoder of a connection, with its memory.

    ``T`` is what is made of a header list.
    """

    __slots__ = ("_decoder", "_limits", "_remembered", "_steady", "_table", "recall")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        # Above the soft limit a list is decoded still, and refused; the decoder stops where that would cost too much.
        self._decoder = Decoder(max(limits.max_header_block, limits.max_header_list_size))
        self._table = self._decoder.header_table = _WatchedTable()
        self._remembered: dict[bytes, T] = {}
        self._steady = False
        # What was made of this very block, or None. A bound method, because it is called for every request.
        self.recall = self._remembered.get

    def decode(self, block: bytes) -> HeaderList:
        """Decode the next block of the connection; every block has to come here or be recalled.

        Raises:
            ConnectionFault: it cannot be decoded, which leaves both ends with different tables.
        """
        before = self._table.insertions
        try:
            headers = tuple((name, value) for name, value in self._decoder.decode(block, raw=True))
        except OversizedHeaderListError as error:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "header list too large") from error
        except HPACKError as error:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, "header block cannot be decoded") from error
        # RFC 7541, 4.2: the size of the table changes at the beginning of a block, or nowhere.
        resized = bool(block) and block[0] & _SIZE_UPDATE_MASK == _SIZE_UPDATE
        self._steady = before == self._table.insertions and not resized
        if not self._steady:
            self._remembered.clear()
        return headers

    def remember(self, block: bytes, made: T) -> None:
        """Keep what was made of the block that was decoded last."""
        if not self._steady or len(block) > self._limits.cached_block_bytes:
            return
        if len(self._remembered) >= self._limits.cached_blocks:
            self._remembered.clear()
        self._remembered[block] = made


def list_size(headers: HeaderList) -> int:
    """The size of a header list as SETTINGS_MAX_HEADER_LIST_SIZE counts it (RFC 9113, 6.5.2)."""
    return sum(len(name) + len(value) + _FIELD_OVERHEAD for name, value in headers)
