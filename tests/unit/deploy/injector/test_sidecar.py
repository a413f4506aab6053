"""The container: image, arguments, environment, time to drain. All of it together is in the golden files."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from deploy.injector import names
from deploy.injector.facts import Attached
from deploy.injector.options import HeaderAttributes, Seed, SidecarOptions
from deploy.injector.sidecar import drain_seconds, image
from extproc.settings import Settings
from tests.unit.deploy.injector.cluster import (
    GATEWAY,
    NEW,
    OLD,
    OPTIONS,
    Cluster,
    answer,
    command_line,
    container_of,
    injected,
    mount_faults,
    pod,
)

SEEDS = names.seed_secret("seeds", GATEWAY)
IMAGES = {
    "the default": ({}, "r.test/x:1", "r.test/x:1"),
    "an image": ({"image": "other"}, "r.test/x:1", "other"),
    "a repository and the default's tag": ({"imageRepository": "m.test/y"}, "r.test/x:1", "m.test/y:1"),
    "and its digest": ({"imageRepository": "m"}, "r.test/x@sha256:ab", "m@sha256:ab"),
    "and its tag and digest": ({"imageRepository": "m"}, "r.test/x:1@sha256:ab", "m@sha256:ab"),
    "a port is no tag": ({"imageRepository": "m:5000/y"}, "r.test:443/x", "m:5000/y"),
    "a port and a tag": ({"imageRepository": "m"}, "r.test:443/x:1", "m:1"),
}


@pytest.mark.parametrize(("config", "default", "expected"), IMAGES.values(), ids=IMAGES.keys())
def test_the_image(config, default, expected):
    assert image(SidecarOptions(image=default), container_of(config)) == expected


def test_the_image_without_a_gateway_config():
    assert image(OPTIONS, None) == OPTIONS.image


# native, grace period of the pod, seconds of draining
DRAINS = {
    "a native sidecar ends after Envoy": (True, 360, 0),
    "Envoy Gateway's default": (False, 360, 60),
    "Envoy drains for ten minutes": (False, 900, 600),
    "a grace period of somebody's own": (False, 60, 25),
    "Kubernetes's default": (False, None, 15),
    "hardly any": (False, 1, 15),
}


@pytest.mark.parametrize(("native", "grace", "seconds"), DRAINS.values(), ids=DRAINS.keys())
def test_how_long_it_drains(native, grace, seconds):
    assert drain_seconds(native=native, grace=grace) == seconds


def test_draining_fits_into_the_grace_period():
    settings = Settings.parse(["-configPath", "x"], {})
    for grace in range(50, 2000):
        drain = drain_seconds(native=False, grace=grace)

        # After it, attempts are served for 5 s more, and streams until the timeout.
        assert drain + 5 + settings.shutdown_timeout <= grace
        assert drain >= settings.drain_seconds


@pytest.mark.parametrize("version", [NEW, OLD])
def test_a_native_sidecar_is_an_init_container_that_goes_on_running(version):
    after, sidecar = injected(pod(), Cluster(version=version))

    assert (sidecar in after["spec"].get("initContainers", [])) is (version is NEW)
    assert sidecar.get("restartPolicy") == ("Always" if version is NEW else None)


def test_the_seeds_are_nowhere_in_the_pod():
    options = dataclasses.replace(
        OPTIONS,
        mcp_seed=Seed(secret="seeds", key="now", iterations=7, version="canary-is-not-shown"),
        mcp_fallback_seed=Seed(secret="seeds", key="before", iterations=8),
    )
    after, sidecar = injected(pod(), Cluster(routes={GATEWAY: Attached(mcp_routes=True)}), options)

    settings = Settings.parse(*command_line(sidecar, {(SEEDS, "now"): "new seed", (SEEDS, "before"): "old seed"}))

    assert settings.mcp_session_encryption_seed.reveal() == "new seed"
    assert settings.mcp_fallback_session_encryption_seed.reveal() == "old seed"
    assert (settings.mcp_session_encryption_iterations, settings.mcp_fallback_session_encryption_iterations) == (7, 8)
    assert "EncryptionSeed" not in json.dumps(after)
    assert "canary" not in json.dumps(after)


def test_without_mcp_routes_there_is_no_word_of_mcp():
    options = dataclasses.replace(OPTIONS, mcp_seed=Seed(secret="seeds", key="now"))
    _, sidecar = injected(pod(), options=options)

    assert "mcp" not in json.dumps(sidecar).lower()


def test_a_later_variable_takes_the_place_of_an_earlier_one():
    config = {"env": [{"name": "B", "value": "mine"}, {"name": "EXTPROC_DRAIN_SECONDS", "value": "3"}, {"name": "C"}]}
    options = dataclasses.replace(OPTIONS, extra_env=(("A", "1"), ("B", "2")))
    _, sidecar = injected(pod(), Cluster(containers={GATEWAY: container_of(config)}), options)

    assert [(entry["name"], entry.get("value")) for entry in sidecar["env"]] == [
        ("EXTPROC_DRAIN_SECONDS", "3"),
        ("A", "1"),
        ("B", "mine"),
        ("C", None),
    ]


def test_a_path_is_mounted_once():
    mounts = [{"name": "sds", "mountPath": "/x"}, {"name": "sds", "mountPath": "/x", "readOnly": True}]
    cluster = Cluster(containers={GATEWAY: container_of({"volumeMounts": mounts})})

    after, sidecar = injected(pod(), cluster)

    assert mount_faults(after) == []
    assert mounts[0] in sidecar["volumeMounts"]
    assert answer(pod(), cluster).warnings == (
        "GatewayConfig: spec.extProc.kubernetes.volumeMounts[1] is ignored: something else is mounted at /x",
    )


TEXTS = st.text("$()ax:-/ \n", max_size=12)
PAIRS = st.lists(st.tuples(st.text("x$(-)", min_size=1), st.text("y$()", min_size=1)), min_size=1, max_size=2)
MAPPINGS = PAIRS.map(lambda pairs: ",".join(f"{header}:{attribute}" for header, attribute in pairs))
ALL_OPTIONS = st.builds(
    SidecarOptions,
    image=st.just("i"),
    log_level=st.sampled_from(["debug", "INFO", "warn+1"]),
    log_format=st.sampled_from(["text", "json"]),
    enable_redaction=st.booleans(),
    root_prefix=TEXTS,
    endpoint_prefixes=st.sampled_from(["", "openai:/$(A)", "cohere:,anthropic:-x"]),
    header_attributes=st.builds(
        HeaderAttributes,
        request=st.none() | MAPPINGS,
        span=st.none() | st.just("") | MAPPINGS,
        metrics=st.none() | st.just("") | MAPPINGS,
        log=st.none() | st.just("") | MAPPINGS,
    ),
    max_recv_msg_size=st.integers(1, 2**63 - 1),
    extra_env=st.just((("A", "replaced"),)),
    mcp_seed=st.none() | st.just(Seed(secret="seeds", key="k")),
)


@examples(max_examples=40)
@given(ALL_OPTIONS, st.booleans())
def test_the_processor_reads_every_option_as_it_was_given(options, mcp):
    _, sidecar = injected(pod(), Cluster(routes={GATEWAY: Attached(ai_routes=True, mcp_routes=mcp)}), options)

    settings = Settings.parse(*command_line(sidecar, {(SEEDS, "k"): "seed"}))
    direct = ["-configBundlePath", "/etc/filter-config-bundle", "-logLevel", options.log_level]
    for flag, value in (
        ("request", options.header_attributes.request),
        ("spanRequest", options.header_attributes.span),
        ("metricsRequest", options.header_attributes.metrics),
        ("logRequest", options.header_attributes.log),
    ):
        direct += [f"-{flag}HeaderAttributes={value}"] if value is not None else []
    expected = Settings.parse([*direct, f"-endpointPrefixes={options.endpoint_prefixes}"], {})

    assert settings.root_prefix == options.root_prefix
    assert settings.log_level == expected.log_level
    assert settings.log_format == options.log_format
    assert settings.enable_redaction is options.enable_redaction
    assert settings.max_recv_msg_size == options.max_recv_msg_size
    assert settings.endpoint_prefixes == expected.endpoint_prefixes
    assert settings.span_attributes == expected.span_attributes
    assert settings.metric_attributes == expected.metric_attributes
    assert settings.log_attributes == expected.log_attributes
    assert settings.mcp_addr == (":9856" if mcp else "")
    assert settings.ignored == ()
