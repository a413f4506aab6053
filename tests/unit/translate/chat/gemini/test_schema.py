"""JSON Schema → the schema dialect of older Gemini models (contract, chat 10 and 17.10)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.formats.jsonvalue import decode_object, encode
from extproc.translate.chat.gemini.schema import SchemaConverter, SchemaError
from tests.unit.translate.chat.gemini.oracle import _check_schema


def convert(schema: object) -> object:
    """Through text, so that numbers keep their spelling as on their way through the product."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return json.loads(encode(SchemaConverter().convert(decode_object(text))))


CONVERTED = {
    "the contract's example, without an anyOf of one": (
        {
            "type": "object",
            "properties": {
                "a": {"$ref": "#/$defs/A"},
                "b": {"type": ["integer", "null"]},
                "c": {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "C"},
            },
            "$defs": {"A": {"type": "string", "minLength": 1}},
            "additionalProperties": False,
        },
        {
            "properties": {
                "a": {"minLength": 1, "type": "string"},
                "b": {"nullable": True, "type": "integer"},
                "c": {"nullable": True, "title": "C", "type": "string"},
            },
            "type": "object",
        },
    ),
    "nothing": ({}, {}),
    "keywords that are kept": (
        {
            "type": "STRING",
            "title": "t",
            "description": "d",
            "default": "x",
            "example": "y",
            "format": "date",
            "minLength": 0,
            "maxLength": 2,
            "pattern": "p",
            "nullable": False,
            "enum": ["x"],
        },
        {
            "type": "STRING",
            "title": "t",
            "description": "d",
            "default": "x",
            "example": "y",
            "format": "date",
            "minLength": 0,
            "maxLength": 2,
            "pattern": "p",
            "nullable": False,
            "enum": ["x"],
        },
    ),
    "keywords of objects and arrays": (
        {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 2,
            "propertyOrdering": ["a"],
            "required": ["a"],
            "properties": {"a": {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 2}},
        },
        {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 2,
            "propertyOrdering": ["a"],
            "required": ["a"],
            "properties": {"a": {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 2}},
        },
    ),
    "keywords that the dialect does not have": (
        {
            "$schema": "s",
            "$comment": "c",
            "$id": "i",
            "type": "integer",
            "exclusiveMinimum": 0,
            "multipleOf": 2,
            "strict": True,
            "cache_control": {"type": "ephemeral"},
            "not": {},
            "examples": [1],
            "deprecated": True,
            "if": {},
        },
        {"type": "integer"},
    ),
    "the same inside": (
        {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "patternProperties": {"^a": {}},
            "properties": {
                "a": {"type": "array", "items": {"type": "string", "$comment": "c", "contentEncoding": "e"}}
            },
        },
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}},
    ),
    "properties with names of keywords": (
        {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("title", "$ref", "$defs", "anyOf", "type")},
        },
        {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("title", "$ref", "$defs", "anyOf", "type")},
        },
    ),
    "empty values": (
        {"type": "object", "description": "", "properties": {}, "required": [], "enum": []},
        {"type": "object"},
    ),
    "nulls": ({"type": "string", "description": None, "default": None, "properties": None}, {"type": "string"}),
    "booleans as schemas": (
        {"properties": {"any": True, "none": False}, "items": True},
        {"properties": {"any": {}}, "type": "object"},
    ),
    "a type that is implied": (
        {"properties": {"a": {"items": {"enum": ["x"]}}}},
        {"properties": {"a": {"items": {"enum": ["x"], "type": "string"}, "type": "array"}}, "type": "object"},
    ),
    "a list of one type": ({"type": ["string"]}, {"type": "string"}),
    "a list of null": ({"type": ["null"]}, {"type": "null"}),
    "a list of types": (
        {"type": ["string", "integer", "null"], "description": "d", "minLength": 1, "maximum": 5, "title": "t"},
        {
            "anyOf": [
                {"type": "string", "nullable": True, "description": "d", "minLength": 1},
                {"type": "integer", "nullable": True, "description": "d", "maximum": 5},
            ]
        },
    ),
    "an enum of integers": (
        {"type": "integer", "enum": [1, 2, 1]},
        {"type": "integer", "description": "One of: 1, 2."},
    ),
    "an enum of integers without a type": ({"enum": [1, 2]}, {"type": "integer", "description": "One of: 1, 2."}),
    "an enum of numbers": (
        '{"enum":[1.50,2]}',
        {
            "anyOf": [
                {"type": "integer", "description": "One of: 2."},
                {"type": "number", "description": "One of: 1.50."},
            ]
        },
    ),
    "an enum of numbers with a type": (
        '{"type":"number","enum":[1.50,2]}',
        {"type": "number", "description": "One of: 1.50, 2."},
    ),
    "an enum of strings that are called integers": (
        {"type": "string", "enum": ["a", 1, True]},
        {"type": "string", "enum": ["a", "1", "true"]},
    ),
    "an enum of one boolean": ({"enum": [True]}, {"type": "boolean", "description": "One of: true."}),
    "an enum of both booleans": ({"enum": [True, False]}, {"type": "boolean"}),
    "an enum of integers with a description": (
        {"type": ["integer", "null"], "enum": [1, 2, None], "description": "How many."},
        {"type": "integer", "nullable": True, "description": "How many. One of: 1, 2."},
    ),
    "an enum of everything with a description": (
        {"enum": ["a", 1, None], "description": "What."},
        {
            "anyOf": [
                {"type": "string", "nullable": True, "enum": ["a"], "description": "What."},
                {"type": "integer", "nullable": True, "description": "What. One of: 1."},
            ]
        },
    ),
    "required properties that there are not": (
        {"type": "object", "properties": {"a": {"type": "object", "required": ["b"]}}, "required": ["a", "b"]},
        {"type": "object", "properties": {"a": {"type": "object"}}, "required": ["a"]},
    ),
    "an enum with null": (
        {"type": ["string", "null"], "enum": ["a", None]},
        {"type": "string", "nullable": True, "enum": ["a"]},
    ),
    "an enum of null": ({"enum": [None]}, {"type": "null"}),
    "const": ({"const": "a"}, {"type": "string", "enum": ["a"]}),
    "const null": ({"const": None}, {"type": "null"}),
    "const of an integer": ({"const": 1, "type": "integer"}, {"type": "integer", "description": "One of: 1."}),
    "oneOf": (
        {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    ),
    "anyOf with null and more": (
        {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}], "description": "d", "default": 1},
        {
            "anyOf": [
                {"type": "string", "nullable": True, "description": "d"},
                {"type": "integer", "nullable": True, "description": "d"},
            ]
        },
    ),
    "anyOf of nothing but null": ({"anyOf": [{"type": "null"}]}, {"type": "null"}),
    "anyOf inside of anyOf": (
        {"anyOf": [{"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"type": "boolean"}]},
        {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}]},
    ),
    "anyOf beside properties": (
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        {
            "anyOf": [
                {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
                {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["b"]},
            ]
        },
    ),
    "anyOf beside the type of one of it": (
        {"type": "array", "title": "t", "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]},
        {"type": "array", "title": "t", "items": {"type": "string"}},
    ),
    "allOf of one": ({"allOf": [{"type": "string"}], "description": "d"}, {"type": "string", "description": "d"}),
    "allOf of several": (
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "string", "minLength": 1}}, "required": ["a"]},
                {"properties": {"a": {"minLength": 2, "maxLength": 9}, "b": {"type": "integer"}}, "required": ["b"]},
                {"description": "last"},
            ],
            "description": "own",
        },
        {
            "type": "object",
            "description": "own",
            "properties": {"a": {"type": "string", "minLength": 2, "maxLength": 9}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    ),
    "allOf with bounds": (
        '{"allOf":[{"type":"number","minimum":1,"maximum":9.5},{"type":"integer","minimum":1.5,"maximum":20}]}',
        {"type": "integer", "minimum": 1.5, "maximum": 9.5},
    ),
    "allOf with enums": ({"allOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}]}, {"type": "string", "enum": ["b"]}),
    "allOf with items": (
        {"allOf": [{"items": {"type": "string"}}, {"items": {"pattern": "p"}}]},
        {"type": "array", "items": {"type": "string", "pattern": "p"}},
    ),
    "allOf with alternatives": (
        {
            "allOf": [
                {"properties": {"a": {"type": "string"}, "b": {}}},
                {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            ]
        },
        {
            "anyOf": [
                {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
                {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["b"]},
            ]
        },
    ),
    "a schema for each position": (
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}, {"type": "string"}], "items": False},
        {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
    ),
    "definitions": (
        {"properties": {"a": {"$ref": "#/definitions/A"}}, "definitions": {"A": {"type": "string"}}},
        {"properties": {"a": {"type": "string"}}, "type": "object"},
    ),
    "siblings of a reference": (
        {
            "$ref": "#/$defs/A",
            "description": "mine",
            "nullable": True,
            "$defs": {"A": {"type": "string", "description": "its"}},
        },
        {"type": "string", "description": "mine", "nullable": True},
    ),
    "a reference in a reference": (
        {"$ref": "#/$defs/A", "$defs": {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {"type": "string"}}},
        {"items": {"type": "string"}, "type": "array"},
    ),
    "the same reference twice": (
        {"properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}},
        {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "type": "object"},
    ),
    "escapes in a reference": (
        {"$ref": "#/$defs/a~1b%20~0c", "$defs": {"a/b ~c": {"type": "string"}}},
        {"type": "string"},
    ),
    "a reference to a property": (
        {"properties": {"a": {"type": "string"}, "b": {"$ref": "#/properties/a"}}},
        {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "type": "object"},
    ),
    "a reference into a list": (
        {"items": {"$ref": "#/x/1"}, "x": [{}, {"type": "string"}]},
        {"items": {"type": "string"}, "type": "array"},
    ),
    "recursion in a definition that is not used": (
        {"type": "string", "$defs": {"A": {"$ref": "#/$defs/A"}}},
        {"type": "string"},
    ),
    "counts with a fraction of nothing": ('{"type":"string","minLength":1.0}', {"type": "string", "minLength": 1}),
}


@pytest.mark.parametrize(("schema", "expected"), CONVERTED.values(), ids=CONVERTED.keys())
def test_a_schema_is_converted(schema, expected):
    converted = convert(schema)
    assert converted == expected
    _check_schema(converted)


def _nested(depth: int) -> dict:
    schema: dict = {"type": "string"}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


def _doubling(levels: int) -> dict:
    definitions = {"d0": {"type": "string"}}
    for level in range(1, levels):
        before = {"$ref": f"#/$defs/d{level - 1}"}
        definitions[f"d{level}"] = {"properties": {"a": before, "b": before}}
    return {"$ref": f"#/$defs/d{levels - 1}", "$defs": definitions}


def _doubling_alternatives(levels: int) -> dict:
    schema: dict = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"p": schema}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    return schema


REFUSED = {
    "a reference to itself": ({"$ref": "#"}, "circular reference #"),
    "a recursive tree": ({"properties": {"c": {"items": {"$ref": "#"}}}}, "circular reference #"),
    "references in a circle": (
        {"$ref": "#/$defs/A", "$defs": {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {"items": {"$ref": "#/$defs/A"}}}},
        "circular reference #/$defs/A",
    ),
    "a circle by two spellings": (
        {"$ref": "#/$defs/A", "$defs": {"A": {"items": {"$ref": "#/%24defs/A"}}}},
        "circular reference",
    ),
    "a reference that is no string": ({"$ref": 1}, "$ref is not a string"),
    "a reference to elsewhere": ({"$ref": "https://example.com/a"}, "only references into the schema itself"),
    "a reference by name": ({"$ref": "#name"}, "only references into the schema itself"),
    "a reference to nothing": ({"$ref": "#/$defs/A"}, "#/$defs/A points to nothing"),
    "a reference through a value": ({"$ref": "#/type/a", "type": "string"}, "points to nothing"),
    "a reference past a list": ({"$ref": "#/x/9", "x": []}, "points to nothing"),
    "a reference to no schema": ({"$ref": "#/x", "x": 1}, "#/x: expected a schema"),
    "items of another type": ({"items": "x"}, "#/items: expected a schema"),
    "items by position": ({"items": [{}]}, "#/items: expected a schema"),
    "properties of another type": ({"properties": []}, "#/properties: expected an object"),
    "a property of another type": ({"properties": {"a": 1}}, "#/properties/a: expected a schema"),
    "a type of another type": ({"type": 1}, "#/type: expected a type"),
    "types of another type": ({"type": ["string", 1]}, "#/type: expected a type"),
    "no types": ({"type": []}, "#/type: expected a type"),
    "allOf of another type": ({"allOf": {}}, "#/allOf: expected a list of schemas"),
    "empty allOf": ({"allOf": []}, "#/allOf: expected a list of schemas"),
    "empty anyOf": ({"anyOf": []}, "#/anyOf: expected a list of schemas"),
    "anyOf of another type": ({"anyOf": [1]}, "#/anyOf/0: expected a schema"),
    "an enum of another type": ({"enum": 1}, "#/enum: expected a list"),
    "an enum of objects": ({"enum": [{}]}, "#/enum: only strings"),
    "an enum without a value of the types": ({"type": ["string", "array"], "enum": [1]}, "#/enum: no value"),
    "a text of another type": ({"description": 1}, "#/description: unexpected value"),
    "a count of another type": ({"minLength": "1"}, "#/minLength: unexpected value"),
    "half a count": ({"minLength": 1.5}, "#/minLength: unexpected value"),
    "a bound of another type": ({"minimum": True}, "#/minimum: unexpected value"),
    "required of another type": ({"required": [1]}, "#/required: unexpected value"),
    "nullable of another type": ({"nullable": "yes"}, "#/nullable: unexpected value"),
    "two types": ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "they differ in type"),
    "two patterns": ({"allOf": [{"pattern": "a"}, {"pattern": "b"}]}, "they differ in pattern"),
    "no common value": ({"allOf": [{"enum": ["a"]}, {"enum": ["b"]}]}, "they differ in enum"),
    "two types of a property": (
        {"allOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"a": {"type": "array"}}}]},
        "they differ in inner type",
    ),
    "two sets of alternatives": (
        {"anyOf": [{"type": "string"}, {"type": "integer"}], "oneOf": [{"title": "a"}, {"title": "b"}]},
        "two sets of alternatives",
    ),
    "alternatives that all differ": (
        {"type": "array", "anyOf": [{"type": "string"}, {"type": "integer"}]},
        "no alternative",
    ),
    "alternatives with other patterns": (
        {"pattern": "a", "anyOf": [{"pattern": "b"}, {"pattern": "c"}]},
        "alternatives that cannot be expressed",
    ),
    "alternatives in both of two properties": (
        {
            "allOf": [
                {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}},
                {"properties": {"a": {"description": "d"}}},
            ]
        },
        "inner alternatives",
    ),
    "too deep": (_nested(101), "nested deeper than 100"),
    "references that double": (_doubling(40), "more than 20000 schemas"),
    "alternatives that double": (_doubling_alternatives(60), "more than 20000 schemas"),
}


@pytest.mark.parametrize(("schema", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_said_is_refused(schema, reason):
    with pytest.raises(SchemaError) as refused:
        convert(schema)
    assert reason in str(refused.value)


def test_what_is_nested_just_not_too_deep_is_converted():
    convert(_nested(100))


def test_all_schemas_of_a_request_have_one_budget():
    converter = SchemaConverter()
    schema = decode_object(json.dumps(_doubling(12)))
    converter.convert(schema)
    converter.convert(schema)
    with pytest.raises(SchemaError, match="more than 20000"):
        converter.convert(schema)


def test_numbers_keep_their_spelling():
    schema = decode_object('{"type":"number","minimum":1.50,"default":{"b":1e2,"a":12345678901234567890}}')
    assert encode(SchemaConverter().convert(schema)) == (
        b'{"default":{"a":12345678901234567890,"b":1e2},"minimum":1.50,"type":"number"}'
    )


NAMES = st.sampled_from(["a", "b", "type", "$ref", "title"])
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])


def _keywords(schemas: st.SearchStrategy) -> st.SearchStrategy:
    anything = LEAVES | st.lists(LEAVES, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | st.lists(TYPES, max_size=3) | LEAVES,
            "properties": st.dictionaries(NAMES, schemas, max_size=3) | LEAVES,
            "items": schemas,
            "prefixItems": st.lists(schemas, max_size=3),
            "anyOf": st.lists(schemas, max_size=3),
            "oneOf": st.lists(schemas, max_size=2),
            "allOf": st.lists(schemas, max_size=3),
            "$ref": st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "x", "#/%zz"]) | LEAVES,
            "$defs": st.dictionaries(NAMES, schemas, max_size=3),
            "enum": st.lists(LEAVES, max_size=3) | LEAVES,
            "const": anything,
            "required": st.lists(NAMES, max_size=2) | LEAVES,
            "minLength": LEAVES,
            "maximum": LEAVES,
            "description": LEAVES,
            "default": anything,
            "nullable": LEAVES,
        },
    )


@given(st.recursive(LEAVES, _keywords, max_leaves=12).filter(lambda schema: isinstance(schema, dict)))
def test_any_json_is_converted_or_refused(schema):
    text = json.dumps(schema)
    try:
        converted = SchemaConverter().convert(decode_object(text))
    except SchemaError:
        return
    _check_schema(json.loads(encode(converted)))
