"""The shares of routes to the filter config of a gateway: the document that the compiler would have written.

The routes of a gateway share nothing but the lists of models, so what each has written once is only put in order. The
uuid is a hash of everything else in the document: unchanged input gives unchanged bytes, whoever wrote them and when.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deploy.controller.slices import Share, entries
from filter_config.model import Config
from filter_config.sources import block_yaml
from filter_config.sources.emit import mcp_config
from filter_config.sources.model import Gateway, join
from filter_config.sources.model_lists import model_lists


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
    model = join([share.gateway for share in shares])
    sections = {
        "backends": b"".join(share.backends for share in shares),
        "globalLLMRequestCosts": entries(
            Config(global_llm_request_costs=first.config.global_llm_request_costs),
        ),
        "llmRequestCosts": b"".join(share.costs for share in shares),
        "mcpConfig": entries(Config(mcp_config=mcp_config(model.mcp))),
        **_models(shares),
    }
    written = [f"{name}:\n".encode() + text for name, text in sorted(sections.items()) if text]
    tail = block_yaml.dump({"version": version}) if version else b""
    digest = hashlib.sha256()
    for text in (*written, tail):
        digest.update(text)
    uuid = digest.hexdigest()
    return Assembled(model=model, payload=b"".join((*written, block_yaml.dump({"uuid": uuid}), tail)), uuid=uuid)


def _models(shares: Sequence[Share]) -> dict[str, bytes]:
    lists = model_lists(
        ([host for route in share.gateway.routes for host in route.hostnames], share.models.items()) for share in shares
    )
    sections = {"models": _text(lists.everywhere)}
    if lists.by_host:
        sections["modelsByHost"] = b"".join(
            _host(host) + _indented(_text(models)) for host, models in sorted(lists.by_host.items())
        )
        sections["unscopedModels"] = _text(lists.unscoped)
    return sections


def _text(models: Mapping[str, bytes]) -> bytes:
    return b"".join(models.values())


def _host(host: str) -> bytes:
    return b"  " + block_yaml.dump({host: 0}).removesuffix(b" 0\n") + b"\n"


def _indented(text: bytes) -> bytes:
    return b"".join(b"  " + line for line in text.splitlines(keepends=True))
