"""Usage reports of OpenAI-like backends: what has the types that it should have is read as anything else is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.translate.openai_usage import UsageReport, chat_usage, read_chat_report, read_report
from extproc.usage import MAX_COUNT, TokenUsage

COUNT = (
    st.integers(0, 40)
    | st.sampled_from([None, -1, 1.0, 1.5, 1e300, True, "7", MAX_COUNT, MAX_COUNT + 1, 2**70, [], {}])
    | st.floats(allow_nan=False, allow_infinity=False)
)
ANYTHING = COUNT | st.text(max_size=3)
DETAILS = ANYTHING | st.dictionaries(
    st.sampled_from(
        ["cached_tokens", "cache_creation_input_tokens", "cache_write_tokens", "reasoning_tokens", "audio_tokens"]
    ),
    COUNT,
)
USAGE = ANYTHING | st.fixed_dictionaries(
    {},
    optional={
        "prompt_tokens": COUNT,
        "completion_tokens": COUNT,
        "total_tokens": COUNT,
        "prompt_tokens_details": DETAILS,
        "completion_tokens_details": DETAILS,
        "cost": ANYTHING,
    },
)
ANSWER = ANYTHING | st.fixed_dictionaries({}, optional={"id": ANYTHING, "model": ANYTHING, "usage": USAGE})


@given(ANSWER)
def test_a_document_is_read_as_its_parts_are(answer):
    data = json.dumps(answer).encode()
    report = read_report(data)
    expected = report and UsageReport(report.model_name(), chat_usage(report.usage), report.usage is not None)
    assert read_chat_report(data) == expected


@given(ANSWER, st.integers(0, 200))
def test_what_is_cut_is_no_report(answer, cut):
    data = json.dumps({"answer": answer, "usage": {"prompt_tokens": 3}}).encode()
    assert read_chat_report(data[: -1 - cut % len(data)]) is None


@pytest.mark.parametrize(
    ("details", "created"),
    [
        ({"cache_creation_input_tokens": 4}, 4),
        ({"cache_write_tokens": 5}, 5),
        ({"cache_creation_input_tokens": 4, "cache_write_tokens": 5}, 4),
        ({"cache_creation_input_tokens": None, "cache_write_tokens": 5}, None),
        ({}, 0),
        (None, None),
    ],
    ids=["one name", "the other", "both", "null", "neither", "no details"],
)
def test_what_was_written_to_the_cache_goes_by_two_names(details, created):
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12, "prompt_tokens_details": details}
    report = read_chat_report(json.dumps({"model": "m", "usage": usage}).encode())
    cached = None if details is None else 0
    assert report == UsageReport(
        "m",
        TokenUsage(input=10, output=2, total=12, cached_input=cached, cache_creation_input=created),
        reports_usage=True,
    )
