from __future__ import annotations

import asyncio
import signal
import socket

import httpx
import pytest

from extproc.admin.server import AdminListenError, AdminServer, listen


async def hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.mark.parametrize("host", ["", "127.0.0.1", "localhost"])
def test_it_serves_until_it_is_stopped(host):
    async def story():
        before = signal.getsignal(signal.SIGTERM)
        with listen(host, 0) as bound:
            server = AdminServer(hello, bound)
            running = asyncio.create_task(server.run_until_stopped())
            port = bound.getsockname()[1]
            async with httpx.AsyncClient() as client:
                response = await client.get(f"http://127.0.0.1:{port}/")
            assert response.text == "hello"
            assert "server" not in response.headers
            assert signal.getsignal(signal.SIGTERM) is before
            server.stop()
            await asyncio.wait_for(running, 10)

    asyncio.run(story())


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AdminListenError, match=rf"^listen tcp 127.0.0.1:{port}: .*(?i:address already in use)"):
            listen("127.0.0.1", port)


@pytest.mark.parametrize(("host", "port"), [("", 70000), ("", -1), ("no such host.invalid", 0)])
def test_an_address_that_is_none(host, port):
    with pytest.raises(AdminListenError, match=r"^listen tcp "):
        listen(host, port)
