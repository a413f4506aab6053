"""Resources written as what they are compiled to: ``extproc translate``.

For each gateway a filter config as one file and as a bundle, the configuration of an Envoy, and where there are token
budgets that of a rate limit service. Files hold credentials and are readable by their owner only.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

import yaml

from deploy.envoy.compile import Serving, Unservable, envoy_gateway
from deploy.envoy.model import Gateway, PipeAddress, Processor, RateLimitService, SocketAddress
from deploy.envoy.quotas import service_document
from filter_config.sources.emit import write as write_bundle
from filter_config.sources.envoy_ai_gateway.compiler import CompiledGateway
from filter_config.sources.faults import Faults

CONFIG: Final = "filter-config.yaml"
BUNDLE: Final = "filter-config-bundle"
ENVOY: Final = "envoy.yaml"
BUDGETS: Final = "budgets.yaml"

_RATE_LIMIT: Final = RateLimitService(address=SocketAddress(host="127.0.0.1", port=8081))
_ADMIN: Final = SocketAddress(host="127.0.0.1", port=9901)


def envoy_of(compiled: CompiledGateway, *, host: str, processor: str, faults: Faults) -> Gateway | None:
    """The Envoy of a gateway, or None and a fault."""
    address = processor.removeprefix("unix://")
    if address != processor:
        where: PipeAddress | SocketAddress = PipeAddress(path=address)
    else:
        name, _, port = processor.rpartition(":")
        where = SocketAddress(host=name or "127.0.0.1", port=int(port))
    limits = _RATE_LIMIT if _has_budgets(compiled) else None
    serving = Serving(processor=Processor(address=where), bind_host=host, admin=_ADMIN, rate_limit=limits)
    try:
        return envoy_gateway(compiled.model, serving, faults)
    except Unservable as error:
        faults.error(compiled.model.origin, str(error), "give it a listener of protocol HTTP")
        return None


def _has_budgets(compiled: CompiledGateway) -> bool:
    return bool(service_document([compiled.model])["descriptors"])


def directories(directory: Path, gateways: Iterable[CompiledGateway]) -> dict[str, Path]:
    """Where the files of each gateway go, by its id: to a place for each of them alone."""
    found = list(gateways)
    if len(found) == 1:
        return {found[0].model.id: directory}
    given: dict[str, Path] = {}
    for gateway in found:
        given[gateway.model.id] = directory / directory_name(gateway, taken={path.name for path in given.values()})
    return given


def directory_name(gateway: CompiledGateway, *, taken: Collection[str] = ()) -> str:
    """The name of a gateway's own directory; namespaces and names can be joined to one that another has."""
    joined = f"{gateway.model.namespace}-{gateway.model.name}"
    # No namespace and no name has an underscore.
    return f"{gateway.model.namespace}_{gateway.model.name}" if joined in taken else joined


def write_gateway(directory: Path, compiled: CompiledGateway, envoy: Gateway | None) -> None:
    """Writes the files of a gateway.

    Raises:
        OSError: a file cannot be written.
        ValueError: the filter config is too large for a bundle.
    """
    directory.mkdir(parents=True, exist_ok=True)
    write_private(directory / CONFIG, compiled.payload)
    write_bundle(directory / BUNDLE, compiled.config)
    if _has_budgets(compiled):
        budgets = yaml.safe_dump(service_document([compiled.model]), sort_keys=False, allow_unicode=True)
        write_private(directory / BUDGETS, budgets.encode())
    else:
        # What an earlier run has written must not pass for a part of this one.
        (directory / BUDGETS).unlink(missing_ok=True)
    if envoy is not None:
        # Only here: the types that build Envoy's configuration take more than a second to import.
        from deploy.envoy.bootstrap import bootstrap  # noqa: PLC0415
        from deploy.envoy.text import to_yaml  # noqa: PLC0415

        write_private(directory / ENVOY, to_yaml(bootstrap(envoy)).encode())
    else:
        (directory / ENVOY).unlink(missing_ok=True)


def write_private(path: Path, data: bytes) -> None:
    """Puts a file in place as a whole, readable by its owner only.

    Raises:
        OSError: it cannot be written.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(data)
        os.replace(name, path)  # noqa: PTH105 - the name is a str
    except BaseException:
        os.unlink(name)  # noqa: PTH108
        raise
