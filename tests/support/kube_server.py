"""An API server on loopback: kmock's, over a cluster of ours, whose answers can be made to go wrong.

It writes down what is asked of it as RBAC has it, and refuses what the roles of the manifests do not grant: a test in
which that happens fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp.web
import attrs
import kmock
import msgspec
from lightkube.config.kubeconfig import KubeConfig

from deploy.controller.api import KubeApi
from tests.support.kube_cluster import Cluster, Event, Object, Place, Refused, public
from tests.support.kube_rights import Asked, Rights, rights

MAX_BODY = 3 << 20
NAMESPACES = "/api/v1/namespaces"
ALIAS = "all-namespaces"
APPLY = "application/apply-patch+yaml"

# The command puts its Lease there unless it is told where it runs.
LEASES = "envoy-gateway-system"


@dataclass
class Trouble:
    """Something that happens to requests."""

    applies: Callable[[kmock.Request], bool]
    act: Callable[[kmock.Request], Any]
    times: int


@attrs.define(kw_only=True)
class KubeServer(kmock.KubernetesScaffold):
    """Serves a cluster, to a controller, or to whoever may do everything when ``rights`` is None."""

    cluster: Cluster = attrs.field(factory=Cluster)
    rights: Rights | None = attrs.field(factory=lambda: rights(LEASES))
    asked: set[Asked] = attrs.field(factory=set)
    denied: list[Asked] = attrs.field(factory=list)
    troubles: list[Trouble] = attrs.field(factory=list)
    page: int = 500
    bookmark_every: int = 100
    absent: set[str] = attrs.field(factory=set)
    _streams: set[asyncio.Event] = attrs.field(factory=set)
    _dropped: int = 0

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.fallback << self._serve
        self.cluster.listeners.append(self._wake)

    async def __call__(self, raw_request: aiohttp.web.BaseRequest) -> aiohttp.web.StreamResponse:
        # An API server takes three times what aiohttp takes by default.
        raw_request._client_max_size = MAX_BODY
        # kmock finds a request among all that there ever were, several times.
        self._requests.clear()
        if raw_request.path == NAMESPACES:
            # kmock 0.8 takes this for a path within a namespace, and finds none in it.
            raw_request = raw_request.clone(rel_url=raw_request.rel_url.with_path(f"/api/v1/{ALIAS}", keep_query=True))
        return await super().__call__(raw_request)

    async def _render_error(self, exc: Exception) -> aiohttp.web.StreamResponse:
        if isinstance(exc, Failure):
            return aiohttp.web.Response(**exc.response)
        return await super()._render_error(exc)

    # --- trouble ---

    def trouble(
        self, applies: Callable[[kmock.Request], bool], act: Callable[[kmock.Request], Any], times: int
    ) -> None:
        """Makes the next requests of a kind go wrong."""
        self.troubles.append(Trouble(applies, act, times))

    def drop_watches(self) -> None:
        """Ends all watches that are open."""
        self._dropped += 1
        self._wake()

    def _wake(self) -> None:
        for stream in self._streams:
            stream.set()

    # --- requests ---

    async def _serve(self, request: kmock.Request) -> kmock.Payload:
        if request.resource is None or request.resource.plural is None:
            return NotImplemented
        if request.resource.plural == ALIAS:
            request = attrs.evolve(request, resource=kmock.resource("", "v1", "namespaces"))
        self._authorize(_asked(request))
        for trouble in self.troubles:
            if trouble.times and trouble.applies(request):
                trouble.times -= 1
                answer = trouble.act(request)
                if asyncio.iscoroutine(answer):
                    answer = await answer
                if answer is not None:
                    return answer
        if request.resource.plural in self.absent:
            raise kmock.KubernetesError(404, "NotFound", "the server could not find the requested resource")
        try:
            return await self._answer(request)
        except Refused as refused:
            raise kmock.KubernetesError(refused.status, refused.reason, str(refused)) from None

    def _authorize(self, asked: Asked) -> None:
        self.asked.add(asked)
        if self.rights is not None and not self.rights.allow(asked):
            self.denied.append(asked)
            raise kmock.KubernetesError(403, "Forbidden", f"no role of the controller allows to {asked}")

    async def _answer(self, request: kmock.Request) -> kmock.Payload:
        resource = request.resource
        place = Place(resource.group, resource.plural, request.namespace or "", request.name or "")
        match request.method.value.upper(), request.name:
            case "GET", None if request.params.get("watch") == "true":
                # A version that is too old is refused before anything is sent.
                self.cluster.since(int(request.params["resourceVersion"]), place.group, place.plural, place.namespace)
                return self._watch(request)
            case "GET", None:
                return self._list(request)
            case "GET", _:
                return _json(self.cluster.get(place))
            case "POST", None:
                named = Place(place.group, place.plural, place.namespace, request.data["metadata"]["name"])
                return _json(self.cluster.create(named, request.data))
            case "PUT", _:
                return _json(self.cluster.replace(place, request.data))
            case "PATCH", _:
                return _json(self._patch(request, place))
            case "DELETE", _:
                uid = ((request.data or {}).get("preconditions") or {}).get("uid", "")
                self.cluster.delete(place, uid=uid)
                return {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        raise kmock.KubernetesError(405, "MethodNotAllowed", "not known here")

    def _patch(self, request: kmock.Request, place: Place) -> Object:
        if request.headers["Content-Type"] == APPLY:
            force = request.params.get("force") == "true"
            if place not in self.cluster.objects:
                # Applying what is not there takes both rights.
                self._authorize(Asked("create", place.group, place.plural, place.namespace))
            return self.cluster.apply(place, request.data, request.params["fieldManager"], force=force)
        return self.cluster.merge_patch(place, request.data, subresource=request.subresource or "")

    def _list(self, request: kmock.Request) -> kmock.Payload:
        resource = request.resource
        found = [
            value
            for value in self.cluster.list(resource.group, resource.plural, request.namespace or "")
            if _selected(request, value)
        ]
        start = int(request.params.get("continue") or 0)
        size = min(int(request.params.get("limit") or self.page), self.page)
        rest = start + size < len(found)
        # Items of a list do not say their kind.
        items = [
            {name: part for name, part in public(value).items() if name not in ("kind", "apiVersion")}
            for value in found[start : start + size]
        ]
        metadata = {"resourceVersion": str(self.cluster.version), **({"continue": str(start + size)} if rest else {})}
        return msgspec.json.encode({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items})

    async def _watch(self, request: kmock.Request) -> AsyncIterator[bytes]:
        resource, space = request.resource, request.namespace or ""
        seen = told = int(request.params["resourceVersion"])
        stream, dropped = asyncio.Event(), self._dropped
        self._streams.add(stream)
        try:
            yield b""
            while dropped == self._dropped:
                stream.clear()
                try:
                    events = self.cluster.since(seen, resource.group, resource.plural, space)
                except Refused as refused:
                    yield _error(refused)
                    return
                seen = self.cluster.version
                for event in events:
                    if _selected(request, event.object):
                        told = event.version
                        yield _line(event.type, public(event.object))
                if seen - told >= self.bookmark_every and request.params.get("allowWatchBookmarks") == "true":
                    told = seen
                    yield _line("BOOKMARK", {"kind": "", "metadata": {"resourceVersion": str(seen)}})
                await stream.wait()
        finally:
            self._streams.discard(stream)


def _json(value: Object) -> bytes:
    return msgspec.json.encode(public(value))


def _line(event: str, value: Object) -> bytes:
    return msgspec.json.encode({"type": event, "object": value}) + b"\n"


def _error(refused: Refused) -> bytes:
    status = {"kind": "Status", "code": refused.status, "reason": refused.reason, "message": str(refused)}
    return _line("ERROR", status)


def _selected(request: kmock.Request, value: Object) -> bool:
    label = request.params.get("labelSelector")
    if label and label not in (value["metadata"].get("labels") or {}):
        return False
    fields = request.params.get("fieldSelector", "")
    return all(value.get("type") != part.partition("!=")[2] for part in fields.split(",") if part)


_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def _asked(request: kmock.Request) -> Asked:
    method = request.method.value.upper()
    if method == "GET":
        verb = "get" if request.name else "watch" if request.params.get("watch") == "true" else "list"
    else:
        verb = _VERBS[method]
    plural = f"{request.resource.plural}/{request.subresource}" if request.subresource else request.resource.plural
    # Kubernetes takes a list of one name for a request about that object.
    selected = request.params.get("fieldSelector", "").removeprefix("metadata.name=")
    name = request.name or (selected if "=" not in selected else "")
    return Asked(verb, request.resource.group, plural, request.namespace or "", name)


class Failure(Exception):
    """An answer that is made to fail, as it is. NB: a ``kmock.Response`` would colour all answers after it."""

    def __init__(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        super().__init__(f"made to fail with {status}")
        self.response = {"status": status, "body": body, "headers": headers}


def fails(status: int, reason: str = "Trouble", *, body: bytes = b"", **headers: str) -> Callable[[kmock.Request], Any]:
    """A trouble: this answer instead."""
    said = {"kind": "Status", "code": status, "reason": reason, "message": f"made to fail with {status}"}

    def act(_request: kmock.Request) -> Any:
        raise Failure(status, body or msgspec.json.encode(said), {"Content-Type": "application/json", **headers})

    return act


def is_write(request: kmock.Request) -> bool:
    """Whether a request would change something."""
    return request.method.value.upper() in _VERBS


@asynccontextmanager
async def running(server: KubeServer | None = None) -> AsyncIterator[KubeServer]:
    """A server that listens, and what it serves. Nothing may be asked of it that the roles do not allow."""
    handler = KubeServer() if server is None else server
    async with handler, kmock.Server(handler):
        try:
            yield handler
        finally:
            handler.drop_watches()
    assert not handler.denied, f"no role of the controller allows to {handler.denied[0]}"


def client(server: KubeServer, *, timeout: float = 15.0) -> KubeApi:
    """A client of a server."""
    url = str(server.url).rstrip("/")
    config = {
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": url}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "users": [{"name": "test", "user": {}}],
    }
    return KubeApi(KubeConfig.from_dict(config).get(), timeout=timeout)


__all__ = ["APPLY", "Event", "KubeServer", "client", "fails", "is_write", "running"]
