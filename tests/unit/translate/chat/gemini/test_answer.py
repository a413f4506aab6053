"""Whole answers (contract, chat 9.7, 9.9, 9.10, 17.8 and 17.9)."""

import contextlib
import json
from typing import Any

import openai.types.chat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.errors import UnreadableAnswer
from extproc.usage import TokenUsage
from tests.unit.translate.chat.gemini.attempts import answer, answered, attempt, candidate


def message(*parts: dict[str, Any], **request: Any) -> dict[str, Any]:
    return answer(candidate(*parts, finish="STOP"), **request)["choices"][0]["message"]


def test_the_contracts_example():
    document = {
        "responseId": "r",
        "modelVersion": "mv",
        "candidates": [
            {
                "content": {
                    "parts": [{"text": "think", "thought": True}, {"text": "four", "thoughtSignature": "AAEC"}]
                },
                "finishReason": "STOP",
            }
        ],
        "usageMetadata": {
            "promptTokenCount": 2,
            "candidatesTokenCount": 3,
            "thoughtsTokenCount": 4,
            "totalTokenCount": 9,
        },
    }
    assert answered(document).body == (
        b'{"id":"r","choices":[{"finish_reason":"stop","index":0,"message":{"content":"four","role":"assistant",'
        b'"reasoning_content":"think","thinking_blocks":[{"type":"thinking","thinking":"think","signature":"AAEC"}]}}],'
        b'"model":"mv","object":"chat.completion","usage":{"prompt_tokens":2,"completion_tokens":7,"total_tokens":9,'
        b'"completion_tokens_details":{"reasoning_tokens":4},"prompt_tokens_details":{}}}'
    )


def test_an_answer_of_nothing_but_its_end():
    result = answered({"candidates": [{"finishReason": "STOP"}]})
    choice = b'{"finish_reason":"stop","index":0,"message":{"content":null,"role":"assistant"}}'
    assert result.body == b'{"choices":[' + choice + b'],"model":"gemini-2.5-flash","object":"chat.completion"}'
    assert result.usage == TokenUsage(input=0, output=0, total=0)
    assert result.model == "gemini-2.5-flash"
    assert result.complete


MESSAGES: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "texts": ([{"text": "a "}, {"text": " b"}], {"content": "a  b"}),
    "no parts": ([], {"content": None}),
    "an empty text": ([{"text": ""}], {"content": None}),
    "a thought": ([{"text": "t", "thought": True}, {"text": "a"}], {"content": "a", "reasoning_content": "t"}),
    "thoughts": (
        [{"text": "t", "thought": True}, {"text": "u", "thought": True}],
        {"content": None, "reasoning_content": "tu"},
    ),
    "a signature on a text": (
        [{"text": "a", "thoughtSignature": "AAEC"}],
        {"content": "a", "thinking_blocks": [{"type": "thinking", "signature": "AAEC"}]},
    ),
    "a signature on an empty text": (
        [{"text": "a"}, {"text": "", "thoughtSignature": "AAEC"}],
        {"content": "a", "thinking_blocks": [{"type": "thinking", "signature": "AAEC"}]},
    ),
    "a signature on a thought": (
        [{"text": "t", "thought": True, "thoughtSignature": "AAEC"}],
        {
            "content": None,
            "reasoning_content": "t",
            "thinking_blocks": [{"type": "thinking", "thinking": "t", "signature": "AAEC"}],
        },
    ),
    "two signatures": (
        [{"text": "a", "thoughtSignature": "AAEC"}, {"text": "b", "thoughtSignature": "BBBB"}],
        {"content": "ab", "thinking_blocks": [{"type": "thinking", "signature": "BBBB"}]},
    ),
    "signatures of a text and a call": (
        [
            {"text": "t", "thought": True},
            {"text": "a", "thoughtSignature": "AAEC"},
            {"functionCall": {"name": "f", "args": {"b": 1, "a": [1.50]}}, "thoughtSignature": "BBBB"},
        ],
        {
            "content": "a",
            "tool_calls": [
                {
                    "id": "00000000-0000-4000-8000-000000000001",
                    "function": {"arguments": '{"a":[1.5],"b":1}', "name": "f"},
                    "type": "function",
                }
            ],
            "reasoning_content": "t",
            "thinking_blocks": [{"type": "thinking", "thinking": "t", "signature": "BBBB"}],
        },
    ),
    "a part of another kind": (
        [{"inlineData": {"data": "AAEC"}}, {"executableCode": {}}, {"text": "a"}, None],
        {"content": "a"},
    ),
}


@pytest.mark.parametrize(("parts", "expected"), MESSAGES.values(), ids=MESSAGES.keys())
def test_the_message(parts, expected):
    assert message(*parts) == {"role": "assistant", **expected}


ARGUMENTS = {
    "missing": ({"name": "f"}, "{}"),
    "null": ({"name": "f", "args": None}, "{}"),
    "empty": ({"name": "f", "args": {}}, "{}"),
}


@pytest.mark.parametrize(("call", "arguments"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_calls_without_arguments(call, arguments):
    calls = message({"functionCall": call})["tool_calls"]
    assert [each["function"]["arguments"] for each in calls] == [arguments]


def test_numbers_of_arguments_keep_their_spelling():
    body = b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"b": 1.0,\n"a":1e3}}}]}}]}'
    call = answer(body)["choices"][0]["message"]["tool_calls"][0]
    assert call["function"]["arguments"] == '{"a":1e3,"b":1.0}'


def test_every_call_has_an_id_of_its_own():
    calls = message({"functionCall": {"name": "f", "id": "x"}}, {"functionCall": {"name": "f", "id": "x"}})[
        "tool_calls"
    ]
    assert len({call["id"] for call in calls}) == 2


FINISH: dict[str, tuple[str, str | None]] = {
    "STOP": ("stop", None),
    "MAX_TOKENS": ("length", None),
    **{
        reason: ("content_filter", reason)
        for reason in (
            "SAFETY",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "RECITATION",
            "IMAGE_RECITATION",
            "MALFORMED_FUNCTION_CALL",
            "UNEXPECTED_TOOL_CALL",
            "LANGUAGE",
            "NO_IMAGE",
            "OTHER",
            "IMAGE_OTHER",
            "FINISH_REASON_UNSPECIFIED",
            "TOO_MANY_TOOL_CALLS",
            "NEW_IN_THE_FUTURE",
        )
    },
}


@pytest.mark.parametrize(("reason", "expected"), FINISH.items(), ids=FINISH.keys())
def test_finish_reasons(reason, expected):
    choice = answer(candidate({"text": "a"}, finish=reason))["choices"][0]
    assert (choice["finish_reason"], choice.get("native_finish_reason")) == expected


def test_an_answer_that_stops_with_calls_has_called_tools():
    choice = answer(candidate({"functionCall": {"name": "f"}}, finish="STOP"))["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    cut = answer(candidate({"functionCall": {"name": "f"}}, finish="MAX_TOKENS"))["choices"][0]
    assert cut["finish_reason"] == "length"


def test_an_answer_without_a_reason_has_stopped_unless_it_says_nothing():
    assert answer(candidate({"text": "a"}))["choices"][0]["finish_reason"] == "stop"
    assert answer(candidate({"functionCall": {"name": "f"}}))["choices"][0]["finish_reason"] == "tool_calls"
    assert answer({"candidates": [{}]})["choices"][0]["finish_reason"] == "content_filter"


def test_candidates_are_choices():
    document = {
        "candidates": [
            {"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"},
            None,
            {"index": 1, "content": {"parts": [{"text": "b"}]}, "finishReason": "MAX_TOKENS"},
            {"finishReason": "SAFETY"},
        ]
    }
    choices = answer(document)["choices"]
    assert [(each["index"], each["message"]["content"]) for each in choices] == [(0, "a"), (1, "b"), (3, None)]


def test_a_blocked_prompt_is_a_filtered_answer():
    choice = answer({"promptFeedback": {"blockReason": "SAFETY"}})["choices"][0]
    assert choice == {
        "finish_reason": "content_filter",
        "index": 0,
        "message": {"content": None, "role": "assistant"},
        "native_finish_reason": "SAFETY",
    }


def test_feedback_on_a_prompt_that_was_answered_says_nothing():
    document = {**candidate({"text": "a"}, finish="STOP"), "promptFeedback": {"safetyRatings": []}}
    assert answer(document)["choices"][0]["finish_reason"] == "stop"


def test_extensions_are_given_on_as_they_are():
    ratings = [{"category": "C", "probabilityScore": 0.25, "blocked": True, "new": 1}]
    grounding = {"webSearchQueries": ["q"], "searchEntryPoint": {"renderedContent": "<b>"}}
    document = candidate({"text": "a"}, finish="STOP", safetyRatings=ratings, groundingMetadata=grounding)
    found = answer(document)["choices"][0]["message"]
    assert (found["safety_ratings"], found["grounding_metadata"]) == (ratings, grounding)


@pytest.mark.parametrize("nothing", [None, [], {}])
def test_empty_extensions_are_left_out(nothing):
    document = candidate({"text": "a"}, finish="STOP", safetyRatings=nothing, groundingMetadata=nothing)
    assert answer(document)["choices"][0]["message"] == {"content": "a", "role": "assistant"}


LOGPROBS: dict[str, tuple[dict[str, Any] | None, Any]] = {
    "none": (None, None),
    "empty": ({}, None),
    "chosen": (
        {"chosenCandidates": [{"token": "a", "tokenId": 1, "logProbability": -0.5}]},
        {"content": [{"token": "a", "logprob": -0.5, "top_logprobs": None}]},
    ),
    "chosen and others": (
        {
            "chosenCandidates": [{"token": "a", "logProbability": -0.5}, {"token": "b"}, {"token": "c"}],
            "topCandidates": [{"candidates": [{"token": "a", "logProbability": -0.5}]}, None, {"candidates": []}],
        },
        {
            "content": [
                {"token": "a", "logprob": -0.5, "top_logprobs": [{"token": "a", "logprob": -0.5}]},
                {"token": "b", "logprob": 0, "top_logprobs": None},
                {"token": "c", "logprob": 0, "top_logprobs": None},
            ]
        },
    ),
}


@pytest.mark.parametrize(("result", "expected"), LOGPROBS.values(), ids=LOGPROBS.keys())
def test_log_probabilities(result, expected):
    choice = answer(candidate({"text": "a"}, finish="STOP", logprobsResult=result))["choices"][0]
    assert choice.get("logprobs") == expected


WRAPPED = {
    "a choice": ({"guided_choice": ["a"]}, [" a", "\n"], "a"),
    "white space inside a choice": ({"guided_choice": ["a b"]}, ["\ta ", " b "], "a  b"),
    "a pattern": ({"guided_regex": "a"}, ['"a', '"b"'], 'a"b'),
    "a pattern with quotes": ({"guided_regex": "a"}, ['""a""'], '"a"'),
    "a single quote": ({"guided_regex": "a"}, ['"'], None),
    "plain text": ({}, [' "a" '], ' "a" '),
}


@pytest.mark.parametrize(("request_", "texts", "content"), WRAPPED.values(), ids=WRAPPED.keys())
def test_the_whole_text_is_taken_out_of_its_wrapping(request_, texts, content):
    assert message(*({"text": text} for text in texts), **request_)["content"] == content


def test_thoughts_are_not_in_a_wrapping():
    assert message({"text": ' "t" ', "thought": True}, guided_choice=["a"])["reasoning_content"] == ' "t" '


USAGE: dict[str, tuple[dict[str, Any], TokenUsage]] = {
    "with thoughts": (
        {
            "promptTokenCount": 10,
            "candidatesTokenCount": 15,
            "totalTokenCount": 35,
            "cachedContentTokenCount": 10,
            "thoughtsTokenCount": 10,
        },
        TokenUsage(input=10, output=25, total=35, cached_input=10, reasoning=10),
    ),
    "without": (
        {"promptTokenCount": 15, "candidatesTokenCount": 10, "totalTokenCount": 25},
        TokenUsage(input=15, output=10, total=25, cached_input=0, reasoning=0),
    ),
    "what tools put in": (
        {"promptTokenCount": 10, "toolUsePromptTokenCount": 5, "candidatesTokenCount": 1, "totalTokenCount": 16},
        TokenUsage(input=15, output=1, total=16, cached_input=0, reasoning=0),
    ),
    "thoughts alone": (
        {"promptTokenCount": 10, "thoughtsTokenCount": 5, "totalTokenCount": 15},
        TokenUsage(input=10, output=5, total=15, cached_input=0, reasoning=5),
    ),
    "a total that is none": (
        {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 99},
        TokenUsage(input=10, output=5, total=15, cached_input=0, reasoning=0),
    ),
    "nonsense": (
        {"promptTokenCount": -1, "candidatesTokenCount": "5", "thoughtsTokenCount": 1.5},
        TokenUsage(input=0, output=0, total=0),
    ),
    "nothing": ({}, TokenUsage(input=0, output=0, total=0)),
}


@pytest.mark.parametrize(("metadata", "usage"), USAGE.values(), ids=USAGE.keys())
def test_usage(metadata, usage):
    result = answered({**candidate({"text": "a"}, finish="STOP"), "usageMetadata": metadata})
    assert result.usage == usage
    shown = answer({**candidate({"text": "a"}, finish="STOP"), "usageMetadata": metadata})["usage"]
    assert shown == {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning} if usage.reasoning else {},
        "prompt_tokens_details": {"cached_tokens": usage.cached_input} if usage.cached_input else {},
    }


TIMES = {
    "2023-11-14T22:13:20Z": 1_700_000_000,
    "2023-11-14T22:13:20.123456789Z": 1_700_000_000,
    "2023-11-14T23:13:20.5+01:00": 1_700_000_000,
    "soon": None,
    7: None,
}


@pytest.mark.parametrize(("given_", "expected"), TIMES.items(), ids=str)
def test_the_time_of_the_answer(given_, expected):
    assert answer({**candidate({"text": "a"}), "createTime": given_}).get("created") == expected


def test_members_beside_the_answer_may_be_of_any_type():
    document = {**candidate({"text": "a"}, finish="STOP"), "responseId": 7, "modelVersion": [], "new": {}}
    found = answer(document)
    assert "id" not in found
    assert found["model"] == "gemini-2.5-flash"


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "truncated"),
    "not JSON": (b"<html>", "malformed"),
    "an array": (b"[]", "Expected `object`"),
    "an empty object": (b"{}", "no candidates"),
    "an empty list": (b'{"candidates":[],"usageMetadata":{"promptTokenCount":1}}', "no candidates"),
    "no candidate in the list": (b'{"candidates":[null]}', "no candidates"),
    "candidates of another type": (b'{"candidates":{}}', "candidates"),
    "a text of another type": (b'{"candidates":[{"content":{"parts":[{"text":1}]}}]}', "text"),
    "arguments of another type": (
        b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":[]}}]}}]}',
        "expected an object",
    ),
    "an error": (b'{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}', "overloaded"),
    "an error of another shape": (b'{"error":"x"}', "it is an error"),
    "no text": (b'{"responseId":"\xff"}', "UTF-8"),
    "nested too deep": (b'{"responseId":' + b"[" * 10_000, "recursion"),
}


@pytest.mark.parametrize(("body", "reason"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_is_no_answer_is_an_error_that_says_why(body, reason):
    with pytest.raises(UnreadableAnswer) as unreadable:
        answered(body)
    assert reason in str(unreadable.value)


ERRORS: dict[str, tuple[bytes, bytes]] = {
    "of Google": (
        b'{"error":{"code":400,"message":"bad \\"x\\"","status":"INVALID_ARGUMENT"}}',
        b'{"type":"error","error":{"type":"INVALID_ARGUMENT","code":"400","message":"bad \\"x\\""}}',
    ),
    "with details": (
        b'{"error":{"message":"m","status":"S","details":[ 1]}}',
        b'{"type":"error","error":{"type":"S","code":"400","message":"Error: m\\nDetails: [ 1]"}}',
    ),
    "without a status": (
        b'{"error":{"message":"m"}}',
        b'{"type":"error","error":{"type":"GCPVertexAIBackendError","code":"400","message":"m"}}',
    ),
    "without anything": (
        b'{"error":{}}',
        b'{"type":"error","error":{"type":"GCPVertexAIBackendError","code":"400","message":"{\\"error\\":{}}"}}',
    ),
    "text": (b"<html>", b'{"type":"error","error":{"type":"GCPVertexAIBackendError","code":"400","message":"<html>"}}'),
    "bytes": (
        b"\xff",
        '{"type":"error","error":{"type":"GCPVertexAIBackendError","code":"400","message":"�"}}'.encode(),
    ),
    "nothing": (b"", b'{"type":"error","error":{"type":"GCPVertexAIBackendError","code":"400"}}'),
}


@pytest.mark.parametrize(("body", "expected"), ERRORS.values(), ids=ERRORS.keys())
def test_errors(body, expected):
    translator, _, _ = attempt({})
    result = translator.response_error("400", {"content-type": "text/html"}, body)
    assert result.body == expected
    assert result.headers == (("content-type", "application/json"),)


def test_a_document_comes_in_pieces():
    translator, _, _ = attempt({})
    assert translator.response_headers({"content-type": "application/json; charset=UTF-8"}) == []
    assert translator.response_body(b'{"candidates":[{}],', end_of_stream=False).body == b""
    whole = translator.response_body(b'"responseId":"r"}', end_of_stream=True).body
    assert json.loads(whole)["id"] == "r"


def test_the_clients_own_types_read_the_answer():
    document = {
        **candidate({"text": "a"}, {"functionCall": {"name": "f"}}, finish="STOP"),
        "responseId": "r",
        "createTime": "2023-11-14T22:13:20Z",
        "usageMetadata": {"promptTokenCount": 1},
    }
    completion = openai.types.chat.ChatCompletion.model_validate(answer(document))
    assert completion.choices[0].message.tool_calls


@given(st.binary() | st.builds(lambda inner: b'{"candidates":[{"content":{"parts":[' + inner + b"]}}]}", st.binary()))
def test_any_bytes_are_an_answer_or_not(body):
    with contextlib.suppress(UnreadableAnswer):
        answered(body)
