"""Which endpoint answers a path (contract, prefix rules 5.2 and registered paths 5.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from extproc.endpoints import chat_completions, completions, embeddings, models
from extproc.endpoints.base import Endpoint
from extproc.endpoints.chat_completions import ChatCompletions
from extproc.endpoints.completions import Completions
from extproc.endpoints.embeddings import Embeddings
from extproc.endpoints.models import ModelListForm
from extproc.paths import join_path


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointPrefixes:
    """Path prefixes of the client APIs, all below ``root``."""

    root: str = "/"
    openai: str = "/"
    cohere: str = "/cohere"
    anthropic: str = "/anthropic"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointTable:
    """Exact paths, query removed, to what answers them."""

    endpoints: Mapping[str, Endpoint]
    model_lists: Mapping[str, ModelListForm] = field(default_factory=dict)
    # OpenAI's and Anthropic's list share one path when their prefixes are equal; then a header tells them apart.
    shared_models_path: str = ""

    @classmethod
    def build(cls, prefixes: EndpointPrefixes) -> EndpointTable:
        openai = join_path(prefixes.root, prefixes.openai)
        anthropic = join_path(prefixes.root, prefixes.anthropic)
        openai_models = join_path(openai, models.PATH)
        anthropic_models = join_path(anthropic, models.PATH)
        others = {} if anthropic_models == openai_models else {anthropic_models: ModelListForm.ANTHROPIC}
        return cls(
            endpoints={
                join_path(openai, chat_completions.PATH): ChatCompletions(),
                join_path(openai, completions.PATH): Completions(),
                join_path(openai, embeddings.PATH): Embeddings(),
            },
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
