"""JSON Patch (RFC 6902): the few operations that add to a pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Operation: TypeAlias = dict[str, Any]


def pointer(*tokens: str | int) -> str:
    """The JSON Pointer (RFC 6901) of a path."""
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)


def append(path: str, existing: Sequence[Any] | None, items: Sequence[Any]) -> Iterator[Operation]:
    """Items at the end of a list, which there may not be yet."""
    if not items:
        return
    if existing is None:
        yield _add(path, list(items))
    else:
        yield from (_add(f"{path}/-", item) for item in items)


def put(path: str, existing: Mapping[str, Any] | None, key: str, value: Any) -> Iterator[Operation]:  # noqa: ANN401 - any JSON
    """A member of an object, which there may not be yet."""
    if existing is None:
        yield _add(path, {key: value})
    elif existing.get(key) != value:
        yield _add(path + pointer(key), value)


def _add(path: str, value: Any) -> Operation:  # noqa: ANN401 - any JSON
    return {"op": "add", "path": path, "value": value}
