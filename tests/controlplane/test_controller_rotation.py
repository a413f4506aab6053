"""Rotation in a cluster: a credential that is due is exchanged, written, compiled, and renewed before it expires."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from deploy.controller.backoff import Backoff
from deploy.controller.exchanges import Exchanges, Hosts
from deploy.controller.kinds import Key
from deploy.controller.rotator import Rotator
from deploy.controller.token_http import Caller
from tests.support import gateway_resources as g
from tests.support.azure_endpoints import CLIENT, SECRET, TENANT, AzureEndpoints
from tests.support.kube_controlled import controlling, put, run, until
from tests.support.kube_server import client, fails, running
from tests.support.kube_world import gateway, gateway_class, namespace, place_of

GENERATED = place_of("Secret", "default", "ai-eg-bsp-p")
AZURE = {"clientID": CLIENT, "tenantID": TENANT, "clientSecretRef": {"name": "entra"}}


class Clock:
    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(tz=UTC) + self.ahead


def resources(secret: str = SECRET) -> list[dict[str, Any]]:
    return [
        gateway_class(),
        gateway(),
        namespace(),
        g.route("r", g.rule("b")),
        *g.served("b"),
        g.policy("p", "AzureCredentials", "b", azureCredentials=AZURE),
        g.secret("entra", **{"client-secret": secret}),
    ]


@asynccontextmanager
async def rotating(endpoints: AzureEndpoints, *values: dict[str, Any], pause: float = 0.05):
    """A server, a controller, and its rotation with a clock that can be put forward."""
    clock = Clock()
    async with running() as server:
        put(server, *values)
        async with controlling(server) as made:
            api, caller = client(server), Caller(seconds=5.0)
            exchanges = Exchanges(
                callers={"aws": caller, "azure": caller, "gcp": caller},
                hosts=Hosts(azure=endpoints.url),
                now=lambda: clock().timestamp(),
            )
            rotator = Rotator(
                store=made.controller.planner.store,
                server=api,
                exchanges=exchanges,
                metrics=made.controller.metrics,
                leads=made.controller.ready.is_set,
                seen=made.cache.changes.put,
                told=made.controller.tell,
                backoff=Backoff(first=pause, most=2 * pause),
                now=clock,
                turn=0.01,
            )
            task = asyncio.create_task(rotator.run())
            try:
                yield made, clock
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await api.close()


def payload(made: Any) -> bytes:
    config = made.controller.planner.config(Key("Gateway", "default", "gw"))
    return config.payload if config is not None else b""


def status(made: Any, name: str = "p") -> str:
    conditions = made.server.cluster.get(place_of("BackendSecurityPolicy", "default", name))
    found = conditions.get("status", {}).get("conditions", [{}])[0]
    return found.get("message", "") if found.get("status") == "False" else str(found.get("status"))


def test_a_token_is_had_compiled_and_renewed_in_time():
    async def scenario() -> None:
        with AzureEndpoints() as endpoints:
            async with rotating(endpoints, *resources()) as (made, clock):
                await until(lambda: b"canary-entra-1\n" in payload(made), "the first token in the config")
                (owner,) = made.server.cluster.get(GENERATED)["metadata"]["ownerReferences"]
                assert owner["kind"] == "BackendSecurityPolicy"
                await until(lambda: status(made) == "True", "an accepted policy")
                clock.ahead = timedelta(minutes=54)
                await made.settled()
                assert len(endpoints.issued) == 1
                clock.ahead = timedelta(minutes=56)
                await until(lambda: b"canary-entra-2\n" in payload(made), "the second token in the config")
                await made.settled()
                assert len(endpoints.issued) == 2

    run(scenario())


def test_short_lives_are_renewed_and_not_in_every_turn():
    async def scenario() -> None:
        with AzureEndpoints() as endpoints:
            endpoints.lifetime = 60
            async with rotating(endpoints, *resources()) as (made, clock):
                for number in range(1, 4):
                    await until(lambda count=number: len(endpoints.issued) == count, "another token")
                    await made.settled()
                    assert len(endpoints.issued) == number
                    clock.ahead += timedelta(seconds=50)

    run(scenario())


def test_what_fails_is_told_and_recovers():
    async def scenario() -> None:
        with AzureEndpoints() as endpoints:
            async with rotating(endpoints, *resources("canary-wrong")) as (made, _):
                await until(lambda: "answered 401: invalid_client" in status(made), "the reason in the status")
                assert "canary" not in status(made)
                put(made.server, *resources())
                await until(lambda: status(made) == "True", "an accepted policy")
                assert GENERATED in made.server.cluster.objects

    run(scenario())


def test_a_fault_of_one_policy_is_told_and_harms_no_other():
    async def scenario() -> None:
        with AzureEndpoints() as endpoints:
            # Anybody may write the annotation; the time is before all others.
            early = g.secret("ai-eg-bsp-q", azureAccessToken="t")
            early["metadata"]["annotations"] = {"rotators/expiration-time": "0001-01-01T00:00:00Z"}
            other = g.policy("q", "AzureCredentials", azureCredentials={**AZURE, "clientSecretRef": {"name": "none"}})
            async with rotating(endpoints, *resources(), early, other) as (made, _):
                await until(lambda: b"canary-entra-1\n" in payload(made), "the token in the config")
                await until(lambda: "does not exist" in status(made, "q"), "the reason in the status")

    run(scenario())


def test_a_fault_of_the_controller_is_told_and_not_tried_in_every_turn(monkeypatch: pytest.MonkeyPatch):
    tried = []

    def breaks(*_: Any) -> None:
        tried.append(1)
        raise LookupError

    async def scenario() -> None:
        monkeypatch.setattr(Exchanges, "get", breaks)
        with AzureEndpoints() as endpoints:
            async with rotating(endpoints, *resources(), pause=3600.0) as (made, _):
                await until(lambda: "a fault of the controller" in status(made), "the reason in the status")
                await made.settled()
                assert len(tried) == 1

    run(scenario())


def test_a_secret_that_cannot_be_written_is_written_later():
    async def scenario() -> None:
        with AzureEndpoints() as endpoints:
            async with rotating(endpoints) as (made, _):
                made.server.trouble(
                    lambda request: request.name == GENERATED.name and request.method.value == "PATCH", fails(500), 2
                )
                put(made.server, *resources())
                await until(lambda: GENERATED in made.server.cluster.objects, "the Secret")

    run(scenario())


def test_a_secret_of_somebody_else_is_left_alone():
    async def scenario() -> None:
        with AzureEndpoints() as endpoints:
            theirs = g.secret("ai-eg-bsp-p", password="theirs")
            async with rotating(endpoints, *resources(), theirs) as (made, _):
                await until(lambda: "belongs to somebody else" in status(made), "the reason in the status")
                assert "azureAccessToken" not in made.server.cluster.get(GENERATED)["data"]
                assert endpoints.calls == []

    run(scenario())


def test_a_deleted_policy_takes_its_credential_along():
    async def scenario() -> None:
        with AzureEndpoints() as endpoints:
            async with rotating(endpoints, *resources()) as (made, _):
                await until(lambda: GENERATED in made.server.cluster.objects, "the Secret")
                made.server.cluster.delete(place_of("BackendSecurityPolicy", "default", "p"))
                await until(lambda: GENERATED not in made.server.cluster.objects, "its end")
                await made.settled()
                assert b"azure" not in payload(made)

    run(scenario())


def test_a_client_secret_of_another_namespace_needs_a_grant():
    async def scenario() -> None:
        with AzureEndpoints() as endpoints:
            there = {**AZURE, "clientSecretRef": {"name": "entra", "namespace": "vault"}}
            values = [
                g.policy("p", "AzureCredentials", "b", azureCredentials=there),
                g.secret("entra", "vault", **{"client-secret": SECRET}),
            ]
            async with rotating(endpoints, *values) as (made, _):
                await until(lambda: "does not allow it" in status(made), "the reason in the status")
                put(
                    made.server,
                    g.grant("vault", source=(g.AI, "BackendSecurityPolicy", "default"), target=("", "Secret")),
                )
                await until(lambda: GENERATED in made.server.cluster.objects, "the Secret")

    run(scenario())
