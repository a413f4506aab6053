"""The examples of docs/howto/kubernetes.md are taken by the API server, by the compiler and by kustomize.

Of commands only their form is looked at here: there is no cluster.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import textwrap
from pathlib import Path

import jsonschema
import pytest
import yaml
from prometheus_client import CollectorRegistry

import deploy
from deploy.controller.metrics import ControllerMetrics
from deploy.extension_server.metrics import HookMetrics
from deploy.injector.facts import Attached
from deploy.injector.names import GatewayRef
from deploy.injector.options import SidecarOptions
from deploy.injector.server import InjectorMetrics
from deploy.injector.sidecar import Subject, build
from deploy.quota_xds.metrics import QuotaXdsMetrics
from filter_config.sources.envoy_ai_gateway.documents import Document
from filter_config.sources.envoy_ai_gateway.load import load
from filter_config.sources.envoy_ai_gateway.resources import GatewayConfig
from filter_config.sources.faults import Faults
from tests.support.gateway_resources import compiled, document, only

ROOT = Path(deploy.__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "howto" / "kubernetes.md").read_text()


def blocks(language):
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", PAGE, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(text) for _, text in found]


EXAMPLES = [list(yaml.safe_load_all(text)) for text in blocks("yaml")]


def example(kind):
    (found,) = [values for values in EXAMPLES if any(value.get("kind") == kind for value in values)]
    return found


def test_the_first_route_is_admitted(api_server):
    ours = [value for value in example("AIGatewayRoute") if value["apiVersion"].startswith("aigateway.envoyproxy.io/")]
    assert {value["kind"] for value in ours} == {"AIGatewayRoute", "AIServiceBackend", "BackendSecurityPolicy"}
    assert [complaint for value in ours for complaint in api_server.complaints(value)] == []


def test_the_first_route_becomes_a_config_with_the_model_and_the_key():
    made = document(only(compiled(*example("AIGatewayRoute"))))
    assert [model["Name"] for model in made["models"]] == ["gpt-5"]
    (backend,) = made["backends"]
    assert backend["auth"] == {"apiKey": {"key": "sk-your-key"}}


def test_an_overlay_names_the_image_of_both(tmp_path):
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("no kubectl on the PATH")
    (kustomization,) = example("Kustomization")
    shutil.copytree(ROOT / "deploy" / "kubernetes", tmp_path / "base")
    (overlay := tmp_path / "overlay").mkdir()
    kustomization["resources"] = ["../base/base"]
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    done = subprocess.run([program, "kustomize", overlay], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    made = yaml.load_all(done.stdout, Loader=yaml.CSafeLoader)
    (controller,) = [
        container
        for value in made
        if value["kind"] == "Deployment"
        for container in value["spec"]["template"]["spec"]["containers"]
    ]
    assert controller["image"] == "registry.example.com/envoy-llm-extproc:0.1.0"
    assert controller["env"][0] == {"name": "EXTPROC_IMAGE", "value": controller["image"]}


# --- the processor of one gateway ---


def test_the_container_of_a_gateway_is_admitted_and_injected(api_server):
    config, proxy, gateway = example("GatewayConfig")
    assert api_server.complaints(config) == []
    assert gateway["metadata"]["annotations"] == {
        "aigateway.envoyproxy.io/gateway-config": config["metadata"]["name"],
    }
    pod = proxy["spec"]["provider"]["kubernetes"]["envoyDeployment"]["pod"]
    faults = Faults()
    resources = load([Document(file="f", line=1, value=config)], faults)
    assert list(faults.closed()) == []
    found = resources.get(GatewayConfig, "default", "llm")
    subject = Subject(
        gateway=GatewayRef(namespace="default", name="llm"),
        attached=Attached(ai_routes=True),
        bundle=True,
        legacy=False,
        native=True,
        volumes=frozenset(volume["name"] for volume in pod["volumes"]),
    )
    sidecar = build(subject, SidecarOptions(image="i"), found.value.spec.ext_proc.kubernetes)
    assert sidecar.warnings == ()
    given = config["spec"]["extProc"]["kubernetes"]
    for part in ("securityContext", "resources"):
        assert sidecar.container[part] == given[part]
    for part in ("env", "volumeMounts"):
        assert [each for each in given[part] if each not in sidecar.container[part]] == []
    # The socket is the group's and the user's, and Envoy's are these.
    assert 65532 in (given["securityContext"]["runAsUser"], given["securityContext"]["runAsGroup"])


# --- observing, and taking over ---


def test_the_metrics_are_those_that_there_are():
    registry = CollectorRegistry()
    for metrics in (ControllerMetrics, HookMetrics, InjectorMetrics, QuotaXdsMetrics):
        metrics(registry)
    there = {f"{metric.name}_total" if metric.type == "counter" else metric.name for metric in registry.collect()}
    named = set(re.findall(r"`((?:controller|extproc_injector|extension_server|extproc_quota_xds)_[a-z_]+)`", PAGE))
    assert named
    assert named <= there
    of_ours = {name for name in there if not name.startswith("extproc_quota_xds_")}
    assert of_ours <= named


def test_the_values_of_a_takeover_are_those_of_the_chart():
    (values,) = [values for (values, *rest) in EXAMPLES if "controller" in values and not rest]
    schema = json.loads((ROOT / "deploy" / "helm" / "envoy-llm-extproc" / "values.schema.json").read_text())
    jsonschema.Draft7Validator(schema).validate(values)


def commands():
    """What the page tells people to type, each line of a shell in parts."""
    for text in blocks("sh"):
        for line in text.replace("\\\n", " ").splitlines():
            for command in re.split(r" \| |\$\((.*)\)", line):
                words = shlex.split(command or "", comments=True)
                if words and words[0] in ("kubectl", "helm"):
                    yield [word for word in words if word != "&"]


COMMANDS = {shlex.join(command): command for command in commands()}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_command_has_a_form_that_its_program_knows(command):
    program = shutil.which(command[0])
    if program is None:
        pytest.skip(f"no {command[0]} on the PATH")
    # A flag that is not known is told before help is given.
    asked = [program, *command[1:], "--help"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert f"  {command[0]} {command[1]}" in done.stdout or "Usage:" in done.stdout


def test_files_that_the_commands_name_exist():
    named = {word for command in COMMANDS.values() for word in command if word.startswith("deploy/")}
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
