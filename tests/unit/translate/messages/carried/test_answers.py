"""What a whole answer becomes (contract, messages to chat completions 5.6)."""

import json

import pytest
from anthropic.types import Message

from extproc.errors import UnreadableAnswer
from extproc.usage import TokenUsage
from tests.unit.translate.messages.carried.attempts import JSON, answer, answered, ask, completion

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
THOUGHT = {"type": "thinking", "thinking": "t", "signature": "s"}


def text(words):
    return {"type": "text", "text": words}


def thinking(words, signature=""):
    return {"type": "thinking", "thinking": words, "signature": signature}


def use(arguments, identity="c1"):
    return {"type": "tool_use", "id": identity, "name": "f", "input": arguments}


CONTENTS = {
    "a text": ({"content": "a"}, [text("a")]),
    "nothing": ({"content": None}, []),
    "an empty text": ({"content": ""}, []),
    "a call": ({"content": None, "tool_calls": [CALL]}, [use({"a": 1})]),
    "a text and a call": ({"content": "a", "tool_calls": [CALL]}, [text("a"), use({"a": 1})]),
    "a refusal": ({"content": None, "refusal": "no"}, [text("no")]),
    "reasoning": ({"content": "a", "reasoning_content": "t"}, [thinking("t"), text("a")]),
    "reasoning by another name": ({"content": "a", "reasoning": "t"}, [thinking("t"), text("a")]),
    "reasoning as an object": (
        {
            "content": "a",
            "reasoning_content": {
                "reasoningContent": {"reasoningText": {"text": "t", "signature": "s"}, "redactedContent": "cg=="}
            },
        },
        [thinking("t", "s"), {"type": "redacted_thinking", "data": "cg=="}, text("a")],
    ),
    "thinking blocks": (
        {
            "content": "a",
            "reasoning_content": "x",
            "thinking_blocks": [THOUGHT, {"type": "redacted_thinking", "data": "d"}],
        },
        [thinking("t", "s"), {"type": "redacted_thinking", "data": "d"}, text("a")],
    ),
    "a signature beside the reasoning": (
        {"content": "a", "reasoning_content": "x", "thinking_blocks": [{"type": "thinking", "signature": "s"}]},
        [thinking("x", "s"), text("a")],
    ),
    "secret thoughts beside the reasoning": (
        {"content": "a", "reasoning_content": "x", "thinking_blocks": [{"type": "redacted_thinking", "data": "d"}]},
        [{"type": "redacted_thinking", "data": "d"}, thinking("x"), text("a")],
    ),
    "annotations and sound are dropped": ({"content": "a", "annotations": [{"type": "x"}], "audio": {}}, [text("a")]),
    "content in parts": ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, [text("ab")]),
    "arguments that are no text": (
        {"tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": {"a": 1}}}]},
        [use({"a": 1})],
    ),
    "members of wrong types": (
        {"content": "a", "refusal": 7, "tool_calls": [None, {"id": 5, "function": None}], "reasoning_content": ["x"]},
        [text("a"), {"type": "tool_use", "id": "toolu_00000000000040008000000000000001", "name": "", "input": {}}],
    ),
}


@pytest.mark.parametrize(("message", "content"), CONTENTS.values(), ids=CONTENTS)
def test_content(message, content):
    document = answer(completion(message))
    assert document["content"] == content
    Message.model_validate(document, strict=True)


ARGUMENTS = {
    "nothing": (None, {}),
    "no text": ("", {}),
    "a null": ("null", {}),
    "no object": ("[1]", {}),
    "no JSON": ("{'a': 1}", {}),
    "cut short": ('{"a": ', {}),
    "more than one": ("{}{}", {}),
    "too deep": ('{"a":' * 5000 + "1" + "}" * 5000, {}),
}


@pytest.mark.parametrize(("arguments", "expected"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_that_are_no_object_are_none(arguments, expected):
    call = {"id": "c1", "function": {"name": "f", "arguments": arguments}}
    assert answer(completion({"tool_calls": [call]}, "tool_calls"))["content"] == [use(expected)]


def test_arguments_keep_their_spelling():
    call = {"id": "c1", "function": {"name": "f", "arguments": '{"b": 1.0, "a": 12345678901234567890123e-2}'}}
    assert b'"input":{"b": 1.0, "a": 12345678901234567890123e-2}' in answered(completion({"tool_calls": [call]})).body


REASONS = {
    "stop": ("stop", {"content": "a"}, "end_turn"),
    "length": ("length", {"content": "a"}, "max_tokens"),
    "tool_calls": ("tool_calls", {"tool_calls": [CALL]}, "tool_use"),
    "content_filter": ("content_filter", {"content": ""}, "refusal"),
    "function_call": ("function_call", {"content": ""}, "end_turn"),
    "none": (None, {"content": "a"}, "end_turn"),
    "stop, though it has called": ("stop", {"tool_calls": [CALL]}, "tool_use"),
    "length, in a call": ("length", {"tool_calls": [CALL]}, "max_tokens"),
    "stop, though it has refused": ("stop", {"refusal": "no"}, "refusal"),
}


@pytest.mark.parametrize(("finish", "message", "expected"), REASONS.values(), ids=REASONS)
def test_stop_reasons(finish, message, expected):
    document = answer(completion(message, finish))
    assert (document["stop_reason"], document["stop_sequence"]) == (expected, None)


USAGES = {
    "none": (None, (0, 0, 0, 0), TokenUsage(input=0, output=0, total=0)),
    "plain": (
        {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        (10, 0, 0, 5),
        TokenUsage(input=10, output=5, total=15),
    ),
    "cached (BR-62)": (
        {"prompt_tokens": 3936, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 3712}},
        (224, 3712, 0, 10),
        TokenUsage(input=3936, output=10, total=3946, cached_input=3712, cache_creation_input=0),
    ),
    "written to the cache": (
        {
            "prompt_tokens": 30,
            "completion_tokens": 1,
            "prompt_tokens_details": {"cached_tokens": 10, "cache_creation_input_tokens": 15},
        },
        (5, 10, 15, 1),
        TokenUsage(input=30, output=1, total=31, cached_input=10, cache_creation_input=15),
    ),
    "more cached than there is": (
        {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 9}},
        (0, 5, 0, 1),
        TokenUsage(input=5, output=1, total=6, cached_input=9, cache_creation_input=0),
    ),
    "reasoning is part of the output": (
        {"prompt_tokens": 5, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 8}},
        (5, 0, 0, 9),
        TokenUsage(input=5, output=9, total=14, reasoning=8),
    ),
    "nonsense": ({"prompt_tokens": "x", "completion_tokens": -1}, (0, 0, 0, 0), TokenUsage(input=0, output=0, total=0)),
}


@pytest.mark.parametrize(("reported", "told", "metered"), USAGES.values(), ids=USAGES)
def test_usage(reported, told, metered):
    result = answered(completion({"content": "a"}, usage=reported))
    usage = json.loads(result.body)["usage"]
    names = ["cache_creation_input_tokens", "cache_read_input_tokens", "input_tokens", "output_tokens"]
    assert list(usage) == names
    fresh, cached, created, output = told
    assert usage == dict(zip(names, (created, cached, fresh, output), strict=True))
    assert result.usage == metered
    assert result.complete


def test_a_call_without_an_id_is_given_one():
    document = answer({"choices": [{"message": {"tool_calls": [{"function": {"name": "f"}}]}}]})
    assert document["content"][0]["id"].startswith("toolu_")
    assert document["id"] == ""
    assert document["model"] == "gpt-x"


def test_only_the_first_choice_counts():
    others = [{"index": 1, "message": {"content": "b"}}, {"index": 0, "message": {"content": "a"}}]
    assert answer({"choices": others})["content"] == [text("a")]


def test_an_answer_without_a_choice_says_nothing():
    document = answer({"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 0}})
    assert (document["content"], document["stop_reason"], document["usage"]["input_tokens"]) == ([], None, 4)
    Message.model_validate(document, strict=True)


NONE = {
    "no JSON": b"<html>",
    "nothing": b"",
    "a list": b"[]",
    "a null": b"null",
    "no choices": b'{"id":"x"}',
    "an error": b'{"error":{"message":"busy"}}',
    "a flat error": b'{"object":"error","message":"busy","code":400}',
    "no text": b'"\xff"',
}


@pytest.mark.parametrize("body", NONE.values(), ids=NONE)
def test_what_is_no_answer_is_told_so(body):
    with pytest.raises(UnreadableAnswer):
        answered(body)


def test_a_document_in_pieces_is_read_when_it_is_whole():
    translator, _, _ = ask({})
    assert translator.response_headers(JSON) == []
    body = json.dumps(completion({"content": "a"})).encode()
    assert translator.response_body(body[:10], end_of_stream=False).body == b""
    assert json.loads(translator.response_body(body[10:], end_of_stream=True).body)["content"] == [text("a")]


def test_a_document_is_called_json():
    translator, _, _ = ask({})
    assert translator.response_headers({"content-type": "text/plain"}) == [("content-type", "application/json")]
