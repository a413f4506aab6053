"""A forward proxy on the way to backends: every transport of a cluster goes through it, the default one above all.

A proxy that cannot be used closes the way: connections are refused, and never go out beside it (contract, control plane
6.8).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from deploy.envoy.model import SocketAddress, is_ip
from deploy.extension_server.findings import Findings
from deploy.extension_server.names import PROXY_SOCKET
from deploy.extension_server.options import Options
from deploy.extension_server.wire import address, is_packed, pack
from filter_config.sources.model import Gateway
from protos import xds_pb2 as xds

_ADDRESS: Final = re.compile(r"(?:\[(?P<six>[^\]]+)\]|(?P<host>[^\[\]:]+)):(?P<port>[0-9]{1,5})")
_CLOSED: Final = SocketAddress(host="127.0.0.1", port=1)
"""Where nobody listens."""


def parse(text: str) -> SocketAddress:
    """A proxy as ``host:port``, the host of IPv6 in brackets.

    Raises:
        ValueError: it is not one.
    """
    found = _ADDRESS.fullmatch(text)
    port = int(found["port"]) if found else 0
    if found is None or not 0 < port < 1 << 16 or (found["six"] and not is_ip(found["six"])):
        raise ValueError(f"{text!r} is not host:port with a port from 1 to 65535")
    return SocketAddress(host=found["six"] or found["host"], port=port)


class Proxies:
    """The forward proxies of one hook: each is looked up once.

    ``translated`` are the gateways that the hook is about, where the configuration tells; of several that a route is
    attached to only their proxies count.
    """

    def __init__(self, options: Options, translated: Iterable[tuple[str, str]], findings: Findings) -> None:
        self._options = options
        self._translated = frozenset(translated)
        self._findings = findings
        self._addresses: dict[str, SocketAddress] = {}

    def of(self, gateways: Sequence[Gateway], resource: str) -> SocketAddress | None:
        """The proxy of a cluster whose route is attached to ``gateways``; None when it has none."""
        here = [each for each in gateways if (each.namespace, each.name) in self._translated] or list(gateways)
        wanted = list(dict.fromkeys(each.proxy for each in here))
        if len(wanted) > 1:
            self._findings.add(resource, f"its gateways have different forward proxies; {wanted[0] or 'none'} is used")
        return self._address(wanted[0]) if wanted and wanted[0] else None

    def _address(self, text: str) -> SocketAddress:
        if text not in self._addresses:
            self._addresses[text] = self._resolved(text)
        return self._addresses[text]

    def _resolved(self, text: str) -> SocketAddress:
        try:
            found = parse(text)
            return found if is_ip(found.host) else SocketAddress(host=self._options.lookup(found.host), port=found.port)
        except (ValueError, OSError) as error:
            self._findings.add(f"forward proxy {text}", f"{error}; what should go through it is refused")
            return _CLOSED


def wrap_transports(cluster: xds.Cluster, proxy: SocketAddress) -> None:
    """Send every connection of a cluster through a proxy."""
    for match in cluster.transport_socket_matches:
        _wrap(match.transport_socket, proxy)
    # Endpoints that no match takes use the default: without one they would go out directly.
    if not cluster.HasField("transport_socket"):
        cluster.transport_socket.name = "envoy.transport_sockets.raw_buffer"
        cluster.transport_socket.typed_config.CopyFrom(pack(xds.RawBuffer()))
    _wrap(cluster.transport_socket, proxy)


def _wrap(transport: xds.TransportSocket, proxy: SocketAddress) -> None:
    if is_packed(transport.typed_config, xds.Http11ProxyUpstreamTransport):
        return
    wrapped = xds.Http11ProxyUpstreamTransport(
        transport_socket=transport, default_proxy_address=address(proxy.host, proxy.port)
    )
    transport.Clear()
    transport.name = PROXY_SOCKET
    transport.typed_config.CopyFrom(pack(wrapped))
