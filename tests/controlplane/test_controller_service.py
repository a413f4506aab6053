"""The parts together, in this process: whom they answer before they know everything, and after they are to end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from deploy.controller.service import ServiceOptions
from deploy.controller.together import ExtensionPart, InjectorPart, Parts, Together, grpc_address, listen
from deploy.extension_server.options import Options
from deploy.extension_server.server import encode
from deploy.injector import certificates
from deploy.injector.tls import TlsFiles
from protos import health_pb2 as health
from tests.support import envoy_gateway as eg
from tests.support import gateway_resources as g
from tests.support.kube_command import HOME, LEASE, SERVICE, admit, ask, register, trusted
from tests.support.kube_controlled import put, run, until
from tests.support.kube_server import KubeServer, client, running
from tests.support.kube_world import SIDECAR, gateway, gateway_class, namespace
from tests.unit.deploy.injector.cluster import asks

HOOK = "/envoygateway.extension.EnvoyGatewayExtension/PostTranslateModify"
CHECK = "/grpc.health.v1.Health/Check"
LOOPBACK = ("127.0.0.1", 0)
SERVING, NOT_SERVING = health.HealthCheckResponse.SERVING, health.HealthCheckResponse.NOT_SERVING


def resources() -> list[dict[str, Any]]:
    return [gateway_class(), gateway(), namespace(), g.route("r", g.rule("b")), *g.served("b")]


def mounted(directory: Path) -> certificates.Certificates:
    """A certificate that somebody else mounts, with who issued it."""
    made = certificates.maintain(None, certificates.service_names(SERVICE, HOME), datetime.now(tz=UTC))
    for name, text in made.to_secret().items():
        (directory / name).write_text(text.reveal())
    return made


@asynccontextmanager
async def together(
    server: KubeServer, directory: Path, **members: Any
) -> AsyncIterator[tuple[Together, asyncio.Event]]:
    """All parts at work, with a certificate that is mounted."""
    parts = Parts(
        service=ServiceOptions(identity="one", namespace=HOME),
        injector=InjectorPart(
            sidecar=SIDECAR,
            address=LOOPBACK,
            files=TlsFiles(certificate=directory / "tls.crt", key=directory / "tls.key"),
            bundle=directory / "ca.crt",
        ),
        extension=ExtensionPart(options=Options(), address=LOOPBACK, quota_address=LOOPBACK),
        pages=LOOPBACK,
        **members,
    )
    made, stop = Together(client(server), parts), asyncio.Event()
    running_ = asyncio.create_task(made.run(stop))
    try:
        yield made, stop
    finally:
        running_.cancel()
        await asyncio.gather(running_, return_exceptions=True)


async def page(made: Together, path: str) -> tuple[int, str]:
    async with httpx.AsyncClient(trust_env=False) as http:
        answer = await http.get(f"http://127.0.0.1:{made.ports['metrics']}{path}")
        return answer.status_code, answer.text


async def hook(made: Together) -> bytes:
    request = eg.request(routes=[eg.route_config(eg.route(generated=False))], listeners=[eg.listener()])
    return await ask(made.ports["extension server"], HOOK, encode(request))


async def health_of(made: Together) -> int:
    body = await ask(made.ports["extension server"], CHECK, b"")
    return health.HealthCheckResponse.FromString(body).status


def test_before_everything_was_seen_nobody_is_answered(tmp_path: Path):
    async def scenario() -> None:
        async with running() as server:
            register(server)
            put(server, *resources())
            mounted(tmp_path)
            server.absent.add("gateways")
            async with together(server, tmp_path) as (made, _):
                await until(
                    lambda: bool(made.ports) and made.readiness() == "not listed yet: Gateway", "all the others"
                )
                assert await page(made, "/ready") == (503, "not listed yet: Gateway\n")
                assert (await page(made, "/health"))[0] == 200
                assert await health_of(made) == NOT_SERVING
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await hook(made)
                assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
                assert refused.value.details() == "the state of the cluster is not known yet"
                await until(lambda: trusted(server) != "", "the authority of the certificate that is mounted")
                with pytest.raises(AssertionError, match="the state of the cluster is not known yet"):
                    await admit(server, made.ports["webhook"], asks({"metadata": {}}))
                server.absent.clear()
                await until(lambda: made.readiness() == "", "readiness")
                assert await page(made, "/ready") == (200, "OK\n")
                assert await hook(made)
                await admit(server, made.ports["webhook"], asks({"metadata": {}}))
                assert await health_of(made) == SERVING

    run(scenario())


def test_after_it_was_told_to_end_it_is_not_ready_and_still_answers(tmp_path: Path):
    async def scenario() -> None:
        async with running() as server:
            register(server)
            put(server, *resources())
            mounted(tmp_path)
            async with together(server, tmp_path, drain=3600.0) as (made, stop):
                await until(lambda: bool(made.ports) and made.readiness() == "", "readiness")
                await until(lambda: LEASE in server.cluster.objects, "a leader")
                stop.set()
                await until(lambda: made.readiness() != "", "the begin of the end")
                assert await page(made, "/ready") == (503, "the process ends\n")
                assert (await page(made, "/health"))[0] == 200
                assert await health_of(made) == NOT_SERVING
                assert await hook(made)
                await admit(server, made.ports["webhook"], asks({"metadata": {}}))
                assert server.cluster.get(LEASE)["spec"]["holderIdentity"] == "one"

    run(scenario())


def test_a_mounted_authority_is_trusted_and_so_is_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("deploy.controller.webhook_certificates.LOOK_AT_FILES", 0.01)

    async def scenario() -> None:
        async with running() as server:
            register(server)
            put(server, *resources())
            first = mounted(tmp_path)
            async with together(server, tmp_path) as (made, _):
                await until(lambda: bool(made.ports) and made.readiness() == "", "readiness")
                assert trusted(server) == first.bundle
                second = mounted(tmp_path)
                await until(lambda: trusted(server) == second.bundle, "the next authority")
                await admit(server, made.ports["webhook"], asks({"metadata": {}}))

    run(scenario())


def test_without_a_bundle_beside_it_a_certificate_is_somebody_elses_affair(tmp_path: Path):
    async def scenario() -> None:
        async with running() as server:
            put(server, *resources())
            mounted(tmp_path)
            (tmp_path / "ca.crt").unlink()
            async with together(server, tmp_path) as (made, _):
                await until(lambda: bool(made.ports) and made.readiness() == "", "readiness")

    run(scenario())


def test_a_webhook_that_is_not_registered_keeps_it_from_being_ready(tmp_path: Path):
    async def scenario() -> None:
        async with running() as server:
            put(server, *resources())
            mounted(tmp_path)
            async with together(server, tmp_path) as (made, _):
                await until(lambda: bool(made.ports) and "is not there" in made.readiness(), "a reason")
                assert made.readiness() == (
                    "no certificate for the webhook: MutatingWebhookConfiguration "
                    f"envoy-ai-gateway-gateway-pod-mutator.{HOME} is not there"
                )
                register(server)
                await until(lambda: made.readiness() == "", "readiness")

    run(scenario())


def test_addresses_for_sockets_and_for_grpc():
    assert grpc_address(("", 1)) == "[::]:1"
    assert grpc_address(("::1", 1)) == "[::1]:1"
    assert grpc_address(("0.0.0.0", 1)) == "0.0.0.0:1"
    with listen(("", 0), "this") as bound:
        port = bound.getsockname()[1]
        with pytest.raises(OSError, match=f"that cannot listen on :{port}: Address already in use"):
            listen(("", port), "that")
