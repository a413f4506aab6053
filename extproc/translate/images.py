"""Images on backends of OpenAI's API (contract, images 11)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from extproc.translate.base import Factory
from extproc.translate.media import MediaObserver, on_openai_and_azure

GENERATIONS: Final[Mapping[str, Factory]] = on_openai_and_azure(
    "images/generations", partial(MediaObserver, "image_generation.completed")
)
"""Backend schema → translator."""

EDITS: Final[Mapping[str, Factory]] = on_openai_and_azure(
    "images/edits", partial(MediaObserver, "image_edit.completed")
)
