"""Golden files of the webhook: one folder per case.

By hand::

    review.json     what the API server sends
    cluster.json    version, routes of the gateway ns1/gateway, Secrets, spec.extProc.kubernetes of its GatewayConfig,
                    and options of the controller

Written by ``--update-golden``, and then read line by line against the contract::

    answer.yaml     the response; of the patch, only where it does what
    pod.yaml        annotations and spec of the pod after the patch, where there is one
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

import msgspec
import pytest
import yaml

from deploy.injector import names, review
from deploy.injector.admission import mutate
from deploy.injector.facts import Attached, KubernetesVersion
from deploy.injector.options import SidecarOptions
from extproc.settings import Settings
from tests.unit.deploy.injector.cluster import (
    GATEWAY,
    OPTIONS,
    Cluster,
    admitted,
    asks,
    command_line,
    container_of,
    mount_faults,
)

GOLDEN = Path(__file__).parents[4] / "tests" / "golden" / "admission"
CASES = sorted(path.parent for path in GOLDEN.glob("*/review.json"))
SEEDS = names.seed_secret("mcp-seeds", GATEWAY)
SECRETS = {(SEEDS, "seed"): "canary-seed", (SEEDS, "previous"): "canary-old", ("otel", "token"): "canary-t"}


def load(case):
    """The review, the cluster, the options."""
    given = json.loads((case / "cluster.json").read_text(encoding="utf-8"))
    routes = given["routes"]
    cluster = Cluster(
        version=KubernetesVersion.parse(*given["version"]),
        routes={GATEWAY: Attached(ai_routes="AIGatewayRoute" in routes, mcp_routes="MCPRoute" in routes)},
        secrets={tuple(secret.split("/")) for secret in given["secrets"]},
    )
    if "gatewayConfig" in given:
        cluster.containers[GATEWAY] = container_of(given["gatewayConfig"])
    options = msgspec.convert({"image": OPTIONS.image, **given.get("options", {})}, SidecarOptions)
    return (case / "review.json").read_bytes(), cluster, options


def compare(path, text, *, update):
    if update:
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"{path.name} is missing; see --update-golden"
    assert path.read_text(encoding="utf-8") == text


def dump(value):
    return yaml.safe_dump(value, sort_keys=False, width=120, allow_unicode=True)


def test_there_are_cases():
    assert len(CASES) >= 20


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_answer_to_a_review(case, request):
    update = request.config.getoption("--update-golden")
    body, cluster, options = load(case)

    reply = review.write(mutate(review.read(body), cluster, options))

    whole = json.loads(reply)
    response = whole.pop("response")
    assert whole == {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    assert response["uid"] == json.loads(body)["request"]["uid"]
    if "patch" not in response:
        compare(case / "answer.yaml", dump(response), update=update)
        assert not (case / "pod.yaml").exists()
        return
    patch = [f"{operation['op']} {operation['path']}" for operation in json.loads(base64.b64decode(response["patch"]))]
    compare(case / "answer.yaml", dump({**response, "patch": patch}), update=update)
    after = admitted(json.loads(body)["request"]["object"], reply)
    compare(
        case / "pod.yaml", dump({"annotations": after["metadata"]["annotations"], "spec": after["spec"]}), update=update
    )
    assert mount_faults(after) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_second_time_changes_nothing(case):
    body, cluster, options = load(case)
    asked = json.loads(body)["request"]
    once = admitted(asked["object"], review.write(mutate(review.read(body), cluster, options)))

    again = mutate(review.read(asks(once, namespace=asked["namespace"], resource=asked["resource"])), cluster, options)

    assert again.patch == ()


@pytest.mark.parametrize("case", [case for case in CASES if (case / "pod.yaml").exists()], ids=lambda case: case.name)
def test_the_processor_takes_what_the_sidecar_gets(case):
    body, cluster, options = load(case)
    after = admitted(json.loads(body)["request"]["object"], review.write(mutate(review.read(body), cluster, options)))
    containers = [*after["spec"]["containers"], *after["spec"].get("initContainers", [])]
    (sidecar,) = [container for container in containers if container["name"] == names.CONTAINER]

    argv, environ = command_line(sidecar, SECRETS)
    settings = Settings.parse(argv, environ)

    assert settings.ignored == ()
    assert settings.ext_proc_addr == "unix:///etc/ai-gateway-extproc-uds/run.sock"
    assert settings.config_bundle_path or settings.config_path == "/etc/filter-config/filter-config.yaml"
    assert "canary" not in json.dumps(after)
