"""The order of the input says nothing: neither of documents nor of files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filter_config.sources.envoy_ai_gateway import compile_texts
from filter_config.sources.envoy_ai_gateway.documents import Text
from tests.support.gateway_resources import (
    ENVOY_GATEWAY,
    GATEWAY_API,
    api_key,
    compiled,
    faults,
    gateway,
    resource,
    route,
    rule,
    secret,
    served,
    service,
)

GOLDEN = Path(__file__).parents[4] / "golden" / "resources"
EXAMPLES = {case.name: (case / "resources.yaml").read_bytes().split(b"---\n") for case in GOLDEN.iterdir()}


def outcome(documents: list[bytes]) -> tuple[object, ...]:
    result = compile_texts([Text(name="f", data=b"---\n".join(documents))])
    return [made.payload for made in result.gateways], sorted(faults(result))


@pytest.mark.parametrize("name", EXAMPLES)
@settings(max_examples=15)
@given(data=st.data())
def test_any_order_of_documents_gives_the_same_config_and_faults(name, data):
    documents = EXAMPLES[name]
    assert outcome(data.draw(st.permutations(documents))) == outcome(documents)


@settings(max_examples=15)
@given(data=st.data())
def test_documents_may_be_spread_over_files(data):
    documents = EXAMPLES["basic"]
    files: dict[int, list[bytes]] = {}
    for document in documents:
        files.setdefault(data.draw(st.integers(0, 3)), []).append(document)
    texts = [Text(name=str(number), data=b"---\n".join(parts)) for number, parts in files.items()]
    assert [made.payload for made in compile_texts(texts).gateways] == outcome(documents)[0]


def test_routes_come_by_age_and_then_by_namespace_and_name():
    dates = {"new": "2026-03-01T00:00:00Z", "old": "2026-01-01T00:00:00Z", "b": None, "a": None}
    routes = [
        route(name, rule("b", model=name), meta={"creationTimestamp": date} if date else {})
        for name, date in dates.items()
    ]
    (made,) = compiled(gateway(), *routes, *served("b")).gateways
    assert [model.name for model in made.config.models] == ["a", "b", "old", "new"]


def test_the_same_document_twice_is_one():
    result = compiled(gateway(), route("r", rule("b")), *served("b"), service("b"))
    assert faults(result) == ["warning AIServiceBackend default/b: : is there twice"]
    assert len(result.gateways[0].config.backends) == 1


def test_of_two_documents_that_contradict_each_other_none_is_used():
    other = service("b", schema="Anthropic")
    result = compiled(gateway(), route("r", rule("b", "c")), *served("b", "c"), other)
    said = "is there twice with different content, also at r.json:1"
    assert [fault for fault in faults(result) if fault.startswith("error")] == [
        f"error AIServiceBackend default/b: : {said}"
    ]
    assert [backend.name for backend in result.gateways[0].config.backends] == ["default/c/route/r/rule/0/ref/1"]


def test_of_two_policies_that_cannot_be_read_the_same_one_is_told_in_any_order():
    targets = {"targetRefs": [{"group": ENVOY_GATEWAY, "kind": "Backend", "name": "b"}]}
    policies = [resource(f"{GATEWAY_API}/v1", "BackendTLSPolicy", name, spec=targets) for name in ("a", "z")]
    resources = [gateway(), route("r", rule("b")), *served("b")]
    said = "warning BackendTLSPolicy default/z: : Backend default/b gets no requests while its TLS policy has faults"
    for order in (policies, policies[::-1]):
        assert said in faults(compiled(*resources, *order))


def test_unchanged_input_gives_an_unchanged_document_and_changed_input_another_id():
    resources = [gateway(), route("r", rule("b")), *served("b"), api_key("k", "b"), secret("k", apiKey="1")]
    first, again = (compiled(*resources).gateways[0] for _ in range(2))
    assert first.payload == again.payload
    other = compiled(*resources[:-1], secret("k", apiKey="2")).gateways[0]
    assert other.config.uuid != first.config.uuid
