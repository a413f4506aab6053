"""Bytes of a filter config to :class:`~filter_config.model.Config`, with every problem found on the way.

The same for a single file and for an assembled bundle. Nothing here looks at files, clocks or the environment, so a
loader may run it in another process and hand the result over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from filter_config.decode import read, shown
from filter_config.document import DocumentError, read_document
from filter_config.model import Config
from filter_config.problems import Findings, Problem, Severity
from filter_config.validate import validate

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEVELOPMENT_VERSION", "Decoded", "Problem", "Severity", "decode", "own_version", "version_problem"]

DEVELOPMENT_VERSION: Final = "dev"
"""The version of a build without a tag."""

# git describe --long: <tag>-<commits since>-g<sha>; a tag may have dashes of its own.
_DESCRIBE: Final = re.compile(r"(?P<tag>.*)-(?P<commits>\+?[0-9]{1,18})-g?(?P<sha>[^-]*)\Z", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A document read: the config, unless an error refuses it, and all problems in the order they were found."""

    config: Config | None
    problems: tuple[Problem, ...] = ()

    @property
    def faults(self) -> Mapping[str, tuple[Problem, ...]]:
        """The faults by the name of the backend that they disable."""
        by_backend: dict[str, tuple[Problem, ...]] = {}
        for problem in self.problems:
            if problem.severity == "fault" and problem.backend is not None:
                by_backend[problem.backend] = (*by_backend.get(problem.backend, ()), problem)
        return by_backend


def decode(data: bytes) -> Decoded:
    """Reads and checks a filter config, YAML 1.1 or JSON (contract, filter config 2.1 to 2.7). Never raises.

    An empty document is an all-zero config, as the peer has it; the version rule then refuses it.
    """
    findings = Findings()
    try:
        document = read_document(data)
    except DocumentError as error:
        findings.error("", str(error), "write one YAML or JSON document")
        return Decoded(config=None, problems=findings.closed())
    for line, key in document.repeated_keys:
        findings.warning(
            "", f"line {line}: key {shown(key)} is given twice in one mapping; the last one is used", "keep one"
        )
    config = validate(read(Config, document.value, findings), findings)
    return Decoded(config=None if findings.refused else config, problems=findings.closed())


def version_problem(config: Config, own_version: str, *, relaxed: bool) -> Problem | None:
    """What the version rule has against a config: its version must be our own, exactly (contract, filter config 2.10).

    Args:
        config: the decoded config.
        own_version: the version that this processor claims, see :func:`own_version`.
        relaxed: accept another version with a warning, for a processor that is rolled out apart from its control plane.
    """
    if config.version == own_version:
        return None
    return Problem(
        path="version",
        message=(
            f'config version mismatch: expected "{own_version}", got "{config.version}". '
            "Likely in the middle of rolling update"
        ),
        fix=f'write "{own_version}", or let the processor claim or accept another version',
        severity="warning" if relaxed else "error",
    )


def own_version(describe: str | None) -> str:
    """The version that a build claims, from its ``git describe --long`` text (contract, filter config 2.10).

    ``v1.2.0-0-gabc1234`` is ``v1.2.0``, ``v1.2.0-3-gabc1234`` is ``abc1234 (v1.2.0, +3)``, anything else ``dev``.
    """
    match = _DESCRIBE.match(describe or "")
    if match is None:
        return DEVELOPMENT_VERSION
    commits = int(match["commits"])
    if commits == 0:
        return match["tag"] or DEVELOPMENT_VERSION
    return f"{match['sha']} ({match['tag']}, +{commits})"
