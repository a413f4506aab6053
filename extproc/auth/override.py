"""Credentials that a request brings along, in headers or in dynamic metadata (contract, override 6.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic

from google.protobuf.struct_pb2 import Value

from extproc.auth.aws import credentials_of
from extproc.auth.base import Authenticator, CredentialT, Headers, Scheme, UpstreamCall
from extproc.auth.sigv4 import AWSCredentials
from extproc.errors import MissingCredential
from extproc.headertext import has_control_character
from filter_config.redact import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialForm(Generic[CredentialT]):
    """The shape in which a request brings one kind of credential.

    Attributes:
        suffixes: what follows the configured header name, for each part of the credential.
        members: the parts in a metadata struct; empty where the metadata value is the credential itself.
        build: makes a credential of its parts, at least one of which is not empty.
    """

    suffixes: tuple[str, ...]
    members: tuple[str, ...]
    build: Callable[..., CredentialT]

    def header_names(self, name: str) -> tuple[str, ...]:
        return tuple(name + suffix for suffix in self.suffixes)

    def in_headers(self, headers: Mapping[str, str], names: tuple[str, ...]) -> CredentialT | None:
        return self._of(*(headers.get(name, "") for name in names))

    def in_metadata(self, value: Value) -> CredentialT | None:
        # A value of another kind reads as empty, and so counts as absent.
        if not self.members:
            return self._of(value.string_value)
        fields = value.struct_value.fields
        return self._of(*(fields[member].string_value if member in fields else "" for member in self.members))

    def _of(self, *brought: str) -> CredentialT | None:
        parts = [_usable(part) for part in brought]
        return self.build(*parts) if any(parts) else None


TOKEN_FORM: CredentialForm[Secret] = CredentialForm(suffixes=("",), members=(), build=Secret)
AWS_FORM: CredentialForm[AWSCredentials] = CredentialForm(
    suffixes=("access-key-id", "secret-access-key", "session-token"),
    members=("accessKeyId", "secretAccessKey", "sessionToken"),
    build=credentials_of,
)


def _usable(text: str) -> str:
    """A part without the blanks around it; one that no header can carry counts as absent."""
    part = text.strip()
    return "" if has_control_character(part) else part


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialOverride(Generic[CredentialT]):
    """Takes the credential from the request; without one, falls back to the configured credential or refuses.

    Attributes:
        headers: lower-case names of the source headers; when there are any, the metadata source is ignored.
        namespace, key: where the credential stands in dynamic metadata.
        fallback: authenticates requests that bring no credential; ``None`` answers them with 401.
    """

    form: CredentialForm[CredentialT]
    scheme: Scheme[CredentialT]
    headers: tuple[str, ...]
    namespace: str
    key: str
    fallback: Authenticator | None

    @property
    def strips(self) -> frozenset[str]:
        # A source header is always stripped, also where the configuration forgot to list it for removal.
        return self.scheme.strips.union(self.headers)

    @property
    def constant(self) -> bool:
        return False

    def authenticate(self, call: UpstreamCall) -> Headers:
        if (credential := self._brought(call)) is not None:
            return self.scheme.apply(call, credential)
        if self.fallback is None:
            raise MissingCredential
        return self.fallback.authenticate(call)

    def refused(self, headers: Mapping[str, str], now: float) -> None:
        self.scheme.refused(headers, now)

    def _brought(self, call: UpstreamCall) -> CredentialT | None:
        if self.headers:
            return self.form.in_headers(call.headers, self.headers)
        namespace = call.metadata.get(self.namespace) if self.namespace else None
        if namespace is None or self.key not in namespace.fields:
            return None
        return self.form.in_metadata(namespace.fields[self.key])
