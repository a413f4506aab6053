from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.formats.jsonvalue import JSONValueError, compact_object, decode, decode_object, encode

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)

SPELLINGS = {
    "a fraction of zero": ("1.0", b"1.0"),
    "an exponent": ("[1e5,1E-7]", b"[1e5,1E-7]"),
    "more digits than a double has": ("0.12345678901234567890123", b"0.12345678901234567890123"),
    "an integer beyond 64 bits": ("123456789012345678901234567890", b"123456789012345678901234567890"),
    "digits in text": ('{"v":"1.0"}', b'{"v":"1.0"}'),
    "white space goes": ('{ "a" : [ 1 , 2.50 ] }', b'{"a":[1,2.50]}'),
    "members are sorted at every level": ('{"b":{"d":1,"c":2.0},"a":0}', b'{"a":0,"b":{"c":2.0,"d":1}}'),
    "text is not escaped without need": ('"\\u00e9<&>"', '"é<&>"'.encode()),
}
BROKEN = [
    "",
    "{",
    "nan",
    "NaN",
    "[Infinity, 1.0]",
    "1.",
    "01",
    '"\\ud800"',
    '["\\ud800", 1.0]',
    b"\xff",
    "{'a':1}",
    "[1.0,]",
    "1e999",
]


@pytest.mark.parametrize("name", SPELLINGS)
def test_numbers_are_written_as_they_were_read(name):
    text, written = SPELLINGS[name]
    assert encode(decode(text)) == written
    assert encode(decode(text.encode())) == written


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_not_json_is_an_error(text):
    with pytest.raises(JSONValueError):
        decode(text)


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 100_000 + "1.0"])
def test_what_is_nested_too_deep_is_an_error(text):
    with pytest.raises(JSONValueError):
        decode(text)


@pytest.mark.parametrize("text", ["[]", "1.5", "null", '"{}"'])
def test_only_an_object_is_an_object(text):
    with pytest.raises(JSONValueError, match="expected an object"):
        decode_object(text)


@given(JSON)
def test_values_survive(value):
    assert json.loads(encode(decode(json.dumps(value)))) == value


COMPACT = {
    "white space goes": (b' { "a" : [ 1 , 2.50 ] }\n', b'{"a":[1,2.50]}'),
    "members stay in their order, however often they are there": (b'{"b":1,"a":2,"b":3}', b'{"b":1,"a":2,"b":3}'),
    "escapes and numbers stay as they are spelled": (b'{"\\u0061":1E5,"b":1e999}', b'{"\\u0061":1E5,"b":1e999}'),
}


@pytest.mark.parametrize("name", COMPACT)
def test_an_object_that_is_copied_is_spelled_as_before(name):
    spelled, compact = COMPACT[name]
    assert bytes(compact_object(spelled)) == compact


@pytest.mark.parametrize(
    "text", ["[]", "1.5", "null", '"{}"', "", "{", "{'a':1}", '{"a":NaN}', '{"a":01}', '{"a":"\ud800"}']
)
def test_only_an_object_is_copied(text):
    with pytest.raises(JSONValueError):
        compact_object(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("spelled", [b'{"a":"\xff"}', b'{"\xed\xa0\x80":1}', b'{"a":' * 100_000])
def test_what_a_decoder_has_skipped_is_checked(spelled):
    with pytest.raises(JSONValueError):
        compact_object(spelled)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_copies_hold_the_same_values(value):
    spelled = json.dumps(value, indent=1).encode()
    assert json.loads(bytes(compact_object(spelled))) == value
