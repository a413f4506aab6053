"""The shares of routes to the filter config of a gateway: the document that the compiler would have written.

The routes of a gateway share nothing but the lists of models, so what each has written once is only put in order. The
uuid is a hash of everything else in the document: unchanged input gives unchanged bytes, whoever wrote them and when.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from deploy.controller.slices import Share, entries
from filter_config.model import Config, MCPConfig
from filter_config.sources import block_yaml
from filter_config.sources.model import MCP, Gateway


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """A gateway with all its routes.

    Attributes:
        model: for those who configure Envoy.
        payload: the filter config, credentials in clear.
        uuid: a hash of it.
    """

    model: Gateway
    payload: bytes = field(repr=False)
    uuid: str


def assemble(shares: Sequence[Share], *, version: str) -> Assembled:
    """The gateway of some shares, which are in order of precedence and at least one."""
    first = shares[0]
    routes = tuple(route for share in shares for route in share.gateway.routes)
    mcp = _mcp(shares)
    model = replace(first.gateway, routes=routes, mcp=mcp)
    sections = {
        "backends": b"".join(share.backends for share in shares),
        "globalLLMRequestCosts": entries(
            Config(global_llm_request_costs=first.config.global_llm_request_costs),
        ),
        "llmRequestCosts": b"".join(share.costs for share in shares),
        "mcpConfig": entries(Config(mcp_config=_mcp_config(mcp))),
        **_models(shares),
    }
    written = [f"{name}:\n".encode() + text for name, text in sorted(sections.items()) if text]
    tail = block_yaml.dump({"version": version}) if version else b""
    digest = hashlib.sha256()
    for text in (*written, tail):
        digest.update(text)
    uuid = digest.hexdigest()
    return Assembled(model=model, payload=b"".join((*written, block_yaml.dump({"uuid": uuid}), tail)), uuid=uuid)


def _mcp(shares: Sequence[Share]) -> MCP | None:
    parts = [share.gateway.mcp for share in shares if share.gateway.mcp is not None]
    if not parts:
        return None
    return replace(parts[0], routes=tuple(route for part in parts for route in part.routes))


def _mcp_config(mcp: MCP | None) -> MCPConfig | None:
    return None if mcp is None else MCPConfig(backend_listener_addr=mcp.backend_listener, routes=mcp.routes)


def _models(shares: Sequence[Share]) -> dict[str, bytes]:
    """The lists of models, see :mod:`filter_config.sources.emit`; of one name the first counts, in each."""
    everywhere: dict[str, bytes] = {}
    unscoped: dict[str, bytes] = {}
    by_host: dict[str, dict[str, bytes]] = {}
    for share in shares:
        hosts = [host for route in share.gateway.routes for host in route.hostnames]
        lists = [by_host.setdefault(host, {}) for host in hosts if share.models] if hosts else [unscoped]
        for name, text in share.models.items():
            for models in (everywhere, *lists):
                models.setdefault(name, text)
    sections = {"models": _text(everywhere)}
    if by_host:
        sections["modelsByHost"] = b"".join(
            _host(host) + _indented(_text(_joined(models, unscoped))) for host, models in sorted(by_host.items())
        )
        sections["unscopedModels"] = _text(unscoped)
    return sections


def _joined(models: dict[str, bytes], unscoped: dict[str, bytes]) -> dict[str, bytes]:
    """The models of a host, its own before those of routes for every host."""
    return {**models, **{name: text for name, text in unscoped.items() if name not in models}}


def _text(models: Mapping[str, bytes]) -> bytes:
    return b"".join(models.values())


def _host(host: str) -> bytes:
    return b"  " + block_yaml.dump({host: 0}).removesuffix(b" 0\n") + b"\n"


def _indented(text: bytes) -> bytes:
    return b"".join(b"  " + line for line in text.splitlines(keepends=True))
