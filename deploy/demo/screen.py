"""What the demo says, on lines that a person can follow: a title per step, a label per fact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import TextIO

_LABEL_WIDTH: Final = 24


class Screen:
    """Writes to a stream, and flushes each time: a stream that is shown late is no stream."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def title(self, text: str) -> None:
        self._write(f"\n{text}\n")

    def fact(self, label: str, text: str) -> None:
        self._write(f"   {label:<{_LABEL_WIDTH}}{text}\n")

    def line(self, text: str = "") -> None:
        self._write(f"{text}\n")

    def start(self, label: str) -> None:
        """The label of a fact that is going to arrive in pieces."""
        self._write(f"   {label:<{_LABEL_WIDTH}}")

    def piece(self, text: str) -> None:
        self._write(text)

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
