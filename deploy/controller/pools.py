"""InferencePools to their statuses: one entry for each Gateway of ours whose routes lead to the pool.

The list is shared with controllers of other Gateways, and is written as a whole: their entries stay as they are, and it
must still be the list that was read. An entry is ours when its Gateway is, or when the words are: the Gateway may be
gone, or another's by now. Routes of other namespaces count where a ReferenceGrant lets them (contract, control plane
3.9).

NB: ``ResolvedRefs`` is only there when it is False for a reason that the pool shows itself. Whether the Service of the
endpoint picker exists is not known here: to see it the controller would need the right to read every Service of the
cluster, and Envoy tells of a picker that does not answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from deploy.controller import conditions, indexes
from deploy.controller.closure import CONTROLLER, is_ours
from deploy.controller.conditions import Condition
from deploy.controller.judging import Judging
from deploy.controller.kinds import Key, Object
from deploy.controller.store import Entry, View
from deploy.controller.writes import Patch, Plan
from filter_config.sources.envoy_ai_gateway.context import HTTP_ROUTE, ROUTE, Grants, Referrer, Target
from filter_config.sources.envoy_ai_gateway.fields import CORE_GROUP, GATEWAY_GROUP, INFERENCE_GROUP
from filter_config.sources.envoy_ai_gateway.marks import grants_of
from filter_config.sources.faults import Faults

KIND: Final = "InferencePool"
_REFERRERS: Final[Mapping[str, Referrer]] = {"AIGatewayRoute": ROUTE, "HTTPRoute": HTTP_ROUTE}
_MAX_PARENTS: Final = 32
_IN_EFFECT: Final = "routes of the Gateway lead to the pool"
_NOT_IN_EFFECT: Final = "requests are not sent to the pool: "
# What an early CRD puts there for a pool that nobody has looked at.
_PLACEHOLDER: Final = ("Status", "default")


def plan(view: View, judging: Judging, key: Key, now: datetime, controller: str = CONTROLLER) -> Plan:
    """The write of a pool's status; none when it says so already."""
    entry = view.live(*key)
    if entry is None or entry.is_deleting:
        return Plan(owner=key)
    found = _parents(entry)
    gateways = _gateways(view, judging, key, controller)
    kept, ours = _sorted_out(view, key, found, controller)
    if gateways:
        kept = [item for item in kept if not _is_placeholder(item)]
    wanted = _conditions(entry)
    made = [*kept, *(_entry(gateway, ours.get(gateway, {}), wanted, now) for gateway in gateways)][:_MAX_PARENTS]
    if made == found:
        return Plan(owner=key)
    # A list cannot be merged: it must still be the one that was read.
    version = {"resourceVersion": entry.metadata.get("resourceVersion")}
    patch = {"metadata": version, "status": {"parents": made}}
    return Plan(owner=key, writes=(Patch(key=key, patch=patch, subresource="status"),))


def _parents(entry: Entry) -> list[Any]:
    status = entry.value.get("status")
    found = status.get("parents") if isinstance(status, dict) else None
    return found if isinstance(found, list) else []


def _sorted_out(view: View, pool: Key, found: list[Any], controller: str) -> tuple[list[Any], dict[Key, Any]]:
    """The entries of others, and ours by Gateway."""
    kept, ours = [], {}
    for item in found:
        gateway = _gateway_of(item, pool.namespace)
        if gateway is not None and _is_ours(view, gateway, item, controller):
            ours[gateway] = item
        else:
            kept.append(item)
    return kept, ours


def _entry(gateway: Key, found: Mapping[str, Any], wanted: list[Condition], now: datetime) -> Object:
    there = found.get("conditions")
    ref = {"group": GATEWAY_GROUP, "kind": "Gateway", "namespace": gateway.namespace, "name": gateway.name}
    return {"parentRef": ref, "conditions": conditions.merged(there, wanted, now) or there}


# --- whose an entry is ---


def _gateway_of(item: Any, here: str) -> Key | None:  # noqa: ANN401 - any JSON
    """The Gateway that an entry is about; None when it is about something else."""
    ref = item.get("parentRef") if isinstance(item, dict) else None
    return indexes.gateway_of(ref, here) if isinstance(ref, dict) else None


def _is_ours(view: View, gateway: Key, item: Mapping[str, Any], controller: str) -> bool:
    there = view.get(*gateway)
    if there is not None and is_ours(view, there, controller):
        return True
    said = [str(each.get("message")) for each in item.get("conditions") or () if isinstance(each, dict)]
    return any(text == _IN_EFFECT or text.startswith(_NOT_IN_EFFECT) for text in said)


def _is_placeholder(item: Any) -> bool:  # noqa: ANN401 - any JSON
    ref = item.get("parentRef") if isinstance(item, dict) else None
    return isinstance(ref, dict) and (ref.get("kind"), ref.get("name")) == _PLACEHOLDER


# --- which Gateways ---


def _gateways(view: View, judging: Judging, pool: Key, controller: str) -> list[Key]:
    """The Gateways of ours whose routes lead to a pool, by namespace and name."""
    target = Target(INFERENCE_GROUP, KIND, pool.namespace, pool.name)
    grants: Grants | None = None
    found = set()
    for route in view.found(indexes.routes_to_pool(pool.namespace, pool.name)):
        if route.key.namespace != pool.namespace and grants is None:
            documents = tuple(grant.document for grant in view.found(grants_of(pool.namespace)))
            grants = Grants(judging.load(documents, Faults()))
        if grants is None or grants.allow(_REFERRERS[route.key.kind], route.key.namespace, target):
            found |= set(indexes.gateways_of(route.value))
    return sorted(key for key in found if _serves(view, key, controller))


def _serves(view: View, gateway: Key, controller: str) -> bool:
    there = view.get(*gateway)
    return there is not None and is_ours(view, there, controller)


# --- what is said ---


def _conditions(pool: Entry) -> list[Condition]:
    problem = next(_problems(pool), "")
    common = {"observedGeneration": int(pool.metadata.get("generation") or 0)}
    if not problem:
        return [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": _IN_EFFECT, **common}]
    message = f"{_NOT_IN_EFFECT}{problem}"
    return [
        {"type": "Accepted", "status": "False", "reason": "NotAccepted", "message": message, **common},
        {"type": "ResolvedRefs", "status": "False", "reason": "InvalidExtensionRef", "message": message, **common},
    ]


def _problems(pool: Entry) -> Iterator[str]:
    """What is wrong with the reference to the endpoint picker."""
    spec = pool.value.get("spec")
    ref = spec.get("endpointPickerRef") if isinstance(spec, dict) else None
    ref = ref if isinstance(ref, dict) else {}
    if not ref.get("name"):
        yield "spec.endpointPickerRef.name is empty; name the Service of the endpoint picker"
    if (ref.get("group") or CORE_GROUP, ref.get("kind") or "Service") != (CORE_GROUP, "Service"):
        yield "spec.endpointPickerRef is about no Service; an endpoint picker is found by its Service"
