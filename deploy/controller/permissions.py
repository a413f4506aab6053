"""What the controller asks the API server for, as RBAC has it: the rights that its roles need, and no others.

Applying an object that is not there takes both ``patch`` and ``create``. NB: nothing that is watched is ever read by
``get``; it is known from lists and watches.
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


def _reading(*, namespaced: bool) -> Iterator[Right]:
    for kind in KINDS.values():
        if kind.namespaced is namespaced:
            yield Right("list", kind.group, kind.plural)
            yield Right("watch", kind.group, kind.plural)


def _writing() -> Iterator[Right]:
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
    pools = KINDS["InferencePool"]
    yield Right("patch", pools.group, f"{pools.plural}/status")


WATCHED_RIGHTS: Final[frozenset[Right]] = frozenset((*_reading(namespaced=True), *_writing()))
"""In every namespace that is watched."""
CLUSTER_RIGHTS: Final[frozenset[Right]] = frozenset(_reading(namespaced=False))
"""For objects that are in no namespace; ``GET /version`` besides, which everybody may ask."""
WEBHOOK_RIGHTS: Final[frozenset[Right]] = frozenset(
    Right(verb, "admissionregistration.k8s.io", "mutatingwebhookconfigurations") for verb in ("get", "patch")
)
"""For the configuration of the controller's own webhook, and for no other."""
LEASE_RIGHTS: Final[frozenset[Right]] = frozenset(
    Right(verb, LEASE.group, LEASE.plural) for verb in ("get", "create", "update")
)
"""In the controller's own namespace."""
