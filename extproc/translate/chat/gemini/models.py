"""What a Gemini model can do, read from its name (contract, chat 9.3).

The version is parsed: a ``3`` in a build number (``gemini-1.5-pro-003``) or a date says nothing about it. A name
without a version, such as ``gemini-flash-latest`` or a tuned one, gets what every model understands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# A build (`-001`) has three digits, a date of an experiment (`-exp-1206`) four.
_VERSION = re.compile(r"gemini-?(?:[a-z]+-)*(\d{1,2})(?:\.(\d{1,2}))?(?!\d)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiModel:
    """Args: ``version``: major and minor; (0, 0) when the name does not say."""

    version: tuple[int, int]
    is_flash: bool

    @classmethod
    def named(cls, name: str) -> GeminiModel:
        match = _VERSION.search(name)
        version = (int(match[1]), int(match[2] or 0)) if match else (0, 0)
        return cls(version=version, is_flash="flash" in name.lower())

    @property
    def takes_json_schema(self) -> bool:
        """Schemas are taken as they are; older models have a dialect of their own."""
        return self.version >= (2, 5)

    @property
    def takes_media_resolution(self) -> bool:
        return self.version >= (3, 0)

    @property
    def takes_thinking_level(self) -> bool:
        return self.version >= (3, 0)
