"""The messages API on Amazon Bedrock's Converse API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.translate.base import Factory

BEDROCK: Final[Mapping[str, Factory]] = {}
"""Backend schema → translator."""
