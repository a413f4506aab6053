from __future__ import annotations

import asyncio
import ssl

import grpc
import pytest
from grpc import aio
from structlog.testing import capture_logs

from extproc.transport.http2.server import Http2Server
from extproc.transport.tls import TlsError, TlsFiles, server_context
from protos.ext_proc_pb2 import ProcessingRequest, ProcessingResponse
from tests.support.certificates import Authority
from tests.support.served import LOOPS, PROCESS, Processor, body


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def files(authority):
    certificate, key = authority.issue("server")
    return TlsFiles(certificate=certificate, key=key)


@pytest.fixture(params=LOOPS)
def run(request):
    """Run a story against a server with these files, on each loop."""
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:

        def tell(story, files):
            async def whole():
                server = Http2Server(Processor(), is_serving=lambda: True, tls=server_context(files))
                address = server.listen("127.0.0.1:0")
                await server.start()
                try:
                    return await story(server, address)
                finally:
                    await server.stop(0)

            return runner.run(asyncio.wait_for(whole(), 30))

        yield tell


async def echo(address, credentials):
    async with aio.secure_channel(address, credentials) as channel:
        call = channel.stream_stream(PROCESS, ProcessingRequest.SerializeToString, ProcessingResponse.FromString)()
        await call.write(body(b"one" * 30_000))
        reply = await call.read()
        await call.done_writing()
        assert await call.code() is grpc.StatusCode.OK
        return reply.request_body.response.body_mutation.body


def test_grpc_over_tls(run, files, authority):
    credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes())
    assert run(lambda _, address: echo(address, credentials), files) == b"one" * 30_000


def test_a_client_certificate_of_the_right_issuer(run, files, authority):
    certificate, key = authority.issue("client")
    files = TlsFiles(certificate=files.certificate, key=files.key, client_ca=authority.ca)
    credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes(), key.read_bytes(), certificate.read_bytes())
    assert run(lambda _, address: echo(address, credentials), files) == b"one" * 30_000


STRANGERS = {"none": False, "of another issuer": True}


@pytest.mark.parametrize("case", STRANGERS)
def test_no_client_certificate_that_would_do(run, files, authority, tmp_path, case):
    files = TlsFiles(certificate=files.certificate, key=files.key, client_ca=authority.ca)
    own = ()
    if STRANGERS[case]:
        certificate, key = Authority(tmp_path, "another authority").issue("stranger")
        own = (key.read_bytes(), certificate.read_bytes())
    credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes(), *own)

    async def story(_, address):
        with pytest.raises(aio.AioRpcError) as caught:
            await echo(address, credentials)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE

    run(story, files)


def client_context(authority, protocols):
    context = ssl.create_default_context(cafile=str(authority.ca))
    if protocols:
        context.set_alpn_protocols(protocols)
    return context


ALPN = {"http/1.1 only": ["http/1.1"], "no ALPN": []}


@pytest.mark.parametrize("case", ALPN)
def test_a_client_that_does_not_agree_on_h2_is_turned_away(run, files, authority, case):
    """RFC 9113, 3.2."""

    async def story(_, address):
        host, port = address.split(":")
        context = client_context(authority, ALPN[case])
        try:
            reader, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname="localhost")
            assert await reader.read() == b""
        except ConnectionError:
            return
        writer.close()

    run(story, files)


def test_the_agreed_protocol_is_h2_and_tls_is_not_old(run, files, authority):
    async def story(_, address):
        host, port = address.split(":")
        context = client_context(authority, ["http/1.1", "h2"])
        _, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname="localhost")
        secure = writer.get_extra_info("ssl_object")
        assert secure.selected_alpn_protocol() == "h2"
        assert secure.version() in ("TLSv1.2", "TLSv1.3")
        writer.close()

    run(story, files)


def test_health_of_a_server_that_wants_client_certificates(run, files, authority):
    """Its own probe needs none."""
    files = TlsFiles(certificate=files.certificate, key=files.key, client_ca=authority.ca)

    async def story(server, _):
        return await server.probe()()

    assert run(story, files) == "SERVING"


async def serial(address, authority):
    host, port = address.split(":")
    _, writer = await asyncio.open_connection(
        host, int(port), ssl=client_context(authority, ["h2"]), server_hostname="localhost"
    )
    number = writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]
    writer.close()
    return number


def test_a_new_certificate_is_used_from_the_next_connection_on(run, files, authority):
    async def story(_, address):
        before = await serial(address, authority)
        assert await serial(address, authority) == before
        authority.issue("server")
        return before, await serial(address, authority)

    with capture_logs() as logs:
        before, after = run(story, files)
    assert before != after
    assert [line["event"] for line in logs] == ["certificate replaced"]


def test_a_broken_certificate_leaves_the_old_one_and_is_said_once(run, files, authority):
    async def story(_, address):
        before = await serial(address, authority)
        files.certificate.write_text("broken")
        assert await serial(address, authority) == before
        assert await serial(address, authority) == before
        authority.issue("server")
        assert await serial(address, authority) != before

    with capture_logs() as logs:
        run(story, files)
    assert [line["event"] for line in logs] == ["certificate not replaced", "certificate replaced"]


def test_a_certificate_that_is_gone_leaves_the_old_one(run, files, authority):
    async def story(_, address):
        before = await serial(address, authority)
        files.key.unlink()
        assert await serial(address, authority) == before

    with capture_logs() as logs:
        run(story, files)
    assert {line["event"] for line in logs} == {"certificate not replaced"}


def broken(tmp_path, files, authority):
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    other, _ = authority.issue("other")
    good = (files.certificate, files.key, None)
    return {
        "no such file": (tmp_path / "none.pem", good[1], None),
        "not a certificate": (text, good[1], None),
        "not a key": (good[0], text, None),
        "a key of another certificate": (other, good[1], None),
        "no such client CA": (*good[:2], tmp_path / "none.pem"),
        "not a client CA": (*good[:2], text),
    }


SAID = {
    "no such file": r"^cannot read certificate \S+none\.pem: No such file or directory$",
    "not a certificate": r"^certificate \S+ is no PEM file with a certificate$",
    "not a key": r"^key \S+ is no PEM file with a key$",
    "a key of another certificate": r"^cannot use certificate \S+ with key \S+: the key is not that of the cert",
    "no such client CA": r"^cannot use client CA \S+none\.pem: No such file or directory$",
    "not a client CA": r"^cannot use client CA \S+: ",
}


@pytest.mark.parametrize("case", SAID)
def test_files_that_cannot_be_used(tmp_path, files, authority, case):
    certificate, key, client_ca = broken(tmp_path, files, authority)[case]
    with pytest.raises(TlsError, match=SAID[case]):
        server_context(TlsFiles(certificate=certificate, key=key, client_ca=client_ca))
