"""The whole process, started as a user would, and asked over its sockets."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import grpc
import httpx
import pytest
from grpc import aio

from extproc.app import READY_LINE, config_source, endpoint_table, exchange_options
from extproc.exchange.headers import header_map
from extproc.settings import Settings
from filter_config.bundle import write_bundle
from filter_config.watch import BundleSource, FileSource
from protos.ext_proc_pb2 import HttpHeaders, ProcessingRequest, ProcessingResponse
from protos.health_pb2 import HealthCheckRequest, HealthCheckResponse

ROOT = Path(__file__).parents[3]
KEY = "sk-do-not-show-me"
CONFIG = f"""
version: dev
uuid: first
backends:
- name: default/openai/route/chat/rule/0/ref/0
  schema: {{name: OpenAI, prefix: v1}}
  auth: {{apiKey: {{key: {KEY}}}}}
"""
DISABLED = """\
- name: default/broken/route/chat/rule/0/ref/1
  schema: {name: OpenAI}
  auth: {azureAPIKey: {key: ""}}
"""


class Running:
    """A processor process; ``log`` holds the lines of its stderr so far."""

    def __init__(self, *argv, **environ):
        clean = {key: value for key, value in os.environ.items() if not key.startswith("EXTPROC_")}
        command = [sys.executable, "-m", "extproc", *argv]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=clean | environ, start_new_session=True
        )
        self.log = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            with self._changed:
                self.log.append(line)
                self._changed.notify_all()
        with self._changed:
            self.log.append("")
            self._changed.notify_all()

    def wait_for(self, text, timeout=30):
        with self._changed:
            found = self._changed.wait_for(
                lambda: any(text in line for line in self.log) or self.log[-1:] == [""], timeout
            )
        assert found, self.log
        assert any(text in line for line in self.log), self.log
        return next(line for line in self.log if text in line)

    def wait(self):
        code = self.process.wait(60)
        self._reader.join(60)
        return code

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.wait()
        self.process.stderr.close()

    @property
    def address(self):
        return self.wait_for("msg=listening").split("address=")[1].strip()

    def get(self, path):
        port = self.wait_for("starting admin server").strip().rpartition(":")[2].strip('"')
        return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=10)

    def until(self, condition):
        for _ in range(3000):
            with contextlib.suppress(httpx.TransportError):
                if condition():
                    return
            threading.Event().wait(0.01)
        raise AssertionError(self.log)


@pytest.fixture
def start():
    with contextlib.ExitStack() as stack:

        def start(*argv, **environ):
            running = Running(
                *("-extProcAddr", "127.0.0.1:0", "-adminPort", "0", "-adminHost", "127.0.0.1"), *argv, **environ
            )
            stack.callback(running.close)
            return running

        yield start


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "filter-config.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def request_headers(path="/nope"):
    return ProcessingRequest(request_headers=HttpHeaders(headers=header_map([(":path", path.encode())])))


@contextlib.asynccontextmanager
async def stream(address):
    async with aio.insecure_channel(address) as channel:
        yield channel.stream_stream(
            "/envoy.service.ext_proc.v3.ExternalProcessor/Process",
            ProcessingRequest.SerializeToString,
            ProcessingResponse.FromString,
        )()


async def ask(address, path="/nope"):
    async with stream(address) as call:
        await call.write(request_headers(path))
        return await call.read()


async def health(address):
    async with aio.insecure_channel(address) as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check", HealthCheckRequest.SerializeToString, HealthCheckResponse.FromString
        )
        return HealthCheckResponse.ServingStatus.Name((await check(HealthCheckRequest(), timeout=10)).status)


def test_it_starts_and_shows_itself(start, config):
    config.write_text(CONFIG + DISABLED, encoding="utf-8")
    running = start("-configPath", str(config), "-logLevel", "debug", OTEL_SERVICE_NAME="gateway")
    running.wait_for("is ready")
    assert READY_LINE == "AI Gateway External Processor is ready\n"
    assert READY_LINE in running.log
    first = running.log[0]
    assert re.match(r"time=\S+ level=INFO msg=\"starting external processor\" version=dev address=127.0.0.1:0 ", first)
    assert f'configPath={config} configBundlePath=""' in first
    assert "path=/v1/chat/completions" in running.wait_for("Registering processor")

    assert asyncio.run(health(running.address)) == "SERVING"
    response = running.get("/health")
    assert (response.status_code, response.text) == (200, "OK\n")

    digest = hashlib.sha256(config.read_bytes()).hexdigest()
    ready = running.get("/ready")
    assert ready.status_code == 200
    assert ready.json()["ready"] is True
    assert ready.json()["config"]["hash"] == digest
    assert ready.json()["last_error"] is None

    reply = asyncio.run(ask(running.address))
    assert reply.immediate_response.status.code == 404
    assert reply.immediate_response.body == b"unsupported path: /nope"

    page = running.get("/metrics").text
    assert f'extproc_config_info{{digest="{digest}"}} 1\n' in page
    assert 'extproc_messages_total{level="router",phase="request_headers"} 1\n' in page
    assert 'service_name="gateway"' in page

    shown = running.get("/config")
    assert shown.json()["live"]["hash"] == digest
    assert shown.json()["live"]["age_seconds"] >= 0
    assert shown.json()["live"]["config"]["backends"][0]["auth"]["apiKey"]["key"] == "[REDACTED]"
    assert list(shown.json()["live"]["disabled_backends"]) == ["default/broken/route/chat/rule/0/ref/1"]
    assert shown.json()["last_refused"] is None

    running.process.terminate()
    running.wait_for("signal received, shutting down...")
    running.process.terminate()
    assert running.wait() == 0
    assert KEY not in shown.text + page + ready.text + "".join(running.log)


def test_a_reload_and_a_refusal_are_shown(start, config):
    running = start("-configPath", str(config))
    running.wait_for("is ready")
    good = CONFIG.replace("first", "second")
    config.with_suffix(".new").write_text(good, encoding="utf-8")
    config.with_suffix(".new").rename(config)
    digest = hashlib.sha256(good.encode()).hexdigest()
    running.until(lambda: running.get("/ready").json()["config"]["hash"] == digest)

    bad = f"version: dev\nbackends: [{{name: 1, auth: {{apiKey: {{key: [{KEY}]}}}}}}]\nmodels: 1\n"
    config.with_suffix(".new").write_text(bad, encoding="utf-8")
    config.with_suffix(".new").rename(config)
    running.until(lambda: running.get("/ready").json()["last_error"])
    ready = running.get("/ready")
    assert ready.status_code == 200
    assert ready.json()["config"]["hash"] == digest
    refused = running.get("/config").json()["last_refused"]
    assert refused["hash"] == hashlib.sha256(bad.encode()).hexdigest()
    assert refused["current"] is True
    assert "models" in [problem["path"] for problem in refused["problems"]]
    assert running.get("/config").json()["live"]["config"]["uuid"] == "second"
    assert 'extproc_config_reloads_total{result="refused"} 1\n' in running.get("/metrics").text
    assert KEY not in running.get("/config").text + "".join(running.log)


def test_a_rolling_restart_loses_no_request(start, config, tmp_path):
    """Field report BR-107: not ready at once, new streams still served, those in flight finish, exit code 0."""
    path = tmp_path / "run.sock"
    path.write_text("left by a process that was killed", encoding="ascii")
    running = start(
        *("-configPath", str(config), "-drainSeconds", "1.5", "-shutdownTimeout", "30s"),
        *("-extProcAddr", f"unix://{path}"),
    )
    running.wait_for("is ready")
    assert stat.S_IMODE(path.stat().st_mode) == 0o775
    address = running.address

    async def story():
        async with stream(address) as in_flight:
            await in_flight.write(request_headers("/v1/models"))
            assert (await in_flight.read()).WhichOneof("response") == "immediate_response"
            running.process.terminate()
            await asyncio.to_thread(running.wait_for, "signal received, shutting down...")
            assert await health(address) == "NOT_SERVING"
            assert (await asyncio.to_thread(running.get, "/health")).text == "unhealthy status: NOT_SERVING\n"
            ready = await asyncio.to_thread(running.get, "/ready")
            assert ready.status_code == 503
            assert ready.json()["draining"] is True
            assert (await ask(address)).immediate_response.status.code == 404
            await asyncio.to_thread(running.wait_for, "shutting down the server now")
            with pytest.raises(grpc.RpcError):
                await ask(address)
            await in_flight.write(ProcessingRequest(response_headers=HttpHeaders()))
            assert (await in_flight.read()).WhichOneof("response") == "response_headers"
            await in_flight.done_writing()
            assert await in_flight.code() is grpc.StatusCode.OK

    asyncio.run(story())
    assert running.wait() == 0
    assert not path.exists()
    assert not [line for line in running.log if "level=ERROR" in line or "level=WARN" in line]


BOUNDS = {
    "the time for streams in flight is bounded": (("-drainSeconds=0", "-shutdownTimeout=200ms"), 1),
    "a second signal ends the drain": (("-drainSeconds=1h", "-shutdownTimeout=1h"), 2),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_stream_that_never_ends_does_not_hold_up(start, config, name):
    flags, signals = BOUNDS[name]
    running = start("-configPath", str(config), *flags)
    running.wait_for("is ready")

    async def story():
        async with stream(running.address) as in_flight:
            await in_flight.write(request_headers("/v1/chat/completions"))
            await in_flight.read()
            for number in range(signals):
                running.process.send_signal(signal.SIGINT if number else signal.SIGTERM)
                await asyncio.to_thread(running.wait_for, "signal" if number == 0 else "second signal")
            assert await asyncio.to_thread(running.wait) == 0
            assert await in_flight.code() is not grpc.StatusCode.OK

    asyncio.run(story())


def test_a_bundle_that_is_not_complete_yet(start, tmp_path):
    """Quirks Q3 and Q9: without a config the process is not healthy, and answers 503 instead of dying."""
    write_bundle(tmp_path, CONFIG.encode(), version="dev", uuid="u")
    part = tmp_path / "parts" / "000"
    content = part.read_bytes()
    part.unlink()
    running = start("-configBundlePath", str(tmp_path), "-configPath", "/ignored")
    running.wait_for("is ready")
    assert "bundle part not found" in running.wait_for("will retry on next watch tick")
    assert asyncio.run(health(running.address)) == "NOT_SERVING"
    assert running.get("/ready").status_code == 503
    assert running.get("/config").json()["live"] is None
    reply = asyncio.run(ask(running.address, "/v1/chat/completions"))
    assert reply.immediate_response.status.code == 503
    part.write_bytes(content)
    running.until(lambda: running.get("/ready").status_code == 200)
    assert asyncio.run(health(running.address)) == "SERVING"


def test_logs_in_json_and_flags_without_effect(start, config):
    running = start(
        *("-configPath", str(config), "-logFormat", "json", "-mcpAddr", ":1"),
        EXTPROC_MCP_WRITE_TIMEOUT="1s",
        OTEL_METRICS_EXPORTER="otlp",
    )
    running.wait_for("is ready")
    lines = [json.loads(line) for line in running.log if line != READY_LINE]
    assert all(line["msg"] and line["level"] and line["time"] for line in lines)
    (pending,) = [line for line in lines if line["level"] == "WARN"]
    assert pending["settings"] == "mcpAddr,mcpWriteTimeout,OTEL_METRICS_EXPORTER"


def test_a_config_of_another_version_at_a_cold_start(start, config):
    running = start("-configPath", str(config), "-versionString", "v1.2.3")
    running.wait_for("is ready")
    assert 'expected \\"v1.2.3\\", got \\"dev\\"' in running.wait_for("serving a config of another version")
    assert running.get("/ready").status_code == 200
    assert "extproc_config_version_mismatch_total 1\n" in running.get("/metrics").text


FATAL = {
    "no config": (
        ["-configPath", "/nonexistent/c.yaml"],
        "failed to start config watcher: failed to load initial config",
    ),
    "address": (["-configPath", "x", "-extProcAddr", "nowhere"], "failed to listen for external processor: listen tcp"),
    "admin port": (["-configPath", "x", "-adminPort", "99999"], "failed to listen for admin server: listen tcp"),
}


@pytest.mark.parametrize("name", FATAL)
def test_what_keeps_it_from_starting_is_one_line(start, name):
    argv, text = FATAL[name]
    running = start(*argv)
    assert running.wait() == 1
    last = [line for line in running.log if line][-1]
    assert re.match(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d error: ", last)
    assert text in last
    assert "Traceback" not in "".join(running.log)


def test_the_decoder_process_does_not_outlive_it(start, config):
    running = start("-configPath", str(config))
    running.wait_for("is ready")

    def children():
        return Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text(encoding="ascii")

    running.until(lambda: children().split())
    (worker,) = children().split()
    running.process.kill()
    running.wait()

    def gone():
        try:
            return Path(f"/proc/{worker}/stat").read_text(encoding="ascii").split()[2] == "Z"
        except FileNotFoundError:
            return True

    running.until(gone)


def test_a_bundle_goes_before_a_file():
    both = Settings(config_path="/a", config_bundle_path="/b")
    source = config_source(both)
    assert isinstance(source, BundleSource)
    assert source.directory == Path("/b")
    assert isinstance(config_source(Settings(config_path="/a")), FileSource)


def test_what_the_core_is_told():
    settings = Settings.parse(
        [
            *("-configPath=x", "-rootPrefix=gateway", "-endpointPrefixes=openai:/oai", "-maxBodyBytes=7"),
            *("-requestHeaderAttributes=X-Tenant:tenant", "-logLevel=debug", "-enableRedaction"),
        ],
        {},
    )
    endpoints = endpoint_table(settings)
    assert "/gateway/oai/v1/chat/completions" in endpoints.endpoints
    options = exchange_options(settings, endpoints)
    assert options.endpoints is endpoints
    assert options.max_body_bytes == 7
    assert options.log_attributes == {"x-tenant": "tenant", "agent-session-id": "session.id"}
    assert options.metric_attributes == {"x-tenant": "tenant"}
    assert options.debug
    assert options.redact
    assert not exchange_options(Settings(), endpoints).debug
