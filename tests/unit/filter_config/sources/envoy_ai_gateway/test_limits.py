"""How much a resource may hold: entries of lists, and characters of texts (contract, control plane 1)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gateway_resources import (
    AI,
    api_key,
    found,
    header,
    mcp,
    quota,
    resource,
    route,
    rule,
    secured,
    server,
)

REF = "spec.rules[0].backendRefs[0]"
BUCKET = {"limit": 1, "duration": "1h"}
QUOTA = "spec.perModelQuotas[0].quota"
OAUTH = {"issuer": "https://i.example.com", "protectedResourceMetadata": {"resource": "https://r.example.com/mcp"}}
AUTHORIZATION = "spec.securityPolicy.authorization.rules[0].source.jwt"


def many(number: int) -> list[str]:
    return [f"x{index}" for index in range(number)]


def matched(headers: int) -> dict[str, Any]:
    return rule(model=None, matches=[{"headers": [header(name) for name in many(headers)]}])


def mutated(**mutation: Any) -> dict[str, Any]:
    return rule({"name": "b", **mutation})


def with_targets(value: dict[str, Any], number: int) -> dict[str, Any]:
    refs = [{"group": AI, "kind": "AIServiceBackend", "name": name} for name in many(number)]
    return {**value, "spec": {**value["spec"], "targetRefs": refs}}


def per_model(number: int) -> dict[str, Any]:
    entries = [{"modelName": name, "quota": {"defaultBucket": BUCKET}} for name in many(number)]
    return resource(f"{AI}/v1alpha1", "QuotaPolicy", "q", spec={"perModelQuotas": entries})


def selecting(selectors: int, headers: int) -> dict[str, Any]:
    each = {"headers": [{"name": name} for name in many(headers)]}
    return quota(bucketRules=[{"clientSelectors": [each] * selectors, "quota": BUCKET}])


def authorized(**entry: Any) -> dict[str, Any]:
    return secured(oauth=OAUTH, authorization={"rules": [entry]})


def claims(*entries: dict[str, Any], scopes: list[str] | None = None) -> dict[str, Any]:
    return authorized(source={"jwt": {"claims": list(entries), "scopes": scopes or []}})


def claim(number: int) -> dict[str, Any]:
    return {"name": "c", "values": many(number)}


CLIENTS = f"{QUOTA}.bucketRules[0].clientSelectors"
ROUTE_MATCHES = "spec.rules[0].matches"
SERVER = "spec.backendRefs[0]"
# what makes a resource of a number of entries, the path of the list, how many are allowed
LIMITS: dict[str, tuple[Any, str, int]] = {
    "parents": (lambda n: route("r", rule(), parentRefs=[{"name": x} for x in many(n)]), "spec.parentRefs", 16),
    "hostnames": (lambda n: route("r", rule(), hostnames=many(n)), "spec.hostnames", 16),
    "rules": (lambda n: route("r", *[rule()] * n), "spec.rules", 15),
    "backends": (lambda n: route("r", rule(*many(n))), "spec.rules[0].backendRefs", 128),
    "matches": (lambda n: route("r", rule(model=None, matches=[{}] * n)), ROUTE_MATCHES, 128),
    "headers of a match": (lambda n: route("r", matched(n)), f"{ROUTE_MATCHES}[0].headers", 16),
    "headers to set": (
        lambda n: route("r", mutated(headerMutation={"set": [header(x) for x in many(n)]})),
        f"{REF}.headerMutation.set",
        16,
    ),
    "headers to remove": (
        lambda n: route("r", mutated(headerMutation={"remove": many(n)})),
        f"{REF}.headerMutation.remove",
        16,
    ),
    "paths to set": (
        lambda n: route("r", mutated(bodyMutation={"set": [{"path": x, "value": "1"} for x in many(n)]})),
        f"{REF}.bodyMutation.set",
        16,
    ),
    "paths to remove": (
        lambda n: route("r", mutated(bodyMutation={"remove": many(n)})),
        f"{REF}.bodyMutation.remove",
        16,
    ),
    "costs": (
        lambda n: route("r", rule(), llmRequestCosts=[{"metadataKey": x, "type": "TotalToken"} for x in many(n)]),
        "spec.llmRequestCosts",
        36,
    ),
    "targets of a policy": (lambda n: with_targets(api_key("k"), n), "spec.targetRefs", 16),
    "targets of a quota": (lambda n: with_targets(quota(defaultBucket=BUCKET), n), "spec.targetRefs", 16),
    "quotas of models": (per_model, "spec.perModelQuotas", 128),
    "client selectors": (lambda n: selecting(n, 1), CLIENTS, 8),
    "headers of a selector": (lambda n: selecting(1, n), f"{CLIENTS}[0].headers", 64),
    "servers": (lambda n: mcp(*({"name": x, "port": 80} for x in many(n))), "spec.backendRefs", 256),
    "tools": (lambda n: mcp(server(toolSelector={"include": many(n)})), f"{SERVER}.toolSelector.include", 32),
    "forwarded headers": (
        lambda n: mcp(server(forwardHeaders=[{"name": x} for x in many(n)])),
        f"{SERVER}.forwardHeaders",
        32,
    ),
    "audiences": (
        lambda n: secured(oauth={**OAUTH, "audiences": many(n)}),
        "spec.securityPolicy.oauth.audiences",
        32,
    ),
    "claims to headers": (
        lambda n: secured(oauth={**OAUTH, "claimToHeaders": [{"claim": x, "header": x} for x in many(n)]}),
        "spec.securityPolicy.oauth.claimToHeaders",
        16,
    ),
    "rules of authorization": (
        lambda n: secured(authorization={"rules": [{}] * n}),
        "spec.securityPolicy.authorization.rules",
        32,
    ),
    "scopes": (lambda n: claims(claim(1), scopes=many(n)), f"{AUTHORIZATION}.scopes", 16),
    "claims": (lambda n: claims(*[claim(1)] * n), f"{AUTHORIZATION}.claims", 16),
    "values of a claim": (lambda n: claims(claim(n)), f"{AUTHORIZATION}.claims[0].values", 128),
    "tools of a rule": (
        lambda n: authorized(target={"tools": [{"backend": x, "tool": x} for x in many(n)]}),
        "spec.securityPolicy.authorization.rules[0].target.tools",
        16,
    ),
    "rules of a selector": (lambda n: mcp(backendSelector={"rules": [{}] * n}), "spec.backendSelector.rules", 32),
}


def errors(value: Any) -> list[str]:
    return [finding for finding in found(value) if not finding.startswith("warning ")]


@pytest.mark.parametrize(("make", "path", "limit"), LIMITS.values(), ids=LIMITS)
def test_a_list_has_as_many_entries_as_the_crd_allows(make, path, limit):
    assert errors(make(limit)) == []
    assert errors(make(limit + 1)) == [f"{path}: {limit + 1} entries, and at most {limit} are allowed"]


LENGTHS: dict[str, tuple[Any, str, int]] = {
    "a header's name": (lambda t: route("r", mutated(headerMutation={"remove": [], "set": [header(t)]})), "name", 256),
    "the value of a match": (
        lambda t: route("r", rule(model=None, matches=[{"headers": [header("a", t)]}])),
        "value",
        4096,
    ),
    "a hostname": (lambda t: route("r", rule(), hostnames=[t]), "hostnames[0]", 253),
    "a namespace": (lambda t: route("r", rule({"name": "b", "namespace": t})), "namespace", 63),
    "a server's path": (lambda t: mcp(server(path=t)), "path", 1024),
    "an expression of authorization": (lambda t: authorized(cel=t), "cel", 4096),
    "a selected header's value": (
        lambda t: quota(bucketRules=[{"clientSelectors": [{"headers": [{"name": "a", "value": t}]}], "quota": BUCKET}]),
        "value",
        1024,
    ),
}


@pytest.mark.parametrize(("make", "field", "limit"), LENGTHS.values(), ids=LENGTHS)
def test_a_text_has_as_many_characters_as_the_crd_allows(make, field, limit):
    assert errors(make("a" * limit)) == []
    (fault,) = errors(make("a" * (limit + 1)))
    assert fault.endswith(f"{field}: longer than {limit} characters")
