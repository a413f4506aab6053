"""What a well-formed config says that cannot work, or not as meant: all at once (contract, filter config 2.3 to 2.7).

The peer checks little at load and then fails request by request, or refuses a whole config for one backend. Here the
findings are graded: what makes the document meaningless is an error, what breaks one backend is a fault of that
backend, what the peer would do silently is a warning. What can be put right (letter case) is put right: the checks
return the config as it is meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from filter_config.cel import CELError, cost_warnings
from filter_config.checks import check_auth, check_auth_fits, check_body_mutation, check_header_mutation
from filter_config.decode import did_you_mean, shown
from filter_config.model import CostType, SchemaName

if TYPE_CHECKING:
    from enum import StrEnum

    from filter_config.model import Backend, Config, GlobalLLMRequestCost, LLMRequestCost, Model
    from filter_config.problems import Findings

# Keys of the metadata namespace that the processor writes itself (contract, filter config 3.16).
_OWN_KEYS: Final = frozenset(
    (
        "model_name_override",
        "ai_service_backend_name",
        "route_name",
        "response_model",
        "token_latency_ttft",
        "token_latency_itl",
        "content_length",
        "backend_name",
    ),
)
_COST_TYPES: Final = frozenset(CostType)
_SCHEMA_NAMES: Final = frozenset(SchemaName)
_HAS_RESPONSES: Final = (SchemaName.OPENAI, SchemaName.AZURE_OPENAI)


def validate(config: Config, findings: Findings) -> Config:
    """Checks a decoded config and returns it normalised; ``findings`` receives what is wrong.

    A value that could not be read has been reported and is not judged again.
    """
    for index, cost in enumerate(config.global_llm_request_costs):
        _check_cost(cost, f"globalLLMRequestCosts[{index}]", "global cost", findings)
    for index, route_cost in enumerate(config.llm_request_costs):
        at = f"llmRequestCosts[{index}]"
        _check_route(route_cost, at, findings)
        _check_cost(route_cost, at, "cost", findings)
    return msgspec.structs.replace(
        config,
        backends=_backends(config.backends, findings),
        models_by_host=_models_by_host(config.models_by_host, findings),
    )


def _one_of(word: str, known: type[StrEnum]) -> str:
    return did_you_mean(word, tuple(known)) or f"write one of {', '.join(known)}"


# --- costs ---


def _check_route(cost: LLMRequestCost, at: str, findings: Findings) -> None:
    if not cost.route_name and not findings.has_error(f"{at}.routeName"):
        findings.error(
            f"{at}.routeName",
            f'route-scoped LLMRequestCost with metadataKey="{cost.metadata_key}" must have non-empty RouteName',
            "name the route, <namespace>/<name>, or move the rule to globalLLMRequestCosts",
        )


def _check_cost(cost: GlobalLLMRequestCost | LLMRequestCost, at: str, what: str, findings: Findings) -> None:
    _check_metadata_key(cost.metadata_key, f"{at}.metadataKey", findings)
    if cost.type not in _COST_TYPES and not findings.has_error(f"{at}.type"):
        message = f"unknown cost type: {shown(cost.type)}; the rule fails for every request"
        findings.warning(f"{at}.type", message, _one_of(cost.type, CostType))
    if cost.cel:
        _check_expression(cost.cel, f"{at}.cel", what, findings)
    elif cost.type == CostType.CEL and not findings.has_error(f"{at}.cel"):
        findings.error(f"{at}.cel", "type CEL without an expression", "write the expression, such as total_tokens")


def _check_metadata_key(key: str, at: str, findings: Findings) -> None:
    if findings.has_error(at):
        return
    if not key:
        findings.warning(at, "empty: the cost is written under an empty key", "name the key that the rate limit reads")
    elif key in _OWN_KEYS:
        findings.warning(
            at, f"{shown(key)} is a key of the processor itself and overwrites the cost", "choose another key"
        )


def _check_expression(expression: str, at: str, what: str, findings: Findings) -> None:
    try:
        warnings = cost_warnings(expression)
    except CELError as error:
        findings.error(at, f"cannot create CEL program for {what}: {error}", _expression_fix(str(error)))
        return
    for warning in warnings:
        findings.warning(at, warning, "guard it with a condition: a ? b : c")


def _expression_fix(reason: str) -> str:
    if "no matching overload" in reason:
        return "counters are uint: write 2u for 2, or convert with int(), uint(), double()"
    if "by zero" in reason:
        return "guard the division: every counter can be 0"
    if "undeclared reference" in reason:
        return "use model, backend, route_name and the six token counters, with CEL's standard functions"
    if "recursion limit" in reason:
        return "split the rule by route or model; with cel-python installed, 250 levels are read instead of 32"
    if "not an integer" in reason:
        return "convert the result with uint()"
    return "write a CEL expression whose result is an integer and not negative"


# --- backends ---


def _backends(backends: tuple[Backend, ...], findings: Findings) -> tuple[Backend, ...]:
    # Without a name, or with one that could not be read, a backend has its own finding.
    last = {backend.name: index for index, backend in enumerate(backends) if backend.name}
    checked = []
    for index, backend in enumerate(backends):
        at = f"backends[{index}]"
        used = last.get(backend.name, index)
        if used != index:
            findings.warning(
                f"{at}.name",
                f"duplicate backend name {shown(backend.name)}: backends[{used}] is used, not this one",
                "give each backend a name of its own",
            )
        checked.append(_backend(backend, at, findings))
        if used != index:
            # A fault is told by the backend's name, and the name stands for the other one.
            findings.demote(at)
    return tuple(checked)


def _backend(backend: Backend, at: str, findings: Findings) -> Backend:
    if not backend.name and not findings.has_error(f"{at}.name"):
        findings.warning(f"{at}.name", "empty: no request can be sent to this backend", "name the backend")
    _check_schema(backend, at, findings)
    if backend.auth is not None:
        check_auth(backend.auth, f"{at}.auth", backend.name, findings)
        check_auth_fits(backend.auth, backend.schema.name, f"{at}.auth", findings)
    if backend.http_body_mutation is not None:
        check_body_mutation(backend.http_body_mutation, f"{at}.httpBodyMutation", backend.name, findings)
    if backend.http_header_mutation is None:
        return backend
    mutation = check_header_mutation(backend.http_header_mutation, f"{at}.httpHeaderMutation", backend.name, findings)
    return msgspec.structs.replace(backend, http_header_mutation=mutation)


def _check_schema(backend: Backend, at: str, findings: Findings) -> None:
    name = backend.schema.name
    if name == SchemaName.AZURE_OPENAI and not backend.schema.version:
        fix = "give the API version, such as 2024-10-21"
        findings.warning(f"{at}.schema.version", "empty: requests go without an api-version of Azure", fix)
    if backend.schema.chat_only and name not in _HAS_RESPONSES:
        message = f"has no effect: only {' and '.join(_HAS_RESPONSES)} backends are sent responses as they are"
        findings.warning(f"{at}.schema.chatOnly", message, "take it out")
    if name in _SCHEMA_NAMES or findings.has_error(f"{at}.schema.name"):
        return
    message = f"unknown schema {shown(name)}: no request can be translated for this backend"
    findings.warning(f"{at}.schema.name", message, _one_of(name, SchemaName))


# --- models ---


def _models_by_host(by_host: dict[str, tuple[Model, ...]], findings: Findings) -> dict[str, tuple[Model, ...]]:
    """The lists by host in lower case, as request hosts are compared."""
    normalised: dict[str, tuple[Model, ...]] = {}
    for host, models in by_host.items():
        at = f'modelsByHost["{host}"]'
        lower = host.lower()
        if lower in normalised:
            findings.warning(at, f"{shown(lower)} is there twice; the last one is used", "keep one")
        elif lower != host:
            findings.warning(at, f"{shown(host)} is compared in lower case", f"write {lower}")
        if not _is_host(lower):
            message = f"{shown(host)} matches no host"
            findings.warning(at, message, "write a host name without port, or *.<domain> for one more label")
        normalised[lower] = models
    return normalised


def _is_host(host: str) -> bool:
    """Whether a request's host can match: a name, an address, or a wildcard for exactly one label in front."""
    name = host.removeprefix("*.")
    if not name or "*" in name or "/" in name or any(char.isspace() for char in name):
        return False
    # A port is cut off a request's host; an IPv6 address keeps its colons.
    return name.count(":") != 1 and not name.startswith(".")
