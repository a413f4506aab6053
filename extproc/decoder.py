"""Decodes filter configs in another process, so that streams do not notice a reload.

Reading a large document keeps the interpreter busy for up to seconds. A warm worker (``python -m extproc.decoder``)
takes documents on its standard input and gives back the decoded config as MessagePack, which costs this process a few
milliseconds. The worker can be killed when a document makes it run wild, and ends by itself when this process is gone.
"""

from __future__ import annotations

import asyncio
import gc
import os
import struct
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
import structlog

from extproc.priority import give_way
from filter_config.load import Decoded, Problem, decode
from filter_config.model import Config
from filter_config.problems import Findings
from filter_config.redact import Secret, dec_hook
from filter_config.validate import validate

_log = structlog.get_logger(__name__)

_LENGTH: Final = struct.Struct(">Q")
_READY: Final = b"decoder ready\n"
_START_TIMEOUT: Final = 30.0
_ROOT: Final = str(Path(__file__).resolve().parents[1])
_DECODER: Final = msgspec.msgpack.Decoder(tuple[Config | None, tuple[Problem, ...]], dec_hook=dec_hook)
_PLAIN: Final = msgspec.json.Decoder(Config, dec_hook=dec_hook)


class DecoderFailed(Exception):
    """The document could not be decoded for a reason that may not be the document's; trying again makes sense."""


class Decoder:
    """A worker process that decodes one document at a time.

    Args:
        timeout: seconds that one document may take before the worker is killed.
    """

    def __init__(self, *, timeout: float = 60.0) -> None:
        self._timeout = timeout
        self._worker: Process | None = None
        self._turn = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """Process id of the worker, if it runs."""
        return self._worker.pid if self._worker is not None and self._worker.returncode is None else None

    async def warm_up(self) -> None:
        """Start the worker now rather than with the first document."""
        async with self._turn:
            await self._running_worker()

    async def decode(self, data: bytes) -> Decoded:
        """Decode a document; in this process where no worker can be started.

        Raises:
            DecoderFailed: the worker died over the document twice, or took too long.
        """
        async with self._turn:
            for _ in range(2):
                worker = await self._running_worker()
                if worker is None:
                    _log.warning("no decoder process; decoding in the serving process")
                    return decode_quickly(data)
                try:
                    async with asyncio.timeout(self._timeout):
                        return await _ask(worker, data)
                except TimeoutError as error:
                    await self._kill()
                    raise DecoderFailed(f"decoding took longer than {self._timeout:g} s") from error
                except asyncio.CancelledError:
                    # Its answer would be taken for that of the next document.
                    await self._kill()
                    raise
                except (OSError, asyncio.IncompleteReadError) as error:
                    # It may have died for want of memory, so the serving process must not try this document.
                    _log.warning("decoder process died", error=str(error))
                    await self._kill()
            raise DecoderFailed("the decoder process died over the document")

    async def close(self) -> None:
        """Stop the worker."""
        async with self._turn:
            await self._kill()

    async def _running_worker(self) -> Process | None:
        if self.pid is None:
            await self._kill()
            self._worker = await _start()
        return self._worker

    async def _kill(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await _end(worker)


async def _start() -> Process | None:
    path = os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH"))))
    try:
        worker = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "extproc.decoder",
            stdin=PIPE,
            stdout=PIPE,
            env={**os.environ, "PYTHONPATH": path},
            # A Ctrl-C in the terminal is for the process that serves.
            start_new_session=True,
        )
    except OSError as error:
        _log.warning("cannot start the decoder process", error=str(error))
        return None
    greeting = b""
    try:
        assert worker.stdout is not None
        async with asyncio.timeout(_START_TIMEOUT):
            greeting = await worker.stdout.readline()
    except TimeoutError:
        _log.warning("the decoder process does not start")
    finally:
        if greeting != _READY:
            await _end(worker)
    return worker if greeting == _READY else None


async def _end(worker: Process) -> None:
    assert worker.stdin is not None
    worker.stdin.close()
    with suppress(ProcessLookupError):
        worker.kill()
    await worker.wait()


async def _ask(worker: Process, data: bytes) -> Decoded:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(_LENGTH.pack(len(data)))
    worker.stdin.write(data)
    await worker.stdin.drain()
    (length,) = _LENGTH.unpack(await worker.stdout.readexactly(_LENGTH.size))
    config, problems = _DECODER.decode(await worker.stdout.readexactly(length))
    return Decoded(config=config, problems=problems)


def _reveal(value: object) -> str:
    if isinstance(value, Secret):
        return value.reveal()
    raise NotImplementedError(f"cannot encode {type(value).__name__}")


def decode_quickly(data: bytes) -> Decoded:
    """What ``decode`` gives, in a third of the time where the document is JSON just as we would write it.

    Such a document has no key that is unknown, repeated or spelt in another way, and no value of another type: a reader
    that tolerates all of these has nothing to add.
    """
    if not data.startswith(b"{"):
        return decode(data)
    try:
        config = _PLAIN.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return decode(data)
    if msgspec.json.encode(config, enc_hook=_reveal) != data:
        return decode(data)
    findings = Findings()
    config = validate(config, findings)
    return Decoded(config=None if findings.refused else config, problems=findings.closed())


def work(source: BinaryIO, sink: BinaryIO) -> None:
    """Decode every document of ``source`` until it ends; the life of the worker process."""
    encoder = msgspec.msgpack.Encoder(enc_hook=_reveal)
    sink.write(_READY)
    sink.flush()
    while len(header := source.read(_LENGTH.size)) == _LENGTH.size:
        decoded = decode_quickly(source.read(*_LENGTH.unpack(header)))
        reply = encoder.encode((decoded.config, decoded.problems))
        sink.write(_LENGTH.pack(len(reply)))
        sink.write(reply)
        sink.flush()
        del decoded, reply
        gc.collect()


def main() -> None:
    give_way()
    # Nobody waits for what comes after an answer.
    gc.disable()
    try:
        work(sys.stdin.buffer, sys.stdout.buffer)
    except BrokenPipeError:
        # The processor has gone. Nobody is left to tell, and the interpreter must not try it at its last flush.
        os._exit(0)


if __name__ == "__main__":
    main()
