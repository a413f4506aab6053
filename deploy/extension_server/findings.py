"""What a hook could not do: which resource stayed as it was or serves nothing, and why.

A resource that cannot be served harms only itself, so a hook goes on; who carries its answer tells of these.
"""

from __future__ import annotations

from dataclasses import dataclass

from filter_config.sources.faults import Faults


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Finding:
    """One of them. ``resource`` is the object of Envoy or the AI Gateway resource: ``cluster httproute/…``."""

    resource: str
    message: str


class Findings:
    """Those of one hook, each once."""

    def __init__(self) -> None:
        self._found: dict[Finding, None] = {}

    def add(self, resource: str, message: str) -> None:
        """Report one."""
        self._found[Finding(resource=resource, message=message)] = None

    def add_faults(self, faults: Faults) -> None:
        """Report what another part of the product has found wrong with resources."""
        for fault in faults.closed():
            self.add(fault.origin.resource, f"{fault.origin.path}: {fault.message}")

    def closed(self) -> tuple[Finding, ...]:
        """All, by resource."""
        return tuple(sorted(self._found))
