"""The quotas of all gateways as xDS has them: no resource without a quota, and a version that is its content's hash.

The limits are plain ones, which refuse as soon as one of those that a request asks for is used up. The peer marks them
with ``quota_mode``, for which a service refuses only when all of them are: whoever matches two buckets then spends
without end from the smaller one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.any_pb2 import Any as Packed

from deploy.envoy.names import QUOTA_DOMAIN
from deploy.envoy.quotas import service_document
from filter_config.sources.model import Gateway
from protos import discovery_pb2 as wire

TYPE_URL: Final = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"
CONFIG_NAME: Final = QUOTA_DOMAIN
"""Name of the only resource; that of its domain, as in the peer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What there is to get.

    Attributes:
        version: a hash of the content; equal in all replicas that see the same.
        resources: by name; empty when no gateway has a quota.
        limits: how many buckets there are.
    """

    version: str
    resources: Mapping[str, Packed] = field(repr=False)
    limits: int = 0

    def named(self, names: Iterable[str]) -> list[Packed]:
        """The resources of some names; of all of them when none is given."""
        wanted = set(names)
        return [resource for name, resource in self.resources.items() if not wanted or wanted & {name, "*"}]


def snapshot(gateways: Iterable[Gateway]) -> Snapshot:
    """The quotas of gateways. Their order, and that of their routes, changes nothing.

    Args:
        gateways: all there are.
    """
    config = rate_limit_config(service_document(gateways, budgets=False))
    value = config.SerializeToString(deterministic=True) if config.descriptors else b""
    return Snapshot(
        version=hashlib.sha256(value).hexdigest(),
        resources={CONFIG_NAME: Packed(type_url=TYPE_URL, value=value)} if value else {},
        limits=_count(config.descriptors),
    )


def rate_limit_config(document: Mapping[str, Any]) -> wire.RateLimitConfig:
    """A document of :func:`deploy.envoy.quotas.service_document` as a message."""
    descriptors = [_descriptor(item) for item in document["descriptors"]]
    return wire.RateLimitConfig(name=CONFIG_NAME, domain=document["domain"], descriptors=descriptors)


def _descriptor(item: Mapping[str, Any]) -> wire.RateLimitDescriptor:
    limit = item.get("rate_limit")
    return wire.RateLimitDescriptor(
        key=item["key"],
        value=item.get("value", ""),
        rate_limit=None if limit is None else _policy(limit),
        descriptors=[_descriptor(below) for below in item.get("descriptors", ())],
        shadow_mode=item.get("shadow_mode", False),
    )


def _policy(limit: Mapping[str, Any]) -> wire.RateLimitPolicy:
    # A unit in words is taken by its name.
    return wire.RateLimitPolicy(unit=limit["unit"].upper(), requests_per_unit=limit["requests_per_unit"])


def _count(descriptors: Iterable[wire.RateLimitDescriptor]) -> int:
    return sum(item.HasField("rate_limit") + _count(item.descriptors) for item in descriptors)
