"""What the controller takes for many routes: ``python -m tests.bench.controller [ROUTES]``.

The API server is the one of the tests, in a process of its own on loopback; resources are those of
:mod:`tests.bench.compile_resources`, two AIServiceBackends a route. Printed: seconds from nothing to everything
written, milliseconds from a changed AIGatewayRoute to the index Secret of its config as a watch shows it, the writes of
a resync that has nothing to change, and the memory of the controller's process.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml
from lightkube.config.kubeconfig import KubeConfig

from deploy.controller.api import KubeApi
from deploy.controller.cache import Cache
from deploy.controller.controller import Controller
from deploy.controller.kinds import KINDS, Key
from deploy.controller.metrics import ControllerMetrics
from deploy.controller.options import ControllerOptions
from filter_config.sources.emit import object_names
from filter_config.sources.envoy_ai_gateway.documents import documents
from filter_config.sources.faults import Faults
from tests.bench.compile_resources import ROUTES, resources
from tests.support.kube_cluster import Cluster
from tests.support.kube_server import KubeServer, running
from tests.support.kube_world import create, gateway_class

CHANGES = 15
SERVE = "--serve"
_SPACE = "envoy-gateway-system"


async def _serve(routes: int) -> None:
    """The API server with the resources; ends with its standard input."""
    cluster = Cluster()
    create(cluster, gateway_class("envoy"))
    for document in documents(resources(routes), Faults()):
        assert isinstance(document.value, dict)
        create(cluster, document.value)
    async with running(KubeServer(cluster=cluster, rights=None)) as server:
        print(str(server.url).rstrip("/"), flush=True)
        await asyncio.to_thread(sys.stdin.read)


def _api(url: str) -> KubeApi:
    config = {
        "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": url}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "users": [{"name": "bench", "user": {}}],
    }
    return KubeApi(KubeConfig.from_dict(config).get(), timeout=120.0)


def _writes(metrics: ControllerMetrics) -> int:
    samples = [sample for metric in metrics.writes.collect() for sample in metric.samples]
    return int(sum(sample.value for sample in samples if sample.name.endswith("_total")))


def _megabytes() -> tuple[float, float]:
    """Resident memory now, and at most."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


async def _settled(controller: Controller) -> None:
    quiet = 0
    while quiet < 5:
        await asyncio.sleep(0.1)
        quiet = quiet + 1 if controller.is_settled else 0


class _Bench:
    """A controller and what is seen of its work."""

    def __init__(self, url: str) -> None:
        self.api, self.observer = _api(url), _api(url)
        self.metrics = ControllerMetrics()
        self.cache = Cache(self.api, self.metrics)
        self.controller = Controller(self.api, self.cache, ControllerOptions(), metrics=self.metrics)
        self.index = Key("Secret", _SPACE, object_names("default", "gateway").index)

    async def change(self, number: int, price: int) -> float:
        """Seconds from the change of a route to the index of its config."""
        key = Key("AIGatewayRoute", "default", f"route-{number}")
        value = await self.observer.get(KINDS[key.kind], key)
        value["spec"]["llmRequestCosts"][1]["cel"] = f"input_tokens * {price}u"
        since = (await self.observer.list(KINDS["Secret"])).resource_version
        async with self.observer.watch(KINDS["Secret"], _SPACE, since) as events:
            begin = time.perf_counter()
            await self.observer.replace(KINDS[key.kind], key, value)
            async for event in events:
                if event.type == "MODIFIED" and event.object["metadata"]["name"] == self.index.name:
                    return time.perf_counter() - begin
        raise AssertionError

    async def index_document(self) -> dict[str, Any]:
        found = await self.observer.get(KINDS["Secret"], self.index)
        document: dict[str, Any] = yaml.safe_load(found["data"]["index.yaml"])
        return document


async def _measure(url: str) -> None:
    bench = _Bench(url)
    stop = asyncio.Event()
    begin, cpu = time.perf_counter(), time.process_time()
    watching = asyncio.create_task(bench.cache.run())
    running_ = asyncio.create_task(bench.controller.run(stop))
    await bench.controller.ready.wait()
    print(f"seen and compiled        {time.perf_counter() - begin:8.1f} s  ({time.process_time() - cpu:.1f} s of CPU)")
    await _settled(bench.controller)
    print(f"everything written       {time.perf_counter() - begin:8.1f} s  ({_writes(bench.metrics)} writes)")
    times = []
    for number in range(CHANGES):
        times.append(1000 * await bench.change(number, 1000 + number))
        await _settled(bench.controller)
    print(f"changed route to Secret  {statistics.median(times):8.0f} ms (median of {CHANGES}; most {max(times):.0f})")
    before = _writes(bench.metrics)
    bench.controller.resync()
    await _settled(bench.controller)
    print(f"writes of a resync       {_writes(bench.metrics) - before:8d}")
    now, most = _megabytes()
    print(f"memory                   {now:8.0f} MB (most {most:.0f})")
    stop.set()
    await running_
    watching.cancel()


def main() -> None:
    """Measures and prints."""
    if SERVE in sys.argv:
        asyncio.run(_serve(int(sys.argv[-1])))
        return
    routes = int(sys.argv[1]) if len(sys.argv) > 1 else ROUTES
    command = [sys.executable, "-m", "tests.bench.controller", SERVE, str(routes)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        print(f"{routes} routes, {2 * routes} backends")
        asyncio.run(_measure(server.stdout.readline().strip()))


if __name__ == "__main__":
    main()
