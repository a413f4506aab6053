"""What attempts do to headers is kept, and sent again only where it is the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.exchange import plan, replies
from extproc.exchange.header_changes import CONTENT_LENGTH, HeaderChange, HeaderChanges
from protos.ext_proc_pb2 import ProcessingResponse
from tests.support.playbook import ROUTE, Gateway, openai_backend

KEY = {"apiKey": {"key": "sk-canary"}}


def named(name, **about):
    return openai_backend(f"default/{name}/route/r/rule/0/ref/0", **about)


def mutation(*remove, **sets):
    return {"set": [{"name": name.replace("_", "-"), "value": value} for name, value in sets.items()], "remove": remove}


BACKENDS = [
    named("plain"),
    named("key", auth=KEY),
    named("renamed", auth=KEY, modelNameOverride="another"),
    named("mutated", auth=KEY, httpHeaderMutation=mutation("x-a", x_b="2", accept_encoding="gzip")),
    named("mutated-key", modelNameOverride="m", httpHeaderMutation=mutation(x_api_key="sk-mutated", x_c="3")),
    named("sized", modelNameOverride="m", httpHeaderMutation=mutation(content_length="7")),
    named("brought", auth={**KEY, "credentialOverride": {"headerName": "x-own", "fallbackToConfigured": True}}),
]
CONFIG = {"version": "dev", "backends": BACKENDS}
NAMES = [backend["name"] for backend in BACKENDS]

REQUEST = st.fixed_dictionaries(
    {
        "backends": st.lists(st.sampled_from(NAMES), min_size=1, max_size=3),
        "body": st.fixed_dictionaries({"model": st.sampled_from(["m", "n"])}, optional={"user": st.text(max_size=4)}),
        "headers": st.dictionaries(
            st.sampled_from(["x-a", "x-b", "x-own", "authorization", "x-api-key", "accept-encoding", "content-length"]),
            st.sampled_from(["gzip", "br, gzip;q=0.5", "7", "another"]),
            max_size=4,
        ),
        "query": st.sampled_from(["", "?a=1", "?b=2"]),
    }
)


def played(gateway, request):
    """What Envoy is told of each attempt, and the headers that logs and metrics see."""
    path = {":path": "/v1/chat/completions" + request["query"]}
    exchange = gateway.exchange()
    exchange.request(json.dumps(request["body"]).encode(), {**request["headers"], **path})
    seen = []
    for backend in request["backends"]:
        reply = exchange.attempt(backend, route=ROUTE)
        # The id of the request differs, and comes back on attempts.
        headers = {name: value for name, value in exchange.router._router._attempt.headers.items() if "-id" not in name}
        seen.append((reply.message, headers))
    return seen


@given(st.lists(REQUEST, min_size=1, max_size=6))
def test_requests_are_sent_as_if_each_were_the_only_one(requests):
    shared = Gateway(CONFIG)
    for request in [*requests, *requests]:
        assert played(shared, request) == played(Gateway(CONFIG), request)


def plans(gateway):
    return list(gateway.processor.runtime.derived.values())


def sent(gateway, backend, body=b'{"model":"m"}', **headers):
    exchange = gateway.exchange()
    exchange.request(body, headers)
    return exchange.attempt(f"default/{backend}/route/r/rule/0/ref/0")


@pytest.mark.parametrize("backend", ["plain", "key", "renamed", "mutated", "mutated-key", "sized"])
def test_the_same_changes_are_worked_out_once(backend, monkeypatch):
    gateway = Gateway(CONFIG)
    first = sent(gateway, backend)
    monkeypatch.setattr("extproc.exchange.upstream.HeaderChanges", None)
    assert sent(gateway, backend).message == first.message


def test_the_length_of_the_body_is_that_of_each():
    gateway = Gateway(CONFIG)
    for text in ("", "a" * 9, "a" * 2000, "é"):
        body = json.dumps({"model": "m", "user": text}, ensure_ascii=False).encode()
        reply = sent(gateway, "renamed", body)
        assert reply.set["content-length"] == str(len(reply.body))
        assert reply.metadata["content_length"] == len(reply.body)
    (kept,) = plans(gateway)
    assert len(kept.changes) == 1


def test_a_credential_that_depends_on_the_request_is_asked_for_each_time():
    gateway = Gateway(CONFIG)
    assert sent(gateway, "brought", **{"x-own": "sk-1"}).set["Authorization"] == "Bearer sk-1"
    assert sent(gateway, "brought", **{"x-own": "sk-2"}).set["Authorization"] == "Bearer sk-2"
    assert sent(gateway, "brought").set["Authorization"] == "Bearer sk-canary"
    (kept,) = plans(gateway)
    assert not kept.changes


def test_what_a_second_attempt_undoes_is_not_kept():
    gateway = Gateway(CONFIG)
    exchange = gateway.exchange()
    exchange.request({"model": "m"})
    exchange.attempt(NAMES[3])
    exchange.attempt(NAMES[0])
    assert sorted(len(each.changes) for each in plans(gateway)) == [0, 1]


def test_changes_are_bounded_in_number_and_size():
    gateway = Gateway(CONFIG)
    for number in range(plan._MOST_FORMS + 5):
        sent(gateway, "key", **{":path": f"/v1/chat/completions?n={number}"})
    (kept,) = plans(gateway)
    assert 0 < len(kept.changes) <= plan._MOST_FORMS
    kept.changes.clear()
    sent(gateway, "key", **{":path": f"/v1/chat/completions?n={'1' * plan._LONG}"})
    assert not kept.changes


def test_nothing_that_is_kept_shows_a_credential():
    gateway = Gateway(CONFIG)
    sent(gateway, "key")
    sent(gateway, "mutated-key")
    assert plans(gateway)
    for each in plans(gateway):
        assert each.changes
        assert "sk-" not in repr(each)
        assert "sk-" not in repr(list(each.changes.values()))


def test_a_length_that_was_replaced_is_the_same_each_time():
    """Also where the one that was replaced read the same."""
    changes = HeaderChanges()
    changes.set_length("7")
    changes.set("Content-Length", "7")
    change = HeaderChange(changes, {"Content-Length": "7"}, also_removes="x")
    sent = replies.common("request_headers", mutation=change.encoded("8")).SerializeToString()
    message = ProcessingResponse.FromString(sent)
    (option,) = message.request_headers.response.header_mutation.set_headers
    assert (option.header.key, option.header.raw_value) == ("Content-Length", b"7")
    headers = {}
    change.show(headers, "8")
    assert CONTENT_LENGTH not in headers
