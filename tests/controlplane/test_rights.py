"""What the roles of the manifests grant is what the controller asks for: all of that, and nothing else.

That nothing more is asked for holds in every test with an API server, which refuses it, and fails the test.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from deploy.controller.cache import Cache
from deploy.controller.kinds import LEASE as LEASE_KIND
from deploy.controller.kinds import Key
from deploy.controller.metrics import ControllerMetrics
from deploy.controller.webhook_certificates import CONFIGURATION, KeptCertificate, Registration, watching
from deploy.injector import certificates
from deploy.injector.tls import TlsFiles
from tests.controlplane.test_controller_cluster import EG, identity, labelled, resources
from tests.support import gateway_resources as g
from tests.support.kube_cluster import Place
from tests.support.kube_controlled import LEASE, QUICK, Running, controlling, put, run, until
from tests.support.kube_rights import HOME, Asked, Grant, Rights, rights
from tests.support.kube_server import LEASES, KubeServer, client, running
from tests.support.kube_world import gateway, gateway_class, place_of

WEBHOOK = f"envoy-ai-gateway-gateway-pod-mutator.{HOME}"
FINALIZER = "aigateway.envoyproxy.io/finalizer"
MADE = {"Secret", "HTTPRoute", "HTTPRouteFilter"}


def held(value: dict[str, Any]) -> dict[str, Any]:
    """A resource with what the peer puts on it."""
    if not value["apiVersion"].startswith(g.AI):
        return value
    return {**value, "metadata": {**value["metadata"], "finalizers": [FINALIZER]}}


def envoys() -> list[dict[str, Any]]:
    return [
        labelled(g.resource("v1", "Pod", "p", EG, spec={"containers": [{"name": "envoy"}]})),
        labelled(g.resource("apps/v1", "Deployment", "d", EG, spec={"template": {"metadata": {}}})),
        labelled(g.resource("apps/v1", "DaemonSet", "d", EG, spec={"template": {"metadata": {}}})),
    ]


def is_left(made: Running) -> bool:
    ai = [place for place in made.server.cluster.objects if place.group == g.AI]
    made_of = [entry for kind in MADE for entry in made.controller.planner.store.of_kind(kind)]
    return bool(ai or made_of) or not made.knows_everything()


async def come_and_go(server: KubeServer) -> None:
    """Something of every kind comes, is served, and goes."""
    values = [held(value) for value in resources()]
    put(server, *values, *envoys())
    async with controlling(server, identity="one") as made:
        await until(lambda: made.writes > 0, "a leader")
        await made.settled()
        for value in values:
            server.cluster.delete(place_of(*identity(value)))
        await until(lambda: not is_left(made), "a cluster without what was made")
    assert Place(LEASE_KIND.group, LEASE_KIND.plural, LEASE.namespace, LEASE.name) in server.cluster.objects


async def certified(server: KubeServer, directory: Path) -> None:
    """The webhook gets a certificate, which is then renewed."""
    configuration = Place(CONFIGURATION.group, CONFIGURATION.plural, "", WEBHOOK)
    service = {"name": "ai-gateway-controller", "namespace": HOME}
    webhooks = [{"name": "w", "clientConfig": {"service": service}}]
    server.cluster.create(configuration, {"kind": CONFIGURATION.name, "webhooks": webhooks, "metadata": {}})
    secret, clock = Key("Secret", HOME, "certificate"), timedelta()
    place = place_of(*secret)
    api = client(server)
    kept = KeptCertificate(
        api,
        watching(api, secret, ControllerMetrics()),
        secret,
        Registration(api, HOME),
        TlsFiles(certificate=directory / "tls.crt", key=directory / "tls.key"),
        now=lambda: datetime.now(tz=UTC) + clock,
        backoff=QUICK,
    )
    task = asyncio.create_task(kept.run())
    await kept.ready.wait()
    first = server.cluster.get(place)["data"]
    clock = certificates.SERVER_LIFE
    server.cluster.merge_patch(place, {"metadata": {"labels": {"looked": "at"}}})
    await until(lambda: server.cluster.get(place)["data"] != first, "another certificate")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await api.close()


def test_every_right_is_used_and_no_other(tmp_path: Path):
    async def scenario() -> KubeServer:
        async with running() as server:
            await come_and_go(server)
            await certified(server, tmp_path)
            return server

    server = run(scenario())
    assert server.denied == []
    assert server.rights is not None
    assert server.rights.unused(server.asked) == set()


@pytest.mark.parametrize("missing", [("watch", "secrets"), ("patch", "httproutes"), ("create", "leases")])
def test_a_right_that_is_missing_is_noticed(missing: tuple[str, str]):
    kept = frozenset(each for each in rights().grants if (each.verb, each.resource) != missing)

    async def scenario() -> None:
        async with running(KubeServer(rights=Rights(grants=kept, homes=frozenset({LEASES})))) as server:
            put(server, *resources(), *envoys())
            async with controlling(server, identity="one"):
                await until(lambda: bool(server.denied), "a refusal")

    with pytest.raises(AssertionError, match="no role of the controller allows"):
        run(scenario())


def test_a_narrow_controller_asks_for_nothing_elsewhere():
    """What the chart relies on when it grants rights in some namespaces only."""

    async def scenario() -> set[Asked]:
        async with running() as server:
            put(server, gateway_class(), gateway())
            api = client(server)
            cache = Cache(api, ControllerMetrics(), namespaces=("team",), also=(EG,))
            task = asyncio.create_task(cache.run())
            await cache.synced()
            await until(lambda: {("watch", "", "namespaces")} <= {each[:3] for each in server.asked}, "watches")
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await api.close()
            return server.asked

    asked = run(scenario())
    assert {each.namespace for each in asked} == {"", "team", EG}
    assert {each.resource for each in asked if not each.namespace} == {"gatewayclasses", "namespaces"}


# --- what RBAC says ---

NAMED = Grant("get", "g", "things", None, ("one",))
HERE = Grant("update", "g", "things", HOME, ())
TABLE: dict[str, tuple[Grant, Asked, bool]] = {
    "its name": (NAMED, Asked("get", "g", "things", "", "one"), True),
    "another name": (NAMED, Asked("get", "g", "things", "", "two"), False),
    "a list of one name": (NAMED, Asked("get", "g", "things"), False),
    "another verb": (NAMED, Asked("patch", "g", "things", "", "one"), False),
    "a part of it": (NAMED, Asked("get", "g", "things/status", "", "one"), False),
    "its namespace": (HERE, Asked("update", "g", "things", HOME, "x"), True),
    "another namespace": (HERE, Asked("update", "g", "things", "other", "x"), False),
    "all namespaces": (HERE, Asked("update", "g", "things"), False),
}


@pytest.mark.parametrize(("grant", "asked", "good"), TABLE.values(), ids=TABLE)
def test_a_grant_is_of_what_it_names(grant, asked, good):
    assert Rights(grants=frozenset({grant})).allow(asked) is good
