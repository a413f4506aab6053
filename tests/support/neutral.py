"""Gateways of the neutral model in a line each."""

from __future__ import annotations

from typing import Any

from filter_config.sources.faults import Origin
from filter_config.sources.model import (
    MODEL_HEADER,
    Address,
    Backend,
    Endpoint,
    Gateway,
    HeaderMatch,
    Listener,
    Match,
    Route,
    Rule,
    Schema,
)

HERE = Origin(file="test.yaml", line=1, kind="Test", name="it")
SCHEMA = Schema(name="OpenAI", prefix="v1")
HTTP = Listener(name="http", port=8080, protocol="HTTP")


def backend(name: str = "one", *addresses: Address, tls: Any = None, proxy: str = "", **fields: Any) -> Backend:
    """A backend at ``<name>.example:443``, or at other addresses."""
    endpoint = Endpoint(addresses=addresses or (Address(host=f"{name}.example", port=443),), tls=tls, proxy=proxy)
    defaults = {"id": f"ns/{name}/id", "namespace": "ns", "schema": SCHEMA, "origin": HERE, "endpoint": endpoint}
    return Backend(name=name, **{**defaults, **fields})


def match(model: str | None = None, path: str = "/", **headers: str) -> Match:
    """A match of a model and of headers; ``_`` in a name is ``-``, and a value that begins with ``~`` is a pattern."""
    found = [] if model is None else [HeaderMatch(name=MODEL_HEADER, value=model)]
    for name, value in headers.items():
        kind = "regex" if value.startswith("~") else "exact"
        found.append(HeaderMatch(name=name.replace("_", "-"), value=value.removeprefix("~"), kind=kind))
    return Match(headers=tuple(found), path_prefix=path)


def rule(*backends: Backend, model: str | None = "m", **fields: Any) -> Rule:
    """A rule for a model, or for everything, with one backend unless others are given."""
    matches = (match(model),) if model is not None else ()
    given = {"origin": HERE, "index": 0, "matches": matches, "backends": backends or (backend(),)}
    return Rule(**{**given, **fields})


def route(*rules: Rule, name: str = "r", **fields: Any) -> Route:
    return Route(namespace="ns", name=name, origin=HERE, rules=rules or (rule(),), **fields)


def gateway(*routes: Route, **fields: Any) -> Gateway:
    given = {"namespace": "ns", "name": "gw", "origin": HERE, "listeners": (HTTP,), "routes": routes or (route(),)}
    return Gateway(**{**given, **fields})
