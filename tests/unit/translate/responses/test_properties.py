"""Any request gives what the backend accepts, or a 4xx; any answer gives what the client can read to some end."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.endpoints.base import Operation
from extproc.endpoints.responses import Responses
from extproc.errors import MalformedRequest, UnprocessableRequest, UnreadableAnswer
from tests.support import converse
from tests.support.golden import make_translator
from tests.unit.translate.chat.anthropic import oracle as anthropic
from tests.unit.translate.chat.gemini import oracle as gemini
from tests.unit.translate.responses.attempts import CHAT_ONLY, DONE, ask, call, chunk, end, hear, sse, text
from tests.unit.translate.responses.oracle import accepts_chat, follow_stream, read_events, read_response

JUDGES = {
    "OpenAI": accepts_chat,
    "Anthropic": anthropic.accepts,
    "AWSBedrock": converse.accept,
    "GCPVertexAI": gemini.accept,
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a", "ä🚀", "type", "x" * 9]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "type", "text"]), inner, max_size=2)
    ),
    max_leaves=4,
)
WORDS = st.sampled_from(["a", "ä 🚀", "say", "0"])
PNG = "data:image/png;base64,iVBORw0KGgo="


def maybe(**members):
    return st.fixed_dictionaries({}, optional=members)


def always(kind, **members):
    return st.fixed_dictionaries({"type": st.just(kind), **members})


HEARD = st.lists(
    always("input_text", text=WORDS) | always("input_image", image_url=st.just(PNG)), min_size=1, max_size=2
)
SPOKEN = st.lists(always("output_text", text=WORDS) | always("refusal", refusal=WORDS), min_size=1, max_size=2)


def message(role, content):
    return st.fixed_dictionaries(
        {"role": st.just(role), "content": WORDS | content}, optional={"type": st.just("message")}
    )


def calls(number):
    """A call and what came of it."""
    one = {"type": "function_call", "call_id": f"call_{number}", "name": "f", "arguments": '{"a":1.0e2}'}
    return [one, {"type": "function_call_output", "call_id": f"call_{number}", "output": "done"}]


@st.composite
def conversations(draw):
    """Items that make sense, calls with their results, which may come interleaved."""
    items: list[dict[str, Any]] = [draw(message("user", HEARD))]
    for number in range(draw(st.integers(0, 3))):
        items += draw(st.lists(message("assistant", SPOKEN) | message("developer", st.nothing()), max_size=1))
        items += calls(number)
        items += draw(st.lists(message("user", HEARD), max_size=1))
    return items


TOOL = st.fixed_dictionaries(
    {"type": st.just("function"), "name": st.sampled_from(["f", "g"])},
    optional={
        "description": WORDS,
        "strict": st.none() | st.booleans(),
        "parameters": st.just({"type": "object", "properties": {"a": {"type": "number"}}}) | st.none(),
    },
)
CHOICE = st.sampled_from(
    [
        "auto",
        "none",
        {"type": "function", "name": "f"},
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
    ]
)
OPTIONS = {
    "stream": st.booleans(),
    "instructions": WORDS,
    "max_output_tokens": st.integers(1, 5000),
    "temperature": st.floats(0, 1),
    "top_p": st.floats(0, 1),
    "tools": st.lists(TOOL, max_size=2, unique_by=lambda tool: tool["name"]),
    "parallel_tool_calls": st.booleans(),
    "tool_choice": CHOICE,
    "reasoning": maybe(effort=st.sampled_from(["low", "high"]), summary=st.just("auto")),
    "user": WORDS,
    "store": st.booleans(),
    "metadata": st.dictionaries(WORDS, WORDS, max_size=1),
}
SENSIBLE = st.fixed_dictionaries({"input": WORDS | conversations()}, optional=OPTIONS)

KINDS = ["message", "function_call", "function_call_output", "reasoning", "item_reference", "x"]
WILD_ITEM = JSON | maybe(
    type=st.sampled_from(KINDS) | JSON,
    role=st.sampled_from(["user", "assistant", "system", "x"]) | JSON,
    content=HEARD | SPOKEN | WORDS | JSON,
    call_id=st.sampled_from(["call_0", "a"]) | JSON,
    name=WORDS | JSON,
    arguments=st.sampled_from(["{}", "{", "null"]) | JSON,
    output=HEARD | WORDS | JSON,
    encrypted_content=st.sampled_from(["claude.e30=", "gemini.W3sidHlwZSI6IngifV0=", "x"]) | JSON,
)
WILD = st.fixed_dictionaries(
    {"input": st.lists(WILD_ITEM, max_size=4) | JSON},
    optional={
        **{name: OPTIONS[name] | JSON for name in OPTIONS if name != "stream"},
        "stream": st.booleans(),
        "text": maybe(format=maybe(type=st.sampled_from(["json_schema", "json_object", "x"]), name=WORDS, schema=JSON))
        | JSON,
        "tools": st.lists(TOOL | maybe(type=WORDS, name=WORDS, parameters=JSON) | JSON, max_size=2),
        "tool_choice": CHOICE | maybe(type=WORDS, mode=WORDS, tools=JSON) | JSON,
        "thinking": JSON,
        "conversation": JSON,
        "include": JSON,
    },
)


def upstream(schema, request):
    body = json.dumps({"model": "claude-opus-4-6", **request}).encode()
    parsed = Responses().parse(body, content_type="application/json", metering=True)
    backend = CHAT_ONLY if schema == "OpenAI" else {}
    translated = make_translator(schema, backend, operation=Operation.RESPONSES).request(parsed, query="", force=False)
    assert translated.body is not None
    return translated


@pytest.mark.parametrize("schema", JUDGES)
@given(request=SENSIBLE)
@settings(max_examples=30)
def test_any_conversation_is_accepted(schema, request):
    # A choice of what is not offered is the client's mistake, and said to be one.
    names = {tool["name"] for tool in request.get("tools", ())}
    if isinstance(request.get("tool_choice"), dict) and "f" not in names:
        del request["tool_choice"]
    translated = upstream(schema, request)
    JUDGES[schema](translated.path, translated.body)


@pytest.mark.parametrize("schema", JUDGES)
@given(request=WILD)
@settings(max_examples=50)
def test_anything_else_is_refused_if_it_cannot_be_said(schema, request):
    with contextlib.suppress(MalformedRequest, UnprocessableRequest):
        upstream(schema, request)


@given(body=st.binary(max_size=60))
def test_what_is_no_json_is_malformed(body):
    data = b'{"model":"m","input":"x","tools":[{"type":"function","name":"f","parameters":' + body + b"}]}"
    translator = make_translator("OpenAI", CHAT_ONLY, operation=Operation.RESPONSES)
    with contextlib.suppress(MalformedRequest, UnprocessableRequest):
        parsed = Responses().parse(data, content_type="application/json", metering=True)
        translated = translator.request(parsed, query="", force=False)
        document = b'{"choices":[{"index":0,"message":{"content":"a"}}]}'
        assert json.loads(translated.body or b"")["model"] == "m"
        json.loads(hear(translator, document, stream=False).body)


# --- answers ---

INDEX = st.none() | st.integers(0, 2)
MESSAGE = maybe(
    content=WORDS | st.none(),
    refusal=WORDS,
    reasoning_content=WORDS | JSON,
    thinking_blocks=st.lists(maybe(type=st.just("thinking"), thinking=WORDS, signature=WORDS, data=WORDS), max_size=2),
    tool_calls=st.lists(
        maybe(index=INDEX, id=WORDS, function=maybe(name=st.sampled_from(["f", "g"]), arguments=WORDS)), max_size=3
    ),
    annotations=JSON,
)
PIECE = st.one_of(
    MESSAGE.map(chunk),
    WORDS.map(text),
    st.builds(lambda index, arguments: call(index, arguments, id=f"c{index}", name="f"), INDEX, WORDS),
    st.sampled_from([end(), end("length"), end("tool_calls")]),
    JSON.map(lambda value: {"choices": value}),
)


@given(said=MESSAGE | JSON, reason=st.sampled_from(["stop", "length", "x", None]) | JSON, usage=JSON)
def test_any_document_is_read_or_is_none(said, reason, usage):
    body = {"choices": [{"index": 0, "message": said, "finish_reason": reason}], "usage": usage}
    with contextlib.suppress(UnreadableAnswer):
        read_response(hear(ask({})[0], json.dumps(body).encode(), stream=False).body)


@given(body=st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_document_or_are_none(body):
    with contextlib.suppress(UnreadableAnswer):
        read_response(hear(ask({})[0], body, stream=False).body)


def check(heard):
    """The client can follow it, and it ends in one of the ways that there are."""
    events = read_events(heard.body)
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    ends = [kind for kind in kinds if kind in {"response.completed", "response.incomplete", "response.failed"}]
    assert ends == kinds[-1:]
    assert (kinds[-1] == "response.failed") is bool(heard.failure)
    told, response = follow_stream(heard.body)
    assert len(told) == len(events)
    if not heard.failure:
        # What was told in pieces is what is there in the end.
        pieces: dict[tuple[int, int], str] = {}
        for event in events:
            if event.type in {"response.output_text.delta", "response.function_call_arguments.delta"}:
                place = (event.output_index, getattr(event, "content_index", 0))
                pieces[place] = pieces.get(place, "") + event.delta
        for (output_index, part), joined in pieces.items():
            item = response.output[output_index]
            assert (item.arguments if item.type == "function_call" else item.content[part].text) == joined
        done = [event.output_index for event in events if event.type == "response.output_item.done"]
        assert done == list(range(len(response.output)))


@given(pieces=st.lists(PIECE, max_size=6), ended=st.booleans(), size=st.sampled_from([0, 1, 17]))
@settings(max_examples=30)
def test_any_stream_can_be_followed(pieces, ended, size):
    translator, _ = ask({"stream": True})
    check(hear(translator, sse(pieces) + DONE * ended, stream=True, size=size))


STREAM = sse([chunk({"reasoning_content": "t"}), text("Hi"), call(0, '{"x":1}', id="a", name="f"), end()]) + DONE


@given(at=st.integers(0, len(STREAM) - 1), byte=st.integers(0, 255), cut=st.integers(0, len(STREAM)))
@settings(max_examples=30)
def test_a_mutilated_stream_can_be_followed(at, byte, cut):
    data = bytearray(STREAM)
    data[at] = byte
    for body in (bytes(data), STREAM[:cut]):
        check(hear(ask({"stream": True})[0], body, stream=True, size=7))
