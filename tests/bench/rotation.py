"""What requests notice of credentials that rotate: ``python -m tests.bench.rotation``.

A real Envoy, and a processor with every kind of credential that changes: one of AWS by web identity, one of Entra ID by
a federated token, one of Google by a service account, and a key in the filter config. A thousand requests while nothing
happens, a thousand more to know what chance does, then a thousand while all of it is renewed, and so on. The upstream
refuses what the clouds would refuse, and a key that has been replaced twice.

Requests begin at a steady pace, whether or not the last ones are answered, and seldom enough that they do not queue.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from extproc.loops import TURN_SECONDS
from tests.bench.streams import percentile
from tests.dataplane.harness.client import CHAT, question
from tests.dataplane.harness.documents import backend, filter_config, route, rule
from tests.dataplane.harness.replies import Reply, chat_completion, json_reply
from tests.dataplane.harness.stack import Stack
from tests.dataplane.harness.upstream import Received, StrictUpstream
from tests.dataplane.harness.waiting import wait_until
from tests.support.aws_endpoints import AWSEndpoints, aws_endpoints
from tests.support.azure_endpoints import CLIENT, TENANT, AzureEndpoints
from tests.support.google_endpoints import GoogleEndpoints

CONNECTIONS: Final = 4
_PATIENCE: Final = 30.0
_HEADERS: Final = {"content-type": "application/json"}
_SETTLED: Final = 3.0
"""Seconds in which a file is looked at, and its credential fetched, even where that takes a process."""
_KEYS: Final = 2
"""So many keys of the filter config are taken, the newest ones: requests under way may carry the last but one."""

KINDS: Final = ("aws", "azure", "gcp", "key")

Judge = Callable[[Received], tuple[str, str | None]]
"""Tells which credential a request carries, and why it is refused, if it is."""


@dataclass(slots=True)
class Round:
    """What came of the requests of a round.

    Attributes:
        took: microseconds until the whole answer was there, for each that was answered with 200.
        failures: what became of the others.
        rotations: of how many kinds a new credential was given out, and came with a request within the round.
    """

    took: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    rotations: int = 0

    def describe(self) -> str:
        p50, p99, worst = (percentile(self.took, share) / 1000 for share in (0.5, 0.99, 1.0))
        return f"p50 {p50:5.1f} ms, p99 {p99:5.1f} ms, worst {worst:5.1f} ms, failed {len(self.failures)}"


class Clouds:
    """Who gives out credentials, how they are made to give out others, and what upstreams think of them."""

    def __init__(self, directory: Path, aws: AWSEndpoints, entra: AzureEndpoints, google: GoogleEndpoints) -> None:
        self._aws = aws
        self._entra = entra
        self._google = google
        self._web_identity, self._assertion, self._account = (directory / name for name in ("web", "entra", "google"))
        self._blank_lines = ""
        self._keys: list[str] = []
        self.judges: dict[str, Judge] = {
            "aws": self._signature,
            "azure": lambda received: _bearer(received, entra.issued),
            "gcp": lambda received: _bearer(received, google.issued),
            "key": lambda received: _bearer(received, self._keys[-_KEYS:]),
        }
        self.renew(self.judges)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
            "AWS_CONFIG_FILE": "/nowhere",
            "NO_PROXY": "127.0.0.1",
            "GOOGLE_APPLICATION_CREDENTIALS": str(self._account),
            **self._aws.environment("sts", self._web_identity),
        }

    def auth(self, kind: str) -> dict[str, Any]:
        """The configuration of a backend with this kind of credential."""
        return {
            "aws": {"aws": {"region": "us-east-1"}},
            "azure": {
                "azure": {
                    "clientID": CLIENT,
                    "tenantID": TENANT,
                    "federatedTokenFile": str(self._assertion),
                    "authorityHost": self._entra.url,
                }
            },
            "gcp": {"gcp": {"region": "r", "projectName": "p"}},
            "key": {"apiKey": {"key": self._keys[-1]}},
        }[kind]

    def renew(self, kinds: Collection[str]) -> None:
        """Replace what these kinds are fetched with, as a kubelet or an operator would. The key's is the config."""
        mark = f"{time.monotonic_ns()}"
        if "aws" in kinds:
            _replace(self._web_identity, f"web-identity-{mark}")
        if "azure" in kinds:
            self._entra.assertions.add(f"assertion-{mark}")
            _replace(self._assertion, f"assertion-{mark}")
        if "gcp" in kinds:
            # The same key, told apart by blank lines: it is read anew like any other.
            account = self._google.service_account()
            self._blank_lines += "\n"
            _replace(self._account, json.dumps({**account, "private_key": account["private_key"] + self._blank_lines}))
        if "key" in kinds:
            self._keys.append(f"key-{mark}")

    def _signature(self, received: Received) -> tuple[str, str | None]:
        refusal = self._aws.judge(
            method=received.method, path=received.target, headers=received.headers, body=received.body
        )
        return received.header("x-amz-security-token") or "", refusal


def _replace(file: Path, text: str) -> None:
    beside = file.with_suffix(".new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)


def _bearer(received: Received, known: Sequence[str]) -> tuple[str, str | None]:
    token = (received.header("authorization") or "").removeprefix("Bearer ")
    return token, None if token in known else f"{token or 'no token'} is not valid"


class Site:
    """The processor between a client and upstreams that verify."""

    def __init__(self, directory: Path, clouds: Clouds, kinds: Sequence[str], gap: float) -> None:
        self._clouds = clouds
        self._kinds = kinds
        self._gap = gap
        self._seen: dict[str, set[str]] = {kind: set() for kind in kinds}
        self._upstreams = {kind: StrictUpstream(kind) for kind in kinds}
        for kind, upstream in self._upstreams.items():
            upstream.always(partial(self._answer, kind))
        self._route = route(*(rule(upstream, models=[kind]) for kind, upstream in self._upstreams.items()))
        self._stack = Stack(
            directory,
            socket_directory=directory,
            routes=[self._route],
            config=self._config(),
            environment=clouds.environment,
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        with ExitStack() as parts:
            for upstream in self._upstreams.values():
                parts.callback(upstream.stop)
            parts.enter_context(self._stack)
            wait_until(lambda: not self.ask(len(self._kinds)).failures, "every credential is there", _PATIENCE)
            yield

    def rotate(self) -> None:
        """Renew everything. Who asks for it need not wait; ``ask`` tells whether it came."""
        self._clouds.renew(self._kinds)
        if "key" in self._kinds:
            self._stack.swap_config(self._config(), wait=False)

    def settle(self) -> None:
        """Ask until no renewal is under way any more."""
        while self.ask(math.ceil(_SETTLED / self._gap)).rotations:
            pass

    def ask(self, count: int, *, every: int = 0) -> Round:
        """Ask at a steady pace; with ``every``, rotate at each so many requests."""
        made = Round()
        before = self._credentials()
        begin = time.perf_counter() + self._gap
        clients = [
            threading.Thread(target=self._client, args=(made, begin, range(first, count, CONNECTIONS)))
            for first in range(CONNECTIONS)
        ]
        for client in clients:
            client.start()
        for number in range(0, count, every) if every else ():
            _sleep_until(begin + number * self._gap)
            self.rotate()
        for client in clients:
            client.join()
        made.rotations = self._credentials() - before
        return made

    def _credentials(self) -> int:
        return sum(map(len, self._seen.values()))

    def _client(self, made: Round, begin: float, numbers: range) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._stack.port, timeout=_PATIENCE)
        bodies = [json.dumps(question(kind)).encode() for kind in self._kinds]
        for number in numbers:
            _sleep_until(begin + number * self._gap)
            started = time.perf_counter()
            try:
                connection.request("POST", CHAT, bodies[number % len(bodies)], _HEADERS)
                response = connection.getresponse()
                said = response.read()
                if response.status == 200:
                    made.took.append(int((time.perf_counter() - started) * 1e6))
                else:
                    made.failures.append(f"{response.status} {said[:300]!r}")
            except (OSError, http.client.HTTPException) as error:
                made.failures.append(repr(error))
                connection.close()
        connection.close()

    def _answer(self, kind: str, received: Received) -> Reply:
        credential, refusal = self._clouds.judges[kind](received)
        if refusal is not None:
            return json_reply({"message": refusal}, status=403)
        self._seen[kind].add(credential)
        return json_reply(chat_completion(model="m"))

    def _config(self) -> dict[str, Any]:
        return filter_config(
            *(
                backend(self._route.backend_name(number, 0), auth=self._clouds.auth(kind))
                for number, kind in enumerate(self._kinds)
            )
        )


def _sleep_until(due: float) -> None:
    time.sleep(max(0.0, due - time.perf_counter()))


@contextmanager
def site(kinds: Sequence[str], gap: float) -> Iterator[Site]:
    with ExitStack() as parts:
        directory = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="rotation-")))
        entra, google = parts.enter_context(AzureEndpoints()), parts.enter_context(GoogleEndpoints())
        clouds = Clouds(directory, parts.enter_context(aws_endpoints()), entra, google)
        running = Site(directory, clouds, kinds, gap)
        parts.enter_context(running.running())
        yield running


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Two rounds without rotation, of which the second tells what chance does, and the one with it that followed."""

    quiet: Round
    control: Round
    rotating: Round

    def over(self, made: Round) -> int:
        """Requests of a later round that took longer than 99 % of those of the first."""
        return sum(took > percentile(self.quiet.took, 0.99) for took in made.took)


def _trial(running: Site, count: int, every: int) -> Trial:
    running.settle()
    return Trial(quiet=running.ask(count), control=running.ask(count), rotating=running.ask(count, every=every))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1000, help="in each round")
    parser.add_argument("--rounds", type=int, default=5, help="of each kind")
    parser.add_argument("--gap", type=float, default=0.02, help="seconds between the beginnings of two requests")
    parser.add_argument("--every", type=int, default=1000, help="requests between two rotations")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="of credentials")
    options = parser.parse_args()
    # Clients, upstreams and clouds are threads of this process: a cloud that works must not keep a client waiting.
    sys.setswitchinterval(TURN_SECONDS)
    trials: list[Trial] = []
    with site(options.kinds, options.gap) as running:
        running.ask(options.every)
        for _ in range(options.rounds):
            trial = _trial(running, options.requests, options.every)
            trials.append(trial)
            print(f"no rotation:      {trial.quiet.describe()}")
            print(f"the same again:   {trial.control.describe()}, {trial.over(trial.control)} over")
            print(
                f"{trial.rotating.rotations:3} credentials:  {trial.rotating.describe()}, "
                f"{trial.over(trial.rotating)} over",
                flush=True,
            )
    rounds = [made for trial in trials for made in (trial.quiet, trial.control, trial.rotating)]
    failures = [failure for made in rounds for failure in made.failures]
    asked = options.requests * options.rounds
    controls = [trial.over(trial.control) for trial in trials]
    rotating = [trial.over(trial.rotating) for trial in trials]
    print(
        f"of {asked} requests during rotation, {sum(rotating)} were slower than the p99 of the round before, "
        f"of {asked} without any {sum(controls)}; medians of a round {statistics.median(rotating):g} and "
        f"{statistics.median(controls):g}; failed {len(failures)} of {3 * asked}"
    )
    if failures:
        print(f"the first: {failures[0]}", file=sys.stderr)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
