"""Checking config files offline: every problem in one run, in lines that an editor can follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO

from filter_config.load import Problem, decode, version_problem
from filter_config.model import SchemaName
from filter_config.watch import BundleSource, ConfigUnavailable, FileSource, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from filter_config.model import Config
    from filter_config.watch import Source

OK: Final = 0
FINDINGS: Final = 1
USAGE: Final = 2

_SCHEMAS: Final = frozenset(schema.value for schema in SchemaName)

# Nothing there to check, as opposed to something there that is wrong.
_USAGE_REASONS: Final = (Reason.MISSING, Reason.UNREADABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What came of trying the credential of a backend."""

    backend: str
    works: bool
    text: str
    """Where it is from and what came of it; shows nothing of the credential."""


def check_files(
    paths: Iterable[Path],
    *,
    own_version: str | None,
    relaxed_version: bool,
    out: TextIO,
    served_schemas: frozenset[str] | None = None,
    disabled: Callable[[Config], Iterable[tuple[str, str]]] | None = None,
    probe: Callable[[Config], Iterable[Probed]] | None = None,
) -> int:
    """Prints every problem as ``file:path: what; what would be right``, and a line for each file without one.

    Args:
        paths: config files; a directory is a bundle.
        own_version: the version that configs must be for; None leaves it unchecked.
        relaxed_version: another version is only a warning.
        out: where to print.
        served_schemas: the schemas of backends that the processor can serve; None leaves it unchecked.
        disabled: the backends, by name, that the processor would disable, and why; None leaves it unchecked.
        probe: tries the credentials of a config's backends; None leaves them untried.

    Returns:
        0 when no file has an error, a fault or a credential that cannot be had (warnings are printed and do not
        count), 1 when one has, 2 when a path cannot be read.
    """
    results = []
    for path in paths:
        result, config = _check(path, own_version, served_schemas, disabled, out, relaxed=relaxed_version)
        results.append(result)
        if probe is None:
            continue
        if config is None:
            out.write(f"{path}: no credential was tried: the config cannot be used\n")
        else:
            results.append(_try(path, probe(config), out))
    return max(results, default=OK)


def _check(
    path: Path,
    own_version: str | None,
    served_schemas: frozenset[str] | None,
    disabled: Callable[[Config], Iterable[tuple[str, str]]] | None,
    out: TextIO,
    *,
    relaxed: bool,
) -> tuple[int, Config | None]:
    source: Source = BundleSource(path) if path.is_dir() else FileSource(path)
    try:
        data = source.read().data
    except ConfigUnavailable as unavailable:
        _print(out, path, Problem(path="", message=str(unavailable), fix=_unavailable_fix(unavailable)))
        return (USAGE if unavailable.reason in _USAGE_REASONS else FINDINGS), None
    decoded = decode(data)
    problems = [
        *_blank(data),
        *decoded.problems,
        *_version(decoded.config, own_version, relaxed=relaxed),
        *_unserved(decoded.config, served_schemas),
    ]
    if decoded.config is not None and disabled is not None:
        problems += _disabled(decoded.config, disabled, {problem.backend for problem in problems})
    for problem in problems:
        _print(out, path, problem)
    if any(problem.severity != "warning" for problem in problems):
        return FINDINGS, decoded.config
    out.write(f"{path}: ok{_summary(decoded.config)}\n")
    return OK, decoded.config


def _try(path: Path, probed: Iterable[Probed], out: TextIO) -> int:
    result = OK
    for found in probed:
        state = "" if found.works else "cannot be had: "
        out.write(f"{path}: credential of {found.backend}: {state}{found.text}\n")
        result = result if found.works else FINDINGS
    return result


def _blank(data: bytes) -> Iterable[Problem]:
    if not data.strip():
        yield Problem(path="", message="the document is empty", fix="write a config, if only its version")


def _unserved(config: Config | None, served_schemas: frozenset[str] | None) -> Iterable[Problem]:
    """Backends that every request to them would find unserved. An unknown schema is reported already."""
    if config is None or served_schemas is None:
        return
    for index, backend in enumerate(config.backends):
        schema = backend.schema.name
        if schema in _SCHEMAS and schema not in served_schemas:
            yield Problem(
                path=f"backends[{index}].schema.name",
                message=f"this version serves no backend of schema {schema}; requests to it are answered with 501",
                fix=f"use one of {', '.join(sorted(served_schemas))}",
                severity="warning",
            )


def _disabled(
    config: Config, disabled: Callable[[Config], Iterable[tuple[str, str]]], known: set[str | None]
) -> Iterable[Problem]:
    """Backends that cannot be used for what only the processor can see; those that have a fault already are known."""
    places = {backend.name: index for index, backend in enumerate(config.backends)}
    for name, reason in disabled(config):
        if name not in known:
            yield Problem(
                path=f"backends[{places[name]}].auth",
                message=reason,
                fix="mend it; until then requests to this backend are answered with 503",
                severity="fault",
                backend=name,
            )


def _version(config: Config | None, own_version: str | None, *, relaxed: bool) -> Iterable[Problem]:
    if config is None or own_version is None:
        return ()
    problem = version_problem(config, own_version, relaxed=relaxed)
    return () if problem is None else (problem,)


def _unavailable_fix(unavailable: ConfigUnavailable) -> str:
    if unavailable.transient:
        return "write the bundle anew, its parts first and the index last"
    return "name a config file, or a directory with a bundle"


def _print(out: TextIO, path: Path, problem: Problem) -> None:
    out.write(f"{path}:{problem}\n" if problem.path else f"{path}: {problem}\n")


def _summary(config: Config | None) -> str:
    if config is None:
        return ""
    costs = len(config.llm_request_costs) + len(config.global_llm_request_costs)
    counts = ((len(config.backends), "backend"), (costs, "cost rule"), (len(config.models), "model"))
    return f" ({', '.join(_count(number, what) for number, what in counts)})"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
