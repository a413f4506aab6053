"""Resources of the environment: whatever variables there are, the compiler has nothing against them."""

from __future__ import annotations

import itertools

import pytest

from deploy.local import automatic
from deploy.local.automatic import EnvironmentIncomplete
from filter_config.sources.envoy_ai_gateway import compile_texts

AZURE = {
    "AZURE_OPENAI_API_KEY": "az-key",
    "AZURE_OPENAI_ENDPOINT": "https://me.openai.azure.com",
    "OPENAI_API_VERSION": "2024-10-21",
}


def compiled(**environ):
    result = compile_texts([automatic.resources(environ)], environ=environ)
    assert result.faults == ()
    (made,) = result.gateways
    return made


def backends(made):
    """Where each rule leads: models, then host, port, TLS, prefix and kind of credential of its backend."""
    entries = {entry.name: entry for entry in made.config.backends}
    for route in made.model.routes:
        for rule in route.rules:
            (backend,) = rule.backends
            entry, endpoint = entries[backend.id], backend.endpoint
            (address,) = endpoint.addresses
            kinds = [
                name for name in ("api_key", "azure_api_key", "anthropic_api_key") if getattr(entry.auth, name, None)
            ]
            header = rule.matches[0].headers[0]
            yield (
                header.value,
                f"{address.host}:{address.port}",
                endpoint.tls.server_name if endpoint.tls else None,
                f"{entry.schema.name} {entry.schema.prefix or entry.schema.version}",
                kinds,
            )


OPENAI = (".*", "api.openai.com:443", "api.openai.com", "OpenAI v1", ["api_key"])

CASES = {
    "OpenAI": ({"OPENAI_API_KEY": "k"}, [OPENAI]),
    "a server on this machine": (
        {"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1"},
        [(".*", "127.0.0.1:11434", None, "OpenAI v1", [])],
    ),
    "a server with a path and a key": (
        {"OPENAI_BASE_URL": "https://router.example/api/v1/", "OPENAI_API_KEY": "k"},
        [(".*", "router.example:443", "router.example", "OpenAI api/v1", ["api_key"])],
    ),
    "Azure, which wins over OpenAI": (
        {**AZURE, "OPENAI_API_KEY": "k"},
        [(".*", "me.openai.azure.com:443", "me.openai.azure.com", "AzureOpenAI 2024-10-21", ["azure_api_key"])],
    ),
    "Anthropic": (
        {"ANTHROPIC_API_KEY": "k"},
        [(".*", "api.anthropic.com:443", "api.anthropic.com", "Anthropic v1", ["anthropic_api_key"])],
    ),
    "Anthropic elsewhere, as its own SDK has it": (
        {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://proxy:8080/anthropic"},
        [(".*", "proxy:8080", None, "Anthropic anthropic/v1", ["anthropic_api_key"])],
    ),
    "OpenAI and Anthropic, each with its models": (
        {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"},
        [
            ("claude-.*", "api.anthropic.com:443", "api.anthropic.com", "Anthropic v1", ["anthropic_api_key"]),
            OPENAI,
        ],
    ),
    "another server than OpenAI's has models of any name": (
        {"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1", "ANTHROPIC_API_KEY": "k"},
        [(".*", "127.0.0.1:11434", None, "OpenAI v1", [])],
    ),
}


@pytest.mark.parametrize(("environ", "wanted"), CASES.values(), ids=CASES)
def test_where_requests_go(environ, wanted):
    assert list(backends(compiled(**environ))) == wanted


def test_the_names_of_what_is_made():
    made = compiled(OPENAI_API_KEY="k", OPENAI_ORG_ID="org", OPENAI_PROJECT_ID="project")

    assert made.model.id == "default/aigw-run"
    assert [(listener.name, listener.port) for listener in made.model.listeners] == [("http", 1975)]
    (route,) = made.model.routes
    assert [cost.key for cost in route.costs] == ["llm_input_token", "llm_output_token", "llm_reasoning_token"]
    (rule,) = route.rules
    assert (route.id, rule.request_timeout) == ("default/aigw-run", 120.0)
    (entry,) = made.config.backends
    headers = {header.name: header.value.reveal() for header in entry.http_header_mutation.set}
    assert headers == {"openai-organization": "org", "openai-project": "project"}


def test_no_credential_is_part_of_the_text():
    text = automatic.resources({"OPENAI_API_KEY": "sk-openai", "ANTHROPIC_API_KEY": "sk-ant"})

    assert b"sk-" not in text.data


INCOMPLETE = {
    "nothing": ({}, "name files of resources, or set OPENAI_API_KEY"),
    "an organization alone": ({"OPENAI_ORG_ID": "o"}, "name files of resources"),
    "Azure without the rest": (
        {"AZURE_OPENAI_API_KEY": "k"},
        "AZURE_OPENAI_API_KEY is set and AZURE_OPENAI_ENDPOINT and OPENAI_API_VERSION not",
    ),
    "Azure without a version": ({**AZURE, "OPENAI_API_VERSION": ""}, "and OPENAI_API_VERSION not"),
    "no URL": ({"OPENAI_BASE_URL": "localhost:8000"}, "OPENAI_BASE_URL is no URL such as https://api.openai.com/v1"),
    "no host": ({"OPENAI_BASE_URL": "http:///v1"}, "OPENAI_BASE_URL is no URL"),
    "no port": ({"OPENAI_BASE_URL": "http://h:port/v1"}, "OPENAI_BASE_URL is no URL"),
    "an IPv6 address that is none": ({"OPENAI_BASE_URL": "http://[::1/v1"}, "OPENAI_BASE_URL is no URL"),
}


@pytest.mark.parametrize(("environ", "words"), INCOMPLETE.values(), ids=INCOMPLETE)
def test_what_is_missing_is_said(environ, words):
    with pytest.raises(EnvironmentIncomplete, match=r".") as raised:
        automatic.resources(environ)

    assert words in str(raised.value)


def test_every_combination_of_keys_is_understood():
    variables = {**AZURE, "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "OPENAI_BASE_URL": "http://[::1]:8000/v1"}
    for size in range(len(variables) + 1):
        for names in itertools.combinations(variables, size):
            environ = {name: variables[name] for name in names}
            try:
                automatic.resources(environ)
            except EnvironmentIncomplete:
                continue
            compiled(**environ)
