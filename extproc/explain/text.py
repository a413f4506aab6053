"""An explanation for people, and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from extproc.explain.walk import Explanation, Refusal, Upstream
from filter_config.sources.model import Backend, Match
from filter_config.sources.routing import Entry


def as_text(explanation: Explanation) -> str:
    """Lines, the most important first."""
    return "\n".join(_lines(explanation)) + "\n"


def as_document(explanation: Explanation) -> dict[str, Any]:
    """The same as plain lists and mappings."""
    entry = explanation.entry
    return {
        "gateway": explanation.gateway,
        "listener": explanation.listener,
        "host": explanation.host,
        "model": explanation.model,
        "route": entry.route.id if entry is not None else None,
        "rule": entry.rule.index if entry is not None else None,
        "match": _match(entry.match) if entry is not None else None,
        "refusal": _refusal_document(explanation.refusal),
        "backends": [_upstream_document(upstream) for upstream in explanation.upstreams],
    }


def _lines(explanation: Explanation) -> Iterator[str]:
    yield f"gateway  {explanation.gateway}" + (f", listener {explanation.listener}" if explanation.listener else "")
    yield f"host     {explanation.host}"
    if explanation.model:
        yield f"model    {explanation.model}"
    if explanation.entry is not None:
        yield f"route    {explanation.entry.route.id}, rule {_rule(explanation.entry)}"
        yield f"match    {_match(explanation.entry.match)}"
        yield f"from     {explanation.entry.rule.origin}"
    if explanation.refusal is not None:
        yield from _refusal(explanation.refusal)
    if len(explanation.upstreams) > 1:
        yield f"backends {len(explanation.upstreams)}: a higher priority only gets what fails at a lower one"
    for number, upstream in enumerate(explanation.upstreams, start=1):
        yield ""
        yield from _upstream(number, upstream)


def _rule(entry: Entry) -> str:
    return f"{entry.rule.index} ({entry.rule.name})" if entry.rule.name else str(entry.rule.index)


def _match(match: Match) -> str:
    conditions = [f"path within {match.path_prefix}"] if match.path_prefix != "/" else []
    conditions += [f"{header.name} {'=' if header.kind == 'exact' else '~'} {header.value}" for header in match.headers]
    return ", ".join(conditions) or "every request"


def _upstream(number: int, upstream: Upstream) -> Iterator[str]:
    backend = upstream.backend
    yield f"{number}. {backend.id}"
    share = f"{upstream.share:.0%} of its priority" if upstream.share < 1 else "all of its priority"
    yield f"   priority {backend.priority}, weight {backend.weight} ({share})"
    yield f"   {backend.schema.name} at {_place(backend)}"
    if upstream.refusal is not None:
        yield from ("   " + line for line in _refusal(upstream.refusal))
        return
    yield f"   POST {upstream.path}"
    yield from (f"   {name}: {value}" for name, value in upstream.headers)
    yield from (f"   without {name}" for name in upstream.removed)
    if upstream.credential:
        yield f"   authenticated while serving, by the credential of: {upstream.credential}"
    yield ""
    yield from ("   " + line for line in _body(upstream.body).splitlines())
    if upstream.costs or upstream.cost_faults:
        yield ""
    yield from (f"   cost {key} = {value}" for key, value in upstream.costs.items())
    yield from (f"   cost {key} fails: {fault}" for key, fault in upstream.cost_faults.items())


def _place(backend: Backend) -> str:
    if backend.pool is not None:
        return f"a server of pool {backend.pool.namespace}/{backend.pool.name}"
    if backend.endpoint is None or not backend.endpoint.addresses:
        return "an unknown address"
    return ", ".join(
        address.pipe or f"{address.hostname or address.host}:{address.port}" for address in backend.endpoint.addresses
    )


def _body(body: bytes) -> str:
    try:
        return json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace")


def _refusal(refusal: Refusal) -> Iterator[str]:
    by = "Envoy" if refusal.by == "envoy" else "the processor"
    yield f"answer   {refusal.status} from {by}" + (
        f": {refusal.body.decode('utf-8', 'replace')}" if refusal.body else ""
    )


def _refusal_document(refusal: Refusal | None) -> dict[str, Any] | None:
    if refusal is None:
        return None
    return {"status": refusal.status, "by": refusal.by, "body": refusal.body.decode("utf-8", "replace")}


def _upstream_document(upstream: Upstream) -> dict[str, Any]:
    backend = upstream.backend
    return {
        "backend": backend.id,
        "schema": backend.schema.name,
        "address": _place(backend),
        "priority": backend.priority,
        "weight": backend.weight,
        "share": round(upstream.share, 6),
        "path": upstream.path,
        "headers": [[name, value] for name, value in upstream.headers],
        "removed_headers": list(upstream.removed),
        "credential_fetched_from": upstream.credential or None,
        "body": upstream.body.decode("utf-8", "replace"),
        "metadata": dict(upstream.metadata),
        "costs": dict(upstream.costs),
        "cost_faults": dict(upstream.cost_faults),
        "refusal": _refusal_document(upstream.refusal),
    }
