"""Plain builtins to YAML text: block style, sorted keys, and the same text for the same value whenever it is written.

Machine-made documents have thousands of entries, for which a general emitter takes seconds. What is written here is a
small part of YAML that the readers of both versions, 1.1 and 1.2, read alike: a text is left bare only where no reader
can take it for anything else, and is quoted as in JSON everywhere else.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, TypeAlias

from filter_config.scalars import resolve_plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Value: TypeAlias = str | bool | int | Sequence["Value"] | Mapping[str, "Value"]

# Words and paths such as `ns/name`; the first character begins no number and no indicator.
_BARE: Final = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*\Z")
# What JSON leaves as it is and YAML does not print.
_UNPRINTABLE: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def dump(value: Mapping[str, Value]) -> bytes:
    """The document; an empty mapping is ``{}``."""
    return "".join(_mapping(value, "") if value else ("{}\n",)).encode()


def _mapping(value: Mapping[str, Value], indent: str) -> Iterator[str]:
    for key in sorted(value):
        yield f"{indent}{_text(key)}:"
        yield from _entry(value[key], indent)


def _entry(value: Value, indent: str) -> Iterator[str]:
    """What follows the colon of a key."""
    if isinstance(value, str | int):
        yield f" {_scalar(value)}\n"
    elif not value:
        yield " {}\n" if isinstance(value, dict) else " []\n"
    elif isinstance(value, dict):
        yield "\n"
        yield from _mapping(value, indent + "  ")
    else:
        yield "\n"
        yield from _sequence(value, indent)


def _sequence(items: Sequence[Value] | Mapping[str, Value], indent: str) -> Iterator[str]:
    for item in items:
        if isinstance(item, dict) and item:
            # The first key stands beside the dash, in place of its indentation.
            text = "".join(_mapping(item, indent + "  "))
            yield f"{indent}- {text[len(indent) + 2 :]}"
        else:
            yield f"{indent}-{''.join(_entry(item, indent + '  '))}"


def _scalar(value: str | int) -> str:
    if isinstance(value, str):
        return _text(value)
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _text(text: str) -> str:
    if _BARE.match(text) and resolve_plain(text) is text:
        return text
    return _UNPRINTABLE.sub(_escape, json.dumps(text, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
