"""The access log of the recipe: whatever becomes of a request, its line says which model, backend and route it had."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from deploy.envoy.model import HeaderDescriptor, Retry, TokenBudget
from tests.dataplane.harness.broken import Absent
from tests.dataplane.harness.client import CHAT, OpenAnswer, connect, new_id, question
from tests.dataplane.harness.documents import backend, cost, filter_config, route, rule
from tests.dataplane.harness.replies import Gate, Reply, chat_chunks, chat_completion, json_reply, stream_reply
from tests.dataplane.harness.waiting import wait_until

COSTS = [cost("llm_input_token", "InputToken"), cost("llm_output_token", "OutputToken"), cost("llm_cost")]
KEYS = [rule["metadataKey"] for rule in COSTS]
UNCHARGED = dict.fromkeys(KEYS)
CHARGED = {"llm_input_token": 11, "llm_output_token": 7, "llm_cost": 18}
ANSWER = json_reply(chat_completion("real-1", prompt=11, completion=7))
CHUNKS = chat_chunks("real-1", "a", "b", prompt=11, completion=7)
ASKED = {"stream": True, "stream_options": {"include_usage": True}}
FAILED = {"error": {"message": "no", "type": "insufficient_quota", "code": "429"}}
NAMED = {"backend": "default/openai", "route": "default/llm", "method": "POST", "path": CHAT}
LIMITS = {
    "domain": "log",
    "descriptors": [{"key": "user", "value": "poor", "rate_limit": {"unit": "day", "requests_per_unit": 1}}],
}
BEFORE = ("request_ms", "gateway_ms")
ANSWERED = ("backend_ms", "first_byte_ms", "response_ms")


@pytest.fixture(scope="module")
def upstream(start_upstream):
    return start_upstream("openai")


@pytest.fixture(scope="module")
def where(upstream):
    with Absent() as absent:
        yield route(
            rule(upstream, models=["small"]),
            rule(upstream, models=["own-key"]),
            rule(absent, models=["absent"]),
            rule(upstream, models=["forgotten"]),
            rule(upstream, models=["gemini"]),
            rule(upstream, upstream, models=["both"], retry=Retry()),
            budgets=(
                TokenBudget(descriptors=(HeaderDescriptor(header="x-user-id", key="user"),), cost_key="llm_cost"),
            ),
        )


@pytest.fixture(scope="module")
def stack(start_stack, start_rate_limit, where):
    own_key = {"apiKey": {"key": ""}, "credentialOverride": {"headerName": "x-my-key"}}
    entries = [
        backend(where.backend_name(0, 0), model="real", key="sk"),
        backend(where.backend_name(1, 0), auth=own_key),
        backend(where.backend_name(2, 0), model="nowhere"),
        # None for the fourth rule.
        backend(where.backend_name(4, 0), schema={"name": "GCPVertexAI"}),
        backend(where.backend_name(5, 0), model="first", key="sk"),
        backend(where.backend_name(5, 1), model="second", key="sk"),
    ]
    return start_stack(
        routes=[where],
        config=filter_config(*entries, globalLLMRequestCosts=COSTS),
        cost_keys=[*KEYS, "team"],
        rate_limit=start_rate_limit(LIMITS)[1],
        processor_arguments=["-requestHeaderAttributes", "x-team:team"],
    )


@pytest.fixture(scope="module")
def client(stack):
    with connect(stack) as client:
        yield client


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A request that is answered whole; ``entry`` is what its line must have, ``ref`` the rule whose backend it had."""

    request: Any = field(default_factory=question)
    reply: Reply = ANSWER
    status: int
    ref: int | None = 0
    entry: dict[str, Any]
    durations: tuple[str, ...] = (*BEFORE, *ANSWERED)
    costs: dict[str, Any] = field(default_factory=lambda: UNCHARGED)


UNSENT = {"backend": None, "model": None, "response_model": None, "attempts": 0}
IN_TRANSIT = {"requested_model": "small", "model": "real", "response_model": None, "attempts": 1}
CASES = {
    "success": Case(
        status=200,
        entry=NAMED | {"requested_model": "small", "model": "real", "response_model": "real-1", "response_error": None},
        costs=CHARGED,
    ),
    "a stream": Case(
        request=question(**ASKED),
        reply=stream_reply(*CHUNKS),
        status=200,
        entry=NAMED | {"model": "real", "response_model": "real-1", "response_error": None},
        costs=CHARGED,
    ),
    "429 of the backend": Case(
        reply=json_reply(FAILED, status=429),
        status=429,
        entry=NAMED | IN_TRANSIT | {"response_error": FAILED["error"]["type"]},
    ),
    "500 of the backend, in no API's words": Case(
        reply=Reply(status=500, headers=(("content-type", "text/html"),), pieces=(b"<p>oops",)),
        status=500,
        entry=NAMED | IN_TRANSIT | {"response_error": "OpenAIBackendError"},
    ),
    "500 of the backend, without a body": Case(
        reply=Reply(status=500),
        status=500,
        entry=NAMED | IN_TRANSIT,
    ),
    "500 of a backend with another API": Case(
        request=question("gemini"),
        reply=json_reply({"error": {"code": 500, "message": "no", "status": "INTERNAL"}}, status=500),
        status=500,
        ref=4,
        entry=NAMED | {"requested_model": "gemini", "model": "gemini", "response_error": "INTERNAL"},
    ),
    "an answer that cannot be read": Case(
        request=question("gemini"),
        reply=json_reply([]),
        status=502,
        ref=4,
        entry=NAMED | {"model": "gemini", "response_error": "BadGateway"},
    ),
    "400: malformed": Case(
        request=[],
        status=400,
        ref=None,
        entry=UNSENT | {"route": None, "requested_model": None, "response_error": "BadRequest"},
        durations=("request_ms",),
    ),
    "401: no credential": Case(
        request=question("own-key"),
        status=401,
        ref=1,
        entry=NAMED | {"requested_model": "own-key", "model": "own-key", "response_error": "Unauthorized"},
        durations=("request_ms",),
    ),
    "422: not for this API": Case(
        request=question("gemini", tool_choice="maybe"),
        status=422,
        ref=4,
        entry=NAMED | {"model": "gemini", "response_error": "UnprocessableEntity"},
        durations=("request_ms",),
    ),
    "503: a backend that the processor does not know": Case(
        request=question("forgotten"),
        status=503,
        ref=3,
        entry=NAMED | {"model": "forgotten", "response_error": "ServiceUnavailable"},
        durations=("request_ms",),
    ),
    "404: a model that no route takes": Case(
        request=question("nobody"),
        status=404,
        ref=None,
        entry=UNSENT | {"route": None, "requested_model": "nobody", "response_error": None},
        durations=("request_ms",),
    ),
    "503: nobody listens": Case(
        request=question("absent"),
        status=503,
        ref=2,
        entry=NAMED
        | {"backend": "default/absent", "requested_model": "absent", "model": "nowhere", "response_flags": "UF"},
        durations=("request_ms",),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_line_says_whose_request_it_was(stack, where, upstream, client, case):
    request_id = new_id()
    upstream.reply(case.reply)

    response = client.post(CHAT, json=case.request, headers={"x-request-id": request_id, "x-team": "search"})
    assert response.status_code == case.status, response.text
    entry = stack.access_log.wait_for(request_id)
    assert {key: entry[key] for key in case.entry} == case.entry
    assert entry["backend_ref"] == (None if case.ref is None else where.backend_name(case.ref, 0))
    assert entry["status"] == case.status
    assert costs_of(entry) == case.costs
    check_numbers(entry, case.durations)


KEYED = {
    "an answer": (CHAT, question(), 200),
    "an answer of a backend with another path": (CHAT, question("gemini", tool_choice="maybe"), 422),
    "a malformed request": (CHAT, [], 400),
    "a path that is not served": ("/v1/nowhere", question(), 404),
}


@pytest.mark.parametrize("case", KEYED.values(), ids=KEYED)
def test_the_path_is_without_the_query_where_some_clients_have_their_key(stack, upstream, client, case):
    path, body, status = case
    request_id = new_id()
    upstream.reply(ANSWER)
    response = client.post(f"{path}?key=canary", json=body, headers={"x-request-id": request_id})
    assert response.status_code == status
    entry = stack.access_log.wait_for(request_id)
    assert entry["path"] == path
    assert "canary" not in str(entry)


def costs_of(entry):
    return {key: entry["costs"][key] for key in KEYS}


def check_numbers(entry, durations):
    """Numbers are numbers, and durations are there as far as the request has come."""
    for key in ("status", "duration_ms", "attempts", *durations):
        assert isinstance(entry[key], int | float), key
    assert {type(value) for value in costs_of(entry).values()} <= {int, type(None)}


def test_a_failover_has_the_names_of_the_backend_that_answered(stack, where, upstream, client):
    request_id = new_id()
    upstream.reply(json_reply(FAILED, status=503), ANSWER)
    assert client.post(CHAT, json=question("both"), headers={"x-request-id": request_id}).status_code == 200
    entry = stack.access_log.wait_for(request_id)
    assert (entry["attempts"], entry["model"], entry["response_error"]) == (2, "second", None)
    assert entry["backend_ref"] == where.backend_name(5, 1)
    assert costs_of(entry) == CHARGED


def test_a_stream_has_its_times(stack, upstream, client):
    request_id = new_id()
    upstream.reply(stream_reply(*CHUNKS))
    with OpenAnswer(stack, question(**ASKED), **{"x-request-id": request_id}) as answer:
        answer.rest()
    entry = stack.access_log.wait_for(request_id)
    assert isinstance(entry["ttft_ms"], int)
    assert isinstance(entry["itl_ms"], int | float)
    assert entry["first_byte_ms"] + entry["response_ms"] <= entry["duration_ms"] + 2


def test_a_client_that_leaves_after_the_usage_has_names_and_costs(stack, upstream):
    request_id, gate = new_id(), Gate()
    upstream.reply(stream_reply(*CHUNKS[:-1], gate, CHUNKS[-1]))
    with OpenAnswer(stack, question(**ASKED), **{"x-request-id": request_id}) as answer:
        answer.until(b'"usage"')
    entry = stack.access_log.wait_for(request_id)
    gate.open()
    assert {key: entry[key] for key in NAMED} == NAMED
    assert (entry["model"], entry["response_model"], entry["response_flags"]) == ("real", "real-1", "DC")
    assert costs_of(entry) == CHARGED


def test_a_client_that_leaves_before_the_answer_has_names_and_no_costs(stack, upstream):
    request_id, gate = new_id(), Gate()
    upstream.reply(Reply(headers=ANSWER.headers, pieces=(gate, *ANSWER.pieces)))
    with connect(stack) as impatient, pytest.raises(httpx.ReadTimeout):
        impatient.post(CHAT, json=question(), headers={"x-request-id": request_id}, timeout=0.3)
    entry = stack.access_log.wait_for(request_id)
    gate.open()
    assert {key: entry[key] for key in NAMED} == NAMED
    assert (entry["response_flags"], entry["model"], entry["response_error"]) == ("DC", "real", None)
    assert costs_of(entry) == UNCHARGED


def test_a_spent_budget_has_model_and_route(stack, upstream, client):
    headers = {"x-user-id": "poor"}
    upstream.reply(ANSWER)
    assert client.post(CHAT, json=question(), headers=headers).status_code == 200
    request_id = new_id()

    def refused():
        return client.post(CHAT, json=question(), headers=headers | {"x-request-id": request_id}).status_code == 429

    upstream.always(ANSWER)
    wait_until(refused, "the first request is charged")
    entry = next(entry for entry in reversed(_written(stack, request_id)) if entry["status"] == 429)
    assert (entry["response_flags"], entry["requested_model"], entry["route"]) == ("RL", "small", "default/llm")
    assert (entry["model"], entry["backend_ref"], entry["response_error"]) == (None, None, None)
    assert costs_of(entry) == UNCHARGED


def _written(stack, request_id):
    """The lines of requests with this id, once the last of them is there."""
    entries = []

    def found():
        entries[:] = [entry for entry in stack.access_log.entries() if entry["request_id"] == request_id]
        return any(entry["status"] == 429 for entry in entries)

    wait_until(found, "the line of the refusal")
    return entries


def test_mapped_headers_are_told_with_a_refusal(stack, client):
    for document, request_id in ([], new_id()), (question("own-key"), new_id()):
        response = client.post(CHAT, json=document, headers={"x-request-id": request_id, "x-team": "search"})
        assert response.status_code in (400, 401)
        assert stack.access_log.wait_for(request_id)["costs"]["team"] == "search"
