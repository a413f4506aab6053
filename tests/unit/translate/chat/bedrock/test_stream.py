"""What a ConverseStream answer becomes for the client (contract, chat 8.6)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from extproc.usage import NO_USAGE, TokenUsage
from tests.support.eventstream import error, event, exception, frame
from tests.support.golden import make_translator
from tests.unit.translate.chat.bedrock.attempts import Stream, send


def delta(index: int, **members: Any) -> bytes:
    return event("contentBlockDelta", {"contentBlockIndex": index, "delta": members})


def text(value: str, index: int = 0) -> bytes:
    return delta(index, text=value)


def call(index: int, name: str) -> bytes:
    return event(
        "contentBlockStart", {"contentBlockIndex": index, "start": {"toolUse": {"toolUseId": name, "name": "f"}}}
    )


def arguments(index: int, piece: str) -> bytes:
    return delta(index, toolUse={"input": piece})


def reasoning(index: int, **members: str) -> bytes:
    return delta(index, reasoningContent=members)


def close(index: int) -> bytes:
    return event("contentBlockStop", {"contentBlockIndex": index})


def stop(reason: str = "end_turn") -> bytes:
    return event("messageStop", {"stopReason": reason})


def usage(**counts: int) -> bytes:
    return event("metadata", {"usage": counts or {"inputTokens": 3, "outputTokens": 2}, "metrics": {"latencyMs": 1}})


START = event("messageStart", {"role": "assistant"})
PLAIN = [START, text("hi"), close(0), stop(), usage()]
TOOLS = [
    START,
    text("look"),
    close(0),
    call(1, "a"),
    arguments(1, '{"x":'),
    arguments(1, "1}"),
    close(1),
    call(2, "b"),
    arguments(2, "{}"),
    close(2),
    stop("tool_use"),
    usage(inputTokens=41, outputTokens=36, totalTokens=77),
]
THOUGHTS = [
    START,
    reasoning(0, text="I "),
    reasoning(0, text="think"),
    reasoning(0, signature="sig"),
    close(0),
    reasoning(1, redactedContent="AAEC"),
    close(1),
    text("so", 2),
    close(2),
    stop(),
    usage(),
]


def test_text_byte_by_byte():
    common = '"created":1700000000,"model":"anthropic.claude-x","object":"chat.completion.chunk"'
    last = '{"index":0,"delta":{"content":"","role":"assistant"},"finish_reason":"stop"}'
    usage_ = '"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}'
    assert Stream(*PLAIN).text.split("\n\n") == [
        f'data: {{"id":"rid","choices":[{{"index":0,"delta":{{"content":"","role":"assistant"}}}}],{common}}}',
        f'data: {{"id":"rid","choices":[{{"index":0,"delta":{{"content":"hi","role":"assistant"}}}}],{common}}}',
        f'data: {{"id":"rid","choices":[{last}],{common}}}',
        f'data: {{"id":"rid","choices":[],{common},{usage_}}}',
        "data: [DONE]",
        "",
    ]


def test_the_usage_is_shown_only_to_clients_that_ask_and_counted_for_all():
    shown, hidden = Stream(*PLAIN), Stream(*PLAIN, include_usage=False)
    assert [event for event in shown.events if event not in hidden.events] == [shown.events[-2]]
    assert hidden.usage == shown.usage == TokenUsage(input=3, output=2, total=5)
    assert hidden.events[-1] == "[DONE]"


def test_the_stream_is_complete_with_the_usage():
    translator = make_translator("AWSBedrock", {})
    send(translator, {"stream": True})
    results = [translator.response_body(piece, end_of_stream=False) for piece in PLAIN]
    assert [result.complete for result in results] == [False, False, False, False, True]
    assert [result.usage.total for result in results] == [None, None, None, None, 5]
    assert (results[-1].body or b"").endswith(b"data: [DONE]\n\n")


def test_tool_indexes_are_dense_and_only_the_first_piece_of_a_call_names_it():
    calls = [each["tool_calls"][0] for each in Stream(*TOOLS).deltas if "tool_calls" in each]
    assert calls == [
        {"index": 0, "id": "a", "function": {"arguments": "", "name": "f"}, "type": "function"},
        {"index": 0, "function": {"arguments": '{"x":'}},
        {"index": 0, "function": {"arguments": "1}"}},
        {"index": 1, "id": "b", "function": {"arguments": "", "name": "f"}, "type": "function"},
        {"index": 1, "function": {"arguments": "{}"}},
    ]
    assert Stream(*TOOLS).finish_reasons == ["tool_calls"]


@pytest.mark.parametrize("ending", [[close(0)], []], ids=["closed", "not closed"])
def test_a_call_without_arguments_has_an_empty_object(ending: list[bytes]):
    stream = Stream(START, call(0, "a"), arguments(0, ""), *ending, stop("tool_use"))
    pieces = [each["tool_calls"][0]["function"]["arguments"] for each in stream.deltas if "tool_calls" in each]
    assert "".join(pieces) == "{}"


def test_calls_without_the_index_of_their_block():
    start = {"toolUse": {"toolUseId": "a", "name": "f"}}
    piece = {"toolUse": {"input": "{}"}}
    stream = Stream(
        START,
        event("contentBlockStart", {"start": start}),
        event("contentBlockStart", {"start": start}),
        event("contentBlockDelta", {"delta": piece}),
        event("contentBlockStop", {}),
        stop("tool_use"),
    )
    calls = [each["tool_calls"][0] for each in stream.deltas if "tool_calls" in each]
    assert [(each["index"], each["function"]["arguments"]) for each in calls] == [
        (0, ""),
        (0, "{}"),
        (1, ""),
        (1, "{}"),
    ]


def test_calls_whose_pieces_are_mixed():
    stream = Stream(
        START, call(3, "a"), call(5, "b"), arguments(5, '{"b"'), arguments(3, "{}"), arguments(5, ":1}"), stop()
    )
    found: dict[int, str] = {}
    for each in stream.deltas:
        for piece in each.get("tool_calls", ()):
            found[piece["index"]] = found.get(piece["index"], "") + piece["function"]["arguments"]
    assert found == {0: "{}", 1: '{"b":1}'}


def test_reasoning_is_told_as_it_comes_and_its_blocks_at_the_end():
    deltas = Stream(*THOUGHTS).deltas
    assert "".join(each.get("reasoning_content", "") for each in deltas) == "I think"
    assert "".join(each.get("content", "") for each in deltas) == "so"
    assert [each["thinking_blocks"] for each in deltas if "thinking_blocks" in each] == [
        [
            {"type": "thinking", "thinking": "I think", "signature": "sig"},
            {"type": "redacted_thinking", "data": "AAEC"},
        ]
    ]


def test_reasoning_that_is_not_signed_has_no_blocks():
    stream = Stream(START, reasoning(0, text="I think"), close(0), text("so", 1), stop())
    assert not [each for each in stream.deltas if "thinking_blocks" in each]


def test_a_signature_without_text_is_a_block():
    stream = Stream(START, reasoning(0, text=""), reasoning(0, signature="sig"), stop())
    assert stream.deltas[1]["thinking_blocks"] == [{"type": "thinking", "signature": "sig"}]
    assert "reasoning_content" not in stream.text


@pytest.mark.parametrize(("pieces", "joined"), [(["AA==", "AQI="], "AAEC"), (["a", "b"], "ab"), (["x"], "x")])
def test_encrypted_reasoning_in_pieces_is_one_block(pieces: list[str], joined: str):
    stream = Stream(START, *(reasoning(0, redactedContent=piece) for piece in pieces), close(0), stop())
    assert stream.deltas[1]["thinking_blocks"] == [{"type": "redacted_thinking", "data": joined}]


def test_the_role_is_said_as_soon_as_it_is_known():
    assert Stream(text("a"), START, text("b"), stop()).deltas == [
        {"content": "a"},
        {"content": "", "role": "assistant"},
        {"content": "b", "role": "assistant"},
        {"content": "", "role": "assistant"},
    ]


def test_white_space_is_kept():
    stream = Stream(START, text(" a\n"), text("\n"), text(""), text("\t"), stop())
    assert "".join(each["content"] for each in stream.deltas) == " a\n\n\t"


SILENT = {
    "an event that is not known": event("brandNew", {"a": 1}),
    "one whose payload is not JSON": event("brandNew", b"\x00"),
    "a start of nothing": event("contentBlockStart", {"contentBlockIndex": 0}),
    "a start of an image": event("contentBlockStart", {"contentBlockIndex": 0, "start": {"image": {"format": "png"}}}),
    "a start of another type": event("contentBlockStart", {"contentBlockIndex": [], "start": {"toolUse": 1}}),
    "a delta of nothing": event("contentBlockDelta", {"contentBlockIndex": 0}),
    "a delta of another kind": delta(0, citation={"title": "t"}),
    "a delta of another type": event("contentBlockDelta", {"delta": "x"}),
    "a text of another type": delta(0, text=5),
    "arguments of no call": arguments(9, "{}"),
    "an end of no block": close(9),
    "a message without a role": event("messageStart", {}),
    "a message without a name": frame({":message-type": "event"}, b"{}"),
    "an index that is not known": event("contentBlockStop", {"contentBlockIndex": {"a": 1}}),
}


@pytest.mark.parametrize("silent", SILENT.values(), ids=SILENT)
def test_what_says_nothing_writes_nothing(silent: bytes):
    assert Stream(START, silent, *PLAIN[1:]).text == Stream(*PLAIN).text


def test_a_name_within_the_payload_counts():
    renamed = event("somethingElse", {"eventType": "contentBlockDelta", "delta": {"text": "hi"}})
    assert Stream(START, renamed, *PLAIN[2:]).text == Stream(*PLAIN).text


# --- usage ---

CACHED = TokenUsage(input=15, output=20, total=35, cached_input=5)


def test_usage_with_cached_tokens():
    stream = Stream(*PLAIN[:-1], usage(inputTokens=10, outputTokens=20, totalTokens=30, cacheReadInputTokens=5))
    assert stream.usage == CACHED
    assert stream.events[-2]["usage"] == {
        "prompt_tokens": 15,
        "completion_tokens": 20,
        "total_tokens": 35,
        "prompt_tokens_details": {"cached_tokens": 5},
    }


def test_usage_that_is_reported_again_replaces_and_is_never_added():
    early = usage(inputTokens=10, outputTokens=1)
    late = usage(inputTokens=10, outputTokens=20, cacheReadInputTokens=5)
    assert Stream(START, early, text("hi"), stop(), late).usage == CACHED


def test_usage_before_the_end_of_the_message():
    stream = Stream(START, usage(), text("hi"), stop())
    assert stream.events[-2]["usage"]["total_tokens"] == 5
    assert stream.events[-1] == "[DONE]"


def test_a_report_after_the_end_still_counts():
    assert Stream(*PLAIN, usage(inputTokens=10, outputTokens=20, cacheReadInputTokens=5)).usage == CACHED


@pytest.mark.parametrize("payload", [{}, {"usage": None}, {"usage": {"inputTokens": "3"}}])
def test_a_report_of_nothing(payload: dict[str, Any]):
    stream = Stream(*PLAIN[:-1], event("metadata", payload))
    assert stream.usage == NO_USAGE
    assert stream.events[-1] == "[DONE]"
    assert not [each for each in stream.events if each != "[DONE]" and "usage" in each]


def test_the_service_tier_stands_in_the_chunk_with_the_usage():
    metadata = event("metadata", {"usage": {"inputTokens": 1, "outputTokens": 1}, "serviceTier": {"type": "default"}})
    stream = Stream(*PLAIN[:-1], metadata)
    assert stream.events[-2]["service_tier"] == "default"


def test_a_message_that_ends_without_a_report_is_whole():
    stream = Stream(*PLAIN[:-1])
    assert stream.events[-1] == "[DONE]"
    assert stream.usage == NO_USAGE


def test_a_message_that_ends_without_a_reason_is_whole():
    stream = Stream(START, text("hi"), event("messageStop", {}), usage())
    assert stream.finish_reasons == []
    assert stream.events[-1] == "[DONE]"


# --- streams that break ---

BROKEN = {
    "an exception": ([*PLAIN[:2], exception("throttlingException", {"message": "slow"})], "throttlingException", "429"),
    "an exception with a capital": (
        [exception("validationException", {"Message": "no"})],
        "validationException",
        "400",
    ),
    "an exception that is not JSON": ([exception("newException", b"\xff")], "newException", "500"),
    "an error of the framing": ([*PLAIN[:2], error("InternalError", "lost")], "InternalError", "500"),
    "an exception before the report": (
        [*PLAIN[:-1], exception("internalServerException", {})],
        "internalServerException",
        "500",
    ),
    "no end of the message": (PLAIN[:3], "stream_truncated", "502"),
    "arguments in half": (TOOLS[:5], "stream_truncated", "502"),
    "nothing": ([], "stream_truncated", "502"),
    "a message in half": ([*PLAIN[:2], PLAIN[2][:-5]], "stream_truncated", "502"),
    "the report in half": ([*PLAIN[:-1], PLAIN[-1][:-5]], "stream_truncated", "502"),
    "a message that is damaged": ([PLAIN[0], PLAIN[1][:-1] + b"?", *PLAIN[2:]], "stream_unreadable", "502"),
    "no event stream": ([b'{"message":"odd"}'], "stream_unreadable", "502"),
    "server-sent events": ([b'data: {"a":1}\n\n'], "stream_unreadable", "502"),
    "a payload that is not JSON": ([START, event("contentBlockDelta", b"{")], "stream_unreadable", "502"),
    "a payload that is no object": ([START, event("messageStop", b"[]")], "stream_unreadable", "502"),
    "a payload that is too deep": (
        [START, event("contentBlockDelta", b'{"delta":' + b"[" * 99999)],
        "stream_unreadable",
        "502",
    ),
}


@pytest.mark.parametrize(("pieces", "kind", "code"), BROKEN.values(), ids=BROKEN)
def test_a_stream_that_breaks_ends_with_an_error_and_nothing_after_it(pieces: list[bytes], kind: str, code: str):
    for stream in (Stream(*pieces), Stream(b"".join(pieces)), Stream(*pieces, *(bytes([each]) for each in b"rest"))):
        assert stream.error["type"] == kind
        assert stream.error["code"] == code
        assert "[DONE]" not in stream.text
        assert stream.last.failure == kind
        assert stream.last.complete


def test_what_was_said_and_counted_before_the_break_is_kept():
    stream = Stream(START, usage(), text("hi"), exception("modelStreamErrorException", {"message": 'a "b"'}))
    assert stream.error == {"type": "modelStreamErrorException", "code": "424", "message": 'a "b"'}
    assert stream.usage == TokenUsage(input=3, output=2, total=5)
    assert stream.finish_reasons == []
    assert "hi" in stream.text


# --- cuts, and other readers ---

WHOLE = {"plain": PLAIN, "tools": TOOLS, "thoughts": THOUGHTS, **{name: case[0] for name, case in BROKEN.items()}}


@pytest.mark.parametrize("pieces", WHOLE.values(), ids=WHOLE)
@settings(max_examples=25)
@given(data=st.data())
def test_any_cut_gives_the_same(pieces: list[bytes], data: st.DataObject):
    content = b"".join(pieces)[:5000]
    whole = Stream(content)
    ends = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=6)))
    cut = Stream(*(content[start:end] for start, end in zip([0, *ends], [*ends, len(content)], strict=True)))
    assert (cut.text, cut.usage) == (whole.text, whole.usage)


@pytest.mark.parametrize("pieces", [PLAIN, TOOLS, THOUGHTS], ids=["plain", "tools", "thoughts"])
def test_every_single_cut_gives_the_same(pieces: list[bytes]):
    content = b"".join(pieces)
    whole = Stream(content)
    for at in range(len(content)):
        cut = Stream(content[:at], content[at:])
        assert (cut.text, cut.usage) == (whole.text, whole.usage)


@pytest.mark.parametrize("pieces", [PLAIN, TOOLS, THOUGHTS], ids=["plain", "tools", "thoughts"])
def test_the_official_client_gathers_the_stream(pieces: list[bytes]):
    state: Any = ChatCompletionStreamState()
    for each in Stream(*pieces).events:
        if each != "[DONE]":
            state.handle_chunk(ChatCompletionChunk.model_validate(each))
    [choice] = state.get_final_completion().choices
    deltas = Stream(*pieces).deltas
    assert choice.message.content == "".join(each.get("content", "") for each in deltas)
    if pieces is TOOLS:
        assert [json.loads(each.function.arguments) for each in choice.message.tool_calls] == [{"x": 1}, {}]


payloads = st.fixed_dictionaries(
    {},
    optional={
        "contentBlockIndex": st.integers(0, 3) | st.none() | st.text(max_size=2),
        "role": st.sampled_from(["assistant", "user", 5]),
        "start": st.sampled_from([{}, {"toolUse": {"toolUseId": "a", "name": "f"}}, {"toolUse": []}, 5]),
        "delta": st.sampled_from(
            [{"text": "x"}, {"toolUse": {"input": "{"}}, {"reasoningContent": {"signature": "s"}}, 5]
        ),
        "stopReason": st.sampled_from(["end_turn", "x", None, 5]),
        "usage": st.sampled_from([{"inputTokens": 1}, {"outputTokens": 2, "cacheReadInputTokens": 3}, 5]),
    },
)
kinds = st.sampled_from(
    ["messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata", "new"]
)


@settings(max_examples=50)
@given(st.lists(st.tuples(kinds, payloads), max_size=8), st.binary(max_size=20))
def test_any_stream_ends_in_one_of_two_ways(events: list[tuple[str, Any]], tail: bytes):
    stream = Stream(*(event(kind, payload) for kind, payload in events), tail)
    assert (stream.events[-1] == "[DONE]") == (not stream.last.failure)
    assert stream.text.count("[DONE]") + sum("error" in each for each in stream.events) == 1
    assert stream.usage == NO_USAGE or stream.usage.total == (stream.usage.input or 0) + (stream.usage.output or 0)
    for each in stream.events[:-1]:
        ChatCompletionChunk.model_validate(each)
