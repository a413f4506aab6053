"""``extproc controller`` as a process, with an API server, and what the API server and Envoy Gateway ask of it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml
from grpc import aio

from tests.support.kube_cluster import Object, Place
from tests.support.kube_controlled import until
from tests.support.kube_server import KubeServer

HOME = "envoy-ai-gateway-system"
SERVICE = "ai-gateway-controller"
CONFIGURATION = Place(
    "admissionregistration.k8s.io",
    "mutatingwebhookconfigurations",
    "",
    f"envoy-ai-gateway-gateway-pod-mutator.{HOME}",
)
SECRET = "webhook-certificate"
CERTIFICATE = Place("", "secrets", HOME, SECRET)
LEASE = Place("coordination.k8s.io", "leases", HOME, "envoy-ai-gateway-controller")
ANYWHERE = (
    "--metricsAddress=127.0.0.1:0",
    "--port=127.0.0.1:0",
    "--webhookPort=0",
    "--ratelimitXdsAddress=127.0.0.1:0",
)


def configuration(*names: str) -> Object:
    """The webhook's configuration as the manifests have it, without an authority."""
    client = {"service": {"name": SERVICE, "namespace": HOME, "port": 9443, "path": "/mutate"}}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": CONFIGURATION.name},
        "webhooks": [{"name": name, "clientConfig": client, "sideEffects": "None"} for name in names or ("one",)],
    }


def register(server: KubeServer) -> None:
    """Somebody installs the webhook's configuration."""
    server.cluster.create(CONFIGURATION, configuration())


def trusted(server: KubeServer) -> str:
    """The authorities that the API server trusts, PEM; empty for none."""
    (webhook,) = server.cluster.get(CONFIGURATION)["webhooks"]
    return base64.b64decode(webhook["clientConfig"].get("caBundle", "")).decode()


def kubeconfig(url: str) -> str:
    """A kubeconfig that leads to a server."""
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


def written(directory: Path, url: str) -> Path:
    """A kubeconfig in a directory."""
    directory.mkdir(exist_ok=True)
    file = directory / "kubeconfig"
    file.write_text(kubeconfig(url))
    return file


@dataclass
class Command:
    """A process.

    Attributes:
        log: its lines, decoded.
    """

    server: KubeServer
    process: asyncio.subprocess.Process
    log: list[dict[str, Any]] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)

    async def read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            try:
                self.log.append(json.loads(line))
            except ValueError:
                self.rest.append(line.decode())

    def events(self) -> list[str]:
        return [line["msg"] for line in self.log]

    @property
    def ports(self) -> dict[str, int]:
        """By part."""
        return {line["part"]: line["port"] for line in self.log if line["msg"] == "listening"}

    async def is_ready(self) -> None:
        await until(lambda: "ready" in self.events() or self.process.returncode is not None, "a process that is ready")
        assert self.process.returncode is None, (self.rest, self.log[-3:])

    async def page(self, path: str) -> tuple[int, str]:
        async with httpx.AsyncClient(trust_env=False) as http:
            answer = await http.get(f"http://127.0.0.1:{self.ports['metrics']}{path}")
            return answer.status_code, answer.text

    async def end(self, signal: int) -> int:
        self.process.send_signal(signal)
        return await asyncio.wait_for(self.process.wait(), 60)


async def admit(server: KubeServer, port: int, review: bytes) -> bytes:
    """The API server's request to the webhook: whom it trusts is what the configuration says now."""
    context = ssl.create_default_context(cadata=trusted(server))
    async with httpx.AsyncClient(verify=context, trust_env=False, timeout=30) as http:
        answer = await http.post(
            f"https://127.0.0.1:{port}/mutate",
            content=review,
            headers={"Content-Type": "application/json"},
            extensions={"sni_hostname": f"{SERVICE}.{HOME}.svc"},
        )
    assert answer.status_code == 200, answer.text
    return answer.content


async def ask(port: int, method: str, body: bytes) -> bytes:
    """A call of Envoy Gateway."""
    async with aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.enable_http_proxy", 0)]) as channel:
        answer: bytes = await channel.unary_unary(method)(body, timeout=30)
        return answer


@asynccontextmanager
async def command(
    server: KubeServer, directory: Path, *flags: str, name: str = "controller-0", **environ: str
) -> AsyncIterator[Command]:
    """A process that works for a server, killed in the end if it still runs."""
    file = written(directory, str(server.url).rstrip("/"))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "extproc",
        "controller",
        *ANYWHERE,
        "--logFormat=json",
        "--drainTime=0",
        *flags,
        env={**os.environ, "KUBECONFIG": str(file), "POD_NAME": name, "POD_NAMESPACE": HOME, **environ},
        stderr=asyncio.subprocess.PIPE,
    )
    made = Command(server, process)
    reading = asyncio.create_task(made.read())
    try:
        yield made
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await reading
