"""The seams of authentication: what is known of a request, where a credential comes from, and how it is applied.

A *cell* holds the credential of a backend and is read without waiting; whatever refreshes it runs elsewhere. A *scheme*
turns a credential into headers. Both meet in an *authenticator*, which is all that the request path knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import msgspec
from google.protobuf.struct_pb2 import Struct

# What clients use to authenticate themselves. None of it is a provider's business once the gateway authenticates.
CLIENT_CREDENTIALS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key"})

Headers = list[tuple[str, str]]

CredentialT = TypeVar("CredentialT")
CredentialT_co = TypeVar("CredentialT_co", covariant=True)
CredentialT_contra = TypeVar("CredentialT_contra", contravariant=True)


class UpstreamCall(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt's request, as far as it is known when it is authenticated.

    Attributes:
        headers: by lower-case name, with everything that was set for this attempt; removed headers are still here.
            ``:path`` is absolute, and what goes on the wire unless the authenticator sets another.
        body: the final bytes that the backend gets, also where Envoy has them already.
        metadata: dynamic metadata that Envoy forwarded, by namespace.
        now: the time, in seconds since 1970; signatures carry it.
    """

    headers: Mapping[str, str]
    body: bytes
    metadata: Mapping[str, Struct]
    now: float


class Authenticator(Protocol):
    @property
    def strips(self) -> frozenset[str]:
        """Lower-case names of request headers that must not reach the backend."""
        ...

    @property
    def constant(self) -> bool:
        """Whether every request gets the same headers, whatever it is and whenever it comes."""
        ...

    def authenticate(self, call: UpstreamCall) -> Headers:
        """The headers to set on the request, in order; each replaces what was set under its name, ``:path`` too.

        Raises:
            ClientError: the request cannot be authenticated. ``MissingCredential`` and ``IncompleteCredential`` are
                the client's to mend, ``BackendUnavailable`` is ours.
        """
        ...

    def refused(self, headers: Mapping[str, str], now: float) -> None:
        """Learn from an answer of the backend that is no success, for the requests to come.

        Args:
            headers: of the answer, by lower-case name, with ``:status``.
            now: seconds since 1970.
        """
        ...


class CredentialCell(Protocol[CredentialT_co]):
    """Where the credential of a backend stands."""

    def read(self) -> CredentialT_co:
        """The credential as it is now; never waits.

        Raises:
            BackendUnavailable: there is none (any more).
        """
        ...


class Scheme(Protocol[CredentialT_contra]):
    """How one kind of backend wants its credential."""

    @property
    def strips(self) -> frozenset[str]:
        """Lower-case names of request headers that would contradict the credential."""
        ...

    @property
    def constant(self) -> bool:
        """Whether the headers depend on nothing but the credential."""
        ...

    def apply(self, call: UpstreamCall, credential: CredentialT_contra) -> Headers:
        """The headers that carry the credential."""
        ...

    def refused(self, headers: Mapping[str, str], now: float) -> None:
        """See :class:`Authenticator`."""
        ...


@dataclass(frozen=True, slots=True)
class FixedCell(Generic[CredentialT]):
    """Holds a credential that the filter config gives; a new one comes with a new config."""

    credential: CredentialT

    def read(self) -> CredentialT:
        return self.credential


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredCredential(Generic[CredentialT]):
    """Authenticates every request with the backend's own credential."""

    cell: CredentialCell[CredentialT]
    scheme: Scheme[CredentialT]

    @property
    def strips(self) -> frozenset[str]:
        return self.scheme.strips

    @property
    def constant(self) -> bool:
        return self.scheme.constant and isinstance(self.cell, FixedCell)

    def authenticate(self, call: UpstreamCall) -> Headers:
        return self.scheme.apply(call, self.cell.read())

    def refused(self, headers: Mapping[str, str], now: float) -> None:
        self.scheme.refused(headers, now)
