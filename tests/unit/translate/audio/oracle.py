"""Judges requests for sound as OpenAI would: by the types of its own SDK."""

from __future__ import annotations

import json

from openai.types.audio import speech_create_params, transcription_create_params, translation_create_params
from pydantic import TypeAdapter

from tests.support.forms import FormJudge

SPEECH = TypeAdapter(speech_create_params.SpeechCreateParams)
TRANSCRIPTION = FormJudge(transcription_create_params.TranscriptionCreateParamsBase, "file")
TRANSLATION = FormJudge(translation_create_params.TranslationCreateParams, "file")
_BOUNDARY = "multipart/form-data; boundary=q"


def accept_speech(path: str, body: bytes) -> None:
    """Raises when the SDK's types do not know the request, or the path is another one."""
    assert path.partition("?")[0].endswith("/audio/speech")
    SPEECH.validate_python(json.loads(body))


def accept_transcription(path: str, body: bytes) -> None:
    assert path.partition("?")[0].endswith("/audio/transcriptions")
    TRANSCRIPTION.accept(body, _BOUNDARY)


def accept_translation(path: str, body: bytes) -> None:
    assert path.partition("?")[0].endswith("/audio/translations")
    TRANSLATION.accept(body, _BOUNDARY)
