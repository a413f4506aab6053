"""Streamed answers of Claude (contract, chat 11.5, 13 and 17.11 to 17.13)."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.usage import TokenUsage
from tests.support import eventstream
from tests.unit.translate.chat.anthropic.attempts import (
    CONVERSATION,
    PING,
    SCHEMAS,
    ask,
    block,
    chunks,
    converse,
    deltas,
    frames,
    read,
    sse,
    start,
    stop,
    text_block,
    thinking_block,
    tool_block,
    wire,
)

TEXT = [start(), *text_block(0, "Hi"), *stop()]
EMPTY = {"completion_tokens_details": {}, "prompt_tokens_details": {}}

ODD = st.recursive(
    st.sampled_from([None, True, 0, 1, -1, 1.5, "", "x", "{}"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["id", "usage", "input_tokens", "output_tokens", "type", "message"]), inner, max_size=2
        )
    ),
    max_leaves=4,
)
DELTAS = st.sampled_from(["text_delta", "thinking_delta", "signature_delta", "input_json_delta", "new"]) | ODD
KINDS = st.sampled_from(["text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "new"]) | ODD
MEMBERS = ("text", "thinking", "signature", "partial_json", "stop_reason", "id", "name", "input", "data")


def told(*events):
    """The deltas that a client reads for these events of one message."""
    text, _, failure = read("GCPAnthropic", sse([start(), *events]))
    assert not failure
    assert text.endswith("data: [DONE]\n\n")
    return deltas(text)


def spoken(text):
    return "".join(delta.get("content", "") for delta in deltas(text))


class TestText:
    def test_the_chunks_are_those_of_the_contract(self):
        events = [
            {
                "type": "message_start",
                "message": {"id": "msg1", "usage": {"input_tokens": 4, "cache_read_input_tokens": 1}},
            },
            PING,
            *thinking_block(0, "", "Hm"),
            *text_block(1, "Hi"),
            *stop(output_tokens=2),
        ]
        head = '{"id":"msg1","choices":['
        tail = '"created":1700000000,"model":"claude-x","object":"chat.completion.chunk"'
        choices = [
            '{"index":0,"delta":{}}',
            '{"index":0,"delta":{"content":"","role":"assistant"}}',
            '{"index":0,"delta":{"reasoning_content":"Hm"}}',
            '{"index":0,"delta":{"content":"Hi"}}',
            '{"index":0,"delta":{"thinking_blocks":[{"type":"thinking","thinking":"Hm"}]}}',
            '{"index":0,"delta":{},"finish_reason":"stop"}',
        ]
        usage = (
            '"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,'
            '"completion_tokens_details":{},"prompt_tokens_details":{"cached_tokens":1}}'
        )
        expected = "".join(f"data: {head}{choice}],{tail}}}\n\n" for choice in choices)
        expected += f"data: {head}],{tail},{usage}}}\n\ndata: [DONE]\n\n"
        assert read("GCPAnthropic", sse(events))[0] == expected

    def test_the_role_comes_once_with_the_first_content(self):
        assert [delta.get("role") for delta in told(PING, *text_block(0, "a", "b"), *stop())] == [
            None,
            "assistant",
            None,
            None,
        ]

    def test_white_space_and_empty_pieces_survive(self):
        pieces = (" ", "\n\n", "", "a ", "\t")
        assert "".join(delta.get("content", "") for delta in told(*text_block(0, *pieces), *stop())) == "".join(pieces)

    def test_text_in_the_start_of_a_block_is_kept(self):
        events = block(0, {"type": "text", "text": "He"}, {"type": "text_delta", "text": "llo"})
        assert [delta.get("content") for delta in told(*events, *stop())] == ["He", "llo", None]

    def test_two_pings_are_two_empty_deltas_and_leave_the_role(self):
        text, _, _ = read("AWSAnthropic", frames([PING, PING, *TEXT]))
        assert text.count('"delta":{}}') == 2
        assert deltas(text)[2] == {"content": "Hi", "role": "assistant"}

    def test_events_without_a_name_are_told_by_their_json(self):
        assert read("GCPAnthropic", sse(TEXT, named=False)) == read("GCPAnthropic", sse(TEXT))

    def test_events_whose_json_has_no_type_are_told_by_their_name(self):
        untyped = b"".join(
            f"event: {event['type']}\ndata: {json.dumps({k: v for k, v in event.items() if k != 'type'})}\n\n".encode()
            for event in TEXT
        )
        assert read("GCPAnthropic", untyped) == read("GCPAnthropic", sse(TEXT))

    @pytest.mark.parametrize("line", ["\n", "\r\n", "\r"])
    def test_every_line_end_is_read(self, line):
        assert read("Anthropic", sse(CONVERSATION, line=line))[0] == read("Anthropic", sse(CONVERSATION))[0]

    def test_fields_without_a_space_and_a_missing_last_blank_line_are_read(self):
        tight = sse(TEXT).replace(b": ", b":", 1).replace(b"data: ", b"data:").rstrip(b"\n")
        assert read("GCPAnthropic", tight) == read("GCPAnthropic", sse(TEXT))

    def test_comments_and_an_end_mark_of_other_apis_say_nothing(self):
        noisy = b": hello\n\n" + sse(TEXT) + b"data: [DONE]\n\n"
        assert read("GCPAnthropic", noisy) == read("GCPAnthropic", sse(TEXT))

    def test_what_is_not_known_is_skipped(self):
        unknown = [
            {"type": "brand_new", "delta": "of another form", "message": 3},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "brand_new_delta", "text": {"a": 1}}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {"a": 1}}},
            *block(7, {"type": "web_search_tool_result", "tool_use_id": "x", "content": []}),
            {"type": "content_block_delta", "index": 0, "delta": {"type": ["text_delta"], "text": 1}},
            {"type": "content_block_start", "index": 8},
            {"type": "content_block_delta", "index": 8},
            {"type": "content_block_stop"},
        ]
        assert told(*unknown, *text_block(0, "Hi"), *stop()) == told(*text_block(0, "Hi"), *stop())

    def test_nothing_follows_the_end(self):
        text, _, failure = read("GCPAnthropic", sse([*TEXT, *text_block(1, "more"), {"type": "error", "error": {}}]))
        assert text == read("GCPAnthropic", sse(TEXT))[0]
        assert not failure


class TestHeaders:
    @pytest.mark.parametrize("schema", SCHEMAS)
    def test_a_stream_is_announced_as_server_sent_events(self, schema):
        headers = {"content-type": "application/vnd.amazon.eventstream"}
        assert ask(schema, {"stream": True})[0].response_headers(headers) == [("content-type", "text/event-stream")]
        assert ask(schema, {})[0].response_headers(headers) == [("content-type", "application/json")]


class TestThinking:
    def test_thoughts_are_told_as_they_come_and_their_blocks_in_the_end(self):
        first = thinking_block(0, "c2ln", "Let me ", "see.")
        second = thinking_block(2, "bW9yZQ", "More.")
        redacted = block(1, {"type": "redacted_thinking", "data": "b3Bh"})
        got = told(*first, *redacted, *second, *text_block(3, "Hi"), *stop())
        assert [each["reasoning_content"] for each in got if "reasoning_content" in each] == [
            "Let me ",
            "see.",
            "More.",
        ]
        assert [each for each in got if "thinking_blocks" in each] == [
            {
                "thinking_blocks": [
                    {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
                    {"type": "redacted_thinking", "data": "b3Bh"},
                    {"type": "thinking", "thinking": "More.", "signature": "bW9yZQ"},
                ]
            }
        ]

    def test_a_signature_without_a_thought_survives(self):
        got = told(*thinking_block(0, "c2ln"), *text_block(1, "Hi"), *stop())
        assert {"thinking_blocks": [{"type": "thinking", "signature": "c2ln"}]} in got

    def test_a_thought_in_the_start_of_its_block_is_kept(self):
        content = {"type": "thinking", "thinking": "Hm", "signature": "s"}
        got = told(*block(0, content, {"type": "thinking_delta", "thinking": "m"}), *stop())
        assert [each.get("reasoning_content") for each in got] == [None, "Hm", "m", None, None]
        assert {"thinking_blocks": [{"type": "thinking", "thinking": "Hmm", "signature": "s"}]} in got

    def test_a_block_that_never_ends_is_told_all_the_same(self):
        got = told(*thinking_block(0, "c2ln", "Hm")[:-1], *stop())
        assert {"thinking_blocks": [{"type": "thinking", "thinking": "Hm", "signature": "c2ln"}]} in got


class TestToolCalls:
    def test_indexes_are_dense_and_names_come_once(self):
        got = told(
            *text_block(0, "Hm"), *tool_block(1, "f", '{"x":', "1}"), *tool_block(2, "g", "{}"), *stop("tool_use")
        )
        calls = [call for each in got for call in each.get("tool_calls", ())]
        assert calls == [
            {"index": 0, "id": "toolu_1", "function": {"arguments": "", "name": "f"}, "type": "function"},
            {"index": 0, "function": {"arguments": '{"x":'}},
            {"index": 0, "function": {"arguments": "1}"}},
            {"index": 1, "id": "toolu_2", "function": {"arguments": "", "name": "g"}, "type": "function"},
            {"index": 1, "function": {"arguments": "{}"}},
        ]

    def test_blocks_that_are_told_in_turn_keep_their_pieces(self):
        a, b = tool_block(0, "f", '{"a":', "1}"), tool_block(1, "g", '{"b":', "2}")
        got = told(*(each for pair in zip(a, b, strict=True) for each in pair), *stop("tool_use"))
        arguments = {0: "", 1: ""}
        for call in (call for each in got for call in each.get("tool_calls", ())):
            arguments[call["index"]] += call["function"]["arguments"]
        assert arguments == {0: '{"a":1}', 1: '{"b":2}'}

    @pytest.mark.parametrize("pieces", [(), ("",)])
    def test_a_call_without_arguments_has_those_of_an_empty_object(self, pieces):
        got = told(*tool_block(0, "now", *pieces), *stop("tool_use"))
        assert [call["function"]["arguments"] for each in got for call in each.get("tool_calls", ())] == ["", "{}"]

    def test_arguments_that_come_with_the_start_are_not_told_twice(self):
        content = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1.0}}
        repeated = {"type": "input_json_delta", "partial_json": '{"a": 1.0}'}
        for events in (block(0, content), block(0, content, repeated)):
            got = told(*events, *stop("tool_use"))
            assert [call["function"]["arguments"] for each in got for call in each.get("tool_calls", ())] == [
                '{"a": 1.0}'
            ]

    def test_a_block_that_never_ends_is_not_repeated(self):
        got = told(*tool_block(0, "f", '{"a":1}')[:-1], *stop("tool_use"))
        assert [call["function"]["arguments"] for each in got for call in each.get("tool_calls", ())] == ["", '{"a":1}']

    def test_tools_of_the_provider_are_not_calls_of_the_client(self):
        search = tool_block(0, "web_search", '{"query":"x"}', kind="server_tool_use")
        assert told(*search, *text_block(1, "Hi"), *stop()) == told(*text_block(1, "Hi"), *stop())

    def test_arguments_without_a_call_are_skipped(self):
        stray = {"type": "content_block_delta", "index": 4, "delta": {"type": "input_json_delta", "partial_json": "{"}}
        assert told(stray, *text_block(0, "Hi"), *stop()) == told(*text_block(0, "Hi"), *stop())

    def test_a_call_without_an_id_gets_one(self):
        content = {"type": "tool_use", "name": "f", "input": {}}
        assert told(*block(0, content), *stop())[0]["tool_calls"][0]["id"] == "00000000-0000-4000-8000-000000000001"


class TestEnds:
    @pytest.mark.parametrize(
        ("reason", "expected"),
        [
            ("end_turn", "stop"),
            ("stop_sequence", "stop"),
            ("pause_turn", "stop"),
            ("max_tokens", "length"),
            ("model_context_window_exceeded", "length"),
            ("tool_use", "tool_calls"),
            ("refusal", "content_filter"),
            ("brand_new", "stop"),
            (None, "stop"),
        ],
    )
    def test_every_stop_reason_has_a_finish_reason(self, reason, expected):
        text, _, _ = read("GCPAnthropic", sse([start(), *text_block(0, "Hi"), *stop(reason)]), usage=False)
        [choice] = chunks(text)[-1]["choices"]
        # What the client's API has no word for is shown as well.
        native = {"native_finish_reason": reason} if reason in ("pause_turn", "brand_new") else {}
        assert choice == {"index": 0, "delta": {}, "finish_reason": expected, **native}

    def test_an_unknown_reason_after_a_tool_call_asks_for_it(self):
        text, _, _ = read("GCPAnthropic", sse([start(), *tool_block(0, "f"), *stop("brand_new")]), usage=False)
        assert chunks(text)[-1]["choices"][0]["finish_reason"] == "tool_calls"

    def test_usage_is_for_those_who_ask(self):
        assert "usage" not in read("GCPAnthropic", sse(TEXT), usage=False)[0]
        assert chunks(read("GCPAnthropic", sse(TEXT))[0])[-1]["choices"] == []


class TestUsage:
    @pytest.mark.parametrize(
        ("first", "reports", "expected"),
        [
            pytest.param(
                {"input_tokens": 9, "cache_read_input_tokens": 1, "output_tokens": 0},
                [{"input_tokens": 9, "cache_read_input_tokens": 1, "output_tokens": 5}, {"output_tokens": 16}],
                TokenUsage(input=10, output=16, total=26, cached_input=1, cache_creation_input=0),
                id="BR-59: reports replace each other",
            ),
            pytest.param(
                {"input_tokens": 3, "cache_read_input_tokens": 32651, "cache_creation_input_tokens": 17},
                [{"output_tokens": 5}],
                TokenUsage(input=32671, output=5, total=32676, cached_input=32651, cache_creation_input=17),
                id="BR-62: cached tokens are part of the input",
            ),
            pytest.param(
                {"input_tokens": 20, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3},
                [{"output_tokens": 1, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 2}],
                TokenUsage(input=29, output=1, total=30, cached_input=7, cache_creation_input=2),
                id="a report of the cache alone keeps the rest of the input",
            ),
            pytest.param(
                {"input_tokens": 678, "output_tokens": 1},
                [{"input_tokens": 678, "cache_read_input_tokens": 13363, "output_tokens": 5}],
                TokenUsage(input=14041, output=5, total=14046, cached_input=13363, cache_creation_input=0),
                id="the cache is reported late",
            ),
            pytest.param(
                {"input_tokens": 4},
                [{"output_tokens": 50, "output_tokens_details": {"thinking_tokens": 40}}, {}],
                TokenUsage(input=4, output=50, total=54, cached_input=0, cache_creation_input=0, reasoning=40),
                id="a report without counts keeps them",
            ),
            pytest.param(
                {"input_tokens": "12", "output_tokens": None},
                [{"input_tokens": -1, "cache_read_input_tokens": True, "output_tokens": 3.0}],
                TokenUsage(input=0, output=3, total=3, cached_input=0, cache_creation_input=0),
                id="nonsense is not reported",
            ),
        ],
    )
    def test_the_last_report_of_each_count_is_right(self, first, reports, expected):
        deltas_ = [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": each} for each in reports]
        events = [start(**first), *text_block(0, "Hi"), *deltas_, {"type": "message_stop"}]
        text, usage, _ = read("GCPAnthropic", sse(events))
        assert usage == expected
        shown = chunks(text)[-1]["usage"]
        assert shown["prompt_tokens"] + shown["completion_tokens"] == shown["total_tokens"] == expected.total

    def test_a_report_of_nothing_gives_no_usage(self):
        text, usage, _ = read("GCPAnthropic", sse([{"type": "message_start", "message": {}}, {"type": "message_stop"}]))
        assert usage == TokenUsage()
        assert "usage" not in text

    def test_output_is_not_known_before_it_has_been_reported(self):
        translator, _ = ask("GCPAnthropic", {"stream": True})
        first, *_, last = converse(translator, [sse([start(output_tokens=1)]), sse(stop(output_tokens=50))])
        assert (first.usage.input, first.usage.output, first.usage.total) == (10, None, 10)
        assert last.usage == TokenUsage()

    def test_details_are_always_there(self):
        shown = chunks(read("GCPAnthropic", sse(TEXT))[0])[-1]["usage"]
        assert shown == {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, **EMPTY}

    def test_the_model_is_the_one_that_was_asked_for(self):
        translator, _ = ask("GCPAnthropic", {"stream": True}, model_override="claude-y")
        results = converse(translator, [sse(TEXT)])
        assert {result.model for result in results} == {"claude-y"}
        assert chunks((results[0].body or b"").decode())[0]["model"] == "claude-y"


# --- broken streams ---


def failed(schema, stream):
    """What the client is told of a stream that breaks off: the text so far, and the error."""
    text, usage, failure = read(schema, stream)
    *before, last = chunks(text)
    assert "[DONE]" not in text
    assert not any("finish_reason" in choice for chunk in before for choice in chunk["choices"])
    assert last["type"] == "error"
    assert failure == last["error"]["type"]
    return spoken("".join(f"data: {json.dumps(each)}\n\n" for each in before)), last["error"], usage


BEGUN = [start(cache_read_input_tokens=5), *text_block(0, "He")[:-1]]


class TestBrokenStreams:
    @pytest.mark.parametrize("schema", SCHEMAS)
    @pytest.mark.parametrize("kept", range(len(TEXT)))
    def test_a_stream_that_is_cut_off_is_never_taken_for_a_whole_one(self, schema, kept):
        _, error, _ = failed(schema, wire(schema, TEXT[:kept]))
        assert (error["type"], error["code"]) == ("stream_truncated", "502")

    @pytest.mark.parametrize("schema", SCHEMAS)
    def test_br_13_an_error_event_is_told_with_the_usage_so_far(self, schema):
        event = {"type": "error", "error": {"type": "overloaded_error", "message": 'Over"loaded'}, "request_id": "r"}
        text, error, usage = failed(schema, wire(schema, [*BEGUN, event]))
        assert text == "He"
        assert error == {"type": "overloaded_error", "code": "529", "message": 'Over"loaded'}
        assert (usage.input, usage.cached_input) == (15, 5)

    @pytest.mark.parametrize(
        ("data", "kind", "code", "message"),
        [
            (
                b'{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}',
                "rate_limit_error",
                "429",
                "slow",
            ),
            (b'{"type":"error","error":{"type":"new_error","message":"m"}}', "new_error", "500", "m"),
            (b'{"type":"error","error":{"message":"m"}}', "api_error", "500", "m"),
            (b'{"type":"error","error":"flat"}', "api_error", "500", '{"type":"error","error":"flat"}'),
            (b"not JSON", "api_error", "500", "not JSON"),
            (b'{"type":"error","delta":5,"error":{"type":"api_error"}}', "api_error", "500", None),
        ],
    )
    def test_errors_of_every_form_are_told(self, data, kind, code, message):
        _, error, _ = failed("GCPAnthropic", sse(BEGUN) + b"event: error\ndata: " + data + b"\n\n")
        assert (error["type"], error["code"], error.get("message")) == (kind, code, message)

    @pytest.mark.parametrize(
        "data",
        [
            b'event: message_start\ndata: {"type":"message_st',
            b'data: {"type":"message_start","message":{"id":',
            b'data: {"type":"message_start","message":3}',
            b'data: {"type":"content_block_start","content_block":[]}',
            b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":5}}',
            b'data: {"type":"message_delta","delta":7}',
            b"data: <html>",
            b"data: " + b"[" * 100_000,
            b'data: {"type":"message_stop","usage":"\xff"}',
        ],
    )
    def test_br_80_an_event_that_cannot_be_read_breaks_the_stream(self, data):
        text, error, _ = failed("GCPAnthropic", sse(BEGUN) + data + b"\n\n" + sse(stop()))
        assert (text, error["type"]) == ("He", "stream_unreadable")

    @pytest.mark.parametrize("data", [b"event: ping\ndata: {", b"event: brand_new\ndata: plain words"])
    def test_an_event_that_says_nothing_may_be_broken(self, data):
        assert spoken(read("GCPAnthropic", sse(TEXT[:3]) + data + b"\n\n" + sse(TEXT[3:]))[0]) == "Hi"

    def test_an_event_that_is_too_long_to_be_held_breaks_the_stream(self):
        text, error, _ = failed("GCPAnthropic", sse(BEGUN) + b"data: " + b"x" * 17_000_000)
        assert (text, error["type"]) == ("He", "stream_unreadable")

    def test_an_error_document_instead_of_events_is_told(self):
        body = b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}'
        assert failed("Anthropic", body)[1] == {"type": "overloaded_error", "code": "502", "message": "busy"}
        google = b'[{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota"}}]'
        assert failed("GCPAnthropic", google)[1]["type"] == "RESOURCE_EXHAUSTED"

    @pytest.mark.parametrize("body", [b"", b"<html>busy</html>", b"\n\n"])
    def test_what_is_no_stream_at_all_is_a_failure(self, body):
        for schema in ("Anthropic", "GCPAnthropic"):
            assert failed(schema, body)[1]["type"] == "stream_truncated"


class TestAWSFrames:
    def test_br_53_an_exception_in_the_stream_is_told(self):
        stream = frames(BEGUN) + eventstream.exception("throttlingException", {"message": "slow"})
        text, error, usage = failed("AWSAnthropic", stream)
        assert (text, usage.input) == ("He", 15)
        assert error == {"type": "throttlingException", "code": "429", "message": "slow"}

    def test_an_error_of_the_framing_is_told(self):
        stream = frames(BEGUN) + eventstream.error("InternalError", "gone")
        assert failed("AWSAnthropic", stream)[1] == {"type": "InternalError", "code": "500", "message": "gone"}

    def test_a_wrong_checksum_breaks_the_stream(self):
        whole = frames(TEXT)
        assert failed("AWSAnthropic", frames(BEGUN) + whole[:-1] + b"\0")[1]["type"] == "stream_unreadable"

    @pytest.mark.parametrize("payload", [b"no JSON", b'{"bytes":"%%%"}', b'{"bytes":7}'])
    def test_a_chunk_that_cannot_be_read_breaks_the_stream(self, payload):
        stream = frames(BEGUN) + eventstream.event("chunk", payload)
        assert failed("AWSAnthropic", stream)[1]["type"] == "stream_unreadable"

    @pytest.mark.parametrize(("kind", "payload"), [("chunk", {"p": "abc"}), ("chunk", {"bytes": ""}), ("new", b"\0")])
    def test_frames_without_an_event_are_skipped(self, kind, payload):
        stream = frames(TEXT[:1]) + eventstream.event(kind, payload) + frames(TEXT[1:])
        assert read("AWSAnthropic", stream)[0] == read("AWSAnthropic", frames(TEXT))[0]

    def test_metrics_of_bedrock_in_the_last_event_change_nothing(self):
        metrics = {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 7, "outputTokenCount": 9}}
        assert read("AWSAnthropic", frames([*TEXT[:-1], {**TEXT[-1], **metrics}])) == read("AWSAnthropic", frames(TEXT))


class TestCuts:
    @pytest.mark.parametrize("schema", SCHEMAS)
    def test_all_three_places_tell_the_same(self, schema):
        assert read(schema, wire(schema, CONVERSATION))[:2] == read("Anthropic", sse(CONVERSATION))[:2]

    @pytest.mark.parametrize("schema", SCHEMAS)
    @pytest.mark.parametrize("size", [1, 2, 3, 17])
    def test_pieces_of_any_size_tell_the_same(self, schema, size):
        stream = wire(schema, CONVERSATION)
        assert read(schema, stream, size=size)[:2] == read(schema, stream)[:2]

    @given(
        cuts=st.lists(st.floats(0, 1, exclude_max=True), max_size=8),
        schema=st.sampled_from(SCHEMAS),
        events=st.lists(
            st.sampled_from(
                [*CONVERSATION, {"type": "error", "error": {"type": "api_error", "message": "ä"}}, {"type": "new"}]
            ),
            max_size=30,
        ),
        junk=st.sampled_from([b"", b"data: {\n\n", b": c\n\n", b"\r", b"x"]),
    )
    def test_any_events_in_any_pieces_tell_the_same_and_end_in_one_way(self, cuts, schema, events, junk):
        stream = wire(schema, events) + junk
        whole, usage, _ = read(schema, stream)
        places = [0, *sorted(int(cut * len(stream)) for cut in cuts), len(stream)]
        translator, _ = ask(schema, {"stream": True, "stream_options": {"include_usage": True}})
        results = converse(translator, [stream[a:b] for a, b in pairwise(places)])
        assert b"".join(result.body or b"" for result in results).decode() == whole
        ends = [whole.count("data: [DONE]"), whole.count('data: {"type":"error"')]
        assert sorted(ends) == [0, 1]
        assert usage.total == (None if usage.input is None else usage.input + (usage.output or 0))

    @given(
        events=st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(
                        [
                            "message_start",
                            "content_block_start",
                            "content_block_delta",
                            "content_block_stop",
                            "message_delta",
                            "message_stop",
                            "error",
                            "new",
                        ]
                    )
                },
                optional={
                    "index": ODD,
                    "message": ODD,
                    "usage": ODD,
                    "error": ODD,
                    "delta": st.fixed_dictionaries({"type": DELTAS}, optional=dict.fromkeys(MEMBERS, ODD)) | ODD,
                    "content_block": st.fixed_dictionaries({"type": KINDS}, optional=dict.fromkeys(MEMBERS, ODD)) | ODD,
                },
            ),
            max_size=8,
        ),
        schema=st.sampled_from(SCHEMAS),
    )
    def test_events_of_any_form_end_in_one_way(self, events, schema):
        text, _, failure = read(schema, wire(schema, events))
        assert text.endswith("data: [DONE]\n\n") is not bool(failure)
        chunks(text)
