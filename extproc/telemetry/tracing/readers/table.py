"""Which reader reads a client API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.endpoints.base import Operation
from extproc.telemetry.tracing.base import Reader
from extproc.telemetry.tracing.readers.audio import SPEECH, TRANSCRIPTS
from extproc.telemetry.tracing.readers.chat import CHAT
from extproc.telemetry.tracing.readers.completions import COMPLETIONS
from extproc.telemetry.tracing.readers.embeddings import EMBEDDINGS
from extproc.telemetry.tracing.readers.images import IMAGES
from extproc.telemetry.tracing.readers.messages import COUNT_TOKENS, MESSAGES
from extproc.telemetry.tracing.readers.rerank import RERANK
from extproc.telemetry.tracing.readers.responses import RESPONSES, RESPONSES_INPUT_TOKENS
from extproc.telemetry.tracing.readers.tokenize import TOKENIZE

READERS: Final[Mapping[Operation, Reader]] = {
    Operation.CHAT: CHAT,
    Operation.COMPLETION: COMPLETIONS,
    Operation.EMBEDDINGS: EMBEDDINGS,
    Operation.RESPONSES: RESPONSES,
    Operation.RESPONSES_INPUT_TOKENS: RESPONSES_INPUT_TOKENS,
    Operation.SPEECH: SPEECH,
    Operation.TRANSCRIPTION: TRANSCRIPTS,
    Operation.TRANSLATION: TRANSCRIPTS,
    Operation.IMAGE_GENERATION: IMAGES,
    Operation.IMAGE_EDIT: IMAGES,
    Operation.RERANK: RERANK,
    Operation.MESSAGES: MESSAGES,
    Operation.COUNT_TOKENS: COUNT_TOKENS,
    Operation.TOKENIZE: TOKENIZE,
}
