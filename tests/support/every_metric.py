"""A process that has recorded one value of everything there is to record."""

from __future__ import annotations

from extproc.auth.sources import CellState
from extproc.telemetry.metrics import AttemptLabels, Metrics
from extproc.usage import TokenUsage

LABELS = AttemptLabels(
    operation="chat",
    provider="openai",
    original_model="gpt-4o",
    request_model="gpt-4o-2024",
    response_model="gpt-4o-2024-08",
)


def everything() -> Metrics:
    metrics = Metrics()
    metrics.tokens(LABELS, [TokenUsage(input=1)])
    metrics.request_durations(LABELS, [1], "_OTHER")
    metrics.time_to_first_token(LABELS, 1)
    metrics.times_per_output_token(LABELS, [1])
    metrics.streams["router"].messages["request_headers"].observe(0.001)
    metrics.streams["router"].open.add()
    metrics.outcome("chat", "success")
    metrics.unattempted("chat", 400, "processor")
    metrics.unknown_encoding("x")
    metrics.unknown_stop_reason("openai", "x")
    metrics.cost_error("k")
    metrics.config_reload("ok")
    metrics.live_config("d")
    metrics.workers(2)
    metrics.worker_ended()
    metrics.relayed()
    metrics.credential_refresh("s", "ok")
    metrics.credential_unavailable("s", 1)
    metrics.credentials([CellState(name="s", expires_at=1.0, usable=True, refreshed_at=0.0, error=None)])
    return metrics
