"""All gateways of some files of resources, served from start to stop, and what is said of it.

Each gateway has an Envoy and a processor of its own. An edit of one leaves the others alone, and whatever goes wrong
with an edit leaves what is live as it is.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from deploy.envoy.compile import Unservable
from deploy.local.children import ChildFailed
from deploy.local.compiling import Outcome, as_it_is
from deploy.local.envoy_updates import UpdateRejected
from deploy.local.listening import Ports, PortUnusable
from deploy.local.output import directory_name
from deploy.local.served import ConfigRefused, Options, Room, ServedGateway
from filter_config.sources.envoy_ai_gateway.compiler import CompiledGateway
from filter_config.sources.faults import Fault, Faults

# What can go wrong with one gateway and leaves the others alone.
FAILURES: Final = (ChildFailed, ConfigRefused, UpdateRejected, Unservable, PortUnusable, OSError)

_SOCKET_DIRECTORY_LIMIT: Final = 90
_REVIVALS: Final = 3
_REVIVALS_WITHIN: Final = 60.0


class Voice(Protocol):
    """Who tells the user."""

    def fault(self, fault: Fault) -> None:
        """Something is wrong with the resources."""

    def problem(self, text: str) -> None:
        """Something is wrong here."""


class Session:
    """The gateways, from ``with`` on.

    Args:
        options: how they are served.
        voice: who is told of what goes wrong.
        port: the port of the first listener of the first gateway, in place of its own.
        logs: where to keep configurations and logs; None keeps none.
    """

    def __init__(self, options: Options, voice: Voice, *, port: int | None = None, logs: Path | None = None) -> None:
        self.gateways: dict[str, ServedGateway] = {}
        self._options = options
        self._voice = voice
        self._port = port
        self._logs = logs
        self._ports: dict[str, Ports] = {}
        self._revivals: deque[float] = deque()
        self._rooms = 0
        self._located: Callable[[Fault], Fault] = as_it_is
        # What could not be applied because a process had ended.
        self._again: dict[str, CompiledGateway] = {}

    def __enter__(self) -> Self:
        self._scratch = _scratch_directory()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for gateway in self.gateways.values():
                gateway.stop()
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)

    # --- what is served ---

    def start(self, outcome: Outcome) -> None:
        """Start all gateways.

        Raises:
            ChildFailed: a process does not start.
            PortUnusable: a port is taken, or may not be had.
            Unservable: a gateway has nothing to listen on.
        """
        self._located = outcome.located
        for compiled in outcome.gateways:
            self._start(compiled)

    def apply(self, outcome: Outcome) -> list[str]:
        """Serve what the resources have become. Gives the ids of the gateways that changed."""
        wanted = {compiled.model.id: compiled for compiled in outcome.gateways}
        self._located = outcome.located
        self._again.clear()
        changed = [id_ for id_, compiled in wanted.items() if self._attempt(id_, compiled)]
        for id_ in [id_ for id_ in self.gateways if id_ not in wanted]:
            self.gateways.pop(id_).stop()
            self._ports.pop(id_)
            changed.append(id_)
        return changed

    def tend(self) -> None:
        """What is to be done from time to time: end what edits began, and start what has ended by itself.

        Raises:
            ChildFailed: something ends again and again.
        """
        for id_, gateway in list(self.gateways.items()):
            ended = gateway.revive()
            for obituary in ended:
                self._voice.problem(f"Gateway {id_}: {obituary}; it was started again")
                self._count_revival(obituary)
            again = self._again.pop(id_, None)
            if again is not None:
                self._attempt(id_, again)
            try:
                gateway.settle(at=time.monotonic())
            except FAILURES as failure:
                self._voice.problem(f"Gateway {id_}: {_line(failure)}")

    def _count_revival(self, obituary: str) -> None:
        now = time.monotonic()
        self._revivals.append(now)
        while self._revivals[0] < now - _REVIVALS_WITHIN:
            self._revivals.popleft()
        if len(self._revivals) > _REVIVALS:
            raise ChildFailed(f"given up, as it happens again and again: {obituary}")

    def _attempt(self, id_: str, compiled: CompiledGateway) -> bool:
        try:
            gateway = self.gateways.get(id_)
            if gateway is None:
                self._start(compiled)
                return True
            faults = Faults()
            gateway.ports = self._ports[id_].of(compiled.model)
            changed = gateway.apply(compiled, faults)
            self._tell(faults)
        except FAILURES as failure:
            self._voice.problem(f"Gateway {id_}: {_line(failure)}")
            if isinstance(failure, ChildFailed | OSError) and id_ in self.gateways:
                self._again[id_] = compiled
            return False
        return changed

    def _start(self, compiled: CompiledGateway) -> None:
        id_ = compiled.model.id
        ports = Ports(self._options.host, first=None if self.gateways else self._port)
        gateway = ServedGateway(self._room(compiled), self._options, ports=ports.of(compiled.model))
        faults = Faults()
        try:
            gateway.start(compiled, faults)
        except BaseException:
            gateway.stop()
            raise
        self.gateways[id_], self._ports[id_] = gateway, ports
        self._tell(faults)

    def _room(self, compiled: CompiledGateway) -> Room:
        self._rooms += 1
        taken = {gateway.files.name for gateway in self.gateways.values()}
        return Room(
            files=(self._logs or self._scratch) / directory_name(compiled, taken=taken),
            socket=self._scratch / f"{self._rooms}.sock",
        )

    def _tell(self, faults: Faults) -> None:
        for fault in faults.closed():
            self._voice.fault(self._located(fault))


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """What clients may ask a gateway for: the models that it lists, and whether also others."""

    names: tuple[str, ...]
    others: bool


def models(gateway: ServedGateway) -> Models:
    """What clients may ask a gateway for."""
    rules = [rule for route in gateway.compiled.model.routes for rule in route.rules if rule.backends]
    # A rule names a model for each of its matches, or takes others as well.
    others = any(len(rule.models) < max(1, len(rule.matches)) for rule in rules)
    return Models(names=tuple(model.name for model in gateway.compiled.config.models), others=others)


def _line(failure: BaseException) -> str:
    return " ".join(str(failure).split())


def _scratch_directory() -> Path:
    """A directory that only we can enter, and in which a socket may be: its path has to fit into 108 bytes."""
    scratch = Path(tempfile.mkdtemp(prefix="extproc-run-"))
    if len(os.fsencode(scratch)) < _SOCKET_DIRECTORY_LIMIT:
        return scratch
    scratch.rmdir()
    return Path(tempfile.mkdtemp(prefix="extproc-run-", dir="/tmp"))
