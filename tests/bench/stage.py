"""What is measured: for each row an Envoy of its own with what answers its filter, and one upstream for all.

All Envoys have the same configuration but for the filter, and the same number of worker threads.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from deploy.local.children import Child
from deploy.local.envoy_process import EnvoyProcess
from deploy.local.processor import ProcessorProcess
from tests.bench import echo, rows
from tests.bench.processes import cpu_seconds, resident_bytes, settle
from tests.bench.rows import Row

with warnings.catch_warnings():
    # betterproto2 declares its messages in a way that pydantic deprecates; nothing to mend on our side.
    warnings.simplefilter("ignore", DeprecationWarning)
    from deploy.envoy.bootstrap import LISTENER, bootstrap
    from deploy.envoy.model import Backend, Gateway, Listener, PipeAddress, Processor, Route, Rule, SocketAddress
    from deploy.envoy.text import to_json

LOOPBACK: Final = "127.0.0.1"
RENAMED_MODEL: Final = "renamed"
_ANY_PORT: Final = SocketAddress(host=LOOPBACK, port=0)


def filter_config(route: Route, *, backends: int = 0, generation: int = 0) -> str:
    """Keys and one cost rule, and for one of the backends a rename: what ordinary backends need.

    Args:
        route: whose backends get the requests.
        backends: how many there are in all; the others only fill the config.
        generation: goes into every key, so that two configs differ in every backend.
    """
    named = [name for name, _ in route.backend_names()]
    renames = {named[0]: "bench-upstream"} if len(named) > 1 else {}
    named += [f"default/filler/route/filler-{number}/rule/0/ref/0" for number in range(len(named), backends)]
    lines = ["version: dev", "backends:"]
    for name in named:
        lines += [
            f"- name: {name}",
            "  schema: {name: OpenAI, prefix: v1}",
            f"  modelNameOverride: {json.dumps(renames.get(name, ''))}",
            f"  auth: {{apiKey: {{key: sk-bench-{generation}}}}}",
        ]
    lines += [
        "llmRequestCosts:",
        "- metadataKey: cost",
        "  type: CEL",
        "  cel: input_tokens + output_tokens * 2u",
        f"  routeName: {route.full_name}",
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A row that runs."""

    row: Row
    route: Route
    envoy: EnvoyProcess
    port: int
    config: Path
    server: int | None
    processor: ProcessorProcess | None

    def server_cpu(self) -> float:
        """CPU seconds of what answers the filter, its workers included."""
        return 0.0 if self.server is None else cpu_seconds(self.server)

    def envoy_cpu(self) -> float:
        return cpu_seconds(self.envoy.pid)

    def resident(self) -> int:
        """Resident bytes of what answers the filter, its workers included."""
        return 0 if self.server is None else resident_bytes(self.server)

    def settle(self) -> None:
        if self.server is not None:
            settle(self.server)

    def messages(self) -> int:
        """ext_proc messages that Envoy has sent."""
        if self.server is None:
            return 0
        return sum(self.envoy.stats(r"ext_proc.*stream_msgs_sent$").values())

    def prepare(self, *, backends: int, generation: int) -> tuple[str, str]:
        """Write a filter config beside the live one; gives the digest that it will be known by, and its path."""
        data = filter_config(self.route, backends=backends, generation=generation).encode()
        fresh = self.config.with_name(f"generation-{generation}")
        fresh.write_bytes(data)
        return hashlib.sha256(data).hexdigest(), str(fresh)

    def publish(self, path: str) -> None:
        """Put a prepared filter config in place of the live one, at once."""
        Path(path).replace(self.config)

    def live_digest(self) -> str:
        """The digest of the live config; the page that tells it is small, whatever the config."""
        if self.processor is None:
            return ""
        _, text = self.processor.admin("/ready")
        config = json.loads(text).get("config") or {}
        digest: str = config.get("hash", "")
        return digest


class Stage:
    """The upstream, and the directories of everything that runs. Use it as a context.

    Args:
        concurrency: worker threads of each Envoy.
    """

    def __init__(self, *, concurrency: int) -> None:
        self._concurrency = concurrency
        self._parts = ExitStack()
        self._started = 0
        self._known = rows.known_settings()

    def __enter__(self) -> Self:
        self._directory = Path(self._parts.enter_context(_directory("bench-")))
        # A path that fits the address of a unix socket.
        self._sockets = Path(self._parts.enter_context(_directory("b-")))
        upstream = Child(
            "upstream", [sys.executable, "-m", "tests.bench.upstream"], log=self._directory / "upstream.log"
        )
        self._parts.callback(upstream.stop)
        port = int(upstream.wait_for_line("listening on", timeout=20).split()[-1])
        address = SocketAddress(host=LOOPBACK, port=port)
        renamed = Rule(backends=(Backend(name="renamed", address=address),), models=(RENAMED_MODEL,))
        self._route = Route(name="bench", rules=(renamed, Rule(backends=(Backend(name="plain", address=address),))))
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    @property
    def directory(self) -> Path:
        return self._directory

    @contextmanager
    def side(self, row: Row, *, backends: int = 0) -> Iterator[Side]:
        """Start a row, and stop it in the end.

        Args:
            row: what to start.
            backends: how many the filter config has at the start; 0 for just those that are used.

        Raises:
            ChildFailed: a part of it does not start.
        """
        self._started += 1
        home = self._directory / f"{self._started}-{row.name}"
        home.mkdir()
        socket = self._sockets / f"{self._started}.s"
        config = home / "filter-config.yaml"
        config.write_text(filter_config(self._route, backends=backends))
        with ExitStack() as parts:
            server: int | None = None
            processor: ProcessorProcess | None = None
            if row.kind == "processor":
                processor = self._processor(row, home, config, socket)
                parts.callback(processor.stop, grace=5.0)
                processor.start()
                server = processor.child.pid
            elif row.kind == "echo":
                child = self._echo(row, home, socket)
                parts.callback(child.stop)
                child.wait_for_line(echo.READY, timeout=20)
                server = child.pid
            envoy = EnvoyProcess(
                self._bootstrap(socket if server else None), directory=home, concurrency=self._concurrency
            )
            parts.callback(envoy.stop)
            envoy.start()
            yield Side(
                row=row,
                route=self._route,
                envoy=envoy,
                port=envoy.port(LISTENER),
                config=config,
                server=server,
                processor=processor,
            )

    def _processor(self, row: Row, home: Path, config: Path, socket: Path) -> ProcessorProcess:
        return ProcessorProcess(
            config=config,
            socket_path=socket,
            directory=home,
            log_level="error",
            arguments=row.arguments(self._known),
            environment={"EXTPROC_DRAIN_SECONDS": "0", "EXTPROC_SHUTDOWN_TIMEOUT": "1s"},
        )

    def _echo(self, row: Row, home: Path, socket: Path) -> Child:
        command = [sys.executable, "-m", "tests.bench.echo", "--transport", row.transport, "--socket", str(socket)]
        return Child(row.name, command, log=home / "echo.log")

    def _bootstrap(self, socket: Path | None) -> str:
        processor = None if socket is None else Processor(address=PipeAddress(path=str(socket)))
        listener = Listener(address=_ANY_PORT)
        return to_json(
            bootstrap(Gateway(listener=listener, routes=(self._route,), processor=processor, admin=_ANY_PORT))
        )


@contextmanager
def _directory(prefix: str) -> Iterator[str]:
    path = tempfile.mkdtemp(prefix=prefix)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
