"""What a gateway is, said without Envoy's types: the input of every builder in this package.

A ``Gateway`` is a value: frozen, free of Envoy imports, and cheap to make in a test or in a control plane. Names of
clusters and backends are derived from it, so the filter config and the Envoy config cannot drift; where a control plane
has named a backend already, as ``compile`` finds it, that name stands.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
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


def is_ip(host: str) -> bool:
    """Whether this is an address rather than a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class PipeAddress:
    """A unix domain socket."""

    path: str


Address: TypeAlias = SocketAddress | PipeAddress


CA_FILE: Final = "/etc/ssl/certs/ca-certificates.crt"
"""Where Debian and most images keep the certificates that everybody trusts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTLS:
    """TLS towards a backend. ``server_name`` is SNI and the name that the certificate must carry.

    An IP address is no name for SNI; the certificate must carry it all the same. Certificates to trust are those of
    ``ca_pem``, or of ``ca_file`` when it is empty. Without ``verify`` any certificate will do.
    """

    server_name: str
    ca_file: str = CA_FILE
    ca_pem: str = ""
    verify: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One address of a backend; the fields are those of :class:`Backend`."""

    address: Address
    hostname: str | None = None
    tls: UpstreamTLS | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One backend reference of a rule.

    ``name`` is the short name (unique in ``namespace``); ``hostname`` is what the Host header is rewritten to and what
    the processor signs for, by default the host of the address when that is a name. Requests are spread over
    ``address`` and ``further``. ``id`` is the name in the filter config where that is not the derived one. ``proxy`` is
    an HTTP proxy that connections go through.
    """

    name: str
    address: Address
    namespace: str | None = None
    hostname: str | None = None
    weight: int = 1
    priority: int = 0
    tls: UpstreamTLS | None = None
    further: tuple[Endpoint, ...] = ()
    proxy: SocketAddress | None = None
    id: str = ""

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """All addresses."""
        return (Endpoint(address=self.address, hostname=self.hostname, tls=self.tls), *self.further)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderMatch:
    """A header that a request must carry with exactly this value, or matching this RE2 expression."""

    name: str
    value: str
    kind: Literal["exact", "regex"] = "exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When and how often an attempt is repeated; each repetition may go to the next priority.

    ``attempts`` counts the first one. Times are in seconds; with ``reset`` among the triggers ``per_try_idle_timeout``
    turns a silent backend into a failover. A priority is left after ``attempts_per_priority``. The pause between
    attempts begins around ``base_interval`` and doubles up to ``max_interval``, which is ten times as much by default.
    """

    attempts: int = 2
    triggers: tuple[str, ...] = ("5xx", "connect-failure", "retriable-status-codes")
    status_codes: tuple[int, ...] = (429,)
    per_try_timeout: float | None = None
    per_try_idle_timeout: float | None = None
    attempts_per_priority: int = 1
    base_interval: float | None = None
    max_interval: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Conditions that all must hold. The prefix is one of whole path segments."""

    headers: tuple[HeaderMatch, ...] = ()
    path_prefix: str = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What Envoy answers by itself, where there is no backend that could."""

    status: int
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Models and headers on the left, backends on the right. No model means every model.

    ``matches`` are alternatives and stand in place of ``models`` and ``headers``, which are short for one match per
    model. ``timeout`` bounds the whole answer, in seconds; 0 leaves that to the idle timeouts, because an answer
    streams for as long as the model writes. A rule with an ``answer`` has no backend. ``number`` is the rule's place in
    the names of its cluster and backends, where that is not its place in the route.
    """

    backends: tuple[Backend, ...]
    models: tuple[str, ...] = ()
    headers: tuple[HeaderMatch, ...] = ()
    matches: tuple[Match, ...] = ()
    retry: Retry | None = None
    timeout: float = 0.0
    rewrite_host: bool = True
    answer: Answer | None = None
    quotas: Quotas | None = None
    number: int | None = None

    @property
    def alternatives(self) -> tuple[Match, ...]:
        """The matches, however they were given."""
        if self.matches:
            return self.matches
        if not self.models:
            return (Match(headers=self.headers),)
        models = [HeaderMatch(name=names.MODEL_HEADER, value=model) for model in self.models]
        return tuple(Match(headers=(model, *self.headers)) for model in models)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataDescriptor:
    """Descriptor entry with what dynamic metadata has under ``metadata_key``; without it nothing is limited."""

    key: str
    metadata_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderEqualsDescriptor:
    """Descriptor entry of requests whose header is ``value``, which is the entry's value as well."""

    header: str
    key: str
    value: str


Descriptor: TypeAlias = HeaderDescriptor | StaticDescriptor | MetadataDescriptor | HeaderEqualsDescriptor
Descriptors: TypeAlias = tuple[Descriptor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBudget:
    """A bucket that pays for requests: ``descriptors`` choose it, ``cost_key`` names the metadata that is charged."""

    descriptors: Descriptors
    cost_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A condition, an expression of CEL over the request, and the header that carries its outcome inside of Envoy."""

    header: str
    condition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What is taken from a bucket: ``hits``, or what dynamic metadata has under ``cost_key``.

    A request that brings a charge is refused when the bucket has less, or with no hits when it has nothing. What is
    taken when it is ``done`` refuses nothing.
    """

    descriptors: Descriptors
    hits: int = 0
    cost_key: str = ""
    done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """The buckets of a rule.

    ``flags`` and ``headers`` are noted in metadata, under ``names.header_note``, when a request comes: descriptors that
    tell clients apart read them there.
    """

    charges: tuple[Charge, ...]
    flags: tuple[Flag, ...] = ()
    headers: tuple[str, ...] = ()


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
        return names.cluster_name(namespace=self.namespace, route=self.name, rule=self._number(rule))

    def backend_name(self, rule: int, ref: int) -> str:
        """The name under which the filter config must describe this backend."""
        backend = self.rules[rule].backends[ref]
        return backend.id or names.backend_name(
            namespace=backend.namespace or self.namespace,
            backend=backend.name,
            route=self.name,
            rule=self._number(rule),
            ref=ref,
        )

    def _number(self, rule: int) -> int:
        number = self.rules[rule].number
        return rule if number is None else number

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
    """The service that keeps the budgets. ``deny_on_failure`` decides what its absence means.

    ``domain`` is that of token budgets; quotas have one of their own, ``names.QUOTA_DOMAIN``.
    """

    address: SocketAddress
    domain: str = names.QUOTA_DOMAIN
    timeout: float = 1.0
    deny_on_failure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessLog:
    """One JSON object a line; ``cost_keys`` are the metadata keys of the cost rules to print."""

    path: str = "/dev/stdout"
    cost_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A match of a rule of a route, each by its index."""

    route: int
    rule: int
    match: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualHost:
    """A domain, which may be a wildcard or ``*``, with the matches that it tries, in this order."""

    domain: str
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A certificate with those that vouch for it, and its key; both are PEM."""

    chain_pem: str
    key_pem: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTLS:
    """TLS towards clients that ask for ``server_name``, which may be a wildcard; empty: for any other name."""

    certificates: tuple[Certificate, ...]
    server_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Where clients connect. ``trust_request_id`` keeps a client's ``x-request-id`` instead of making a new one.

    ``exclusive`` makes a second Envoy on the same port fail; Envoy's default is that both get half of the connections.
    ``hosts`` says which matches a domain tries; None derives that from the routes' hostnames and their order. Without
    ``tls`` clients are served in clear text.
    """

    address: SocketAddress
    name: str = names.LISTENER
    trust_request_id: bool = False
    exclusive: bool = False
    stream_idle_timeout: float = 300.0
    hosts: tuple[VirtualHost, ...] | None = None
    tls: tuple[ServerTLS, ...] = ()


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
    further_listeners: tuple[Listener, ...] = ()
    header_attributes: tuple[tuple[str, str], ...] = ()
    """Headers of requests that are copied to dynamic metadata for the access log, with their keys there."""

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """All listeners. Their names are unique."""
        return (self.listener, *self.further_listeners)

    @property
    def has_budgets(self) -> bool:
        """Whether any route has token budgets."""
        return any(route.budgets for route in self.routes)

    @property
    def has_quotas(self) -> bool:
        """Whether any rule has quotas."""
        return any(rule.quotas for route in self.routes for rule in route.rules)
