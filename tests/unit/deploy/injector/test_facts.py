"""Versions of Kubernetes, and names that hold for any gateway."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.injector.facts import Attached, KubernetesVersion
from deploy.injector.names import GatewayRef, volume_names

VERSIONS = {
    "plain": (("1", "33"), (1, 33), True),
    "of a managed cluster": (("1", "33+"), (1, 33), True),
    "with letters in front": (("v1", "32-eks"), (1, 32), False),
    "the next major": (("2", "0"), (2, 0), True),
    "newer": (("1", "100"), (1, 100), True),
    "the oldest": (("0", "99"), (0, 99), False),
}


@pytest.mark.parametrize(("said", "version", "native"), VERSIONS.values(), ids=VERSIONS.keys())
def test_a_version_is_compared_as_numbers(said, version, native):
    parsed = KubernetesVersion.parse(*said)

    assert parsed == version
    assert parsed.has_native_sidecars is native


@pytest.mark.parametrize("said", [("", ""), ("1", ""), ("", "33"), ("one", "33"), ("1", "٣٣")])
def test_a_version_that_says_nothing_is_unknown(said):
    assert KubernetesVersion.parse(*said) is None


@pytest.mark.parametrize(("ai", "mcp"), [(True, False), (False, True), (True, True)])
def test_any_route_counts(ai, mcp):
    assert Attached(ai_routes=ai, mcp_routes=mcp)
    assert not Attached()


def test_volumes_are_named_as_in_the_contract():
    found = volume_names(GatewayRef(namespace="ns1", name="gateway"))

    assert found.legacy == "ai-gateway-gateway-ns1-c6d39be275c7"
    assert found.bundle == "ai-gateway-gateway-ns1-c6d39be275c7-bundle"


# DNS labels, up to the longest, which end where a name is cut in any way.
LABEL = st.text("a0-", max_size=61).map(lambda inner: f"a{inner}0")
NAME = st.lists(LABEL, min_size=1, max_size=3).map(".".join)


@settings(max_examples=50)
@given(LABEL, NAME)
def test_volume_names_are_labels_whatever_the_gateway_is_called(namespace, name):
    found = volume_names(GatewayRef(namespace=namespace, name=name))

    for volume in (found.legacy, found.bundle):
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", volume)
    assert found.legacy != found.bundle


def test_gateways_whose_names_read_the_same_have_other_volumes():
    gateways = [("c", "a-b"), ("b-c", "a"), ("c", "a.b"), ("c" * 63, "a" * 200), ("c" * 62, "a" * 201)]
    found = {volume_names(GatewayRef(namespace=namespace, name=name)).bundle for namespace, name in gateways}

    assert len(found) == len(gateways)
