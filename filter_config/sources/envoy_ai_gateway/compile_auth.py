"""BackendSecurityPolicies to the auth of backends (contract, control plane 2.5 and 2.8).

Fail closed: a backend whose policy is ambiguous, invalid or without its secret has no auth that could be written, and
must not be served without.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from filter_config import model as document
from filter_config.redact import Secret
from filter_config.sources.envoy_ai_gateway.context import Context, Target
from filter_config.sources.envoy_ai_gateway.load import Found, raw_targets
from filter_config.sources.envoy_ai_gateway.resources import (
    AWSCredentials,
    AzureCredentials,
    BackendSecurityPolicy,
    BackendSecurityPolicySpec,
    CredentialOverride,
    GCPCredentials,
    SecretCredential,
)
from filter_config.sources.envoy_ai_gateway.secrets import (
    Unusable,
    aws_profile,
    generated_name,
    read_generated,
    read_secret,
)
from filter_config.sources.faults import Origin

Policy = Found[BackendSecurityPolicy]


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth:
    """How the processor authenticates to a backend."""

    auth: document.BackendAuth | None = None
    """None: without a credential."""
    origin: Origin | None = None
    remove: tuple[str, ...] = ()
    """Request headers that carry the client's credential and must not reach the provider."""
    problem: str = ""
    """Why the backend cannot be served; empty when it can."""


class Policies:
    """The policies by their targets. What is wrong with one is reported once, at the policy."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._by_target: defaultdict[tuple[str, str, str, str], list[Policy]] = defaultdict(list)
        self._unread: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
        self._built: dict[tuple[str, str], Auth] = {}
        for policy in context.resources.with_invalid(BackendSecurityPolicy):
            # A target that is listed twice is still the target of one policy.
            for ref in dict.fromkeys(policy.value.spec.target_refs):
                self._by_target[policy.namespace, ref.group, ref.kind, ref.name].append(policy)
        for origin, value in context.resources.unread(BackendSecurityPolicy):
            for name in raw_targets(value):
                self._unread[origin.namespace, *name].append(f"{origin.namespace}/{origin.name}")

    def auth(self, target: Target) -> Auth:
        """The auth of a backend or pool."""
        policies = self._by_target.get((target.namespace, target.group, target.kind, target.name), [])
        unread = self._unread.get((target.namespace, target.kind, target.name), [])
        names = sorted({f"{policy.namespace}/{policy.name}" for policy in policies} | set(unread))
        if len(names) > 1:
            return Auth(problem=f"several BackendSecurityPolicies are about it: {', '.join(names)}")
        if unread or any(not policy.valid for policy in policies):
            return Auth(problem=f"BackendSecurityPolicy {names[0]} has faults of its own")
        if not policies:
            return Auth()
        policy = policies[0]
        key = (policy.namespace, policy.name)
        if key not in self._built:
            self._built[key] = self._build(policy)
        return self._built[key]

    def _build(self, policy: Policy) -> Auth:
        spec = policy.value.spec
        build, path = _BUILDERS[spec.type]
        try:
            auth = build(self._context, policy, spec)
        except Unusable as unusable:
            self._context.faults.error(policy.origin.at(path), str(unusable), unusable.fix)
            return Auth(problem=f"BackendSecurityPolicy {policy.namespace}/{policy.name} gives no credential")
        override = _override(spec)
        return Auth(
            auth=msgspec.structs.replace(auth, credential_override=override),
            origin=policy.origin.at(path),
            remove=override.input_headers_to_remove if override is not None else (),
        )


# --- credentials ---


def _key(context: Context, policy: Policy, credential: SecretCredential | None) -> Secret:
    assert credential is not None  # the type's credential is given: rules.one_credential
    return read_secret(context, policy.namespace, credential.secret_ref, "apiKey")


def _api_key(context: Context, policy: Policy, spec: BackendSecurityPolicySpec) -> document.BackendAuth:
    return document.BackendAuth(api_key=document.APIKeyAuth(key=_key(context, policy, spec.api_key)))


def _azure_api_key(context: Context, policy: Policy, spec: BackendSecurityPolicySpec) -> document.BackendAuth:
    return document.BackendAuth(azure_api_key=document.AzureAPIKeyAuth(key=_key(context, policy, spec.azure_api_key)))


def _anthropic_api_key(context: Context, policy: Policy, spec: BackendSecurityPolicySpec) -> document.BackendAuth:
    return document.BackendAuth(
        anthropic_api_key=document.AnthropicAPIKeyAuth(key=_key(context, policy, spec.anthropic_api_key))
    )


def _aws(context: Context, policy: Policy, spec: BackendSecurityPolicySpec) -> document.BackendAuth:
    assert spec.aws_credentials is not None
    literal = _aws_file(context, policy, spec.aws_credentials)
    return document.BackendAuth(
        aws=document.AWSAuth(credential_file_literal=literal, region=spec.aws_credentials.region)
    )


def _aws_file(context: Context, policy: Policy, aws: AWSCredentials) -> Secret:
    if aws.credentials_file is not None:
        file = read_secret(context, policy.namespace, aws.credentials_file.secret_ref, "credentials")
        return aws_profile(file, aws.credentials_file.profile)
    if aws.oidc_exchange_token is not None:
        return read_generated(context, policy.namespace, policy.name, "credentials")
    return Secret()


def _azure(context: Context, policy: Policy, spec: BackendSecurityPolicySpec) -> document.BackendAuth:
    assert spec.azure_credentials is not None
    return document.BackendAuth(azure=_azure_token(context, policy, spec.azure_credentials))


def _azure_token(context: Context, policy: Policy, azure: AzureCredentials) -> document.AzureAuth:
    """The token that rotation has written, or what the processor needs to get one itself."""
    try:
        token = read_generated(context, policy.namespace, policy.name, "azureAccessToken")
    except Unusable:
        if azure.client_secret_ref is None:
            raise
        secret = read_secret(context, policy.namespace, azure.client_secret_ref, "client-secret")
        return document.AzureAuth(client_id=azure.client_id, tenant_id=azure.tenant_id, client_secret=secret)
    return document.AzureAuth(access_token=token)


def _gcp(context: Context, policy: Policy, spec: BackendSecurityPolicySpec) -> document.BackendAuth:
    assert spec.gcp_credentials is not None
    return document.BackendAuth(gcp=_gcp_token(context, policy, spec.gcp_credentials))


def _gcp_token(context: Context, policy: Policy, gcp: GCPCredentials) -> document.GCPAuth:
    token = Secret()
    if gcp.credentials_file is not None or gcp.workload_identity_federation_config is not None:
        try:
            token = read_generated(context, policy.namespace, policy.name, "gcpAccessToken")
        except Unusable as unusable:
            fix = f"let rotation write {generated_name(policy.name)}, or give no source for the default credentials"
            raise Unusable(str(unusable), fix) from None
    return document.GCPAuth(access_token=token, region=gcp.region, project_name=gcp.project_name)


_BUILDERS: Final[
    dict[str, tuple[Callable[[Context, Policy, BackendSecurityPolicySpec], document.BackendAuth], str]]
] = {
    "APIKey": (_api_key, "spec.apiKey"),
    "AzureAPIKey": (_azure_api_key, "spec.azureAPIKey"),
    "AnthropicAPIKey": (_anthropic_api_key, "spec.anthropicAPIKey"),
    "AWSCredentials": (_aws, "spec.awsCredentials"),
    "AzureCredentials": (_azure, "spec.azureCredentials"),
    "GCPCredentials": (_gcp, "spec.gcpCredentials"),
}

# --- override ---

# Where a client's credential is by default: a header and a metadata key of the same name, except for AWS.
_DEFAULT_INPUTS: Final = {
    "APIKey": "x-aigw-api-key",
    "AnthropicAPIKey": "x-aigw-anthropic-api-key",
    "AzureAPIKey": "x-aigw-azure-api-key",
    "AzureCredentials": "x-aigw-azure-access-token",
    "GCPCredentials": "x-aigw-gcp-access-token",
    "AWSCredentials": "x-aigw-aws-",
}
_AWS_METADATA_KEY: Final = "x-aigw-aws-credentials"
_AWS_SUFFIXES: Final = ("access-key-id", "secret-access-key", "session-token")


def _override(spec: BackendSecurityPolicySpec) -> document.CredentialOverride | None:
    override: CredentialOverride | None = spec.credential_override
    if override is None:
        return None
    default = _DEFAULT_INPUTS[spec.type]
    is_aws = spec.type == "AWSCredentials"
    if override.from_request_headers is not None:
        header = (override.from_request_headers.header or default).lower()
        return document.CredentialOverride(
            header_name=header,
            fallback_to_configured=override.from_request_headers.fallback_to_configured,
            input_headers_to_remove=tuple(f"{header}{suffix}" for suffix in _AWS_SUFFIXES) if is_aws else (header,),
        )
    metadata = override.from_dynamic_metadata
    assert metadata is not None  # exactly one source is given: rules.override_source
    return document.CredentialOverride(
        dynamic_metadata_namespace=metadata.namespace,
        dynamic_metadata_key=metadata.key or (_AWS_METADATA_KEY if is_aws else default),
        fallback_to_configured=metadata.fallback_to_configured,
    )
