"""Reading Envoy's access log: one JSON object a line, found by the request id that the client has sent."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class AccessLogReader:
    """The lines of a log that Envoy is writing. Envoy flushes on a timer, so a line may be some milliseconds late."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._partial = b""
        self._entries: list[dict[str, Any]] = []

    def entries(self) -> list[dict[str, Any]]:
        """All that has been written so far, oldest first."""
        self._entries.extend(self._new())
        return list(self._entries)

    def wait_for(self, request_id: str, *, timeout: float = 10.0) -> dict[str, Any]:
        """The entry of one request.

        Raises:
            TimeoutError: it was not written in time.
        """
        deadline = time.monotonic() + timeout
        while True:
            for entry in self.entries():
                if entry.get("request_id") == request_id:
                    return entry
            if time.monotonic() > deadline:
                raise TimeoutError(f"no access log entry for request {request_id!r} after {timeout:g} s")
            time.sleep(0.01)  # Envoy offers no event for a flushed log

    def _new(self) -> Iterator[dict[str, Any]]:
        if not self._path.exists():
            return
        with self._path.open("rb") as log:
            log.seek(self._position)
            data = log.read()
        self._position += len(data)
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            if line.strip():
                yield json.loads(line)
