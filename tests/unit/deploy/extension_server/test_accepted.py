"""A real Envoy takes what the hook makes of everything that it knows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from deploy.extension_server.findings import Findings
from deploy.extension_server.knowledge import Snapshot
from deploy.extension_server.options import Options
from deploy.extension_server.translate import modify_translation
from tests.support import envoy_gateway as eg
from tests.support import gateway_resources as res
from tests.support.gateway_resources import INFERENCE

RULES = [f"default/r/rule/{index}" for index in range(3)]
MCP_MAIN = "default/ai-eg-mcp-main-m/rule/0"
MCP_SERVER = "default/ai-eg-mcp-br-m-s/rule/0"


@pytest.fixture
def known():
    target = {"group": res.AI, "kind": "AIServiceBackend", "name": "a"}
    headers = [
        {"name": "x-user", "type": "Distinct"},
        {"name": "x-team", "type": "Exact", "value": "red", "invert": True},
    ]
    bucket = {"quota": {"limit": 1, "duration": "1h"}, "clientSelectors": [{"headers": headers}]}
    pool = res.resource(
        f"{INFERENCE}/v1",
        "InferencePool",
        "p",
        spec={
            "endpointPickerRef": {"name": "epp"},
            "targetPorts": [{"number": 80}],
            "selector": {"matchLabels": {"a": "b"}},
        },
    )
    made = res.compiled(
        res.gateway(),
        res.route(
            "r",
            res.rule(res.ref("a", modelNameOverride="m"), res.ref("b", priority=5), model="m"),
            res.rule("b", model="n"),
            res.rule({"group": INFERENCE, "kind": "InferencePool", "name": "p"}, model="o"),
        ),
        *res.served("a", "b"),
        res.quota([target], bucketRules=[bucket], defaultBucket={"limit": 9, "duration": "1h"}),
        pool,
    )
    (found,) = (each.model for each in made.gateways)
    return Snapshot([replace(found, proxy="192.0.2.1:3128")])


def pooled(note):
    """Metadata as the other hooks leave it."""
    return {"filterMetadata": {"aigateway.envoy.io": {"per_route_rule_inference_pool": note}}}


@pytest.fixture
def response(known):
    note = pooled("default/p/epp/9002/duplex/false")
    tls = eg.typed("extensions.transport_sockets.tls.v3.UpstreamTlsContext", sni="a.example")
    matched = {
        "name": "tls",
        "match": {"name": "tls"},
        "transportSocket": {"name": "envoy.transport_sockets.tls", "typedConfig": tls},
    }
    original = {
        "type": "ORIGINAL_DST",
        "lbPolicy": "CLUSTER_PROVIDED",
        "originalDstLbConfig": {"useHttpHeader": True, "httpHeaderName": "x-gateway-destination-endpoint"},
        "metadata": note,
    }
    pool_cluster = eg.cluster(RULES[2]) | original
    del pool_cluster["edsClusterConfig"]
    injector = eg.http("cors", suffix="/httproutefilter/default/ai-eg-mcp-brf-m-s", disabled=True)
    findings = Findings()
    made = modify_translation(
        eg.request(
            clusters=[
                eg.cluster(
                    RULES[0],
                    *(eg.locality(ref=f"{RULES[0]}/backend/{ref}") for ref in range(2)),
                    transportSocketMatches=[matched],
                ),
                eg.cluster(f"{RULES[1]}/backend/0", eg.locality("b.example")),
                eg.cluster(RULES[1]),
                pool_cluster,
                eg.cluster(MCP_MAIN),
                eg.cluster(MCP_SERVER, eg.locality("s.example")),
            ],
            listeners=[eg.listener(eg.chain(eg.CORS, injector, eg.RBAC, eg.ROUTER))],
            routes=[
                eg.route_config(
                    eg.route(RULES[0]),
                    eg.route(RULES[1]),
                    eg.route(
                        RULES[2],
                        metadata={"filterMetadata": {**eg.owned("r")["filterMetadata"], **note["filterMetadata"]}},
                    ),
                    eg.not_found("default/r/rule/3"),
                    eg.mcp_route(MCP_MAIN),
                    eg.mcp_route(MCP_SERVER),
                )
            ],
        ),
        known,
        Options(picker_ca_file="/etc/ssl/certs/ca-certificates.crt"),
        findings,
    )
    assert findings.closed() == ()
    return made


def test_envoy_takes_it(response, envoy_accepts, tmp_path):
    path = tmp_path / "envoy.yaml"
    path.write_text(yaml.safe_dump(eg.bootstrap(response)))

    assert envoy_accepts(path) is None
