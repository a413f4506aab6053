"""An API server's admission of custom resources by their CRDs, as far as CRDs say it."""

from __future__ import annotations

import copy
import re
from functools import cache
from typing import Any

import jsonschema
import pytest

from deploy.kubernetes.crds import DEFINITIONS

PRESERVE = "x-kubernetes-preserve-unknown-fields"


def pruned(schema: dict[str, Any], value: Any) -> Any:
    """The value without unknown fields, and without nulls where no null may be."""
    if isinstance(value, list) and "items" in schema:
        return [pruned(schema["items"], entry) for entry in value]
    if not isinstance(value, dict) or schema.get("type") != "object":
        return value
    if "additionalProperties" in schema:
        return {key: pruned(schema["additionalProperties"], entry) for key, entry in value.items()}
    known = schema.get("properties")
    if known is None:
        return value
    kept = {key: entry for key, entry in value.items() if key in known or schema.get(PRESERVE)}
    given = {key: pruned(known.get(key, {PRESERVE: True}), entry) for key, entry in kept.items()}
    return {key: entry for key, entry in given.items() if entry is not None or key not in known}


def defaulted(schema: dict[str, Any], value: Any) -> Any:
    """The value with the defaults that are stored."""
    if isinstance(value, list) and "items" in schema:
        return [defaulted(schema["items"], entry) for entry in value]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties", {})
    absent = {key: copy.deepcopy(part["default"]) for key, part in properties.items() if "default" in part}
    return {**absent, **{key: defaulted(properties.get(key, {}), entry) for key, entry in value.items()}}


def parts(schema: dict[str, Any], value: Any, path: str = ""):
    """Every part of a value with its schema and its path."""
    yield path, schema, value
    if isinstance(value, list) and "items" in schema:
        for index, entry in enumerate(value):
            yield from parts(schema["items"], entry, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, entry in value.items():
            if key in schema.get("properties", {}):
                yield from parts(schema["properties"][key], entry, f"{path}.{key}" if path else key)


def not_unique(schema: dict[str, Any], value: Any) -> bool:
    match schema.get("x-kubernetes-list-type"):
        case "set":
            keys = list(map(repr, value))
        case "map":
            names = schema["x-kubernetes-list-map-keys"]
            keys = [repr([entry.get(name) for name in names]) for entry in value]
        case _:
            return False
    return len(set(keys)) != len(keys)


@cache
def _environment() -> Any:
    # Not the other engine: its `has` fails inside macros, where the API server's does not.
    cel = pytest.importorskip("cel_expr_python.cel")
    return cel.NewEnv(variables={"self": cel.Type.DYN})


@cache
def _program(rule: str) -> Any:
    return _environment().compile(rule)


def holds(rule: str, value: Any) -> bool:
    result = _program(rule).eval(data={"self": value})
    assert result.type().name() == "BOOL", f"{rule}: {result.value()}"
    return result.value()


class APIServer:
    """Takes or refuses resources. ``complaints`` are paths with what is wrong there."""

    def __init__(self) -> None:
        _environment()
        self.schemas = {
            (f"aigateway.envoyproxy.io/{version}", made.kind.__name__): made.schema(version)
            for made in DEFINITIONS
            for version in made.versions
        }

    def pruned(self, resource: dict[str, Any]) -> dict[str, Any]:
        """The resource without unknown fields; what is known of metadata is not in a CRD."""
        schema = self.schemas[resource["apiVersion"], resource["kind"]]
        return pruned(schema, resource)

    def admitted(self, resource: dict[str, Any]) -> dict[str, Any]:
        """What would be stored."""
        return defaulted(self.schemas[resource["apiVersion"], resource["kind"]], self.pruned(resource))

    def complaints(self, resource: dict[str, Any]) -> list[str]:
        """Everything that is wrong. Rules are not looked at when the structure is not right."""
        schema = self.schemas[resource["apiVersion"], resource["kind"]]
        stored = self.admitted(resource)
        validator = jsonschema.Draft202012Validator(schema)
        found = [
            f"{re.sub(r'^[$][.]?', '', error.json_path)}: {error.message}" for error in validator.iter_errors(stored)
        ]
        everything = list(parts(schema, stored))
        if not found:
            found += [f"{path}: duplicate" for path, part, value in everything if not_unique(part, value)]
        if found:
            return found
        return [
            f"{path}: {rule['message']}"
            for path, part, value in everything
            for rule in part.get("x-kubernetes-validations", ())
            if not holds(rule["rule"], value)
        ]


@pytest.fixture(scope="session")
def api_server() -> APIServer:
    return APIServer()
