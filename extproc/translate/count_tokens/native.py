"""Token counting where Claude is: first-party, on Vertex AI and on Amazon Bedrock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.translate.base import Factory

NATIVE: Final[Mapping[str, Factory]] = {}
"""Backend schema → translator."""
