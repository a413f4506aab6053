"""Whatever a client says, Claude accepts it or the client is told why not; and there and back without loss."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.endpoints.chat_completions import ChatCompletions
from extproc.errors import MalformedRequest, UnprocessableRequest
from tests.support.golden import make_translator
from tests.unit.translate.chat.anthropic.attempts import (
    SCHEMAS,
    ask,
    block,
    chunks,
    converse,
    sent,
    start,
    stop,
    text_block,
    thinking_block,
    tool_block,
    wire,
)
from tests.unit.translate.chat.anthropic.oracle import accepts

WORDS = st.one_of(
    st.sampled_from(["", " ", "\n", "a", "a ", "ä\u2028<&>", '{"error":1}', "\x00", "😀"]), st.text(max_size=5)
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


def maybe(**members):
    """An object that may have each of the members."""
    return st.fixed_dictionaries({}, optional=members)


def always(kind, optional=None, **members):
    """An object of a type, with these members."""
    return st.fixed_dictionaries({"type": st.just(kind), **members}, optional=optional or {})


class Client:
    """Says anything that a client may say, and when it is wild, what it may not as well."""

    def __init__(self, *, wild):
        self.wild = wild
        self.cache = self.any_of([None, {}, {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}], [{"ttl": 7}])
        self.ids = self.any_of(["a", "toolu_1", "functions.f:0", "ä b"], [None, ""])

    def any_of(self, good, odd):
        return st.sampled_from([*good, *odd] if self.wild else good)

    def one_of(self, good, odd):
        return st.one_of(good, odd) if self.wild else good

    def text_parts(self):
        return st.lists(always("text", {"cache_control": self.cache}, text=WORDS), max_size=3)

    def user_parts(self):
        urls = self.any_of(
            ["https://a/b.png", "https://a/b.pdf", "data:image/png;base64,AAEC", "data:application/pdf,a"],
            ["", "x", "data:image/png;base64,A", "data:text/html,a"],
        )
        part = st.one_of(
            always("text", {"cache_control": self.cache}, text=WORDS),
            always("image_url", {"cache_control": self.cache}, image_url=st.fixed_dictionaries({"url": urls})),
            always("file", file=st.just({"file_data": "data:text/plain;base64,YQ==", "filename": "a.txt"})),
        )
        return st.lists(self.one_of(part, st.just({"type": "input_audio", "input_audio": {}}) | JSON), max_size=3)

    def assistant_parts(self):
        part = st.one_of(
            always("text", {"text": WORDS, "cache_control": self.cache}),
            always("refusal", {"refusal": WORDS}),
            always("thinking", {"text": WORDS, "signature": WORDS}),
            always("redacted_thinking", {"redactedContent": WORDS}),
        )
        return st.lists(self.one_of(part, maybe(type=WORDS, text=JSON)), max_size=3)

    def calls(self):
        arguments = st.dictionaries(WORDS, JSON, max_size=3).map(json.dumps) | st.sampled_from(
            ["", "null", '{"a":1.0e5}']
        )
        function = st.fixed_dictionaries(
            {"name": self.any_of(["f", "g"], [""]), "arguments": self.one_of(arguments, JSON.map(json.dumps) | WORDS)}
        )
        call = always("function", {"cache_control": self.cache}, id=self.ids, function=function)
        return st.lists(call, max_size=2)

    def thoughts(self):
        kind = self.any_of(["thinking", "redacted_thinking"], ["x", ""])
        block = st.fixed_dictionaries({"type": kind}, optional={"thinking": WORDS, "signature": WORDS, "data": WORDS})
        return st.lists(block, max_size=2)

    def messages(self):
        def message(role, optional, **members):
            return st.fixed_dictionaries({"role": st.just(role), **members}, optional=optional)

        good = st.one_of(
            message("system", {"content": WORDS | self.text_parts()}),
            message("developer", {"content": WORDS | self.text_parts()}),
            message("user", {"content": st.none() | WORDS | self.user_parts(), "name": WORDS}),
            message(
                "assistant",
                {
                    "content": st.none() | WORDS | self.assistant_parts(),
                    "tool_calls": self.calls(),
                    "thinking_blocks": self.thoughts(),
                    "reasoning_content": JSON,
                    "refusal": WORDS,
                },
            ),
            message("tool", {"cache_control": self.cache}, content=WORDS | self.text_parts(), tool_call_id=self.ids),
        )
        return st.lists(self.one_of(good, maybe(role=st.sampled_from(["tool", "user", "x"]), content=JSON)), max_size=6)

    def tools(self):
        schema = maybe(properties=JSON, required=JSON, type=st.just("object"), **{"$defs": JSON})
        function = st.fixed_dictionaries(
            {"name": self.any_of(["f", "g"], ["", "a.b"])},
            optional={
                "description": WORDS,
                "strict": st.booleans(),
                "parameters": self.one_of(st.none() | schema, JSON),
                "cache_control": self.cache,
            },
        )
        tool = always("function", function=function)
        several = self.one_of(tool, maybe(type=WORDS, function=function))
        return st.lists(several, max_size=2, unique_by=None if self.wild else lambda each: each["function"]["name"])

    def options(self):
        thinking = st.one_of(
            st.just({"type": "enabled", "budget_tokens": 1024}),
            st.sampled_from([{"type": "disabled"}, {"type": "adaptive"}, {"type": "adaptive", "display": "omitted"}]),
        )
        answer_schema = maybe(type=st.just("object"), properties=JSON)
        formats = always(
            "json_schema", json_schema=st.fixed_dictionaries({"schema": self.one_of(answer_schema, JSON)})
        ) | st.just({"type": "text"})
        share = st.floats(-1, 2) if self.wild else st.floats(0, 1)
        stops = st.just("END") | st.lists(st.sampled_from(["a", "", 7, True]), max_size=2)
        choices = ["auto", "none", "required"]
        return {
            "stream": st.booleans(),
            "max_tokens": self.any_of([5000, 2**80], [0, 1, -1, 1.5]),
            "max_completion_tokens": self.any_of([None, 3000], [0, "7"]),
            "temperature": share,
            "top_p": share,
            "stop": self.one_of(stops, JSON),
            "thinking": self.one_of(thinking, JSON | maybe(type=WORDS, budget_tokens=st.integers())),
            "reasoning_effort": self.any_of(["low", "max", ""], ["none"]),
            "response_format": self.one_of(formats, JSON),
            "tools": self.tools(),
            "tool_choice": self.any_of(choices, ["x", {}, 7, {"type": "function", "function": {"name": "f"}}]),
            "parallel_tool_calls": st.booleans(),
            "n": self.any_of([None, 1], [2, "x"]),
            "seed": st.integers(),
            "user": WORDS,
        }

    def requests(self):
        model = self.any_of(["claude-opus-4-6", "a/opus-4-6:c d"], ["", "claude-x", None])
        return st.fixed_dictionaries({"model": model, "messages": self.messages()}, optional=self.options())


def upstream(schema, request):
    body = json.dumps(request).encode()
    parsed = ChatCompletions().parse(body, content_type="application/json", metering=False)
    translated = make_translator(schema, {}).request(parsed, query="", force=False)
    assert translated.body is not None
    accepts(translated.path, translated.body)


@given(request=Client(wild=False).requests(), schema=st.sampled_from(SCHEMAS))
def test_any_conversation_is_accepted_by_claude(request, schema):
    question = {"role": "user", "content": "q"}
    upstream(schema, {**request, "messages": [question, *request["messages"]]})


@given(request=Client(wild=True).requests(), schema=st.sampled_from(SCHEMAS))
def test_anything_else_is_refused_by_us_if_claude_would(request, schema):
    with contextlib.suppress(MalformedRequest, UnprocessableRequest):
        upstream(schema, request)


CALL = {"id": "t:1", "type": "function", "function": {"name": "f", "arguments": '{"a":1.0}'}}
GOOD_TURN = st.one_of(
    st.builds(lambda words: {"role": "user", "content": words}, st.sampled_from(["a", "a b", "ä"])),
    st.just({"role": "assistant", "content": "b", "tool_calls": [CALL]}),
    st.builds(
        lambda result: {"role": "tool", "tool_call_id": "t:1", "content": result},
        st.sampled_from(["", "r", '{"error":2}']),
    ),
    st.just({"role": "system", "content": "s"}),
)


@given(turns=st.lists(GOOD_TURN, max_size=8))
def test_no_word_of_a_good_conversation_is_lost(turns):
    given_ = [{"role": "user", "content": "first"}, *turns]
    body = sent({"messages": given_})
    blocks = [each for turn in body["messages"] for each in turn["content"]] + body.get("system", [])
    said = sorted(each["text"] for each in blocks if each["type"] == "text")
    assert said == sorted(turn["content"] for turn in given_ if turn["role"] != "tool")
    results = [each for each in blocks if each["type"] == "tool_result"]
    assert len(results) == sum(turn["role"] == "tool" for turn in given_)
    assert sum(each["type"] == "tool_use" for each in blocks) == sum("tool_calls" in turn for turn in given_)


# --- there and back ---

PIECES = st.lists(st.sampled_from(["a", " b", "\n", "ä😀", "c "]), min_size=1, max_size=4)


@st.composite
def answers(draw):
    """Blocks of an answer as Claude orders them: thoughts, words, calls."""
    blocks = []
    for number in range(draw(st.integers(0, 2))):
        thinking = "".join(draw(PIECES))
        blocks.append({"type": "thinking", "thinking": thinking, "signature": f"c2ln{number}"})
    if draw(st.booleans()):
        blocks.append({"type": "redacted_thinking", "data": "b3BhcXVl"})
    if draw(st.booleans()):
        blocks.append({"type": "text", "text": "x" + "".join(draw(PIECES))})
    arguments = st.dictionaries(st.sampled_from("ab"), JSON, max_size=2)
    blocks += [
        {"type": "tool_use", "id": f"toolu_{number}", "name": "f", "input": draw(arguments)}
        for number in range(draw(st.integers(0, 2)))
    ]
    return blocks


def told_in_events(blocks):
    """The events that tell these blocks."""
    events = [start()]
    for index, each in enumerate(blocks):
        match each["type"]:
            case "thinking":
                events += thinking_block(index, each["signature"], each["thinking"][:1], each["thinking"][1:])
            case "text":
                events += text_block(index, each["text"][:1], each["text"][1:])
            case "tool_use":
                arguments = json.dumps(each["input"])
                told = tool_block(index, each["name"], arguments[:1], arguments[1:])
                told[0]["content_block"]["id"] = each["id"]
                events += told
            case _:
                events += block(index, each)
    return [*events, *stop()]


def gathered(text):
    """The message that a client gathers from the chunks of a stream."""
    result: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[int, Any] = {}
    for delta in (choice["delta"] for chunk in chunks(text) for choice in chunk["choices"]):
        if "content" in delta:
            result["content"] = (result["content"] or "") + delta["content"]
        if "reasoning_content" in delta:
            result["reasoning_content"] = result.get("reasoning_content", "") + delta["reasoning_content"]
        if "thinking_blocks" in delta:
            assert "thinking_blocks" not in result
            result["thinking_blocks"] = delta["thinking_blocks"]
        for call in delta.get("tool_calls", ()):
            if "id" in call:
                calls[call["index"]] = {**call, "function": dict(call["function"])}
            else:
                calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    return {**result, "tool_calls": [calls[index] for index in sorted(calls)]}


@pytest.mark.parametrize("streamed", [False, True])
@given(blocks=answers(), schema=st.sampled_from(SCHEMAS))
def test_an_answer_that_is_sent_back_is_the_same(streamed, blocks, schema):
    translator, _ = ask(schema, {"stream": streamed})
    if streamed:
        results = converse(translator, [wire(schema, told_in_events(blocks))])
        history = gathered(b"".join(result.body or b"" for result in results).decode())
    else:
        body = json.dumps({"content": blocks, "stop_reason": "end_turn"}).encode()
        history = json.loads(translator.response_body(body, end_of_stream=True).body or b"")["choices"][0]["message"]
    question = {"role": "user", "content": "q"}
    turns = sent({"messages": [question, history, question]})["messages"]
    assert [each for turn in turns if turn["role"] == "assistant" for each in turn["content"]] == blocks
