"""The models that clients are told of, by host: one rule, whatever stands for a model (contract, control plane 2.4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLists(Generic[ItemT]):
    """Models by name. One that several routes list is as the first of them has it, in each list.

    Attributes:
        everywhere: all of them.
        by_host: those of each host that a route names, its own before those of routes for every host; empty for none.
        unscoped: those of routes for every host.
    """

    everywhere: dict[str, ItemT]
    by_host: dict[str, dict[str, ItemT]]
    unscoped: dict[str, ItemT]


def model_lists(routes: Iterable[tuple[Iterable[str], Iterable[tuple[str, ItemT]]]]) -> ModelLists[ItemT]:
    """The lists of routes in order of precedence, each with its hosts, none for all, and its models by name.

    A route without a model gives its hosts no list.
    """
    everywhere: dict[str, ItemT] = {}
    unscoped: dict[str, ItemT] = {}
    own: dict[str, dict[str, ItemT]] = {}
    for hosts, models in routes:
        listed = list(models)
        if not listed:
            continue
        lists = [everywhere, *([own.setdefault(host, {}) for host in hosts] or [unscoped])]
        for name, item in listed:
            for one in lists:
                one.setdefault(name, item)
    by_host = {host: {**models, **_missing(unscoped, models)} for host, models in own.items()}
    return ModelLists(everywhere=everywhere, by_host=by_host, unscoped=unscoped)


def _missing(extra: dict[str, ItemT], models: dict[str, ItemT]) -> dict[str, ItemT]:
    return {name: item for name, item in extra.items() if name not in models}
