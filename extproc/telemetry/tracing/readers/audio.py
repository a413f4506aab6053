"""Reads speech, transcriptions and translations (contract, speech 12 and audio 13).

Sound is counted and never held.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from extproc.formats.sse import SSEEvent, SSEReader
from extproc.telemetry.tracing.base import AnswerReader, TracedRequest
from extproc.telemetry.tracing.readers.answers import MAX_CAPTURED, Budget, Text
from extproc.telemetry.tracing.readers.chat import audio_tokens
from extproc.telemetry.tracing.readers.lenient import (
    Members,
    as_number,
    as_objects,
    as_text,
    decoded,
    members_of,
    object_of,
    read,
    value_of,
)
from extproc.telemetry.tracing.readers.parts import text_part
from extproc.telemetry.tracing.readers.requests import APIReader, request_view, texts_of
from extproc.telemetry.tracing.views import TEXT, AnswerView, RequestView

# --- speech ---

_SPEECH_CONTENT: Final = frozenset({"input", "instructions"})

_SOUNDS: Final = {
    "aac": "audio/aac",
    "flac": "audio/flac",
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "pcm": "audio/pcm",
    "wav": "audio/wav",
}
"""Formats that a client may ask for, and their media types; without one it is MP3."""


def _understand_speech(view: RequestView, members: Members) -> RequestView:
    instructions = texts_of(members, "instructions")
    return replace(view, texts=texts_of(members, "input"), system=tuple(text_part(each) for each in instructions))


class SpeechReader(Struct, frozen=True, kw_only=True):
    """Which kind of answer it is, its request says: each is a stream, of sound or of events."""

    limit: int = MAX_CAPTURED

    def request(self, request: TracedRequest) -> RequestView:
        return request_view(request, _SPEECH_CONTENT, _understand_speech)

    def answer(self, request: TracedRequest, *, stream: bool) -> AnswerReader:  # noqa: ARG002 - the request says more
        members = members_of(request.body)
        mime = _SOUNDS.get(as_text(value_of(members.get("response_format"))), "audio/mpeg")
        if value_of(members.get("stream_format")) == "sse":
            return _SpokenEvents(mime, self.limit)
        return _Sound(mime)


class _Sound:
    def __init__(self, mime: str) -> None:
        self._mime = mime
        self._size = 0

    def feed(self, piece: bytes) -> None:
        self._size += len(piece)

    def close(self) -> AnswerView:
        return AnswerView(mime=self._mime, audio_bytes=self._size)


class _SpeechEvent(Struct, frozen=True):
    """An event. Members may be of a wrong type."""

    type: object = None
    audio: object = None
    usage: Raw | UnsetType = UNSET


_SPEECH_EVENT: Final = msgspec.json.Decoder(_SpeechEvent)


class _SpokenEvents:
    """Sound in events; without any event, a backend has sent the sound itself."""

    def __init__(self, mime: str, limit: int) -> None:
        self._events = SSEReader(limit)
        self._sound = _Sound(mime)
        self._mime = mime
        self._understood = False
        self._size = 0
        self._usage: Raw | None = None

    def feed(self, piece: bytes) -> None:
        self._sound.feed(piece)
        self._take(self._events.feed(piece))

    def close(self) -> AnswerView:
        self._take(self._events.flush())
        if not self._understood:
            return self._sound.close()
        prompt, completion = audio_tokens(self._usage)
        return AnswerView(
            mime=self._mime,
            audio_bytes=self._size,
            prompt_audio_tokens=prompt,
            completion_audio_tokens=completion,
        )

    def _take(self, events: list[SSEEvent]) -> None:
        for event in events:
            seen = read(_SPEECH_EVENT, event.data) if event.data else None
            if seen is None:
                continue
            self._understood = True
            self._size += _decoded_size(as_text(seen.audio))
            if isinstance(seen.usage, Raw):
                self._usage = Raw(bytes(seen.usage))


def _decoded_size(base64: str) -> int:
    return len(base64.rstrip("=")) * 3 // 4


# --- transcripts ---

_TRANSCRIPT_CONTENT: Final = frozenset({"prompt", "file"})


def _understand_transcript(view: RequestView, members: Members) -> RequestView:
    return replace(view, prompts=texts_of(members, "prompt"))


def _read_transcript(document: bytes) -> AnswerView:
    """The text of a transcript in JSON; one in another format is the text itself."""
    members = members_of(document)
    text = value_of(members.get("text"))
    if not isinstance(text, str):
        return AnswerView(text=decoded(document), mime=TEXT)
    return _transcript(text, members)


def _transcript(text: str, members: Members) -> AnswerView:
    usage = members.get("usage")
    prompt, completion = audio_tokens(usage)
    duration = as_number(value_of(members.get("duration")))
    return AnswerView(
        text=text,
        mime=TEXT,
        language=as_text(value_of(members.get("language"))) or _languages(members),
        audio_duration=as_number(object_of(usage).get("seconds")) if duration is None else duration,
        prompt_audio_tokens=prompt,
        completion_audio_tokens=completion,
    )


def _languages(members: Members) -> str:
    """Newer models tell of several, as codes."""
    codes = (as_text(each.get("code")) for each in as_objects(value_of(members.get("languages"))))
    return ",".join(code for code in codes if code)


class _TranscriptEvent(Struct, frozen=True):
    """An event. Members may be of a wrong type."""

    type: object = None
    delta: object = None
    text: object = None


_TRANSCRIPT_EVENT: Final = msgspec.json.Decoder(_TranscriptEvent)


class _TranscriptEvents:
    """A transcript in pieces. The last event has all of it."""

    def __init__(self, budget: Budget) -> None:
        self._text = Text(budget)
        self._done = b""

    def event(self, event: SSEEvent) -> bool:
        seen = read(_TRANSCRIPT_EVENT, event.data)
        if seen is None:
            return False
        match as_text(seen.type) or (event.event or b"").decode(errors="replace"):
            case "transcript.text.delta":
                self._text.add(as_text(seen.delta))
            case "transcript.text.done":
                self._done = event.data
        return True

    def view(self) -> AnswerView:
        members = members_of(self._done)
        text = value_of(members.get("text"))
        return _transcript(text if isinstance(text, str) else str(self._text), members)


SPEECH: Final = SpeechReader()

TRANSCRIPTS: Final = APIReader(
    content=_TRANSCRIPT_CONTENT,
    understand=_understand_transcript,
    read=_read_transcript,
    gather=_TranscriptEvents,
)
"""Of transcriptions and translations."""
