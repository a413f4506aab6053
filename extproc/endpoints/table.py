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
from extproc.paths import EndpointPrefixes, join_path

DEFAULT_PREFIXES = EndpointPrefixes()


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
