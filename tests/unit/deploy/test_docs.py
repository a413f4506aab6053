"""The examples of docs/howto/envoy.md are what Envoy and the builders take."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml

import deploy
from deploy.envoy import ext_proc, rate_limit
from deploy.envoy.model import HeaderDescriptor, PipeAddress, Processor, TokenBudget
from deploy.envoy.text import to_document

ROOT = Path(deploy.__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "howto" / "envoy.md").read_text()
BLOCKS = {
    language: re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for language in ("yaml", "python")
}


def test_the_budget_is_the_one_that_is_built():
    budget = TokenBudget(descriptors=(HeaderDescriptor(header="x-user-id", key="user"),), cost_key="llm_cost")
    built = {name: to_document(config) for name, config in rate_limit.per_route((budget,)).items()}

    assert yaml.safe_load(BLOCKS["yaml"][0])["typed_per_filter_config"] == built


def test_the_retries_are_those_that_are_built():
    processor = Processor(address=PipeAddress(path="/x"))
    built = to_document(ext_proc.router_filter(processor))["typed_config"]["grpc_service"]
    documented = yaml.safe_load(BLOCKS["yaml"][1])["grpc_service"]

    backoff = documented["retry_policy"].pop("retry_back_off"), built["retry_policy"].pop("retry_back_off")
    assert documented == built
    assert [{key: float(value[:-1]) for key, value in one.items()} for one in backoff] == [
        {"base_interval": 0.05, "max_interval": 0.5}
    ] * 2


def test_envoy_accepts_what_the_script_prints(tmp_path, envoy_accepts):
    (script,) = BLOCKS["python"]

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)

    *lines, names = done.stdout.splitlines()
    path = tmp_path / "envoy.yaml"
    path.write_text("\n".join(lines))
    assert envoy_accepts(path) is None
    assert names == "['default/openai/route/llm/rule/0/ref/0']"
