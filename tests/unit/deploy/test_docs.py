"""The examples of docs/howto/envoy.md are what Envoy and the builders take."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml

import deploy
from deploy.envoy import access_log, clusters, ext_proc, names, rate_limit
from deploy.envoy.model import (
    AccessLog,
    HeaderDescriptor,
    PipeAddress,
    Processor,
    RateLimitService,
    SocketAddress,
    TokenBudget,
)
from deploy.envoy.text import to_document
from filter_config.load import decode

ROOT = Path(deploy.__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "howto" / "envoy.md").read_text()
PROCESSOR = Processor(address=PipeAddress(path="/x"))
SERVICE = RateLimitService(address=SocketAddress(host="ratelimit", port=8081), domain="llm")


def blocks(language):
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", PAGE, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(text) for _, text in found]


def documented(key, name=None):
    """The one example that has this key, and this name."""
    documents = [yaml.safe_load(block) for block in blocks("yaml")]
    (found,) = [
        document for document in documents if key in document and (name is None or document.get("name") == name)
    ]
    return found


def test_the_attributes_are_those_that_are_built():
    assert documented("request_attributes") == {"request_attributes": list(names.REQUEST_ATTRIBUTES)}


def test_the_access_log_is_part_of_the_one_that_is_built():
    built = to_document(access_log.access_log(AccessLog(cost_keys=("llm_cost",))))
    (example,) = documented("access_log")["access_log"]

    fields = example["typed_config"]["log_format"].pop("json_format")
    all_fields = built["typed_config"]["log_format"].pop("json_format")
    assert example == built
    assert fields.items() <= all_fields.items()


def test_the_service_is_the_one_that_is_built():
    assert documented("typed_config", names.RATE_LIMIT_FILTER) == to_document(rate_limit.rate_limit_filter(SERVICE))
    assert documented("load_assignment") == to_document(clusters.rate_limit_cluster(SERVICE))


def test_the_budget_is_the_one_that_is_built():
    budget = TokenBudget(descriptors=(HeaderDescriptor(header="x-user-id", key="user"),), cost_key="llm_cost")
    built = {name: to_document(config) for name, config in rate_limit.per_route((budget,)).items()}

    assert documented("typed_per_filter_config") == {"typed_per_filter_config": built}


def test_the_retries_are_those_that_are_built():
    built = to_document(ext_proc.router_filter(PROCESSOR))["typed_config"]["grpc_service"]
    example = documented("grpc_service")["grpc_service"]

    backoff = example["retry_policy"].pop("retry_back_off"), built["retry_policy"].pop("retry_back_off")
    assert example == built
    assert [{key: float(value[:-1]) for key, value in one.items()} for one in backoff] == [
        {"base_interval": 0.05, "max_interval": 0.5}
    ] * 2


@pytest.fixture(scope="module")
def printed():
    """What the script writes to standard output and to standard error."""
    (script,) = blocks("python")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout, done.stderr


def test_envoy_accepts_what_the_script_prints(printed, tmp_path, envoy_accepts):
    path = tmp_path / "envoy.yaml"
    path.write_text(printed[0])

    assert envoy_accepts(path) is None


def test_the_script_says_which_names_the_filter_config_must_use(printed):
    assert f"$ .venv/bin/python gateway.py > envoy.yaml\n{printed[1]}```" in PAGE


def test_the_filter_config_has_these_names_and_nothing_wrong(printed):
    (text,) = [block for block in blocks("yaml") if "backends:" in block]
    decoded = decode(text.encode())

    assert decoded.problems == ()
    assert [f"the filter config must have a backend named {backend.name}" for backend in decoded.config.backends] == (
        printed[1].splitlines()
    )


def test_a_descriptor_from_metadata_is_the_one_of_the_data_plane_test():
    test = (ROOT / "tests" / "dataplane" / "test_envoy_facts.py").read_text()
    (action,) = documented("actions")["actions"]

    assert str(action).replace("'", '"') in test
