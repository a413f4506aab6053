"""The rows of the benchmark, and which of them this build can run.

A row is something that answers Envoy's filter, or nothing at all. A build may not know a transport or workers yet; its
row is then shown as missing, with the reason, so that the same command measures every version.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Literal

from extproc.settings import knobs
from extproc.transport.engines import ENGINES

Kind = Literal["control", "processor", "echo"]
CONTROL: Final = "envoy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One side of the comparison.

    Attributes:
        kind: ``control`` is Envoy alone, ``processor`` the product, ``echo`` constant replies on its transport.
        transport: the engine; empty for the control.
    """

    name: str
    kind: Kind
    meaning: str
    transport: str = ""
    workers: int = 1

    def arguments(self, known: AbstractSet[str]) -> list[str]:
        """Flags of the processor for this row, as far as they say anything in a build with these settings."""
        flags = ["--transport", self.transport] if "transport" in known else []
        return [*flags, *(["--workers", str(self.workers)] if self.workers > 1 else [])]


ROWS: Final = (
    Row(name=CONTROL, kind="control", meaning="Envoy without the filter"),
    Row(name="grpcio", kind="processor", meaning="the processor on grpcio", transport="grpcio"),
    Row(name="http2", kind="processor", meaning="the processor on our own HTTP/2", transport="http2"),
    Row(name="http2-2w", kind="processor", meaning="the same with 2 workers", transport="http2", workers=2),
    Row(name="echo-grpcio", kind="echo", meaning="constant replies on grpcio", transport="grpcio"),
    Row(name="echo-http2", kind="echo", meaning="constant replies on our own HTTP/2", transport="http2"),
)


def known_settings() -> frozenset[str]:
    """Names of the settings that this build has."""
    return frozenset(flag.field for flag in knobs())


def missing(row: Row, *, known: AbstractSet[str], engines: Collection[str] = tuple(ENGINES)) -> str:
    """Why this build cannot run a row; empty when it can."""
    match row.kind:
        case "control":
            return ""
        case "echo":
            return "" if row.transport in engines else f"no transport {row.transport}"
        case "processor":
            # Before there was a choice there was grpcio.
            if row.transport != "grpcio" and "transport" not in known:
                return "no setting transport"
            return "no setting workers" if row.workers > 1 and "workers" not in known else ""
