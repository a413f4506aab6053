"""A small rate limit service: what Envoy's rate limit filter asks, answered from the ``limits`` library.

Fixed windows that start with the first charge, in memory or in Redis. A descriptor that asks with 0 hits is refused
when nothing is left and never charged; a charge is always booked in full, also beyond the limit, because the tokens
have been spent.
"""

from __future__ import annotations

import asyncio
import math
import re
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import grpc
from limits.aio.strategies import FixedWindowRateLimiter
from limits.errors import ConfigurationError
from limits.storage import storage_from_string

from protos import rate_limit_pb2 as pb

if TYPE_CHECKING:
    from limits import RateLimitItem
    from limits.aio.storage import Storage
    from redis.asyncio import ConnectionPool

    from deploy.ratelimit.budgets import Budgets, Entries

SERVICE: Final = "envoy.service.ratelimit.v3.RateLimitService"
MEMORY: Final = "memory://"
_REDIS_PORT: Final = 6379
_WANTED_STORAGE: Final = "redis://HOST:PORT/DB"
_REMEMBERED: Final = 10_000

_OK: Final = pb.RateLimitResponse.OK
_OVER: Final = pb.RateLimitResponse.OVER_LIMIT


class StorageUnusable(ValueError):
    """The storage URL is not one that can be used here, or nobody answers there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One descriptor as it was answered: how much it was charged and what was left, both in the unit of the cost."""

    entries: Entries
    hits: int
    remaining: int
    refused: bool


class RateLimiter:
    """The answers. ``decisions`` keeps what was asked and answered, oldest first, for whoever wants to look at it."""

    def __init__(self, limits: Budgets, *, storage_url: str = MEMORY) -> None:
        self._limits = limits
        self._storage = _Storage(storage_url)
        self._limiter = FixedWindowRateLimiter(self._storage.of_limits)
        self._answered = threading.Condition()
        self.decisions: deque[Decision] = deque(maxlen=_REMEMBERED)

    def change(self, limits: Budgets) -> None:
        """Answer by other budgets from now on. One that stays as it is keeps what it has been charged."""
        self._limits = limits

    async def open(self) -> None:
        """Make sure that the storage is there.

        Raises:
            StorageUnusable: it does not answer.
        """
        await self._storage.check()

    async def close(self) -> None:
        """Give back the connections of the storage."""
        await self._storage.close()

    async def should_rate_limit(self, request: pb.RateLimitRequest) -> pb.RateLimitResponse:
        """Answer one request: over the limit when one of its descriptors is."""
        response = pb.RateLimitResponse(overall_code=_OK)
        # Envoy leaves the request's own addend at 0 to say "one hit each"; a descriptor's 0 really means none.
        default = request.hits_addend or 1
        for descriptor in request.descriptors:
            hits = descriptor.hits_addend.value if descriptor.HasField("hits_addend") else default
            entries = tuple((entry.key, entry.value) for entry in descriptor.entries)
            status = await self._status(request.domain, entries, hits)
            response.statuses.append(status)
            if status.code == _OVER:
                response.overall_code = _OVER
        return response

    def charged(self, *entries: tuple[str, str]) -> int:
        """All that a bucket has been charged, in the unit of the cost."""
        return sum(decision.hits for decision in self.decisions if decision.entries == entries)

    def remaining(self, *entries: tuple[str, str]) -> int | None:
        """What was left in a bucket when it was asked for last; None when it never was."""
        return next((decision.remaining for decision in reversed(self.decisions) if decision.entries == entries), None)

    def wait_until_charged(self, *entries: tuple[str, str], amount: int, timeout: float = 10.0) -> None:
        """Block until a bucket has been charged at least ``amount`` in all.

        Raises:
            TimeoutError: it has not been in time.
        """
        with self._answered:
            if not self._answered.wait_for(lambda: self.charged(*entries) >= amount, timeout):
                raise TimeoutError(f"{dict(entries)} was charged {self.charged(*entries)}, not {amount}")

    async def _status(self, domain: str, entries: Entries, hits: int) -> pb.RateLimitResponse.DescriptorStatus:
        limit = self._limits.limit_of(entries) if domain == self._limits.domain else None
        if limit is None:
            return pb.RateLimitResponse.DescriptorStatus(code=_OK)
        bucket = (domain, *(f"{key}={value}" for key, value in entries))
        # Asked for nothing, `hit` would start a window; what is refused without one left is a charge of one.
        within = await (self._limiter.hit(limit, *bucket, cost=hits) if hits else self._limiter.test(limit, *bucket))
        stats = await self._limiter.get_window_stats(limit, *bucket)
        with self._answered:
            self.decisions.append(Decision(entries=entries, hits=hits, remaining=stats.remaining, refused=not within))
            self._answered.notify_all()
        status = pb.RateLimitResponse.DescriptorStatus(
            code=_OK if within else _OVER, current_limit=_wire(limit), limit_remaining=stats.remaining
        )
        status.duration_until_reset.FromSeconds(max(0, math.ceil(stats.reset_time - time.time())))
        return status


class RateLimitServer:
    """The service on a port of its own, in a thread with its own event loop."""

    def __init__(self, limiter: RateLimiter, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.limiter = limiter
        self._address = (host, port)
        self._started = threading.Event()
        self._failure: OSError | StorageUnusable | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="rate limit service", daemon=True)
        self.port = 0

    def start(self) -> None:
        """Bind and serve.

        Raises:
            OSError: the port is taken.
            StorageUnusable: the storage does not answer.
        """
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(5.0)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        host, port = self._address
        try:
            await self.limiter.open()
            server, self.port = await start_server(self.limiter, f"{host}:{port}")
        except (OSError, StorageUnusable) as error:
            self._failure = error
            await self.limiter.close()
            return
        finally:
            self._started.set()
        await self._stop.wait()
        await server.stop(grace=None)
        await self.limiter.close()


async def start_server(limiter: RateLimiter, address: str) -> tuple[grpc.aio.Server, int]:
    """A serving gRPC server and the port that it was bound to.

    Raises:
        OSError: the address cannot be bound.
    """

    async def answer(request: pb.RateLimitRequest, _: grpc.aio.ServicerContext) -> pb.RateLimitResponse:
        return await limiter.should_rate_limit(request)

    method = grpc.unary_unary_rpc_method_handler(
        answer,
        request_deserializer=pb.RateLimitRequest.FromString,
        response_serializer=pb.RateLimitResponse.SerializeToString,
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {"ShouldRateLimit": method})])
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        raise OSError(f"cannot bind {address}") from error
    await server.start()
    return server, port


class _Storage:
    """A storage of the ``limits`` library, and the Redis connections that it leaves to us to close.

    Nothing that is said about it repeats its URL, which may hold a password: host and port have to do.
    """

    def __init__(self, url: str) -> None:
        self._pool: ConnectionPool | None = None
        self._where = "memory"
        if url == MEMORY:
            self.of_limits: Storage = storage_from_string(f"async+{MEMORY}")
            return
        self._where = _redis_address(url)
        from redis.asyncio import ConnectionPool  # noqa: PLC0415 - most keep their budgets in memory

        try:
            self._pool = ConnectionPool.from_url(url)
            self.of_limits = storage_from_string(
                f"async+redis://{self._where}", implementation="redispy", connection_pool=self._pool
            )
        except (ConfigurationError, ValueError) as error:
            raise StorageUnusable(f"unusable storage: {_WANTED_STORAGE} is needed") from error

    async def check(self) -> None:
        if not await self.of_limits.check():
            raise StorageUnusable(f"no answer from Redis at {self._where}")

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.aclose()


def _redis_address(url: str) -> str:
    """Host and port of a Redis.

    Raises:
        StorageUnusable: the URL is not one of a Redis.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _REDIS_PORT
    except ValueError:
        host = None
    if host is None or parts.scheme not in {"redis", "rediss"} or not re.fullmatch(r"/?|/[0-9]+", parts.path):
        raise StorageUnusable(f"unusable storage: {_WANTED_STORAGE} is needed")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _wire(limit: RateLimitItem) -> pb.RateLimitResponse.RateLimit:
    # The library's names of the units are the protocol's, in lower case.
    return pb.RateLimitResponse.RateLimit(requests_per_unit=limit.amount, unit=limit.GRANULARITY.name.upper())
