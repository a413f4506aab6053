"""Speech, transcriptions and translations on backends of OpenAI's API (contract, speech 12 and audio 13)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from extproc.translate.base import Factory
from extproc.translate.media import MediaObserver, on_openai_and_azure


class SpeechObserver(MediaObserver):
    """Of speech only events report anything; sound must never be kept."""

    def __init__(self) -> None:
        super().__init__("speech.audio.done")

    def reads(self, content_type: str) -> bool:
        # Events that are sent as plain text look like it.
        return content_type.startswith("text/")


_transcript = partial(MediaObserver, "transcript.text.done")

SPEECH: Final[Mapping[str, Factory]] = on_openai_and_azure("audio/speech", SpeechObserver)
"""Backend schema → translator."""

TRANSCRIPTIONS: Final[Mapping[str, Factory]] = on_openai_and_azure("audio/transcriptions", _transcript)

TRANSLATIONS: Final[Mapping[str, Factory]] = on_openai_and_azure("audio/translations", _transcript)
