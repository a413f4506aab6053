"""AIGatewayRoutes to HTTPRoutes and HTTPRouteFilters (contract, control plane 3.2 to 3.4).

The rules keep their numbers, and the references of a rule their places: the extension server finds both by number. So
what cannot be referred to leaves a reference to nothing behind, of which Envoy Gateway tells in the HTTPRoute's status
and which answers 500 for its share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from deploy.controller.kinds import KINDS, Object
from deploy.controller.ownership import owner_reference
from deploy.controller.store import Entry
from filter_config.sources.envoy_ai_gateway.compile_backends import target_of
from filter_config.sources.envoy_ai_gateway.context import ROUTE, Grants
from filter_config.sources.envoy_ai_gateway.fields import ENVOY_GATEWAY_GROUP, GATEWAY_GROUP
from filter_config.sources.envoy_ai_gateway.load import Resources
from filter_config.sources.envoy_ai_gateway.resources import (
    AIGatewayRoute,
    AIServiceBackend,
    RouteBackendRef,
    RouteMatch,
    RouteRule,
)
from filter_config.sources.envoy_ai_gateway.rules import RESERVED_RULE_NAME

REWRITE_PREFIX: Final = "ai-eg-host-rewrite-"
NOT_FOUND_PREFIX: Final = "ai-eg-route-not-found-response-"
PRIORITY_ANNOTATION: Final = "gateway.envoyproxy.io/backend-ref-priority"
GENERATED_ANNOTATION: Final = "gateway.envoyproxy.io/ai-gateway-generated"
DEFAULT_TIMEOUT: Final = "60s"

_NOT_FOUND: Final = (
    "No matching route found. It is likely because the model specified in your request is not configured in the "
    "Gateway."
)
# What kubectl notes about the object that it applied is about no other.
_NOT_COPIED: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a route is made in: the resources that it leads to, what they allow, and which parents are not ours."""

    resources: Resources
    grants: Grants
    foreign: frozenset[int] = frozenset()
    root_prefix: str = "/"


def objects(entry: Entry, route: AIGatewayRoute, surroundings: Surroundings) -> Iterator[Object]:
    """The objects of a route, filters first, as the HTTPRoute refers to them; none for one without a parent."""
    if not parents(entry, surroundings.foreign):
        return
    name = entry.key.name
    yield _filter(entry, f"{REWRITE_PREFIX}{name}", {"urlRewrite": {"hostname": {"type": "Backend"}}})
    response = {"statusCode": 404, "body": {"type": "Inline", "inline": _NOT_FOUND}}
    yield _filter(entry, f"{NOT_FOUND_PREFIX}{name}", {"directResponse": response})
    yield _http_route(entry, route, surroundings)


def object_of(kind: str, entry: Entry, name: str, *, meta: Mapping[str, Any] | None = None, **fields: Any) -> Object:  # noqa: ANN401 - JSON
    """An object that an entry controls, in its namespace."""
    metadata = {
        "name": name,
        "namespace": entry.key.namespace,
        **(meta or {}),
        "ownerReferences": [owner_reference(entry)],
    }
    return {"apiVersion": KINDS[kind].api_version, "kind": kind, "metadata": metadata, **fields}


def copied(entry: Entry, extra: Mapping[str, str]) -> dict[str, Any]:
    """Labels and annotations of an entry for what is made of it, and further annotations."""
    labels = dict(entry.metadata.get("labels") or {})
    annotations = {
        name: value for name, value in (entry.metadata.get("annotations") or {}).items() if name not in _NOT_COPIED
    }
    annotations |= extra
    given = {"labels": labels, "annotations": annotations}
    return {name: value for name, value in given.items() if value}


def parents(entry: Entry, foreign: frozenset[int]) -> list[Object]:
    """The parents of a route but for those of somebody else, with what the API server would add to them.

    Another gateway would send requests to providers without a processor before them.
    """
    refs = entry.value["spec"].get("parentRefs") or ()
    return [
        {"group": GATEWAY_GROUP, "kind": "Gateway", **ref} for place, ref in enumerate(refs) if place not in foreign
    ]


def extension(name: str) -> Object:
    """A reference to an HTTPRouteFilter."""
    return {
        "type": "ExtensionRef",
        "extensionRef": {"group": ENVOY_GATEWAY_GROUP, "kind": "HTTPRouteFilter", "name": name},
    }


def _filter(entry: Entry, name: str, spec: Object) -> Object:
    return object_of("HTTPRouteFilter", entry, name, spec=spec)


def _http_route(entry: Entry, route: AIGatewayRoute, surroundings: Surroundings) -> Object:
    rules = route.spec.rules
    made = [_rule(entry, index, rule, surroundings) for index, rule in enumerate(rules)]
    spec: Object = {
        "parentRefs": parents(entry, surroundings.foreign),
        "rules": [*made, _not_found(entry, surroundings)],
    }
    if route.spec.hostnames:
        spec["hostnames"] = list(route.spec.hostnames)
    annotations = {PRIORITY_ANNOTATION: _priorities(rules), GENERATED_ANNOTATION: "true"}
    return object_of("HTTPRoute", entry, entry.key.name, meta=copied(entry, annotations), spec=spec)


def _priorities(rules: tuple[RouteRule, ...]) -> str:
    return ",".join(
        f"{index}:{ref.name}:{ref.priority}" for index, rule in enumerate(rules) for ref in rule.backend_refs
    )


def _rule(entry: Entry, index: int, rule: RouteRule, surroundings: Surroundings) -> Object:
    refs = [_reference(entry, ref, f"{index}-{place}", surroundings) for place, ref in enumerate(rule.backend_refs)]
    times = rule.timeouts
    timeouts = {"request": (times.request if times is not None else None) or DEFAULT_TIMEOUT}
    if times is not None and times.backend_request is not None:
        timeouts["backendRequest"] = times.backend_request
    made: Object = {
        "matches": [_match(match, surroundings.root_prefix) for match in rule.matches or (RouteMatch(),)],
        "filters": [extension(f"{REWRITE_PREFIX}{entry.key.name}")],
        "timeouts": timeouts,
    }
    if rule.name is not None:
        made["name"] = rule.name
    if refs:
        made["backendRefs"] = refs
    return made


def _match(match: RouteMatch, root_prefix: str) -> Object:
    made: Object = {"path": {"type": "PathPrefix", "value": root_prefix}}
    if match.headers:
        made["headers"] = [{"type": each.type, "name": each.name, "value": each.value} for each in match.headers]
    return made


def _reference(entry: Entry, ref: RouteBackendRef, place: str, surroundings: Surroundings) -> Object:
    here = entry.key.namespace
    target = target_of(ref, here)
    if not surroundings.grants.allow(ROUTE, here, target):
        return _nothing(place, ref.weight)
    if target.kind == "InferencePool":
        return {
            "group": target.group,
            "kind": target.kind,
            "name": target.name,
            "namespace": target.namespace,
            "weight": ref.weight,
        }
    found = surroundings.resources.get(AIServiceBackend, target.namespace, target.name)
    if found is None:
        return _nothing(place, ref.weight)
    to = found.value.spec.backend_ref
    namespace = to.namespace or (target.namespace if target.namespace != here else "")
    made: Object = {"group": to.group, "kind": to.kind, "name": to.name, "weight": ref.weight}
    if namespace:
        made["namespace"] = namespace
    if to.port is not None:
        made["port"] = to.port
    return made


def _nothing(place: str, weight: int) -> Object:
    """A reference that cannot be resolved; the name says which one of the AIGatewayRoute it stands for."""
    return {
        "group": ENVOY_GATEWAY_GROUP,
        "kind": "Backend",
        "name": f"ai-eg-unresolved-{place}",
        "weight": weight,
    }


def _not_found(entry: Entry, surroundings: Surroundings) -> Object:
    """The last rule: for requests of which the model is not known yet, and never will be for some (3.4)."""
    return {
        "name": RESERVED_RULE_NAME,
        "matches": [_match(RouteMatch(), surroundings.root_prefix)],
        "filters": [extension(f"{NOT_FOUND_PREFIX}{entry.key.name}")],
    }
