"""Costs: from the usage of an answer into the access log, and from there, once, into a budget."""

from __future__ import annotations

import pytest

from deploy.envoy.model import HeaderDescriptor, TokenBudget
from tests.dataplane.harness import envoy_document
from tests.dataplane.harness.client import CHAT, EMBEDDINGS, OpenAnswer, connect, new_id, question
from tests.dataplane.harness.documents import backend, cost, filter_config, route, rule
from tests.dataplane.harness.envoy_document import edited
from tests.dataplane.harness.replies import (
    Gate,
    Reply,
    chat_chunks,
    chat_completion,
    json_reply,
    stream_reply,
    usage,
)
from tests.dataplane.harness.waiting import wait_until

BUDGET = TokenBudget(descriptors=(HeaderDescriptor(header="x-user-id", key="user"),), cost_key="tokens")
LIMITS = {
    "domain": "costs",
    "descriptors": [
        {"key": "user", "rate_limit": {"unit": "day", "requests_per_unit": 1000}},
        {"key": "user", "value": "poor", "rate_limit": {"unit": "day", "requests_per_unit": 30}},
        {"key": "user", "value": "poor-streamer", "rate_limit": {"unit": "day", "requests_per_unit": 30}},
    ],
}
ASKED = {"stream": True, "stream_options": {"include_usage": True}}
# It passes the trial at load, where every count is 0, and has no value for an answer with seven tokens of output.
FAILS_AT_SEVEN = "1u / (7u - output_tokens)"
KEYS = ("tokens", "input", "cached", "created", "output", "reasoning", "price", "fragile", "billing")
EVERY_TYPE = [
    cost("fragile", cel=FAILS_AT_SEVEN),
    cost("tokens"),
    cost("input", "InputToken"),
    cost("cached", "CachedInputToken"),
    cost("created", "CacheCreationInputToken"),
    cost("output", "OutputToken"),
    cost("reasoning", "ReasoningToken"),
    cost("price", cel='model == "real-small" ? input_tokens + 10u * output_tokens : 0u'),
]


@pytest.fixture(scope="module")
def upstream(start_upstream):
    return start_upstream("openai")


@pytest.fixture(scope="module")
def limiter_and_service(start_rate_limit):
    return start_rate_limit(LIMITS)


@pytest.fixture(scope="module")
def limiter(limiter_and_service):
    return limiter_and_service[0]


@pytest.fixture(scope="module")
def stack(start_stack, upstream, limiter_and_service):
    """Three routes: one without rules of its own, a free one, and a paid one whose price depends on the model."""
    routes = [
        route(rule(upstream, models=["small"]), budgets=(BUDGET,)),
        route(rule(upstream, models=["gift"]), name="r-free", budgets=(BUDGET,)),
        route(rule(upstream, models=["cheap"]), rule(upstream, models=["dear"]), name="r-paid", budgets=(BUDGET,)),
    ]
    llm, free, paid = routes
    return start_stack(
        routes=routes,
        config=filter_config(
            backend(llm.backend_name(0, 0), model="real-small", key="sk"),
            backend(free.backend_name(0, 0), key="sk"),
            backend(paid.backend_name(0, 0), key="sk"),
            backend(paid.backend_name(1, 0), model="real-dear", key="sk"),
            globalLLMRequestCosts=[*EVERY_TYPE, cost("billing", cel="999u")],
            llmRequestCosts=[
                cost("billing", cel="0u") | {"routeName": "default/r-free"},
                cost("billing", cel="input_tokens") | {"routeName": "default/r-paid"},
                cost("billing", cel="input_tokens * 100u") | {"routeName": "default/r-paid", "model": "real-dear"},
                cost("billing", cel="7u") | {"routeName": "default/r-paid", "backend": "default/another"},
                cost("fragile", cel=FAILS_AT_SEVEN) | {"routeName": "default/r-paid"},
            ],
        ),
        rate_limit=limiter_and_service[1],
        cost_keys=KEYS,
    )


@pytest.fixture(scope="module")
def client(stack):
    with connect(stack) as client:
        yield client


def costs_of(stack, request_id):
    return stack.access_log.wait_for(request_id)["costs"]


def charges(limiter, user):
    """What was asked for in the name of a user, oldest first: 0 is the question before a request."""
    return [decision.hits for decision in limiter.decisions if decision.entries == (("user", user),)]


def wait_for_charges(limiter, user, count):
    """So many questions and charges; a charge of 0 raises no sum that one could wait for."""
    wait_until(lambda: len(charges(limiter, user)) >= count, f"{count} charges of {user}")
    return charges(limiter, user)


def ask(client, user, request_id="", **fields):
    headers = {"x-user-id": user, "x-request-id": request_id or new_id(user)}
    return client.post(CHAT, json=question(**fields), headers=headers)


DETAILS = {
    "prompt_tokens_details": {"cached_tokens": 4, "cache_creation_input_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
ANSWER = chat_completion("real-small", prompt=11, completion=6) | {"usage": usage(11, 6) | DETAILS}
COSTS = {
    "tokens": 17,
    "input": 11,
    "cached": 4,
    "created": 3,
    "output": 6,
    "reasoning": 2,
    "price": 71,
    "fragile": 1,
    "billing": 999,
}


@pytest.mark.parametrize("encoding", [None, "gzip", "br", "zstd", "deflate"])
def test_every_kind_of_cost_is_in_the_access_log_as_a_number(client, stack, upstream, encoding):
    request_id = new_id("costs")
    upstream.reply(json_reply(ANSWER, encoding=encoding))

    response = ask(client, "log", request_id)

    assert response.json() == ANSWER
    entry = stack.access_log.wait_for(request_id)
    assert entry["costs"] == COSTS
    assert {type(value) for value in entry["costs"].values()} == {int}
    assert (entry["model"], entry["response_model"]) == ("real-small", "real-small")
    assert (entry["backend"], entry["route"]) == ("default/openai", "default/llm")


def test_embeddings_are_charged_for_their_input(client, stack, upstream):
    request_id = new_id("embeddings")
    answer = {"object": "list", "data": [], "model": "e", "usage": {"prompt_tokens": 8, "total_tokens": 8}}
    upstream.reply(json_reply(answer))

    client.post(EMBEDDINGS, json={"model": "small", "input": "a"}, headers={"x-request-id": request_id})

    costs = costs_of(stack, request_id)
    assert (costs["input"], costs["tokens"], costs["output"]) == (8, 8, 0)


@pytest.mark.parametrize("fields", [{}, ASKED, {"stream": True}], ids=["document", "stream", "stream, not asked"])
def test_a_rule_that_fails_leaves_its_key_out_and_harms_nothing(client, stack, upstream, fields):
    request_id = new_id("fragile")
    errors = stack.metrics().sum("extproc_cost_errors_total", metadata_key="fragile")
    upstream.reply(
        stream_reply(*chat_chunks("real-small", "a", prompt=3, completion=7))
        if fields
        else json_reply(chat_completion("real-small", prompt=3, completion=7))
    )

    response = ask(client, "fragile", request_id, **fields)

    assert response.status_code == 200
    assert response.text.endswith("data: [DONE]\n\n") if fields else response.json()["choices"]
    costs = costs_of(stack, request_id)
    assert costs["fragile"] is None
    assert (costs["tokens"], costs["output"], costs["price"], costs["billing"]) == (10, 7, 73, 999)
    wait_until(
        lambda: stack.metrics().sum("extproc_cost_errors_total", metadata_key="fragile") == errors + 1,
        "the failure is counted, and once",
    )


# Field report BR-88.
BILLS = {"small": 999, "gift": 0, "cheap": 5, "dear": 500}


@pytest.mark.parametrize(("model", "bill"), BILLS.items(), ids=BILLS)
def test_a_rule_counts_only_on_its_route(client, stack, upstream, model, bill):
    request_id = new_id("billing")
    upstream.reply(json_reply(chat_completion(model, prompt=5, completion=1)))

    assert ask(client, "billing", request_id, model=model).status_code == 200

    assert costs_of(stack, request_id)["billing"] == bill


def test_a_global_rule_does_not_stand_in_for_one_that_failed(client, stack, upstream):
    request_id = new_id("no-stand-in")
    upstream.reply(json_reply(chat_completion("cheap", prompt=5, completion=7)))

    assert ask(client, "billing", request_id, model="cheap").status_code == 200

    costs = costs_of(stack, request_id)
    assert (costs["fragile"], costs["billing"]) == (None, 5)


# Field report BR-93.
def test_a_client_that_has_used_up_its_budget_gets_429(client, limiter, upstream):
    upstream.always(json_reply(chat_completion("m", prompt=12, completion=8)))

    for spent in (20, 40):
        assert ask(client, "poor").status_code == 200
        limiter.wait_until_charged(("user", "poor"), amount=spent)
    refused = ask(client, "poor")

    assert refused.status_code == 429
    assert len(upstream.requests) == 2
    assert charges(limiter, "poor") == [0, 20, 0, 20, 0]


def test_a_client_that_streams_has_no_larger_budget(client, limiter, upstream):
    upstream.always(stream_reply(*chat_chunks("m", "a", "b", prompt=12, completion=8), piece=9))

    for spent in (20, 40):
        assert ask(client, "poor-streamer", stream=True).status_code == 200
        limiter.wait_until_charged(("user", "poor-streamer"), amount=spent)

    assert ask(client, "poor-streamer", stream=True).status_code == 429
    assert charges(limiter, "poor-streamer") == [0, 20, 0, 20, 0]


WITHOUT_TOKENS = {
    "zero tokens": json_reply(chat_completion("m", prompt=0, completion=0)),
    "no usage": json_reply({"choices": [], "model": "m"}),
    "a stream with zero tokens": stream_reply(*chat_chunks("m", "a", prompt=0, completion=0)),
}


@pytest.mark.parametrize("name", WITHOUT_TOKENS)
def test_an_answer_without_tokens_is_free(client, stack, limiter, upstream, name):
    user = name.replace(" ", "-")
    request_id = new_id(user)
    upstream.reply(WITHOUT_TOKENS[name])

    assert ask(client, user, request_id, **(ASKED if "stream" in name else {})).status_code == 200

    assert costs_of(stack, request_id)["tokens"] == 0
    assert wait_for_charges(limiter, user, 2) == [0, 0]


ERRORS = {
    "refused": json_reply({"error": {"message": "no", "usage": usage(5, 5)}, "usage": usage(5, 5)}, status=400),
    "broken": json_reply({"usage": usage(5, 5)}, status=500),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_free(client, stack, limiter, upstream, name):
    upstream.reply(ERRORS[name], json_reply(chat_completion("m", prompt=1, completion=1)))
    request_id = new_id(name)

    assert ask(client, name, request_id).status_code == ERRORS[name].status
    assert ask(client, name).status_code == 200

    limiter.wait_until_charged(("user", name), amount=2)
    assert costs_of(stack, request_id)["tokens"] is None
    assert sum(charges(limiter, name)) == 2


# Field report BR-119: the report of usage and the end of the stream in one, two and three pieces.
*HEAD, USAGE, DONE = chat_chunks("m", "a", prompt=11, completion=7)
CUTS = {
    "all at once": (b"".join((*HEAD, USAGE, DONE)),),
    "usage and end apart": (b"".join(HEAD), USAGE, DONE),
    "usage cut in two": (b"".join(HEAD), USAGE[:40], USAGE[40:] + DONE),
    "usage twice": (b"".join(HEAD), USAGE, USAGE, DONE),
    "usage in every chunk": (
        *(stream_reply(*chat_chunks("m", prompt=11, completion=count)[1:2]).body for count in (1, 4)),
        USAGE,
        DONE,
    ),
}


@pytest.mark.parametrize("fields", [ASKED, {"stream": True}], ids=["asked", "not asked"])
@pytest.mark.parametrize("name", CUTS)
def test_a_stream_is_charged_once_however_its_end_is_cut(stack, limiter, upstream, name, fields):
    user = f"{name.replace(' ', '-')}-{len(fields)}"
    gates = [Gate() for _ in CUTS[name]]
    pieces = [part for pair in zip(CUTS[name], gates, strict=True) for part in pair]
    upstream.reply(stream_reply(*pieces), json_reply(chat_completion("m", prompt=1, completion=1)))
    before = body_messages(stack)

    with OpenAnswer(stack, question(**fields), **{"x-user-id": user}) as answer:
        # Each piece has had its reply before the next one is sent, so Envoy cannot join two.
        for number, gate in enumerate(gates, start=1):
            wait_until(lambda wanted=before + number: body_messages(stack) >= wanted, f"piece {number}")
            gate.open()
        assert answer.rest().endswith(b"data: [DONE]\n\n")
    limiter.wait_until_charged(("user", user), amount=18)
    # A second charge for the first request would have come before those of the second request.
    with connect(stack) as client:
        assert ask(client, user).status_code == 200

    limiter.wait_until_charged(("user", user), amount=20)
    assert charges(limiter, user) == [0, 18, 0, 2]


def body_messages(stack):
    return stack.metrics().sum("extproc_messages_total", phase="response_body")


@pytest.mark.parametrize("fields", [ASKED, {"stream": True}], ids=["asked", "not asked"])
@pytest.mark.parametrize("encoding", [None, "gzip"])
def test_a_client_that_hangs_up_after_the_usage_is_charged(stack, limiter, upstream, fields, encoding):
    request_id = new_id("hung-up")
    end = Gate()
    # The comment tells a client that must not see the usage that it has passed.
    events = b"".join((*HEAD, USAGE, b": passed\n\n"))
    if encoding is None:
        upstream.reply(stream_reply(events, end, DONE))
    else:
        compressed = stream_reply(events, encoding=encoding)
        upstream.reply(Reply(headers=compressed.headers, pieces=(*compressed.pieces, end), framing="chunked"))
    before = outcomes(stack, "client_cancelled")

    headers = {"x-request-id": request_id, "x-user-id": request_id, "accept-encoding": "gzip"}
    with OpenAnswer(stack, question(**fields), **headers) as answer:
        if encoding is None or fields is not ASKED:
            answer.until(b": passed")
        else:
            answer.until(compressed.body)

    limiter.wait_until_charged(("user", request_id), amount=18)
    entry = stack.access_log.wait_for(request_id)
    assert entry["response_flags"] == "DC"
    assert (entry["costs"]["tokens"], entry["costs"]["output"]) == (18, 7)
    assert charges(limiter, request_id) == [0, 18]
    upstream.wait_for(lambda upstream: upstream.aborted == 1)
    wait_until(lambda: outcomes(stack, "client_cancelled") == before + 1, "the request is counted, and once")
    end.open()


def outcomes(stack, outcome):
    return stack.metrics().sum("extproc_attempts_total", outcome=outcome)


def test_a_client_that_hangs_up_before_the_usage_is_charged_nothing(stack, limiter, upstream):
    request_id = new_id("hung-up-early")
    end = Gate()
    upstream.reply(stream_reply(*HEAD, end, USAGE, DONE), json_reply(chat_completion("m", prompt=1, completion=1)))

    headers = {"x-request-id": request_id, "x-user-id": request_id}
    with OpenAnswer(stack, question(**ASKED), **headers) as answer:
        answer.until(b'"stop"')

    costs = costs_of(stack, request_id)
    assert costs["tokens"] in (None, 0)
    end.open()
    with connect(stack) as client:
        assert ask(client, request_id).status_code == 200
    limiter.wait_until_charged(("user", request_id), amount=2)
    assert sum(charges(limiter, request_id)) == 2


# Field report BR-34.
def test_an_envoy_that_takes_no_metadata_from_the_answer_serves_and_charges_nothing(start_stack, upstream):
    def drop(document):
        for entry in envoy_document.manager(document)["http_filters"]:
            if entry["name"] == envoy_document.EXT_PROC:
                del entry["typed_config"]["metadata_options"]

    where = route(rule(upstream, models=["small"]))
    deaf = start_stack(
        routes=[where],
        config=filter_config(
            backend(where.backend_name(0, 0), model="real-small", key="sk"), globalLLMRequestCosts=[cost("tokens")]
        ),
        cost_keys=["tokens"],
        rewrite=edited(drop),
    )
    upstream.always(json_reply(chat_completion("real-small", prompt=11, completion=7)))

    with connect(deaf) as client:
        assert ask(client, "deaf", "deaf").status_code == 200

    assert upstream.last.header("content-length") == str(len(upstream.last.body))
    entry = deaf.access_log.wait_for("deaf")
    assert entry["costs"] == {"tokens": None}
    assert entry["backend_ref"] is not None
