"""The neutral model to the filter config: the document, its bytes, and the pieces it is shipped in.

The document is a function of the model alone: no clock, no random id. Its ``uuid`` is a hash of its content, so that
unchanged input gives unchanged bytes and a processor that compares them has nothing to reload (contract, control plane
2.2 to 2.4 and 2.10).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from filter_config import model as document
from filter_config.bundle import MAX_PARTS, split, write_bundle
from filter_config.redact import Secret
from filter_config.sources import block_yaml
from filter_config.sources.model_lists import model_lists

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from filter_config.sources.model import MCP, Backend, Cost, Gateway, Model, Route

MAX_OBJECT_NAME: Final = 253
"""Longest name of a Kubernetes object."""

# Fields that are written even when they are empty (contract, control plane 2.2).
_ALWAYS: Final[dict[type[msgspec.Struct], frozenset[str]]] = {
    document.Backend: frozenset({"name", "model_name_override", "schema"}),
    document.CredentialOverride: frozenset({"fallback_to_configured"}),
    document.GCPAuth: frozenset({"access_token"}),
    document.Model: frozenset({"name", "owned_by", "created_at"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """A config and, in the same order, what its entries were made of."""

    config: document.Config
    backends: tuple[Backend, ...]
    route_costs: tuple[Cost, ...]
    costs: tuple[Cost, ...]


def emit(gateway: Gateway, *, version: str, unserved: bool = False) -> Emitted:
    """The filter config of a gateway, which a processor of this version takes.

    Args:
        gateway: the model.
        version: the processor's version.
        unserved: include the costs of routes that have no backend, which never apply, so that they can be judged.
    """
    served = [route for route in gateway.routes if unserved or route.has_backend]
    backends = tuple(backend for route in served for rule in route.rules for backend in rule.backends)
    route_costs = [(route, cost) for route in served for cost in route.costs]
    config = document.Config(
        version=version,
        global_llm_request_costs=tuple(_global_cost(cost) for cost in gateway.costs),
        llm_request_costs=tuple(_route_cost(route, cost) for route, cost in route_costs),
        backends=tuple(_backend(backend) for backend in backends),
        mcp_config=mcp_config(gateway.mcp),
        **_models(served),
    )
    return Emitted(
        config=msgspec.structs.replace(config, uuid=_digest(config)),
        backends=backends,
        route_costs=tuple(cost for _, cost in route_costs),
        costs=gateway.costs,
    )


def _digest(config: document.Config) -> str:
    return hashlib.sha256(msgspec.json.encode(_plain(config), order="deterministic")).hexdigest()


# --- models ---


def _models(routes: Iterable[Route]) -> dict[str, Any]:
    lists = model_lists((route.hostnames, ((model.name, model) for model in _listed(route))) for route in routes)
    if not lists.by_host:
        return {"models": _list(lists.everywhere)}
    return {
        "models": _list(lists.everywhere),
        "models_by_host": {host: _list(models) for host, models in lists.by_host.items()},
        "unscoped_models": _list(lists.unscoped),
    }


def _listed(route: Route) -> list[Model]:
    return [model for rule in route.rules if rule.backends for model in rule.models]


def _list(models: dict[str, Model]) -> tuple[document.Model, ...]:
    return tuple(
        document.Model(name=model.name, owned_by=model.owned_by, created_at=model.created_at)
        for model in models.values()
    )


# --- costs and backends ---


def _global_cost(cost: Cost) -> document.GlobalLLMRequestCost:
    return document.GlobalLLMRequestCost(metadata_key=cost.key, type=cost.type, cel=cost.expression)


def _route_cost(route: Route, cost: Cost) -> document.LLMRequestCost:
    return document.LLMRequestCost(
        metadata_key=cost.key,
        type=cost.type,
        cel=cost.expression,
        route_name=route.id,
        backend=cost.backend,
        model=cost.model,
    )


def _backend(backend: Backend) -> document.Backend:
    schema = backend.schema
    return document.Backend(
        name=backend.id,
        model_name_override=backend.model_override,
        schema=document.VersionedAPISchema(name=schema.name, version=schema.version, prefix=schema.prefix),
        auth=backend.auth,
        http_header_mutation=backend.header_mutation,
        http_body_mutation=backend.body_mutation,
    )


def mcp_config(mcp: MCP | None) -> document.MCPConfig | None:
    """What the processor's MCP proxy is told; None where there is nothing for it."""
    if mcp is None:
        return None
    return document.MCPConfig(backend_listener_addr=mcp.backend_listener, routes=mcp.routes)


# --- bytes ---


def encode(config: document.Config) -> bytes:
    """The document as YAML, secrets in clear: for the processor's eyes only."""
    return block_yaml.dump(_plain(config))


def _plain(value: msgspec.Struct) -> dict[str, Any]:
    always = _ALWAYS.get(type(value), frozenset())
    given: dict[str, Any] = {}
    for attribute, key in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        item = getattr(value, attribute)
        if item or attribute in always:
            given[key] = _plain_value(item)
    return given


def _plain_value(value: Any) -> Any:  # noqa: ANN401 - any field of the document, and its builtin
    match value:
        case str() | bool() | int():
            return value
        case Secret():
            return value.reveal()
        case tuple():
            return [_plain_value(item) for item in value]
        case dict():
            return {key: _plain_value(item) for key, item in value.items()}
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case msgspec.Struct():
            return _plain(value)
        case _:
            raise TypeError(f"no field of the document is a {type(value).__name__}")


# --- pieces ---


def write(directory: Path, config: document.Config) -> None:
    """Writes the bundle of a config into a directory, see :func:`filter_config.bundle.write_bundle`.

    Raises:
        ValueError: the document needs more parts than a bundle has.
    """
    write_bundle(directory, encode(config), config.version, config.uuid)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectNames:
    """Names of the Secrets that carry the config of a gateway (contract, control plane 2.10)."""

    index: str
    parts: tuple[str, ...]
    """A name for each slot that a volume projects, used or not."""
    legacy: str
    """The single Secret that older processors read; empty where the name would be too long."""


def object_names(namespace: str, name: str) -> ObjectNames:
    """The names for a gateway. A hash tells gateways apart whose names and namespaces join to the same text."""
    digest = hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()[:12]
    base = f"{name}-{namespace}".strip("-")
    suffixes = tuple(f"-part-{number:03d}" for number in range(MAX_PARTS))
    return ObjectNames(
        index=_joined(base, digest, ""),
        parts=tuple(_joined(base, digest, suffix) for suffix in suffixes),
        legacy=f"{name}-{namespace}" if len(f"{name}-{namespace}") <= MAX_OBJECT_NAME else "",
    )


def _joined(base: str, digest: str, suffix: str) -> str:
    room = MAX_OBJECT_NAME - len(digest) - len(suffix) - 1
    kept = base[:room].strip("-") if len(base) > room else base
    return f"{kept}-{digest}{suffix}" if kept else f"{digest}{suffix}"


def parts(config: document.Config) -> Iterator[bytes]:
    """The document in the pieces that the Secrets of :func:`object_names` hold, in order.

    Raises:
        ValueError: there are more pieces than Secrets.
    """
    pieces = split(encode(config))
    if len(pieces) > MAX_PARTS:
        raise ValueError(f"the filter config takes {len(pieces)} parts of a bundle that has {MAX_PARTS}")
    return iter(pieces)
