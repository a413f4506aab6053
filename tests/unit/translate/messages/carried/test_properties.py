"""Whatever a client says or a backend answers: it is carried, or it is refused in one of the documented ways."""

import json
from collections import defaultdict
from typing import Any

import pytest
from anthropic.types import Message
from hypothesis import given
from hypothesis import strategies as st

from extproc.errors import MalformedRequest, UnprocessableRequest, UnreadableAnswer
from extproc.translate.messages.chat_answer import is_object
from tests.unit.translate.chat.gemini import oracle as gemini
from tests.unit.translate.messages.carried.attempts import (
    SSE,
    Told,
    answered,
    ask,
    ask_bytes,
    blocks_of,
    call,
    chunk,
    pieces,
    sse,
)
from tests.unit.translate.messages.carried.oracle import accepts_types

WORDS = st.sampled_from(["", " ", "a", "ä\u2028<&>", '{"error":1}', "\x00", "😀", "null", "data: x\n\n"]) | st.text(
    max_size=4
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(WORDS, JSON, max_size=2)


def maybe(**members):
    return st.fixed_dictionaries({}, optional=members)


def typed(kind, **members):
    return st.fixed_dictionaries({"type": st.just(kind)}, optional=members)


CACHE = st.sampled_from([None, {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}])
IDS = st.sampled_from(["toolu_1", "functions.f:0", "", None])
SOURCES = st.one_of(
    typed(
        "base64", media_type=st.sampled_from(["image/png", "application/pdf", "text/plain", "x"]), data=st.just("AAEC")
    ),
    typed("url", url=st.sampled_from(["https://a/b.png", ""])),
    typed("text", data=WORDS),
    typed("file", file_id=WORDS),
)
TEXT = typed("text", text=WORDS, cache_control=CACHE, citations=JSON)
SAID = st.one_of(
    TEXT,
    typed("image", source=SOURCES, cache_control=CACHE),
    typed("document", source=SOURCES, title=WORDS, context=WORDS, citations=st.just({"enabled": True})),
    typed("search_result", content=st.lists(TEXT, max_size=2), source=WORDS, title=WORDS),
)
USER = SAID | typed("tool_result", tool_use_id=IDS, content=WORDS | st.lists(SAID, max_size=2), is_error=st.booleans())
ASSISTANT = st.one_of(
    TEXT,
    typed("thinking", thinking=WORDS, signature=WORDS),
    typed("redacted_thinking", data=WORDS),
    typed("tool_use", id=IDS, name=st.sampled_from(["f", "g"]), input=OBJECTS),
)
ODD = maybe(type=WORDS, text=JSON, source=JSON, content=JSON, input=JSON)
MESSAGES = st.lists(
    st.one_of(
        st.fixed_dictionaries({"role": st.just("user"), "content": WORDS | st.lists(USER, max_size=3)}),
        st.fixed_dictionaries({"role": st.just("assistant"), "content": WORDS | st.lists(ASSISTANT, max_size=3)}),
        st.fixed_dictionaries({"role": st.just("system"), "content": WORDS | st.lists(TEXT, max_size=2)}),
        st.fixed_dictionaries({"role": st.sampled_from(["user", "x"]), "content": st.lists(ODD, max_size=1)}),
    ),
    max_size=5,
)
REQUESTS = st.fixed_dictionaries(
    {"model": st.sampled_from(["gpt-x", "gemini-2.5-pro", "a/b:c d"]), "messages": MESSAGES},
    optional={
        "max_tokens": st.sampled_from([1, 32000, 15.0, None, -1, 2**80, 1e300, "7"]),
        "stream": st.booleans(),
        "system": WORDS | st.lists(TEXT, max_size=2),
        "temperature": st.floats(0, 1),
        "top_k": st.integers(),
        "stop_sequences": st.lists(WORDS, max_size=2),
        "metadata": maybe(user_id=WORDS),
        "thinking": st.sampled_from(
            [{"type": "enabled", "budget_tokens": 2048.0}, {"type": "adaptive"}, {"type": "disabled"}, {"type": "x"}, 7]
        ),
        "output_config": maybe(
            effort=st.sampled_from(["low", "max", "x"]), format=typed("json_schema", schema=OBJECTS)
        ),
        "tools": st.lists(maybe(name=st.sampled_from(["f", ""]), description=WORDS, input_schema=OBJECTS), max_size=2),
        "tool_choice": st.sampled_from(
            [{"type": "auto", "disable_parallel_tool_use": True}, {"type": "tool", "name": "f"}, {"type": "any"}, "x"]
        ),
    },
)


@given(request=REQUESTS, schema=st.sampled_from(["OpenAI", "AzureOpenAI", "GCPVertexAI"]))
def test_any_request_is_one_of_the_backend_s_api_or_refused(request, schema):
    try:
        _, path, body = ask_bytes(json.dumps(request).encode(), schema)
    except (MalformedRequest, UnprocessableRequest):
        return
    if schema == "GCPVertexAI":
        json.loads(body)
        assert path.startswith("publishers/google/models/")
        if not request.get("tools") and "output_config" not in request:
            gemini.accept(path, body)
    else:
        accepts_types(path, body)


@given(body=st.binary(max_size=20) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_request_or_refused(body):
    with pytest.raises((MalformedRequest, UnprocessableRequest)):
        ask_bytes(b'{"model":"m","tools":' + body + b',"messages":[{"role":"x"}]}')


# --- answers ---

CALLS = st.fixed_dictionaries(
    {"function": st.fixed_dictionaries({"name": WORDS, "arguments": OBJECTS.map(json.dumps) | WORDS})},
    optional={"id": IDS, "index": st.integers(0, 2), "type": st.just("function")},
)
THOUGHTS = st.lists(maybe(type=WORDS, thinking=WORDS, signature=WORDS, data=WORDS), max_size=2)
DELTAS = maybe(
    role=st.just("assistant"),
    content=st.none() | WORDS,
    refusal=st.none() | WORDS,
    reasoning_content=WORDS | JSON,
    thinking_blocks=THOUGHTS,
    tool_calls=st.lists(CALLS, max_size=2),
)
FINISHES = st.sampled_from([None, None, "stop", "length", "tool_calls", "content_filter", "x"])
REPORTS = st.none() | maybe(
    prompt_tokens=st.integers(0, 99),
    completion_tokens=st.integers(0, 9),
    prompt_tokens_details=maybe(cached_tokens=st.integers(0, 120)),
)
CHUNKS = st.builds(lambda delta, finish, usage: chunk(delta, finish, usage=usage), DELTAS, FINISHES, REPORTS)
STREAMS = st.lists(CHUNKS | st.just("[DONE]") | OBJECTS, max_size=6).map(lambda events: sse(*events))


def check(found):
    """One of the two ends, and well-formed up to there."""
    found.check_order()
    assert found.ends == (not found.failure)
    assert found.ends or found.types[-1] == "error"
    if found.ends and are_json(found.events):
        message = found.read()
        usage = message.usage
        assert min(usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens or 0) >= 0
        assert message.stop_reason


def are_json(events):
    """Whether the arguments of all calls are; the SDK cannot read others, which Anthropic's models may write too."""
    texts = defaultdict(str)
    for event in events:
        if event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
            texts[event["index"]] += event["delta"]["partial_json"]
    return all(is_object(text) for text in texts.values())


@given(stream=STREAMS, cuts=st.lists(st.integers(0, 400), max_size=5))
def test_any_stream_ends_in_one_of_two_ways_however_it_is_cut(stream, cuts):
    whole = Told(stream)
    check(whole)
    translator, _, _ = ask({"stream": True})
    translator.response_headers(SSE)
    results = [translator.response_body(piece, end_of_stream=False) for piece in pieces(stream, cuts)]
    results.append(translator.response_body(b"", end_of_stream=True))
    assert b"".join(result.body for result in results) == whole.text


@given(
    stream=STREAMS.filter(bool),
    at=st.integers(0, 500),
    junk=st.binary(max_size=3),
    headers=st.sampled_from([SSE, {"content-type": "application/json"}]),
)
def test_mutilated_bytes_end_in_one_of_two_ways(stream, at, junk, headers):
    at %= len(stream)
    found = Told(stream[:at] + junk + stream[at + len(junk) :], headers=headers)
    found.check_order()
    assert found.ends == (not found.failure)
    assert found.ends or found.types[-1] == "error"


@given(
    document=JSON
    | maybe(
        id=JSON,
        choices=st.lists(maybe(message=DELTAS | JSON, finish_reason=JSON), max_size=2),
        usage=JSON,
        model=JSON,
        error=JSON,
    )
)
def test_any_document_is_a_message_or_unreadable(document):
    try:
        result = answered(document)
    except UnreadableAnswer:
        return
    Message.model_validate_json(result.body, strict=True)


# --- the same, whole or in pieces ---


@st.composite
def sequential(draw):
    """An answer as a document, and as a stream that tells one thing after the other."""
    thought, text = draw(st.sampled_from(["", "ab", "t"])), draw(st.sampled_from(["", "cd", "x y"]))
    arguments = draw(st.lists(st.dictionaries(st.sampled_from("ab"), JSON, max_size=2).map(json.dumps), max_size=3))
    events = [chunk({"reasoning_content": letter}) for letter in thought] + [
        chunk({"content": letter}) for letter in text
    ]
    calls = [
        {"id": f"t{number}", "type": "function", "function": {"name": "f", "arguments": each}}
        for number, each in enumerate(arguments)
    ]
    heads = [chunk(call(number, "", id=f"t{number}", name="f")) for number in range(len(arguments))]
    tails = [[chunk(call(number, letter)) for letter in each] for number, each in enumerate(arguments)]
    if draw(st.booleans()):
        # All calls at once, a letter of each in turn.
        longest = max((len(tail) for tail in tails), default=0)
        mixed = [tail[at] for at in range(longest) for tail in tails if at < len(tail)]
        events += heads + mixed
    else:
        events += [event for head, tail in zip(heads, tails, strict=True) for event in (head, *tail)]
    message = {"content": text, "reasoning_content": thought, "tool_calls": calls}
    return message, sse(*events, chunk({}, "stop"), "[DONE]")


@given(answer=sequential())
def test_a_stream_says_what_a_document_says(answer):
    message, stream = answer
    document = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    whole = Message.model_validate_json(answered(document).body)
    found = Told(stream)
    found.check_order()
    gathered = found.read()
    assert blocks_of(gathered) == blocks_of(whole)
    assert gathered.stop_reason == whole.stop_reason
