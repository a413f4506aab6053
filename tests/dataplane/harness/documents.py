"""Filter configs and routes in few words, with names that agree because one is derived from the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deploy.envoy.model import Backend, Retry, Route, Rule, SocketAddress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from deploy.envoy.model import TokenBudget
    from tests.dataplane.harness.upstream import StrictUpstream

OPENAI = {"name": "OpenAI", "prefix": "v1"}


def rule(*upstreams: StrictUpstream, models: Sequence[str], retry: Retry | None = None, **fields: Any) -> Rule:
    """A rule over upstreams, the first with priority 0, the next with priority 1, and so on."""
    backends = tuple(
        Backend(
            name=upstream.name,
            address=SocketAddress(host="127.0.0.1", port=upstream.port),
            hostname=f"{upstream.name}.test",
            priority=priority,
        )
        for priority, upstream in enumerate(upstreams)
    )
    return Rule(backends=backends, models=tuple(models), retry=retry, **fields)


def route(*rules: Rule, name: str = "llm", budgets: tuple[TokenBudget, ...] = (), **fields: Any) -> Route:
    return Route(name=name, rules=rules, budgets=budgets, **fields)


def backend(
    name: str, *, model: str = "", key: str | None = None, schema: Mapping[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    """A backend of the filter config, by the name that the route gives it."""
    entry: dict[str, Any] = {"name": name, "modelNameOverride": model, "schema": dict(schema or OPENAI), **fields}
    if key is not None:
        entry["auth"] = {"apiKey": {"key": key}}
    return entry


def filter_config(*backends: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {"version": "dev", "backends": [dict(entry) for entry in backends], **fields}


def cost(key: str, kind: str = "TotalToken", cel: str | None = None) -> dict[str, str]:
    """A cost rule; with an expression, a CEL one."""
    return {"metadataKey": key, "type": kind} if cel is None else {"metadataKey": key, "type": "CEL", "cel": cel}
