"""What is wrong with a source's resources: where, what, and what would be right.

A fault never quotes a credential. All faults of a run are collected and told at once, in an order that does not depend
on the order of the input.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final, Literal

Severity = Literal["error", "warning"]

_NUMBER: Final = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A place in a resource of a source."""

    file: str
    """The file as it was named; ``-`` is the standard input."""
    line: int = 0
    """The line where the resource begins, from 1; 0 when the resource came from no file."""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    """The path of a value in the resource, ``spec.rules[0].name``; empty for the resource as a whole."""

    def at(self, path: str) -> Origin:
        """Another place of the same resource."""
        return replace(self, path=path)

    def below(self, path: str) -> Origin:
        """A place within this one."""
        return replace(self, path=f"{self.path}.{path}" if self.path else path)

    @property
    def resource(self) -> str:
        """The resource, as messages name it: ``AIGatewayRoute default/chat``."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}".strip()

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return ": ".join(part for part in (where, self.resource, self.path) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A finding.

    ``error``: what it is about has no effect, and everything else has. ``warning``: it works, though probably not as
    meant, or it is the consequence of an error elsewhere.
    """

    origin: Origin
    message: str
    """What is wrong."""
    fix: str = ""
    """What would be right."""
    severity: Severity = "error"

    def __str__(self) -> str:
        what = self.message if self.severity == "error" else f"warning: {self.message}"
        return f"{self.origin}: {what}; {self.fix}" if self.fix else f"{self.origin}: {what}"


@dataclass(slots=True)
class Faults:
    """The faults of one run; the same fault found twice is one."""

    _found: dict[Fault, None] = field(default_factory=dict)

    def error(self, origin: Origin, message: str, fix: str = "") -> None:
        """Report what has no effect."""
        self._found[Fault(origin=origin, message=message, fix=fix)] = None

    def warning(self, origin: Origin, message: str, fix: str = "") -> None:
        """Report what works, though probably not as meant."""
        self._found[Fault(origin=origin, message=message, fix=fix, severity="warning")] = None

    def closed(self) -> tuple[Fault, ...]:
        """All faults, by file, line, resource and path."""
        return tuple(sorted(self._found, key=_order))


def _order(fault: Fault) -> tuple[object, ...]:
    origin = fault.origin
    path = tuple(int(part) if part.isdecimal() else part for part in _NUMBER.split(origin.path))
    # Texts and numbers alternate, so that the same positions are of the same type.
    return (origin.file, origin.line, origin.kind, origin.namespace, origin.name, path, fault.severity, fault.message)
