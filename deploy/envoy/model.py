"""What a gateway is, said without Envoy's types: the input of every builder in this package.

A ``Gateway`` is a value: frozen, free of Envoy imports, and cheap to make in a test or in a control plane. Names of
clusters and backends are derived from it, never stored in it, so the filter config and the Envoy config cannot drift.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from deploy.envoy import names

if TYPE_CHECKING:
    from collections.abc import Iterator

MEBIBYTE: Final = 1 << 20
BUFFER_LIMIT: Final = 64 * MEBIBYTE
"""Bytes that Envoy may hold of one body. Its default of 1 MiB turns a large prompt into a 413 (docs/howto/envoy.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketAddress:
    """A TCP address. ``host`` is an IP address, or a DNS name where Envoy is the client."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PipeAddress:
    """A unix domain socket."""

    path: str


Address: TypeAlias = SocketAddress | PipeAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTLS:
    """TLS towards a backend. ``server_name`` is SNI and the name that the certificate must carry."""

    server_name: str
    ca_file: str = "/etc/ssl/certs/ca-certificates.crt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One backend reference of a rule.

    ``name`` is the short name (unique in ``namespace``); ``hostname`` is what the Host header is rewritten to and what
    the processor signs for, by default the host of the address when that is a name.
    """

    name: str
    address: SocketAddress
    namespace: str | None = None
    hostname: str | None = None
    weight: int = 1
    priority: int = 0
    tls: UpstreamTLS | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderMatch:
    """A header that a request must carry with exactly this value, or matching this RE2 expression."""

    name: str
    value: str
    kind: Literal["exact", "regex"] = "exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When and how often an attempt is repeated; each repetition may go to the next priority.

    ``per_try_idle_timeout`` is in seconds; with ``reset`` among the triggers it turns a silent backend into a failover.
    """

    attempts: int = 2
    triggers: tuple[str, ...] = ("5xx", "connect-failure", "retriable-status-codes")
    status_codes: tuple[int, ...] = (429,)
    per_try_timeout: float | None = None
    per_try_idle_timeout: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Models and headers on the left, backends on the right. No model means every model.

    ``timeout`` bounds the whole answer, in seconds; 0 leaves that to the idle timeouts, because an answer streams for
    as long as the model writes.
    """

    backends: tuple[Backend, ...]
    models: tuple[str, ...] = ()
    headers: tuple[HeaderMatch, ...] = ()
    retry: Retry | None = None
    timeout: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderDescriptor:
    """Descriptor entry with the value of a request header. A request without the header is not limited by it."""

    header: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticDescriptor:
    """Descriptor entry with a constant value."""

    key: str
    value: str


Descriptor: TypeAlias = HeaderDescriptor | StaticDescriptor


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBudget:
    """A bucket that pays for requests: ``descriptors`` choose it, ``cost_key`` names the metadata that is charged."""

    descriptors: tuple[Descriptor, ...]
    cost_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Rules under one name; the counterpart of an AIGatewayRoute. No hostname means every hostname."""

    name: str
    rules: tuple[Rule, ...]
    namespace: str = "default"
    hostnames: tuple[str, ...] = ()
    budgets: tuple[TokenBudget, ...] = ()

    @property
    def full_name(self) -> str:
        """``<namespace>/<name>``: what the processor calls the route."""
        return f"{self.namespace}/{self.name}"

    def cluster_name(self, rule: int) -> str:
        return names.cluster_name(namespace=self.namespace, route=self.name, rule=rule)

    def backend_name(self, rule: int, ref: int) -> str:
        """The name under which the filter config must describe this backend."""
        backend = self.rules[rule].backends[ref]
        return names.backend_name(
            namespace=backend.namespace or self.namespace, backend=backend.name, route=self.name, rule=rule, ref=ref
        )

    def backend_names(self) -> Iterator[tuple[str, Backend]]:
        """Every backend of the route with its name in the filter config."""
        for index, rule in enumerate(self.rules):
            for ref, backend in enumerate(rule.backends):
                yield self.backend_name(index, ref), backend


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """Where the external processor listens. Timeouts are in seconds.

    ``forwarding_namespaces`` is dynamic metadata that Envoy sends along; a backend whose ``credentialOverride`` reads
    metadata sees nothing unless its namespace is named here (contract, quirk Q16). ``connect_retries`` bridge the
    seconds in which a restarting processor does not listen: a request waits for up to about a quarter of a second per
    retry; 0 fails it at once.
    """

    address: Address
    message_timeout: float = 10.0
    upstream_timeout: float = 30.0
    forwarding_namespaces: tuple[str, ...] = ()
    connect_retries: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimitService:
    """The service that keeps the budgets. ``deny_on_failure`` decides what its absence means."""

    address: SocketAddress
    domain: str
    timeout: float = 1.0
    deny_on_failure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessLog:
    """One JSON object a line; ``cost_keys`` are the metadata keys of the cost rules to print."""

    path: str = "/dev/stdout"
    cost_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Where clients connect. ``trust_request_id`` keeps a client's ``x-request-id`` instead of making a new one.

    ``exclusive`` makes a second Envoy on the same port fail; Envoy's default is that both get half of the connections.
    """

    address: SocketAddress
    trust_request_id: bool = False
    exclusive: bool = False
    stream_idle_timeout: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A whole Envoy. Without a ``processor`` it routes on headers that the client sends: the control of a benchmark."""

    listener: Listener
    routes: tuple[Route, ...]
    processor: Processor | None
    rate_limit: RateLimitService | None = None
    access_log: AccessLog | None = None
    admin: SocketAddress | None = None
    buffer_limit: int = BUFFER_LIMIT
