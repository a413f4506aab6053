"""A health check of a server by itself, over a connection like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from hpack import Decoder, Encoder, HPACKError

from extproc.transport.base import HealthCheckError
from extproc.transport.http2.frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME,
    GOAWAY,
    HEADER_SIZE,
    HEADERS,
    MAX_STREAM_ID,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    frame,
)
from protos.health_pb2 import HealthCheckResponse

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]

_STREAM: Final = 1
_REQUEST: Final = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/grpc.health.v1.Health/Check"),
    (":authority", "localhost"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),  # codespell:ignore te
)
_EMPTY_MESSAGE: Final = b"\0\0\0\0\0"


class HealthProbe:
    """Asks a server for its health as Envoy would.

    Args:
        connect: opens a connection to it.
        timeout: seconds to wait for the answer.
    """

    def __init__(self, connect: Connect, *, timeout: float = 1.0) -> None:
        self._connect = connect
        self._timeout = timeout

    async def __call__(self) -> str:
        """Return the name of the status, ``SERVING`` for instance.

        Raises:
            HealthCheckError: there was no answer.
        """
        try:
            async with asyncio.timeout(self._timeout):
                return await self._ask()
        except TimeoutError as error:
            raise HealthCheckError("rpc error: code = DeadlineExceeded desc = no answer in time") from error
        except (OSError, EOFError, HPACKError) as error:
            raise HealthCheckError(f"rpc error: code = Unavailable desc = {error}") from error

    async def close(self) -> None:
        """Every check has a connection of its own, which is closed with it."""

    async def _ask(self) -> str:
        reader, writer = await self._connect()
        try:
            writer.write(PREFACE + frame(SETTINGS, 0, 0))
            writer.write(frame(HEADERS, END_HEADERS, _STREAM, Encoder().encode(_REQUEST, huffman=False)))
            writer.write(frame(DATA, END_STREAM, _STREAM, _EMPTY_MESSAGE))
            return await self._answer(reader, writer)
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        decoder, message = Decoder(), b""
        while True:
            word, flags, stream_id = FRAME.unpack(await reader.readexactly(HEADER_SIZE))
            payload = await reader.readexactly(word >> 8)
            kind = word & 0xFF
            if kind == SETTINGS and not flags & ACK:
                writer.write(frame(SETTINGS, ACK, 0))
            elif kind == GOAWAY or (kind == RST_STREAM and stream_id & MAX_STREAM_ID == _STREAM):
                raise EOFError("the server ended the call")
            elif kind == DATA:
                message += payload
            elif kind == HEADERS:
                fields = dict(decoder.decode(payload, raw=True))
                if flags & END_STREAM:
                    return _status(fields, message)


def _status(fields: dict[bytes, bytes], message: bytes) -> str:
    code = fields.get(b"grpc-status", b"missing")
    if code != b"0":
        text = fields.get(b"grpc-message", b"")
        raise HealthCheckError(f"rpc error: code = {code.decode()} desc = {text.decode()}")
    response = HealthCheckResponse.FromString(message[len(_EMPTY_MESSAGE) :])
    return HealthCheckResponse.ServingStatus.Name(response.status)
