"""Whether the credentials of a config can be had, from where this runs; for ``extproc check --credentials``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from extproc.auth.build import build_authenticator
from extproc.auth.sources import Cells, Fetched, RefreshedCell, Source, SourceError
from extproc.errors import BackendFault
from extproc.golang import format_duration
from filter_config.check import Probed
from filter_config.model import Backend, Config

_THREADS = 8


def probe(config: Config) -> Iterator[Probed]:
    """Ask each source once, and say for each backend that needs a credential where it is from and whether it works."""
    cells = Cells()
    found = [(backend, _cell(backend, cells)) for backend in config.backends if backend.auth is not None]
    with ThreadPoolExecutor(_THREADS) as threads:
        answers = dict(zip(cells.used, threads.map(_ask, (cell.source for cell in cells.used)), strict=True))
    for backend, cell in found:
        match cell:
            case RefreshedCell():
                works, text = answers[cell]
                yield Probed(backend=backend.name, works=works, text=f"{cell.source.name}: {text}")
            case str(fault):
                yield Probed(backend=backend.name, works=False, text=fault)
            case None:
                yield Probed(backend=backend.name, works=True, text=_given(backend))


def disabled(config: Config) -> Iterator[tuple[str, str]]:
    """The backends, by name, whose ``auth`` cannot be used, and why; nothing is asked for a credential."""
    for backend in config.backends:
        if backend.auth is not None:
            try:
                build_authenticator(backend.auth, Cells())
            except BackendFault as fault:
                yield backend.name, str(fault)


def _cell(backend: Backend, cells: Cells) -> RefreshedCell[Any] | str | None:
    """The cell of what has to be fetched, or why there is none, or nothing where nothing has to be fetched."""
    assert backend.auth is not None
    own = Cells({cell.source.key: cell for cell in cells.used})
    try:
        build_authenticator(backend.auth, own)
    except BackendFault as fault:
        return str(fault)
    return next((cells.of(cell.source) for cell in own.used), None)


def _given(backend: Backend) -> str:
    assert backend.auth is not None
    override = backend.auth.credential_override
    if override is not None and not override.fallback_to_configured:
        return "comes with each request"
    return "is in the config"


def _ask(source: Source[Any]) -> tuple[bool, str]:
    try:
        fetched: Fetched[Any] = source.fetch()
    except SourceError as error:
        return False, str(error)
    except Exception as error:  # noqa: BLE001 - named and not quoted: it could hold a secret
        return False, f"internal error: {type(error).__name__}"
    if fetched.expires_at is None:
        return True, "ok, lasts"
    left = round(fetched.expires_at - time.time())
    return left > 0, f"ok, expires in {format_duration(left)}" if left > 0 else "has expired already"
