"""What the webhook asks of the cluster, as a protocol, so that its core has no Kubernetes client.

Answers come from memory: the API server waits for the webhook while a pod is created, and a webhook that asks the API
server in turn makes each admission as slow, and as likely to fail, as several requests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from deploy.injector.names import GatewayRef
    from filter_config.sources.envoy_ai_gateway.resources import ExtProcContainer

_NUMBER: Final = re.compile(r"[0-9]+", re.ASCII)


class FactsUnknown(Exception):
    """The cluster's state about something is not known; the text says about what, and why."""


class KubernetesVersion(NamedTuple):
    """A version of Kubernetes, which compares as a tuple: 2.0 is newer than 1.33."""

    major: int
    minor: int

    @classmethod
    def parse(cls, major: str, minor: str) -> KubernetesVersion | None:
        """What the API server says at ``/version``, where managed clusters write ``33+``; None if it says nothing."""
        numbers = [_NUMBER.search(text) for text in (major, minor)]
        if numbers[0] is None or numbers[1] is None:
            return None
        return cls(int(numbers[0].group()), int(numbers[1].group()))

    @property
    def has_native_sidecars(self) -> bool:
        """Whether init containers that go on running are there to be relied on (contract, control plane 4.3)."""
        return self >= NATIVE_SIDECARS


NATIVE_SIDECARS: Final = KubernetesVersion(1, 33)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """Which kinds of routes name a gateway as a parent, those included that are being deleted."""

    ai_routes: bool = False
    mcp_routes: bool = False

    def __bool__(self) -> bool:
        return self.ai_routes or self.mcp_routes


class ClusterFacts(Protocol):
    """The state of the cluster. Every method may raise ``FactsUnknown``."""

    def attached(self, gateway: GatewayRef) -> Attached:
        """The routes of a gateway."""

    def secret_exists(self, namespace: str, name: str) -> bool:
        """Whether there is such a Secret."""

    def extproc_container(self, gateway: GatewayRef) -> ExtProcContainer | None:
        """``spec.extProc.kubernetes`` of the GatewayConfig that a gateway names, if it names one that exists."""

    def kubernetes_version(self) -> KubernetesVersion | None:
        """The API server's version, None if it did not say one that can be read."""
