"""Request paths."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointPrefixes:
    """The path prefix of each family of client APIs (contract, prefix rules 5.2)."""

    openai: str = "/"
    cohere: str = "/cohere"
    anthropic: str = "/anthropic"


# Parts come from flags and from the filter config, so there are few.
@lru_cache(maxsize=1024)
def join_path(*parts: str) -> str:
    """Join into one absolute path: no doubled slash, no dot segment, no slash at the end."""
    return posixpath.normpath("/" + "/".join(part.strip("/") for part in parts if part.strip("/")))
