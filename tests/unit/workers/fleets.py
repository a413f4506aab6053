"""A fleet of real worker processes, and a client for it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

from grpc import aio

from extproc.exchange import names
from extproc.runtime import build_runtime
from extproc.settings import Settings
from extproc.telemetry.exposition import render
from extproc.telemetry.metrics import Metrics
from extproc.workers.fleet import Fleet
from filter_config.load import decode
from protos.ext_proc_pb2 import ProcessingRequest, ProcessingResponse
from protos.health_pb2 import HealthCheckRequest, HealthCheckResponse
from tests.support.playbook import BACKEND, DEFAULT_HEADERS, openai_backend, request_body, request_headers

CONFIG = {"version": "dev", "backends": [openai_backend(auth={"apiKey": {"key": "sk-planted"}})]}


def runtime_of(config=CONFIG, digest="first"):
    decoded = decode(json.dumps(config).encode())
    assert decoded.config is not None, decoded.problems
    return build_runtime(decoded.config, digest=digest, problems=decoded.problems)


def settings_for(workers, **fields):
    return Settings(config_path="unused", transport="http2", workers=workers, log_level=8, **fields)


class Running:
    """A fleet that serves."""

    def __init__(self, fleet, metrics, failures, address):
        self.fleet = fleet
        self.metrics = metrics
        self.failures = failures
        self.address = address

    async def page(self):
        await self.fleet.refresh()
        return render(self.fleet.registry)

    async def count(self, sample):
        """The value of a sample, by its name with labels; 0 if there is none."""
        page = await self.page()
        return next((float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(sample)), 0)

    def pids(self):
        return [seat.pid for seat in self.fleet.seats]


@contextlib.asynccontextmanager
async def running(workers=2, *, config=CONFIG, address="127.0.0.1:0", settings=None, **arguments):
    metrics, failures = Metrics({}), []
    fleet = Fleet(
        settings or settings_for(workers), metrics=metrics, environ={}, on_failure=failures.append, **arguments
    )
    where = fleet.listen(address, socket_mode=0o700)
    if config is not None:
        fleet.runtime = runtime_of(config)
    try:
        await fleet.start()
        yield Running(fleet, metrics, failures, where)
    finally:
        await fleet.stop(0)


class Client:
    """One connection, and streams on it. Use it as a context."""

    def __init__(self, address, credentials=None):
        options = [("grpc.use_local_subchannel_pool", 1)]
        self._channel = (
            aio.secure_channel(address, credentials, options)
            if credentials is not None
            else aio.insecure_channel(address, options)
        )
        # A call that nobody holds is cancelled.
        self._streams = []

    async def __aenter__(self):
        await asyncio.wait_for(self._channel.channel_ready(), 30)
        return self

    async def __aexit__(self, *_):
        await self._channel.close(0)

    def stream(self):
        call = self._channel.stream_stream(
            "/envoy.service.ext_proc.v3.ExternalProcessor/Process",
            ProcessingRequest.SerializeToString,
            ProcessingResponse.FromString,
        )
        self._streams.append(Stream(call()))
        return self._streams[-1]

    def watch(self):
        """A call that watches the health."""
        return self._channel.unary_stream(
            "/grpc.health.v1.Health/Watch", HealthCheckRequest.SerializeToString, HealthCheckResponse.FromString
        )(HealthCheckRequest())


class Stream:
    """One call."""

    def __init__(self, call):
        self.call = call

    async def ask(self, message):
        """The reply; None when the call has ended."""
        with contextlib.suppress(aio.AioRpcError, asyncio.InvalidStateError):
            await self.call.write(message)
            reply = await asyncio.wait_for(self.call.read(), 30)
            if reply is not aio.EOF:
                return reply
        return None

    async def code(self):
        return (await self.call.code()).name

    async def begin(self, model="m"):
        """Be the router-level half of a request, up to its body; gives the headers as Envoy carries them."""
        reply = await self.ask(request_headers(DEFAULT_HEADERS))
        carried = dict(DEFAULT_HEADERS)
        for option in reply.request_headers.response.header_mutation.set_headers:
            carried[option.header.key] = option.header.raw_value.decode()
        reply = await self.ask(request_body(json.dumps({"model": model}).encode()))
        for option in reply.request_body.response.header_mutation.set_headers:
            carried[option.header.key] = option.header.raw_value.decode()
        return carried

    async def attempt(self, carried, backend=BACKEND):
        """Be an attempt of the request."""
        return await self.ask(request_headers(carried, attributes={names.BACKEND_OF_HOST: backend}))


def is_running(pid):
    """Whether the process does anything yet; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def credential(reply):
    """The authorization that an attempt got."""
    sets = reply.request_headers.response.header_mutation.set_headers
    return [option.header.raw_value for option in sets if option.header.key.lower() == "authorization"]
