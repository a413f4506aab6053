"""The responses API on backends that are reached through chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.translate.base import Factory

CARRIED: Final[Mapping[str, Factory]] = {}
"""Backend schema → translator."""
