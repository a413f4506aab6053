"""``extproc demo``: run the walk, then stay up for whoever wants to try.

Every failure that a user can cause or meet is one line on standard error. Ctrl-C and SIGTERM end it in order.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, TypedDict

from deploy.command_line import Parser, port
from deploy.demo.screen import Screen

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from deploy.demo.backends.stage import BackendsStage
    from deploy.demo.stage import Stage

_DEFAULT_PORT: Final = 1975


class Place(TypedDict):
    """Where a stage is to be set up."""

    port: int
    any_port: bool
    logs: Path | None


def main(argv: Sequence[str]) -> int:
    """Run the demo. Gives 0 when all was well, 1 when it was not, 130 when it was interrupted before it was done."""
    parser = Parser(
        prog="extproc demo", description="A real Envoy, the processor, stand-in upstreams and a rate limit service."
    )
    parser.add_argument("--once", action="store_true", help="do the walk and exit, with status 0 or 1")
    parser.add_argument(
        "--backends", action="store_true", help="the walk through backends of all API schemas, instead of the main one"
    )
    parser.add_argument("--port", type=port, help=f"port of the gateway (default {_DEFAULT_PORT}, or any that is free)")
    parser.add_argument("--keep-logs", type=Path, metavar="DIR", help="keep configs and logs in this directory")
    parser.add_argument("--redis-url", help="keep the budgets in Redis, for example redis://127.0.0.1:6379/0")
    arguments = parser.parse_args(argv)
    if arguments.backends and arguments.redis_url:
        parser.error("--backends has no budgets to keep in --redis-url")
    # Also where a shell has told its background jobs to ignore Ctrl-C.
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return 130


def _run(arguments: argparse.Namespace) -> int:
    try:
        # The parts of the demo are an extra; without it this command still has to say so.
        from deploy.demo.backends.stage import BackendsStage  # noqa: PLC0415
        from deploy.demo.client import StreamBroken  # noqa: PLC0415
        from deploy.demo.stage import Stage  # noqa: PLC0415
        from deploy.demo.walk import StepFailed  # noqa: PLC0415
        from deploy.local.children import ChildFailed  # noqa: PLC0415
        from deploy.ratelimit.budgets import BudgetsInvalid  # noqa: PLC0415
        from deploy.ratelimit.service import StorageUnusable  # noqa: PLC0415
    except ImportError as error:
        return _fail(f"{error.name} is missing: install the extra 'demo' (pip install 'envoy-llm-extproc[demo]')")
    place: Place = {
        "port": _DEFAULT_PORT if arguments.port is None else arguments.port,
        "any_port": arguments.port is None,
        "logs": arguments.keep_logs,
    }
    try:
        if arguments.backends:
            with BackendsStage(**place) as backends:
                _show_backends(backends, once=arguments.once)
        else:
            with Stage(**place, redis_url=arguments.redis_url) as stage:
                _show(stage, once=arguments.once)
    except StepFailed as failure:
        return _fail(f"the walk failed: {failure}")
    except (BudgetsInvalid, ChildFailed, StorageUnusable, StreamBroken, TimeoutError, OSError) as failure:
        return _fail(" ".join(str(failure).split()))
    return 0


def _show(stage: Stage, *, once: bool) -> None:
    from deploy.demo import walk  # noqa: PLC0415 - see _run

    screen = Screen(sys.stdout)
    screen.line(_addresses(stage))
    walk.walk(stage, screen)
    _end(screen, "All five steps went as they should.", _invitation(stage), once=once)


def _show_backends(stage: BackendsStage, *, once: bool) -> None:
    from deploy.demo.backends import walk  # noqa: PLC0415 - see _run

    screen = Screen(sys.stdout)
    screen.line(_addresses(stage))
    walk.walk(stage, screen)
    _end(screen, "All seven backends gave the client the same answers.", _backends_invitation(stage), once=once)


def _addresses(stage: Stage | BackendsStage) -> str:
    return (
        f"Envoy listens on http://127.0.0.1:{stage.port}, the processor's admin on port {stage.processor.admin_port}."
    )


def _end(screen: Screen, verdict: str, invitation: str, *, once: bool) -> None:
    """Say how it went; and unless that was all, stay up until the user has had enough."""
    if once:
        screen.line(f"\n{verdict}")
        return
    with contextlib.suppress(KeyboardInterrupt), _waking() as awake:
        screen.line(f"\n{verdict} Now you, in another terminal:\n{invitation}\nCtrl-C stops everything.")
        awake.recv(1)
    screen.line("\nStopping.")


@contextlib.contextmanager
def _waking() -> Iterator[socket.socket]:
    """A socket that can be read once a signal has come.

    A signal that comes just before a lock is waited for is noticed only when the wait is over; what it has written
    to a socket is there however early it came.
    """
    reader, writer = socket.socketpair()
    with reader, writer:
        writer.settimeout(0)
        former = signal.set_wakeup_fd(writer.fileno())
        try:
            yield reader
        finally:
            signal.set_wakeup_fd(former)


def _invitation(stage: Stage) -> str:
    gateway, admin = f"http://127.0.0.1:{stage.port}", f"http://127.0.0.1:{stage.processor.admin_port}"
    body = '{"model": "gpt-demo", "messages": [{"role": "user", "content": "Hello"}]}'
    return f"""
  curl {gateway}/v1/models
  curl -H 'x-user-id: dave' -H 'content-type: application/json' {gateway}/v1/chat/completions \\
    -d '{body}'
  curl -N -H 'content-type: application/json' {gateway}/v1/chat/completions \\
    -d '{body[:-1]}, "stream": true}}'
  open {admin}/    # the console
  curl {admin}/config
  curl -s {admin}/metrics | grep gen_ai
  curl -X PUT http://127.0.0.1:{stage.alpha.port}/standin -d '{{"failing": 503}}'    # and ask again

The filter config is {stage.config}: edit it and ask again."""


def _backends_invitation(stage: BackendsStage) -> str:
    gateway, admin = f"http://127.0.0.1:{stage.port}", f"http://127.0.0.1:{stage.processor.admin_port}"
    body = '{"model": "demo-gemini", "messages": [{"role": "user", "content": "Hello"}]}'
    wrong = '{"model": "demo-claude", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 0}'
    return f"""
  curl {gateway}/v1/models
  curl -H 'content-type: application/json' {gateway}/v1/chat/completions \\
    -d '{body}'
  curl -N -H 'content-type: application/json' {gateway}/v1/chat/completions \\
    -d '{body[:-1]}, "stream": true}}'
  curl -H 'content-type: application/json' {gateway}/v1/chat/completions \\
    -d '{wrong}'    # a provider says no
  curl -s {admin}/metrics | grep gen_ai

The filter config is {stage.config}: edit it and ask again."""


def _interrupt(_: int, __: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _fail(message: str) -> int:
    print(f"extproc demo: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
