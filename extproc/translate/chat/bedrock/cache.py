"""Cache points of a Converse request: one stands after each element that the client marks (contract, chat 2.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import UNSET

from extproc.errors import UnprocessableRequest
from extproc.translate.chat.bedrock import wire

MAX_CACHE_POINTS: Final = 4
"""Bedrock's limit for one request; with more, the service refuses it (Bedrock user guide, prompt caching)."""

_TTLS: Final = frozenset({"5m", "1h"})


class _CacheControl(Protocol):
    @property
    def ttl(self) -> str | None: ...


class _Cacheable(Protocol):
    @property
    def cache_control(self) -> _CacheControl | None: ...

    @property
    def cached(self) -> bool: ...


def cache_point(marked: _Cacheable, where: str) -> list[wire.CachePointBlock]:
    """What to put after ``marked``: a point, or nothing.

    Raises:
        UnprocessableRequest: the provider has no such lifetime.
    """
    control = marked.cache_control
    if control is None or not marked.cached:
        return []
    if control.ttl and control.ttl not in _TTLS:
        raise UnprocessableRequest(f"{where}.cache_control.ttl must be one of 5m, 1h for AWSBedrock backends")
    return [wire.CachePointBlock(wire.CachePoint(ttl=control.ttl or UNSET))]


def limit_cache_points(
    tools: list[wire.ToolBlock], system: list[wire.Text | wire.CachePointBlock], messages: list[wire.Message]
) -> None:
    """Take out points until the service's limit is kept.

    A point caches all that stands before it in the prompt, which begins with the tools, then system, then messages. So
    the last ones are worth most; but those at the end of tools and of system stay, as other conversations share what
    they cache.
    """
    contents = [message.content for message in messages]
    lists: list[Sequence[object]] = [tools, system, *contents]
    points = [id(block) for blocks in lists for block in blocks if _is_point(block)]
    if len(points) <= MAX_CACHE_POINTS:
        return
    shared = [at for blocks in lists[:2] if (at := _last_point(blocks)) is not None]
    others = [at for at in points if at not in shared]
    kept = {*shared, *others[len(others) - (MAX_CACHE_POINTS - len(shared)) :]}
    tools[:] = [block for block in tools if not _is_point(block) or id(block) in kept]
    system[:] = [block for block in system if not _is_point(block) or id(block) in kept]
    for content in contents:
        content[:] = [block for block in content if not _is_point(block) or id(block) in kept]


def _is_point(block: object) -> bool:
    return isinstance(block, wire.CachePointBlock)


def _last_point(blocks: Sequence[object]) -> int | None:
    return next((id(block) for block in reversed(blocks) if _is_point(block)), None)
