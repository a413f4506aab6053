"""Streams: they are read as the documents that the same answers would be, and as the APIs' own clients read them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import RawMessageStreamEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import omit
from openai.lib.streaming.chat._completions import ChatCompletionStreamState
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from extproc.endpoints.base import Operation
from extproc.telemetry.tracing.readers.answers import MAX_CAPTURED, Budget, StreamAnswer, Text
from extproc.telemetry.tracing.readers.chat import read_chat
from extproc.telemetry.tracing.readers.chunks import Chunks
from extproc.telemetry.tracing.views import AnswerView, Message, Part, ToolCall
from tests.fuzz.fuzz_trace_readers import SEEDS, one_input, read_answer


def sse(*events: object, names: bool = False) -> bytes:
    return b"".join(
        (b"event: %b\n" % each["type"].encode() if names and isinstance(each, dict) else b"")
        + b"data: %b\n\n" % json.dumps(each).encode()
        for each in events
    )


def chunk(delta: object, *, index: int = 0, finish: str | None = None, **members: object) -> dict[str, object]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-4o",
        "service_tier": "default",
        "system_fingerprint": "fp",
        "choices": [{"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}],
        **members,
    }


USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 5,
    "total_tokens": 14,
    "prompt_tokens_details": {"audio_tokens": 2},
}

CHAT = (
    chunk({"role": "assistant", "content": ""}, obfuscation="x"),
    chunk({"role": "assistant", "content": None}, index=1),
    chunk({"content": "Par"}),
    chunk({"content": "Sure", "refusal": None}, index=1, obfuscation="xyz"),
    chunk({"content": "is."}),
    chunk({"tool_calls": [{"index": 1, "id": "c2", "type": "function", "function": {"name": "g", "arguments": ""}}]}),
    chunk({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": "{"}}]}),
    chunk({"tool_calls": [{"index": 1, "function": {"arguments": "[]"}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}),
    chunk({}, finish="tool_calls"),
    chunk({}, index=1, finish="stop"),
    {**chunk({}), "choices": [], "usage": USAGE},
)


def official_chat(events: Iterable[object]) -> dict[str, object]:
    state = ChatCompletionStreamState()
    for event in events:
        state.handle_chunk(ChatCompletionChunk.model_validate(event))
    return state.current_completion_snapshot.to_dict()


def test_a_chat_is_gathered():
    view = read_answer(Operation.CHAT, sse(*CHAT) + b"data: [DONE]\n\n", stream=True)

    calls = (ToolCall(id="c1", name="f", arguments="{}"), ToolCall(id="c2", name="g", arguments="[]"))
    assert view.messages == (
        Message(role="assistant", text="Paris.", tool_calls=calls, finish="tool_calls"),
        Message(role="assistant", text="Sure", finish="stop"),
    )
    assert (view.id, view.model, view.finish_reasons) == ("chatcmpl-1", "gpt-4o", ("tool_calls", "stop"))
    assert view.prompt_audio_tokens == 2
    document = json.loads(view.text)
    assert list(document) == [
        "id",
        "object",
        "created",
        "model",
        "choices",
        "usage",
        "service_tier",
        "system_fingerprint",
    ]
    assert document["object"] == "chat.completion"
    assert document["usage"] == USAGE
    assert read_answer(Operation.CHAT, view.text.encode()) == view


def test_a_chat_is_gathered_as_the_official_client_does_it():
    # It takes the calls in their order only.
    ordered = [*CHAT[:5], CHAT[6], CHAT[5], *CHAT[7:]]
    ours = json.loads(read_answer(Operation.CHAT, sse(*ordered), stream=True).text)

    official = official_chat(ordered)
    for choice in official["choices"]:
        choice["message"].pop("parsed", None)
        for call in choice["message"].get("tool_calls") or ():
            call.pop("index", None)
            call["function"].pop("parsed_arguments", None)
    # Null says the same as nothing.
    assert _without_nulls(ours) == _without_nulls(official)


def _without_nulls(value: object) -> object:
    match value:
        case dict():
            return {key: _without_nulls(each) for key, each in value.items() if each is not None}
        case list():
            return [_without_nulls(each) for each in value]
    return value


def test_what_else_a_delta_has_is_joined_by_its_kind():
    deltas = (
        {"reasoning_content": "One, ", "audio": {"id": "a", "data": "AA", "transcript": "H"}},
        {"reasoning_content": "two.", "audio": {"id": "a", "data": "BB", "transcript": "i"}},
        {"annotations": [{"type": "url_citation"}]},
        {"annotations": [{"type": "url_citation", "n": 1.5}]},
        {"tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]},
        {"tool_calls": [{"id": "c2", "function": {"name": "f", "arguments": "{}"}}]},
        {"x": {"a": {"b": {"c": {"d": {"e": {"f": {"g": "kept"}}}}}}}},
        {"x": None, "tool_calls": [], "role": ""},
    )

    view = read_answer(Operation.CHAT, sse(*map(chunk, deltas)), stream=True)

    assert json.loads(view.text)["choices"][0]["message"] == {
        "role": "assistant",
        "content": None,
        "reasoning_content": "One, two.",
        "audio": {"id": "a", "data": "AABB", "transcript": "Hi"},
        "annotations": [{"type": "url_citation"}, {"type": "url_citation", "n": 1.5}],
        "tool_calls": [
            {"id": "c1", "function": {"name": "f", "arguments": "{}"}},
            {"id": "c2", "function": {"name": "f", "arguments": "{}"}},
        ],
        "x": {"a": {"b": {"c": {"d": {"e": {"f": {"g": "kept"}}}}}}},
    }


def test_a_completion_is_gathered():
    def piece(text: str, index: int, finish: str | None = None) -> dict[str, object]:
        logprobs = {"tokens": [text], "token_logprobs": [-0.5]}
        return {
            "id": "cmpl-1",
            "object": "text_completion",
            "model": "instruct",
            "choices": [{"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}],
        }

    stream = sse(piece("a", 0), piece("x", 1), piece("b", 0, "stop"), piece("y", 1, "length"))

    view = read_answer(Operation.COMPLETION, stream, stream=True)

    assert view.choices == ("ab", "xy")
    assert view.finish_reasons == ("stop", "length")
    document = json.loads(view.text)
    assert document["object"] == "text_completion"
    assert document["choices"][0] == {
        "index": 0,
        "text": "ab",
        "logprobs": {"tokens": ["a", "b"], "token_logprobs": [-0.5, -0.5]},
        "finish_reason": "stop",
    }


MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 9, "output_tokens": 1},
}


def block_delta(index: int, kind: str, **members: object) -> dict[str, object]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **members}}


MESSAGES = (
    {"type": "message_start", "message": MESSAGE},
    {"type": "ping"},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    block_delta(0, "thinking_delta", thinking="h"),
    block_delta(0, "thinking_delta", thinking="m"),
    block_delta(0, "signature_delta", signature="sig"),
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    block_delta(1, "text_delta", text="Let me"),
    block_delta(1, "text_delta", text=" see."),
    block_delta(
        1,
        "citations_delta",
        citation={
            "type": "char_location",
            "cited_text": "x",
            "document_index": 0,
            "document_title": None,
            "start_char_index": 0,
            "end_char_index": 1,
        },
    ),
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
    },
    block_delta(2, "input_json_delta", partial_json=""),
    block_delta(2, "input_json_delta", partial_json='{"a": '),
    block_delta(2, "input_json_delta", partial_json="1.0}"),
    {
        "type": "content_block_start",
        "index": 3,
        "content_block": {"type": "tool_use", "id": "t2", "name": "g", "input": {}},
    },
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 12, "input_tokens": None},
    },
    {"type": "message_stop"},
)


def test_a_message_is_gathered():
    view = read_answer(Operation.MESSAGES, sse(*MESSAGES, names=True), stream=True)

    assert view.messages == (
        Message(
            role="assistant",
            text="Let me see.",
            parts=(Part(type="reasoning", text="hm"),),
            tool_calls=(
                ToolCall(id="toolu_1", name="f", arguments='{"a":1.0}'),
                ToolCall(id="t2", name="g", arguments="{}"),
            ),
            finish="tool_use",
        ),
    )
    assert (view.id, view.model, view.finish_reasons) == ("msg_1", "claude", ("tool_use",))
    assert read_answer(Operation.MESSAGES, view.text.encode()) == view


def test_a_message_is_gathered_as_the_official_client_does_it():
    adapter = TypeAdapter(RawMessageStreamEvent)
    snapshot, buffers = None, {}
    for event in MESSAGES:
        if event["type"] != "ping":
            typed = adapter.validate_python(event)
            snapshot = accumulate_event(event=typed, current_snapshot=snapshot, json_bufs=buffers)

    ours = json.loads(read_answer(Operation.MESSAGES, sse(*MESSAGES), stream=True).text)

    assert _without_nulls(ours) == _without_nulls(json.loads(snapshot.to_json()))


def test_a_tools_input_that_was_cut_off_stays_a_text():
    view = read_answer(Operation.MESSAGES, sse(*MESSAGES[:14]), stream=True)

    assert view.messages[0].tool_calls == (ToolCall(id="toolu_1", name="f", arguments='{"a": '),)
    assert view.finish_reasons == ()
    assert json.loads(view.text)["content"][2]["input"] == '{"a": '


RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "gpt-5",
    "status": "in_progress",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
TEXT_ITEM = {"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []}
CALL_ITEM = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "f",
    "arguments": "",
    "status": "in_progress",
}
REASONING_ITEM = {"type": "reasoning", "id": "rs_1", "summary": []}


def part_delta(kind: str, index: int, delta: str, **members: object) -> dict[str, object]:
    return {"type": f"response.{kind}.delta", "output_index": index, "item_id": "i", "delta": delta, **members}


RESPONSE_EVENTS = (
    {"type": "response.created", "response": RESPONSE},
    {"type": "response.output_item.added", "output_index": 0, "item": REASONING_ITEM},
    part_delta("reasoning_summary_text", 0, "h", summary_index=0),
    part_delta("reasoning_summary_text", 0, "m", summary_index=0),
    {"type": "response.output_item.added", "output_index": 1, "item": TEXT_ITEM},
    {
        "type": "response.content_part.added",
        "output_index": 1,
        "content_index": 0,
        "item_id": "msg_1",
        "part": {"type": "output_text", "text": "", "annotations": []},
    },
    part_delta("output_text", 1, "Let me", content_index=0, logprobs=[]),
    part_delta("output_text", 1, " see.", content_index=0, logprobs=[]),
    {"type": "response.output_item.added", "output_index": 2, "item": CALL_ITEM},
    part_delta("function_call_arguments", 2, '{"a":'),
    part_delta("function_call_arguments", 2, "1}"),
    {"type": "response.output_item.done", "output_index": 2, "item": {**CALL_ITEM, "arguments": '{"a":1}'}},
)
DONE = {
    **RESPONSE,
    "status": "completed",
    "output": [
        {**TEXT_ITEM, "status": "completed", "content": [{"type": "output_text", "text": "Whole.", "annotations": []}]}
    ],
}


def test_the_last_event_of_a_response_has_all_of_it():
    stream = sse(*RESPONSE_EVENTS, {"type": "response.completed", "response": DONE}, names=True)

    view = read_answer(Operation.RESPONSES, stream, stream=True)

    assert view.messages == (Message(role="assistant", text="Whole.", finish="completed"),)
    assert json.loads(view.text) == DONE
    assert view.completed


ENDS = {"response.failed": "failed", "response.incomplete": "incomplete"}


@pytest.mark.parametrize(("kind", "status"), ENDS.items(), ids=ENDS)
def test_a_response_that_failed_has_not_been_completed(kind, status):
    stream = sse(*RESPONSE_EVENTS, {"type": kind, "response": {**DONE, "status": status}})

    view = read_answer(Operation.RESPONSES, stream, stream=True)

    assert view.finish_reasons == (status,)
    assert not view.completed


def test_a_response_that_was_cut_off_is_put_together_from_its_items():
    view = read_answer(Operation.RESPONSES, sse(*RESPONSE_EVENTS), stream=True)

    assert view.messages == (
        Message(role="assistant", parts=(Part(type="reasoning", text="hm"),)),
        Message(role="assistant", text="Let me see."),
        Message(role="assistant", tool_calls=(ToolCall(id="c1", name="f", arguments='{"a":1}'),)),
    )
    assert (view.id, view.model, view.finish_reasons, view.completed) == ("resp_1", "gpt-5", (), False)


def test_a_response_that_was_cut_off_is_put_together_as_the_official_client_does_it():
    adapter = TypeAdapter(ResponseStreamEvent)
    state = ResponseStreamState(input_tools=omit, text_format=omit)
    # It has nothing for summaries.
    known = [
        {**event, "sequence_number": number}
        for number, event in enumerate(RESPONSE_EVENTS)
        if "reasoning_summary" not in event["type"]
    ]
    for event in known:
        state.handle_event(adapter.validate_python(event))
    snapshot = state._ResponseStreamState__current_snapshot

    ours = json.loads(read_answer(Operation.RESPONSES, sse(*known), stream=True).text)["output"]

    assert [each.get("arguments") for each in ours] == [getattr(each, "arguments", None) for each in snapshot.output]
    assert [[part["text"] for part in each.get("content") or ()] for each in ours] == [
        [part.text for part in getattr(each, "content", None) or ()] for each in snapshot.output
    ]


def test_an_item_whose_begin_was_lost_is_known_by_its_deltas():
    view = read_answer(
        Operation.RESPONSES,
        sse(part_delta("refusal", 0, "No."), part_delta("custom_tool_call_input", 1, "ls")),
        stream=True,
    )

    assert view.messages == (
        Message(role="assistant", parts=(Part(type="refusal", text="No."),)),
        Message(role="assistant", tool_calls=(ToolCall(name="custom_tool_call", arguments="ls"),)),
    )


def test_a_block_whose_begin_was_lost_is_known_by_its_deltas():
    stream = sse(block_delta(0, "thinking_delta", thinking="hm"), block_delta(1, "text_delta", text="Hi"))

    view = read_answer(Operation.MESSAGES, stream, stream=True)

    assert view.messages == (Message(role="assistant", text="Hi", parts=(Part(type="reasoning", text="hm"),)),)


def test_an_event_without_a_type_is_known_by_its_name():
    stream = b'event: transcript.text.delta\ndata: {"delta":"Hel"}\n\n' + sse(
        {"type": "transcript.text.delta", "delta": "lo"}
    )

    assert read_answer(Operation.TRANSCRIPTION, stream, stream=True).text == "Hello"


def test_the_last_event_of_a_transcript_has_all_of_it():
    usage = {"type": "tokens", "input_token_details": {"audio_tokens": 14}}
    stream = sse(
        {"type": "transcript.text.delta", "delta": "Hel"},
        {"type": "transcript.text.done", "text": "Hello.", "usage": usage},
    )

    view = read_answer(Operation.TRANSCRIPTION, stream, stream=True)

    assert view == AnswerView(text="Hello.", mime="text/plain", prompt_audio_tokens=14)


def test_spoken_events_are_counted_as_the_sound_that_they_carry():
    stream = sse(
        {"type": "speech.audio.delta", "audio": "SUQz"},
        {"type": "speech.audio.delta", "audio": "c291bmQ="},
        {"type": "speech.audio.delta", "audio": 7},
        {"type": "speech.audio.done", "usage": {"output_token_details": {"audio_tokens": 5}}},
    )

    view = read_answer(Operation.SPEECH, stream, stream=True, request=b'{"stream_format":"sse"}')

    assert view == AnswerView(mime="audio/mpeg", audio_bytes=len(b"ID3sound"), completion_audio_tokens=5)


def test_sound_where_events_were_asked_for_is_sound():
    view = read_answer(Operation.SPEECH, b"ID3", b"\n\nsound", stream=True, request=b'{"stream_format":"sse"}')

    assert view.audio_bytes == 10


def test_images_that_are_whole_are_gathered():
    members = {"created_at": 1, "output_format": "webp", "usage": {"input_tokens": 1}}
    stream = sse(
        {"type": "image_generation.partial_image", "b64_json": "AAAA", **members},
        {"type": "image_generation.completed", "b64_json": "BBBB", **members},
        {"type": "image_generation.completed", "b64_json": "CCCC", **members},
    )

    view = read_answer(Operation.IMAGE_GENERATION, stream, stream=True)

    assert [part.url for part in view.messages[0].parts] == [
        "data:image/webp;base64,BBBB",
        "data:image/webp;base64,CCCC",
    ]
    assert json.loads(view.text) == {**members, "data": [{"b64_json": "BBBB"}, {"b64_json": "CCCC"}]}


STREAMS = {
    "chat": (Operation.CHAT, sse(*CHAT)),
    "messages": (Operation.MESSAGES, sse(*MESSAGES, names=True)),
    "responses": (Operation.RESPONSES, sse(*RESPONSE_EVENTS)),
}
each_stream = pytest.mark.parametrize(("operation", "stream"), STREAMS.values(), ids=STREAMS)


@each_stream
@settings(deadline=None, max_examples=50)
@given(places=st.sets(st.integers(0, 4000), max_size=40), line_end=st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_no_cut_makes_a_difference(operation, stream, places, line_end):
    whole = stream.replace(b"\n", line_end)
    cuts = sorted({0, len(whole), *(place % len(whole) for place in places)})
    pieces = [whole[start:end] for start, end in pairwise(cuts)]

    assert read_answer(operation, *pieces, stream=True) == read_answer(operation, stream, stream=True)


@each_stream
def test_wherever_a_stream_breaks_off_its_text_is_that_of_a_document(operation, stream):
    events = stream.split(b"\n\n")
    for number in range(1, len(events)):
        view = read_answer(operation, b"\n\n".join(events[:number]), stream=True)

        assert read_answer(operation, view.text.encode()) == view


ERRORS = {
    Operation.CHAT: {"error": {"message": "busy"}},
    Operation.COMPLETION: {"error": {"message": "busy"}},
    Operation.MESSAGES: {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
    Operation.RESPONSES: {"type": "error", "message": "busy"},
    Operation.IMAGE_GENERATION: {"type": "error", "error": {"message": "busy"}},
}


@pytest.mark.parametrize(("operation", "event"), ERRORS.items(), ids=ERRORS)
def test_a_stream_that_has_only_an_error_says_nothing(operation, event):
    assert read_answer(operation, sse(event), stream=True) == AnswerView()


def test_a_document_in_the_place_of_a_stream_is_read():
    document = b'{"id":"c","choices":[{"message":{"content":"Hi"}}]}'

    for operation in (Operation.CHAT, Operation.MESSAGES, Operation.RESPONSES):
        pieces = [document[:9], document[9:]]
        assert read_answer(operation, *pieces, stream=True) == read_answer(operation, document)


BROKEN = {
    "a chunk that is no JSON": b"data: {\n\n",
    "a comment": b": ping\n\n",
    "an event of another type": b'data: "x"\n\n',
    "choices of a wrong type": b'data: {"choices":{"a":1},"usage":7}\n\n',
    "a choice of a wrong type": b'data: {"choices":[1,{"index":"0","delta":{"content":"no"}},{"delta":[]}]}\n\n',
    "deltas of wrong types": b'data: {"choices":[{"delta":{"content":1,"tool_calls":[1,{"index":"a"}]}}]}\n\n',
    "depth": b'data: {"choices":[{"delta":{"a":' + b'{"a":' * 5000 + b"}" * 5000 + b"}}]}\n\n",
    "less depth": b'data: {"choices":[{"delta":{"a":' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}}]}\n\n",
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_chunk_does_not_spoil_the_others(broken):
    events = sse(*CHAT).split(b"\n\n")
    stream = b"\n\n".join([*events[:4], broken.removesuffix(b"\n\n"), *events[4:]])

    view = read_answer(Operation.CHAT, stream, stream=True)

    assert [message.finish for message in view.messages] == ["tool_calls", "stop"]
    assert view.messages[1].text == "Sure"


# --- bounds ---


def test_beyond_the_limit_only_the_end_of_a_stream_counts():
    gatherer = Chunks(Budget(600), kind="chat.completion", read=read_chat)
    answer = StreamAnswer(gatherer, read_chat)
    for number in range(1000):
        answer.feed(sse(chunk({"content": f"{number} "}), chunk({"content": "x"}, index=number)))
    answer.feed(sse(chunk({}, finish="stop"), {**chunk({}), "choices": [], "usage": USAGE}))

    view = answer.close()

    # What is there is the beginning, without gaps.
    assert view.messages[0].text.startswith("0 x1 2 ")
    assert " ".join(map(str, range(1, 1000))).startswith(view.messages[0].text.removeprefix("0 x").strip())
    assert len(view.text) < 1500
    assert view.finish_reasons == ("stop",)
    assert view.prompt_audio_tokens == 2


def test_what_fits_no_more_ends_a_text():
    budget = Budget(10)
    text = Text(budget)
    for piece in ("four", "seven..", "1"):
        text.add(piece)

    assert str(text) == "four"


GROWING = {
    "choices": (Operation.CHAT, lambda n: chunk({"content": "x"}, index=n)),
    "calls": (Operation.CHAT, lambda n: chunk({"tool_calls": [{"index": n, "id": "c"}]})),
    "members": (Operation.CHAT, lambda n: chunk({f"member {n}": n})),
    "elements": (Operation.CHAT, lambda n: chunk({"annotations": [n]})),
    "blocks": (Operation.MESSAGES, lambda n: block_delta(n, "text_delta", text="x")),
    "reports": (Operation.MESSAGES, lambda n: {"type": "message_delta", "usage": {f"count {n}": n}}),
    "objects": (Operation.CHAT, lambda n: chunk({f"member {n}": {}})),
    "texts": (Operation.CHAT, lambda n: chunk({f"member {n}": "x"})),
    "arrays": (Operation.CHAT, lambda n: chunk({f"member {n}": [{"index": 0}]})),
    "names": (Operation.CHAT, lambda n: chunk({"name": f"a long name {n}"})),
    "done items": (
        Operation.RESPONSES,
        lambda n: {"type": "response.output_item.done", "output_index": 0, "item": {**TEXT_ITEM, "x": "x" * 9 * n}},
    ),
    "citations": (Operation.MESSAGES, lambda n: block_delta(0, "citations_delta", citation=n)),
    "items": (Operation.RESPONSES, lambda n: part_delta("output_text", n, "x", content_index=0)),
    "parts": (Operation.RESPONSES, lambda n: part_delta("output_text", 0, "x", content_index=n)),
    "whole items": (
        Operation.RESPONSES,
        lambda n: {"type": "response.output_item.added", "output_index": n, "item": TEXT_ITEM},
    ),
}


@pytest.mark.parametrize(("operation", "event"), GROWING.values(), ids=GROWING)
def test_nothing_grows_without_end(operation, event):
    from extproc.telemetry.tracing.readers.chat import CHAT as CHAT_READER
    from extproc.telemetry.tracing.readers.messages import MESSAGES as MESSAGES_READER
    from extproc.telemetry.tracing.readers.responses import RESPONSES as RESPONSES_READER

    readers = {
        Operation.CHAT: CHAT_READER,
        Operation.MESSAGES: MESSAGES_READER,
        Operation.RESPONSES: RESPONSES_READER,
    }
    reader = readers[operation]
    answer = StreamAnswer(reader.gather(Budget(2000)), reader.read)
    for number in range(500):
        answer.feed(sse(event(number)))

    assert len(answer.close().text) < 6000


def test_an_event_beyond_the_limit_is_passed_over():
    long = chunk({"content": "y" * (MAX_CAPTURED + 1)})

    view = read_answer(Operation.CHAT, sse(CHAT[2], long, CHAT[4]), stream=True)

    assert view.messages == (Message(role="assistant", text="Paris."),)


def test_items_that_are_done_take_the_place_of_their_pieces_in_the_budget():
    from extproc.telemetry.tracing.readers.responses import RESPONSES as READER

    answer = StreamAnswer(READER.gather(Budget(4000)), READER.read)
    for index in range(3):
        item = {**TEXT_ITEM, "content": [{"type": "output_text", "text": "x" * 1000}]}
        answer.feed(sse({"type": "response.output_item.added", "output_index": index, "item": TEXT_ITEM}))
        answer.feed(sse(part_delta("output_text", index, "x" * 1000, content_index=0)))
        answer.feed(sse({"type": "response.output_item.done", "output_index": index, "item": item}))

    assert [message.text for message in answer.close().messages] == ["x" * 1000] * 3


# --- the fuzz target, briefly ---


@pytest.mark.parametrize("seed", SEEDS, ids=range(len(SEEDS)))
def test_a_seed_is_read(seed):
    assert one_input(seed) is None


@settings(deadline=None, max_examples=300)
@given(
    seed=st.sampled_from(SEEDS),
    place=st.floats(0, 1),
    put=st.one_of(
        st.binary(max_size=6), st.sampled_from([b'"', b"{", b"]", b"null", b"1e999", b"\\ud800", b"\r\n\r\n"])
    ),
    removed=st.integers(0, 12),
)
def test_a_damaged_seed_is_read(seed, place, put, removed):
    at = 2 + int(place * (len(seed) - 2))

    assert one_input(seed[:at] + put + seed[at + removed :]) is None


@settings(deadline=None, max_examples=200)
@given(data=st.binary(max_size=200))
def test_any_octets_are_read(data):
    assert one_input(data) is None
