"""What a chat completion request becomes in the Converse API (contract, chat 8.1 to 8.4, 17.6 and 17.7)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.endpoints.chat_completions import ChatCompletions
from extproc.errors import ClientError, MalformedRequest, UnprocessableRequest
from tests.support.golden import make_translator
from tests.unit.translate.chat.bedrock.attempts import MODEL, TOOL, USER, messages, send, sent_text, upstream

PNG = "data:image/png;base64,iVBORw0KGgo="
CACHED = {"cache_control": {"type": "ephemeral"}}
POINT = {"cachePoint": {"type": "default"}}
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"k":1}'}}


def text(value: str, **members: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **members}


def assistant(content: Any = None, **members: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **members}


def tool(content: Any, call: str = "a", **members: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": content, **members}


def refusal(**request: Any) -> str:
    """What the client is told."""
    with pytest.raises(UnprocessableRequest) as caught:
        upstream(**request)
    return str(caught.value)


def test_path_and_headers():
    plain, stream = make_translator("AWSBedrock", {}), make_translator("AWSBedrock", {"model_override": "a/b"})
    assert send(plain, {}).path == f"/model/{MODEL}/converse"
    assert send(plain, {}).headers == ()
    assert send(stream, {"stream": True}).path == "/model/a%2Fb/converse-stream"


def test_members_stand_in_the_order_of_the_contract():
    sent = sent_text(
        messages=[{"role": "system", "content": "s"}, USER, assistant(tool_calls=[CALL]), tool("r")],
        tools=[{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}],
        tool_choice="auto",
        thinking={"type": "enabled", "budget_tokens": 4096},
        service_tier="flex",
        max_tokens=1,
        stop="x",
        temperature=1,
        top_p=0.5,
    )
    assert sent == (
        '{"additionalModelRequestFields":{"thinking":{"budget_tokens":4096,"type":"enabled"}},'
        '"inferenceConfig":{"maxTokens":1,"stopSequences":["x"],"temperature":1,"topP":0.5},'
        '"messages":[{"content":[{"text":"q"}],"role":"user"},'
        '{"content":[{"toolUse":{"name":"f","input":{"k":1},"toolUseId":"a"}}],"role":"assistant"},'
        '{"content":[{"toolResult":{"content":[{"text":"r"}],"toolUseId":"a"}}],"role":"user"}],'
        '"system":[{"text":"s"}],"serviceTier":{"type":"flex"},'
        '"toolConfig":{"toolChoice":{"auto":{}},'
        '"tools":[{"toolSpec":{"description":"d","inputSchema":{"json":{"type":"object"}},"name":"f"}}]}}'
    )


def test_a_request_with_only_a_system_message():
    sent = sent_text(messages=[{"role": "system", "content": "You are a chatbot."}])
    assert sent == '{"inferenceConfig":{},"messages":[],"system":[{"text":"You are a chatbot."}]}'


PARAMETERS = {
    "the newer limit counts": ({"max_tokens": 5, "max_completion_tokens": 7}, {"maxTokens": 7}),
    "the older limit": ({"max_tokens": 5}, {"maxTokens": 5}),
    "a list of stop sequences": ({"stop": ["a", "", "b"]}, {"stopSequences": ["a", "b"]}),
    "no stop sequences": ({"stop": []}, {}),
    "an empty stop sequence": ({"stop": ""}, {}),
    "nothing": ({"max_tokens": None, "stop": None, "temperature": None, "top_p": None}, {}),
    "zero": ({"temperature": 0, "top_p": 0.0}, {"temperature": 0, "topP": 0}),
}


@pytest.mark.parametrize(("request_", "config"), PARAMETERS.values(), ids=PARAMETERS)
def test_parameters_of_inference(request_: dict[str, Any], config: dict[str, Any]):
    assert upstream(**request_)["inferenceConfig"] == config


FIELDS = {
    "enabled": (
        {"thinking": {"type": "enabled", "budget_tokens": 9}},
        {"thinking": {"type": "enabled", "budget_tokens": 9}},
    ),
    "enabled, with display": (
        {"thinking": {"type": "enabled", "budget_tokens": 9, "display": "omitted"}},
        {"thinking": {"type": "enabled", "budget_tokens": 9, "display": "omitted"}},
    ),
    "adaptive": (
        {"thinking": {"type": "adaptive", "display": "x"}},
        {"thinking": {"type": "adaptive", "display": "x"}},
    ),
    "disabled": ({"thinking": {"type": "disabled"}}, {"thinking": {"type": "disabled"}}),
    "effort": ({"reasoning_effort": "high"}, {"reasoning_config": "high"}),
    "both": (
        {"reasoning_effort": "high", "thinking": {"type": "disabled"}},
        {"reasoning_config": "high", "thinking": {"type": "disabled"}},
    ),
    "neither": ({"reasoning_effort": ""}, None),
}


@pytest.mark.parametrize(("request_", "fields"), FIELDS.values(), ids=FIELDS)
def test_reasoning_is_asked_for_in_the_fields_of_the_model(request_: dict[str, Any], fields: dict[str, Any] | None):
    assert upstream(**request_).get("additionalModelRequestFields") == fields


@pytest.mark.parametrize(
    ("tier", "expected"), [("reserved", {"type": "reserved"}), ("default", {"type": "default"}), ("auto", None)]
)
def test_service_tier(tier: str, expected: dict[str, str] | None):
    assert upstream(service_tier=tier).get("serviceTier") == expected


GUARDRAIL = {"guardrailIdentifier": "abc", "guardrailVersion": "DRAFT"}


def test_a_guardrail():
    traced = {**GUARDRAIL, "trace": "enabled", "streamProcessingMode": "async"}
    assert upstream(guardrailConfig=GUARDRAIL)["guardrailConfig"] == GUARDRAIL
    assert upstream(guardrailConfig=traced)["guardrailConfig"] == {**GUARDRAIL, "trace": "enabled"}
    assert upstream(guardrailConfig=traced, stream=True)["guardrailConfig"] == traced


# --- messages ---


def test_system_and_developer_messages_go_to_system_wherever_they_stand():
    sent = upstream(
        messages=[
            USER,
            {"role": "system", "content": "a"},
            {"role": "developer", "content": [text("b"), text("c", **CACHED)]},
        ]
    )
    assert sent["system"] == [{"text": "a"}, {"text": "b"}, {"text": "c"}, POINT]
    assert len(sent["messages"]) == 1


def test_turns_of_one_role_become_one():
    found = messages(USER, {"role": "user", "content": [text("r")]}, assistant("x"), assistant("y"), USER)
    assert found == [
        {"content": [{"text": "q"}, {"text": "r"}], "role": "user"},
        {"content": [{"text": "x"}, {"text": "y"}], "role": "assistant"},
        {"content": [{"text": "q"}], "role": "user"},
    ]


def test_results_of_parallel_calls_and_the_text_after_them_are_one_turn():
    calls = [CALL, {**CALL, "id": "b"}]
    found = messages(USER, assistant(tool_calls=calls), tool("r1"), tool([text("r2"), text("r3")], "b"), USER)
    assert found[2] == {
        "content": [
            {"toolResult": {"content": [{"text": "r1"}], "toolUseId": "a"}},
            {"toolResult": {"content": [{"text": "r2"}, {"text": "r3"}], "toolUseId": "b"}},
            {"text": "q"},
        ],
        "role": "user",
    }


def test_results_stand_before_a_text_that_was_sent_before_them():
    found = messages(USER, assistant(tool_calls=[CALL]), USER, tool("r"))
    assert [next(iter(block)) for block in found[2]["content"]] == ["toolResult", "text"]


@pytest.mark.parametrize("content", ["", None, [], " \n", [text("")], {"type": "text", "text": ""}])
def test_an_assistant_message_that_says_nothing_is_left_out(content: Any):
    assert messages(USER, assistant(content), USER) == [{"content": [{"text": "q"}, {"text": "q"}], "role": "user"}]


def test_a_user_message_that_says_nothing_is_left_out():
    assert messages(USER, {"role": "user", "content": None}, {"role": "user", "content": [text(" ", **CACHED)]}) == [
        {"content": [{"text": "q"}], "role": "user"}
    ]


def test_an_assistant_message_of_a_single_part_and_a_call():
    [_, found] = messages(USER, assistant(text("x"), tool_calls=[CALL]))
    assert found["content"] == [{"text": "x"}, {"toolUse": {"name": "f", "input": {"k": 1}, "toolUseId": "a"}}]


def test_a_refusal_is_a_text():
    assert messages(assistant([{"type": "refusal", "refusal": "no"}]))[0]["content"] == [{"text": "no"}]
    assert messages(assistant(refusal="no"))[0]["content"] == [{"text": "no"}]
    assert messages(assistant("yes", refusal="no"))[0]["content"] == [{"text": "yes"}]


ARGUMENTS = {
    "empty": ("", "{}"),
    "blank": (" ", "{}"),
    "null": ("null", "{}"),
    "numbers keep their spelling": ('{"b":1.0,"a":12345678901234567890123}', '{"a":12345678901234567890123,"b":1.0}'),
    "quotes": ('{"a":"\\"é\\u0041"}', '{"a":"\\"éA"}'),
}


@pytest.mark.parametrize(("arguments", "expected"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_of_a_call(arguments: str, expected: str):
    call = {**CALL, "function": {"name": "f", "arguments": arguments}}
    assert f'"input":{expected},"toolUseId"' in sent_text(messages=[USER, assistant(tool_calls=[call])])


THOUGHTS = {
    "text": (
        assistant([{"type": "thinking", "text": "t"}]),
        [{"reasoningContent": {"reasoningText": {"text": "t"}}}],
    ),
    "text and signature": (
        assistant([{"type": "thinking", "text": "t", "signature": "s"}]),
        [{"reasoningContent": {"reasoningText": {"text": "t", "signature": "s"}}}],
    ),
    "signature alone": (
        assistant([{"type": "thinking", "signature": "s"}]),
        [{"reasoningContent": {"reasoningText": {"text": "", "signature": "s"}}}],
    ),
    "neither": (assistant([{"type": "thinking"}, text("x")]), [{"text": "x"}]),
    "encrypted": (
        assistant([{"type": "redacted_thinking", "redactedContent": "b3BhcXVl"}]),
        [{"reasoningContent": {"redactedContent": "b3BhcXVl"}}],
    ),
    "blocks of an answer": (
        assistant("x", thinking_blocks=[{"type": "redacted_thinking", "data": "AA=="}, {"type": "redacted_thinking"}]),
        [{"reasoningContent": {"redactedContent": "AA=="}}, {"text": "x"}],
    ),
    "a signature whose text is apart": (
        assistant("x", reasoning_content="t", thinking_blocks=[{"type": "thinking", "signature": "s"}]),
        [{"reasoningContent": {"reasoningText": {"text": "t", "signature": "s"}}}, {"text": "x"}],
    ),
    "reasoning of a provider that signs nothing": (assistant("x", reasoning_content="t"), [{"text": "x"}]),
    "parts and blocks": (
        assistant([{"type": "thinking", "text": "t"}], thinking_blocks=[{"type": "thinking", "thinking": "t"}]),
        [{"reasoningContent": {"reasoningText": {"text": "t"}}}],
    ),
    "parts in their order": (
        assistant([text("x"), {"type": "thinking", "text": "t"}], tool_calls=[CALL]),
        [
            {"text": "x"},
            {"reasoningContent": {"reasoningText": {"text": "t"}}},
            {"toolUse": {"name": "f", "input": {"k": 1}, "toolUseId": "a"}},
        ],
    ),
}


@pytest.mark.parametrize(("message", "blocks"), THOUGHTS.values(), ids=THOUGHTS)
def test_reasoning_is_sent_back(message: dict[str, Any], blocks: list[Any]):
    assert messages(USER, message)[1]["content"] == blocks


# --- media ---


def part(kind: str, **members: Any) -> dict[str, Any]:
    return {"role": "user", "content": [text("look"), {"type": kind, kind: members}]}


MEDIA = {
    "png": (part("image_url", url=PNG), {"image": {"format": "png", "source": {"bytes": "iVBORw0KGgo="}}}),
    "jpeg": (
        part("image_url", url="data:image/jpeg;base64,/9j/"),
        {"image": {"format": "jpeg", "source": {"bytes": "/9j/"}}},
    ),
    "without saying base64": (
        part("image_url", url="data:image/gif,R0lG"),
        {"image": {"format": "gif", "source": {"bytes": "R0lG"}}},
    ),
    "with parameters, and line ends in the data": (
        part("image_url", url="data:image/webp;a=b;base64,UklG\r\nRg=="),
        {"image": {"format": "webp", "source": {"bytes": "UklGRg=="}}},
    ),
    "an image as a file": (
        part("file", file_data=PNG),
        {"image": {"format": "png", "source": {"bytes": "iVBORw0KGgo="}}},
    ),
    "video": (
        part("video_url", url="data:video/3gpp;base64,AAAA"),
        {"video": {"format": "three_gp", "source": {"bytes": "AAAA"}}},
    ),
    "a PDF without a name": (
        part("file", file_data="JVBERi0="),
        {"document": {"format": "pdf", "name": "document", "source": {"bytes": "JVBERi0="}}},
    ),
    "a name with much that is not allowed": (
        part("file", file_data="JVBERi0=", filename="dir\\Ann's_report  (v2) [x].final.pdf"),
        {"document": {"format": "pdf", "name": "Ann s report (v2) [x] final", "source": {"bytes": "JVBERi0="}}},
    ),
    "a name that is too long": (
        part("file", file_data="JVBERi0=", filename="x" * 300 + ".pdf"),
        {"document": {"format": "pdf", "name": "x" * 200, "source": {"bytes": "JVBERi0="}}},
    ),
    "text that is percent-encoded": (
        part("file", file_data="data:text/plain,a%20b", filename="notes.txt"),
        {"document": {"format": "txt", "name": "notes", "source": {"bytes": "YSBi"}}},
    ),
}


@pytest.mark.parametrize(("message", "block"), MEDIA.values(), ids=MEDIA)
def test_media_travel_within_the_request(message: dict[str, Any], block: dict[str, Any]):
    assert messages(message)[0]["content"] == [{"text": "look"}, block]


def test_documents_of_one_name_are_told_apart_across_messages():
    file = {"type": "file", "file": {"file_data": "JVBERi0=", "filename": "a" * 199 + "b.pdf"}}
    found = messages({"role": "user", "content": [file]}, assistant("x"), {"role": "user", "content": [file, file]})
    names = [block["document"]["name"] for each in found for block in each["content"] if "document" in block]
    assert names == ["a" * 199 + "b", "a" * 190 + " (2)", "a" * 190 + " (3)"]


# --- caching ---


CACHE = {
    "system": ({"messages": [{"role": "system", "content": [text("s", **CACHED)]}, USER]}, "system", 1),
    "user text": ({"messages": [{"role": "user", "content": [text("s", **CACHED), text("t")]}]}, "messages", 1),
    "assistant": ({"messages": [USER, assistant([text("s", **CACHED)])]}, "messages", 1),
    "thinking": ({"messages": [USER, assistant([{"type": "thinking", "text": "t", **CACHED}])]}, "messages", 1),
    "call": ({"messages": [USER, assistant(tool_calls=[{**CALL, **CACHED}])]}, "messages", 1),
    "tool message": ({"messages": [USER, assistant(tool_calls=[CALL]), tool("r", **CACHED)]}, "messages", 1),
    "tool message and its part": (
        {"messages": [USER, assistant(tool_calls=[CALL]), tool([text("r", **CACHED)], **CACHED)]},
        "messages",
        1,
    ),
    "part of a tool message": (
        {"messages": [USER, assistant(tool_calls=[CALL]), tool([text("r", **CACHED), text("s")])]},
        "messages",
        1,
    ),
    "tool": ({"tools": [{"type": "function", "function": {"name": "f", **CACHED}}, TOOL]}, "toolConfig", 1),
    "another type": (
        {"messages": [{"role": "user", "content": [text("s", cache_control={"type": "other"})]}]},
        "messages",
        0,
    ),
    "no type": ({"messages": [{"role": "user", "content": [text("s", cache_control={})]}]}, "messages", 0),
}


@pytest.mark.parametrize(("request_", "where", "count"), CACHE.values(), ids=CACHE)
def test_a_cache_point_follows_what_is_marked(request_: dict[str, Any], where: str, count: int):
    assert json.dumps(upstream(**request_)[where]).count("cachePoint") == count


def test_a_cache_point_is_an_element_of_its_own():
    sent = upstream(
        messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": PNG}, **CACHED}, text("t")]}]
    )
    assert [next(iter(block)) for block in sent["messages"][0]["content"]] == ["image", "cachePoint", "text"]


@pytest.mark.parametrize("ttl", ["5m", "1h"])
def test_the_lifetime_of_a_cache_is_kept(ttl: str):
    marked = text("s", cache_control={"type": "ephemeral", "ttl": ttl})
    [message] = messages({"role": "user", "content": [marked]})
    assert message["content"][1] == {"cachePoint": {"type": "default", "ttl": ttl}}


def test_of_too_many_cache_points_the_last_ones_and_those_of_tools_and_system_stay():
    marked = [text(str(number), **CACHED) for number in range(5)]
    sent = upstream(
        messages=[{"role": "system", "content": marked}, {"role": "user", "content": marked}],
        tools=[{"type": "function", "function": {"name": "f", **CACHED}}],
    )
    point, no_point = "cachePoint", "text"
    assert [next(iter(each)) for each in sent["system"]] == [*[no_point] * 5, point]
    assert [next(iter(each)) for each in sent["messages"][0]["content"]] == [*[no_point] * 4, point, no_point, point]
    assert [next(iter(each)) for each in sent["toolConfig"]["tools"]] == ["toolSpec", point]


# --- tools ---


def test_tools_without_a_choice():
    assert upstream(tools=[TOOL])["toolConfig"] == {
        "tools": [{"toolSpec": {"inputSchema": {"json": {"type": "object"}}, "name": "f"}}]
    }


@pytest.mark.parametrize("parameters", [{}, {"parameters": None}, {"parameters": {}}])
def test_a_tool_without_parameters_takes_none(parameters: dict[str, Any]):
    sent = upstream(tools=[{"type": "function", "function": {"name": "f", **parameters}}])
    assert sent["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"] == {"json": {"type": "object", "properties": {}}}


def test_parameters_keep_their_numbers():
    body = (
        b'{"model":"m","messages":[],"tools":[{"type":"function","function":{"name":"f","parameters":'
        b'{"type":"object","properties":{"x":{"maximum":1.0,"minimum":12345678901234567890123}}}}}]}'
    )
    parsed = ChatCompletions().parse(body, content_type="", metering=False)
    sent = make_translator("AWSBedrock", {}).request(parsed, query="", force=False).body
    assert b'{"maximum":1.0,"minimum":12345678901234567890123}' in (sent or b"")


CHOICES = {
    "auto": ("auto", {"auto": {}}),
    "required": ("required", {"any": {}}),
    "a function": ({"type": "function", "function": {"name": "f"}}, {"tool": {"name": "f"}}),
    "a function, without the type": ({"function": {"name": "f"}}, {"tool": {"name": "f"}}),
    "a bare name, for Claude": ("f", {"tool": {"name": "f"}}),
    "null": (None, None),
    "empty": ("", None),
}


@pytest.mark.parametrize(("choice", "expected"), CHOICES.values(), ids=CHOICES)
def test_tool_choice(choice: Any, expected: dict[str, Any] | None):
    assert upstream(tools=[TOOL], tool_choice=choice)["toolConfig"].get("toolChoice") == expected


def test_whether_a_model_is_claude_depends_on_the_override():
    overridden = make_translator("AWSBedrock", {"model_override": "amazon.nova-pro-v1:0"})
    with pytest.raises(UnprocessableRequest, match="tool_choice"):
        send(overridden, {"tools": [TOOL], "tool_choice": "f"})
    claude = make_translator("AWSBedrock", {"model_override": "us.anthropic.claude-x"})
    sent = send(claude, {"model": "virtual", "tools": [TOOL], "tool_choice": "f"})
    assert b'"toolChoice":{"tool":{"name":"f"}}' in (sent.body or b"")


def test_no_tools_are_sent_when_none_may_be_called():
    assert "toolConfig" not in upstream(tools=[TOOL], tool_choice="none")
    assert "toolConfig" not in upstream(tools=[], tool_choice="none")


def test_tools_stay_when_none_may_be_called_but_the_history_has_calls():
    sent = upstream(messages=[USER, assistant(tool_calls=[CALL]), tool("r")], tools=[TOOL], tool_choice="none")
    assert sent["toolConfig"] == upstream(tools=[TOOL])["toolConfig"]


def test_tools_are_made_from_a_history_with_calls():
    calls = [CALL, {**CALL, "id": "b", "function": {"name": "g", "arguments": ""}}, {**CALL, "id": "c"}]
    sent = upstream(messages=[USER, assistant(tool_calls=calls), tool("r")])
    assert [each["toolSpec"]["name"] for each in sent["toolConfig"]["tools"]] == ["f", "g"]
    assert "toolChoice" not in sent["toolConfig"]


def test_a_result_without_its_call_still_has_a_tool():
    assert upstream(messages=[tool("r")])["toolConfig"]["tools"]


def test_a_tool_of_any_type_that_has_a_function_is_one():
    assert upstream(tools=[{**TOOL, "type": "custom"}]) == upstream(tools=[TOOL])


def test_structured_output():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    sent = upstream(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}})
    wanted = sent["outputConfig"]["textFormat"]["structure"]["jsonSchema"]
    assert json.loads(wanted["schema"]) == schema
    assert wanted["name"] == "n"
    assert "outputConfig" not in upstream(response_format={"type": "text"})


# --- what is refused ---

FILE: dict[str, Any] = {"type": "file", "file": {"file_data": "JVBERi0="}}


def user(*parts: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}]}


def calling(**function: Any) -> dict[str, Any]:
    return {"messages": [USER, assistant(tool_calls=[{**CALL, "function": {"name": "f", **function}}])]}


REFUSED = {
    "system without content": ({"messages": [{"role": "system"}]}, "unexpected content type for system message"),
    "developer without content": ({"messages": [{"role": "developer"}]}, "content type for developer message"),
    "user without content": ({"messages": [{"role": "user"}]}, "unexpected content type for user message"),
    "tool without content": (
        {"messages": [{"role": "tool", "tool_call_id": "a"}]},
        "message 'content' must be a string or an array",
    ),
    "tool without an id": ({"messages": [{"role": "tool", "content": "r"}]}, "messages[0].tool_call_id"),
    "call without an id": (
        {"messages": [USER, assistant(tool_calls=[CALL, {**CALL, "id": None}])]},
        "tool_call at index 1 is missing required field 'id' (messages[1].tool_calls[1].id)",
    ),
    "call without a name": (calling(name=""), "messages[1].tool_calls[0].function.name"),
    "arguments that are not JSON": (calling(arguments="not-json"), "failed to unmarshal tool call arguments"),
    "arguments that are a list": (calling(arguments="[]"), "messages[1].tool_calls[0].function.arguments"),
    "arguments that are too deep": (calling(arguments='{"a":' * 9999 + "1" + "}" * 9999), "function.arguments"),
    "arguments with half a character": (calling(arguments='{"a":"\\ud800"}'), "function.arguments"),
    "a part of another type": (
        {"messages": [assistant([{"type": "image", "text": "x"}])]},
        "messages[0].content[0].type 'image'",
    ),
    "a thinking block of another type": (
        {"messages": [assistant(thinking_blocks=[{"type": "x"}])]},
        "messages[0].thinking_blocks[0].type",
    ),
    "encrypted content that is not base64": (
        {"messages": [assistant([{"type": "redacted_thinking", "redactedContent": "not base64!"}])]},
        "redacted_content must be a binary/bytes value in bedrock",
    ),
    "encrypted content beyond ASCII": (
        {"messages": [assistant(thinking_blocks=[{"type": "redacted_thinking", "data": "é"}])]},
        "redacted_content must be a binary/bytes value in bedrock",
    ),
    "an address": (user({"type": "image_url", "image_url": {"url": "https://a/b.png"}}), "invalid image data URI"),
    "no address": (user({"type": "image_url", "image_url": {}}), "messages[0].content[0].image_url.url"),
    "an image that is not base64": (
        user({"type": "image_url", "image_url": {"url": "data:image/png;base64,a"}}),
        "invalid image data URI",
    ),
    "an image without data": (
        user({"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}),
        "invalid image data URI",
    ),
    "an image of another type": (
        user({"type": "image_url", "image_url": {"url": "data:image/bmp;base64,AAAA"}}),
        "unsupported image format image/bmp",
    ),
    "a video by address": (user({"type": "video_url", "video_url": {"url": "https://a/b.mp4"}}), "video_url.url"),
    "a video of another type": (
        user({"type": "video_url", "video_url": {"url": "data:video/ogg;base64,AAAA"}}),
        "unsupported video format video/ogg",
    ),
    "a file by id": (user({"type": "file", "file": {"file_id": "file-1"}}), "messages[0].content[0].file"),
    "a file of another type": (
        user({"type": "file", "file": {"file_data": "data:application/zip;base64,AAAA", "filename": "a.pdf"}}),
        "unsupported file format application/zip",
    ),
    "a file of unknown type": (user({"type": "file", "file": {"file_data": "AAAA"}}), "unsupported file format"),
    "a file that is not base64": (user({"type": "file", "file": {"file_data": "%PDF"}}), "file.file_data"),
    "audio": (user({"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}), "input_audio"),
    "audio by address": (user({"type": "audio_url", "audio_url": {"url": "https://a"}}), "audio_url"),
    "an image in a tool message": (
        {"messages": [tool([{"type": "image_url", "image_url": {"url": PNG}}])]},
        "parts that are not text",
    ),
    "a lifetime that Bedrock has not": (
        user(text("x", cache_control={"type": "ephemeral", "ttl": "2h"})),
        "messages[0].content[0].cache_control.ttl",
    ),
    "a tool without a function": ({"tools": [{"type": "custom"}]}, "tools[0]"),
    "a tool without a name": ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
    "parameters that are a list": (
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]},
        "tools[0].function.parameters",
    ),
    "a call that is demanded without tools": ({"tool_choice": "required"}, "tool_choice"),
    "a named call without tools": ({"tool_choice": {"function": {"name": "f"}}}, "tool_choice"),
    "a named call without a name": (
        {"tools": [TOOL], "tool_choice": {"type": "function"}},
        "tool_choice.function.name",
    ),
    "a choice that is not known": ({"model": "amazon.nova", "tools": [TOOL], "tool_choice": "some"}, "tool_choice"),
    "a limit of nothing": ({"max_completion_tokens": 0}, "max_completion_tokens"),
    "a limit that is too high": ({"max_tokens": 2**31}, "max_tokens"),
    "a limit beyond all": ({"max_tokens": 2**70}, "max_tokens"),
    "a negative temperature": ({"temperature": -0.5}, "temperature"),
    "a negative top_p": ({"top_p": -1}, "top_p"),
    "a guardrail without a version": ({"guardrailConfig": {"guardrailIdentifier": "abc"}}, "guardrailConfig"),
    "any JSON": ({"response_format": {"type": "json_object"}}, "response_format.json_object"),
    "a schema that is missing": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
        "response_format.json_schema.schema",
    ),
    "a schema that is no object": (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": "x"}}},
        "response_format.json_schema.schema",
    ),
}


@pytest.mark.parametrize(("request_", "message"), REFUSED.values(), ids=REFUSED)
def test_what_converse_cannot_say_is_refused_and_named(request_: dict[str, Any], message: str):
    assert message in refusal(**request_)


MALFORMED = {
    "a role that is not known": {"messages": [{"role": "function", "content": "x"}]},
    "arguments that are an object": {"messages": [assistant(tool_calls=[{"id": "a", "function": {"arguments": {}}}])]},
    "a part without a type": user({"text": "x"}),
    "a limit that is no integer": {"max_tokens": 1.5},
    "a temperature that is no number": {"temperature": "hot"},
    "thinking of another type": {"thinking": {"type": "x"}},
}


@pytest.mark.parametrize("request_", MALFORMED.values(), ids=MALFORMED)
def test_members_of_other_types_are_a_400(request_: dict[str, Any]):
    with pytest.raises(MalformedRequest):
        upstream(**request_)


def test_numbers_that_no_double_holds_are_a_4xx():
    for number in ("1e999", "-1e999", "1" * 400):
        body = b'{"model":"m","messages":[],"temperature":%b}' % number.encode()
        parsed = ChatCompletions().parse(body, content_type="", metering=False)
        with pytest.raises(ClientError):
            make_translator("AWSBedrock", {}).request(parsed, query="", force=False)
