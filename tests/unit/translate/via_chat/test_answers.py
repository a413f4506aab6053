"""Answers are read as far as they can be: what has a wrong type is not there, and the rest still counts."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.translate.via_chat.answers import (
    Answer,
    Choice,
    ErrorObject,
    FunctionCall,
    Message,
    ThinkingBlock,
    ToolCall,
    read_answer,
    read_error,
    reasoning_text,
)


def read(value):
    return read_answer(json.dumps(value).encode())


LENIENT = {
    "a text that is a number": ({"id": 7, "model": "m"}, Answer(model="m")),
    "choices that are none": ({"choices": "x", "model": "m"}, Answer(model="m")),
    "a choice that is none": (
        {"choices": [7, {"finish_reason": "stop"}]},
        Answer(choices=[Choice(finish_reason="stop")]),
    ),
    "an index that is a text": (
        {"choices": [{"index": "1", "message": {"content": "a"}}]},
        Answer(choices=[Choice(message=Message(content="a"))]),
    ),
    "a message that is none": ({"choices": [{"message": 7}]}, Answer(choices=[Choice()])),
    "content in parts": (
        {"choices": [{"delta": {"content": [{"type": "text", "text": "a"}, 7, {"type": "x"}, {"text": "b"}]}}]},
        Answer(choices=[Choice(delta=Message(content="ab"))]),
    ),
    "a call without a function": (
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": None}, 7]}}]},
        Answer(choices=[Choice(delta=Message(tool_calls=[ToolCall(index=0)]))]),
    ),
    "arguments that are an object": (
        {"choices": [{"delta": {"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}}]},
        Answer(
            choices=[Choice(delta=Message(tool_calls=[ToolCall(function=FunctionCall(name="f", arguments='{"a":1}'))]))]
        ),
    ),
    "a thought that is none": (
        {"choices": [{"delta": {"thinking_blocks": [{"thinking": 7, "signature": "s"}]}}]},
        Answer(choices=[Choice(delta=Message(thinking_blocks=[ThinkingBlock(signature="s")]))]),
    ),
}


@pytest.mark.parametrize(("value", "expected"), LENIENT.values(), ids=LENIENT)
def test_a_member_of_a_wrong_type_is_absent(value, expected):
    assert read(value) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "delta", "content", "tool_calls", "function", "index", "error", "object"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(value=JSON)
def test_any_object_is_an_answer_and_nothing_else_is(value):
    data = json.dumps(value).encode()
    answer = read_answer(data)
    assert (answer is not None) == isinstance(value, dict)
    if answer is not None:
        error = read_error(data, answer)
        assert error is None or isinstance(error.message, str)


@given(data=st.binary(max_size=30))
def test_any_bytes_are_read_without_a_fault(data):
    read_answer(data)


ERRORS = {
    "none": ({"choices": []}, None),
    "a null": ({"error": None}, None),
    "an empty one": ({"error": {}, "choices": [{}]}, None),
    "an object": ({"error": {"type": "t", "message": "m", "code": 4}}, ErrorObject("t", "m", "4")),
    "a text": ({"error": "m"}, ErrorObject("", "m")),
    "a list": ({"error": [1]}, ErrorObject("", "")),
    "at the top": ({"object": "error", "type": "t", "message": "m", "code": "c"}, ErrorObject("t", "m", "c")),
    "in the text of an answer": ({"choices": [{"message": {"content": '"error"'}}]}, None),
    "not at the top": ({"object": "list", "message": "error"}, None),
}


@pytest.mark.parametrize(("value", "expected"), ERRORS.values(), ids=ERRORS)
def test_errors(value, expected):
    data = json.dumps(value).encode()
    answer = read_answer(data)
    assert answer is not None
    assert read_error(data, answer) == expected


REASONING = {
    "none": ({}, ""),
    "by the first name": ({"reasoning_content": "a", "reasoning": "b"}, "a"),
    "by the second": ({"reasoning_content": "", "reasoning": "b"}, "b"),
    "an object": ({"reasoning_content": {"text": "a"}}, "a"),
    "something else": ({"reasoning_content": [1]}, ""),
}


@pytest.mark.parametrize(("message", "expected"), REASONING.values(), ids=REASONING)
def test_reasoning(message, expected):
    answer = read({"choices": [{"message": message}]})
    assert reasoning_text(answer.first.message) == expected
