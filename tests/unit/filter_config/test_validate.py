"""What is right in form and wrong in meaning: severity, path, words, and what is put right."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from filter_config.checks import is_raw_json
from filter_config.load import decode


@dataclass(frozen=True)
class Case:
    """A config and the problems it has, as ``severity path: message``; the message may be cut."""

    text: str
    problems: tuple[str, ...] = ()


def backend(fields: str) -> str:
    return f"backends: [{{name: b, schema: {{name: OpenAI}}, {fields}}}]"


def auth(fields: str) -> str:
    return backend(f"auth: {{{fields}}}")


def route_cost(fields: str) -> str:
    return f"llmRequestCosts: [{{metadataKey: k, routeName: ns/r, {fields}}}]"


def global_cost(fields: str) -> str:
    return f"globalLLMRequestCosts: [{{metadataKey: k, {fields}}}]"


CEL = "llmRequestCosts[0].cel"
NO_ROUTE = 'route-scoped LLMRequestCost with metadataKey="billing" must have non-empty RouteName'
UNDERFLOW = "failed to evaluate CEL expression: failed to evaluate CEL expression: unsigned integer overflow"
AUTH = "backends[0].auth"
HEADERS = "backends[0].httpHeaderMutation"
BODY = "backends[0].httpBodyMutation"

COSTS = {
    "every type": Case(
        "globalLLMRequestCosts: ["
        + ", ".join(
            f"{{metadataKey: k, type: {name}}}"
            for name in (
                "InputToken",
                "CachedInputToken",
                "CacheCreationInputToken",
                "OutputToken",
                "TotalToken",
                "ReasoningToken",
            )
        )
        + "]",
    ),
    "route without a name": Case(
        "llmRequestCosts: [{metadataKey: billing, type: InputToken}]",
        (f"error llmRequestCosts[0].routeName: {NO_ROUTE}",),
    ),
    "bad expression of a route": Case(
        route_cost("type: CEL, cel: 1 +"),
        (f"error {CEL}: cannot create CEL program for cost: cannot compile CEL expression: ERROR: ",),
    ),
    "bad expression of the gateway": Case(
        global_cost("type: CEL, cel: 1 +"),
        ("error globalLLMRequestCosts[0].cel: cannot create CEL program for global cost: cannot compile CEL ",),
    ),
    "expression that fails when tried": Case(
        route_cost("type: CEL, cel: uint(1)-uint(1200)"),
        (f"error {CEL}: cannot create CEL program for cost: {UNDERFLOW}",),
    ),
    "expression beside another type is compiled too": Case(
        route_cost("type: InputToken, cel: 1 +"),
        (f"error {CEL}: cannot create CEL program for cost: ",),
    ),
    "type CEL without an expression": Case(route_cost("type: CEL"), (f"error {CEL}: type CEL without an expression",)),
    "expression that fails with more samples": Case(
        route_cost("type: CEL, cel: input_tokens - cached_input_tokens"),
        (f"warning {CEL}: the expression fails for more cached_input_tokens than input_tokens: ",),
    ),
    "unknown type": Case(
        route_cost("type: InputTokens"),
        ("warning llmRequestCosts[0].type: unknown cost type: 'InputTokens'; the rule fails for every request",),
    ),
    "type in another case": Case(
        route_cost("type: outputToken"),
        ("warning llmRequestCosts[0].type: unknown cost type: 'outputToken'",),
    ),
    "no type": Case(route_cost("cel: '1'"), ("warning llmRequestCosts[0].type: unknown cost type: ''",)),
    "no key": Case(
        "globalLLMRequestCosts: [{type: InputToken}]",
        ("warning globalLLMRequestCosts[0].metadataKey: empty",),
    ),
    "a key of the processor": Case(
        "globalLLMRequestCosts: [{metadataKey: route_name, type: InputToken}]",
        ("warning globalLLMRequestCosts[0].metadataKey: 'route_name' is a key of the processor itself",),
    ),
    "the same key in two routes": Case(
        "llmRequestCosts: [{metadataKey: k, type: CEL, cel: '0', routeName: ns/free}, "
        "{metadataKey: k, type: CEL, cel: input_tokens, routeName: ns/paid}]",
    ),
    "several faults of one rule": Case(
        "llmRequestCosts: [{type: CEL, cel: tokens}]",
        (
            "error llmRequestCosts[0].routeName: ",
            "warning llmRequestCosts[0].metadataKey: ",
            f"error {CEL}: ",
        ),
    ),
}

BACKENDS = {
    "no auth": Case(backend("modelNameOverride: m")),
    "duplicate names": Case(
        "backends: [{name: b, schema: {name: OpenAI}, auth: {}}, {name: b, schema: {name: OpenAI}}]",
        (
            "warning backends[0].name: duplicate backend name 'b': backends[1] is used, not this one",
            # Not a fault: the name stands for the other one.
            "warning backends[0].auth: no backend auth handler found",
        ),
    ),
    "no name": Case("backends: [{schema: {name: OpenAI}}]", ("warning backends[0].name: empty",)),
    "unknown schema": Case(
        "backends: [{name: b, schema: {name: OpenAi}}]",
        ("warning backends[0].schema.name: unknown schema 'OpenAi'",),
    ),
    "no schema": Case("backends: [{name: b}]", ("warning backends[0].schema.name: unknown schema ''",)),
}

AUTHS = {
    "each method": Case(
        "backends: ["
        + ", ".join(
            f"{{name: {number}, schema: {{name: OpenAI}}, auth: {{{method}}}}}"
            for number, method in enumerate(
                (
                    "apiKey: {key: k}",
                    "azureAPIKey: {key: k}",
                    "azure: {accessToken: k}",
                    "anthropicAPIKey: {key: k}",
                    "gcp: {accessToken: k, region: r, projectName: p}",
                    "aws: {region: r}",
                ),
            )
        )
        + "]",
    ),
    "no method": Case(auth(""), (f"fault {AUTH}: no backend auth handler found",)),
    "override without a method": Case(
        auth("credentialOverride: {headerName: x-key}"),
        (f"fault {AUTH}: no backend auth handler found",),
    ),
    "empty azure key": Case(
        auth("azureAPIKey: {key: ''}"), (f"fault {AUTH}.azureAPIKey.key: azure API key is required",)
    ),
    "azure key of spaces": Case(
        auth("azureAPIKey: {key: '  '}"),
        (f"fault {AUTH}.azureAPIKey.key: azure API key is required",),
    ),
    "empty azure key that is never used": Case(auth("azureAPIKey: {}, credentialOverride: {headerName: x-key}")),
    "empty azure key to fall back to": Case(
        auth("azureAPIKey: {}, credentialOverride: {headerName: x-key, fallbackToConfigured: true}"),
        (f"fault {AUTH}.azureAPIKey.key: azure API key is required",),
    ),
    "empty api key": Case(auth("apiKey: {}"), (f"warning {AUTH}.apiKey.key: empty",)),
    "empty azure token": Case(
        auth("azure: {}"),
        (f"warning {AUTH}.azure.accessToken: empty: a token is asked for with what the AZURE_* environment gives",),
    ),
    "empty gcp token": Case(auth("gcp: {region: r}")),
    "line break after a key is dropped": Case(auth('apiKey: {key: "k\\n"}')),
    "line break in a key": Case(
        auth('apiKey: {key: "k\\nl"}'),
        (f"fault {AUTH}.apiKey.key: the credential holds a line break",),
    ),
    "line break after a gcp token": Case(
        auth('gcp: {accessToken: "k\\n"}'),
        (f"fault {AUTH}.gcp.accessToken: the credential holds a line break",),
    ),
    "several methods": Case(
        auth("anthropicAPIKey: {}, apiKey: {key: k}, azureAPIKey: {}"),
        (f"warning {AUTH}: several auth methods: apiKey is used, azureAPIKey, anthropicAPIKey ignored",),
    ),
    "override without a source": Case(
        auth("apiKey: {key: k}, credentialOverride: {}"),
        (f"warning {AUTH}.credentialOverride: no source and no fallback: every request is answered 401",),
    ),
    "override without a source, with a fallback": Case(
        auth("apiKey: {key: k}, credentialOverride: {fallbackToConfigured: true}"),
        (f"warning {AUTH}.credentialOverride: no source: the configured credential is always used",),
    ),
    "override by metadata": Case(
        auth("apiKey: {key: k}, credentialOverride: {dynamicMetadataNamespace: n, dynamicMetadataKey: k}"),
    ),
    "override by metadata without a key": Case(
        auth("apiKey: {key: k}, credentialOverride: {dynamicMetadataNamespace: n}"),
        (f"warning {AUTH}.credentialOverride.dynamicMetadataKey: empty",),
    ),
}

ENTRA = {
    "a secret": Case(auth("azure: {clientID: c, tenantID: 0-1, clientSecret: s}")),
    "a secret of the environment's tenant": Case(auth("azure: {clientID: c, clientSecret: s}")),
    "a federated token": Case(auth("azure: {clientID: c, tenantID: contoso.example, federatedTokenFile: /var/token}")),
    "an application alone": Case(auth("azure: {clientID: c}")),
    "a sovereign cloud": Case(auth("azure: {authorityHost: 'https://login.microsoftonline.us/'}")),
    "an authority of this machine": Case(auth("azure: {authorityHost: 'http://127.0.0.1:8080'}")),
    "an authority of this machine by name": Case(auth("azure: {authorityHost: 'http://localhost:8080'}")),
    "white space around the values": Case(
        auth('azure: {clientID: "c ", tenantID: " t\\n", clientSecret: "s\\n", authorityHost: " https://h "}'),
    ),
    "a token and more": Case(
        auth("azure: {accessToken: t, clientID: c, clientSecret: s}"),
        (f"warning {AUTH}.azure: accessToken is used, clientID, clientSecret ignored",),
    ),
    "a secret and a file": Case(
        auth("azure: {clientID: c, tenantID: t, clientSecret: s, federatedTokenFile: f}"),
        (f"warning {AUTH}.azure: clientSecret is used, federatedTokenFile ignored",),
    ),
    "a secret of no application": Case(
        auth("azure: {tenantID: t, clientSecret: s}"),
        (f"fault {AUTH}.azure.clientID: clientSecret without the application that it is of",),
    ),
    "no tenant": Case(
        auth("azure: {tenantID: a/b}"),
        (f"fault {AUTH}.azure.tenantID: 'a/b' is no tenant",),
    ),
    "an authority without TLS": Case(
        auth("azure: {authorityHost: 'http://login.example'}"),
        (f"fault {AUTH}.azure.authorityHost: 'http://login.example' is no URL that a secret may be sent to",),
    ),
    "an authority that is no URL": Case(
        auth("azure: {authorityHost: login.microsoftonline.us}"),
        (f"fault {AUTH}.azure.authorityHost: 'login.microsoftonline.us' is no URL",),
    ),
    "an authority that cannot be read": Case(
        auth("azure: {authorityHost: 'https://[::1'}"),
        (f"fault {AUTH}.azure.authorityHost: 'https://[::1' is no URL",),
    ),
    "an authority with a port that is none": Case(
        auth("azure: {authorityHost: 'https://h:99999'}"),
        (f"fault {AUTH}.azure.authorityHost: 'https://h:99999' is no URL",),
    ),
    "an authority with a path": Case(
        auth("azure: {authorityHost: 'https://h/tenant'}"),
        (f"fault {AUTH}.azure.authorityHost: 'https://h/tenant' is no URL",),
    ),
    "values of another type": Case(
        auth("azure: {clientID: [], clientSecret: s, tenantID: {}}"),
        (
            f"error {AUTH}.azure.clientID: expected a text, got a list",
            f"error {AUTH}.azure.tenantID: expected a text, got a mapping",
        ),
    ),
    "a token of another type": Case(
        auth("azure: {accessToken: []}"),
        (f"error {AUTH}.azure.accessToken: expected a text, got a list",),
    ),
    "what every request brings itself": Case(
        auth("azure: {clientSecret: s}, credentialOverride: {headerName: x-token}"),
    ),
}

MUTATIONS = {
    "headers": Case(backend("httpHeaderMutation: {set: [{name: x-a, value: 'b c'}], remove: [authorization]}")),
    "names in upper case": Case(
        backend("httpHeaderMutation: {set: [{name: X-A}], remove: [Authorization]}"),
        (
            f"warning {HEADERS}.set[0].name: 'X-A' is read in lower case",
            f"warning {HEADERS}.remove[0]: 'Authorization' is read in lower case",
        ),
    ),
    "protected names": Case(
        backend("httpHeaderMutation: {set: [{name: ':path'}, {name: X-AI-EG-Model}], remove: [X-Envoy-Original-Path]}"),
        (
            f"warning {HEADERS}.set[0].name: ':path' is a protected header; the mutation is ignored",
            f"warning {HEADERS}.set[1].name: 'X-AI-EG-Model' is a protected header",
            f"warning {HEADERS}.remove[0]: 'X-Envoy-Original-Path' is a protected header",
        ),
    ),
    "names that are none": Case(
        backend("httpHeaderMutation: {set: [{name: 'x a'}, {name: ''}], remove: ['a:b', 'é']}"),
        (
            f"fault {HEADERS}.set[0].name: 'x a' is no header name",
            f"fault {HEADERS}.set[1].name: '' is no header name",
            f"fault {HEADERS}.remove[0]: 'a:b' is no header name",
            f"fault {HEADERS}.remove[1]: 'é' is no header name",
        ),
    ),
    "values with line breaks": Case(
        backend('httpHeaderMutation: {set: [{name: a, value: "x\\r\\ny"}, {name: b, value: "x\\0"}]}'),
        (
            f"fault {HEADERS}.set[0].value: the header's value holds a line break",
            f"fault {HEADERS}.set[1].value: the header's value holds a line break",
        ),
    ),
    "bodies": Case(
        backend(
            "httpBodyMutation: {set: [{path: a, value: text}, {path: b.c, value: '1.5'}, "
            "{path: d.-1, value: '{\"x\": [1]}'}, {path: e, value: '\"q\"'}, {path: f, value: ' true '}, "
            "{path: g, value: ''}, {path: h, value: NaN}], remove: [i.0]}",
        ),
    ),
    "values that look like json": Case(
        backend(
            "httpBodyMutation: {set: [{path: a, value: '{bad}'}, {path: a, value: 1-2}, {path: a, value: '+5'}, "
            "{path: a, value: '007'}, {path: a, value: 2024-01-02}, {path: a, value: '[NaN]'}, "
            "{path: a, value: '\"'}]}",
        ),
        tuple(f"fault {BODY}.set[{number}].value: the value looks like JSON and is none" for number in range(7)),
    ),
    "deeply nested value": Case(
        backend(f"httpBodyMutation: {{set: [{{path: a, value: '{'[' * 5000}{']' * 5000}'}}]}}"),
        (f"fault {BODY}.set[0].value: the value looks like JSON and is none",),
    ),
    "paths": Case(
        backend("httpBodyMutation: {set: [{path: '', value: x}, {path: 'a.*', value: x}], remove: ['', 'a#', 'a\\#']}"),
        (
            f"warning {BODY}.set[0].path: empty",
            f"warning {BODY}.set[1].path: 'a.*' can only replace what is there",
            f"warning {BODY}.remove[0]: empty",
            f"warning {BODY}.remove[1]: 'a#' cannot be removed: cannot delete value from a complex path",
        ),
    ),
}

HOSTS = {
    "hosts": Case("modelsByHost: {api.example.com: [], '*.example.com': [], localhost: [], '10.0.0.1': [], '::1': []}"),
    "upper case": Case(
        "modelsByHost: {API.Example.com: []}",
        ("warning modelsByHost[\"API.Example.com\"]: 'API.Example.com' is compared in lower case",),
    ),
    "two spellings": Case(
        "modelsByHost: {a.com: [], A.com: []}",
        ("warning modelsByHost[\"A.com\"]: 'a.com' is there twice",),
    ),
    "no hosts": Case(
        "modelsByHost: {'*': [], '*.': [], '*foo.com': [], 'a.*.com': [], 'a.com:80': [], 'a b': [], '': [], '.a': []}",
        tuple(
            f'warning modelsByHost["{host}"]: {host!r} matches no host'
            for host in ("*", "*.", "*foo.com", "a.*.com", "a.com:80", "a b", "", ".a")
        ),
    ),
}


def of_schema(schema: str, auth_text: str) -> str:
    return f"version: dev\nbackends: [{{name: b, schema: {{{schema}}}, auth: {{{auth_text}}}}}]\n"


FITS = {
    "a bearer token for Anthropic": Case(
        of_schema("name: Anthropic", "apiKey: {key: k}"),
        (f"warning {AUTH}: apiKey is not what an API of schema Anthropic takes",),
    ),
    "a bearer token for Gemini": Case(
        of_schema("name: GCPVertexAI", "apiKey: {key: k}"),
        (f"warning {AUTH}: apiKey is not what an API of schema GCPVertexAI takes",),
    ),
    "an API key for Bedrock": Case(of_schema("name: AWSBedrock", "apiKey: {key: k}")),
    "an Azure key for Azure": Case(of_schema("name: AzureOpenAI, version: v", "azureAPIKey: {key: k}")),
    "Azure without a version": Case(
        of_schema("name: AzureOpenAI", "azureAPIKey: {key: k}"),
        ("warning backends[0].schema.version: empty: requests go without an api-version of Azure",),
    ),
    "chat only, on OpenAI": Case(of_schema("name: OpenAI, chatOnly: true", "apiKey: {key: k}")),
    "chat only, where responses are always carried": Case(
        of_schema("name: AWSBedrock, chatOnly: true", "apiKey: {key: k}"),
        ("warning backends[0].schema.chatOnly: has no effect: only OpenAI and AzureOpenAI backends",),
    ),
    "any key for an API like OpenAI's": Case(of_schema("name: OpenAI", "anthropicAPIKey: {key: k}")),
}

CASES = COSTS | BACKENDS | FITS | AUTHS | ENTRA | MUTATIONS | HOSTS


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_problems(case):
    decoded = decode(case.text.encode())
    found = [f"{problem.severity} {problem.path}: {problem.message}" for problem in decoded.problems]
    assert len(found) == len(case.problems), found
    for text, expected in zip(sorted(found), sorted(case.problems), strict=True):
        assert text.startswith(expected)
    assert (decoded.config is None) == any(problem.severity == "error" for problem in decoded.problems)
    for problem in decoded.problems:
        assert problem.fix, problem
        assert (problem.backend is not None) == (problem.severity == "fault")


def test_a_fault_names_its_backend():
    decoded = decode(auth("").encode())
    assert [problem.backend for problem in decoded.problems] == ["b"]


def test_names_are_put_right():
    mutation = "httpHeaderMutation: {set: [{name: X-A, value: V}], remove: [Authorization]}"
    config = decode(f"{backend(mutation)}\nmodelsByHost: {{API.Example.com: [{{name: m}}]}}".encode()).config
    (header,) = config.backends[0].http_header_mutation.set
    assert (header.name, header.value.reveal()) == ("x-a", "V")
    assert config.backends[0].http_header_mutation.remove == ("authorization",)
    assert list(config.models_by_host) == ["api.example.com"]


FIXES = {
    "mixed numbers": ("input_tokens * 2", "counters are uint: write 2u for 2"),
    "division": ("input_tokens / output_tokens", "guard the division"),
    "unknown name": ("tokens", "use model, backend, route_name and the six token counters"),
    "double": ("1.5", "convert the result with uint()"),
    "syntax": ("1 +", "write a CEL expression whose result is an integer"),
    "depth": ("-(" * 300 + "0" + ")" * 300, "split the rule by route or model"),
}


@pytest.mark.parametrize(("expression", "fix"), FIXES.values(), ids=FIXES)
def test_what_would_be_right(expression, fix):
    (problem,) = decode(route_cost(f"type: CEL, cel: '{expression}'").encode()).problems
    assert problem.fix.startswith(fix)


def test_the_nearest_known_word_is_offered():
    (problem,) = decode(b"backends: [{name: b, schema: {name: OpenAi}}]").problems
    assert problem.fix == "did you mean OpenAI?"


def test_no_secret_in_any_problem():
    text = backend(
        'auth: {apiKey: {key: "sk-secret\\nx"}}, httpHeaderMutation: {set: [{name: x, value: "sk-secret\\nx"}]}, '
        "httpBodyMutation: {set: [{path: a, value: '{sk-secret}'}]}",
    )
    decoded = decode(text.encode())
    assert len(decoded.problems) == 3
    assert "sk-secret" not in repr(decoded)


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        ("0", True), ("-1.5e+3", True), ("1-2", True), ("+5", True), ("-", True), ("true", True), (" null ", True),
        ('"a"', True), ("{}", True), ("[1]", True), ("\n[1]\n", True),
        ("text", False), ("", False), ("True", False), ("1x", False), (".5", False), ("e5", False),
        ("{", False), ("[}", False),
    ],
)  # fmt: skip
def test_raw_json(value, raw):
    assert is_raw_json(value) is raw
