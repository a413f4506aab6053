"""Credentials that a request brings along, from a header or from dynamic metadata (contract, override 6.4)."""

from __future__ import annotations

from dataclasses import dataclass

from extproc.auth.base import CLIENT_CREDENTIALS, Authenticator, Emitter, UpstreamCall
from extproc.errors import MissingCredential
from extproc.headertext import has_control_character


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialOverride:
    """Takes the credential from the request; without one, falls back to the configured credential or refuses.

    Attributes:
        header: lower-case name of the source header; when set, the metadata source is ignored.
        namespace, key: where the credential stands in dynamic metadata.
        fallback: authenticates requests that bring no credential; ``None`` answers them with 401.
    """

    emit: Emitter
    header: str
    namespace: str
    key: str
    fallback: Authenticator | None

    @property
    def strips(self) -> frozenset[str]:
        # A source header is always stripped, also where the configuration forgot to list it for removal.
        return CLIENT_CREDENTIALS | {self.header} if self.header else CLIENT_CREDENTIALS

    def authenticate(self, call: UpstreamCall) -> list[tuple[str, str]]:
        if credential := self._credential(call):
            return self.emit(credential)
        if self.fallback is None:
            raise MissingCredential
        return self.fallback.authenticate(call)

    def _credential(self, call: UpstreamCall) -> str:
        """The credential that the request brings; one that no header can carry counts as absent."""
        credential = self._brought(call).strip()
        return "" if has_control_character(credential) else credential

    def _brought(self, call: UpstreamCall) -> str:
        if self.header:
            return call.headers.get(self.header, "")
        namespace = call.metadata.get(self.namespace) if self.namespace else None
        if namespace is None or self.key not in namespace.fields:
            return ""
        # A value of another kind than a string reads as empty, and so counts as absent.
        return namespace.fields[self.key].string_value
