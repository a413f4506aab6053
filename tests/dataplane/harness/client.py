"""A client of a gateway: plain requests, and answers that are read as they come."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Self

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from tests.dataplane.harness.stack import Stack

CHAT = "/v1/chat/completions"
EMBEDDINGS = "/v1/embeddings"

_NUMBERS = itertools.count(1)


def question(model: str = "small", **fields: Any) -> dict[str, Any]:
    """A request of the chat completions API."""
    return {"model": model, "messages": [{"role": "user", "content": "Hello?"}], **fields}


def new_id(prefix: str = "request") -> str:
    """A request id that no other request of this process has."""
    return f"{prefix}-{next(_NUMBERS)}"


def connect(stack: Stack) -> httpx.Client:
    """A client without the environment's proxies and without TLS, whose set-up would cost more than a request."""
    return httpx.Client(base_url=stack.base_url, timeout=30, trust_env=False, verify=False)


class OpenAnswer:
    """An answer that is read by hand, in the bytes that came over the wire. Leaving the block hangs up."""

    def __init__(self, stack: Stack, document: object, *, path: str = CHAT, **headers: str) -> None:
        self._client = connect(stack)
        self._stream = self._client.stream("POST", path, json=document, headers=headers)
        self._seen = b""

    def __enter__(self) -> Self:
        self._response = self._stream.__enter__()
        self._pieces: Iterator[bytes] = self._response.iter_raw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stream.__exit__(kind, error, traceback)
        self._client.close()

    @property
    def status(self) -> int:
        return self._response.status_code

    @property
    def headers(self) -> httpx.Headers:
        return self._response.headers

    def until(self, part: bytes) -> bytes:
        """Read until ``part`` has come; gives all that has come so far.

        Raises:
            AssertionError: the answer ended before.
        """
        while part not in self._seen:
            piece = next(self._pieces, None)
            if piece is None:
                raise AssertionError(f"the answer ended without {part!r}: {self._seen!r}")
            self._seen += piece
        return self._seen

    def rest(self) -> bytes:
        """Read to the end; gives the whole answer."""
        self._seen += b"".join(self._pieces)
        return self._seen
