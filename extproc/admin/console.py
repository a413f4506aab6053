"""The console at ``/`` of the admin port: one page for people, and the figures that it asks for again and again.

It is read-only. Who may see it is decided here and not by where the port listens: the port listens where probes and
scrapers come from, and model names, backends and request ids are not for all of these.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from extproc.admin.encoding import packed
from extproc.admin.peers import Peers
from extproc.admin.traffic import DEFAULT_WINDOW, WINDOWS, Gathering, Traffic
from extproc.telemetry.ledger import Ledger

DATA_PATH: Final = "/console/data"

_FRESH: Final = 1.0
"""Seconds for which figures are given out again: many viewers cost as much as one."""
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What ``/console/data`` answers.

    Attributes:
        now: seconds since 1970.
        process: who serves, since when, and whether it is ready.
        config: what config is live, and the last one that was refused.
        traffic: what ended in the window.
    """

    now: float
    process: Mapping[str, Any]
    config: Mapping[str, Any]
    traffic: Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """What the console shows, and to whom.

    Attributes:
        ledger: what has ended.
        peers: who may see it.
        process: details of the process.
        config: details of the filter config.
        now: seconds since 1970.
    """

    ledger: Ledger
    peers: Peers
    process: Callable[[], Mapping[str, Any]]
    config: Callable[[], Mapping[str, Any]]
    now: Callable[[], float] = time.time
    _recent: dict[str, Traffic] = field(default_factory=dict)
    _taken: dict[str, float] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def show_page(self, request: Request) -> Response:
        """The page."""
        if (refused := self._refused(request)) is not None:
            return refused
        page = the_page()
        headers = {**_HEADERS, "Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": page.policy}
        return _answer(request, page.body, headers)

    async def show_data(self, request: Request) -> Response:
        """The figures of the window that the query names."""
        if (refused := self._refused(request)) is not None:
            return refused
        window = request.query_params.get("window", DEFAULT_WINDOW)
        if window not in WINDOWS:
            return _refusal(400, f"no such window; there are {', '.join(WINDOWS)}")
        figures = Figures(
            now=round(self.now(), 3),
            process=self.process(),
            config=self.config(),
            traffic=await self._traffic(window),
        )
        return _answer(request, msgspec.json.encode(figures), {**_HEADERS, "Content-Type": "application/json"})

    def _refused(self, request: Request) -> Response | None:
        if request.method not in ("GET", "HEAD"):
            return _refusal(405, "the console is for reading", {"Allow": "GET, HEAD"})
        reason = self.peers.refusal(request.client.host if request.client else "", request.headers)
        return _refusal(403, f"the console is not shown here: {reason} (flag -consolePeers)") if reason else None

    async def _traffic(self, window: str) -> Traffic:
        async with self._lock:
            now = self.now()
            if window not in self._recent or not 0 <= now - self._taken[window] < _FRESH:
                self._recent[window] = await self._gathered(window, now)
                self._taken[window] = now
            return self._recent[window]

    async def _gathered(self, window: str, now: float) -> Traffic:
        gathering = Gathering(window, now)
        # Streams have their turn after each.
        for slot in list(self.ledger.slots(*gathering.slots)):
            gathering.add(slot)
            await asyncio.sleep(0)
        for _ in gathering.rows():
            await asyncio.sleep(0)
        return gathering.result()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The page as it is sent, and the content security policy that lets just its own style and script in."""

    body: bytes
    policy: str


@cache
def the_page() -> Page:
    """The page, put together from its three sources."""
    sources = resources.files("extproc.admin")
    html, style, script = ((sources / f"console.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js"))
    body = html.replace("/* console.css */", style).replace("/* console.js */", script)
    policy = (
        "default-src 'none'",
        f"style-src '{_digest(style)}'",
        f"script-src '{_digest(script)}'",
        "connect-src 'self'",
        # The empty icon, without which browsers ask for another one.
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return Page(body=body.encode(), policy="; ".join(policy))


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _answer(request: Request, body: bytes, headers: Mapping[str, str]) -> Response:
    body, coding = packed(body, request.headers.get("accept-encoding", ""))
    return Response(body, headers={**headers, **coding})


def _refusal(status: int, line: str, headers: Mapping[str, str] | None = None) -> Response:
    content = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}
    return Response(f"{line}\n", status, {**content, **(headers or {})})
