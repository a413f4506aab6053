"""The dashboard as a value: rows of panels, each with its queries.

Only panel types that come with Grafana, and the data source is a variable, so that it works wherever it is imported.
Names of metrics and labels are those of docs/reference/metrics.md; a test holds the queries against them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NAME: Final = "envoy-llm-extproc.json"

_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS: Final = 24
# What the variables choose: series of requests carry all of these, the processor's own only the job.
_JOB: Final = 'job=~"$job"'
_CHOSEN: Final = (
    f'{_JOB}, gen_ai_operation_name=~"$operation", gen_ai_provider_name=~"$provider", gen_ai_request_model=~"$model"'
)
_PERCENTILES: Final = (0.5, 0.9, 0.99)
_DURATION: Final = "gen_ai_server_request_duration_seconds"
_TTFT: Final = "gen_ai_server_time_to_first_token_seconds"
_ITL: Final = "gen_ai_server_time_per_output_token_seconds"
_TOKENS: Final = "gen_ai_client_token_usage"
# A client that leaves is no error of anybody's.
_ERRORS: Final = 'error_type="_OTHER"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A PromQL expression and the name of its series; ``instant`` asks for the newest value only."""

    expr: str
    legend: str = ""
    instant: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel.

    Attributes:
        about: what it answers; shown behind its ``i``.
        unit: Grafana's id of the unit.
        kind: ``timeseries`` or ``stat``.
        stacked: draw the series on top of each other.
        red: from which value on a ``stat`` is red; ``None`` for never.
    """

    title: str
    about: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    stacked: bool = False
    red: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


def _rate(metric: str, labels: str = _CHOSEN) -> str:
    return f"rate({metric}{{{labels}}}[$__rate_interval])"


def _sum(metric: str, *by: str, labels: str = _CHOSEN) -> str:
    """The sum of rates; of counters that have not counted yet, nothing."""
    grouped = f" by ({', '.join(by)})" if by else ""
    return f"sum{grouped} ({_rate(metric, labels)})"


def _own(metric: str, *by: str, labels: str = "") -> str:
    return _sum(metric, *by, labels=f"{_JOB}, {labels}" if labels else _JOB)


def _grown(metric: str, *by: str) -> str:
    """How often it happened between two points of a graph."""
    grouped = f" by ({', '.join(by)})" if by else ""
    return f"sum{grouped} (increase({metric}{{{_JOB}}}[$__rate_interval]))"


def _quantile(share: float, metric: str, *by: str, labels: str = _CHOSEN) -> str:
    grouped = ", ".join(("le", *by))
    return f"histogram_quantile({share}, sum by ({grouped}) ({_rate(f'{metric}_bucket', labels)}))"


def _percentiles(metric: str, labels: str = _CHOSEN) -> tuple[Query, ...]:
    return tuple(
        Query(expr=_quantile(share, metric, labels=labels), legend=f"p{share * 100:g}") for share in _PERCENTILES
    )


def _stat(title: str, about: str, expr: str, *, unit: str = "short", red: float | None = None) -> Panel:
    query = Query(expr=expr, instant=True)
    return Panel(title=title, about=about, queries=(query,), unit=unit, kind="stat", width=3, height=4, red=red)


def _by_model(title: str, about: str, expr: str, *, unit: str = "short", stacked: bool = False) -> Panel:
    query = Query(expr=expr, legend="{{gen_ai_request_model}}")
    return Panel(title=title, about=about, queries=(query,), unit=unit, stacked=stacked)


_SUCCEEDED: Final = f'{_CHOSEN}, error_type=""'
_FAILED: Final = f"{_CHOSEN}, {_ERRORS}"
_MODEL: Final = "gen_ai_request_model"

_NOW: Final = Row(
    title="Now",
    panels=(
        _stat(
            "Attempts",
            "Attempts at backends that ended, a second.",
            f"sum({_rate(f'{_DURATION}_count')}) or vector(0)",
            unit="reqps",
        ),
        _stat(
            "Failed",
            "Share of attempts that failed or were refused; a client that left is none of them.",
            f"({_sum(f'{_DURATION}_count', labels=_FAILED)} or vector(0)) / {_sum(f'{_DURATION}_count')}",
            unit="percentunit",
            red=0.05,
        ),
        _stat(
            "Output tokens",
            "Output tokens that backends reported, a second.",
            _sum(f"{_TOKENS}_sum", labels=f'{_CHOSEN}, gen_ai_token_type="output"') + " or vector(0)",
        ),
        _stat("TTFT p90", "Time to the first piece of a streamed answer.", _quantile(0.9, _TTFT), unit="s"),
        _stat(
            "Config age",
            "Since when the live filter config serves, of the process that has had its own longest.",
            f"time() - min(extproc_config_live_timestamp_seconds{{{_JOB}}})",
            unit="s",
        ),
        _stat(
            "Refused configs",
            "Filter configs that were refused in the time that is shown; the last good one stays live.",
            f'sum(increase(extproc_config_reloads_total{{{_JOB}, result=~"refused.*"}}[$__range])) or vector(0)',
            red=1,
        ),
        _stat(
            "Credentials missing",
            "Processes without a valid credential, over all sources.",
            f"sum(extproc_credential_missing{{{_JOB}}}) or vector(0)",
            red=1,
        ),
        _stat("Open streams", "ext_proc streams that are open.", f"sum(extproc_streams{{{_JOB}}}) or vector(0)"),
    ),
)

_TRAFFIC: Final = Row(
    title="Traffic and errors",
    panels=(
        Panel(
            title="Attempts by outcome",
            about="A failover is two: one retried, one more. Not narrowed by model and provider.",
            queries=(
                Query(
                    expr=_own("extproc_attempts_total", "outcome", labels='operation=~"$operation"'),
                    legend="{{outcome}}",
                ),
            ),
            unit="reqps",
            stacked=True,
        ),
        _by_model(
            "Attempts by model",
            "By the model that the backend was asked for.",
            _sum(f"{_DURATION}_count", _MODEL),
            unit="reqps",
            stacked=True,
        ),
        _by_model(
            "Failed share by model",
            "Backends' errors, broken answers, refusals.",
            f"{_sum(f'{_DURATION}_count', _MODEL, labels=_FAILED)} / {_sum(f'{_DURATION}_count', _MODEL)}",
            unit="percentunit",
        ),
        Panel(
            title="Answered before a backend was asked",
            about="By the processor: malformed, too large, no such path. By Envoy: no route for it, a spent budget.",
            queries=(
                Query(expr=_own("extproc_unattempted_requests_total", "status", "by"), legend="{{status}} by {{by}}"),
            ),
            unit="reqps",
            stacked=True,
        ),
        Panel(
            title="Clients that left",
            about="Before the answer was whole; what was used by then is metered.",
            queries=(
                Query(
                    expr=_sum(f"{_DURATION}_count", _MODEL, labels=f'{_CHOSEN}, error_type="client_cancelled"'),
                    legend="{{gen_ai_request_model}}",
                ),
            ),
            unit="reqps",
        ),
        Panel(
            title="Asked for, answered by",
            about="The model that the client named, the one that the backend was asked for, and the one it used.",
            queries=(
                Query(
                    expr=_sum(f"{_DURATION}_count", "gen_ai_original_model", _MODEL, "gen_ai_response_model"),
                    legend="{{gen_ai_original_model}} → {{gen_ai_request_model}} → {{gen_ai_response_model}}",
                ),
            ),
            unit="reqps",
        ),
    ),
)

_USAGE: Final = Row(
    title="Tokens",
    panels=(
        Panel(
            title="Tokens by type",
            about="Cached and cache-creating tokens are part of the input, reasoning of the output.",
            queries=(Query(expr=_sum(f"{_TOKENS}_sum", "gen_ai_token_type"), legend="{{gen_ai_token_type}}"),),
        ),
        _by_model(
            "Input tokens by model",
            "A second.",
            _sum(f"{_TOKENS}_sum", _MODEL, labels=f'{_CHOSEN}, gen_ai_token_type="input"'),
            stacked=True,
        ),
        _by_model(
            "Output tokens by model",
            "A second.",
            _sum(f"{_TOKENS}_sum", _MODEL, labels=f'{_CHOSEN}, gen_ai_token_type="output"'),
            stacked=True,
        ),
        Panel(
            title="Input served from the cache",
            about="Share of input tokens that providers read from their prompt caches.",
            queries=(
                Query(
                    expr=_sum(f"{_TOKENS}_sum", _MODEL, labels=f'{_CHOSEN}, gen_ai_token_type="cached_input"')
                    + " / "
                    + _sum(f"{_TOKENS}_sum", _MODEL, labels=f'{_CHOSEN}, gen_ai_token_type="input"'),
                    legend="{{gen_ai_request_model}}",
                ),
            ),
            unit="percentunit",
        ),
        Panel(
            title="Output tokens of an answer",
            about="How long answers are.",
            queries=_percentiles(_TOKENS, labels=f'{_CHOSEN}, gen_ai_token_type="output"'),
        ),
        Panel(
            title="Cost rules that failed",
            about="Each leaves out its key, so that nobody is charged under it. Costs themselves are in access logs.",
            queries=(Query(expr=_own("extproc_cost_errors_total", "metadata_key"), legend="{{metadata_key}}"),),
            unit="reqps",
        ),
    ),
)

_LATENCY: Final = Row(
    title="Latency",
    panels=(
        Panel(
            title="Duration",
            about="Of attempts that succeeded, streams to their end.",
            queries=_percentiles(_DURATION, labels=_SUCCEEDED),
            unit="s",
        ),
        Panel(
            title="Time to first token (TTFT)",
            about="Streamed answers: to the first piece of the body.",
            queries=_percentiles(_TTFT),
            unit="s",
        ),
        Panel(
            title="Time per output token (ITL)",
            about="Streamed answers: mean time between output tokens after the first piece.",
            queries=_percentiles(_ITL),
            unit="s",
        ),
        _by_model(
            "Duration p90 by model",
            "Of attempts that succeeded.",
            _quantile(0.9, _DURATION, _MODEL, labels=_SUCCEEDED),
            unit="s",
        ),
        _by_model("TTFT p90 by model", "Streamed answers.", _quantile(0.9, _TTFT, _MODEL), unit="s"),
        _by_model("ITL p90 by model", "Streamed answers.", _quantile(0.9, _ITL, _MODEL), unit="s"),
    ),
)

_GATEWAY: Final = Row(
    title="The gateway or the model?",
    panels=(
        Panel(
            title="Mean time of an attempt",
            about="All of an attempt, and how long the processor worked on it; the rest is backend, network and Envoy.",
            queries=(
                Query(expr=f"{_own(f'{_DURATION}_sum')} / {_own(f'{_DURATION}_count')}", legend="attempt, to its end"),
                Query(
                    expr=f"{_own('extproc_message_seconds_sum')} / {_own(f'{_DURATION}_count')}",
                    legend="processor, all phases",
                ),
            ),
            unit="s",
        ),
        Panel(
            title="Processor time of an attempt, by phase",
            about="Where its time goes. Upstream request headers are translation, changes and credentials.",
            queries=(
                Query(
                    expr=f"{_own('extproc_message_seconds_sum', 'level', 'phase')}"
                    f" / on () group_left () {_own(f'{_DURATION}_count')}",
                    legend="{{level}} {{phase}}",
                ),
            ),
            unit="s",
            stacked=True,
        ),
        Panel(
            title="One message, p99",
            about="Slow messages, by phase. Large bodies take longer.",
            queries=(
                Query(
                    expr=_quantile(0.99, "extproc_message_seconds", "level", "phase", labels=_JOB),
                    legend="{{level}} {{phase}}",
                ),
            ),
            unit="s",
        ),
    ),
)

_PROCESSOR: Final = Row(
    title="The processor",
    panels=(
        Panel(
            title="Open streams",
            about="A request has one at router level, and one at upstream level while an attempt is prepared.",
            queries=(Query(expr=f"sum by (level) (extproc_streams{{{_JOB}}})", legend="{{level}}"),),
        ),
        Panel(
            title="Messages",
            about="ext_proc messages answered, a second.",
            queries=(Query(expr=_own("extproc_messages_total", "level", "phase"), legend="{{level}} {{phase}}"),),
            unit="reqps",
            stacked=True,
        ),
        Panel(
            title="Config loads",
            about="What became of filter configs.",
            queries=(
                Query(expr=_grown("extproc_config_reloads_total", "result"), legend="{{result}}"),
                Query(expr=_grown("extproc_config_version_mismatch_total"), legend="of another version"),
            ),
        ),
        Panel(
            title="Live configs",
            about="Which filter config how many processes serve; more than one for long means that some are stuck.",
            queries=(Query(expr=f"sum by (digest) (extproc_config_info{{{_JOB}}})", legend="{{digest}}"),),
        ),
        Panel(
            title="Credentials: until they expire",
            about="They are renewed before; a line that nears zero is one that cannot be.",
            queries=(
                Query(
                    expr=f"min by (source) (extproc_credential_expiry_timestamp_seconds{{{_JOB}}}) - time()",
                    legend="{{source}}",
                ),
            ),
            unit="s",
        ),
        Panel(
            title="Credentials: failures",
            about="Attempts to fetch one that failed, and requests that were answered 503 for want of one.",
            queries=(
                Query(
                    expr=_own("extproc_credential_refreshes_total", "source", labels='result="failed"'),
                    legend="fetch: {{source}}",
                ),
                Query(expr=_own("extproc_credential_unavailable_requests_total", "source"), legend="503: {{source}}"),
                Query(expr=f"sum by (source) (extproc_credential_missing{{{_JOB}}})", legend="missing: {{source}}"),
            ),
        ),
        Panel(
            title="Workers",
            about="With several workers: how many serve, and how many have died in the time that is shown.",
            queries=(
                Query(expr=f"sum(extproc_workers{{{_JOB}}})", legend="serving"),
                Query(expr=_grown("extproc_worker_ends_total"), legend="died"),
            ),
        ),
        Panel(
            title="Relayed attempts",
            about="Attempts that met another worker than their request; each costs a hop between processes.",
            queries=(Query(expr=_own("extproc_relayed_attempts_total"), legend="relayed"),),
            unit="reqps",
        ),
        Panel(
            title="Answers that were not understood",
            about="Content codings that cannot be decoded, and reasons for stopping that are not known.",
            queries=(
                Query(expr=_own("extproc_unknown_encodings_total", "coding"), legend="coding {{coding}}"),
                Query(
                    expr=_own("extproc_unknown_stop_reasons_total", "provider", "reason"),
                    legend="{{provider}} stopped: {{reason}}",
                ),
            ),
            unit="reqps",
        ),
    ),
)

ROWS: Final = (_NOW, _TRAFFIC, _USAGE, _LATENCY, _GATEWAY, _PROCESSOR)


def render() -> str:
    """The dashboard as Grafana imports it."""
    return json.dumps(dashboard(ROWS), indent=2, ensure_ascii=False) + "\n"


def dashboard(rows: Sequence[Row]) -> dict[str, Any]:
    """The document of these rows."""
    return {
        "uid": "envoy-llm-extproc",
        "title": "LLM gateway: envoy-llm-extproc",
        "description": "Traffic, errors, tokens and latency of an Envoy LLM gateway, as its processor counts them.",
        "tags": ["envoy", "llm"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "annotations": {"list": [_reloads()]},
        "templating": {"list": list(_variables())},
        "panels": list(_panels(rows)),
    }


def _reloads() -> dict[str, Any]:
    """A mark where another config came into use."""
    return {
        "name": "Config in use",
        "datasource": _SOURCE,
        "enable": True,
        "iconColor": "blue",
        "expr": f"changes(extproc_config_live_timestamp_seconds{{{_JOB}}}[1m]) > 0",
        "titleFormat": "Another filter config is live",
    }


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1}
    yield _choice("job", "Job", "label_values(extproc_streams, job)")
    for name, title, label in (
        ("operation", "Operation", "gen_ai_operation_name"),
        ("provider", "Provider", "gen_ai_provider_name"),
        ("model", "Model", _MODEL),
    ):
        yield _choice(name, title, f"label_values({_DURATION}_count{{{_JOB}}}, {label})")


def _choice(name: str, title: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": title,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": ["All"], "value": ["$__all"]},
        "refresh": 2,
        "sort": 1,
    }


def _panels(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Rows from top to bottom, the panels of each from left to right."""
    ids, top = count(1), 0
    for row in rows:
        yield {"id": next(ids), "type": "row", "title": row.title, "collapsed": False, "gridPos": _place(0, top, 24, 1)}
        top, left, height = top + 1, 0, 0
        for panel in row.panels:
            if left + panel.width > _COLUMNS:
                top, left, height = top + height, 0, 0
            yield {"id": next(ids), **_panel(panel), "gridPos": _place(left, top, panel.width, panel.height)}
            left, height = left + panel.width, max(height, panel.height)
        top += height


def _place(left: int, top: int, width: int, height: int) -> dict[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}


def _panel(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.kind == "timeseries":
        fill, stacking = (40, "normal") if panel.stacked else (0, "none")
        defaults |= {"min": 0, "custom": {"fillOpacity": fill, "showPoints": "never", "stacking": {"mode": stacking}}}
        options: dict[str, Any] = {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    else:
        steps: list[dict[str, Any]] = [{"color": "text", "value": None}]
        if panel.red is not None:
            steps.append({"color": "red", "value": panel.red})
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
        options = {"colorMode": "value", "graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [_target(query, ref) for query, ref in zip(panel.queries, "ABCDEFGH", strict=False)],
    }


def _target(query: Query, ref: str) -> dict[str, Any]:
    return {
        "refId": ref,
        "datasource": _SOURCE,
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "instant": query.instant,
        "range": not query.instant,
    }
