"""A gateway that is served: its processor, its Envoy, and the way from one state of its resources to the next.

What comes is told to the processor first and to Envoy then; what goes stays known until the requests that use it are
over (see ``transition``). Envoy gets clusters before the routes that lead to them, and loses them after.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from deploy.envoy import model
from deploy.envoy.compile import Serving, envoy_gateway
from deploy.envoy.quotas import service_document
from deploy.local.budgeting import BudgetKeeper
from deploy.local.children import Child
from deploy.local.envoy_files import BOOTSTRAP, CLUSTERS, EnvoyFiles
from deploy.local.envoy_models import RouteMemory
from deploy.local.envoy_process import EnvoyProcess
from deploy.local.envoy_updates import EnvoyUpdates, UpdateRejected, write
from deploy.local.output import write_private
from deploy.local.processor import ProcessorProcess
from deploy.local.transition import Revisions, united, with_clusters_of
from filter_config.model import Config
from filter_config.redact import Secret
from filter_config.sources.envoy_ai_gateway.compiler import CompiledGateway
from filter_config.sources.faults import Faults

GRACE: Final = 10.0
"""Seconds after which nobody is taken to need what an edit has removed."""

_ANY_PORT: Final = model.SocketAddress(host="127.0.0.1", port=0)
_POLL: Final = 0.005
_LIVE_TIMEOUT: Final = 60.0
_DRAIN: Final = 600
_START_TIMEOUT: Final = 120.0


class ConfigRefused(RuntimeError):
    """The processor did not take a filter config. The text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How gateways are served."""

    host: str = "127.0.0.1"
    admin_port: int = 0
    """The processor's, if it is free; 0 is any."""
    workers: str = "1"
    concurrency: int = 1
    """Worker threads of Envoy."""
    binary: Path | None = None
    """The Envoy to start; None: the one that comes as a Python package."""
    ca_file: str = model.CA_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Directories of a gateway, which only we can enter."""

    files: Path
    socket: Path
    """Where the processor is to listen, short enough for the path of a socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """What the processes serve by."""

    config: Config
    gateway: model.Gateway
    budgets: Mapping[str, Any]


class ServedGateway:
    """One gateway. ``start`` it, ``apply`` what its resources become, and ``stop`` it in any case.

    ``ports`` are those of its listeners, by name.
    """

    processor: ProcessorProcess
    envoy: EnvoyProcess
    compiled: CompiledGateway
    """What is live."""

    def __init__(self, room: Room, options: Options, *, ports: Mapping[str, int]) -> None:
        self.ports = dict(ports)
        self._budgets = BudgetKeeper()
        self._room = room
        self._options = options
        self._config_path = room.files / "filter-config.json"
        self._envoy_directory = room.files / "envoy"
        self._envoy_files = EnvoyFiles(self._envoy_directory)
        self._documents: dict[str, bytes] = {}
        self._routes = RouteMemory()
        self._revisions = Revisions()
        self._leaving_until: float | None = None
        self.digest = ""
        """Content hash of the filter config that is live."""

    @property
    def files(self) -> Path:
        """Where configurations and logs are."""
        return self._room.files

    @property
    def addresses(self) -> list[str]:
        """Where clients call, as URLs."""
        host = f"[{self._options.host}]" if ":" in self._options.host else self._options.host
        return [
            f"{'https' if listener.tls else 'http'}://{host}:{listener.address.port}"
            for listener in self._wanted.gateway.listeners
        ]

    # --- from start to stop ---

    def start(self, compiled: CompiledGateway, faults: Faults) -> None:
        """Start both processes; ``faults`` receives what Envoy cannot serve.

        Raises:
            ChildFailed: one of them does not start.
            Unservable: there is nothing to listen on.
        """
        compiled = self._revisions.named(compiled)
        self._wanted = self._live = self._state_of(compiled, faults)
        self.compiled = compiled
        self._revisions.settle()
        self._room.files.mkdir(parents=True, exist_ok=True)
        self._envoy_directory.mkdir(exist_ok=True)
        self.digest = self._write_config(compiled.config)
        self.processor = ProcessorProcess(
            config=self._config_path,
            socket_path=self._room.socket,
            directory=self._room.files,
            admin_port=self._options.admin_port,
            arguments=("-versionString", compiled.config.version, "-workers", self._options.workers),
            # Envoy is stopped first, so there is nobody to keep serving for.
            environment={"EXTPROC_DRAIN_SECONDS": "0", "EXTPROC_ADMIN_HOST": "127.0.0.1"},
        )
        # The processor takes its time to start, and the first documents take theirs.
        with ThreadPoolExecutor(max_workers=1) as beside:
            starting = beside.submit(self.processor.start)
            try:
                self._documents = self._envoy_files.documents(self._live.gateway)
                self._budgets.keep(self._live.budgets)
                starting.result()
            except BaseException:
                # Whoever waits for it need not wait any longer.
                self.processor.stop()
                raise
        self._start_envoy()

    def stop(self) -> None:
        """Stop all, Envoy first."""
        for part in ("envoy", "processor"):
            if part in vars(self):
                getattr(self, part).stop()
        self._budgets.stop()

    def revive(self) -> list[str]:
        """Start what has ended by itself. Gives what it was and what it said.

        Raises:
            ChildFailed: it does not start.
        """
        ended = []
        if not self.processor.child.running:
            ended.append(_obituary(self.processor.child))
            self.processor.start()
        if not self.envoy.child.running:
            ended.append(_obituary(self.envoy.child))
            self._start_envoy()
        return ended

    def _start_envoy(self) -> None:
        write(self._envoy_directory, self._documents)
        self.envoy = EnvoyProcess(
            self._envoy_directory / BOOTSTRAP,
            directory=self._room.files,
            concurrency=self._options.concurrency,
            binary=self._options.binary,
            drain_seconds=_DRAIN,
        )
        # Envoy looks up all names first, and offline it takes its time to give up.
        self.envoy.start(_START_TIMEOUT)
        self._updates = EnvoyUpdates(self.envoy, self._envoy_directory)

    # --- from edit to edit ---

    def apply(self, compiled: CompiledGateway, faults: Faults) -> bool:
        """Serve other resources. Gives whether that is anything new.

        Raises:
            ChildFailed: a process is not running.
            ConfigRefused: the processor does not take the filter config.
            UpdateRejected: Envoy does not take its configuration.
            Unservable: there is nothing to listen on.
        """
        compiled = self._revisions.named(compiled)
        wanted = self._state_of(compiled, faults)
        if wanted == self._wanted:
            return False
        both = _State(
            config=united(self._live.config, wanted.config),
            gateway=with_clusters_of(self._live.gateway, wanted.gateway),
            budgets=wanted.budgets,
        )
        self._budgets.keep(both.budgets)
        with self._making_config_live(both.config):
            # The processor takes its time, and so do the documents.
            documents = self._documents_of(both.gateway)
        self._update_envoy(both.gateway, documents)
        self._wanted = wanted
        self.compiled = compiled
        self._revisions.settle()
        self._leaving_until = None if both == wanted else time.monotonic() + GRACE
        return True

    def settle(self, *, at: float) -> None:
        """Take away what edits have removed, once nobody needs it any more at this monotonic time."""
        if self._leaving_until is None or at < self._leaving_until:
            return
        self._leaving_until = at + GRACE
        self._update_envoy(self._wanted.gateway, self._documents_of(self._wanted.gateway))
        with self._making_config_live(self._wanted.config):
            pass
        self._leaving_until = None

    def _state_of(self, compiled: CompiledGateway, faults: Faults) -> _State:
        return _State(
            config=compiled.config,
            gateway=self._gateway_of(compiled, faults),
            budgets=service_document([compiled.model]),
        )

    def _gateway_of(self, compiled: CompiledGateway, faults: Faults) -> model.Gateway:
        config = compiled.config
        keys = [cost.metadata_key for cost in config.global_llm_request_costs]
        keys += (cost.metadata_key for cost in config.llm_request_costs)
        serving = Serving(
            processor=model.Processor(address=model.PipeAddress(path=str(self._room.socket))),
            bind_host=self._options.host,
            ports=self.ports,
            rate_limit=self._budgets.service,
            access_log=model.AccessLog(
                path=str(self._room.files / "access.log"),
                cost_keys=tuple(dict.fromkeys(keys)),
            ),
            admin=_ANY_PORT,
            ca_file=self._options.ca_file,
            exclusive=True,
        )
        made = envoy_gateway(compiled.model, serving, faults, make_route=self._routes)
        self._routes.forget_unused()
        return made

    def _documents_of(self, gateway: model.Gateway) -> dict[str, bytes]:
        return self._documents if gateway == self._live.gateway else self._envoy_files.documents(gateway)

    def _update_envoy(self, gateway: model.Gateway, documents: dict[str, bytes]) -> None:
        if documents is self._documents:
            return
        clusters = {CLUSTERS: documents[CLUSTERS]}
        try:
            self._updates.write({**self._documents, **clusters})
            self._updates.write(documents)
        except UpdateRejected:
            write(self._envoy_directory, self._documents)
            raise
        self._documents = documents
        self._live = replace(self._live, gateway=gateway)

    @contextmanager
    def _making_config_live(self, config: Config) -> Iterator[None]:
        """Gives the processor a config, and waits in the end until it serves by it."""
        if config == self._live.config:
            yield
            return
        digest = self._write_config(config)
        try:
            yield
            self._wait_for_config(digest)
        except ConfigRefused:
            self._wait_for_config(self._write_config(self._live.config), patiently=True)
            raise
        self.digest = digest
        self._live = replace(self._live, config=config)

    def _write_config(self, config: Config) -> str:
        # JSON is YAML, and is read in a fifth of the time.
        data = msgspec.json.encode(config, enc_hook=_revealed)
        write_private(self._config_path, data)
        return hashlib.sha256(data).hexdigest()

    def _wait_for_config(self, digest: str, *, patiently: bool = False) -> None:
        """Wait until a config is live; ``patiently`` while the processor still complains of the one before."""
        deadline = time.monotonic() + _LIVE_TIMEOUT
        while True:
            _, text = self.processor.admin("/ready")
            page = json.loads(text)
            error = page["last_error"]
            others = page.get("workers", {}).get("with_another_config", 0)
            if page["config"] is not None and page["config"]["hash"] == digest and not error and not others:
                return
            if error and not patiently:
                raise ConfigRefused(f"the processor refused the filter config: {error}")
            if time.monotonic() > deadline:
                raise ConfigRefused(f"the processor did not take the filter config within {_LIVE_TIMEOUT:g} s")
            time.sleep(_POLL)


def _revealed(value: object) -> str:
    if isinstance(value, Secret):
        return value.reveal()
    raise NotImplementedError(f"cannot encode {type(value).__name__}")


def _obituary(child: Child) -> str:
    words = child.last_words()
    return f"{child.name} ended with status {child.returncode}{f': {words}' if words else ''}"
