"""Backends of the neutral model as Envoy reaches them: addresses, TLS by address, and the proxy on the way.

Behind a proxy it is the proxy that looks names up, and often nobody else can. Envoy then gets a number in the place of
a name, and tells the proxy the name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, TypeAlias

from deploy.envoy import model
from deploy.envoy.certificates import authorities_problem
from filter_config.sources import model as neutral
from filter_config.sources.faults import Faults

Lookup: TypeAlias = Callable[[str], str]
"""Gives the IP address of a name, and raises OSError where there is none."""

# Addresses that are no one's (RFC 2544): each stands for one name of a rule, and Envoy never connects to it.
_STAND_INS: Final = ipaddress.ip_network("198.18.0.0/15")
_HTTP_PORT: Final = 80


def backends(
    rule: neutral.Rule, *, proxy: str, ca_file: str, lookup: Lookup, faults: Faults
) -> tuple[model.Backend, ...]:
    """The backends of a rule that can be reached; ``proxy`` is for those that name none.

    One whose endpoint is not known was reported where it was looked for; what else is left out is reported here.
    """
    rule_backends = _RuleBackends(proxy=proxy, ca_file=ca_file, lookup=lookup, faults=faults)
    found = [made for backend in rule.backends if (made := rule_backends.make(backend)) is not None]
    named = any(_is_name(endpoint.address) for backend in found for endpoint in backend.endpoints)
    return tuple(_without_sockets(rule, found, faults)) if named else tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RuleBackends:
    proxy: str
    ca_file: str
    lookup: Lookup
    faults: Faults
    stand_ins: Iterator[int] = field(default_factory=lambda: count(1))

    def make(self, backend: neutral.Backend) -> model.Backend | None:
        """The backend, or None and a fault."""
        if backend.pool is not None:
            message = f"InferencePool {backend.pool.namespace}/{backend.pool.name} is not served by this Envoy"
            self.faults.warning(backend.origin, message, "refer to a backend with an address")
            return None
        if backend.endpoint is None:
            return None
        tls = backend.endpoint.tls
        problem = authorities_problem(tls.ca_pem) if tls is not None and tls.ca_pem else ""
        if problem:
            self.faults.error(backend.origin, f"{problem}; the backend is left out", "write certificates as PEM")
            return None
        proxy = None
        through = backend.endpoint.proxy or self.proxy
        if through:
            proxy = self._proxy(through)
            if proxy is None:
                message = f"the proxy {through} has no address, and without it the backend is not asked"
                self.faults.error(backend.origin, message, "write host:port of a proxy that is known here")
                return None
        endpoints = [self._endpoint(address, tls, proxy) for address in backend.endpoint.addresses]
        made = model.Backend(
            id=backend.id,
            name=backend.name,
            namespace=backend.namespace,
            weight=backend.weight,
            priority=backend.priority,
            proxy=proxy,
            address=endpoints[0].address,
        )
        return _with_endpoints(made, endpoints)

    def _proxy(self, address: str) -> model.SocketAddress | None:
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        if not host:
            return None
        try:
            found = host if model.is_ip(host) else self.lookup(host)
            return model.SocketAddress(host=found, port=int(port))
        except (OSError, ValueError):
            return None

    def _endpoint(
        self, address: neutral.Address, tls: neutral.UpstreamTLS | None, proxy: model.SocketAddress | None
    ) -> model.Endpoint:
        """An address. Which proxy is asked for a name is known by the port and the Host header that it gets."""
        made = model.Endpoint(
            address=model.PipeAddress(path=address.pipe)
            if address.pipe
            else model.SocketAddress(host=address.host, port=address.port),
            hostname=address.hostname or None,
            tls=self._tls(address, tls) if tls is not None else None,
        )
        if proxy is None or isinstance(made.address, model.PipeAddress):
            return made
        host = address.hostname or address.host
        if tls is None and address.port != _HTTP_PORT:
            # In clear text the proxy has nothing but the request's URL, which is made of the Host header.
            host = f"[{host}]:{address.port}" if ":" in host else f"{host}:{address.port}"
        if not _is_name(made.address):
            return replace(made, hostname=host if tls is None else made.hostname)
        stand_in = model.SocketAddress(host=str(_STAND_INS[next(self.stand_ins)]), port=address.port)
        return replace(made, address=stand_in, hostname=host)

    def _tls(self, address: neutral.Address, tls: neutral.UpstreamTLS) -> model.UpstreamTLS:
        return model.UpstreamTLS(
            server_name=tls.server_name or address.hostname or address.host,
            ca_file=self.ca_file,
            ca_pem=tls.ca_pem,
            verify=tls.verify,
        )


def _without_sockets(rule: neutral.Rule, found: Sequence[model.Backend], faults: Faults) -> Iterator[model.Backend]:
    """The backends without unix domain sockets, which Envoy cannot have in one cluster with names."""
    for backend in found:
        kept = [endpoint for endpoint in backend.endpoints if not isinstance(endpoint.address, model.PipeAddress)]
        if len(kept) < len(backend.endpoints):
            message = f"a unix domain socket of backend {backend.name} beside a DNS name in one rule; it is left out"
            faults.error(rule.origin, message, "give one of them a rule of its own")
        if kept:
            yield _with_endpoints(backend, kept)


def _with_endpoints(backend: model.Backend, endpoints: Sequence[model.Endpoint]) -> model.Backend:
    first, *further = endpoints
    return replace(backend, address=first.address, hostname=first.hostname, tls=first.tls, further=tuple(further))


def _is_name(address: model.Address) -> bool:
    return isinstance(address, model.SocketAddress) and not model.is_ip(address.host)
