"""What a streamed answer becomes (contract, messages to chat completions 5.6)."""

import json

import pytest

from extproc.usage import NO_USAGE, TokenUsage
from tests.unit.translate.messages.carried.attempts import (
    JSON,
    SSE,
    Told,
    ask,
    blocks_of,
    call,
    chunk,
    completion,
    sse,
    told,
)

DONE = "[DONE]"
REPORT = {"prompt_tokens": 12, "completion_tokens": 4, "total_tokens": 16}
USAGE = {"id": "c", "choices": [], "usage": REPORT}
STOP = chunk({}, "stop")


def test_a_text_is_seven_events():
    found = told(chunk({"role": "assistant", "content": "Hi"}), chunk({"content": " there"}), STOP, USAGE, DONE)
    assert found.types == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert found.events[-2]["usage"] == {"input_tokens": 12, "output_tokens": 4}
    assert found.usage == TokenUsage(input=12, output=4, total=16)
    assert found.model == "gpt-x"


def test_each_piece_is_told_at_once():
    translator, _, _ = ask({"stream": True})
    assert translator.response_headers(SSE) == []
    first = translator.response_body(sse(chunk({"content": "a"})), end_of_stream=False)
    assert first.body.endswith(b'"delta":{"type":"text_delta","text":"a"}}\n\n')
    second = translator.response_body(sse(chunk({"content": "b"})), end_of_stream=False)
    assert second.body == (
        b"event: content_block_delta\n"
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b"}}\n\n'
    )
    assert not second.complete
    assert translator.response_body(sse(STOP), end_of_stream=False).body == b""
    # The end waits for the usage that follows (BR-61).
    assert translator.response_body(sse(USAGE), end_of_stream=False).body == b""
    last = translator.response_body(sse(DONE), end_of_stream=False)
    assert last.complete
    assert b'"usage":{"input_tokens":12,"output_tokens":4}' in last.body
    assert translator.response_body(b"", end_of_stream=True).body == b""


def test_cached_tokens_are_told_beside_the_input():
    report = {"prompt_tokens": 190000, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 185000}}
    usage = told(chunk({"content": "a"}), STOP, {**USAGE, "usage": report}, DONE).read().usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (5000, 185000, 7)


PARIS, ROME = {"city": "Paris"}, {"city": "Rome"}
F = {"name": "f", "type": "function"}
SAID = {
    "a text": ([chunk({"content": "a"}), STOP], ["a"], "end_turn"),
    "nothing": ([chunk({"role": "assistant"}), STOP], [], "end_turn"),
    "only an end": ([STOP], [], "end_turn"),
    "an end that is cut": ([chunk({"content": "a"}, "length")], ["a"], "max_tokens"),
    "filtered": ([chunk({"content": "a"}), chunk(None, "content_filter")], ["a"], "refusal"),
    "a refusal": ([chunk({"refusal": "no"}), STOP], ["no"], "refusal"),
    "a call": (
        [
            chunk(call(0, "", id="1", **F)),
            chunk(call(0, '{"city":')),
            chunk(call(0, '"Paris"}')),
            chunk({}, "tool_calls"),
        ],
        [["f", PARIS]],
        "tool_use",
    ),
    "a call without arguments": ([chunk(call(0, "", id="1", **F)), STOP], [["f", {}]], "tool_use"),
    "a text after a call": (
        [chunk({"content": "a"}), chunk(call(0, "{}", id="1", **F)), chunk({"content": "b"}), STOP],
        ["a", ["f", {}], "b"],
        "tool_use",
    ),
    "a text within a call": (
        [chunk(call(0, '{"city":', id="1", **F)), chunk({"content": "b"}), chunk(call(0, '"Rome"}')), STOP],
        [["f", ROME], "b"],
        "tool_use",
    ),
    "calls one after the other": (
        [chunk(call(0, '{"city":"Paris"}', id="1", **F)), chunk(call(1, '{"city":"Rome"}', id="2", **F)), STOP],
        [["f", PARIS], ["f", ROME]],
        "tool_use",
    ),
    "calls that are mixed": (
        [
            chunk(call(0, "", id="1", **F)),
            chunk(call(1, "", id="2", **F)),
            chunk(call(1, '{"city":"Rome"}')),
            chunk(call(0, '{"city":')),
            chunk(call(0, '"Paris"}')),
            STOP,
        ],
        [["f", PARIS], ["f", ROME]],
        "tool_use",
    ),
    "calls of which the first has no arguments": (
        [chunk(call(0, "", id="1", **F)), chunk(call(1, '{"city":"Rome"}', id="2", **F)), STOP],
        [["f", {}], ["f", ROME]],
        "tool_use",
    ),
    "calls that are numbered from one": (
        [chunk(call(1, "{}", id="1", **F)), chunk(call(2, "{}", id="2", **F)), STOP],
        [["f", {}], ["f", {}]],
        "tool_use",
    ),
    "calls that are numbered alike (BR-77)": (
        [chunk(call(0, '{"city":"Paris"}', id="1", **F)), chunk(call(0, '{"city":"Rome"}', id="2", **F)), STOP],
        [["f", PARIS], ["f", ROME]],
        "tool_use",
    ),
    "calls without numbers": (
        [
            chunk(call(None, '{"city":', id="1", **F)),
            chunk(call(None, '"Paris"}')),
            chunk(call(None, '{"city":', id="2", **F)),
            chunk(call(None, '"Rome"}', id="2")),
            STOP,
        ],
        [["f", PARIS], ["f", ROME]],
        "tool_use",
    ),
    "calls without numbers and ids": (
        [chunk(call(None, "{}", **F)), chunk(call(None, '{"city":"Rome"}', **F)), STOP],
        [["f", {}], ["f", ROME]],
        "tool_use",
    ),
    "a name that comes late": ([chunk(call(0, id="1")), chunk(call(0, "{}", name="f")), STOP], [["f", {}]], "tool_use"),
    "a name that never comes": ([chunk(call(0, "{}", id="1")), STOP], [["", {}]], "tool_use"),
    "an id that is repeated": (
        [chunk(call(0, '{"city":', id="1", **F)), chunk(call(0, '"Rome"}', id="1", **F)), STOP],
        [["f", ROME]],
        "tool_use",
    ),
    "arguments that are no object": (
        [chunk(call(0, " ", id="1", **F)), chunk(call(0, "nu")), chunk(call(0, "ll")), STOP],
        [["f", {}]],
        "tool_use",
    ),
    "arguments that begin with white space": (
        [chunk(call(0, "\n", id="1", **F)), chunk(call(0, '{"city":"Rome"}')), STOP],
        [["f", ROME]],
        "tool_use",
    ),
    "reasoning": (
        [chunk({"reasoning_content": "t"}), chunk({"reasoning_content": "u"}), chunk({"content": "a"}), STOP],
        [("tu", ""), "a"],
        "end_turn",
    ),
    "reasoning by another name": (
        [chunk({"reasoning": "t"}), chunk({"content": "a"}), STOP],
        [("t", ""), "a"],
        "end_turn",
    ),
    "reasoning as objects": (
        [
            chunk({"reasoning_content": {"text": "t"}}),
            chunk({"reasoning_content": {"text": "", "signature": "s"}}),
            chunk({"content": "a"}),
            STOP,
        ],
        [("t", "s"), "a"],
        "end_turn",
    ),
    "a signature alone": ([chunk({"reasoning_content": {"signature": "s"}}), STOP], [("", "s")], "end_turn"),
    "reasoning after the text": (
        [chunk({"content": "a"}), chunk({"reasoning": "t"}), STOP],
        ["a", ("t", "")],
        "end_turn",
    ),
    "thinking blocks": (
        [
            chunk({"thinking_blocks": [{"type": "thinking", "thinking": "t"}]}),
            chunk({"thinking_blocks": [{"type": "thinking", "thinking": "u", "signature": "s"}]}),
            chunk({"thinking_blocks": [{"type": "thinking", "thinking": "v", "signature": "w"}]}),
            chunk({"thinking_blocks": [{"type": "redacted_thinking", "data": "d"}]}),
            STOP,
        ],
        [("tu", "s"), ("v", "w"), {"d"}],
        "end_turn",
    ),
    "thinking blocks that repeat the reasoning beside them": (
        [
            chunk({"reasoning_content": "t", "thinking_blocks": [{"type": "thinking", "thinking": "t"}]}),
            chunk({"reasoning_content": "u", "thinking_blocks": [{"type": "thinking", "thinking": "u"}]}),
            chunk({"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "s"}]}),
            chunk({"content": "a"}),
            STOP,
        ],
        [("tu", "s"), "a"],
        "end_turn",
    ),
    "thinking blocks that repeat the reasoning at the end": (
        [
            chunk({"reasoning_content": "t"}),
            chunk({"reasoning_content": "u"}),
            chunk({"content": "a"}),
            chunk({"thinking_blocks": [{"thinking": "t", "signature": "s"}, {"thinking": "u", "signature": "v"}]}),
            STOP,
        ],
        [("tu", ""), "a", ("", "s"), ("", "v")],
        "end_turn",
    ),
    "a message in place of deltas": (
        [{"choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}]}],
        ["a"],
        "end_turn",
    ),
    "a choice that nobody asked for": (
        [{"choices": [{"index": 1, "delta": {"content": "b"}}, {"index": 0, "delta": {"content": "a"}}]}, STOP],
        ["a"],
        "end_turn",
    ),
    "a word about the prompt first": (
        [{"id": "", "choices": [], "prompt_filter_results": []}, chunk({"content": "a"}), STOP],
        ["a"],
        "end_turn",
    ),
    "deltas that are null": ([chunk(None), chunk({"content": None}), chunk({"content": "a"}), STOP], ["a"], "end_turn"),
}


@pytest.mark.parametrize("end", [[USAGE, DONE], [USAGE], [DONE]], ids=["usage and end", "usage", "end"])
@pytest.mark.parametrize(("events", "content", "reason"), SAID.values(), ids=SAID)
def test_what_is_said(events, content, reason, end):
    found = told(*events, *end)
    message = found.read()
    assert blocks_of(message) == content
    assert message.stop_reason == reason
    assert found.ends
    assert found.failure == ""
    calls = [block.id for block in message.content if block.type == "tool_use"]
    assert len(set(calls)) == len(calls)
    # However the bytes are cut.
    assert all(Told(sse(*events, *end), size=size).text == found.text for size in (1, 13))


USAGES = {
    "in a chunk of its own": [chunk({"content": "a"}), STOP, USAGE, DONE],
    "with the last choice": [chunk({"content": "a"}), chunk({}, "stop", usage=REPORT), DONE],
    "in every chunk, growing": [
        chunk({"content": "a"}, usage={**REPORT, "completion_tokens": 1, "total_tokens": 13}),
        chunk({}, "stop", usage=REPORT),
    ],
    "null before": [chunk({"content": "a"}, usage=None), chunk({}, "stop", usage=None), USAGE, DONE],
    "and nothing after it": [chunk({"content": "a"}), STOP, USAGE],
}


@pytest.mark.parametrize("events", USAGES.values(), ids=USAGES)
def test_usage_counts_wherever_it_stands(events):
    found = told(*events)
    assert found.events[-2]["usage"] == {"input_tokens": 12, "output_tokens": 4}
    assert found.usage == TokenUsage(input=12, output=4, total=16)


def test_without_usage_there_are_zeros():
    found = told(chunk({"content": "a"}), STOP, DONE)
    assert found.events[-2]["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert found.usage == NO_USAGE


def test_usage_after_the_end_is_metered_and_not_shown_however_the_bytes_are_cut():
    stream = sse(chunk({"content": "a"}), STOP, DONE, USAGE)
    for size in (0, 1):
        found = Told(stream, size=size)
        assert found.events[-2]["usage"] == {"input_tokens": 0, "output_tokens": 0}
        assert found.usage == TokenUsage(input=12, output=4, total=16)


def test_nothing_follows_the_end():
    assert told(chunk({"content": "a"}), STOP, DONE, chunk({"content": "b"}), DONE).read().content[0].text == "a"


def error(**members):
    return {"error": {"message": "m", **members}}


FAILURES = {
    "an error": ([chunk({"content": "a"}), error(type="server_error"), DONE], "api_error", "m"),
    "an error at once": ([error(type="invalid_request_error")], "invalid_request_error", "m"),
    "an error with a status": ([error(type="x", code=429)], "rate_limit_error", "m"),
    "an error with a status as text": ([error(code="503")], "api_error", "m"),
    "an error with a code": ([error(code="rate_limit_exceeded")], "rate_limit_error", "m"),
    "an error that is a text": ([{"error": "oh"}], "api_error", "oh"),
    "an error without a word": ([{"error": {"code": 1}}], "api_error", "the backend did not say why"),
    "a flat error": ([{"object": "error", "message": "m", "type": "BadRequestError"}], "invalid_request_error", "m"),
    "no end": ([chunk({"content": "a"})], "api_error", "the backend's stream ended before its answer did"),
    "no JSON": ([chunk({"content": "a"}), "{", DONE], "api_error", "the backend sent an event that is not JSON"),
    "no object": (["[]"], "api_error", "the backend sent an event that is not JSON"),
    "no text": ([b"\xff"], "api_error", "the backend sent an event that is not JSON"),
    "no answer": ([DONE], "api_error", "the backend sent no answer"),
    "no choice": ([USAGE, DONE], "api_error", "the backend sent no answer"),
    "nothing": ([], "api_error", "the backend's stream ended before its answer did"),
}


@pytest.mark.parametrize(("events", "kind", "message"), FAILURES.values(), ids=FAILURES)
def test_a_stream_that_fails_says_so(events, kind, message):
    found = told(*events)
    assert found.error == {"type": kind, "message": message}
    assert not found.ends
    assert found.failure


def test_an_event_that_is_named_an_error_is_one():
    found = Told(sse(chunk({"content": "a"})) + b"event: error\ndata: out of order\n\n")
    assert found.error == {"type": "api_error", "message": "out of order"}


def test_usage_before_an_error_counts():
    found = told(chunk({"content": "a"}, usage=REPORT), error(type="server_error"))
    assert found.usage == TokenUsage(input=12, output=4, total=16)


@pytest.mark.parametrize("headers", [JSON, SSE], ids=["called JSON", "called a stream"])
def test_a_document_in_place_of_a_stream_is_told_as_one(headers):
    message = {"content": "a", "reasoning_content": "t"}
    document = json.dumps(completion(message, usage=REPORT)).encode()
    found = Told(b" \n" + document, size=9, headers=headers)
    found.check_order()
    assert blocks_of(found.read()) == [("t", ""), "a"]
    assert found.usage == TokenUsage(input=12, output=4, total=16)
    assert found.events[-2]["usage"] == {"input_tokens": 12, "output_tokens": 4}


def test_what_the_client_is_given_is_called_a_stream():
    translator, _, _ = ask({"stream": True})
    assert translator.response_headers(JSON) == [("content-type", "text/event-stream")]


@pytest.mark.parametrize("line", ["\r\n", "\r"])
def test_other_line_ends_and_comments_do_not_matter(line):
    stream = sse(chunk({"content": "a"}), STOP, USAGE, DONE).replace(b"\n", line.encode())
    found = Told(b": hello" + line.encode() * 2 + stream, size=5)
    assert found.read().content[0].text == "a"


def test_a_call_without_an_id_is_given_one():
    found = told({"choices": [{"delta": call(0, "{}", name="f"), "finish_reason": "tool_calls"}]}, DONE)
    message = found.read()
    assert message.id == ""
    assert message.content[0].id.startswith("toolu_")
    assert message.model == "gpt-x"
