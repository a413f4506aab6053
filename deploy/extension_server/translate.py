"""PostTranslateModify: the whole configuration of a gateway, once Envoy Gateway has made it.

Each step changes what concerns it and leaves the rest byte for byte. What a step has done it does not do again, so the
hook may see its own output (contract, control plane 6.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from google.protobuf.message import DecodeError

from deploy.envoy import names
from deploy.extension_server import mcp
from deploy.extension_server.chains import Chain, add_processor, http_chains, note_headers
from deploy.extension_server.clusters import ClusterEditor, UpstreamFilters
from deploy.extension_server.filters import (
    grpc_cluster,
    processor_cluster,
    quota_filters,
    router_filter,
    upstream_filters,
)
from deploy.extension_server.findings import Findings
from deploy.extension_server.knowledge import Knowledge
from deploy.extension_server.names import RuleName, gateway_of_listener
from deploy.extension_server.options import Options
from deploy.extension_server.pools import (
    PoolNote,
    by_filter,
    picker_clusters,
    picker_filters,
    read_note,
    spare_other_pools,
)
from deploy.extension_server.proxy import Proxies
from deploy.extension_server.quotas import QuotaEditor
from deploy.extension_server.routes import enable_processor, gateways, is_generated, limit_idle_time, owners
from protos import xds_pb2 as xds
from protos.extension_pb2 import PostTranslateModifyRequest, PostTranslateModifyResponse

_QUOTA_CONNECT_TIMEOUT: Final = 5.0


def modify_translation(
    request: PostTranslateModifyRequest, knowledge: Knowledge, options: Options, findings: Findings
) -> PostTranslateModifyResponse:
    """Answer the hook. What cannot be served is reported, and everything else is."""
    made = PostTranslateModifyResponse(
        clusters=request.clusters, secrets=request.secrets, listeners=request.listeners, routes=request.routes
    )
    _Translation(made, knowledge, options, findings).run()
    return made


class _Translation:
    """The steps, in the order in which each finds what it needs."""

    def __init__(
        self, made: PostTranslateModifyResponse, knowledge: Knowledge, options: Options, findings: Findings
    ) -> None:
        self._made = made
        self._knowledge = knowledge
        self._options = options
        self._findings = findings
        self._chains = http_chains(made.listeners, findings)
        # Names of route configurations, by what their routes need.
        self._served = False
        self._generated: set[str] = set()
        self._limited: set[str] = set()
        self._mcp: set[str] = set()
        # Rules of which the clusters stand for the MCP proxy.
        self._proxied: set[RuleName] = set()
        self._pools: dict[str, set[PoolNote]] = {}

    def run(self) -> None:
        self._clusters()
        self._routes()
        self._processor()
        self._pickers()
        self._move_mcp()
        self._access_log_headers()
        self._quotas()
        for chain in self._chains:
            chain.save()

    # --- clusters ---

    def _clusters(self) -> None:
        editor = ClusterEditor(
            knowledge=self._knowledge,
            filters=UpstreamFilters(upstream_filters(self._options.processor)),
            proxies=Proxies(self._options, self._translated(), self._findings),
            endpoints_hook=self._options.endpoints_hook,
            findings=self._findings,
        )
        pools = set()
        for cluster in self._made.clusters:
            self._served |= editor.edit(cluster)
            pool = read_note(cluster.metadata)
            if pool is not None:
                pools.add(pool)
        for made in picker_clusters(pools, ca_file=self._options.picker_ca_file):
            self._add_cluster(made)

    def _translated(self) -> Iterator[tuple[str, str]]:
        """The gateways that the configuration is about."""
        for listener in self._made.listeners:
            yield from gateways(listener.metadata)
            yield from (each for chain in listener.filter_chains for each in gateways(chain.metadata))
        for config in self._made.routes:
            named = gateway_of_listener(config.name)
            if named is not None:
                yield named
            yield from (each for host in config.virtual_hosts for each in gateways(host.metadata))

    def _add_cluster(self, made: xds.Cluster) -> None:
        if all(cluster.name != made.name for cluster in self._made.clusters):
            self._made.clusters.append(made)

    # --- routes ---

    def _routes(self) -> None:
        quotas = QuotaEditor(knowledge=self._knowledge, findings=self._findings)
        for config in self._made.routes:
            pools = self._pools.setdefault(config.name, set())
            for host in config.virtual_hosts:
                for route in host.routes:
                    self._route(route, config, quotas)
                    pool = read_note(route.metadata)
                    if pool is not None:
                        pools.add(pool)

    def _route(self, route: xds.Route, config: xds.RouteConfiguration, quotas: QuotaEditor) -> None:
        found = owners(route.metadata)
        if mcp.edit_main_route(route):
            self._mcp.add(config.name)
            rule = mcp.proxied(route)
            if rule is not None:
                self._proxied.add(rule)
        elif is_generated(found, self._knowledge, standalone=self._options.standalone):
            self._generated.add(config.name)
            enable_processor(route, config, found)
            if route.HasField("route") and quotas.edit(route):
                self._limited.add(config.name)
        limit_idle_time(route, self._knowledge)

    # --- listeners ---

    def _chains_of(self, configs: set[str]) -> Iterator[Chain]:
        """All chains of the listeners that use one of these route configurations."""
        for listener in self._listeners_of(configs):
            yield from listener

    def _listeners_of(self, configs: set[str]) -> Iterator[Sequence[Chain]]:
        grouped: dict[str, list[Chain]] = {}
        for chain in self._chains:
            grouped.setdefault(chain.listener.name, []).append(chain)
        return (chains for chains in grouped.values() if any(chain.route_config in configs for chain in chains))

    def _report(self, chain: Chain, what: str) -> None:
        self._findings.add(f"listener {chain.listener.name}", f"a chain has no router; {what}")

    def _processor(self) -> None:
        if self._generated:
            added = router_filter(self._options.processor)
            for chain in self._chains_of(self._generated):
                if not add_processor(chain, added):
                    self._report(chain, "its requests are not seen by the processor")
        if self._generated or self._served:
            self._add_cluster(processor_cluster(self._options.processor))

    def _pickers(self) -> None:
        for chains in self._listeners_of({name for name, pools in self._pools.items() if pools}):
            used = {chain.route_config for chain in chains}
            pools = {pool for name in used for pool in self._pools.get(name, ())}
            added = picker_filters(pools)
            for chain in chains:
                if not chain.insert_before_router(added):
                    self._report(chain, "no endpoint picker is asked")
            self._spare(used, list(by_filter(pools)))

    def _spare(self, configs: set[str], filter_names: Sequence[str]) -> None:
        for config in self._made.routes:
            if config.name in configs:
                for host in config.virtual_hosts:
                    for route in host.routes:
                        spare_other_pools(route, filter_names)

    def _move_mcp(self) -> None:
        for cluster in self._made.clusters:
            mcp.edit_cluster(cluster, self._proxied, self._options)
        moved = mcp.move_backend_routes(self._made.routes, self._chains, self._options)
        if moved is None:
            return
        self._made.routes.append(moved.config)
        self._made.listeners.append(moved.listener)
        self._mcp.add(moved.config.name)
        self._chains += http_chains([self._made.listeners[-1]], self._findings)

    def _access_log_headers(self) -> None:
        if not self._options.header_attributes:
            return
        for chain in self._chains_of(self._generated | self._mcp):
            try:
                if not note_headers(chain, self._options.header_attributes):
                    self._report(chain, "no header is noted for its access log")
            except DecodeError:
                message = f"{names.HEADER_TO_METADATA_FILTER} is broken; no header is noted for its access log"
                self._findings.add(f"listener {chain.listener.name}", message)

    def _quotas(self) -> None:
        if not self._limited:
            return
        service = self._options.quota
        added = quota_filters(service)
        for chain in self._chains_of(self._limited):
            if not chain.insert_before_router(added):
                self._report(chain, "no quota is enforced")
        cluster = grpc_cluster(names.RATE_LIMIT_CLUSTER, service.address, connect_timeout=_QUOTA_CONNECT_TIMEOUT)
        self._add_cluster(cluster)
