"""Token counting where other models are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.translate.base import Factory

OTHERS: Final[Mapping[str, Factory]] = {}
"""Backend schema → translator."""
