"""Routes: models to clusters, hosts to routes, and a catch-all that enables the processor."""

from __future__ import annotations

import pytest

from deploy.envoy.model import (
    Answer,
    Backend,
    Charge,
    Flag,
    Gateway,
    HeaderDescriptor,
    HeaderMatch,
    Listener,
    Match,
    PipeAddress,
    Place,
    Processor,
    Quotas,
    RateLimitService,
    Retry,
    Route,
    Rule,
    SocketAddress,
    StaticDescriptor,
    TokenBudget,
    VirtualHost,
)
from deploy.envoy.routes import route_configuration
from deploy.envoy.text import to_document

ADDRESS = SocketAddress(host="127.0.0.1", port=8000)
EXT_PROC = "envoy.filters.http.ext_proc/aigateway"
BUDGET = TokenBudget(descriptors=(HeaderDescriptor(header="x-user-id", key="user"),), cost_key="cost")


def rule(*models, **fields):
    return Rule(models=models, backends=(Backend(name="one", address=ADDRESS),), **fields)


def build(*routes, **fields):
    gateway = Gateway(
        listener=Listener(address=ADDRESS),
        routes=routes,
        processor=fields.pop("processor", Processor(address=PipeAddress(path="/x"))),
        **fields,
    )
    return to_document(route_configuration(gateway))["virtual_hosts"]


def test_each_model_has_a_route_to_the_cluster_of_its_rule():
    (host,) = build(Route(name="llm", rules=(rule("a", "b"), rule("c"))))

    matched = [(model(entry), entry["route"]["cluster"]) for entry in host["routes"][:-1]]
    assert matched == [
        ("a", "httproute/default/llm/rule/0"),
        ("b", "httproute/default/llm/rule/0"),
        ("c", "httproute/default/llm/rule/1"),
    ]
    assert len({entry["name"] for entry in host["routes"]}) == 4


def test_a_rule_without_models_takes_every_model():
    (host,) = build(Route(name="llm", rules=(rule(),)))

    assert host["routes"][0]["match"] == {"prefix": "/"}


def test_headers_are_matched_beside_the_model():
    matches = (HeaderMatch(name="x-team", value="red"), HeaderMatch(name="x-id", value="[0-9]+", kind="regex"))
    (host,) = build(Route(name="llm", rules=(rule("a", headers=matches),)))

    assert host["routes"][0]["match"]["headers"] == [
        {"name": "x-ai-eg-model", "string_match": {"exact": "a"}},
        {"name": "x-team", "string_match": {"exact": "red"}},
        {"name": "x-id", "string_match": {"safe_regex": {"regex": "[0-9]+"}}},
    ]


def test_the_catch_all_answers_404_and_enables_the_processor():
    (host,) = build(Route(name="llm", rules=(rule("a"),)))

    last = host["routes"][-1]
    assert last["match"] == {"prefix": "/"}
    assert last["direct_response"]["status"] == 404
    assert last["direct_response"]["body"]["inline_string"].startswith("No matching route found.")
    assert EXT_PROC in last["typed_per_filter_config"]


def test_every_route_enables_the_processor_and_carries_its_name():
    (host,) = build(Route(name="llm", namespace="prod", rules=(rule("a"), rule("b"))))

    for entry in host["routes"][:-1]:
        assert EXT_PROC in entry["typed_per_filter_config"]
        assert entry["metadata"]["filter_metadata"] == {"aigateway.envoy.io": {"aigw_route_name": "prod/llm"}}


def test_a_host_serves_its_own_routes_and_then_those_of_every_host():
    here, there, anywhere = (
        Route(name="here", rules=(rule("a"),), hostnames=("a.example",)),
        Route(name="there", rules=(rule("a"),), hostnames=("b.example", "a.example")),
        Route(name="anywhere", rules=(rule("a"),)),
    )

    hosts = build(anywhere, here, there)

    served = {host["domains"][0]: [name(entry) for entry in host["routes"][:-1]] for host in hosts}
    assert served == {
        "a.example": ["default/here", "default/there", "default/anywhere"],
        "b.example": ["default/there", "default/anywhere"],
        "*": ["default/anywhere"],
    }


def test_the_host_header_is_the_backends():
    (host,) = build(Route(name="llm", rules=(rule("a"),)))

    assert host["routes"][0]["route"]["auto_host_rewrite"] is True


def test_a_provider_does_not_learn_the_clients_address():
    (host,) = build(Route(name="llm", rules=(rule("a"),)))

    assert host["routes"][0]["request_headers_to_remove"] == ["x-forwarded-for", "x-envoy-external-address"]


TIMEOUTS = {"none": (0.0, "0s"), "a minute": (60.0, "60s"), "fraction": (1.5, "1.500s")}


@pytest.mark.parametrize(("given", "written"), TIMEOUTS.values(), ids=TIMEOUTS)
def test_timeout(given, written):
    (host,) = build(Route(name="llm", rules=(rule("a", timeout=given),)))

    # A missing timeout would be Envoy's default of 15 s, so 0 has to be written.
    assert host["routes"][0]["route"]["timeout"] == written


def test_a_retry_goes_to_the_next_priority():
    retry = Retry(attempts=3, status_codes=(429, 529), per_try_timeout=20.0, per_try_idle_timeout=5.0)
    (host,) = build(Route(name="llm", rules=(rule("a", retry=retry),)))

    policy = host["routes"][0]["route"]["retry_policy"]
    assert policy["retry_on"] == "5xx,connect-failure,retriable-status-codes"
    assert policy["num_retries"] == 2
    assert policy["retriable_status_codes"] == [429, 529]
    assert (policy["per_try_timeout"], policy["per_try_idle_timeout"]) == ("20s", "5s")
    assert policy["retry_priority"]["name"] == "envoy.retry_priorities.previous_priorities"
    assert policy["retry_priority"]["typed_config"]["update_frequency"] == 1
    assert [entry["name"] for entry in policy["retry_host_predicate"]] == ["envoy.retry_host_predicates.previous_hosts"]


def test_budgets_are_per_filter_configuration_because_envoy_ignores_hits_addend_elsewhere():
    service = RateLimitService(address=ADDRESS, domain="d")
    (host,) = build(Route(name="llm", rules=(rule("a"),), budgets=(BUDGET,)), rate_limit=service)

    entry = host["routes"][0]
    assert "rate_limits" not in entry["route"]
    limits = entry["typed_per_filter_config"]["envoy.filters.http.ratelimit"]
    assert limits["@type"].endswith("RateLimitPerRoute")
    assert len(limits["rate_limits"]) == 2


def test_without_a_service_there_are_no_budgets():
    (host,) = build(Route(name="llm", rules=(rule("a"),), budgets=(BUDGET,)))

    assert set(host["routes"][0]["typed_per_filter_config"]) == {EXT_PROC}


PATHS = {
    "everything": ("/", {"prefix": "/"}),
    "a segment": ("/llm", {"path_separated_prefix": "/llm"}),
    "a slash more": ("/llm/", {"path_separated_prefix": "/llm"}),
}


@pytest.mark.parametrize(("prefix", "match"), PATHS.values(), ids=PATHS)
def test_a_path_is_matched_by_segments(prefix, match):
    (host,) = build(Route(name="llm", rules=(rule(matches=(Match(path_prefix=prefix),)),)))

    assert host["routes"][0]["match"] == match


def test_matches_are_alternatives():
    matches = (Match(headers=(HeaderMatch(name="a", value="1"),)), Match(path_prefix="/x"))
    (host,) = build(Route(name="llm", rules=(rule(matches=matches),)))

    assert [entry["name"] for entry in host["routes"][:-1]] == [
        "httproute/default/llm/rule/0/match/0",
        "httproute/default/llm/rule/0/match/1",
    ]
    assert host["routes"][0]["match"]["headers"] == [{"name": "a", "string_match": {"exact": "1"}}]


def test_a_rule_may_answer_by_itself():
    answering = Rule(backends=(), models=("a",), answer=Answer(status=503, body="Nobody is there."))
    (host,) = build(Route(name="llm", rules=(answering,)))

    entry = host["routes"][0]
    assert entry["direct_response"] == {"status": 503, "body": {"inline_string": "Nobody is there."}}
    assert "route" not in entry
    assert EXT_PROC in entry["typed_per_filter_config"]


def test_the_host_header_may_stay():
    (host,) = build(Route(name="llm", rules=(rule("a", rewrite_host=False),)))

    assert "auto_host_rewrite" not in host["routes"][0]["route"]


def test_a_listener_may_say_what_a_host_tries():
    routes = (Route(name="one", rules=(rule("a", "b"),)), Route(name="two", rules=(rule("c"),)))
    hosts = (
        VirtualHost(domain="h.example", places=(Place(route=1, rule=0, match=0), Place(route=0, rule=0, match=1))),
        VirtualHost(domain="*"),
    )
    gateway = Gateway(
        listener=Listener(address=ADDRESS),
        further_listeners=(Listener(name="other", address=ADDRESS, hosts=hosts),),
        routes=routes,
        processor=None,
    )

    document = to_document(route_configuration(gateway, gateway.listeners[1]))

    assert document["name"] == "other"
    assert [[model(entry) for entry in host["routes"][:-1]] for host in document["virtual_hosts"]] == [["c", "b"], []]


def policy_of(**fields):
    (host,) = build(Route(name="llm", rules=(rule("a", retry=Retry(**fields)),)))
    return host["routes"][0]["route"]["retry_policy"]


def test_one_attempt_is_only_bounded():
    policy = policy_of(attempts=1, triggers=(), status_codes=(), per_try_timeout=9.0)

    assert policy == {"num_retries": 0, "per_try_timeout": "9s"}


def test_a_priority_may_have_several_attempts():
    policy = policy_of(attempts_per_priority=3)

    assert policy["retry_priority"]["typed_config"]["update_frequency"] == 3


PAUSES = {
    "none": ({}, None),
    "both": ({"base_interval": 0.1, "max_interval": 2.0}, {"base_interval": "0.100s", "max_interval": "2s"}),
    "a base": ({"base_interval": 0.1}, {"base_interval": "0.100s"}),
    "a maximum": ({"max_interval": 2.0}, {"base_interval": "0.025s", "max_interval": "2s"}),
    "a maximum below the base": (
        {"base_interval": 3.0, "max_interval": 2.0},
        {"base_interval": "2s", "max_interval": "2s"},
    ),
    "no pause": (
        {"base_interval": 0.0, "max_interval": 0.0},
        {"base_interval": "0.001s", "max_interval": "0.001s"},
    ),
}


@pytest.mark.parametrize(("fields", "written"), PAUSES.values(), ids=PAUSES)
def test_pauses(fields, written):
    assert policy_of(**fields).get("retry_back_off") == written


def test_quotas_note_who_asks_before_anything_is_taken():
    quotas = Quotas(
        charges=(
            Charge(descriptors=(StaticDescriptor(key="k", value="v"),), cost_key="cost", done=True),
            Charge(descriptors=(StaticDescriptor(key="k", value="v"),)),
        ),
        flags=(Flag(header="x-flag", condition="true"),),
        headers=("x-user",),
    )
    service = RateLimitService(address=ADDRESS)
    (host,) = build(Route(name="llm", rules=(rule("a", quotas=quotas),)), rate_limit=service)

    filters = host["routes"][0]["typed_per_filter_config"]
    (flag,) = filters["envoy.filters.http.header_mutation/ai-gateway-quota"]["mutations"]["request_mutations"]
    assert flag["append"] == {
        "header": {"key": "x-flag", "value": "%CEL(true)%"},
        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
    }
    notes = filters["envoy.filters.http.header_to_metadata/ai-gateway-quota"]["request_rules"]
    assert [(note["header"], note.get("remove", False)) for note in notes] == [("x-flag", True), ("x-user", False)]
    assert {note["on_header_present"]["metadata_namespace"] for note in notes} == {"io.envoy.ai_gateway"}
    assert [note["on_header_present"]["key"] for note in notes] == ["quota_header:x-flag", "quota_header:x-user"]
    limits = filters["envoy.filters.http.ratelimit/ai-gateway-quota"]
    assert limits["domain"] == "ai-gateway-quota"
    assert [entry.get("apply_on_stream_done", False) for entry in limits["rate_limits"]] == [False, True]


def test_a_quota_for_everybody_notes_nothing():
    quotas = Quotas(charges=(Charge(descriptors=(StaticDescriptor(key="k", value="v"),)),))
    service = RateLimitService(address=ADDRESS)
    (host,) = build(Route(name="llm", rules=(rule("a", quotas=quotas),)), rate_limit=service)

    assert set(host["routes"][0]["typed_per_filter_config"]) == {
        EXT_PROC,
        "envoy.filters.http.ratelimit/ai-gateway-quota",
    }


def model(entry):
    return entry["match"]["headers"][0]["string_match"]["exact"]


def name(entry):
    return entry["metadata"]["filter_metadata"]["aigateway.envoy.io"]["aigw_route_name"]
