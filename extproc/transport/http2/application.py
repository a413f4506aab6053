"""What a connection asks of the application that it serves, and what it offers to it.

A connection calls its application while it reads, never later and never from another thread; an application answers
through a ``Responder`` whenever it likes, within such a call or not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

HeaderList = tuple[tuple[bytes, bytes], ...]


class Responder(Protocol):
    """The sending half of a stream. Once the stream is over, whoever ended it, everything here has no effect."""

    @property
    def full(self) -> bool:
        """Whether so much output waits for the peer that no further message should be handled."""

    def handled(self) -> None:
        """A message was handled: the peer may ask for more than one that only causes work."""

    def headers(self, block: bytes, *, end: bool = False) -> None:
        """Send a header block; with ``end`` it is the last thing of the stream.

        Args:
            block: encoded without reference to the dynamic table, at most 16 KiB.
            end: this block closes the stream (a response without content, or trailers).
        """

    def data(self, data: bytes) -> None:
        """Send bytes, in frames and at a pace that suits the peer."""

    def expire(self, seconds: float) -> None:
        """Ask for a call of ``Handler.expired`` when the stream is still there after so many seconds."""


class Handler(Protocol):
    """The receiving half of a stream. No method may raise."""

    def data(self, data: bytes, start: int, stop: int) -> int:
        """Take ``data[start:stop]``, which the client sent.

        Returns:
            Up to where it was taken. The rest, left because the responder is ``full``, comes again later.
        """

    def end(self) -> None:
        """The client has sent everything."""

    def expired(self) -> None:
        """The time that was asked for is over."""

    def lost(self) -> None:
        """The stream is over before the application ended it. Called at most once, and then nothing else."""


class _Silent:
    """The handler of a stream that nobody handles any more."""

    def data(self, _data: bytes, _start: int, stop: int) -> int:
        return stop

    def end(self) -> None: ...
    def expired(self) -> None: ...
    def lost(self) -> None: ...


SILENT: Final[Handler] = _Silent()

Route = Callable[[Responder], Handler]


class Application(Protocol):
    """What is served; one for any number of connections."""

    def route(self, headers: HeaderList) -> Route:
        """What handles requests with these headers, which are valid by RFC 9113.

        A pure function: a connection remembers its result for requests whose headers are the same.
        """
