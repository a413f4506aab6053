"""Every kind of gateway that the model can describe, put before the real Envoy."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml

from deploy.envoy.bootstrap import LISTENER, bootstrap, http_filters
from deploy.envoy.model import (
    AccessLog,
    Backend,
    Certificate,
    Charge,
    Gateway,
    HeaderDescriptor,
    HeaderMatch,
    Listener,
    Match,
    PipeAddress,
    Processor,
    Quotas,
    RateLimitService,
    Retry,
    Route,
    Rule,
    ServerTLS,
    SocketAddress,
    StaticDescriptor,
    TokenBudget,
    UpstreamTLS,
)
from deploy.envoy.text import to_document, to_json, to_yaml
from filter_config.sources.routing import pattern_problem
from tests.support.certificates import Authority

LOCAL = SocketAddress(host="127.0.0.1", port=8000)
BUDGET = TokenBudget(
    descriptors=(HeaderDescriptor(header="x-user-id", key="user"), StaticDescriptor(key="plan", value="free")),
    cost_key="cost",
)


def gateway(**fields):
    rule = Rule(models=("small",), backends=(Backend(name="one", address=LOCAL),))
    basic = Gateway(
        listener=Listener(address=SocketAddress(host="127.0.0.1", port=0)),
        routes=(Route(name="llm", rules=(rule,)),),
        processor=Processor(address=PipeAddress(path="/run/extproc.sock")),
    )
    return replace(basic, **fields)


def route(*backends, **fields):
    rule = {key: fields.pop(key) for key in ("models", "headers", "retry", "timeout") if key in fields}
    return Route(name="llm", rules=(Rule(backends=backends, **rule),), **fields)


REMOTE = Backend(
    name="far",
    address=SocketAddress(host="api.example", port=443),
    tls=UpstreamTLS(server_name="api.example"),
    priority=7,
)
GATEWAYS = {
    "one backend": gateway(),
    "no route": gateway(routes=()),
    "processor over TCP by name": gateway(processor=Processor(address=SocketAddress(host="extproc", port=1063))),
    "processor without retries": gateway(
        processor=Processor(address=PipeAddress(path="/x"), connect_retries=0, forwarding_namespaces=("auth.jwt", "b"))
    ),
    "no processor": gateway(processor=None),
    "clear text and TLS in one rule": gateway(routes=(route(Backend(name="near", address=LOCAL), REMOTE),)),
    "two backends with the same TLS": gateway(routes=(route(REMOTE, replace(REMOTE, name="further")),)),
    "weight 0": gateway(routes=(route(REMOTE, Backend(name="off", address=LOCAL, weight=0)),)),
    "failover": gateway(
        routes=(
            route(
                Backend(name="near", address=LOCAL),
                REMOTE,
                models=("a", "b"),
                retry=Retry(attempts=3, per_try_timeout=5, per_try_idle_timeout=1.5, triggers=("5xx", "reset")),
                timeout=60,
            ),
        )
    ),
    "headers": gateway(
        routes=(
            route(
                Backend(name="near", address=LOCAL),
                headers=(
                    HeaderMatch(name="x-team", value="red"),
                    HeaderMatch(name="x-ai-eg-model", value="gpt-.*", kind="regex"),
                ),
            ),
        )
    ),
    "empty values": gateway(
        routes=(
            route(
                Backend(name="near", address=LOCAL),
                headers=(HeaderMatch(name="x-a", value=""), HeaderMatch(name="x-b", value="", kind="regex")),
            ),
        )
    ),
    "hostnames": gateway(
        routes=(
            route(Backend(name="near", address=LOCAL), hostnames=("a.example", "*.b.example")),
            replace(route(Backend(name="near", address=LOCAL)), name="everywhere"),
        )
    ),
    "everything": gateway(
        routes=(route(Backend(name="near", address=LOCAL), budgets=(BUDGET,)),),
        rate_limit=RateLimitService(address=SocketAddress(host="ratelimit", port=8081), domain="llm"),
        access_log=AccessLog(path="/dev/stdout", cost_keys=("cost", "tokens")),
        admin=SocketAddress(host="127.0.0.1", port=0),
    ),
}


@pytest.mark.parametrize("case", GATEWAYS.values(), ids=GATEWAYS)
def test_envoy_accepts_the_yaml(case, tmp_path, envoy_accepts):
    path = tmp_path / "envoy.yaml"
    path.write_text(to_yaml(bootstrap(case)))

    assert envoy_accepts(path) is None


def test_envoy_accepts_the_json(tmp_path, envoy_accepts):
    path = tmp_path / "envoy.json"
    path.write_text(to_json(bootstrap(GATEWAYS["everything"])))

    assert envoy_accepts(path) is None


@pytest.mark.parametrize("case", GATEWAYS.values(), ids=GATEWAYS)
def test_yaml_and_json_carry_the_same_document(case):
    built = bootstrap(case)

    assert yaml.safe_load(to_yaml(built)) == json.loads(to_json(built))


WORDS = [
    "y",
    "n",
    "Y",
    "N",
    "yes",
    "No",
    "ON",
    "oFf",
    "true",
    "Null",
    "~",
    "0",
    "-1",
    "+5",
    "0x1F",
    "017",
    "08",
    "0o7",
    "1e3",
    "1_000",
    "1:30",
    "1.5",
    ".nan",
    ".inf",
    "-",
    "=",
    "<<",
    "#",
    "2025-01-01\n",
    "",
    "",
    "",
    "'",
    '"',
    "`",
    "@a",
    "&a",
    "*a",
    "!a",
    "%a",
    "a:",
    ":a",
    "{}",
    "[]",
    "é",
    "\u2028",
    "---",
]
"""What some reader of YAML takes for something else than a text."""


def test_envoy_takes_any_word_for_a_text(tmp_path, envoy_accepts):
    headers = [HeaderMatch(name=f"x-{number}", value=word) for number, word in enumerate(WORDS)]
    rule = Rule(models=tuple(WORDS), backends=(Backend(name="one", address=LOCAL),))
    named = replace(rule, matches=tuple(Match(headers=(header,)) for header in headers))
    path = tmp_path / "envoy.yaml"
    path.write_text(to_yaml(bootstrap(gateway(routes=(Route(name="llm", rules=(named,)),)))))

    assert envoy_accepts(path) is None


PATTERNS = {"of bytes": ("[ü-é]", True), "of a character": (r"\x{100}", False), "of the engine": (r"\pL\z", True)}


@pytest.mark.parametrize(("pattern", "taken"), PATTERNS.values(), ids=PATTERNS)
def test_a_pattern_is_judged_as_envoy_does(pattern, taken, tmp_path, envoy_accepts):
    header = HeaderMatch(name="x-team", value=pattern, kind="regex")
    rule = Rule(matches=(Match(headers=(header,)),), backends=(Backend(name="one", address=LOCAL),))
    path = tmp_path / "envoy.yaml"
    path.write_text(to_yaml(bootstrap(gateway(routes=(Route(name="llm", rules=(rule,)),)))))

    assert (pattern_problem(pattern) == "") is taken
    assert (envoy_accepts(path) is None) is taken


def test_yaml_has_no_anchors():
    assert "&id" not in to_yaml(bootstrap(GATEWAYS["failover"]))


FILTER_ORDER = {
    "all": (
        GATEWAYS["everything"],
        ["envoy.filters.http.ext_proc/aigateway", "envoy.filters.http.ratelimit", "envoy.filters.http.router"],
    ),
    "no rate limit": (gateway(), ["envoy.filters.http.ext_proc/aigateway", "envoy.filters.http.router"]),
    "no processor": (gateway(processor=None), ["envoy.filters.http.router"]),
    "a service without budgets": (
        gateway(rate_limit=RateLimitService(address=LOCAL)),
        ["envoy.filters.http.ext_proc/aigateway", "envoy.filters.http.router"],
    ),
    "quotas and attributes": (
        gateway(
            rate_limit=RateLimitService(address=LOCAL),
            header_attributes=(("x-tenant", "tenant.id"),),
            routes=(
                Route(
                    name="llm",
                    rules=(
                        Rule(
                            backends=(Backend(name="one", address=LOCAL),),
                            quotas=Quotas(charges=(Charge(descriptors=(StaticDescriptor(key="k", value="v"),)),)),
                        ),
                    ),
                ),
            ),
        ),
        [
            "envoy.filters.http.ext_proc/aigateway",
            "envoy.filters.http.header_to_metadata",
            "envoy.filters.http.header_mutation/ai-gateway-quota",
            "envoy.filters.http.header_to_metadata/ai-gateway-quota",
            "envoy.filters.http.ratelimit/ai-gateway-quota",
            "envoy.filters.http.router",
        ],
    ),
}


@pytest.mark.parametrize(("case", "names"), FILTER_ORDER.values(), ids=FILTER_ORDER)
def test_the_processor_comes_before_the_rate_limit(case, names):
    assert [entry.name for entry in http_filters(case)] == names


def test_without_a_processor_nothing_mentions_one():
    text = to_yaml(bootstrap(gateway(processor=None, routes=GATEWAYS["failover"].routes)))

    assert "ext_proc" not in text
    assert "ai-gateway-extproc-uds" not in text


def test_bodies_may_be_large_everywhere():
    limit = 70 << 20
    document = to_document(bootstrap(replace(GATEWAYS["everything"], buffer_limit=limit)))

    (listener,) = document["static_resources"]["listeners"]
    assert listener["name"] == LISTENER
    assert listener["per_connection_buffer_limit_bytes"] == limit
    limits = {entry["name"]: entry.get("per_connection_buffer_limit_bytes") for entry in clusters(document)}
    assert limits == {
        "httproute/default/llm/rule/0": limit,
        "ai-gateway-extproc-uds": limit,
        "ai_gateway_ratelimit_cluster": None,
    }
    assert {host["request_body_buffer_limit"] for host in virtual_hosts(document)} == {limit}


def test_strangers_cannot_speak_to_envoy_itself():
    document = to_document(bootstrap(gateway()))

    manager = connection_manager(document)
    assert manager["use_remote_address"] is True
    assert manager["scheme_header_transformation"] == {"match_upstream": True}
    assert "preserve_external_request_id" not in manager
    assert manager["http_filters"][-1]["typed_config"]["suppress_envoy_headers"] is True


def test_a_request_id_is_kept_when_asked():
    trusting = Listener(address=SocketAddress(host="127.0.0.1", port=0), trust_request_id=True)

    document = to_document(bootstrap(gateway(listener=trusting)))

    assert connection_manager(document)["preserve_external_request_id"] is True


def test_headers_become_metadata_for_the_access_log():
    filters = http_filters(gateway(header_attributes=(("x-tenant", "tenant.id"),)))

    (rule,) = to_document(filters[1])["typed_config"]["request_rules"]
    assert rule == {
        "header": "x-tenant",
        "on_header_present": {"metadata_namespace": "io.envoy.ai_gateway", "key": "tenant.id"},
    }


def test_listeners_are_apart():
    further = Listener(name="other", address=SocketAddress(host="127.0.0.1", port=1))

    listeners = to_document(bootstrap(gateway(further_listeners=(further,))))["static_resources"]["listeners"]

    managers = [entry["filter_chains"][0]["filters"][0]["typed_config"] for entry in listeners]
    assert [entry["name"] for entry in listeners] == ["llm", "other"]
    assert [manager["route_config"]["name"] for manager in managers] == ["llm", "other"]


def test_tls_is_chosen_by_the_name_that_a_client_asks_for(tmp_path, envoy_accepts):
    authority = Authority(tmp_path)
    chain, key = authority.issue("localhost")
    certificate = Certificate(chain_pem=chain.read_text(), key_pem=key.read_text())
    secure = Listener(
        address=SocketAddress(host="127.0.0.1", port=0),
        tls=(
            ServerTLS(certificates=(certificate,)),
            ServerTLS(certificates=(certificate,), server_name="*.a.example"),
        ),
    )
    document = to_document(bootstrap(gateway(listener=secure)))
    path = tmp_path / "envoy.yaml"
    path.write_text(to_yaml(bootstrap(gateway(listener=secure))))

    (found,) = document["static_resources"]["listeners"]
    assert [chain.get("filter_chain_match") for chain in found["filter_chains"]] == [
        None,
        {"server_names": ["*.a.example"]},
    ]
    assert [entry["name"] for entry in found["listener_filters"]] == ["envoy.filters.listener.tls_inspector"]
    assert envoy_accepts(path) is None


@pytest.mark.parametrize(("exclusive", "written"), [(True, False), (False, None)])
def test_a_port_can_be_exclusive(exclusive, written):
    listener = Listener(address=SocketAddress(host="127.0.0.1", port=0), exclusive=exclusive)

    (found,) = to_document(bootstrap(gateway(listener=listener)))["static_resources"]["listeners"]

    assert found.get("enable_reuse_port") is written


def clusters(document):
    return document["static_resources"]["clusters"]


def connection_manager(document):
    (listener,) = document["static_resources"]["listeners"]
    return listener["filter_chains"][0]["filters"][0]["typed_config"]


def virtual_hosts(document):
    return connection_manager(document)["route_config"]["virtual_hosts"]
