"""Quotas of models, kept by a rate limit service: who is refused, and who pays."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from deploy.envoy.quotas import service_document
from tests.dataplane.harness.client import CHAT, connect, question
from tests.dataplane.harness.replies import Abort, chat_chunks, chat_completion, json_reply, stream_reply
from tests.dataplane.harness.resources import provider, serve
from tests.support import gateway_resources as resources
from tests.support.gateway_resources import AI, ENVOY_GATEWAY, GATEWAY_API, gateway, ref, resource, route, rule

TOKENS = 10
BUSY = json_reply({"error": {"message": "busy"}}, status=503)


def reply(model="m"):
    return json_reply(chat_completion(model, prompt=4, completion=TOKENS - 4))


def quota(name, *models, targets=None, **fields):
    refs = [{"group": AI, "kind": "AIServiceBackend", "name": target} for target in targets or [name]]
    spec = {"targetRefs": refs, "perModelQuotas": list(models), **fields}
    return resource(f"{AI}/v1alpha1", "QuotaPolicy", name, spec=spec)


def of_model(name, limit=None, *rules, **fields):
    buckets = {"bucketRules": list(rules)} if rules else {}
    default = {"defaultBucket": {"limit": limit, "duration": "1d"}} if limit is not None else {}
    return {"modelName": name, "quota": {**default, **buckets, **fields}}


def bucket(limit, *headers, **fields):
    selectors = {"clientSelectors": [{"headers": list(headers)}]} if headers else {}
    return {"quota": {"limit": limit, "duration": "1d"}, **selectors, **fields}


@pytest.fixture(scope="module")
def upstreams(start_upstream):
    return {name: start_upstream(name) for name in ("openai", "first", "second", "stripped", "whole")}


@pytest.fixture(autouse=True)
def _good(upstreams):
    for upstream in upstreams.values():
        upstream.always(reply())


GIVEN = (
    gateway(),
    route(
        "r",
        rule(ref("openai", modelNameOverride="real-small"), model="small"),
        rule(ref("openai", modelNameOverride="real-large"), model="large"),
    ),
    route("asked", rule("openai", model="as-asked"), rule("openai", model="free")),
    route(
        "f",
        rule(ref("first"), ref("second", priority=1), model="fallback"),
        rule(ref("first"), ref("second", priority=1), model="load"),
    ),
    route("s", rule("stripped", model="stripped")),
    route(
        "w",
        rule("whole", model="any"),
        rule(ref("whole", modelNameOverride="real-other"), model="other"),
        rule("whole", model="own"),
        rule(ref("whole", modelNameOverride="own"), model="same"),
    ),
    route("b", rule("openai", model="budgeted"), llmRequestCosts=[{"metadataKey": "total", "type": "TotalToken"}]),
    resource(
        f"{ENVOY_GATEWAY}/v1alpha1",
        "BackendTrafficPolicy",
        "again",
        spec={
            "targetRefs": [{"group": GATEWAY_API, "kind": "HTTPRoute", "name": "f"}],
            "retry": {"numRetries": 1, "retryOn": {"httpStatusCodes": [503], "triggers": ["retriable-status-codes"]}},
        },
    ),
    resource(
        f"{ENVOY_GATEWAY}/v1alpha1",
        "BackendTrafficPolicy",
        "budgets",
        spec={
            "targetRefs": [{"group": GATEWAY_API, "kind": "HTTPRoute", "name": "b"}],
            "rateLimit": {
                "type": "Global",
                "global": {
                    "rules": [
                        {
                            "clientSelectors": [{"headers": [{"name": "x-user", "type": "Distinct"}]}],
                            "limit": {"requests": 15, "unit": "Day"},
                            "cost": {
                                "request": {"from": "Number", "number": 0},
                                "response": {
                                    "from": "Metadata",
                                    "metadata": {"namespace": "io.envoy.ai_gateway", "key": "total"},
                                },
                            },
                        },
                        {
                            "clientSelectors": [{"headers": [{"name": "x-plan", "value": "free"}]}],
                            "limit": {"requests": 2, "unit": "Day"},
                        },
                    ]
                },
            },
        },
    ),
    quota(
        "openai",
        of_model("real-small", 15),
        of_model(
            "real-large",
            15,
            bucket(25, {"name": "x-team", "value": "red"}),
            bucket(
                5,
                {"name": "x-plan", "type": "RegularExpression", "value": "trial-.*"},
                {"name": "x-user", "type": "Distinct"},
            ),
            bucket(1, {"name": "x-team"} | {"type": "Distinct"}, shadowMode=True),
            costExpression="output_tokens * 10u",
        ),
        of_model("as-asked", 15),
    ),
    quota("both", of_model("fallback", 15), of_model("load", 1_000_000), targets=["first", "second"]),
    quota("whole", of_model("own", 1_000_000), serviceQuota={"quota": {"limit": 15, "duration": "1d"}}),
    quota("stripped", of_model("stripped", None, bucket(15, {"name": "x-user", "type": "Distinct"}))),
)


@pytest.fixture(scope="module")
def limited(start_stack, start_rate_limit, upstreams):
    """The stack, and the service that decides."""
    given = (
        *GIVEN,
        *provider("openai", upstreams["openai"]),
        *provider("first", upstreams["first"]),
        *provider("second", upstreams["second"]),
        *provider("whole", upstreams["whole"]),
        *provider("stripped", upstreams["stripped"], headerMutation={"remove": ["x-user"]}),
    )
    made = resources.only(resources.compiled(*given))
    limiter, service = start_rate_limit(service_document([made.model]))
    return serve(start_stack, *given, rate_limit=service), limiter


def ask(stack, model, **headers):
    with connect(stack) as client:
        return client.post(CHAT, json=question(model), headers=headers).status_code


def bucket_of(backend, model, *path):
    return (("backend_name", f"default/{backend}"), ("model_name_override", model), *path)


def test_a_model_that_has_used_up_its_quota_is_refused(limited):
    stack, limiter = limited
    mine = bucket_of("openai", "real-small")

    for spent in (TOKENS, 2 * TOKENS):
        assert ask(stack, "small") == 200
        limiter.wait_until_charged(*mine, amount=spent)

    assert ask(stack, "small") == 429
    assert ask(stack, "as-asked") == 200
    assert limiter.charged(*mine) == 2 * TOKENS


def test_a_backend_without_an_override_is_charged_for_the_model_that_was_asked_for(limited):
    stack, limiter = limited
    mine = bucket_of("openai", "as-asked")
    before = limiter.charged(*mine)

    assert ask(stack, "as-asked") == 200

    limiter.wait_until_charged(*mine, amount=before + TOKENS)


def test_a_model_without_a_quota_is_free(limited):
    stack, limiter = limited
    before = len(limiter.decisions)

    for _ in range(5):
        assert ask(stack, "free") == 200

    asked = [decision.entries for decision in list(limiter.decisions)[before:]]
    assert not [entries for entries in asked if entries[1][1] == "free"]


def test_clients_that_a_bucket_selects_have_it_and_others_the_default(limited):
    stack, limiter = limited
    team = bucket_of("openai", "real-large", ("rule-0-x-team|red-match", "true"))
    cost = 10 * 6

    assert ask(stack, "large", **{"x-team": "red"}) == 200
    limiter.wait_until_charged(*team, amount=cost)
    assert ask(stack, "large", **{"x-team": "red"}) == 429

    default = bucket_of("openai", "real-large", ("rule-3-match--1-not-(x-team|red)&(x-plan~trial-.*&x-user)", "true"))
    assert limiter.charged(*default) == 0
    assert ask(stack, "large", **{"x-team": "blue"}) == 200
    limiter.wait_until_charged(*default, amount=cost)
    assert ask(stack, "large") == 429


def test_each_value_of_a_distinct_header_has_a_bucket(limited):
    stack, limiter = limited
    plan = ("rule-1-x-plan~trial-.*-match", "true")

    for user in ("ann", "bob"):
        mine = bucket_of("openai", "real-large", plan, ("rule-1-x-user-match", user))
        client = {"x-plan": "trial-30", "x-user": user}
        assert ask(stack, "large", **client) == 200
        limiter.wait_until_charged(*mine, amount=60)
        assert ask(stack, "large", **client) == 429


def test_a_shadow_bucket_is_counted_and_never_refuses(limited):
    stack, limiter = limited
    shadow = bucket_of("openai", "real-large", ("rule-2-x-team-match", "green"))
    client = {"x-team": "green", "x-plan": "trial-7", "x-user": "shadow"}

    assert ask(stack, "large", **client) == 200

    limiter.wait_until_charged(*shadow, amount=60)
    assert limiter.remaining(*shadow) == 0
    assert {
        decision.refused for decision in limiter.decisions if decision.entries == shadow and not decision.hits
    } == set()


def test_the_backend_that_served_is_the_one_that_pays(limited, upstreams):
    stack, limiter = limited
    first, second = bucket_of("first", "fallback"), bucket_of("second", "fallback")
    upstreams["first"].always(BUSY)

    for paid in (TOKENS, 2 * TOKENS):
        assert ask(stack, "fallback") == 200
        limiter.wait_until_charged(*second, amount=paid)

    assert limiter.charged(*first) == 0
    # The second has nothing left; what the first can serve is not refused for that.
    assert limiter.remaining(*second) == 0
    upstreams["first"].always(reply())
    assert ask(stack, "fallback") == 200
    limiter.wait_until_charged(*first, amount=TOKENS)


# What becomes of a request: what the first backend does, and what the first and the second are paid.
FATES = {
    "served": (json_reply(chat_completion("load", prompt=4, completion=TOKENS - 4)), TOKENS, 0),
    "streamed": (stream_reply(*chat_chunks("load", "a", "b", prompt=4, completion=TOKENS - 4)), TOKENS, 0),
    "failed over": (BUSY, 0, TOKENS),
    "refused": (json_reply({"error": {"message": "no"}}, status=400), 0, 0),
    "broken": (json_reply({"error": {"message": "fault"}}, status=500), 0, 0),
    "cut off": (stream_reply(chat_chunks("load", "a")[0], Abort()), 0, 0),
    "left": (stream_reply(*chat_chunks("load", "a", "b", prompt=4, completion=TOKENS - 4)[:2], Abort()), 0, 0),
}


def test_every_request_is_charged_once_under_load(limited, upstreams):
    stack, limiter = limited
    upstreams["first"].always(lambda received: FATES[received.header("x-fate")][0])
    fates = random.Random(1).choices(sorted(FATES), k=160)

    def ask_for(fate):
        with connect(stack) as client:
            asked = question("load", stream=fate in ("streamed", "cut off", "left"))
            try:
                with client.stream("POST", CHAT, json=asked, headers={"x-fate": fate}) as answer:
                    if fate == "left":
                        next(answer.iter_raw())
                    else:
                        answer.read()
            except httpx.TransportError:
                assert fate in ("cut off", "left")

    with ThreadPoolExecutor(8) as clients:
        list(clients.map(ask_for, fates))

    first, second = (bucket_of(name, "load") for name in ("first", "second"))
    paid = [sum(FATES[fate][place] for fate in fates) for place in (1, 2)]
    limiter.wait_until_charged(*first, amount=paid[0])
    limiter.wait_until_charged(*second, amount=paid[1])
    ask_for("served")
    limiter.wait_until_charged(*first, amount=paid[0] + TOKENS)
    assert [limiter.charged(*first) - TOKENS, limiter.charged(*second)] == paid


def test_a_client_pays_also_when_its_header_is_not_for_the_backend(limited, upstreams):
    stack, limiter = limited
    mine = bucket_of("stripped", "stripped", ("rule-0-x-user-match", "eve"))

    assert ask(stack, "stripped", **{"x-user": "eve"}) == 200

    assert upstreams["stripped"].last.header("x-user") is None
    limiter.wait_until_charged(*mine, amount=TOKENS, timeout=3)


def test_models_without_a_quota_share_that_of_their_service(limited):
    stack, limiter = limited
    service = (("backend_name", "default/whole"), ("service_quota", "true"))
    own = bucket_of("whole", "own")

    assert ask(stack, "own") == 200
    limiter.wait_until_charged(*own, amount=TOKENS)
    for model, spent in (("any", TOKENS), ("other", 2 * TOKENS)):
        assert ask(stack, model) == 200
        limiter.wait_until_charged(*service, amount=spent)

    assert [ask(stack, model) for model in ("any", "other", "own", "same")] == [429, 429, 200, 200]
    limiter.wait_until_charged(*own, amount=3 * TOKENS)
    assert limiter.charged(*service) == 2 * TOKENS


def test_a_client_pays_a_budget_in_tokens(limited):
    stack, limiter = limited
    mine = (("budget", "default/b/rule/0/limit/0"), ("rule-0-x-user-match", "tom"))

    for spent in (TOKENS, 2 * TOKENS):
        assert ask(stack, "budgeted", **{"x-user": "tom"}) == 200
        limiter.wait_until_charged(*mine, amount=spent)

    assert ask(stack, "budgeted", **{"x-user": "tom"}) == 429
    assert ask(stack, "budgeted", **{"x-user": "tim"}) == 200
    assert ask(stack, "budgeted") == 200


def test_a_budget_of_requests(limited):
    stack, _ = limited

    assert [ask(stack, "budgeted", **{"x-plan": "free"}) for _ in range(3)] == [200, 200, 429]
    assert ask(stack, "budgeted", **{"x-plan": "paid"}) == 200
