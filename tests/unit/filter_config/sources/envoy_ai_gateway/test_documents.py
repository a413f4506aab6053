"""Files to documents: YAML and JSON, many in one, lists, lines, the standard input."""

from __future__ import annotations

import io

import pytest

from filter_config.sources.envoy_ai_gateway import compile_files
from filter_config.sources.envoy_ai_gateway.documents import Text, documents
from filter_config.sources.faults import Faults


def read(data: str):
    faults = Faults()
    found = [(document.line, document.value) for document in documents(Text(name="f", data=data.encode()), faults)]
    return found, list(map(str, faults.closed()))


FILES = {
    "empty": ("", []),
    "nothing but comments and marks": ("# a\n---\n---\n# b\n...\n", []),
    "one": ("a: 1\n", [(1, {"a": 1})]),
    "several": ("---\na: 1\n---\nb: 2\n", [(2, {"a": 1}), (4, {"b": 2})]),
    "a comment before": ("# one\n\na: 1\n--- # two\n# more\nb: 2", [(3, {"a": 1}), (6, {"b": 2})]),
    "on the line of its mark": ("--- {a: 1}\n--- {b: 2}\n", [(1, {"a": 1}), (2, {"b": 2})]),
    "ended": ("a: 1\n...\nb: 2\n", [(1, {"a": 1}), (3, {"b": 2})]),
    "a directive": ("%YAML 1.1\n---\na: 1\n", [(3, {"a": 1})]),
    "dashes in a text": ("a: |\n  ---\n  b\n---\nc: ---d\n", [(1, {"a": "---\nb\n"}), (5, {"c": "---d"})]),
    "carriage returns": ("a: 1\r\n---\r\nb: 2\r\n", [(1, {"a": 1}), (3, {"b": 2})]),
    "JSON": ('{"a": 1}', [(1, {"a": 1})]),
    "a list": ("kind: List\nitems: [{a: 1}, {b: 2}]\n", [(1, {"a": 1}), (1, {"b": 2})]),
    "a list of a kind": ("kind: SecretList\nitems: [{a: 1}]\n", [(1, {"a": 1})]),
    "an empty list": ("kind: List\n", []),
    "a list of null": ("apiVersion: v1\nkind: List\nitems: null\n", []),
    "lists in a list": (
        "kind: List\nitems: [{kind: List, items: [{a: 1}, {b: 2}]}, {kind: CatList, items: [{c: 3}]}, {d: 4}]\n",
        [(1, {"a": 1}), (1, {"b": 2}), (1, {"c": 3}), (1, {"d": 4})],
    ),
    "lines of JSON": ('{"a": 1}\n{"b": 2} \r\n\n{"c": 3}', [(1, {"a": 1}), (2, {"b": 2}), (4, {"c": 3})]),
    "JSON after JSON": ('{\n"a": {\n"b": 1}\n}\n{\n"c": 2\n}\n', [(1, {"a": {"b": 1}}), (5, {"c": 2})]),
    "a brace at the margin": ('{"a":\n{"b": 1},\n"c":\n{}}\n', [(1, {"a": {"b": 1}, "c": {}})]),
    "a flow mapping that is no JSON": ("{a: 1, b: [2]} # done\n", [(1, {"a": 1, "b": [2]})]),
    "further in": ("  a: 1\n  b: 2\n# at the end\n", [(1, {"a": 1, "b": 2})]),
}


@pytest.mark.parametrize(("data", "expected"), FILES.values(), ids=FILES)
def test_documents_and_their_lines(data, expected):
    assert read(data) == (expected, [])


_CUT_OFF = (
    "something follows the end of the document; put --- between documents, and write all lines of one with the same "
    "indentation"
)

FAULTS = {
    "JSON with a comma after it": ('{"a": 1},\n{"b": 2}\n', [], [f"f:1: {_CUT_OFF}"]),
    "two JSON values in a line": ('---\n{"a": 1} {"b": 2}\n---\nc: 3\n', [(4, {"c": 3})], [f"f:2: {_CUT_OFF}"]),
    "lines that are not as far in as the first": ("  a: 1\nb: 2\n", [], [f"f:1: {_CUT_OFF}"]),
    "a list of nothing": (
        "a: 1\n---\nkind: List\nitem: [{a: 1}]\n",
        [(1, {"a": 1})],
        ["f:3: List: items: is no list of resources; write one"],
    ),
    "a list in a list of something else": (
        "kind: List\nitems: [{kind: List, items: {a: 1}}]\n",
        [],
        ["f:1: List: items[0].items: is no list of resources; write one"],
    ),
    "a document that cannot be read": (
        "a: 1\n---\nb: [\n---\nc: 3\n",
        [(1, {"a": 1}), (5, {"c": 3})],
        ["f:3: line 4, column 1: while parsing a flow node: did not find expected node content; write YAML or JSON"],
    ),
    "a key given twice": (
        "---\na: 1\nb: 2\na: 3\n",
        [(2, {"a": 3, "b": 2})],
        ["f:4: warning: key 'a' is given twice in one mapping; the last one is used; keep one"],
    ),
}


@pytest.mark.parametrize(("data", "expected", "said"), FAULTS.values(), ids=FAULTS)
def test_what_is_wrong_is_told_with_its_line_and_stops_nothing_else(data, expected, said):
    assert read(data) == (expected, said)


def test_an_unreadable_document_shows_nothing_of_itself():
    _, said = read("stringData: {apiKey: sk-planted, ]\n")
    assert said
    assert "sk-planted" not in said[0]


def test_lists_in_lists_may_be_as_deep_as_the_reader_reads():
    depth = 480
    found, said = read("{kind: List, items: [" * depth + "{a: 1}" + "]}" * depth)
    assert (found, said) == ([(1, {"a": 1})], [])


MINIMAL = b"""
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec: {listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: aigateway.envoyproxy.io/v1beta1
kind: AIGatewayRoute
metadata: {name: r}
spec: {parentRefs: [{name: gw}], rules: []}
"""


def test_files_directories_and_the_standard_input(tmp_path):
    first, second = MINIMAL.split(b"---\n")
    (tmp_path / "a.yaml").write_bytes(first)
    (tmp_path / "b.json").write_text('{"apiVersion": "v1", "kind": "List", "items": []}')
    (tmp_path / "c.txt").write_text("not: [yaml")
    single = tmp_path / "single.conf"
    single.write_bytes(second)
    for paths, stdin in (
        ([tmp_path, single], None),
        ([str(tmp_path), "-"], io.BytesIO(second)),
        (["-"], io.BytesIO(MINIMAL)),
    ):
        compiled = compile_files(paths, stdin=stdin, version="v1")
        assert compiled.faults == ()
        assert compiled.ok
        assert [(made.model.id, made.config.version) for made in compiled.gateways] == [("default/gw", "v1")]


ENCODINGS = {
    "UTF-16, as PowerShell writes it": lambda data: data.replace(b"\n", b"\r\n").decode().encode("utf-16"),
    "UTF-16, big end first": lambda data: b"\xfe\xff" + data.decode().encode("utf-16-be"),
    "UTF-8 with its mark": lambda data: b"\xef\xbb\xbf" + data,
    "files put together, each with its mark": lambda data: b"\xef\xbb\xbf" + data.replace(b"---", b"\xef\xbb\xbf---"),
}


@pytest.mark.parametrize("encoded", ENCODINGS.values(), ids=ENCODINGS)
def test_files_of_windows_are_read_to_their_end(tmp_path, encoded):
    path = tmp_path / "r.yaml"
    path.write_bytes(encoded(MINIMAL))
    for compiled in (compile_files([path]), compile_files(["-"], stdin=io.BytesIO(encoded(MINIMAL)))):
        assert compiled.faults == ()
        assert [made.model.id for made in compiled.gateways] == ["default/gw"]


def test_broken_utf_16_is_told(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_bytes("kind: é\n".encode("utf-16") + b"\x00")
    (said,) = map(str, compile_files([path]).faults)
    assert said.startswith(f"{path}:1: ")
    assert said.endswith("; write YAML or JSON")


def test_a_file_that_is_not_there_is_told(tmp_path):
    said = [str(fault) for fault in compile_files([tmp_path / "none.yaml", "-"]).faults]
    assert said == [
        "-: there is no standard input here; name a file",
        f"{tmp_path}/none.yaml: cannot be read: No such file or directory; name a file of resources",
    ]


def test_a_directory_without_resources_and_a_name_that_is_none_are_told(tmp_path):
    long = tmp_path / ("x" * 300)
    said = [str(fault) for fault in compile_files([tmp_path, long]).faults]
    assert said == [
        f"{tmp_path}: warning: has no file of resources; put files there that end in .json, .yaml, .yml",
        f"{long}: cannot be read: File name too long; name a file of resources",
    ]
