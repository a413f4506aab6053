"""The two ways of reading a resource agree: one decodes it, the other says why it cannot be decoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filter_config.redact import dec_hook
from filter_config.sources.envoy_ai_gateway import compile_texts
from filter_config.sources.envoy_ai_gateway.documents import Text, documents
from filter_config.sources.envoy_ai_gateway.load import _KINDS
from filter_config.sources.envoy_ai_gateway.reading import NOTHING, Findings, _struct_reader, read
from filter_config.sources.faults import Faults

GOLDEN = Path(__file__).parents[4] / "golden" / "resources"
EXAMPLES = [
    document.value
    for case in sorted(GOLDEN.iterdir())
    for document in documents(Text(name=case.name, data=(case / "resources.yaml").read_bytes()), Faults())
]
KNOWN = [
    (struct, value)
    for value in EXAMPLES
    if (struct := _KINDS.get((value["apiVersion"].rpartition("/")[0], value["kind"])))
]

JUNK = st.sampled_from([None, "", "x", "X y", -1, 0, 2**40, 1.5, True, [], {}, [1], ["x"], {"x": 1}, "1h", "é" * 300])


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inner in items for place in places(inner, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], junk: Any) -> Any:
    if not path:
        return junk
    if isinstance(value, dict):
        return {**value, path[0]: replaced(value[path[0]], path[1:], junk)}
    return [replaced(item, path[1:], junk) if place == path[0] else item for place, item in enumerate(value)]


@pytest.mark.parametrize(("known", "value"), KNOWN, ids=[value["kind"] for _, value in KNOWN])
def test_the_slow_way_reads_what_the_fast_way_reads(known, value):
    struct, _ = known
    findings = Findings()
    assert _struct_reader(struct)(value, "", findings) == msgspec.convert(value, struct, dec_hook=dec_hook)
    assert findings == []


@settings(max_examples=200)
@given(st.data())
def test_what_the_fast_way_refuses_the_slow_way_explains(data):
    (struct, _), value = data.draw(st.sampled_from(KNOWN))
    mutilated = replaced(value, data.draw(st.sampled_from(places(value))), data.draw(JUNK))
    read_value, findings = read(struct, mutilated)
    try:
        assert read_value == msgspec.convert(mutilated, struct, dec_hook=dec_hook)
        assert findings == []
    except msgspec.ValidationError:
        # A null is nothing, and an unknown field is only told.
        assert findings or read_value is not None
        assert read_value is not NOTHING
        assert read_value is not None or findings.refused


@settings(max_examples=40)
@given(st.data())
def test_whatever_the_resources_the_compiler_answers(data):
    value = data.draw(st.sampled_from(EXAMPLES))
    mutilated = replaced(value, data.draw(st.sampled_from(places(value))), data.draw(JUNK))
    items = [mutilated if item is value else item for item in EXAMPLES]
    result = compile_texts([Text(name="f", data=msgspec.json.encode({"kind": "List", "items": items}))])
    assert len(result.gateways) <= len(list(GOLDEN.iterdir()))


@given(st.binary(max_size=200))
def test_whatever_the_bytes_the_compiler_answers(data):
    assert compile_texts([Text(name="f", data=data)]).gateways == ()


def test_no_repr_shows_a_credential():
    result = compile_texts([Text(name="f", data=(GOLDEN / "basic" / "resources.yaml").read_bytes())])
    for secret in ("openai-example-key", "aws-example-secret", "azure-example-key", "anthropic-example-key"):
        assert secret.encode() in result.gateways[0].payload
        assert secret not in repr(result)
