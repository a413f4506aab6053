"""Fuzz target of the JSON edits: any text is edited or refused, and valid text keeps its meaning but for the edit."""

from __future__ import annotations

import json

from extproc.formats import jsonedit
from tests.fuzz.driver import drive

PATHS = (
    ("model",),
    ("stream_options", "include_usage"),
    ("a", 0, "b"),
    ("a", -1),
    (3,),
    ("model", "model", 2),
    ('q"\\', "é"),
    ("",),
)

# The first octet chooses the path, and whether every duplicate is meant.
SEEDS = (
    b'\x00{"model":"a","messages":[{"role":"user","content":"say \\"]}\\" twice"}],"stream":true}',
    b'\x09{"stream":true,"stream_options":{"include_usage":false,"x":[1,2]}}',
    b'\x08{"mod\\u0065l":"a", "model" : "b" ,"MODEL":1}',
    b'\x02{"a":[{"b":1},[[]],null, "s"]}',
    b'\x03{"a":[1 , 2 ]}\n',
    b"\x04[1,2]",
    b'\x05{"model":{"model":[1,2,{"deep":[[[[[[[[1]]]]]]]]}]}}',
    b'\x06{"q\\"\\\\":{"\\u00e9":"x"}}',
    b'\x07\xef\xbb\xbf {"":1}',
    b"\x00{invalid json}",
    b"\x00not-json",
    b'\x00{"a":"' + b"x" * 200 + b'\\\\","b":"' + b'\\"' * 100 + b'"}',
    b'\x00{"a":[' + b'{"a":[{"a":[1]}]},' * 40 + b"1]}",
)


class _Pairs(list[tuple[str, object]]):
    """An object with its order and its duplicates."""


def one_input(data: bytes) -> None:
    """Edit the text. Raises nothing; asserts that valid text means what it should after the edit."""
    choice, text = data[:1] or b"\0", data[1:]
    path: jsonedit.Path = PATHS[choice[0] % len(PATHS)]
    every = choice[0] // len(PATHS) % 2 == 1
    try:
        edited = jsonedit.set_value(text, path, b'"new"', every=every)
    except jsonedit.JSONEditError:
        edited = text
    shorter = jsonedit.delete(text, path)
    raw = jsonedit.find(text, "model")
    count = jsonedit.duplicate_keys(text, "model")
    assert (raw is None) == (count == 0)
    _check_path(text)
    tree = _decode(text)
    if tree is None:
        return
    _decoded(edited)
    _decoded(shorter)
    if isinstance(tree[0], _Pairs):
        _check_model(text, tree[0], raw, count)


def _check_model(text: bytes, pairs: _Pairs, raw: bytes | None, count: int) -> None:
    values = [value for key, value in pairs if key == "model"]
    assert count == len(values)
    assert raw is None or _decoded(raw) == values[-1]
    if count <= 1024:
        edited = jsonedit.set_value(text, ("model",), b'"new"', every=True)
        expected = [(key, "new" if key == "model" else value) for key, value in pairs]
        assert _decoded(edited) == (expected if values else [*pairs, ("model", "new")])
    removed = next((i for i, (key, _) in enumerate(pairs) if key == "model"), len(pairs))
    assert _decoded(jsonedit.delete(text, ("model",))) == [*pairs[:removed], *pairs[removed + 1 :]]


def _check_path(text: bytes) -> None:
    name = text[:40].decode(errors="replace")
    try:
        path = jsonedit.parse_path(name)
        raw = jsonedit.raw_value(name)
    except jsonedit.JSONEditError:
        return
    assert path
    json.loads(raw)


def _decode(text: bytes) -> tuple[object] | None:
    """The document, or ``None`` when the text is not valid JSON, or too deep for a decoder that recurses."""
    try:
        return (json.loads(text.decode(), object_pairs_hook=_Pairs),)
    except (ValueError, RecursionError):
        return None


def _decoded(text: bytes) -> object:
    tree = _decode(text)
    assert tree is not None, text
    return tree[0]


if __name__ == "__main__":
    drive(one_input, name="jsonedit", package="extproc.formats", seeds=SEEDS)
