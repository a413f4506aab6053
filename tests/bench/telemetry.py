"""What metrics and traces cost a request: ``python -m tests.bench.telemetry``.

In process, without transport and Envoy, because there is no switch for metrics that a whole process could be measured
without: a core that counts into nothing is compared with one that counts, and with ones that trace as well, into a
collector in another process. CPU time is that of the process, so the thread that encodes and sends spans is in it.
"""

from __future__ import annotations

import argparse
import gc
import os
import socket
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

from extproc.exchange.stream import Processor
from extproc.telemetry.instruments import Distribution, Value
from extproc.telemetry.metrics import Metrics, StreamSeries
from extproc.telemetry.otel import start
from tests.bench.translators import PAIRS, Subject

if TYPE_CHECKING:
    from extproc.telemetry.otel.traces import Tracing

_RECORDING: Final = (*("tokens", "request_durations", "time_to_first_token", "times_per_output_token", "outcome"),)
_CHUNKS: Final = 100
_OPENINFERENCE: Final = {"AI_GATEWAY_TRACING_SEMCONV": "openinference"}
_SHARE: Final = {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.01"}


class _Ignoring(Distribution):
    def observe(self, value: float) -> None:
        pass


_UNCOUNTED: Final = StreamSeries(Value(), defaultdict(lambda: _Ignoring(())))


class Uncounted(Metrics):
    """Metrics that nothing is recorded in."""

    def streams(self, level: str) -> StreamSeries:
        return _UNCOUNTED


for _name in _RECORDING:
    setattr(Uncounted, _name, lambda *_, **__: None)

ROWS: Final[Mapping[str, Mapping[str, str] | None]] = {
    "no metrics": None,
    "metrics": None,
    "traces, none sampled": {"OTEL_TRACES_SAMPLER": "always_off"},
    "traces, 1 % sampled": {**_SHARE, **_OPENINFERENCE},
    "traces, OpenInference": _OPENINFERENCE,
    "traces, OpenInference, all hidden": {
        **_OPENINFERENCE,
        "OPENINFERENCE_HIDE_INPUTS": "true",
        "OPENINFERENCE_HIDE_OUTPUTS": "true",
    },
    "traces, gen_ai": {"AI_GATEWAY_TRACING_SEMCONV": "gen_ai"},
    "traces, gen_ai with content": {
        "AI_GATEWAY_TRACING_SEMCONV": "gen_ai",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",
    },
}


class Side:
    """A core of one row."""

    def __init__(self, name: str, pair: str, endpoint: str) -> None:
        self.name = name
        self._subject = Subject(PAIRS[pair], _CHUNKS)
        self._tracing: Tracing | None = None
        variables = ROWS[name]
        if variables is not None:
            with _environment({"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, **variables}) as environ:
                self._tracing = start.tracing(environ, ())
        known = self._subject._processor
        processor = Processor(
            metrics=Uncounted() if name == "no metrics" else Metrics(),
            ids=lambda: "bench",
            tracer=None if self._tracing is None else self._tracing.tracer,
        )
        processor.runtime = known.runtime
        self._subject._processor = processor

    def per_request(self, count: int) -> float:
        """CPU seconds of a plain request, with the export of its span."""
        return self._timed(lambda: self._subject._play(self._subject._plain), count)

    def per_stream(self, count: int) -> float:
        """The same for a stream of 100 pieces."""
        return self._timed(self._subject._play_stream, count)

    def _timed(self, play: Callable[[], object], count: int) -> float:
        self._flush()
        gc.collect()
        started = time.process_time()
        for done in range(count):
            play()
            if done % 500 == 499:
                # The loop gives the exporter no turn; beyond its queue, spans would be dropped for free.
                self._flush()
        self._flush()
        return (time.process_time() - started) / count

    def _flush(self) -> None:
        if self._tracing is not None:
            self._tracing.provider.force_flush()

    def close(self) -> None:
        if self._tracing is not None:
            self._tracing.cancel()


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """The environment of this process, as the SDK will read it, for as long as the block."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield os.environ
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _sink() -> Iterator[str]:
    """The endpoint of a collector in another process that takes everything and keeps nothing."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    child = subprocess.Popen([sys.executable, "-m", __spec__.name, "--sink", str(port)], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        yield f"http://127.0.0.1:{port}"
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def _be_a_sink(port: int) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print("ready", flush=True)
    server.serve_forever()


def _measure(pair: str, *, requests: int, streams: int, turns: int, endpoint: str) -> None:
    sides = [Side(name, pair, endpoint) for name in ROWS]
    plain: dict[str, list[float]] = {name: [] for name in ROWS}
    streamed: dict[str, list[float]] = {name: [] for name in ROWS}
    for _ in range(turns):
        for side in sides:
            plain[side.name].append(side.per_request(requests) * 1e6)
            streamed[side.name].append(side.per_stream(streams) * 1e6)
    print(f"{pair}: µs of CPU, medians of {turns} turns\n")
    print(f"{'':36}{'request':>10}{'over metrics':>14}{f'stream of {_CHUNKS}':>16}{'over metrics':>14}")
    base, base_stream = statistics.median(plain["metrics"]), statistics.median(streamed["metrics"])
    for name in ROWS:
        one, many = statistics.median(plain[name]), statistics.median(streamed[name])
        print(f"{name:36}{one:10.0f}{one - base:+14.0f}{many:16.0f}{many - base_stream:+14.0f}")
    for side in sides:
        side.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", default="OpenAI", choices=list(PAIRS), help="of a client's API and a backend")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--sink", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sink is not None:
        _be_a_sink(options.sink)
        return
    with _sink() as endpoint:
        _measure(
            options.pair,
            requests=options.requests,
            streams=options.streams,
            turns=options.turns,
            endpoint=endpoint,
        )


if __name__ == "__main__":
    main()
