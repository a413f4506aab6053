"""Kinds of Kubernetes, Gateway API and Envoy Gateway that the AI Gateway's kinds refer to: what is read of them.

Unknown fields are left to those who define them. NB: annotations are evaluated here.
"""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, field

from filter_config.redact import Secret
from filter_config.sources.envoy_ai_gateway.fields import (
    CORE_GROUP,
    GATEWAY_GROUP,
    Duration,
    Excerpt,
    Foreign,
    Hostname,
    ObjectName,
    PolicyTargetWithSection,
    Port,
    SectionName,
    Text,
)

ServerName: TypeAlias = Annotated[str, Meta(max_length=253)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]

# --- Kubernetes ---


class SecretObject(Foreign, frozen=True, kw_only=True):
    """A Secret. ``data`` is base64; ``string_data`` is text, as people write it in files."""

    data: dict[str, Secret] = field(default_factory=dict)
    string_data: dict[str, Secret] = field(default_factory=dict)


class ConfigMap(Foreign, frozen=True, kw_only=True):
    """A ConfigMap, such as one with the certificates of an authority."""

    data: dict[str, str] = field(default_factory=dict)


class NamespaceObject(Foreign, frozen=True, kw_only=True):
    """A namespace, of which the labels count."""


# --- Gateway API ---


class LabelExpression(Excerpt, frozen=True, kw_only=True):
    """A condition on a label."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]  # codespell:ignore notin
    values: tuple[str, ...] = ()


class LabelSelector(Excerpt, frozen=True, kw_only=True):
    """Conditions on labels that all must hold."""

    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[LabelExpression, ...] = ()


class RouteNamespaces(Excerpt, frozen=True, kw_only=True):
    """Namespaces whose routes a listener admits."""

    from_: Literal["All", "Selector", "Same", "None"] = field(name="from", default="Same")
    selector: LabelSelector | None = None


class RouteGroupKind(Excerpt, frozen=True, kw_only=True):
    """A kind of routes."""

    group: str = GATEWAY_GROUP
    kind: str


class AllowedRoutes(Excerpt, frozen=True, kw_only=True):
    """Routes that a listener admits."""

    namespaces: RouteNamespaces = RouteNamespaces()
    kinds: tuple[RouteGroupKind, ...] = ()


class CertificateReference(Excerpt, frozen=True, kw_only=True):
    """A Secret with a certificate; an empty namespace is the gateway's."""

    group: str = CORE_GROUP
    kind: str = "Secret"
    name: ObjectName
    namespace: str = ""


class ListenerTLS(Excerpt, frozen=True, kw_only=True):
    """TLS towards clients."""

    mode: str = "Terminate"
    certificate_refs: tuple[CertificateReference, ...] = ()


class Listener(Excerpt, frozen=True, kw_only=True):
    """A listener of a gateway."""

    name: SectionName
    port: Port
    protocol: str
    hostname: Hostname | None = None
    allowed_routes: AllowedRoutes = AllowedRoutes()
    tls: ListenerTLS | None = None


class GatewaySpec(Excerpt, frozen=True, kw_only=True):
    """See :class:`Gateway`."""

    gateway_class_name: str = ""
    listeners: Annotated[tuple[Listener, ...], Meta(max_length=64)] = ()


class Gateway(Foreign, frozen=True, kw_only=True):
    """A gateway, to which routes attach."""

    spec: GatewaySpec


class GrantFrom(Excerpt, frozen=True, kw_only=True):
    """Objects that may refer."""

    group: str
    kind: str
    namespace: str


class GrantTo(Excerpt, frozen=True, kw_only=True):
    """Objects that may be referred to; without a name, all of the kind."""

    group: str
    kind: str
    name: str | None = None


class ReferenceGrantSpec(Excerpt, frozen=True, kw_only=True):
    """See :class:`ReferenceGrant`."""

    from_: tuple[GrantFrom, ...] = field(name="from", default=())
    to: tuple[GrantTo, ...] = ()


class ReferenceGrant(Foreign, frozen=True, kw_only=True):
    """Who may refer to objects of this namespace."""

    spec: ReferenceGrantSpec


class LocalReference(Excerpt, frozen=True, kw_only=True):
    """An object of the same namespace."""

    group: str = CORE_GROUP
    kind: str
    name: ObjectName


class TLSValidation(Excerpt, frozen=True, kw_only=True):
    """How a server's certificate is checked."""

    hostname: ServerName
    ca_certificate_refs: tuple[LocalReference, ...] = ()
    well_known_ca_certificates: str | None = field(name="wellKnownCACertificates", default=None)


class BackendTLSPolicySpec(Excerpt, frozen=True, kw_only=True):
    """See :class:`BackendTLSPolicy`."""

    target_refs: tuple[PolicyTargetWithSection, ...]
    validation: TLSValidation


class BackendTLSPolicy(Foreign, frozen=True, kw_only=True):
    """TLS towards backends of this namespace."""

    spec: BackendTLSPolicySpec


# --- Envoy Gateway ---


class FQDNEndpoint(Excerpt, frozen=True, kw_only=True):
    """A DNS name and port."""

    hostname: ServerName
    port: Port


class IPEndpoint(Excerpt, frozen=True, kw_only=True):
    """An IP address and port."""

    address: str
    port: Port


class UnixEndpoint(Excerpt, frozen=True, kw_only=True):
    """A unix domain socket."""

    path: Text


class BackendEndpoint(Excerpt, frozen=True, kw_only=True):
    """An address, in one of three forms."""

    hostname: ServerName | None = None
    fqdn: FQDNEndpoint | None = None
    ip: IPEndpoint | None = None
    unix: UnixEndpoint | None = None


class BackendTLS(Excerpt, frozen=True, kw_only=True):
    """TLS of a Backend itself."""

    sni: ServerName | None = None
    insecure_skip_verify: bool = False
    ca_certificate_refs: tuple[LocalReference, ...] = ()
    well_known_ca_certificates: str | None = field(name="wellKnownCACertificates", default=None)


class BackendSpec(Excerpt, frozen=True, kw_only=True):
    """See :class:`Backend`."""

    endpoints: tuple[BackendEndpoint, ...] = ()
    tls: BackendTLS | None = None


class Backend(Foreign, frozen=True, kw_only=True):
    """Addresses outside of the cluster, or without a Service."""

    spec: BackendSpec


class RetryOn(Excerpt, frozen=True, kw_only=True):
    """What is repeated."""

    triggers: tuple[str, ...] = ()
    http_status_codes: tuple[Annotated[int, Meta(ge=100, le=599)], ...] = ()


class BackOff(Excerpt, frozen=True, kw_only=True):
    """Pauses between attempts."""

    base_interval: Duration | None = None
    max_interval: Duration | None = None


class PerRetry(Excerpt, frozen=True, kw_only=True):
    """Bounds of one attempt."""

    timeout: Duration | None = None
    back_off: BackOff | None = None


class RetryPolicy(Excerpt, frozen=True, kw_only=True):
    """How often an attempt is repeated."""

    num_retries: Count = 2
    num_attempts_per_priority: Count | None = None
    retry_on: RetryOn | None = None
    per_retry: PerRetry | None = None


class LimitHeader(Excerpt, frozen=True, kw_only=True):
    """A header that selects clients."""

    name: Annotated[str, Meta(min_length=1, max_length=256)]
    type: Literal["Exact", "RegularExpression", "Distinct"] = "Exact"
    value: Annotated[str, Meta(max_length=1024)] | None = None
    invert: bool | None = None


class LimitSelector(Excerpt, frozen=True, kw_only=True):
    """Clients that a limit is about."""

    headers: tuple[LimitHeader, ...] = ()
    source_cidr: Any = field(name="sourceCIDR", default=None)
    path: Any = None
    methods: Any = None
    query_params: Any = None


class LimitValue(Excerpt, frozen=True, kw_only=True):
    """So much per unit of time."""

    requests: Annotated[int, Meta(ge=0, le=2**32 - 1)]
    unit: Literal["Second", "Minute", "Hour", "Day"]


class LimitMetadata(Excerpt, frozen=True, kw_only=True):
    """A key of dynamic metadata."""

    namespace: str
    key: Annotated[str, Meta(min_length=1)]


class LimitCost(Excerpt, frozen=True, kw_only=True):
    """What is taken from a budget."""

    from_: Literal["Number", "Metadata"] = field(name="from")
    # More than that Envoy takes from no budget at once.
    number: Annotated[int, Meta(ge=0, le=1_000_000_000)] | None = None
    metadata: LimitMetadata | None = None


class LimitCosts(Excerpt, frozen=True, kw_only=True):
    """What is taken when a request comes and when it is done."""

    request: LimitCost | None = None
    response: LimitCost | None = None


class LimitRule(Excerpt, frozen=True, kw_only=True):
    """A budget of some clients."""

    client_selectors: tuple[LimitSelector, ...] = ()
    limit: LimitValue
    cost: LimitCosts | None = None
    shared: bool = False
    shadow_mode: bool = False


class GlobalLimit(Excerpt, frozen=True, kw_only=True):
    """Budgets that a service keeps for all gateways."""

    rules: tuple[LimitRule, ...] = ()
    shared: bool = False


class RateLimit(Excerpt, frozen=True, kw_only=True):
    """Budgets of clients."""

    type: str = ""
    global_: GlobalLimit | None = field(name="global", default=None)
    local: Any = None

    @property
    def global_shared(self) -> bool:
        """Whether all rules share their buckets with everything that the policy is about."""
        return self.global_ is not None and self.global_.shared


class BackendTrafficPolicySpec(Excerpt, frozen=True, kw_only=True):
    """See :class:`BackendTrafficPolicy`."""

    target_ref: PolicyTargetWithSection | None = None
    target_refs: tuple[PolicyTargetWithSection, ...] = ()
    target_selectors: Any = None
    retry: RetryPolicy | None = None
    rate_limit: RateLimit | None = None


class BackendTrafficPolicy(Foreign, frozen=True, kw_only=True):
    """How requests of a route or gateway reach their backends."""

    spec: BackendTrafficPolicySpec


# --- Gateway API Inference Extension ---


class PickerPort(Excerpt, frozen=True, kw_only=True):
    """The port of an endpoint picker."""

    number: int | None = None


class EndpointPickerReference(Excerpt, frozen=True, kw_only=True):
    """The service that picks endpoints."""

    name: str = ""
    port: PickerPort | None = None


class InferencePoolSpec(Excerpt, frozen=True, kw_only=True):
    """See :class:`InferencePool`."""

    endpoint_picker_ref: EndpointPickerReference | None = None


class InferencePool(Foreign, frozen=True, kw_only=True):
    """Model servers with a picker in front."""

    spec: InferencePoolSpec
