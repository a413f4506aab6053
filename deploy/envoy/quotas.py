"""Quotas of models and budgets of clients: what Envoy asks for a rule, and what the rate limit service has to know.

Both come from the same tree, backend → model → bucket, backend → service, or budget → bucket, so that they cannot
differ. A request asks, at no cost, for the quotas of the backends that its rule tries first, and is refused when one of
them is used up; it pays when it is done from the buckets of the backend and model that served it. The default bucket is
for requests that no other bucket of its quota selects. A shadow bucket is only paid from, and takes nothing from the
default: as long as it is on trial, it changes nothing. All models of a backend that have no quota of their own share
that of the service (contract, control plane 3.7 and 6.11, without the faults that are listed there).

What tells clients apart is noted when the request comes: when it is done, its headers are those that the backend got.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from deploy.envoy import names
from deploy.envoy.matching import header_problem
from deploy.envoy.model import (
    Charge,
    Descriptor,
    Descriptors,
    Flag,
    HeaderEqualsDescriptor,
    MetadataDescriptor,
    Quotas,
    StaticDescriptor,
)
from filter_config.sources.faults import Faults
from filter_config.sources.model import Backend, Bucket, Budget, ClientSelector, Gateway, Quota, Route, Rule

_BACKEND: Final = "backend_name"
_MODEL: Final = "model_name_override"
_SERVICE: Final = "service_quota"
_BUDGET: Final = "budget"
_SERVED_BACKEND: Final = MetadataDescriptor(key=_BACKEND, metadata_key=names.SERVICE_BACKEND_KEY)
_SERVED: Final = (_SERVED_BACKEND, MetadataDescriptor(key=_MODEL, metadata_key=names.SERVED_MODEL_KEY))
# The service has 32 bits for a limit.
_MAX_LIMIT: Final = 2**32 - 1
_HOLDS: Final = "true"
_MARKS: Final = {"exact": "|", "regex": "~", "distinct": ""}
_PLAIN: Final = re.compile(r"[A-Za-z0-9_ -]")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """A level of the tree below a model: whether a condition holds, a header's value, or always the same."""

    key: str
    constant: str = ""
    condition: str = ""
    header: str = ""

    @property
    def value(self) -> str:
        """The value that leads on; empty: each has a branch of its own."""
        return _HOLDS if self.condition else self.constant


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leaf:
    """A bucket, and what leads to it below its model."""

    bucket: Bucket
    path: tuple[_Step, ...]


# --- Envoy ---


def rule_quotas(route: Route, rule: Rule, faults: Faults) -> Quotas | None:
    """What requests of a rule ask for and pay; None when no quota is about its backends."""
    notes = _Notes()
    charges = dict.fromkeys(
        [*_quota_charges(route, rule, notes, faults), *_budget_charges(rule.budgets, notes, faults)]
    )
    return Quotas(charges=tuple(charges), flags=notes.flags, headers=notes.headers) if charges else None


def _quota_charges(route: Route, rule: Rule, notes: _Notes, faults: Faults) -> Iterator[Charge]:
    used = [backend for backend in rule.backends if backend.weight]
    first = min((backend.priority for backend in used), default=0)
    for quota in route.quotas:
        concerned = [backend for backend in used if _is_about(route, backend, quota)]
        # A fallback that is used up is no reason to refuse what the first backends can serve.
        questions = [_question(route, backend, quota, notes) for backend in concerned if backend.priority == first]
        for leaf in _leaves(quota, faults) if concerned else ():
            path = notes.descriptors(leaf.path)
            if not leaf.bucket.shadow:
                yield from (Charge(descriptors=(*question, *path)) for question in questions)
            yield _payment(quota, path)


def _payment(quota: Quota, path: Descriptors) -> Charge:
    """What a done request pays; nothing where the processor has not said what it costs."""
    if quota.model:
        return Charge(descriptors=(*_SERVED, *path), cost_key=names.QUOTA_COST_KEY, done=True)
    service = StaticDescriptor(key=_SERVICE, value=_HOLDS)
    return Charge(descriptors=(_SERVED_BACKEND, service, *path), cost_key=names.SERVICE_QUOTA_COST_KEY, done=True)


def _budget_charges(budgets: Iterable[Budget], notes: _Notes, faults: Faults) -> Iterator[Charge]:
    """One charge when a request comes, and perhaps one when it is done, which is where shadows pay all."""
    for budget in budgets:
        problem = _problem(budget.bucket)
        if problem:
            faults.error(budget.origin, f"{problem}; the rule is left out")
            continue
        path = notes.descriptors(_budget_path(budget))
        shadow = budget.bucket.shadow
        if budget.request_cost or not shadow:
            yield Charge(descriptors=path, hits=budget.request_cost, done=shadow)
        if budget.response_key or budget.response_cost:
            yield Charge(descriptors=path, hits=budget.response_cost, cost_key=budget.response_key, done=True)


def _budget_path(budget: Budget) -> Iterator[_Step]:
    yield _Step(key=_BUDGET, constant=budget.id)
    yield from _path(0, budget.bucket.selectors)


def _is_about(route: Route, backend: Backend, quota: Quota) -> bool:
    """Whether a backend may serve what a quota is for."""
    if _short_name(route, backend) not in quota.backends:
        return False
    if quota.model:
        return backend.model_override in ("", quota.model)
    return not backend.model_override or backend.model_override not in _own_models(route, backend)


def _own_models(route: Route, backend: Backend) -> list[str]:
    """The models that a backend has a quota of its own for."""
    name = _short_name(route, backend)
    return sorted({quota.model for quota in route.quotas if quota.model and name in quota.backends})


def _short_name(route: Route, backend: Backend) -> str:
    """What the processor calls a backend in metadata."""
    return f"{route.namespace}/{backend.name}"


def _question(route: Route, backend: Backend, quota: Quota, notes: _Notes) -> Descriptors:
    """Backend and model as they are known before the request is served.

    A backend without an override serves whatever model is asked for, and the quota is about one of them, or about those
    that have none of their own.
    """
    asked = StaticDescriptor(key=_BACKEND, value=_short_name(route, backend))
    if not quota.model:
        own = () if backend.model_override else _own_models(route, backend)
        others = [ClientSelector(name=names.MODEL_HEADER, value=model, invert=True) for model in own]
        step = _Step(key=_SERVICE, condition=_all_of(others)) if others else _Step(key=_SERVICE, constant=_HOLDS)
        return (asked, *notes.descriptors([step]))
    if backend.model_override:
        return (asked, StaticDescriptor(key=_MODEL, value=quota.model))
    return (asked, HeaderEqualsDescriptor(header=names.MODEL_HEADER, key=_MODEL, value=quota.model))


class _Notes:
    """What is noted of requests of a rule, each thing once."""

    def __init__(self) -> None:
        self._flags: dict[str, Flag] = {}
        self._headers: dict[str, None] = {}

    @property
    def flags(self) -> tuple[Flag, ...]:
        return tuple(self._flags.values())

    @property
    def headers(self) -> tuple[str, ...]:
        return tuple(self._headers)

    def descriptors(self, path: Iterable[_Step]) -> Descriptors:
        return tuple(self._descriptor(step) for step in path)

    def _descriptor(self, step: _Step) -> Descriptor:
        """How Envoy tells where a request goes from a level of the tree."""
        if step.header:
            self._headers[step.header] = None
            return MetadataDescriptor(key=step.key, metadata_key=names.header_note(step.header))
        if step.condition:
            new = Flag(header=f"{names.QUOTA_HEADER}-{len(self._flags)}", condition=step.condition)
            flag = self._flags.setdefault(step.condition, new)
            return MetadataDescriptor(key=step.key, metadata_key=names.header_note(flag.header))
        return StaticDescriptor(key=step.key, value=step.value)


# --- buckets ---


def _leaves(quota: Quota, faults: Faults) -> Iterator[_Leaf]:
    """The buckets of a quota that can be told apart; the default one last."""
    enforced: list[Bucket] = []
    for index, bucket in enumerate(quota.buckets):
        problem = _problem(bucket)
        if problem:
            faults.error(quota.origin.below(f"bucketRules[{index}]"), f"{problem}; the bucket is left out")
            continue
        yield _Leaf(bucket=bucket, path=tuple(_path(index, bucket.selectors)))
        if not bucket.shadow:
            enforced.append(bucket)
    # A default of 0 is none, as in the peer; a bucket for every client leaves nothing to a default.
    if quota.default is not None and quota.default.limit > 0 and all(bucket.selectors for bucket in enforced):
        problem = _problem(quota.default)
        if problem:
            faults.error(quota.origin.below("defaultBucket"), f"{problem}; the bucket is left out")
            return
        yield _Leaf(bucket=quota.default, path=tuple(_default_path(quota, enforced)))


def _problem(bucket: Bucket) -> str:
    """Why there can be no such bucket; empty when there can."""
    if bucket.limit > _MAX_LIMIT:
        return f"a limit of {bucket.limit} is more than a rate limit service counts"
    problems = (
        header_problem(selector.name, selector.value if selector.kind == "regex" else "")
        for selector in bucket.selectors
    )
    return next((problem for problem in problems if problem), "")


def _path(index: int, selectors: Sequence[ClientSelector]) -> Iterator[_Step]:
    """Whether a client is selected, and which of those it is."""
    if not selectors:
        yield _Step(key=f"rule-{index}-match-0", constant=f"rule-{index}-match-0")
        return
    ordered = sorted(selectors, key=lambda selector: (selector.name.lower(), selector.value))
    conditions = [selector for selector in ordered if not _has_values(selector)]
    if conditions:
        yield _Step(key=f"rule-{index}-{_labels(conditions)}-match", condition=_all_of(conditions))
    for selector in ordered:
        if _has_values(selector):
            yield _Step(key=f"rule-{index}-{selector.name}-match", header=selector.name.lower())


def _default_path(quota: Quota, enforced: Sequence[Bucket]) -> Iterator[_Step]:
    """No other bucket selects the client. Quotas of several models share these paths: the key says what is missed."""
    key = f"rule-{len(quota.buckets)}-match--1"
    if enforced:
        missed = "&".join(f"({_labels(bucket.selectors)})" for bucket in enforced)
        yield _Step(
            key=f"{key}-not-{missed}", condition=" && ".join(f"!({_all_of(bucket.selectors)})" for bucket in enforced)
        )
    elif quota.buckets:
        yield _Step(key=key, constant=key)


def _has_values(selector: ClientSelector) -> bool:
    """Whether clients that a selector selects have a bucket each."""
    return selector.kind == "distinct" and not selector.invert


def _labels(selectors: Sequence[ClientSelector]) -> str:
    return "&".join(
        f"{'!' if selector.invert else ''}{selector.name}{_MARKS[selector.kind]}{selector.value}"
        for selector in selectors
    )


# --- conditions ---


def _all_of(selectors: Sequence[ClientSelector]) -> str:
    """The selectors as an expression of CEL over the request."""
    return " && ".join(_condition(selector) for selector in selectors)


def _condition(selector: ClientSelector) -> str:
    name = _quoted(selector.name.lower())
    found = f"{name} in request.headers"
    match selector.kind:
        case "exact":
            found += f" && request.headers[{name}] == {_quoted(selector.value)}"
        case "regex":
            found += f" && request.headers[{name}].matches({_quoted(f'^(?:{selector.value})$')})"
        case "distinct":
            pass
    return f"!({found})" if selector.invert else f"({found})"


def _quoted(text: str) -> str:
    """A string of CEL in which nothing ends the expression or the format that it is part of."""
    return '"' + "".join(char if _PLAIN.match(char) else f"\\U{ord(char):08x}" for char in text) + '"'


# --- the rate limit service ---


def service_document(gateways: Iterable[Gateway], *, budgets: bool = True) -> dict[str, Any]:
    """The configuration of the rate limit service, in the format of envoyproxy/ratelimit.

    Of two buckets at the same place the one of the first policy by namespace and name counts, with all that belongs to
    it. The order of the gateways and of their routes changes nothing, and the same content is the same document.

    Args:
        gateways: whose quotas and budgets there are.
        budgets: whether those of clients are in it; they are not where somebody else keeps them.
    """
    root = _Node()
    routes = [route for gateway in gateways for route in gateway.routes]
    # The quotas of a policy are in its own order in every route; the sort keeps it.
    for quota in sorted((quota for route in routes for quota in route.quotas), key=lambda quota: quota.policy):
        for backend, leaf in product(quota.backends, tuple(_leaves(quota, Faults()))):
            model = (_MODEL, quota.model) if quota.model else (_SERVICE, _HOLDS)
            _add(root, [(_BACKEND, backend), model, *_keys(leaf.path)], leaf.bucket)
    for budget in (budget for route in routes if budgets for rule in route.rules for budget in rule.budgets):
        if not _problem(budget.bucket):
            _add(root, _keys(_budget_path(budget)), budget.bucket)
    return {"domain": names.QUOTA_DOMAIN, "descriptors": _descriptors(root.children)}


class _Node:
    """A level of the service's tree, while it grows."""

    __slots__ = ("bucket", "children")

    def __init__(self) -> None:
        self.bucket: Bucket | None = None
        self.children: dict[tuple[str, str], _Node] = {}


def _keys(path: Iterable[_Step]) -> list[tuple[str, str]]:
    return [(step.key, step.value) for step in path]


def _add(root: _Node, path: Iterable[tuple[str, str]], bucket: Bucket) -> None:
    node = root
    for step in path:
        node = node.children.setdefault(step, _Node())
    if node.bucket is None:
        node.bucket = bucket


def _descriptors(nodes: Mapping[tuple[str, str], _Node]) -> list[dict[str, Any]]:
    return [_descriptor(key, value, node) for (key, value), node in sorted(nodes.items(), key=lambda item: item[0])]


def _descriptor(key: str, value: str, node: _Node) -> dict[str, Any]:
    made: dict[str, Any] = {"key": key}
    if value:
        made["value"] = value
    if node.bucket is not None:
        made["rate_limit"] = {"unit": node.bucket.unit, "requests_per_unit": node.bucket.limit}
        if node.bucket.shadow:
            made["shadow_mode"] = True
    if node.children:
        made["descriptors"] = _descriptors(node.children)
    return made
