"""The kinds of Envoy AI Gateway that route requests to models, in all served versions.

Contract: control plane 1.1 to 1.4 and 1.6. Field names are the documents' in snake case. What one field may hold is
said here; what several fields say together is in :mod:`.rules`. The two served versions differ only in
BackendSecurityPolicy, which :mod:`.rules` knows. NB: annotations are evaluated, so there is no ``from __future__ import
annotations`` here.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from filter_config.model import CostType, SchemaName
from filter_config.sources.envoy_ai_gateway.fields import (
    AWSOIDCExchangeToken,
    BackendObjectReference,
    BodyMutation,
    Duration,
    Group,
    HeaderMutation,
    HeaderName,
    Hostname,
    Kind,
    OIDCExchangeToken,
    OptionalNamespace,
    ParentReference,
    Part,
    PolicyTarget,
    Resource,
    SecretReference,
    SectionName,
    Text,
    Time,
)

# --- AIGatewayRoute ---


class HeaderMatch(Part, frozen=True, kw_only=True):
    """A header that a request must carry."""

    type: Literal["Exact", "RegularExpression"] = "Exact"
    name: HeaderName
    value: Annotated[str, Meta(min_length=1, max_length=4096)]


class RouteMatch(Part, frozen=True, kw_only=True):
    """Headers that all must match."""

    headers: Annotated[tuple[HeaderMatch, ...], Meta(max_length=16)] = ()


class RouteBackendRef(Part, frozen=True, kw_only=True):
    """A backend of a rule: an AIServiceBackend, or an InferencePool when group and kind say so."""

    name: Text
    namespace: OptionalNamespace = ""
    group: Group | None = None
    kind: Kind | None = None
    model_name_override: str = ""
    header_mutation: HeaderMutation | None = None
    body_mutation: BodyMutation | None = None
    weight: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 1
    priority: Annotated[int, Meta(ge=0, le=2**32 - 1)] = 0


class RouteTimeouts(Part, frozen=True, kw_only=True):
    """Bounds of the exchange and of one attempt."""

    request: Duration | None = None
    backend_request: Duration | None = None


class RouteRule(Part, frozen=True, kw_only=True):
    """Matches and the backends that serve them."""

    name: SectionName | None = None
    matches: Annotated[tuple[RouteMatch, ...], Meta(max_length=128)] = ()
    backend_refs: Annotated[tuple[RouteBackendRef, ...], Meta(max_length=128)] = ()
    timeouts: RouteTimeouts | None = None
    stream_idle_timeout: Duration | None = None
    models_owned_by: str = "Envoy AI Gateway"
    models_created_at: Time | None = None


class RequestCost(Part, frozen=True, kw_only=True):
    """A number computed for each request."""

    metadata_key: str
    type: CostType
    cel: str | None = None


class AIGatewayRouteSpec(Part, frozen=True, kw_only=True):
    """See :class:`AIGatewayRoute`."""

    parent_refs: Annotated[tuple[ParentReference, ...], Meta(max_length=16)] = ()
    hostnames: Annotated[tuple[Hostname, ...], Meta(max_length=16)] = ()
    rules: Annotated[tuple[RouteRule, ...], Meta(max_length=15)]
    llm_request_costs: Annotated[tuple[RequestCost, ...], Meta(max_length=36)] = ()


class AIGatewayRoute(Resource, frozen=True, kw_only=True):
    """Which requests go to which backends."""

    spec: AIGatewayRouteSpec
    status: Any = None


# --- AIServiceBackend ---


class APISchema(Part, frozen=True, kw_only=True):
    """The API that the backend speaks."""

    name: SchemaName
    version: str = ""
    prefix: str = ""


class AIServiceBackendSpec(Part, frozen=True, kw_only=True):
    """See :class:`AIServiceBackend`."""

    schema: APISchema
    backend_ref: BackendObjectReference
    header_mutation: HeaderMutation | None = None
    body_mutation: BodyMutation | None = None


class AIServiceBackend(Resource, frozen=True, kw_only=True):
    """A provider's API."""

    spec: AIServiceBackendSpec
    status: Any = None


# --- BackendSecurityPolicy ---


class SecretCredential(Part, frozen=True, kw_only=True):
    """A credential in a Secret."""

    secret_ref: SecretReference


class AWSCredentialsFile(Part, frozen=True, kw_only=True):
    """A shared credentials file in a Secret."""

    secret_ref: SecretReference
    profile: str = "default"


class AWSCredentials(Part, frozen=True, kw_only=True):
    """Signing with AWS credentials; neither source is the default chain of the processor."""

    region: Text
    credentials_file: AWSCredentialsFile | None = None
    oidc_exchange_token: AWSOIDCExchangeToken | None = None


class AzureCredentials(Part, frozen=True, kw_only=True):
    """A token of Microsoft Entra ID."""

    client_id: Text
    tenant_id: Text
    client_secret_ref: SecretReference | None = None
    oidc_exchange_token: OIDCExchangeToken | None = None


class ServiceAccountImpersonation(Part, frozen=True, kw_only=True):
    """The service account that a federated identity acts as."""

    service_account_name: Text


class GCPWorkloadIdentity(Part, frozen=True, kw_only=True):
    """A federated identity of GCP."""

    project_id: Text
    workload_identity_pool_name: Text
    workload_identity_provider_name: Text
    oidc_exchange_token: OIDCExchangeToken
    service_account_impersonation: ServiceAccountImpersonation | None = None


class GCPCredentials(Part, frozen=True, kw_only=True):
    """A token of GCP; neither source is Application Default Credentials, in v1beta1."""

    project_name: Text
    region: Text
    credentials_file: SecretCredential | None = None
    workload_identity_federation_config: GCPWorkloadIdentity | None = None


class HeaderOverride(Part, frozen=True, kw_only=True):
    """The credential comes in request headers."""

    header: str = ""
    fallback_to_configured: bool = True


class MetadataOverride(Part, frozen=True, kw_only=True):
    """The credential comes in dynamic metadata."""

    namespace: Text
    key: str = ""
    fallback_to_configured: bool = True


class CredentialOverride(Part, frozen=True, kw_only=True):
    """The credential comes with the request."""

    from_request_headers: HeaderOverride | None = None
    from_dynamic_metadata: MetadataOverride | None = None


PolicyType = Literal["APIKey", "AWSCredentials", "AzureAPIKey", "AzureCredentials", "GCPCredentials", "AnthropicAPIKey"]


class BackendSecurityPolicySpec(Part, frozen=True, kw_only=True):
    """See :class:`BackendSecurityPolicy`."""

    target_refs: Annotated[tuple[PolicyTarget, ...], Meta(max_length=16)] = ()
    type: PolicyType
    api_key: SecretCredential | None = None
    azure_api_key: SecretCredential | None = None
    anthropic_api_key: SecretCredential | None = None
    aws_credentials: AWSCredentials | None = None
    azure_credentials: AzureCredentials | None = None
    gcp_credentials: GCPCredentials | None = None
    credential_override: CredentialOverride | None = None


class BackendSecurityPolicy(Resource, frozen=True, kw_only=True):
    """How the processor authenticates to backends."""

    spec: BackendSecurityPolicySpec
    status: Any = None


# --- GatewayConfig ---


class ExtProcContainer(Part, frozen=True, kw_only=True):
    """The processor's container; what is not about images is passed on to Kubernetes."""

    image: str | None = None
    image_repository: str | None = None
    env: tuple[Any, ...] = ()
    resources: Any = None
    security_context: Any = None
    volume_mounts: tuple[Any, ...] = ()


class ExtProcSettings(Part, frozen=True, kw_only=True):
    """How the processor is run."""

    kubernetes: ExtProcContainer | None = None


class ForwardProxy(Part, frozen=True, kw_only=True):
    """An HTTP CONNECT proxy between Envoy and all backends."""

    address: Text


class GatewayConfigSpec(Part, frozen=True, kw_only=True):
    """See :class:`GatewayConfig`."""

    ext_proc: ExtProcSettings | None = None
    global_llm_request_costs: tuple[RequestCost, ...] = ()
    forward_proxy: ForwardProxy | None = None


class GatewayConfig(Resource, frozen=True, kw_only=True):
    """Settings of a gateway, named by an annotation of it."""

    spec: GatewayConfigSpec = GatewayConfigSpec()
    status: Any = None


# --- QuotaPolicy ---


class QuotaValue(Part, frozen=True, kw_only=True):
    """A budget per unit of time."""

    limit: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    duration: Literal["1s", "1m", "1h", "1d"]


class QuotaHeader(Part, frozen=True, kw_only=True):
    """A header that selects clients."""

    name: Annotated[str, Meta(min_length=1, max_length=256)]
    type: Literal["Exact", "RegularExpression", "Distinct"] = "Exact"
    value: Annotated[str, Meta(max_length=1024)] | None = None
    invert: bool = False


class ClientSelector(Part, frozen=True, kw_only=True):
    """Clients of a bucket. Of Envoy Gateway's selectors only headers count."""

    headers: Annotated[tuple[QuotaHeader, ...], Meta(max_length=64)] = ()
    source_cidr: Any = field(name="sourceCIDR", default=None)
    path: Any = None
    methods: Any = None
    query_params: Any = None


class QuotaBucketRule(Part, frozen=True, kw_only=True):
    """A bucket of some clients."""

    client_selectors: Annotated[tuple[ClientSelector, ...], Meta(max_length=8)] = ()
    quota: QuotaValue
    shadow_mode: bool = False


class ModelQuotaDefinition(Part, frozen=True, kw_only=True):
    """The buckets of a model and what a request costs."""

    cost_expression: str | None = None
    mode: Literal["Shared"] = "Shared"
    default_bucket: QuotaValue | None = None
    bucket_rules: tuple[QuotaBucketRule, ...] = ()


class PerModelQuota(Part, frozen=True, kw_only=True):
    """The quota of a model, named as it is sent to the backend."""

    model_name: Text
    quota: ModelQuotaDefinition


class ServiceQuota(Part, frozen=True, kw_only=True):
    """The quota of a backend for all its models that have none of their own, together."""

    cost_expression: str | None = None
    quota: QuotaValue


class QuotaPolicySpec(Part, frozen=True, kw_only=True):
    """See :class:`QuotaPolicy`."""

    target_refs: Annotated[tuple[PolicyTarget, ...], Meta(max_length=16)] = ()
    service_quota: ServiceQuota | None = None
    per_model_quotas: Annotated[tuple[PerModelQuota, ...], Meta(max_length=128)] = ()


class QuotaPolicy(Resource, frozen=True, kw_only=True):
    """Token budgets of backends."""

    spec: QuotaPolicySpec
    status: Any = None
