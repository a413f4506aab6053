"""What a stand-in gets and gives, and the rules of HTTP that all providers share.

A request is read once, strictly; whatever breaks a rule raises ``Refused``, and the provider says it in its own shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import parse_qsl

import msgspec

JSON: Final = "application/json"
SSE: Final = "text/event-stream"
CREATED: Final = 1_700_000_000
"""When every answer was made: seconds since 1970."""

_ONLY_ONCE: Final = ("authorization", "x-api-key", "api-key", "content-type", "content-length", "host")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One response. Each piece is what the service writes at a time: an event, a frame, or the whole document."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    pieces: tuple[bytes, ...] = ()

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request as it was received: ``path`` is not decoded, header names are in lower case."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


class Refused(Exception):
    """The request breaks a rule. ``kind`` is the provider's name for it; empty: its usual one for the status."""

    def __init__(self, message: str, *, status: int = 400, kind: str = "", code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.kind = kind
        self.code = code


class Provider(Protocol):
    def answer(self, method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes) -> Reply:
        """The answer to one request: ``target`` is path and query as they stand in the request line."""
        ...


def answered(
    serve: Callable[[Call], Reply],
    refuse: Callable[[Refused], Reply],
    *,
    method: str,
    target: str,
    headers: Iterable[tuple[str, str]],
    body: bytes,
) -> Reply:
    """The reply of ``serve`` to a request that HTTP allows, or that of ``refuse`` to one that breaks a rule."""
    try:
        return serve(_read(method, target, headers, body))
    except Refused as refused:
        return refuse(refused)


def _read(method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes) -> Call:
    received = [(name.lower(), value) for name, value in headers]
    counts = Counter(name for name, _ in received)
    for name in _ONLY_ONCE:
        if counts[name] > 1:
            raise Refused(f"the header {name} came {counts[name]} times")
    by_name = dict(received)
    path, _, query = target.partition("?")
    if method != "POST":
        raise Refused(f"the method {method} is not allowed", status=405)
    if by_name.get("content-length") != str(len(body)):
        raise Refused("content-length is required, and has to be the length of the body", status=411)
    if by_name.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise Refused("content-type has to be application/json", status=415)
    return Call(path=path, query=dict(parse_qsl(query, keep_blank_values=True)), headers=by_name, body=body)


def allow_query(call: Call, *allowed: str) -> None:
    """Raises ``Refused`` for a query parameter that the method does not have."""
    for name in call.query:
        if name not in allowed:
            raise Refused(f"unknown query parameter {name!r}")


def bearer(call: Call) -> str | None:
    """The token of ``Authorization: Bearer``; None without one."""
    scheme, _, token = call.headers.get("authorization", "").partition(" ")
    return token if scheme == "Bearer" and token else None


def document(value: object) -> bytes:
    return msgspec.json.encode(value)


def json_reply(value: object, *, status: int = 200, headers: Iterable[tuple[str, str]] = ()) -> Reply:
    return Reply(status=status, headers=(("content-type", JSON), *headers), pieces=(document(value),))


def event(value: object, *, name: str | None = None, end: bytes = b"\n\n") -> bytes:
    """A server-sent event, with an ``event:`` line when it has a name. Text stands as it is."""
    data = value.encode() if isinstance(value, str) else document(value)
    return (b"" if name is None else b"event: " + name.encode() + b"\n") + b"data: " + data + end


def stream_reply(events: Iterable[bytes], *, headers: Iterable[tuple[str, str]] = ()) -> Reply:
    return Reply(headers=(("content-type", SSE), *headers), pieces=tuple(events))
