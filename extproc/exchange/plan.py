"""What attempts have in common that ask one backend for one model: worked out once, and kept with the config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from extproc.costs import CostFormula, CostScope
from extproc.endpoints.base import Operation
from extproc.exchange.replies import EncodedMetadata, MetadataForm
from extproc.runtime import Runtime, RuntimeBackend

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
        formula: what usage costs.
        names: model, backend and route, for access logs (contract 3.16). They are written before the backend is asked,
            and with an error: the line of a request that came to nothing needs them most (BR-114).
        introduction: what is said beside them when an attempt begins (contract 3.14).
    """

    operation: Operation
    original_model: str
    stream: bool
    backend: RuntimeBackend
    route: str
    model: str
    metered: bool
    provider: str
    formula: CostFormula
    names: Mapping[str, str]
    introduction: Mapping[str, str]
    _forms: dict[tuple[int | str, ...], MetadataForm] = field(default_factory=dict)

    def metadata(self, texts: Mapping[str, str], numbers: Mapping[str, float]) -> EncodedMetadata:
        """The names, a few texts that recur, and numbers."""
        key: tuple[int | str, ...] = (len(texts), *texts, *texts.values(), *numbers)
        form = self._forms.get(key)
        if form is None:
            form = MetadataForm({**self.names, **texts}, numbers)
            if sum(map(len, texts.values())) < _LONG:
                if len(self._forms) >= _MOST_FORMS:
                    self._forms.clear()
                self._forms[key] = form
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
        plan = AttemptPlan(
            operation=operation,
            original_model=original_model,
            stream=stream,
            backend=backend,
            route=route,
            model=model,
            metered=bool(runtime.costs),
            provider=PROVIDERS.get(backend.schema.name, backend.name),
            formula=runtime.costs.of(
                CostScope(model=model, backend=backend.name, short_backend=backend.short_name, route=route)
            ),
            names=_names(backend, model, route),
            introduction={"backend_name": backend.name} if backend.name else {},
        )
        if len(model) + len(original_model) < _LONG:
            if len(runtime.derived) >= _MOST_PLANS:
                runtime.derived.clear()
            runtime.derived[key] = plan
    return plan


def _names(backend: RuntimeBackend, model: str, route: str) -> dict[str, str]:
    names = {"model_name_override": model}
    if backend.name:
        names["ai_service_backend_name"] = backend.short_name
    if route:
        names["route_name"] = route
    return names
