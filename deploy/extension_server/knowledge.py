"""What the hooks know of AI Gateway resources: the neutral models of gateways, found by name.

A hook asks one snapshot from its begin to its end, so that its output is of one moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from filter_config.sources.model import Gateway, Route


class NotKnownYet(Exception):
    """What resources there are is not known yet; the text says why. An answer without them would take them away."""


class Knowledge(Protocol):
    """The resources of one moment. Asking never waits and never fails."""

    def route(self, namespace: str, name: str) -> Route | None:
        """The AIGatewayRoute of this name; None for an HTTPRoute that was made of none."""
        ...

    def gateways(self, namespace: str, name: str) -> Sequence[Gateway]:
        """The gateways that serve this AIGatewayRoute, by namespace and name."""
        ...


class Snapshot:
    """The knowledge that is in models of gateways."""

    def __init__(self, gateways: Iterable[Gateway] = ()) -> None:
        self._routes: dict[tuple[str, str], Route] = {}
        self._gateways: dict[tuple[str, str], list[Gateway]] = {}
        for gateway in sorted(gateways, key=lambda each: (each.namespace, each.name)):
            for route in gateway.routes:
                self._routes.setdefault((route.namespace, route.name), route)
                self._gateways.setdefault((route.namespace, route.name), []).append(gateway)

    def route(self, namespace: str, name: str) -> Route | None:
        """See ``Knowledge``."""
        return self._routes.get((namespace, name))

    def gateways(self, namespace: str, name: str) -> Sequence[Gateway]:
        """See ``Knowledge``."""
        return self._gateways.get((namespace, name), ())
