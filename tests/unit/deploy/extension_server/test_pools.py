"""Inference pools in the three hooks that are about them (contract, control plane 6.3, 6.6)."""

from __future__ import annotations

import json

import pytest

from deploy.extension_server.findings import Findings
from deploy.extension_server.hooks import HOOKS
from deploy.extension_server.knowledge import Snapshot
from deploy.extension_server.options import Options
from deploy.extension_server.pools import PoolNote, read_note
from protos import extension_pb2 as wire
from protos import xds_pb2 as xds
from tests.support import envoy_gateway as eg
from tests.support import gateway_resources as res

ANNOTATIONS = "aigateway.envoyproxy.io/"


def pool(
    name="p", *, picker="epp", port=None, api="inference.networking.k8s.io/v1", kind="InferencePool", **annotations
):
    """An InferencePool; annotations without their common begin, ``_`` for ``-``."""
    ref = {"name": picker, **({"port": {"number": port}} if port is not None else {})}
    marks = {f"{ANNOTATIONS}{key.replace('_', '-')}": value for key, value in annotations.items()}
    meta = {"name": name, "namespace": "default", "annotations": marks}
    return {"apiVersion": api, "kind": kind, "metadata": meta, "spec": {"endpointPickerRef": ref, "selector": {}}}


def ask_cluster(cluster, *resources):
    given = [
        wire.ExtensionResource(unstructured_bytes=one if isinstance(one, bytes) else json.dumps(one).encode())
        for one in resources
    ]
    request = wire.PostClusterModifyRequest(
        cluster=eg.message(xds.Cluster, cluster),
        post_cluster_context=wire.PostClusterExtensionContext(backend_extension_resources=given),
    )
    findings = Findings()
    response = HOOKS["PostClusterModify"].answer(request, Snapshot(), Options(), findings)
    return response.cluster, [finding.message for finding in findings.closed()]


def ask_route(route, *resources):
    given = [wire.ExtensionResource(unstructured_bytes=json.dumps(one).encode()) for one in resources]
    request = wire.PostRouteModifyRequest(
        route=eg.message(xds.Route, route),
        post_route_context=wire.PostRouteExtensionContext(extension_resources=given, hostnames=["a.example"]),
    )
    findings = Findings()
    response = HOOKS["PostRouteModify"].answer(request, Snapshot(), Options(), findings)
    return response.route, [finding.message for finding in findings.closed()]


def test_the_cluster_goes_where_the_picker_says():
    given = eg.cluster(leastRequestLbConfig={"slowStartConfig": {}}, loadBalancingPolicy={"policies": []})

    found, said = ask_cluster(given, pool())

    assert eg.document(found) == {
        "name": "httproute/default/r/rule/0",
        "type": "ORIGINAL_DST",
        "connect_timeout": "10s",
        "per_connection_buffer_limit_bytes": 32768,
        "lb_policy": "CLUSTER_PROVIDED",
        "original_dst_lb_config": {"use_http_header": True, "http_header_name": "x-gateway-destination-endpoint"},
        "metadata": {
            "filter_metadata": {
                "aigateway.envoy.io": {
                    "per_route_rule_inference_pool": {
                        "namespace": "default",
                        "name": "p",
                        "service": "epp",
                        "port": "9002",
                        "body_mode": "duplex",
                        "allow_mode_override": False,
                    }
                }
            }
        },
    }
    assert said == []


ROUTES = {
    "the backend's host": ({"cluster": "c", "autoHostRewrite": True}, {"cluster": "c", "auto_host_rewrite": False}),
    "no rewrite": ({"cluster": "c"}, {"cluster": "c", "auto_host_rewrite": False}),
    "a host of the user's": (
        {"cluster": "c", "hostRewriteLiteral": "h"},
        {"cluster": "c", "host_rewrite_literal": "h"},
    ),
}


@pytest.mark.parametrize(("given", "expected"), ROUTES.values(), ids=ROUTES)
def test_the_route_keeps_its_host(given, expected):
    found, said = ask_route(eg.route(route=given), pool())

    assert eg.document(found)["route"] == expected
    assert read_note(found.metadata).name == "p"
    assert said == []


def test_a_route_that_does_not_forward_stays_as_it_is():
    found, said = ask_route(eg.not_found(), pool())

    assert found == eg.message(xds.Route, eg.not_found())
    assert said == []


NOTES = {
    "a port": (pool(port=9999), {"port": "9999"}),
    "a port that is none": (pool(port=70000), {"port": "9002"}),
    "buffered": (pool(processing_body_mode="buffered"), {"body_mode": "buffered"}),
    "a mode with a slash": (pool(processing_body_mode="a/b"), {"body_mode": "a/b"}),
    "mode overrides": (pool(allow_mode_override="true"), {"allow_mode_override": True}),
    "mode overrides, nearly": (pool(allow_mode_override="True"), {"allow_mode_override": False}),
}


@pytest.mark.parametrize(("given", "expected"), NOTES.values(), ids=NOTES)
def test_the_note_says_how_the_picker_is_asked(given, expected):
    found, _ = ask_cluster(eg.cluster(), given)

    note = read_note(found.metadata)
    assert {key: getattr(note, key) for key in expected} == expected


IGNORED = {
    "nothing": ([], []),
    "another version": ([pool(api="inference.networking.x-k8s.io/v1alpha2")], []),
    "another kind": ([pool(kind="Service")], []),
    "two pools": (
        [pool("a"), pool("b")],
        ["several InferencePools, of which none can be served: default/a, default/b"],
    ),
    "no JSON": ([b"{"], ["cannot be read"]),
    "not an object": ([b"[1]"], ["cannot be read"]),
    "no UTF-8": ([b'{"kind": "\xff"}'], ["cannot be read"]),
    "a picker without a name": ([pool(picker="")], ["InferencePool default/p names no picker"]),
    "no spec": ([pool() | {"spec": None}], ["InferencePool default/p names no picker"]),
    "a spec that is none": ([pool() | {"spec": {"endpointPickerRef": 7}}], ["cannot be read"]),
}


@pytest.mark.parametrize(("resources", "messages"), IGNORED.values(), ids=IGNORED)
def test_what_is_no_pool_changes_nothing(resources, messages):
    found, said = ask_cluster(eg.cluster(), *resources)

    assert found == eg.message(xds.Cluster, eg.cluster())
    assert [expected in message for expected, message in zip(messages, said, strict=True)] == [True] * len(messages)


def test_one_pool_named_twice_is_one():
    found, said = ask_cluster(eg.cluster(), pool(), pool(), b"{")

    assert read_note(found.metadata).name == "p"
    assert len(said) == 1


TEXTS = {
    "the peer's": (
        "ns/p/epp/9003/buffered/true",
        PoolNote(namespace="ns", name="p", service="epp", port="9003", body_mode="buffered", allow_mode_override=True),
    ),
    "with a slash too much": ("ns/p/epp/9003/a/b/true", None),
    "without a service": ("ns/p//9003/duplex/true", None),
    "with a port that is none": ("ns/p/epp/70000/duplex/true", None),
    "with a port that is a name": ("ns/p/epp/http/duplex/true", None),
}


@pytest.mark.parametrize(("text", "expected"), TEXTS.values(), ids=TEXTS)
def test_a_note_of_text_is_read_as_well(text, expected):
    metadata = xds.Metadata()
    metadata.filter_metadata["aigateway.envoy.io"].fields["per_route_rule_inference_pool"].string_value = text

    assert read_note(metadata) == expected


# --- the whole configuration ---


def pooled(name, rule, **annotations):
    """Cluster and route of a rule whose backend is a pool, as the other hooks have left them."""
    cluster, _ = ask_cluster(eg.cluster(rule), pool(name, **annotations))
    route, _ = ask_route(eg.route(rule), pool(name, **annotations))
    return eg.document(cluster), eg.document(route)


@pytest.fixture
def known(knowledge):
    refs = [{"group": res.INFERENCE, "kind": "InferencePool", "name": name} for name in ("b", "a")]
    pools = [
        res.resource(
            f"{res.INFERENCE}/v1",
            "InferencePool",
            name,
            spec={
                "endpointPickerRef": {"name": "epp"},
                "targetPorts": [{"number": 8000}],
                "selector": {"matchLabels": {"app": name}},
            },
        )
        for name in ("a", "b")
    ]
    rules = [res.rule(ref, model=f"m{number}") for number, ref in enumerate((refs[0], refs[1], refs[0]))]
    return knowledge(res.gateway(), res.route("r", *rules), *pools)


@pytest.fixture
def result(known, translate):
    made = [pooled(name, f"default/r/rule/{index}") for index, name in enumerate(("b", "a", "b"))]
    clusters, routes = [cluster for cluster, _ in made], [route for _, route in made]
    return translate(
        known,
        clusters=clusters,
        listeners=[eg.listener(eg.chain(eg.JWT, eg.ROUTER))],
        routes=[eg.route_config(*routes, eg.not_found("default/r/rule/3"))],
    )


def picker(name):
    return f"ext_proc/endpointpicker/{name}_default_ext_proc"


def test_each_pool_has_one_filter_in_order(result):
    assert result.filters() == [
        "jwt_authn",
        "ext_proc/aigateway",
        picker("a"),
        picker("b"),
        "header_to_metadata",
        "router",
    ]


def test_a_picker_is_asked_over_http2_and_tls(result):
    found = result.cluster("envoy.clusters.endpointpicker_a_default_ext_proc")

    (locality,) = found["load_assignment"]["endpoints"]
    assert locality["lb_endpoints"] == [
        {
            "endpoint": {"address": {"socket_address": {"address": "epp.default.svc", "port_value": 9002}}},
            "health_status": "HEALTHY",
        }
    ]
    assert (found["type"], found["lb_policy"], found["connect_timeout"]) == ("STRICT_DNS", "LEAST_REQUEST", "10s")
    assert found["transport_socket"]["typed_config"]["common_tls_context"] == {"validation_context": {}}
    assert [name for name in result.cluster_names if "endpointpicker" in name] == [
        "envoy.clusters.endpointpicker_a_default_ext_proc",
        "envoy.clusters.endpointpicker_b_default_ext_proc",
    ]


def test_a_route_asks_the_picker_of_its_pool_only(result):
    spared = {
        name.partition("/match")[0]: sorted(
            key for key, config in found["typed_per_filter_config"].items() if config.get("disabled")
        )
        for name, found in result.routes().items()
    }
    a, b = (f"envoy.filters.http.{picker(name)}" for name in "ab")
    assert spared == {
        "default/r/rule/0": [a],
        "default/r/rule/1": [b],
        "default/r/rule/2": [a],
        "default/r/rule/3": [a, b],
    }


def test_a_cluster_of_a_pool_says_its_backend_and_goes_through_the_processor(result):
    found = result.cluster("default/r/rule/1")

    labels = found["metadata"]["filter_metadata"]["aigateway.envoy.io"]
    assert labels["per_route_rule_backend_name"] == "default/a/route/r/rule/1/ref/0"
    assert "envoy.extensions.upstreams.http.v3.HttpProtocolOptions" in found["typed_extension_protocol_options"]


MODES = {
    "duplex": ({}, "FULL_DUPLEX_STREAMED", None),
    "buffered": ({"processing_body_mode": "buffered"}, "BUFFERED", None),
    "anything else": ({"processing_body_mode": "x"}, "FULL_DUPLEX_STREAMED", None),
    "with overrides": ({"allow_mode_override": "true"}, "FULL_DUPLEX_STREAMED", True),
}


@pytest.mark.parametrize(("annotations", "mode", "override"), MODES.values(), ids=MODES)
def test_a_picker_gets_bodies_as_the_pool_says(translate, annotations, mode, override):
    """An HTTPRoute that has nothing to do with AI resources may go to a pool too."""
    cluster, route = pooled("p", "default/web/rule/0", **annotations)
    plain = route | {
        "metadata": {
            "filter_metadata": {"aigateway.envoy.io": route["metadata"]["filter_metadata"]["aigateway.envoy.io"]}
        }
    }

    result = translate(Snapshot(), clusters=[cluster], listeners=[eg.listener()], routes=[eg.route_config(plain)])

    assert result.filters() == [picker("p"), "router"]
    (manager,) = result.managers()
    config = manager["http_filters"][0]["typed_config"]
    assert {config["processing_mode"][key] for key in ("request_body_mode", "response_body_mode")} == {mode}
    assert {value for key, value in config["processing_mode"].items() if "body" not in key} == {"SEND"}
    assert config["message_timeout"] == "300s"
    assert config.get("allow_mode_override") is override
    assert config["grpc_service"]["envoy_grpc"]["authority"] == "epp.default.svc:9002"
    assert "ai-gateway-extproc-uds" not in result.cluster_names


def test_with_certificates_to_trust_a_picker_has_to_show_one(translate):
    cluster, _ = pooled("p", "default/web/rule/0")

    result = translate(Snapshot(), options=Options(picker_ca_file="/ca.pem"), clusters=[cluster])

    socket = result.cluster("envoy.clusters.endpointpicker_p_default_ext_proc")["transport_socket"]["typed_config"]
    assert socket["sni"] == "epp.default.svc"
    assert socket["common_tls_context"]["validation_context"] == {
        "trusted_ca": {"filename": "/ca.pem"},
        "match_typed_subject_alt_names": [{"san_type": "DNS", "matcher": {"exact": "epp.default.svc"}}],
    }
