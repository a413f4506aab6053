"""The choice of an engine. Only the one that is chosen is imported: grpcio is large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from extproc.transport.base import Processor, Server
from extproc.transport.tls import TlsFiles, server_context


class _Engine(Protocol):
    def __call__(
        self, processor: Processor, *, is_serving: Callable[[], bool], max_message: int, tls: TlsFiles | None
    ) -> Server: ...


def _http2(processor: Processor, *, is_serving: Callable[[], bool], max_message: int, tls: TlsFiles | None) -> Server:
    from extproc.transport.http2.server import Http2Server  # noqa: PLC0415 - see above

    context = None if tls is None else server_context(tls)
    return Http2Server(processor, is_serving=is_serving, max_message=max_message, tls=context)


def _grpcio(processor: Processor, *, is_serving: Callable[[], bool], max_message: int, tls: TlsFiles | None) -> Server:
    from extproc.transport.grpc_aio import GrpcServer  # noqa: PLC0415 - see above

    assert tls is None, "refused by the settings"
    return GrpcServer(processor, is_serving=is_serving, max_message=max_message)


# By the values of the setting `transport`.
ENGINES: Final[dict[str, _Engine]] = {"grpcio": _grpcio, "http2": _http2}
