"""The neutral model to the document, by hand and without a source: what every source relies on."""

from __future__ import annotations

import hashlib

import pytest
import yaml

from filter_config.bundle import CHUNK_BYTES, MAX_PARTS, read_bundle
from filter_config.load import decode
from filter_config.model import AWSAuth, AzureAPIKeyAuth, BackendAuth, CredentialOverride, GCPAuth, MCPRoute
from filter_config.problems import MAX_REPEATS
from filter_config.redact import Secret
from filter_config.sources import emit
from filter_config.sources.faults import Faults, Origin
from filter_config.sources.model import MCP, Backend, Cost, Gateway, Model, Route, Rule, Schema
from filter_config.sources.prune import prune

HERE = Origin(file="f", kind="Route", name="r")


def backend(number: int = 0, **fields) -> Backend:
    fields = {"id": f"ns/b{number}", "schema": Schema(name="OpenAI", prefix="v1"), **fields}
    return Backend(namespace="ns", name=f"b{number}", origin=HERE.at(f"backends[{number}]"), **fields)


def gateway(*backends: Backend, costs: tuple[Cost, ...] = (), **fields) -> Gateway:
    rule = Rule(origin=HERE, index=0, backends=backends, models=(Model(name="m", owned_by="us"),))
    route = Route(namespace="ns", name="r", origin=HERE, rules=(rule,), costs=costs)
    return Gateway(namespace="ns", name="gw", origin=HERE, routes=(route,), **fields)


def written(made: Gateway):
    return yaml.safe_load(emit.encode(emit.emit(made, version="v1").config))


def test_nothing_gives_a_version_and_an_id():
    config = written(Gateway(namespace="ns", name="gw", origin=HERE))
    assert sorted(config) == ["uuid", "version"]
    assert config["version"] == "v1"


def test_what_is_empty_is_left_out_except_what_readers_expect():
    override = CredentialOverride(header_name="h", fallback_to_configured=False)
    auth = BackendAuth(gcp=GCPAuth(region="r", project_name="p"), credential_override=override)
    made = written(gateway(backend(auth=auth), backend(1, auth=BackendAuth(aws=AWSAuth(region="r")))))
    assert made["backends"] == [
        {
            "name": "ns/b0",
            "modelNameOverride": "",
            "schema": {"name": "OpenAI", "prefix": "v1"},
            "auth": {
                "gcp": {"accessToken": "", "region": "r", "projectName": "p"},
                "credentialOverride": {"headerName": "h", "fallbackToConfigured": False},
            },
        },
        {
            "name": "ns/b1",
            "modelNameOverride": "",
            "schema": {"name": "OpenAI", "prefix": "v1"},
            "auth": {"aws": {"region": "r"}},
        },
    ]
    assert made["models"] == [{"Name": "m", "OwnedBy": "us", "CreatedAt": "0001-01-01T00:00:00Z"}]


def test_the_document_reads_back_as_the_config():
    auth = BackendAuth(aws=AWSAuth(credential_file_literal=Secret("[default]\nk = \u2028é\n"), region="r"))
    mcp = MCP(routes=(MCPRoute(name="ns/m"),))
    config = emit.emit(gateway(backend(auth=auth), mcp=mcp), version="v1").config
    decoded = decode(emit.encode(config))
    assert decoded.problems == ()
    assert decoded.config == config


def test_the_id_is_a_hash_of_the_content_secrets_included():
    def id_of(key: str, version: str = "v1") -> str:
        auth = BackendAuth(aws=AWSAuth(credential_file_literal=Secret(key)))
        return emit.emit(gateway(backend(auth=auth)), version=version).config.uuid

    assert id_of("a") == id_of("a")
    assert len({id_of("a"), id_of("b"), id_of("a", "v2")}) == 3
    assert len(id_of("a")) == 64


def test_routes_without_a_backend_list_no_model_and_cost_nothing():
    cost = Cost(key="k", type="TotalToken", origin=HERE)
    assert sorted(written(gateway(costs=(cost,)))) == ["uuid", "version"]
    assert "llmRequestCosts" in written(gateway(backend(), costs=(cost,)))


# --- what the processor would refuse ---


def test_what_the_processor_would_refuse_is_left_out_and_told_at_its_origin():
    good = Cost(key="g", type="CEL", expression="1u", origin=HERE.at("costs.g"))
    bad = Cost(key="b", type="CEL", expression="1 +", origin=HERE.at("costs.b"))
    unheard = backend(1, schema=Schema(name="Unheard"), defined_at=Origin(file="f", kind="Backend", name="b1"))
    broken = backend(2, auth=BackendAuth(azure_api_key=AzureAPIKeyAuth()), auth_origin=HERE.at("auth"))
    faults = Faults()
    pruned = prune(gateway(backend(), unheard, broken, costs=(bad, good)), version="v1", faults=faults)
    assert [cost.metadata_key for cost in pruned.emitted.config.llm_request_costs] == ["g"]
    assert [made.name for made in pruned.emitted.config.backends] == ["ns/b0", "ns/b1"]
    assert pruned.gateway.routes[0].costs == (good,)
    assert pruned.gateway.routes[0].rules[0].backends == (backend(), unheard)
    assert [(fault.severity, str(fault.origin)) for fault in faults.closed()] == [
        ("warning", "f: Backend b1: spec.schema.name"),
        ("error", "f: Route r: auth"),
        ("error", "f: Route r: costs.b.cel"),
    ]


def test_any_number_of_refused_costs_is_left_out():
    bad = (Cost(key="k", type="CEL", origin=HERE.at(f"costs[{number}]")) for number in range(MAX_REPEATS + 5))
    good = Cost(key="k", type="TotalToken", origin=HERE)
    faults = Faults()
    pruned = prune(gateway(backend(), costs=(*bad, good)), version="v1", faults=faults)
    assert pruned.gateway.routes[0].costs == (good,)
    assert len(faults.closed()) == MAX_REPEATS + 5


def test_of_very_many_warnings_not_all_are_told():
    odd = tuple(
        Cost(key="", type="TotalToken", origin=HERE.at(f"costs[{number}]")) for number in range(MAX_REPEATS + 1)
    )
    faults = Faults()
    assert prune(gateway(backend(), costs=odd), version="v1", faults=faults).gateway.routes[0].costs == odd
    assert len(faults.closed()) == MAX_REPEATS + 1
    assert str(faults.closed()[0]) == "f: Route r: warning: more than 1000 warnings: not all are shown"


# --- pieces ---

# The two names of the contract (control plane 2.10), a name to cut, and one of which nothing is left.
NAMES = {
    ("ns1", "gateway"): "gateway-ns1-c6d39be275c7",
    ("default", "gw"): "gw-default-3d45476e8d68",
}


@pytest.mark.parametrize(("key", "expected"), NAMES.items(), ids=["gateway in ns1", "gw in default"])
def test_secrets_are_named_by_gateway_and_hash(key, expected):
    names = emit.object_names(*key)
    assert names.index == expected
    assert names.parts == tuple(f"{expected}-part-{number:03d}" for number in range(8))
    assert names.legacy == f"{key[1]}-{key[0]}"


def test_long_names_are_cut_to_fit():
    names = emit.object_names("n" * 63, "g" * 239 + "-" + "g" * 13)
    digest = hashlib.sha256(("n" * 63 + "/" + "g" * 239 + "-" + "g" * 13).encode()).hexdigest()[:12]
    assert names.index == "g" * 239 + f"-{digest}"
    assert len(names.index) == 252
    assert all(len(part) == 253 and part.endswith(f"-{digest}-part-00{n}") for n, part in enumerate(names.parts))
    assert names.legacy == ""


def test_a_name_of_dashes_leaves_the_hash():
    assert emit.object_names("-", "-").index == hashlib.sha256(b"-/-").hexdigest()[:12]


def padded(size: int) -> Gateway:
    auth = BackendAuth(aws=AWSAuth(credential_file_literal=Secret("x" * size), region="r"))
    return gateway(backend(auth=auth))


def test_a_document_is_shipped_in_parts_that_join_to_it(tmp_path):
    config = emit.emit(padded(2 * CHUNK_BYTES), version="v1").config
    pieces = list(emit.parts(config))
    assert [len(piece) for piece in pieces[:-1]] == [716800, 716800]
    assert b"".join(pieces) == emit.encode(config)
    emit.write(tmp_path, config)
    assert read_bundle(tmp_path).data == emit.encode(config)
    index = yaml.safe_load((tmp_path / "index.yaml").read_bytes())
    assert (index["version"], index["uuid"]) == ("v1", config.uuid)
    assert [part["path"] for part in index["parts"]] == ["parts/000", "parts/001", "parts/002"]


def test_a_document_of_more_parts_than_a_bundle_has_is_refused():
    config = emit.emit(padded(MAX_PARTS * CHUNK_BYTES), version="v1").config
    with pytest.raises(ValueError, match="takes 9 parts of a bundle that has 8"):
        emit.parts(config)
