"""Reads the request that is to be explained.

Either just the body, as a client's SDK would send it to ``/v1/chat/completions``, or an object that says more::

    {"path": "/v1/messages", "host": "llm.example.com", "headers": {"x-tenant": "a"}, "body": {...},
     "usage": {"input": 100, "output": 20}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import msgspec

from extproc.usage import MAX_COUNT, TokenUsage

DEFAULT_PATH: Final = "/v1/chat/completions"
COUNTS: Final = ("input", "output", "total", "cached_input", "cache_creation_input", "reasoning")


class RequestError(Exception):
    """The request cannot be read; the text says where and what would be right."""


class ExplainedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a client.

    Attributes:
        path: with its query.
        host: the Host header; may be empty.
        headers: further ones, by lower-case name.
        body: its bytes.
        usage: the tokens that costs are computed for, or ``None``.
    """

    path: str
    host: str
    headers: Mapping[str, str]
    body: bytes
    usage: TokenUsage | None = None


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    body: msgspec.Raw
    path: str = DEFAULT_PATH
    host: str = ""
    headers: dict[str, str] = {}
    usage: dict[str, int] | None = None


def read_request(data: bytes) -> ExplainedRequest:
    """Read the file of a request.

    Raises:
        RequestError: it is none.
    """
    try:
        members = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"no JSON: {error}") from error
    if not isinstance(members, dict):
        raise RequestError("must be a JSON object: a request's body, or an object with path, host, headers and body")
    if "body" not in members:
        return ExplainedRequest(path=DEFAULT_PATH, host="", headers={}, body=data)
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
    except msgspec.MsgspecError as error:
        raise RequestError(f"{error}; may have path, host, headers, body and usage") from error
    body = bytes(envelope.body)
    # A form, or another body that is no JSON, is given as text.
    if isinstance(members["body"], str):
        body = members["body"].encode()
    return ExplainedRequest(
        path=envelope.path,
        host=envelope.host,
        headers={name.lower(): value for name, value in envelope.headers.items()},
        body=body,
        usage=None if envelope.usage is None else _usage(envelope.usage),
    )


def parse_usage(text: str) -> TokenUsage:
    """Read ``input=100,output=20``.

    Raises:
        RequestError: with the part that is wrong.
    """
    counts = {}
    for part in text.split(","):
        name, equals, number = part.partition("=")
        if not equals or not number.strip().isdecimal():
            raise RequestError(f'usage: "{part.strip()}" is not name=number')
        counts[name.strip()] = int(number)
    return _usage(counts)


def _usage(counts: Mapping[str, int]) -> TokenUsage:
    for name, count in counts.items():
        if name not in COUNTS:
            raise RequestError(f'usage: "{name}" is no count; use {", ".join(COUNTS)}')
        if not 0 <= count <= MAX_COUNT:
            raise RequestError(f"usage: {name} must be between 0 and {MAX_COUNT}")
    total = counts.get("input", 0) + counts.get("output", 0)
    return TokenUsage(**{"total": total, **counts})
