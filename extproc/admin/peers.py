"""Who may see the console: this machine, unless networks are named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

_ANY: Final = ("0.0.0.0/0", "::/0")
# A proxy on this machine makes everybody look like this machine, but says that it is one.
_PROXIED: Final = ("x-forwarded-for", "x-forwarded-host", "x-real-ip", "forwarded", "via")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """Networks beside the loopback ones whose hosts may see the console.

    ``networks`` are in CIDR notation; with none of them a request has to come from this machine itself, not through
    a proxy, and under a name that only this machine has: a page elsewhere can make a browser ask here, but under its
    own name (DNS rebinding).
    """

    networks: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Peers:
        """Read ``loopback``, ``any``, or networks separated by commas.

        Raises:
            ValueError: with what is no network.
        """
        if text in ("loopback", ""):
            return cls()
        if text == "any":
            return cls(networks=_ANY)
        return cls(networks=tuple(str(ip_network(part.strip())) for part in text.split(",")))

    def refusal(self, peer: str, headers: Mapping[str, str]) -> str:
        """Why a request is not answered, in words for who sent it; empty if it is.

        Args:
            peer: the address at the other end of the connection.
            headers: those of the request, by lower-case name.
        """
        address = _address(peer)
        if address is None:
            return "the address of the client is not known"
        if not address.is_loopback and not any(address in network for network in _networks(self.networks)):
            return f"{address} is not among the peers that may see it"
        if self.networks:
            return ""
        proxied = [name for name in _PROXIED if name in headers]
        if proxied:
            return f"the request came through a proxy, as its header {proxied[0]} says"
        return "" if _is_local(headers.get("host", "")) else "the Host header names neither localhost nor an address"


@lru_cache(maxsize=16)
def _networks(texts: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(map(ip_network, texts))


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    # A socket for both families sees IPv4 like this.
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def _is_local(host: str) -> bool:
    name = host.partition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    return name.lower() == "localhost" or name.lower().endswith(".localhost") or _address(name) is not None
