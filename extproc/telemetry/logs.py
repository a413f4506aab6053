"""Log lines as the peer writes them: text or JSON on stderr, one line each (contract, log formats 1.10).

Modules log through ``structlog.get_logger(__name__)`` with a constant event and fields. Redaction happens here, at the
sink, so that no call site can forget it.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Callable, Mapping, MutableMapping
from datetime import datetime
from typing import Any, Final, Literal, TextIO

import msgspec
import structlog

from extproc.golang import quote
from extproc.telemetry.levels import level_name, method_level, threshold
from extproc.telemetry.redaction import redact_tree

Format = Literal["text", "json"]
Clock = Callable[[], datetime]

_PLAIN: Final = frozenset(chr(code) for code in range(0x21, 0x80)) - {'"', "="}


def configure(level: int, style: str, *, stream: TextIO | None = None, clock: Clock | None = None) -> None:
    """Send every log line of the process, those of libraries too, to ``stream`` (stderr).

    Args:
        level: as of ``parse_level``; lower lines are dropped before their fields are looked at.
        style: ``json``, or text for anything else.
        stream: where lines go.
        clock: the local time with its zone.
    """
    render = _json if style == "json" else _text
    write = (stream or sys.stderr).write
    lowest = threshold(level)

    def sink(_: object, method: str, event: MutableMapping[str, Any]) -> str:
        now = clock() if clock else datetime.now().astimezone()
        return render(now, level_name(method_level(method)), event)

    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, _stack, _redact, sink],
        wrapper_class=structlog.make_filtering_bound_logger(min(lowest, logging.CRITICAL)),
        logger_factory=lambda *_: _Writer(write),
        cache_logger_on_first_use=True,
    )
    _bridge_libraries(lowest)


class _Writer:
    """What structlog calls with a finished line; every level writes alike."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def msg(self, line: str) -> None:
        self._write(line)

    debug = info = warning = error = critical = msg


def _stack(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Turn ``exc_info`` into one field; the line stays one line."""
    info = event.pop("exc_info", None)
    if info is True:
        info = sys.exc_info()
    elif isinstance(info, BaseException):
        info = (type(info), info, info.__traceback__)
    if info and info[1] is not None:
        event["stack"] = "".join(traceback.format_exception(*info)).rstrip()
    return event


def _redact(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    clean = redact_tree(event)
    assert isinstance(clean, dict)
    return clean


def _text(now: datetime, level: str, event: Mapping[str, Any]) -> str:
    stamp = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    fields = "".join(f" {_quoted(key)}={_quoted(_shown(value))}" for key, value in event.items() if key != "event")
    return f"time={stamp} level={level} msg={_quoted(str(event.get('event', '')))}{fields}\n"


def _quoted(text: str) -> str:
    if text and _PLAIN.issuperset(text):
        return text
    plain = text and all(char in _PLAIN or (ord(char) > 0x7F and char.isprintable()) for char in text)
    return text if plain else quote(text)


def _shown(value: object) -> str:
    match value:
        case str():
            return value
        case None:
            return "<nil>"
        case bool():
            return str(value).lower()
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case list():
            return f"[{' '.join(map(_shown, value))}]"
        case dict():
            return f"map[{' '.join(f'{key}:{_shown(item)}' for key, item in value.items())}]"
        case _:
            return str(value)


def _json(now: datetime, level: str, event: Mapping[str, Any]) -> str:
    stamp = now.isoformat().replace("+00:00", "Z")
    line = {"time": stamp, "level": level, "msg": event.get("event", "")}
    line |= {key: value for key, value in event.items() if key != "event"}
    try:
        return msgspec.json.encode(line, enc_hook=_shown).decode() + "\n"
    except UnicodeEncodeError:
        # Half a surrogate pair in a text: escaped it is still JSON, and no line may be lost.
        return json.dumps(line, default=_shown) + "\n"


class _Bridge(logging.Handler):
    """Hands the lines of libraries that use the standard ``logging`` to the same sink."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(record.name)
        method = "error" if record.levelno >= logging.ERROR else "warning"
        getattr(log, method)(record.getMessage(), logger=record.name, exc_info=record.exc_info)


def _bridge_libraries(lowest: int) -> None:
    root = logging.getLogger()
    root.handlers = [_Bridge()]
    # Below WARNING, libraries talk about themselves.
    root.setLevel(max(lowest, logging.WARNING))
