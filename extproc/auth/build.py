"""From a backend's ``auth`` section to what authenticates its requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic

from extproc.auth.api_key import ANTHROPIC_API_KEY, AZURE_API_KEY, BEARER, token_cell, trimmed
from extproc.auth.aws import BedrockScheme, credentials_cell
from extproc.auth.azure_source import azure_source
from extproc.auth.base import Authenticator, ConfiguredCredential, CredentialCell, CredentialT, Scheme
from extproc.auth.gcp import vertex_ai
from extproc.auth.gcp_source import gcp_source
from extproc.auth.override import AWS_FORM, TOKEN_FORM, CredentialForm, CredentialOverride
from extproc.auth.sigv4 import AWSCredentials
from extproc.auth.sources import Cells
from extproc.errors import BackendFault
from filter_config.model import (
    AUTH_METHODS,
    AnthropicAPIKeyAuth,
    APIKeyAuth,
    AWSAuth,
    AzureAPIKeyAuth,
    AzureAuth,
    BackendAuth,
    GCPAuth,
)
from filter_config.redact import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class _Method(Generic[CredentialT]):
    """A method as a backend configures it.

    Attributes:
        cell: gives the configured credential, or the cell of its source; called only where it is needed, since it may
            not be usable.
        form: how a request brings its own.
    """

    scheme: Scheme[CredentialT]
    cell: Callable[[Cells], CredentialCell[CredentialT]]
    form: CredentialForm[CredentialT]

    def configured(self, cells: Cells) -> ConfiguredCredential[CredentialT]:
        return ConfiguredCredential(cell=self.cell(cells), scheme=self.scheme)


def build_authenticator(auth: BackendAuth, cells: Cells) -> Authenticator:
    """The authenticator of a backend; of several methods the first in the contract's order counts (2.6).

    Args:
        auth: the section of the backend.
        cells: gives the cells of credentials that are not in the config.

    Raises:
        BackendFault: no method is configured, this build lacks it, or its credential cannot be used.
    """
    method = _method(auth)
    override = auth.credential_override
    if override is None:
        return method.configured(cells)
    return CredentialOverride(
        form=method.form,
        scheme=method.scheme,
        headers=credential_headers(auth),
        namespace=override.dynamic_metadata_namespace,
        key=override.dynamic_metadata_key,
        # The configured credential is needed, and so checked, only where a request may fall back to it.
        fallback=method.configured(cells) if override.fallback_to_configured else None,
    )


def credential_headers(auth: BackendAuth) -> tuple[str, ...]:
    """Lower-case names of the headers in which requests to a backend may bring their credential."""
    override = auth.credential_override
    if override is None or not override.header_name:
        return ()
    # The first method that is configured counts, and AWS comes first.
    form = TOKEN_FORM if auth.aws is None else AWS_FORM
    return form.header_names(override.header_name.lower())


def _method(auth: BackendAuth) -> _Method[Any]:
    for name in AUTH_METHODS:
        if (section := getattr(auth, name)) is not None:
            return _METHODS[name](section)
    raise BackendFault("no backend auth handler found")


def _aws(auth: AWSAuth) -> _Method[AWSCredentials]:
    return _Method(
        scheme=BedrockScheme(region=auth.region),
        cell=partial(credentials_cell, auth.credential_file_literal, auth.region),
        form=AWS_FORM,
    )


def _token(scheme: Scheme[Secret], cell: Callable[[Cells], CredentialCell[Secret]]) -> _Method[Secret]:
    return _Method(scheme=scheme, cell=cell, form=TOKEN_FORM)


def _api_key(auth: APIKeyAuth) -> _Method[Secret]:
    return _token(BEARER, lambda _: token_cell(trimmed(auth.key)))


def _azure_api_key(auth: AzureAPIKeyAuth) -> _Method[Secret]:
    return _token(AZURE_API_KEY, partial(_azure_api_key_cell, auth.key))


def _azure_api_key_cell(key: Secret, _: Cells) -> CredentialCell[Secret]:
    if not key:
        raise BackendFault("azure API key is required")
    return token_cell(trimmed(key))


def _azure(auth: AzureAuth) -> _Method[Secret]:
    return _token(BEARER, partial(_azure_cell, auth))


def _azure_cell(auth: AzureAuth, cells: Cells) -> CredentialCell[Secret]:
    token = trimmed(auth.access_token)
    return token_cell(token) if token else cells.of(azure_source(auth))


def _gcp(auth: GCPAuth) -> _Method[Secret]:
    scheme = vertex_ai(project=auth.project_name, region=auth.region)
    return _token(scheme, partial(_gcp_cell, auth))


def _gcp_cell(auth: GCPAuth, cells: Cells) -> CredentialCell[Secret]:
    # Used as it is, also when it is blank (contract, GCP 6.3).
    return token_cell(auth.access_token) if auth.access_token else cells.of(gcp_source(auth))


def _anthropic_api_key(auth: AnthropicAPIKeyAuth) -> _Method[Secret]:
    return _token(ANTHROPIC_API_KEY, lambda _: token_cell(trimmed(auth.key)))


_METHODS: dict[str, Callable[[Any], _Method[Any]]] = {
    "aws": _aws,
    "api_key": _api_key,
    "azure_api_key": _azure_api_key,
    "azure": _azure,
    "gcp": _gcp,
    "anthropic_api_key": _anthropic_api_key,
}
