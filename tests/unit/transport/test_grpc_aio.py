"""What is grpcio's alone."""

from __future__ import annotations

import asyncio

import pytest
from grpc import aio
from structlog.testing import capture_logs

from extproc.transport.grpc_aio import GrpcServer
from protos.health_pb2 import HealthCheckRequest, HealthCheckResponse
from tests.support.served import Processor


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


class _Ended:
    """The context of a call which the engine has ended already; a race decides when a handler learns of it."""

    def __init__(self, error):
        self._error = error

    async def read(self):
        raise self._error


# The engine's own errors share just this base; that of a stopped server has no public name.
@pytest.mark.parametrize("error", [aio.UsageError(), aio.InternalError(), aio.BaseError("Server already stopped.")])
def test_a_call_that_the_engine_has_ended_is_no_fault(error):
    processor = Processor()

    async def story():
        await GrpcServer(processor, is_serving=lambda: True)._process(None, _Ended(error))

    with capture_logs() as logs:
        run(story())
    assert logs == []
    assert (processor.opened, processor.closed) == (1, 1)


class _Watching:
    """The context of somebody who watches the health, of a server that is stopped while it tells the first status."""

    def __init__(self, stop):
        self.told = []
        self._stop = stop

    async def write(self, health):
        self.told.append(health.status)
        if len(self.told) == 1:
            self._stop()

    async def abort(self, code, text):
        raise aio.AbortError(code, text)


def test_a_status_that_changes_while_another_is_told_is_told_before_the_end():
    serving = True

    async def story():
        server = GrpcServer(Processor(), is_serving=lambda: serving)

        def stop():
            nonlocal serving
            serving = False
            server._stopping.set()

        watching = _Watching(stop)
        with pytest.raises(aio.AbortError, match="server stops"):
            await server._watch(HealthCheckRequest(), watching)
        return watching.told

    assert run(story()) == [HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING]
