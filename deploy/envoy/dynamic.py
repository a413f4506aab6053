"""The same Envoy in pieces that it reads again when they change: listeners, clusters, and routes.

Routes are documents of their own (RDS), so that a changed route drains no listener. Envoy watches the directory and
reads a document when it is moved into place; ``write`` moves only what has changed, clusters before the routes that
need them. What Envoy asks, the processor and the rate limit service, is part of the bootstrap: it is there before any
document is, and outlives all of them.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from envoy_data_plane.envoy.config.bootstrap.v3 import Bootstrap, BootstrapDynamicResources, BootstrapStaticResources
from envoy_data_plane.envoy.config.core.v3 import ApiVersion, ConfigSource, PathConfigSource, WatchedDirectory
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import Rds
from envoy_data_plane.envoy.service.discovery.v3 import DiscoveryResponse

from deploy.envoy.bootstrap import NODE, admin, listener
from deploy.envoy.clusters import rule_clusters, service_clusters
from deploy.envoy.routes import route_configuration
from deploy.envoy.text import to_json, to_yaml
from deploy.envoy.wire import pack

if TYPE_CHECKING:
    from betterproto2 import Message

    from deploy.envoy.model import Gateway

BOOTSTRAP: Final = "bootstrap.yaml"
CLUSTERS: Final = "cds.yaml"
LISTENERS: Final = "lds.yaml"
_ROUTES: Final = "rds-{}.yaml"
_ROUTE_FILE: Final = re.compile(r"rds-.*\.yaml")
_TYPE_URL: Final = "type.googleapis.com/{}"
_CLUSTER: Final = "envoy.config.cluster.v3.Cluster"
_LISTENER: Final = "envoy.config.listener.v3.Listener"
_ROUTE_CONFIGURATION: Final = "envoy.config.route.v3.RouteConfiguration"


def documents(gateway: Gateway, directory: Path) -> dict[str, str]:
    """All documents, by the name of the file that each is for, in the order in which they must be written.

    The same gateway gives the same text.

    Args:
        gateway: what is served.
        directory: where Envoy will find the documents.
    """
    files = _route_files(gateway)
    opened = [
        listener(gateway, each, _rds(directory, file, each.name))
        for each, file in zip(gateway.listeners, files, strict=True)
    ]
    routes = {
        file: _response(_ROUTE_CONFIGURATION, [route_configuration(gateway, each)])
        for each, file in zip(gateway.listeners, files, strict=True)
    }
    return {
        CLUSTERS: _response(_CLUSTER, rule_clusters(gateway)),
        **routes,
        LISTENERS: _response(_LISTENER, opened),
        BOOTSTRAP: to_yaml(bootstrap_document(gateway, directory)),
    }


def bootstrap_document(gateway: Gateway, directory: Path) -> Bootstrap:
    """What Envoy is started with."""
    return Bootstrap(
        node=NODE,
        static_resources=BootstrapStaticResources(clusters=service_clusters(gateway)),
        dynamic_resources=BootstrapDynamicResources(
            lds_config=_source(directory, LISTENERS), cds_config=_source(directory, CLUSTERS)
        ),
        admin=admin(gateway),
    )


def write(directory: Path, documents: Mapping[str, str]) -> list[str]:
    """Puts documents into a directory, each at once, and removes those of listeners that are gone.

    Documents may carry keys of certificates: only their owner may read them.

    Returns:
        The names of the files that have changed.

    Raises:
        OSError: a file cannot be read or written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    changed = [name for name, text in documents.items() if _current(directory / name) != text.encode()]
    for name in changed:
        _replace(directory / name, documents[name].encode())
    gone = sorted(
        path.name for path in directory.iterdir() if _ROUTE_FILE.fullmatch(path.name) and path.name not in documents
    )
    for name in gone:
        (directory / name).unlink()
    return [*changed, *gone]


def _route_files(gateway: Gateway) -> list[str]:
    """A file for the routes of each listener, called like it as far as a file may be."""
    files: dict[str, None] = {}
    for each in gateway.listeners:
        stem = re.sub(r"[^A-Za-z0-9.-]+", "-", each.name)
        name = _ROUTES.format(stem)
        if name in files:
            name = _ROUTES.format(f"{stem}-{hashlib.sha256(each.name.encode()).hexdigest()[:8]}")
        files[name] = None
    return list(files)


def _rds(directory: Path, file: str, name: str) -> Rds:
    return Rds(config_source=_source(directory, file), route_config_name=name)


def _source(directory: Path, name: str) -> ConfigSource:
    where = directory.absolute()
    return ConfigSource(
        path_config_source=PathConfigSource(
            path=str(where / name), watched_directory=WatchedDirectory(path=str(where))
        ),
        resource_api_version=ApiVersion.V3,
    )


def _response(kind: str, resources: Iterable[Message]) -> str:
    """A document of resources, whose version is that of its content."""
    found = list(resources)
    version = hashlib.sha256("".join(to_json(resource) for resource in found).encode()).hexdigest()
    response = DiscoveryResponse(
        version_info=version[:16], type_url=_TYPE_URL.format(kind), resources=[pack(resource) for resource in found]
    )
    return to_yaml(response)


def _current(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _replace(path: Path, data: bytes) -> None:
    """Writes a file beside its place and moves it there, which is what Envoy looks out for."""
    handle, aside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(aside).replace(path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
