"""``extproc controller``, the real process: what it makes in a cluster, whom it answers, and how it ends."""

from __future__ import annotations

import asyncio
import base64
import errno
import os
import signal
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from deploy.extension_server.server import encode
from deploy.injector import names
from deploy.injector.certificates import from_secret, maintain, service_names
from filter_config.redact import Secret
from protos import extension_pb2 as wire
from tests.support import envoy_gateway as eg
from tests.support import gateway_resources as g
from tests.support.kube_command import (
    CERTIFICATE,
    HOME,
    LEASE,
    SECRET,
    SERVICE,
    Command,
    admit,
    ask,
    command,
    register,
    trusted,
)
from tests.support.kube_controlled import put, run, until
from tests.support.kube_server import KubeServer, running
from tests.support.kube_world import gateway, gateway_class, namespace, place_of
from tests.unit.deploy.injector.cluster import admitted, asks

EG = "envoy-gateway-system"
HOOK = "/envoygateway.extension.EnvoyGatewayExtension/PostTranslateModify"
KEPT = f"--tlsCertSecretName={SECRET}"
SEED = "canary-of-a-seed"
ROUTE = place_of("HTTPRoute", "default", "r")


def resources() -> list[dict[str, Any]]:
    return [gateway_class(), gateway(), namespace(), g.route("r", g.rule("b")), *g.served("b"), g.mcp(g.server())]


def new_pod() -> dict[str, Any]:
    labels = {names.GATEWAY_NAME_LABEL: "gw", names.GATEWAY_NAMESPACE_LABEL: "default"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "envoy-", "labels": {"app.kubernetes.io/component": "proxy", **labels}},
        "spec": {"containers": [{"name": "envoy", "image": "envoy"}], "volumes": []},
    }


def sidecar(pod: dict[str, Any]) -> dict[str, Any] | None:
    places = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]
    return next((each for each in places if each["name"] == names.CONTAINER), None)


def leader(server: KubeServer) -> str:
    if LEASE not in server.cluster.objects:
        return ""
    return server.cluster.get(LEASE)["spec"]["holderIdentity"]


async def shown(port: int) -> x509.Certificate:
    """The certificate that a webhook shows to whoever comes."""
    import ssl

    context = ssl._create_unverified_context()
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(der)


async def injects(made: Command) -> dict[str, Any]:
    """The sidecar that a new pod gets, once the Secret with its config has been seen."""
    review = asks(new_pod(), namespace=EG)
    async with asyncio.timeout(60):
        while True:
            found = sidecar(admitted(new_pod(), await admit(made.server, made.ports["webhook"], review)))
            if found is not None:
                return found


def test_it_compiles_injects_answers_hooks_and_ends_in_order(tmp_path: Path):
    async def scenario() -> None:
        async with running() as server:
            register(server)
            put(server, *resources())
            async with command(server, tmp_path, KEPT, f"--mcpSessionEncryptionSeed={SEED}") as made:
                await made.is_ready()
                assert await made.page("/ready") == (200, "OK\n")
                assert await made.page("/health") == (200, "OK\n")
                await until(lambda: ROUTE in server.cluster.objects, "the HTTPRoute")
                await check_injection(made)
                await check_hook(made)
                assert made.server.denied == []
                _, metrics = await made.page("/metrics")
                for name in ("controller_leading 1.0", 'reviews_total{result="injected"} 1.0', 'code="OK"'):
                    assert name in metrics
                assert "extproc_quota_xds_published 1.0" in metrics
                assert leader(server).startswith("controller-0_")
                assert await made.end(signal.SIGTERM) == 0
                assert leader(server) == ""
            events = made.events()
            assert events.index("ready") < events.index("ending") < events.index("not leading")
            assert made.rest == []
            assert SEED not in str(made.log)

    async def check_injection(made: Command) -> None:
        found = await injects(made)
        refs = {each["name"]: each["valueFrom"]["secretKeyRef"] for each in found["env"] if "valueFrom" in each}
        ref = refs["EXTPROC_MCP_SESSION_ENCRYPTION_SEED"]
        secret = made.server.cluster.get(place_of("Secret", EG, ref["name"]))
        assert base64.b64decode(secret["data"][ref["key"]]).decode() == SEED
        assert SEED not in str(found)

    async def check_hook(made: Command) -> None:
        request = eg.request(routes=[eg.route_config(eg.route())], listeners=[eg.listener()])
        body = await ask(made.ports["extension server"], HOOK, encode(request))
        answer = wire.PostTranslateModifyResponse.FromString(body)
        assert "ai-gateway-extproc-uds" in [cluster.name for cluster in answer.clusters]
        filters = str(eg.documents(answer)["listeners"])
        assert "envoy.filters.http.ext_proc" in filters

    run(scenario())


def test_a_certificate_is_renewed_without_a_failed_admission(tmp_path: Path):
    """One that is about to end, of another authority, is put into the Secret while pods are admitted."""

    async def scenario() -> None:
        async with running() as server:
            register(server)
            put(server, *resources())
            async with command(server, tmp_path, KEPT) as made:
                await made.is_ready()
                port = made.ports["webhook"]
                first = await shown(port)
                old = maintain(None, service_names(SERVICE, HOME), datetime.now(tz=UTC) - timedelta(days=300))
                put_certificates(server, old)
                admissions = 0
                async with asyncio.timeout(60):
                    while (await shown(port)) in (first, old.server.certificate):
                        await injects(made)
                        admissions += 1
                await injects(made)
                renewed = await shown(port)
                assert renewed.not_valid_after_utc > datetime.now(tz=UTC) + timedelta(days=360)
                assert issued(renewed, old.bundle)
                # Who still has the certificate of before is trusted, too.
                assert issued(first, trusted(server))
                kept = from_secret(content(server))
                assert kept.server.certificate == renewed
                assert admissions >= 1

    run(scenario())


def put_certificates(server: KubeServer, certificates: Any) -> None:
    value = server.cluster.get(CERTIFICATE)
    data = {key: base64.b64encode(text.reveal().encode()).decode() for key, text in certificates.to_secret().items()}
    server.cluster.replace(CERTIFICATE, {**value, "data": data})


def content(server: KubeServer) -> dict[str, Secret]:
    data = server.cluster.get(CERTIFICATE)["data"]
    return {key: Secret(base64.b64decode(value).decode()) for key, value in data.items()}


def issued(certificate: x509.Certificate, bundle: str) -> bool:
    authorities = x509.load_pem_x509_certificates(bundle.encode())
    return certificate.issuer in [authority.subject for authority in authorities]


def test_of_two_replicas_both_answer_with_one_certificate_and_one_writes(tmp_path: Path):
    async def scenario() -> None:
        async with running() as server:
            register(server)
            put(server, *resources())
            async with (
                command(server, tmp_path / "a", KEPT, name="a") as one,
                command(server, tmp_path / "b", KEPT, name="b") as other,
            ):
                await one.is_ready()
                await other.is_ready()
                assert await shown(one.ports["webhook"]) == await shown(other.ports["webhook"])
                for each in (one, other):
                    await injects(each)
                    request = eg.request(routes=[eg.route_config(eg.route())], listeners=[eg.listener()])
                    assert await ask(each.ports["extension server"], HOOK, encode(request))
                    assert "extproc_quota_xds_published 1.0" in (await each.page("/metrics"))[1]
                await until(lambda: leader(server) != "", "a leader")
                leading, following = (one, other) if leader(server).startswith("a_") else (other, one)
                assert "controller_leading 0.0" in (await following.page("/metrics"))[1]
                assert await leading.end(signal.SIGTERM) == 0
                await until(lambda: "leading" in following.events(), "the other one to lead")
                put(server, g.route("later", g.rule("b")))
                later = place_of("HTTPRoute", "default", "later")
                await until(lambda: later in server.cluster.objects, "what the other one writes")

    run(scenario())


def test_parts_can_run_alone(tmp_path: Path):
    async def scenario() -> None:
        async with running() as server:
            register(server)
            put(server, *resources())
            async with (
                command(server, tmp_path / "a", "--only=controller") as controller,
                command(server, tmp_path / "b", "--only=injector", KEPT) as injector,
                command(server, tmp_path / "c", "--only=extension-server") as extension,
            ):
                for each in (controller, injector, extension):
                    await each.is_ready()
                assert set(controller.ports) == {"metrics"}
                assert set(injector.ports) == {"metrics", "webhook"}
                assert set(extension.ports) == {"metrics", "extension server", "quotas"}
                await until(lambda: ROUTE in server.cluster.objects, "the HTTPRoute")
                await injects(injector)
                assert "controller_leading 0.0" in (await injector.page("/metrics"))[1]
                holders = [event.object["spec"]["holderIdentity"] for event in server.cluster.log if is_lease(event)]
                assert len(set(holders)) == 1

    def is_lease(event: Any) -> bool:
        return event.place.plural == "leases"

    run(scenario())


# --- what ends it at once ---


async def ended(server: KubeServer, directory: Path, *flags: str, **environ: str) -> tuple[int, list[str]]:
    async with command(server, directory, *flags, **environ) as made:
        status = await asyncio.wait_for(made.process.wait(), 60)
    return status, made.rest


def test_what_could_not_be_listed_in_time_is_named(tmp_path: Path):
    async def scenario() -> tuple[int, list[str]]:
        async with running() as server:
            register(server)
            server.absent.update({"gateways", "aigatewayroutes"})
            return await ended(server, tmp_path, KEPT, "--cacheSyncTimeout=500ms")

    status, said = run(scenario())
    assert status == 1
    (line,) = said
    assert line == ("extproc controller: not listed within 0.5 s: AIGatewayRoute, Gateway; the log says why\n")


@pytest.mark.parametrize(
    ("flag", "what"),
    [
        ("--webhookPort={port}", "webhook cannot listen on :{port}"),
        ("--metricsAddress=127.0.0.1:{port}", "metrics cannot listen on 127.0.0.1:{port}"),
        ("--port=127.0.0.1:{port}", "extension server cannot listen on 127.0.0.1:{port}"),
        ("--ratelimitXdsAddress=127.0.0.1:{port}", "quotas cannot listen on 127.0.0.1:{port}"),
    ],
)
def test_an_address_that_is_taken_is_named(tmp_path: Path, flag: str, what: str):
    async def scenario(port: int) -> tuple[int, list[str]]:
        async with running() as server:
            return await ended(server, tmp_path, KEPT, flag.format(port=port))

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, said = run(scenario(port))
    assert status == 1
    (line,) = said
    assert line == f"extproc controller: {what.format(port=port)}: {os.strerror(errno.EADDRINUSE)}\n"


def test_a_certificate_that_is_not_mounted_is_named(tmp_path: Path):
    async def scenario() -> tuple[int, list[str]]:
        async with running() as server:
            return await ended(server, tmp_path, f"--tlsCertDir={tmp_path}/certs")

    status, said = run(scenario())
    assert status == 1
    (line,) = said
    assert line.startswith(f"extproc controller: cannot use certificate {tmp_path}/certs/tls.crt")


@pytest.mark.parametrize("text", [None, "a: [", "- a", "clusters: []"], ids=["none", "no YAML", "a list", "no context"])
def test_without_a_cluster_it_says_so(tmp_path: Path, text: str | None):
    file = tmp_path / "config"
    if text is not None:
        file.write_text(text)

    async def scenario() -> tuple[int, list[str]]:
        async with running() as server:
            return await ended(server, tmp_path, KEPT, KUBECONFIG=str(file))

    status, said = run(scenario())
    assert status == 1
    (line,) = said
    assert line.startswith("extproc controller: no cluster to work for: ")


def test_it_ends_in_order_also_before_it_is_ready(tmp_path: Path):
    """Nothing is listed, and nobody has installed the webhook's configuration."""

    async def scenario() -> None:
        async with running() as server:
            put(server, *resources())
            server.absent.add("gateways")
            async with command(server, tmp_path, KEPT, "--drainTime=1h") as made:
                await until(lambda: leader(server) != "", "a leader")
                status, said = await made.page("/ready")
                assert (status, said) == (503, "not listed yet: Gateway\n")
                assert await made.end(signal.SIGTERM) == 0
                assert leader(server) == ""
            assert made.rest == []
            assert not [line for line in made.log if line["level"] == "ERROR"]

    run(scenario())
