"""JSON Schema, as far as providers check the ones that they are given, and a value that fits one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from deploy.demo.providers.service import Refused

_TYPES: Final = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_OF_SCHEMAS: Final = ("properties", "$defs", "definitions", "patternProperties")
_LONGEST_LIST: Final = 16
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")


def check_parameters(schema: object, where: str) -> Mapping[str, Any]:
    """The parameters of a tool: a schema of an object.

    Raises:
        Refused: it is none; the message starts with the place.
    """
    if not isinstance(schema, Mapping):
        raise Refused(f"{where}: a JSON Schema is an object")
    if str(schema.get("type")).lower() != "object":
        raise Refused(f"{where}.type: has to be 'object', found {schema.get('type')!r}")
    check_schema(schema, where)
    return schema


def check_schema(schema: object, where: str) -> None:
    """Raises ``Refused`` where a keyword does not have the kind of value that draft 2020-12 gives it."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        raise Refused(f"{where}: a JSON Schema is an object")
    _check_type(schema.get("type", []), where)
    for keyword in _OF_SCHEMAS:
        _check_members(schema.get(keyword, {}), f"{where}.{keyword}")
    for keyword in _LISTS:
        if keyword in schema:
            _check_list(schema[keyword], f"{where}.{keyword}")
    for keyword in ("items", "additionalProperties", "not"):
        if keyword in schema:
            check_schema(schema[keyword], f"{where}.{keyword}")
    _check_names(schema.get("required", []), f"{where}.required")
    if not isinstance(schema.get("enum", []), list):
        raise Refused(f"{where}.enum: a list is needed")


def _check_type(kind: object, where: str) -> None:
    kinds = kind if isinstance(kind, list) else [kind]
    for each in kinds:
        if not isinstance(each, str) or each not in _TYPES:
            raise Refused(f"{where}.type: {each!r} is not a type of JSON Schema")


def _check_members(members: object, where: str) -> None:
    if not isinstance(members, Mapping):
        raise Refused(f"{where}: an object is needed")
    for name, member in members.items():
        check_schema(member, f"{where}.{name}")


def _check_list(schemas: object, where: str) -> None:
    if not isinstance(schemas, list) or not schemas:
        raise Refused(f"{where}: a list of schemas is needed")
    for index, schema in enumerate(schemas):
        check_schema(schema, f"{where}.{index}")


def _check_names(names: object, where: str) -> None:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Refused(f"{where}: a list of names is needed")


def value_of(schema: object, word: str) -> object:
    """A value that the schema allows, with ``word`` for each free string. References are not followed."""
    if not isinstance(schema, Mapping):
        return word
    if values := schema.get("enum"):
        return values[0]
    if "const" in schema:
        return schema["const"]
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        return value_of(alternatives[0], word)
    return _VALUES.get(_type_of(schema), _string)(schema, word)


def object_of(schema: Mapping[str, Any], word: str) -> dict[str, object]:
    """An object with the members that the schema requires."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    required: Sequence[str] = schema.get("required", [])
    # In the order of the names, since not every API keeps the order of members.
    return {name: value_of(properties.get(name, {}), word) for name in sorted(required)}


def _type_of(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    # Gemini also spells types in capitals.
    return str(kind).lower()


def _length(least: object) -> int:
    return least if isinstance(least, int) and 1 <= least <= _LONGEST_LIST else 1


def _string(_: Mapping[str, Any], word: str) -> object:
    return word


_VALUES: Final[Mapping[str, Callable[[Mapping[str, Any], str], object]]] = {
    "object": object_of,
    "array": lambda schema, word: [value_of(schema.get("items", {}), word)] * _length(schema.get("minItems")),
    "integer": lambda schema, _: schema.get("minimum", 1),
    "number": lambda schema, _: schema.get("minimum", 1.5),
    "boolean": lambda *_: True,
    "null": lambda *_: None,
}
