"""Edits of JSON text: what the contract shows, and on all other text the same as parse, edit, dump."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from extproc.formats import jsonedit
from extproc.formats.jsonedit import JSONEditError

MODEL = jsonedit.parse_path("model")


def set_text(data, path, raw, **options):
    return jsonedit.set_value(data, jsonedit.parse_path(path), raw, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    data: bytes
    gives: bytes
    path: str = "model"
    raw: bytes = b'"b"'
    every: bool = False


SETS = {
    "key present": Set(data=b'{ "x":1, "model" : "a" , "y":2}', gives=b'{ "x":1, "model" : "b" , "y":2}'),
    "key missing": Set(data=b'{"x":1}', gives=b'{"x":1,"model":"b"}'),
    "key missing, blank before the brace": Set(data=b'{"x":1 }', gives=b'{"x":1 ,"model":"b"}'),
    "text after the document goes with an append": Set(data=b'{"x":1}\n', gives=b'{"x":1,"model":"b"}'),
    "text after the document stays with a replacement": Set(data=b'{"model":1}\n', gives=b'{"model":"b"}\n'),
    "text before the document stays": Set(data=b' \n{"x":1}', gives=b' \n{"x":1,"model":"b"}'),
    "byte order mark": Set(data=b'\xef\xbb\xbf{"x":1}', gives=b'\xef\xbb\xbf{"x":1,"model":"b"}'),
    "empty object": Set(data=b"{}", gives=b'{"model":"b"}'),
    "blank object": Set(data=b"{ }", gives=b'{ "model":"b"}'),
    "no body": Set(data=b"", gives=b'{"model":"b"}'),
    "blank body": Set(data=b" \n", gives=b'{"model":"b"}'),
    "null": Set(data=b"null", gives=b'{"model":"b"}'),
    "no JSON": Set(data=b"not-json", gives=b'{"model":"b"}'),
    "a scalar": Set(data=b"12", gives=b'{"model":"b"}'),
    "broken object": Set(data=b"{invalid json}", gives=b'{invalid json,"model":"b"}'),
    "open object": Set(data=b'{"x":1', gives=b'{"x":1,"model":"b"}'),
    "only a brace": Set(data=b"{", gives=b'{"model":"b"}'),
    "a comma too many": Set(data=b'{"x":1,}', gives=b'{"x":1,"model":"b"}'),
    "a value is missing": Set(data=b'{"model":}', gives=b'{"model":"b"}'),
    "nested key of that name": Set(data=b'{"a":{"model":"n"}}', gives=b'{"a":{"model":"n"},"model":"b"}'),
    "value of that name": Set(data=b'{"role":"model"}', gives=b'{"role":"model","model":"b"}'),
    "value is an object": Set(data=b'{"model":{"a":[1]},"x":1}', gives=b'{"model":"b","x":1}'),
    "value is no UTF-8": Set(data=b'{"model":"\xff","x":"\xfe"}', gives=b'{"model":"b","x":"\xfe"}'),
    "duplicates, the first": Set(data=b'{"model":"a","model":"c"}', gives=b'{"model":"b","model":"c"}'),
    "duplicates, each": Set(data=b'{"model":"a","model":"c"}', gives=b'{"model":"b","model":"b"}', every=True),
    "spelled otherwise": Set(data=rb'{"mod\u0065l":"a"}', gives=rb'{"mod\u0065l":"b"}'),
    "duplicates in other spellings, each": Set(
        data=rb'{"model":"a","\u006dodel":"c"}', gives=rb'{"model":"b","\u006dodel":"b"}', every=True
    ),
    "none to set, each": Set(data=b'{"x":1}', gives=b'{"x":1,"model":"b"}', every=True),
    # Forced usage (contract 3.9.2).
    "usage: present": Set(
        path="stream_options.include_usage",
        raw=b"true",
        data=b'{"stream_options":{"include_usage":false},"x":1}',
        gives=b'{"stream_options":{"include_usage":true},"x":1}',
    ),
    "usage: missing, other options kept": Set(
        path="stream_options.include_usage",
        raw=b"true",
        data=b'{"stream_options":{"a":1}, "x":1}',
        gives=b'{"stream_options":{"a":1,"include_usage":true}, "x":1}',
    ),
    "usage: no options": Set(
        path="stream_options.include_usage",
        raw=b"true",
        data=b'{"stream":true }',
        gives=b'{"stream":true ,"stream_options":{"include_usage":true}}',
    ),
    "usage: null": Set(
        path="stream_options.include_usage",
        raw=b"true",
        data=b'{"stream_options": null}',
        gives=b'{"stream_options": {"include_usage":true}}',
    ),
    "usage: two options objects, each": Set(
        path="stream_options.include_usage",
        raw=b"true",
        every=True,
        data=b'{"stream_options":{"include_usage":false},"stream_options":{}}',
        gives=b'{"stream_options":{"include_usage":true},"stream_options":{"include_usage":true}}',
    ),
    # Body mutator (contract 3.11).
    "parents missing": Set(path="a.b.c", data=b"{}", gives=b'{"a":{"b":{"c":"b"}}}'),
    "parent is a scalar": Set(path="a.b", data=b'{"a":5}', gives=b'{"a":{"b":"b"}}'),
    "parent is a string of JSON": Set(path="a.b", data=rb'{"a":"{\"b\":1}"}', gives=b'{"a":{"b":"b"}}'),
    "element": Set(path="a.1", raw=b"9", data=b'{"a":[1, 2, 3]}', gives=b'{"a":[1, 9, 3]}'),
    "element appended": Set(path="a.-1", raw=b"9", data=b'{"a":[1, 2 ]}', gives=b'{"a":[1, 2 ,9]}'),
    "element appended to none": Set(path="a.-1", raw=b"9", data=b'{"a":[]}', gives=b'{"a":[9]}'),
    "element beyond the end": Set(path="a.3", raw=b"9", data=b'{"a":[1]}', gives=b'{"a":[1,null,null,9]}'),
    "array missing": Set(path="a.1.b", raw=b"9", data=b"{}", gives=b'{"a":[null,{"b":9}]}'),
    "array missing, append": Set(path="a.-1", raw=b"9", data=b"{}", gives=b'{"a":[9]}'),
    "array for the document": Set(path="-1", raw=b"9", data=b"[1] ", gives=b"[1,9]"),
    "open array": Set(path="a.-1", raw=b"9", data=b'{"a":[1', gives=b'{"a":[1,9]'),
    "only a bracket": Set(path="-1", raw=b"9", data=b"[", gives=b"[9]"),
    "array of arrays": Set(path="a.0.1.b", raw=b"9", data=b'{"a":[[1,{}],2]}', gives=b'{"a":[[1,{"b":9}],2]}'),
    "number as a key": Set(path="a.1", raw=b"9", data=b'{"a":{"1":2}}', gives=b'{"a":{"1":9}}'),
    "forced key": Set(path="a.:1", raw=b"9", data=b"{}", gives=b'{"a":{"1":9}}'),
    "escaped dot": Set(path=r"a\.b", raw=b"9", data=b'{"a.b":1}', gives=b'{"a.b":9}'),
    "key that needs escapes": Set(path='q"\n', raw=b"9", data=b"{}", gives=rb'{"q\"\n":9}'),
}


@pytest.mark.parametrize("case", SETS.values(), ids=SETS)
def test_set(case):
    assert set_text(case.data, case.path, case.raw, every=case.every) == case.gives


DELETES = {
    "first key": (b'{ "model": "a" , "x":1 }', b'{ "x":1 }'),
    "middle key": (b'{"x":1, "model":"a", "y":2}', b'{"x":1, "y":2}'),
    "last key": (b'{"x":1, "model":"a"}', b'{"x":1}'),
    "only key": (b'{"model":"a"}', b"{}"),
    "only key, with blanks": (b'{ "model" : "a" }', b"{ }"),
    "key missing": (b'{ "x" : 1 }', b'{ "x" : 1 }'),
    "duplicates": (b'{"model":"a","model":"c"}', b'{"model":"c"}'),
    "nested key of that name": (b'{"a":{"model":1}}', b'{"a":{"model":1}}'),
    "value is an object": (b'{"model":{"a":[1,{}]},"x":1}', b'{"x":1}'),
    "spelled otherwise": (rb'{"x":1,"mod\u0065l":"a"}', b'{"x":1}'),
    "no JSON": (b"not-json", b"not-json"),
    "no body": (b"", b""),
    "array": (b'["model"]', b'["model"]'),
    "broken object": (b'{bad "model":1,"x":2}', b'{bad"x":2}'),
}


@pytest.mark.parametrize(("data", "gives"), DELETES.values(), ids=DELETES)
def test_delete(data, gives):
    assert jsonedit.delete(data, MODEL) == gives


DEEP_DELETES = {
    "member": ("a.b", b'{"a":{"b":1,"c":2}}', b'{"a":{"c":2}}'),
    "element": ("a.1", b'{"a":[1, 2, 3]}', b'{"a":[1, 3]}'),
    "first element": ("a.0", b'{"a":[ 1, 2]}', b'{"a":[  2]}'),
    "only element": ("0", b"[1]", b"[]"),
    "last element": ("a.-1", b'{"a":[1, 2, 3]}', b'{"a":[1, 2]}'),
    "last of none": ("a.-1", b'{"a":[]}', b'{"a":[]}'),
    "last after a comma too many": ("-1", b"[1,]", b"[]"),
    "element beyond the end": ("a.3", b'{"a":[1]}', b'{"a":[1]}'),
    "key of an array": ("a.b", b'{"a":[1]}', b'{"a":[1]}'),
    "number as a key": ("a.0", b'{"a":{"0":1}}', b'{"a":{}}'),
    "member of a scalar": ("a.b", b'{"a":1}', b'{"a":1}'),
    "parent missing": ("a.b", b'{"c":1}', b'{"c":1}'),
}


@pytest.mark.parametrize(("path", "data", "gives"), DEEP_DELETES.values(), ids=DEEP_DELETES)
def test_delete_deeper(path, data, gives):
    assert jsonedit.delete(data, jsonedit.parse_path(path)) == gives


REFUSED = {
    "a key in an array": (b"[1]", ("model",), "no element 'model'"),
    "a key in a deeper array": (b'{"a":[1]}', ("a", "b"), "no element 'b'"),
    "an index below -1": (b"[1]", (-2,), "no element -2"),
    "an index far beyond the end": (b"[1]", (100_000,), "beyond the end"),
    "an index far beyond a new array": (b"{}", ("a", 100_000), "beyond the end"),
    "no path": (b"{}", (), "empty path"),
}


@pytest.mark.parametrize(("data", "path", "message"), REFUSED.values(), ids=REFUSED)
def test_an_impossible_edit_says_why(data, path, message):
    with pytest.raises(JSONEditError) as caught:
        jsonedit.set_value(data, path, b"1")

    assert message in str(caught.value)


def test_a_flood_of_duplicates_is_refused():
    data = b"{" + b",".join([b'"model":1'] * 2000) + b"}"

    with pytest.raises(JSONEditError, match="more than 1024 members named 'model'"):
        jsonedit.set_value(data, MODEL, b"2", every=True)

    assert jsonedit.set_value(data, MODEL, b"2").startswith(b'{"model":2,"model":1,')


def test_delete_without_a_path_is_refused():
    with pytest.raises(JSONEditError, match="empty path"):
        jsonedit.delete(b"{}", ())


PATHS = {
    "model": ("model",),
    "a.b": ("a", "b"),
    "a.0": ("a", 0),
    "a.10.-1": ("a", 10, -1),
    "-2": ("-2",),
    "007": ("007",),
    "12345678901234567890": ("12345678901234567890",),
    "²": ("²",),
    ":0": ("0",),
    ":-1": ("-1",),
    "::0": (":0",),
    r"\:0": (":0",),
    "a:b": ("a:b",),
    "a.:": ("a", ""),
    r"a\.b.c": ("a.b", "c"),
    r"a\\b": ("a\\b",),
    r"\*\?\#\@\|": ("*?#@|",),
    "a.": ("a", ""),
    ".a": ("", "a"),
    "ключ.é": ("ключ", "é"),
}


@pytest.mark.parametrize(("text", "path"), PATHS.items(), ids=PATHS)
def test_a_path_is_read(text, path):
    assert jsonedit.parse_path(text) == path


@pytest.mark.parametrize("text", ["a.*", "a?", "#", "a.#.b", "@this", "a|b"])
def test_a_path_that_searches_is_refused(text):
    with pytest.raises(JSONEditError, match="cannot set or delete a value at a complex path"):
        jsonedit.parse_path(text)


@pytest.mark.parametrize(("text", "message"), [("", "empty path"), ("a\\", "ends in an escape")])
def test_a_path_that_means_nothing_is_refused(text, message):
    with pytest.raises(JSONEditError, match=message):
        jsonedit.parse_path(text)


RAW_VALUES = {
    "a word": ("abc", b'"abc"'),
    "a quoted word": ('"abc"', b'"abc"'),
    "zero": ("0", b"0"),
    "a number": ("-1.5e3", b"-1.5e3"),
    "a number with blanks": (" 5 ", b" 5 "),
    "a huge number, as written": ("1" * 400, b"1" * 400),
    "true": ("true", b"true"),
    "false": ("false", b"false"),
    "null": ("null", b"null"),
    "an object": ('{"a": [1]}', b'{"a": [1]}'),
    "an array": ("[1, 2]", b"[1, 2]"),
    "nothing": ("", b'""'),
    "blanks": ("  ", b'"  "'),
    "a word in another case": ("True", b'"True"'),
    "a version": ("1.2.x", b'"1.2.x"'),
    "half an object": ("{abc", b'"{abc"'),
    "blanks around a word": (" abc ", b'" abc "'),
    "not ASCII": ("naïve \N{GRINNING FACE}", '"naïve \N{GRINNING FACE}"'.encode()),
    "markup": ("<a>&", b'"<a>&"'),
    "escapes": ('a"b\\c\n\x01', rb'"a\"b\\c\n\u0001"'),
    "a lone surrogate": ("\ud800", rb'"\ud800"'),
}


@pytest.mark.parametrize(("text", "raw"), RAW_VALUES.values(), ids=RAW_VALUES)
def test_a_value_is_raw_when_it_looks_like_json(text, raw):
    assert jsonedit.raw_value(text) == raw


@pytest.mark.parametrize(
    "text", ["{bad}", "1-2", "+5", "-", "01", '"', '"a"b"', "[1,]", "[NaN]", '["\ud800"]', "[" * 5000 + "]" * 5000]
)
def test_a_value_that_only_looks_like_json_is_refused(text):
    with pytest.raises(JSONEditError, match="looks like JSON"):
        jsonedit.raw_value(text)


FINDS = {
    "present": (b'{"a":1,"model": "m" }', b'"m"', 1),
    "the last wins": (b'{"model":1,"model":{"a":2}}', b'{"a":2}', 2),
    "in another spelling": (rb'{"model":1,"mod\u0065l":2}', b"2", 2),
    "missing": (b'{"a":{"model":1}}', None, 0),
    "array": (b'["model",1]', None, 0),
    "no JSON": (b"model", None, 0),
    "no body": (b"", None, 0),
    "open": (b'{"model":"m', b'"m', 1),
}


@pytest.mark.parametrize(("data", "raw", "count"), FINDS.values(), ids=FINDS)
def test_a_member_is_found_and_counted(data, raw, count):
    assert jsonedit.find(data, "model") == raw
    assert jsonedit.duplicate_keys(data, "model") == count


def test_a_large_body_keeps_all_its_other_bytes():
    head = b'{"messages":[' + b",".join(
        b'{"role":"user","content":%b}' % json.dumps('say "]}" \\ ' * 400).encode() for _ in range(300)
    )
    data = head + b'],"model":"a","stream":true}\n'

    assert set_text(data, "model", b'"b"', every=True) == head + b'],"model":"b","stream":true}\n'


# Texts that would take a quadratic or recursive scanner minutes, or down.
HARD = {
    "deep": b'{"a":' + b"[" * 300_000 + b"]" * 300_000,
    "deep and never closed": b'{"a":' + b'{"a":[' * 100_000,
    "backslashes": b'{"a":"' + b"\\\\" * 300_000 + b'"',
    "escaped quotes": b'{"a":"' + b'\\"' * 300_000 + b'"',
    "backslashes, never closed": b'{"a":"' + b"\\" * 300_001,
    "small objects": b'{"a":[' + b'{"a":{"b":{"c":[[1]]}}},' * 20_000 + b"1]",
    "small deep members": b'{"a":[[[[[[1]]]]]]' + b',"a":[[[[[[1]]]]]]' * 20_000,
    "keys with escapes": b'{"\\n":1' + b',"\\n":"\\""' * 20_000,
    "open strings": b'{"' + b'"{' * 100_000,
    "blanks": b'{"a":1' + b" " * 1_000_000,
    "blanks and colons": b'{"a":1' + b" :" * 300_000,
    "colons": b'{"model"' + b":" * 500_000,
    "openings": b"{" * 300_000,
    "keys without a value": b"{" + b'"a" ' * 100_000,
}


@pytest.mark.parametrize("data", HARD.values(), ids=HARD)
def test_hard_text_takes_linear_time(data):
    closed = data + b"}"

    assert jsonedit.find(closed, "x") is None
    assert len(jsonedit.set_value(closed, ("x",), b"1", every=True)) >= len(closed)
    assert jsonedit.delete(closed, ("x",)) == closed


# Properties. Objects are lists of pairs here, so that duplicates and order count.


class Pairs(list):
    def __eq__(self, other):
        return type(other) is Pairs and list.__eq__(self, other)

    __hash__ = None


KEYS = ["a", "b", "model", "0", "1", "-1", "é", "\N{GRINNING FACE}", 'q"\\/\n', ""]
NOTHING = object()

scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8))
trees = st.recursive(
    st.one_of(scalars, st.sampled_from(KEYS)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(st.tuples(st.sampled_from(KEYS), inner), max_size=5).map(Pairs),
    ),
    max_leaves=25,
)
documents = st.one_of(trees, st.lists(st.tuples(st.sampled_from(KEYS), trees), max_size=6).map(Pairs))
paths = st.lists(st.one_of(st.sampled_from(KEYS), st.integers(-1, 4)), min_size=1, max_size=4).map(tuple)
seeds = st.integers(0, 2**32)


def decode(data):
    return json.loads(data, object_pairs_hook=Pairs)


def write(tree, chance):
    """The tree as JSON text, in one of the many ways to write it."""
    blank = chance.choice(["", "", " ", "\n\t", "  "])
    match tree:
        case Pairs():
            inner = ",".join(f"{blank}{spell(k, chance)}{blank}:{write(v, chance)}" for k, v in tree)
            return f"{blank}{{{inner}{blank}}}{blank}"
        case list():
            return f"{blank}[{','.join(write(v, chance) for v in tree)}{blank}]{blank}"
        case str():
            return blank + spell(tree, chance) + blank
    return blank + json.dumps(tree) + blank


def spell(text, chance):
    way = chance.randrange(3)
    if way == 2:
        units = text.encode("utf-16-be", "surrogatepass").hex()
        return '"' + "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4)) + '"'
    return json.dumps(text, ensure_ascii=way == 1)


def text_of(tree, seed):
    return write(tree, random.Random(seed)).encode()


def reference_set(tree, path, value, *, every):
    """Parse, edit: the tree after the edit."""
    if not path:
        return value
    segment, rest = path[0], path[1:]
    if isinstance(tree, Pairs):
        hits = [i for i, (key, _) in enumerate(tree) if key == str(segment)]
        edited = Pairs(tree)
        for i in hits if every else hits[:1]:
            edited[i] = (edited[i][0], reference_set(edited[i][1], rest, value, every=every))
        if not hits:
            edited.append((str(segment), reference_set(NOTHING, rest, value, every=every)))
        return edited
    if isinstance(tree, list):
        if isinstance(segment, str):
            raise JSONEditError
        if 0 <= segment < len(tree):
            return [*tree[:segment], reference_set(tree[segment], rest, value, every=every), *tree[segment + 1 :]]
        padding = [None] * max(0, segment - len(tree))
        return [*tree, *padding, reference_set(NOTHING, rest, value, every=every)]
    return reference_set(Pairs() if isinstance(segment, str) else [], path, value, every=every)


def reference_delete(tree, path):
    segment, rest = path[0], path[1:]
    if isinstance(tree, Pairs):
        hit = next((i for i, (key, _) in enumerate(tree) if key == str(segment)), None)
    elif isinstance(tree, list) and isinstance(segment, int) and tree and segment < len(tree):
        hit = segment % len(tree) if segment == -1 else segment
    else:
        hit = None
    if hit is None:
        return tree
    edited = type(tree)(tree)
    if not rest:
        del edited[hit]
    elif isinstance(tree, Pairs):
        edited[hit] = (tree[hit][0], reference_delete(tree[hit][1], rest))
    else:
        edited[hit] = reference_delete(tree[hit], rest)
    return edited


@settings(deadline=None)
@given(tree=documents, path=paths, seed=seeds, every=st.booleans())
def test_set_means_the_same_as_parse_edit_dump(tree, path, seed, every):
    data = text_of(tree, seed)
    try:
        expected = reference_set(decode(data), path, "new", every=every)
    except JSONEditError:
        with pytest.raises(JSONEditError):
            jsonedit.set_value(data, path, b'"new"', every=every)
    else:
        assert decode(jsonedit.set_value(data, path, b'"new"', every=every)) == expected


@settings(deadline=None)
@given(tree=documents, path=paths, seed=seeds)
def test_delete_means_the_same_as_parse_edit_dump(tree, path, seed):
    data = text_of(tree, seed)

    assert decode(jsonedit.delete(data, path)) == reference_delete(decode(data), path)


@settings(deadline=None)
@given(tree=documents, seed=seeds)
def test_set_changes_no_other_byte(tree, seed):
    data = text_of(tree, seed)
    assume(b"@" not in data)
    path = path_into(tree, random.Random(seed))
    try:
        added, old = reference_change(decode(data), path)
    except JSONEditError:
        return

    edited = jsonedit.set_value(data, path, b"@")  # taken as it is, and nowhere else in the text

    before, after = edited.split(added) if old is not NOTHING else edited.rsplit(added, 1)
    assert data.startswith(before)
    if old is NOTHING:
        # Text behind the document goes when a member is appended to the document itself.
        assert before + after in (data, data.rstrip())
    else:
        assert data.endswith(after)
        assert decode(data[len(before) : len(data) - len(after)]) == old


def path_into(tree, chance):
    """A path that mostly exists."""
    path = []
    while len(path) < 5 and (not path or chance.random() < 0.8):
        if isinstance(tree, Pairs) and tree and chance.random() < 0.8:
            key = chance.choice(tree)[0]
            path.append(key)
            tree = next(value for name, value in tree if name == key)
        elif isinstance(tree, list) and not isinstance(tree, Pairs) and chance.random() < 0.9:
            path.append(chance.randrange(-1, len(tree) + 2))
            tree = tree[path[-1]] if 0 <= path[-1] < len(tree) else None
        else:
            path.append(chance.choice(KEYS))
            tree = None
    return tuple(path)


def reference_change(tree, path):
    """The bytes that setting `@` adds, and the value that goes for them."""
    for depth, segment in enumerate(path):
        rest = built(path[depth + 1 :])
        comma = b"," if tree else b""
        if isinstance(tree, Pairs):
            found = next((value for key, value in tree if key == str(segment)), NOTHING)
            text = comma + json.dumps(str(segment), ensure_ascii=False).encode() + b":" + rest
        elif isinstance(tree, list):
            if isinstance(segment, str):
                raise JSONEditError
            found = tree[segment] if 0 <= segment < len(tree) else NOTHING
            text = comma + b"null," * max(0, segment - len(tree)) + rest
        else:
            return built(path[depth:]), tree
        if found is NOTHING:
            return text, NOTHING
        tree = found
    return b"@", tree


def built(path):
    if not path:
        return b"@"
    if isinstance(path[0], int):
        return b"[" + b"null," * max(0, path[0]) + built(path[1:]) + b"]"
    return b"{" + json.dumps(path[0], ensure_ascii=False).encode() + b":" + built(path[1:]) + b"}"


def shared_prefix(left, right):
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


@settings(deadline=None)
@given(tree=documents, path=paths, seed=seeds)
def test_delete_removes_one_range(tree, path, seed):
    data = text_of(tree, seed)

    edited = jsonedit.delete(data, path)

    assert shared_prefix(edited, data) + shared_prefix(edited[::-1], data[::-1]) >= len(edited)
    if reference_delete(decode(data), path) == decode(data):
        assert edited == data


@settings(deadline=None)
@given(tree=documents, key=st.sampled_from(KEYS), seed=seeds)
def test_find_and_count_mean_the_same_as_parse(tree, key, seed):
    data = text_of(tree, seed)
    pairs = decode(data)
    values = [value for name, value in pairs if name == key] if isinstance(pairs, Pairs) else []

    found = jsonedit.find(data, key)

    assert jsonedit.duplicate_keys(data, key) == len(values)
    assert (decode(found) if found is not None else NOTHING) == (values[-1] if values else NOTHING)


@settings(deadline=None)
@given(tree=documents, seed=seeds, cut=st.integers(0, 400), path=paths, every=st.booleans())
def test_text_that_was_cut_is_edited_or_refused(tree, seed, cut, path, every):
    data = text_of(tree, seed)[:cut]
    original = bytes(data)
    try:
        edited = jsonedit.set_value(data, path, b"1", every=every)
    except JSONEditError:
        edited = b"1"

    assert b"1" in edited
    assert len(jsonedit.delete(data, path)) <= len(data)
    assert data == original


@settings(deadline=None)
@given(text=st.text())
def test_a_string_comes_back(text):
    raw = jsonedit.encode_string(text)

    assert json.loads(raw) == text
    assert b"\n" not in raw
