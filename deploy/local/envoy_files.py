"""The files that an Envoy reads again when they change, made anew in milliseconds.

``deploy.envoy`` builds each resource of complete types, which takes tens of milliseconds for one. Resources of one
shape differ in names only, so each shape is built once, with marks in the places of names, and written as often as it
is needed. What a frame of documents has beside clusters and routes does not change with them, and is kept as it is.

The files are JSON, which Envoy reads several times as fast as YAML, and each is watched by itself: a route that
changes is no reason to read all clusters again.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
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
from deploy.envoy.text import to_document

BOOTSTRAP: Final = "bootstrap.json"
CLUSTERS: Final = "cds.json"

_NAMESPACE: Final = "zq-namespace-qz"
_NAME: Final = "zq-name-qz"
_BACKEND: Final = "zq-backend-{}-qz"
_HOST: Final = "zq-host-{}-qz"
_VALUE: Final = "zq-value-{}-qz"
_ENTRIES: Final = "zq-entries-qz"
_MARKED: Final = Route(namespace=_NAMESPACE, name=_NAME, rules=(Rule(backends=(), number=0),))
_CLUSTER: Final = _MARKED.cluster_name(0)
_ENTRY: Final = f"{_CLUSTER}/match/0"
# The longer first: names contain each other.
_MARKS: Final = re.compile(f"({_ENTRY}|{_CLUSTER}|{_MARKED.full_name}|zq-(?:backend|host|value)-[0-9]+-qz)")
_VERSION: Final = re.compile(r"\{\"version_info\": \"([0-9a-f]+)\"")
_FIRST: Final = Place(route=0, rule=0, match=0)
_CLUSTER_TYPE: Final = {"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster"}


class EnvoyFiles:
    """The documents of one Envoy, whose directory is ``directory``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._templates: dict[Hashable, _Template] = {}
        self._used: dict[Hashable, _Template] = {}
        self._framed: tuple[Gateway, dict[str, str]] | None = None

    def documents(self, gateway: Gateway) -> dict[str, str]:
        """The documents of ``deploy.envoy.dynamic``, in the order in which they must be written."""
        frame = self._frame(gateway)
        made = dict(frame)
        made[CLUSTERS] = _response(frame[CLUSTERS], self._clusters(gateway))
        files = [name for name in frame if name.startswith("rds-")]
        for listener, file in zip(gateway.listeners, files, strict=True):
            made[file] = self._routes(frame[file], gateway, listener)
        self._templates, self._used = self._used, {}
        return made

    def _frame(self, gateway: Gateway) -> dict[str, str]:
        """The documents without what there is much of."""
        bare = _without_routes(gateway)
        if self._framed is None or self._framed[0] != bare:
            documents = dynamic.documents(bare, self._directory)
            files = {name: _json_name(name) for name in documents}
            paths = {str(self._directory.absolute() / name): file for name, file in files.items()}
            frame = {files[name]: json.dumps(_each_watched(_loaded(text), paths)) for name, text in documents.items()}
            self._framed = (bare, frame)
        return self._framed[1]

    # --- clusters ---

    def _clusters(self, gateway: Gateway) -> Iterator[str]:
        for route in gateway.routes:
            for index, rule in enumerate(route.rules):
                if rule.answer is None:
                    yield self._cluster(gateway, route, index)

    def _cluster(self, gateway: Gateway, route: Route, index: int) -> str:
        rule = route.rules[index]
        backends = tuple(_marked_backend(ref, backend) for ref, backend in enumerate(rule.backends))
        shape = Rule(backends=backends, number=0)
        key = (shape, gateway.processor, gateway.buffer_limit)
        template = self._known(key)
        if template is None:
            marked = replace(_MARKED, rules=(shape,))
            document = to_document(rule_cluster(replace(gateway, routes=(marked,)), marked, 0))
            template = self._learn(key, {**_CLUSTER_TYPE, **_mapping(document)})
        names = {_BACKEND.format(ref): route.backend_name(index, ref) for ref in range(len(backends))}
        names |= {_HOST.format(ref): _host(backend.address) for ref, backend in enumerate(rule.backends)}
        return template.text({_CLUSTER: route.cluster_name(index), **names})

    # --- routes ---

    def _routes(self, frame: str, gateway: Gateway, listener: Listener) -> str:
        """The document of a listener's routes; its virtual hosts end with the one for what nothing matches."""
        document = _loaded(frame)
        hosts = document["resources"][0]["virtual_hosts"]
        entries = []
        for host, there in zip(listener.hosts or (), hosts, strict=True):
            there["routes"].insert(0, _ENTRIES)
            entries.append("".join(f"{self._entry(gateway, place)},\n" for place in host.places))
        pieces = json.dumps(document["resources"][0]).split(f'"{_ENTRIES}", ')
        filled = "".join(piece + entry for piece, entry in zip(pieces, [*entries, ""], strict=True))
        return _response(frame, [filled])

    def _entry(self, gateway: Gateway, place: Place) -> str:
        route = gateway.routes[place.route]
        rule = route.rules[place.rule]
        match = rule.alternatives[place.match]
        shape = replace(rule, backends=(), models=(), headers=(), matches=(_marked(match),), number=0)
        key = (shape, route.budgets, gateway.rate_limit, gateway.processor)
        template = self._known(key)
        if template is None:
            one = replace(
                gateway,
                routes=(replace(_MARKED, rules=(shape,), budgets=route.budgets),),
                listener=replace(gateway.listener, hosts=(VirtualHost(domain="*", places=(_FIRST,)),)),
                further_listeners=(),
            )
            template = self._learn(key, _mapping(to_document(route_configuration(one).virtual_hosts[0].routes[0])))
        cluster = route.cluster_name(place.rule)
        values = {_VALUE.format(index): header.value for index, header in enumerate(match.headers)}
        names = {_ENTRY: f"{cluster}/match/{place.match}", _CLUSTER: cluster, _MARKED.full_name: route.full_name}
        return template.text({**values, **names})

    # --- templates ---

    def _known(self, key: Hashable) -> _Template | None:
        template = self._used.get(key) or self._templates.get(key)
        if template is not None:
            self._used[key] = template
        return template

    def _learn(self, key: Hashable, document: Mapping[str, Any]) -> _Template:
        template = self._used[key] = _Template(json.dumps(document))
        return template


class _Template:
    """A text with marks."""

    __slots__ = ("_pieces",)

    def __init__(self, marked: str) -> None:
        # What is between the marks, and the marks.
        self._pieces = _MARKS.split(marked)

    def text(self, names: Mapping[str, str]) -> str:
        """The text with names in the places of the marks."""
        pieces = self._pieces.copy()
        pieces[1::2] = [json.dumps(names[mark])[1:-1] for mark in pieces[1::2]]
        return "".join(pieces)


def _json_name(name: str) -> str:
    return name.removesuffix(".yaml") + ".json"


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


def version_of(document: str) -> str:
    """The version that Envoy will show once it has taken a document; empty for one that has none."""
    found = _VERSION.match(document)
    return found[1] if found is not None else ""


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


def _response(frame: str, resources: Iterator[str] | list[str]) -> str:
    """The document with other resources. JSON is YAML too."""
    text = ",\n".join(resources)
    version = hashlib.sha256(text.encode()).hexdigest()[:16]
    head = {"version_info": version, "type_url": _loaded(frame)["type_url"]}
    return f'{json.dumps(head)[:-1]}, "resources": [\n{text}\n]}}\n'


def _loaded(text: str) -> dict[str, Any]:
    return _mapping(json.loads(text) if text.startswith("{") else yaml.safe_load(text))


def _mapping(document: object) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise TypeError(f"a document is a mapping, not {type(document).__name__}")
    return document
