"""``extproc translate``: resources to filter configs and Envoy configurations, or just everything that is wrong.

Whatever can be translated is written, faults are told at once on standard error, a line each, and the exit code tells
whether there was an error.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TextIO

from deploy.command_line import Parser
from deploy.local import automatic
from deploy.local.files import Files

if TYPE_CHECKING:
    from deploy.envoy.model import Gateway
    from filter_config.sources.envoy_ai_gateway.compiler import CompiledGateway
    from filter_config.sources.faults import Fault

_STDOUT: Final = "-"
_MAX_SOCKET_PATH: Final = 107
_PROG: Final = "extproc translate"
_EXTRA: Final = "install the extra 'demo' (pip install 'envoy-llm-extproc[demo]')"


def main(
    argv: Sequence[str],
    *,
    environ: Mapping[str, str] = os.environ,
    stdin: BinaryIO | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Run the command. Gives 0 when nothing is an error, 1 when something is."""
    arguments = _parser().parse_args(argv)
    if (arguments.output is None) == (not arguments.check):
        _parser().error("give either -o DIR or --check")
    return _Translation(arguments, environ, out or sys.stdout, err or sys.stderr).run(stdin)


def _parser() -> Parser:
    parser = Parser(
        prog=_PROG,
        description="Translate resources of Envoy AI Gateway to filter configs and Envoy configurations.",
        epilog="Without FILE, resources are made of OPENAI_API_KEY and its like, as `extproc run` does.",
    )
    add_files(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help="write filter-config.yaml, filter-config-bundle/ and envoy.yaml there, for several gateways in a "
        "sub-directory each; - prints the filter config, credentials included",
    )
    parser.add_argument("--check", action="store_true", help="only say what is wrong")
    parser.add_argument(
        "--host", default="127.0.0.1", type=_ip, help="IP address that Envoy listens on (default %(default)s)"
    )
    parser.add_argument(
        "--processor",
        default="127.0.0.1:1063",
        metavar="ADDRESS",
        type=_address,
        help="where Envoy finds the processor: host:port or unix:///path (default %(default)s)",
    )
    return parser


def add_files(parser: argparse.ArgumentParser) -> None:
    """The argument that both commands have."""
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="a file of resources, a directory of them, or - for standard input"
    )


def files_of(paths: Sequence[str], environ: Mapping[str, str], stdin: BinaryIO | None) -> Files:
    """The files, or what the environment gives in their place.

    Raises:
        EnvironmentIncomplete: there are none, and the environment names no provider.
    """
    return Files(paths, stdin=stdin) if paths else Files.of_text(automatic.resources(environ))


def _ip(text: str) -> str:
    # Envoy takes no name to listen on.
    try:
        ip_address(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no IP address") from None
    return text


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if text.startswith("unix:///"):
        if len(os.fsencode(text.removeprefix("unix://"))) > _MAX_SOCKET_PATH:
            raise argparse.ArgumentTypeError(f"the path of a socket has at most {_MAX_SOCKET_PATH} bytes")
        return text
    if host and colon and port.isdecimal() and 0 < int(port) < 1 << 16:
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is no address: host:port or unix:///path is needed")


class _Translation:
    """One run."""

    def __init__(self, arguments: argparse.Namespace, environ: Mapping[str, str], out: TextIO, err: TextIO) -> None:
        self._arguments = arguments
        self._environ = environ
        self._out = out
        self._err = err
        self._errors = 0
        self._warnings = 0

    def run(self, stdin: BinaryIO | None) -> int:
        try:
            from deploy.local.compiling import Compiler  # noqa: PLC0415 - a wrong option needs none of it
            from deploy.local.output import envoy_of  # noqa: PLC0415
            from filter_config.sources.faults import Faults  # noqa: PLC0415
        except ModuleNotFoundError as error:
            return self._fail(f"{error.name} is missing: {_EXTRA}")
        arguments = self._arguments
        try:
            content = files_of(arguments.files, self._environ, stdin).read()
        except automatic.EnvironmentIncomplete as error:
            return self._fail(str(error))
        outcome = Compiler(self._environ).compile(content.texts, content.faults)
        faults = Faults()
        made = [
            (gateway, envoy_of(gateway, host=arguments.host, processor=arguments.processor, faults=faults))
            for gateway in outcome.gateways
        ]
        for fault in (*outcome.faults, *map(outcome.located, faults.closed())):
            self._tell(fault)
        if not made:
            self._errors += 1
            self._line("there is no Gateway with a route that could be served")
        try:
            self._write(made)
        except ModuleNotFoundError as error:
            return self._fail(f"{error.name} is missing: {_EXTRA}")
        except OSError as error:
            return self._fail(f"{error.filename2 or error.filename or arguments.output}: {error.strerror}")
        except ValueError as error:
            return self._fail(str(error))
        return self._verdict(len(made))

    def _write(self, made: Sequence[tuple[CompiledGateway, Gateway | None]]) -> None:
        if self._arguments.check or not made:
            return
        if self._arguments.output == _STDOUT:
            for gateway, _ in made:
                mark = f"---\n# Gateway {gateway.model.id}\n" if len(made) > 1 else ""
                self._out.write(mark + gateway.payload.decode())
            return
        from deploy.local.output import directories, write_gateway  # noqa: PLC0415 - see run

        places = directories(Path(self._arguments.output), [gateway for gateway, _ in made])
        for gateway, envoy in made:
            directory = places[gateway.model.id]
            write_gateway(directory, gateway, envoy)
            self._err.write(f"Gateway {gateway.model.id}: {directory}\n")

    def _tell(self, fault: Fault) -> None:
        if fault.severity == "error":
            self._errors += 1
        else:
            self._warnings += 1
        self._err.write(f"{fault}\n")

    def _verdict(self, gateways: int) -> int:
        if self._errors or self._warnings or self._arguments.check:
            counts = [counted(self._errors, "error"), counted(self._warnings, "warning"), counted(gateways, "gateway")]
            self._line(", ".join(counts))
        return 1 if self._errors else 0

    def _fail(self, message: str) -> int:
        self._line(message)
        return 1

    def _line(self, message: str) -> None:
        self._err.write(f"{_PROG}: {message}\n")


def counted(number: int, noun: str) -> str:
    """``1 error``, ``2 errors``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
