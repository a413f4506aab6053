"""The closure of a route in a cluster, where certificates, TLS towards backends and retries are Envoy Gateway's.

See :mod:`filter_config.sources.envoy_ai_gateway.closure`. What is Envoy Gateway's alone is not watched or has no marks
in the store, so that the walk does not find it; Gateways are, and are given as far as they are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from deploy.controller.judging import Judging
from deploy.controller.store import Entry, View
from filter_config.sources.envoy_ai_gateway.closure import Documents, closure_of, gateways_of
from filter_config.sources.envoy_ai_gateway.documents import Document
from filter_config.sources.envoy_ai_gateway.marks import Key
from filter_config.sources.envoy_ai_gateway.mcp_resources import MCPRoute
from filter_config.sources.envoy_ai_gateway.resources import AIGatewayRoute
from filter_config.sources.graph import Mark

CONTROLLER: Final = "gateway.envoyproxy.io/gatewayclass-controller"
"""Name by which GatewayClasses are Envoy Gateway's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closure:
    """The documents of a route.

    Attributes:
        foreign: parents that are Gateways of somebody else, by their places in ``spec.parentRefs``.
    """

    documents: tuple[Document, ...]
    foreign: dict[int, Key]


def closure_in(view: View, judging: Judging, key: Key, controller: str = CONTROLLER) -> Closure:
    """The closure of an AIGatewayRoute or MCPRoute; empty when there is none of that name."""
    finder = _Finder(view, judging, controller)
    found = closure_of(key, finder)
    foreign = {
        place: gateway
        for document in found.get(key, ())
        if isinstance(route := judging.read(document), AIGatewayRoute | MCPRoute)
        for place, gateway in enumerate(gateways_of(route, key.namespace))
        if gateway in finder.foreign
    }
    return Closure(documents=tuple(document for there in found.values() for document in there), foreign=foreign)


class _Finder:
    """Documents of the store.

    Attributes:
        foreign: Gateways of somebody else that were asked for. Here they are not found.
    """

    def __init__(self, view: View, judging: Judging, controller: str) -> None:
        self._view = view
        self._judging = judging
        self._controller = controller
        self.foreign: set[Key] = set()

    def documents(self, key: Key) -> Documents:
        entry = self._view.get(*key)
        if entry is None:
            return ()
        if key.kind != "Gateway":
            return (entry.document,)
        if is_ours(self._view, entry, self._controller):
            return (_without_tls(entry.document),)
        self.foreign.add(key)
        return ()

    def found(self, mark: Mark) -> list[Key]:
        return [entry.key for entry in self._view.found(mark)]

    def resource(self, document: Document) -> msgspec.Struct | None:
        return self._judging.read(document)


def is_ours(view: View, gateway: Entry, controller: str = CONTROLLER) -> bool:
    """Whether Envoy Gateway serves a Gateway; one whose class is not there is served by nobody."""
    spec = gateway.value.get("spec") or {}
    found = view.get("GatewayClass", "", str(spec.get("gatewayClassName") or ""))
    return found is not None and (found.value.get("spec") or {}).get("controllerName") == controller


def _without_tls(gateway: Document) -> Document:
    """A Gateway without its certificates, which are Envoy Gateway's to read and to judge."""
    value = gateway.value
    assert isinstance(value, dict)
    listeners = (value.get("spec") or {}).get("listeners")
    if not isinstance(listeners, list) or not any(isinstance(item, dict) and "tls" in item for item in listeners):
        return gateway
    kept = [
        {name: part for name, part in item.items() if name != "tls"} if isinstance(item, dict) else item
        for item in listeners
    ]
    return Document(file="", line=0, value={**value, "spec": {**value["spec"], "listeners": kept}})
