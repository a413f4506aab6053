"""``extproc explain`` names the backends of which a real Envoy reaches one, whatever routes and requests there are."""

from __future__ import annotations

import json
import random
from itertools import count
from typing import Any

import pytest

from extproc.explain import cli
from tests.dataplane.harness.client import CHAT, connect, question
from tests.dataplane.harness.replies import chat_completion, json_reply
from tests.dataplane.harness.resources import provider, serve
from tests.support.gateway_resources import Resource, api_key, gateway, listener, ref, route, secret, text

MODEL = "x-ai-eg-model"
REQUESTS = 24

HOSTS = (
    "a.example",
    "b.example",
    "x.a.example",
    "y.x.a.example",
    "other.test",
    "A.Example:8080",
    "localhost",
    "[::1]:80",
)
HOSTNAMES = ("a.example", "b.example", "x.a.example", "*.example", "*.a.example", "other.test")
MODELS = ("m", "n", "gpt-4", "gpt-5", "none")
TEAMS = ("red", "rod", "RED", "blue", "r", "", "red,blue", "rêd")
PATHS = (CHAT, f"{CHAT}?a=b", "/v1/embeddings", "/v1/completions")
MATCHES = (
    {"name": MODEL, "value": "m"},
    {"name": "X-AI-EG-Model", "value": "n"},
    {"name": MODEL, "value": "gpt-4"},
    {"name": MODEL, "value": "gpt-.*", "type": "RegularExpression"},
    {"name": MODEL, "value": "[[:alpha:]]+-\\d", "type": "RegularExpression"},
    {"name": "x-team", "value": "red"},
    {"name": "X-Team", "value": "r.d", "type": "RegularExpression"},
    {"name": "x-team", "value": "(?i)red|blue", "type": "RegularExpression"},
    {"name": "x-team", "value": "\\pL*", "type": "RegularExpression"},
    {"name": "x-team", "value": "re", "type": "RegularExpression"},
    {"name": "x-side", "value": "\\Qa\\E|b\\z", "type": "RegularExpression"},
    {"name": ":method", "value": "POST"},
)
LISTENERS = (
    (listener("http"),),
    (listener("http"), listener("example", hostname="*.example"), listener("exact", hostname="a.example")),
    (listener("example", hostname="*.example"), listener("deeper", hostname="*.a.example")),
    (listener("http"), listener("again"), listener("inner", port=8080, hostname="*.example")),
)


def some(draw: random.Random, values: Any, most: int) -> list[Any]:
    """A few of them, in any order, none twice."""
    return draw.sample(values, draw.randint(0, min(most, len(values))))


def conditions(draw: random.Random) -> list[Resource]:
    """One header at most once, as the schema of a route wants it."""
    return list({entry["name"].lower(): entry for entry in some(draw, MATCHES[:-1], 3)}.values())


def rules(draw: random.Random, backends: list[str], numbers: Any) -> list[Resource]:
    made = []
    for _ in range(draw.randint(1, 4)):
        names = draw.choices([*backends, "missing"], k=draw.choice((0, 1, 1, 2, 3)))
        refs = [
            ref(
                name,
                modelNameOverride=f"ref-{next(numbers)}",
                weight=draw.choice((0, 1, 1, 3)),
                priority=draw.choice((0, 0, 0, 1, 2)),
            )
            for name in names
        ]
        matches = [{"headers": conditions(draw)} for _ in range(draw.randint(0, 3))]
        made.append({"backendRefs": refs, **({"matches": matches} if matches else {})})
    return made


def configuration(draw: random.Random, backends: list[str]) -> list[Resource]:
    """A gateway with several listeners and routes; every reference overrides the model with a name of its own."""
    listeners = draw.choice(LISTENERS)
    numbers = count(1)
    routes = []
    for number in range(draw.randint(2, 5)):
        sections: list[Any] = some(draw, [entry["name"] for entry in listeners], 2) or [None]
        parents = [{"name": "gw", **({"sectionName": section} if section else {})} for section in sections]
        routes.append(
            route(
                f"r{number}",
                *rules(draw, backends, numbers),
                parentRefs=parents,
                meta={"creationTimestamp": f"2025-01-0{draw.randint(1, 3)}T00:00:00Z"},
                **({"hostnames": hostnames} if (hostnames := some(draw, HOSTNAMES, 3)) else {}),
            )
        )
    return [gateway(listeners=list(listeners)), *routes]


def request(draw: random.Random) -> tuple[str, str, dict[str, str], Any]:
    headers = {}
    if draw.random() < 0.6:
        headers["x-team"] = draw.choice(TEAMS)
    if draw.random() < 0.3:
        headers["x-side"] = draw.choice(("a", "b", "ab"))
    if draw.random() < 0.15:
        headers[MODEL] = draw.choice(MODELS)
    path = draw.choice((CHAT, CHAT, *PATHS))
    asked: Any = question(draw.choice(MODELS))
    if "embeddings" in path:
        asked = {"model": asked["model"], "input": "Hello"}
    elif "/completions" in path and "chat" not in path:
        asked = {"model": asked["model"], "prompt": "Hello"}
    return path, draw.choice(HOSTS), headers, asked


@pytest.fixture(scope="module")
def upstream(start_upstream):
    """Where all backends lead to; the model that is asked for tells which one it was."""
    upstream = start_upstream("all")
    upstream.always(json_reply(chat_completion("m")))
    return upstream


@pytest.fixture
def explained(tmp_path, capsys):
    def explained(path, host, headers, asked, *arguments):
        (tmp_path / "request.json").write_text(
            json.dumps({"path": path, "host": host, "headers": headers, "body": asked})
        )
        code = cli.main([str(tmp_path / "r.json"), "--request", str(tmp_path / "request.json"), "--json", *arguments])
        said = json.loads(capsys.readouterr().out)
        return code, said

    return explained


@pytest.mark.parametrize("seed", range(10))
def test_a_real_envoy_reaches_a_backend_that_is_explained(start_stack, upstream, explained, tmp_path, seed):
    draw = random.Random(seed)
    backends = ["one", "two"]
    resources = [
        *configuration(draw, backends),
        *(made for name in backends for made in provider(name, upstream)),
    ]
    (tmp_path / "r.json").write_bytes(text(*resources).data)
    stack = serve(start_stack, *resources, faults=None)
    ports = {"http": None, "example": None, "inner": "default/gw/inner"}
    places = [name for name in ports if any(entry["name"] == name for entry in resources[0]["spec"]["listeners"])]

    with connect(stack) as client:
        for _ in range(REQUESTS):
            path, host, headers, asked = request(draw)
            place = draw.choice(places)
            port = ports[place]
            url = path if port is None else f"http://127.0.0.1:{stack.envoy.port(port)}{path}"
            upstream.reset()
            answer = client.post(
                url, json=asked, headers={key: value.encode() for key, value in {**headers, "host": host}.items()}
            )
            code, said = explained(path, host, headers, asked, *([] if port is None else ["--listener", place]))
            case = (seed, path, host, headers, asked["model"], place, said, answer.status_code, answer.text)
            expected = {
                json.loads(backend["body"])["model"]
                for backend in said["backends"]
                if backend["refusal"] is None
                and backend["share"]
                and backend["priority"] == min(other["priority"] for other in said["backends"] if other["share"])
            }
            if expected:
                assert answer.status_code == 200, case
                assert upstream.last.json()["model"] in expected, case
                assert upstream.last.target == said["backends"][0]["path"], case
                assert code == 0, case
            else:
                assert not upstream.requests, case
                refusal = said["refusal"] or said["backends"][0]["refusal"]
                assert answer.status_code == refusal["status"], case
                assert code == 1, case


TAKEN_OUT = "[REDACTED]"
# What each request has that came this far, whatever the backend: of Envoy, and of the processor for the route.
OF_ENVOY = ("x-request-id", "x-forwarded-proto", MODEL, "x-ai-eg-original-path", "x-ai-eg-internal-req-id")
MUTATED = {
    "headerMutation": {
        "set": [{"name": "X-Set", "value": "ref"}, {"name": "x-client", "value": "over"}],
        "remove": ["X-Gone", "x-unknown"],
    },
    "bodyMutation": {
        "set": [{"path": "temperature", "value": "0.5"}, {"path": "metadata", "value": '{"a": [1, "é"]}'}],
        "remove": ["user", "nothing"],
    },
}
BELOW = {
    "headerMutation": {"set": [{"name": "x-gone", "value": "backend"}, {"name": "x-of-backend", "value": "b"}]},
    "bodyMutation": {"set": [{"path": "user", "value": '"backend"'}], "remove": ["temperature", "top_p"]},
}
ASKED = {"user": "u", "top_p": 0.9, "max_tokens": 7}
# The model that is asked for is that of the rule, which has the backend as its first one.
ASKS: dict[str, tuple[list[Resource], Resource, dict[str, str]]] = {
    "plain": ([ref("open")], ASKED, {}),
    "streamed": ([ref("open")], {**ASKED, "stream": True}, {"accept": "text/event-stream"}),
    "renamed": ([ref("open", modelNameOverride="ü/x:y")], ASKED, {"x-b": "1"}),
    "mutated": ([ref("mutated", modelNameOverride="n", **MUTATED)], ASKED, {"x-gone": "g", "X-Client": "c"}),
    "credential": ([ref("keyed")], ASKED, {"authorization": "Bearer sk-of-the-client"}),
    "overridden": ([ref("keyed")], ASKED, {"x-mine": "sk-canary-mine"}),
    "azure": ([ref("azure", modelNameOverride="d ploy/x")], ASKED, {}),
    "anthropic": ([ref("claude", modelNameOverride="claude-x")], ASKED, {"anthropic-beta": "b1"}),
    "anthropic streamed": ([ref("claude")], {**ASKED, "stream": True}, {}),
    "prefixed": ([ref("prefixed")], ASKED, {}),
    "a weight of none beside it": ([ref("mutated", weight=0), ref("open", weight=5)], ASKED, {}),
    "priorities without weights": (
        [ref("mutated", weight=0), ref("mutated", weight=0, priority=1), ref("claude", priority=2)],
        ASKED,
        {},
    ),
    "nothing with a weight": ([ref("open", weight=0), ref("open", weight=0, priority=1)], ASKED, {}),
}


def any_of(model: str) -> list[Resource]:
    """Matches of which one is enough."""
    regex = {"name": MODEL, "type": "RegularExpression", "value": "never|nothing"}
    exact = {"name": MODEL, "value": model}
    return [{"headers": [regex]}, {"headers": [exact, {"name": "x-team", "value": "other"}]}, {"headers": [exact]}]


def test_a_backend_gets_the_request_that_is_explained(start_stack, upstream, explained, tmp_path):
    rules = [{"matches": any_of(name), "backendRefs": refs} for name, (refs, _, _) in ASKS.items()]
    override = {"fromRequestHeaders": {"header": "X-Mine"}}
    resources = [
        gateway(listeners=[listener("http")]),
        route("r", *rules),
        *provider("open", upstream),
        *provider("mutated", upstream, **BELOW),
        *provider("keyed", upstream),
        *provider("azure", upstream, schema={"name": "AzureOpenAI", "version": "2025-01-01-preview"}),
        *provider("claude", upstream, schema="Anthropic"),
        *provider("prefixed", upstream, schema={"name": "OpenAI", "prefix": "/api/v3"}),
        api_key("keyed", "keyed", credentialOverride=override),
        secret("keyed", apiKey="sk-canary-explained"),
    ]
    (tmp_path / "r.json").write_bytes(text(*resources).data)
    stack = serve(start_stack, *resources)

    with connect(stack) as client:
        for name, (_, fields, headers) in ASKS.items():
            upstream.reset()
            asked = {**question(name), **fields}
            answer = client.post(
                CHAT, content=json.dumps(asked), headers={"content-type": "application/json", **headers}
            )
            code, said = explained(CHAT, "", headers, asked)
            case = (name, said, answer.status_code, answer.text)
            served = [backend for backend in said["backends"] if backend["share"]]
            if not served:
                assert (code, answer.status_code, upstream.requests) == (1, said["refusal"]["status"], []), case
                continue
            got, told = upstream.last, served[0]
            assert code == 0, case
            assert got.target == told["path"], case
            assert got.body.decode() == told["body"], case
            for header, value in told["headers"]:
                there = got.header(header)
                assert there is not None, (header, case)
                assert value in (TAKEN_OUT, there), (header, there, case)
            assert not [header for header in told["removed_headers"] if got.all(header)], case
            explained_names = {header for header, _ in told["headers"]}
            sent = {header.lower() for header in (*answer.request.headers, *OF_ENVOY)}
            assert {header.lower() for header, _ in got.headers} <= explained_names | sent, case
