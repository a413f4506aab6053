"""What the processor costs: the same Envoy, with the filter and without, in turn.

``make bench`` prints, for each kind of traffic, requests per second, latency, and CPU time of the processor and of
Envoy per request. Single figures of a shared machine mean little: compare the two rows of one run, and quote the ratio.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.demo.children import Child
from deploy.demo.envoy_process import EnvoyProcess
from deploy.demo.processor import ProcessorProcess
from deploy.envoy.bootstrap import LISTENER, bootstrap
from deploy.envoy.model import Backend, Gateway, Listener, PipeAddress, Processor, Route, Rule, SocketAddress
from deploy.envoy.text import to_json
from tests.bench.load import LoadResult, http_request, load
from tests.bench.upstream import CHUNKS

LOOPBACK = "127.0.0.1"
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Traffic:
    name: str
    body: bytes
    share: float  # of the requests of a run


TRAFFIC = (
    Traffic("plain, 0.2 kB", b'{"model":"bench","messages":[{"role":"user","content":"' + b"x" * 150 + b'"}]}', 1.0),
    Traffic("plain, 64 kB", b'{"model":"bench","messages":[{"role":"user","content":"' + b"x" * 65_000 + b'"}]}', 0.5),
    Traffic(f"stream, {CHUNKS} events", b'{"model":"bench","stream":true,"messages":[]}', 0.1),
)


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@dataclass(frozen=True, slots=True)
class Side:
    """One Envoy and what runs beside it."""

    name: str
    port: int
    envoy: int
    processor: int | None


@dataclass(frozen=True, slots=True)
class Sample:
    result: LoadResult
    envoy_cpu: float
    processor_cpu: float


def measure(side: Side, traffic: Traffic, requests: int, connections: int) -> Sample:
    def cpu() -> tuple[float, float]:
        return cpu_seconds(side.envoy), cpu_seconds(side.processor) if side.processor else 0.0

    # Envoy sends these to route on where there is no processor; with one they are replaced.
    request = http_request(traffic.body, {"x-ai-eg-model": "bench"})
    before = cpu()
    result = load(side.port, request, requests=requests, connections=connections)
    after = cpu()
    return Sample(result, after[0] - before[0], after[1] - before[1])


def filter_config(route: Route) -> str:
    """Rename, key, and one cost rule: what an ordinary backend needs."""
    backends = [
        {
            "name": name,
            "schema": {"name": "OpenAI", "prefix": "v1"},
            "modelNameOverride": "bench-upstream",
            "auth": {"apiKey": {"key": "sk-bench"}},
        }
        for name, _ in route.backend_names()
    ]
    costs = [
        {"metadataKey": "cost", "type": "CEL", "cel": "input_tokens + output_tokens * 2u", "routeName": route.full_name}
    ]
    return json.dumps({"version": "dev", "backends": backends, "llmRequestCosts": costs})


@contextmanager
def sides(directory: Path, sockets: Path) -> Iterator[tuple[Side, Side]]:
    with ExitStack() as stack:
        upstream = Child("upstream", [sys.executable, "-m", "tests.bench.upstream"], log=directory / "upstream.log")
        stack.callback(upstream.stop)
        port = int(upstream.wait_for_line("listening on", timeout=20).split()[-1])
        backend = Backend(name="upstream", address=SocketAddress(host=LOOPBACK, port=port))
        route = Route(name="bench", rules=(Rule(backends=(backend,)),))
        config = directory / "filter-config.yaml"
        config.write_text(filter_config(route))
        processor = ProcessorProcess(
            config=config, socket_path=sockets / "p.sock", directory=directory, log_level="error"
        )
        processor.start()
        stack.callback(processor.stop, grace=1.0)

        def envoy(name: str, attached: Processor | None) -> Side:
            home = directory / name
            home.mkdir()
            listener = Listener(address=SocketAddress(host=LOOPBACK, port=0))
            admin = SocketAddress(host=LOOPBACK, port=0)
            gateway = Gateway(listener=listener, routes=(route,), processor=attached, admin=admin)
            process = EnvoyProcess(to_json(bootstrap(gateway)), directory=home)
            process.start()
            stack.callback(process.stop)
            return Side(name, process.port(LISTENER), process.pid, processor.child.pid if attached else None)

        yield envoy("without", None), envoy("with", Processor(address=PipeAddress(path=str(sockets / "p.sock"))))


def report(traffic: Traffic, samples: dict[str, list[Sample]]) -> None:
    print(f"\n{traffic.name}")
    heads = ("", "req/s", "p50 ms", "p99 ms", "Envoy µs", "extproc µs", "failed")
    print("  {:<10}{:>8}{:>9}{:>9}{:>10}{:>12}{:>8}   medians; CPU per request".format(*heads))
    rates = {}
    for side, taken in samples.items():
        rates[side] = statistics.median(sample.result.rate for sample in taken)
        count = sum(sample.result.requests for sample in taken)
        row = (
            rates[side],
            statistics.median(sample.result.percentile(0.5) for sample in taken) * 1e3,
            statistics.median(sample.result.percentile(0.99) for sample in taken) * 1e3,
            sum(sample.envoy_cpu for sample in taken) / count * 1e6,
            sum(sample.processor_cpu for sample in taken) / count * 1e6,
            sum(sample.result.failures for sample in taken),
        )
        print("  {:<10}{:>8.0f}{:>9.2f}{:>9.2f}{:>10.0f}{:>12.0f}{:>8}".format(side, *row))
    print(f"  rate with / without: {rates['with'] / rates['without']:.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--requests", type=int, default=2000, help="plain requests of one run (default 2000)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each side, in turn (default 3)")
    parser.add_argument("--connections", type=int, default=16, help="requests in flight (default 16)")
    options = parser.parse_args()
    directory, sockets = Path(tempfile.mkdtemp(prefix="bench-")), Path(tempfile.mkdtemp(prefix="b-"))
    try:
        with sides(directory, sockets) as both:
            for traffic in TRAFFIC:
                requests = max(int(options.requests * traffic.share), options.connections)
                samples: dict[str, list[Sample]] = {side.name: [] for side in both}
                for side in both:
                    measure(side, traffic, requests // 4, options.connections)  # warm up
                for _ in range(options.runs):
                    for side in both:
                        samples[side.name].append(measure(side, traffic, requests, options.connections))
                report(traffic, samples)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        shutil.rmtree(sockets, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
