"""What the server of quotas tells about itself: who is connected, what was sent, and what was not taken."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class QuotaXdsMetrics:
    """The metrics of a server, in ``registry``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.clients = Gauge("extproc_quota_xds_clients", "Rate limit services that are connected.", registry=registry)
        self.limits = Gauge("extproc_quota_xds_limits", "Buckets in the configuration.", registry=registry)
        self.published = Gauge(
            "extproc_quota_xds_published",
            "Whether all quotas were read once, so that there is an answer.",
            registry=registry,
        )
        self.changes = Counter(
            "extproc_quota_xds_changes", "Configurations that differed from the one before.", registry=registry
        )
        self.responses = Counter("extproc_quota_xds_responses", "Configurations that were sent.", registry=registry)
        self.requests = Counter(
            "extproc_quota_xds_requests", "Requests of clients, by what they said.", ("verdict",), registry=registry
        )
        """See :class:`deploy.quota_xds.subscription.Verdict`."""
        self.refusing = Gauge(
            "extproc_quota_xds_refusing_clients", "Clients that refused the last configuration.", registry=registry
        )
