"""Two workers, and an Envoy of which each request meets both: its router-level stream one, its attempts the other.

Envoy reaches the same address under two names of this machine, with a cluster for each; the supervisor, whose policy
is the only thing that differs from what users run, gives connections to 127.0.0.1 to the first worker and connections
to 127.0.0.2 to the second. So every attempt is relayed. Run as a command, this is that processor.
"""

from __future__ import annotations

import copy
import os
import socket
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import yaml

from deploy.envoy import names
from deploy.envoy.model import Gateway, SocketAddress
from deploy.local.processor import ProcessorProcess
from extproc import app, cli
from extproc.workers.fleet import Fleet, fewest_connections
from extproc.workers.seat import Seat
from tests.dataplane.harness.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ROUTER_LEVEL: Final = "127.0.0.1"
UPSTREAM_LEVEL: Final = "127.0.0.2"
_SECOND_CLUSTER: Final = "second-name-of-the-processor"


def by_address(connection: socket.socket, seats: Sequence[Seat]) -> Seat:
    """The worker whose number is the end of the address; while it is replaced, any other."""
    number = int(connection.getsockname()[0].rpartition(".")[2])
    wanted = [seat for seat in seats if seat.number == number]
    return wanted[0] if wanted else fewest_connections(connection, seats)


class _App(app.App):
    def _build_server(self) -> None:
        self.processor = self._grpc = self._fleet = Fleet(
            self._settings,
            metrics=self.metrics,
            environ=self._environ,
            on_failure=self._give_up,
            policy=by_address,
        )


class _Processor(ProcessorProcess):
    def _command(self) -> list[str]:
        command = super()._command()
        command[command.index("extproc")] = "tests.dataplane.harness.split"
        return command


class SplitStack(Stack):
    """A stack with two workers; the arguments are those of ``Stack``."""

    def __init__(self, directory: Path, *, processor_arguments: Sequence[str] = (), **arguments: Any) -> None:
        with socket.create_server(("0.0.0.0", 0)) as bound:
            port = bound.getsockname()[1]

        def over_tcp(gateway: Gateway) -> Gateway:
            assert gateway.processor is not None
            address = SocketAddress(host=ROUTER_LEVEL, port=port)
            return replace(gateway, processor=replace(gateway.processor, address=address))

        super().__init__(
            directory,
            concurrency=2,
            adjust=over_tcp,
            rewrite=_with_two_clusters,
            processor_arguments=(
                *("-transport", "http2", "-workers", "2", "-extProcAddr", f"0.0.0.0:{port}"),
                *processor_arguments,
            ),
            **arguments,
        )

    def _new_processor(self) -> ProcessorProcess:
        made = super()._new_processor()
        made.__class__ = _Processor
        return made


def _with_two_clusters(text: str) -> str:
    """Let the upstream-level filters, which stand in clusters, use a cluster of their own."""
    document = yaml.safe_load(text)
    clusters = document["static_resources"]["clusters"]
    (first,) = (cluster for cluster in clusters if cluster["name"] == names.PROCESSOR_CLUSTER)
    second = copy.deepcopy(first)
    _replace(clusters, names.PROCESSOR_CLUSTER, _SECOND_CLUSTER)
    _replace(second, ROUTER_LEVEL, UPSTREAM_LEVEL)
    _replace(second, names.PROCESSOR_CLUSTER, _SECOND_CLUSTER)
    _replace(first, _SECOND_CLUSTER, names.PROCESSOR_CLUSTER)
    clusters.append(second)
    return yaml.safe_dump(document)


def _replace(value: Any, old: str, new: str) -> None:
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if item == old:
            value[key] = new
        elif isinstance(item, dict | list):
            _replace(item, old, new)


def main() -> int:
    """Be ``extproc serve`` with that policy."""
    app.App = _App
    return cli.main(sys.argv[1:])


if __name__ == "__main__":
    os.environ.setdefault("PYTHONFAULTHANDLER", "1")
    sys.exit(main())
