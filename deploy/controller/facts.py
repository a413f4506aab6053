"""The webhook's questions answered from the controller's store (see :mod:`deploy.injector.facts`)."""

from __future__ import annotations

from collections.abc import Callable

from deploy.controller import indexes
from deploy.controller.gateways import container
from deploy.controller.judging import Judging
from deploy.controller.store import Store, View
from deploy.injector.facts import Attached, FactsUnknown, KubernetesVersion
from deploy.injector.names import GatewayRef
from filter_config.sources.envoy_ai_gateway.resources import ExtProcContainer


class StoreFacts:
    """The facts of a store.

    Args:
        store: what was seen of the cluster.
        ready: whether everything was seen once.
        version: the API server's version.
    """

    def __init__(
        self, store: Store, ready: Callable[[], bool], version: Callable[[], KubernetesVersion | None]
    ) -> None:
        self._store = store
        self._ready = ready
        self._version = version
        # One of its own: the planner's is the planner's thread's.
        self._judging = Judging()

    def attached(self, gateway: GatewayRef) -> Attached:
        """See ``ClusterFacts``."""
        self._check()
        place = (gateway.namespace, gateway.name)
        return Attached(
            ai_routes=bool(self._store.found(indexes.routes_of("AIGatewayRoute", *place))),
            mcp_routes=bool(self._store.found(indexes.routes_of("MCPRoute", *place))),
        )

    def secret_exists(self, namespace: str, name: str) -> bool:
        """See ``ClusterFacts``."""
        self._check()
        found = View(self._store).live("Secret", namespace, name)
        return found is not None and not found.is_deleting

    def extproc_container(self, gateway: GatewayRef) -> ExtProcContainer | None:
        """See ``ClusterFacts``."""
        self._check()
        view = View(self._store)
        entry = view.get("Gateway", gateway.namespace, gateway.name)
        found = container(view, self._judging, entry) if entry is not None else None
        self._judging.keep(set())
        return found

    def kubernetes_version(self) -> KubernetesVersion | None:
        """See ``ClusterFacts``."""
        self._check()
        return self._version()

    def _check(self) -> None:
        if not self._ready():
            raise FactsUnknown("the controller has not seen the whole cluster yet")
