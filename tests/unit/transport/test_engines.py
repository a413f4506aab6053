"""What every engine has to do, whichever loop it runs on; grpcio's client is the witness."""

from __future__ import annotations

import asyncio
import socket
import stat

import grpc
import pytest
from grpc import aio
from structlog.testing import capture_logs

from extproc.transport.base import HealthCheckError, ListenError
from protos.ext_proc_pb2 import HttpHeaders, ProcessingRequest
from protos.health_pb2 import HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse
from tests.support.served import ENGINES, LOOPS, PROCESS, Processor, Served, body


@pytest.fixture(params=ENGINES)
def engine(request):
    return ENGINES[request.param]


@pytest.fixture(params=LOOPS)
def run(request):
    """Run a story on each loop."""
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield lambda coroutine: runner.run(asyncio.wait_for(coroutine, 60))


def test_messages_are_answered_in_order(engine, run):
    async def story():
        async with Served(engine) as served:
            assert await served.exchange(b"one", b"two", b"") == ([b"one", b"two", b""], grpc.StatusCode.OK)
            assert (served.processor.opened, served.processor.closed) == (1, 1)

    run(story())


def test_over_a_unix_socket(engine, run, tmp_path):
    async def story():
        async with Served(engine, f"unix://{tmp_path}/run.sock") as served:
            assert (await served.exchange(b"one"))[0] == [b"one"]

    run(story())


def test_a_message_that_wants_no_reply(engine, run):
    async def story():
        async with Served(engine) as served:
            call = served.process()
            await call.write(body(b"observe"))
            await call.write(body(b"two"))
            assert (await call.read()).request_body.response.body_mutation.body == b"two"
            await call.done_writing()
            assert await call.read() is aio.EOF
            assert await call.code() is grpc.StatusCode.OK

    run(story())


def test_a_stream_failure_is_its_status(engine, run):
    async def story():
        async with Served(engine) as served:
            call = served.process()
            await call.write(body(b"fail"))
            with pytest.raises(aio.AioRpcError):
                await call.read()
            assert await call.code() is grpc.StatusCode.NOT_FOUND
            assert await call.details() == "unsupported path: /x"
            assert served.processor.closed == 1

    with capture_logs() as logs:
        run(story())
    assert logs == []


def test_a_reply_may_be_the_last(engine, run):
    async def story():
        async with Served(engine) as served:
            call = served.process()
            await call.write(body(b"last"))
            assert (await call.read()).request_body.response.body_mutation.body == b"last"
            assert await call.code() is grpc.StatusCode.NOT_FOUND
            assert await call.details() == "that was all"

    run(story())


def test_a_fault_is_logged_with_its_stack_and_shown_as_an_id(engine, run):
    async def story():
        async with Served(engine) as served:
            other = served.process()
            await other.write(body(b"one"))
            await other.read()
            call = served.process()
            await call.write(body(b"fault"))
            code, details = await call.code(), await call.details()
            await other.write(body(b"two"))
            assert (await other.read()).request_body.response.body_mutation.body == b"two"
            other.cancel()
            await served.all_closed()
            return code, details

    with capture_logs() as logs:
        code, details = run(story())
    assert code is grpc.StatusCode.INTERNAL
    (line,) = logs
    assert line["event"] == "stream failed"
    assert isinstance(line["exc_info"], KeyError)
    assert details == f"internal error, id {line['fault_id']}"
    assert "secret" not in details


CUTS = {
    "before any message": (),
    "after a reply": (b"one",),
    "after several": (b"one", b"two", b"three"),
}


@pytest.mark.parametrize("name", CUTS)
def test_a_reset_is_the_normal_end(engine, run, name):
    """Field report BR-30: Envoy resets streams; that is no error, and each one is closed."""

    async def story():
        async with Served(engine) as served:
            for _ in range(100):
                call = served.process()
                await call.wait_for_connection()
                for data in CUTS[name]:
                    await call.write(body(data))
                    await call.read()
                call.cancel()
            await served.exchange(b"still here")
            await served.all_closed()
            return served.processor.opened

    with capture_logs() as logs:
        opened = run(story())
    assert logs == []
    assert opened >= 1


def test_a_reset_while_a_message_is_on_its_way(engine, run):
    async def story():
        async with Served(engine) as served:
            for size in (1, 100_000):
                for _ in range(100):
                    call = served.process()
                    await call.write(body(b"x" * size))
                    call.cancel()
            await served.exchange(b"still here")
            await served.all_closed()
            assert served.processor.closed == served.processor.opened

    with capture_logs() as logs:
        run(story())
    assert logs == []


@pytest.mark.parametrize("run", ["uvloop"], indirect=True)
@pytest.mark.parametrize("mib", [5, 45])
def test_large_messages(engine, run, mib):
    """Field report BR-38: the default limit of gRPC is 4 MiB."""

    async def story():
        async with Served(engine, max_message=2**63 - 1) as served:
            data = b"x" * (mib * 2**20)
            replies, code = await served.exchange(data)
            assert code is grpc.StatusCode.OK
            assert replies == [data]

    run(story())


def test_the_receive_limit(engine, run):
    async def story():
        async with Served(engine, max_message=1000) as served:
            call = served.process()
            await call.write(body(b"x" * 2000))
            assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            await served.all_closed()

    with capture_logs() as logs:
        run(story())
    assert logs == []


def unary(served, method, answer):
    return served.channel.unary_unary(
        f"/grpc.health.v1.Health/{method}", lambda message: message.SerializeToString(), answer.FromString
    )


@pytest.mark.parametrize(("serving", "status"), [(True, "SERVING"), (False, "NOT_SERVING")])
def test_health(engine, run, serving, status):
    async def story():
        async with Served(engine, serving=serving) as served:
            expected = HealthCheckResponse(status=HealthCheckResponse.ServingStatus.Value(status))
            check = unary(served, "Check", HealthCheckResponse)
            assert await check(HealthCheckRequest()) == expected
            assert await check(HealthCheckRequest(service="anything")) == expected
            listed = await unary(served, "List", HealthListResponse)(HealthListRequest())
            assert dict(listed.statuses) == {"extproc": expected}
            probe = served.server.probe()
            assert await probe() == status
            await probe.close()

    run(story())


SERVING = HealthCheckResponse(status=HealthCheckResponse.SERVING)
NOT_SERVING = HealthCheckResponse(status=HealthCheckResponse.NOT_SERVING)


def test_who_watches_health_gets_it_at_once_and_then_each_change(engine, run):
    async def story():
        async with Served(engine, serving=False) as served:
            watches = [served.watch(), served.watch()]
            told = [await watch.read() for watch in watches]
            served.serving = True
            told += [await watch.read() for watch in watches]
            served.serving = False
            told += [await watch.read() for watch in watches]
            assert told == [NOT_SERVING, NOT_SERVING, SERVING, SERVING, NOT_SERVING, NOT_SERVING]

    run(story())


def test_who_has_watched_health_enough_harms_nobody(engine, run):
    async def story():
        async with Served(engine) as served:
            first, second = served.watch(), served.watch()
            assert [await first.read(), await second.read()] == [SERVING, SERVING]
            first.cancel()
            served.serving = False
            assert await second.read() == NOT_SERVING
            second.cancel()
            # After a time without anybody, too.
            third = served.watch()
            assert await third.read() == NOT_SERVING
            served.serving = True
            assert await third.read() == SERVING
            assert await served.exchange(b"one") == ([b"one"], grpc.StatusCode.OK)

    with capture_logs() as logs:
        run(story())
    assert logs == []


def test_who_watches_health_does_not_hold_up_the_end(engine, run):
    async def story():
        async with Served(engine) as served:
            watch = served.watch()
            assert await watch.read() == SERVING
            served.serving = False
            stopping = asyncio.create_task(served.server.stop(3600))
            assert await watch.read() == NOT_SERVING
            assert await watch.code() is grpc.StatusCode.UNAVAILABLE
            await stopping

    run(story())


@pytest.mark.parametrize("method", ["/envoy.service.ext_proc.v3.ExternalProcessor/Other", "/other.Service/Process"])
def test_an_unknown_method(engine, run, method):
    async def story():
        async with Served(engine) as served:
            call = served.channel.stream_stream(method)()
            assert await call.code() is grpc.StatusCode.UNIMPLEMENTED

    run(story())


def test_the_socket_file_gets_its_mode_and_replaces_a_stale_one(engine, run, tmp_path):
    async def story():
        path = tmp_path / "run.sock"
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(path))
        server = engine(Processor(), is_serving=lambda: True)
        server.listen(f"unix://{path}", socket_mode=0o770)
        await server.start()
        status = path.stat()
        assert stat.S_ISSOCK(status.st_mode)
        assert stat.S_IMODE(status.st_mode) == 0o770
        probe = server.probe()
        assert await probe() == "SERVING"
        await probe.close()
        await server.stop(0)

    run(story())


def test_every_interface(engine, run):
    async def story():
        async with Served(engine, ":0") as served:
            assert served.address.startswith("127.0.0.1:")
            assert (await served.exchange(b"one"))[0] == [b"one"]

    run(story())


def test_a_port_that_is_taken(engine, run):
    async def story():
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            with pytest.raises(ListenError, match=rf"^listen tcp {address}: .*(?i:address already in use)"):
                engine(Processor(), is_serving=lambda: True).listen(address)

    run(story())


ADDRESSES = dict.fromkeys(["localhost", "127.0.0.1:http", "", ":"], 'expected "host:port"') | dict.fromkeys(
    [":65536", f"[::]:{'9' * 5000}"], "the port must be at most 65535"
)


@pytest.mark.parametrize("address", ADDRESSES, ids=lambda address: address[:20])
def test_an_address_that_is_none(engine, run, address):
    async def story():
        with pytest.raises(ListenError, match=ADDRESSES[address]):
            engine(Processor(), is_serving=lambda: True).listen(address)

    run(story())


SOCKETS = {
    "no such directory": ("no/run.sock", "No such file or directory"),
    "a directory in its place": ("", "Is a directory"),
    "a path that is too long": ("x" * 200, "too long"),
}


@pytest.mark.parametrize("name", SOCKETS)
def test_a_socket_file_that_cannot_be(engine, run, tmp_path, name):
    file, reason = SOCKETS[name]

    async def story():
        with pytest.raises(ListenError, match=rf"^listen unix \S+: .*{reason}"):
            engine(Processor(), is_serving=lambda: True).listen(f"unix://{tmp_path}/{file}")

    run(story())


def test_stopping_lets_streams_finish_and_takes_no_new_ones(engine, run):
    async def story():
        async with Served(engine) as served:
            call = served.process()
            await call.write(body(b"one"))
            await call.read()
            stopping = asyncio.create_task(served.server.stop(30))
            await asyncio.sleep(0)
            async with aio.insecure_channel(served.address) as late:
                refused = late.stream_stream(PROCESS)()
                assert await refused.code() is grpc.StatusCode.UNAVAILABLE
            await call.write(body(b"two"))
            assert (await call.read()).request_body.response.body_mutation.body == b"two"
            assert not stopping.done()
            await call.done_writing()
            assert await call.code() is grpc.StatusCode.OK
            await stopping
            assert served.processor.closed == 1

    run(story())


@pytest.mark.parametrize("how", ["the grace passes", "a second stop is in a hurry"])
def test_streams_that_do_not_finish_are_cut(engine, run, how):
    async def story():
        async with Served(engine) as served:
            call = served.process()
            await call.write(body(b"one"))
            await call.read()
            if how == "the grace passes":
                await served.server.stop(0.05)
            else:
                patient = asyncio.create_task(served.server.stop(60))
                await asyncio.sleep(0)
                await served.server.stop(0)
                await patient
            assert await call.code() is not grpc.StatusCode.OK
            await served.all_closed()

    with capture_logs() as logs:
        run(story())
    assert logs == []


def test_messages_without_a_body_pass_too(engine, run):
    async def story():
        async with Served(engine) as served:
            call = served.process()
            await call.write(ProcessingRequest(request_headers=HttpHeaders(end_of_stream=True)))
            assert (await call.read()).WhichOneof("response") == "request_body"
            call.cancel()
            await served.all_closed()

    run(story())


def test_a_probe_of_a_server_that_does_not_answer(engine, run):
    async def story():
        server = engine(Processor(), is_serving=lambda: True)
        server.listen("127.0.0.1:0")
        await server.start()
        await server.stop(0)
        probe = server.probe()
        with pytest.raises(HealthCheckError, match=r"^rpc error: code = (Unavailable|DeadlineExceeded) desc = "):
            await probe()
        await probe.close()

    run(story())
