"""Which endpoint answers a path (contract, prefix rules 5.2 and registered paths 5.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from extproc.endpoints import (
    chat_completions,
    completions,
    count_tokens,
    embeddings,
    image_edits,
    images,
    messages,
    models,
    rerank,
    responses,
    speech,
    tokenize,
    transcriptions,
    translations,
)
from extproc.endpoints.base import Endpoint
from extproc.endpoints.models import ModelListForm
from extproc.paths import EndpointPrefixes, join_path

DEFAULT_PREFIXES = EndpointPrefixes()

_OPENAI: Final[Mapping[str, Endpoint]] = {
    chat_completions.PATH: chat_completions.ChatCompletions(),
    completions.PATH: completions.Completions(),
    embeddings.PATH: embeddings.Embeddings(),
    responses.PATH: responses.Responses(),
    responses.INPUT_TOKENS_PATH: responses.ResponsesInputTokens(),
    speech.PATH: speech.Speech(),
    transcriptions.PATH: transcriptions.Transcriptions(),
    translations.PATH: translations.Translations(),
    images.PATH: images.ImageGenerations(),
    image_edits.PATH: image_edits.ImageEdits(),
    tokenize.PATH: tokenize.Tokenize(),
}

_ANTHROPIC: Final[Mapping[str, Endpoint]] = {
    messages.PATH: messages.Messages(),
    count_tokens.PATH: count_tokens.CountTokens(),
}

_RERANK = rerank.Rerank()

# Further paths that other gateways and inference servers have for the same APIs (contract, control plane 9.1.2), so
# that a client of theirs keeps its paths. They lie below OpenAI's prefix, which makes that one base URL for all APIs.
_ALIASES: Final[Mapping[str, Endpoint]] = {
    **{
        path.replace("/v1/", "/v1-openai/", 1): _OPENAI[path]
        for path in (
            chat_completions.PATH,
            completions.PATH,
            responses.PATH,
            embeddings.PATH,
            transcriptions.PATH,
            speech.PATH,
            images.PATH,
            image_edits.PATH,
        )
    },
    "/v1/rerank": _RERANK,
    rerank.PATH: _RERANK,
    **_ANTHROPIC,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointTable:
    """Exact paths, query removed, to what answers them."""

    endpoints: Mapping[str, Endpoint]
    model_lists: Mapping[str, ModelListForm] = field(default_factory=dict)
    # OpenAI's and Anthropic's list share one path when their prefixes are equal; then a header tells them apart.
    shared_models_path: str = ""

    @classmethod
    def build(cls, prefixes: EndpointPrefixes = DEFAULT_PREFIXES, *, root: str = "/") -> EndpointTable:
        """The paths under ``prefixes``, all of them below ``root``."""
        openai = join_path(root, prefixes.openai)
        anthropic = join_path(root, prefixes.anthropic)
        openai_models = join_path(openai, models.PATH)
        anthropic_models = join_path(anthropic, models.PATH)
        others = {} if anthropic_models == openai_models else {anthropic_models: ModelListForm.ANTHROPIC}
        registered = {
            **{join_path(openai, path): endpoint for path, endpoint in _OPENAI.items()},
            join_path(root, prefixes.cohere, rerank.PATH): _RERANK,
            **{join_path(anthropic, path): endpoint for path, endpoint in _ANTHROPIC.items()},
        }
        aliases = {join_path(openai, path): endpoint for path, endpoint in _ALIASES.items()}
        return cls(
            # What has been configured wins over an alias of the same path.
            endpoints=registered | {path: each for path, each in aliases.items() if path not in registered},
            # On a shared path OpenAI's form is the default.
            model_lists={openai_models: ModelListForm.OPENAI} | others,
            shared_models_path=openai_models if openai_models == anthropic_models else "",
        )

    def paths(self) -> list[str]:
        """Every registered path, in the order of registration."""
        return [*self.endpoints, *self.model_lists]

    def model_list(self, path: str, headers: Mapping[str, str]) -> ModelListForm | None:
        """The form in which ``path`` lists models, or ``None`` when it does not."""
        if path == self.shared_models_path and "anthropic-version" in headers:
            return ModelListForm.ANTHROPIC
        return self.model_lists.get(path)
