"""What it takes to answer PostTranslateModify: ``python -m tests.bench.extension_server [ROUTES]``.

A gateway of as many AIGatewayRoutes, each with a rule of two backends, its cluster and its route not found, behind
authentication and a quota for every tenth. Printed: milliseconds for each step of the hook and for all of it, the
median of nine runs, and the sizes of both messages. The hook has 500 ms for 2,000 routes.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable

from grpc import aio

from deploy.extension_server.findings import Findings
from deploy.extension_server.knowledge import Snapshot
from deploy.extension_server.options import Options
from deploy.extension_server.server import ExtensionServer, encode
from deploy.extension_server.translate import modify_translation
from filter_config.sources.faults import Origin
from filter_config.sources.model import Backend, Bucket, Gateway, Quota, Route, Rule, Schema
from protos.extension_pb2 import PostTranslateModifyRequest
from tests.support import envoy_gateway as eg

ROUTES = 2000
RUNS = 9
HERE = Origin(file="bench")


def knowledge(routes: int) -> Snapshot:
    """The gateway."""
    made = tuple(_route(number) for number in range(routes))
    return Snapshot([Gateway(namespace="default", name="gw", origin=HERE, routes=made)])


def _route(number: int) -> Route:
    name = f"r{number}"
    backends = tuple(
        Backend(
            id=f"default/b{ref}/route/{name}/rule/0/ref/{ref}",
            namespace="default",
            name=f"b{ref}",
            schema=Schema(name="OpenAI"),
            origin=HERE,
            model_override="m",
            priority=ref,
        )
        for ref in range(2)
    )
    quota = Quota(
        policy="default/q", origin=HERE, backends=("default/b0",), model="m", default=Bucket(limit=9, unit="hour")
    )
    rule = Rule(origin=HERE, index=0, backends=backends, idle_timeout=5.0)
    return Route(namespace="default", name=name, origin=HERE, rules=(rule,), quotas=() if number % 10 else (quota,))


def body(routes: int) -> bytes:
    """The request as it comes over the wire."""
    rules = [f"default/r{number}/rule/0" for number in range(routes)]
    clusters = [
        eg.cluster(rule, *(eg.locality(f"b{ref}.example", ref=f"{rule}/backend/{ref}") for ref in range(2)))
        for rule in rules
    ]
    both = [each for rule in rules for each in (eg.route(rule), eg.not_found(rule.replace("rule/0", "rule/1")))]
    listeners = [eg.listener(eg.chain(eg.CUSTOM_RESPONSE, eg.CORS, eg.JWT, eg.RBAC, eg.ROUTER))]
    return encode(eg.request(clusters=clusters, routes=[eg.route_config(*both)], listeners=listeners))


def _median(function: Callable[[], object]) -> float:
    def timed() -> float:
        start = time.perf_counter()
        function()
        return (time.perf_counter() - start) * 1000

    return statistics.median(timed() for _ in range(RUNS))


async def _over_grpc(request: bytes, known: Snapshot) -> float:
    server = ExtensionServer(lambda: known, max_message=0)
    port = server.listen("127.0.0.1:0")
    await server.start()
    options = [("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1)]
    async with aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        ask = channel.unary_unary("/envoygateway.extension.EnvoyGatewayExtension/PostTranslateModify")
        taken = []
        for _ in range(RUNS):
            start = time.perf_counter()
            await ask(request)
            taken.append((time.perf_counter() - start) * 1000)
    await server.stop(0)
    return statistics.median(taken)


def main() -> None:
    """Measures and prints."""
    routes = int(sys.argv[1]) if len(sys.argv) > 1 else ROUTES
    known, request = knowledge(routes), body(routes)
    decoded = PostTranslateModifyRequest.FromString(request)
    findings = Findings()
    answer = modify_translation(decoded, known, Options(), findings)
    assert findings.closed() == ()
    print(f"{routes} routes, request {len(request) / 1e6:.2f} MB, answer {len(encode(answer)) / 1e6:.2f} MB")
    steps: dict[str, Callable[[], object]] = {
        "decode": lambda: PostTranslateModifyRequest.FromString(request),
        "modify": lambda: modify_translation(decoded, known, Options(), Findings()),
        "encode": lambda: encode(answer),
    }
    for step, function in steps.items():
        print(f"{step:20} {_median(function):7.1f} ms")
    print(f"{'over gRPC':20} {asyncio.run(_over_grpc(request, known)):7.1f} ms")


if __name__ == "__main__":
    main()
