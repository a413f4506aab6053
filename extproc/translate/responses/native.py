"""The responses API on backends that speak it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.translate.base import Factory

NATIVE: Final[Mapping[str, Factory]] = {}
"""Backend schema → translator."""

INPUT_TOKENS: Final[Mapping[str, Factory]] = {}
