"""One conversation in the words of every provider, and the call that carries it there."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from deploy.demo.providers.anthropic import Anthropic
from deploy.demo.providers.bedrock import Bedrock
from deploy.demo.providers.openai import AzureOpenAI, OpenAI
from deploy.demo.providers.vertex import VertexAI

SYSTEM = "You are brief."
QUESTION = "What is the weather in Paris?"
RESULT = "18 degrees and sunny"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SIGNED = (
    "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/us-east-1/bedrock/aws4_request, "
    "SignedHeaders=content-type;host;x-amz-date, Signature=" + "0" * 64
)
AWS_HEADERS = {"authorization": SIGNED, "x-amz-date": "20260101T000000Z"}

OPENAI = OpenAI(key="sk-1")
AZURE = AzureOpenAI(key="az-1", token="entra-1")
BEDROCK = Bedrock(access_key_ids=frozenset({"AKIDEXAMPLE"}), region="us-east-1")
VERTEX = VertexAI(project="project-1", location="us-central1", token="ya29-1")
ANTHROPIC = Anthropic(key="sk-ant-1")

CLAUDE = "anthropic.claude-sonnet-4-5-20250929-v1:0"
GEMINI = "/v1/projects/project-1/locations/us-central1/publishers/google/models/gemini-2.5-pro"
VERTEX_CLAUDE = "/v1/projects/project-1/locations/us-central1/publishers/anthropic/models/claude-sonnet-4-5"


@dataclass(frozen=True, kw_only=True)
class API:
    """How one API is called: whole, and as a stream; and a request of it, with the system prompt and the question."""

    provider: Any
    target: str
    stream_target: str
    headers: dict[str, str]
    request: dict[str, Any]
    streaming: dict[str, Any] = field(default_factory=dict)

    def ask(self, changes=None, *, stream=False, target=None, headers=None, method="POST", body=None):
        """The reply to the request with ``changes`` at its top; a header of None is left out."""
        document = self.request | (changes or {}) | (self.streaming if stream else {})
        sent = json.dumps(document).encode() if body is None else body
        given = {"content-type": "application/json", "content-length": str(len(sent))} | self.headers | (headers or {})
        pairs = [(name, value) for name, value in given.items() if value is not None]
        return self.provider.answer(method, target or (self.stream_target if stream else self.target), pairs, sent)


OPENAI_REQUEST = {
    "model": "gpt-5",
    "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}],
}
OPENAI_TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}]
OPENAI_CALL = {
    "role": "assistant",
    "content": "Let me look that up.",
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}
    ],
}
OPENAI_RESULT = {"role": "tool", "tool_call_id": "call_1", "content": RESULT}

MESSAGES_REQUEST = {
    "max_tokens": 4096,
    "system": [{"type": "text", "text": SYSTEM}],
    "messages": [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}],
}
MESSAGES_TOOLS = [{"name": "weather", "description": "", "input_schema": PARAMETERS}]
MESSAGES_CALL = {
    "role": "assistant",
    "content": [
        {"type": "text", "text": "Let me look that up."},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}},
    ],
}
MESSAGES_RESULT = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": RESULT}]}],
}

CONVERSE_REQUEST = {
    "inferenceConfig": {"maxTokens": 4096},
    "system": [{"text": SYSTEM}],
    "messages": [{"role": "user", "content": [{"text": QUESTION}]}],
}
CONVERSE_TOOLS = {"tools": [{"toolSpec": {"name": "weather", "inputSchema": {"json": PARAMETERS}}}]}
CONVERSE_CALL = {
    "role": "assistant",
    "content": [
        {"text": "Let me look that up."},
        {"toolUse": {"toolUseId": "tooluse_1", "name": "weather", "input": {"city": "Paris"}}},
    ],
}
CONVERSE_RESULT = {
    "role": "user",
    "content": [{"toolResult": {"toolUseId": "tooluse_1", "content": [{"text": RESULT}]}}],
}

GEMINI_REQUEST = {
    "systemInstruction": {"parts": [{"text": SYSTEM}]},
    "contents": [{"role": "user", "parts": [{"text": QUESTION}]}],
    "tools": None,
    "generationConfig": {},
}
GEMINI_TOOLS = [{"functionDeclarations": [{"name": "weather", "parameters": PARAMETERS}]}]
GEMINI_CALL = {
    "role": "model",
    "parts": [
        {"text": "Let me look that up."},
        {"functionCall": {"name": "weather", "args": {"city": "Paris"}}},
    ],
}
GEMINI_RESULT = {
    "role": "user",
    "parts": [{"functionResponse": {"name": "weather", "response": {"output": RESULT}}}],
}

APIS = {
    "OpenAI": API(
        provider=OPENAI,
        target="/v1/chat/completions",
        stream_target="/v1/chat/completions",
        headers={"authorization": "Bearer sk-1"},
        request=OPENAI_REQUEST,
        streaming={"stream": True, "stream_options": {"include_usage": True}},
    ),
    "AzureOpenAI": API(
        provider=AZURE,
        target="/openai/deployments/gpt-5/chat/completions?api-version=2025-01-01-preview",
        stream_target="/openai/deployments/gpt-5/chat/completions?api-version=2025-01-01-preview",
        headers={"api-key": "az-1"},
        request=OPENAI_REQUEST,
        streaming={"stream": True, "stream_options": {"include_usage": True}},
    ),
    "AWSBedrock": API(
        provider=BEDROCK,
        target=f"/model/{CLAUDE}/converse",
        stream_target=f"/model/{CLAUDE}/converse-stream",
        headers=AWS_HEADERS,
        request=CONVERSE_REQUEST,
    ),
    "GCPVertexAI": API(
        provider=VERTEX,
        target=f"{GEMINI}:generateContent",
        stream_target=f"{GEMINI}:streamGenerateContent?alt=sse",
        headers={"authorization": "Bearer ya29-1"},
        request=GEMINI_REQUEST,
    ),
    "GCPAnthropic": API(
        provider=VERTEX,
        target=f"{VERTEX_CLAUDE}:rawPredict",
        stream_target=f"{VERTEX_CLAUDE}:streamRawPredict",
        headers={"authorization": "Bearer ya29-1"},
        request=MESSAGES_REQUEST | {"anthropic_version": "vertex-2023-10-16"},
        streaming={"stream": True},
    ),
    "AWSAnthropic": API(
        provider=BEDROCK,
        target=f"/model/{CLAUDE}/invoke",
        stream_target=f"/model/{CLAUDE}/invoke-with-response-stream",
        headers=AWS_HEADERS,
        request=MESSAGES_REQUEST | {"anthropic_version": "bedrock-2023-05-31"},
    ),
    "Anthropic": API(
        provider=ANTHROPIC,
        target="/v1/messages",
        stream_target="/v1/messages",
        headers={"x-api-key": "sk-ant-1", "anthropic-version": "2023-06-01"},
        request=MESSAGES_REQUEST | {"model": "claude-sonnet-4-5"},
        streaming={"stream": True},
    ),
}

_OF_MESSAGES = {"tools": MESSAGES_TOOLS}, [MESSAGES_CALL, MESSAGES_RESULT]
_OF_OPENAI = {"tools": OPENAI_TOOLS}, [OPENAI_CALL, OPENAI_RESULT]
_TOOLS_AND_TURNS = {
    "OpenAI": _OF_OPENAI,
    "AzureOpenAI": _OF_OPENAI,
    "AWSBedrock": ({"toolConfig": CONVERSE_TOOLS}, [CONVERSE_CALL, CONVERSE_RESULT]),
    "GCPVertexAI": ({"tools": GEMINI_TOOLS}, [GEMINI_CALL, GEMINI_RESULT]),
    "GCPAnthropic": _OF_MESSAGES,
    "AWSAnthropic": _OF_MESSAGES,
    "Anthropic": _OF_MESSAGES,
}
_THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
THINKING = {
    "AWSBedrock": {"additionalModelRequestFields": _THINKING},
    "GCPVertexAI": {"generationConfig": {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 1024}}},
    "GCPAnthropic": _THINKING,
    "AWSAnthropic": _THINKING,
    "Anthropic": _THINKING,
}
"""How thinking is asked for, by schema."""


def with_tools(schema):
    """What to change in the request of a schema so that it offers the tool."""
    return _TOOLS_AND_TURNS[schema][0]


def after_the_call(schema):
    """The same, and the tool has been called and has given its result."""
    tools, turns = _TOOLS_AND_TURNS[schema]
    history = "contents" if schema == "GCPVertexAI" else "messages"
    return tools | {history: [*APIS[schema].request[history], *turns]}


def with_text(schema, text):
    """The same request with another question."""
    request = json.dumps(APIS[schema].request).replace(json.dumps(QUESTION), json.dumps(text))
    decoded: dict[str, Any] = json.loads(request)
    return decoded
