"""Every translation there is, as a row: a request of the endpoint, and what a backend of the schema answers to it.

A test of what all endpoints share runs over the rows, so a new translation is covered by adding its row, and one that
has none fails a test (``test_endpoints_crossing.py``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from extproc.endpoints.base import Operation
from extproc.endpoints.table import EndpointTable
from tests.support import translated
from tests.support.forms import CONTENT_TYPE, form
from tests.support.playbook import cost

VIRTUAL: Final = "virtual-model"
"""What clients call every model; no backend may see it where it has a name of its own."""

JSON: Final = "application/json"
SSE: Final = "text/event-stream"
EVENT_STREAM: Final = "application/vnd.amazon.eventstream"
COSTS: Final = [cost("in", "InputToken"), cost("out", "OutputToken"), cost("total", "TotalToken")]


# --- what clients ask ---


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request of an endpoint.

    Attributes:
        members: beside the model; for a form its fields, of which those with bytes are files.
        stream: what asks for a stream beside that; ``None`` where none is to be had.
    """

    members: Mapping[str, Any]
    stream: Mapping[str, Any] | None = None
    is_form: bool = False

    @property
    def content_type(self) -> str:
        return CONTENT_TYPE if self.is_form else JSON

    def body(self, *, stream: bool = False, model: str = VIRTUAL) -> bytes:
        members = {"model": model, **self.members, **((self.stream or {}) if stream else {})}
        if self.is_form:
            return form(*members.items())
        return json.dumps(members).encode()


_USER: Final = {"messages": [{"role": "user", "content": "Hello"}]}
ASKED: Final[Mapping[Operation, Asked]] = {
    Operation.CHAT: Asked(members={**_USER, "max_tokens": 50}, stream={"stream": True}),
    Operation.COMPLETION: Asked(members={"prompt": "Hello"}, stream={"stream": True}),
    Operation.EMBEDDINGS: Asked(members={"input": "Hello"}),
    Operation.RESPONSES: Asked(members={"input": "Hello", "store": False}, stream={"stream": True}),
    Operation.RESPONSES_INPUT_TOKENS: Asked(members={"input": "Hello"}),
    Operation.SPEECH: Asked(members={"input": "Hello", "voice": "alloy"}, stream={"stream_format": "sse"}),
    Operation.TRANSCRIPTION: Asked(members={"file": b"\x00\xff"}, stream={"stream": "true"}, is_form=True),
    Operation.TRANSLATION: Asked(members={"file": b"\x00\xff"}, is_form=True),
    Operation.IMAGE_GENERATION: Asked(members={"prompt": "Hello"}, stream={"stream": True}),
    Operation.IMAGE_EDIT: Asked(members={"prompt": "Hello", "image": b"\x00"}, stream={"stream": "true"}, is_form=True),
    Operation.RERANK: Asked(members={"query": "Hello", "documents": ["a", "b"]}),
    Operation.MESSAGES: Asked(members={**_USER, "max_tokens": 50}, stream={"stream": True}),
    Operation.COUNT_TOKENS: Asked(members=_USER),
    Operation.TOKENIZE: Asked(members=_USER),
}

PATHS: Final[Mapping[Operation, str]] = {
    endpoint.operation: path for path, endpoint in reversed(EndpointTable.build().endpoints.items())
}
"""The path of each endpoint, and not one of its aliases."""


# --- what backends answer ---


@dataclass(frozen=True, kw_only=True)
class Row:
    """One translation.

    Attributes:
        model: the backend's name for the model.
        path: where the request goes, with the query that is always there.
        answer: a whole answer.
        pieces: the same as a stream, in the pieces that the provider writes; empty where it has none.
        reports: how many pieces have come when all of the usage is known.
        costs: of the answer, whichever way it comes.
        streamed_costs: of a stream, where that reports what a whole answer does not.
        native: the backend speaks the client's API, so bytes pass as they are.
        streams_as: content type of a stream.
        answers_as: that of a whole answer.
    """

    operation: Operation
    schema: str
    model: str
    path: str
    answer: bytes
    costs: Mapping[str, int]
    pieces: Sequence[bytes] = ()
    reports: int = 0
    streamed_costs: Mapping[str, int] | None = None
    native: bool = False
    streams_as: str = SSE
    answers_as: str = JSON
    asked: Asked = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "asked", ASKED[self.operation])
        object.__setattr__(self, "streamed_costs", self.streamed_costs or self.costs)

    @property
    def name(self) -> str:
        return f"{self.operation} on {self.schema}"

    @property
    def client_path(self) -> str:
        return PATHS[self.operation]

    def path_of(self, *, stream: bool) -> str:
        return _STREAMS_AT.get(self.path, self.path) if stream else self.path

    def headers(self, *, stream: bool) -> dict[str, str]:
        """Of the backend's answer."""
        return {"content-type": self.streams_as if stream else self.answers_as}

    def named(self, kind: str = "plain") -> str:
        """The name of the backend, of which there are several kinds."""
        return f"{self.short_name(kind)}/route/chat/rule/0/ref/0"

    def short_name(self, kind: str = "plain") -> str:
        return f"default/{self.schema.lower()}-{kind}"

    def backend(self, kind: str = "plain", **more: Any) -> dict[str, Any]:
        """The backend in the filter config, which has a name of its own for the model."""
        configured = translated.backend(_LIKE.get(self.schema, self.schema), self.named(kind), override=self.model)
        return {**configured, "schema": {"name": self.schema, **_SCHEMAS.get(self.schema, {})}, **more}

    @property
    def rebuilds(self) -> bool:
        """Whether a stream is built anew, so that the backend's own bytes mean nothing to the client."""
        return not self.native or self.streams_as == EVENT_STREAM


# Backends whose configuration differs in nothing but the schema.
_LIKE: Final = {"OpenAI": "Anthropic", "Cohere": "Anthropic"}
_SCHEMAS: Final[Mapping[str, Mapping[str, str]]] = {
    "OpenAI": {"prefix": "v1"},
    "Anthropic": {"prefix": "v1"},
    "AzureOpenAI": {"version": "2025-01-01-preview"},
}
_MODELS: Final[Mapping[str, str]] = {
    "OpenAI": "gpt-9",
    "AzureOpenAI": "deployment-9",
    "AWSBedrock": "us.anthropic.claude-9-v1:0",
    "AWSAnthropic": "us.anthropic.claude-9-v1:0",
    "GCPVertexAI": "gemini-9",
    "GCPAnthropic": "claude-9@20990101",
    "Anthropic": "claude-9",
    "Cohere": "rerank-9",
}

_COUNTS: Final = {"input_tokens": 11, "output_tokens": 4, "total_tokens": 15}
_CHAT_COUNTS: Final = {"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 15}
_COSTS: Final = {"in": 11, "out": 4, "total": 15}
_INPUT_ONLY: Final = {"in": 11, "out": 0, "total": 11}
_ZERO: Final = {"in": 0, "out": 0, "total": 0}
# Counting costs nothing, so no cost is told (BR-70).
_FREE: Final[Mapping[str, int]] = {}


def _document(**members: Any) -> bytes:
    return json.dumps(members).encode()


def _events(*events: Mapping[str, Any], named: bool = True, done: bool = False) -> list[bytes]:
    pieces = [
        (f"event: {each['type']}\n" if named else "").encode() + b"data: " + json.dumps(each).encode() + b"\n\n"
        for each in events
    ]
    return [*pieces, *([b"data: [DONE]\n\n"] if done else [])]


# OpenAI's own APIs; Azure answers the same.


def _openai_chat(schema: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": "Hello"}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "said"}
    choice = {"index": 0, "finish_reason": None}
    return {
        "answer": _document(
            id="c",
            object="chat.completion",
            created=1,
            model="said",
            choices=[{"index": 0, "message": message, "finish_reason": "stop"}],
            usage=_CHAT_COUNTS,
        ),
        "pieces": _events(
            {**chunk, "choices": [{**choice, "delta": {"role": "assistant", "content": "Hel"}}]},
            {**chunk, "choices": [{**choice, "delta": {"content": "lo"}}]},
            {**chunk, "choices": [{**choice, "delta": {}, "finish_reason": "stop"}]},
            {**chunk, "choices": [], "usage": _CHAT_COUNTS},
            named=False,
            done=True,
        ),
        "reports": 4,
        "costs": _COSTS,
    }


def _openai_completion(_: str) -> dict[str, Any]:
    chunk = {"id": "c", "object": "text_completion", "created": 1, "model": "said"}
    choice = {"index": 0, "text": "Hello", "logprobs": None, "finish_reason": "stop"}
    return {
        "answer": _document(**chunk, choices=[choice], usage=_CHAT_COUNTS),
        "pieces": _events(
            {**chunk, "choices": [choice]}, {**chunk, "choices": [], "usage": _CHAT_COUNTS}, named=False, done=True
        ),
        "reports": 2,
        "costs": _COSTS,
    }


def _openai_embeddings(_: str) -> dict[str, Any]:
    vector = {"object": "embedding", "index": 0, "embedding": [0.5]}
    usage = {"prompt_tokens": 11, "total_tokens": 11}
    return {"answer": _document(object="list", data=[vector], model="said", usage=usage), "costs": _INPUT_ONLY}


def _openai_responses(_: str) -> dict[str, Any]:
    response = {"id": "r", "object": "response", "created_at": 1, "model": "said", "output": []}
    return {
        "answer": _document(**response, status="completed", usage=_COUNTS),
        "pieces": _events(
            {"type": "response.created", "response": {**response, "status": "in_progress", "usage": None}},
            {"type": "response.output_text.delta", "item_id": "i", "delta": "Hello"},
            {"type": "response.completed", "response": {**response, "status": "completed", "usage": _COUNTS}},
        ),
        "reports": 3,
        "costs": _COSTS,
    }


def _openai_speech(_: str) -> dict[str, Any]:
    return {
        "answer": b"ID3\x00\xff\xfb",
        "answers_as": "audio/mpeg",
        "pieces": _events(
            {"type": "speech.audio.delta", "audio": "AA=="}, {"type": "speech.audio.done", "usage": _COUNTS}
        ),
        "reports": 2,
        # Sound itself reports nothing.
        "costs": _ZERO,
        "streamed_costs": _COSTS,
    }


def _openai_transcription(_: str) -> dict[str, Any]:
    done = {"type": "transcript.text.done", "text": "Hello", "usage": {"type": "tokens", **_COUNTS}}
    return {
        "answer": _document(text="Hello", usage={"type": "tokens", **_COUNTS}),
        "pieces": _events({"type": "transcript.text.delta", "delta": "Hello"}, done),
        "reports": 2,
        "costs": _COSTS,
    }


def _openai_translation(_: str) -> dict[str, Any]:
    return {"answer": _document(text="Hello", usage={"type": "tokens", **_COUNTS}), "costs": _COSTS}


def _openai_images(prefix: str) -> dict[str, Any]:
    return {
        "answer": _document(created=1, data=[{"b64_json": "AA=="}], usage=_COUNTS),
        "pieces": _events(
            {"type": f"{prefix}.partial_image", "b64_json": "AA==", "partial_image_index": 0},
            {"type": f"{prefix}.completed", "b64_json": "AA==", "usage": _COUNTS},
        ),
        "reports": 2,
        "costs": _COSTS,
    }


_OPENAI_ANSWERS: Final = {
    Operation.CHAT: _openai_chat,
    Operation.COMPLETION: _openai_completion,
    Operation.EMBEDDINGS: _openai_embeddings,
    Operation.RESPONSES: _openai_responses,
    Operation.RESPONSES_INPUT_TOKENS: lambda _: {
        "answer": _document(object="response.input_tokens", input_tokens=11),
        "costs": _FREE,
    },
    Operation.SPEECH: _openai_speech,
    Operation.TRANSCRIPTION: _openai_transcription,
    Operation.TRANSLATION: _openai_translation,
    Operation.IMAGE_GENERATION: lambda _: _openai_images("image_generation"),
    Operation.IMAGE_EDIT: lambda _: _openai_images("image_edit"),
}


# Conversations, as each provider tells one.


def _conversation(schema: str) -> dict[str, Any]:
    if schema in {"OpenAI", "AzureOpenAI"}:
        return _openai_chat(schema)
    pieces = translated.events(schema)
    costs = translated.COUNTS.costs(schema)
    return {
        "answer": translated.document(schema),
        "pieces": pieces,
        # Claude says at last that the message is over, after all has been counted.
        "reports": len(pieces) - (schema in translated.CLAUDE),
        "costs": {name: costs[name] for name in ("in", "out", "total")},
        "streams_as": translated.streams_as(schema)["content-type"],
    }


def _count(member: str) -> dict[str, Any]:
    return {"answer": _document(**{member: 11}), "costs": _FREE}


_COUNTED_AS: Final = {
    "OpenAI": "input_tokens",
    "AzureOpenAI": "input_tokens",
    "Anthropic": "input_tokens",
    "GCPAnthropic": "input_tokens",
    "AWSAnthropic": "inputTokens",
    "AWSBedrock": "inputTokens",
    "GCPVertexAI": "totalTokens",
}


# --- where they are ---

_AZURE: Final = "/openai/deployments/deployment-9"
_AZURE_QUERY: Final = "?api-version=2025-01-01-preview"
_BEDROCK: Final = "/model/us.anthropic.claude-9-v1:0"
_BEDROCK_COUNT: Final = "/model/anthropic.claude-9-v1:0/count-tokens"
_GOOGLE: Final = "/v1/projects/p/locations/r/publishers"
_GEMINI: Final = f"{_GOOGLE}/google/models/gemini-9"
_CLAUDE: Final = f"{_GOOGLE}/anthropic/models/claude-9@20990101"
_CLAUDE_COUNT: Final = f"{_GOOGLE}/anthropic/models/count-tokens:rawPredict"

_OPENAI_SUFFIXES: Final = {
    Operation.CHAT: "chat/completions",
    Operation.COMPLETION: "completions",
    Operation.EMBEDDINGS: "embeddings",
    Operation.RESPONSES: "responses",
    Operation.RESPONSES_INPUT_TOKENS: "responses/input_tokens",
    Operation.SPEECH: "audio/speech",
    Operation.TRANSCRIPTION: "audio/transcriptions",
    Operation.TRANSLATION: "audio/translations",
    Operation.IMAGE_GENERATION: "images/generations",
    Operation.IMAGE_EDIT: "images/edits",
}
# Azure takes the model of these from the body.
_WITHOUT_DEPLOYMENT: Final = {Operation.RESPONSES, Operation.RESPONSES_INPUT_TOKENS}
_CONVERSATIONS_AT: Final = {
    "AWSBedrock": f"{_BEDROCK}/converse",
    "AWSAnthropic": f"{_BEDROCK}/invoke",
    "GCPVertexAI": f"{_GEMINI}:generateContent",
    "GCPAnthropic": f"{_CLAUDE}:rawPredict",
    "Anthropic": "/v1/messages",
    "OpenAI": "/v1/chat/completions",
    "AzureOpenAI": f"{_AZURE}/chat/completions{_AZURE_QUERY}",
}
_COUNTS_AT: Final = {
    "AWSBedrock": _BEDROCK_COUNT,
    "AWSAnthropic": _BEDROCK_COUNT,
    "GCPVertexAI": f"{_GEMINI}:countTokens",
    "GCPAnthropic": _CLAUDE_COUNT,
    "Anthropic": "/v1/messages/count_tokens",
    "OpenAI": "/v1/responses/input_tokens",
    "AzureOpenAI": f"/openai/responses/input_tokens{_AZURE_QUERY}",
}
# Where a stream is asked for, if not at the path of the whole answer.
_STREAMS_AT: Final = {
    f"{_BEDROCK}/converse": f"{_BEDROCK}/converse-stream",
    f"{_BEDROCK}/invoke": f"{_BEDROCK}/invoke-with-response-stream",
    f"{_GEMINI}:generateContent": f"{_GEMINI}:streamGenerateContent?alt=sse",
    f"{_CLAUDE}:rawPredict": f"{_CLAUDE}:streamRawPredict",
}


# --- rows ---


def _openai_rows() -> list[Row]:
    rows = []
    for operation, suffix in _OPENAI_SUFFIXES.items():
        answers = _OPENAI_ANSWERS[operation]
        below = "/openai" if operation in _WITHOUT_DEPLOYMENT else _AZURE
        places = {"OpenAI": f"/v1/{suffix}", "AzureOpenAI": f"{below}/{suffix}{_AZURE_QUERY}"}
        rows += [
            Row(operation=operation, schema=schema, model=_MODELS[schema], path=path, native=True, **answers(schema))
            for schema, path in places.items()
        ]
    return rows


def _conversation_rows() -> list[Row]:
    """The chat APIs on backends that have another, or one of their own."""
    served = {
        Operation.CHAT: translated.TRANSLATED,
        Operation.RESPONSES: translated.TRANSLATED,
        Operation.MESSAGES: (*translated.TRANSLATED, "OpenAI", "AzureOpenAI"),
    }
    return [
        Row(
            operation=operation,
            schema=schema,
            model=_MODELS[schema],
            path=_CONVERSATIONS_AT[schema],
            native=operation is Operation.MESSAGES and schema in translated.CLAUDE,
            **_conversation(schema),
        )
        for operation, schemas in served.items()
        for schema in schemas
    ]


def _count_rows() -> list[Row]:
    rows = [
        Row(
            operation=Operation.COUNT_TOKENS,
            schema=schema,
            model=_MODELS[schema],
            path=path,
            native=schema in {"Anthropic", "GCPAnthropic"},
            **_count(_COUNTED_AS[schema]),
        )
        for schema, path in _COUNTS_AT.items()
    ]
    rows += [
        Row(
            operation=Operation.TOKENIZE,
            schema=schema,
            model=_MODELS[schema],
            path="/tokenize" if schema == "OpenAI" else path,
            native=schema == "OpenAI",
            **_count("count" if schema == "OpenAI" else _COUNTED_AS[schema]),
        )
        for schema, path in _COUNTS_AT.items()
        if schema != "AzureOpenAI"
    ]
    return rows


def _other_rows() -> list[Row]:
    titan = "amazon.titan-embed-text-v2:0"
    ranked = _document(id="x", results=[], meta={"tokens": {"input_tokens": 11, "output_tokens": 4}})
    return [
        Row(
            operation=Operation.EMBEDDINGS,
            schema="AWSBedrock",
            model=titan,
            path=f"/model/{titan}/invoke",
            answer=_document(embedding=[0.5], inputTextTokenCount=11),
            costs=_INPUT_ONLY,
        ),
        Row(
            operation=Operation.EMBEDDINGS,
            schema="GCPVertexAI",
            model="text-embedding-9",
            path=f"{_GOOGLE}/google/models/text-embedding-9:predict",
            answer=_document(predictions=[{"embeddings": {"values": [0.5], "statistics": {"token_count": 11}}}]),
            costs=_INPUT_ONLY,
        ),
        Row(
            operation=Operation.RERANK,
            schema="Cohere",
            model=_MODELS["Cohere"],
            path="/v2/rerank",
            answer=ranked,
            costs=_COSTS,
            native=True,
        ),
        Row(
            operation=Operation.RERANK,
            schema="OpenAI",
            model=_MODELS["OpenAI"],
            path="/v1/rerank",
            answer=ranked,
            costs=_COSTS,
            native=True,
        ),
    ]


ROWS: Final[Mapping[str, Row]] = {
    row.name: row for row in (*_openai_rows(), *_conversation_rows(), *_count_rows(), *_other_rows())
}
"""By name."""

STREAMS: Final[Mapping[str, Row]] = {name: row for name, row in ROWS.items() if row.pieces}
"""Those whose backends stream."""

ORDERED_PAIRS: Final[Mapping[str, tuple[Row, Row]]] = {
    f"{first.name}, then {second.schema}": (first, second)
    for first in ROWS.values()
    for second in ROWS.values()
    if first.operation is second.operation
}
"""Two backends of each endpoint, in either order, and the same schema twice."""


def config(*backends: Mapping[str, Any]) -> dict[str, Any]:
    return {"version": "dev", "backends": list(backends), "llmRequestCosts": COSTS}
