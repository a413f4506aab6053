"""The API server: lightkube's configuration, credentials and transport, and JSON as it comes.

Objects are not decoded into classes: most kinds are other projects' and have none, and what is passed on must lose no
field.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import httpx2
import msgspec
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.core.generic_client import BasicRequest, GenericAsyncClient

from deploy.controller.errors import ApiFailed, ServerUnreachable
from deploy.controller.kinds import Key, Kind, Object

FIELD_MANAGER: Final = "envoy-llm-extproc-controller"
PAGE: Final = 500
"""Objects in an answer of the server to a list."""

_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"
# A watch without anything to tell sends a bookmark about once a minute; longer silence is a connection that is dead.
_WATCH_SILENCE: Final = 330.0
_WATCH_SECONDS: Final = 300

_DEEPEST: Final = 200
_NESTING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)

T = TypeVar("T")


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    next: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[Object] = msgspec.field(default_factory=list)


class WatchEvent(msgspec.Struct):
    """A line of a watch."""

    type: str
    object: Object


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some objects of a list."""

    items: list[Object] = field(default_factory=list)
    resource_version: str = ""
    next: str = ""
    """What to ask for the next page with; empty: this was the last."""


class KubeApi:
    """Requests to the API server.

    Args:
        config: how to reach it; None: as the environment says, within a pod or by a kubeconfig.
        timeout: seconds for one request that is no watch.
    """

    def __init__(self, config: SingleConfig | KubeConfig | None = None, *, timeout: float = 15.0) -> None:
        self._http = GenericAsyncClient(
            ConnectionParams(timeout=httpx2.Timeout(timeout)), config, field_manager=FIELD_MANAGER
        )
        self._watch_timeout = httpx2.Timeout(timeout, read=_WATCH_SILENCE)

    async def close(self) -> None:
        """Closes all connections."""
        await self._http.close()  # type: ignore[no-untyped-call] # lightkube gives it no types

    # --- reading ---

    async def list(self, kind: Kind, namespace: str = "", *, after: str = "") -> Page:
        """A page of the objects of a kind; ``after`` is ``next`` of the one before.

        Raises:
            ApiFailed: 410 when the pages before are of too long ago.
            ServerUnreachable: there was no answer.
        """
        params = {"limit": str(PAGE), **_selectors(kind)}
        if after:
            params["continue"] = after
        found = _read(await self._send("GET", kind.path(namespace), params=params), _List)
        return Page(items=found.items, resource_version=found.metadata.resource_version, next=found.metadata.next)

    async def get(self, kind: Kind, key: Key) -> Object:
        """An object.

        Raises:
            ApiFailed: 404 when there is none.
            ServerUnreachable: there was no answer.
        """
        return _object(await self._send("GET", kind.path(key.namespace, key.name)))

    @asynccontextmanager
    async def watch(self, kind: Kind, namespace: str, since: str) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        """The changes of a kind since a resource version, bookmarks among them, until the server ends it.

        Raises:
            ApiFailed: 410 when the version is too old; also while iterating.
            ServerUnreachable: there was no answer, or it broke off.
        """
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": since,
            "timeoutSeconds": str(_WATCH_SECONDS),
            **_selectors(kind),
        }
        request = self._http.build_adapter_request(
            BasicRequest("GET", kind.path(namespace), params=params, timeout=self._watch_timeout)
        )
        try:
            response = await self._request(request, stream=True)
        except httpx2.HTTPError as error:
            raise ServerUnreachable(_said(error)) from error
        try:
            if response.status_code >= 400:
                await response.aread()
                raise _failure(response)
            yield _events(response)
        except httpx2.HTTPError as error:
            raise ServerUnreachable(_said(error)) from error
        finally:
            await response.aclose()

    async def version(self) -> tuple[str, str]:
        """Major and minor version of the server, as it writes them."""
        said = _decoded(await self._send("GET", "version"))
        return str(said.get("major", "")), str(said.get("minor", ""))

    # --- writing ---

    async def apply(self, kind: Kind, value: Object) -> Object:
        """Server-side apply: the fields of ``value`` become ours, those that were ours and are not there go."""
        metadata = value["metadata"]
        return _object(
            await self._send(
                "PATCH",
                kind.path(metadata.get("namespace") or "", metadata["name"]),
                params={"fieldManager": FIELD_MANAGER, "force": "true"},
                content_type=_APPLY,
                body=value,
            )
        )

    async def patch(self, kind: Kind, key: Key, patch: Object, *, subresource: str = "") -> Object:
        """A JSON merge patch (RFC 7396) of an object, or of its status."""
        return _object(
            await self._send(
                "PATCH",
                kind.path(key.namespace, key.name, subresource),
                params={"fieldManager": FIELD_MANAGER},
                content_type=_MERGE,
                body=patch,
            )
        )

    async def create(self, kind: Kind, value: Object) -> Object:
        """A new object; 409 when there is one of that name."""
        return _object(await self._send("POST", kind.path(value["metadata"].get("namespace") or ""), body=value))

    async def replace(self, kind: Kind, key: Key, value: Object) -> Object:
        """An object in place of the one whose resource version it has; 409 when that has changed."""
        return _object(await self._send("PUT", kind.path(key.namespace, key.name), body=value))

    async def delete(self, kind: Kind, key: Key, *, uid: str = "") -> None:
        """Deletes an object, when ``uid`` is given that one only and not a later one of the same name."""
        body = {"preconditions": {"uid": uid}} if uid else None
        await self._send("DELETE", kind.path(key.namespace, key.name), body=body)

    async def _request(self, request: httpx2.Request, *, stream: bool = False) -> httpx2.Response:
        response: httpx2.Response = await self._http.send(request, stream=stream)  # type: ignore[no-untyped-call] # likewise
        return response

    async def _send(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        content_type: str = "application/json",
        body: Object | None = None,
    ) -> bytes:
        headers = {"Content-Type": content_type} if body is not None else None
        request = BasicRequest(method, path, params=params or {}, data=body, headers=headers)
        try:
            response = await self._request(self._http.build_adapter_request(request))
        except httpx2.HTTPError as error:
            raise ServerUnreachable(_said(error)) from error
        if response.status_code >= 400:
            raise _failure(response)
        content: bytes = response.content
        return content


def _selectors(kind: Kind) -> dict[str, str]:
    given = {"labelSelector": kind.labels, "fieldSelector": kind.fields}
    return {name: value for name, value in given.items() if value}


async def _events(response: httpx2.Response) -> AsyncIterator[WatchEvent]:
    async for line in _lines(response):
        # A line that cannot be read is one within which the connection ended.
        event = _read(line, WatchEvent)
        if event.type == "ERROR":
            raise ApiFailed(
                int(event.object.get("code") or 500),
                str(event.object.get("message") or "the watch failed"),
                reason=str(event.object.get("reason") or ""),
            )
        yield event


async def _lines(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The lines of an answer. NB: the client's own ends one at U+0085 as well, which texts of users may have."""
    rest = b""
    async for chunk in response.aiter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line
    if rest:
        yield rest


def _decoded(body: bytes) -> Object:
    value: Object = _read(body, dict[str, Any])
    return value


def _object(body: bytes) -> Object:
    value = _decoded(body)
    if not isinstance(value.get("metadata"), dict):
        raise ServerUnreachable("an answer is no object")
    return value


def _read(body: bytes, kind: type[T]) -> T:
    """An answer.

    Raises:
        ServerUnreachable: it is not whole, or is something else, such as the page of a proxy.
    """
    try:
        try:
            return msgspec.json.decode(body, type=kind)
        except RecursionError:
            return msgspec.json.decode(_shallow(body), type=kind)
    except msgspec.DecodeError as error:
        raise ServerUnreachable(f"an answer cannot be read: {error}") from error


def _shallow(body: bytes) -> bytes:
    """JSON with null for what is nested more deeply than anything that makes sense.

    The API server takes ten thousand levels where a schema leaves a field open: one object must not keep all others of
    its kind from being read.
    """
    kept, begin, depth = [], 0, 0
    for token in _NESTING.finditer(body):
        if token[0] in (b"{", b"["):
            depth += 1
            if depth == _DEEPEST + 1:
                kept += [body[begin : token.start()], b"null"]
        elif token[0] in (b"}", b"]"):
            if depth == _DEEPEST + 1:
                begin = token.end()
            depth -= 1
    return b"".join((*kept, body[begin:]))


def _failure(response: httpx2.Response) -> ApiFailed:
    """What a refusal says: a Status of Kubernetes, or the page of something in between."""
    try:
        status = _decoded(response.content)
    except ServerUnreachable:
        status = {}
    wait = response.headers.get("Retry-After", "")
    return ApiFailed(
        response.status_code,
        str(status.get("message") or f"HTTP status {response.status_code}"),
        reason=str(status.get("reason") or ""),
        retry_after=float(wait) if wait.isascii() and wait.isdigit() else None,
    )


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
