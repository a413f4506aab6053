"""``GET /v1/models``: the list of declared models, in OpenAI's form or Anthropic's (contract, models 4).

The lists are encoded once per config; a request only picks one by its host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from filter_config.model import Config, Model

PATH = "/v1/models"


class ModelListForm(StrEnum):
    OPENAI = "openai"
    ANTHROPIC = "anthropic"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelList:
    """One encoded list in both forms."""

    openai: bytes
    anthropic: bytes

    def body(self, form: ModelListForm) -> bytes:
        return self.openai if form is ModelListForm.OPENAI else self.anthropic


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCatalog:
    """The model lists of a filter config, by host.

    Attributes:
        by_host: by exact lower-case host.
        by_suffix: by the suffix of a ``*.suffix`` key; the key stands for one more, non-empty label.
    """

    every: ModelList
    by_host: Mapping[str, ModelList]
    by_suffix: Mapping[str, ModelList]
    unscoped: ModelList

    @classmethod
    def compile(cls, config: Config) -> ModelCatalog:
        hosts = {host.lower(): encode_models(models) for host, models in config.models_by_host.items()}
        return cls(
            every=encode_models(config.models),
            by_host={host: models for host, models in hosts.items() if not host.startswith("*.")},
            by_suffix={host[2:]: models for host, models in hosts.items() if host.startswith("*.")},
            unscoped=encode_models(config.unscoped_models),
        )

    def select(self, host: str) -> ModelList:
        """The list that ``host`` (normalised) sees: exact key, else its one wildcard, else the unscoped models."""
        if not host or not (self.by_host or self.by_suffix):
            return self.every
        if (exact := self.by_host.get(host)) is not None:
            return exact
        # A wildcard covers exactly one label, so a host has one suffix that can match: "longest wins" needs no search.
        label, _, suffix = host.partition(".")
        if label and (wildcard := self.by_suffix.get(suffix)) is not None:
            return wildcard
        return self.unscoped


def normalise_host(authority: str) -> str:
    """A host without its port, in lower case (contract, host normalisation 4.2)."""
    host = authority
    if authority.startswith("["):
        bracket = authority.find("]:")
        host = authority[1:bracket] if bracket > 0 else authority
    elif authority.count(":") == 1:
        host = authority.partition(":")[0]
    return host.lower()


class _OpenAIModel(msgspec.Struct, frozen=True):
    id: str
    created: int
    object: str
    owned_by: str


class _OpenAIList(msgspec.Struct, frozen=True):
    data: list[_OpenAIModel]
    object: str = "list"


class _AnthropicModel(msgspec.Struct, frozen=True):
    id: str
    type: str
    display_name: str
    created_at: str


class _AnthropicList(msgspec.Struct, frozen=True, omit_defaults=False):
    data: list[_AnthropicModel]
    first_id: str | msgspec.UnsetType
    has_more: bool
    last_id: str | msgspec.UnsetType


_encode = msgspec.json.Encoder().encode


def encode_models(models: Iterable[Model]) -> ModelList:
    """Both forms of a list, in config order; a model that several routes declare is listed once."""
    first: dict[str, Model] = {}
    for model in models:
        first.setdefault(model.name, model)
    unique = list(first.values())
    return ModelList(openai=_openai(unique), anthropic=_anthropic(unique))


def _openai(models: list[Model]) -> bytes:
    return _encode(
        _OpenAIList(
            [_OpenAIModel(model.name, int(model.created_at.timestamp()), "model", model.owned_by) for model in models]
        )
    )


def _anthropic(models: list[Model]) -> bytes:
    data = [_AnthropicModel(model.name, "model", model.name, _timestamp(model.created_at)) for model in models]
    first = data[0].id if data else msgspec.UNSET
    last = data[-1].id if data else msgspec.UNSET
    return _encode(_AnthropicList(data, first or msgspec.UNSET, has_more=False, last_id=last or msgspec.UNSET))


def _timestamp(time: datetime) -> str:
    # isoformat, unlike strftime, pads the year of the zero time.
    return time.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"
