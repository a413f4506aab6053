"""Which translations exist: (operation, backend schema) → translator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.endpoints.base import Operation
from extproc.errors import UnsupportedBackend
from extproc.translate import audio, images, rerank
from extproc.translate.base import Factory, Target, Translator
from extproc.translate.chat.factory import CHAT
from extproc.translate.completions import COMPLETIONS
from extproc.translate.count_tokens import bedrock as count_tokens_bedrock
from extproc.translate.count_tokens import native as count_tokens_native
from extproc.translate.count_tokens import others as count_tokens_others
from extproc.translate.embeddings.factory import EMBEDDINGS
from extproc.translate.messages import carried as messages_carried
from extproc.translate.messages import native as messages_native
from extproc.translate.messages.bedrock.factory import BEDROCK
from extproc.translate.responses import carried as responses_carried
from extproc.translate.responses import native as responses_native
from extproc.translate.responses.native import INPUT_TOKENS
from extproc.translate.tokenize.factory import TOKENIZE

BY_OPERATION: Final[Mapping[Operation, Mapping[str, Factory]]] = {
    Operation.CHAT: CHAT,
    Operation.COMPLETION: COMPLETIONS,
    Operation.EMBEDDINGS: EMBEDDINGS,
    Operation.RESPONSES: {**responses_carried.CARRIED, **responses_native.NATIVE},
    Operation.RESPONSES_INPUT_TOKENS: INPUT_TOKENS,
    Operation.SPEECH: audio.SPEECH,
    Operation.TRANSCRIPTION: audio.TRANSCRIPTIONS,
    Operation.TRANSLATION: audio.TRANSLATIONS,
    Operation.IMAGE_GENERATION: images.GENERATIONS,
    Operation.IMAGE_EDIT: images.EDITS,
    Operation.RERANK: rerank.RERANK,
    Operation.MESSAGES: {**messages_carried.CARRIED, **messages_native.NATIVE, **BEDROCK},
    Operation.COUNT_TOKENS: {
        **count_tokens_others.OTHERS,
        **count_tokens_native.NATIVE,
        **count_tokens_bedrock.BEDROCK,
    },
    Operation.TOKENIZE: TOKENIZE,
}

TRANSLATORS: Final[Mapping[tuple[Operation, str], Factory]] = {
    (operation, schema): factory
    for operation, of_schema in BY_OPERATION.items()
    for schema, factory in of_schema.items()
}


SERVED_SCHEMAS = frozenset(schema for _, schema in TRANSLATORS)
"""Backend schemas that at least one endpoint can be translated to."""


def factory_for(operation: Operation, schema: str, *, backend: str) -> Factory:
    """What makes a fresh translator for each attempt.

    Where no translation exists it raises ``UnsupportedBackend``, which names endpoint, schema and backend.

    Args:
        operation: what the client asks for.
        schema: the name of the API that the backend speaks.
        backend: its name, for messages.
    """

    def refuse(_target: Target) -> Translator:
        speaks = schema or "no known API schema"
        raise UnsupportedBackend(f"backend {backend} speaks {speaks}; {operation} requests cannot be sent to it")

    return TRANSLATORS.get((operation, schema), refuse)
