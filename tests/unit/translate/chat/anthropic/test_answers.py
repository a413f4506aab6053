"""Whole answers of Claude (contract, chat 11.4)."""

import json

import pytest

from extproc.errors import UnreadableAnswer
from extproc.usage import TokenUsage
from tests.unit.translate.chat.anthropic.attempts import SCHEMAS, ask


def message(*content, **members):
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-z",
        "content": list(content),
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 2},
        **members,
    }


def answered(document, schema="GCPAnthropic"):
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    translator, _ = ask(schema, {})
    return translator.response_body(body, end_of_stream=True)


def completion(*content, **members):
    return json.loads(answered(message(*content, **members)).body)


def said(*content, **members):
    return completion(*content, **members)["choices"][0]["message"]


def text(words):
    return {"type": "text", "text": words}


class TestDocument:
    def test_it_is_that_of_the_contract(self):
        document = {
            "id": "msg",
            "role": "assistant",
            "stop_reason": "max_tokens",
            "content": [{"type": "text", "text": "a"}],
            "usage": {"input_tokens": 2, "output_tokens": 3, "cache_creation_input_tokens": 4},
        }
        assert answered(document).body == (
            b'{"id":"msg","choices":[{"finish_reason":"length","index":0,'
            b'"message":{"content":"a","role":"assistant"}}],"created":1700000000,"model":"claude-x",'
            b'"object":"chat.completion","usage":{"prompt_tokens":6,"completion_tokens":3,"total_tokens":9,'
            b'"completion_tokens_details":{},"prompt_tokens_details":{"cache_creation_input_tokens":4}}}'
        )

    @pytest.mark.parametrize("schema", SCHEMAS)
    def test_it_is_the_same_from_all_three_places(self, schema):
        assert answered(message(text("a")), schema) == answered(message(text("a")))

    def test_the_model_is_the_one_that_answered(self):
        assert answered(message(text("a"))).model == completion(text("a"))["model"] == "claude-z"
        for unknown in ("", None, 7):
            assert answered(message(text("a"), model=unknown)).model == "claude-x"

    def test_it_may_come_in_pieces(self):
        body = json.dumps(message(text("äöü"))).encode()
        translator, _ = ask("Anthropic", {})
        pieces = [body[at : at + 7] for at in range(0, len(body), 7)]
        results = [translator.response_body(piece, end_of_stream=False) for piece in pieces]
        assert all(result.body == b"" for result in results)
        assert translator.response_body(b"", end_of_stream=True) == answered(body)


class TestMessage:
    def test_texts_are_one(self):
        assert said(text("a "), text(""), text("\nb"))["content"] == "a \nb"

    @pytest.mark.parametrize("content", [(), (text(""),), ({"type": "server_tool_use", "id": "s", "input": {}},)])
    def test_without_a_text_there_is_no_content(self, content):
        assert said(*content) == {"content": None, "role": "assistant"}

    def test_calls_keep_the_spelling_of_their_arguments(self):
        call = b'{"type":"tool_use","id":"t","name":"f","input":{"b": 1.0, "a":[ ]}}'
        raw = b'{"content":[%b],"stop_reason":"tool_use"}' % call
        choice = json.loads(answered(raw).body)["choices"][0]
        assert choice["finish_reason"] == "tool_calls"
        assert choice["message"]["tool_calls"] == [
            {"id": "t", "function": {"arguments": '{"b": 1.0, "a":[ ]}', "name": "f"}, "type": "function"}
        ]

    @pytest.mark.parametrize("given", [{}, {"input": None}, {"input": {}}])
    def test_calls_without_arguments_have_those_of_an_empty_object(self, given):
        call = said({"type": "tool_use", "id": "t", "name": "f", **given})["tool_calls"][0]
        assert call["function"] == {"arguments": "{}", "name": "f"}

    def test_calls_without_an_id_get_one(self):
        calls = said({"type": "tool_use", "name": "f"}, {"type": "tool_use", "id": "", "name": "f"})["tool_calls"]
        assert [call["id"][-2:] for call in calls] == ["01", "02"]

    def test_thoughts_are_told_in_one_and_each_on_its_own(self):
        got = said(
            {"type": "thinking", "thinking": "a\n", "signature": "s1"},
            {"type": "redacted_thinking", "data": "b3Bh"},
            {"type": "thinking", "thinking": "b", "signature": "s2"},
            {"type": "thinking", "thinking": "", "signature": "s3"},
            {"type": "thinking", "thinking": "", "signature": ""},
            text("c"),
        )
        assert got == {
            "content": "c",
            "role": "assistant",
            "reasoning_content": "a\nb",
            "thinking_blocks": [
                {"type": "thinking", "thinking": "a\n", "signature": "s1"},
                {"type": "redacted_thinking", "data": "b3Bh"},
                {"type": "thinking", "thinking": "b", "signature": "s2"},
                {"type": "thinking", "signature": "s3"},
            ],
        }

    def test_what_the_provider_did_itself_is_not_told(self):
        own = [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
            {"type": "brand_new", "text": ["?"]},
            {},
        ]
        assert said(*own, text("a")) == {"content": "a", "role": "assistant"}

    def test_members_of_wrong_types_count_as_absent(self):
        odd = [
            {"type": "text", "text": 5},
            {"type": "thinking", "thinking": [], "signature": 1},
            "loose",
            None,
            text("a"),
        ]
        assert said(*odd, id=7, role=None, stop_reason=[], usage="none")["content"] == "a"

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
            (7, "stop"),
        ],
    )
    def test_br_55_every_stop_reason_has_a_finish_reason(self, reason, expected):
        assert completion(text("a"), stop_reason=reason)["choices"][0]["finish_reason"] == expected

    def test_an_unknown_reason_beside_a_call_asks_for_it(self):
        call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
        assert completion(call, stop_reason="brand_new")["choices"][0]["finish_reason"] == "tool_calls"


class TestUsage:
    @pytest.mark.parametrize(
        ("usage", "expected"),
        [
            (
                {"input_tokens": 10, "output_tokens": 25},
                TokenUsage(input=10, output=25, total=35, cached_input=0, cache_creation_input=0, reasoning=0),
            ),
            (
                {"input_tokens": 10, "output_tokens": 25, "cache_read_input_tokens": 10},
                TokenUsage(input=20, output=25, total=45, cached_input=10, cache_creation_input=0, reasoning=0),
            ),
            (
                {
                    "input_tokens": 3,
                    "cache_read_input_tokens": 32651,
                    "cache_creation_input_tokens": 17,
                    "output_tokens": 50,
                    "output_tokens_details": {"thinking_tokens": 40},
                },
                TokenUsage(
                    input=32671, output=50, total=32721, cached_input=32651, cache_creation_input=17, reasoning=40
                ),
            ),
            (
                {"input_tokens": 4.0, "output_tokens": "5", "cache_read_input_tokens": -1},
                TokenUsage(input=4, output=0, total=4, cached_input=0, cache_creation_input=0, reasoning=0),
            ),
        ],
    )
    def test_br_62_the_client_reads_what_is_billed(self, usage, expected):
        result = answered(message(text("a"), usage=usage))
        assert result.usage == expected
        shown = json.loads(result.body)["usage"]
        assert shown["prompt_tokens"] == expected.input
        assert shown["completion_tokens"] == expected.output
        assert shown["total_tokens"] == expected.total == expected.input + expected.output
        assert shown["prompt_tokens_details"].get("cached_tokens", 0) == expected.cached_input
        assert shown["prompt_tokens_details"].get("cache_creation_input_tokens", 0) == expected.cache_creation_input
        assert shown["completion_tokens_details"].get("reasoning_tokens", 0) == expected.reasoning

    @pytest.mark.parametrize("usage", [None, {}, [], {"input_tokens": None}])
    def test_without_a_report_there_is_no_usage(self, usage):
        result = answered(message(text("a"), usage=usage))
        assert result.usage == TokenUsage()
        assert "usage" not in json.loads(result.body)


class TestUnreadable:
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"<html>",
            b"null",
            b"[]",
            b"{}",
            b'{"content":null}',
            b'{"content":"text"}',
            b'{"content":[',
            b'{"content":' + b"[" * 100_000,
            b'{"content":[{"type":"text","text":"\xff"}]}',
        ],
    )
    @pytest.mark.parametrize("schema", SCHEMAS)
    def test_what_is_no_message_is_the_backends_fault(self, schema, body):
        with pytest.raises(UnreadableAnswer):
            answered(body, schema)

    def test_an_error_with_status_200_is_shown(self):
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
        with pytest.raises(UnreadableAnswer, match=r"overloaded_error.*busy"):
            answered(error)
