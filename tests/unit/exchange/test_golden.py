"""Whole exchanges, written down in ``tests/golden/exchange``; ``make golden`` rewrites them from today's code."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.playbook import BACKEND, SECOND_BACKEND, Gateway, cost, openai_backend
from tests.support.transcript import Transcript

GOLDEN = Path(__file__).parents[2] / "golden" / "exchange"

FIRST = openai_backend(modelNameOverride="first-model", auth={"apiKey": {"key": "sk-first"}})
SECOND = {
    **openai_backend(SECOND_BACKEND, modelNameOverride="second-model", auth={"azureAPIKey": {"key": "sk-second"}}),
    "schema": {"name": "OpenAI", "prefix": "openai/v1"},
}
COSTS = [cost("input", "InputToken"), cost("price", "CEL", cel="input_tokens + output_tokens * 3u")]
CONFIG: dict[str, Any] = {
    "version": "dev",
    "backends": [FIRST, SECOND],
    "llmRequestCosts": COSTS,
    "models": [{"Name": "virtual", "OwnedBy": "platform", "CreatedAt": "2025-01-02T03:04:05Z"}],
}

ASK = b'{"model":"virtual","messages":[{"role":"user","content":"hi"}]}'
USAGE = b'{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}'
ANSWER = b'{"id":"1","model":"first-model-0125","choices":[{"message":{"content":"hello"}}],"usage":' + USAGE + b"}"
EVENTS = [
    b'data: {"id":"1","model":"first-model-0125","choices":[{"index":0,"delta":{"content":"hel"}}]}\n\n',
    b'data: {"id":"1","model":"first-model-0125","choices":[{"index":0,"delta":{"content":"lo"}}]}\n\n',
    b'data: {"id":"1","model":"first-model-0125","choices":[],"usage":' + USAGE + b"}\n\n",
    b"data: [DONE]\n\n",
]


def plain(exchange: Transcript) -> None:
    exchange.request(ASK, {"authorization": "Bearer clients-own"})
    exchange.attempt(BACKEND)
    exchange.response()
    exchange.piece(ANSWER, eos=True)


def stream(exchange: Transcript) -> None:
    exchange.request(b'{"model":"virtual","stream":true}')
    exchange.attempt(BACKEND)
    exchange.response({"content-type": "text/event-stream"})
    for event in EVENTS:
        exchange.gateway.clock.advance(0.25)
        exchange.piece(event)
    exchange.piece(b"", eos=True)


def failover(exchange: Transcript) -> None:
    exchange.request(ASK, {"authorization": "Bearer clients-own"})
    exchange.attempt(BACKEND)
    exchange.attempt(SECOND_BACKEND)
    exchange.response()
    exchange.piece(ANSWER.replace(b"first", b"second"), eos=True)


def malformed(exchange: Transcript) -> None:
    exchange.request(b'{"model": "virtual", }')


def upstream_error(exchange: Transcript) -> None:
    exchange.request(ASK)
    exchange.attempt(BACKEND)
    exchange.response({"content-type": "text/plain", "content-length": "15"}, status="503")
    exchange.piece(b"backend timeout", eos=True)


def models(exchange: Transcript) -> None:
    exchange.headers({":method": "GET", ":path": "/v1/models"}, eos=True)


SCENARIOS: dict[str, Callable[[Transcript], None]] = {
    "plain": plain,
    "stream": stream,
    "failover": failover,
    "malformed": malformed,
    "upstream-error": upstream_error,
    "models": models,
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_exchange(name, request):
    exchange = Transcript(Gateway(CONFIG))
    SCENARIOS[name](exchange)
    exchange.close()
    golden = GOLDEN / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        golden.write_text(exchange.text)
    assert exchange.text == golden.read_text()


def test_every_golden_file_has_its_scenario():
    assert {path.stem for path in GOLDEN.iterdir()} == set(SCENARIOS)
