"""What Envoy would refuse in a match: one bad expression refuses a whole configuration, so it is found before."""

from __future__ import annotations

import re
from typing import Final

from filter_config.sources.model import Match
from filter_config.sources.routing import pattern_problem

_HEADER_NAME: Final = re.compile(r":?[0-9a-zA-Z!#$%&'*+\-.^_|~`]+\Z")
_PATH_PREFIX: Final = re.compile(r"/[^?#\x00\r\n]*\Z")


def match_problem(match: Match) -> str:
    """Why Envoy would not take a match; empty: it does."""
    if not _PATH_PREFIX.match(match.path_prefix):
        return f"{match.path_prefix!r} is no prefix of a path"
    for header in match.headers:
        problem = header_problem(header.name, header.value if header.kind == "regex" else "")
        if problem:
            return problem
    return ""


def header_problem(name: str, pattern: str) -> str:
    """Why Envoy would not take the name of a header, or a pattern that its value is to match; empty: it does."""
    if not _HEADER_NAME.match(name):
        return f"{name!r} is no name of a header"
    reason = pattern_problem(pattern)
    return f"header {name}: {pattern!r} is no regular expression: {reason}" if reason else ""
