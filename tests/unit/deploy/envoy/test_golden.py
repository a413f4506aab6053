"""Whole examples: resources, the Envoy they give, and the rate limit service they need, read line by line."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from deploy.envoy.bootstrap import bootstrap
from deploy.envoy.compile import Serving, envoy_gateway
from deploy.envoy.model import AccessLog, PipeAddress, Processor, RateLimitService, SocketAddress
from deploy.envoy.quotas import service_document
from deploy.envoy.text import to_yaml
from filter_config.sources.envoy_ai_gateway import compile_files
from filter_config.sources.faults import Faults

CASES = sorted((Path(__file__).parents[3] / "golden" / "resources").iterdir())
SERVING = Serving(
    processor=Processor(address=PipeAddress(path="/run/extproc.sock")),
    bind_host="0.0.0.0",
    rate_limit=RateLimitService(address=SocketAddress(host="ratelimit", port=8081)),
    access_log=AccessLog(),
    admin=SocketAddress(host="127.0.0.1", port=9901),
)


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request):
    return request.param


def made_of(case):
    (made,) = compile_files([case / "resources.yaml"]).gateways
    return made.model


def test_an_example_gives_its_envoy(case, request, envoy_accepts):
    faults = Faults()
    text = to_yaml(bootstrap(envoy_gateway(made_of(case), SERVING, faults)))
    golden = case / "envoy.yaml"
    if request.config.getoption("--update-golden"):
        golden.write_text(text)

    assert text == golden.read_text()
    assert envoy_accepts(golden) is None
    assert {fault.severity for fault in faults.closed()} <= {"warning"}


def test_an_example_gives_the_budgets_of_its_rate_limit_service(case, request):
    document = service_document([made_of(case)])
    text = yaml.safe_dump(document, sort_keys=False, width=120) if document["descriptors"] else ""
    golden = case / "envoy-ratelimit.yaml"
    if request.config.getoption("--update-golden"):
        golden.write_text(text) if text else golden.unlink(missing_ok=True)

    assert text == (golden.read_text() if golden.exists() else "")
