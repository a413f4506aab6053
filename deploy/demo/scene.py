"""What the demo shows, as data: the gateway, the filter config that belongs to it, and the budgets.

One model that clients know, two backends that know it under names of their own, a cost rule, and two budgets: one that
nobody uses up, and Carol's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from deploy.envoy.model import (
    AccessLog,
    Backend,
    Gateway,
    HeaderDescriptor,
    Listener,
    PipeAddress,
    Processor,
    RateLimitService,
    Retry,
    Route,
    Rule,
    SocketAddress,
    TokenBudget,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CHAT_MODEL: Final = "gpt-demo"
EMBEDDING_MODEL: Final = "embed-demo"
DOMAIN: Final = "llm-demo"
COST_KEY: Final = "llm_cost"
COST_RULE: Final = "input_tokens + 3u * output_tokens"
CAROLS_BUDGET: Final = 100

ALPHA_MODEL: Final = "alpha-large-v2"
ALPHA_MODEL_AFTER_EDIT: Final = "alpha-mini-v3"
BETA_MODEL: Final = "beta-70b"
ALPHA_KEY: Final = "alpha-demo-key-1"
BETA_KEY: Final = "beta-demo-key-2"

_COSTS: Final = (
    {"metadataKey": "llm_input_token", "type": "InputToken"},
    {"metadataKey": "llm_output_token", "type": "OutputToken"},
    {"metadataKey": "llm_total_token", "type": "TotalToken"},
    {"metadataKey": COST_KEY, "type": "CEL", "cel": COST_RULE},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the parts of the demo are."""

    alpha: SocketAddress
    beta: SocketAddress
    rate_limit: SocketAddress
    processor: PipeAddress | SocketAddress
    listener: SocketAddress
    admin: SocketAddress | None
    access_log: Path | str


def route(place: Place) -> Route:
    alpha = Backend(name="alpha", address=place.alpha)
    beta = Backend(name="beta", address=place.beta, priority=1)
    return Route(
        name="llm",
        namespace="demo",
        rules=(
            Rule(models=(CHAT_MODEL,), backends=(alpha, beta), retry=Retry(attempts=2)),
            Rule(models=(EMBEDDING_MODEL,), backends=(Backend(name="beta", address=place.beta),)),
        ),
        budgets=(TokenBudget(descriptors=(HeaderDescriptor(header="x-user-id", key="user"),), cost_key=COST_KEY),),
    )


def gateway(place: Place) -> Gateway:
    return Gateway(
        listener=Listener(address=place.listener, trust_request_id=True, exclusive=True),
        routes=(route(place),),
        processor=Processor(address=place.processor),
        rate_limit=RateLimitService(address=place.rate_limit, domain=DOMAIN),
        access_log=AccessLog(path=str(place.access_log), cost_keys=tuple(rule["metadataKey"] for rule in _COSTS)),
        admin=place.admin,
    )


def filter_config(place: Place, *, alpha_model: str = ALPHA_MODEL) -> dict[str, Any]:
    """The filter config whose backends are those of ``gateway``, under the very names that the gateway gives them."""
    there = route(place)
    return {
        "version": "dev",
        "uuid": f"demo-{alpha_model}",
        "backends": [
            _backend(there.backend_name(0, 0), alpha_model, ALPHA_KEY),
            _backend(there.backend_name(0, 1), BETA_MODEL, BETA_KEY),
            _backend(there.backend_name(1, 0), "beta-embed", BETA_KEY),
        ],
        "globalLLMRequestCosts": [dict(rule) for rule in _COSTS],
        "models": [
            {"Name": name, "OwnedBy": "demo", "CreatedAt": "2026-01-01T00:00:00Z"}
            for name in (CHAT_MODEL, EMBEDDING_MODEL)
        ],
    }


def budgets() -> dict[str, Any]:
    """Budgets in the file format of envoyproxy/ratelimit."""
    return {
        "domain": DOMAIN,
        "descriptors": [
            _budget(CAROLS_BUDGET, value="carol"),
            _budget(1_000_000),
        ],
    }


def _budget(amount: int, **value: str) -> dict[str, Any]:
    return {"key": "user", **value, "rate_limit": {"unit": "hour", "requests_per_unit": amount}}


def _backend(name: str, model: str, key: str) -> Mapping[str, Any]:
    return {
        "name": name,
        "modelNameOverride": model,
        "schema": {"name": "OpenAI", "prefix": "v1", "chatOnly": True},
        "auth": {"apiKey": {"key": key}},
    }
