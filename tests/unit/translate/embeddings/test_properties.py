"""Any request is sent as its provider takes it, or refused; any answer is one to the client, or said to be none."""

from __future__ import annotations

import base64
import json
import struct
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from extproc.errors import ClientError, MalformedRequest, UnprocessableRequest, UnreadableAnswer
from tests.support.embeddings import ACCEPTS, cohere_answer, embed_content_answer, predict_answer, titan_answer
from tests.unit.translate.embeddings.attempts import (
    COHERE,
    EMBED_CONTENT,
    EVERY_MODEL,
    PREDICT,
    TITAN,
    answer,
    answered,
    attempt,
    attempt_bytes,
    schema_of,
)

MODELS = st.sampled_from(EVERY_MODEL)
TEXT = st.text(max_size=6)
TASKS = st.sampled_from(["RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY", "CLUSTERING", "search_query", "NEW", ""])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6
)
ITEMS = st.fixed_dictionaries(
    {"content": TEXT | st.lists(TEXT, max_size=3)}, optional={"task_type": TASKS, "title": TEXT}
)
INPUTS = st.one_of(
    TEXT,
    st.lists(TEXT, max_size=4),
    st.lists(st.integers(min_value=0), max_size=3),
    st.lists(st.lists(st.integers(min_value=0), max_size=2), max_size=2),
    ITEMS,
    st.lists(ITEMS, max_size=3),
    JSON,
)
URLS = st.sampled_from(["data:image/png;base64,AAEC", "data:,x", "https://e/a.png?b", "gs://a/b", "%", "", "http://[x"])
PARTS = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": TEXT}),
    st.fixed_dictionaries(
        {
            "type": st.just("image_url"),
            "image_url": st.fixed_dictionaries({"url": URLS}, optional={"detail": st.sampled_from(["low", "sharp"])}),
        }
    ),
    st.just({"type": "file", "file": {"file_data": "AAEC"}}),
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "system", "assistant"])},
        optional={"content": TEXT | st.lists(PARTS, max_size=3)},
    ),
    max_size=3,
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "encoding_format": st.sampled_from(["float", "base64", "x", None]),
        "dimensions": st.integers(min_value=-3, max_value=2**31 - 1) | JSON,
        "auto_truncate": st.booleans() | st.none(),
        "task_type": TASKS,
        "title": TEXT,
        "input_type": st.sampled_from(["search_query", "x", ""]),
        "user": JSON,
    },
)


@given(
    model=MODELS | st.just("gemini-3-embedding"),
    what=st.fixed_dictionaries({"input": INPUTS}) | st.fixed_dictionaries({"messages": MESSAGES | JSON}) | st.just({}),
    options=OPTIONS,
)
def test_any_request_is_sent_as_the_provider_takes_it_or_refused(model, what, options):
    try:
        _, path, body = attempt(model, **what, **options)
    except (MalformedRequest, UnprocessableRequest):
        return
    ACCEPTS[schema_of(model)](path, body)


@given(schema=st.sampled_from(["AWSBedrock", "GCPVertexAI"]), model=st.text(max_size=12), override=st.text(max_size=12))
def test_a_name_is_one_segment_of_the_path(schema, model, override):
    try:
        _, path, _ = attempt(
            model, schema=schema, override=f"amazon.titan-embed{override}" if override else "", input="x"
        )
    except ClientError:
        return
    assert path.isascii()
    assert not set(path) & set(" ?#%") - {"%"}
    assert path.count("/") == 3


FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)
VECTORS = st.lists(FLOATS, max_size=5)


def document_of(model, vectors):
    if model == PREDICT:
        return predict_answer(*vectors)
    if model == TITAN:
        return titan_answer(vectors[0])
    return embed_content_answer(vectors[0]) if model == EMBED_CONTENT else cohere_answer(*vectors)


@given(model=MODELS, vectors=st.lists(VECTORS, min_size=1, max_size=3))
def test_a_vector_is_the_same_in_both_encodings(model, vectors):
    batch = vectors if model in (PREDICT, COHERE) else vectors[:1]
    asked = {"input": ["x"] * len(batch)}
    as_numbers = answer(model, document_of(model, batch), **asked)
    as_base64 = answer(model, document_of(model, batch), encoding_format="base64", **asked)
    assert [each["embedding"] for each in as_numbers["data"]] == batch
    read = [base64.b64decode(each["embedding"]) for each in as_base64["data"]]
    assert read == [struct.pack(f"<{len(vector)}f", *vector) for vector in batch]


@given(
    model=MODELS,
    answers=st.binary(max_size=40)
    | JSON.map(json.dumps).map(str.encode)
    | st.builds(
        lambda model, cut, put: bytes(json.dumps(document_of(model, [[0.5, 1.0]])), "ascii")[:cut] + put,
        MODELS,
        st.integers(min_value=0, max_value=200),
        st.binary(max_size=3),
    ),
    encoding=st.sampled_from(["float", "base64"]),
)
def test_any_bytes_are_an_answer_or_said_to_be_none(model, answers, encoding):
    try:
        result = answered(model, answers, encoding_format=encoding)
    except UnreadableAnswer:
        return
    read = json.loads(result.body)
    assert (read["object"], read["model"]) == ("list", model)
    assert read["usage"]["prompt_tokens"] == result.usage.input == result.usage.total


@given(
    model=MODELS,
    status=st.sampled_from(["400", "500"]),
    body=st.binary(max_size=60) | JSON.map(json.dumps).map(str.encode),
    kind=TEXT,
)
def test_any_error_can_be_told(model, status, body, kind):
    translator, _, _ = attempt(model, input="x")
    result = translator.response_error(status, {"content-type": "application/json", "x-amzn-errortype": kind}, body)
    told = json.loads(body if result.body is None else result.body)
    assert isinstance(told["error"], dict)


@given(schema=st.sampled_from(sorted(ACCEPTS)), body=st.binary(max_size=60) | JSON.map(json.dumps).map(str.encode))
def test_any_bytes_of_a_request_are_sent_or_refused_in_words(schema, body):
    with suppress(MalformedRequest, UnprocessableRequest):
        attempt_bytes(body, schema=schema, override="m")
