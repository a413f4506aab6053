"""Faults of a resource to the write of its status, when that says something else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from deploy.controller import conditions
from deploy.controller.kinds import Object
from deploy.controller.store import Entry
from deploy.controller.writes import Patch, Write
from filter_config.sources.faults import Fault, Faults

FINALIZER = "aigateway.envoyproxy.io/finalizer"


def in_order(faults: Iterable[Fault]) -> list[Fault]:
    """Faults as the compiler orders them, each once."""
    ordered = Faults()
    for fault in faults:
        report = ordered.error if fault.severity == "error" else ordered.warning
        report(fault.origin, fault.message, fault.fix)
    return list(ordered.closed())


def writes(entry: Entry, faults: Sequence[Fault], problems: Sequence[str], now: datetime) -> list[Write]:
    """The write of a status; none when it says so already."""
    generation = int(entry.metadata.get("generation") or 0)
    wanted = conditions.wanted(entry.key.kind, generation, faults, problems)
    merged = conditions.merged(conditions.of(entry), wanted, now)
    return (
        [] if merged is None else [Patch(key=entry.key, patch={"status": {"conditions": merged}}, subresource="status")]
    )


def release(entry: Entry) -> list[Write]:
    """The write that lets a resource go that is being deleted.

    The peer puts a finalizer on what it reads. Nothing here needs one, as what is left behind is found by its labels,
    whenever that is; but one that is there has to be taken off.
    """
    finalizers = entry.metadata.get("finalizers") or []
    if not entry.is_deleting or FINALIZER not in finalizers:
        return []
    metadata: Object = {
        "finalizers": [each for each in finalizers if each != FINALIZER],
        # A list cannot be merged: it must still be the one that was read.
        "resourceVersion": entry.metadata.get("resourceVersion"),
    }
    return [Patch(key=entry.key, patch={"metadata": metadata})]
