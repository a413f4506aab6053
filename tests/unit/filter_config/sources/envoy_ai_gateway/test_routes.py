"""Routes to backends, models and rules, of the document and the neutral model (contract, control plane 2.3 to 2.5)."""

from __future__ import annotations

import pytest

from filter_config.sources.model import HeaderMatch, Match, Retry
from tests.support.gateway_resources import (
    AI,
    ENVOY_GATEWAY,
    GATEWAY_API,
    INFERENCE,
    compiled,
    document,
    endpoint,
    faults,
    gateway,
    grant,
    only,
    ref,
    resource,
    route,
    rule,
    served,
    service,
)


def names(result) -> list[str]:
    return [backend.name for backend in result.gateways[0].config.backends]


def models(result) -> list[str]:
    return [model.name for model in result.gateways[0].config.models]


# --- names and skipping ---


def test_a_backend_is_named_by_its_route_and_its_place_in_it():
    rules = rule("a", "b"), rule("a", model="n")
    made = only(compiled(gateway(), route("r", *rules), *served("a", "b")))
    assert [backend.name for backend in made.config.backends] == [
        "default/a/route/r/rule/0/ref/0",
        "default/b/route/r/rule/0/ref/1",
        "default/a/route/r/rule/1/ref/0",
    ]


def test_a_backend_that_is_left_out_leaves_its_place_free():
    result = compiled(gateway(), route("r", rule("missing", "a"), rule("missing", model="n")), *served("a"))
    assert names(result) == ["default/a/route/r/rule/0/ref/1"]
    said = "AIServiceBackend default/missing does not exist; the backend is left out"
    assert faults(result) == [
        f"error AIGatewayRoute default/r: spec.rules[0].backendRefs[0]: {said}",
        f"error AIGatewayRoute default/r: spec.rules[1].backendRefs[0]: {said}",
    ]


def test_a_backend_that_is_invalid_blocks_no_other_and_is_told_once():
    broken = service("broken", schema="OpenAi")
    result = compiled(gateway(), route("r", rule("broken", "a")), *served("a"), broken)
    assert names(result) == ["default/a/route/r/rule/0/ref/1"]
    assert faults(result) == [
        (
            "warning AIGatewayRoute default/r: spec.rules[0].backendRefs[0]: AIServiceBackend default/broken has "
            "faults of its own; the backend is left out"
        ),
        "error AIServiceBackend default/broken: spec.schema.name: 'OpenAi' is not allowed",
    ]


DELETED = {"deletionTimestamp": "2026-02-01T00:00:00Z"}


def test_what_is_being_deleted_is_as_good_as_gone():
    going = service("b")
    going["metadata"].update(DELETED)
    result = compiled(
        gateway(), route("r", rule("a", "b")), route("gone", rule("a"), meta=DELETED), *served("a"), going
    )
    assert names(result) == ["default/a/route/r/rule/0/ref/0"]
    assert faults(result) == [
        (
            "error AIGatewayRoute default/r: spec.rules[0].backendRefs[1]: AIServiceBackend default/b is being "
            "deleted; the backend is left out"
        )
    ]


def test_a_gateway_without_a_route_has_no_config():
    assert compiled(gateway(), *served("a")).gateways == ()
    assert compiled(gateway(), route("gone", rule("a"), meta=DELETED), *served("a")).gateways == ()


# --- schemas ---

SCHEMAS = {
    "OpenAI": ({"name": "OpenAI"}, {"name": "OpenAI", "prefix": "v1"}),
    "OpenAI with a prefix": ({"name": "OpenAI", "prefix": "api/v2"}, {"name": "OpenAI", "prefix": "api/v2"}),
    "OpenAI with a version": ({"name": "OpenAI", "version": "v3"}, {"name": "OpenAI", "prefix": "v1"}),
    "Anthropic": ({"name": "Anthropic"}, {"name": "Anthropic", "prefix": "v1"}),
    "AzureOpenAI": (
        {"name": "AzureOpenAI", "version": "2024-10-21", "prefix": "p"},
        {"name": "AzureOpenAI", "version": "2024-10-21"},
    ),
    "AWSBedrock": ({"name": "AWSBedrock"}, {"name": "AWSBedrock"}),
    "AWSAnthropic": ({"name": "AWSAnthropic", "version": "bedrock-2023-05-31"}, None),
    "GCPVertexAI": ({"name": "GCPVertexAI", "version": "v1"}, None),
    "GCPAnthropic": ({"name": "GCPAnthropic", "version": "vertex-2023-10-16"}, None),
    "Cohere": ({"name": "Cohere", "version": "v2"}, None),
}


@pytest.mark.parametrize(("given", "expected"), SCHEMAS.values(), ids=SCHEMAS)
def test_a_schema_has_a_prefix_or_a_version(given, expected):
    made = only(compiled(gateway(), route("r", rule("b")), service("b", schema=given), endpoint("b")))
    assert document(made)["backends"][0]["schema"] == (expected or given)


def test_a_version_alpha_resource_is_the_same():
    old = service("b")
    old["apiVersion"] = f"{AI}/v1alpha1"
    new = service("b")
    payloads = [only(compiled(gateway(), route("r", rule("b")), made, endpoint("b"))).payload for made in (old, new)]
    assert payloads[0] == payloads[1]


# --- models ---


def test_a_model_of_two_rules_is_listed_once_as_the_first_has_it():
    rules = rule("b", modelsOwnedBy="first"), rule("b", modelsOwnedBy="second")
    made = only(compiled(gateway(), route("r", *rules), *served("b")))
    assert [(model.name, model.owned_by) for model in made.config.models] == [("m", "first")]


def test_the_name_of_the_model_header_has_no_case():
    matches = [{"headers": [{"name": "X-Ai-Eg-Model", "value": "shouted", "type": "Exact"}]}]
    made = only(compiled(gateway(), route("r", rule("b", model=None, matches=matches)), *served("b")))
    assert [model.name for model in made.config.models] == ["shouted"]


def test_a_pattern_and_another_header_list_no_model():
    matches = [
        {"headers": [{"name": "x-ai-eg-model", "value": ".*", "type": "RegularExpression"}]},
        {"headers": [{"name": "x-team", "value": "a"}]},
    ]
    made = only(compiled(gateway(), route("r", rule("b", model=None, matches=matches)), *served("b")))
    assert made.config.models == ()


def test_a_rule_without_a_usable_backend_lists_no_model():
    result = compiled(gateway(), route("r", rule("missing"), rule("b", model="n"), rule(model="none")), *served("b"))
    assert models(result) == ["n"]


def test_models_of_a_host_come_with_those_of_every_host():
    scoped = route("scoped", rule("b", model="s"), hostnames=["a.example.com", "*.example.org"])
    made = only(compiled(gateway(), route("open", rule("b", model="o")), scoped, *served("b")))
    listed = {host: [model.name for model in of_host] for host, of_host in made.config.models_by_host.items()}
    assert listed == {"a.example.com": ["s", "o"], "*.example.org": ["s", "o"]}
    assert [model.name for model in made.config.unscoped_models] == ["o"]
    assert [model.name for model in made.config.models] == ["o", "s"]


ONE_SORT = {
    "no route has hosts": (route("r", rule("b")), {}, ()),
    "all routes have hosts": (route("r", rule("b"), hostnames=["h.example.com"]), {"h.example.com": ["m"]}, ()),
}


@pytest.mark.parametrize(("made_route", "hosts", "unscoped"), ONE_SORT.values(), ids=ONE_SORT)
def test_models_of_every_host_are_told_apart_only_where_hosts_have_some(made_route, hosts, unscoped):
    made = only(compiled(gateway(), made_route, *served("b")))
    assert {host: [model.name for model in of] for host, of in made.config.models_by_host.items()} == hosts
    assert made.config.unscoped_models == unscoped


def test_times_of_models_are_the_rules_then_the_routes_then_none():
    rules = rule("b", modelsCreatedAt="2025-05-21T12:00:00+02:00"), rule("b", model="n")
    aged = route("aged", *rules, meta={"creationTimestamp": "2026-01-02T03:04:05Z"})
    made = only(compiled(gateway(), route("ageless", rule("b", model="o")), aged, *served("b")))
    times = {model["Name"]: model["CreatedAt"] for model in document(made)["models"]}
    assert times == {"m": "2025-05-21T10:00:00Z", "n": "2026-01-02T03:04:05Z", "o": "0001-01-01T00:00:00Z"}


# --- across namespaces ---

TO_BACKEND = {"source": (AI, "AIGatewayRoute", "default"), "target": (AI, "AIServiceBackend")}
TO_ENDPOINT = {
    "source": (GATEWAY_API, "HTTPRoute", "default"),
    "target": (ENVOY_GATEWAY, "Backend"),
}


def cross(*grants):
    return compiled(gateway(), route("r", rule(ref("b", namespace="other"))), *served("b", namespace="other"), *grants)


def test_a_backend_of_another_namespace_needs_a_grant():
    result = cross()
    assert result.gateways[0].config.backends == ()
    assert faults(result) == [
        (
            "error AIGatewayRoute default/r: spec.rules[0].backendRefs[0]: AIServiceBackend other/b is in another "
            "namespace, which does not allow it; the backend is left out"
        )
    ]


def test_a_granted_backend_is_named_by_the_namespace_of_the_route():
    result = cross(grant("other", **TO_BACKEND), grant("other", **TO_ENDPOINT))
    assert faults(result) == []
    assert names(result) == ["default/b/route/r/rule/0/ref/0"]
    (backend,) = result.gateways[0].model.routes[0].rules[0].backends
    assert backend.namespace == "other"
    assert backend.endpoint is not None


def test_a_backend_that_envoy_must_not_reach_has_no_endpoint():
    result = cross(grant("other", **TO_BACKEND))
    assert result.gateways[0].model.routes[0].rules[0].backends[0].endpoint is None
    assert faults(result) == [
        (
            "error AIServiceBackend other/b: spec.backendRef: routes of namespace default cannot reach Backend "
            "other/b, whose namespace does not allow it"
        )
    ]


NO_GRANTS = {
    "of another name": grant("other", source=TO_BACKEND["source"], target=(AI, "AIServiceBackend", "c")),
    "of another kind": grant("other", source=TO_BACKEND["source"], target=(INFERENCE, "InferencePool")),
    "for another namespace": grant("other", source=(AI, "AIGatewayRoute", "third"), target=(AI, "AIServiceBackend")),
    "for another kind": grant("other", source=(GATEWAY_API, "HTTPRoute", "default"), target=(AI, "AIServiceBackend")),
    "in another namespace": grant("third", **TO_BACKEND),
}


@pytest.mark.parametrize("given", NO_GRANTS.values(), ids=NO_GRANTS)
def test_a_grant_of_something_else_allows_nothing(given):
    assert cross(given).gateways[0].config.backends == ()


def test_a_grant_may_name_the_backend():
    named = grant("other", source=TO_BACKEND["source"], target=(AI, "AIServiceBackend", "b"))
    assert names(cross(named)) == ["default/b/route/r/rule/0/ref/0"]


# --- pools ---

POOL = ref("pool", group=INFERENCE, kind="InferencePool")


def pool(**annotations: str):
    spec = {"endpointPickerRef": {"name": "picker", "port": {"number": 9100}}, "targetPorts": [{"number": 8000}]}
    return resource(f"{INFERENCE}/v1", "InferencePool", "pool", spec=spec, metadata={"annotations": annotations})


def test_a_pool_speaks_openai_and_knows_its_picker():
    annotation = {"aigateway.envoyproxy.io/processing-body-mode": "buffered"}
    made = only(compiled(gateway(), route("r", rule({**POOL, "modelNameOverride": "n"})), pool(**annotation)))
    assert document(made)["backends"] == [
        {
            "name": "default/pool/route/r/rule/0/ref/0",
            "modelNameOverride": "n",
            "schema": {"name": "OpenAI", "version": "v1", "prefix": "v1"},
        }
    ]
    (backend,) = made.model.routes[0].rules[0].backends
    assert (backend.pool.picker_service, backend.pool.picker_port) == ("picker", 9100)
    assert (backend.pool.body_mode, backend.pool.allow_mode_override) == ("buffered", False)
    assert backend.endpoint is None


def test_a_pool_need_not_be_among_the_resources_and_takes_no_mutations():
    mutated = {**POOL, "headerMutation": {"remove": ["x"]}}
    result = compiled(gateway(), route("r", rule(mutated)))
    assert names(result) == ["default/pool/route/r/rule/0/ref/0"]
    assert faults(result) == [
        (
            "warning AIGatewayRoute default/r: spec.rules[0].backendRefs[0]: InferencePool default/pool does not "
            "exist, so that its picker is not known"
        ),
        (
            "warning AIGatewayRoute default/r: spec.rules[0].backendRefs[0].headerMutation: has no effect on an "
            "InferencePool"
        ),
    ]


# --- what the Envoy side will need ---


def the_rule(*resources):
    return only(compiled(gateway(), *resources, *served("b"))).model.routes[0].rules[0]


TIMES = {
    "none": ({}, (60.0, None, None)),
    "of the attempt alone": ({"timeouts": {"backendRequest": "10s"}}, (60.0, 10.0, None)),
    "all": (
        {"timeouts": {"request": "2m", "backendRequest": "1m30s"}, "streamIdleTimeout": "500ms"},
        (120.0, 90.0, 0.5),
    ),
    "no bound": ({"timeouts": {"request": "0s", "backendRequest": "5s"}, "streamIdleTimeout": "0s"}, (0.0, 5.0, None)),
}


@pytest.mark.parametrize(("given", "expected"), TIMES.values(), ids=TIMES)
def test_times_are_in_seconds_and_an_exchange_has_a_minute(given, expected):
    made = the_rule(route("r", rule("b", **given)))
    assert (made.request_timeout, made.backend_timeout, made.idle_timeout) == expected


def test_matches_weights_and_priorities_are_carried():
    matches = [
        {
            "headers": [
                {"name": "x-ai-eg-model", "value": "m"},
                {"name": "x-tier", "value": "g.*", "type": "RegularExpression"},
            ]
        }
    ]
    made = the_rule(route("r", rule(ref("b", weight=3), ref("b", priority=2), model=None, matches=matches, name="one")))
    tier = HeaderMatch(name="x-tier", value="g.*", kind="regex")
    assert made.matches == (Match(headers=(HeaderMatch(name="x-ai-eg-model", value="m"), tier)),)
    assert [(backend.weight, backend.priority) for backend in made.backends] == [(3, 0), (1, 2)]
    assert made.name == "one"


def retry(policy: str, number: int, **target: str):
    spec = {"targetRefs": [{"group": GATEWAY_API, **target}], "retry": {"numRetries": number}}
    return resource(f"{ENVOY_GATEWAY}/v1alpha1", "BackendTrafficPolicy", policy, spec=spec)


OF_GATEWAY = retry("of-gateway", 1, kind="Gateway", name="gw")
OF_ROUTE = retry("of-route", 2, kind="HTTPRoute", name="r")
OF_RULE = retry("of-rule", 3, kind="HTTPRoute", name="r", sectionName="one")
RETRIES = {
    "none": ([], None),
    "of the gateway": ([OF_GATEWAY], 1),
    "of the route before the gateway": ([OF_GATEWAY, OF_ROUTE], 2),
    "of the rule before the route": ([OF_GATEWAY, OF_ROUTE, OF_RULE], 3),
    "of another route": ([retry("other", 4, kind="HTTPRoute", name="other")], None),
    "of two policies the first": ([OF_ROUTE, retry("a-route", 5, kind="HTTPRoute", name="r")], 5),
}


@pytest.mark.parametrize(("policies", "attempts"), RETRIES.values(), ids=RETRIES)
def test_the_nearest_retry_counts(policies, attempts):
    made = the_rule(route("r", rule("b", name="one")), *policies)
    assert (made.retry.attempts if made.retry else None) == attempts


def test_a_retry_is_carried_whole():
    spec = {
        "targetRef": {"group": GATEWAY_API, "kind": "HTTPRoute", "name": "r"},
        "retry": {
            "numRetries": 5,
            "numAttemptsPerPriority": 1,
            "perRetry": {"timeout": "30s", "backOff": {"baseInterval": "100ms", "maxInterval": "10s"}},
            "retryOn": {"httpStatusCodes": [500], "triggers": ["reset"]},
        },
    }
    made = the_rule(
        route("r", rule("b")), resource(f"{ENVOY_GATEWAY}/v1alpha1", "BackendTrafficPolicy", "p", spec=spec)
    )
    assert made.retry == Retry(
        attempts=5,
        attempts_per_priority=1,
        triggers=("reset",),
        status_codes=(500,),
        per_try_timeout=30.0,
        base_interval=0.1,
        max_interval=10.0,
    )


def test_two_backends_of_one_short_name_are_told():
    rules = rule("b", ref("b", namespace="other"))
    granted = grant("other", **TO_BACKEND), grant("other", **TO_ENDPOINT)
    result = compiled(gateway(), route("r", rules), *served("b"), *served("b", namespace="other"), *granted)
    assert faults(result) == [
        (
            "warning AIGatewayRoute default/r: spec.rules[0].backendRefs[1]: other/b and default/b have the same short "
            "name default/b in quotas and metrics"
        )
    ]
