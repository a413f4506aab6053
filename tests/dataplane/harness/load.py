"""Clients that ask without a pause until they are told to stop, and remember every answer that was not right."""

from __future__ import annotations

import http.client
import json
import threading
from typing import TYPE_CHECKING, Any, Self

from tests.dataplane.harness.client import CHAT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.dataplane.harness.stack import Stack


class Load:
    """``clients`` threads, each with a connection of its own that it keeps. ``good`` decides on status and body."""

    def __init__(
        self,
        stack: Stack,
        document: Mapping[str, Any],
        *,
        good: Callable[[int, bytes], bool],
        clients: int = 8,
    ) -> None:
        self._port = stack.port
        self._body = json.dumps(document).encode()
        self._good = good
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._threads = [threading.Thread(target=self._run, name=f"client {n}", daemon=True) for n in range(clients)]
        self.served = 0
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        self.wait_for_more(len(self._threads))
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60.0)

    def wait_for_more(self, count: int, timeout: float = 30.0) -> None:
        """Block until ``count`` further requests have been answered, rightly or not."""
        with self._changed:
            wanted = self._answered() + count
            if not self._changed.wait_for(lambda: self._answered() >= wanted, timeout):
                raise TimeoutError(f"{self._answered()} answers after {timeout:g} s, not {wanted}")

    def _answered(self) -> int:
        return self.served + len(self.failures)

    def _run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30.0)
        while not self._stop.is_set():
            try:
                connection.request("POST", CHAT, body=self._body, headers={"content-type": "application/json"})
                response = connection.getresponse()
                body = response.read()
                fault = None if self._good(response.status, body) else f"{response.status} {body[:300]!r}"
            except (OSError, http.client.HTTPException) as error:
                fault = repr(error)
                connection.close()
            with self._changed:
                if fault is None:
                    self.served += 1
                else:
                    self.failures.append(fault)
                self._changed.notify_all()
        connection.close()
