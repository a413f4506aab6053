"""Answers of every client API that are documents, as views."""

from __future__ import annotations

import base64
import json
import struct

import pytest

from extproc.endpoints.base import Operation
from extproc.telemetry.tracing.readers.answers import MAX_CAPTURED
from extproc.telemetry.tracing.views import AnswerView, Message, Part, ToolCall
from tests.fuzz.fuzz_trace_readers import read_answer


def read_json(operation: Operation, document: object) -> AnswerView:
    return read_answer(operation, json.dumps(document).encode())


def reasoning(value: str) -> Part:
    return Part(type="reasoning", text=value)


USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 9,
    "prompt_tokens_details": {"audio_tokens": 3},
    "completion_tokens_details": {"audio_tokens": 4},
}


def test_a_chat_completion_is_read():
    document = {
        "id": "chatcmpl-1",
        "model": "gpt-4o",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Paris."}, "finish_reason": "stop"},
            {"index": 1, "message": {"role": "assistant", "content": "Par"}, "finish_reason": "length"},
        ],
        "usage": USAGE,
    }

    view = read_json(Operation.CHAT, document)

    assert view == AnswerView(
        text=json.dumps(document),
        id="chatcmpl-1",
        model="gpt-4o",
        finish_reasons=("stop", "length"),
        messages=(
            Message(role="assistant", text="Paris.", finish="stop"),
            Message(role="assistant", text="Par", finish="length"),
        ),
        prompt_audio_tokens=3,
        completion_audio_tokens=4,
    )


CHAT_ANSWERS = {
    "reasoning": (
        {"content": "Paris.", "reasoning_content": "hm"},
        Message(role="assistant", text="Paris.", parts=(reasoning("hm"),)),
    ),
    "reasoning by another name": (
        {"content": "Paris.", "reasoning": "hm", "reasoning_details": [{"text": "hm"}]},
        Message(role="assistant", text="Paris.", parts=(reasoning("hm"),)),
    ),
    "reasoning alone": ({"reasoning_content": {"text": "hm"}}, Message(role="assistant", parts=(reasoning("hm"),))),
    "calls": (
        {"content": None, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}, 1]},
        Message(role="assistant", tool_calls=(ToolCall(id="c", name="f", arguments="{}"),)),
    ),
    "a refusal": (
        {"content": None, "refusal": "No."},
        Message(role="assistant", parts=(Part(type="refusal", text="No."),)),
    ),
    "sound": (
        {"content": None, "audio": {"id": "a", "data": "AA==", "transcript": "Hi."}},
        Message(role="assistant", parts=(Part(type="audio", text="Hi."),)),
    ),
    "content in parts": (
        {"role": "model", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        Message(role="model", parts=(Part(type="text", text="a"), Part(type="text", text="b"))),
    ),
    "nothing": ({}, Message(role="assistant")),
    "wrong types": (
        {"role": [], "content": 1, "tool_calls": [{"function": 1}]},
        Message(role="assistant", tool_calls=(ToolCall(),)),
    ),
}


@pytest.mark.parametrize(("message", "expected"), CHAT_ANSWERS.values(), ids=CHAT_ANSWERS)
def test_the_message_of_a_chat_completion_is_read(message, expected):
    assert read_json(Operation.CHAT, {"choices": [{"message": message}]}).messages == (expected,)


def test_a_completion_is_read():
    document = {
        "id": "cmpl-1",
        "object": "text_completion",
        "model": "instruct",
        "choices": [{"text": "a", "index": 0, "finish_reason": "stop"}, {"text": "b", "index": 1}],
        "usage": {},
    }

    view = read_json(Operation.COMPLETION, document)

    assert (view.id, view.model, view.finish_reasons, view.choices) == ("cmpl-1", "instruct", ("stop",), ("a", "b"))


def test_a_message_is_read():
    view = read_answer(
        Operation.MESSAGES,
        b'{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":['
        b'{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"Let me see."},'
        b'{"type":"tool_use","id":"toolu_1","name":"f","input":{"a": 1.0}}],"stop_reason":"tool_use"}',
    )

    assert (view.id, view.model, view.finish_reasons) == ("msg_1", "claude", ("tool_use",))
    assert view.messages == (
        Message(
            role="assistant",
            text="Let me see.",
            parts=(reasoning("hm"),),
            tool_calls=(ToolCall(id="toolu_1", name="f", arguments='{"a":1.0}'),),
            finish="tool_use",
        ),
    )


def test_a_response_is_read():
    document = {
        "id": "resp_1",
        "model": "gpt-5",
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "content": []},
            {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "q"}},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Pa"}]},
            {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
        ],
        "usage": {"input_tokens_details": {"audio_tokens": 1}, "output_tokens_details": {"audio_tokens": 2}},
    }

    view = read_json(Operation.RESPONSES, document)

    finish = "max_output_tokens"
    assert (view.id, view.model, view.finish_reasons) == ("resp_1", "gpt-5", (finish,))
    assert (view.prompt_audio_tokens, view.completion_audio_tokens) == (1, 2)
    search = ToolCall(id="ws_1", name="web_search_call", arguments='{"type":"search","query":"q"}')
    assert view.messages == (
        Message(role="assistant", parts=(reasoning("hm"),), finish=finish),
        Message(role="assistant", tool_calls=(search,), finish=finish),
        Message(role="assistant", text="Pa", finish=finish),
        Message(role="assistant", tool_calls=(ToolCall(id="call_1", name="f", arguments="{}"),), finish=finish),
    )
    assert not view.completed


STATUSES = {"completed": ("completed",), "failed": ("failed",), "queued": (), "in_progress": ()}


@pytest.mark.parametrize(("status", "expected"), STATUSES.items(), ids=STATUSES)
def test_a_response_that_goes_on_has_not_finished(status, expected):
    assert read_json(Operation.RESPONSES, {"status": status}).finish_reasons == expected


VECTORS = {
    "numbers": ([0.5, 1, -2e-3], (0.5, 1.0, -0.002)),
    "base64": (base64.b64encode(struct.pack("<3f", 0.5, 1, -2)).decode(), (0.5, 1.0, -2.0)),
    "base64 of another length": ("AAAA", ()),
    "no base64": ("A", ()),
    "no numbers": ([0.5, None], ()),
    "an object": ({"float": [1]}, ()),
}


@pytest.mark.parametrize(("given", "expected"), VECTORS.values(), ids=VECTORS)
def test_an_embedding_is_read(given, expected):
    view = read_json(Operation.EMBEDDINGS, {"model": "small", "data": [{"index": 0, "embedding": given}]})

    assert view.vectors == (expected,)
    assert view.model == "small"


def test_embeddings_stand_in_the_order_of_their_inputs():
    data = [{"embedding": [2]}, {"index": 1, "embedding": [1]}, {"index": 0, "embedding": [0]}, 1]

    assert read_json(Operation.EMBEDDINGS, {"data": data}).vectors == ((0.0,), (1.0,), (2.0,))


def test_scores_stand_in_the_order_of_the_answer():
    results = [{"index": 2, "relevance_score": 0.9}, {"index": 0, "score": 1}, {"index": 1}]

    view = read_json(Operation.RERANK, {"id": "r", "results": results})

    assert view.id == "r"
    assert view.scores == (0.9, 1.0)


def test_what_is_tokenized_is_counted():
    view = read_json(Operation.TOKENIZE, {"count": 3, "max_model_len": 8, "tokens": [1, 2, 3], "token_strs": ["a"]})

    assert (view.token_count, view.max_model_len, view.tokens, view.token_strings) == (3, 8, 3, 1)


def test_lists_that_are_not_there_have_no_length():
    view = read_json(Operation.TOKENIZE, {"count": 3, "tokens": None})

    assert (view.tokens, view.token_strings) == (None, None)


@pytest.mark.parametrize("operation", [Operation.COUNT_TOKENS, Operation.RESPONSES_INPUT_TOKENS])
def test_a_count_of_tokens_is_read(operation):
    assert read_json(operation, {"input_tokens": 42}).token_count == 42


TRANSCRIPTS = {
    "json": (b'{"text":"Hello.","usage":{"type":"duration","seconds":9}}', AnswerView(text="Hello.", audio_duration=9)),
    "tokens": (
        b'{"text":"Hello.","usage":{"type":"tokens","input_token_details":{"audio_tokens":14}}}',
        AnswerView(text="Hello.", prompt_audio_tokens=14),
    ),
    "verbose": (
        b'{"task":"transcribe","language":"english","duration":8.47,"text":"Hello.","usage":{"seconds":9}}',
        AnswerView(text="Hello.", language="english", audio_duration=8.47),
    ),
    "languages": (
        b'{"text":"Hello.","languages":[{"code":"en"},{"code":"fr"},{}]}',
        AnswerView(text="Hello.", language="en,fr"),
    ),
    "text": (b"Hello.\n", AnswerView(text="Hello.\n")),
    "srt": (
        b"1\n00:00:00,000 --> 00:00:01,000\nHello.\n",
        AnswerView(text="1\n00:00:00,000 --> 00:00:01,000\nHello.\n"),
    ),
    "a text that is a number": (b"42", AnswerView(text="42")),
    "a text in braces": (b"{laughs}", AnswerView(text="{laughs}")),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("operation", [Operation.TRANSCRIPTION, Operation.TRANSLATION])
@pytest.mark.parametrize(("body", "expected"), TRANSCRIPTS.values(), ids=TRANSCRIPTS)
def test_a_transcript_is_its_text_even_where_a_stream_was_asked_for(operation, body, expected, stream):
    view = read_answer(operation, body[:5], body[5:], stream=stream)

    assert view.mime == "text/plain"
    assert view == AnswerView(
        text=expected.text,
        mime="text/plain",
        language=expected.language,
        audio_duration=expected.audio_duration,
        prompt_audio_tokens=expected.prompt_audio_tokens,
    )


SOUNDS = {
    "unsaid": (b'{"input":"x"}', "audio/mpeg"),
    "wav": (b'{"response_format":"wav"}', "audio/wav"),
    "unknown": (b'{"response_format":["x"]}', "audio/mpeg"),
}


@pytest.mark.parametrize(("request_body", "mime"), SOUNDS.values(), ids=SOUNDS)
def test_sound_is_counted(request_body, mime):
    view = read_answer(Operation.SPEECH, b"ID3", b"\0" * 1000, b"", stream=True, request=request_body)

    assert view == AnswerView(mime=mime, audio_bytes=1003)


IMAGES = {
    "an address": ({"data": [{"url": "https://x/y.png"}]}, (Part(type="image", url="https://x/y.png"),)),
    "base64": ({"data": [{"b64_json": "AA=="}]}, (Part(type="image", url="data:image/png;base64,AA=="),)),
    "another format": (
        {"data": [{"b64_json": "AA==", "revised_prompt": "A cat."}], "output_format": "webp"},
        (Part(type="text", text="A cat."), Part(type="image", url="data:image/webp;base64,AA==")),
    ),
}


@pytest.mark.parametrize("operation", [Operation.IMAGE_GENERATION, Operation.IMAGE_EDIT])
@pytest.mark.parametrize(("document", "parts"), IMAGES.values(), ids=IMAGES)
def test_an_image_is_a_message(operation, document, parts):
    assert read_json(operation, document).messages == (Message(role="assistant", parts=parts),)


@pytest.mark.parametrize("operation", [each for each in Operation if each != Operation.SPEECH])
@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"oops", b'{"id":', b"[" * 100_000, b"\xff"])
def test_what_is_no_answer_is_shown_as_it_is(operation, body):
    view = read_answer(operation, body)

    assert view.text == body.decode(errors="replace")
    assert (view.messages, view.choices, view.vectors, view.scores, view.token_count) == ((), (), (), (), None)


def test_of_a_long_document_the_begin_is_held():
    begin = b'{"choices":[{"message":{"content":"'
    pieces = [begin, *[b"x" * 65536] * 100]

    view = read_answer(Operation.CHAT, *pieces)

    assert view == AnswerView(text=b"".join(pieces)[:MAX_CAPTURED].decode())
    assert len(view.text) == MAX_CAPTURED
