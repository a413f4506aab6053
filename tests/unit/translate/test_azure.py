"""Chat completions on Azure OpenAI (contract, chat 7; field report BR-103)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.playbook import BACKEND, ROUTE, SECOND_BACKEND, Gateway, Reply, cost

VERSION = "2025-01-01-preview"
CHAT = "/v1/chat/completions"


def azure_backend(name: str = BACKEND, *, version: str = VERSION, **extra: Any) -> dict[str, Any]:
    return {"name": name, "schema": {"name": "AzureOpenAI", "version": version}, "modelNameOverride": "", **extra}


def attempt(backend: dict[str, Any], body: bytes = b'{"model":"m"}', path: str = CHAT, **config: Any) -> Reply:
    exchange = Gateway({"version": "dev", "backends": [backend], **config}).exchange()
    exchange.request(body, {":path": path})
    return exchange.attempt()


AT = "/openai/deployments"
PATHS = {
    # client's query, deployment, api-version: path at Azure
    "as in the contract": ("", "", VERSION, f"{AT}/m/chat/completions?api-version={VERSION}"),
    "an override names the deployment": ("", "dep", "v1", f"{AT}/dep/chat/completions?api-version=v1"),
    "a deployment is escaped": ("", "d 1/x?", "v1", f"{AT}/d%201%2Fx%3F/chat/completions?api-version=v1"),
    "a version is escaped": ("", "", "a&b", f"{AT}/m/chat/completions?api-version=a%26b"),
    "no version is configured": ("", "", "", f"{AT}/m/chat/completions"),
    "the client brings it": ("?api-version=c", "", "", f"{AT}/m/chat/completions?api-version=c"),
    "the configured version wins": ("?api-version=c", "", "v1", f"{AT}/m/chat/completions?api-version=v1"),
    "a query goes along": ("?a=1&api-version=c&b=%20", "", "v1", f"{AT}/m/chat/completions?api-version=v1&a=1&b=%20"),
}


@pytest.mark.parametrize("name", PATHS)
def test_the_path_names_deployment_and_version(name):
    query, override, version, expected = PATHS[name]
    reply = attempt(azure_backend(version=version, modelNameOverride=override), path=CHAT + query)
    assert reply.set[":path"] == expected


def test_the_body_keeps_the_name_that_the_client_used():
    reply = attempt(azure_backend(modelNameOverride="dep"))
    assert not reply.replaces
    assert reply.body is None


def test_a_request_without_a_model_names_no_deployment():
    reply = attempt(azure_backend(), b'{"messages":[]}')
    assert reply.status == 422
    assert reply.json["error"]["message"] == "invalid request body: model is required, it names the deployment"


def test_a_retry_sends_the_bytes_of_the_client_again():
    body = b'{"model": "m"}'
    exchange = Gateway({"version": "dev", "backends": [azure_backend(), azure_backend(SECOND_BACKEND)]}).exchange()
    exchange.request(body)
    exchange.attempt()
    again = exchange.attempt(SECOND_BACKEND)
    assert again.replaces
    assert again.body == body
    assert again.metadata["content_length"] == len(body)


def test_usage_is_asked_for_where_costs_need_it():
    reply = attempt(azure_backend(), b'{"model":"m","stream":true}', llmRequestCosts=[cost("total")])
    assert reply.body == b'{"model":"m","stream":true,"stream_options":{"include_usage":true}}'


def test_the_answer_is_metered():
    gateway = Gateway(
        {"version": "dev", "backends": [azure_backend(modelNameOverride="dep")], "llmRequestCosts": [cost("total")]}
    )
    exchange = gateway.exchange()
    exchange.request(b'{"model":"m"}')
    exchange.attempt()
    exchange.response()
    answer = {"model": "gpt-5-2025", "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}
    reply = exchange.piece(json.dumps(answer).encode(), eos=True)
    assert reply.body is None
    assert reply.metadata["total"] == 7
    assert reply.metadata["response_model"] == "gpt-5-2025"
    assert reply.metadata["route_name"] == ROUTE
