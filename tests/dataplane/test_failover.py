"""A second attempt is a request to another backend, made from what the client sent and from nothing else."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from deploy.envoy.model import HeaderDescriptor, Retry, TokenBudget
from tests.dataplane.harness.broken import Absent, HangsUp
from tests.dataplane.harness.client import CHAT, OpenAnswer, connect, new_id, question
from tests.dataplane.harness.documents import backend, cost, filter_config, route, rule
from tests.dataplane.harness.replies import Reply, chat_chunks, chat_completion, json_reply, stream_reply
from tests.dataplane.harness.waiting import wait_until

BUDGET = TokenBudget(descriptors=(HeaderDescriptor(header="x-user-id", key="user"),), cost_key="tokens")
LIMITS = {
    "domain": "failover",
    "descriptors": [{"key": "user", "rate_limit": {"unit": "day", "requests_per_unit": 1000}}],
}
BUSY = json_reply({"error": {"message": "first is busy", "usage": {"total_tokens": 500}}}, status=503)
GOOD = json_reply(chat_completion("second-model", prompt=11, completion=7))
FIRST = {
    "model": "first-model-with-a-long-name",
    "key": "sk-first",
    "schema": {"name": "OpenAI", "prefix": "first/v1beta"},
    "httpHeaderMutation": {
        "set": [{"name": "x-only-first", "value": "first"}, {"name": "x-both", "value": "first"}],
        "remove": ["x-of-the-client"],
    },
    "httpBodyMutation": {"set": [{"path": "only_first", "value": '"first"'}], "remove": ["temperature"]},
}
SECOND = {
    "model": "second",
    "auth": {"azureAPIKey": {"key": "sk-second"}},
    "schema": {"name": "OpenAI", "prefix": "second/v2"},
    "httpHeaderMutation": {"set": [{"name": "x-both", "value": "second"}]},
}
CLIENT = {
    "authorization": "Bearer sk-of-the-client",
    "x-api-key": "sk-of-the-client",
    "x-of-the-client": "kept",
    "x-both": "of the client",
    "accept-encoding": "gzip, br",
}


@pytest.fixture(scope="module")
def first(start_upstream):
    return start_upstream("first")


@pytest.fixture(scope="module")
def second(start_upstream):
    return start_upstream("second")


@pytest.fixture(scope="module")
def limiter_and_service(start_rate_limit):
    return start_rate_limit(LIMITS)


@pytest.fixture(scope="module")
def absent():
    with Absent() as absent:
        yield absent


@pytest.fixture(scope="module")
def hangs_up():
    with HangsUp() as hangs_up:
        yield hangs_up


@pytest.fixture(scope="module")
def backends(first, second, absent, hangs_up):
    """Every backend, by name."""
    return SimpleNamespace(first=first, second=second, absent=absent, hangs_up=hangs_up)


@pytest.fixture(scope="module")
def stack(start_stack, backends, limiter_and_service):
    """Model ``both`` fails over from the first to the second; on host ``direct.test`` only the second serves it."""
    first, second = backends.first, backends.second
    routes = [
        route(
            rule(first, second, models=["both"], retry=Retry()),
            rule(backends.absent, second, models=["absent-first"], retry=Retry()),
            rule(first, second, models=["own-key"], retry=Retry()),
            rule(first, second, models=["disabled-first"], retry=Retry()),
            rule(backends.hangs_up, second, models=["hangs-up-first"], retry=Retry()),
            budgets=(BUDGET,),
        ),
        route(
            rule(second, models=["both", "absent-first", "hangs-up-first"]), name="direct", hostnames=("direct.test",)
        ),
    ]
    llm, direct = routes
    own_key = {"apiKey": {"key": "sk-unused"}, "credentialOverride": {"headerName": "x-own-key"}}
    entries = [
        backend(llm.backend_name(0, 0), **FIRST),
        backend(llm.backend_name(0, 1), **SECOND),
        backend(llm.backend_name(1, 0), **FIRST),
        backend(llm.backend_name(1, 1), **SECOND),
        backend(llm.backend_name(2, 0), auth=own_key),
        backend(llm.backend_name(2, 1), **SECOND),
        backend(llm.backend_name(3, 0), auth={"azureAPIKey": {"key": ""}}),
        backend(llm.backend_name(3, 1), **SECOND),
        backend(llm.backend_name(4, 0), **FIRST),
        backend(llm.backend_name(4, 1), **SECOND),
        backend(direct.backend_name(0, 0), **SECOND),
    ]
    return start_stack(
        routes=routes,
        config=filter_config(*entries, globalLLMRequestCosts=[cost("tokens")]),
        rate_limit=limiter_and_service[1],
        cost_keys=["tokens"],
    )


@pytest.fixture(scope="module")
def client(stack):
    with connect(stack) as client:
        yield client


def told_apart(received):
    """A request without what differs from one request to the next in any case."""
    changing = {"x-request-id", "x-ai-eg-internal-req-id"}
    headers = sorted((name.lower(), value) for name, value in received.headers if name.lower() not in changing)
    return received.method, received.target, headers, received.body


@pytest.mark.parametrize("model", ["both", "absent-first", "hangs-up-first"])
@pytest.mark.parametrize("fields", [{}, {"stream": True}], ids=["document", "stream"])
def test_the_second_attempt_is_what_a_direct_request_would_be(client, backends, model, fields):
    first, second, hangs_up = backends.first, backends.second, backends.hangs_up
    document = question(model, temperature=0.5, user="👩‍🚀", **fields)
    first.always(BUSY)
    second.always(stream_reply(*chat_chunks("second", "a")) if fields else GOOD)

    assert client.post(f"{CHAT}?a=1", json=document, headers=CLIENT | {"host": "direct.test"}).status_code == 200
    direct = second.last
    assert first.requests == []
    hung_up = hangs_up.requests
    assert client.post(f"{CHAT}?a=1", json=document, headers=CLIENT).status_code == 200
    failed_over = second.last

    assert failed_over is not direct
    assert told_apart(failed_over) == told_apart(direct)
    # And the direct request is what it should be.
    expected = {"stream_options": {"include_usage": True}} if fields else {}
    assert direct.json() == document | {"model": "second"} | expected
    assert (direct.target, direct.header("host")) == ("/second/v2/chat/completions?a=1", "second.test")
    assert direct.header("content-length") == str(len(direct.body))
    assert (direct.header("api-key"), direct.header("x-both")) == ("sk-second", "second")
    assert direct.header("x-of-the-client") == "kept"
    assert direct.names().isdisjoint({"authorization", "x-api-key", "x-only-first"})
    assert hangs_up.requests == hung_up + (model == "hangs-up-first")
    if model == "both":
        (attempted,) = first.requests
        assert attempted.json()["model"] == FIRST["model"]
        assert attempted.json()["only_first"] == "first"
        assert attempted.header("authorization") == "Bearer sk-first"
        assert attempted.target == "/first/v1beta/chat/completions?a=1"
        assert attempted.header("x-only-first") == "first"


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_the_client_sees_only_the_answer_that_worked(client, stack, limiter_and_service, backends, status):
    request_id = new_id(f"after-{status}")
    limiter, _ = limiter_and_service
    backends.first.always(Reply(status=status, headers=BUSY.headers, pieces=BUSY.pieces))
    backends.second.always(GOOD)

    headers = {"x-request-id": request_id, "x-user-id": request_id}
    response = client.post(CHAT, json=question("both"), headers=headers)

    assert (response.status_code, response.content) == (200, GOOD.body)
    entry = stack.access_log.wait_for(request_id)
    assert entry["attempts"] == 2
    assert entry["costs"] == {"tokens": 18}
    assert (entry["model"], entry["backend"]) == ("second", "default/second")
    assert entry["backend_ref"] == "default/second/route/llm/rule/0/ref/1"
    limiter.wait_until_charged(("user", request_id), amount=18)
    assert [each.hits for each in limiter.decisions if each.entries == (("user", request_id),)] == [0, 18]


def test_attempts_are_counted_one_by_one(client, stack, first, second):
    first.always(BUSY)
    second.always(GOOD)
    wait_until(lambda: stack.metrics().sum("extproc_streams") == 0, "former requests are over")
    before = {outcome: outcomes(stack, outcome) for outcome in ("retried", "success")}

    assert client.post(CHAT, json=question("both")).status_code == 200

    wait_until(lambda: stack.metrics().sum("extproc_streams") == 0, "the request is over")
    after = {outcome: outcomes(stack, outcome) for outcome in before}
    assert after == {outcome: count + 1 for outcome, count in before.items()}


def outcomes(stack, outcome):
    return stack.metrics().sum("extproc_attempts_total", outcome=outcome)


def test_a_stream_fails_over_before_it_begins(stack, first, second):
    chunks = chat_chunks("second", "a", "b")
    first.always(BUSY)
    second.always(stream_reply(*chunks, piece=11))

    asked = {"stream": True, "stream_options": {"include_usage": True}}
    with OpenAnswer(stack, question("both", **asked)) as answer:
        assert answer.rest() == b"".join(chunks)


def test_when_all_attempts_fail_the_client_gets_the_last_error(client, stack, first, second):
    request_id = new_id("all-failed")
    last = {"error": {"message": "second is busy", "type": "server_error", "code": "overloaded"}}
    refusal = json_reply(last, status=503)
    first.always(BUSY)
    second.always(Reply(status=503, headers=(*refusal.headers, ("retry-after", "7")), pieces=refusal.pieces))

    response = client.post(CHAT, json=question("both"), headers={"x-request-id": request_id})

    assert (response.status_code, response.json()) == (503, last)
    assert response.headers["retry-after"] == "7"
    assert (len(first.requests), len(second.requests)) == (1, 1)
    assert stack.access_log.wait_for(request_id)["costs"] == {"tokens": None}


def test_an_attempt_that_is_refused_here_goes_back_as_it_is(client, first, second):
    response = client.post(CHAT, json=question("own-key"))

    assert response.status_code == 401
    assert response.headers["content-type"] == "application/json"
    assert response.headers["content-length"] == str(len(response.content))
    assert response.content == (
        b'{"type":"error","error":{"type":"Unauthorized","code":"401","message":"missing upstream credential"}}'
    )
    assert (first.requests, second.requests) == ([], [])


def test_a_backend_that_its_config_disables_says_so(client, stack, first, second):
    request_id = new_id("disabled")

    response = client.post(CHAT, json=question("disabled-first"), headers={"x-request-id": request_id})

    # Envoy does not retry an answer of ours, so nothing fails over; `extproc check` finds such a backend beforehand.
    assert response.status_code == 503
    assert response.json()["error"]["type"] == "ServiceUnavailable"
    assert "default/first is disabled" in response.json()["error"]["message"]
    assert (first.requests, second.requests) == ([], [])
    assert stack.access_log.wait_for(request_id)["attempts"] == 1
