"""msgspec Structs to structural schemas, the subset of OpenAPI v3 that the API server takes in a CRD.

The Structs are what ``extproc translate --check`` reads by, so a field, a limit or a pattern has one place. What
several fields say together is added from :mod:`.validations`. Three things are other than in a JSON Schema: there are
no references, so every part is written where it is used; unknown fields are dropped by the API server and not refused;
and a default is *stored*, so only those are written that mean something, never the empty ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from msgspec import NODEFAULT, Struct, inspect

from deploy.kubernetes.validations import REFINEMENTS, RULES
from filter_config.redact import Secret
from filter_config.sources.envoy_ai_gateway.fields import Excerpt

Schema: TypeAlias = dict[str, Any]

PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_RULES: Final = "x-kubernetes-validations"
# The empty group is Kubernetes' own, and is a default that its API writes.
_MEANT_WHEN_EMPTY: Final = frozenset({"group"})
_MARKUP: Final = re.compile(r":\w+:`~?\.?([^`]+)`|``([^`]*)``")
_INT64: Final = 2**63 - 1
# ``date-time`` alone lets a time without a zone pass.
_ZONED: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$"


def struct_schema(kind: type[Struct], version: str) -> Schema:
    """The schema of a struct in a served version, with everything that is in it.

    Raises:
        TypeError: a field is of a type that has no schema here.
    """
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    refined = REFINEMENTS.get(kind, {})
    properties = {
        field.encode_name: _field(field, version) | refined.get(field.encode_name, {}) for field in info.fields
    }
    required = [field.encode_name for field in info.fields if field.required]
    return {
        **described(kind),
        "type": "object",
        **({"required": required} if required else {}),
        "properties": properties,
        **({PRESERVE: True} if issubclass(kind, Excerpt) else {}),
        **_rules(kind, version),
    }


def _rules(kind: type[Struct], version: str) -> Schema:
    rules = [rule for base in reversed(kind.__mro__) for rule in RULES.get(base, ())]
    written = [rule.to_schema() for rule in rules if rule.version in ("", version)]
    return {_RULES: written} if written else {}


def described(kind: type[Struct]) -> Schema:
    """What a struct's docstring says, unless it only points elsewhere."""
    text = " ".join((kind.__doc__ or "").partition("\n\n")[0].split())
    if text.startswith("See :"):
        return {}
    return {"description": _MARKUP.sub(lambda found: found.group(1) or found.group(2), text)}


def _field(field: inspect.Field, version: str) -> Schema:
    schema = _type(field.type, version)
    default = field.default
    if default is NODEFAULT or isinstance(default, Struct):
        return schema
    if default in (None, "", ()) and not (default == "" and field.encode_name in _MEANT_WHEN_EMPTY):
        return schema
    return {**schema, "default": default}


def _type(kind: inspect.Type, version: str) -> Schema:
    match kind:
        case inspect.AnyType():
            return {PRESERVE: True}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.IntType():
            return {"type": "integer", "format": "int64", **_limits(kind, {"ge": "minimum", "le": "maximum"})}
        case inspect.StrType():
            return _text(kind)
        case inspect.DateTimeType():
            return {"type": "string", "format": "date-time", "pattern": _ZONED}
        case inspect.LiteralType(values=values):
            return {"type": "string", "enum": list(values)}
        case inspect.EnumType(cls=cls):
            return {"type": "string", "enum": [member.value for member in cls]}
        case inspect.CustomType(cls=cls) if cls is Secret:
            return {"type": "string"}
        case _:
            return _container(kind, version)


def _container(kind: inspect.Type, version: str) -> Schema:
    match kind:
        case inspect.StructType(cls=cls):
            return struct_schema(cls, version)
        case inspect.VarTupleType(item_type=item):
            limits = _limits(kind, {"min_length": "minItems", "max_length": "maxItems"})
            return {"type": "array", **limits, "items": _type(item, version)}
        case inspect.DictType(value_type=inspect.AnyType()):
            return {"type": "object", PRESERVE: True}
        case inspect.DictType(value_type=item):
            return {"type": "object", "additionalProperties": _type(item, version)}
        case inspect.UnionType(types=types):
            (inner,) = [member for member in types if not isinstance(member, inspect.NoneType)]
            # The API server drops a null, so a field that may be null is like any other.
            return _type(inner, version)
        case _:
            raise TypeError(f"no schema for {kind}")


def _text(kind: inspect.StrType) -> Schema:
    limits = _limits(kind, {"min_length": "minLength", "max_length": "maxLength"})
    # The API server's expressions are RE2's, where $ is the end of the text and \Z is unknown.
    pattern = {"pattern": kind.pattern.replace(r"\Z", "$")} if kind.pattern is not None else {}
    return {"type": "string", **limits, **pattern}


def _limits(kind: object, names: Mapping[str, str]) -> Schema:
    given = {key: getattr(kind, attribute) for attribute, key in names.items()}
    # Beyond what a double can hold exactly; the format says it already.
    return {key: limit for key, limit in given.items() if limit is not None and limit != _INT64}
