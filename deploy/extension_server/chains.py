"""The HTTP filter chains of listeners, and where in them a filter has its place.

The processor's filter stands after all authentication: it answers requests by itself, and reads bodies. What stands
behind it sees the route that the model has led to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from google.protobuf.message import DecodeError

from deploy.envoy import names
from deploy.extension_server.findings import Findings
from deploy.extension_server.names import HTTP_FILTERS, OWN_LISTENERS
from deploy.extension_server.wire import is_packed, pack, replace, unpack
from protos import xds_pb2 as xds

_AUTHENTICATION: Final = tuple(
    HTTP_FILTERS + kind for kind in ("api_key_auth", "basic_auth", "ext_authz", "jwt_authn", "oauth2")
)
# `custom_response` is none of them: Envoy Gateway puts it first in the chain, before all authentication.
_BEFORE: Final = tuple(
    HTTP_FILTERS + kind
    for kind in (
        "ext_proc",
        "wasm",
        "lua",
        "rbac",
        "local_ratelimit",
        "ratelimit",
        "credential_injector",
        "compressor",
        "router",
    )
)
_BUFFER: Final = f"{HTTP_FILTERS}buffer"


@dataclass(slots=True, kw_only=True)
class Chain:
    """An HTTP connection manager of a listener. Changes reach the listener with ``save``."""

    listener: xds.Listener
    manager: xds.HttpConnectionManager
    _packed: xds.Filter
    changed: bool = field(default=False)

    @property
    def filter_names(self) -> list[str]:
        """The names of the HTTP filters, in order."""
        return [present.name for present in self.manager.http_filters]

    @property
    def route_config(self) -> str:
        """The name of the route configuration that the chain uses; empty: none of its own name."""
        kind = self.manager.WhichOneof("route_specifier")
        return self.manager.rds.route_config_name if kind == "rds" else self.manager.route_config.name

    def insert(self, index: int, added: Iterable[xds.HttpFilter]) -> None:
        """Put filters before the one at ``index``."""
        before = list(self.manager.http_filters)
        self.set_filters([*before[:index], *added, *before[index:]])

    def insert_before_router(self, added: Iterable[xds.HttpFilter]) -> bool:
        """Put those that are not there before the router; whether there is one."""
        present = set(self.filter_names)
        missing = [each for each in added if each.name not in present]
        index = router_index(self.manager.http_filters)
        if index is not None and missing:
            self.insert(index, missing)
        return index is not None

    def set_filters(self, wanted: Sequence[xds.HttpFilter]) -> None:
        """Put other filters in the place of all."""
        replace(self.manager.http_filters, wanted)
        self.changed = True

    def save(self) -> None:
        """Write a changed manager back."""
        if self.changed:
            self._packed.typed_config.CopyFrom(pack(self.manager))
            self.changed = False


def http_chains(listeners: Iterable[xds.Listener], findings: Findings) -> list[Chain]:
    """The HTTP chains of listeners that serve clients; a chain of anything else, TCP for instance, is none."""
    return [
        chain
        for listener in listeners
        if not listener.name.startswith(OWN_LISTENERS)
        for chain in _of_listener(listener, findings)
    ]


def _of_listener(listener: xds.Listener, findings: Findings) -> Iterator[Chain]:
    chains = list(listener.filter_chains)
    if listener.HasField("default_filter_chain"):
        chains.append(listener.default_filter_chain)
    for chain in chains:
        for packed in chain.filters:
            try:
                manager = unpack(packed.typed_config, xds.HttpConnectionManager)
            except DecodeError:
                findings.add(f"listener {listener.name}", f"chain {chain.name}: its HTTP connection manager is broken")
                continue
            if manager is not None:
                yield Chain(listener=listener, manager=manager, _packed=packed)


def router_index(present: Sequence[xds.HttpFilter]) -> int | None:
    """The place of the router."""
    for index, each in enumerate(present):
        if is_packed(each.typed_config, xds.Router) or each.name == names.ROUTER_FILTER:
            return index
    return None


def processor_index(filter_names: Sequence[str]) -> int | None:
    """The place of the processor's filter; None when the chain has no router, which no chain can do without."""
    if not any(name.startswith(names.ROUTER_FILTER) for name in filter_names):
        return None
    index = next(place for place, name in enumerate(filter_names) if name.startswith(_BEFORE))
    # A buffer filter bounds what is buffered, wherever it stands.
    index = max(index, _after_last(filter_names, (_BUFFER,)), _after_last(filter_names, _AUTHENTICATION))
    return min(index, _router(filter_names))


def _after_last(filter_names: Sequence[str], kinds: tuple[str, ...]) -> int:
    return max((place + 1 for place, name in enumerate(filter_names) if name.startswith(kinds)), default=0)


def _router(filter_names: Sequence[str]) -> int:
    return next(place for place, name in enumerate(filter_names) if name.startswith(names.ROUTER_FILTER))


def add_processor(chain: Chain, added: xds.HttpFilter) -> bool:
    """Put the processor's filter into a chain, unless it is there; whether there is a place for it."""
    if names.EXT_PROC_FILTER not in chain.filter_names:
        index = processor_index(chain.filter_names)
        if index is None:
            return False
        chain.insert(index, [added])
    if not chain.manager.scheme_header_transformation.match_upstream:
        chain.manager.scheme_header_transformation.match_upstream = True
        chain.changed = True
    return True


def note_headers(chain: Chain, attributes: Sequence[tuple[str, str]]) -> bool:
    """Note headers of requests in metadata, where the chain does not note them already; whether there is a router.

    Raises:
        DecodeError: the filter that notes headers is broken.
    """
    for present in chain.manager.http_filters:
        if present.name == names.HEADER_TO_METADATA_FILTER:
            config = unpack(present.typed_config, xds.HeaderToMetadata)
            if config is not None and _add_rules(config, attributes):
                present.typed_config.CopyFrom(pack(config))
                chain.changed = True
            return True
    config = xds.HeaderToMetadata()
    _add_rules(config, attributes)
    return chain.insert_before_router([header_to_metadata(config)])


def header_to_metadata(config: xds.HeaderToMetadata) -> xds.HttpFilter:
    """The filter that notes headers."""
    return xds.HttpFilter(name=names.HEADER_TO_METADATA_FILTER, typed_config=pack(config))


def _add_rules(config: xds.HeaderToMetadata, attributes: Sequence[tuple[str, str]]) -> bool:
    known = {rule.header.lower() for rule in config.request_rules}
    new = {header.lower(): key for header, key in attributes if header.lower() not in known}
    config.request_rules.extend(header_rule(header, key) for header, key in sorted(new.items()))
    return bool(new)


def header_rule(header: str, key: str, *, remove: bool = False) -> xds.HeaderRule:
    """A header whose value goes into the processor's dynamic metadata."""
    target = xds.HeaderTarget(metadata_namespace=names.DYNAMIC_NAMESPACE, key=key)
    return xds.HeaderRule(header=header, on_header_present=target, remove=remove)
