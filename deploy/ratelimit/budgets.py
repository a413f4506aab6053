"""Which budget a descriptor draws from: the file format of envoyproxy/ratelimit, as far as token budgets need it.

The same file configures this package's small service and the real one, as in ``deploy/compose``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import yaml
from limits import (
    RateLimitItem,
    RateLimitItemPerDay,
    RateLimitItemPerHour,
    RateLimitItemPerMinute,
    RateLimitItemPerMonth,
    RateLimitItemPerSecond,
    RateLimitItemPerYear,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Entries: TypeAlias = tuple[tuple[str, str], ...]
"""The key-value pairs of one descriptor, in the order in which Envoy sent them."""

_UNITS: Final[Mapping[str, type[RateLimitItem]]] = {
    "second": RateLimitItemPerSecond,
    "minute": RateLimitItemPerMinute,
    "hour": RateLimitItemPerHour,
    "day": RateLimitItemPerDay,
    "month": RateLimitItemPerMonth,
    "year": RateLimitItemPerYear,
}


class BudgetsInvalid(ValueError):
    """The file does not describe budgets. The message names the place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One level of the tree. A key with a value is preferred to the same key with any value."""

    limit: RateLimitItem | None = None
    children: Mapping[tuple[str, str | None], Node] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """The limits of one domain."""

    domain: str
    root: Node

    def limit_of(self, entries: Entries) -> RateLimitItem | None:
        """The limit of a descriptor; None when it has none, which means that it is free."""
        node = self.root
        for key, value in entries:
            child = node.children.get((key, value)) or node.children.get((key, None))
            if child is None:
                return None
            node = child
        return node.limit


def load(path: Path) -> Budgets:
    """Read a file.

    Raises:
        BudgetsInvalid: it is not a YAML mapping with a domain and descriptors.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise BudgetsInvalid(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise BudgetsInvalid(f"{path}: not a mapping")
    return parse(document)


def parse(document: Mapping[str, object]) -> Budgets:
    """Build the tree from a document of the form ``{domain, descriptors: [{key, value?, rate_limit?, descriptors?}]}``.

    Raises:
        BudgetsInvalid: a field is missing or is not what it should be.
    """
    domain = document.get("domain")
    if not isinstance(domain, str) or not domain:
        raise BudgetsInvalid("domain: a non-empty string is needed")
    children = _children(document.get("descriptors"), "descriptors")
    return Budgets(domain=domain, root=Node(children=children))


def _children(value: object, where: str) -> dict[tuple[str, str | None], Node]:
    if value is None:
        return {}
    if not isinstance(value, list):
        raise BudgetsInvalid(f"{where}: a list is needed")
    return dict(_child(item, f"{where}[{index}]") for index, item in enumerate(cast("Sequence[object]", value)))


def _child(item: object, where: str) -> tuple[tuple[str, str | None], Node]:
    if not isinstance(item, dict) or not isinstance(item.get("key"), str):
        raise BudgetsInvalid(f"{where}: a mapping with a key is needed")
    value = item.get("value")
    limit = _limit(item["rate_limit"], f"{where}.rate_limit") if "rate_limit" in item else None
    children = _children(item.get("descriptors"), f"{where}.descriptors")
    return (item["key"], None if value is None else str(value)), Node(limit=limit, children=children)


def _limit(value: object, where: str) -> RateLimitItem:
    if not isinstance(value, dict):
        raise BudgetsInvalid(f"{where}: a mapping is needed")
    unit = _UNITS.get(str(value.get("unit")).lower())
    if unit is None:
        raise BudgetsInvalid(f"{where}.unit: one of {', '.join(_UNITS)} is needed")
    amount = value.get("requests_per_unit")
    if not isinstance(amount, int) or isinstance(amount, bool) or amount < 0:
        raise BudgetsInvalid(f"{where}.requests_per_unit: a whole number is needed")
    return unit(amount)
