"""What a header value can carry."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def has_control_character(text: str) -> bool:
    """Whether ``text`` holds a character that no header value may hold (RFC 9110, section 5.5)."""
    return _CONTROL.search(text) is not None
