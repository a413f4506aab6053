"""Log levels in the peer's notation: a name and an offset, ``info+2`` (contract, validation 1.3)."""

from __future__ import annotations

import logging
import re
from typing import Final

from extproc.golang import quote

DEBUG: Final = -4

# Go's slog numbers its levels in steps of 4 from INFO = 0, Python's logging in steps of 10 from INFO = 20.
_NAMES: Final = {"DEBUG": -4, "INFO": 0, "WARN": 4, "ERROR": 8}
_STANDARD: Final = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
_METHODS: Final = {"debug": -4, "info": 0, "warning": 4, "warn": 4, "error": 8, "exception": 8, "critical": 12}


def parse_level(text: str) -> int:
    """The level that ``text`` names, where 0 is INFO and names are four apart.

    Raises:
        ValueError: in the peer's words.
    """
    match = re.match(r"[^+-]*", text)
    name = match[0] if match else ""
    offset = text[len(name) :]
    if offset and re.fullmatch(r"[+-][0-9]+", offset, re.ASCII) is None:
        raise ValueError(f"slog: level string {quote(text)}: strconv.Atoi: parsing {quote(offset)}: invalid syntax")
    base = _NAMES.get(name.upper())
    if base is None:
        raise ValueError(f"slog: level string {quote(text)}: unknown name")
    return base + int(offset or 0)


def level_name(level: int) -> str:
    """How a level is printed: the name at or below it, and the distance."""
    name, base = "DEBUG", _NAMES["DEBUG"]
    for candidate, value in _NAMES.items():
        if level >= value:
            name, base = candidate, value
    return name if level == base else f"{name}{level - base:+d}"


def method_level(method: str) -> int:
    """The level of a logger's method, ``warning`` for instance."""
    return _METHODS.get(method, 0)


def threshold(level: int) -> int:
    """The lowest level of Python's ``logging`` that passes ``level``.

    Lines are only ever written at the named levels, so a level between two of them filters like the upper one.
    """
    wanted = logging.INFO + level * 10 / 4
    return next((standard for standard in _STANDARD if standard >= wanted), logging.CRITICAL + 10)
