"""The hash of the injection's inputs: any of them changes it, nothing else does."""

from __future__ import annotations

import dataclasses

import pytest

from deploy.injector.hashing import config_hash
from deploy.injector.options import HeaderAttributes, Seed, SidecarOptions
from tests.unit.deploy.injector.cluster import OPTIONS, container_of

SEED = Seed(secret="seeds", key="now", version="1")
OTHERS = {
    "image": "other",
    "image_pull_policy": "Always",
    "log_level": "debug",
    "log_format": "json",
    "enable_redaction": True,
    "root_prefix": "/x",
    "endpoint_prefixes": "openai:/x",
    "header_attributes": HeaderAttributes(span=""),
    "max_recv_msg_size": 1,
    "extra_env": (("A", "b"),),
    "pull_secrets": ("pull",),
    "mcp_seed": SEED,
    "mcp_fallback_seed": SEED,
}
MCP_ONLY = {"mcp_seed", "mcp_fallback_seed"}


def digest(options=OPTIONS, config=None, *, native=True, mcp=True):
    return config_hash(options, config, native=native, mcp=mcp)


def test_no_option_is_forgotten():
    assert OTHERS.keys() == {field.name for field in dataclasses.fields(SidecarOptions)}


@pytest.mark.parametrize("field", OTHERS)
def test_every_option_counts(field):
    other = dataclasses.replace(OPTIONS, **{field: OTHERS[field]})

    assert digest(other) != digest()
    assert (digest(other, mcp=False) == digest(mcp=False)) is (field in MCP_ONLY)


CONFIGS = {
    "image": {"image": "x"},
    "imageRepository": {"imageRepository": "x"},
    "env": {"env": [{"name": "A", "value": "1"}]},
    "env in another order": {"env": [{"name": "B"}, {"name": "A"}]},
    "resources": {"resources": {"limits": {"memory": "1Gi"}}},
    "securityContext": {"securityContext": {"runAsUser": 1}},
    "volumeMounts": {"volumeMounts": [{"name": "a", "mountPath": "/a"}]},
}


def test_everything_of_a_gateway_config_counts():
    found = {digest(config=container_of(config)) for config in CONFIGS.values()}

    assert len(found | {digest()}) == len(CONFIGS) + 1


def test_where_the_sidecar_is_put_and_whether_it_serves_mcp_count():
    assert len({digest(native=native, mcp=mcp) for native in (True, False) for mcp in (True, False)}) == 4


@pytest.mark.parametrize("change", [{"secret": "x"}, {"key": "x"}, {"iterations": 1}, {"version": "2"}])
def test_a_rotated_seed_counts(change):
    before = dataclasses.replace(OPTIONS, mcp_seed=SEED)
    after = dataclasses.replace(OPTIONS, mcp_seed=dataclasses.replace(SEED, **change))

    assert digest(before) != digest(after)


def test_the_order_of_members_does_not_count():
    one, two = {"limits": {"cpu": "1", "memory": "2"}}, {"limits": {"memory": "2", "cpu": "1"}}

    assert digest(config=container_of({"resources": one})) == digest(config=container_of({"resources": two}))


def test_it_is_the_same_in_every_process():
    # Written down: if it changes without a change of the inputs, every gateway rolls.
    assert digest() == "a765fa5501a9f9235bd176eb4b215009678295c71f18c1b5337a0c1401b05607"
