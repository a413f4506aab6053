"""What is wrong with a config: one value per finding, and the list that collects them all.

A finding never quotes a credential. Its path is that of the document, ``backends[2].auth.apiKey.key``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Literal

Severity = Literal["error", "fault", "warning"]

MAX_REPEATS: Final = 1000
"""How many errors, and how many warnings, are kept. Faults are all kept: each one disables a backend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A finding in a config document.

    ``error``: the document is refused, and the config before it stays. ``fault``: only the backend named by ``backend``
    is disabled, the rest works. ``warning``: the document works, though probably not as meant.
    """

    path: str
    """Where: the path of the value in the document; empty for the document as a whole."""
    message: str
    """What is wrong."""
    fix: str = ""
    """What would be right."""
    severity: Severity = "error"
    backend: str | None = None
    """For a fault, the name of the backend that it disables."""

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        what = self.message if self.severity == "error" else f"{self.severity}: {self.message}"
        return f"{where}{what}; {self.fix}" if self.fix else f"{where}{what}"


@dataclass(slots=True)
class Findings:
    """The problems of one document, in the order they were found."""

    problems: list[Problem] = field(default_factory=list)
    _paths: set[str] = field(default_factory=set)
    _counts: dict[Severity, int] = field(default_factory=dict)

    def error(self, path: str, message: str, fix: str = "") -> None:
        """Report what refuses the document."""
        self._paths.add(path)
        self._add(Problem(path=path, message=message, fix=fix, severity="error"))

    def fault(self, path: str, message: str, fix: str = "", *, backend: str) -> None:
        """Report what disables a backend."""
        self.problems.append(Problem(path=path, message=message, fix=fix, severity="fault", backend=backend))

    def warning(self, path: str, message: str, fix: str = "") -> None:
        """Report what works, though probably not as meant."""
        self._add(Problem(path=path, message=message, fix=fix, severity="warning"))

    def has_error(self, path: str) -> bool:
        """Whether the value at this path, or what it lies in, could not be read: nothing more can be said of it."""
        if not self._paths:
            return False
        while path:
            if path in self._paths:
                return True
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return False

    def demote(self, path: str) -> None:
        """Make warnings of the faults below a path: what they would disable is not in use."""
        for index, problem in enumerate(self.problems):
            if problem.severity == "fault" and problem.path.startswith(f"{path}."):
                self.problems[index] = replace(problem, severity="warning", backend=None)

    @property
    def crowded(self) -> bool:
        """Whether no more warnings are kept, so that none need be worded with care."""
        return self._counts.get("warning", 0) >= MAX_REPEATS

    @property
    def refused(self) -> bool:
        """Whether the document is refused."""
        return "error" in self._counts

    def closed(self) -> tuple[Problem, ...]:
        """All that was kept, and how many more there were."""
        hidden = (
            Problem(path="", message=f"{count - MAX_REPEATS} more problems of severity {severity}", severity=severity)
            for severity, count in self._counts.items()
            if count > MAX_REPEATS
        )
        return (*self.problems, *hidden)

    def _add(self, problem: Problem) -> None:
        count = self._counts.get(problem.severity, 0) + 1
        self._counts[problem.severity] = count
        if count <= MAX_REPEATS:
            self.problems.append(problem)
