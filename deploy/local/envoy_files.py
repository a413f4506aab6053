"""The files that an Envoy reads again when they change, made anew in milliseconds.

``deploy.envoy`` builds each resource of complete types, which takes tens of milliseconds for one. Resources of one
shape differ in names only, so each shape is built once, with marks in the places of names, and filled in as often as it
is needed; and what a route has been made into is kept as long as the route stays. What a frame of documents has beside
clusters and routes does not change with them, and is kept as it is.

Clusters and routes are protobuf's own bytes, which Envoy reads in a third of the time that it takes to read JSON, and
of YAML in far less. Each file is watched by itself: a route that changes is no reason to read all clusters again.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.envoy import dynamic
from deploy.envoy.clusters import rule_cluster
from deploy.envoy.model import (
    Address,
    Backend,
    Gateway,
    HeaderMatch,
    Listener,
    Match,
    Place,
    Route,
    Rule,
    SocketAddress,
    VirtualHost,
)
from deploy.envoy.routes import route_configuration
from deploy.local import patterns
from deploy.local.patterns import Pattern

BOOTSTRAP: Final = "bootstrap.json"
CLUSTERS: Final = "cds.pb"

_NAMESPACE: Final = "zq-namespace-qz"
_NAME: Final = "zq-name-qz"
_BACKEND: Final = "zq-backend-{}-qz"
_HOST: Final = "zq-host-{}-qz"
_VALUE: Final = "zq-value-{}-qz"
_MARKED: Final = Route(namespace=_NAMESPACE, name=_NAME, rules=(Rule(backends=(), number=0),))
_CLUSTER: Final = _MARKED.cluster_name(0)
_ENTRY: Final = f"{_CLUSTER}/match/0"
# The longer first: names contain each other.
_MARKS: Final = re.compile(f"{_ENTRY}|{_CLUSTER}|{_MARKED.full_name}|zq-(?:backend|host|value)-[0-9]+-qz".encode())
_MOST_PATTERNS: Final = 10_000
_VERSION: Final = re.compile(rb"(?:\{\"version_info\": \"|\n\x10)([0-9a-f]{16})")
_FIRST: Final = Place(route=0, rule=0, match=0)
_TYPE: Final = "type.googleapis.com/envoy.config.{}"
_CLUSTER_TYPE: Final = _TYPE.format("cluster.v3.Cluster")
_ROUTES_TYPE: Final = _TYPE.format("route.v3.RouteConfiguration")

# Numbers of fields: of a response, of a packed message, and of what has routes.
_VERSION_INFO: Final = 1
_RESOURCES: Final = 2
_TYPE_URL: Final = 4
_PACKED_TYPE: Final = 1
_PACKED_VALUE: Final = 2
_VIRTUAL_HOSTS: Final = 2
_HOST_ROUTES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """The documents without what there is much of.

    Attributes:
        bare: what they were made of.
        documents: by file; clusters and routes are empty.
        routes: the routes of each listener, by file.
    """

    bare: Gateway
    documents: Mapping[str, bytes]
    routes: Mapping[str, _RoutesFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class _RoutesFrame:
    """A route configuration without its virtual hosts, and each of these without its routes, and its last ones."""

    configuration: bytes
    hosts: tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """What a route was made into.

    Attributes:
        route: held, so that no other one can come to have its identity.
        clusters: fields of a response.
        entries: fields of a virtual host, by rule and match, as far as they were asked for.
    """

    route: Route
    clusters: bytes
    entries: dict[tuple[int, int], bytes] = field(default_factory=dict)


class EnvoyFiles:
    """The documents of one Envoy, whose directory is ``directory``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._patterns: dict[Hashable, Pattern] = {}
        self._frame: _Frame | None = None
        self._services: Hashable = None
        self._known: dict[int, _Made] = {}
        self._used: dict[int, _Made] = {}

    def documents(self, gateway: Gateway) -> dict[str, bytes]:
        """The documents of ``deploy.envoy.dynamic``, in the order in which they must be written."""
        services = (gateway.processor, gateway.rate_limit, gateway.buffer_limit)
        if services != self._services:
            self._services, self._known, self._patterns = services, {}, {}
        if len(self._patterns) > _MOST_PATTERNS:
            self._patterns = {}
        frame = self._framed(gateway)
        made = dict(frame.documents)
        clusters = b"".join(self._made(gateway, route).clusters for route in gateway.routes)
        made[CLUSTERS] = _response(_CLUSTER_TYPE, clusters)
        for listener, (file, routes) in zip(gateway.listeners, frame.routes.items(), strict=True):
            made[file] = _response(_ROUTES_TYPE, _resource(_ROUTES_TYPE, self._routes(routes, gateway, listener)))
        self._known, self._used = self._used, {}
        return made

    def _framed(self, gateway: Gateway) -> _Frame:
        bare = _without_routes(gateway)
        if self._frame is None or self._frame.bare != bare:
            documents = dynamic.documents(bare, self._directory)
            files = {name: _file_name(name) for name in documents}
            paths = {str(self._directory.absolute() / name): file for name, file in files.items()}
            listeners = [file for name, file in files.items() if name.startswith("rds-")]
            self._frame = _Frame(
                bare=bare,
                documents={
                    file: b"" if file.endswith(".pb") else _json(_each_watched(yaml.safe_load(documents[name]), paths))
                    for name, file in files.items()
                },
                routes={
                    file: _routes_frame(bare, listener)
                    for file, listener in zip(listeners, bare.listeners, strict=True)
                },
            )
        return self._frame

    def _made(self, gateway: Gateway, route: Route) -> _Made:
        made = self._used.get(id(route)) or self._known.get(id(route))
        if made is None:
            clusters = (
                _resource(_CLUSTER_TYPE, self._cluster(gateway, route, index))
                for index, rule in enumerate(route.rules)
                if rule.answer is None
            )
            made = _Made(route=route, clusters=b"".join(clusters))
        self._used[id(route)] = made
        return made

    # --- clusters ---

    def _cluster(self, gateway: Gateway, route: Route, index: int) -> bytes:
        rule = route.rules[index]
        backends = tuple(_marked_backend(ref, backend) for ref, backend in enumerate(rule.backends))
        shape = Rule(backends=backends, number=0)
        pattern = self._patterns.get(shape)
        if pattern is None:
            marked = replace(_MARKED, rules=(shape,))
            message = rule_cluster(replace(gateway, routes=(marked,)), marked, 0)
            pattern = self._patterns[shape] = Pattern(bytes(message), _MARKS)
        names = {_BACKEND.format(ref): route.backend_name(index, ref) for ref in range(len(backends))}
        names |= {_HOST.format(ref): _host(backend.address) for ref, backend in enumerate(rule.backends)}
        return pattern.filled(_encoded({_CLUSTER: route.cluster_name(index), **names}))

    # --- routes ---

    def _routes(self, frame: _RoutesFrame, gateway: Gateway, listener: Listener) -> bytes:
        """The routes of a listener; its virtual hosts end with the one for what nothing matches."""
        hosts = []
        for host, (head, last) in zip(listener.hosts or (), frame.hosts, strict=True):
            entries = b"".join(self._entry(gateway, place) for place in host.places)
            hosts.append(patterns.field(_VIRTUAL_HOSTS, head + entries + last))
        return frame.configuration + b"".join(hosts)

    def _entry(self, gateway: Gateway, place: Place) -> bytes:
        route = gateway.routes[place.route]
        entries = self._made(gateway, route).entries
        entry = entries.get((place.rule, place.match))
        if entry is None:
            entry = patterns.field(_HOST_ROUTES, self._entry_of(gateway, route, place))
            entries[place.rule, place.match] = entry
        return entry

    def _entry_of(self, gateway: Gateway, route: Route, place: Place) -> bytes:
        rule = route.rules[place.rule]
        match = rule.alternatives[place.match]
        shape = replace(rule, backends=(), models=(), headers=(), matches=(_marked(match),), number=0)
        key = (shape, route.budgets)
        pattern = self._patterns.get(key)
        if pattern is None:
            one = replace(
                gateway,
                routes=(replace(_MARKED, rules=(shape,), budgets=route.budgets),),
                listener=replace(gateway.listener, hosts=(VirtualHost(domain="*", places=(_FIRST,)),)),
                further_listeners=(),
            )
            message = route_configuration(one).virtual_hosts[0].routes[0]
            pattern = self._patterns[key] = Pattern(bytes(message), _MARKS)
        cluster = route.cluster_name(place.rule)
        values = {_VALUE.format(index): header.value for index, header in enumerate(match.headers)}
        names = {_ENTRY: f"{cluster}/match/{place.match}", _CLUSTER: cluster, _MARKED.full_name: route.full_name}
        return pattern.filled(_encoded({**values, **names}))


def version_of(document: bytes) -> str:
    """The version that Envoy will show once it has taken a document; empty for one that has none."""
    found = _VERSION.match(document)
    return found[1].decode() if found is not None else ""


# --- frames ---


def _file_name(name: str) -> str:
    """A listener's file is small, and people may want to read it."""
    much = name == dynamic.CLUSTERS or name.startswith("rds-")
    return name.removesuffix(".yaml") + (".pb" if much else ".json")


def _routes_frame(gateway: Gateway, listener: Listener) -> _RoutesFrame:
    configuration = route_configuration(gateway, listener)
    hosts, configuration.virtual_hosts = configuration.virtual_hosts, []
    framed = []
    for host in hosts:
        routes, host.routes = host.routes, []
        framed.append((bytes(host), b"".join(patterns.field(_HOST_ROUTES, bytes(route)) for route in routes)))
    return _RoutesFrame(configuration=bytes(configuration), hosts=tuple(framed))


def _json(document: Mapping[str, Any]) -> bytes:
    """The document as JSON; one of resources with a version of its own."""
    if "resources" not in document:
        return json.dumps(document).encode()
    resources = json.dumps(document["resources"])
    head = {"version_info": _version(resources.encode()), "type_url": document["type_url"]}
    return f'{json.dumps(head)[:-1]}, "resources": {resources}}}\n'.encode()


def _each_watched(node: Any, paths: Mapping[str, str]) -> Any:  # noqa: ANN401 - any part of a document
    """The document with the new paths of files, and no directory to watch beside them."""
    match node:
        case {"path": str(path), "watched_directory": _} if path in paths:
            return {"path": str(Path(path).with_name(paths[path]))}
        case dict():
            return {key: _each_watched(value, paths) for key, value in node.items()}
        case list():
            return [_each_watched(value, paths) for value in node]
        case _:
            return node


def _without_routes(gateway: Gateway) -> Gateway:
    """The gateway with as many routes as it takes to have the same filters."""
    kept = [next((route for route in gateway.routes if route.budgets), None)]
    kept.append(next((route for route in gateway.routes if any(rule.quotas for rule in route.rules)), None))
    first, *others = (_without_places(listener) for listener in gateway.listeners)
    return replace(
        gateway,
        routes=tuple(dict.fromkeys(route for route in kept if route is not None)),
        listener=first,
        further_listeners=tuple(others),
    )


def _without_places(listener: Listener) -> Listener:
    return replace(listener, hosts=tuple(VirtualHost(domain=host.domain) for host in listener.hosts or ()))


def _marked_backend(ref: int, backend: Backend) -> Backend:
    address = backend.address
    if isinstance(address, SocketAddress) and _is_name(address.host):
        address = replace(address, host=_HOST.format(ref))
    return replace(backend, id=_BACKEND.format(ref), name="", namespace=None, address=address)


def _host(address: Address) -> str:
    return address.host if isinstance(address, SocketAddress) else ""


def _is_name(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return False


def _marked(match: Match) -> Match:
    """A match whose values may be any; a regular expression is looked at by those who build."""
    headers = (
        replace(header, value=_VALUE.format(index)) if header.kind == "exact" else header
        for index, header in enumerate(match.headers)
    )
    return replace(match, headers=tuple[HeaderMatch, ...](headers))


# --- messages ---


def _encoded(names: Mapping[str, str]) -> dict[bytes, bytes]:
    return {mark.encode(): name.encode() for mark, name in names.items()}


def _resource(type_url: str, message: bytes) -> bytes:
    packed = patterns.field(_PACKED_TYPE, type_url.encode()) + patterns.field(_PACKED_VALUE, message)
    return patterns.field(_RESOURCES, packed)


def _response(type_url: str, resources: bytes) -> bytes:
    """A document of resources, which begins with its version."""
    head = patterns.field(_VERSION_INFO, _version(resources).encode())
    return head + resources + patterns.field(_TYPE_URL, type_url.encode())


def _version(resources: bytes) -> str:
    return hashlib.blake2b(resources, digest_size=8).hexdigest()
