"""The error shape of Cohere's API."""

from __future__ import annotations

import msgspec

from extproc.errors import ClientError


class _ErrorBody(msgspec.Struct, frozen=True):
    message: str


_encode = msgspec.json.Encoder().encode


def error_body(message: str) -> bytes:
    """An error of Cohere's API: its status says what kind it is, the body why (contract, local error body 1.4)."""
    return _encode(_ErrorBody(message))


def client_error_body(error: ClientError) -> bytes:
    return error_body(str(error))
