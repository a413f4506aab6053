"""Status conditions: one that says whether a resource is accepted, and the peer's for those who wait for it.

The peer writes one condition, ``Accepted`` with True or ``NotAccepted`` with False (contract, control plane 1.7). Here
``Accepted`` is always there, with the generation that it is about and a time that moves only when its status does;
``NotAccepted`` is behind it as long as it is False, where the peer's printer column finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from deploy.controller.store import Entry
from filter_config.sources.faults import Fault

ACCEPTED: Final = "Accepted"
NOT_ACCEPTED: Final = "NotAccepted"
_MAX_MESSAGE: Final = 32768

Condition = dict[str, Any]

# The peer's reasons; those of a GatewayConfig are called like the type.
_REASONS: Final[Mapping[bool, str]] = {True: "ReconciliationSucceeded", False: "ReconciliationFailed"}
_CONFIG_REASONS: Final[Mapping[bool, str]] = {True: ACCEPTED, False: NOT_ACCEPTED}


def wanted(kind: str, generation: int, faults: Iterable[Fault], problems: Iterable[str] = ()) -> list[Condition]:
    """The conditions of a resource, without their times.

    Args:
        kind: of the resource.
        generation: of what was compiled.
        faults: what the compiler found in it.
        problems: why something could not be written for it.
    """
    told = list(faults)
    errors = [*(_text(fault) for fault in told if fault.severity == "error"), *problems]
    warnings = [_text(fault) for fault in told if fault.severity == "warning"]
    accepted = not errors
    reason = (_CONFIG_REASONS if kind == "GatewayConfig" else _REASONS)[accepted]
    common = {"reason": reason, "observedGeneration": generation, "message": _message(errors, warnings)}
    conditions = [{"type": ACCEPTED, "status": str(accepted), **common}]
    if not accepted:
        conditions.append({"type": NOT_ACCEPTED, "status": "False", **common})
    return conditions


def _message(errors: Sequence[str], warnings: Sequence[str]) -> str:
    parts = [*errors, *(f"warning: {warning}" for warning in warnings)]
    text = "\n".join(parts) if parts else "the resource is in effect"
    return text if len(text) <= _MAX_MESSAGE else f"{text[: _MAX_MESSAGE - 1]}…"


def _text(fault: Fault) -> str:
    what = f"{fault.message}; {fault.fix}" if fault.fix else fault.message
    return f"{fault.origin.path}: {what}" if fault.origin.path else what


def merged(found: object, conditions: Sequence[Condition], now: datetime) -> list[Condition] | None:
    """The conditions with their times, or None when they are there already."""
    there = {item["type"]: item for item in found if "type" in item} if isinstance(found, list) else {}
    told = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    timed = []
    for condition in conditions:
        before = there.get(condition["type"], {})
        unmoved = before.get("status") == condition["status"] and before.get("lastTransitionTime")
        timed.append({**condition, "lastTransitionTime": before["lastTransitionTime"] if unmoved else told})
    return None if timed == found else timed


def of(entry: Entry) -> object:
    """The conditions of an object as they are."""
    status = entry.value.get("status")
    return status.get("conditions") if isinstance(status, dict) else None
