"""What the controller asks the API server for, as RBAC has it: the rights that its role needs, and no others.

Applying an object that is not there takes both ``patch`` and ``create``. NB: no object is ever read by ``get`` but the
Lease; everything else is known from lists and watches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from deploy.controller.kinds import AI_KINDS, KINDS, LEASE


class Right(NamedTuple):
    """A verb on a resource of a group; of a part of an object, ``<resource>/<part>``."""

    verb: str
    group: str
    resource: str


_MADE: Final = ("Backend", "BackendTrafficPolicy", "HTTPRoute", "HTTPRouteFilter", "Secret", "SecurityPolicy")
_ANNOTATED: Final = ("DaemonSet", "Deployment", "Pod")


def _rights() -> Iterator[Right]:
    for kind in KINDS.values():
        yield Right("list", kind.group, kind.plural)
        yield Right("watch", kind.group, kind.plural)
    for name in _MADE:
        for verb in ("create", "patch", "delete"):
            yield Right(verb, KINDS[name].group, KINDS[name].plural)
    for name in _ANNOTATED:
        yield Right("patch", KINDS[name].group, KINDS[name].plural)
    for name in sorted(AI_KINDS):
        kind = KINDS[name]
        # The object itself for a finalizer that the peer left.
        yield Right("patch", kind.group, kind.plural)
        yield Right("patch", kind.group, f"{kind.plural}/status")


CLUSTER_RIGHTS: Final[frozenset[Right]] = frozenset(_rights())
"""In all namespaces that are watched; ``GET /version`` besides, which everybody may ask."""
LEASE_RIGHTS: Final[frozenset[Right]] = frozenset(
    Right(verb, LEASE.group, LEASE.plural) for verb in ("get", "create", "update")
)
"""In the controller's own namespace."""
RIGHTS: Final = CLUSTER_RIGHTS | LEASE_RIGHTS
