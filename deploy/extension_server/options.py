"""What a control plane may decide about the hooks. The defaults are the peer's (contract, control plane 0 and 6)."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from deploy.envoy.compile import HEADER_ATTRIBUTES
from deploy.envoy.model import PipeAddress, Processor, SocketAddress

_SOCKET_PATH: Final = "/etc/ai-gateway-extproc-uds/run.sock"
_QUOTA_ADDRESS: Final = SocketAddress(host="envoy-ai-gateway-ratelimit.envoy-gateway-system", port=8081)
_MCP_PROXY: Final = SocketAddress(host="127.0.0.1", port=9856)
_MCP_LISTENER: Final = SocketAddress(host="127.0.0.1", port=10088)


def lookup(name: str) -> str:
    """An address of a name, the same as long as its addresses are; one of IPv4 if there is one.

    Raises:
        OSError: it has none.
    """
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return str(min((family != socket.AF_INET, address[0]) for family, _, _, _, address in found)[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaService:
    """The rate limit service that keeps quotas. ``timeout`` is in seconds."""

    address: SocketAddress = _QUOTA_ADDRESS
    timeout: float = 5.0
    deny_on_failure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How gateways are served."""

    processor: Processor = field(default_factory=lambda: Processor(address=PipeAddress(path=_SOCKET_PATH)))
    """Where Envoy finds the processor, and how long it waits."""
    quota: QuotaService = QuotaService()
    header_attributes: tuple[tuple[str, str], ...] = HEADER_ATTRIBUTES
    """Request headers that become dynamic metadata for access logs, with their keys."""
    picker_ca_file: str = ""
    """Certificates, as Envoy sees them, that vouch for endpoint pickers; empty: a picker's is not verified."""
    mcp_proxy: SocketAddress = _MCP_PROXY
    mcp_listener: SocketAddress = _MCP_LISTENER
    endpoints_hook: bool = True
    """Whether Envoy Gateway calls PostEndpointsModify. Without it a rule with several IP addresses can only be taken
    for its first backend, whose credential then goes to all of them."""
    standalone: bool = False
    """Whether Envoy Gateway runs without a cluster, where annotations do not reach metadata: a route is then known by
    its name."""
    lookup: Callable[[str], str] = lookup
    """How the name of a forward proxy is looked up: Envoy wants an address."""
