"""The command line grammar of Go's ``flag`` package (contract, flag parser rules 1.1).

A controller passes values as separate arguments that may be empty or start with ``-``, so no parser that guesses
which arguments are options may see them; this one knows from its table which flags take a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from extproc.golang import parse_bool, parse_duration, parse_int, quote
from filter_config.redact import Secret


class Kind(StrEnum):
    """What a flag's text means. The value is the word for it in the help text."""

    TEXT = "string"
    OPTIONAL_TEXT = "optional string"
    SECRET = "secret string"  # noqa: S105 - the word for it
    SWITCH = "bool"
    INTEGER = "int"
    DURATION = "duration"
    SECONDS = "seconds"
    MODE = "file mode"


class FlagError(ValueError):
    """The command line breaks the grammar; the text is what Go's ``flag`` package would say."""


class HelpRequested(FlagError):
    """``-h`` or ``-help``: show the usage text."""

    def __init__(self) -> None:
        super().__init__("flag: help requested")


class UnknownFlag(FlagError):
    """Args: ``name``: the flag as it was written, without dashes."""

    def __init__(self, name: str) -> None:
        super().__init__(f"flag provided but not defined: -{name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag: the field that it fills and how its text is read."""

    field: str
    kind: Kind

    @property
    def camel(self) -> str:
        """The peer's spelling, ``configPath``."""
        head, *tail = self.field.split("_")
        return head + "".join(word.capitalize() for word in tail)

    @property
    def kebab(self) -> str:
        """The spelling of GNU tools, ``config-path``."""
        return self.field.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment variable, ``EXTPROC_CONFIG_PATH``."""
        return f"EXTPROC_{self.field.upper()}"


def parse_flags(argv: Sequence[str], flags: Sequence[Flag]) -> tuple[dict[str, object], tuple[str, ...]]:
    """The values given on a command line, by field, and the arguments that were not read.

    The last one of a repeated flag wins. Reading stops at the first argument that is not a flag, or after ``--``.

    Raises:
        FlagError: unknown flag, missing or malformed value, or a request for help.
    """
    table = {spelling: flag for flag in flags for spelling in (flag.camel, flag.kebab)}
    given: dict[str, object] = {}
    rest = list(reversed(argv))
    while rest:
        argument = rest.pop()
        if argument == "--":
            break
        if len(argument) < 2 or not argument.startswith("-"):
            rest.append(argument)
            break
        name, separator, text = _split(argument)
        flag = _find(name, table)
        if flag.kind is Kind.SWITCH:
            given[flag.field] = _switch(name, text) if separator else True
            continue
        if not separator:
            if not rest:
                raise FlagError(f"flag needs an argument: -{name}")
            text = rest.pop()
        given[flag.field] = convert(flag.kind, text, f"flag -{name}")
    return given, tuple(reversed(rest))


def _split(argument: str) -> tuple[str, str, str]:
    body = argument[2:] if argument.startswith("--") else argument[1:]
    if body.startswith(("-", "=")):
        raise FlagError(f"bad flag syntax: {argument}")
    return body.partition("=")


def _find(name: str, table: Mapping[str, Flag]) -> Flag:
    flag = table.get(name)
    if flag is None:
        raise HelpRequested if name in ("h", "help") else UnknownFlag(name)
    return flag


def _switch(name: str, text: str) -> bool:
    try:
        return parse_bool(text)
    except ValueError as error:
        raise FlagError(f"invalid boolean value {quote(text)} for -{name}: {error}") from error


def convert(kind: Kind, text: str, where: str) -> object:
    """The value that ``text`` means for a flag of ``kind``.

    Raises:
        FlagError: it means none; ``where`` says which flag or variable was wrong.
    """
    try:
        return _READERS[kind](text)
    except ValueError as error:
        raise FlagError(f"invalid value {quote(text)} for {where}: {error}") from error


def _seconds(text: str) -> float:
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text, re.ASCII):
        return float(text)
    return parse_duration(text)


def _mode(text: str) -> int:
    if re.fullmatch(r"(0o)?[0-7]{3,4}", text, re.ASCII) is None:
        raise ValueError("parse error")
    return int(text.removeprefix("0o"), 8)


_READERS: Final[dict[Kind, Callable[[str], object]]] = {
    Kind.TEXT: str,
    Kind.OPTIONAL_TEXT: str,
    Kind.SECRET: Secret,
    Kind.SWITCH: parse_bool,
    Kind.INTEGER: parse_int,
    Kind.DURATION: parse_duration,
    Kind.SECONDS: _seconds,
    Kind.MODE: _mode,
}


def pairs(text: str, what: str, form: str) -> Iterator[tuple[int, str, str, str]]:
    """Read a flag's ``left:right[,left:right…]``, split at the first colon of each and trimmed.

    Args:
        text: the value of the flag.
        what: what errors call a pair.
        form: what errors say that a pair looks like.

    Yields:
        Position counted from 1, the whole pair, its left and its right side.

    Raises:
        ValueError: a pair is empty, or has no colon.
    """
    for position, raw in enumerate(text.split(","), 1):
        pair = raw.strip()
        if not pair:
            raise ValueError(f"empty {what} pair at position {position}")
        left, colon, right = (part.strip() for part in pair.partition(":"))
        if not colon:
            raise ValueError(f"invalid {what} pair at position {position}: {quote(pair)} (expected format: {form})")
        yield position, pair, left, right
