"""Quotas of the neutral model in a line each, and what a rate limit service is given for them."""

from __future__ import annotations

from typing import Any

from deploy.quota_xds.snapshot import Snapshot, snapshot
from filter_config.sources.model import Bucket, ClientSelector, Gateway, Quota
from tests.support.neutral import HERE, gateway, route


def bucket(*selectors: ClientSelector, limit: int = 10, **fields: Any) -> Bucket:
    return Bucket(**{"limit": limit, "unit": "hour", "selectors": selectors, **fields})


def quota(*buckets: Bucket, **fields: Any) -> Quota:
    """A quota of model ``m`` of backend ``ns/one``."""
    given = {"policy": "ns/q", "origin": HERE, "backends": ("ns/one",), "model": "m", "buckets": buckets}
    return Quota(**{**given, **fields})


def gateways(*quotas: Quota) -> list[Gateway]:
    """A gateway with a route that has these quotas."""
    return [gateway(route(quotas=quotas))]


def limited(*quotas: Quota, **options: Any) -> Snapshot:
    return snapshot(gateways(*quotas), **options)
