"""Speech, transcriptions and translations on backends of OpenAI's API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.translate.base import Factory

SPEECH: Final[Mapping[str, Factory]] = {}
"""Backend schema → translator."""

TRANSCRIPTIONS: Final[Mapping[str, Factory]] = {}

TRANSLATIONS: Final[Mapping[str, Factory]] = {}
