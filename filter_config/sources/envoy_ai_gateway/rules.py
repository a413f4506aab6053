"""What the fields of a resource must say together: the CRDs' rules across fields, as a table by kind.

What one field may hold is in the annotations of the structs. Each rule takes a resource and yields what is wrong with
it; :data:`RULES` says which rules a kind has (contract, control plane 1.1 to 1.6).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from filter_config.decode import did_you_mean, shown
from filter_config.sources.envoy_ai_gateway.durations import seconds
from filter_config.sources.envoy_ai_gateway.fields import (
    AI_GROUP,
    ENVOY_GATEWAY_GROUP,
    GATEWAY_GROUP,
    INFERENCE_GROUP,
    BodyMutation,
    HeaderMutation,
)
from filter_config.sources.envoy_ai_gateway.mcp_rules import MCP_RULES
from filter_config.sources.envoy_ai_gateway.reading import Finding

if TYPE_CHECKING:
    from filter_config.sources.envoy_ai_gateway.fields import OIDC, ParentReference, PolicyTarget
    from filter_config.sources.envoy_ai_gateway.kubernetes import Backend, BackendTrafficPolicy
    from filter_config.sources.envoy_ai_gateway.mcp_resources import MCPRoute
    from filter_config.sources.envoy_ai_gateway.resources import (
        AIGatewayRoute,
        AIServiceBackend,
        BackendSecurityPolicy,
        BackendSecurityPolicySpec,
        GatewayConfig,
        QuotaPolicy,
        QuotaValue,
        RouteBackendRef,
        RouteRule,
    )

Rule = Callable[[Any], Iterable[Finding]]

RESERVED_RULE_NAME: Final = "route-not-found"

_MAX_LIMIT: Final = 2**32 - 1
# Limits of the HTTPRoute that a cluster makes of a route (contract, control plane 1.1).
_HTTP_MATCHES_PER_RULE: Final = 64
_HTTP_MATCHES: Final = 128
_HTTP_BACKENDS_PER_RULE: Final = 16
# A name with the longest prefix of an object made of a route must fit 253 characters (3.2).
_MAX_ROUTE_NAME: Final = 222

_IMAGE: Final = re.compile(
    r"[a-z0-9][a-z0-9._-]*(:[0-9]+)?(/[a-z0-9._-]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[a-f0-9]{64})?\Z"
)

_MAX_SOCKET_PATH: Final = 107
# Conditions of Envoy's HTTP router, those of gRPC last.
_TRIGGERS: Final = (
    "5xx",
    "gateway-error",
    "reset",
    "reset-before-request",
    "connect-failure",
    "envoy-ratelimited",
    "retriable-4xx",
    "refused-stream",
    "retriable-status-codes",
    "retriable-headers",
    "http3-post-connect-failure",
    "cancelled",
    "deadline-exceeded",
    "internal",
    "resource-exhausted",
    "unavailable",
)

# Names of containers may have underscores; a cluster does not take them, and nothing else speaks against them.
_HOST: Final = re.compile(r"[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?(\.[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?)*\Z")


# --- routes ---


def parents_are_gateways(resource: AIGatewayRoute | MCPRoute) -> Iterator[Finding]:
    """Routes attach to gateways alone."""
    for index, parent in enumerate(resource.spec.parent_refs):
        yield from _is_gateway(parent, f"spec.parentRefs[{index}]")


def _is_gateway(parent: ParentReference, at: str) -> Iterator[Finding]:
    if parent.kind != "Gateway":
        yield Finding(f"{at}.kind", f"{shown(parent.kind)} is no gateway", "write Gateway")
    elif parent.group != GATEWAY_GROUP:
        yield Finding(f"{at}.group", f"{shown(parent.group)} has no gateways", f"write {GATEWAY_GROUP}")


def rule_names(route: AIGatewayRoute) -> Iterator[Finding]:
    """Names of rules are unique, and one is taken."""
    names = [rule.name for rule in route.spec.rules]
    for index, name in enumerate(names):
        if name == RESERVED_RULE_NAME:
            yield Finding(f"spec.rules[{index}].name", f"{shown(name)} is reserved", "choose another name")
        elif name is not None and name in names[:index]:
            yield Finding(f"spec.rules[{index}].name", f"{shown(name)} is the name of another rule", "rename one")


def backend_refs(route: AIGatewayRoute) -> Iterator[Finding]:
    """A rule has AIServiceBackends, or one InferencePool."""
    for index, rule in enumerate(route.spec.rules):
        at = f"spec.rules[{index}].backendRefs"
        for place, ref in enumerate(rule.backend_refs):
            yield from _backend_ref(ref, f"{at}[{place}]")
        typed = [ref for ref in rule.backend_refs if ref.group is not None or ref.kind is not None]
        if typed and len(rule.backend_refs) > 1:
            yield Finding(at, "an InferencePool and another backend in one rule", "give the pool a rule of its own")


def _backend_ref(ref: RouteBackendRef, at: str) -> Iterator[Finding]:
    fix = f"write group {INFERENCE_GROUP} and kind InferencePool, or neither for an AIServiceBackend"
    if (ref.group is None) != (ref.kind is None):
        yield Finding(at, "group and kind must be given together", fix)
    elif ref.group is not None and (ref.group, ref.kind) != (INFERENCE_GROUP, "InferencePool"):
        yield Finding(at, f"{shown(f'{ref.group}/{ref.kind}')} cannot be a backend", fix)
    for level, mutation in (("headerMutation", ref.header_mutation), ("bodyMutation", ref.body_mutation)):
        yield from mutations(mutation, f"{at}.{level}")


def mutations(mutation: HeaderMutation | BodyMutation | None, at: str) -> Iterator[Finding]:
    """What is set is named once, and so is what is removed."""
    if mutation is None:
        return
    key = "name" if isinstance(mutation, HeaderMutation) else "path"
    yield from _unique((getattr(entry, key) for entry in mutation.set), f"{at}.set", key)
    yield from _unique(mutation.remove, f"{at}.remove", "")
    if isinstance(mutation, HeaderMutation):
        for index, header in enumerate(mutation.set):
            if not 1 <= len(header.value) <= 4096:
                message = "a header's value has 1 to 4096 characters"
                yield Finding(f"{at}.set[{index}].value", message, "write a value, or remove the header")


def _unique(values: Iterable[str], at: str, key: str) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, value in enumerate(values):
        if value in seen:
            path = f"{at}[{index}].{key}" if key else f"{at}[{index}]"
            yield Finding(path, f"{shown(value)} is there twice", "keep one")
        seen.add(value)


def match_headers(route: AIGatewayRoute) -> Iterator[Finding]:
    """A match names a header once."""
    for index, rule in enumerate(route.spec.rules):
        for place, match in enumerate(rule.matches):
            names = (header.name for header in match.headers)
            yield from _unique(names, f"spec.rules[{index}].matches[{place}].headers", "name")


def timeouts(route: AIGatewayRoute) -> Iterator[Finding]:
    """An attempt lasts no longer than the exchange."""
    for index, rule in enumerate(route.spec.rules):
        at = f"spec.rules[{index}].timeouts.backendRequest"
        if rule.timeouts is None or rule.timeouts.request is None or rule.timeouts.backend_request is None:
            continue
        whole, attempt = seconds(rule.timeouts.request), seconds(rule.timeouts.backend_request)
        if whole and attempt > whole:
            message = f"{rule.timeouts.backend_request} is more than the request timeout {rule.timeouts.request}"
            yield Finding(at, message, "write a shorter one")


def cluster_limits(route: AIGatewayRoute) -> Iterator[Finding]:
    """What a cluster would refuse later, when an HTTPRoute is made of the route."""
    for index, rule in enumerate(route.spec.rules):
        yield from _http_rule(rule, f"spec.rules[{index}]")
    total = sum(max(1, len(rule.matches)) for rule in route.spec.rules)
    if total > _HTTP_MATCHES:
        message = f"{total} matches: an HTTPRoute, which a cluster makes of it, has at most {_HTTP_MATCHES}"
        yield Finding("spec.rules", message, "split the route", warning=True)
    if len(route.metadata.name) > _MAX_ROUTE_NAME:
        message = f"longer than {_MAX_ROUTE_NAME} characters: names of objects that a cluster makes of it do not fit"
        yield Finding("metadata.name", message, "choose a shorter name", warning=True)


def _http_rule(rule: RouteRule, at: str) -> Iterator[Finding]:
    limits = (
        ("matches", len(rule.matches), _HTTP_MATCHES_PER_RULE),
        ("backendRefs", len(rule.backend_refs), _HTTP_BACKENDS_PER_RULE),
    )
    for field, count, limit in limits:
        if count > limit:
            message = f"{count} entries: a rule of an HTTPRoute, which a cluster makes of it, has at most {limit}"
            yield Finding(f"{at}.{field}", message, "split the rule", warning=True)


# --- backends ---


def envoy_gateway_backend(backend: AIServiceBackend) -> Iterator[Finding]:
    """A provider is reached through a Backend of Envoy Gateway."""
    ref = backend.spec.backend_ref
    if (ref.group, ref.kind) != (ENVOY_GATEWAY_GROUP, "Backend"):
        message = f"{shown(f'{ref.group}/{ref.kind}')} cannot be used"
        yield Finding("spec.backendRef", message, f"write group {ENVOY_GATEWAY_GROUP} and kind Backend")


def backend_mutations(backend: AIServiceBackend) -> Iterator[Finding]:
    """See :func:`mutations`."""
    yield from mutations(backend.spec.header_mutation, "spec.headerMutation")
    yield from mutations(backend.spec.body_mutation, "spec.bodyMutation")


# --- policies ---

_CREDENTIALS: Final = {
    "APIKey": ("api_key", "apiKey"),
    "AWSCredentials": ("aws_credentials", "awsCredentials"),
    "AzureAPIKey": ("azure_api_key", "azureAPIKey"),
    "AzureCredentials": ("azure_credentials", "azureCredentials"),
    "GCPCredentials": ("gcp_credentials", "gcpCredentials"),
    "AnthropicAPIKey": ("anthropic_api_key", "anthropicAPIKey"),
}
_OLD_VERSION: Final = f"{AI_GROUP}/v1alpha1"


def policy_targets(policy: BackendSecurityPolicy) -> Iterator[Finding]:
    """A policy is about AIServiceBackends and InferencePools."""
    allowed = {(AI_GROUP, "AIServiceBackend"), (INFERENCE_GROUP, "InferencePool")}
    yield from _targets(policy.spec.target_refs, allowed)


def quota_targets(policy: QuotaPolicy) -> Iterator[Finding]:
    """A quota is about AIServiceBackends."""
    yield from _targets(policy.spec.target_refs, {(AI_GROUP, "AIServiceBackend")})


def _targets(targets: Iterable[PolicyTarget], allowed: set[tuple[str, str]]) -> Iterator[Finding]:
    words = " or ".join(f"group {group} and kind {kind}" for group, kind in sorted(allowed))
    for index, target in enumerate(targets):
        if (target.group, target.kind) not in allowed:
            message = f"{shown(f'{target.group}/{target.kind}')} cannot be a target"
            yield Finding(f"spec.targetRefs[{index}]", message, f"write {words}")


def one_credential(policy: BackendSecurityPolicy) -> Iterator[Finding]:
    """The type's credential is given, and no other."""
    for kind, (attribute, key) in _CREDENTIALS.items():
        given = getattr(policy.spec, attribute) is not None
        if kind == policy.spec.type and not given:
            yield Finding(f"spec.{key}", f"type {kind} needs it", "give it, or write another type")
        elif kind != policy.spec.type and given:
            yield Finding(
                f"spec.{key}", f"does not go with type {policy.spec.type}", f"remove it, or write type {kind}"
            )


def azure_source(policy: BackendSecurityPolicy) -> Iterator[Finding]:
    """A token of Entra has one source."""
    azure = policy.spec.azure_credentials
    if azure is not None and (azure.client_secret_ref is None) == (azure.oidc_exchange_token is None):
        fix = "give clientSecretRef or oidcExchangeToken"
        yield Finding("spec.azureCredentials", "exactly one source of the token is needed", fix)


def aws_source(policy: BackendSecurityPolicy) -> Iterator[Finding]:
    """Credentials of AWS have at most one source."""
    aws = policy.spec.aws_credentials
    if aws is not None and aws.credentials_file is not None and aws.oidc_exchange_token is not None:
        yield Finding("spec.awsCredentials", "two sources of credentials", "keep credentialsFile or oidcExchangeToken")


def gcp_source(policy: BackendSecurityPolicy) -> Iterator[Finding]:
    """A token of GCP has one source; none stands for the default credentials, except in v1alpha1."""
    gcp = policy.spec.gcp_credentials
    if gcp is None:
        return
    given = (gcp.credentials_file is not None) + (gcp.workload_identity_federation_config is not None)
    if given > 1:
        fix = "keep credentialsFile or workloadIdentityFederationConfig"
        yield Finding("spec.gcpCredentials", "two sources of credentials", fix)
    elif given == 0 and policy.api_version == _OLD_VERSION:
        fix = "give credentialsFile or workloadIdentityFederationConfig, or write apiVersion v1beta1"
        yield Finding("spec.gcpCredentials", "v1alpha1 needs a source of credentials", fix)


def oidc_client(policy: BackendSecurityPolicy) -> Iterator[Finding]:
    """A client of an identity provider is named once."""
    for at, oidc in _oidc(policy.spec):
        if (oidc.client_id is None) == (oidc.client_id_ref is None):
            yield Finding(f"spec.{at}.oidcExchangeToken.oidc", "needs clientID or clientIDRef", "give one of the two")


def _oidc(spec: BackendSecurityPolicySpec) -> Iterator[tuple[str, OIDC]]:
    if spec.aws_credentials is not None and spec.aws_credentials.oidc_exchange_token is not None:
        yield "awsCredentials", spec.aws_credentials.oidc_exchange_token.oidc
    if spec.azure_credentials is not None and spec.azure_credentials.oidc_exchange_token is not None:
        yield "azureCredentials", spec.azure_credentials.oidc_exchange_token.oidc
    gcp = spec.gcp_credentials
    if gcp is not None and gcp.workload_identity_federation_config is not None:
        federation = gcp.workload_identity_federation_config
        yield "gcpCredentials.workloadIdentityFederationConfig", federation.oidc_exchange_token.oidc


def override_source(policy: BackendSecurityPolicy) -> Iterator[Finding]:
    """A credential that comes with the request comes in one way, which v1alpha1 does not know."""
    override = policy.spec.credential_override
    if override is None:
        return
    at = "spec.credentialOverride"
    if policy.api_version == _OLD_VERSION:
        yield Finding(at, "v1alpha1 has no such field, and a cluster would drop it", "write apiVersion v1beta1")
    if (override.from_request_headers is None) == (override.from_dynamic_metadata is None):
        yield Finding(at, "exactly one source is needed", "give fromRequestHeaders or fromDynamicMetadata")


# --- gateways ---


def images(config: GatewayConfig) -> Iterator[Finding]:
    """The processor's image is named in one way."""
    ext_proc = config.spec.ext_proc
    container = ext_proc.kubernetes if ext_proc is not None else None
    if container is None:
        return
    at = "spec.extProc.kubernetes"
    if container.image is not None and container.image_repository is not None:
        yield Finding(at, "image and imageRepository exclude each other", "keep one")
    if container.image is not None and _IMAGE.match(container.image) is None:
        fix = "write repository:tag, repository@sha256:digest or repository"
        yield Finding(f"{at}.image", f"{shown(container.image)} is no image", fix)
    repository = container.image_repository or ""
    if ":" in repository.rpartition("/")[2] or "@" in repository:
        yield Finding(f"{at}.imageRepository", "must not name a tag", "write the repository alone, or image")


def global_costs(config: GatewayConfig) -> Iterator[Finding]:
    """A key has one cost."""
    keys = (cost.metadata_key for cost in config.spec.global_llm_request_costs)
    yield from _unique(keys, "spec.globalLLMRequestCosts", "metadataKey")


def proxy_address(config: GatewayConfig) -> Iterator[Finding]:
    """A proxy is named by host and port (contract, control plane 6.8)."""
    proxy = config.spec.forward_proxy
    if proxy is None:
        return
    host, _, port = proxy.address.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or not 1 <= int(port) <= 65535:
        message = f"{shown(proxy.address)} is no address"
        yield Finding("spec.forwardProxy.address", message, "write host:port, such as proxy.example.com:3128")


# --- quotas ---


def quota_buckets(policy: QuotaPolicy) -> Iterator[Finding]:
    """A model's quota has a bucket, and each bucket a selector that can be read."""
    for index, entry in enumerate(policy.spec.per_model_quotas):
        at = f"spec.perModelQuotas[{index}].quota"
        if entry.quota.default_bucket is None and not entry.quota.bucket_rules:
            yield Finding(at, "has neither defaultBucket nor bucketRules", "give one of the two")
        for place, rule in enumerate(entry.quota.bucket_rules):
            for number, selector in enumerate(rule.client_selectors):
                where = f"{at}.bucketRules[{place}].clientSelectors[{number}]"
                if not selector.headers:
                    yield Finding(where, "selects no header, and selects every client", "give headers", warning=True)


def quota_limits(policy: QuotaPolicy) -> Iterator[Finding]:
    """A limit is what a rate limit service can count to; the rest of a larger one would be lost without a word."""
    values: list[tuple[str, QuotaValue | None]] = []
    if policy.spec.service_quota is not None:
        values.append(("serviceQuota.quota", policy.spec.service_quota.quota))
    for index, entry in enumerate(policy.spec.per_model_quotas):
        at = f"perModelQuotas[{index}].quota"
        values.append((f"{at}.defaultBucket", entry.quota.default_bucket))
        rules = enumerate(entry.quota.bucket_rules)
        values += [(f"{at}.bucketRules[{place}].quota", rule.quota) for place, rule in rules]
    for at, value in values:
        if value is not None and value.limit > _MAX_LIMIT:
            message = f"{value.limit} is more than a rate limit service counts"
            yield Finding(f"spec.{at}.limit", message, f"write at most {_MAX_LIMIT}")


# --- endpoints ---


def addresses(backend: Backend) -> Iterator[Finding]:
    """A name is no URL, and what stands for an IP address is one."""
    for index, endpoint in enumerate(backend.spec.endpoints):
        at = f"spec.endpoints[{index}]"
        if endpoint.fqdn is not None and not _HOST.match(endpoint.fqdn.hostname):
            fix = "write a host name in lower case, without scheme, port and path"
            yield Finding(f"{at}.fqdn.hostname", f"{shown(endpoint.fqdn.hostname)} is no host name", fix)
        if endpoint.ip is not None and not _is_ip(endpoint.ip.address):
            fix = "write one, or give the name as fqdn"
            yield Finding(f"{at}.ip.address", f"{shown(endpoint.ip.address)} is no IP address", fix)
        if endpoint.unix is not None and not _is_socket(endpoint.unix.path):
            fix = f"write one of at most {_MAX_SOCKET_PATH} bytes"
            yield Finding(f"{at}.unix.path", "cannot be the path of a socket", fix)


def _is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_socket(path: str) -> bool:
    # A NUL at the start makes an abstract one, which has no name that ends.
    return len(path.encode("utf-8", "surrogatepass")) <= _MAX_SOCKET_PATH and "\0" not in path


# --- traffic ---


def traffic_targets(policy: BackendTrafficPolicy) -> Iterator[Finding]:
    """What a policy is about is looked up by name, and a listener has none of its own."""
    spec = policy.spec
    places = [
        ("spec.targetRef", spec.target_ref),
        *((f"spec.targetRefs[{i}]", ref) for i, ref in enumerate(spec.target_refs)),
    ]
    for at, ref in places:
        if ref is not None and ref.group == GATEWAY_GROUP and ref.kind == "Gateway" and ref.section_name:
            message = "a policy of a single listener has no effect here"
            yield Finding(f"{at}.sectionName", message, "remove it, or write a policy of routes", warning=True)
    if spec.target_selectors:
        yield Finding("spec.targetSelectors", "has no effect here", "name the targets in targetRefs", warning=True)


def retry_triggers(policy: BackendTrafficPolicy) -> Iterator[Finding]:
    """Envoy passes over what it does not know."""
    retry_on = policy.spec.retry.retry_on if policy.spec.retry is not None else None
    for index, trigger in enumerate(retry_on.triggers if retry_on is not None else ()):
        if trigger not in _TRIGGERS:
            at = f"spec.retry.retryOn.triggers[{index}]"
            fix = did_you_mean(trigger, _TRIGGERS) or f"write one of {', '.join(_TRIGGERS)}"
            yield Finding(
                at, f"{shown(trigger)} is unknown to Envoy, and nothing is repeated for it", fix, warning=True
            )


RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "AIGatewayRoute": (parents_are_gateways, rule_names, backend_refs, match_headers, timeouts, cluster_limits),
    "AIServiceBackend": (envoy_gateway_backend, backend_mutations),
    "BackendSecurityPolicy": (
        policy_targets,
        one_credential,
        azure_source,
        aws_source,
        gcp_source,
        oidc_client,
        override_source,
    ),
    "GatewayConfig": (images, global_costs, proxy_address),
    "Backend": (addresses,),
    "BackendTrafficPolicy": (traffic_targets, retry_triggers),
    "QuotaPolicy": (quota_targets, quota_buckets, quota_limits),
    "MCPRoute": (parents_are_gateways, *MCP_RULES),
}


def check(kind: str, resource: object) -> Iterator[Finding]:
    """Everything that the rules of a kind find."""
    for rule in RULES.get(kind, ()):
        yield from rule(resource)
