"""The webhook over real HTTPS, and its certificate replaced while it serves."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import ssl
import stat
from datetime import UTC, datetime

import httpx
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from deploy.injector.certificates import maintain
from deploy.injector.server import InjectorMetrics, Webhook, WebhookServer, build_app
from deploy.injector.tls import TlsError, TlsFiles, server_context, write
from filter_config.redact import Secret
from tests.unit.deploy.injector.cluster import OPTIONS, Cluster, admitted, asks, pod


def webhook(cluster=None, **members):
    registry = CollectorRegistry()
    members = {"options": lambda: OPTIONS, **members}
    return Webhook(facts=cluster or Cluster(), metrics=InjectorMetrics(registry), **members)


def run(story, hook, context=None):
    """``await story(port)`` while the webhook serves."""

    async def all_of_it():
        with socket.create_server(("127.0.0.1", 0)) as bound:
            server = WebhookServer(build_app(hook), bound, context)
            serving = asyncio.create_task(server.run_until_stopped())
            try:
                return await asyncio.wait_for(story(bound.getsockname()[1]), 60)
            finally:
                server.stop()
                await asyncio.wait_for(serving, 30)

    return asyncio.run(all_of_it())


def asked(method, path, hook, **members):
    """The response of the application, without a socket."""

    async def story():
        transport = httpx.ASGITransport(build_app(hook))
        async with httpx.AsyncClient(transport=transport, base_url="http://webhook") as client:
            return await client.request(method, path, **members)

    return asyncio.run(story())


def count(hook, result):
    return hook.metrics.registry.get_sample_value("extproc_injector_reviews_total", {"result": result})


# --- pages ---


def test_a_review_is_answered():
    hook = webhook()
    response = asked("POST", "/mutate", hook, content=asks(pod()))

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    names = [container["name"] for container in admitted(pod(), response.content)["spec"]["initContainers"]]
    assert names == ["ai-gateway-extproc"]
    assert count(hook, "injected") == 1


RESULTS = {
    "nothing to inject": (asks({"metadata": {}}), Cluster(), 200, "unchanged"),
    "not understood": (asks(None), Cluster(), 200, "passed"),
    "not known": (asks(pod()), Cluster(unknown="routes"), 200, "passed"),
    "no review": (b"{}", Cluster(), 400, "refused"),
}


@pytest.mark.parametrize(("body", "cluster", "status", "result"), RESULTS.values(), ids=RESULTS.keys())
def test_results_are_counted(body, cluster, status, result):
    hook = webhook(cluster)

    assert asked("POST", "/mutate", hook, content=body).status_code == status
    assert count(hook, result) == 1
    assert hook.metrics.registry.get_sample_value("extproc_injector_review_duration_seconds_count") == 1


def test_what_is_no_review_is_refused_in_one_line():
    response = asked("POST", "/mutate", webhook(), content=b'{"apiVersion":\n 3}')

    assert response.status_code == 400
    assert response.text.startswith("no AdmissionReview: ")
    assert response.text.count("\n") == 1


def test_a_fault_of_ours_lets_the_pod_pass():
    class Broken(Cluster):
        def attached(self, gateway):
            raise KeyError("canary")

    hook = webhook(Broken())
    with capture_logs() as logs:
        response = asked("POST", "/mutate", hook, content=asks(pod()))

    answer = json.loads(response.content)["response"]
    assert answer["allowed"] is True
    assert "patch" not in answer
    assert answer["warnings"] == ["ai-gateway-extproc was not injected: internal error, see the log of the injector"]
    assert [(line["event"], line["log_level"]) for line in logs] == [
        ("the injector failed", "error"),
        ("pod reviewed", "warning"),
    ]
    assert count(hook, "passed") == 1


def test_before_the_cluster_is_known_nothing_is_answered():
    known = []
    hook = webhook(ready=lambda: bool(known))

    assert asked("POST", "/mutate", hook, content=asks(pod())).status_code == 503
    assert asked("GET", "/ready", hook).status_code == 503
    assert asked("GET", "/health", hook).status_code == 200
    known.append(True)
    assert asked("POST", "/mutate", hook, content=asks(pod())).status_code == 200
    assert asked("GET", "/ready", hook).text == "OK\n"


def test_options_may_change_while_it_serves():
    options = [OPTIONS]
    hook = webhook(options=lambda: options[-1])
    before = asked("POST", "/mutate", hook, content=asks(pod())).content
    options.append(type(OPTIONS)(image="another:1"))
    after = asked("POST", "/mutate", hook, content=asks(pod())).content

    images = [admitted(pod(), reply)["spec"]["initContainers"][0]["image"] for reply in (before, after)]
    assert images == [OPTIONS.image, "another:1"]


def test_metrics_are_there_before_anything_happens():
    response = asked("GET", "/metrics", webhook())

    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    for result in ("injected", "unchanged", "passed", "refused"):
        assert f'extproc_injector_reviews_total{{result="{result}"}} 0.0' in response.text


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_only_post_is_a_review(method):
    assert asked(method, "/mutate", webhook()).status_code == 405


# --- bodies ---


async def pieces(*sizes):
    for size in sizes:
        yield b" " * size


LARGE = {
    "said at once": {"content": b" " * 1001},
    "in pieces": {"content": pieces(600, 600)},
}


@pytest.mark.parametrize("body", LARGE.values(), ids=LARGE.keys())
def test_a_large_body_is_not_read(body):
    hook = webhook(max_body=1000)
    response = asked("POST", "/mutate", hook, **body)

    assert (response.status_code, response.text) == (413, "the review is larger than 1000 bytes\n")
    assert count(hook, "refused") == 1


def test_a_body_as_large_as_allowed():
    body = asks(pod())
    hook = webhook(max_body=len(body))

    assert asked("POST", "/mutate", hook, content=body).status_code == 200


def began(length):
    """What a request is answered of which only a byte comes."""

    async def story(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n{" % length)
        status = await reader.readline()
        writer.close()
        return status

    return story


def test_a_body_that_does_not_come():
    assert b" 408 " in run(began(5), webhook(body_seconds=0.05))


def test_a_large_body_is_not_waited_for():
    assert b" 413 " in run(began(1001), webhook(max_body=1000))


def test_a_client_that_leaves_is_no_fault():
    hook = webhook()
    refused = asyncio.Event()

    async def story(port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n{")
        await writer.drain()
        writer.close()
        await refused.wait()

    refuse = Webhook._refuse

    class Seen(Webhook):
        def _refuse(self, status, line):
            refused.set()
            return refuse(self, status, line)

    seen = Seen(facts=hook.facts, options=hook.options, metrics=hook.metrics)
    with capture_logs() as logs:
        run(story, seen)
    assert [(line["event"], line["reason"]) for line in logs] == [("review refused", "the review is not whole")]


# --- TLS ---


@pytest.fixture
def authority():
    return maintain(None, ["localhost"], datetime.now(UTC))


@pytest.fixture
def files(tmp_path, authority):
    found = TlsFiles(certificate=tmp_path / "tls.crt", key=tmp_path / "tls.key")
    write_all(found, authority)
    return found


def write_all(files, issued):
    content = issued.to_secret()
    write(files, content["tls.crt"].reveal(), content["tls.key"])


def client(*trusted):
    return httpx.AsyncClient(verify=ssl.create_default_context(cadata="".join(each.bundle for each in trusted)))


def serial(response):
    stream = response.extensions["network_stream"]
    return stream.get_extra_info("ssl_object").getpeercert()["serialNumber"]


async def post(one, port):
    response = await one.post(f"https://localhost:{port}/mutate", content=asks(pod()))
    assert response.status_code == 200
    return int(serial(response), 16)


def test_a_new_certificate_serves_new_connections_and_leaves_the_live_one_alone(files, authority):
    successor = maintain(None, ["localhost"], datetime.now(UTC))
    serials = [issued.server.certificate.serial_number for issued in (authority, successor)]

    async def story(port):
        async with client(authority) as before, client(successor) as after:
            assert await post(before, port) == serials[0]
            write_all(files, successor)
            # The connection of the first client is still open; one of its own could not be made any more.
            assert await post(before, port) == serials[0]
            assert await post(after, port) == serials[1]
            assert await post(before, port) == serials[0]
        async with client(authority) as late:
            with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await post(late, port)

    with capture_logs() as logs:
        run(story, webhook(), server_context(files))
    assert [line["event"] for line in logs if "certificate" in line["event"]] == ["certificate of the webhook replaced"]


def test_a_secret_volume_swaps_a_link(tmp_path, authority):
    successor = maintain(None, ["localhost"], datetime.now(UTC))
    for number, issued in enumerate((authority, successor)):
        (tmp_path / f"..{number}").mkdir()
        write_all(
            TlsFiles(certificate=tmp_path / f"..{number}" / "tls.crt", key=tmp_path / f"..{number}" / "tls.key"), issued
        )
    (tmp_path / "..data").symlink_to("..0")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    files = TlsFiles(certificate=tmp_path / "tls.crt", key=tmp_path / "tls.key")

    async def story(port):
        async with client(authority) as before:
            await post(before, port)
        (tmp_path / "..new").symlink_to("..1")
        (tmp_path / "..new").replace(tmp_path / "..data")
        async with client(successor) as after:
            return await post(after, port)

    assert run(story, webhook(), server_context(files)) == successor.server.certificate.serial_number


BROKEN = {
    "a certificate that is none": lambda files, _: files.certificate.write_text("broken"),
    "a key that is gone": lambda files, _: files.key.unlink(),
    "a key of another certificate": lambda files, other: files.key.write_text(other.to_secret()["tls.key"].reveal()),
}


@pytest.mark.parametrize("break_them", BROKEN.values(), ids=BROKEN.keys())
def test_broken_files_leave_the_old_certificate_until_they_are_mended(files, authority, break_them):
    successor = maintain(None, ["localhost"], datetime.now(UTC))

    async def story(port):
        break_them(files, successor)
        for _ in range(2):
            async with client(authority) as one:
                await post(one, port)
        write_all(files, successor)
        async with client(successor) as two:
            await post(two, port)

    with capture_logs() as logs:
        run(story, webhook(), server_context(files))
    events = [line["event"] for line in logs if "certificate" in line["event"]]
    assert events == ["certificate of the webhook not replaced", "certificate of the webhook replaced"]
    assert "PRIVATE" not in str(logs)


@pytest.mark.parametrize("break_them", BROKEN.values(), ids=BROKEN.keys())
def test_it_does_not_start_with_broken_files(files, break_them):
    break_them(files, maintain(None, ["localhost"], datetime.now(UTC)))

    with pytest.raises(TlsError, match=r"^cannot use certificate ") as caught:
        server_context(files)
    assert str(caught.value).isprintable()


def test_the_key_is_for_its_owner_only(files):
    assert stat.S_IMODE(files.key.stat().st_mode) == 0o600
    assert [path.name for path in sorted(files.key.parent.iterdir())] == ["tls.crt", "tls.key"]


def test_files_that_cannot_be_written_leave_the_old_ones(files):
    before = files.certificate.read_bytes()
    with pytest.raises(OSError, match="No such file"):
        write(TlsFiles(certificate=files.certificate, key=files.key.parent / "none" / "key"), "new", Secret("new"))
    files.key.unlink()
    files.key.mkdir()
    with pytest.raises(OSError, match="directory"):
        write(files, "new", Secret("new"))

    assert files.certificate.read_bytes() == before
    assert [path.name for path in sorted(files.key.parent.iterdir())] == ["tls.crt", "tls.key"]


def test_old_tls_and_plain_http_are_turned_away(files, authority):
    async def story(port):
        old = ssl.create_default_context(cadata=authority.bundle)
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(ssl.SSLError):
            await asyncio.open_connection("127.0.0.1", port, ssl=old, server_hostname="localhost")
        async with httpx.AsyncClient() as plain:
            with pytest.raises(httpx.RemoteProtocolError):
                await plain.get(f"http://127.0.0.1:{port}/health")
        async with client(authority) as good:
            return (await good.get(f"https://localhost:{port}/health")).text

    assert run(story, webhook(), server_context(files)) == "OK\n"


def test_signals_are_the_business_of_the_process():
    before = signal.getsignal(signal.SIGTERM)

    async def story(port):
        async with httpx.AsyncClient() as one:
            await one.get(f"http://127.0.0.1:{port}/health")
        return signal.getsignal(signal.SIGTERM)

    assert run(story, webhook()) is before
