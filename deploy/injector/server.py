"""The webhook's HTTPS: ``/mutate`` for the API server, ``/health``, ``/ready`` and ``/metrics`` for operators.

A pod must not suffer from a fault of ours, so a fault while one is looked at lets it pass unchanged, with a warning. A
review that cannot be read, or that comes before the cluster's state is known, has no such answer: it gets an HTTP
error, and the failure policy of the webhook's configuration decides. ``Fail`` is the better one there: pods of gateways
wait a moment, and the old ones go on serving; with ``Ignore`` a gateway would roll to pods without a processor.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog
import uvicorn
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from deploy.injector import review
from deploy.injector.admission import mutate, passed
from deploy.injector.review import AdmissionRequest, Answer, MalformedReview, Result

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from deploy.injector.facts import ClusterFacts
    from deploy.injector.options import SidecarOptions

_log = structlog.get_logger(__name__)

MAX_BODY: Final = 4 * 1024 * 1024
"""Bytes of a review. An object has at most 1.5 MiB, and an update's review holds two."""
BODY_SECONDS: Final = 10.0
"""How long a review may take to arrive: as long as the API server waits for the answer."""

_NOT_READY: Final = "the state of the cluster is not known yet"
_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)


class InjectorMetrics:
    """How many reviews ended how, and how long they took."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.reviews = Counter(
            "extproc_injector_reviews",
            "Admission reviews: injected, unchanged (nothing to inject), passed (not understood), refused (no review).",
            ["result"],
            registry=registry,
        )
        self.seconds = Histogram(
            "extproc_injector_review_duration_seconds",
            "Time to answer an admission review.",
            buckets=_BUCKETS,
            registry=registry,
        )
        for result in (*Result, "refused"):
            self.reviews.labels(result)


class _Refused(Exception):
    """The request gets an HTTP error; the status, and a line that says why."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """The pages of the webhook.

    Attributes:
        facts: the state of the cluster.
        options: gives today's flags of the sidecar.
        ready: whether the state of the cluster is known.
        max_body: bytes of a review.
        body_seconds: how long a review may take to arrive.
    """

    facts: ClusterFacts
    options: Callable[[], SidecarOptions]
    metrics: InjectorMetrics
    ready: Callable[[], bool] = lambda: True
    max_body: int = MAX_BODY
    body_seconds: float = BODY_SECONDS

    async def mutate(self, request: Request) -> Response:
        """Answer a review."""
        with self.metrics.seconds.time():
            try:
                asked = review.read(await self._body(request))
            except MalformedReview as error:
                return self._refuse(400, str(error))
            except _Refused as error:
                return self._refuse(error.status, str(error))
            answer = self._answer(asked)
        self.metrics.reviews.labels(answer.result).inc()
        return Response(review.write(answer), media_type="application/json")

    async def health(self, _: Request) -> Response:
        """Whether the process answers at all."""
        return _text("OK")

    async def readiness(self, _: Request) -> Response:
        """Whether reviews are answered."""
        return _text("OK") if self.ready() else _text(_NOT_READY, 503)

    async def show_metrics(self, _: Request) -> Response:
        """The metrics, in Prometheus's text format."""
        return Response(generate_latest(self.metrics.registry), headers={"Content-Type": _METRICS_TYPE})

    def _answer(self, asked: AdmissionRequest) -> Answer:
        try:
            answer = mutate(asked, self.facts, self.options())
        except Exception as error:  # noqa: BLE001 - the last place where a fault of ours is not one of the pod's
            _log.error("the injector failed", namespace=asked.namespace, exc_info=error)
            answer = passed(asked, "internal error, see the log of the injector")
        log = _log.warning if answer.warnings else _log.debug
        log(
            "pod reviewed",
            result=str(answer.result),
            namespace=asked.namespace,
            reason=answer.reason,
            warnings=list(answer.warnings),
        )
        return answer

    def _refuse(self, status: int, line: str) -> Response:
        self.metrics.reviews.labels("refused").inc()
        _log.warning("review refused", status=status, reason=line)
        return _text(line, status)

    async def _body(self, request: Request) -> bytes:
        if not self.ready():
            raise _Refused(503, _NOT_READY)
        too_large = _Refused(413, f"the review is larger than {self.max_body} bytes")
        length = request.headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length) > self.max_body:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self.body_seconds):
                async for piece in request.stream():
                    body += piece
                    if len(body) > self.max_body:
                        raise too_large
        except TimeoutError:
            raise _Refused(408, f"the review did not arrive within {self.body_seconds:g} seconds") from None
        except ClientDisconnect:
            raise _Refused(400, "the review is not whole") from None
        return bytes(body)


def _text(line: str, status: int = 200) -> Response:
    return Response(f"{line}\n", status, media_type="text/plain")


def build_app(webhook: Webhook) -> Starlette:
    """The application. ``/mutate`` takes only POST, as the API server sends it."""
    return Starlette(
        routes=[
            Route("/mutate", webhook.mutate, methods=["POST"]),
            Route("/health", webhook.health),
            Route("/ready", webhook.readiness),
            Route("/metrics", webhook.show_metrics),
        ]
    )


class _Config(uvicorn.Config):
    """With a TLS context of ours, as uvicorn's own never looks at its files again."""

    def __init__(self, app: ASGIApp, context: ssl.SSLContext | None) -> None:
        super().__init__(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_keep_alive=65,
            timeout_graceful_shutdown=10,
        )
        self._context = context

    def load(self) -> None:
        super().load()
        self.ssl = self._context


class WebhookServer(uvicorn.Server):
    """Serves ``app`` on a bound socket until ``stop``; signals are the business of the process.

    Args:
        app: see ``build_app``.
        bound: the listening socket.
        context: see ``tls.server_context``; None for plain HTTP, behind something that speaks TLS.
    """

    def __init__(self, app: ASGIApp, bound: socket.socket, context: ssl.SSLContext | None) -> None:
        super().__init__(_Config(app, context))
        self._bound = bound

    async def run_until_stopped(self) -> None:
        """Serve; returns after ``stop``, when open requests have had their answer."""
        await self.serve(sockets=[self._bound])

    def stop(self) -> None:
        """Ask ``run_until_stopped`` to end."""
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
