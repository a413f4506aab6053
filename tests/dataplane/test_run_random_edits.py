"""``extproc run`` under load: whatever sequence of edits arrives, what all of them leave in place never fails."""

from __future__ import annotations

import random
import socket

import httpx
import pytest

from tests.dataplane.harness.client import CHAT, question
from tests.dataplane.harness.load import Load
from tests.dataplane.harness.replies import chat_completion, json_reply
from tests.dataplane.harness.running import Running, write
from tests.dataplane.harness.waiting import wait_until
from tests.support.gateway_resources import (
    AI,
    endpoint,
    gateway,
    listener,
    policy,
    ref,
    resource,
    route,
    rule,
    secret,
    service,
    text,
)

ANTHROPIC = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Hello."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
# What a provider is asked, and how; anything else is refused, so that half of an edit cannot go unnoticed.
PROVIDERS = {
    "OpenAI": ("APIKey", "apiKey", "/v1/chat/completions", "authorization", "Bearer sk-", chat_completion("m")),
    "Anthropic": ("AnthropicAPIKey", "anthropicAPIKey", "/v1/messages", "x-api-key", "sk-", ANTHROPIC),
}


PER_USER = {"name": "x-user", "type": "Distinct"}


def strict(name, schema):
    _, _, target, header, prefix, answer = PROVIDERS[schema]

    def reply(received):
        if (received.target, received.header(header)) == (target, f"{prefix}{name}"):
            return json_reply(answer)
        return json_reply({"error": {"message": f"{name} got {received.target}"}}, status=400)

    return reply


@pytest.fixture(scope="module")
def upstreams(start_upstream):
    made = {}
    for name, schema in (("a", "OpenAI"), ("b", "OpenAI"), ("c", "Anthropic"), ("d", "Anthropic")):
        made[name] = (schema, start_upstream(name))
        made[name][1].always(strict(name, schema))
    return made


@pytest.fixture
def unused_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


class World:
    """Resources that change at random, of which the route of the model ``m`` always has some backend."""

    def __init__(self, seed, upstreams):
        self._draw = random.Random(seed)
        self._upstreams = upstreams
        self._names = sorted(upstreams)
        self._backends = {name: name for name in ("one", "two")}
        self._backends = {name: self._draw.choice(self._names) for name in self._backends}
        self._extra = {}
        self._name = "main"
        self._rules_before = 0
        self._costs = 0
        self._hosts = ()
        self._listeners = 1
        self._refs = ["one"]
        self.changes = [
            self._move,
            self._choose,
            self._rename,
            self._put_a_rule_before,
            self._cost,
            self._host,
            self._come_and_go,
            self._listen,
        ]

    def change(self):
        """One to three changes at once; gives their names."""
        chosen = self._draw.sample(self.changes, self._draw.randint(1, 3))
        for change in chosen:
            change()
        return [change.__name__ for change in chosen]

    def _move(self):
        name = self._draw.choice(sorted(self._backends))
        self._backends[name] = self._draw.choice(self._names)

    def _choose(self):
        self._refs = self._draw.choice((["one"], ["two"], ["one", "two"], ["two", "one"]))

    def _rename(self):
        self._name = self._draw.choice(("main", "other", "first"))

    def _put_a_rule_before(self):
        self._rules_before = self._draw.randint(0, 2)

    def _cost(self):
        self._costs = self._draw.randint(0, 3)

    def _host(self):
        self._hosts = self._draw.choice(((), ("127.0.0.1",), ("*.example", "127.0.0.1")))

    def _come_and_go(self):
        name = f"extra-{self._draw.randint(0, 2)}"
        if self._extra.pop(name, None) is None:
            self._extra[name] = self._draw.choice(self._names)

    def _listen(self):
        self._listeners = self._draw.randint(1, 2)

    def resources(self, port, *further):
        listeners = [listener("http", port=80), listener("more", port=port)][: self._listeners]
        costs = [{"metadataKey": f"cost-{number}", "type": "TotalToken"} for number in range(self._costs)]
        before = [rule("one", model=f"before-{number}") for number in range(self._rules_before)]
        refs = [ref(name, weight=1 + number) for number, name in enumerate(self._refs)]
        found = [
            *further,
            gateway(listeners=listeners),
            route(self._name, *before, rule(*refs), llmRequestCosts=costs, hostnames=list(self._hosts)),
        ]
        for name, upstream in {**self._backends, **self._extra}.items():
            schema, server = self._upstreams[upstream]
            kind, field, *_ = PROVIDERS[schema]
            address = {"ip": {"address": "127.0.0.1", "port": server.port}}
            found += [
                service(name, schema=schema),
                endpoint(name, endpoints=[address]),
                policy(name, kind, name, **{field: {"secretRef": {"name": name}}}),
                secret(name, apiKey=f"sk-{upstream}"),
            ]
        found += [route(name, rule(name, model=name)) for name in self._extra]
        self._draw.shuffle(found)
        return text(*found).data.decode()


@pytest.mark.parametrize("seed", range(3))
def test_no_request_fails_whatever_is_edited(tmp_path, upstreams, unused_port, seed):
    world = World(seed, upstreams)
    file = tmp_path / "resources.json"
    write(file, world.resources(unused_port))
    with Running("--port=0", "--admin-port=0", str(file)) as running:
        running.wait_until_live()
        done = []
        with Load(running, question("m", max_tokens=9), good=lambda status, _: status == 200, clients=3) as load:
            for _ in range(12):
                done.append(world.change())
                running.edit(lambda: write(file, world.resources(unused_port)))
                load.wait_for_more(10)
                assert load.failures == [], done
        assert load.failures == [], done
        assert running.complained == []


def test_a_budget_that_is_spent_stays_so_whatever_else_is_edited(tmp_path, upstreams, unused_port):
    world = World(7, upstreams)
    world.changes.remove(world._choose)
    bucket = {"quota": {"limit": 20, "duration": "1d"}, "clientSelectors": [{"headers": [PER_USER]}]}
    target = {"group": AI, "kind": "AIServiceBackend", "name": "one"}
    spec = {"targetRefs": [target], "perModelQuotas": [{"modelName": "m", "quota": {"bucketRules": [bucket]}}]}
    quota = resource(f"{AI}/v1alpha1", "QuotaPolicy", "q", spec=spec)
    file = tmp_path / "resources.json"
    write(file, world.resources(unused_port, quota))

    with Running("--port=0", "--admin-port=0", str(file)) as running:
        running.wait_until_live()

        def status(user):
            asked = question("m", max_tokens=9)
            return httpx.post(
                running.base_url + CHAT, json=asked, headers={"x-user": user}, timeout=30, trust_env=False
            ).status_code

        wait_until(lambda: status("eve") == 429, "the budget is spent")
        for number in range(8):
            done = world.change()
            running.edit(lambda: write(file, world.resources(unused_port, quota)))
            assert (status("eve"), status(f"user-{number}")) == (429, 200), done
