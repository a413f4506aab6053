"""``python -m deploy.controller``: the controller alone. Flags are the peer's, with one dash or two."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import sys
import uuid
from collections.abc import Sequence
from typing import Final

from lightkube.core.exceptions import ConfigError

from deploy.controller.api import KubeApi
from deploy.controller.exchanges import Exchanges, callers
from deploy.controller.options import ControllerOptions
from deploy.controller.service import ControllerService, ServiceOptions, serve
from deploy.injector.options import SidecarOptions
from filter_config.load import DEVELOPMENT_VERSION

DEFAULT_ADDRESS: Final = ":8080"
_DEFAULT_IMAGE: Final = "docker.io/envoyproxy/ai-gateway-extproc:latest"


def _flag(parser: argparse.ArgumentParser, name: str, default: str, meaning: str) -> None:
    parser.add_argument(f"-{name}", f"--{name}", dest=name, default=default, help=f"{meaning} (default: {default!r})")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="controller", description=__doc__, allow_abbrev=False)
    _flag(parser, "envoyGatewayNamespace", "envoy-gateway-system", "where Envoy Gateway puts its proxies")
    _flag(parser, "watchNamespaces", "", "namespaces that are watched, separated by commas; empty for all")
    _flag(parser, "enableLeaderElection", "true", "whether there may be other replicas: true or false")
    _flag(parser, "rootPrefix", "/", "path prefix of all routes")
    _flag(parser, "extProcImage", _DEFAULT_IMAGE, "image of the processor that the webhook injects; empty for none")
    _flag(parser, "configVersion", DEVELOPMENT_VERSION, "version of the processors, as they compare it")
    _flag(parser, "metricsAddress", DEFAULT_ADDRESS, "host:port of /metrics, /health and /ready")
    _flag(parser, "namespace", os.environ.get("POD_NAMESPACE", ""), "where the Lease is; empty for Envoy Gateway's")
    return parser


def options_of(arguments: argparse.Namespace) -> ServiceOptions:
    """The options that flags say."""
    image = arguments.extProcImage
    return ServiceOptions(
        controller=ControllerOptions(
            sidecar=SidecarOptions(image=image, root_prefix=arguments.rootPrefix) if image else None,
            version=arguments.configVersion,
            root_prefix=arguments.rootPrefix,
            envoy_gateway_namespace=arguments.envoyGatewayNamespace,
        ),
        identity=f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4()}",
        namespace=arguments.namespace or arguments.envoyGatewayNamespace,
        namespaces=tuple(name.strip() for name in arguments.watchNamespaces.split(",") if name.strip()),
        elect=_boolean(arguments.enableLeaderElection),
        exchanges=Exchanges(callers=callers(os.environ)),
    )


def _boolean(text: str) -> bool:
    known = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}
    if text.lower() not in known:
        raise ValueError(f"-enableLeaderElection={text}: write true or false")
    return known[text.lower()]


def listen(address: str) -> socket.socket:
    """A listening socket.

    Raises:
        ValueError: it is no ``host:port``.
        OSError: somebody else has the address.
    """
    host, _, port = address.rpartition(":")
    if not port.isascii() or not port.isdigit():
        raise ValueError(f"-metricsAddress={address}: write host:port")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host.strip("[]"), int(port)), family=family)


async def _run(options: ServiceOptions, bound: socket.socket) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    service = ControllerService(KubeApi(), options)
    sys.stdout.write(f"metrics on port {bound.getsockname()[1]}\n")
    sys.stdout.flush()
    await serve(service, bound, stop)


def main(argv: Sequence[str] | None = None) -> int:
    """Run until told to stop; gives the exit status."""
    arguments = _parser().parse_args(argv)
    try:
        options = options_of(arguments)
        bound = listen(arguments.metricsAddress)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"controller: {error}\n")
        return 2
    with bound:
        try:
            asyncio.run(_run(options, bound))
        except ConfigError as error:
            sys.stderr.write(f"controller: no cluster to work for: {error}\n")
            return 1
    return 0
