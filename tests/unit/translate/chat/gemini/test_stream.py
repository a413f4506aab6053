"""Streamed answers (contract, chat 9.8 and 17.8; BR-76, BR-77, BR-80, BR-81)."""

import itertools
import json
from typing import Any

import openai.types.chat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming.chat._completions import ChatCompletionStreamState

from extproc.usage import TokenUsage
from tests.unit.translate.chat.gemini.attempts import Stream, answer, attempt, candidate, events, streamed

USAGE = {"promptTokenCount": 3, "candidatesTokenCount": 1, "totalTokenCount": 4}
END = {**candidate({"text": ""}, finish="STOP"), "usageMetadata": USAGE}


def text(content: str, **more: Any) -> dict[str, Any]:
    return candidate({"text": content}, **more)


def call(name: str = "f", **args: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": args}}


def test_the_contracts_example():
    stream = streamed({"responseId": "r", **candidate(call(x=1))}, {"responseId": "r", **END})
    assert stream.text == (
        b'data: {"id":"r","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,'
        b'"id":"00000000-0000-4000-8000-000000000001","function":{"arguments":"{\\"x\\":1}","name":"f"},'
        b'"type":"function"}]}}],"model":"gemini-2.5-flash","object":"chat.completion.chunk"}\n\n'
        b'data: {"id":"r","choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":"tool_calls"}],'
        b'"model":"gemini-2.5-flash","object":"chat.completion.chunk"}\n\n'
        b'data: {"id":"r","choices":[],"model":"gemini-2.5-flash","object":"chat.completion.chunk",'
        b'"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4,"completion_tokens_details":{},'
        b'"prompt_tokens_details":{}}}\n\n'
        b"data: [DONE]\n\n"
    )
    assert stream.usage == TokenUsage(input=3, output=1, total=4, cached_input=0, reasoning=0)
    assert not stream.failure


def test_the_answer_is_always_called_a_stream_of_events():
    translator, _, _ = attempt({"stream": True})
    assert translator.response_headers({"content-type": "application/json"}) == [("content-type", "text/event-stream")]


def test_a_piece_without_an_event_gives_nothing_and_not_the_backends_bytes():
    translator, _, _ = attempt({"stream": True})
    whole = events(text("a"))
    assert translator.response_body(whole[:20], end_of_stream=False).body == b""
    assert b'"content":"a"' in (translator.response_body(whole[20:], end_of_stream=False).body or b"")
    assert translator.response_body(b"", end_of_stream=False).body == b""


ENDS = {"LF": b"\n\n", "CRLF": b"\r\n\r\n", "CR": b"\r\r"}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_every_end_of_line_is_read(end):
    stream = Stream([events(text("a"), END, end=end)])
    assert (stream.joined("content"), stream.ends) == ("a", True)


FRAMES = {
    "the last event without its end": events(text("a"), END).rstrip(),
    "no name of the field": json.dumps(text("a")).encode() + b"\n\n" + json.dumps(END).encode() + b"\n\n",
    "a document on several lines": json.dumps(
        {**candidate({"text": "a"}, finish="STOP"), "usageMetadata": USAGE}, indent=1
    ).encode(),
    "comments": b": hello\n\n" + events(text("a")) + b":\n\n" + events(END),
    "other fields": b"retry: 5\nid: 1\n\nevent: x\n" + events(text("a"), END),
    "no space": events(text("a"), END).replace(b"data: ", b"data:"),
    "empty data": b"data:\n\n" + events(text("a"), END) + b"data: \n\n",
    "another API's end": events(text("a"), END, b"[DONE]"),
    "a byte order mark": b"\xef\xbb\xbf" + events(text("a"), END),
    "events of another kind": events(text("a"), {"new": 1}, {"candidates": []}, {"candidates": [None]}, END),
}


@pytest.mark.parametrize("data", FRAMES.values(), ids=FRAMES.keys())
def test_what_stands_around_the_events_does_not_matter(data):
    stream = Stream([data])
    assert (stream.joined("content"), stream.ends, stream.failure) == ("a", True, "")
    assert stream.usage.total == 4


def test_white_space_is_never_lost():
    data = events(text(" a "), text("\n\n"), text("  b\t"), END)
    whole = Stream([data]).joined("content")
    assert whole == " a \n\n  b\t"
    assert Stream([data[at : at + 1] for at in range(len(data))]).joined("content") == whole


def test_a_chunk_for_each_event_with_candidates():
    stream = streamed(text("a"), {"usageMetadata": USAGE}, {"responseId": "r"}, END)
    assert [len(chunk["choices"]) for chunk in stream.chunks] == [1, 1, 0]


def test_a_candidate_without_content_gives_an_empty_delta():
    stream = streamed(text("a"), {"candidates": [{"finishReason": "MAX_TOKENS"}]})
    assert stream.chunks[1]["choices"] == [{"index": 0, "delta": {}, "finish_reason": "length"}]


def test_what_is_known_of_the_answer_is_in_every_chunk_after_it():
    stream = streamed(
        text("a"),
        {**text("b"), "responseId": "r", "modelVersion": "mv", "createTime": "2023-11-14T22:13:20Z"},
        END,
    )
    known = [(chunk.get("id"), chunk.get("created"), chunk["model"]) for chunk in stream.chunks]
    assert known == [(None, None, "gemini-2.5-flash"), *[("r", 1_700_000_000, "mv")] * 3]
    assert stream.model == "mv"


# --- usage ---


def test_usage_is_told_once_and_the_last_value_of_each_count_is_the_right_one():
    stream = streamed(
        {**text("a"), "usageMetadata": {"promptTokenCount": 10, "thoughtsTokenCount": 5, "totalTokenCount": 15}},
        {
            **text("b"),
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2, "cachedContentTokenCount": 4},
        },
        {**END, "usageMetadata": {"candidatesTokenCount": 20, "thoughtsTokenCount": 100, "toolUsePromptTokenCount": 1}},
    )
    usage = TokenUsage(input=11, output=120, total=131, cached_input=4, reasoning=100)
    assert stream.usage == usage
    assert [chunk["usage"] for chunk in stream.chunks if "usage" in chunk] == [
        {
            "prompt_tokens": 11,
            "completion_tokens": 120,
            "total_tokens": 131,
            "completion_tokens_details": {"reasoning_tokens": 100},
            "prompt_tokens_details": {"cached_tokens": 4},
        }
    ]


def test_usage_is_known_with_the_event_that_reports_it():
    translator, _, _ = attempt({"stream": True})
    first = translator.response_body(
        events({**text("a"), "usageMetadata": {"promptTokenCount": 3}}), end_of_stream=False
    )
    assert (first.usage.input, first.usage.total) == (3, 3)
    again = translator.response_body(
        events({**text("b"), "usageMetadata": {"promptTokenCount": 3}}), end_of_stream=False
    )
    assert again.usage == TokenUsage()


NO_USAGE_CHUNK: dict[str, dict[str, Any]] = {
    "without a report": {},
    "without a count of the prompt": {"candidatesTokenCount": 5},
    "with a kind of traffic": {"trafficType": "ON_DEMAND"},
}


@pytest.mark.parametrize("metadata", NO_USAGE_CHUNK.values(), ids=NO_USAGE_CHUNK.keys())
def test_no_usage_is_told(metadata):
    stream = streamed({**text("a", finish="STOP"), "usageMetadata": metadata})
    assert all("usage" not in chunk for chunk in stream.chunks)
    assert stream.ends


def test_a_client_that_did_not_ask_for_usage_is_not_told():
    stream = Stream([events(text("a"), END)], stream_options=None)
    assert all(chunk["choices"] for chunk in stream.chunks)
    assert stream.usage.total == 4


# --- tool calls ---


def test_calls_in_several_events_have_indexes_of_their_own():
    stream = streamed(candidate(call("a", x=1)), candidate(call("b"), {"functionCall": {"name": "c"}}), END)
    calls = [each for delta in stream.deltas for each in delta.get("tool_calls", ())]
    assert [(each["index"], each["function"]["name"], each["function"]["arguments"]) for each in calls] == [
        (0, "a", '{"x":1}'),
        (1, "b", "{}"),
        (2, "c", "{}"),
    ]
    assert len({each["id"] for each in calls}) == 3
    assert stream.finish_reasons == ["tool_calls"]


def test_a_call_in_the_event_with_the_reason():
    assert streamed(candidate(call(), finish="STOP")).finish_reasons == ["tool_calls"]
    assert streamed(candidate(call()), candidate(finish="MAX_TOKENS")).finish_reasons == ["length"]


def test_every_candidate_counts_for_itself():
    stream = streamed(
        text("a"),
        candidate(call("f"), index=1),
        {"candidates": [{"content": {"parts": [call("g")]}}, {"index": 1, "content": {"parts": [call("h")]}}]},
        candidate(finish="STOP", index=2),
        candidate(finish="STOP", index=0),
        candidate(finish="STOP", index=1),
    )
    calls = [
        (choice["index"], each["index"], each["function"]["name"])
        for chunk in stream.chunks
        for choice in chunk["choices"]
        for each in choice["delta"].get("tool_calls", ())
    ]
    assert calls == [(1, 0, "f"), (0, 0, "g"), (1, 1, "h")]
    assert stream.finish_reasons == ["stop", "tool_calls", "tool_calls"]
    assert stream.ends


# --- signatures and extensions ---


def blocks(stream: Stream) -> list[Any]:
    return [delta["thinking_blocks"] for delta in stream.deltas if "thinking_blocks" in delta]


SIGNATURES: dict[str, tuple[list[dict[str, Any]], list[Any]]] = {
    "on a text": (
        [candidate({"text": "a", "thoughtSignature": "AAEC"}), END],
        [[{"type": "thinking", "signature": "AAEC"}]],
    ),
    "on the last, empty text": (
        [text("a"), candidate({"text": "", "thoughtSignature": "AAEC"}, finish="STOP")],
        [[{"type": "thinking", "signature": "AAEC"}]],
    ),
    "on a thought in the last event": (
        [candidate({"text": "t", "thought": True, "thoughtSignature": "AAEC"}, finish="STOP")],
        [[{"type": "thinking", "thinking": "t", "signature": "AAEC"}]],
    ),
    "on a call": (
        [candidate({**call(), "thoughtSignature": "AAEC"}), candidate(call()), END],
        [[{"type": "thinking", "signature": "AAEC"}]],
    ),
    "on a text and a call": (
        [
            candidate({"text": "a", "thoughtSignature": "BBBB"}),
            candidate({**call(), "thoughtSignature": "AAEC"}),
            candidate({**call(), "thoughtSignature": "CCCC"}),
            END,
        ],
        [[{"type": "thinking", "signature": "AAEC"}]],
    ),
    "none": ([text("a"), END], []),
}


@pytest.mark.parametrize(("documents", "expected"), SIGNATURES.values(), ids=SIGNATURES.keys())
def test_the_signature_is_told_once(documents, expected):
    assert blocks(streamed(*documents)) == expected


def test_extensions_are_told_once_with_the_end():
    stream = streamed(
        text("a", safetyRatings=[{"category": "A"}], groundingMetadata={"webSearchQueries": ["p"]}),
        text("b", safetyRatings=[{"category": "B"}]),
        candidate(finish="STOP", groundingMetadata={"webSearchQueries": ["q"]}),
    )
    assert [delta.get("safety_ratings") for delta in stream.deltas] == [None, None, [{"category": "B"}]]
    assert [delta.get("grounding_metadata") for delta in stream.deltas] == [None, None, {"webSearchQueries": ["q"]}]


def test_log_probabilities_are_told_with_their_text():
    stream = streamed(text("a", logprobsResult={"chosenCandidates": [{"token": "a", "logProbability": -1}]}), END)
    assert stream.chunks[0]["choices"][0]["logprobs"] == {
        "content": [{"token": "a", "logprob": -1.0, "top_logprobs": None}]
    }


def test_a_blocked_prompt_is_a_filtered_answer():
    stream = streamed(
        {"promptFeedback": {"blockReason": "SAFETY", "safetyRatings": [{"category": "A"}]}, "usageMetadata": USAGE}
    )
    assert stream.chunks[0]["choices"] == [
        {
            "index": 0,
            "delta": {"role": "assistant", "safety_ratings": [{"category": "A"}]},
            "finish_reason": "content_filter",
            "native_finish_reason": "SAFETY",
        }
    ]
    assert stream.ends


def test_a_blocked_prompt_is_told_once():
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}}
    assert streamed(blocked, blocked).finish_reasons == ["content_filter"]


def test_the_first_reason_counts():
    assert streamed(text("a", finish="SAFETY"), candidate(finish="STOP")).finish_reasons == ["content_filter"]


# --- wrapped text ---


@given(
    mode=st.sampled_from([{}, {"guided_choice": ["x"]}, {"guided_regex": "x"}]),
    texts=st.lists(st.text(alphabet='"a \n', max_size=4), max_size=6),
)
def test_a_wrapped_text_is_the_same_in_a_stream_and_in_a_document(mode, texts):
    stream = streamed(*(text(each) for each in texts), END, **mode)
    whole = answer(candidate(*({"text": each} for each in texts), finish="STOP"), **mode)
    assert stream.joined("content") == (whole["choices"][0]["message"]["content"] or "")


# --- failures ---


def test_an_error_inside_the_stream_is_told_and_ends_it():
    stream = streamed(
        {**text("a"), "usageMetadata": USAGE},
        {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED", "details": None}},
        END,
    )
    assert stream.chunks[1:] == [
        {"type": "error", "error": {"type": "RESOURCE_EXHAUSTED", "code": "429", "message": "slow down"}}
    ]
    assert (stream.ends, stream.failure, stream.usage.total) == (False, "RESOURCE_EXHAUSTED", 4)


def test_an_error_of_another_shape_is_told_as_it_stands():
    stream = streamed({"error": "boom"})
    assert stream.chunks == [
        {"type": "error", "error": {"type": "GCPVertexAIBackendError", "code": "502", "message": '{"error": "boom"}'}}
    ]


UNREADABLE = {
    "a broken event": b'{"candidates":[{"con',
    "no JSON": b"hello",
    "an array": b"[1]",
    "another type": b'{"candidates":7}',
    "arguments of another type": b'{"candidates":[{"content":{"parts":[{"functionCall":{"args":1}}]}}]}',
    "no text": b'{"responseId":"\xff"}',
}


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_an_event_that_cannot_be_read_is_told_and_ends_the_stream(data):
    stream = streamed({**text("a"), "usageMetadata": USAGE}, data, END)
    assert [chunk.get("error", {}).get("type") for chunk in stream.chunks] == [None, "stream_unreadable"]
    assert (stream.ends, stream.failure, stream.usage.total) == (False, "stream_unreadable", 4)


CUT = {
    "nothing": b"",
    "before the reason": events(text("a")),
    "in the last event": events(text("a"), END)[:-60],
    "before the reason of one candidate": events(text("a", finish="STOP"), candidate({"text": "b"}, index=1)),
    "another API's end": events(text("a"), b"[DONE]"),
    "a page": b"<html>\n\n</html>",
}


@pytest.mark.parametrize("data", CUT.values(), ids=CUT.keys())
def test_a_stream_without_its_end_fails(data):
    stream = Stream([data])
    assert stream.chunks[-1]["error"]["type"] == "stream_truncated"
    assert (stream.ends, stream.failure) == (False, "stream_truncated")


@pytest.mark.parametrize("before", [b"", b" \r\n", b"\xef\xbb\xbf"])
def test_an_array_in_place_of_events_fails_clearly(before):
    stream = Stream([before, b"[{", b'\n"candidates": []}\n,\r\n', b"{}]"])
    assert [chunk["error"]["type"] for chunk in stream.chunks] == ["stream_unreadable"]
    assert "JSON array" in stream.chunks[0]["error"]["message"]


def test_an_event_without_end_fails():
    stream = Stream([b"data: ", b"x" * (17 * 1024 * 1024)])
    assert [chunk["error"]["message"] for chunk in stream.chunks] == ["an event is too long"]


# --- any cut ---


STREAMS = {
    "text": events(text("Hé "), text(" you"), END),
    "calls": events(text("a"), candidate(call("f", x="ü")), candidate(call("g"), finish="STOP")),
    "an error": events(text("a"), {"error": {"code": 503, "status": "UNAVAILABLE", "message": "m"}}),
    "garbage": events(text("a")) + b": c\n\nnoise\n\ndata: {\n\n" + events(END),
    "a cut": events(text("a"), END)[:-9],
}


@pytest.mark.parametrize("data", STREAMS.values(), ids=STREAMS.keys())
@given(cuts=st.lists(st.integers(min_value=0, max_value=400)))
def test_the_cut_of_the_bytes_makes_no_difference(data, cuts):
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[begin:end] for begin, end in itertools.pairwise(edges)]
    one, many = Stream([data]), Stream(pieces)
    assert (many.text, many.usage, many.failure) == (one.text, one.usage, one.failure)


@given(st.binary() | st.builds(lambda inner: b"data: " + inner + b"\n\n", st.binary()))
def test_any_bytes_end_in_one_of_the_two_ways(data):
    stream = Stream([data])
    assert stream.ends != bool(stream.failure)


# --- the client's own reader ---


def test_the_clients_own_types_gather_the_stream():
    stream = streamed(
        {**candidate({"text": "t", "thought": True}, {"text": "a"}), "responseId": "r"},
        text("b", safetyRatings=[{"category": "A"}], groundingMetadata={"webSearchQueries": ["p"]}),
        candidate({**call("f", x=1), "thoughtSignature": "AAEC"}),
        candidate(call("g"), {"text": "", "thoughtSignature": "BBBB"}),
        {**END, "candidates": [{"finishReason": "STOP", "safetyRatings": [{"category": "A"}]}]},
    )
    state = ChatCompletionStreamState()
    for chunk in stream.chunks:
        state.handle_chunk(openai.types.chat.ChatCompletionChunk.model_validate({"created": 1, "id": "r", **chunk}))
    completion = state.get_final_completion()
    message = completion.choices[0].message
    assert message.content == "ab"
    assert [(each.function.name, each.function.arguments) for each in message.tool_calls or ()] == [
        ("f", '{"x":1}'),
        ("g", "{}"),
    ]
    assert completion.choices[0].finish_reason == "tool_calls"
    assert completion.usage is not None
    assert completion.usage.total_tokens == 4
