"""Requests of the responses API on backends that only serve chat completions: mapped, or refused by name."""

from __future__ import annotations

import base64
import json

import pytest

from extproc.endpoints.base import ParsedRequest
from extproc.errors import MalformedRequest, UnprocessableRequest
from extproc.translate.responses.thoughts import unseal
from tests.unit.translate.responses.attempts import ask, messages, sent

FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True, "description": "d"}
CHAT_FUNCTION = {
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True},
}
OTHER = {"type": "function", "name": "g"}
CHAT_OTHER = {"type": "function", "function": {"name": "g"}}
SCHEMA = {"type": "object", "properties": {"a": {"const": 1}}}

MEMBERS = {
    # of the request: of the chat completion
    "max_output_tokens": ({"max_output_tokens": 9}, {"max_completion_tokens": 9}),
    "temperature": ({"temperature": 0.5}, {"temperature": 0.5}),
    "top_p": ({"top_p": 1}, {"top_p": 1}),
    "penalties": (
        {"frequency_penalty": 1, "presence_penalty": -0.5},
        {"frequency_penalty": 1, "presence_penalty": -0.5},
    ),
    "top_logprobs": ({"top_logprobs": 2}, {"logprobs": True, "top_logprobs": 2}),
    "include logprobs": ({"include": ["message.output_text.logprobs"]}, {"logprobs": True}),
    "user": ({"user": "u"}, {"user": "u"}),
    "safety_identifier": ({"safety_identifier": "s"}, {"safety_identifier": "s"}),
    "service_tier": ({"service_tier": "flex"}, {"service_tier": "flex"}),
    "reasoning.effort": ({"reasoning": {"effort": "low", "summary": "auto"}}, {"reasoning_effort": "low"}),
    "thinking": (
        {"thinking": {"type": "enabled", "budget_tokens": 9}},
        {"thinking": {"type": "enabled", "budget_tokens": 9}},
    ),
    "text.verbosity": ({"text": {"verbosity": "low"}}, {"verbosity": "low"}),
    "text.format text": ({"text": {"format": {"type": "text"}}}, {}),
    "text.format json_object": (
        {"text": {"format": {"type": "json_object"}}},
        {"response_format": {"type": "json_object"}},
    ),
    "text.format json_schema": (
        {
            "text": {
                "format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True, "description": "d"}
            }
        },
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "description": "d", "schema": SCHEMA, "strict": True},
            }
        },
    ),
    "tools": ({"tools": [FUNCTION, OTHER]}, {"tools": [CHAT_FUNCTION, CHAT_OTHER]}),
    "tools without parameters": (
        {"tools": [{**OTHER, "parameters": None, "strict": None, "description": None}]},
        {"tools": [CHAT_OTHER]},
    ),
    "no tools": ({"tools": [], "tool_choice": "auto", "parallel_tool_calls": False}, {}),
    "parallel_tool_calls": (
        {"tools": [OTHER], "parallel_tool_calls": False},
        {"tools": [CHAT_OTHER], "parallel_tool_calls": False},
    ),
    **{
        f"tool_choice {word}": (
            {"tools": [OTHER], "tool_choice": word},
            {"tools": [CHAT_OTHER], "tool_choice": word},
        )
        for word in ("none", "auto", "required")
    },
    "tool_choice of a function": (
        {"tools": [FUNCTION, OTHER], "tool_choice": {"type": "function", "name": "g"}},
        {
            "tools": [CHAT_FUNCTION, CHAT_OTHER],
            "tool_choice": {"type": "function", "function": {"name": "g"}},
        },
    ),
    "tool_choice of allowed tools": (
        {
            "tools": [FUNCTION, OTHER],
            "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "g"}]},
        },
        {"tools": [CHAT_OTHER], "tool_choice": "required"},
    ),
    "tool_choice of no tool": (
        {"tools": [FUNCTION], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}},
        {},
    ),
    "stream": ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
    "what changes no answer": (
        {
            "store": True,
            "metadata": {"a": "b"},
            "truncation": "auto",
            "background": False,
            "include": ["reasoning.encrypted_content"],
            "max_tool_calls": 3,
            "prompt_cache_key": "k",
            "prompt_cache_retention": "24h",
            "stream_options": {"include_obfuscation": False},
            "brand_new": 1,
        },
        {},
    ),
    "what is null is absent": (
        {
            **dict.fromkeys(
                ("instructions", "max_output_tokens", "temperature", "tools", "tool_choice", "text", "user")
            ),
            **dict.fromkeys(("previous_response_id", "conversation", "prompt", "background", "context_management")),
            "reasoning": None,
            "thinking": None,
        },
        {},
    ),
    "empty state": ({"previous_response_id": "", "context_management": [], "reasoning": {"mode": "standard"}}, {}),
}


@pytest.mark.parametrize("case", MEMBERS)
def test_members(case):
    members, expected = MEMBERS[case]
    assert sent(members) == {"messages": [{"content": "Hello", "role": "user"}], "model": "m", **expected}


def test_members_stand_in_the_order_of_the_contract():
    members = {
        "stream": True,
        "top_p": 1,
        "temperature": 1,
        "tools": [OTHER],
        "tool_choice": "auto",
        "max_output_tokens": 1,
    }
    assert list(sent({**members, "reasoning": {"effort": "low"}, "user": "u"})) == [
        "messages",
        "model",
        "max_completion_tokens",
        "stream",
        "stream_options",
        "temperature",
        "top_p",
        "tools",
        "tool_choice",
        "reasoning_effort",
        "user",
    ]


def test_free_form_json_stays_as_it_is_spelled():
    body = b'{"model":"m","input":"x","tools":[{"type":"function","name":"f","parameters":{"b":1.0e2, "a":1}}]}'
    translator, _ = ask({})
    translated = translator.request(ParsedRequest(model="m", stream=False, body=body), query="", force=False)
    assert b'"parameters":{"b":1.0e2, "a":1}' in (translated.body or b"")


def test_the_clients_query_stays_here_and_the_override_is_used():
    body = b'{"model":"m","input":"x"}'
    parsed = ParsedRequest(model="m", stream=False, body=body)
    translator, _ = ask({}, model_override="real", chat_only=True, prefix="v1")
    translated = translator.request(parsed, query="a=1", force=False)
    assert translated.path == "/v1/chat/completions"
    assert json.loads(translated.body or b"")["model"] == "real"


def test_a_deployment_of_azure():
    _, translated = ask({}, "AzureOpenAI", model_override="d 1", chat_only=True, version="2024-10-21")
    assert translated.path == "/openai/deployments/d%201/chat/completions?api-version=2024-10-21"
    assert json.loads(translated.body or b"")["model"] == "d 1"


# --- the conversation ---


def user(*content):
    return {"role": "user", "content": list(content)}


def call(call_id="c", name="f", arguments="{}"):
    return {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": name, "arguments": arguments}


def output(call_id="c", text="done"):
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def said(text):
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    return {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": content}


def chat_call(call_id="c", name="f", arguments="{}"):
    return {"id": call_id, "function": {"arguments": arguments, "name": name}, "type": "function"}


def chat_said(content, *calls):
    return {"role": "assistant", "content": content, **({"tool_calls": list(calls)} if calls else {})}


def chat_result(call_id="c", content="done"):
    return {"content": content, "role": "tool", "tool_call_id": call_id}


ASKED = user({"type": "input_text", "text": "q"})
CHAT_ASKED = {"content": "q", "role": "user"}
PNG = "data:image/png;base64,iVBORw0KGgo="

CONVERSATIONS = {
    "a text": ([{"role": "user", "content": "q"}], [CHAT_ASKED]),
    "a typed message": ([{"type": "message", **ASKED}], [CHAT_ASKED]),
    "an empty content": ([user()], [{"content": "", "role": "user"}]),
    "several texts": (
        [user({"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"})],
        [{"content": [{"text": "a", "type": "text"}, {"text": "b", "type": "text"}], "role": "user"}],
    ),
    "an image": (
        [
            user(
                {"type": "input_image", "image_url": PNG, "detail": "low"},
                {"type": "input_image", "image_url": "https://x"},
            )
        ],
        [
            {
                "content": [
                    {"image_url": {"url": PNG, "detail": "low"}, "type": "image_url"},
                    {"image_url": {"url": "https://x"}, "type": "image_url"},
                ],
                "role": "user",
            }
        ],
    ),
    "files": (
        [
            user(
                {"type": "input_file", "file_data": "data:application/pdf;base64,eA==", "filename": "a.pdf"},
                {"type": "input_file", "file_id": "file-1"},
            )
        ],
        [
            {
                "content": [
                    {"file": {"file_data": "data:application/pdf;base64,eA==", "filename": "a.pdf"}, "type": "file"},
                    {"file": {"file_id": "file-1"}, "type": "file"},
                ],
                "role": "user",
            }
        ],
    ),
    "audio": (
        [user({"type": "input_audio", "input_audio": {"data": "eA==", "format": "wav"}})],
        [{"content": [{"input_audio": {"data": "eA==", "format": "wav"}, "type": "input_audio"}], "role": "user"}],
    ),
    "instructions of both roles": (
        [
            {"role": "system", "content": "s"},
            {"role": "developer", "content": [{"type": "input_text", "text": "d"}]},
            ASKED,
        ],
        [{"content": "s", "role": "system"}, {"content": "d", "role": "system"}, CHAT_ASKED],
    ),
    "an answer": ([ASKED, said("a"), ASKED], [CHAT_ASKED, chat_said("a"), CHAT_ASKED]),
    "an easy answer": (
        [ASKED, {"role": "assistant", "content": "a"}, ASKED],
        [CHAT_ASKED, chat_said("a"), CHAT_ASKED],
    ),
    "a refusal": (
        [ASKED, {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}],
        [CHAT_ASKED, chat_said([{"refusal": "no", "type": "refusal"}])],
    ),
    "a call": ([ASKED, call(), output()], [CHAT_ASKED, chat_said(None, chat_call()), chat_result()]),
    "a text and a call": (
        [ASKED, said("a"), call(), output()],
        [CHAT_ASKED, chat_said("a", chat_call()), chat_result()],
    ),
    "a text after a call": (
        [ASKED, call(), said("a"), output()],
        [CHAT_ASKED, chat_said("a", chat_call()), chat_result()],
    ),
    "calls at a time": (
        [ASKED, call("1"), call("2", "g"), output("2"), output("1")],
        [CHAT_ASKED, chat_said(None, chat_call("1"), chat_call("2", "g")), chat_result("2"), chat_result("1")],
    ),
    "one call after the other": (
        [ASKED, call("1"), output("1"), call("2"), output("2")],
        [
            CHAT_ASKED,
            chat_said(None, chat_call("1")),
            chat_result("1"),
            chat_said(None, chat_call("2")),
            chat_result("2"),
        ],
    ),
    "a result that comes late": (
        [ASKED, call("1"), call("2"), output("1"), ASKED, output("2")],
        [
            CHAT_ASKED,
            chat_said(None, chat_call("1"), chat_call("2")),
            chat_result("1"),
            chat_result("2"),
            CHAT_ASKED,
        ],
    ),
    "a result in parts": (
        [
            ASKED,
            call(),
            {**output(), "output": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
        ],
        [
            CHAT_ASKED,
            chat_said(None, chat_call()),
            chat_result(content=[{"text": "a", "type": "text"}, {"text": "b", "type": "text"}]),
        ],
    ),
    "reasoning of another provider": (
        [
            ASKED,
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "t"}], "content": None},
            {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gAAAAABo.x"},
            call(),
            output(),
        ],
        [CHAT_ASKED, chat_said(None, chat_call()), chat_result()],
    ),
    "members that only OpenAI writes": (
        [
            ASKED,
            {**said("a"), "phase": "final_answer", "x": 1},
            {**call(), "status": "completed", "namespace": None},
            output(),
        ],
        [CHAT_ASKED, chat_said("a", chat_call()), chat_result()],
    ),
}


@pytest.mark.parametrize("case", CONVERSATIONS)
def test_conversations(case):
    items, expected = CONVERSATIONS[case]
    assert messages(*items) == expected


def test_instructions_come_first():
    assert sent({"instructions": "be brief", "input": [ASKED]})["messages"] == [
        {"content": "be brief", "role": "system"},
        CHAT_ASKED,
    ]


# --- thoughts ---

THOUGHT = [{"type": "thinking", "thinking": "t", "signature": "c2ln"}]


def sealed(family, blocks=THOUGHT):
    return f"{family}.{base64.b64encode(json.dumps(blocks).encode()).decode()}"


@pytest.mark.parametrize("family", ["chat", "gemini", "claude"])
@pytest.mark.parametrize("schema", ["AWSBedrock", "Anthropic"])
def test_thoughts_go_back_to_the_family_that_had_them(schema, family):
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": sealed(family)}
    _, translated = ask({"input": [ASKED, reasoning, said("a"), ASKED]}, schema)
    assert (b"c2ln" in (translated.body or b"")) is (family == "claude")


BROKEN_SEALS = {
    "nothing": None,
    "empty": "",
    "no base64": "claude.x!",
    "no JSON": "claude.eA==",
    "no list": "claude." + base64.b64encode(b"{}").decode(),
    "no blocks": "claude." + base64.b64encode(b"[1]").decode(),
    "no text": "claude." + base64.b64encode(b'["\xff').decode(),
    "not ASCII": "claude.ä",
    "deep": "claude." + base64.b64encode(b"[" * 10_000).decode(),
}


@pytest.mark.parametrize("case", BROKEN_SEALS)
def test_what_nobody_has_sealed_is_left_out(case):
    assert unseal(BROKEN_SEALS[case], "claude") == []


# --- refusals ---

REFUSED = {
    # request: the member that the text begins with
    "previous_response_id": ({"previous_response_id": "resp_1"}, "previous_response_id"),
    "conversation": ({"conversation": {"id": "conv_1"}}, "conversation"),
    "conversation by name": ({"conversation": "conv_1"}, "conversation"),
    "prompt": ({"prompt": {"id": "pmpt_1"}}, "prompt"),
    "background": ({"background": True}, "background"),
    "context_management": ({"context_management": [{"type": "compaction"}]}, "context_management"),
    "moderation": ({"moderation": {"model": "omni-moderation-latest"}}, "moderation"),
    "reasoning.mode": ({"reasoning": {"mode": "pro"}}, "reasoning.mode"),
    "text.format": ({"text": {"format": {"type": "grammar"}}}, "text.format.type: 'grammar'"),
    "a format without a schema": (
        {"text": {"format": {"type": "json_schema", "name": "n"}}},
        "text.format.schema: expected a JSON Schema",
    ),
    "a schema without a name": ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
    "no input": ({"input": None}, "input is required"),
    "no items": ({"input": []}, "input: there is nothing to answer"),
    "only instructions": ({"input": [{"role": "developer", "content": "x"}]}, "input: there is nothing to answer"),
    "a tool without a name": ({"tools": [{"type": "function"}]}, "tools[0].name is required"),
    "a tool twice": ({"tools": [OTHER, OTHER]}, "tools[1].name: there is another function 'g'"),
    "a tool for programs": (
        {"tools": [{**OTHER, "allowed_callers": ["programmatic"]}]},
        "tools[0].allowed_callers",
    ),
    "a choice without tools": ({"tool_choice": "required"}, "tool_choice: there are no tools"),
    "no choice": ({"tools": [OTHER], "tool_choice": "some"}, "tool_choice: expected one of none, auto, required"),
    "a choice without a type": ({"tools": [OTHER], "tool_choice": {}}, "tool_choice.type is required"),
    "a choice of no tool": (
        {"tools": [OTHER], "tool_choice": {"type": "function", "name": "f"}},
        "tool_choice.name: there is no function 'f' in tools",
    ),
    "an allowed tool that is none": (
        {
            "tools": [OTHER],
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
        },
        "tool_choice.tools[0].name: there is no function 'f' in tools",
    ),
    "an allowed tool of another type": (
        {"tools": [OTHER], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp"}]}},
        "tool_choice.tools[0].type: 'mcp'",
    ),
    "no mode": (
        {"tools": [OTHER], "tool_choice": {"type": "allowed_tools", "tools": [{"type": "function", "name": "g"}]}},
        "tool_choice.mode: expected one of",
    ),
    "no tool is allowed, and one required": (
        {"tools": [OTHER], "tool_choice": {"type": "allowed_tools", "mode": "required"}},
        "tool_choice.mode: there are no tools",
    ),
    **{
        f"tool {kind}": ({"tools": [OTHER, {"type": kind, "name": "x"}]}, f"tools[1].type: a tool of type '{kind}'")
        for kind in (
            "file_search",
            "computer_use_preview",
            "mcp",
            "code_interpreter",
            "shell",
            "apply_patch",
            "brand_new",
            "",
        )
    },
    **{
        f"tool_choice {kind}": ({"tools": [OTHER], "tool_choice": {"type": kind}}, f"tool_choice.type: '{kind}'")
        for kind in ("file_search", "web_search_preview", "mcp", "shell", "brand_new")
    },
    **{
        f"item {kind}": ({"input": [ASKED, {"type": kind, "output": {}}]}, f"input[1].type: an item of type {kind}")
        for kind in (
            "item_reference",
            "file_search_call",
            "computer_call",
            "computer_call_output",
            "image_generation_call",
            "code_interpreter_call",
            "mcp_call",
            "mcp_approval_response",
            "compaction",
            "agent_message",
            "brand_new",
        )
    },
    "a reference without a type": (
        {"input": [ASKED, {"id": "msg_1"}]},
        "input[1].type: an item of type item_reference",
    ),
    "a role": ({"input": [{"role": "critic", "content": "x"}]}, "input[0].role: 'critic'"),
    "an image by its id": (
        {"input": [user({"type": "input_image", "file_id": "file-1"})]},
        "input[0].content[0].file_id",
    ),
    "an image without any": ({"input": [user({"type": "input_image"})]}, "input[0].content[0]"),
    "a file at an address": (
        {"input": [user({"type": "input_file", "file_url": "https://x"})]},
        "input[0].content[0].file_url",
    ),
    "a file without any": ({"input": [user({"type": "input_file"})]}, "input[0].content[0]: a file needs"),
    "audio without any": ({"input": [user({"type": "input_audio"})]}, "input[0].content[0].input_audio"),
    "a new part": (
        {"input": [user({"type": "input_text", "text": "a"}, {"type": "input_video"})]},
        "input[0].content[1].type: 'input_video'",
    ),
    "an image among instructions": (
        {"input": [{"role": "system", "content": [{"type": "input_image", "image_url": PNG}]}]},
        "input[0].content[0].type: 'input_image'",
    ),
    "an image of the model": (
        {"input": [{"role": "assistant", "content": [{"type": "input_image", "image_url": PNG}]}]},
        "input[0].content[0].type: 'input_image'",
    ),
    "audio as a result": (
        {"input": [call(), {**output(), "output": [{"type": "input_audio"}]}]},
        "input[1].output[0].type: 'input_audio'",
    ),
    "a result without its call": (
        {"input": [ASKED, output("x")]},
        "input[1].call_id: no call before it has the id 'x'",
    ),
    "two calls of one id": ({"input": [call("x"), call("x")]}, "input[1].call_id: 'x' is the id of another call"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_said_is_refused_by_name(case):
    request, beginning = REFUSED[case]
    with pytest.raises(UnprocessableRequest) as caught:
        ask(request)
    assert str(caught.value).startswith(f"invalid request body: {beginning}")


MALFORMED = {
    "an item that is none": ({"input": [7]}, "input[0]: "),
    "an item without type and role": ({"input": [{"x": 1}]}, "input[0]: an item needs a type"),
    "a message without content": ({"input": [{"role": "user"}]}, "input[0]: "),
    "a content that is none": ({"input": [{"role": "user", "content": 7}]}, "input[0]: "),
    "a call without a name": ({"input": [{"type": "function_call", "call_id": "c"}]}, "input[0]: "),
    "a result that is an object": ({"input": [call(), {**output(), "output": {}}]}, "input[1]: "),
    "a tool that is none": ({"tools": [7]}, "tools[0]: "),
    "an input that is none": ({"input": 7}, "Expected `str | array | null`"),
    "instructions that are items": ({"instructions": []}, "Expected `str | null`"),
    "metadata that are none": ({"metadata": {"a": 1}}, "Expected `str`"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_what_is_no_request_of_the_api_is_malformed(case):
    request, text = MALFORMED[case]
    with pytest.raises(MalformedRequest) as caught:
        ask(request)
    assert text in str(caught.value)


BACKENDS_REFUSE = {
    # schema, request: text
    "a format": (
        "Anthropic",
        {"text": {"format": {"type": "json_object"}}},
        "text.format is not supported by Anthropic backends",
    ),
    "a schema": (
        "Anthropic",
        {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}}}},
        "text.format: json_schema is not supported by model m",
    ),
    "probabilities": ("AWSBedrock", {"top_logprobs": 1}, "top_logprobs is not supported by AWSBedrock backends"),
    "a limit": ("Anthropic", {"max_output_tokens": -1}, "max_output_tokens must not be negative"),
    "an image": (
        "Anthropic",
        {"instructions": "s", "input": [user({"type": "input_image", "image_url": "data:x"})]},
        "input, as chat completions: messages[1].content[0].image_url",
    ),
    "no model": ("AWSBedrock", {"model": ""}, "model is required"),
}


@pytest.mark.parametrize("case", BACKENDS_REFUSE)
def test_refusals_of_a_backend_speak_of_the_clients_members(case):
    schema, request, text = BACKENDS_REFUSE[case]
    with pytest.raises(UnprocessableRequest) as caught:
        ask(request, schema)
    assert str(caught.value).startswith(f"invalid request body: {text}")
