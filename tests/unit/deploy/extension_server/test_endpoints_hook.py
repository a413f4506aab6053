"""PostEndpointsModify: endpoints with IP addresses, which reach Envoy on their own, say whose they are (6.4)."""

from __future__ import annotations

import pytest

from deploy.extension_server.findings import Findings
from deploy.extension_server.hooks import HOOKS
from deploy.extension_server.options import Options
from protos import extension_pb2 as wire
from protos import xds_pb2 as xds
from tests.support import envoy_gateway as eg
from tests.support import gateway_resources as res

RULE = "default/r/rule/0"


@pytest.fixture
def known(knowledge):
    refs = [res.ref("a"), res.ref("b", priority=2)]
    return knowledge(res.gateway(), res.route("r", res.rule(*refs)), *res.served("a", "b"))


def ask(known, name, *localities):
    given = {"clusterName": f"httproute/{name}", "endpoints": list(localities)}
    request = wire.PostEndpointsModifyRequest(load_assignment=eg.message(xds.ClusterLoadAssignment, given))
    findings = Findings()
    response = HOOKS["PostEndpointsModify"].answer(request, known, Options(), findings)
    return eg.document(response.load_assignment), findings.closed()


def test_each_address_is_labelled_with_its_own_backend(known):
    localities = [eg.locality(f"10.0.0.{ref}", ref=f"{RULE}/backend/{ref}") for ref in range(2)]

    found, findings = ask(known, RULE, *localities)

    assert [
        (each["lb_endpoints"][0]["metadata"]["filter_metadata"]["aigateway.envoy.io"], each.get("priority", 0))
        for each in found["endpoints"]
    ] == [
        ({"per_route_rule_backend_name": f"default/{name}/route/r/rule/0/ref/{ref}"}, ref)
        for ref, name in enumerate("ab")
    ]
    assert findings == ()


@pytest.mark.parametrize("name", ["default/other/rule/0", "default/r/rule/5"])
def test_every_other_endpoint_stays_as_it_is(known, name):
    localities = [eg.locality("10.0.0.1", ref=f"{name}/backend/0")]

    found, findings = ask(known, name, *localities)

    given = eg.message(xds.ClusterLoadAssignment, {"clusterName": f"httproute/{name}", "endpoints": localities})
    assert found == eg.document(given)
    assert findings == ()
