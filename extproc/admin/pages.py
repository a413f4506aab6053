"""The pages of the admin port: ``/metrics``, ``/health``, ``/ready``, ``/config`` (contract, admin HTTP server 1.8).

The console at ``/`` joins them where it is on.

As with the peer, any method is taken, and unknown paths get the text of Go's server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from extproc.admin.console import DATA_PATH, Console
from extproc.admin.encoding import packed
from extproc.telemetry import exposition
from extproc.telemetry.redaction import redact_tree

_NOSNIFF: Final = {"X-Content-Type-Options": "nosniff"}
_TEXT: Final = "text/plain; charset=utf-8"

Page = Callable[[Request], Awaitable[Response]]


class HealthUnknown(Exception):
    """The health of the gRPC server could not be asked for; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """What the pages show.

    Attributes:
        registry: the metrics.
        refresh: brings them up to date, where they are not in any case.
        health: asks the gRPC server for its serving status, by name; raises ``HealthUnknown``.
        is_ready: whether traffic should be sent here.
        readiness: details for ``/ready``.
        config: details for ``/config``; secrets are replaced once more before they leave.
        console: the console, where it is on.
    """

    registry: CollectorRegistry
    health: Callable[[], Awaitable[str]]
    is_ready: Callable[[], bool]
    readiness: Callable[[], Mapping[str, Any]]
    config: Callable[[], Mapping[str, Any]]
    refresh: Callable[[], Awaitable[None]] | None = None
    console: Console | None = None

    async def show_metrics(self, request: Request) -> Response:
        if self.refresh is not None:
            await self.refresh()
        body, coding = packed(exposition.render(self.registry).encode(), request.headers.get("accept-encoding", ""))
        return Response(body, headers={"Content-Type": exposition.CONTENT_TYPE, **coding})

    async def show_health(self, _: Request) -> Response:
        try:
            status = await self.health()
        except HealthUnknown as error:
            return _failure(f"health check RPC failed: {error}")
        return _text("OK") if status == "SERVING" else _failure(f"unhealthy status: {status}")

    async def show_readiness(self, _: Request) -> Response:
        ready = self.is_ready()
        return _json({"ready": ready, **self.readiness()}, 200 if ready else 503)

    async def show_config(self, _: Request) -> Response:
        return _json(self.config(), 200)


class _AnyMethod:
    """A page as an ASGI application: unlike a function, Starlette lets every method through to it."""

    def __init__(self, page: Page) -> None:
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._page(Request(scope, receive))
        await response(scope, receive, send)


def build_app(pages: Pages) -> Starlette:
    """The application of the admin port."""
    routes = {
        "/metrics": pages.show_metrics,
        "/health": pages.show_health,
        "/ready": pages.show_readiness,
        "/config": pages.show_config,
    }
    if pages.console is not None:
        routes |= {"/": pages.console.show_page, DATA_PATH: pages.console.show_data}
    app = Starlette(
        routes=[Route(path, _AnyMethod(page)) for path, page in routes.items()],
        exception_handlers={404: _not_found},
    )
    app.router.redirect_slashes = False
    return app


async def _not_found(_: Request, __: Exception) -> Response:
    return _text("404 page not found", 404, _NOSNIFF)


def _text(line: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(f"{line}\n", status, {"Content-Type": _TEXT, **(headers or {})})


def _failure(line: str) -> Response:
    return _text(line, 500, _NOSNIFF)


def _json(value: Mapping[str, Any], status: int) -> Response:
    body = msgspec.json.format(msgspec.json.encode(redact_tree(value)), indent=2)
    return Response(body + b"\n", status, {"Content-Type": "application/json"})
