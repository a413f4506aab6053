"""The command: a controller as a process, with its pages, which ends in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from deploy.controller.main import _parser, listen, main, options_of
from deploy.controller.service import ControllerService, ServiceOptions, serve
from tests.support import gateway_resources as g
from tests.support.kube_cluster import Place
from tests.support.kube_controlled import put, run, until
from tests.support.kube_server import KubeServer, client, running
from tests.support.kube_world import gateway, gateway_class, namespace, place_of

ROUTE = place_of("HTTPRoute", "default", "r")
LEASE = Place("coordination.k8s.io", "leases", "envoy-gateway-system", "envoy-ai-gateway-controller")


def resources() -> list[dict[str, Any]]:
    return [gateway_class(), gateway(), namespace(), g.route("r", g.rule("b")), *g.served("b")]


def kubeconfig(server: KubeServer) -> str:
    url = str(server.url).rstrip("/")
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": url}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "users": [{"name": "test", "user": {}}],
        }
    )


def test_the_process_writes_tells_how_it_is_and_ends_in_order(tmp_path: Path):
    async def scenario() -> None:
        async with running() as server:
            put(server, *resources())
            file = tmp_path / "kubeconfig"
            file.write_text(kubeconfig(server))
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "deploy.controller",
                "-metricsAddress=127.0.0.1:0",
                env={**os.environ, "KUBECONFIG": str(file), "POD_NAME": "controller-0"},
                stdout=asyncio.subprocess.PIPE,
            )
            assert process.stdout is not None
            try:
                port = (await process.stdout.readline()).decode().split()[-1]
                await until(lambda: ROUTE in server.cluster.objects, "the HTTPRoute")
                async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http:
                    assert (await http.get("/health")).text == "OK\n"
                    assert (await http.get("/ready")).text == "OK\n"
                    assert "controller_leading 1.0" in (await http.get("/metrics")).text
                holder = server.cluster.get(LEASE)["spec"]["holderIdentity"]
                assert holder.startswith("controller-0_")
                process.send_signal(signal.SIGTERM)
                assert await process.wait() == 0
                assert server.cluster.get(LEASE)["spec"]["holderIdentity"] == ""
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()

    run(scenario())


def test_before_everything_was_seen_it_is_not_ready_and_says_what_is_missing():
    async def scenario() -> None:
        async with running() as server:
            server.absent.add("gateways")
            service = ControllerService(client(server), ServiceOptions(identity="one", namespace="n", elect=False))
            stop = asyncio.Event()
            bound = listen("127.0.0.1:0")
            served = asyncio.create_task(serve(service, bound, stop))
            await until(lambda: service.readiness() == "not listed yet: Gateway", "all other kinds")
            url = f"http://127.0.0.1:{bound.getsockname()[1]}"
            async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
                answer = await http.get("/ready")
                assert (answer.status_code, answer.text) == (503, "not listed yet: Gateway\n")
                assert (await http.get("/health")).status_code == 200
                server.absent.clear()
                await service.controller.ready.wait()
                assert (await http.get("/ready")).status_code == 200
            stop.set()
            await served
            bound.close()
            version = service.controller.version
            assert version is not None
            assert not version.has_native_sidecars

    run(scenario())


def test_flags_have_the_peers_names_and_defaults():
    options = options_of(_parser().parse_args([]))
    assert options.namespace == "envoy-gateway-system"
    assert options.elect
    assert options.namespaces == ()
    assert options.controller.sidecar is not None
    given = ["-watchNamespaces=a, b", "--enableLeaderElection=false", "-rootPrefix", "/ai", "-extProcImage="]
    options = options_of(_parser().parse_args(given))
    assert options.namespaces == ("a", "b")
    assert not options.elect
    assert options.controller.root_prefix == "/ai"
    assert options.controller.sidecar is None


@pytest.mark.parametrize(
    ("flag", "says"),
    [("-enableLeaderElection=perhaps", "write true or false"), ("-metricsAddress=nowhere", "write host:port")],
)
def test_a_flag_that_cannot_be_read_is_told(flag: str, says: str, capsys: pytest.CaptureFixture[str]):
    assert main([flag]) == 2
    assert says in capsys.readouterr().err


def test_an_address_that_somebody_has_is_told(capsys: pytest.CaptureFixture[str]):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main([f"-metricsAddress=127.0.0.1:{taken.getsockname()[1]}"]) == 2
    assert "controller: " in capsys.readouterr().err


def test_without_a_cluster_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))
    assert main(["-metricsAddress=127.0.0.1:0"]) == 1
    assert "no cluster to work for" in capsys.readouterr().err
