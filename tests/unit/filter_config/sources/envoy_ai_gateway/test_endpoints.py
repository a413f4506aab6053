"""Where backends are, for the Envoy side: addresses, TLS, and what is missing."""

from __future__ import annotations

import pytest

from filter_config.sources.model import Address, UpstreamTLS
from tests.support.gateway_resources import (
    ENVOY_GATEWAY,
    GATEWAY_API,
    compiled,
    endpoint,
    faults,
    gateway,
    resource,
    route,
    rule,
    service,
)

AUTHORITY = resource("v1", "ConfigMap", "ca", data={"ca.crt": "PEM"})


def result_of(*resources):
    return compiled(gateway(), route("r", rule("b")), service("b"), *resources)


def endpoint_of(*resources):
    return result_of(*resources).gateways[0].model.routes[0].rules[0].backends[0].endpoint


ADDRESSES = {
    "a name": ({"fqdn": {"hostname": "h", "port": 1}}, Address(host="h", port=1)),
    "an address": ({"ip": {"address": "10.0.0.1", "port": 1}}, Address(host="10.0.0.1", port=1)),
    "an address with a name": (
        {"ip": {"address": "10.0.0.1", "port": 1}, "hostname": "h"},
        Address(host="10.0.0.1", port=1, hostname="h"),
    ),
    "a socket": ({"unix": {"path": "/run/s"}}, Address(pipe="/run/s")),
}


@pytest.mark.parametrize(("given", "expected"), ADDRESSES.values(), ids=ADDRESSES)
def test_addresses(given, expected):
    made = endpoint_of(endpoint("b", endpoints=[given]))
    assert made.addresses == (expected,)
    assert made.tls is None


def tls_policy(name: str, **validation):
    target = {"group": ENVOY_GATEWAY, "kind": "Backend", "name": "b"}
    spec = {"targetRefs": [target], "validation": {"hostname": name, **validation}}
    return resource(f"{GATEWAY_API}/v1", "BackendTLSPolicy", name, spec=spec)


CA = {"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}]}
TLS = {
    "a policy": ([endpoint("b"), tls_policy("h", wellKnownCACertificates="System")], UpstreamTLS(server_name="h")),
    "a policy with an authority": (
        [endpoint("b"), tls_policy("h", **CA), AUTHORITY],
        UpstreamTLS(server_name="h", ca_pem="PEM"),
    ),
    "the Backend's own": ([endpoint("b", tls={})], UpstreamTLS(server_name="b.example.com")),
    "the Backend's own of an address": (
        [endpoint("b", endpoints=[{"ip": {"address": "10.0.0.1", "port": 443}}], tls={})],
        UpstreamTLS(server_name=""),
    ),
    "the Backend's own, not verified": (
        [endpoint("b", tls={"sni": "s", "insecureSkipVerify": True})],
        UpstreamTLS(server_name="s", verify=False),
    ),
    "the Backend's own with an authority": (
        [endpoint("b", tls=CA), AUTHORITY],
        UpstreamTLS(server_name="b.example.com", ca_pem="PEM"),
    ),
    "a policy before the Backend's own": (
        [endpoint("b", tls={"sni": "s"}), tls_policy("h")],
        UpstreamTLS(server_name="h"),
    ),
}


@pytest.mark.parametrize(("resources", "expected"), TLS.values(), ids=TLS)
def test_tls(resources, expected):
    assert endpoint_of(*resources).tls == expected


NO_ENDPOINT = "error AIServiceBackend default/b: spec.backendRef: Backend default/b "
MISSING = {
    "no Backend": ([], [NO_ENDPOINT + "does not exist, so that no endpoint is known"]),
    "a Backend without endpoints": (
        [endpoint("b", endpoints=[])],
        ["error Backend default/b: spec.endpoints: no endpoint to connect to"],
    ),
    "an endpoint without an address": (
        [endpoint("b", endpoints=[{"hostname": "h"}])],
        [
            "error Backend default/b: spec.endpoints: no endpoint to connect to",
            "error Backend default/b: spec.endpoints[0]: has no address",
        ],
    ),
}


@pytest.mark.parametrize(("resources", "expected"), MISSING.values(), ids=MISSING)
def test_a_backend_without_an_endpoint_is_told_and_stays_in_the_filter_config(resources, expected):
    result = result_of(*resources)
    assert sorted(faults(result)) == sorted(expected)
    assert len(result.gateways[0].config.backends) == 1
    assert result.gateways[0].model.routes[0].rules[0].backends[0].endpoint is None


def test_certificates_that_are_not_there_are_told():
    said = "spec.validation.caCertificateRefs: ConfigMap default/ca gives no certificates"
    assert faults(result_of(endpoint("b"), tls_policy("h", **CA))) == [f"error BackendTLSPolicy default/h: {said}"]


UNSAFE = {
    "an authority that is missing": [tls_policy("h", **CA)],
    "an authority of the Backend's own that is missing": [endpoint("b", tls=CA)],
    "a policy with a fault": [tls_policy("h", hostname=5)],
    "a policy of a version that is not served": [{**tls_policy("h"), "apiVersion": f"{GATEWAY_API}/v1alpha9"}],
    "a policy with a fault beside a good one": [tls_policy("a"), tls_policy("h", hostname=5)],
}


@pytest.mark.parametrize("resources", UNSAFE.values(), ids=UNSAFE)
def test_who_asks_for_tls_gets_no_connection_without_it(resources):
    """A credential must not go out in clear text, or to others, for a fault in a policy."""
    there = [] if any(made["kind"] == "Backend" for made in resources) else [endpoint("b")]
    result = result_of(*there, *resources)
    assert result.gateways[0].model.routes[0].rules[0].backends[0].endpoint is None
    assert not result.ok


def test_of_several_authorities_those_that_are_there_count():
    refs = [*CA["caCertificateRefs"], {"group": "", "kind": "ConfigMap", "name": "missing"}]
    assert endpoint_of(endpoint("b"), tls_policy("h", caCertificateRefs=refs), AUTHORITY).tls.ca_pem == "PEM"


def test_of_two_tls_policies_the_older_counts():
    young = tls_policy("a")
    young["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z"
    old = tls_policy("b")
    old["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    result = result_of(endpoint("b"), young, old)
    backend = result.gateways[0].model.routes[0].rules[0].backends[0]
    assert backend.endpoint.tls.server_name == "b"
    assert faults(result) == [
        "warning BackendTLSPolicy default/a: : b is older and about the same Backend b: this one is ignored"
    ]
