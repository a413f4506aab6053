"""Resources as routes: which rule takes a request, on which host and listener, and what is answered when none does."""

from __future__ import annotations

import json
import socket
import ssl

import pytest

from deploy.envoy import names
from tests.dataplane.harness.client import CHAT, connect, question
from tests.dataplane.harness.replies import chat_completion, json_reply
from tests.dataplane.harness.resources import provider, serve
from tests.support.certificates import Authority
from tests.support.gateway_resources import gateway, listener, ref, route, rule, secret

BACKENDS = ("any-red", "first", "host-a", "host-wild", "inner", "named", "patterned", "red", "wild")
MODEL = "x-ai-eg-model"
HTTP = [{"name": "gw", "sectionName": "http"}]


def match(*headers):
    return {"headers": [dict(zip(("name", "value", "type"), header, strict=False)) for header in headers]}


def to(backend, *matches):
    return {"backendRefs": [ref(backend)], "matches": list(matches)}


@pytest.fixture(scope="module")
def upstreams(start_upstream):
    upstreams = {name: start_upstream(name) for name in BACKENDS}
    for upstream in upstreams.values():
        upstream.always(json_reply(chat_completion("m")))
    return upstreams


@pytest.fixture(scope="module")
def stack(start_stack, upstreams, tmp_path_factory):
    chain, key = Authority(tmp_path_factory.mktemp("authority")).issue("secure")
    return serve(
        start_stack,
        gateway(
            listeners=[
                listener("http"),
                listener("inner", port=8080),
                listener(
                    "secure",
                    port=443,
                    protocol="HTTPS",
                    hostname="*.example",
                    tls={"certificateRefs": [{"name": "certificate"}]},
                ),
            ]
        ),
        route(
            "main",
            to("patterned", match((MODEL, "gpt-.*", "RegularExpression"))),
            to("first", match((MODEL, "gpt-4")), match((MODEL, "first"))),
            to("red", match((MODEL, "gpt-4"), ("x-team", "red"))),
            to("any-red", match((MODEL, "other"), ("x-team", "r.d", "RegularExpression"))),
            {"backendRefs": [ref("missing")], "matches": [match((MODEL, "broken"))]},
            {"backendRefs": [ref("first", weight=0)], "matches": [match((MODEL, "off"))]},
            parentRefs=HTTP,
        ),
        route("a", rule("host-a", model="hosted"), hostnames=["a.example"], parentRefs=HTTP),
        route(
            "wild",
            rule("host-wild", model="hosted"),
            rule("wild", model="wild"),
            hostnames=["*.example"],
            parentRefs=HTTP,
        ),
        route("inner", rule("inner", model="inner"), parentRefs=[{"name": "gw", "sectionName": "inner"}]),
        *(made for name, upstream in upstreams.items() for made in provider(name, upstream)),
        secret("certificate", **{"tls.crt": chain.read_text(), "tls.key": key.read_text()}),
        route("secure", rule("inner", model="secure"), parentRefs=[{"name": "gw", "sectionName": "secure"}]),
        faults=1,
    )


TAKEN = {
    "the only rule": ("first", {}, "first"),
    "a header less": ("gpt-4", {}, "first"),
    "a header more": ("gpt-4", {"x-team": "red"}, "red"),
    "another value": ("gpt-4", {"x-team": "blue"}, "first"),
    "a pattern": ("gpt-5", {}, "patterned"),
    "a pattern of a header": ("other", {"x-team": "rad"}, "any-red"),
    "a host of its own": ("hosted", {"host": "a.example"}, "host-a"),
    "a host with a port": ("hosted", {"host": "a.example:8080"}, "host-a"),
    "a host under a wildcard": ("hosted", {"host": "b.example"}, "host-wild"),
    "a wildcard that has more": ("wild", {"host": "a.example"}, "wild"),
    "routes of every host on a host": ("first", {"host": "a.example"}, "first"),
}


def ask(stack, model, *, port=None, **headers):
    with connect(stack) as client:
        url = CHAT if port is None else f"http://127.0.0.1:{port}{CHAT}"
        return client.post(url, json=question(model), headers=headers)


@pytest.mark.parametrize(("model", "headers", "backend"), TAKEN.values(), ids=TAKEN)
def test_a_rule_takes_a_request(stack, upstreams, model, headers, backend):
    assert ask(stack, model, **headers).status_code == 200

    assert {name for name, upstream in upstreams.items() if upstream.requests} == {backend}
    assert upstreams[backend].last.header("host") == f"{backend}.test"


ANSWERED = {
    "no such model": ("unknown", {}, 404, names.NOT_FOUND_BODY),
    "a header that does not match": ("other", {"x-team": "blue"}, 404, names.NOT_FOUND_BODY),
    "a model of another host": ("hosted", {}, 404, names.NOT_FOUND_BODY),
    "a model of another listener": ("inner", {}, 404, names.NOT_FOUND_BODY),
    "a rule whose backend is missing": ("broken", {}, 500, "has no backend"),
    "a rule whose backend has no weight": ("off", {}, 500, "has no backend"),
}


@pytest.mark.parametrize("case", ANSWERED.values(), ids=ANSWERED)
def test_envoy_answers_by_itself(stack, upstreams, case):
    model, headers, status, said = case

    answer = ask(stack, model, **headers)

    assert (answer.status_code, said in answer.text) == (status, True)
    assert not any(upstream.requests for upstream in upstreams.values())


def test_each_listener_has_a_port_and_routes_of_its_own(stack, upstreams):
    port = stack.envoy.port("default/gw/inner")

    assert ask(stack, "inner", port=port).status_code == 200
    assert ask(stack, "first", port=port).status_code == 404
    assert len(upstreams["inner"].requests) == 1


def test_a_listener_with_tls(stack, upstreams):
    port = stack.envoy.port("default/gw/secure")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="a.example") as secure,
    ):
        body = json.dumps(question("secure")).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nhost: a.example\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
        secure.sendall(head.encode() + b"content-type: application/json\r\n\r\n" + body)
        assert secure.recv(1 << 16).startswith(b"HTTP/1.1 200 OK")

    assert len(upstreams["inner"].requests) == 1


MODELS = {
    "a.example": {"hosted"},
    "elsewhere.test": set(),
}


@pytest.mark.parametrize(("host", "own"), MODELS.items(), ids=MODELS)
def test_a_host_lists_its_models(stack, host, own):
    with connect(stack) as client:
        listed = {entry["id"] for entry in client.get("/v1/models", headers={"host": host}).json()["data"]}

    assert own <= listed
    assert ("hosted" in listed) == bool(own)
    assert {"first", "gpt-4"} <= listed
