"""Fuzz target of the schema conversion for older Gemini models: any JSON object is converted or refused."""

from __future__ import annotations

import json

from extproc.formats.jsonvalue import JSONValueError, decode_object, encode
from extproc.translate.chat.gemini.schema import MAX_NODES, SchemaConverter, SchemaError
from tests.fuzz.driver import drive

SEEDS = (
    b'{"properties":{"a":{"$ref":"#/$defs/A"},"b":{"type":["integer","null"]}},"$defs":{"A":{"maxLength":2.0}}}',
    b'{"anyOf":[{"type":"string","enum":["a",null]},{"const":1},{"const":1.50},{"type":"null"}],"title":"t"}',
    b'{"allOf":[{"properties":{"a":{"minimum":1}}},{"properties":{"a":{"maximum":2.5,"minimum":0}}}],"description":"d"}',
    b'{"oneOf":[{"required":["a"]},{"required":["b"]}],"type":"object","nullable":true,"default":{"a":[1]}}',
    b'{"type":["string","integer"],"prefixItems":[{},{"$ref":"#/definitions/x~1y%20z"}],"items":false}',
    b'{"properties":{"children":{"items":{"$ref":"#"}}}}',
    b'{"$ref":"#/$defs/a/0","$defs":{"a":[{"$ref":"#/$defs/b"}],"b":{"$ref":"#/$defs/c"},"c":{"items":true}}}',
    b'{"enum":["a",1,true,null,2.5],"example":"e","format":"f","pattern":"p","propertyOrdering":["a"]}',
)

KEYWORDS = frozenset(
    {
        "anyOf",
        "default",
        "description",
        "enum",
        "example",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "nullable",
        "pattern",
        "properties",
        "propertyOrdering",
        "required",
        "title",
        "type",
    }
)


def one_input(data: bytes) -> None:
    """Convert the schema. Raises nothing; asserts that the result is of the dialect, bounded and written as JSON."""
    try:
        schema = decode_object(data)
        converted = SchemaConverter().convert(schema)
    except (JSONValueError, SchemaError):
        return
    assert _check(json.loads(encode(converted))) <= MAX_NODES


def _check(schema: object) -> int:
    """The number of schemas in a schema, each of which is of the dialect."""
    assert isinstance(schema, dict)
    assert schema.keys() <= KEYWORDS, schema
    assert "anyOf" not in schema or len(schema) == 1, schema
    assert all(isinstance(each, str) for each in schema.get("enum", ()))
    assert isinstance(schema.get("type", ""), str)
    inner = [*schema.get("anyOf", ()), *schema.get("properties", {}).values()]
    if "items" in schema:
        inner.append(schema["items"])
    return 1 + sum(map(_check, inner))


if __name__ == "__main__":
    drive(one_input, name="gemini_schema", package="extproc.translate.chat", seeds=SEEDS)
