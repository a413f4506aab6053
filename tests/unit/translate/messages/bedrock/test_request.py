"""What a messages request becomes in the Converse API (contract, messages 5.5 and 17.5)."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from typing import Any

import pytest

from extproc.endpoints.messages import Messages
from extproc.errors import MalformedRequest, UnprocessableRequest
from tests.unit.translate.messages.bedrock.attempts import (
    MODEL,
    TOOL,
    USER,
    make_translator,
    messages,
    send,
    sent_text,
    upstream,
)

PNG = "iVBORw0KGgo="
PDF = "JVBERi0="
CACHED = {"cache_control": {"type": "ephemeral"}}
POINT = {"cachePoint": {"type": "default"}}


def text(value: str, **members: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **members}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def image(media_type: str = "image/png", data: str = PNG, **members: Any) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}, **members}


def document(source: Any, **members: Any) -> dict[str, Any]:
    return {"type": "document", "source": source, **members}


def pdf(**members: Any) -> dict[str, Any]:
    return document({"type": "base64", "media_type": "application/pdf", "data": PDF}, **members)


def call(name: str = "f", call_id: str = "t1", **members: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"k": 1}, **members}


def result(content: Any = "r", call_id: str = "t1", **members: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **members}


def refusal(**request: Any) -> str:
    """What the client is told."""
    with pytest.raises(UnprocessableRequest) as caught:
        upstream(**request)
    return str(caught.value)


def test_path_model_and_headers():
    assert send(make_translator(), {}).path == f"/model/{MODEL}/converse"
    assert send(make_translator(), {"stream": True}).path == f"/model/{MODEL}/converse-stream"
    overridden = send(make_translator(model_override="arn:aws:bedrock:r:1:inference-profile/a"), {})
    assert overridden.path == "/model/arn:aws:bedrock:r:1:inference-profile%2Fa/converse"
    assert overridden.headers == ()


def test_members_stand_in_the_order_of_the_contract():
    sent = sent_text(
        max_tokens=64,
        system="Be brief.",
        messages=[
            user(text("2+2?", **CACHED)),
            assistant({"type": "tool_use", "id": "t1", "name": "add", "input": {"b": 2, "a": 2.0}}),
            user(result("4", is_error=True)),
        ],
        tools=[{"name": "add", "description": "d", "input_schema": {"type": "object", "properties": {}}}],
        tool_choice={"type": "any"},
        thinking={"type": "enabled", "budget_tokens": 1024},
        stop_sequences=["x"],
        temperature=1,
        top_p=0.5,
        top_k=5,
    )
    assert sent == (
        '{"additionalModelRequestFields":{"thinking":{"budget_tokens":1024,"type":"enabled"},"top_k":5},'
        '"inferenceConfig":{"maxTokens":64,"stopSequences":["x"],"temperature":1,"topP":0.5},'
        '"messages":[{"content":[{"text":"2+2?"},{"cachePoint":{"type":"default"}}],"role":"user"},'
        '{"content":[{"toolUse":{"name":"add","input":{"b":2,"a":2.0},"toolUseId":"t1"}}],"role":"assistant"},'
        '{"content":[{"toolResult":{"content":[{"text":"4"}],"status":"error","toolUseId":"t1"}}],"role":"user"}],'
        '"system":[{"text":"Be brief."}],'
        '"toolConfig":{"toolChoice":{"any":{}},"tools":[{"toolSpec":{"description":"d",'
        '"inputSchema":{"json":{"type":"object","properties":{}}},"name":"add"}}]}}'
    )


def test_a_plain_request_is_that_of_the_contract_byte_for_byte():
    assert sent_text(max_tokens=100) == (
        '{"inferenceConfig":{"maxTokens":100},"messages":[{"content":[{"text":"q"}],"role":"user"}]}'
    )


@pytest.mark.parametrize(
    ("given", "sent"),
    {
        "nothing": ({}, {}),
        "a limit as a float": ({"max_tokens": 15.0}, {"maxTokens": 15}),
        "zero": ({"temperature": 0, "top_p": 0}, {"temperature": 0, "topP": 0}),
        "stop sequences": ({"stop_sequences": ["a", "b"]}, {"stopSequences": ["a", "b"]}),
        "no stop sequences": ({"stop_sequences": []}, {}),
        "nulls": ({"max_tokens": None, "temperature": None, "stop_sequences": None}, {}),
    }.values(),
    ids=str,
)
def test_inference_settings(given, sent):
    assert upstream(**given)["inferenceConfig"] == sent


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"type": "enabled", "budget_tokens": 1024.0}, {"type": "enabled", "budget_tokens": 1024}),
        ({"type": "disabled"}, {"type": "disabled"}),
        ({"type": "adaptive"}, {"type": "adaptive"}),
        ({"type": "adaptive", "display": "omitted"}, {"type": "adaptive", "display": "omitted"}),
    ],
    ids=str,
)
def test_thinking_is_the_models_own_field(given, sent):
    assert upstream(thinking=given)["additionalModelRequestFields"] == {"thinking": sent}


def test_output_config():
    schema = {"type": "object", "properties": {"b": {}, "a": {}}}
    wanted = {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"schema": json.dumps(schema)}}}}
    wanted["textFormat"]["structure"]["jsonSchema"]["schema"] = json.dumps(schema, separators=(",", ":"))
    format_ = {"type": "json_schema", "schema": schema}
    assert upstream(output_config={"format": format_})["outputConfig"] == wanted
    assert upstream(output_format=format_)["outputConfig"] == wanted
    assert upstream(output_config={"effort": "low"})["outputConfig"] == {"effort": "low"}


@pytest.mark.parametrize("model", [MODEL, f"us.{MODEL}", f"arn:aws:bedrock:us-east-1::foundation-model/{MODEL}"])
def test_known_beta_flags_go_to_claude(model):
    headers = {"anthropic-beta": "interleaved-thinking-2025-05-14, files-api-2025-04-14"}
    sent = upstream(headers=headers, model=model, anthropic_beta=["output-128k-2025-02-19", "x"])
    assert sent["additionalModelRequestFields"] == {
        "anthropic_beta": ["interleaved-thinking-2025-05-14", "output-128k-2025-02-19"]
    }


def test_beta_flags_do_not_go_to_other_models():
    headers = {"anthropic-beta": "interleaved-thinking-2025-05-14"}
    assert "additionalModelRequestFields" not in upstream(headers=headers, model="amazon.nova-lite-v1:0")


@pytest.mark.parametrize("listed", ["output-128k-2025-02-19", 7, None, [7, None], {"a": 1}], ids=str)
def test_a_list_of_flags_that_is_none_is_no_flag(listed):
    assert "additionalModelRequestFields" not in upstream(anthropic_beta=listed)


def test_what_does_not_change_the_answer_is_left_out():
    extra = {
        "metadata": {"user_id": "u"},
        "service_tier": "auto",
        "context_management": {"edits": []},
        "mcp_servers": [],
        "container": None,
        "unknown": {"a": [1]},
    }
    assert sent_text(**extra) == sent_text()


# --- the system prompt ---


def test_system_texts_and_those_of_the_conversation_come_together():
    sent = upstream(
        system=[text("a", **CACHED), text(""), text(" \n", **CACHED)],
        messages=[
            USER,
            {"role": "system", "content": "b"},
            {"role": "system", "content": [text("c", **CACHED), text("")]},
            assistant(text("x")),
            {"role": "system", "content": ""},
        ],
    )
    assert sent["system"] == [{"text": "a"}, POINT, {"text": "b"}, {"text": "c"}, POINT]
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant"]


@pytest.mark.parametrize("system", ["", " ", [], None, [text("")]], ids=str)
def test_a_system_prompt_that_says_nothing_is_left_out(system):
    assert "system" not in upstream(system=system)


def test_a_promoted_system_message_lets_results_come_together():
    sent = messages(USER, assistant(call(), call(call_id="t2")), user(result()), _system(), user(result(call_id="t2")))
    assert [each["toolResult"]["toolUseId"] for each in sent[-1]["content"]] == ["t1", "t2"]


def _system() -> dict[str, Any]:
    return {"role": "system", "content": "s"}


# --- turns ---


def test_turns_of_one_role_become_one():
    sent = messages(USER, user(text("r")), assistant(text("a")), assistant(text("b")), USER)
    assert sent == [
        {"content": [{"text": "q"}, {"text": "r"}], "role": "user"},
        {"content": [{"text": "a"}, {"text": "b"}], "role": "assistant"},
        {"content": [{"text": "q"}], "role": "user"},
    ]


def test_results_of_parallel_calls_stand_before_what_the_user_says():
    """BR-46."""
    sent = messages(
        USER,
        assistant(call(), call(call_id="t2")),
        user(result("1")),
        user(result("2", call_id="t2"), text("thanks")),
    )
    assert sent[2]["content"] == [
        {"toolResult": {"content": [{"text": "1"}], "toolUseId": "t1"}},
        {"toolResult": {"content": [{"text": "2"}], "toolUseId": "t2"}},
        {"text": "thanks"},
    ]
    assert len(sent) == 3


@pytest.mark.parametrize("content", ["", "  ", [], None, [text("")], [text("\n", **CACHED)]], ids=str)
def test_a_turn_that_says_nothing_is_left_out(content):
    assert messages({"role": "user", "content": content}, USER) == messages(USER)
    assert messages(USER, {"role": "assistant", "content": content}) == messages(USER)


def test_thoughts_keep_their_order_and_their_signature():
    """BR-58."""
    sent = messages(
        USER,
        assistant(
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "AAEC"},
            {"type": "thinking", "thinking": "", "signature": "only"},
            {"type": "thinking", "thinking": "unsigned", "signature": ""},
            text("a"),
            call(),
        ),
        user(result()),
    )
    assert sent[1]["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
        {"reasoningContent": {"redactedContent": "AAEC"}},
        {"reasoningContent": {"reasoningText": {"text": "", "signature": "only"}}},
        {"reasoningContent": {"reasoningText": {"text": "unsigned"}}},
        {"text": "a"},
        {"toolUse": {"name": "f", "input": {"k": 1}, "toolUseId": "t1"}},
    ]


@pytest.mark.parametrize("given", [None, {}], ids=str)
def test_a_call_without_input_has_an_empty_one(given):
    sent = messages(USER, assistant({"type": "tool_use", "id": "t1", "name": "f", "input": given}), user(result()))
    assert sent[1]["content"][0]["toolUse"]["input"] == {}


# --- media ---


def test_images():
    kinds = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
    sent = messages(user(*(image(kind) for kind in kinds)))[0]["content"]
    assert sent == [{"image": {"format": each, "source": {"bytes": PNG}}} for each in kinds.values()]


def test_documents_have_a_format_and_names_that_differ():
    sent = messages(
        user(
            text("read"),
            pdf(title="Report: Q1/2.pdf"),
            pdf(title="a  b", context="c", citations={"enabled": True}),
            pdf(title="a b"),
            document({"type": "text", "media_type": "text/plain", "data": "é"}),
            document({"type": "content", "content": [text("one"), text("two")]}, citations={"enabled": False}),
            document({"type": "content", "content": "whole"}),
            document({"type": "base64", "media_type": "text/csv; charset=utf-8", "data": "YSxi"}),
        )
    )[0]["content"]
    assert [block["document"] for block in sent[1:]] == [
        {"format": "pdf", "name": "Report Q1 2", "source": {"bytes": PDF}},
        {"format": "pdf", "name": "a b", "source": {"bytes": PDF}, "context": "c", "citations": {"enabled": True}},
        {"format": "pdf", "name": "a b (2)", "source": {"bytes": PDF}},
        {"format": "txt", "name": "document", "source": {"bytes": base64.b64encode("é".encode()).decode()}},
        {"name": "document (2)", "source": {"content": [{"text": "one"}, {"text": "two"}]}},
        {"name": "document (3)", "source": {"content": [{"text": "whole"}]}},
        {"format": "csv", "name": "document (4)", "source": {"bytes": "YSxi"}},
    ]


def test_a_document_alone_has_its_name_beside_it():
    assert messages(user(pdf(title="r")))[0]["content"][1] == {"text": "r"}


def test_search_results():
    found = {
        "type": "search_result",
        "source": "https://a",
        "title": "t",
        "content": [text("x")],
        "citations": {"enabled": True},
    }
    wanted = {"source": "https://a", "title": "t", "content": [{"text": "x"}], "citations": {"enabled": True}}
    assert messages(user(found))[0]["content"] == [{"searchResult": wanted}]
    sent = messages(USER, assistant(call()), user(result([found])))
    assert sent[2]["content"][0]["toolResult"]["content"] == [{"searchResult": wanted}]


# --- results of tools ---


@pytest.mark.parametrize(
    ("given", "sent"),
    {
        "text": (result("x"), {"content": [{"text": "x"}]}),
        "no content": ({"type": "tool_result", "tool_use_id": "t1"}, {"content": []}),
        "null": (result(None), {"content": []}),
        "an empty text": (result(""), {"content": []}),
        "an empty list": (result([]), {"content": []}),
        "blocks": (
            result([text("a"), text(" "), image()]),
            {"content": [{"text": "a"}, {"image": {"format": "png", "source": {"bytes": PNG}}}]},
        ),
        "a document": (
            result([pdf(title="d")]),
            {"content": [{"document": {"format": "pdf", "name": "d", "source": {"bytes": PDF}}}]},
        ),
        "an error": (result("x", is_error=True), {"content": [{"text": "x"}], "status": "error"}),
        "an error that says nothing": (result("", is_error=True), {"content": [{"text": "error"}], "status": "error"}),
        "no error": (result("x", is_error=False), {"content": [{"text": "x"}]}),
    }.values(),
    ids=str,
)
def test_results_of_tools(given, sent):
    assert messages(USER, assistant(call()), user(given))[2]["content"] == [
        {"toolResult": {**sent, "toolUseId": "t1"}},
    ]


# --- tools ---


def test_schemas_stay_as_the_client_spelled_them():
    schema = '{ "type" : "object", "properties": {"b":{"maximum":1.0},"a":{}}, "minProperties":1e0 }'
    sent = _with_schema(schema)
    wanted = b'{"json":{"type":"object","properties":{"b":{"maximum":1.0},"a":{}},"minProperties":1e0}}'
    assert b'"inputSchema":' + wanted in sent


def test_members_of_tools():
    tools = [{**TOOL, "type": "custom", "description": "", "strict": True}, {"name": "g", **CACHED}]
    assert upstream(tools=tools)["toolConfig"]["tools"] == [
        {"toolSpec": {"inputSchema": {"json": {"type": "object"}}, "name": "f", "strict": True}},
        {"toolSpec": {"inputSchema": {"json": {"type": "object", "properties": {}}}, "name": "g"}},
        POINT,
    ]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ({"type": "auto", "disable_parallel_tool_use": True}, {"auto": {}}),
        ({"type": "any"}, {"any": {}}),
        ({"type": "tool", "name": "f"}, {"tool": {"name": "f"}}),
    ],
    ids=str,
)
def test_tool_choice(choice, sent):
    assert upstream(tools=[TOOL], tool_choice=choice)["toolConfig"]["toolChoice"] == sent


def test_no_call_is_asked_for_by_leaving_the_tools_out():
    """BR-47."""
    assert "toolConfig" not in upstream(tools=[TOOL], tool_choice={"type": "none"})


def test_tools_stay_where_the_history_has_calls():
    """BR-47 and BR-48."""
    history = [USER, assistant(call("f"), call("g", "t2")), user(result(), result(call_id="t2"))]
    kept = upstream(messages=history, tools=[TOOL], tool_choice={"type": "none"})["toolConfig"]
    assert [tool["toolSpec"]["name"] for tool in kept["tools"]] == ["f"]
    assert "toolChoice" not in kept
    made = upstream(messages=history)["toolConfig"]
    assert [tool["toolSpec"]["name"] for tool in made["tools"]] == ["f", "g"]


def test_a_choice_without_tools_is_nothing_to_say():
    assert "toolConfig" not in upstream(tools=[], tool_choice={"type": "auto"})


# --- the cache ---


def test_a_point_follows_whatever_is_marked():
    """BR-56."""
    sent = upstream(
        system=[text("s", **CACHED)],
        messages=[USER, assistant(text("a", **CACHED), call(**CACHED)), user(result(**CACHED))],
        tools=[TOOL],
    )
    assert sent["system"] == [{"text": "s"}, POINT]
    assert [list(block) for block in sent["messages"][1]["content"]] == [
        ["text"],
        ["cachePoint"],
        ["toolUse"],
        ["cachePoint"],
    ]
    assert sent["messages"][2]["content"][1] == POINT


@pytest.mark.parametrize("block", [text("x"), image(), pdf(), result()], ids=lambda block: str(block["type"]))
def test_a_point_has_the_lifetime_that_is_asked_for(block):
    block = {**block, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    history = [USER, assistant(call())] if block["type"] == "tool_result" else []
    content = messages(*history, user(block))[-1]["content"]
    assert content[1] == {"cachePoint": {"type": "default", "ttl": "1h"}}


def test_a_mark_within_a_result_counts_for_the_result():
    sent = messages(USER, assistant(call()), user(result([text("a", **CACHED), text("b", **CACHED)])))
    assert sent[2]["content"][1:] == [POINT]


def test_a_mark_on_the_request_is_one_on_its_last_block():
    assert messages(USER, **CACHED)[-1]["content"] == [{"text": "q"}, POINT]
    assert messages(user(text("q", **CACHED)), **CACHED)[-1]["content"] == [{"text": "q"}, POINT]
    assert messages(USER, cache_control={"type": "other"}) == messages(USER)


def test_there_are_at_most_as_many_points_as_the_service_takes():
    marked = [user(*(text(str(number), **CACHED) for number in range(6)))]
    sent = upstream(system=[text("s", **CACHED)], messages=marked, tools=[{**TOOL, **CACHED}])
    assert sent["system"][1:] == [POINT]
    assert sent["toolConfig"]["tools"][1:] == [POINT]
    assert [next(iter(block)) for block in sent["messages"][0]["content"][-4:]] == ["text", "cachePoint"] * 2


# --- refusals ---


@pytest.mark.parametrize(
    ("given", "told"),
    {
        "no messages": ({"messages": []}, "messages says nothing"),
        "nothing in them": ({"messages": [user()]}, "messages says nothing"),
        "an unknown role": ({"messages": [{"role": "invalid_role", "content": "x"}]}, "unexpected role: invalid_role"),
        "no limit": ({"max_tokens": 0}, "max_tokens must be between 1"),
        "an absurd limit": ({"max_tokens": 1e300}, "max_tokens must be between 1"),
        "a negative temperature": ({"temperature": -1}, "temperature must not be negative"),
        "an empty stop sequence": ({"stop_sequences": ["a", ""]}, "stop_sequences holds an empty one"),
        "thinking without a budget": ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
        "unknown thinking": ({"thinking": {"type": "new"}}, "thinking.type new"),
        "servers": ({"mcp_servers": [{"type": "url"}]}, "mcp_servers is not supported"),
        "a container": ({"container": "c"}, "container is not supported"),
        "a system prompt of images": ({"system": [image()]}, "system prompt must be either string or array of text"),
        "an image by address": (
            {"messages": [user({"type": "image", "source": {"type": "url", "url": "https://a"}})]},
            "only base64 image sources are supported",
        ),
        "an image of another type": (
            {"messages": [user(image("application/pdf"))]},
            "unsupported image format application/pdf",
        ),
        "an image that is no base64": ({"messages": [user(image(data="@@@"))]}, "messages[0].content[0].source.data"),
        "an image without data": ({"messages": [user(image(data=""))]}, "messages[0].content[0].source.data"),
        "an image without a source": ({"messages": [user({"type": "image"})]}, "messages[0].content[0].source"),
        "a document by address": (
            {"messages": [user(document({"type": "url", "url": "https://a"}))]},
            "document sources of type url",
        ),
        "an uploaded document": (
            {"messages": [user(document({"type": "file", "file_id": "f"}))]},
            "document sources of type file",
        ),
        "a document of another type": (
            {"messages": [user(document({"type": "base64", "media_type": "video/mp4", "data": "AA=="}))]},
            "unsupported document format video/mp4",
        ),
        "a document of images": (
            {"messages": [user(document({"type": "content", "content": [image()]}))]},
            "messages[0].content[0].source.content[0] of type image",
        ),
        "an empty document": ({"messages": [user(document({"type": "text", "data": " "}))]}, "source.data is missing"),
        "a search result without title": (
            {"messages": [user({"type": "search_result", "source": "s", "content": [text("x")]})]},
            "needs a source, a title",
        ),
        "a block of the provider's": (
            {"messages": [USER, assistant({"type": "server_tool_use", "id": "a", "name": "web_search", "input": {}})]},
            "messages[1].content[0] of type server_tool_use",
        ),
        "a new kind of block": ({"messages": [user({"type": "new"})]}, "messages[0].content[0] of type new"),
        "an image of the assistant's": ({"messages": [USER, assistant(image())]}, "messages[1].content[0] of type"),
        "a reference in a result": (
            {"messages": [USER, assistant(call()), user(result([{"type": "tool_reference"}]))]},
            "messages[2].content[0].content[0] of type tool_reference",
        ),
        "a result that is an object": (
            {"messages": [USER, assistant(call()), user(result({"a": 1}))]},
            "content must be text or a list",
        ),
        "a result of no call": ({"messages": [user(result(call_id=""))]}, "tool_use_id is missing"),
        "a call without an id": ({"messages": [USER, assistant(call(call_id=""))]}, "messages[1].content[0].id"),
        "a call without a name": ({"messages": [USER, assistant(call(""))]}, "messages[1].content[0].name"),
        "a call with a list": ({"messages": [USER, assistant({**call(), "input": []})]}, "input must be a JSON object"),
        "a foreign encrypted thought": (
            {"messages": [USER, assistant({"type": "redacted_thinking", "data": "?"})]},
            "messages[1].content[0].data is not base64",
        ),
        "an unknown lifetime": (
            {"messages": [user(text("a", cache_control={"type": "ephemeral", "ttl": "2h"}))]},
            "messages[0].content[0].cache_control.ttl",
        ),
        "a tool of the provider's": (
            {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
            "tools[0] of type web_search_20250305",
        ),
        "a tool without a name": ({"tools": [{}]}, "tools[0].name is missing"),
        "a schema that is a list": ({"tools": [{"name": "f", "input_schema": []}]}, "tools[0].input_schema"),
        "a choice without tools": ({"tool_choice": {"type": "any"}}, "there are no tools"),
        "a choice of no tool": ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice.name is missing"),
        "an unknown choice": ({"tools": [TOOL], "tool_choice": {"type": "new"}}, "tool_choice.type new"),
        "an unknown format": ({"output_format": {"type": "regex"}}, "type regex"),
        "a format without a schema": ({"output_config": {"format": {"type": "json_schema"}}}, "schema is missing"),
    }.values(),
    ids=str,
)
def test_what_converse_cannot_say_is_refused_by_name(given, told):
    assert told in refusal(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"messages": "x"},
        {"messages": [{"role": "user", "content": 7}]},
        {"messages": [user({"type": "text", "text": 123})]},
        {"messages": [user(result(is_error="yes"))]},
        {"thinking": {}},
        {"tool_choice": {}},
        {"mcp_servers": "x"},
    ],
    ids=str,
)
def test_members_of_other_types_are_malformed(given):
    with pytest.raises(MalformedRequest, match="failed to parse JSON for /v1/messages"):
        upstream(**given)


@pytest.mark.parametrize("depth", [200, 100_000])
def test_values_that_are_nested_deep_are_no_fault_of_ours(depth):
    nested = '{"a":' * depth + "1" + "}" * depth
    with suppress(MalformedRequest, UnprocessableRequest):
        assert nested.encode() in _with_schema(nested)


def _with_schema(schema: str) -> bytes:
    body = '{"model":"m","messages":[{"role":"user","content":"q"}],"tools":[{"name":"f","input_schema":' + schema
    parsed = Messages().parse(f"{body}}}]}}".encode(), content_type="", metering=False)
    return make_translator().request(parsed, query="", force=False).body or b""


def test_a_second_attempt_sends_the_same():
    request = {"system": [text("s", **CACHED)], "messages": [_system(), USER], "tools": [TOOL]}
    assert send(make_translator(), request) == send(make_translator(), request)
