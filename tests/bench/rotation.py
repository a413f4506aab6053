"""What requests notice of credentials that rotate: ``python -m tests.bench.rotation``.

A real Envoy and a processor that signs for AWS with a fetched credential. A thousand paced requests while nothing
happens, a thousand while the token is renewed again and again, in turns; every signature is checked as AWS would.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.bench.streams import percentile
from tests.dataplane.harness.client import CHAT, question
from tests.dataplane.harness.documents import backend, filter_config, route, rule
from tests.dataplane.harness.replies import Reply, chat_completion, json_reply
from tests.dataplane.harness.stack import Stack
from tests.dataplane.harness.upstream import Received, StrictUpstream
from tests.dataplane.harness.waiting import wait_until
from tests.support.aws_endpoints import AWSEndpoints, aws_endpoints

REFRESHES: Final = "extproc_credential_refreshes_total"
GAP: Final = 0.005
"""Seconds between the beginnings of two requests."""


class Site:
    """The processor between a client and an upstream that verifies."""

    def __init__(self, stack: Stack, token_file: Path, refused: list[str]) -> None:
        self.stack = stack
        self.refused = refused
        self._token_file = token_file
        self._numbers = itertools.count()

    def refreshes(self) -> float:
        return self.stack.metrics().sum(REFRESHES, result="ok")

    def rotate(self) -> None:
        """Renew the token, and wait until the processor signs with another credential."""
        before = self.refreshes()
        self._token_file.write_text(f"token-{next(self._numbers)}", encoding="utf-8")
        wait_until(lambda: self.refreshes() > before, "the credential has rotated", 20)

    def ask(self, count: int) -> list[int]:
        """Ask at a steady pace; gives how long each answer took, in microseconds.

        Raises:
            RuntimeError: one was not answered with 200.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.stack.port, timeout=30.0)
        body, headers = json.dumps(question("signed")), {"content-type": "application/json"}
        took = list[int]()
        due = time.perf_counter()
        for _ in range(count):
            due += GAP
            time.sleep(max(0.0, due - time.perf_counter()))
            started = time.perf_counter()
            connection.request("POST", CHAT, body, headers)
            with connection.getresponse() as response:
                response.read()
                took.append(int((time.perf_counter() - started) * 1e6))
                if response.status != 200:
                    raise RuntimeError(f"a request was answered with {response.status}")
        connection.close()
        return took

    @contextmanager
    def rotating(self) -> Iterator[list[int]]:
        """Rotate without a pause; the list gets an entry for each time."""
        stop, done = threading.Event(), list[int]()

        def run() -> None:
            while not stop.is_set():
                self.rotate()
                done.append(1)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield done
        finally:
            stop.set()
            thread.join()


@contextmanager
def site() -> Iterator[Site]:
    with ExitStack() as parts:
        directory = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="rotation-")))
        endpoints = parts.enter_context(aws_endpoints())
        upstream = StrictUpstream("signed")
        parts.callback(upstream.stop)
        refused: list[str] = []
        upstream.always(lambda received: _answer(received, endpoints, refused))
        token_file = directory / "token"
        token_file.write_text("token", encoding="utf-8")
        where = route(rule(upstream, models=["signed"]))
        stack = Stack(
            directory,
            socket_directory=directory,
            routes=[where],
            config=filter_config(backend(where.backend_name(0, 0), auth={"aws": {"region": "us-east-1"}})),
            environment={
                "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
                "AWS_CONFIG_FILE": "/nowhere",
                "NO_PROXY": "127.0.0.1",
                **endpoints.environment("sts", token_file),
            },
        )
        parts.enter_context(stack)
        running = Site(stack, token_file, refused)
        wait_until(lambda: running.refreshes() > 0, "the credential is there", 20)
        yield running


def _answer(received: Received, endpoints: AWSEndpoints, refused: list[str]) -> Reply:
    refusal = endpoints.judge(
        method=received.method, path=received.target, headers=received.headers, body=received.body
    )
    if refusal is not None:
        refused.append(refusal)
        return json_reply({"message": refusal}, status=403)
    return json_reply(chat_completion(model="m"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    quiet: list[int] = []
    rotated: list[int] = []
    rotations = 0
    with site() as running:
        running.ask(200)
        for _ in range(options.rounds):
            quiet += running.ask(options.requests)
            with running.rotating() as done:
                rotated += running.ask(options.requests)
            rotations += len(done)
        if running.refused:
            print(f"refused: {running.refused[0]}", file=sys.stderr)
            return 1
    for name, took in (("no rotation", quiet), (f"{rotations} rotations", rotated)):
        p50, p99, worst = (percentile(took, share) / 1000 for share in (0.5, 0.99, 1.0))
        print(f"{name:14} {len(took)} requests, none lost: p50 {p50:.1f} ms, p99 {p99:.1f} ms, worst {worst:.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
