"""Clusters: endpoints that carry the backend's name, priorities without gaps, TLS where it is wanted."""

from __future__ import annotations

import pytest

from deploy.envoy import clusters
from deploy.envoy.model import (
    Backend,
    Gateway,
    Listener,
    PipeAddress,
    Processor,
    RateLimitService,
    Route,
    Rule,
    SocketAddress,
    UpstreamTLS,
)
from deploy.envoy.text import to_document


def build(*backends):
    route = Route(name="llm", namespace="prod", rules=(Rule(backends=backends),))
    gateway = Gateway(
        listener=Listener(address=SocketAddress(host="127.0.0.1", port=0)),
        routes=(route,),
        processor=Processor(address=PipeAddress(path="/run/extproc.sock")),
        rate_limit=RateLimitService(address=SocketAddress(host="10.0.0.9", port=8081), domain="d"),
    )
    return [to_document(cluster) for cluster in clusters.clusters(gateway)]


def backend(name="one", host="10.0.0.1", **fields):
    return Backend(name=name, address=SocketAddress(host=host, port=443), **fields)


def test_names_of_the_clusters():
    names = [cluster["name"] for cluster in build(backend())]

    assert names == ["httproute/prod/llm/rule/0", "ai-gateway-extproc-uds", "ai_gateway_ratelimit_cluster"]


def test_an_endpoint_says_which_backend_it_is():
    rule, *_ = build(backend("one", hostname="api.one.example"), backend("two", namespace="shared", priority=3))

    assert [metadata(endpoint) for endpoint in endpoints(rule)] == [
        {
            "per_route_rule_backend_name": "prod/one/route/llm/rule/0/ref/0",
            "upstream_host": "api.one.example",
        },
        {"per_route_rule_backend_name": "shared/two/route/llm/rule/0/ref/1"},
    ]
    assert [endpoint["endpoint"].get("hostname") for endpoint in endpoints(rule)] == ["api.one.example", None]


HOSTS = {
    "hostname wins": (backend(host="a.example", hostname="b.example"), "b.example"),
    "name of the address": (backend(host="a.example"), "a.example"),
    "IPv4": (backend(host="10.0.0.1"), None),
    "IPv6": (backend(host="2001:db8::1"), None),
}


@pytest.mark.parametrize(("case", "host"), HOSTS.values(), ids=HOSTS)
def test_upstream_host(case, host):
    assert clusters.upstream_host(case) == host


PRIORITIES = {
    "as given": ((0, 1, 2), [0, 1, 2]),
    "gap": ((0, 5, 9), [0, 1, 2]),
    "not from 0": ((4, 4, 7), [0, 0, 1]),
    "unordered": ((9, 0, 5), [2, 0, 1]),
}


@pytest.mark.parametrize(("given", "ranks"), PRIORITIES.values(), ids=PRIORITIES)
def test_priorities_have_no_gaps(given, ranks):
    rule, *_ = build(*(backend(f"b{index}", priority=priority) for index, priority in enumerate(given)))

    assert [locality.get("priority", 0) for locality in rule["load_assignment"]["endpoints"]] == ranks


def test_a_backend_of_weight_0_is_left_out_and_the_others_keep_their_names():
    rule, *_ = build(backend("off", weight=0, priority=0), backend("on", weight=3, priority=1))

    (locality,) = rule["load_assignment"]["endpoints"]
    assert locality["load_balancing_weight"] == 3
    assert locality.get("priority", 0) == 0
    assert metadata(locality["lb_endpoints"][0])["per_route_rule_backend_name"] == "prod/on/route/llm/rule/0/ref/1"


def test_weights_count_between_localities():
    rule, *_ = build(backend("a", weight=9), backend("b"))

    assert rule["common_lb_config"] == {"locality_weighted_lb_config": {}}
    assert [locality["load_balancing_weight"] for locality in rule["load_assignment"]["endpoints"]] == [9, 1]
    regions = [locality["locality"]["region"] for locality in rule["load_assignment"]["endpoints"]]
    assert len(set(regions)) == 2


TYPES = {
    "addresses": ((backend(host="10.0.0.1"), backend("b", host="::1")), "STATIC"),
    "names": ((backend(host="a.example"),), "STRICT_DNS"),
    "mixed": ((backend(host="10.0.0.1"), backend("b", host="a.example")), "STRICT_DNS"),
}


@pytest.mark.parametrize(("backends", "kind"), TYPES.values(), ids=TYPES)
def test_type_of_discovery(backends, kind):
    rule, *_ = build(*backends)

    assert rule.get("type", "STATIC") == kind


def test_tls_is_for_those_who_want_it():
    secure = UpstreamTLS(server_name="api.example", ca_file="/ca.pem")
    rule, *_ = build(backend("plain"), backend("a", tls=secure), backend("b", tls=secure))

    (match,) = rule["transport_socket_matches"]
    context = match["transport_socket"]["typed_config"]
    assert context["sni"] == "api.example"
    validation = context["common_tls_context"]["validation_context"]
    assert validation["trusted_ca"] == {"filename": "/ca.pem"}
    assert validation["match_typed_subject_alt_names"] == [{"san_type": "DNS", "matcher": {"exact": "api.example"}}]
    labels = [
        endpoint["metadata"]["filter_metadata"].get("envoy.transport_socket_match") for endpoint in endpoints(rule)
    ]
    assert labels == [None, match["match"], match["match"]]


def test_the_processor_is_reached_as_the_contract_says():
    _, processor, _ = build(backend())

    (address,) = [
        entry["endpoint"]["address"] for entry in processor["load_assignment"]["endpoints"][0]["lb_endpoints"]
    ]
    assert address == {"pipe": {"path": "/run/extproc.sock"}}
    (options,) = processor["typed_extension_protocol_options"].values()
    assert options["explicit_http_config"]["http2_protocol_options"] == {
        "initial_stream_window_size": 65536,
        "initial_connection_window_size": 1048576,
    }


def test_no_circuit_breaker_ends_a_busy_gateway():
    for cluster in build(backend()):
        (limits,) = cluster["circuit_breakers"]["thresholds"]
        assert set(limits) == {"max_connections", "max_pending_requests", "max_requests", "max_retries"}
        assert min(limits.values()) >= 100_000


def endpoints(cluster):
    return [endpoint for locality in cluster["load_assignment"]["endpoints"] for endpoint in locality["lb_endpoints"]]


def metadata(endpoint):
    return endpoint["metadata"]["filter_metadata"]["aigateway.envoy.io"]
