"""``python -m deploy.extension_server``: the hooks for resources that are in files, where there is no cluster.

The files are read again for each hook, and compiled again when they have changed. SIGTERM and SIGINT end it in order.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence

from deploy.extension_server.knowledge import Snapshot
from deploy.extension_server.options import Options
from deploy.extension_server.server import DEFAULT_ADDRESS, DEFAULT_MAX_MESSAGE, ExtensionServer, ListenFailed, serve
from deploy.local.compiling import Compiler
from deploy.local.files import Content, Files


class FileKnowledge:
    """The knowledge that is in files of resources; errors in them go to standard error when they are new."""

    def __init__(self, files: Files, environ: Mapping[str, str]) -> None:
        self._files = files
        self._compiler = Compiler(environ)
        self._content: Content | None = None
        self._snapshot = Snapshot()

    def __call__(self) -> Snapshot:
        """What the files say now."""
        content = self._files.read() if self._content is None else self._files.read_settled(self._content)
        if self._content is None or content.by_name != self._content.by_name:
            outcome = self._compiler.compile(content.texts, content.faults)
            for fault in outcome.faults:
                sys.stderr.write(f"{fault}\n")
            self._snapshot = Snapshot(made.model for made in outcome.gateways)
            self._content = content
        return self._snapshot


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="extension_server", description=__doc__)
    parser.add_argument("files", nargs="+", help="files of resources, or directories of them")
    parser.add_argument("--address", default=DEFAULT_ADDRESS, help="host:port to listen on (default: %(default)s)")
    parser.add_argument(
        "--max-recv-msg-size",
        type=int,
        default=DEFAULT_MAX_MESSAGE,
        help="largest request in bytes, 0 for no limit (default: %(default)s)",
    )
    parser.add_argument(
        "--no-endpoints-hook", action="store_true", help="Envoy Gateway does not call PostEndpointsModify"
    )
    return parser


async def _run(arguments: argparse.Namespace) -> None:
    knowledge = FileKnowledge(Files(arguments.files), os.environ)
    options = Options(standalone=True, endpoints_hook=not arguments.no_endpoints_hook)
    server = ExtensionServer(knowledge, options, max_message=arguments.max_recv_msg_size)
    port = server.listen(arguments.address)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    # What is wrong with the files is told at once, and not with the first hook.
    await asyncio.to_thread(knowledge)
    sys.stdout.write(f"listening on port {port}\n")
    sys.stdout.flush()
    await serve(server, stopped)


def main(argv: Sequence[str] | None = None) -> int:
    """Run until told to stop; gives the exit status."""
    arguments = _parser().parse_args(argv)
    try:
        asyncio.run(_run(arguments))
    except ListenFailed as error:
        sys.stderr.write(f"extension_server: {error}\n")
        return 1
    return 0
