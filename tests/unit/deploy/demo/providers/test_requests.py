"""What each API takes and refuses: a table of one rule a row, with what the complaint has to name."""

from __future__ import annotations

import base64

import pytest

from deploy.demo.providers.script import sign
from tests.unit.deploy.demo.providers.conversations import (
    APIS,
    CONVERSE_CALL,
    CONVERSE_RESULT,
    CONVERSE_TOOLS,
    GEMINI_CALL,
    GEMINI_RESULT,
    GEMINI_TOOLS,
    MESSAGES_CALL,
    MESSAGES_RESULT,
    MESSAGES_TOOLS,
    OPENAI_CALL,
    OPENAI_RESULT,
    OPENAI_TOOLS,
    PARAMETERS,
)

PNG = base64.b64encode(b"\x89PNG").decode()


def refused(schema, changes, complaint, **call):
    reply = APIS[schema].ask(changes, **call)
    assert reply.status == 400, reply.body
    assert complaint in reply.body.decode()


def taken(schema, changes, **call):
    reply = APIS[schema].ask(changes, **call)
    assert reply.status == 200, reply.body


# --- OpenAI and Azure ---


def user(content):
    return {"role": "user", "content": content}


def function(**fields):
    return {"tools": [{"type": "function", "function": {"name": "weather", **fields}}]}


OPENAI_REFUSES = {
    "no messages": ({"messages": []}, "messages"),
    "another role": ({"messages": [{"role": "function", "content": "x"}]}, "messages.0"),
    "content of null": ({"messages": [user(None)]}, "messages.0.content"),
    "another part": ({"messages": [user([{"type": "video_url", "video_url": {"url": "x"}}])]}, "messages.0.content.0"),
    "a cache marker": (
        {"messages": [user([{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}])]},
        "cache_control",
    ),
    "thinking": ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking"),
    "no tokens": ({"max_tokens": 0}, "max_tokens"),
    "two limits": ({"max_tokens": 1, "max_completion_tokens": 1}, "max_completion_tokens"),
    "too warm": ({"temperature": 2.5}, "temperature"),
    "options of no stream": ({"stream_options": {"include_usage": True}}, "stream_options"),
    "alternatives of nothing": ({"top_logprobs": 2}, "logprobs"),
    "five sequences": ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
    "no tools": ({"tools": []}, "tools"),
    "a choice of none": ({"tool_choice": "auto"}, "tool_choice"),
    "a name with a dot": (function(name="a.b"), "tools.0.function.name"),
    "parameters of a string": (function(parameters={"type": "string"}), "tools.0.function.parameters.type"),
    "a type that is none": (
        function(parameters={"type": "object", "properties": {"a": {"type": "text"}}}),
        "properties.a.type",
    ),
    "a result without a call": ({"messages": [user("x"), OPENAI_RESULT]}, "messages.1"),
    "a result of another call": (
        {"messages": [user("x"), OPENAI_CALL, OPENAI_RESULT | {"tool_call_id": "call_2"}]},
        "call_2",
    ),
    "a call without a result": ({"messages": [user("x"), OPENAI_CALL, user("y")]}, "call_1"),
    "a call at the end": ({"messages": [user("x"), OPENAI_CALL]}, "call_1"),
    "an assistant without a word": ({"messages": [user("x"), {"role": "assistant"}]}, "messages.1.content"),
    "arguments that are no text": (
        {
            "messages": [
                user("x"),
                {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"arguments": {}}}]},
            ]
        },
        "messages.1.tool_calls.0.function",
    ),
}
OPENAI_TAKES = {
    "a picture": {"messages": [user([{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}])]},
    "a history": {"messages": [user("x"), OPENAI_CALL, OPENAI_RESULT], "tools": OPENAI_TOOLS},
    "a history without tools": {"messages": [user("x"), OPENAI_CALL, OPENAI_RESULT]},
    "a developer": {"messages": [{"role": "developer", "content": [{"type": "text", "text": "x"}]}, user("y")]},
    "two users in a row": {"messages": [user("x"), user("y")]},
    "anything": function(parameters={"type": "object", "properties": {"a": True}, "required": ["a"]}),
    "references": function(
        parameters={"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}}
    ),
}


@pytest.mark.parametrize(("changes", "complaint"), OPENAI_REFUSES.values(), ids=OPENAI_REFUSES)
@pytest.mark.parametrize("schema", ["OpenAI", "AzureOpenAI"])
def test_openai_refuses(schema, changes, complaint):
    refused(schema, changes, complaint)


@pytest.mark.parametrize("changes", OPENAI_TAKES.values(), ids=OPENAI_TAKES)
@pytest.mark.parametrize("schema", ["OpenAI", "AzureOpenAI"])
def test_openai_takes(schema, changes):
    taken(schema, changes)


# --- Anthropic's Messages on three hosts ---

MESSAGES = pytest.mark.parametrize("schema", ["Anthropic", "GCPAnthropic", "AWSAnthropic"])
THINKS = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": sign("Hm.")}


def said(*blocks, role="user"):
    return {"role": role, "content": list(blocks)}


def text(words):
    return {"type": "text", "text": words}


def image(**source):
    return {"type": "image", "source": source}


def tool(**fields):
    return {"tools": [{"name": "weather", "input_schema": PARAMETERS, **fields}]}


ASKED = said(text("x"))
MESSAGES_REFUSE = {
    "no tokens": ({"max_tokens": 0}, "max_tokens"),
    "no messages": ({"messages": []}, "messages"),
    "a system message": ({"messages": [{"role": "system", "content": "x"}]}, "messages.0"),
    "an assistant first": ({"messages": [said(text("x"), role="assistant")]}, "messages"),
    "two users in a row": ({"messages": [ASKED, ASKED]}, "messages.1"),
    "no content": ({"messages": [said()]}, "messages.0"),
    "a message without content": ({"messages": [{"role": "user"}]}, "messages.0"),
    "an empty text": ({"messages": [said(text(""))]}, "messages.0.content.0"),
    "an empty system text": ({"system": [text(" ")]}, "system.0"),
    "a picture of another type": (
        {"messages": [said(image(type="base64", media_type="image/tiff", data=PNG))]},
        "media_type",
    ),
    "a picture that is not base64": (
        {"messages": [said(image(type="base64", media_type="image/png", data="#"))]},
        "source.data",
    ),
    "a picture beyond ASCII": (
        {"messages": [said(image(type="base64", media_type="image/png", data="é"))]},
        "source.data",
    ),
    "a call by the user": ({"messages": [said(MESSAGES_CALL["content"][1])]}, "messages.0.content.0"),
    "a call without a result": ({"messages": [ASKED, MESSAGES_CALL, ASKED]}, "toolu_1"),
    "a call at the end": ({"messages": [ASKED, MESSAGES_CALL]}, "messages.1"),
    "a result without a call": ({"messages": [MESSAGES_RESULT]}, "toolu_1"),
    "a result after a text": (
        {"messages": [ASKED, MESSAGES_CALL, said(text("y"), *MESSAGES_RESULT["content"])]},
        "come first",
    ),
    "a result twice": (
        {"messages": [ASKED, MESSAGES_CALL, said(*MESSAGES_RESULT["content"], *MESSAGES_RESULT["content"])]},
        "more than one",
    ),
    "an id with a dot": (
        {"messages": [ASKED, said({"type": "tool_use", "id": "a.b", "name": "x", "input": {}}, role="assistant")]},
        "messages.1.content.0",
    ),
    "white space at the end": ({"messages": [ASKED, said(text("It is "), role="assistant")]}, "white space"),
    "too warm": ({"temperature": 1.5}, "temperature"),
    "a blank sequence": ({"stop_sequences": [" "]}, "stop_sequences.0"),
    "a choice of none": ({"tool_choice": {"type": "auto"}}, "tool_choice"),
    "a tool that is not there": (tool() | {"tool_choice": {"type": "tool", "name": "other"}}, "other"),
    "a tool twice": ({"tools": MESSAGES_TOOLS * 2}, "unique"),
    "a tool without a schema": ({"tools": [{"name": "x"}]}, "input_schema"),
    "a schema without a type": (tool(input_schema={}), "input_schema.type"),
    "a schema that is wrong inside": (tool(input_schema={"type": "object", "required": "city"}), "required"),
    "a schema of a list": (tool(input_schema={"type": "object", "properties": []}), "properties"),
    "a tool of another type": (tool(type="function"), "tools.0.type"),
    "a small budget": ({"thinking": {"type": "enabled", "budget_tokens": 1023}}, "budget_tokens"),
    "a budget above the limit": (THINKS | {"max_tokens": 1024}, "max_tokens"),
    "thinking without a budget": ({"thinking": {"type": "enabled"}}, "thinking"),
    "thinking, and not as warm as needed": (THINKS | {"temperature": 0.5}, "temperature"),
    "thinking, and a small share": (THINKS | {"top_p": 0.5}, "top_p"),
    "thinking, and a few candidates": (THINKS | {"top_k": 5}, "top_k"),
    "thinking, and a tool is forced": (THINKS | tool() | {"tool_choice": {"type": "any"}}, "tool_choice"),
    "a call without its thought": (THINKS | {"messages": [ASKED, MESSAGES_CALL, MESSAGES_RESULT]}, "messages.1"),
    "a thought that is signed wrong": (
        {"messages": [ASKED, said(THOUGHT | {"thinking": "Ha."}, text("y"), role="assistant"), ASKED]},
        "signature",
    ),
    "an effort that there is not": ({"output_config": {"effort": "minimal"}}, "output_config.effort"),
}
MESSAGES_TAKE = {
    "texts as they are": {"system": "Be brief.", "messages": [{"role": "user", "content": "x"}]},
    "a picture": {"messages": [said(image(type="base64", media_type="image/png", data=PNG))]},
    "a picture elsewhere": {"messages": [said(image(type="url", url="https://example.com/a.png"), text("x"))]},
    "a history": {"tools": MESSAGES_TOOLS, "messages": [ASKED, MESSAGES_CALL, MESSAGES_RESULT]},
    "a result, and then a text": {"messages": [ASKED, MESSAGES_CALL, said(*MESSAGES_RESULT["content"], text("y"))]},
    "a start of the answer": {"messages": [ASKED, said(text("It is"), role="assistant")]},
    "a thought before a call": THINKS
    | {"messages": [ASKED, said(THOUGHT, *MESSAGES_CALL["content"], role="assistant"), MESSAGES_RESULT]},
    "a thought that is hidden": THINKS
    | {
        "messages": [
            ASKED,
            said({"type": "redacted_thinking", "data": "eA=="}, *MESSAGES_CALL["content"], role="assistant"),
            MESSAGES_RESULT,
        ]
    },
    "calls of a former turn without thoughts": THINKS
    | {"messages": [ASKED, MESSAGES_CALL, MESSAGES_RESULT, said(text("y"), role="assistant"), ASKED]},
    "caching": {
        "system": [text("x") | {"cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        "tools": [MESSAGES_TOOLS[0] | {"cache_control": {"type": "ephemeral"}}],
    },
    "thinking as it sees fit": {"thinking": {"type": "adaptive"}},
    "no thinking": {"thinking": {"type": "disabled"}, "temperature": 0.2},
    "an effort": {"output_config": {"effort": "low"}},
}


@MESSAGES
@pytest.mark.parametrize(("changes", "complaint"), MESSAGES_REFUSE.values(), ids=MESSAGES_REFUSE)
def test_messages_refuse(schema, changes, complaint):
    refused(schema, changes, complaint)


@MESSAGES
@pytest.mark.parametrize("changes", MESSAGES_TAKE.values(), ids=MESSAGES_TAKE)
def test_messages_take(schema, changes):
    taken(schema, changes)


HOSTS_REFUSE = {
    "Google: the model": ("GCPAnthropic", {"model": "claude-x"}, "model"),
    "Google: another version": ("GCPAnthropic", {"anthropic_version": "bedrock-2023-05-31"}, "anthropic_version"),
    "Amazon: the model": ("AWSAnthropic", {"model": "claude-x"}, "model"),
    "Amazon: a stream": ("AWSAnthropic", {"stream": True}, "stream"),
    "Amazon: another version": ("AWSAnthropic", {"anthropic_version": "2023-06-01"}, "anthropic_version"),
    "Anthropic: a version in the body": ("Anthropic", {"anthropic_version": "2023-06-01"}, "anthropic_version"),
    "Anthropic: no model": ("Anthropic", {"model": None}, "model"),
}


@pytest.mark.parametrize(("schema", "changes", "complaint"), HOSTS_REFUSE.values(), ids=HOSTS_REFUSE)
def test_a_host_of_claude_refuses_what_another_takes(schema, changes, complaint):
    refused(schema, changes, complaint)


def test_google_says_what_claude_refuses_in_the_words_of_its_maker():
    reply = APIS["GCPAnthropic"].ask({"max_tokens": 0})

    assert reply.body.startswith(b'{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens')


# --- Bedrock's Converse ---


def turn(*blocks, role="user"):
    return {"role": role, "content": list(blocks)}


def spec(**fields):
    return {"tools": [{"toolSpec": {"name": "weather", "inputSchema": {"json": PARAMETERS}, **fields}}]}


def converse_image(**source):
    return {"image": {"format": "png", "source": source}}


CONVERSE_THINKS = {"additionalModelRequestFields": THINKS}
CONVERSE_ASKED = turn({"text": "x"})
CONVERSE_THOUGHT = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": sign("Hm.")}}}
HISTORY = [CONVERSE_ASKED, CONVERSE_CALL, CONVERSE_RESULT]
CONVERSE_REFUSES = {
    "no messages": ({"messages": []}, "messages"),
    "messages of null": ({"messages": None}, "messages"),
    "an assistant first": ({"messages": [turn({"text": "x"}, role="assistant")]}, "messages"),
    "another role": ({"messages": [turn({"text": "x"}, role="tool")]}, "messages.0.role"),
    "two users in a row": ({"messages": [CONVERSE_ASKED, CONVERSE_ASKED]}, "messages.1"),
    "no content": ({"messages": [turn()]}, "messages.0.content"),
    "content that is text": ({"messages": [{"role": "user", "content": "x"}]}, "messages.0.content"),
    "a blank text": ({"messages": [turn({"text": " "})]}, "messages.0.content.0"),
    "a blank system text": ({"system": [{"text": ""}]}, "system.0"),
    "an empty block": ({"messages": [turn({})]}, "messages.0.content.0"),
    "a block of two": ({"messages": [turn({"text": "x", "cachePoint": {"type": "default"}})]}, "messages.0.content.0"),
    "a picture by the assistant": (
        {"messages": [CONVERSE_ASKED, turn(converse_image(bytes=PNG), role="assistant")]},
        "messages.1.content.0",
    ),
    "a picture that is not base64": ({"messages": [turn(converse_image(bytes="#"))]}, "source.bytes"),
    "a picture beyond ASCII": ({"messages": [turn(converse_image(bytes="é"))]}, "source.bytes"),
    "a picture of nothing": ({"messages": [turn(converse_image())]}, "source"),
    "a document with a dot in its name": (
        {"messages": [turn({"document": {"name": "a.pdf", "format": "pdf", "source": {"bytes": PNG}}})]},
        "document.name",
    ),
    "no tokens": ({"inferenceConfig": {"maxTokens": 0}}, "maxTokens"),
    "too warm": ({"inferenceConfig": {"temperature": 1.5}}, "temperature"),
    "an empty sequence": ({"inferenceConfig": {"stopSequences": [""]}}, "stopSequences"),
    "a setting that there is not": ({"inferenceConfig": {"topK": 5}}, "topK"),
    "no tools": ({"toolConfig": {"tools": []}}, "toolConfig.tools"),
    "a tool without a schema": ({"toolConfig": {"tools": [{"toolSpec": {"name": "x"}}]}}, "inputSchema"),
    "a schema of null": ({"toolConfig": spec(inputSchema={"json": None})}, "inputSchema.json"),
    "a schema without a type": ({"toolConfig": spec(inputSchema={"json": {}})}, "inputSchema.json.type"),
    "an empty description": ({"toolConfig": spec(description="")}, "description"),
    "a name with a dot": ({"toolConfig": spec(name="a.b")}, "toolSpec.name"),
    "a tool twice": ({"toolConfig": {"tools": CONVERSE_TOOLS["tools"] * 2}}, "unique"),
    "a choice of nothing": ({"toolConfig": spec() | {"toolChoice": {}}}, "toolChoice"),
    "a tool that is not there": ({"toolConfig": spec() | {"toolChoice": {"tool": {"name": "none"}}}}, "toolChoice"),
    "a history without tools": ({"messages": HISTORY}, "toolConfig"),
    "a call without a result": (
        {"messages": [CONVERSE_ASKED, CONVERSE_CALL, CONVERSE_ASKED], "toolConfig": CONVERSE_TOOLS},
        "tooluse_1",
    ),
    "a call at the end": ({"messages": HISTORY[:2], "toolConfig": CONVERSE_TOOLS}, "messages.1"),
    "a result without a call": ({"messages": [CONVERSE_RESULT], "toolConfig": CONVERSE_TOOLS}, "messages.0"),
    "an error that says nothing": (
        {
            "messages": [
                *HISTORY[:2],
                turn({"toolResult": {"toolUseId": "tooluse_1", "content": [], "status": "error"}}),
            ],
            "toolConfig": CONVERSE_TOOLS,
        },
        "toolResult.content",
    ),
    "a result that is blank": (
        {
            "messages": [*HISTORY[:2], turn({"toolResult": {"toolUseId": "tooluse_1", "content": [{"text": ""}]}})],
            "toolConfig": CONVERSE_TOOLS,
        },
        "toolResult.content.0",
    ),
    "a small budget": (
        {"additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1}}},
        "budget_tokens",
    ),
    "thinking of no kind": ({"additionalModelRequestFields": {"thinking": {"type": []}}}, "thinking"),
    "a budget above the limit": (CONVERSE_THINKS | {"inferenceConfig": {"maxTokens": 1024}}, "max_tokens"),
    "thinking, and not as warm as needed": (
        CONVERSE_THINKS | {"inferenceConfig": {"temperature": 0.5}},
        "temperature",
    ),
    "thinking, and a tool is forced": (
        CONVERSE_THINKS | {"toolConfig": CONVERSE_TOOLS | {"toolChoice": {"any": {}}}},
        "tool_choice",
    ),
    "a call without its thought": (
        CONVERSE_THINKS | {"messages": HISTORY, "toolConfig": CONVERSE_TOOLS},
        "messages.1.content.0",
    ),
    "a thought that is signed wrong": (
        {
            "messages": [
                CONVERSE_ASKED,
                turn(
                    {"reasoningContent": {"reasoningText": {"text": "Ha.", "signature": sign("Hm.")}}},
                    {"text": "y"},
                    role="assistant",
                ),
                CONVERSE_ASKED,
            ]
        },
        "signature",
    ),
    "a field that the model has not": ({"additionalModelRequestFields": {"seed": 1}}, "seed"),
    "a tier that there is not": ({"serviceTier": {"type": "auto"}}, "serviceTier.type"),
    "a schema that is not JSON": (
        {"outputConfig": {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"schema": "{"}}}}},
        "jsonSchema.schema",
    ),
}
CONVERSE_TAKES = {
    "a picture": {"messages": [turn(converse_image(bytes=PNG), {"text": "x"})]},
    "a document": {
        "messages": [turn({"document": {"name": "a", "format": "pdf", "source": {"bytes": PNG}}}, {"text": "x"})]
    },
    "a history": {"messages": HISTORY, "toolConfig": CONVERSE_TOOLS},
    "a result in JSON": {
        "messages": [
            *HISTORY[:2],
            turn({"toolResult": {"toolUseId": "tooluse_1", "content": [{"json": {"degrees": 18}}], "status": None}}),
        ],
        "toolConfig": CONVERSE_TOOLS,
    },
    "caching": {
        "system": [{"text": "x"}, {"cachePoint": {"type": "default", "ttl": "1h"}}],
        "toolConfig": {"tools": [*CONVERSE_TOOLS["tools"], {"cachePoint": {"type": "default"}}]},
    },
    "a thought before a call": CONVERSE_THINKS
    | {
        "messages": [
            CONVERSE_ASKED,
            turn(CONVERSE_THOUGHT, *CONVERSE_CALL["content"], role="assistant"),
            CONVERSE_RESULT,
        ],
        "toolConfig": CONVERSE_TOOLS,
    },
    "a named tool": {"toolConfig": spec() | {"toolChoice": {"tool": {"name": "weather"}}}},
}


@pytest.mark.parametrize(("changes", "complaint"), CONVERSE_REFUSES.values(), ids=CONVERSE_REFUSES)
def test_converse_refuses(changes, complaint):
    refused("AWSBedrock", changes, complaint)


@pytest.mark.parametrize("changes", CONVERSE_TAKES.values(), ids=CONVERSE_TAKES)
def test_converse_takes(changes):
    taken("AWSBedrock", changes)


def test_a_model_that_is_not_claude_does_not_know_thinking():
    target = "/model/amazon.nova-pro-v1:0/converse"

    refused("AWSBedrock", CONVERSE_THINKS, "thinking", target=target)
    taken("AWSBedrock", {}, target=target)


# --- Gemini ---


def content(*parts, role="user"):
    return {"role": role, "parts": list(parts)}


def config(**fields):
    return {"generationConfig": fields}


def declaration(**fields):
    return {"tools": [{"functionDeclarations": [{"name": "weather", **fields}]}]}


GEMINI_ASKED = content({"text": "x"})
STRING = {"type": "STRING"}
GEMINI_REFUSES = {
    "no contents": ({"contents": []}, "contents"),
    "contents of null": ({"contents": None}, "contents"),
    "no role": ({"contents": [{"parts": [{"text": "x"}]}]}, "contents.0.role"),
    "another role": ({"contents": [content({"text": "x"}, role="assistant")]}, "contents.0.role"),
    "no parts": ({"contents": [content()]}, "contents.0.parts"),
    "an empty part": ({"contents": [content({})]}, "contents.0.parts.0"),
    "a part of two": (
        {"contents": [content({"text": "x", "fileData": {"fileUri": "gs://a", "mimeType": "image/png"}})]},
        "contents.0.parts.0",
    ),
    "an empty text": ({"contents": [content({"text": ""})]}, "contents.0.parts.0.text"),
    "an empty system text": ({"systemInstruction": {"parts": [{"text": ""}]}}, "systemInstruction.parts.0"),
    "data that is not base64": (
        {"contents": [content({"inlineData": {"mimeType": "image/png", "data": "#"}})]},
        "inlineData",
    ),
    "data beyond ASCII": (
        {"contents": [content({"inlineData": {"mimeType": "image/png", "data": "é"}})]},
        "inlineData",
    ),
    "a model at the end": ({"contents": [GEMINI_ASKED, content({"text": "y"}, role="model")]}, "contents"),
    "a call by the user": ({"contents": [content(GEMINI_CALL["parts"][1])]}, "functionCall"),
    "a call after a model": (
        {"contents": [GEMINI_ASKED, content({"text": "y"}, role="model"), GEMINI_CALL, GEMINI_RESULT]},
        "contents.2",
    ),
    "a call without a response": ({"contents": [GEMINI_ASKED, GEMINI_CALL, GEMINI_ASKED]}, "0 function responses"),
    "a response without a call": ({"contents": [GEMINI_RESULT]}, "1 function responses"),
    "a response of another function": (
        {
            "contents": [
                GEMINI_ASKED,
                GEMINI_CALL,
                content({"functionResponse": {"name": "time", "response": {"output": "x"}}}),
            ]
        },
        "was not called",
    ),
    "a response without a name": (
        {"contents": [GEMINI_ASKED, GEMINI_CALL, content({"functionResponse": {"response": {}}})]},
        "name",
    ),
    "a signature of nobody": (
        {
            "contents": [
                GEMINI_ASKED,
                content({"text": "y", "thoughtSignature": "AAEC"}, role="model"),
                GEMINI_ASKED,
            ]
        },
        "thoughtSignature",
    ),
    "no tokens": (config(maxOutputTokens=0), "maxOutputTokens"),
    "too warm": (config(temperature=2.5), "temperature"),
    "six sequences": (config(stopSequences=list("abcdef")), "stopSequences"),
    "alternatives of nothing": (config(logprobs=2), "responseLogprobs"),
    "a schema for plain text": (config(responseSchema=STRING), "responseMimeType"),
    "two schemas": (
        config(responseSchema=STRING, responseJsonSchema={}, responseMimeType="application/json"),
        "responseSchema",
    ),
    "a budget and a level": (config(thinkingConfig={"thinkingBudget": 1, "thinkingLevel": "LOW"}), "thinkingLevel"),
    "a level before version 3": (config(thinkingConfig={"thinkingLevel": "LOW"}), "thinkingLevel"),
    "a tool of nothing": ({"tools": [{}]}, "tools.0"),
    "a name with a digit first": (declaration(name="1st"), "name"),
    "parameters without a type": (declaration(parameters={}), "OBJECT"),
    "parameters of a reference": (declaration(parameters={"type": "OBJECT", "$ref": "#/x"}), "$ref"),
    "a choice of one": (
        declaration(parameters={"type": "OBJECT", "properties": {"a": {"oneOf": [STRING]}}}),
        "oneOf",
    ),
    "a property without a type": (declaration(parameters={"type": "OBJECT", "properties": {"a": {}}}), "properties.a"),
    "a list of anything": (
        declaration(parameters={"type": "OBJECT", "properties": {"a": {"type": "ARRAY"}}}),
        "properties.a.items",
    ),
    "an enum of numbers": (
        declaration(parameters={"type": "OBJECT", "properties": {"a": {"type": "INTEGER", "enum": ["1"]}}}),
        "properties.a.enum",
    ),
    "a required member that is not there": (declaration(parameters={"type": "OBJECT", "required": ["a"]}), "required"),
    "parameters in both ways": (declaration(parameters=PARAMETERS, parametersJsonSchema=PARAMETERS), "either"),
    "a JSON schema of null": (declaration(parametersJsonSchema=None), "parametersJsonSchema"),
    "a function that is not there": (
        {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["time"]}}},
        "time",
    ),
}
GEMINI_TAKES = {
    "a picture": {"contents": [content({"inlineData": {"mimeType": "image/png", "data": PNG}}, {"text": "x"})]},
    "a picture elsewhere": {"contents": [content({"fileData": {"mimeType": "image/png", "fileUri": "gs://a/b"}})]},
    "a history": {"contents": [GEMINI_ASKED, GEMINI_CALL, GEMINI_RESULT], "tools": GEMINI_TOOLS},
    "two users in a row": {"contents": [GEMINI_ASKED, GEMINI_ASKED]},
    "a response, and then a text": {
        "contents": [GEMINI_ASKED, GEMINI_CALL, content(*GEMINI_RESULT["parts"], {"text": "y"})]
    },
    "a JSON schema": declaration(parametersJsonSchema={"type": "object", "$defs": {"A": {"type": "string"}}}),
    "a search beside functions": {"tools": [{"googleSearch": {}}, *GEMINI_TOOLS]},
    "an enum": config(responseMimeType="text/x.enum", responseSchema={"type": "STRING", "enum": ["a", "b"]}),
    "no thinking": config(thinkingConfig={"thinkingBudget": 0}),
    "safety": {"safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]},
}


@pytest.mark.parametrize(("changes", "complaint"), GEMINI_REFUSES.values(), ids=GEMINI_REFUSES)
def test_gemini_refuses(changes, complaint):
    refused("GCPVertexAI", changes, complaint)


@pytest.mark.parametrize("changes", GEMINI_TAKES.values(), ids=GEMINI_TAKES)
def test_gemini_takes(changes):
    taken("GCPVertexAI", changes)


SKIPPED = base64.b64encode(b"skip_thought_signature_validator").decode()


@pytest.mark.parametrize("signature", [sign(""), SKIPPED], ids=["its own", "the free pass"])
def test_gemini_3_wants_the_signature_of_a_call_back(signature):
    target = APIS["GCPVertexAI"].target.replace("gemini-2.5-pro", "gemini-3-pro")
    signed = content(GEMINI_CALL["parts"][1] | {"thoughtSignature": signature}, role="model")

    refused("GCPVertexAI", {"contents": [GEMINI_ASKED, GEMINI_CALL, GEMINI_RESULT]}, "signature", target=target)
    taken("GCPVertexAI", {"contents": [GEMINI_ASKED, signed, GEMINI_RESULT]}, target=target)
    taken("GCPVertexAI", {"contents": [GEMINI_ASKED, GEMINI_CALL, GEMINI_RESULT, GEMINI_ASKED]}, target=target)
