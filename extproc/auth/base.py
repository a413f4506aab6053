"""The seam between a request to a backend and the ways to authenticate it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from google.protobuf.struct_pb2 import Struct

# What clients use to authenticate themselves. None of it is a provider's business once the gateway authenticates.
CLIENT_CREDENTIALS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamCall:
    """One attempt's request, as far as it is known when it is authenticated.

    Attributes:
        headers: by lower-case name, with everything that was set for this attempt; removed headers are still here.
        body: the final bytes that the backend gets.
        metadata: dynamic metadata that Envoy forwarded, by namespace.
    """

    headers: Mapping[str, str]
    body: bytes
    metadata: Mapping[str, Struct]


class Authenticator(Protocol):
    @property
    def strips(self) -> frozenset[str]:
        """Lower-case names of request headers that must not reach the backend."""
        ...

    def authenticate(self, call: UpstreamCall) -> list[tuple[str, str]]:
        """The headers to set on the request, in order.

        Raises:
            MissingCredential: the request had to bring a credential and did not.
        """
        ...


# How one kind of backend wants its credential: credential -> headers.
Emitter = Callable[[str], list[tuple[str, str]]]


def bearer(credential: str) -> list[tuple[str, str]]:
    return [("Authorization", f"Bearer {credential}")]


def azure_api_key(credential: str) -> list[tuple[str, str]]:
    return [("api-key", credential)]


def anthropic_api_key(credential: str) -> list[tuple[str, str]]:
    return [("x-api-key", credential)]
