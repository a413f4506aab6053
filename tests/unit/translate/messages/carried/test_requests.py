"""What a messages request becomes, member by member (contract, messages to chat completions 5.6)."""

import base64
import hashlib
import json

import pytest

from extproc.errors import MalformedRequest, UnprocessableRequest
from tests.unit.translate.messages.carried.attempts import (
    HELLO,
    WEATHER,
    ask,
    ask_bytes,
    assistant,
    sent,
    sent_messages,
    user,
)

PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAEC"}}
PNG_PART = {"image_url": {"url": "data:image/png;base64,AAEC"}, "type": "image_url"}
FORMAT = {"type": "json_schema", "schema": {"type": "object"}}
LONG_ID = "user_" + "a" * 60


def text(words, **more):
    return {"type": "text", "text": words, **more}


def part(words):
    return {"text": words, "type": "text"}


def result(of, content=None, **more):
    return {"type": "tool_result", "tool_use_id": of, **({} if content is None else {"content": content}), **more}


def use(name="f", **more):
    return {"type": "tool_use", "id": "t1", "name": name, "input": {}, **more}


# --- members ---

MEMBERS = {
    "nothing but the least": ({}, {"max_completion_tokens": 100}),
    "no limit is no limit of nothing": ({"max_tokens": None}, {}),
    "a limit with a fraction": ({"max_tokens": 15.0}, {"max_completion_tokens": 15}),
    "sampling": ({"temperature": 0.5, "top_p": 1.0}, {"temperature": 0.5, "top_p": 1}),
    "a stream has its usage": ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
    "no stream": ({"stream": False}, {}),
    "stop sequences": ({"stop_sequences": ["a", "b"]}, {"stop": ["a", "b"]}),
    "no stop sequences": ({"stop_sequences": []}, {}),
    "what nobody misses": (
        {"top_k": 3, "service_tier": "auto", "container": None, "context_management": {"edits": []}, "speed": "fast"},
        {},
    ),
    "a user": ({"metadata": {"user_id": "u" * 64}}, {"user": "u" * 64}),
    "a user with a long id": (
        {"metadata": {"user_id": LONG_ID}},
        {"user": hashlib.sha256(LONG_ID.encode()).hexdigest()},
    ),
    "no user": ({"metadata": {"user_id": None}}, {}),
    "thinking a little": ({"thinking": {"type": "enabled", "budget_tokens": 4095}}, {"reasoning_effort": "low"}),
    "thinking": ({"thinking": {"type": "enabled", "budget_tokens": 4096}}, {"reasoning_effort": "medium"}),
    "thinking hard": ({"thinking": {"type": "enabled", "budget_tokens": 16384}}, {"reasoning_effort": "high"}),
    "thinking as it likes": ({"thinking": {"type": "adaptive"}}, {"reasoning_effort": "medium"}),
    "not thinking": ({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}, {}),
    "an effort": ({"output_config": {"effort": "max"}}, {"reasoning_effort": "max"}),
    "an effort before a budget": (
        {"output_config": {"effort": "low"}, "thinking": {"type": "enabled", "budget_tokens": 20000}},
        {"reasoning_effort": "low"},
    ),
    "a format": (
        {"output_config": {"format": FORMAT}},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
            }
        },
    ),
    "a format as betas had it": (
        {"output_format": FORMAT},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
            }
        },
    ),
    "a choice without tools": ({"tool_choice": {"type": "any", "disable_parallel_tool_use": True}}, {}),
    "no tools": ({"tools": [], "tool_choice": {"type": "auto"}}, {}),
}


@pytest.mark.parametrize(("given", "expected"), MEMBERS.values(), ids=MEMBERS)
def test_members(given, expected):
    whole = sent(**given)
    base = {"messages": [{"content": "Hello", "role": "user"}], "model": "gpt-x", "max_completion_tokens": 100}
    if "max_tokens" in given:
        del base["max_completion_tokens"]
    assert whole == base | expected


CHOICES = {
    "auto": ({"type": "auto"}, {"tool_choice": "auto"}),
    "any": ({"type": "any"}, {"tool_choice": "required"}),
    "none": ({"type": "none"}, {"tool_choice": "none"}),
    "one tool": (
        {"type": "tool", "name": "get_weather"},
        {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}},
    ),
    "one at a time": (
        {"type": "auto", "disable_parallel_tool_use": True},
        {"tool_choice": "auto", "parallel_tool_calls": False},
    ),
    "several at a time": ({"type": "auto", "disable_parallel_tool_use": False}, {"tool_choice": "auto"}),
    "no choice": (None, {}),
}


@pytest.mark.parametrize(("choice", "expected"), CHOICES.values(), ids=CHOICES)
def test_choices_of_tools(choice, expected):
    whole = sent(tools=[WEATHER], tool_choice=choice)
    assert {name: whole[name] for name in ("tool_choice", "parallel_tool_calls") if name in whole} == expected


TOOLS = {
    "all of it": (
        {"name": "f", "type": "custom", "description": "d", "input_schema": {"type": "object"}, "strict": True},
        {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True},
    ),
    "cached": (
        {**WEATHER, "cache_control": {"type": "ephemeral"}},
        {"name": "get_weather", "parameters": {"type": "object"}},
    ),
    "without a schema": ({"name": "f"}, {"name": "f"}),
    "without any schema": ({"name": "f", "input_schema": None, "description": ""}, {"name": "f"}),
}


@pytest.mark.parametrize(("tool", "expected"), TOOLS.values(), ids=TOOLS)
def test_tools(tool, expected):
    assert sent(tools=[tool])["tools"] == [{"type": "function", "function": expected}]


@pytest.mark.parametrize("kind", ["web_search_20250305", "web_fetch_20250910", "tool_search_tool_regex_20251119"])
@pytest.mark.parametrize("schema", ["OpenAI", "GCPVertexAI"])
def test_what_agents_declare_in_any_case_is_left_out_beside_other_tools(kind, schema):
    """To refuse it would be to refuse the agents."""
    body = ask({"tools": [{"type": kind, "name": "s"}, {**WEATHER, "defer_loading": True}]}, schema)[2]
    assert b"get_weather" in body
    assert kind.encode() not in body
    assert "tools" not in sent(tools=[{"type": kind, "name": "s"}], tool_choice={"type": "none"})


def test_a_schema_reaches_the_backend_as_it_is():
    schema = b'{"type": "object", "$defs": {"b": {"maximum": 1.0}, "a": {}}, "additionalProperties": false}'
    body = b'{"model":"m","messages":[],"tools":[{"name":"f","input_schema":' + schema + b"}]}"
    assert b'"parameters":' + schema in ask_bytes(body)[2]


def test_members_stand_in_the_contract_s_order():
    everything = {
        "stream": True,
        "temperature": 1,
        "top_p": 1,
        "tools": [WEATHER],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "output_config": {"effort": "low", "format": FORMAT},
        "stop_sequences": ["x"],
        "metadata": {"user_id": "u"},
    }
    common = ["messages", "model", "max_completion_tokens", "stream", "stream_options", "temperature", "top_p"]
    ends = ["response_format", "parallel_tool_calls", "user", "stop"]
    assert list(sent(**everything)) == [*common, "tools", "tool_choice", "reasoning_effort", *ends]


# --- the system prompt ---

SYSTEMS = {
    "a text": ("Be brief.", [], "Be brief."),
    "one block": ([text("Be brief.", cache_control={"type": "ephemeral"})], [], "Be brief."),
    "two blocks": ([text("A"), text(""), text("B")], [], "A\nB"),
    "in the conversation as well": (
        "A",
        [{"role": "system", "content": "B"}, {"role": "system", "content": [text("C")]}],
        "A\nB\nC",
    ),
    "only in the conversation": (None, [{"role": "system", "content": "B"}], "B"),
}


@pytest.mark.parametrize(("system", "more", "expected"), SYSTEMS.values(), ids=SYSTEMS)
def test_the_system_prompt_is_one_text(system, more, expected):
    assert sent_messages(*HELLO, *more, system=system) == [
        {"content": expected, "role": "system"},
        {"content": "Hello", "role": "user"},
    ]


@pytest.mark.parametrize("system", ["", [], [text("")], None])
def test_an_empty_system_prompt_is_none(system):
    assert sent_messages(*HELLO, system=system) == [{"content": "Hello", "role": "user"}]


# --- what the user says ---

DOCUMENT = {"type": "document", "title": "T", "context": "C"}
USERS = {
    "one text": ([text("a")], "a"),
    "texts": ([text("a"), text(""), text("b")], "ab"),
    "an image": ([text("a"), PNG, text("b")], [part("a"), PNG_PART, part("b")]),
    "an image elsewhere": (
        [{"type": "image", "source": {"type": "url", "url": "https://a/b"}}],
        [{"image_url": {"url": "https://a/b"}, "type": "image_url"}],
    ),
    "a PDF": (
        [{**DOCUMENT, "source": {"type": "base64", "media_type": "application/pdf", "data": "AAEC"}}],
        [part("C"), {"file": {"file_data": "data:application/pdf;base64,AAEC", "filename": "T.pdf"}, "type": "file"}],
    ),
    "a PDF without a name": (
        [{"type": "document", "source": {"type": "base64", "data": "AAEC"}}],
        [{"file": {"file_data": "data:application/pdf;base64,AAEC", "filename": "document.pdf"}, "type": "file"}],
    ),
    "a text as document": (
        [{**DOCUMENT, "source": {"type": "text", "media_type": "text/plain", "data": "x"}}, text("y")],
        "T\nC\nxy",
    ),
    "a text in base64": (
        [{"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": "w7w="}}],
        "ü",
    ),
    "a document of blocks": (
        [{**DOCUMENT, "source": {"type": "content", "content": [text("x"), PNG]}}],
        [part("T\nC\n"), part("x"), PNG_PART],
    ),
    "a document of a text": ([{"type": "document", "source": {"type": "content", "content": "x"}}], "x"),
    "what a search has found": (
        [{"type": "search_result", "title": "T", "source": "https://a", "content": [text("x"), text("y")]}],
        "T\nhttps://a\nx\ny",
    ),
}


@pytest.mark.parametrize(("blocks", "expected"), USERS.values(), ids=USERS)
def test_users(blocks, expected):
    assert sent_messages(user(*blocks)) == [{"content": expected, "role": "user"}]


@pytest.mark.parametrize("content", ["", [], [text("")], None])
def test_a_user_who_says_nothing_is_not_sent(content):
    assert sent_messages({"role": "user", "content": content}, *HELLO) == [{"content": "Hello", "role": "user"}]


RESULTS = {
    "a text": (result("t1", "sun"), "sun"),
    "blocks": (result("t1", [text("a"), text("b")]), "ab"),
    "nothing": (result("t1"), ""),
    "no blocks": (result("t1", []), ""),
    "an error": (result("t1", "not found", is_error=True), "Error: not found"),
    "an error without a word": (result("t1", is_error=True), "Error"),
    "no error": (result("t1", "x", is_error=False), "x"),
    "tools that a search has found": (
        result("t1", [{"type": "tool_reference", "tool_name": "a"}, {"type": "tool_reference", "tool_name": "b"}]),
        "[the tool a can be called][the tool b can be called]",
    ),
    "a search": (result("t1", [{"type": "search_result", "title": "T", "source": "s", "content": []}]), "T\ns"),
}


@pytest.mark.parametrize(("block", "expected"), RESULTS.values(), ids=RESULTS)
def test_results(block, expected):
    assert sent_messages(assistant(use()), user(block))[1:] == [
        {"content": expected, "role": "tool", "tool_call_id": "t1"}
    ]


def test_all_results_of_a_turn_come_before_what_the_user_says():
    turn = [user(text("first"), result("t1", "a")), user(result("t2", [PNG, text("b")]), text("last"), PNG)]
    found = sent_messages(assistant(use(), use(id="t2")), *turn)[1:]
    assert [each["role"] for each in found] == ["tool", "tool", "user", "user"]
    assert [each["content"] for each in found] == [
        "a",
        "b\n[1 attached to the next message of the user]",
        [part("[attached to the result of t2]"), PNG_PART, part("first")],
        [part("last"), PNG_PART],
    ]


def test_what_is_attached_to_a_result_stands_alone_when_the_user_says_nothing():
    found = sent_messages(assistant(use()), user(result("t1", [PNG])), assistant(text("ok")))
    assert [each["role"] for each in found] == ["assistant", "tool", "user", "assistant"]
    assert found[1]["content"] == "[1 attached to the next message of the user]"


# --- what the model has said ---

ASSISTANTS = {
    "a text": ("a", {"content": "a"}),
    "texts": ([text("a"), text("b")], {"content": "ab"}),
    "a call": (
        [use(input={"x": 1})],
        {
            "content": None,
            "tool_calls": [{"id": "t1", "function": {"arguments": '{"x":1}', "name": "f"}, "type": "function"}],
        },
    ),
    "thoughts are dropped": (
        [
            {"type": "thinking", "thinking": "t", "signature": "s"},
            {"type": "redacted_thinking", "data": "d"},
            text("a"),
        ],
        {"content": "a"},
    ),
}


@pytest.mark.parametrize(("content", "expected"), ASSISTANTS.values(), ids=ASSISTANTS)
def test_assistants(content, expected):
    assert sent_messages({"role": "assistant", "content": content}) == [{"role": "assistant", **expected}]


@pytest.mark.parametrize("content", ["", [], [{"type": "thinking", "thinking": "t", "signature": "s"}]])
def test_an_answer_without_a_word_is_not_sent(content):
    assert sent_messages(*HELLO, {"role": "assistant", "content": content}) == [{"content": "Hello", "role": "user"}]


ARGUMENTS = {
    "numbers": ('{"a" : 1.0, "b":[1e5, 12345678901234567890123] }', '{"a":1.0,"b":[1e5,12345678901234567890123]}'),
    "nothing": ("null", "{}"),
    "escapes": (r'{"a":"\u00e4 \n b"}', r'{"a":"\u00e4 \n b"}'),
}


@pytest.mark.parametrize(("given", "expected"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_are_spelled_as_the_client_did(given, expected):
    body = (
        '{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":%s}]}]}'
    )
    chat = ask_bytes((body % given).encode())[2]
    assert json.loads(chat)["messages"][0]["tool_calls"][0]["function"]["arguments"] == expected


def test_a_call_without_input_has_none():
    block = {"type": "tool_use", "id": "t", "name": "f"}
    [message] = sent_messages(assistant(block))
    assert message["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize("kind", ["server_tool_use", "web_search_tool_result", "tool_search_tool_result"])
def test_a_search_that_only_claude_can_read_is_dropped(kind):
    block = {"type": kind, "id": "s", "tool_use_id": "s", "name": "web_search", "input": {}, "content": []}
    assert sent_messages(assistant(block, text("found"))) == [{"role": "assistant", "content": "found"}]


# --- what is refused ---

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}

REFUSED = {
    "a tool of Anthropic's": ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type"),
    "an editor": ({"tools": [WEATHER, {"type": "text_editor_20250728", "name": "e"}]}, "tools[1].type"),
    "a container": ({"tools": [WEATHER, {"type": "code_execution_20250825", "name": "c"}]}, "tools[1].type"),
    "nothing but a search": ({"tools": [SEARCH]}, "tools[0].type"),
    "a search that has to be made": (
        {"tools": [WEATHER, SEARCH], "tool_choice": {"type": "tool", "name": "web_search"}},
        "tools[1].type",
    ),
    "a tool without a name": ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
    "an unknown choice": ({"tools": [WEATHER], "tool_choice": {"type": "x"}}, "tool_choice.type"),
    "a choice of no tool": ({"tools": [WEATHER], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
    "an unknown way to think": ({"thinking": {"type": "x"}}, "thinking.type"),
    "an unknown effort": ({"output_config": {"effort": "x"}}, "output_config.effort"),
    "an unknown format": ({"output_format": {"type": "x"}}, "output_format.type"),
    "a format without a schema": (
        {"output_config": {"format": {"type": "json_schema"}}},
        "output_config.format.schema",
    ),
    "a limit beyond everything": ({"max_tokens": 1e300}, "max_tokens"),
    "MCP servers": ({"mcp_servers": [{"name": "m"}]}, "mcp_servers"),
    "a role": ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
    "a system prompt that is no text": ({"system": [PNG]}, "system[0]"),
    "a system message that is no text": (
        {"messages": [{"role": "system", "content": [PNG]}]},
        "messages[0].content[0]",
    ),
}
BLOCKS = {
    "an unknown block": ({"type": "x"}, ""),
    "a block of a server's tool": ({"type": "web_search_tool_result", "tool_use_id": "s", "content": []}, ""),
    "a call of the user's": (use(), ""),
    "an image without a source": ({"type": "image"}, ".source"),
    "an image without a type": ({"type": "image", "source": {"type": "base64", "data": "AA"}}, ".source.media_type"),
    "an image without data": (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png"}},
        ".source.data",
    ),
    "an image without an address": ({"type": "image", "source": {"type": "url"}}, ".source.url"),
    "an image in a store": ({"type": "image", "source": {"type": "file", "file_id": "f"}}, ".source.type"),
    "a document elsewhere": ({"type": "document", "source": {"type": "url", "url": "https://a"}}, ".source.type"),
    "a document in a store": ({"type": "document", "source": {"type": "file", "file_id": "f"}}, ".source.type"),
    "a document of a strange type": (
        {"type": "document", "source": {"type": "base64", "media_type": "a/b", "data": "AA"}},
        ".source.media_type",
    ),
    "a text that is none": (
        {"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": "/w=="}},
        ".source.data",
    ),
    "a text that is not base64": (
        {"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": "%"}},
        ".source.data",
    ),
    "a PDF without data": ({"type": "document", "source": {"type": "base64"}}, ".source.data"),
    "a result of nothing": ({"type": "tool_result", "content": "x"}, ".tool_use_id"),
    "a result that is an object": (result("t", {"type": "x"}), ".content"),
    "a result with an unknown block": (result("t", [{"type": "x"}]), ".content[0]"),
    "a tool without a name": (result("t", [{"type": "tool_reference"}]), ".content[0].tool_name"),
    "a search that is an object": ({"type": "search_result", "content": {}}, ".content"),
    "a search with an image": ({"type": "search_result", "content": [PNG]}, ".content[0]"),
}
CALLS = {
    "without an id": (use(id=None), ".id"),
    "without a name": (use(name=None), ".name"),
    "whose input is no object": (use(input=[1]), ".input"),
    "of a server": (use(type="mcp_tool_use"), ""),
    "with an image": (PNG, ""),
}
REFUSED |= {
    name: ({"messages": [user(text("a"), each)]}, f"messages[0].content[1]{where}")
    for name, (each, where) in BLOCKS.items()
}
REFUSED |= {
    f"a call {name}": ({"messages": [assistant(each)]}, f"messages[0].content[0]{where}")
    for name, (each, where) in CALLS.items()
}


@pytest.mark.parametrize(("request_", "member"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("schema", ["OpenAI", "GCPVertexAI"])
def test_what_cannot_be_said_is_refused_by_name(schema, request_, member):
    with pytest.raises(UnprocessableRequest) as caught:
        ask(request_, schema)
    assert (
        str(caught.value)
        .removeprefix("invalid request body: ")
        .startswith(f"{member}:" if "mcp" not in member else member)
    )


MALFORMED = {
    "messages that are a text": b'{"model":"m","messages":"x"}',
    "a choice that is a number": b'{"model":"m","tool_choice":7}',
    "a schema that is not in UTF-8": b'{"model":"m","tools":[{"name":"f","input_schema":{"a":"\xff"}}]}',
    "a number beyond doubles": b'{"model":"m","temperature":1e999}',
    "nested without end": b'{"model":"m","metadata":' + b'{"a":' * 20000 + b"1" + b"}" * 20001,
    "no number": b'{"model":"m","temperature":NaN}',
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_request_is_malformed(body):
    with pytest.raises(MalformedRequest):
        ask_bytes(body)


# --- Gemini ---


def test_gemini_is_told_how_to_think_and_what_it_has_thought():
    thought = {"type": "thinking", "thinking": "t", "signature": "gemini.c2ln"}
    foreign = {"type": "thinking", "thinking": "u", "signature": "Q2xhdWRl"}
    request = {
        "thinking": {"type": "enabled", "budget_tokens": 1024, "display": "omitted"},
        "output_config": {"effort": "max"},
        "messages": [*HELLO, assistant(thought, foreign, text("a")), *HELLO],
    }
    body = json.loads(ask(request, "GCPVertexAI")[2])
    assert body["generationConfig"]["thinkingConfig"] == {"thinkingBudget": 1024}
    assert body["contents"][1]["parts"] == [
        {"text": "t", "thought": True},
        {"text": "u", "thought": True},
        {"text": "a", "thoughtSignature": "c2ln"},
    ]


FOREIGN = {
    "of Claude's": {"type": "thinking", "thinking": "", "signature": "Q2xhdWRl"},
    "of nobody's": {"type": "thinking", "thinking": "", "signature": "gemini.?"},
    "an empty one": {"type": "thinking", "thinking": "", "signature": "gemini."},
}


@pytest.mark.parametrize("thought", FOREIGN.values(), ids=FOREIGN)
def test_gemini_is_given_no_signature_that_is_not_its_own(thought):
    """A conversation that Claude has begun goes on with Gemini, which refuses what it has not signed."""
    body = json.loads(ask({"messages": [*HELLO, assistant(thought, use()), user(result("t1", "x"))]}, "GCPVertexAI")[2])
    [call] = body["contents"][1]["parts"]
    assert call["functionCall"]["name"] == "f"
    assert base64.b64decode(call["thoughtSignature"]) == b"skip_thought_signature_validator"


STOPS = {
    "gemini-2.5-flash": {"thinkingBudget": 0},
    "gemini-flash-latest": {"thinkingBudget": 0},
    "gemini-2.5-pro": None,
    "gemini-3-pro-preview": None,
    "gemini-2.0-flash": None,
}


@pytest.mark.parametrize(("model", "expected"), STOPS.items(), ids=STOPS)
def test_a_model_that_cannot_but_think_is_not_told_to_stop(model, expected):
    body = json.loads(ask({"model": model, "thinking": {"type": "disabled"}}, "GCPVertexAI")[2])
    assert body["generationConfig"].get("thinkingConfig") == expected
