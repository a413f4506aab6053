"""Field reports about requests, told of every backend that speaks another API, through the exchange."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest

from extproc.endpoints.chat_request import ChatRequest
from tests.support import converse
from tests.support.field_reports import WatchedGateway
from tests.support.translated import ALL, CLAUDE, TRANSLATED, backend, config
from tests.unit.translate.chat.anthropic import oracle as anthropic
from tests.unit.translate.chat.gemini import oracle as gemini

USER = {"role": "user", "content": "q"}
MODELS = {"AWSBedrock": "anthropic.claude-x", "GCPVertexAI": "gemini-2.5-flash"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
TWO_TOOLS = [TOOL, {"type": "function", "function": {"name": "g"}}]


def call(identity: str, name: str = "f", arguments: Any = "{}") -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(identity: str, content: Any = "r") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identity, "content": content}


HISTORY = [USER, {"role": "assistant", "content": None, "tool_calls": [call("t1")]}, result("t1")]


class Sent:
    """What goes upstream, after the provider's own types have accepted it."""

    def __init__(self, gateway: WatchedGateway, schema: str, request: dict[str, Any]) -> None:
        self.schema = schema
        self.exchange = gateway.exchange()
        self._asked = json.dumps({"model": MODELS.get(schema, "claude-x"), "messages": [USER], **request}).encode()
        self.exchange.request(self._asked)
        self.reply = self.exchange.attempt()
        self.refused = self.reply.kind == "immediate_response"
        if self.refused:
            self.error = self.reply.json["error"]
            return
        self.raw = self.reply.body if self.reply.replaces else self._asked
        self.path = self.exchange.carried[":path"]
        if self.reply.replaces:
            assert self.exchange.carried["content-length"] == str(len(self.raw))
        self.body = self._accepted()

    def _accepted(self) -> dict[str, Any]:
        match self.schema:
            case "AWSBedrock":
                return converse.accept(self.path, self.raw)
            case "GCPVertexAI":
                return gemini.accept(self.path.removeprefix("/v1/projects/p/locations/r/"), self.raw)
            case "AzureOpenAI":
                return dict(json.loads(self.raw))
        anthropic.accepts(self.path.removeprefix("/v1/projects/p/locations/r/"), self.raw)
        return dict(json.loads(self.raw))

    @property
    def turns(self) -> list[dict[str, Any]]:
        return list(self.body["contents" if self.schema == "GCPVertexAI" else "messages"])

    @property
    def roles(self) -> list[str]:
        return ["assistant" if turn["role"] == "model" else turn["role"] for turn in self.turns]

    @property
    def results(self) -> list[str]:
        """Texts of the results of tools, in the order of the last turn; a text of the user stands as ``user:``."""
        return [self._told(block) for block in self.turns[-1].get("parts") or self.turns[-1]["content"]]

    def _told(self, block: dict[str, Any]) -> str:
        if "toolResult" in block:
            inner = block["toolResult"]["content"]
        elif "functionResponse" in block:
            return str(block["functionResponse"]["response"]["output"])
        elif block.get("type") == "tool_result":
            inner = block.get("content", [])
        else:
            return f"user:{block['text']}"
        return "".join(each["text"] for each in inner)

    @property
    def tool_names(self) -> list[str]:
        match self.schema:
            case "AWSBedrock":
                tools = self.body.get("toolConfig", {}).get("tools", [])
                return [tool["toolSpec"]["name"] for tool in tools if "toolSpec" in tool]
            case "GCPVertexAI":
                groups = self.body.get("tools") or []
                return [each["name"] for group in groups for each in group.get("functionDeclarations", ())]
        return [tool["name"] for tool in self.body.get("tools", ())]

    @property
    def limit(self) -> Any:
        match self.schema:
            case "AWSBedrock":
                return self.body["inferenceConfig"].get("maxTokens")
            case "GCPVertexAI":
                return self.body["generationConfig"].get("maxOutputTokens")
        return self.body["max_tokens"]


@pytest.fixture
def send(open_gateway):
    """``send(schema, **request)`` to a backend of that schema."""
    gateways: dict[tuple[str, str], WatchedGateway] = {}

    def send_(schema: str, override: str = "", **request: Any) -> Sent:
        if (schema, override) not in gateways:
            gateways[schema, override] = open_gateway(config(backend(schema, override=override)))
        return Sent(gateways[schema, override], schema, request)

    return send_


@pytest.mark.parametrize("schema", TRANSLATED)
class TestToolTurns:
    """BR-46, BR-48: histories with tools are accepted, whatever order and gaps the client leaves."""

    def test_results_are_one_turn_before_the_users_words(self, send, schema):
        calls = [call("t1"), call("t2", "g")]
        told = [USER, {"role": "assistant", "content": None, "tool_calls": calls}]
        sent = send(schema, messages=[*told, result("t1", "1"), result("t2", "2"), {"role": "user", "content": "thx"}])
        assert sent.roles == ["user", "assistant", "user"]
        assert sent.results == ["1", "2", "user:thx"]

    def test_words_before_the_results_follow_them(self, send, schema):
        calls = [call("t1"), call("t2", "g")]
        told = [USER, {"role": "assistant", "content": None, "tool_calls": calls}]
        sent = send(schema, messages=[*told, result("t1", "1"), {"role": "user", "content": "x"}, result("t2", "2")])
        assert sent.roles == ["user", "assistant", "user"]
        assert sent.results == ["1", "2", "user:x"]

    def test_several_rounds(self, send, schema):
        rounds = [
            message
            for number in range(5)
            for message in (
                {"role": "assistant", "content": "hm", "tool_calls": [call(f"t{number}")]},
                result(f"t{number}", str(number)),
            )
        ]
        sent = send(schema, messages=[USER, *rounds])
        assert sent.roles == ["user", *["assistant", "user"] * 5]
        assert sent.results == ["4"]

    def test_a_system_message_between_results_does_not_part_them(self, send, schema):
        calls = [call("t1"), call("t2", "g")]
        told = [USER, {"role": "assistant", "content": None, "tool_calls": calls}]
        sent = send(schema, messages=[*told, result("t1", "1"), {"role": "system", "content": "s"}, result("t2", "2")])
        assert sent.results == ["1", "2"]

    def test_a_history_with_tools_and_none_in_the_request(self, send, schema):
        sent = send(schema, messages=HISTORY)
        assert not sent.refused
        assert sent.tool_names == (["f"] if schema == "AWSBedrock" else [])

    def test_a_history_with_tools_that_may_not_be_called(self, send, schema):
        sent = send(schema, messages=HISTORY, tools=TWO_TOOLS, tool_choice="none")
        assert sent.tool_names == ["f", "g"]
        assert b'"none":{}' not in sent.raw

    @pytest.mark.parametrize("arguments", [None, "", "  ", "null", "{}", "{ }\n"])
    def test_arguments_of_nothing(self, send, schema, arguments):
        assistant = {"role": "assistant", "content": None, "tool_calls": [call("t1", arguments=arguments)]}
        sent = send(schema, messages=[USER, assistant, result("t1")])
        block = next(iter(sent.turns[1].get("parts") or sent.turns[1]["content"]))
        given = block.get("toolUse", block.get("functionCall", block))
        assert given.get("input", given.get("args", {})) == {}

    @pytest.mark.parametrize("content", ["", [], [{"type": "text", "text": ""}], "   "])
    def test_a_result_of_nothing(self, send, schema, content):
        sent = send(schema, messages=[*HISTORY[:2], result("t1", content)])
        assert [each.strip() for each in sent.results] == [""]

    def test_numbers_in_arguments_keep_their_spelling(self, send, schema):
        text = '{"a":1.0,"b":12345678901234567890123,"c":1e-7}'
        assistant = {"role": "assistant", "content": None, "tool_calls": [call("t1", arguments=text)]}
        assert text.encode() in send(schema, messages=[USER, assistant, result("t1")]).raw


CHOICES = {
    "auto": {
        "AWSBedrock": {"auto": {}},
        "GCPVertexAI": {"mode": "AUTO"},
        "Anthropic": {"type": "auto", "disable_parallel_tool_use": False},
    },
    "required": {
        "AWSBedrock": {"any": {}},
        "GCPVertexAI": {"mode": "ANY"},
        "Anthropic": {"type": "any", "disable_parallel_tool_use": False},
    },
    "none": {"AWSBedrock": None, "GCPVertexAI": {"mode": "NONE"}, "Anthropic": {"type": "none"}},
    "named": {
        "AWSBedrock": {"tool": {"name": "g"}},
        "GCPVertexAI": {"mode": "ANY", "allowedFunctionNames": ["g"]},
        "Anthropic": {"type": "tool", "name": "g", "disable_parallel_tool_use": False},
    },
}


@pytest.mark.parametrize("schema", TRANSLATED)
@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_has_the_providers_word(send, schema, choice):
    """BR-47: and where it has none, tools that must not be called are not sent."""
    given = {"type": "function", "function": {"name": "g"}} if choice == "named" else choice
    sent = send(schema, tools=TWO_TOOLS, tool_choice=given)
    match schema:
        case "AWSBedrock":
            found = sent.body.get("toolConfig", {}).get("toolChoice")
            assert bool(sent.tool_names) == (choice != "none")
        case "GCPVertexAI":
            found = sent.body["toolConfig"]["functionCallingConfig"]
        case _:
            found = sent.body["tool_choice"]
    assert found == CHOICES[choice]["Anthropic" if schema in CLAUDE else schema]


LIMITS = {
    "none": ({}, None),
    "the old one": ({"max_tokens": 5}, 5),
    "the new one": ({"max_completion_tokens": 7}, 7),
    "both": ({"max_tokens": 5, "max_completion_tokens": 7}, 7),
    "the new one is null": ({"max_tokens": 5, "max_completion_tokens": None}, 5),
    "both are null": ({"max_tokens": None, "max_completion_tokens": None}, None),
}


@pytest.mark.parametrize("schema", TRANSLATED)
@pytest.mark.parametrize("case", LIMITS)
def test_one_limit_goes_upstream(send, schema, case):
    """BR-72, BR-73: the newer member wins; Claude needs one in any case."""
    given, expected = LIMITS[case]
    sent = send(schema, **given)
    assert sent.limit == (4096 if expected is None and schema in CLAUDE else expected)
    assert b"max_completion_tokens" not in sent.raw


@pytest.mark.parametrize("schema", CLAUDE)
def test_a_budget_leaves_room_for_an_answer(send, schema):
    """BR-72: the limit is above the budget, and a request where it is not is the client's fault."""
    thinking = {"type": "enabled", "budget_tokens": 10_000}
    assert send(schema, thinking=thinking).limit > 10_000
    assert "budget_tokens" in send(schema, thinking=thinking, max_tokens=10_000).error["message"]


MODEL_NAMES = ["pub/real-1@2024", "arn:aws:bedrock:eu:1:inference-profile/eu.x-v1:0", "/models/x/y", "..", "a?b#c%2e é"]


@pytest.mark.parametrize("schema", ALL)
@pytest.mark.parametrize("override", MODEL_NAMES)
def test_the_override_is_where_the_backend_looks(send, schema, override):
    """BR-42, BR-96, BR-103: in path or body, one segment of it, and the client's name in neither."""
    for sent in (send(schema, override=override, model="virt", stream=streamed) for streamed in (False, True)):
        check_override(sent, schema, override)


def check_override(sent: Sent, schema: str, override: str) -> None:
    if schema == "Anthropic":
        assert sent.body["model"] == override
        return
    assert "virt" not in sent.path
    assert schema == "AzureOpenAI" or b"virt" not in sent.raw
    path = sent.path.partition("?")[0]
    assert override.rsplit("/", maxsplit=1)[-1] in unquote(path)
    assert path.count("/") == {"AzureOpenAI": 5, "AWSBedrock": 3, "AWSAnthropic": 3}.get(schema, 9)
    assert not {".", "..", ""} & set(path.split("/")[1:])


@pytest.mark.parametrize("schema", ALL)
@pytest.mark.parametrize("model", [{"model": ""}, {"model": None}], ids=["empty", "null"])
def test_a_request_without_a_model_has_no_empty_segment(send, schema, model):
    """BR-103: without a name there is nowhere to send it."""
    sent = send(schema, **model)
    assert sent.reply.status == 422
    assert "model is required" in sent.error["message"]


QUERIES = {
    "": "api-version=2025-01-01-preview",
    "?x=1&y": "api-version=2025-01-01-preview&x=1&y",
    "?api-version=mine&x=1": "api-version=2025-01-01-preview&x=1",
}


@pytest.mark.parametrize("query", QUERIES)
def test_the_clients_query_joins_the_version(open_gateway, query):
    """BR-103: each parameter once; the configured version wins, and other APIs get no query of the client's."""
    for schema in ALL:
        exchange = open_gateway(config(backend(schema))).exchange()
        exchange.headers({":path": f"/v1/chat/completions{query}"})
        exchange.body({"model": "dep 1/x", "messages": [USER], "stream": True})
        exchange.attempt()
        found = exchange.carried[":path"].partition("?")[2]
        assert found == {"AzureOpenAI": QUERIES[query], "GCPVertexAI": "alt=sse"}.get(schema, "")


NULLS = [
    "metadata",
    "store",
    "stream_options",
    *(each.encode_name for each in msgspec.structs.fields(ChatRequest) if each.name not in {"model", "messages"}),
]


@pytest.mark.parametrize("schema", TRANSLATED)
class TestNulls:
    """BR-67: a null is an absent member, as SDKs that dump their models write it."""

    def test_of_the_request(self, send, schema):
        assert send(schema, **dict.fromkeys(NULLS)).raw == send(schema).raw

    def test_of_a_tool(self, send, schema):
        given = {"name": "f", "description": None, "parameters": None, "strict": None, "cache_control": None}
        tools = [{"type": "function", "function": given, "google_search": None}]
        bare = [{"type": "function", "function": {"name": "f"}}]
        assert send(schema, tools=tools).raw == send(schema, tools=bare).raw

    def test_of_an_answer_sent_back(self, send, schema):
        nulls = dict.fromkeys(["refusal", "audio", "function_call", "name", "reasoning_content", "thinking_blocks"])
        part = {"type": "text", "text": "x", "refusal": None, "signature": None, "cache_control": None}
        padded = {"role": "assistant", "content": [part], "tool_calls": None, "annotations": [], **nulls}
        plain = {"role": "assistant", "content": "x"}
        assert send(schema, messages=[USER, padded, USER]).raw == send(schema, messages=[USER, plain, USER]).raw


BAD = {
    "no base64": {
        "messages": [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,@@@"}}]}
        ]
    },
    "an unknown tool": {"tools": [{"type": "x"}]},
    "a choice that is a number": {"tools": [TOOL], "tool_choice": 7},
    "a choice that is unknown": {"model": "nova", "tools": [TOOL], "tool_choice": 'the "best"\n'},
    "messages that are text": {"messages": "str"},
    "arguments cut": {"messages": [USER, {"role": "assistant", "tool_calls": [call("a", arguments='{"a":"')]}]},
    "arguments that are a list": {"messages": [USER, {"role": "assistant", "tool_calls": [call("a", arguments="[]")]}]},
    "arguments nested too deep": {
        "messages": [
            USER,
            {"role": "assistant", "tool_calls": [call("a", arguments='{"a":' + "[" * 9000 + "]" * 9000)]},
        ]
    },
    "a call without an id": {"messages": [USER, {"role": "assistant", "tool_calls": [call(None)]}]},
    "a result without content": {"messages": [*HISTORY[:2], {"role": "tool", "tool_call_id": "t1"}]},
    "a result that is an image": {
        "messages": [*HISTORY[:2], result("t1", [{"type": "image_url", "image_url": {"url": "x"}}])]
    },
    "a file elsewhere": {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "x"}}]}]},
    "an unknown part": {"messages": [{"role": "user", "content": [{"type": 'a"b'}]}]},
    "an unknown role": {"messages": [{"role": "function", "name": "f", "content": "x"}]},
    "a message without a role": {"messages": [{}]},
    "a format without a type": {"response_format": {}},
    "a format that is unknown": {"response_format": {"type": "x"}},
    "thinking without a type": {"thinking": {}},
    "thinking of an unknown type": {"thinking": {"type": "x"}},
    "a part without a type": {"messages": [{"role": "user", "content": [{"text": "x"}]}]},
    "a text that is a list of texts": {"messages": [{"role": "system", "content": ["x"]}]},
    "a text that is a number": {"messages": [{"role": "system", "content": 5}]},
    "an answer that is a number": {"messages": [USER, {"role": "assistant", "content": 5}]},
    "a vendor's member that is text": {"generationConfig": "x"},
    "stop that is a number": {"stop": 5},
    "an opaque thought that is none": {
        "messages": [USER, {"role": "assistant", "content": [{"type": "redacted_thinking", "redactedContent": 5}]}]
    },
    "a negative limit": {"max_tokens": -1},
    "a limit that is text": {"max_tokens": "5"},
    "a limit that is a fraction": {"max_tokens": 5.5},
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_the_clients_fault(send, case):
    """BR-67, BR-31: a 4xx in the client's shape, whatever quotes are in what it tells of."""
    for schema in TRANSLATED:
        sent = send(schema, **BAD[case])
        assert sent.reply.status in {400, 422}, schema
        assert sent.reply.json["type"] == "error"
        assert sent.error["code"] == str(sent.reply.status)
        assert "Traceback" not in sent.error["message"]
        assert sent.exchange.gateway.count("extproc_attempts_total", 'outcome="refused"') == 1


@pytest.mark.parametrize("schema", TRANSLATED)
def test_a_configured_mutation_is_of_what_is_sent(open_gateway, schema):
    """BR-23, BR-98: after the translation, with the length of the result, in all attempts."""
    place = {"GCPVertexAI": "labels", "AWSBedrock": "requestMetadata"}.get(schema, "metadata")
    mutation = {"set": [{"path": place, "value": '{"k":"ü"}'}], "remove": ["stream_options", "tools"]}
    exchange = open_gateway(config(backend(schema) | {"httpBodyMutation": mutation})).exchange()
    exchange.request({"model": "m", "messages": [USER], "stream": True})
    for _ in range(2):
        body = exchange.attempt().body
        assert json.loads(body)[place] == {"k": "ü"}
        assert "tools" not in json.loads(body)
        assert exchange.carried["content-length"] == str(len(body))


RAW = {
    "no object": b"[]",
    "no text": b'{"model":"m","messages":[{"role":"user","content":"\xff"}]}',
    "nested too deep": b'{"model":"m","messages":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "no number": b'{"model":"m","temperature":NaN,"messages":[]}',
    "half a pair": b'{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}',
    "cut": b'{"model":"m","messages":[{"role":"user","con',
}


@pytest.mark.parametrize("schema", TRANSLATED)
@pytest.mark.parametrize("case", RAW)
def test_a_body_that_cannot_be_read_is_a_400(open_gateway, schema, case):
    """BR-67: at the router where it shows there, else at the attempt."""
    exchange = open_gateway(config(backend(schema))).exchange()
    reply = exchange.request(RAW[case])
    if reply.kind != "immediate_response":
        reply = exchange.attempt()
    assert reply.status == 400
    assert reply.json["error"]["message"].startswith("malformed request: failed to parse JSON for /v1/chat/completions")
