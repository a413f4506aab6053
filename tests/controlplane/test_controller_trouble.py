"""A controller against an API server in trouble: it comes to the same end, and asks no more than it must."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import kmock
import pytest

from deploy.controller.cache import ABSENT_SECONDS, Cache
from deploy.controller.errors import ApiFailed, ServerUnreachable
from deploy.controller.kinds import KINDS, Key
from deploy.controller.leader import Election, Elector
from deploy.controller.metrics import ControllerMetrics
from tests.support import gateway_resources as g
from tests.support.kube_controlled import LEASE, QUICK, controlling, put, run, scene, until
from tests.support.kube_server import KubeServer, client, fails, is_write, running
from tests.support.kube_world import create, gateway, gateway_class, namespace, place_of

ROUTE = place_of("HTTPRoute", "default", "r")


def resources(model: str = "m") -> list[dict[str, Any]]:
    return [gateway_class(), gateway(), namespace(), g.route("r", g.rule("b", model=model)), *g.served("b")]


def _named(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "namespace": "default", "annotations": {"note": text}}


def model(server: KubeServer) -> str:
    """The model that the written HTTPRoute is for."""
    rule = server.cluster.get(ROUTE)["spec"]["rules"][0]
    return rule["matches"][0]["headers"][0]["value"]


def is_watch(request: kmock.Request) -> bool:
    return request.params.get("watch") == "true"


def is_list(request: kmock.Request) -> bool:
    return request.method.value.upper() == "GET" and not request.name and not is_watch(request)


def slow(seconds: float):
    async def wait(_request: kmock.Request) -> None:
        await asyncio.sleep(seconds)

    return wait


# --- writes ---


@pytest.mark.parametrize("status", [409, 429, 500, 503])
def test_writes_that_fail_are_tried_again(status: int):
    async def scenario() -> None:
        async with running() as server:
            server.trouble(is_write, fails(status), 25)
            put(server, *resources())
            async with controlling(server) as made:
                await until(lambda: server.troubles[0].times == 0, "all the failures")
                await made.settled()
                assert model(server) == "m"
                assert made.count(made.controller.metrics.writes, code=str(status)) == 25

    run(scenario())


def test_a_server_that_asks_for_time_gets_it():
    async def scenario() -> None:
        async with running() as server:
            server.trouble(is_write, fails(429, **{"Retry-After": "1"}), 1)
            put(server, *resources())
            begin = asyncio.get_running_loop().time()
            async with controlling(server) as made:
                await made.settled()
                await until(lambda: not made.controller._later, "the pause to end")
                await made.settled()
                assert asyncio.get_running_loop().time() - begin >= 1.0
                assert made.server.cluster.get(place_of("AIGatewayRoute", "default", "r"))["status"]

    run(scenario())


def test_a_server_that_does_not_answer_a_write_is_asked_again():
    async def scenario() -> None:
        async with running() as server:
            server.trouble(is_write, slow(0.5), 3)
            put(server, *resources())
            async with controlling(server, patient=0.2) as made:
                await until(lambda: server.troubles[0].times == 0, "all the silences")
                await made.settled()
                assert model(server) == "m"

    run(scenario())


def test_a_slow_server_delays_and_loses_nothing():
    async def scenario() -> None:
        async with running() as server:
            server.trouble(lambda request: is_write(request) or is_list(request), slow(0.05), 200)
            put(server, *resources())
            async with controlling(server) as made:
                for number in range(30):
                    put(server, *resources(f"m{number}"))
                    await asyncio.sleep(0.01)
                await made.settled()
                assert model(server) == "m29"

    run(scenario())


def test_while_an_owner_is_written_for_others_are_too():
    def is_for(name: str):
        return lambda request: is_write(request) and request.name is not None and request.name.endswith(name)

    async def scenario() -> None:
        held = asyncio.Event()

        async def hold(_request: kmock.Request) -> None:
            await held.wait()

        async with running() as server:
            server.trouble(is_for("-slow"), hold, 1)
            put(server, *resources(), g.route("slow", g.rule("b", model="s")))
            async with controlling(server) as made:
                await until(lambda: ROUTE in server.cluster.objects, "the other route")
                put(server, *resources("changed"))
                await until(lambda: model(server) == "changed", "the change of the other route")
                assert place_of("HTTPRoute", "default", "slow") not in server.cluster.objects
                held.set()
                await made.settled()
                assert place_of("HTTPRoute", "default", "slow") in server.cluster.objects

    run(scenario())


def test_what_is_refused_is_not_written_all_the_time():
    crowded = g.route("x", g.rule(*(g.ref("b", modelNameOverride=str(number)) for number in range(17))))

    async def scenario() -> None:
        async with scene(*resources(), crowded) as made:
            await made.settled()
            refused = made.count(made.controller.metrics.writes, code="422")
            assert 1 <= refused <= 3
            status = made.server.cluster.get(place_of("AIGatewayRoute", "default", "x"))["status"]
            assert "at most 16 items" in status["conditions"][0]["message"]
            put(made.server, *resources("n"))
            await made.settled()
            assert made.count(made.controller.metrics.writes, code="422") == refused

    run(scenario())


def test_an_end_waits_for_the_writes_that_were_begun():
    async def scenario() -> None:
        async with running() as server:
            server.trouble(lambda request: is_write(request) and request.resource.plural == "httproutes", slow(0.3), 1)
            put(server, *resources())
            async with controlling(server) as made:
                await until(lambda: server.troubles[0].times == 0, "the slow write")
                made.stop.set()
                await made.ended
            assert model(server) == "m"

    run(scenario())


# --- watches ---


@pytest.mark.parametrize("status", [403, 429, 500])
def test_lists_and_watches_that_fail_are_tried_again(status: int):
    async def scenario() -> None:
        async with running() as server:
            server.trouble(is_list, fails(status), 30)
            server.trouble(is_watch, fails(status), 60)
            put(server, *resources())
            async with controlling(server) as made:
                await made.settled()
                put(server, *resources("n"))
                await until(lambda: model(server) == "n", "the change")

    run(scenario())


def test_a_watch_that_ends_goes_on_where_it_was_and_lists_nothing():
    async def scenario() -> None:
        async with scene(*resources()) as made:
            await made.settled()
            lists = made.count(made.controller.metrics.lists)
            for number in range(5):
                made.server.drop_watches()
                put(made.server, *resources(f"m{number}"))
                await made.settled()
                assert model(made.server) == f"m{number}"
            assert made.count(made.controller.metrics.lists) == lists

    run(scenario())


def test_a_version_that_is_too_old_means_a_list_which_tells_what_is_gone():
    async def scenario() -> None:
        async with scene(*resources()) as made:
            await made.settled()
            lists = made.count(made.controller.metrics.lists, kind="AIGatewayRoute")
            # The watches are held off while the world changes and forgets.
            made.server.trouble(is_watch, fails(410, "Expired"), len(KINDS))
            made.server.cluster.delete(place_of("AIGatewayRoute", "default", "r"))
            made.server.cluster.compact()
            made.server.drop_watches()
            await until(lambda: ROUTE not in made.server.cluster.objects, "the end of the HTTPRoute")
            await made.settled()
            assert made.count(made.controller.metrics.lists, kind="AIGatewayRoute") > lists

    run(scenario())


def test_what_was_written_and_deleted_while_nobody_looked_comes_again():
    filters = place_of("HTTPRouteFilter", "default", "ai-eg-host-rewrite-r")

    def is_filters(request: kmock.Request) -> bool:
        return request.resource.plural == filters.plural

    async def scenario() -> None:
        looks = asyncio.Event()

        async def wait(_request: kmock.Request) -> None:
            await looks.wait()

        (route,) = (value for value in resources() if value["kind"] == "AIGatewayRoute")
        others = [value for value in resources() if value["kind"] != "AIGatewayRoute"]
        async with scene(*others) as made:
            await made.settled()
            made.server.trouble(lambda request: is_filters(request) and is_watch(request), fails(410, "Expired"), 1)
            made.server.trouble(lambda request: is_filters(request) and is_list(request), wait, 1)
            made.server.drop_watches()
            put(made.server, route)
            store, key = made.controller.planner.store, Key("HTTPRouteFilter", "default", filters.name)
            await until(lambda: store.get(key) is not None, "the answer to the write")
            made.server.cluster.delete(filters)
            looks.set()
            await until(lambda: filters in made.server.cluster.objects, "the filter again")

    run(scenario())


def test_an_error_within_a_watch_means_a_list():
    line = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}

    def act(_request: kmock.Request) -> bytes:
        return json.dumps(line).encode() + b"\n"

    async def scenario() -> None:
        async with running() as server:
            server.trouble(lambda request: is_watch(request) and request.resource.plural == "gateways", act, 1)
            put(server, *resources())
            async with controlling(server) as made:
                await until(lambda: made.count(made.controller.metrics.lists, kind="Gateway") == 2, "another list")
                await made.settled()

    run(scenario())


def test_a_line_that_is_cut_is_no_event():
    def act(_request: kmock.Request) -> bytes:
        return b'{"type":"MODIFIED","object":{"metadata":{"name":"gw"'

    async def scenario() -> None:
        async with running() as server:
            server.trouble(lambda request: is_watch(request) and request.resource.plural == "gateways", act, 3)
            put(server, *resources())
            async with controlling(server) as made:
                await until(lambda: server.troubles[0].times == 0, "all the cut lines")
                await made.settled()
                assert made.count(made.controller.metrics.watch_failures, kind="Gateway") == 3

    run(scenario())


def test_a_text_of_a_user_ends_no_line_of_a_watch():
    async def scenario() -> None:
        async with scene(*resources()) as made:
            await made.settled()
            # NEL, which JSON does not escape, and which ends a line where Unicode says what a line is.
            put(made.server, g.service("b", schema="Anthropic") | {"metadata": _named("b", "a\x85b")})
            await until(lambda: b"Anthropic" in _payload(made.controller.planner), "the change")
            assert made.count(made.controller.metrics.watch_failures) == 0

    run(scenario())


def test_what_is_nested_without_end_harms_nothing_else():
    """A GatewayConfig has fields that take anything, and the API server takes ten thousand levels of it."""
    deep = b'{"a":' * 9000 + b"1" + b"}" * 9000
    item = (
        b'{"metadata":{"name":"c","namespace":"default","uid":"u","resourceVersion":"3"},'
        b'"spec":{"extProc":{"kubernetes":{"env":[{"name":"X","valueFrom":' + deep + b"}]}}}}"
    )

    def is_config(request: kmock.Request) -> bool:
        return request.resource.plural == "gatewayconfigs"

    async def scenario() -> None:
        async with running() as server:
            listed = b'{"metadata":{"resourceVersion":"3"},"items":[' + item + b"]}"
            server.trouble(lambda request: is_config(request) and is_list(request), lambda _: listed, 1)
            watched = b'{"type":"MODIFIED","object":' + item + b"}\n"
            server.trouble(lambda request: is_config(request) and is_watch(request), lambda _: watched, 1)
            put(server, *resources())
            async with controlling(server) as made:
                store, key = made.controller.planner.store, Key("GatewayConfig", "default", "c")
                await until(lambda: store.get(key) is not None, "the object")
                await until(lambda: made.count(made.controller.metrics.events, kind="GatewayConfig") > 0, "the event")
                await until(lambda: ROUTE in server.cluster.objects, "the HTTPRoute")
                assert made.count(made.controller.metrics.watch_failures, kind="GatewayConfig") == 0

    run(scenario())


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"items":[1]}', b"\xff", b""], ids=repr)
def test_an_answer_of_something_in_between_is_asked_for_again(body: bytes):
    async def scenario() -> None:
        async with running() as server:
            server.trouble(is_list, fails(200, body=body or b" "), 3)
            server.trouble(is_write, fails(200, body=body or b" "), 3)
            put(server, *resources())
            async with controlling(server) as made:
                await until(lambda: all(each.times == 0 for each in server.troubles), "all the pages")
                await made.settled()
                assert model(server) == "m"

    run(scenario())


def test_bookmarks_spare_lists():
    async def scenario() -> None:
        async with running() as server:
            server.bookmark_every = 1
            put(server, *resources())
            async with controlling(server) as made:
                await made.settled()
                reflectors = made.cache.reflectors
                await until(
                    lambda: all(int(each._version) == server.cluster.version for each in reflectors), "bookmarks"
                )
                lists = made.count(made.controller.metrics.lists)
                server.cluster.compact()
                server.drop_watches()
                put(server, *resources("n"))
                await until(lambda: model(server) == "n", "the change")
                assert made.count(made.controller.metrics.lists) == lists

    run(scenario())


def test_long_lists_come_in_pages_and_begin_anew_when_a_page_is_too_old():
    async def scenario() -> None:
        async with running() as server:
            server.page = 3
            server.trouble(lambda request: "continue" in request.params, fails(410, "Expired"), 1)
            names = [f"b{number}" for number in range(10)]
            put(server, *resources(), *(made for name in names for made in g.served(name)))
            async with controlling(server) as made:
                await made.settled()
                assert len(made.controller.planner.store.of_kind("AIServiceBackend")) == 11

    run(scenario())


def test_a_kind_that_is_not_there_may_come():
    pool = g.ref("p", group=g.INFERENCE, kind="InferencePool")

    async def scenario() -> None:
        async with running() as server:
            server.absent.add("inferencepools")
            put(server, gateway_class(), gateway(), namespace(), g.route("r", g.rule(pool)))
            async with controlling(server) as made:
                await made.settled()
                server.absent.clear()
                put(server, g.resource(f"{g.INFERENCE}/v1", "InferencePool", "p", spec={}))
                await made.settled()
                assert made.controller.planner.store.of_kind("InferencePool")
                server.absent.add("inferencepools")
                server.cluster.delete(place_of("InferencePool", "default", "p"))
                server.drop_watches()
                await made.settled()

    assert ABSENT_SECONDS > 1
    run(scenario())


def test_a_kind_that_must_be_there_is_waited_for():
    async def scenario() -> None:
        async with running() as server:
            server.absent.add("httproutefilters")
            put(server, *resources())
            async with controlling(server) as made:
                await until(lambda: made.cache.missing() == ["HTTPRouteFilter"], "all other kinds")
                assert not made.controller.ready.is_set()
                assert made.writes == 0
                server.absent.clear()
                await made.settled()
                assert model(server) == "m"

    run(scenario())


def test_only_some_namespaces_are_watched():
    async def scenario() -> None:
        async with running() as server:
            put(server, *resources(), *g.served("elsewhere", namespace="other"))
            api, metrics = client(server), ControllerMetrics()
            cache = Cache(api, metrics, namespaces=["default"], also=["envoy-gateway-system"], backoff=QUICK)
            spaces = {(each.kind.name, each.namespace) for each in cache.reflectors}
            assert {space for kind, space in spaces if kind == "Secret"} == {"default", "envoy-gateway-system"}
            assert {space for kind, space in spaces if kind == "AIServiceBackend"} == {"default"}
            assert {space for kind, space in spaces if kind == "GatewayClass"} == {""}
            watching = asyncio.create_task(cache.run())
            await cache.synced()
            names = {key.name for key in cache.changes.drain() if key.kind == "AIServiceBackend"}
            assert names == {"b"}
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await api.close()

    run(scenario())


# --- the client ---


def test_a_server_that_is_not_there_is_unreachable():
    async def scenario() -> None:
        async with running() as server:
            api = client(server)
        with pytest.raises(ServerUnreachable):
            await api.list(KINDS["Gateway"])
        await api.close()

    run(scenario())


def test_the_version_of_the_server_is_asked_for():
    async def scenario() -> tuple[str, str]:
        async with running() as server:
            api = client(server)
            try:
                return await api.version()
            finally:
                await api.close()

    assert run(scenario()) == ("1", "26")


def test_an_answer_that_is_no_status_is_an_error_with_its_code():
    async def scenario() -> None:
        async with running() as server:
            server.trouble(is_list, fails(502, body=b"<html>"), 1)
            api = client(server)
            with pytest.raises(ApiFailed, match="HTTP status 502") as caught:
                await api.list(KINDS["Gateway"])
            assert caught.value.status == 502
            await api.close()

    run(scenario())


# --- leaders ---


def test_of_two_controllers_one_writes_and_the_other_follows_it():
    async def scenario() -> None:
        async with running() as server:
            put(server, *resources())
            async with controlling(server, identity="one") as one:
                await until(lambda: one.writes > 0, "a leader")
                async with controlling(server, identity="two") as two:
                    await one.settled()
                    put(server, *resources("n"))
                    await until(lambda: model(server) == "n", "the change")
                    await two.controller.ready.wait()
                    assert two.writes == 0
                    # Who follows knows as much as who leads.
                    await until(lambda: two.knows_everything() and one.knows_everything(), "both to know")
                    configs = [each.controller.planner.config(Key("Gateway", "default", "gw")) for each in (one, two)]
                    assert configs[0] == configs[1]
                    one.stop.set()
                    await one.ended
                    assert one.elector is not None
                    await one.elector.retire()
                    put(server, *resources("o"))
                    await until(lambda: model(server) == "o", "the change by the other one")
                    await until(lambda: two.writes > 0, "the answer to the other one")

    run(scenario())


def test_a_leader_that_cannot_renew_writes_no_more():
    def is_lease(request: kmock.Request) -> bool:
        return request.resource.plural == "leases"

    async def scenario() -> None:
        async with running() as server:
            put(server, *resources())
            async with controlling(server, identity="one", patience=1.0) as made:
                await until(lambda: made.writes > 0, "a leader")
                await made.settled()
                server.trouble(is_lease, fails(500), 10_000)
                await until(lambda: made.elector is not None and not made.elector.is_leading, "the end of its time")
                written = made.writes
                put(server, *resources("other"))
                config = made.controller.planner
                await until(lambda: b"Name: other\n" in _payload(config), "the change to be compiled")
                assert made.writes == written
                server.troubles.clear()
                await until(lambda: model(server) == "other", "the change, by a leader again")

    run(scenario())


def test_a_leader_whose_time_was_over_for_a_moment_does_what_it_had_planned():
    async def scenario() -> None:
        async with scene(*resources()) as made:
            await made.settled()
            answers = [True, False]
            made.controller._leads = lambda: answers.pop(0) if answers else True
            put(made.server, *resources("n"))
            await until(lambda: not answers, "the moment")
            made.controller.moved()
            await until(lambda: model(made.server) == "n", "the change")

    run(scenario())


def _payload(planner: Any) -> bytes:
    config = planner.config(Key("Gateway", "default", "gw"))
    return config.payload if config is not None else b""


def test_a_lease_that_changes_hands_meanwhile_is_not_taken():
    async def scenario() -> None:
        async with running() as server:
            api = client(server)
            moves: list[int] = []
            electors = [
                Elector(api, Election(key=LEASE, identity=str(number)), lambda: moves.append(1), retry=0.01)
                for number in range(5)
            ]
            tasks = [asyncio.create_task(elector.run()) for elector in electors]
            await until(lambda: any(elector.is_leading for elector in electors), "a leader")
            for _ in range(50):
                assert sum(elector.is_leading for elector in electors) == 1
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await api.close()
            assert moves == [1]

    run(scenario())


def test_creating_twice_is_a_conflict():
    async def scenario() -> None:
        async with running(KubeServer(rights=None)) as server:
            create(server.cluster, gateway_class())
            api = client(server)
            with pytest.raises(ApiFailed) as caught:
                await api.create(KINDS["GatewayClass"], gateway_class())
            assert (caught.value.status, caught.value.reason) == (409, "AlreadyExists")
            await api.close()

    run(scenario())
