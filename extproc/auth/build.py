"""From a backend's ``auth`` section to what authenticates its requests."""

from __future__ import annotations

from extproc.auth.api_key import StaticCredential
from extproc.auth.base import Authenticator, Emitter, anthropic_api_key, azure_api_key, bearer
from extproc.auth.override import CredentialOverride
from extproc.errors import BackendFault
from filter_config.model import BackendAuth
from filter_config.redact import Secret


def build_authenticator(auth: BackendAuth) -> Authenticator:
    """The authenticator of a backend; of several methods the first in the contract's order counts (2.6).

    Raises:
        BackendFault: no method is configured, this build lacks it, or its credential cannot be used.
    """
    emit, credential = _method(auth)
    override = auth.credential_override
    if override is None:
        return _static(emit, credential)
    # The configured credential is needed, and so checked, only where a request may fall back to it.
    fallback = _static(emit, credential) if override.fallback_to_configured else None
    return CredentialOverride(
        emit=emit,
        header=override.header_name.lower(),
        namespace=override.dynamic_metadata_namespace,
        key=override.dynamic_metadata_key,
        fallback=fallback,
    )


def _static(emit: Emitter, credential: Secret) -> StaticCredential:
    if emit is azure_api_key and not credential:
        raise BackendFault("azure API key is required")
    return StaticCredential(credential=Secret(credential.reveal().strip()), emit=emit)


def _method(auth: BackendAuth) -> tuple[Emitter, Secret]:
    if auth.aws is not None:
        raise BackendFault("auth.aws is not available in this version")
    if auth.api_key is not None:
        return bearer, auth.api_key.key
    if auth.azure_api_key is not None:
        return azure_api_key, auth.azure_api_key.key
    if auth.azure is not None:
        return bearer, auth.azure.access_token
    if auth.gcp is not None:
        raise BackendFault("auth.gcp is not available in this version")
    if auth.anthropic_api_key is not None:
        return anthropic_api_key, auth.anthropic_api_key.key
    raise BackendFault("no backend auth handler found")
