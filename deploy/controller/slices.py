"""One route compiled alone: its share in the filter configs of its gateways, and everything that is wrong with it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from deploy.controller.closure import CONTROLLER, Closure, closure_in
from deploy.controller.indexes import stranger
from deploy.controller.judging import Judging
from deploy.controller.kinds import Key
from deploy.controller.store import View
from filter_config.model import Config
from filter_config.sources.emit import encode
from filter_config.sources.envoy_ai_gateway.compile_gateways import compile_gateways
from filter_config.sources.envoy_ai_gateway.context import Context, Grants
from filter_config.sources.envoy_ai_gateway.load import Resources
from filter_config.sources.faults import Fault, Faults, Origin
from filter_config.sources.model import Gateway
from filter_config.sources.prune import prune

_PARENT: Final = re.compile(r"spec\.parentRefs\[(\d+)\]\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a route adds to one gateway.

    Attributes:
        gateway: the gateway with this route alone.
        config: its filter config.
        backends: the entries of ``backends`` as they stand in the document; empty for none.
        costs: those of ``llmRequestCosts``.
        models: those of ``models`` by name, the first of each.
    """

    gateway: Gateway
    config: Config
    backends: bytes = field(repr=False)
    costs: bytes = field(repr=False)
    models: dict[str, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A compiled route.

    Attributes:
        shares: by namespace and name of the gateways that admit the route.
        foreign: the places of parents that Envoy Gateway does not serve.
        resources: what it was compiled from.
    """

    shares: dict[tuple[str, str], Share]
    faults: tuple[Fault, ...]
    foreign: frozenset[int]
    resources: Resources = field(compare=False, repr=False)
    grants: Grants = field(compare=False, repr=False)


def compile_slice(view: View, judging: Judging, key: Key, *, version: str, controller: str = CONTROLLER) -> Slice:
    """Compiles a route with its closure."""
    closure = closure_in(view, judging, key, controller)
    faults = Faults()
    resources = judging.load(closure.documents, faults)
    context = Context(resources=resources, grants=Grants(resources), faults=faults)
    shares = {
        (gateway.namespace, gateway.name): _share(gateway, version, faults) for gateway in compile_gateways(context)
    }
    # Found by its name, the HTTPRoute of somebody else would get the credentials of the backends, wherever it leads.
    taken = key.kind == "AIGatewayRoute" and bool(view.found(stranger(key.namespace, key.name)))
    return Slice(
        shares={} if taken else shares,
        faults=tuple(_about_foreign(fault, closure, key) for fault in faults.closed()),
        foreign=frozenset(closure.foreign),
        resources=resources,
        grants=context.grants,
    )


def _share(gateway: Gateway, version: str, faults: Faults) -> Share:
    pruned = prune(gateway, version=version, faults=faults)
    config = pruned.emitted.config
    models: dict[str, bytes] = {}
    for model in config.models:
        models.setdefault(model.name, entries(Config(models=(model,))))
    return Share(
        gateway=pruned.gateway,
        config=config,
        backends=entries(Config(backends=config.backends)),
        costs=entries(Config(llm_request_costs=config.llm_request_costs)),
        models=models,
    )


def entries(config: Config) -> bytes:
    """What stands below the only key of a document; empty when it has none."""
    text = encode(msgspec.structs.replace(config, version="", uuid=""))
    return b"" if text == b"{}\n" else text.split(b"\n", 1)[1]


def _about_foreign(fault: Fault, closure: Closure, key: Key) -> Fault:
    """A Gateway that is somebody else's is there all the same."""
    match = _PARENT.match(fault.origin.path)
    if match is None or _key(fault.origin) != key or int(match[1]) not in closure.foreign:
        return fault
    gateway = closure.foreign[int(match[1])]
    return replace(
        fault,
        message=f"Gateway {gateway.namespace}/{gateway.name} is not served by Envoy Gateway",
        fix="name one whose GatewayClass is",
    )


def _key(origin: Origin) -> Key:
    return Key(origin.kind, origin.namespace, origin.name)
