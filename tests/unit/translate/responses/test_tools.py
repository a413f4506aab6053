"""Tools of the responses API over chat completions: what the model is offered, and what its calls read like."""

from __future__ import annotations

import json

import pytest

from extproc.errors import UnprocessableRequest
from tests.unit.translate.responses.attempts import ask, call, end, messages, sent, streamed, told
from tests.unit.translate.responses.oracle import follow_stream, read_response

FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
PATCH = {"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": GRAMMAR}
SHELL = {"type": "local_shell"}
SPACE = {
    "type": "namespace",
    "name": "mcp__files__",
    "description": "d",
    "tools": [
        {"type": "function", "name": "read", "parameters": {"type": "object"}, "defer_loading": True},
        {"type": "custom", "name": "note"},
    ],
}
SEARCH = {"type": "web_search", "external_web_access": False}
TOOLS = [FUNCTION, PATCH, SEARCH, SHELL, SPACE, {"type": "tool_search"}, {"type": "image_generation"}]


def offered(**request):
    return {tool["function"]["name"]: tool["function"] for tool in sent(request).get("tools", ())}


def test_every_tool_of_the_clients_becomes_a_function():
    functions = offered(tools=TOOLS)
    assert list(functions) == ["f", "apply_patch", "local_shell", "mcp__files__read", "mcp__files__note"]
    text = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    assert functions["apply_patch"] == {
        "name": "apply_patch",
        "description": "Edits files.\n\nThe input must match this lark grammar:\nstart: /.+/",
        "parameters": {**text, "additionalProperties": False},
    }
    assert functions["mcp__files__note"]["parameters"]["properties"] == text["properties"]
    assert "description" not in functions["mcp__files__note"]
    assert functions["local_shell"]["parameters"]["required"] == ["command"]


@pytest.mark.parametrize("kind", ["web_search", "web_search_preview", "tool_search", "image_generation"])
def test_what_agents_declare_in_any_case_is_left_out_beside_other_tools_and_refused_alone(kind):
    """To refuse it would be to refuse the agents; alone it is what the request is about."""
    assert list(offered(tools=[{"type": kind}, FUNCTION])) == ["f"]
    assert offered(tools=[{"type": kind}], tool_choice="none") == {}
    with pytest.raises(UnprocessableRequest, match=r"tools\[0\].type: a tool of type"):
        ask({"tools": [{"type": kind}]})


def function(name):
    return {"type": "function", "function": {"name": name}}


CHOICES = {
    "a custom tool": ({"type": "custom", "name": "apply_patch"}, function("apply_patch")),
    "the shell": ({"type": "local_shell"}, function("local_shell")),
    "some": (
        {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "custom", "name": "apply_patch"}, {"type": "web_search"}],
        },
        "required",
    ),
}


@pytest.mark.parametrize(("choice", "expected"), CHOICES.values(), ids=CHOICES)
def test_choices(choice, expected):
    request = sent({"tools": TOOLS, "tool_choice": choice})
    assert request["tool_choice"] == expected
    assert len(request["tools"]) == (1 if expected == "required" else 5)


REFUSED = {
    "a choice of another kind": ({"type": "function", "name": "apply_patch"}, "there is no function 'apply_patch'"),
    "a choice of none": ({"type": "custom", "name": "x"}, "there is no custom 'x'"),
    "a search": ({"type": "web_search_preview"}, "tool_choice.type: 'web_search_preview'"),
}


@pytest.mark.parametrize(("choice", "text"), REFUSED.values(), ids=REFUSED)
def test_choices_that_are_refused(choice, text):
    with pytest.raises(UnprocessableRequest, match=text):
        ask({"tools": TOOLS, "tool_choice": choice})


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "namespace", "tools": [FUNCTION]},
        {"type": "namespace", "name": "n", "tools": [{"type": "function"}]},
        {"type": "namespace", "name": "n", "tools": [{"type": "namespace", "name": "m"}]},
        {"type": "namespace", "name": "n", "tools": [SEARCH]},
        {"type": "custom"},
        {"type": "custom", "name": "f"},
    ],
    ids=str,
)
def test_tools_that_are_refused(tool):
    with pytest.raises(UnprocessableRequest, match=r"tools\[1\]"):
        ask({"tools": [FUNCTION, tool]})


# --- what calls read like ---

MADE = {
    # the call of the model: the item that the client reads
    "a custom tool": (
        ("apply_patch", '{"input":"*** Begin\\n"}'),
        {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin\n"},
    ),
    "a custom tool without its wrapping": (
        ("apply_patch", "*** Begin\n"),
        {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin\n"},
    ),
    "a custom tool with the wrong wrapping": (
        ("apply_patch", '{"patch":1}'),
        {"type": "custom_tool_call", "name": "apply_patch", "input": '{"patch":1}'},
    ),
    "a custom tool of a namespace": (
        ("mcp__files__note", '{"input":""}'),
        {"type": "custom_tool_call", "name": "note", "namespace": "mcp__files__", "input": ""},
    ),
    "a function of a namespace": (
        ("mcp__files__read", '{"a":1}'),
        {"type": "function_call", "name": "read", "namespace": "mcp__files__", "arguments": '{"a":1}'},
    ),
    "the shell": (
        ("local_shell", '{"command":["ls","-l"],"timeout_ms":9}'),
        {
            "type": "local_shell_call",
            "action": {
                "type": "exec",
                "command": ["ls", "-l"],
                "env": {},
                "timeout_ms": 9,
                "user": None,
                "working_directory": None,
            },
        },
    ),
    "no command of the shell": (
        ("local_shell", '{"command":"ls"}'),
        {
            "type": "local_shell_call",
            "action": {
                "type": "exec",
                "command": [],
                "env": {},
                "timeout_ms": None,
                "user": None,
                "working_directory": None,
            },
        },
    ),
    "a tool that nobody has": (("g", "{}"), {"type": "function_call", "name": "g", "arguments": "{}"}),
}


@pytest.mark.parametrize(("made", "expected"), MADE.values(), ids=MADE)
def test_calls_read_as_what_was_called(made, expected):
    name, arguments = made
    whole = {"tool_calls": [{"id": "c1", "function": {"name": name, "arguments": arguments}}]}
    (item,) = read_response(told(whole, {"tools": TOOLS}).body).output
    found = json.loads(item.to_json())
    assert {key: value for key, value in found.items() if key not in {"id", "status", "call_id"}} == expected
    assert (found["call_id"], found["status"]) == ("c1", "completed")
    half = len(arguments) // 2
    heard = streamed(
        call(0, arguments[:half], id="c1", name=name),
        call(0, arguments[half:]),
        end("tool_calls"),
        request={"tools": TOOLS},
    )
    events, response = follow_stream(heard.body)
    last = json.loads(response.output[0].to_json())
    assert {key: last[key] for key in expected} == expected
    assert (last["call_id"], last["status"]) == ("c1", "completed")
    inputs = [event for event in events if event.type.startswith("response.custom_tool_call_input")]
    assert [event.type.rpartition(".")[2] for event in inputs] == (["delta", "done"] if "input" in expected else [])
    assert [getattr(event, "delta", None) or getattr(event, "input", "") for event in inputs] == [
        expected.get("input")
    ] * len(inputs)


def test_the_client_is_told_which_tools_there_were():
    told_back = json.loads(told({"content": "a"}, {"tools": TOOLS}).body)["tools"]
    assert told_back == [{**FUNCTION, "description": None}, PATCH, SHELL, SPACE]


# --- a conversation that goes on ---

PNG = "data:image/png;base64,iVBORw0KGgo="
ASKED = {"role": "user", "content": "q"}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}


def chat_call(name, arguments, call_id="c1"):
    call = {"id": call_id, "function": {"arguments": arguments, "name": name}, "type": "function"}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def chat_result(content="done", call_id="c1"):
    return {"content": content, "role": "tool", "tool_call_id": call_id}


def picture(note="[1 attached to the next message of the user]"):
    label = {"text": "[attached to the result of c1]", "type": "text"}
    part = {"image_url": {"url": PNG}, "type": "image_url"}
    return [chat_result(note), {"content": [label, part], "role": "user"}]


IMAGE = {"type": "input_image", "image_url": PNG}
CONVERSATIONS = {
    "a custom tool": (
        [
            {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "apply_patch", "input": 'a"\n'},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
        ],
        [chat_call("apply_patch", '{"input":"a\\"\\n"}'), chat_result()],
    ),
    "a function of a namespace": (
        [
            {**CALL, "namespace": "mcp__files__", "name": "read"},
            {"type": "function_call_output", "call_id": "c1", "output": "done"},
        ],
        [chat_call("mcp__files__read", "{}"), chat_result()],
    ),
    "the shell": (
        [
            {
                "type": "local_shell_call",
                "id": "lsh_1",
                "call_id": "c1",
                "status": "completed",
                "action": {"type": "exec", "command": ["ls"], "env": {}, "timeout_ms": None},
            },
            {"type": "local_shell_call_output", "id": "lsh_1", "output": "done"},
        ],
        [chat_call("local_shell", '{"command":["ls"]}'), chat_result()],
    ),
    "the shell, answered by the id of its call": (
        [
            {"type": "local_shell_call", "call_id": "c1", "action": {"type": "exec", "command": ["ls"], "env": {}}},
            {"type": "function_call_output", "call_id": "c1", "output": "done"},
        ],
        [chat_call("local_shell", '{"command":["ls"]}'), chat_result()],
    ),
    "an image as a result": (
        [CALL, {"type": "function_call_output", "call_id": "c1", "output": [IMAGE]}],
        [chat_call("f", "{}"), *picture()],
    ),
    "a text and an image as a result": (
        [
            CALL,
            {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "a"}, IMAGE]},
        ],
        [chat_call("f", "{}"), *picture("a\n[1 attached to the next message of the user]")],
    ),
    "a search that OpenAI has made": (
        [
            {
                "type": "web_search_call",
                "id": "ws_1",
                "status": "completed",
                "action": {"type": "search", "query": "q"},
            },
            {"role": "assistant", "content": "found"},
        ],
        [{"role": "assistant", "content": "found"}],
    ),
}


@pytest.mark.parametrize(("items", "expected"), CONVERSATIONS.values(), ids=CONVERSATIONS)
def test_conversations(items, expected):
    assert messages(ASKED, *items) == [{"content": "q", "role": "user"}, *expected]


def test_what_is_attached_to_results_comes_after_all_of_them():
    items = [
        CALL,
        {**CALL, "call_id": "c2"},
        {"type": "function_call_output", "call_id": "c1", "output": [IMAGE]},
        {"type": "function_call_output", "call_id": "c2", "output": "done"},
        ASKED,
    ]
    assert [each["role"] for each in messages(ASKED, *items)] == ["user", "assistant", "tool", "tool", "user", "user"]
