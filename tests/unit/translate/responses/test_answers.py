"""Chat completions as responses: what clients read, as a document and as a stream, checked by OpenAI's own SDK."""

from __future__ import annotations

import base64
import json

import pytest

from extproc.errors import UnreadableAnswer
from extproc.usage import TokenUsage
from tests.unit.translate.responses.attempts import (
    DONE,
    REPORT,
    USAGE,
    ask,
    call,
    chunk,
    end,
    hear,
    sse,
    streamed,
    text,
    told,
)
from tests.unit.translate.responses.oracle import follow_stream, read_events, read_response

# --- documents ---


def document(message, request=None, **members):
    return read_response(told(message, request, **members).body)


def test_a_text():
    heard = told({"role": "assistant", "content": "Hi 🚀"})
    response = read_response(heard.body)
    assert response.output_text == "Hi 🚀"
    assert (response.status, response.error, response.incomplete_details) == ("completed", None, None)
    assert (response.store, response.background, response.truncation) == (False, False, "disabled")
    assert (heard.usage, heard.model, heard.failure) == (TokenUsage(input=7, output=5, total=12), "m", "")
    assert response.usage.to_dict() == {
        "input_tokens": 7,
        "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 12,
    }


def test_ids_say_what_they_name():
    message = {
        "content": "a",
        "reasoning_content": "t",
        "tool_calls": [{"id": "call_1", "function": {"name": "f", "arguments": "{}"}}],
    }
    response = document(message)
    assert response.id.startswith("resp_")
    assert [item.id.partition("_")[0] for item in response.output] == ["rs", "msg", "fc"]
    assert len({item.id for item in response.output}) == 3


def test_calls():
    calls = [
        {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
        {"id": None, "type": "function", "function": {"name": "g", "arguments": ""}},
    ]
    first, second = document({"content": None, "tool_calls": calls}, finish_reason="tool_calls").output
    assert (first.call_id, first.name, first.arguments, first.status) == ("call_1", "f", '{"a":1}', "completed")
    assert second.call_id.startswith("call_")
    assert (second.name, second.arguments) == ("g", "")


def test_a_refusal():
    (message,) = document({"content": None, "refusal": "no"}).output
    assert [part.to_dict() for part in message.content] == [{"type": "refusal", "refusal": "no"}]


def test_nothing_is_no_output():
    assert document({"content": ""}).output == []


REASONING = {
    "as text": {"reasoning_content": "t"},
    "under its other name": {"reasoning": "t"},
    "as an object": {"reasoning_content": {"text": "t"}},
    "only in blocks": {"thinking_blocks": [{"type": "thinking", "thinking": "t"}]},
    "in both": {"reasoning_content": "t", "thinking_blocks": [{"type": "thinking", "thinking": "t"}]},
}


@pytest.mark.parametrize("case", REASONING)
def test_reasoning(case):
    reasoning, message = document({"content": "a", **REASONING[case]}).output
    assert [part.to_dict() for part in reasoning.content] == [{"type": "reasoning_text", "text": "t"}]
    assert (reasoning.summary, reasoning.encrypted_content, message.content[0].text) == ([], None, "a")


@pytest.mark.parametrize("member", ["summary", "generate_summary"])
def test_reasoning_for_a_client_that_asks_for_a_summary(member):
    reasoning, _ = document({"content": "a", "reasoning_content": "t"}, {"reasoning": {member: "auto"}}).output
    assert [part.to_dict() for part in reasoning.summary] == [{"type": "summary_text", "text": "t"}]
    assert reasoning.content is None


BLOCKS = [
    {"type": "thinking", "thinking": "t", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "b3BhcXVl"},
    {"type": "thinking", "thinking": "unsigned"},
]


def unsealed(reasoning):
    family, _, text = reasoning.encrypted_content.partition(".")
    return family, json.loads(base64.b64decode(text))


def test_signed_thoughts_are_kept_in_the_item():
    reasoning, _ = document({"content": "a", "reasoning_content": "t", "thinking_blocks": BLOCKS}).output
    assert unsealed(reasoning) == ("chat", BLOCKS[:2])


def test_a_signature_alone_signs_what_was_told():
    blocks = [{"type": "thinking", "signature": "c2ln"}]
    reasoning, _ = document({"content": "a", "reasoning_content": "t", "thinking_blocks": blocks}).output
    assert unsealed(reasoning) == ("chat", BLOCKS[:1])


def test_thoughts_that_nobody_can_read_come_first():
    reasoning, _ = document({"content": "a", "thinking_blocks": BLOCKS[1:2]}).output
    assert (reasoning.summary, reasoning.content) == ([], None)
    assert unsealed(reasoning) == ("chat", BLOCKS[1:2])


FINISHES = {
    "stop": ("completed", None),
    "tool_calls": ("completed", None),
    "function_call": ("completed", None),
    "brand_new": ("completed", None),
    None: ("completed", None),
    "length": ("incomplete", "max_output_tokens"),
    "content_filter": ("incomplete", "content_filter"),
}


@pytest.mark.parametrize("reason", FINISHES)
def test_why_an_answer_ended(reason):
    status, why = FINISHES[reason]
    calls = [{"id": "c", "function": {"name": "f", "arguments": "{"}}]
    response = document({"content": "a", "tool_calls": calls}, finish_reason=reason)
    assert response.status == status
    assert (response.incomplete_details and response.incomplete_details.reason) == why
    assert (response.completed_at is None) is (status == "incomplete")
    # Only the last item is cut.
    assert [item.status for item in response.output] == ["completed", status]


PROBABILITIES = {
    "content": [
        {
            "token": "a",
            "bytes": [97],
            "logprob": -0.5,
            "top_logprobs": [{"token": "b", "bytes": [98], "logprob": -1.5}],
        }
    ],
    "refusal": None,
}


@pytest.mark.parametrize("request_", [{"top_logprobs": 1}, {"include": ["message.output_text.logprobs"]}], ids=str)
def test_probabilities_for_a_client_that_asks(request_):
    (message,) = document({"content": "a"}, request_, logprobs=PROBABILITIES).output
    assert [each.to_dict() for each in message.content[0].logprobs] == PROBABILITIES["content"]


@pytest.mark.parametrize("odd", [PROBABILITIES, {"content": [{"x": 1}]}, {"content": None}, 7], ids=str)
def test_probabilities_that_nobody_asked_for_or_that_are_none_are_left_out(odd):
    request = {} if odd is PROBABILITIES else {"top_logprobs": 1}
    (message,) = document({"content": "a"}, request, logprobs=odd).output
    assert message.content[0].logprobs == []


CITATION = {"start_index": 0, "end_index": 1, "title": "t", "url": "https://x"}


def test_citations():
    annotations = [{"type": "url_citation", "url_citation": CITATION}, {"type": "brand_new"}]
    (message,) = document({"content": "a", "annotations": annotations}).output
    assert [each.to_dict() for each in message.content[0].annotations] == [{"type": "url_citation", **CITATION}]


@pytest.mark.parametrize("odd", [7, [7], [{"url_citation": {}}], None], ids=str)
def test_citations_that_cannot_be_read_are_left_out(odd):
    (message,) = document({"content": "a", "annotations": odd}).output
    assert message.content[0].annotations == []


DETAILED = {
    **USAGE,
    "prompt_tokens_details": {"cached_tokens": 2, "cache_creation_input_tokens": 1},
    "completion_tokens_details": {"reasoning_tokens": 4},
}


def test_usage_in_detail():
    body = json.dumps({"choices": [{"message": {"content": "a"}}], "usage": DETAILED, "model": "real"}).encode()
    heard = hear(ask({})[0], body, stream=False)
    response = read_response(heard.body)
    assert response.usage.input_tokens_details.to_dict() == {"cache_write_tokens": 1, "cached_tokens": 2}
    assert response.usage.output_tokens_details.reasoning_tokens == 4
    assert response.model == heard.model == "real"
    assert heard.usage == TokenUsage(input=7, output=5, total=12, cached_input=2, cache_creation_input=1, reasoning=4)


TOOL = {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": False}
FORMAT = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
TOLD_BACK = {
    "instructions": "be brief",
    "max_output_tokens": 9,
    "max_tool_calls": 3,
    "metadata": {"a": "b"},
    "parallel_tool_calls": False,
    "prompt_cache_key": "k",
    "reasoning": {"effort": "low", "summary": "auto"},
    "safety_identifier": "s",
    "service_tier": "flex",
    "temperature": 0.5,
    "text": {"format": FORMAT, "verbosity": "low"},
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
    "tools": [TOOL],
    "top_logprobs": 2,
    "top_p": 1,
    "user": "u",
}


def test_what_was_asked_for_is_told_back():
    body = told({"content": "a"}, {**TOLD_BACK, "store": True, "truncation": "auto"}).body
    read_response(body)
    response = json.loads(body)
    assert {name: response[name] for name in TOLD_BACK} == TOLD_BACK
    assert (response["store"], response["truncation"]) == (False, "disabled")


def test_the_service_tier_is_the_backends():
    body = json.dumps({"choices": [{"message": {"content": "a"}}], "service_tier": "priority"}).encode()
    assert read_response(hear(ask({"service_tier": "auto"})[0], body, stream=False).body).service_tier == "priority"


UNREADABLE = {
    "empty": b"",
    "no JSON": b"<html>",
    "an array": b"[]",
    "an error": b'{"error":{"message":"busy"}}',
    "no choices": b"{}",
    "no choice": b'{"choices":[]}',
    "no message": b'{"choices":[{"index":0}]}',
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_is_no_answer_is_a_fault_of_the_backend(case):
    with pytest.raises(UnreadableAnswer):
        hear(ask({})[0], UNREADABLE[case], stream=False)


# --- streams ---


def kinds(heard):
    return [event.type.removeprefix("response.") for event in read_events(heard.body)]


BEGIN = ["created", "in_progress"]
TEXT_BEGINS = ["output_item.added", "content_part.added"]
TEXT_ENDS = ["output_text.done", "content_part.done"]


def test_the_events_of_a_text():
    heard = streamed(chunk({"role": "assistant", "content": ""}), text("He"), text("llo"), end())
    assert kinds(heard) == [
        *BEGIN,
        *TEXT_BEGINS,
        "output_text.delta",
        "output_text.delta",
        *TEXT_ENDS,
        "output_item.done",
        "completed",
    ]
    assert (heard.usage, heard.model, heard.complete) == (TokenUsage(input=7, output=5, total=12), "real", True)
    assert b"[DONE]" not in heard.body
    _, response = follow_stream(heard.body)
    assert (response.output_text, response.model, response.status) == ("Hello", "real", "completed")
    assert response.usage.total_tokens == 12


def test_interleaved_calls_go_to_their_items():
    heard = streamed(
        text("Let me see."),
        call(0, "", id="a", name="f"),
        call(1, '{"x"', id="b", name="g"),
        call(0, '{"y"'),
        call(1, ":1}"),
        call(0, ":2}"),
        end("tool_calls"),
    )
    events, response = follow_stream(heard.body)
    assert [(item.type, getattr(item, "call_id", None)) for item in response.output] == [
        ("message", None),
        ("function_call", "a"),
        ("function_call", "b"),
    ]
    assert [(item.name, item.arguments) for item in response.output[1:]] == [("f", '{"y":2}'), ("g", '{"x":1}')]
    pieces: dict[str, str] = {}
    for event in events:
        if event.type == "response.function_call_arguments.delta":
            pieces[event.output_index] = pieces.get(event.output_index, "") + event.delta
            assert event.snapshot == pieces[event.output_index]
    assert pieces == {1: '{"y":2}', 2: '{"x":1}'}
    # The text is done when the first call begins, and the items are done in their order.
    assert kinds(heard).index("output_text.done") < kinds(heard).index("function_call_arguments.delta")
    done = [event.output_index for event in events if event.type == "response.output_item.done"]
    assert done == [0, 1, 2]


CALLS = {
    # chunks: calls as (id, name, arguments); without an id where it is ours
    "whole at once": ([call(0, "{}", id="a", name="f")], [("a", "f", "{}")]),
    "the name comes late": ([call(0, "{", id="a"), call(0, "}", name="f")], [("a", "f", "{}")]),
    "no name": ([call(0, "{}", id="a")], [("a", "", "{}")]),
    "id and name in every piece": (
        [call(0, "{", id="a", name="f"), call(0, "}", id="a", name="f")],
        [("a", "f", "{}")],
    ),
    "not numbered": (
        [call(None, "{", id="a", name="f"), call(None, "}"), call(None, "{}", id="b", name="g")],
        [("a", "f", "{}"), ("b", "g", "{}")],
    ),
    "numbered alike": (
        [call(0, "{", id="a", name="f"), call(0, "[", id="b", name="g"), call(0, "}", id="a"), call(0, "]", id="b")],
        [("a", "f", "{}"), ("b", "g", "[]")],
    ),
    "numbered from another begin": ([call(5, "{}", id="a", name="f")], [("a", "f", "{}")]),
    "without an id": ([call(0, "{", name="f"), call(0, "}")], [(None, "f", "{}")]),
    "the id comes late": ([call(0, "{"), call(0, "}", id="a", name="f")], [("a", "f", "{}")]),
    "one id for two": ([call(0, id="a", name="f"), call(1, id="a", name="g")], [("a", "f", ""), (None, "g", "")]),
    "without arguments": ([call(0, id="a", name="f")], [("a", "f", "")]),
}


@pytest.mark.parametrize("case", CALLS)
def test_calls_of_a_stream(case):
    chunks, expected = CALLS[case]
    _, response = follow_stream(streamed(*chunks, end("tool_calls")).body)
    found = [(item.call_id, item.name, item.arguments) for item in response.output]
    assert [(name, arguments) for _, name, arguments in found] == [(name, arguments) for _, name, arguments in expected]
    assert all(given in (None, call_id) for (call_id, _, _), (given, _, _) in zip(found, expected, strict=True))
    assert all(call_id for call_id, _, _ in found)
    assert len({call_id for call_id, _, _ in found}) == len(found)


def test_reasoning_of_a_stream():
    heard = streamed(chunk({"reasoning_content": "Hm"}), chunk({"reasoning_content": "m."}), text("a"), end())
    assert kinds(heard)[2:10] == [
        *TEXT_BEGINS,
        "reasoning_text.delta",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        *TEXT_BEGINS,
    ]
    _, response = follow_stream(heard.body)
    assert response.output[0].content[0].text == "Hmm."
    assert response.output_text == "a"


def test_reasoning_of_a_stream_as_a_summary():
    heard = streamed(chunk({"reasoning": "Hm"}), text("a"), end(), request={"reasoning": {"summary": "auto"}})
    assert kinds(heard)[2:7] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
    ]
    _, response = follow_stream(heard.body)
    assert response.output[0].summary[0].text == "Hm"


def test_texts_that_alternate_are_parts():
    heard = streamed(
        chunk({"reasoning_content": "t1"}),
        text("a"),
        chunk({"reasoning_content": "t2"}),
        chunk({"content": "b", "refusal": "no"}),
        call(0, "{}", id="c", name="f"),
        text("d"),
        end(),
    )
    _, response = follow_stream(heard.body)
    reasoning, message, function = response.output
    assert [part.text for part in reasoning.content] == ["t1", "t2"]
    assert [part.to_dict().get("text", "refused") for part in message.content] == ["a", "b", "refused", "d"]
    assert function.call_id == "c"


SIGNED = {
    "whole at the end": [
        chunk({"reasoning_content": "t"}),
        text("a"),
        chunk({"thinking_blocks": [{"type": "thinking", "thinking": "t", "signature": "c2ln"}]}),
    ],
    "the signature alone": [
        chunk({"reasoning_content": "t"}),
        chunk({"thinking_blocks": [{"type": "thinking", "signature": "c2ln"}]}),
        text("a"),
    ],
    "in pieces": [
        chunk({"reasoning_content": "", "thinking_blocks": [{"type": "thinking", "thinking": "t"}]}),
        chunk({"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "c2ln"}]}),
        text("a"),
    ],
}


@pytest.mark.parametrize("case", SIGNED)
def test_signed_thoughts_of_a_stream(case):
    _, response = follow_stream(streamed(*SIGNED[case], end()).body)
    reasoning, message = response.output
    assert reasoning.content[0].text == "t"
    assert unsealed(reasoning) == ("chat", BLOCKS[:1])
    assert message.content[0].text == "a"


def test_probabilities_of_a_stream():
    heard = streamed(chunk({"content": "a"}, logprobs=PROBABILITIES), end(), request={"top_logprobs": 1})
    delta = next(event for event in read_events(heard.body) if event.type == "response.output_text.delta")
    assert delta.logprobs[0].logprob == -0.5
    _, response = follow_stream(heard.body)
    assert len(response.output[0].content[0].logprobs) == 1


def test_citations_of_a_stream():
    cited = chunk({"content": "a", "annotations": [{"type": "url_citation", "url_citation": CITATION}]})
    heard = streamed(cited, end())
    (added,) = [e for e in read_events(heard.body) if e.type == "response.output_text.annotation.added"]
    assert (added.annotation_index, added.annotation.to_dict()) == (0, {"type": "url_citation", **CITATION})
    begun = next(event for event in read_events(heard.body) if event.type == "response.content_part.added")
    assert begun.part.annotations == []
    _, response = follow_stream(heard.body)
    assert response.output[0].content[0].annotations[0].url == "https://x"


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_a_stream_that_is_not_whole(reason):
    heard = streamed(text("a"), end(reason))
    assert kinds(heard)[-1] == "incomplete"
    assert (heard.failure, heard.complete) == ("", True)
    _, response = follow_stream(heard.body)
    assert (response.status, response.incomplete_details.reason) == ("incomplete", FINISHES[reason][1])
    assert response.output[0].status == "incomplete"
    assert response.usage.total_tokens == 12


def test_a_stream_and_a_document_say_the_same():
    calls = [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}]
    message = {"role": "assistant", "content": "Hello", "reasoning_content": "Hm", "tool_calls": calls}
    streaming = streamed(
        chunk({"reasoning_content": "H"}),
        chunk({"reasoning_content": "m"}),
        text("Hel"),
        text("lo"),
        call(0, id="a", name="f"),
        call(0, '{"x":'),
        call(0, "1}"),
        end("tool_calls"),
        request=TOLD_BACK,
    )
    whole = json.loads(told(message, TOLD_BACK, finish_reason="tool_calls").body)
    last = json.loads(streaming.body.split(b"\ndata: ")[-1])["response"]
    assert {**last, "model": "m"} == whole


WHOLE = (chunk({"reasoning_content": "t"}), text("Hi"), call(0, "{}", id="a", name="f"), end("tool_calls"))


@pytest.mark.parametrize("line", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_any_cut_of_a_stream_reads_the_same(size, line):
    translator, _ = ask({"stream": True})
    data = sse([*WHOLE, REPORT], line=line) + DONE.replace(b"\n", line.encode())
    assert hear(translator, data, stream=True, size=size) == streamed(*WHOLE)


def test_usage_beside_a_choice_counts():
    translator, _ = ask({"stream": True})
    heard = hear(translator, sse([text("a"), {**end(), "usage": USAGE}]) + DONE, stream=True)
    assert heard.usage == TokenUsage(input=7, output=5, total=12)
    assert follow_stream(heard.body)[1].usage.total_tokens == 12


def test_without_usage_none_is_told():
    translator, _ = ask({"stream": True})
    heard = hear(translator, sse([text("a"), end()]) + DONE, stream=True)
    assert follow_stream(heard.body)[1].usage is None


def test_what_azure_thinks_of_the_prompt_does_not_begin_the_answer():
    prompt = {"id": "", "object": "", "created": 0, "model": "", "choices": [], "prompt_filter_results": []}
    assert streamed(prompt, *WHOLE) == streamed(*WHOLE)


def test_a_document_in_the_place_of_a_stream_is_told_as_one():
    translator, _ = ask({"stream": True})
    body = json.dumps({"model": "real", "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}).encode()
    heard = hear(translator, body, stream=True, size=9)
    assert follow_stream(heard.body)[1].output_text == "Hi"


# --- streams that break off ---

BUSY = {"error": {"message": "the model is busy", "type": "overloaded_error", "code": None}}

BROKEN = {
    # the body: failure, code and message that the client reads
    "an error": (sse([text("a"), BUSY]), "overloaded_error", "server_error", "the model is busy"),
    "an error at the begin": (sse([BUSY]), "overloaded_error", "server_error", "the model is busy"),
    "an error that is a text": (sse([text("a"), {"error": "no"}]), "stream_error", "server_error", "no"),
    "a rate limit": (
        sse([text("a"), {"error": {"message": "m", "type": "rate_limit_error", "code": 429}}]),
        "rate_limit_error",
        "rate_limit_exceeded",
        "m",
    ),
    "a code of the API": (
        sse([text("a"), {"error": {"message": "m", "type": "t", "code": "invalid_prompt"}}]),
        "t",
        "invalid_prompt",
        "m",
    ),
    "cut": (sse([text("a")]), "stream_error", "server_error", "the backend's stream ended before its answer did"),
    "nothing": (b"", "stream_error", "server_error", "the backend's stream ended before its answer did"),
    "no JSON": (
        sse([text("a")]) + b"data: {\n\n",
        "stream_error",
        "server_error",
        "the backend sent an event that is not JSON",
    ),
}


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("case", BROKEN)
def test_a_stream_that_breaks_off(case, size):
    body, failure, code, message = BROKEN[case]
    translator, _ = ask({"stream": True})
    heard = hear(translator, body + sse([REPORT]) * (case == "an error"), stream=True, size=size)
    assert heard.failure == failure
    events, response = follow_stream(heard.body)
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1].type == "response.failed"
    assert (response.status, response.error.code, response.error.message) == ("failed", code, message)
    assert all(item.status == "incomplete" for item in response.output)
    read_events(heard.body)


# --- errors ---

ERRORS = {
    # headers, body: type, code, message
    "OpenAI's": (
        "application/json",
        json.dumps({"error": {"message": 'a "b"', "type": "t", "code": "model_not_found", "param": "p"}}),
        ("t", "model_not_found", 'a "b"'),
    ),
    "without a code": ("application/json", '{"error":{"message":"m","type":"t","code":null}}', ("t", "404", "m")),
    "a text": ("application/json", '{"error":"m"}', ("OpenAIBackendError", "404", "m")),
    "a page": ("text/html", '<h1 class="x">', ("OpenAIBackendError", "404", '<h1 class="x">')),
    "JSON of another kind": ("application/json", '{"detail":"m"}', ("OpenAIBackendError", "404", '{"detail":"m"}')),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_have_the_shape_of_the_api(case):
    content_type, body, (kind, code, message) = ERRORS[case]
    result = ask({})[0].response_error("404", {"content-type": content_type}, body.encode())
    assert json.loads(result.body or b"") == {
        "type": "error",
        "error": {"type": kind, "code": code, "message": message},
    }
    assert result.headers == (("content-type", "application/json"),)
