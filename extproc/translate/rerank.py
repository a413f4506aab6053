"""Rerank on backends of Cohere's API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.translate.base import Factory

RERANK: Final[Mapping[str, Factory]] = {}
"""Backend schema → translator."""
