"""What attempts have in common that ask one backend for one model: worked out once, and kept with the config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from msgspec import Struct, field

from extproc.costs import CostFormula, CostScope
from extproc.endpoints.base import Operation
from extproc.exchange.header_changes import ChangeKey, HeaderChange
from extproc.exchange.replies import EncodedMetadata, MetadataForm
from extproc.runtime import Runtime, RuntimeBackend
from extproc.translate.base import Factory
from extproc.translate.table import factory_for

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

# Provider of a backend, by its schema (contract, metrics 7.2).
PROVIDERS: Final = {
    "OpenAI": "openai",
    "AzureOpenAI": "azure.openai",
    "AWSBedrock": "aws.bedrock",
    "AWSAnthropic": "aws.anthropic",
    "GCPVertexAI": "gcp.vertex_ai",
    "GCPAnthropic": "gcp.anthropic",
    "Anthropic": "anthropic",
    "Cohere": "cohere",
    "": "unknown",
}

# The length of a body travels as metadata: Envoy drops the header when a headers reply carries a body (contract 3.1).
BODY_LENGTH: Final = "content_length"

# Clients choose models, and backends what they call them: what is long is not kept, and when so many were met, all are
# forgotten.
_MOST_PLANS: Final = 1024
_MOST_FORMS: Final = 16
_LONG: Final = 512


class AttemptPlan(Struct, kw_only=True, eq=False):
    """What is the same for many attempts.

    Attributes:
        operation: what the client asks for.
        original_model: the model in the client's body.
        stream: the client asked for a stream.
        route: ``namespace/name`` of the route, or empty.
        model: the effective model: the backend's override, or the one that was routed on.
        metered: the config has cost rules, whether or not any applies.
        provider: ``gen_ai.provider.name`` (contract, metrics 7.2).
        translator: makes the translator of an attempt.
        formula: what usage costs.
        names: model, backend and route, for access logs (contract 3.16). They are written before the backend is asked,
            and with an error: the line of a request that came to nothing needs them most (BR-114).
        changes: what first attempts do to their headers; see ``keep``.
        introduction: what is said beside them when an attempt begins (contract 3.14).
        sized: both and the length of the body; see ``BODY_LENGTH``.
        unsized: both of them alone.
    """

    operation: Operation
    original_model: str
    stream: bool
    backend: RuntimeBackend
    route: str
    model: str
    metered: bool
    provider: str
    translator: Factory
    formula: CostFormula
    names: Mapping[str, str]
    introduction: Mapping[str, str]
    sized: MetadataForm
    unsized: EncodedMetadata
    changes: dict[tuple[object, ...], HeaderChange] = field(default_factory=dict)
    _reports: dict[tuple[str, ...], MetadataForm] = field(default_factory=dict)

    def keep(self, key: ChangeKey, change: HeaderChange) -> None:
        """Keep what a first attempt does to its headers, if others will do the same."""
        auth = self.backend.auth
        if auth is not None and not auth.constant:
            return
        if len(key.path) + len(key.accept_encoding) + sum(len(value) for _, value in key.sets) < _LONG:
            _keep(self.changes, key, change, most=_MOST_FORMS)

    def report(self, model: str, failure: str, numbers: Mapping[str, float]) -> EncodedMetadata:
        """What is said at the end of an attempt, and before: the names, and costs and times so far (contract 3.16).

        Args:
            model: the one that has answered, or empty.
            failure: the error that the client has been told of, or empty.
            numbers: the costs and times; what is called as one of the texts is left out.
        """
        key = (model, failure, *numbers)
        form = self._reports.get(key)
        if form is None:
            texts = {**self.names}
            if model:
                texts["response_model"] = model
            if failure:
                texts["response_error"] = failure
            form = MetadataForm(texts, numbers)
            if len(model) + len(failure) < _LONG:
                _keep(self._reports, key, form, most=_MOST_FORMS)
        return form.fill(numbers)


def plan_for(
    runtime: Runtime,
    backend: RuntimeBackend,
    *,
    operation: Operation,
    original_model: str,
    model: str,
    route: str,
    stream: bool,
) -> AttemptPlan:
    """The plan of these attempts, which is kept with the runtime."""
    key = (backend.name, model, original_model, route, operation, stream)
    plan: AttemptPlan | None = runtime.derived.get(key)
    if plan is None:
        names = _names(backend, model, route)
        introduction = {"backend_name": backend.name} if backend.name else {}
        plan = AttemptPlan(
            operation=operation,
            original_model=original_model,
            stream=stream,
            backend=backend,
            route=route,
            model=model,
            metered=bool(runtime.costs),
            provider=PROVIDERS.get(backend.schema.name, backend.name),
            translator=factory_for(operation, backend.schema.name, backend=backend.short_name),
            formula=runtime.costs.of(
                CostScope(model=model, backend=backend.name, short_backend=backend.short_name, route=route)
            ),
            names=names,
            introduction=introduction,
            sized=MetadataForm({**names, **introduction}, (BODY_LENGTH,)),
            unsized=MetadataForm({**names, **introduction}, ()).fill({}),
        )
        if len(model) + len(original_model) < _LONG:
            _keep(runtime.derived, key, plan, most=_MOST_PLANS)
    return plan


def _keep(kept: dict[_Key, _Value], key: _Key, value: _Value, *, most: int) -> None:
    if len(kept) >= most:
        kept.clear()
    kept[key] = value


def _names(backend: RuntimeBackend, model: str, route: str) -> dict[str, str]:
    names = {"model_name_override": model}
    if backend.name:
        names["ai_service_backend_name"] = backend.short_name
    if route:
        names["route_name"] = route
    return names
