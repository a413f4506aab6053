"""Each example says how to run it, and nothing is wrong with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deploy.envoy.compile import Serving, envoy_gateway
from deploy.envoy.model import Processor, SocketAddress
from deploy.local.compiling import Compiler
from deploy.local.files import Files
from filter_config.load import decode
from filter_config.sources.faults import Faults

FOLDER = Path(__file__).parents[4] / "examples"
EXAMPLES = {path.name: path for path in sorted(FOLDER.glob("*.yaml"))}
ENVIRON = {"OPENAI_API_KEY": "sk-of-the-environment", "ANTHROPIC_API_KEY": "sk-ant-of-the-environment"}
PROCESSOR = Processor(address=SocketAddress(host="127.0.0.1", port=1063))


def test_there_are_some():
    assert {"basic.yaml", "fallback.yaml", "mutation.yaml", "token-budget.yaml"} <= EXAMPLES.keys()


@pytest.mark.parametrize("path", EXAMPLES.values(), ids=EXAMPLES)
def test_an_example_is_served_whole(path):
    content = Files([str(path)]).read()
    outcome = Compiler(ENVIRON).compile(content.texts, content.faults)

    assert list(map(str, outcome.faults)) == []
    (made,) = outcome.gateways
    assert decode(made.payload).problems == ()
    faults = Faults()
    envoy = envoy_gateway(made.model, Serving(processor=PROCESSOR), faults)
    assert list(map(str, faults.closed())) == []
    assert envoy.listener.address.port == 1975


@pytest.mark.parametrize("path", EXAMPLES.values(), ids=EXAMPLES)
def test_its_head_says_how_to_run_it(path):
    head = re.match(r"(#.*\n)+", path.read_text())[0]

    assert f"extproc run examples/{path.name}\n" in head
    assert "curl http://127.0.0.1:1975/v1/chat/completions" in head
    for variable in ENVIRON.keys() & set(re.findall(r"env/\w+: (\w+)", path.read_text())):
        assert f"{variable}=" in head
