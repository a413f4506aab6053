"""Conversations with Claude (contract, chat 11.2)."""

import json

import msgspec
import pytest

from extproc.endpoints import chat_request as chat
from extproc.errors import UnprocessableRequest
from extproc.translate.chat.anthropic.messages import convert_messages
from tests.unit.translate.chat.anthropic.attempts import sent, turns

EPHEMERAL = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
USER = {"role": "user", "content": "q"}


def text(words, **members):
    return {"type": "text", "text": words, **members}


def call(id_="t1", arguments="{}", **members):
    return {"id": id_, "type": "function", "function": {"name": "f", "arguments": arguments}, **members}


def blocks(message, *before):
    """The blocks of the last turn."""
    return turns(*before, message)[-1]["content"]


def answer(**members):
    """The blocks of an assistant message with something after it."""
    return turns(USER, {"role": "assistant", **members}, USER)[1]["content"]


def refusal(*messages):
    with pytest.raises(UnprocessableRequest) as caught:
        turns(*messages)
    return str(caught.value)


class TestSystem:
    def test_each_message_is_a_block_wherever_it_stands(self):
        messages = [
            {"role": "developer", "content": "D"},
            USER,
            {"role": "system", "content": [text("a"), text("b", cache_control=HOUR), text("c")]},
            {"role": "system", "content": ""},
            {"role": "system", "content": []},
            {"role": "system"},
            USER,
        ]
        body = sent({"messages": messages})
        assert body["system"] == [text("D"), {"text": "abc", "cache_control": HOUR, "type": "text"}]
        assert body["messages"] == [{"role": "user", "content": [text("q"), text("q")]}]

    def test_without_any_there_is_none(self):
        assert "system" not in sent({"messages": [{"role": "system", "content": " "}, USER]})

    def test_parts_that_are_not_text_are_refused(self):
        part = {"type": "image_url", "image_url": {"url": "https://a/b.png"}}
        for role in ("system", "developer"):
            assert "parts that are not text" in refusal(USER, {"role": role, "content": [part]})
        assert "parts that are not text" in refusal(USER, {"role": "tool", "tool_call_id": "t", "content": [part]})


class TestTurns:
    def test_neighbours_of_one_role_are_one_turn(self):
        messages = [
            USER,
            USER,
            {"role": "assistant", "content": "a"},
            {"role": "assistant", "tool_calls": [call()]},
            USER,
        ]
        assert [(turn["role"], len(turn["content"])) for turn in turns(*messages)] == [
            ("user", 2),
            ("assistant", 2),
            ("user", 1),
        ]

    def test_br_46_results_of_tools_stand_before_the_words_of_the_user(self):
        messages = [
            USER,
            {"role": "assistant", "content": None, "tool_calls": [call("t1"), call("t2")]},
            {"role": "tool", "tool_call_id": "t1", "content": "r1"},
            {"role": "user", "content": "wait"},
            {"role": "tool", "tool_call_id": "t2", "content": "r2"},
            {"role": "user", "content": "thanks"},
        ]
        last = turns(*messages)[-1]
        assert last["role"] == "user"
        assert [each.get("tool_use_id") or each["text"] for each in last["content"]] == ["t1", "t2", "wait", "thanks"]

    @pytest.mark.parametrize("nothing", ["", None, [], [text("")], " \n"])
    def test_messages_without_content_are_left_out(self, nothing):
        messages = [USER, {"role": "user", "content": nothing}, {"role": "assistant", "content": nothing}, USER]
        assert turns(*messages) == [{"role": "user", "content": [text("q"), text("q")]}]

    def test_white_space_stays_beside_words(self):
        parts = [text("a"), text(" "), text(""), text("b\n")]
        assert answer(content=parts) == [text("a"), text(" "), text("b\n")]
        assert blocks({"role": "user", "content": parts}) == [text("a"), text(" "), text("b\n")]

    def test_an_answer_to_be_continued_ends_in_words(self):
        messages = [USER, {"role": "assistant", "content": [text("It is "), text("  \n")]}]
        assert turns(*messages)[-1]["content"] == [text("It is")]

    def test_an_answer_to_be_continued_does_not_end_in_a_thought(self):
        thought = {"type": "thinking", "thinking": "Hm", "signature": "s"}
        assert turns(USER, {"role": "assistant", "thinking_blocks": [thought]}) == [
            {"role": "user", "content": [text("q")]}
        ]
        assert answer(thinking_blocks=[thought]) == [{"signature": "s", "thinking": "Hm", "type": "thinking"}]


class TestUser:
    @pytest.mark.parametrize("control", [EPHEMERAL, HOUR])
    def test_breakpoints_are_kept_with_their_time(self, control):
        parts = [
            text("a", cache_control=control),
            {"type": "image_url", "image_url": {"url": "https://a/b.png"}, "cache_control": control},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0="}, "cache_control": control},
            text("b"),
        ]
        got = blocks({"role": "user", "content": parts})
        assert [each.get("cache_control") for each in got] == [control, control, control, None]

    @pytest.mark.parametrize("control", [None, {}, {"type": "none"}, {"ttl": "1h"}])
    def test_what_is_no_breakpoint_is_left_out(self, control):
        assert blocks({"role": "user", "content": [text("a", cache_control=control)]}) == [text("a")]

    def test_a_time_that_no_cache_has_is_refused(self):
        part = text("a", cache_control={"type": "ephemeral", "ttl": "2d"})
        assert "messages[0].content[0].cache_control.ttl" in refusal({"role": "user", "content": [part]})

    @pytest.mark.parametrize(
        "part",
        [
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            {"type": "audio_url", "audio_url": {"url": "https://a/b.wav"}},
            {"type": "video_url", "video_url": {"url": "https://a/b.mp4"}},
        ],
    )
    def test_sounds_and_films_are_refused(self, part):
        assert part["type"] in refusal({"role": "user", "content": [part]})
        # Not by the table of support alone.
        message = msgspec.convert({"role": "user", "content": [part]}, chat.Message)
        with pytest.raises(
            UnprocessableRequest, match=rf"messages\[0\]\.content\[0\]: {part['type']} is not supported"
        ):
            convert_messages([message])


class TestAssistant:
    def test_parts_keep_their_order_and_calls_follow(self):
        got = answer(
            content=[
                {"type": "thinking", "text": "Hm", "signature": "s"},
                {"type": "redacted_thinking", "redactedContent": "b3Bh"},
                text("a", cache_control=HOUR),
                {"type": "refusal", "refusal": "no"},
            ],
            tool_calls=[call("t1", '{"b":1.0,"a":12345678901234567890}', cache_control=EPHEMERAL), call("t2", "")],
        )
        assert got == [
            {"signature": "s", "thinking": "Hm", "type": "thinking"},
            {"data": "b3Bh", "type": "redacted_thinking"},
            {"text": "a", "cache_control": HOUR, "type": "text"},
            {"text": "no", "type": "text"},
            {
                "id": "t1",
                "input": {"a": 12345678901234567890, "b": 1.0},
                "name": "f",
                "cache_control": EPHEMERAL,
                "type": "tool_use",
            },
            {"id": "t2", "input": {}, "name": "f", "type": "tool_use"},
        ]

    def test_a_single_part_is_a_list_of_one(self):
        assert answer(content=text("a")) == [text("a")]

    def test_what_our_answers_carry_is_taken_back(self):
        got = answer(
            content="a",
            reasoning_content="Hm",
            thinking_blocks=[
                {"type": "thinking", "thinking": "Hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "b3Bh"},
                {"type": "thinking", "signature": "bare"},
            ],
        )
        assert got == [
            {"signature": "s", "thinking": "Hm", "type": "thinking"},
            {"data": "b3Bh", "type": "redacted_thinking"},
            {"signature": "bare", "thinking": "", "type": "thinking"},
            text("a"),
        ]

    def test_thoughts_that_stand_as_parts_are_not_doubled(self):
        thought = {"type": "thinking", "text": "Hm", "signature": "s"}
        copied = {"type": "thinking", "thinking": "Hm", "signature": "s"}
        assert len(answer(content=[thought, text("a")], thinking_blocks=[copied])) == 2

    def test_thoughts_come_first_where_they_do_not(self):
        got = answer(content=[text("a"), {"type": "thinking", "text": "Hm", "signature": "s"}])
        assert [each["type"] for each in got] == ["thinking", "text"]

    def test_thoughts_between_calls_stay_there(self):
        thought = {"type": "thinking", "text": "Hm", "signature": "s"}
        got = answer(content=[thought, text("a"), thought, text("b")])
        assert [each["type"] for each in got] == ["thinking", "text", "thinking", "text"]

    @pytest.mark.parametrize(
        "unsigned",
        [
            {"content": [{"type": "thinking", "text": "Hm"}, text("a")]},
            {"content": [{"type": "redacted_thinking"}, text("a")]},
            {"content": "a", "thinking_blocks": [{"type": "thinking", "thinking": "Hm"}]},
            {"content": "a", "thinking_blocks": [{"type": "redacted_thinking"}], "reasoning_content": {"a": 1}},
        ],
    )
    def test_thoughts_of_others_are_left_out(self, unsigned):
        assert answer(**unsigned) == [text("a")]

    def test_a_refusal_without_content_is_said_as_text(self):
        assert answer(content=None, refusal="I cannot") == [text("I cannot")]
        assert answer(content="a", refusal="I cannot") == [text("a")]

    def test_parts_and_blocks_of_other_types_are_refused(self):
        assert "messages[0].content[0].type" in refusal(
            {"role": "assistant", "content": [{"type": "output_audio"}]}, USER
        )
        assert "messages[0].content[1].type" in refusal({"role": "assistant", "content": [text("a"), {}]}, USER)
        block = {"type": "brand_new"}
        assert "messages[0].thinking_blocks[0].type" in refusal({"role": "assistant", "thinking_blocks": [block]}, USER)


class TestToolCalls:
    @pytest.mark.parametrize("arguments", ["", " ", "{}", "null", " { } "])
    def test_no_arguments_are_an_empty_object(self, arguments):
        assert answer(tool_calls=[call(arguments=arguments)])[0]["input"] == {}

    @pytest.mark.parametrize("arguments", ["[1]", "7", '"x"', "{", "{'a':1}", '{"a":NaN}', "{" * 5000, '{"a":1e999}'])
    def test_arguments_that_are_no_object_are_refused(self, arguments):
        message = refusal(USER, {"role": "assistant", "tool_calls": [call(), call("t2", arguments)]})
        assert "messages[1].tool_calls[1].function.arguments" in message

    def test_numbers_keep_their_spelling(self):
        body = json.dumps(turns(USER, {"role": "assistant", "tool_calls": [call(arguments='{"a":1.50}')]}, USER))
        assert json.loads(body)[1]["content"][0]["input"] == {"a": 1.5}

    @pytest.mark.parametrize("id_", [None, ""])
    def test_a_call_without_an_id_is_refused(self, id_):
        message = refusal({"role": "assistant", "tool_calls": [call(), call(id_)]})
        assert "tool_call at index 1 is missing required field 'id'" in message

    def test_a_call_without_a_name_or_of_another_type_is_refused(self):
        nameless = {"id": "t", "type": "function", "function": {"arguments": "{}"}}
        assert "messages[0].tool_calls[0].function.name" in refusal({"role": "assistant", "tool_calls": [nameless]})
        dotted = {"id": "t", "type": "function", "function": {"name": "a.b", "arguments": "{}"}}
        assert "messages[0].tool_calls[0].function.name" in refusal({"role": "assistant", "tool_calls": [dotted]})
        custom = {"id": "t", "type": "custom", "custom": {"name": "f", "input": "x"}}
        assert "messages[0].tool_calls[0].type" in refusal({"role": "assistant", "tool_calls": [custom]})

    def test_ids_of_other_providers_are_spelled_as_claude_takes_them(self):
        messages = [
            USER,
            {"role": "assistant", "tool_calls": [call("functions.f:0"), call("functions.f:1"), call("ä")]},
            {"role": "tool", "tool_call_id": "functions.f:1", "content": "r"},
        ]
        _, said, results = turns(*messages)
        ids = [each["id"] for each in said["content"]]
        assert len(set(ids)) == 3
        assert results["content"][0]["tool_use_id"] == ids[1]


class TestToolResults:
    def result(self, **members):
        return blocks({"role": "tool", "tool_call_id": "t", **members}, USER, {"role": "assistant", "content": "a"})[0]

    def test_the_form_is_that_of_the_contract(self):
        result = self.result(content="r")
        assert list(result) == ["tool_use_id", "is_error", "content", "type"]
        assert result == {"tool_use_id": "t", "is_error": False, "content": [text("r")], "type": "tool_result"}

    @pytest.mark.parametrize("nothing", ["", [], [text("")], " "])
    def test_a_result_of_nothing_has_no_content(self, nothing):
        assert self.result(content=nothing) == {"tool_use_id": "t", "is_error": False, "type": "tool_result"}

    @pytest.mark.parametrize(
        ("content", "failed"),
        [
            ('{"error":1}', True),
            (' {"error": {"code": 7}}', True),
            ('{"a":2,"error":"x"}', True),
            ([text('{"error":"x"}')], True),
            ('{"error":null,"result":5}', False),
            ('{"error":false}', False),
            ('{"error":""}', False),
            ('{"errors":1}', False),
            ('{"a":{"error":1}}', False),
            ('["error"]', False),
            ('{"error":', False),
            ('an "error"', False),
            ([text('{"error":"x"}'), text("more")], False),
        ],
    )
    def test_a_result_that_says_that_it_failed_is_an_error(self, content, failed):
        assert self.result(content=content)["is_error"] is failed

    def test_a_breakpoint_of_the_message_is_that_of_the_result(self):
        for content in ("r", [text("a"), text("b")], [text("a"), text("b", cache_control=EPHEMERAL)]):
            result = self.result(content=content, cache_control=HOUR)
            assert result["cache_control"] == HOUR
            assert not any("cache_control" in each for each in result["content"])

    def test_a_breakpoint_of_the_last_part_is_set_once(self):
        result = self.result(content=[text("a"), text("b", cache_control=HOUR)])
        assert result["cache_control"] == HOUR
        assert result["content"] == [text("a"), text("b")]

    def test_a_breakpoint_of_an_earlier_part_stays_there(self):
        result = self.result(content=[text("a", cache_control=HOUR), text("b")])
        assert "cache_control" not in result
        assert result["content"] == [{"text": "a", "cache_control": HOUR, "type": "text"}, text("b")]

    def test_a_message_without_id_or_content_is_refused(self):
        assert "messages[1].tool_call_id" in refusal(USER, {"role": "tool", "content": "r"})
        assert "messages[1].content" in refusal(USER, {"role": "tool", "tool_call_id": "t"})
