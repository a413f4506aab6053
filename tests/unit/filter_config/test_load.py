"""The whole way from bytes to a config, and the version rule."""

from __future__ import annotations

import pickle

import pytest

from filter_config.load import Decoded, Problem, decode, own_version, version_problem
from filter_config.model import Config

FIVE_FAULTS = b"""
version: dev
backends:
- name: one
  schema: {name: OpenAI}
  auth: {apiKey: {key: [k]}}
- name: two
  schema: {name: OpenAI}
  auth: {azureAPIKey: {key: ""}}
  httpBodyMutation: {set: [{path: n, value: 1-2}]}
llmRequestCosts:
- {metadataKey: k, type: CEL, routeName: ns/r, cel: input_tokens * 2}
models:
- {name: m, createdAt: 2024-01-02}
"""


def test_a_broken_config_reports_all_its_faults():
    decoded = decode(FIVE_FAULTS)
    assert decoded.config is None
    assert [(problem.path, problem.severity) for problem in decoded.problems] == [
        ("backends[0].auth.apiKey.key", "error"),
        ("models[0].createdAt", "error"),
        ("llmRequestCosts[0].cel", "error"),
        ("backends[1].auth.azureAPIKey.key", "fault"),
        ("backends[1].httpBodyMutation.set[0].value", "fault"),
    ]
    assert all(problem.message and problem.fix for problem in decoded.problems)


def test_a_whole_config():
    decoded = decode(
        b"""
version: v1
uuid: u
globalLLMRequestCosts: [{metadataKey: g, type: TotalToken}]
llmRequestCosts:
- {metadataKey: billing, type: CEL, cel: "0", routeName: ns/free}
- {metadataKey: billing, type: CEL, cel: input_tokens, routeName: ns/paid, backend: ns/b, model: m}
backends:
- name: ns/b
  modelNameOverride: m2
  schema: {name: Anthropic, version: "2023", prefix: v1}
  auth:
    anthropicAPIKey: {key: k}
    credentialOverride: {headerName: x-key, fallbackToConfigured: true, inputHeadersToRemove: [x-key]}
  httpHeaderMutation: {set: [{name: x-a, value: b}], remove: [x-c]}
  httpBodyMutation: {set: [{path: a.b, value: "1"}], remove: [c]}
models: [{name: m}]
modelsByHost: {"*.example.com": [{name: m}]}
unscopedModels: [{name: m}]
mcpConfig:
  backendListenerAddr: http://127.0.0.1:10088
  routes:
  - name: r
    backends:
    - name: b
      toolSelector: {include: [a], includeRegex: [b], exclude: [c], excludeRegex: [d]}
      forwardHeaders: [{name: x-a, backendHeader: x-b}]
    authorization:
      defaultAction: Deny
      resourceMetadataURL: https://example.com
      rules:
      - action: Allow
        cel: "true"
        source: {jwt: {scopes: [s], claims: [{name: a.b, valueType: String, values: [v]}]}}
        target: {tools: [{backend: b, tool: t}]}
    backendSelector: {defaultAction: Deny, rules: [{action: Allow, cel: "true"}]}
    forwardHeaders: [x-d]
""",
    )
    assert decoded.problems == ()
    config = decoded.config
    assert [cost.route_name for cost in config.llm_request_costs] == ["ns/free", "ns/paid"]
    (backend,) = config.backends
    assert (backend.model_name_override, backend.schema.version) == ("m2", "2023")
    assert backend.auth.credential_override.input_headers_to_remove == ("x-key",)
    assert backend.http_header_mutation.set[0].value.reveal() == "b"
    assert backend.http_body_mutation.set[0].path == "a.b"
    (route,) = config.mcp_config.routes
    assert route.backends[0].tool_selector.exclude_regex == ("d",)
    assert route.authorization.rules[0].source.jwt.claims[0].value_type == "String"
    assert route.authorization.rules[0].target.tools[0].tool == "t"
    assert (route.backend_selector.default_action, route.backend_selector.rules[0].cel) == ("Deny", "true")


def test_a_fault_disables_its_backend_and_nothing_else():
    decoded = decode(b"backends: [{name: a, schema: {name: OpenAI}}, {name: b, schema: {name: OpenAI}, auth: {}}]")
    assert [backend.name for backend in decoded.config.backends] == ["a", "b"]
    assert list(decoded.faults) == ["b"]
    assert decoded.faults["b"][0].message == "no backend auth handler found"


def test_unreadable_bytes_are_an_error_of_the_document():
    decoded = decode(b"{wefaf3q20,9u,f02")
    assert decoded.config is None
    (problem,) = decoded.problems
    assert (problem.path, problem.severity) == ("", "error")


def test_a_decoded_config_crosses_processes():
    decoded = decode(b"version: dev\nbackends: [{name: b, auth: {}}]")
    assert pickle.loads(pickle.dumps(decoded)) == decoded


def test_the_other_faults_survive_their_number():
    decoded = decode(("backends:\n" + "".join(f"- {{name: b{n}, auth: {{}}}}\n" for n in range(1500))).encode())
    assert len(decoded.faults) == 1500


def test_problem_as_text():
    problem = Problem(path="a.b", message="is wrong", fix="make it right", severity="warning")
    assert str(problem) == "a.b: warning: is wrong; make it right"
    assert str(Problem(path="", message="is wrong")) == "is wrong"


def test_faults_of_nothing():
    assert Decoded(config=None).faults == {}


# --- versions ---


def test_the_same_version_is_no_problem():
    assert version_problem(Config(version="v1"), "v1", relaxed=False) is None


@pytest.mark.parametrize(("relaxed", "severity"), [(False, "error"), (True, "warning")])
def test_another_version(relaxed, severity):
    problem = version_problem(Config(version="some-new-version"), "dev", relaxed=relaxed)
    assert problem.message == (
        'config version mismatch: expected "dev", got "some-new-version". Likely in the middle of rolling update'
    )
    assert (problem.path, problem.severity) == ("version", severity)


def test_no_version_is_another_version():
    assert version_problem(Config(), "dev", relaxed=False) is not None


VERSIONS = {
    "v1.2.0-0-gabc1234": "v1.2.0",
    "v1.2.0-3-gabc1234": "abc1234 (v1.2.0, +3)",
    "v1.2.0-rc.1-0-gabc1234": "v1.2.0-rc.1",
    "v1.2.0-rc-1-12-gabc1234": "abc1234 (v1.2.0-rc-1, +12)",
    "v1.2.0": "dev",
    "v1.2.0-3": "dev",
    "v1.2.0-x-gabc1234": "dev",
    "-0-g": "dev",
    "v1-99999999999999999999-gabc": "dev",
    "": "dev",
    None: "dev",
}


@pytest.mark.parametrize(("describe", "own"), VERSIONS.items(), ids=map(str, VERSIONS))
def test_own_version(describe, own):
    assert own_version(describe) == own
