"""What the hooks tell about themselves: how many, how long, and how much could not be served."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

# A hook of thousands of routes has half a second.
_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class HookMetrics:
    """The metrics of a server, in ``registry``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.hooks = Counter("extension_server_hooks", "Hooks that were answered.", ("hook", "code"), registry=registry)
        """By name and gRPC code."""
        self.seconds = Histogram(
            "extension_server_hook_seconds", "Time to answer a hook.", ("hook",), registry=registry, buckets=_BOUNDS
        )
        self.findings = Counter(
            "extension_server_findings", "Resources that a hook could not serve.", ("hook",), registry=registry
        )
