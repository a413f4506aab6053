"""Request paths."""

from __future__ import annotations

import posixpath
from functools import lru_cache


# Parts come from flags and from the filter config, so there are few.
@lru_cache(maxsize=1024)
def join_path(*parts: str) -> str:
    """Join into one absolute path: no doubled slash, no dot segment, no slash at the end."""
    return posixpath.normpath("/" + "/".join(part.strip("/") for part in parts if part.strip("/")))
