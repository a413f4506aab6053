"""What a gateway does, said in words of no system: between the sources that describe it and the emitters that serve it.

A source compiles its own resources to one :class:`Gateway` each; the emitters of the filter config and of the Envoy
configuration know nothing else. Values are frozen and complete: what a source could not resolve is left out of the
model, or is ``None`` in it, and reported. Order is meaning: routes are in order of precedence, rules and backends in
the order of their source, and the indexes in a backend's id are those of the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal

from filter_config.model import ZERO_TIME, BackendAuth, HTTPBodyMutation, HTTPHeaderMutation, MCPRoute
from filter_config.redact import Secret
from filter_config.sources.faults import Origin

MODEL_HEADER: Final = "x-ai-eg-model"
"""The header that the processor writes the model's name to, and that rules match (contract, control plane 3.4)."""
METADATA_NAMESPACE: Final = "io.envoy.ai_gateway"
"""The namespace of the dynamic metadata that the processor writes costs to (contract, control plane 10.4)."""


# --- where requests go ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A host and port, or a unix domain socket. ``host`` is an IP address or a DNS name."""

    host: str = ""
    port: int = 0
    pipe: str = ""
    hostname: str = ""
    """Name that stands in the Host header and is signed for; empty: ``host`` when that is a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTLS:
    """TLS towards an endpoint."""

    server_name: str = ""
    """SNI, and the name that the certificate must carry; empty: the host of the address."""
    ca_pem: str = ""
    """Certificates to trust, PEM; empty: those of the system."""
    verify: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The addresses of one backend, of which Envoy balances over all."""

    addresses: tuple[Address, ...]
    tls: UpstreamTLS | None = None
    proxy: str = ""
    """``host:port`` of an HTTP CONNECT proxy that connections go through; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Model servers of which an endpoint picker chooses one for each request."""

    namespace: str
    name: str
    picker_service: str = ""
    picker_port: int = 9002
    body_mode: str = "duplex"
    """How the picker gets bodies, ``duplex`` or ``buffered``."""
    allow_mode_override: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The API that a backend speaks, see :class:`filter_config.model.VersionedAPISchema`."""

    name: str
    version: str = ""
    prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One way of a rule to a provider."""

    id: str
    """Name in the filter config and in Envoy's endpoint metadata; unique in the gateway."""
    namespace: str
    """Where the backend is defined, which need not be where the route is."""
    name: str
    schema: Schema
    origin: Origin
    """The reference to the backend."""
    defined_at: Origin | None = None
    """The backend's own resource."""
    model_override: str = ""
    auth: BackendAuth | None = None
    auth_origin: Origin | None = None
    header_mutation: HTTPHeaderMutation | None = None
    body_mutation: HTTPBodyMutation | None = None
    weight: int = 1
    priority: int = 0
    """0 is tried first; a higher one when retries find nothing better."""
    endpoint: Endpoint | None = None
    """None for a pool, and for an endpoint that the source does not know."""
    pool: Pool | None = None


# --- what goes there ---


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderMatch:
    """A header that a request must carry, with exactly this value or fully matching this RE2 expression."""

    name: str
    value: str
    kind: Literal["exact", "regex"] = "exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Conditions that all must hold."""

    headers: tuple[HeaderMatch, ...] = ()
    path_prefix: str = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model that clients may ask for by name."""

    name: str
    owned_by: str
    created_at: datetime = ZERO_TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When and how often an attempt is repeated. Times are in seconds; None leaves them to Envoy."""

    attempts: int
    """Repetitions, the first attempt not counted."""
    triggers: tuple[str, ...] = ()
    status_codes: tuple[int, ...] = ()
    attempts_per_priority: int | None = None
    per_try_timeout: float | None = None
    base_interval: float | None = None
    max_interval: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSelector:
    """A header that tells clients of a bucket apart. ``distinct``: each value has a bucket of its own."""

    name: str
    value: str = ""
    kind: Literal["exact", "regex", "distinct"] = "exact"
    invert: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A budget per unit of time."""

    limit: int
    unit: Literal["second", "minute", "hour", "day"]
    selectors: tuple[ClientSelector, ...] = ()
    shadow: bool = False
    """Counted and never enforced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What the clients that a bucket selects may spend. A request needs something left of each of its budgets."""

    id: str
    """Budgets with the same id are one, wherever they stand."""
    origin: Origin
    bucket: Bucket
    request_cost: int = 1
    """Taken when the request comes."""
    response_cost: int = 0
    """Taken when it is done, unless ``response_key`` says what."""
    response_key: str = ""
    """Key of the dynamic metadata whose number is taken when it is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Requests on the left, backends on the right. Matches are alternatives; no match is every request."""

    origin: Origin
    index: int
    """Place in its source, which is part of the names of its backends and clusters."""
    name: str = ""
    matches: tuple[Match, ...] = ()
    models: tuple[Model, ...] = ()
    """The models that the matches name, as they are listed while the rule has a backend."""
    backends: tuple[Backend, ...] = ()
    request_timeout: float = 60.0
    """Bound of the whole exchange in seconds; 0 is none."""
    backend_timeout: float | None = None
    """Bound of one attempt in seconds."""
    idle_timeout: float | None = None
    """Seconds without a byte after which an attempt is given up, and repeated if ``retry`` says so."""
    retry: Retry | None = None
    rewrite_host: bool = True
    """Whether the Host header becomes the endpoint's host name."""
    budgets: tuple[Budget, ...] = ()


# --- money ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A number computed for each request, under a key of the dynamic metadata."""

    key: str
    type: str
    """A token counter or ``CEL``, see :class:`filter_config.model.CostType`."""
    origin: Origin
    expression: str = ""
    expression_field: str = "cel"
    """The source's name for the expression, for messages."""
    backend: str = ""
    """Only requests to this backend, by its short name; empty: any."""
    model: str = ""
    """Only requests for this model; empty: any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Buckets of a model on some backends. ``default`` takes the requests that no other bucket selects."""

    policy: str
    """``<namespace>/<name>`` of the policy."""
    origin: Origin
    backends: tuple[str, ...]
    """Short names of the route's backends that the quota is about."""
    model: str
    """As a backend is asked for it. Empty: all models that have no quota of their own there, together."""
    buckets: tuple[Bucket, ...] = ()
    default: Bucket | None = None


# --- the whole ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Rules under one name. No hostname is every hostname."""

    namespace: str
    name: str
    origin: Origin
    hostnames: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    costs: tuple[Cost, ...] = ()
    """In order of evaluation; a later one overwrites an earlier one of the same key."""
    quotas: tuple[Quota, ...] = ()
    created_at: datetime = ZERO_TIME
    listeners: tuple[str, ...] = ()
    """Names of the listeners that admit the route; none named: all do."""

    @property
    def id(self) -> str:
        """``<namespace>/<name>``, which cost rules and Envoy's route metadata carry."""
        return f"{self.namespace}/{self.name}"

    @property
    def has_backend(self) -> bool:
        """Whether any request can be served."""
        return any(rule.backends for rule in self.rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What a listener shows to clients: a certificate with those that vouch for it, PEM, and its key."""

    chain_pem: str
    key: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A port that clients connect to. An empty hostname is every hostname."""

    name: str
    port: int
    protocol: str
    hostname: str = ""
    certificates: tuple[Certificate, ...] = ()
    """For HTTPS; a listener that lacks them is not served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MCP:
    """The MCP servers of a gateway, as the filter config has them."""

    routes: tuple[MCPRoute, ...] = ()
    backend_listener: str = "http://127.0.0.1:10088"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """One gateway with everything that is attached to it."""

    namespace: str
    name: str
    origin: Origin
    listeners: tuple[Listener, ...] = ()
    routes: tuple[Route, ...] = ()
    costs: tuple[Cost, ...] = ()
    """Costs of every request, where its route has none of the same key."""
    mcp: MCP | None = None
    proxy: str = ""
    """``host:port`` of the HTTP CONNECT proxy for endpoints that name none; empty: none."""

    @property
    def id(self) -> str:
        """``<namespace>/<name>``."""
        return f"{self.namespace}/{self.name}"


def join(shares: Sequence[Gateway]) -> Gateway:
    """One gateway of shares that have some of its routes each, in order of precedence; at least one."""
    mcps = [share.mcp for share in shares if share.mcp is not None]
    return replace(
        shares[0],
        routes=tuple(route for share in shares for route in share.routes),
        mcp=replace(mcps[0], routes=tuple(route for mcp in mcps for route in mcp.routes)) if mcps else None,
    )
