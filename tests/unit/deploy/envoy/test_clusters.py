"""Clusters: endpoints that carry the backend's name, priorities without gaps, TLS where it is wanted."""

from __future__ import annotations

import pytest

from deploy.envoy import clusters
from deploy.envoy.model import (
    Answer,
    Backend,
    Endpoint,
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


def test_all_addresses_of_a_backend_stand_in_its_locality():
    further = (
        Endpoint(address=SocketAddress(host="10.0.0.2", port=81), hostname="two.example"),
        Endpoint(address=PipeAddress(path="/run/three.sock")),
    )
    rule, *_ = build(backend(further=further))

    (locality,) = rule["load_assignment"]["endpoints"]
    assert [entry["endpoint"]["address"] for entry in locality["lb_endpoints"]] == [
        {"socket_address": {"address": "10.0.0.1", "port_value": 443}},
        {"socket_address": {"address": "10.0.0.2", "port_value": 81}},
        {"pipe": {"path": "/run/three.sock"}},
    ]
    name = {"per_route_rule_backend_name": "prod/one/route/llm/rule/0/ref/0"}
    assert [metadata(entry) for entry in locality["lb_endpoints"]] == [
        name,
        {**name, "upstream_host": "two.example"},
        name,
    ]


def test_a_backend_may_have_a_name_already():
    rule, *_ = build(backend(id="as/it/was"))

    assert [metadata(endpoint)["per_route_rule_backend_name"] for endpoint in endpoints(rule)] == ["as/it/was"]


def test_names_are_looked_up_as_ipv4_first():
    named, bare = build(backend(host="a.example"))[0], build(backend())[0]

    assert (named["dns_lookup_family"], "dns_lookup_family" in bare) == ("V4_PREFERRED", False)


def test_a_rule_that_answers_has_no_cluster():
    rule = Rule(backends=(), answer=Answer(status=500, body="no"))
    gateway = Gateway(
        listener=Listener(address=SocketAddress(host="127.0.0.1", port=0)),
        routes=(Route(name="llm", rules=(rule,)),),
        processor=None,
    )

    assert clusters.clusters(gateway) == []


def test_a_rule_may_have_another_number():
    rule = Rule(backends=(backend(),), number=7)
    gateway = Gateway(
        listener=Listener(address=SocketAddress(host="127.0.0.1", port=0)),
        routes=(Route(name="llm", rules=(rule,)),),
        processor=None,
    )

    (found,) = clusters.clusters(gateway)
    assert found.name == "httproute/default/llm/rule/7"


def context_of(tls):
    rule, *_ = build(backend(tls=tls))
    (match,) = rule["transport_socket_matches"]
    return match["transport_socket"]["typed_config"]


def test_trust_in_line():
    validation = context_of(UpstreamTLS(server_name="a.example", ca_pem="PEM"))["common_tls_context"][
        "validation_context"
    ]

    assert validation["trusted_ca"] == {"inline_string": "PEM"}


def test_no_trust_is_wanted():
    context = context_of(UpstreamTLS(server_name="a.example", verify=False))

    assert context["sni"] == "a.example"
    assert "validation_context" not in context["common_tls_context"]


def test_an_address_is_a_name_of_a_certificate_and_none_for_sni():
    context = context_of(UpstreamTLS(server_name="10.0.0.1"))

    assert "sni" not in context
    assert context["common_tls_context"]["validation_context"]["match_typed_subject_alt_names"] == [
        {"san_type": "IP_ADDRESS", "matcher": {"exact": "10.0.0.1"}}
    ]


def test_without_a_name_any_of_the_authority_will_do():
    validation = context_of(UpstreamTLS(server_name=""))["common_tls_context"]["validation_context"]

    assert set(validation) == {"trusted_ca"}


PROXY = SocketAddress(host="10.9.9.9", port=3128)
ONE, TWO = UpstreamTLS(server_name="one.example"), UpstreamTLS(server_name="two.example")


def test_a_proxy_is_around_tls():
    rule, *_ = build(backend(tls=ONE, proxy=PROXY))

    (match,) = rule["transport_socket_matches"]
    socket = match["transport_socket"]
    assert socket["name"] == "envoy.transport_sockets.http_11_proxy"
    assert socket["typed_config"]["transport_socket"]["typed_config"]["sni"] == "one.example"
    assert socket["typed_config"]["default_proxy_address"] == {
        "socket_address": {"address": "10.9.9.9", "port_value": 3128}
    }


def test_every_endpoint_finds_its_own_transport():
    rule, *_ = build(
        backend("plain"),
        backend("tls", tls=ONE),
        backend("proxied", proxy=PROXY),
        backend("both", tls=ONE, proxy=PROXY),
        backend("other", tls=TWO),
        backend("socket", proxy=PROXY, further=(Endpoint(address=PipeAddress(path="/x")),)),
    )

    matches = [match["match"] for match in rule["transport_socket_matches"]]
    found = []
    for endpoint in endpoints(rule):
        label = endpoint["metadata"]["filter_metadata"].get("envoy.transport_socket_match", {})
        # Envoy takes the first that is part of the endpoint's label.
        found.append(next((match for match in matches if match.items() <= label.items()), {}) == label)
    assert found == [True] * 7
    assert len(matches) == 4


ABSOLUTE = {
    "no proxy": ((backend(),), None),
    "clear text through a proxy": ((backend(proxy=PROXY),), True),
    "TLS through a proxy": ((backend(proxy=PROXY, tls=ONE),), None),
    "both": ((backend(proxy=PROXY), backend("b", proxy=PROXY, tls=ONE)), None),
}


@pytest.mark.parametrize(("backends", "written"), ABSOLUTE.values(), ids=ABSOLUTE)
def test_a_proxy_is_asked_for_whole_urls(backends, written):
    rule, *_ = build(*backends)

    (options,) = rule["typed_extension_protocol_options"].values()
    assert options["explicit_http_config"]["http_protocol_options"].get("send_fully_qualified_url") is written


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
