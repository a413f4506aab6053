"""Tokenize on every kind of backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.translate.base import Factory

TOKENIZE: Final[Mapping[str, Factory]] = {}
"""Backend schema → translator."""
