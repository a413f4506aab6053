"""The command ``extproc explain``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final, NoReturn

import msgspec

from extproc.explain.request import ExplainedRequest, RequestError, parse_usage, read_request
from extproc.explain.text import as_document, as_text
from extproc.explain.walk import Explanation, explain
from filter_config.sources.envoy_ai_gateway.compiler import CompiledGateway, compile_files
from filter_config.sources.model import Listener
from filter_config.sources.routing import listeners_for

OK: Final = 0
REFUSED: Final = 1
USAGE: Final = 2

_SERVED: Final = frozenset({"HTTP", "HTTPS"})


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


class _UsageError(Exception):
    """The command was called wrongly; the text says how it would be right."""


def main(argv: Sequence[str]) -> int:
    """Explain a request; 0 when a backend would be asked, 1 when the client would be refused."""
    try:
        options = _parser().parse_args(argv)
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else USAGE
    try:
        return _explain(options)
    except _UsageError as error:
        sys.stderr.write(f"extproc explain: {error}\n")
        return USAGE


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="extproc explain", description="Say what would become of a request: route, backends, upstream requests."
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="resources, as files, directories, or - for stdin")
    parser.add_argument("--request", required=True, metavar="FILE", help="the request as JSON, or - for stdin")
    parser.add_argument("--path", type=_text, help="the request's path; /v1/chat/completions if nothing says otherwise")
    parser.add_argument("--host", type=_text, help="the request's Host header")
    parser.add_argument(
        "--header", action="append", type=_text, default=[], metavar="NAME:VALUE", help="a header of the request"
    )
    parser.add_argument("--usage", metavar="input=N,output=N", help="tokens to compute the costs of")
    parser.add_argument("--gateway", metavar="NAMESPACE/NAME", help="which gateway, where the files have several")
    parser.add_argument("--listener", metavar="NAME", help="a listener of the port in question; by default the first")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    return parser


def _text(argument: str) -> str:
    try:
        argument.encode()
    except UnicodeEncodeError as error:
        raise argparse.ArgumentTypeError("is no UTF-8") from error
    return argument


def _explain(options: argparse.Namespace) -> int:
    if options.request == "-" and "-" in options.files:
        raise _UsageError("the request and the resources cannot both come from stdin")
    request = _request(options)
    compiled = compile_files(options.files, stdin=_stdin(), environ=os.environ)
    for fault in compiled.faults:
        sys.stderr.write(f"{fault}\n")
    gateway = _gateway(compiled.gateways, options.gateway)
    listeners = _listeners(gateway.model.listeners, options.listener, request.host)
    explanation = explain(gateway.model, gateway.config, request, listeners=listeners)
    if options.json:
        _print(json.dumps(as_document(explanation), indent=2, ensure_ascii=False) + "\n")
    else:
        _print(as_text(explanation))
    return OK if _is_served(explanation) else REFUSED


def _print(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _UsageError(f"the standard output cannot be written: {error.strerror}") from error


def _is_served(explanation: Explanation) -> bool:
    return any(upstream.share and upstream.refusal is None for upstream in explanation.upstreams)


def _stdin() -> BinaryIO | None:
    """The standard input, unless a shell has closed it."""
    return sys.stdin.buffer if sys.stdin is not None else None


def _read_stdin() -> bytes:
    stdin = _stdin()
    if stdin is None:
        raise _UsageError("-: there is no standard input here; name a file")
    return stdin.read()


def _request(options: argparse.Namespace) -> ExplainedRequest:
    name = options.request
    try:
        data = _read_stdin() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise _UsageError(f"{name}: {error.strerror}") from error
    try:
        request = read_request(data)
        name = "--usage"
        usage = parse_usage(options.usage) if options.usage else request.usage
    except RequestError as error:
        raise _UsageError(f"{name}: {error}") from error
    return msgspec.structs.replace(
        request,
        path=options.path or request.path,
        host=options.host or request.host,
        headers={**request.headers, **dict(map(_header, options.header))},
        usage=usage,
    )


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise _UsageError(f'--header "{text}" is not NAME:VALUE')
    return name.strip().lower(), value.strip()


def _gateway(gateways: Sequence[CompiledGateway], wanted: str | None) -> CompiledGateway:
    found = [gateway for gateway in gateways if wanted in (None, gateway.model.id, gateway.model.name)]
    names = ", ".join(gateway.model.id for gateway in gateways)
    match found:
        case [gateway]:
            return gateway
        case []:
            there = f"there are {names}" if names else "the files have none with a route"
            raise _UsageError(f"no gateway {wanted}; {there}" if wanted else "the files have no gateway with a route")
        case _:
            raise _UsageError(f"several gateways, name one with --gateway: {names}")


def _listeners(listeners: Sequence[Listener], wanted: str | None, host: str) -> list[Listener]:
    """Those that take the request: of a port the nearest to the host. The port is that of the one that is wanted."""
    served = [listener for listener in listeners if listener.protocol in _SERVED]
    chosen = [listener for listener in served if wanted in (None, listener.name)]
    if not chosen:
        raise _UsageError(f"no listener {wanted}; there are {', '.join(listener.name for listener in served)}")
    alike = [listener for listener in served if listener.port == chosen[0].port]
    # Who names no host asks about the listener itself.
    return listeners_for(alike, host or (chosen[0].hostname if wanted else "") or _any_host(alike))


def _any_host(listeners: Sequence[Listener]) -> str:
    """A host that some listener takes: any, where one takes any."""
    return "" if any(not listener.hostname for listener in listeners) else listeners[0].hostname
