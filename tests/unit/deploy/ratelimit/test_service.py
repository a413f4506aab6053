"""The rate limit service: what is refused, what is charged, and what is said about it."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys

import grpc
import pytest

from deploy.ratelimit import budgets
from deploy.ratelimit.__main__ import main
from deploy.ratelimit.service import SERVICE, RateLimiter, RateLimitServer, StorageUnusable
from protos import rate_limit_pb2 as pb
from tests.support.children import child

OK, OVER = pb.RateLimitResponse.OK, pb.RateLimitResponse.OVER_LIMIT
LIMITS = budgets.parse(
    {
        "domain": "llm",
        "descriptors": [
            {"key": "user", "rate_limit": {"unit": "hour", "requests_per_unit": 30}},
            {"key": "team", "rate_limit": {"unit": "minute", "requests_per_unit": 100}},
        ],
    }
)


def descriptor(hits=None, **entries):
    made = pb.RateLimitDescriptor(
        entries=[pb.RateLimitDescriptor.Entry(key=key, value=value) for key, value in entries.items()]
    )
    if hits is not None:
        made.hits_addend.value = hits
    return made


def request(*descriptors, domain="llm", hits_addend=0):
    return pb.RateLimitRequest(domain=domain, descriptors=descriptors, hits_addend=hits_addend)


def answers(*requests, limiter=None):
    limiter = limiter or RateLimiter(LIMITS)

    async def ask():
        await limiter.open()
        try:
            return [await limiter.should_rate_limit(one) for one in requests]
        finally:
            await limiter.close()

    return asyncio.run(ask())


SEQUENCES = {
    "a question costs nothing": ([0, 0, 0], [(OK, 30)] * 3),
    "a charge": ([0, 20, 0], [(OK, 30), (OK, 10), (OK, 10)]),
    "20 tokens, twice, of 30: the third request is refused": (
        [0, 20, 0, 20, 0],
        [(OK, 30), (OK, 10), (OK, 10), (OVER, 0), (OVER, 0)],
    ),
    "exactly used up": ([30, 0], [(OK, 0), (OVER, 0)]),
    "one left": ([29, 0], [(OK, 1), (OK, 1)]),
    "a charge of 0 is 0": ([0, 0, 30, 0], [(OK, 30), (OK, 30), (OK, 0), (OVER, 0)]),
    "beyond the limit": ([31], [(OVER, 0)]),
    "none given is 1": ([None, None], [(OK, 29), (OK, 28)]),
}


@pytest.mark.parametrize(("hits", "wanted"), SEQUENCES.values(), ids=SEQUENCES)
def test_one_bucket(hits, wanted):
    got = answers(*(request(descriptor(count, user="ann")) for count in hits))

    assert [(answer.overall_code, answer.statuses[0].limit_remaining) for answer in got] == wanted


def test_the_addend_of_the_request_counts_where_a_descriptor_has_none():
    (answer,) = answers(request(descriptor(user="ann"), descriptor(3, user="bob"), hits_addend=7))

    assert [status.limit_remaining for status in answer.statuses] == [23, 27]


def test_one_descriptor_over_the_limit_refuses_the_request():
    *_, answer = answers(
        request(descriptor(30, user="ann")), request(descriptor(0, team="red"), descriptor(0, user="ann"))
    )

    assert [status.code for status in answer.statuses] == [OK, OVER]
    assert answer.overall_code == OVER


FREE = {
    "other domain": request(descriptor(99, user="ann"), domain="other"),
    "unknown key": request(descriptor(99, planet="earth")),
    "no descriptor": request(),
}


@pytest.mark.parametrize("asked", FREE.values(), ids=FREE)
def test_what_has_no_limit_is_free(asked):
    limiter = RateLimiter(LIMITS)

    (answer,) = answers(asked, limiter=limiter)

    assert answer.overall_code == OK
    assert not limiter.decisions


def test_a_status_says_which_limit_and_until_when():
    (answer,) = answers(request(descriptor(1, team="red")))

    (status,) = answer.statuses
    assert (status.current_limit.requests_per_unit, status.current_limit.unit) == (
        100,
        pb.RateLimitResponse.RateLimit.MINUTE,
    )
    assert 0 < status.duration_until_reset.seconds <= 60


def test_buckets_are_apart():
    limiter = RateLimiter(LIMITS)

    answers(request(descriptor(5, user="ann")), request(descriptor(7, user="bob")), limiter=limiter)

    assert (limiter.charged(("user", "ann")), limiter.charged(("user", "bob"))) == (5, 7)
    assert (limiter.remaining(("user", "ann")), limiter.remaining(("user", "eve"))) == (25, None)


def test_waiting_for_a_charge_that_does_not_come():
    with pytest.raises(TimeoutError, match="was charged 0, not 1"):
        RateLimiter(LIMITS).wait_until_charged(("user", "ann"), amount=1, timeout=0.01)


def test_over_the_wire():
    limiter = RateLimiter(LIMITS)
    server = RateLimitServer(limiter)
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            ask = channel.unary_unary(
                f"/{SERVICE}/ShouldRateLimit",
                request_serializer=pb.RateLimitRequest.SerializeToString,
                response_deserializer=pb.RateLimitResponse.FromString,
            )
            answer = ask(request(descriptor(20, user="ann")), timeout=10)
    finally:
        server.stop()

    assert answer.statuses[0].limit_remaining == 10
    limiter.wait_until_charged(("user", "ann"), amount=20, timeout=0)


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = RateLimitServer(RateLimiter(LIMITS), port=taken.getsockname()[1])

        with pytest.raises(OSError, match="cannot bind"):
            server.start()


def test_a_redis_that_is_not_there():
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    server = RateLimitServer(RateLimiter(LIMITS, storage_url=f"redis://:secret@127.0.0.1:{port}/0"))

    with pytest.raises(StorageUnusable) as caught:
        server.start()

    assert str(caught.value) == f"no answer from Redis at 127.0.0.1:{port}"


STORAGES = {
    "unknown": "floppy://a:secret@b",
    "nothing": "://",
    "no scheme": "127.0.0.1:6379",
    "no host": "redis://:secret@/0",
    "port that is none": "redis://:secret@a:secret/0",
    "brackets that do not close": "redis://:secret@[::1",
    "database that is none": "redis://:secret@a/secret",
    "password with a slash": "redis://:se/cret@a/0",
    "another server": "mongodb://u:secret@a",
}


@pytest.mark.parametrize("url", STORAGES.values(), ids=STORAGES)
def test_an_unusable_storage(url):
    with pytest.raises(StorageUnusable) as caught:
        RateLimiter(LIMITS, storage_url=url)

    assert str(caught.value) == "unusable storage: redis://HOST:PORT/DB is needed"


def test_the_command_says_in_one_line_what_is_wrong(tmp_path, capsys):
    assert main(["--config", str(tmp_path / "missing.yaml")]) == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ratelimit: ")
    assert "missing.yaml" in line


def test_the_command_serves_until_it_is_told_to_stop(tmp_path):
    path = tmp_path / "budgets.yaml"
    path.write_text("domain: llm\ndescriptors: []\n")
    command = [sys.executable, "-m", "deploy.ratelimit", "--config", str(path), "--address", "127.0.0.1:0"]

    with child(command, stdout=subprocess.PIPE, text=True) as process:
        said = process.stdout.readline()
        process.terminate()
        status = process.wait(10)

    assert said.startswith("rate limit service is ready on port ")
    assert status == 0


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="there is no redis-server on this machine")
def test_redis_keeps_the_budget(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    command = ["redis-server", "--port", str(port), "--save", "", "--dir", str(tmp_path), "--bind", "127.0.0.1"]
    with child(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as redis:
        for line in redis.stdout:
            if "Ready to accept connections" in line:
                break
        url = f"redis://127.0.0.1:{port}/0"
        answers(request(descriptor(20, user="ann")), limiter=RateLimiter(LIMITS, storage_url=url))
        (answer,) = answers(request(descriptor(0, user="ann")), limiter=RateLimiter(LIMITS, storage_url=url))

    assert answer.statuses[0].limit_remaining == 10
