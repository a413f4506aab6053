"""What a whole Converse answer, and an error, becomes for the client (contract, messages 5.5 and 17.5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.errors import UnreadableAnswer
from extproc.usage import NO_USAGE, TokenUsage
from tests.unit.translate.messages.bedrock.attempts import MODEL, REQUEST_ID, content, make_translator, send, whole

TEXT = {"output": {"message": {"role": "assistant", "content": [{"text": "Hi"}]}}, "stopReason": "end_turn"}
USAGE = {"inputTokens": 10, "outputTokens": 20, "totalTokens": 30}


def answer_text(body: bytes) -> str:
    translator = make_translator()
    send(translator, {})
    translator.response_headers({"x-amzn-requestid": REQUEST_ID})
    return (translator.response_body(body, end_of_stream=True).body or b"").decode()


def test_members_stand_in_the_order_of_the_contract():
    body = (
        b'{"stopReason":"tool_use","output":{"message":{"role":"assistant","content":[{"text":"a"},'
        b'{"toolUse":{"toolUseId":"t","name":"f","input":{ "b" : 1.0, "a": 1e400 }}}]}},'
        b'"usage":{"inputTokens":10,"outputTokens":20,"totalTokens":30}}'
    )
    assert answer_text(body) == (
        '{"id":"rid","type":"message","role":"assistant","content":[{"type":"text","text":"a"},'
        '{"type":"tool_use","id":"t","name":"f","input":{"b":1.0,"a":1e400}}],'
        f'"model":"{MODEL}","stop_reason":"tool_use","stop_sequence":null,'
        '"usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":10,"output_tokens":20}}'
    )


def test_the_answer_is_told_with_its_usage_and_model():
    translator = make_translator(model_override="over")
    send(translator, {})
    assert translator.response_headers({"content-type": "application/json"}) == []
    result = translator.response_body(json.dumps({**TEXT, "usage": USAGE}).encode(), end_of_stream=True)
    assert (result.model, result.complete, result.failure) == ("over", True, "")
    assert result.usage == TokenUsage(input=10, output=20, total=30)


def test_an_answer_in_pieces_waits_for_its_end():
    translator = make_translator()
    send(translator, {})
    translator.response_headers({})
    body = json.dumps(TEXT).encode()
    assert translator.response_body(body[:9], end_of_stream=False).body == b""
    assert json.loads(translator.response_body(body[9:], end_of_stream=True).body or b"")["content"]


def test_a_message_gets_an_id_where_the_service_gives_none():
    assert whole(TEXT, request_id="")[0]["id"].startswith("msg_")
    assert whole(TEXT)[0]["id"] == REQUEST_ID


@pytest.mark.parametrize(
    ("reason", "told"),
    {
        "end_turn": "end_turn",
        "max_tokens": "max_tokens",
        "stop_sequence": "stop_sequence",
        "tool_use": "tool_use",
        "content_filtered": "refusal",
        "guardrail_intervened": "refusal",
        "refusal": "refusal",
        "pause_turn": "pause_turn",
        "model_context_window_exceeded": "model_context_window_exceeded",
        "malformed_model_output": "max_tokens",
        "malformed_tool_use": "max_tokens",
        "brand_new": "end_turn",
    }.items(),
)
def test_stop_reasons(reason, told):
    """BR-55."""
    assert whole({**TEXT, "stopReason": reason})[0]["stop_reason"] == told


def test_an_answer_without_a_reason_has_none():
    assert whole({"output": TEXT["output"]})[0]["stop_reason"] is None


def test_an_answer_without_output_has_no_content():
    assert whole({"stopReason": "guardrail_intervened"})[0]["content"] == []
    assert content() == []


@pytest.mark.parametrize(
    ("block", "told"),
    {
        "thinking": (
            {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
            [{"type": "thinking", "thinking": "hm", "signature": "s"}],
        ),
        "a signature alone": (
            {"reasoningContent": {"reasoningText": {"text": "", "signature": "s"}}},
            [{"type": "thinking", "thinking": "", "signature": "s"}],
        ),
        "unsigned": (
            {"reasoningContent": {"reasoningText": {"text": "hm"}}},
            [{"type": "thinking", "thinking": "hm", "signature": ""}],
        ),
        "encrypted": (
            {"reasoningContent": {"redactedContent": "/+8="}},
            [{"type": "redacted_thinking", "data": "/+8="}],
        ),
        "nothing thought": ({"reasoningContent": {}}, []),
        "a call without input": (
            {"toolUse": {"toolUseId": "t", "name": "f"}},
            [{"type": "tool_use", "id": "t", "name": "f", "input": {}}],
        ),
        "an unknown kind": ({"hologram": {}}, []),
        "cited": (
            {
                "citationsContent": {
                    "content": [{"text": "It "}, {"text": "rains."}],
                    "citations": [
                        {
                            "title": "d",
                            "sourceContent": [{"text": "rain"}],
                            "location": {"documentChar": {"documentIndex": 1, "start": 2, "end": 6}},
                        },
                        {"location": {"documentPage": {"documentIndex": 0, "start": 1, "end": 2}}},
                        {"location": {"documentChunk": {"documentIndex": 0, "start": 0, "end": 1}}},
                        {
                            "source": "https://a",
                            "location": {"searchResultLocation": {"searchResultIndex": 3, "start": 0, "end": 1}},
                        },
                        {"location": {"web": {"url": "https://a"}}},
                        {},
                    ],
                }
            },
            [
                {
                    "type": "text",
                    "text": "It rains.",
                    "citations": [
                        {
                            "type": "char_location",
                            "cited_text": "rain",
                            "document_index": 1,
                            "document_title": "d",
                            "start_char_index": 2,
                            "end_char_index": 6,
                        },
                        {
                            "type": "page_location",
                            "cited_text": "",
                            "document_index": 0,
                            "document_title": None,
                            "start_page_number": 1,
                            "end_page_number": 2,
                        },
                        {
                            "type": "content_block_location",
                            "cited_text": "",
                            "document_index": 0,
                            "document_title": None,
                            "start_block_index": 0,
                            "end_block_index": 1,
                        },
                        {
                            "type": "search_result_location",
                            "cited_text": "",
                            "search_result_index": 3,
                            "source": "https://a",
                            "title": None,
                            "start_block_index": 0,
                            "end_block_index": 1,
                        },
                    ],
                }
            ],
        ),
        "cited nowhere": ({"citationsContent": {"content": [{"text": "x"}]}}, [{"type": "text", "text": "x"}]),
    }.values(),
    ids=str,
)
def test_blocks(block, told):
    assert content(block) == told


@pytest.mark.parametrize(
    ("reported", "told", "billed"),
    [
        (None, None, NO_USAGE),
        (USAGE, (10, 20, 0, 0), TokenUsage(input=10, output=20, total=30)),
        (
            {"inputTokens": 15, "outputTokens": 30, "cacheReadInputTokens": 50, "cacheWriteInputTokens": 10},
            (15, 30, 50, 10),
            TokenUsage(input=75, output=30, total=105, cached_input=50, cache_creation_input=10),
        ),
        ({"inputTokens": "x", "outputTokens": -1}, None, NO_USAGE),
    ],
    ids=str,
)
def test_usage_is_told_as_reported_and_billed_with_cached_tokens(reported, told, billed):
    """BR-54: both APIs count cached tokens beside the input; whoever bills counts them in."""
    message, usage = whole({**TEXT, "usage": reported})
    read = message.get("usage")
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    assert (read and tuple(read[name] for name in names)) == told
    assert usage == billed


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b"null", b"<html>", b'{"output":{}}', b'{"output":{"message":7}}', b"\xff", b'{"a":' * 9999],
    ids=lambda body: repr(body[:20]),
)
def test_what_is_no_answer_is_unreadable(body):
    translator = make_translator()
    send(translator, {})
    translator.response_headers({})
    with pytest.raises(UnreadableAnswer):
        translator.response_body(body, end_of_stream=True)


# --- errors ---


def told_error(status: str, body: bytes, **headers: str) -> Any:
    result = make_translator().response_error(
        status, {name.replace("_", "-"): value for name, value in headers.items()}, body
    )
    assert result.headers in ((), (("content-type", "application/json"),))
    return json.loads(result.body or b"")


@pytest.mark.parametrize(
    ("status", "kind"),
    {
        "400": "invalid_request_error",
        "401": "authentication_error",
        "403": "permission_error",
        "404": "not_found_error",
        "413": "request_too_large",
        "424": "api_error",
        "429": "rate_limit_error",
        "500": "api_error",
        "502": "api_error",
        "503": "api_error",
        "529": "overloaded_error",
    }.items(),
)
def test_errors_are_of_the_type_of_their_status(status, kind):
    told = told_error(status, b'{"message":"m"}', content_type="application/json", x_amzn_requestid="r")
    assert told == {"error": {"message": "m", "type": kind}, "request_id": "r", "type": "error"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"Message":"m"}', "m"),
        (b'<b>"down"</b>', '<b>"down"</b>'),
        (b"{", "{"),
        (b"", "the backend answered with status 503"),
    ],
)
def test_errors_of_any_form_have_a_message(body, message):
    assert told_error("503", body)["error"]["message"] == message
