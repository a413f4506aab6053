"""What a Converse answer becomes for the client (contract, chat 8.5)."""

from __future__ import annotations

import json
from typing import Any

import botocore.session
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion

from extproc.errors import UnreadableAnswer
from extproc.translate.chat.bedrock.answer import FINISH_REASONS
from extproc.usage import NO_USAGE, TokenUsage
from tests.unit.translate.chat.bedrock.attempts import REQUEST_ID, completion, whole

USAGE = {"inputTokens": 10, "outputTokens": 20, "totalTokens": 30}


def answer(*content: Any, **members: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": list(content)}
    return {"output": {"message": message}, "stopReason": "end_turn", "usage": USAGE, **members}


def message(*content: Any) -> Any:
    return completion(answer(*content))["choices"][0]["message"]


def test_the_document_byte_by_byte():
    read = completion(
        answer({"text": "hi"}, usage={"inputTokens": 3, "outputTokens": 2, "totalTokens": 5, "cacheReadInputTokens": 4})
    )
    assert json.dumps(read, separators=(",", ":")) == (
        '{"id":"rid","choices":[{"finish_reason":"stop","index":0,"message":{"content":"hi","role":"assistant"}}],'
        '"created":1700000000,"model":"anthropic.claude-x","object":"chat.completion","usage":{"prompt_tokens":7,'
        '"completion_tokens":2,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}'
    )
    assert read["id"] == REQUEST_ID
    ChatCompletion.model_validate(read)


MESSAGES = {
    "texts": ([{"text": "a "}, {"text": "b"}], {"content": "a b", "role": "assistant"}),
    "an empty text": ([{"text": ""}], {"content": "", "role": "assistant"}),
    "nothing": ([], {"content": None, "role": "assistant"}),
    "a call": (
        [{"toolUse": {"toolUseId": "t", "name": "f", "input": {"b": 1, "a": "é"}}}],
        {
            "content": None,
            "role": "assistant",
            "tool_calls": [{"id": "t", "function": {"arguments": '{"b":1,"a":"é"}', "name": "f"}, "type": "function"}],
        },
    ),
    "a call without input": (
        [{"toolUse": {"toolUseId": "t", "name": "f"}}],
        {
            "content": None,
            "role": "assistant",
            "tool_calls": [{"id": "t", "function": {"arguments": "{}", "name": "f"}, "type": "function"}],
        },
    ),
    "a call without an id": (
        [{"toolUse": {"name": "f", "input": None}}],
        {
            "content": None,
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "00000000-0000-4000-8000-000000000001",
                    "function": {"arguments": "{}", "name": "f"},
                    "type": "function",
                }
            ],
        },
    ),
    "reasoning": (
        [
            {"reasoningContent": {"reasoningText": {"text": "a", "signature": "s"}}},
            {"reasoningContent": {"reasoningText": {"text": "b"}}},
            {"text": "x"},
        ],
        {
            "content": "x",
            "role": "assistant",
            "reasoning_content": "ab",
            "thinking_blocks": [
                {"type": "thinking", "thinking": "a", "signature": "s"},
                {"type": "thinking", "thinking": "b"},
            ],
        },
    ),
    "a signature, and encrypted reasoning": (
        [
            {"reasoningContent": {"reasoningText": {"signature": "s"}}},
            {"reasoningContent": {"redactedContent": "AA=="}},
        ],
        {
            "content": None,
            "role": "assistant",
            "thinking_blocks": [
                {"type": "thinking", "signature": "s"},
                {"type": "redacted_thinking", "data": "AA=="},
            ],
        },
    ),
    "blocks of other kinds, and members of other types": (
        [{"image": {}}, {"new": 1}, {"text": 5}, {"reasoningContent": 5}, {"reasoningContent": {}}, {"text": "x"}],
        {"content": "x", "role": "assistant"},
    ),
}


@pytest.mark.parametrize(("content", "expected"), MESSAGES.values(), ids=MESSAGES)
def test_messages(content: list[Any], expected: dict[str, Any]):
    assert message(*content) == expected
    ChatCompletion.model_validate(completion(answer(*content)))


REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "model_context_window_exceeded": "length",
    "malformed_model_output": "length",
    "malformed_tool_use": "length",
    "refusal": "content_filter",
    "pause_turn": "length",
    "brand_new": "length",
    "": "length",
    None: "stop",
    5: "length",
}


@pytest.mark.parametrize(("reason", "expected"), REASONS.items(), ids=map(str, REASONS))
def test_stop_reasons(reason: object, expected: str):
    assert completion(answer({"text": "x"}, stopReason=reason))["choices"][0]["finish_reason"] == expected


def test_the_table_above_has_every_stop_reason_of_the_service():
    shape = botocore.session.get_session().get_service_model("bedrock-runtime").shape_for("StopReason")
    assert set(shape.enum) <= REASONS.keys()
    assert FINISH_REASONS.items() <= REASONS.items()


def test_no_stop_reason_with_a_call():
    read = completion({"output": {"message": {"content": [{"toolUse": {"toolUseId": "t", "name": "f"}}]}}})
    assert read["choices"][0]["finish_reason"] == "stop"
    assert "usage" not in read


USAGES = {
    "plain": (USAGE, TokenUsage(input=10, output=20, total=30)),
    "cached": (
        {**USAGE, "cacheReadInputTokens": 5, "cacheWriteInputTokens": 7},
        TokenUsage(input=22, output=20, total=42, cached_input=5, cache_creation_input=7),
    ),
    "a large cache": (
        {
            "inputTokens": 3,
            "outputTokens": 5,
            "totalTokens": 32676,
            "cacheReadInputTokens": 32651,
            "cacheWriteInputTokens": 17,
        },
        TokenUsage(input=32671, output=5, total=32676, cached_input=32651, cache_creation_input=17),
    ),
    "zero": ({"inputTokens": 0, "outputTokens": 0}, TokenUsage(input=0, output=0, total=0)),
    "in part": ({"outputTokens": 2}, TokenUsage(output=2, total=2)),
    "nonsense": ({"inputTokens": -1, "outputTokens": "2", "cacheReadInputTokens": True}, NO_USAGE),
    "no object": ([1], NO_USAGE),
    "null": (None, NO_USAGE),
}


@pytest.mark.parametrize(("usage", "expected"), USAGES.values(), ids=USAGES)
def test_usage(usage: object, expected: TokenUsage):
    read, counted = whole(answer({"text": "x"}, usage=usage))
    assert counted == expected
    if expected == NO_USAGE:
        assert "usage" not in read
    else:
        shown = read["usage"]
        assert shown["prompt_tokens"] + shown["completion_tokens"] == shown["total_tokens"] == expected.total


def test_the_service_tier_is_shown():
    assert completion(answer(serviceTier={"type": "flex"}))["service_tier"] == "flex"
    for odd in (None, {}, {"type": None}, "flex"):
        assert "service_tier" not in completion(answer(serviceTier=odd))


UNREADABLE = {
    "not JSON": b"<html>",
    "empty": b"",
    "null": b"null",
    "an error": b'{"message":"x"}',
    "output without a message": b'{"output":{}}',
    "content that is no list": b'{"output":{"message":{"content":"x"}}}',
    "not UTF-8": b'{"output":{"message":{"role":"\xff"}}}',
    "too deep": b'{"output":{"message":{"content":[{"text":' + b"[" * 99999,
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_answer_is_a_502(body: bytes):
    with pytest.raises(UnreadableAnswer):
        completion(body)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
blocks = st.fixed_dictionaries(
    {}, optional={"text": json_values, "toolUse": json_values, "reasoningContent": json_values}
)


@given(st.lists(blocks, max_size=4), json_values, json_values, json_values)
def test_no_answer_breaks_anything(content: list[Any], reason: Any, usage: Any, tier: Any):
    try:
        read, counted = whole(answer(*content, stopReason=reason, usage=usage, serviceTier=tier))
    except UnreadableAnswer:
        return
    assert read["choices"][0]["finish_reason"] in {"stop", "length", "tool_calls", "content_filter"}
    assert counted == NO_USAGE or counted.total == (counted.input or 0) + (counted.output or 0)
    ChatCompletion.model_validate(read)
