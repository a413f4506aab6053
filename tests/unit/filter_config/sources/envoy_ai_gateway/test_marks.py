"""Documents are found by what they are about, however little of them can be read."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filter_config.sources.envoy_ai_gateway.documents import Document
from filter_config.sources.envoy_ai_gateway.kubernetes import BackendTLSPolicy, BackendTrafficPolicy
from filter_config.sources.envoy_ai_gateway.load import Resources, load
from filter_config.sources.envoy_ai_gateway.marks import (
    Key,
    grants_of,
    key_of,
    marks_of,
    policies_for,
    quotas_for,
    tls_for,
    traffic_for,
)
from filter_config.sources.envoy_ai_gateway.resources import BackendSecurityPolicy, QuotaPolicy
from filter_config.sources.faults import Faults
from tests.support import gateway_resources as g


def targets(*names: str, group: str, kind: str) -> list[dict[str, str]]:
    return [{"group": group, "kind": kind, "name": name} for name in names]


def traffic(**spec: Any) -> dict[str, Any]:
    return g.resource(f"{g.ENVOY_GATEWAY}/v1alpha1", "BackendTrafficPolicy", "t", spec=spec)


def tls(**spec: Any) -> dict[str, Any]:
    refs = targets("b", "c", group=g.ENVOY_GATEWAY, kind="Backend")
    return g.resource(f"{g.GATEWAY_API}/v1", "BackendTLSPolicy", "t", spec={"targetRefs": refs, **spec})


def found_by(value: object) -> list[tuple[str, ...]]:
    key = key_of(value)
    assert key is not None
    return list(marks_of(key, value))


KEYS = {
    "a resource": (g.service("b", "team"), Key("AIServiceBackend", "team", "b")),
    "no namespace": ({"kind": "Secret", "metadata": {"name": "s"}}, Key("Secret", "default", "s")),
    "a namespace that is none": ({"kind": "Secret", "metadata": {"namespace": 5}}, Key("Secret", "default", "")),
    "a kind of the cluster": (g.resource("v1", "Namespace", "n"), Key("Namespace", "", "n")),
    "no metadata": ({"kind": "Secret", "metadata": "none"}, Key("Secret", "default", "")),
    "no kind": ({"metadata": {"name": "s"}}, None),
    "no mapping": (["kind"], None),
}


@pytest.mark.parametrize(("value", "key"), KEYS.values(), ids=KEYS)
def test_a_document_says_what_it_is(value, key):
    assert key_of(value) == key


def test_keys_as_texts():
    assert str(Key("Secret", "default", "s")) == "Secret default/s"
    assert str(Key("Namespace", "", "n")) == "Namespace n"


GATEWAY = {"group": g.GATEWAY_API, "kind": "Gateway", "name": "gw"}
ROUTES = targets("r", "s", group=g.GATEWAY_API, kind="HTTPRoute")
TO_ROUTES = [traffic_for("default", "HTTPRoute", "r"), traffic_for("default", "HTTPRoute", "s")]
TO_BACKENDS = [tls_for("default", "b"), tls_for("default", "c")]
MARKS = {
    "a policy": (g.api_key("k", "b", namespace="team"), [policies_for("team", "AIServiceBackend", "b")]),
    "a policy without a type": (
        g.resource(f"{g.AI}/v1beta1", "BackendSecurityPolicy", "k", spec={"targetRefs": [g.ref("b", kind="K")]}),
        [policies_for("default", "K", "b")],
    ),
    "a quota": (g.quota([g.ref("b", kind="AIServiceBackend")]), [quotas_for("default", "b")]),
    "a TLS policy": (tls(validation={"hostname": "h"}), TO_BACKENDS),
    "a TLS policy with a fault": (tls(validation={"hostname": 5}), TO_BACKENDS),
    "a TLS policy without validation": (tls(), TO_BACKENDS),
    "a TLS policy of a version that is not served": ({**tls(), "apiVersion": f"{g.GATEWAY_API}/v9"}, TO_BACKENDS),
    "a traffic policy": (traffic(targetRefs=ROUTES), TO_ROUTES),
    "a traffic policy with a fault": (traffic(targetRefs=ROUTES, retry={"numRetries": -1}), TO_ROUTES),
    "a traffic policy with one target": (traffic(targetRef=GATEWAY), [traffic_for("default", "Gateway", "gw")]),
    "a traffic policy with both": (
        traffic(targetRef=GATEWAY, targetRefs=ROUTES),
        [traffic_for("default", "Gateway", "gw"), *TO_ROUTES],
    ),
    "a traffic policy with nothing else that is right": (traffic(targetRef=5, targetRefs=[5, *ROUTES]), TO_ROUTES),
    "a traffic policy without targets": (traffic(), []),
    "a grant": (g.grant("team", source=("", "A", "a"), target=("", "Secret")), [grants_of("team")]),
    "a policy that is nothing else": ({"kind": "BackendTLSPolicy", "spec": "none"}, []),
    "what is about nothing": (g.service("b"), []),
}


@pytest.mark.parametrize(("value", "marks"), MARKS.values(), ids=MARKS)
def test_a_document_is_found_by_what_it_is_about(value, marks):
    assert found_by(value) == marks


JUNK = st.sampled_from([None, "", "x", 5, True, [], {}, ["x"], [{}], {"kind": 1, "name": None}])
POLICIES = [value for value, marks in MARKS.values() if marks and value["kind"] != "ReferenceGrant"]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inner in items for place in places(inner, (*path, key)))]


def with_junk(value: Any, path: tuple[Any, ...], junk: Any) -> Any:
    made = copy.deepcopy(value)
    at = made
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = junk
    return made


def targets_read(resources: Resources) -> set[tuple[str, ...]]:
    """What the compiler takes policies to be about, of all that could be read of them."""
    marks: set[tuple[str, ...]] = set()
    for policy in resources.with_invalid(BackendSecurityPolicy):
        marks |= {policies_for(policy.namespace, ref.kind, ref.name) for ref in policy.value.spec.target_refs}
    for quota in resources.with_invalid(QuotaPolicy):
        marks |= {quotas_for(quota.namespace, ref.name) for ref in quota.value.spec.target_refs}
    for tls_policy in resources.with_invalid(BackendTLSPolicy):
        marks |= {tls_for(tls_policy.namespace, ref.name) for ref in tls_policy.value.spec.target_refs}
    for limits in resources.with_invalid(BackendTrafficPolicy):
        spec = limits.value.spec
        refs = (*((spec.target_ref,) if spec.target_ref is not None else ()), *spec.target_refs)
        marks |= {traffic_for(limits.namespace, ref.kind, ref.name) for ref in refs}
    return marks


@given(value=st.sampled_from(POLICIES), junk=JUNK, data=st.data())
def test_whatever_is_read_of_a_policy_finds_it(value, junk, data):
    made = with_junk(value, data.draw(st.sampled_from(places(value)[1:])), junk)
    key = key_of(made)
    marks = set(marks_of(key, made)) if key is not None else set()
    read = targets_read(load([Document(file="", line=0, value=made)], Faults()))
    assert read <= marks
