"""What the SDK says, in our log: one line for each kind of failure, and again at most once a minute.

Exporters log each batch that they lose, with a traceback where they did not expect the failure, and propagators quote
what a client sent. Neither may flood a log or reveal anything.
"""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

import structlog

_log = structlog.get_logger(__name__)

QUIET_SECONDS: Final = 60.0
"""For so long after a line nothing more is said of the same thing; the next line counts what was not."""

_ROOT: Final = "opentelemetry"
# They complain of what a client sends in its headers, and quote it.
_ABOUT_CLIENTS: Final = ("opentelemetry.baggage", "opentelemetry.trace", "opentelemetry.propagators")


class _Said:
    __slots__ = ("at", "since")

    def __init__(self) -> None:
        self.at = -QUIET_SECONDS
        self.since = 0


class Digest(logging.Handler):
    """Hands lines of the SDK, from whichever thread, to our log."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._clock = clock
        # The threads of exporters do not know in which worker they are.
        self._context = contextvars.copy_context()
        self._guard = threading.Lock()
        self._said: dict[tuple[str, str], _Said] = {}

    def emit(self, record: logging.LogRecord) -> None:
        since = self._due((record.name, str(record.msg)))
        if since is None:
            return
        error = record.exc_info[1] if record.exc_info else None
        fields: dict[str, object] = {"message": " ".join(record.getMessage().split())}
        if error is not None:
            fields["error"] = f"{type(error).__name__}: {error}"
        if since:
            fields["since"] = since
        tell = _log.error if record.levelno >= logging.ERROR else _log.warning
        self._context.copy().run(lambda: tell("opentelemetry", **fields))

    def _due(self, what: tuple[str, str]) -> int | None:
        """How many of the same kind were left out before this one; ``None`` if it is left out too."""
        with self._guard:
            said = self._said.setdefault(what, _Said())
            now = self._clock()
            if now - said.at < QUIET_SECONDS:
                said.since += 1
                return None
            since, said.at, said.since = said.since, now, 0
            return since


def adopt() -> None:
    """Have the SDK's lines come as ours from now on."""
    root = logging.getLogger(_ROOT)
    root.handlers = [Digest()]
    root.propagate = False
    for name in _ABOUT_CLIENTS:
        logging.getLogger(name).setLevel(logging.ERROR)
