"""Clusters of AIGatewayRoutes: whose backend they are, what runs on each attempt, and the way out.

Every attempt of a request passes the upstream filters of its cluster, so each backend gets a translation and a
credential of its own (contract, control plane 6.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import DecodeError

from deploy.envoy import names
from deploy.extension_server.endpoints import backend_at, find_rule, label_endpoints
from deploy.extension_server.filters import upstream_codec
from deploy.extension_server.findings import Findings
from deploy.extension_server.knowledge import Knowledge
from deploy.extension_server.names import HTTP_OPTIONS, RuleName, of_cluster
from deploy.extension_server.pools import read_note
from deploy.extension_server.proxy import Proxies, wrap_transports
from deploy.extension_server.wire import is_packed, label, pack, replace
from filter_config.sources.model import Backend, Rule
from protos import xds_pb2 as xds


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterEditor:
    """What one hook does to clusters."""

    knowledge: Knowledge
    filters: UpstreamFilters
    proxies: Proxies
    endpoints_hook: bool
    findings: Findings

    def edit(self, cluster: xds.Cluster) -> bool:
        """Make a cluster of a rule serve it, every other one stays as it is; whether it is one of a rule."""
        name = of_cluster(cluster.name)
        rule = find_rule(self.knowledge, name) if name is not None else None
        if name is None or rule is None:
            return False
        resource = f"cluster {cluster.name}"
        try:
            self.filters.add_to(cluster)
        except DecodeError:
            self.findings.add(resource, "its HTTP options are broken; it stays as it was")
            return True
        pool = read_note(cluster.metadata) is not None
        self._identify(cluster, name, rule, pool=pool)
        proxy = None if pool else self.proxies.of(self.knowledge.gateways(name.namespace, name.route), resource)
        if proxy is not None:
            wrap_transports(cluster, proxy)
        return True

    def _identify(self, cluster: xds.Cluster, name: RuleName, rule: Rule, *, pool: bool) -> None:
        if not pool and cluster.HasField("load_assignment"):
            label_endpoints(cluster.load_assignment, name, rule, self.findings)
            return
        backend = self._meant(name, rule, pool=pool)
        if backend is not None:
            label(cluster.metadata, names.XDS_NAMESPACE, names.BACKEND_NAME_KEY, backend.id)

    def _meant(self, name: RuleName, rule: Rule, *, pool: bool) -> Backend | None:
        """The backend of a cluster without endpoints, when there can be no other.

        Otherwise the endpoints say it, see PostEndpointsModify: an endpoint without a label has no backend then.
        """
        if name.ref is not None:
            return backend_at(rule, name.ref)
        used = [backend for backend in rule.backends if backend.weight]
        certain = pool or len(used) == 1 or not self.endpoints_hook
        return used[0] if used and certain else None


class UpstreamFilters:
    """The filters of every attempt. Clusters with the same HTTP options get the same bytes, made once."""

    def __init__(self, added: Sequence[xds.HttpFilter]) -> None:
        self._added = added
        self._made: dict[bytes, Packed | None] = {}

    def add_to(self, cluster: xds.Cluster) -> None:
        """Put them before the codec of a cluster's upstream chain, unless they are there.

        Raises:
            DecodeError: the cluster's HTTP options are broken; nothing was changed.
        """
        extensions = cluster.typed_extension_protocol_options
        known = extensions[HTTP_OPTIONS] if HTTP_OPTIONS in extensions else None  # noqa: SIM401 - a map makes what it gets
        if known is not None and not is_packed(known, xds.HttpProtocolOptions):
            return
        given = known.value if known is not None else b""
        if given not in self._made:
            self._made[given] = self._with_filters(xds.HttpProtocolOptions.FromString(given))
        made = self._made[given]
        if made is not None:
            extensions[HTTP_OPTIONS].CopyFrom(made)

    def _with_filters(self, options: xds.HttpProtocolOptions) -> Packed | None:
        if any(present.name == names.EXT_PROC_FILTER for present in options.http_filters):
            return None
        if options.WhichOneof("upstream_protocol_options") is None:
            options.explicit_http_config.http_protocol_options.SetInParent()
        rest = list(options.http_filters)
        codec = rest.pop() if rest and is_packed(rest[-1].typed_config, xds.UpstreamCodec) else upstream_codec()
        replace(options.http_filters, [*rest, *self._added, codec])
        return pack(options)
