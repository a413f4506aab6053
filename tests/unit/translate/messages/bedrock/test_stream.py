"""What a ConverseStream answer becomes for the client (contract, messages 5.5 and 17.5)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.usage import NO_USAGE, TokenUsage
from tests.support.eventstream import error, event, exception
from tests.unit.translate.messages.bedrock.attempts import MODEL, REQUEST_ID, Stream, make_translator, send

START = event("messageStart", {"role": "assistant"})


def delta(index: int, **members: Any) -> bytes:
    return event("contentBlockDelta", {"contentBlockIndex": index, "delta": members})


def text(value: str, index: int = 0) -> bytes:
    return delta(index, text=value)


def call(index: int, name: str = "f") -> bytes:
    use = {"toolUseId": f"t{index}", "name": name}
    return event("contentBlockStart", {"contentBlockIndex": index, "start": {"toolUse": use}})


def arguments(index: int, piece: str) -> bytes:
    return delta(index, toolUse={"input": piece})


def reasoning(index: int, **members: str) -> bytes:
    return delta(index, reasoningContent=members)


def close(index: int) -> bytes:
    return event("contentBlockStop", {"contentBlockIndex": index})


def stop(reason: str = "end_turn") -> bytes:
    return event("messageStop", {"stopReason": reason})


def usage(**counts: int) -> bytes:
    return event("metadata", {"usage": counts, "metrics": {"latencyMs": 1}})


USAGE = usage(inputTokens=5, outputTokens=3, totalTokens=8)
PLAIN = (START, text("Hel"), text("lo"), close(0), stop(), USAGE)


def test_a_text_is_told_event_by_event():
    stream = Stream(b"".join(PLAIN))
    assert stream.text == (
        'event: message_start\ndata: {"type":"message_start","message":{"id":"rid","type":"message",'
        f'"role":"assistant","content":[],"model":"{MODEL}","stop_reason":null,"stop_sequence":null,'
        '"usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":0,"output_tokens":0}}}\n\n'
        'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
        '"content_block":{"type":"text","text":""}}\n\n'
        'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        '"delta":{"type":"text_delta","text":"Hel"}}\n\n'
        'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        '"delta":{"type":"text_delta","text":"lo"}}\n\n'
        'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
        'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},'
        '"usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":5,"output_tokens":3}}\n\n'
        'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    )
    assert stream.usage == TokenUsage(input=5, output=3, total=8)
    assert (stream.last.complete, stream.last.failure, stream.last.model) == (True, "", MODEL)


def test_a_stream_says_that_it_is_one():
    translator = make_translator()
    send(translator, {"stream": True})
    headers = {"content-type": "application/vnd.amazon.eventstream"}
    assert translator.response_headers(headers) == [("content-type", "text/event-stream")]


def test_calls_are_told_densely():
    """BR-45: blocks of Converse may have any numbers, and only those of tools have a start."""
    stream = Stream(
        START, text("a", 0), close(0), call(2), arguments(2, '{"x":'), arguments(2, "1}"), close(2), call(5),
        close(5), stop("tool_use"), USAGE,
    )  # fmt: skip
    assert stream.message["content"] == [
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "t2", "name": "f", "input": {"x": 1}},
        {"type": "tool_use", "id": "t5", "name": "f", "input": {}},
    ]
    assert stream.message["stop_reason"] == "tool_use"


def test_blocks_that_are_told_at_the_same_time_stay_apart():
    stream = Stream(
        START, text("a", 0), call(1), arguments(1, '{"x":'), text("b", 0), arguments(1, "1}"), close(1), stop(), USAGE
    )
    assert [block.get("text", block.get("input")) for block in stream.message["content"]] == ["ab", {"x": 1}]
    assert stream.names.count("content_block_stop") == 2


def test_a_start_that_is_no_call_waits_for_the_first_delta():
    first = event("contentBlockStart", {"contentBlockIndex": 0, "start": {}})
    stream = Stream(START, first, reasoning(0, text="hm"), close(0), text("a", 1), close(1), stop(), USAGE)
    assert [block["type"] for block in stream.message["content"]] == ["thinking", "text"]


def test_thoughts_come_back_whole():
    """BR-58."""
    stream = Stream(
        START,
        reasoning(0, text="h"), reasoning(0, text="m"), reasoning(0, signature="s"), close(0),
        reasoning(1, redactedContent="AAE="), reasoning(1, redactedContent="Ag=="), close(1),
        reasoning(2, signature="only"), close(2),
        text("a", 3), close(3), stop(), USAGE,
    )  # fmt: skip
    assert stream.message["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "AAEC"},
        {"type": "thinking", "thinking": "", "signature": "only"},
        {"type": "text", "text": "a"},
    ]


@pytest.mark.parametrize(("pieces", "data"), [(["?"], "?"), (["AAE=", "?"], "AAE=?")], ids=["one", "two"])
def test_encrypted_thoughts_that_are_no_base64_stay_as_they_are(pieces, data):
    stream = Stream(START, *(reasoning(0, redactedContent=piece) for piece in pieces), stop(), USAGE)
    assert stream.message["content"] == [{"type": "redacted_thinking", "data": data}]


def test_an_encrypted_thought_without_an_end_comes_before_the_next_block():
    stream = Stream(START, reasoning(0, redactedContent="AAEC"), text("a", 1), stop(), USAGE)
    assert [block["type"] for block in stream.message["content"]] == ["redacted_thinking", "text"]


def test_a_block_that_changes_its_kind_is_two():
    stream = Stream(
        START, text("a"), reasoning(0, text="hm"), reasoning(0, redactedContent="AAEC"), text("b"), stop(), USAGE
    )
    kinds = [block["type"] for block in stream.message["content"]]
    assert kinds == ["text", "thinking", "redacted_thinking", "text"]


def test_citations_are_deltas():
    found = {
        "title": "d",
        "sourceContent": [{"text": "c"}],
        "location": {"documentChar": {"documentIndex": 0, "start": 1, "end": 2}},
    }
    stream = Stream(START, text("a"), delta(0, citation=found), delta(0, citation={}), close(0), stop(), USAGE)
    (cited,) = stream.message["content"][0]["citations"]
    assert (cited["type"], cited["cited_text"], cited["end_char_index"]) == ("char_location", "c", 2)


def test_the_end_waits_for_the_usage():
    translator = make_translator()
    send(translator, {"stream": True})
    translator.response_headers({"x-amzn-requestid": REQUEST_ID})
    before = translator.response_body(b"".join(PLAIN[:-1]), end_of_stream=False)
    assert b"message_delta" not in (before.body or b"")
    assert not before.complete
    after = translator.response_body(USAGE, end_of_stream=False)
    assert b'"output_tokens":3' in (after.body or b"")
    assert (after.complete, after.usage.total) == (True, 8)
    assert translator.response_body(b"", end_of_stream=True).body == b""


def test_a_message_without_usage_ends_with_the_stream():
    stream = Stream(*PLAIN[:-1])
    assert stream.names[-2:] == ["message_delta", "message_stop"]
    assert stream.events[-2]["usage"] == {"output_tokens": 0}
    assert (stream.usage, stream.last.complete) == (NO_USAGE, True)


def test_cached_tokens_are_told_and_billed():
    """BR-54."""
    counts = {"inputTokens": 3, "outputTokens": 5, "cacheReadInputTokens": 32651, "cacheWriteInputTokens": 17}
    stream = Stream(*PLAIN[:-1], usage(**counts))
    told = stream.message["usage"]
    assert (told["input_tokens"], told["cache_read_input_tokens"], told["cache_creation_input_tokens"]) == (
        3, 32651, 17,
    )  # fmt: skip
    assert stream.usage == TokenUsage(input=32671, output=5, total=32676, cached_input=32651, cache_creation_input=17)


def test_a_repeated_report_replaces():
    stream = Stream(*PLAIN[:4], usage(inputTokens=5, outputTokens=1), stop(), usage(outputTokens=3))
    assert stream.usage == TokenUsage(input=5, output=3, total=8)


def test_what_the_stream_leaves_out_is_made():
    stream = Stream(text("a"), stop(), USAGE, request_id="")
    assert stream.message["id"].startswith("msg_")
    assert stream.message["content"] == [{"type": "text", "text": "a"}]


def test_an_answer_may_be_empty():
    stream = Stream(START, text(""), close(0), stop(), USAGE)
    assert stream.names == ["message_start", "message_delta", "message_stop"]


@pytest.mark.parametrize(
    "extra",
    {
        "an unknown event": event("brandNew", {"x": 1}),
        "an unknown event that is no JSON": event("brandNew", b"{"),
        "arguments of no call": arguments(7, "{}"),
        "a delta of an unknown kind": delta(0, hologram={}),
        "a delta that is none": event("contentBlockDelta", {"contentBlockIndex": 0, "delta": 7}),
        "a second start": START,
        "an end of a block that was never begun": close(9),
    }.values(),
    ids=lambda raw: str(len(raw)),
)
def test_what_says_nothing_changes_nothing(extra):
    assert Stream(START, text("Hel"), extra, *PLAIN[2:]).text == Stream(*PLAIN).text


def test_nothing_follows_the_end_of_the_message():
    late = (text("late"), call(1), stop("max_tokens"))
    assert Stream(*PLAIN[:5], *late, USAGE, *late, START).text == Stream(*PLAIN).text


# --- broken streams ---


def failed(stream: Stream, kind: str, failure: str) -> str:
    assert "message_stop" not in stream.names
    assert stream.error["type"] == kind
    assert stream.last.failure == failure
    message: str = stream.error["message"]
    return message


@pytest.mark.parametrize(
    ("name", "kind"),
    {
        "throttlingException": "rate_limit_error",
        "validationException": "invalid_request_error",
        "modelStreamErrorException": "api_error",
        "modelTimeoutException": "timeout_error",
        "internalServerException": "api_error",
        "serviceUnavailableException": "api_error",
        "brandNewException": "api_error",
    }.items(),
)
def test_an_exception_ends_the_stream_with_an_error(name, kind):
    """BR-53."""
    stream = Stream(START, text("a"), exception(name, {"message": 'slow "down"'}))
    assert failed(stream, kind, name) == 'slow "down"'
    assert stream.events[-1]["request_id"] == REQUEST_ID
    assert stream.message["content"] == [{"type": "text", "text": "a"}]


def test_an_error_of_the_framing_is_one_too():
    stream = Stream(START, error("InternalFailure", "gone"))
    assert failed(stream, "api_error", "InternalFailure") == "gone"


def test_usage_that_was_known_before_an_error_stays():
    stream = Stream(START, usage(inputTokens=5, outputTokens=1), exception("throttlingException", {}))
    assert stream.usage == TokenUsage(input=5, output=1, total=6)
    failed(stream, "rate_limit_error", "throttlingException")


@pytest.mark.parametrize("count", range(5))
def test_a_stream_that_is_cut_off_is_no_good_answer(count):
    """BR-53."""
    failed(Stream(*PLAIN[:count]), "api_error", "stream_truncated")


def test_half_a_message_behind_the_end_is_a_cut():
    failed(Stream(*PLAIN[:5], USAGE[:20]), "api_error", "stream_truncated")


@pytest.mark.parametrize(
    "broken",
    {
        "a wrong checksum": PLAIN[1][:-1] + b"\0",
        "no event stream": b'{"message":"not a stream, and long enough"}',
        "an event that is no JSON": event("contentBlockDelta", b"{"),
    }.values(),
    ids=lambda raw: str(len(raw)),
)
def test_a_stream_that_cannot_be_read_fails(broken):
    """BR-51."""
    stream = Stream(START, broken, *PLAIN[2:])
    assert stream.names[0] == "message_start"
    failed(stream, "api_error", "stream_unreadable")


def test_an_error_behind_the_end_is_not_the_answers():
    assert Stream(*PLAIN, exception("throttlingException", {"message": "m"})).error is None


EVERYTHING = b"".join(
    (
        START, reasoning(0, text="h"), reasoning(0, signature="s"), close(0), reasoning(1, redactedContent="AAE="),
        reasoning(1, redactedContent="Ag=="), close(1), text("é", 2), close(2), call(3), arguments(3, "{}"), close(3),
        stop("tool_use"), USAGE,
    )
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, len(EVERYTHING)), max_size=12))
def test_any_cut_tells_the_same(cuts):
    """BR-51."""
    places = [0, *sorted(cuts), len(EVERYTHING)]
    pieces = [EVERYTHING[at:to] for at, to in pairwise(places)]
    cut, one = Stream(*pieces), Stream(EVERYTHING)
    assert (cut.text, cut.usage) == (one.text, one.usage)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, len(EVERYTHING) - 1), st.integers(0, 255), st.integers(0, len(EVERYTHING)))
def test_mutilated_bytes_end_in_one_of_two_ways(at, byte, end):
    changed = bytearray(EVERYTHING[:end])
    if at < len(changed):
        changed[at] = byte
    stream = Stream(bytes(changed))
    whole = stream.names[-1] == "message_stop"
    assert whole or stream.names[-1] == "error"
    assert bool(stream.last.failure) is not whole


PAYLOADS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "a", "AAE="]),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(
        st.sampled_from(
            ["contentBlockIndex", "delta", "text", "toolUse", "input", "start", "reasoningContent", "signature",
             "redactedContent", "citation", "location", "documentChar", "stopReason", "usage", "role", "toolUseId"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=8,
)  # fmt: skip
KINDS = st.sampled_from(
    ["messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata", "new"]
)


MEMBERS = st.dictionaries(
    st.sampled_from(["contentBlockIndex", "delta", "start", "stopReason", "usage", "role"]), PAYLOADS, max_size=4
)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(KINDS, MEMBERS), max_size=8))
def test_any_events_give_a_stream_that_the_sdk_reads(events):
    stream = Stream(*(event(kind, payload) for kind, payload in events))
    assert stream.names[-1] in {"message_stop", "error"}
    starts, stops = stream.names.count("content_block_start"), stream.names.count("content_block_stop")
    assert starts == stops or stream.names[-1] == "error"
