"""What the controller tells about itself: what it saw, what it wrote, what failed, and how long things took."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ControllerMetrics:
    """The metrics of a controller, in ``registry``."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry if registry is not None else CollectorRegistry()
        self.events = Counter("controller_events", "Events of watches.", ("kind", "type"), registry=registry)
        self.lists = Counter("controller_lists", "Kinds that were listed whole.", ("kind",), registry=registry)
        self.watch_failures = Counter(
            "controller_watch_failures", "Lists and watches that failed.", ("kind",), registry=registry
        )
        self.writes = Counter(
            "controller_writes", "Writes to the API server.", ("kind", "verb", "code"), registry=registry
        )
        """By HTTP status; ``0`` for no answer."""
        self.passes = Histogram(
            "controller_pass_seconds", "Time to plan what changed.", registry=registry, buckets=_BOUNDS
        )
        self.settled = Histogram(
            "controller_write_seconds", "Time to write one owner's objects.", registry=registry, buckets=_BOUNDS
        )
        self.refused = Gauge("controller_refused_owners", "Resources with a write that was refused.", registry=registry)
        self.leading = Gauge("controller_leading", "Whether this replica writes.", registry=registry)
        self.gateways = Gauge("controller_gateways", "Gateways with a filter config.", registry=registry)
        self.rotations = Counter(
            "controller_credential_rotations", "Credentials that were due.", ("provider", "outcome"), registry=registry
        )
