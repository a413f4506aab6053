"""The examples of docs/howto/kubernetes.md are taken by the API server, by the compiler and by kustomize."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import deploy
from tests.support.gateway_resources import compiled, document, only

ROOT = Path(deploy.__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "howto" / "kubernetes.md").read_text()
EXAMPLES = [
    list(yaml.safe_load_all(text)) for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
]


def example(kind):
    (found,) = [values for values in EXAMPLES if any(value["kind"] == kind for value in values)]
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
