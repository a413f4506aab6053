"""References of rules to backends: schema, auth and mutations (contract, control plane 2.3, 2.5 and 2.6).

A reference that cannot be served is left out, and its place stays free: the numbers in names are those of the resource.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from filter_config import model as document
from filter_config.model import SchemaName
from filter_config.sources.envoy_ai_gateway.compile_auth import Auth, Policies
from filter_config.sources.envoy_ai_gateway.compile_endpoints import Endpoints
from filter_config.sources.envoy_ai_gateway.context import ROUTE, Context, Target, grant_fix
from filter_config.sources.envoy_ai_gateway.fields import AI_GROUP, INFERENCE_GROUP, BodyMutation, HeaderMutation
from filter_config.sources.envoy_ai_gateway.load import FAULTY, Found
from filter_config.sources.envoy_ai_gateway.resources import (
    AIGatewayRoute,
    AIServiceBackend,
    APISchema,
    RouteBackendRef,
)
from filter_config.sources.faults import Origin
from filter_config.sources.model import Backend, Endpoint, Pool, Schema

# Schemas with a path prefix; the others have a version.
_PREFIXED: Final = frozenset({SchemaName.OPENAI, SchemaName.ANTHROPIC})
_POOL_SCHEMA: Final = Schema(name=SchemaName.OPENAI.value, version="v1", prefix="v1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in a route a reference is."""

    route: Found[AIGatewayRoute]
    rule: int
    ref: int

    @property
    def origin(self) -> Origin:
        """For messages."""
        return self.route.origin.at(f"spec.rules[{self.rule}].backendRefs[{self.ref}]")

    def backend_id(self, name: str) -> str:
        """The backend's name for Envoy and the processor; it begins with the namespace of the route, always."""
        route = self.route
        return f"{route.namespace}/{name}/route/{route.name}/rule/{self.rule}/ref/{self.ref}"


def target_of(ref: RouteBackendRef, namespace: str) -> Target:
    """What a reference names, seen from the namespace of its route."""
    where = ref.namespace or namespace
    if ref.group is None:
        return Target(AI_GROUP, "AIServiceBackend", where, ref.name)
    return Target(INFERENCE_GROUP, "InferencePool", where, ref.name)


class Backends:
    """Compiles references."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._policies = Policies(context)
        self._endpoints = Endpoints(context)

    def compile(self, ref: RouteBackendRef, place: Place) -> Backend | None:
        """The backend of a reference, or None and a fault."""
        target = target_of(ref, place.route.namespace)
        faults = self._context.faults
        if not self._context.grants.allow(ROUTE, place.route.namespace, target):
            message = f"{target} is in another namespace, which does not allow it; the backend is left out"
            faults.error(place.origin, message, grant_fix(ROUTE, place.route.namespace, target))
            return None
        if target.kind == "InferencePool":
            return self._pool(ref, place, target)
        found = self._context.resources.get(AIServiceBackend, target.namespace, target.name)
        if found is None:
            reason = self._context.resources.absence(AIServiceBackend, target.namespace, target.name)
            message = f"{target} {reason}; the backend is left out"
            if reason == FAULTY:
                faults.warning(place.origin, message)
            else:
                faults.error(place.origin, message, "add it, or remove the reference")
            return None
        auth = self._auth(target, place)
        return None if auth is None else self._service(ref, place, found, auth)

    def _auth(self, target: Target, place: Place) -> Auth | None:
        auth = self._policies.auth(target)
        if not auth.problem:
            return auth
        message = f"{target}: {auth.problem}; the backend is left out"
        if auth.problem.startswith("several"):
            self._context.faults.error(place.origin, message, "let one policy be about it")
        else:
            self._context.faults.warning(place.origin, message)
        return None

    def _service(self, ref: RouteBackendRef, place: Place, found: Found[AIServiceBackend], auth: Auth) -> Backend:
        spec = found.value.spec
        headers = _with_removed(merge_headers(spec.header_mutation, ref.header_mutation), auth.remove)
        return self._backend(
            ref,
            place,
            auth,
            namespace=found.namespace,
            defined_at=found.origin,
            schema=_schema(spec.schema),
            header_mutation=headers,
            body_mutation=merge_bodies(spec.body_mutation, ref.body_mutation),
            endpoint=self._endpoints.of(found, place.route.namespace),
        )

    def _pool(self, ref: RouteBackendRef, place: Place, target: Target) -> Backend | None:
        auth = self._auth(target, place)
        if auth is None:
            return None
        for attribute, field in (("header_mutation", "headerMutation"), ("body_mutation", "bodyMutation")):
            if getattr(ref, attribute) is not None:
                self._context.faults.warning(
                    place.origin.below(field), "has no effect on an InferencePool", "remove it"
                )
        return self._backend(
            ref,
            place,
            auth,
            namespace=target.namespace,
            schema=_POOL_SCHEMA,
            header_mutation=_with_removed(None, auth.remove),
            pool=self._endpoints.pool(target, place.origin),
        )

    def _backend(
        self,
        ref: RouteBackendRef,
        place: Place,
        auth: Auth,
        *,
        namespace: str,
        schema: Schema,
        defined_at: Origin | None = None,
        header_mutation: document.HTTPHeaderMutation | None = None,
        body_mutation: document.HTTPBodyMutation | None = None,
        endpoint: Endpoint | None = None,
        pool: Pool | None = None,
    ) -> Backend:
        # An override is honoured for pools as well: the peer's documentation says otherwise, its compiler does it.
        return Backend(
            id=place.backend_id(ref.name),
            namespace=namespace,
            name=ref.name,
            schema=schema,
            origin=place.origin,
            defined_at=defined_at,
            model_override=ref.model_name_override,
            auth=auth.auth,
            auth_origin=auth.origin,
            header_mutation=header_mutation,
            body_mutation=body_mutation,
            weight=ref.weight,
            priority=ref.priority,
            endpoint=endpoint,
            pool=pool,
        )


def _schema(schema: APISchema) -> Schema:
    if schema.name in _PREFIXED:
        return Schema(name=schema.name.value, prefix=schema.prefix or "v1")
    return Schema(name=schema.name.value, version=schema.version)


# --- mutations ---

EntryT = TypeVar("EntryT")


def merge_headers(backend: HeaderMutation | None, route: HeaderMutation | None) -> document.HTTPHeaderMutation | None:
    """Both levels in one, names in lower case; of one level it is that level, in its order. None changes nothing."""
    sets, removes = _merge(
        *(_header_sets(backend), _lower(backend)),
        *(_header_sets(route), _lower(route)),
    )
    return document.HTTPHeaderMutation(set=tuple(sets.values()), remove=removes) if sets or removes else None


def merge_bodies(backend: BodyMutation | None, route: BodyMutation | None) -> document.HTTPBodyMutation | None:
    """The same for bodies, whose paths are kept as they are."""
    sets, removes = _merge(
        *(_body_sets(backend), backend.remove if backend is not None else ()),
        *(_body_sets(route), route.remove if route is not None else ()),
    )
    return document.HTTPBodyMutation(set=tuple(sets.values()), remove=removes) if sets or removes else None


def _merge(
    sets: dict[str, EntryT], removes: tuple[str, ...], route_sets: dict[str, EntryT], route_removes: tuple[str, ...]
) -> tuple[dict[str, EntryT], tuple[str, ...]]:
    """The route's entries win and cancel the opposite of the backend's; new ones follow the backend's, in order."""
    kept = {name: entry for name, entry in sets.items() if name not in route_removes}
    left = [name for name in removes if name not in route_sets]
    return {**kept, **route_sets}, tuple(dict.fromkeys((*left, *route_removes)))


def _lower(mutation: HeaderMutation | None) -> tuple[str, ...]:
    return tuple(name.lower() for name in mutation.remove) if mutation is not None else ()


def _header_sets(mutation: HeaderMutation | None) -> dict[str, document.HTTPHeader]:
    return {
        header.name.lower(): document.HTTPHeader(name=header.name.lower(), value=header.value)
        for header in (mutation.set if mutation is not None else ())
    }


def _body_sets(mutation: BodyMutation | None) -> dict[str, document.HTTPBodyField]:
    return {
        entry.path: document.HTTPBodyField(path=entry.path, value=entry.value.reveal())
        for entry in (mutation.set if mutation is not None else ())
    }


def _with_removed(
    mutation: document.HTTPHeaderMutation | None, names: Iterable[str]
) -> document.HTTPHeaderMutation | None:
    added = tuple(names)
    if not added:
        return mutation
    base = mutation or document.HTTPHeaderMutation()
    return document.HTTPHeaderMutation(set=base.set, remove=tuple(dict.fromkeys((*base.remove, *added))))
