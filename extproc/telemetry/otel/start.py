"""Exports, from the environment to something that runs. The SDK is imported here, and only if it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from extproc.telemetry.attributes import HeaderAttributes
from extproc.telemetry.otel import exports, variables
from extproc.telemetry.otel.exports import ExportError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from extproc.telemetry.otel.push import Pusher
    from extproc.telemetry.otel.traces import Tracing


def tracing(environ: Mapping[str, str], attributes: HeaderAttributes) -> Tracing | None:
    """The tracer of this process; ``None`` while tracing is off.

    Args:
        environ: the environment of the process.
        attributes: request headers that become span attributes.

    Raises:
        ExportError: tracing is wanted and cannot be had.
    """
    export = exports.traces(environ)
    if export is None:
        return None
    with _explained("traces"):
        from extproc.telemetry.otel import libraries, traces  # noqa: PLC0415 - see the module
        from extproc.telemetry.tracing.readers.table import READERS  # noqa: PLC0415
        from extproc.telemetry.tracing.switches import conventions  # noqa: PLC0415

        variables.check_traces(environ, export)
        libraries.adopt()
        return traces.build(
            export,
            environ,
            convention=conventions(environ),
            readers={str(operation): reader for operation, reader in READERS.items()},
            attributes=attributes,
        )


def check_tracing(environ: Mapping[str, str], attributes: HeaderAttributes) -> None:
    """Find out here what would fail in every worker.

    Raises:
        ExportError: as ``tracing``.
    """
    made = tracing(environ, attributes)
    if made is not None:
        made.cancel()


def pusher(
    environ: Mapping[str, str],
    attributes: HeaderAttributes,
    *,
    registry: Callable[[], CollectorRegistry],
) -> Pusher | None:
    """What pushes metrics; ``None`` while they are only served at ``/metrics``.

    Args:
        environ: the environment of the process.
        attributes: request headers that are attributes of metrics, whose names are to be had back.
        registry: what is pushed.

    Raises:
        ExportError: pushing is wanted and cannot be had.
    """
    push = exports.metrics(environ)
    if push is None:
        return None
    with _explained("pushed metrics"):
        from extproc.telemetry.otel import libraries  # noqa: PLC0415 - see the module
        from extproc.telemetry.otel import push as pushing  # noqa: PLC0415

        variables.check_metrics(environ, push.export)
        libraries.adopt()
        return pushing.build(push, environ, attributes=attributes, registry=registry)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ExportError(f"{what} need a package that is not installed ({error.name}): {exports.INSTALL}") from error
    except ExportError:
        raise
    except Exception as error:  # the SDK has no common class for what it finds wrong in the environment
        raise ExportError(" ".join(str(error).split())) from error
