"""JSON Schema → the schema dialect of Gemini models before 2.5 (contract, chat 10).

The dialect is a part of OpenAPI 3.0: no references, no combinations but ``anyOf``, which must stand alone in its
schema, and enums of strings. What can be said in it is: references are resolved, ``oneOf`` becomes ``anyOf``, ``const``
an enum of one, ``allOf`` is merged, a list of types becomes alternatives, a null among them ``nullable``. An enum of
numbers or booleans is refused by some models and its text would come back as strings, so the type is kept and the
description names the values. Keywords that the dialect does not have are dropped, which makes a schema wider, never
another one. What it cannot say at all, as recursion, is refused.

A converted schema is a dict of the dialect's keywords. Invariant: one with ``anyOf`` has nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NoReturn
from urllib.parse import unquote

from msgspec import Raw

from extproc.formats.jsonvalue import JSONObject

Schema = dict[str, object]

MAX_DEPTH: Final = 100
MAX_NODES: Final = 20_000
"""Schemas in the results of one request: references may name each other so often that a short text has no end."""

_MISSING: Final = object()
_NULL: Final[Schema] = {"type": "null"}
_MAX_WHERE: Final = 200


class SchemaError(Exception):
    """The schema cannot be said in the dialect, or is none; the message says where and why."""


class _Conflict(Exception):
    """No value can satisfy both of two schemas, or the dialect cannot say which ones do."""

    def __init__(self, keyword: str) -> None:
        super().__init__(f"they differ in {keyword}")
        self.keyword = keyword


class SchemaConverter:
    """Converts the schemas of one request."""

    def __init__(self) -> None:
        self._root: JSONObject = {}
        self._nodes = 0

    def convert(self, schema: JSONObject) -> Schema:
        """Convert a schema; it is what its references point into.

        Raises:
            SchemaError: it is no schema, or one that the dialect cannot say.
        """
        self._root = schema
        return _finished(self._convert(schema, "#", ("#",), 0))

    def _convert(self, node: object, where: str, references: tuple[str, ...], depth: int) -> Schema:
        """Convert the schema at ``where``, inside of the targets of ``references``."""
        if node is True:
            return {}
        if not isinstance(node, dict):
            _fail(where, "expected a schema")
        if depth > MAX_DEPTH:
            _fail(where, f"nested deeper than {MAX_DEPTH} schemas")
        self._spend(1, where)
        if "$ref" not in node:
            return self._combined(node, where, references, depth)
        reference = node["$ref"]
        target = self._target(reference, where)
        if reference in references:
            _fail(where, f"recursive schemas cannot be expressed: circular reference {reference}")
        resolved = self._convert(target, str(reference), (*references, str(reference)), depth + 1)
        siblings = {key: value for key, value in node.items() if key != "$ref"}
        if not siblings:
            return resolved
        return self._merged(self._combined(siblings, where, references, depth), resolved, where)

    def _target(self, reference: object, where: str) -> object:
        """What a reference points to (RFC 6901, as the fragment of a URI)."""
        if not isinstance(reference, str):
            _fail(where, "$ref is not a string")
        pointer = reference.removeprefix("#")
        if pointer == reference or (pointer and not pointer.startswith("/")):
            _fail(where, f"only references into the schema itself are supported, not {reference}")
        found: object = self._root
        for each in pointer.split("/")[1:]:
            name = unquote(each).replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict):
                found = found.get(name, _MISSING)
            elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            else:
                found = _MISSING
            if found is _MISSING:
                _fail(where, f"{reference} points to nothing")
        return found

    def _combined(self, node: JSONObject, where: str, references: tuple[str, ...], depth: int) -> Schema:
        """A schema without ``$ref``: its own keywords, and what it is combined of."""
        out = self._own(node, where, references, depth)
        alternatives = _by_type(node, where)
        told = [each for each in alternatives if "description" in each]
        if told and (own := out.get("description")):
            for each in told:
                each["description"] = f"{own} {each['description']}"
            if len(told) == sum(each != _NULL for each in alternatives):
                del out["description"]
        out = self._with_alternatives(out, alternatives, where)
        for keyword in ("anyOf", "oneOf"):
            if keyword in node:
                alternatives = self._each(node[keyword], f"{where}/{keyword}", references, depth)
                out = self._with_alternatives(out, alternatives, where)
        if "allOf" in node:
            for each in self._each(node["allOf"], f"{where}/allOf", references, depth):
                out = self._merged(out, each, where)
        return out

    def _own(self, node: JSONObject, where: str, references: tuple[str, ...], depth: int) -> Schema:
        out: Schema = {}
        for keyword, read in _KEPT.items():
            if (given := node.get(keyword)) is not None:
                value = read(given)
                if value is None:
                    _fail(f"{where}/{keyword}", "unexpected value")
                if value not in ("", []):
                    out[keyword] = value
        if (given := node.get("properties")) is not None:
            if not isinstance(given, dict):
                _fail(f"{where}/properties", "expected an object")
            out["properties"] = {
                name: self._convert(each, f"{where}/properties/{name}", references, depth + 1)
                for name, each in given.items()
                # No value is allowed there, so the model need not know of it.
                if each is not False
            }
            if not out["properties"]:
                del out["properties"]
        if (items := self._items(node, where, references, depth)) is not None:
            out["items"] = items
        return out

    def _items(self, node: JSONObject, where: str, references: tuple[str, ...], depth: int) -> Schema | None:
        """The schema of elements; a list with a schema per position becomes one of any of them."""
        if isinstance(items := node.get("items"), dict):
            return self._convert(items, f"{where}/items", references, depth + 1)
        if items is not None and not isinstance(items, bool):
            _fail(f"{where}/items", "expected a schema")
        if not node.get("prefixItems"):
            return None
        each = self._each(node["prefixItems"], f"{where}/prefixItems", references, depth)
        different = [schema for position, schema in enumerate(each) if schema not in each[:position]]
        return self._with_alternatives({}, different, where)

    def _each(self, given: object, where: str, references: tuple[str, ...], depth: int) -> list[Schema]:
        if not isinstance(given, list) or not given:
            _fail(where, "expected a list of schemas")
        return [self._convert(each, f"{where}/{i}", references, depth + 1) for i, each in enumerate(given)]

    def _with_alternatives(self, plain: Schema, alternatives: list[Schema], where: str) -> Schema:
        """``plain`` that moreover satisfies one of the alternatives; a null among them makes it nullable."""
        options: list[Schema] = []
        nullable = False
        for each in alternatives:
            nested = each.get("anyOf")
            for option in nested if isinstance(nested, list) else [each]:
                if option == _NULL:
                    nullable = True
                else:
                    options.append(option)
        if not options:
            return plain if not nullable else self._merged(plain, _NULL, where)
        if nullable:
            plain = {**plain, "nullable": True}
        if len(options) == 1:
            return self._merged(plain, options[0], where)
        return self._distributed(plain, options, where)

    def _distributed(self, plain: Schema, options: list[Schema], where: str) -> Schema:
        """``anyOf`` must stand alone, so what holds for all options is said in each."""
        if "anyOf" in plain:
            _fail(where, "two sets of alternatives in one schema cannot be expressed")
        shared = {key: value for key, value in plain.items() if key not in _OF_THE_WHOLE}
        if not shared:
            return {"anyOf": options}
        merged: list[Schema] = []
        for option in options:
            self._spend(_size(shared, MAX_NODES), where)
            try:
                merged.append(_merge(option, _applicable(shared, option)))
            except _Conflict as conflict:
                # No value is of two types, so that one is no alternative.
                if conflict.keyword not in {"type", "enum"}:
                    raise SchemaError(f"{where}: alternatives that cannot be expressed: {conflict}") from conflict
        if not merged:
            _fail(where, "no alternative agrees with the keywords beside it")
        if len(merged) > 1:
            return {"anyOf": merged}
        return {**{key: value for key, value in plain.items() if key in _OF_THE_WHOLE}, **merged[0]}

    def _merged(self, first: Schema, second: Schema, where: str) -> Schema:
        """The schema of what satisfies both; where they only describe, ``first`` is heard."""
        for one, other in ((first, second), (second, first)):
            if isinstance(options := one.get("anyOf"), list):
                return self._distributed(other, options, where)
        try:
            return _merge(first, second)
        except _Conflict as conflict:
            raise SchemaError(f"{where}: schemas that cannot be merged: {conflict}") from conflict

    def _spend(self, nodes: int, where: str) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            _fail(where, f"more than {MAX_NODES} schemas in a request, references resolved")


# --- types and enums ---


def _by_type(node: JSONObject, where: str) -> list[Schema]:
    """The alternatives that ``type``, ``enum`` and ``const`` of a schema leave."""
    types = _types(node.get("type"), where)
    if "const" in node:
        values: object = [node["const"]]
    else:
        values = node.get("enum")
    if values is None or values == []:
        if not types and (implied := _implied_type(node)):
            types = [implied]
        return [{"type": each} for each in types] or [{}]
    if not isinstance(values, list):
        _fail(f"{where}/enum", "expected a list")
    nulls = [_NULL] if None in values or "null" in types else []
    types = [each for each in types if each != "null"]
    values = [each for each in values if each is not None]
    kinds = {kind: [each for each in values if _kind(each, where) == kind] for kind in _KINDS}
    if len(types) == 1:
        return [_enum(types[0], values), *nulls] if values else nulls
    options = [
        _enum(kind, members)
        for kind, members in kinds.items()
        if members and (not types or kind in types or (kind == "integer" and "number" in types))
    ]
    if not options and not nulls:
        _fail(f"{where}/enum", "no value is of the schema's type")
    return [*options, *nulls]


_KINDS: Final = ("string", "integer", "number", "boolean")


def _kind(value: object, where: str) -> str:
    match value:
        case str():
            return "string"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case Raw() | float():
            return "number"
    raise SchemaError(f"{where}/enum: only strings, numbers, booleans and nulls can be members")


def _enum(kind: str, values: list[object]) -> Schema:
    members = list(dict.fromkeys(_as_text(each) for each in values))
    match kind.lower():
        case "string":
            return {"type": kind, "enum": members}
        case "boolean" if len(members) > 1:
            return {"type": kind}
    return {"type": kind, "description": f"One of: {', '.join(members)}."}


def _as_text(value: object) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case Raw():
            return bytes(value).decode()
    return str(value)


def _types(given: object, where: str) -> list[str]:
    names = [given] if isinstance(given, str) else given
    if names is None:
        return []
    if not isinstance(names, list) or not names or not all(isinstance(each, str) for each in names):
        _fail(f"{where}/type", "expected a type or a list of types")
    return list(dict.fromkeys(names))


def _implied_type(node: JSONObject) -> str | None:
    """Gemini refuses a schema without a type, which JSON Schema does not need."""
    if isinstance(node.get("properties"), dict):
        return "object"
    return "array" if isinstance(node.get("items"), dict) else None


# --- keywords ---


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _names(value: object) -> list[str] | None:
    return value if isinstance(value, list) and all(isinstance(each, str) for each in value) else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _number(value: object) -> object:
    return value if isinstance(value, int | float | Raw) and not isinstance(value, bool) else None


def _count(value: object) -> int | None:
    if isinstance(value, Raw):
        number = float(bytes(value))
        return int(number) if number.is_integer() else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _anything(value: object) -> object:
    return value


_KEPT: Final[Mapping[str, Callable[[object], object]]] = {
    "default": _anything,
    "description": _text,
    "example": _anything,
    "format": _text,
    "maxItems": _count,
    "maxLength": _count,
    "maxProperties": _count,
    "maximum": _number,
    "minItems": _count,
    "minLength": _count,
    "minProperties": _count,
    "minimum": _number,
    "nullable": _flag,
    "pattern": _text,
    "propertyOrdering": _names,
    "required": _names,
    "title": _text,
}

_TYPES_OF: Final = {
    **dict.fromkeys(("format", "maxLength", "minLength", "pattern"), frozenset({"string"})),
    **dict.fromkeys(("maximum", "minimum"), frozenset({"integer", "number"})),
    **dict.fromkeys(("items", "maxItems", "minItems"), frozenset({"array"})),
    **dict.fromkeys(
        ("maxProperties", "minProperties", "properties", "propertyOrdering", "required"), frozenset({"object"})
    ),
}
"""Keywords that only speak of values of some types."""

_OF_THE_WHOLE: Final = frozenset({"title", "default", "example"})
"""What says nothing about a single alternative; a description does, as the model reads it."""


def _applicable(shared: Schema, option: Schema) -> Schema:
    """Those of the keywords that mean something for the option's type."""
    kind = option.get("type")
    if not isinstance(kind, str):
        return shared
    return {key: value for key, value in shared.items() if key not in _TYPES_OF or kind.lower() in _TYPES_OF[key]}


# --- merging ---


def _merge(first: Schema, second: Schema) -> Schema:
    """Merge two schemas without ``anyOf``; where they only describe, ``first`` is heard.

    Raises:
        _Conflict: the text names the keyword.
    """
    out = dict(first)
    for key, value in second.items():
        if key not in out or out[key] == value:
            out[key] = value
        elif key in _MERGES:
            out[key] = _MERGES[key](out[key], value)
        elif key not in _DESCRIBING:
            raise _Conflict(key)
    return out


_DESCRIBING: Final = frozenset({"default", "description", "example", "title"})


def _merge_inner(first: object, second: object) -> object:
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    if "anyOf" in first or "anyOf" in second:
        raise _Conflict("inner alternatives")
    try:
        return _merge(first, second)
    except _Conflict as conflict:
        raise _Conflict(f"inner {conflict.keyword}") from conflict


def _merge_properties(first: object, second: object) -> object:
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    out = dict(first)
    for name, schema in second.items():
        out[name] = _merge_inner(out[name], schema) if name in out and out[name] != schema else schema
    return out


def _union(first: object, second: object) -> object:
    assert isinstance(first, list)
    assert isinstance(second, list)
    return list(dict.fromkeys([*first, *second]))


def _common(first: object, second: object) -> object:
    assert isinstance(first, list)
    assert isinstance(second, list)
    if not (common := [each for each in first if each in second]):
        raise _Conflict("enum")
    return common


def _narrower_type(first: object, second: object) -> object:
    kinds = {str(first).lower(), str(second).lower()}
    if kinds == {"integer", "number"}:
        return "integer"
    if len(kinds) > 1:
        raise _Conflict("type")
    return first


def _as_float(value: object) -> float:
    # Text of a number may be beyond what a double holds, a number must not.
    return float(bytes(value)) if isinstance(value, Raw) else float(str(value))


def _greater(first: object, second: object) -> object:
    return max(first, second, key=_as_float)


def _lesser(first: object, second: object) -> object:
    return min(first, second, key=_as_float)


def _either(first: object, second: object) -> object:
    return bool(first or second)


_MERGES: Final[Mapping[str, Callable[[object, object], object]]] = {
    "enum": _common,
    "items": _merge_inner,
    **dict.fromkeys(("maxItems", "maxLength", "maxProperties", "maximum"), _lesser),
    **dict.fromkeys(("minItems", "minLength", "minProperties", "minimum"), _greater),
    # OpenAPI writes it beside a reference, of which it is meant to widen the target.
    "nullable": _either,
    "properties": _merge_properties,
    "propertyOrdering": _union,
    "required": _union,
    "type": _narrower_type,
}


def _finished(schema: Schema) -> Schema:
    """The schema without required properties that it does not have: Gemini refuses those."""
    out = dict(schema)
    properties = out.get("properties")
    known = properties if isinstance(properties, dict) else {}
    if known:
        out["properties"] = {name: _finished(each) for name, each in known.items()}
    if isinstance(items := out.get("items"), dict):
        out["items"] = _finished(items)
    if isinstance(options := out.get("anyOf"), list):
        out["anyOf"] = [_finished(each) for each in options]
    if isinstance(required := out.get("required"), list):
        out["required"] = [name for name in required if name in known]
        if not out["required"]:
            del out["required"]
    return out


def _size(value: object, most: int) -> int:
    """How many objects and lists there are in a value, counted up to ``most``."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if inner is None:
        return 0
    count = 1
    for each in inner:
        if count > most:
            break
        count += _size(each, most - count)
    return count


def _fail(where: str, text: str) -> NoReturn:
    shown = where if len(where) <= _MAX_WHERE else f"{where[:_MAX_WHERE]}..."
    raise SchemaError(f"{shown}: {text}")
