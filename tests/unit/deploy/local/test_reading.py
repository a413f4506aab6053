"""Texts read again and again: always what a first look gives, and what is there unchanged is the very same."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deploy.local import reading
from deploy.local.reading import Judging, Reader
from filter_config.sources.envoy_ai_gateway.documents import Document, Text, documents
from filter_config.sources.faults import Faults

# Marks, and what nearly is one; documents, and what is none.
PIECES = st.lists(
    st.sampled_from(
        ["---", "---\n", "--- ", "-", "\n", "--", "a: 1\n", "b: [2]\n", "# c\n", "x: [", "...\n", "d: |\n ---\n"]
    ),
    max_size=12,
)


def first_look(text):
    faults = Faults()
    return list(documents(text, faults)), faults.closed()


def read(reader, text):
    faults = Faults()
    return reader.documents(text, faults), faults.closed()


@given(st.lists(st.tuples(st.sampled_from(["f", "g"]), PIECES), min_size=1, max_size=6))
@example([("f", ["a: 1\n", "---\n", "b: [2]\n"]), ("f", ["a: 1\n", "---"]), ("f", ["a: 1\n", "---\n", "b: [2]\n"])])
@example([("f", ["a: 1\n", "---\n", "a: 1\n"]), ("f", ["a: 1\n", "---\n", "a: 1\n", "---\n", "a: 1\n"])])
def test_any_edits_of_texts_give_what_a_first_look_gives(edits):
    reader = Reader()
    texts: dict[str, Text] = {}
    for name, pieces in edits:
        texts[name] = Text(name=name, data="".join(pieces).encode())
        for text in texts.values():
            assert read(reader, text) == first_look(text)
        reader.forget_unused()


def numbered(numbers):
    return b"".join(b"---\nn: %d\n" % number for number in numbers)


def test_only_what_has_changed_is_parsed(monkeypatch):
    reader, parsed = Reader(), []

    def noted(text, faults):
        parsed.append(text.data)
        return documents(text, faults)

    monkeypatch.setattr(reading, "documents", noted)
    before, _ = read(reader, Text(name="f", data=numbered(range(9))))
    assert len(parsed) == 9
    reader.forget_unused()
    parsed.clear()

    after, _ = read(reader, Text(name="f", data=b"# first\n" + numbered([0, 1, 2, 3, 44, 5, 6, 7, 8])))

    assert parsed == [b"# first\n", b"---\nn: 44\n"]
    assert [new.value is old.value for new, old in zip(after, before, strict=True)].count(False) == 1
    assert after[8].line == before[8].line + 1


def test_what_has_moved_to_another_text_is_not_parsed_again(monkeypatch):
    reader = Reader()
    (before,), _ = read(reader, Text(name="f", data=numbered([1])))
    reader.forget_unused()
    monkeypatch.setattr(reading, "documents", None)

    (after,), _ = read(reader, Text(name="g", data=numbered([1])))

    assert (after.file, after.value is before.value) == ("g", True)


@pytest.mark.parametrize("metadata", [5, None, [], {"annotations": 5}, {"annotations": None}, "x"])
def test_a_document_of_another_shape_is_a_fault_and_no_accident(metadata):
    value = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    known = Judging().facts(Document(file="f", line=1, value=value))
    assert (known.quiet, known.substituted) == (False, False)
