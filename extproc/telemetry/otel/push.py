"""Pushes metrics at an interval, and once more at the end, whatever the collector does.

One process of a group pushes: the one that serves ``/metrics``, with what it would show there.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TextIO

import structlog
from opentelemetry.sdk.metrics.export import (
    ConsoleMetricExporter,
    MetricExporter,
    MetricExportResult,
    MetricsData,
)
from prometheus_client import CollectorRegistry

from extproc.telemetry.attributes import HeaderAttributes
from extproc.telemetry.otel.ending import FLUSH_SECONDS, Aside
from extproc.telemetry.otel.exports import Export, Push
from extproc.telemetry.otel.points import Delivery, Points
from extproc.telemetry.otel.resource import resource

_log = structlog.get_logger(__name__)


async def _nothing_to_wait_for() -> None:
    return


class Pusher:
    """Pushes until it is closed.

    Args:
        exporter: sends.
        points: makes what is sent.
        push: how often, and how long one push may take.
        registry: what is pushed.
    """

    def __init__(
        self, exporter: MetricExporter, points: Points, push: Push, *, registry: Callable[[], CollectorRegistry]
    ) -> None:
        self._exporter = exporter
        self._points = points
        self._interval = push.interval
        self._timeout = push.export.timeout
        self._registry = registry
        self._under_way: Aside[MetricExportResult] | None = None

    async def run(self, refresh: Callable[[], Awaitable[None]] = _nothing_to_wait_for) -> None:
        """Push for as long as the task lives.

        Args:
            refresh: called before each push, to have what other processes have counted.
        """
        while True:
            await asyncio.sleep(self._interval)
            await refresh()
            await self.push(self._timeout)

    async def push(self, seconds: float) -> None:
        """Push now; gives up waiting after ``seconds``. Failures are told by the SDK, through our log."""
        if self._under_way is not None and not self._under_way.over:
            # The collector is slow beyond its timeout; what is not sent now is sent with the next push.
            return
        data, delivery = self._points.export(self._registry().collect(), time.time_ns())
        if data is None:
            return
        self._under_way = Aside(lambda: self._send(data, delivery), name="metrics push")
        await self._wait(self._under_way, seconds)

    async def _wait(self, call: Aside[Any], seconds: float) -> None:
        try:
            await call.within(seconds)
        except TimeoutError:
            _log.warning("an export has not ended in time", seconds=seconds)
        except Exception as error:  # noqa: BLE001 - whatever an exporter raises, the next push is tried
            _log.error("an export has failed", error=f"{type(error).__name__}: {error}")

    async def close(self, seconds: float = FLUSH_SECONDS) -> None:
        """Push what was counted since the last time, within a bound."""
        deadline = time.monotonic() + seconds
        await self.push(seconds)
        await self._wait(Aside(self._exporter.shutdown, name="end of metrics"), max(deadline - time.monotonic(), 0.1))

    def _send(self, data: MetricsData, delivery: Delivery) -> MetricExportResult:
        result = self._exporter.export(data, timeout_millis=self._timeout * 1000)
        if result is MetricExportResult.SUCCESS:
            delivery.done()
        return result


def build(
    push: Push,
    environ: Mapping[str, str],
    *,
    attributes: HeaderAttributes,
    registry: Callable[[], CollectorRegistry],
    out: TextIO | None = None,
) -> Pusher:
    """What the environment describes; the variables of the exporter are read by the SDK, from that of the process.

    Raises:
        ValueError: something in the environment cannot be used.
        ImportError: a package is missing.
    """
    points = Points(resource(environ), started=time.time_ns(), delta=push.delta, attributes=attributes)
    return Pusher(_exporter(push.export, out or sys.stdout), points, push, registry=registry)


def _exporter(export: Export, out: TextIO) -> MetricExporter:
    if export.kind == "console":
        return ConsoleMetricExporter(out=out, formatter=_line)
    if export.protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (  # noqa: PLC0415 - needed for this alone
            OTLPMetricExporter as OverGrpc,
        )

        return OverGrpc(timeout=export.timeout)
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - likewise
        OTLPMetricExporter as OverHttp,
    )

    return OverHttp(timeout=export.timeout)


def _line(data: MetricsData) -> str:
    return f"{data.to_json(indent=None)}\n"
