"""The command ``extproc``: serve, run, translate, explain, check, schema, controller, demo, version, help.

``extproc`` followed by a flag, or by nothing, serves, so that it can stand in for the peer's binary. An error is one
line that says what is wrong; nobody is shown a traceback.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import extproc

if TYPE_CHECKING:
    from extproc.settings import Settings

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2

HELP: Final = """\
extproc: Envoy external processor for LLM traffic

Usage:
  extproc [serve] [flags]   serve Envoy; `extproc serve -h` lists the flags
  extproc run [FILE...]     run an Envoy and this processor for resources of Envoy AI Gateway, and follow their edits;
                            without FILE, for OPENAI_API_KEY, ANTHROPIC_API_KEY or their like in the environment
  extproc translate FILE... write the filter config and the Envoy configuration of such resources, or check them
  extproc explain FILE... --request FILE
                            say what would become of a request there: route, backends, what each would get, costs
  extproc check FILE...     say everything that is wrong with filter configs; with --credentials, try their credentials
  extproc schema            print the JSON Schema of the filter config, for editors
  extproc controller [flags]
                            run the control plane in a Kubernetes cluster; `extproc controller -h` lists the flags
  extproc demo [--once]     run a real Envoy, this processor and stand-in upstreams on this machine
  extproc version           print the version
  extproc help              print this text
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` (the process's own without it) and return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0].startswith("-"):
        command, rest = "serve", arguments
    else:
        command, rest = arguments[0], arguments[1:]
    if command == "serve" and rest == ["--version"]:
        command, rest = "version", []
    handler = _COMMANDS.get(command)
    if handler is None:
        return _usage(f'unknown command "{command}"; use one of {", ".join(_COMMANDS)}')
    if isinstance(sys.stdout, TextIOWrapper):
        # A terminal of another encoding gets an escape for what it cannot show, as standard error does.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return handler(rest)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output went away, `extproc schema | head`; that is its right.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - for the interpreter's last flush
        return FAILED


def _serve(argv: Sequence[str]) -> int:
    from extproc.flags import FlagError, HelpRequested, UnknownFlag  # noqa: PLC0415 - each command loads its own
    from extproc.settings import Settings, SettingsError, usage  # noqa: PLC0415

    try:
        settings = Settings.parse(argv, os.environ)
    except FlagError as error:
        if isinstance(error, HelpRequested | UnknownFlag):
            sys.stderr.write(usage())
        return _fatal(f"failed to parse and validate extProcFlags: failed to parse extProcFlags: {error}")
    except SettingsError as error:
        return _fatal(f"failed to parse and validate extProcFlags: {error}")
    return _run(settings, os.environ)


def _run(settings: Settings, environ: Mapping[str, str]) -> int:
    _quiet_grpc()
    import structlog  # noqa: PLC0415

    from extproc import app  # noqa: PLC0415
    from extproc.telemetry import logs  # noqa: PLC0415

    logs.configure(settings.log_level, settings.log_format)
    try:
        app.run(settings, environ)
    except app.StartupError as error:
        return _fatal(str(error))
    except Exception as error:  # noqa: BLE001 - the last place where it can become a line
        structlog.get_logger(__name__).error("the processor failed", exc_info=error)
        return _fatal(f"internal error: {type(error).__name__}: {error}")
    return OK


def _quiet_grpc() -> None:
    # Both are read when gRPC is imported. Its fork handlers are for children that go on using gRPC, ours never do;
    # and it writes its own log lines past our format.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


def _check(argv: Sequence[str]) -> int:
    parser = _Parser(prog="extproc check", description="Say everything that is wrong with filter configs.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a config file, or a bundle's directory")
    parser.add_argument("--version-string", help="the version that the configs must be for; any if not given")
    parser.add_argument("--relax-version-check", action="store_true", help="let another version be a warning")
    parser.add_argument("--credentials", action="store_true", help="try to get the credential of each backend")
    try:
        options = parser.parse_args(argv)
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else USAGE
    from extproc.auth.probe import disabled, probe  # noqa: PLC0415 - each command loads its own
    from extproc.translate.table import SERVED_SCHEMAS  # noqa: PLC0415
    from filter_config.check import check_files  # noqa: PLC0415

    return check_files(
        options.files,
        own_version=options.version_string,
        relaxed_version=options.relax_version_check,
        out=sys.stdout,
        served_schemas=SERVED_SCHEMAS,
        disabled=disabled,
        probe=probe if options.credentials else None,
    )


def _schema(argv: Sequence[str]) -> int:
    if argv:
        return _usage("schema takes no arguments")
    from filter_config.schema import schema_text  # noqa: PLC0415

    sys.stdout.write(schema_text())
    return OK


def _run_resources(argv: Sequence[str]) -> int:
    try:
        from deploy.local.run_cli import main as run  # noqa: PLC0415
    except ModuleNotFoundError as error:
        return _missing("run", error)
    return run(argv)


def _translate(argv: Sequence[str]) -> int:
    try:
        from deploy.local.translate_cli import main as translate  # noqa: PLC0415
    except ModuleNotFoundError as error:
        return _missing("translate", error)
    return translate(argv)


def _explain(argv: Sequence[str]) -> int:
    from extproc.explain.cli import main as explain  # noqa: PLC0415 - each command loads its own

    return explain(argv)


def _controller(argv: Sequence[str]) -> int:
    _quiet_grpc()
    from extproc.telemetry import logs  # noqa: PLC0415 - each command loads its own
    from extproc.telemetry.levels import parse_level  # noqa: PLC0415

    try:
        from deploy.controller.command import main as controller  # noqa: PLC0415
    except ModuleNotFoundError as error:
        return _missing("controller", error, "kubernetes")
    return controller(argv, os.environ, lambda level, style: logs.configure(parse_level(level), style))


def _demo(argv: Sequence[str]) -> int:
    try:
        from deploy.demo.cli import main as demo  # noqa: PLC0415
    except ModuleNotFoundError as error:
        return _missing("demo", error)
    return demo(argv)


def _missing(command: str, error: ModuleNotFoundError, extra: str = "demo") -> int:
    missing = error.name or "a package"
    return _usage(f"{command} needs {missing}; install the extra: pip install 'envoy-llm-extproc[{extra}]'", FAILED)


def _version(argv: Sequence[str]) -> int:
    if argv:
        return _usage("version takes no arguments")
    sys.stdout.write(f"envoy-llm-extproc {extproc.__version__}\n")
    return OK


def _help(_: Sequence[str]) -> int:
    sys.stdout.write(HELP)
    return OK


def _fatal(text: str) -> int:
    """Report as the peer's binary does (contract, validation 1.3)."""
    sys.stderr.write(f"{datetime.now().astimezone():%Y/%m/%d %H:%M:%S} error: {text}\n")
    return FAILED


def _usage(text: str, code: int = USAGE) -> int:
    sys.stderr.write(f"extproc: {text}\n")
    return code


_COMMANDS: Final[Mapping[str, Callable[[Sequence[str]], int]]] = {
    "serve": _serve,
    "run": _run_resources,
    "translate": _translate,
    "explain": _explain,
    "check": _check,
    "schema": _schema,
    "controller": _controller,
    "demo": _demo,
    "version": _version,
    "help": _help,
}
