"""What the stand-ins of token endpoints share: an HTTP server on loopback whose answers can be made to go wrong.

A stand-in says in ``answer`` what the provider would. ``script`` puts something else in its place for calls to come:
another answer, none at all, or the same one at a pace at which nobody waits for it.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True, kw_only=True)
class Received:
    """A call as it came off the wire. Header names are in lower case."""

    endpoint: str
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True, strict_parsing=True))


@dataclass(frozen=True, kw_only=True)
class Reply:
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def json_reply(status: int, document: Any, **headers: str) -> Reply:
    return Reply(
        status=status,
        body=json.dumps(document).encode(),
        headers={
            "Content-Type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        },
    )


def html(status: int = 502) -> Reply:
    return Reply(
        status=status,
        body=b"<html><body><h1>Bad Gateway</h1>canary-page</body></html>",
        headers={"Content-Type": "text/html"},
    )


def redirect(to: str) -> Reply:
    return Reply(status=307, headers={"Location": to})


@dataclass(frozen=True)
class Silence:
    """Takes the call and does not answer until the stand-in is closed, or ``seconds`` have passed."""

    seconds: float | None = None


@dataclass(frozen=True)
class HangUp:
    """Closes the connection without a word, or in the middle of the answer."""

    after: int = 0


@dataclass(frozen=True)
class Drip:
    """Sends the head of an answer, and then a byte every so many seconds for as long as anybody reads."""

    every: float = 0.01


Fault = Reply | Silence | HangUp | Drip | Callable[[Received], Reply]


class Refused(Exception):
    """A call that the provider would refuse, with what it would say."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.body)
        self.reply = reply


class TokenEndpoints:
    """A stand-in; as a context manager it serves.

    Attributes:
        calls: every call, in order.
        delay: seconds before each answer.
        ahead: seconds by which the clock here is ahead.
        lifetime: of the tokens, in seconds.
        issued: every token that was given out, in order; each is another.
    """

    token_prefix: ClassVar[str] = "canary-token"

    def __init__(self) -> None:
        self.calls: list[Received] = []
        self.delay = 0.0
        self.ahead = 0.0
        self.lifetime: float = 3600
        self.issued: list[str] = []
        self._faults: dict[str, deque[Fault]] = defaultdict(deque)
        self._always: dict[str, Fault] = {}
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.stand_in = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.002}, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def now(self) -> float:
        return time.time() + self.ahead

    def script(self, endpoint: str, *faults: Fault) -> None:
        """What happens at the next calls to an endpoint; after them it is as before."""
        self._faults[endpoint].extend(faults)

    def always(self, endpoint: str, fault: Fault | None) -> None:
        """What happens at all calls to an endpoint that have no script; ``None`` mends it."""
        if fault is None:
            self._always.pop(endpoint, None)
        else:
            self._always[endpoint] = fault

    def called(self, endpoint: str) -> list[Received]:
        return [call for call in self.calls if call.endpoint == endpoint]

    def issue(self) -> str:
        with self._lock:
            token = f"{self.token_prefix}-{len(self.issued) + 1}"
            self.issued.append(token)
        return token

    # What a stand-in says.

    def endpoint_of(self, path: str) -> str:
        """The name of the endpoint at a path; empty for none."""
        raise NotImplementedError

    def answer(self, call: Received) -> Reply:
        """What the provider would answer.

        Raises:
            Refused: it would not.
        """
        raise NotImplementedError

    # What the handler asks.

    def next_step(self, call: Received) -> Fault:
        with self._lock:
            self.calls.append(call)
            queue = self._faults[call.endpoint]
            fault = queue.popleft() if queue else self._always.get(call.endpoint)
        self.wait(self.delay)
        if fault is not None:
            return fault(call) if callable(fault) else fault
        return self.usual(call)

    def usual(self, call: Received) -> Reply:
        try:
            return self.answer(call)
        except Refused as refused:
            return refused.reply

    def wait(self, seconds: float | None) -> bool:
        """Whether the stand-in was closed meanwhile."""
        return self._closed.wait(seconds) if seconds is None or seconds > 0 else False


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    stand_in: TokenEndpoints

    def handle_error(self, request, client_address) -> None:
        """Callers that do not wait break off; what a stand-in does wrong shows in its calls."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes, and the second would wait 40 ms
    server: _Server

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, *_: object) -> None:
        """The calls are recorded."""

    def _serve(self) -> None:
        stand_in = self.server.stand_in
        parts = urlsplit(self.path)
        call = Received(
            endpoint=stand_in.endpoint_of(parts.path),
            method=self.command,
            path=parts.path,
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(int(self.headers.get("Content-Length") or 0)),
        )
        match stand_in.next_step(call):
            case Silence(seconds=seconds):
                if not stand_in.wait(seconds):
                    self._send(stand_in.usual(call))
                self.close_connection = True
            case HangUp(after=after):
                if after:
                    self._head(200, {"Content-Type": "application/json", "Content-Length": str(after + 1)})
                    self.wfile.write(b"{" * after)
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
            case Drip(every=every):
                self._head(200, {"Content-Type": "application/json", "Content-Length": "1000000"})
                while not stand_in.wait(every):
                    self.wfile.write(b" ")
            case Reply() as reply:
                self._send(reply)

    def _send(self, reply: Reply) -> None:
        self._head(reply.status, {**reply.headers, "Content-Length": str(len(reply.body))})
        self.wfile.write(reply.body)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response_only(status)
        self.send_header("Date", formatdate(self.server.stand_in.now(), usegmt=True))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
