"""Clusters of rules: whose backend each endpoint is, and what runs on each attempt (contract, control plane 6.4)."""

from __future__ import annotations

import pytest

from deploy.extension_server.options import Options
from tests.support import envoy_gateway as eg
from tests.support import gateway_resources as res

RULE = "default/r/rule/0"
HTTP = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
PROCESSOR = "ai-gateway-extproc-uds"


@pytest.fixture
def three(knowledge):
    """A rule with three backends, of which the middle one has no weight and the last one is a fallback."""
    refs = [res.ref("a"), res.ref("b", weight=0), res.ref("c", priority=3)]
    return knowledge(res.gateway(), res.route("r", res.rule(*refs)), *res.served("a", "b", "c"))


def region(ref, rule=RULE):
    return f"{rule}/backend/{ref}"


def labels(cluster):
    """Backend, host and priority of each locality."""
    return [
        (
            *(
                each["lb_endpoints"][0]
                .get("metadata", {})
                .get("filter_metadata", {})
                .get("aigateway.envoy.io", {})
                .get(key)
                for key in ("per_route_rule_backend_name", "upstream_host")
            ),
            each.get("priority", 0),
        )
        for each in cluster["load_assignment"]["endpoints"]
    ]


A = "default/a/route/r/rule/0/ref/0"
C = "default/c/route/r/rule/0/ref/2"
LABELLED = {
    "localities named after their references": (
        RULE,
        [eg.locality("a.example", ref=region(0)), eg.locality("c.example", ref=region(2))],
        [(A, "a.example", 0), (C, "c.example", 1)],
    ),
    "in another order": (
        RULE,
        [eg.locality("c.example", ref=region(2)), eg.locality("a.example", ref=region(0))],
        [(C, "c.example", 1), (A, "a.example", 0)],
    ),
    "a zone each": (
        RULE,
        [
            eg.locality("c.example", ref=region(2), locality={"region": f"httproute/{region(2)}", "zone": zone})
            for zone in ("z1", "z2")
        ],
        [(C, "c.example", 0), (C, "c.example", 0)],
    ),
    "fewer than references": (RULE, [eg.locality("c.example", ref=region(2))], [(C, "c.example", 0)]),
    "not named, one for each that has weight": (
        RULE,
        [eg.locality("a.example"), eg.locality("c.example")],
        [(A, "a.example", 0), (C, "c.example", 1)],
    ),
    "an address without a name": (RULE, [eg.locality("10.0.0.1", ref=region(0))], [(A, None, 0)]),
    "an address with a name": (
        RULE,
        [eg.locality("10.0.0.1", ref=region(0), hostname="a.example")],
        [(A, "a.example", 0)],
    ),
    "a cluster of one backend": (region(2), [eg.locality("c.example")], [(C, "c.example", 0)]),
    "a backend whose weight was taken away meanwhile": (
        RULE,
        [eg.locality("b.example", ref=region(1)), eg.locality("c.example", ref=region(2))],
        [("default/b/route/r/rule/0/ref/1", "b.example", 0), (C, "c.example", 1)],
    ),
}


@pytest.mark.parametrize(("name", "localities", "expected"), LABELLED.values(), ids=LABELLED)
def test_endpoints_say_whose_they_are(translate, three, name, localities, expected):
    result = translate(three, clusters=[eg.cluster(name, *localities)])

    assert labels(result.cluster(name)) == expected
    assert result.findings == []


UNKNOWN = {
    "more localities than references": (RULE, [eg.locality("a.example")] * 3, "no backend of the rule can be told"),
    "fewer, and not named": (RULE, [eg.locality("a.example")], "no backend of the rule can be told"),
    "named after a reference that is gone": (
        RULE,
        [eg.locality("x.example", ref=region(7))],
        "no backend that is known",
    ),
    "named after another rule": (
        RULE,
        [eg.locality("x.example", ref="default/r/rule/1/backend/0")],
        "no backend that is known",
    ),
    "a cluster of a reference that is gone": (region(7), [eg.locality("x.example")], "no backend that is known"),
}


@pytest.mark.parametrize(("name", "localities", "said"), UNKNOWN.values(), ids=UNKNOWN)
def test_an_endpoint_that_nobody_is_known_for_is_nobodys(translate, three, name, localities, said):
    """The processor refuses what it gets from there, and no credential goes to it."""
    result = translate(three, clusters=[eg.cluster(name, *localities)])

    assert {backend for backend, *_ in labels(result.cluster(name))} == {None}
    assert [(resource, said in message) for resource, message in result.findings] == [
        (f"cluster httproute/{name}", True)
    ]


def test_fallbacks_of_envoy_gateway_stay_when_the_route_gives_no_priorities(translate, knowledge):
    known = knowledge(res.gateway(), res.route("r", res.rule("a", "b")), *res.served("a", "b"))
    localities = [eg.locality(ref=region(0)), eg.locality(ref=region(1), priority=1)]

    result = translate(known, clusters=[eg.cluster(RULE, *localities)])

    assert [priority for _, _, priority in labels(result.cluster(RULE))] == [0, 1]


def test_metadata_that_was_there_stays(translate, three):
    matched = {"filterMetadata": {"envoy.transport_socket_match": {"name": "tls"}, "aigateway.envoy.io": {"own": "x"}}}
    given = eg.locality("a.example", ref=region(0))
    given["lbEndpoints"][0]["metadata"] = matched

    result = translate(three, clusters=[eg.cluster(RULE, given)])

    (found,) = result.cluster(RULE)["load_assignment"]["endpoints"][0]["lb_endpoints"]
    assert found["metadata"]["filter_metadata"] == {
        "envoy.transport_socket_match": {"name": "tls"},
        "aigateway.envoy.io": {"own": "x", "per_route_rule_backend_name": A, "upstream_host": "a.example"},
    }


# --- clusters whose endpoints come on their own ---


def of_cluster(cluster):
    metadata = cluster.get("metadata", {}).get("filter_metadata", {}).get("aigateway.envoy.io", {})
    return metadata.get("per_route_rule_backend_name")


def test_a_cluster_of_one_backend_is_labelled_itself(translate, knowledge):
    refs = [res.ref("a"), res.ref("b", weight=0)]
    known = knowledge(res.gateway(), res.route("r", res.rule(*refs)), *res.served("a", "b"))

    assert of_cluster(translate(known, clusters=[eg.cluster(RULE)]).cluster(RULE)) == A


def test_a_cluster_for_one_reference_is_labelled_itself(translate, three):
    assert of_cluster(translate(three, clusters=[eg.cluster(region(2))]).cluster(region(2))) == C


def test_a_cluster_of_several_backends_is_labelled_at_its_endpoints_only(translate, three):
    """Its endpoints would all get the credential of the first."""
    assert of_cluster(translate(three, clusters=[eg.cluster(RULE)]).cluster(RULE)) is None


def test_without_the_hook_for_endpoints_it_is_taken_for_the_first(translate, three):
    result = translate(three, options=Options(endpoints_hook=False), clusters=[eg.cluster(RULE)])

    assert of_cluster(result.cluster(RULE)) == A


# --- filters ---


def upstream(cluster):
    return cluster["typed_extension_protocol_options"][HTTP]


def upstream_names(cluster):
    return [each["name"].removeprefix("envoy.filters.http.") for each in upstream(cluster)["http_filters"]]


OURS = ["ext_proc/aigateway", "header_mutation"]
CODEC = eg.http("upstream_codec")
INJECTOR = eg.http("credential_injector", suffix="/b")
HTTP2 = {"explicitHttpConfig": {"http2ProtocolOptions": {}}}
OPTIONS = {
    "none": (None, {"explicit_http_config": {"http_protocol_options": {}}}, [*OURS, "upstream_codec"]),
    "HTTP/2": (HTTP2, {"explicit_http_config": {"http2_protocol_options": {}}}, [*OURS, "upstream_codec"]),
    "filters before the codec": (
        {**HTTP2, "httpFilters": [INJECTOR, CODEC]},
        {"explicit_http_config": {"http2_protocol_options": {}}},
        ["credential_injector/b", *OURS, "upstream_codec"],
    ),
    "filters without a codec": (
        {**HTTP2, "httpFilters": [INJECTOR]},
        {"explicit_http_config": {"http2_protocol_options": {}}},
        ["credential_injector/b", *OURS, "upstream_codec"],
    ),
    "the processor's filter already": (
        {
            **HTTP2,
            "httpFilters": [
                eg.http("ext_proc", "extensions.filters.http.ext_proc.v3.ExternalProcessor", suffix="/aigateway"),
                CODEC,
            ],
        },
        {"explicit_http_config": {"http2_protocol_options": {}}},
        ["ext_proc/aigateway", "upstream_codec"],
    ),
}


@pytest.mark.parametrize(("given", "protocol", "expected"), OPTIONS.values(), ids=OPTIONS)
def test_the_upstream_filters_stand_before_the_codec(translate, three, given, protocol, expected):
    options = (
        {}
        if given is None
        else {"typedExtensionProtocolOptions": {HTTP: eg.typed(HTTP.removeprefix("envoy."), **given)}}
    )

    found = translate(three, clusters=[eg.cluster(RULE, **options)]).cluster(RULE)

    assert upstream_names(found) == expected
    assert {key: upstream(found)[key] for key in protocol} == protocol


def test_the_processor_has_a_cluster_once(translate, three):
    given = [eg.cluster(RULE), {"name": PROCESSOR, "type": "STATIC", "altStatName": "mine"}]

    result = translate(three, clusters=given)

    assert result.cluster(PROCESSOR)["alt_stat_name"] == "mine"
    assert translate(three, clusters=given[:1]).cluster_names == [f"httproute/{RULE}", PROCESSOR]


LEFT_ALONE = {
    "of another route": eg.cluster("default/other/rule/0", eg.locality()),
    "of a rule that is gone": eg.cluster("default/r/rule/9", eg.locality()),
    "of a policy": {"name": "envoyextensionpolicy/default/p/0", "type": "EDS"},
    "named nearly so": {"name": f"httproute/{RULE}/backend/x", "type": "EDS"},
}


@pytest.mark.parametrize("given", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_every_other_cluster_stays_as_it_is(translate, three, given):
    result = translate(three, clusters=[given])

    assert result.response.clusters == eg.request(clusters=[given]).clusters
    assert result.findings == []


def test_a_cluster_with_broken_bytes_stays_and_the_others_are_served(translate, three):
    broken = eg.message(eg.xds.Cluster, eg.cluster(RULE, eg.locality(ref=region(0))))
    broken.typed_extension_protocol_options[HTTP].type_url = f"type.googleapis.com/{HTTP}"
    broken.typed_extension_protocol_options[HTTP].value = b"\xff"
    request = eg.request(clusters=[eg.cluster(region(2))])
    request.clusters.insert(0, broken)

    from deploy.extension_server.findings import Findings
    from deploy.extension_server.translate import modify_translation

    findings = Findings()
    response = modify_translation(request, three, Options(), findings)

    assert response.clusters[0] == broken
    assert upstream_names(eg.document(response.clusters[1])) == [*OURS, "upstream_codec"]
    assert [finding.resource for finding in findings.closed()] == [f"cluster httproute/{RULE}"]
