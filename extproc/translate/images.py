"""Images on backends of OpenAI's API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.translate.base import Factory

GENERATIONS: Final[Mapping[str, Factory]] = {}
"""Backend schema → translator."""

EDITS: Final[Mapping[str, Factory]] = {}
