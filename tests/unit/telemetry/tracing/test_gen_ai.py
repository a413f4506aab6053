"""Spans by OpenTelemetry's convention for generative AI, by the rows of the contract (7.9) and the JSON schemas."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes

from extproc.endpoints.base import Operation
from extproc.telemetry.tracing.base import Failure
from extproc.telemetry.tracing.gen_ai import GenAI
from extproc.telemetry.tracing.views import AnswerView, Message, Parameters, Part, RequestView, Tokenization, ToolCall
from extproc.usage import NO_USAGE, TokenUsage
from tests.support import tracing_views as views

SILENT = GenAI(content=False)
TALKING = GenAI(content=True)


def asked(operation: str = "chat", **members: object) -> RequestView:
    return RequestView(operation=operation, model="m", **members)


# --- names and kinds ---

ROWS = {
    "chat": "chat",
    "responses": "chat",
    "messages": "chat",
    "completion": "text_completion",
    "embeddings": "embeddings",
    "image_generation": "image_generation",
    "image_edit": "image_generation",
    "speech": "speech",
    "transcription": "transcription",
    "translation": "translation",
    "rerank": "rerank",
    "tokenize": "tokenize",
    "responses_input_tokens": "tokenize",
    "count_tokens": "tokenize",
}


@pytest.mark.parametrize("operation", list(Operation))
def test_an_operation_has_its_name(operation: Operation) -> None:
    name = ROWS[operation]
    assert SILENT.name(asked(operation)) == f"{name} m"
    assert SILENT.request(asked(operation)) == {"gen_ai.operation.name": name, "gen_ai.request.model": "m"}


def test_a_request_without_a_model_has_the_name_of_its_operation() -> None:
    request = RequestView(operation="chat", model="")
    assert SILENT.name(request) == "chat"
    assert SILENT.request(request) == {"gen_ai.operation.name": "chat"}


@pytest.mark.parametrize("convention", [SILENT, TALKING], ids=["without content", "with content"])
def test_a_span_is_a_clients_and_has_no_events(convention: GenAI) -> None:
    stream = asked("responses", stream=True)
    assert (convention.kind, convention.unlimited) == ("client", False)
    assert convention.first_piece(stream) is None
    assert convention.events(stream, AnswerView(completed=True)) == []


def test_a_span_says_whose_backend_answers() -> None:
    assert SILENT.bound("aws.bedrock") == {"gen_ai.provider.name": "aws.bedrock"}
    assert SILENT.bound("") == {}


# --- the request ---

PARAMETERS = {
    "max_tokens": (Parameters(max_tokens=100), {"gen_ai.request.max_tokens": 100}),
    "temperature of zero": (Parameters(temperature=0.0), {"gen_ai.request.temperature": 0.0}),
    "top_p": (Parameters(top_p=0.5), {"gen_ai.request.top_p": 0.5}),
    "top_k": (Parameters(top_k=40.0), {"gen_ai.request.top_k": 40.0}),
    "frequency penalty": (Parameters(frequency_penalty=-1.5), {"gen_ai.request.frequency_penalty": -1.5}),
    "presence penalty": (Parameters(presence_penalty=0.5), {"gen_ai.request.presence_penalty": 0.5}),
    "stop sequences": (Parameters(stop=("a", "b")), {"gen_ai.request.stop_sequences": ("a", "b")}),
    "seed": (Parameters(seed=0), {"gen_ai.request.seed": 0}),
    "choices": (Parameters(choices=2), {"gen_ai.request.choice.count": 2}),
    "encoding formats": (Parameters(encoding_formats=("base64",)), {"gen_ai.request.encoding_formats": ("base64",)}),
    "dimensions": (Parameters(dimensions=256), {"gen_ai.embeddings.dimension.count": 256}),
    "conversation": (Parameters(conversation="conv_1"), {"gen_ai.conversation.id": "conv_1"}),
    "a number that no attribute has room for": (Parameters(seed=2**63, max_tokens=-(2**63) - 1), {}),
}


@pytest.mark.parametrize(("parameters", "expected"), PARAMETERS.values(), ids=PARAMETERS)
def test_what_steers_generation_is_told(parameters: Parameters, expected: dict[str, object]) -> None:
    attributes = SILENT.request(asked(parameters=parameters))
    assert attributes == {**SILENT.request(asked()), **expected}


# --- the answer ---

ANSWERS = {
    "its id": ("chat", AnswerView(id="chatcmpl-1"), {"gen_ai.response.id": "chatcmpl-1"}),
    "its model": ("chat", AnswerView(model="m-1"), {"gen_ai.response.model": "m-1"}),
    "why it ended": (
        "chat",
        AnswerView(finish_reasons=("stop", "length")),
        {"gen_ai.response.finish_reasons": ("stop", "length")},
    ),
    "a count of what a message would take": (
        "count_tokens",
        AnswerView(token_count=9),
        {"gen_ai.usage.input_tokens": 9},
    ),
    "a count of what a response would take": (
        "responses_input_tokens",
        AnswerView(token_count=0),
        {"gen_ai.usage.input_tokens": 0},
    ),
    "tokens of a text": ("tokenize", AnswerView(token_count=9), {}),
    "nothing": ("chat", AnswerView(text="{}", audio_bytes=3), {}),
}


@pytest.mark.parametrize(("operation", "answer", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_is_told(operation: str, answer: AnswerView, expected: dict[str, object]) -> None:
    assert SILENT.answer(asked(operation), answer, NO_USAGE, "") == expected


def test_a_count_that_was_metered_goes_before_that_of_the_answer() -> None:
    attributes = SILENT.answer(asked("count_tokens"), AnswerView(token_count=9), TokenUsage(input=8), "")
    assert attributes == {"gen_ai.usage.input_tokens": 8}


def test_the_model_that_was_metered_has_answered() -> None:
    attributes = SILENT.answer(asked(), AnswerView(model="as the client reads"), NO_USAGE, "metered")
    assert attributes == {"gen_ai.response.model": "metered"}


def test_usage_is_counted_as_it_was_metered() -> None:
    usage = TokenUsage(input=10, output=5, total=15, cached_input=4, cache_creation_input=0, reasoning=2)
    assert SILENT.answer(asked(), AnswerView(), usage, "") == {
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "gen_ai.usage.reasoning.output_tokens": 2,
    }


# --- content ---

INPUTS = {
    "a text": (Message(role="user", text="hi"), {"role": "user", "parts": [{"type": "text", "content": "hi"}]}),
    "nothing": (Message(role="user", text=""), {"role": "user", "parts": []}),
    "parts": (
        Message(
            role="user",
            parts=(
                Part(type="text", text="see"),
                Part(type="image", url="https://example.com/a.png"),
                Part(type="image", url="data:image/png;base64,aGk="),
                Part(type="file", url="https://example.com/a.pdf"),
                Part(type="audio", url="data:audio/wav;codecs=1;base64,aGk="),
                Part(type="audio"),
                Part(type="refusal", text="no"),
            ),
        ),
        {
            "role": "user",
            "parts": [
                {"type": "text", "content": "see"},
                {"type": "uri", "modality": "image", "uri": "https://example.com/a.png"},
                {"type": "blob", "mime_type": "image/png", "modality": "image", "content": "aGk="},
                {"type": "uri", "modality": "document", "uri": "https://example.com/a.pdf"},
                {"type": "blob", "mime_type": "audio/wav", "modality": "audio", "content": "aGk="},
                {"type": "audio"},
                {"type": "refusal", "content": "no"},
            ],
        },
    ),
    "reasoning before what it led to": (
        Message(role="assistant", text="so", parts=(Part(type="reasoning", text="hm"),)),
        {
            "role": "assistant",
            "parts": [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "so"}],
        },
    ),
    "calls of tools": (
        Message(
            role="assistant",
            text="wait",
            tool_calls=(
                ToolCall(id="1", name="f", arguments='{"n": 12345678901234567890123}'),
                ToolCall(name="g"),
                ToolCall(id="2", name="h", arguments='{"cut": "of'),
            ),
        ),
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": "wait"},
                {"type": "tool_call", "id": "1", "name": "f", "arguments": {"n": 12345678901234567890123}},
                {"type": "tool_call", "name": "g"},
                {"type": "tool_call", "id": "2", "name": "h", "arguments": '{"cut": "of'},
            ],
        },
    ),
    "a result of a tool": (
        Message(role="tool", text="42", answers="1"),
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "42"}]},
    ),
    "a result in parts": (
        Message(role="tool", parts=(Part(type="text", text="42"),), answers="1"),
        {
            "role": "tool",
            "parts": [
                {"type": "tool_call_response", "id": "1", "response": [{"type": "text", "content": "42"}]},
            ],
        },
    ),
}


@pytest.mark.parametrize(("message", "expected"), INPUTS.values(), ids=INPUTS)
def test_a_message_has_the_shape_of_the_schema(message: Message, expected: object) -> None:
    asked_, answered = content(TALKING, asked(messages=(message,)), AnswerView(messages=(message,)))
    assert asked_ == {"gen_ai.input.messages": [expected]}
    assert answered == {"gen_ai.output.messages": [{**expected, "finish_reason": "unknown"}]}


def content(convention: GenAI, request: RequestView, answer: AnswerView) -> tuple[object, object]:
    """What is only told with content, from JSON."""
    told = convention.request(request)
    said = convention.answer(request, answer, NO_USAGE, "")
    for key in SILENT.request(request):
        del told[key]
    for key in SILENT.answer(request, answer, NO_USAGE, ""):
        del said[key]
    return ({key: json.loads(value) for key, value in attributes.items()} for attributes in (told, said))


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """A request that has no messages, and what the user says by it."""

    request: RequestView
    messages: list[list[dict[str, str]]]


TEXTS = {
    "prompts": Texts(
        request=asked("completion", prompts=("a", "b")),
        messages=[[{"type": "text", "content": "a"}], [{"type": "text", "content": "b"}]],
    ),
    "a text to embed": Texts(request=asked("embeddings", texts=("a",)), messages=[[{"type": "text", "content": "a"}]]),
    "a text to speak": Texts(request=asked("speech", texts=("a",)), messages=[[{"type": "text", "content": "a"}]]),
    "documents to rank": Texts(
        request=asked("rerank", query="q", documents=("a", "b")),
        messages=[
            [
                {"type": "text", "content": "q"},
                {"type": "document", "content": "a"},
                {"type": "document", "content": "b"},
            ]
        ],
    ),
}


@pytest.mark.parametrize("case", TEXTS.values(), ids=TEXTS)
def test_what_is_no_message_is_what_the_user_says(case: Texts) -> None:
    told, _ = content(TALKING, case.request, AnswerView())
    assert told == {"gen_ai.input.messages": [{"role": "user", "parts": parts} for parts in case.messages]}


OUTPUTS = {
    "a message and why it ended": (
        AnswerView(messages=(Message(role="assistant", text="hi", finish="stop"),), finish_reasons=("other",)),
        [("assistant", "hi", "stop")],
    ),
    "a message whose choice tells why": (
        AnswerView(messages=(Message(role="assistant", text="hi"),), finish_reasons=("stop",)),
        [("assistant", "hi", "stop")],
    ),
    "choices": (
        AnswerView(choices=("a", "b"), finish_reasons=("stop",)),
        [("assistant", "a", "stop"), ("assistant", "b", "unknown")],
    ),
    "a transcript": (AnswerView(text="hello", mime="text/plain"), [("assistant", "hello", "unknown")]),
}


@pytest.mark.parametrize(("answer", "expected"), OUTPUTS.values(), ids=OUTPUTS)
def test_what_was_answered_is_a_message(answer: AnswerView, expected: list[tuple[str, str, str]]) -> None:
    _, said = content(TALKING, asked(), answer)
    messages = [
        {"role": role, "parts": [{"type": "text", "content": text}], "finish_reason": reason}
        for role, text, reason in expected
    ]
    assert said == {"gen_ai.output.messages": messages}


SILENT_ANSWERS = {
    "a document": AnswerView(text="{}"),
    "audio": AnswerView(mime="audio/mpeg", audio_bytes=3),
    "nothing": AnswerView(mime="text/plain"),
}


@pytest.mark.parametrize("answer", SILENT_ANSWERS.values(), ids=SILENT_ANSWERS)
def test_what_says_nothing_is_no_message(answer: AnswerView) -> None:
    assert TALKING.answer(asked("embeddings"), answer, NO_USAGE, "") == {}


def test_instructions_stand_apart() -> None:
    request = asked(system=(Part(type="text", text="be brief"),), messages=(Message(role="system", text="be kind"),))
    told, _ = content(TALKING, request, AnswerView())
    assert told == {
        "gen_ai.system_instructions": [{"type": "text", "content": "be brief"}],
        "gen_ai.input.messages": [{"role": "system", "parts": [{"type": "text", "content": "be kind"}]}],
    }


TOOLS = {
    "of chat completions": (
        '{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":true}}',
        {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True},
    ),
    "of the Responses API": (
        '{"type":"function","name":"f","parameters":{"type":"object"}}',
        {"type": "function", "name": "f", "parameters": {"type": "object"}},
    ),
    "of the Messages API": (
        '{"name":"f","description":"d","input_schema":{"type":"object"}}',
        {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}},
    ),
    "of the Messages API, typed": (
        '{"type":"custom","name":"f","input_schema":{"type":"object"}}',
        {"type": "function", "name": "f", "parameters": {"type": "object"}},
    ),
    "that the provider brings": (
        '{"type":"web_search_20250305","name":"web_search","max_uses":5}',
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
    ),
    "that the provider brings without a name": (
        '{"type":"web_search_preview"}',
        {"type": "web_search_preview", "name": "web_search_preview"},
    ),
    "a function without a name": (
        '{"type":"function","function":{}}',
        {"type": "function", "name": "function", "function": {}},
    ),
    "no definition": ('"f"', {"type": "unknown", "name": "unknown"}),
    "no JSON": ("{", {"type": "unknown", "name": "unknown"}),
}


@pytest.mark.parametrize(("tool", "expected"), TOOLS.values(), ids=TOOLS)
def test_a_tool_is_defined_as_the_schema_has_it(tool: str, expected: dict[str, object]) -> None:
    told, _ = content(TALKING, asked(tools=(tool,)), AnswerView())
    assert told == {"gen_ai.tool.definitions": [expected]}


# --- errors ---


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (0, "_OTHER"),
        (302, "_OTHER"),
        (400, "400"),
        (401, "401"),
        (403, "403"),
        (404, "404"),
        (422, "422"),
        (429, "429"),
        (499, "499"),
        (500, "500"),
        (502, "500"),
        (503, "500"),
        (504, "504"),
        (599, "599"),
        (600, "_OTHER"),
    ],
)
def test_an_error_has_the_type_of_its_status(status: int, kind: str) -> None:
    assert SILENT.failure(status, "no").attributes == {"error.type": kind}


ERRORS = {
    "without content": (SILENT, 400, "you said: no", "Error code: 400"),
    "with content": (TALKING, 400, "you said: no", "Error code: 400 - you said: no"),
    "with content, but without a body": (TALKING, 503, "", "Error code: 503"),
    "without a status": (SILENT, 0, "no", "The answer is not complete"),
}


@pytest.mark.parametrize(("convention", "status", "body", "description"), ERRORS.values(), ids=ERRORS)
def test_an_error_says_more_with_content_only(convention: GenAI, status: int, body: str, description: str) -> None:
    failure = convention.failure(status, body)
    assert (failure.description, failure.event) == (description, None)
    assert isinstance(failure, Failure)


# --- any view ---


@pytest.mark.parametrize("operation", list(Operation))
def test_nothing_that_was_said_is_in_a_span_without_content(operation: Operation) -> None:
    request, answer = views.spoken_request(operation), views.spoken_answer()
    assert views.said(SILENT.request(request) | SILENT.answer(request, answer, NO_USAGE, "")) == []
    assert sorted(views.said(TALKING.request(request) | TALKING.answer(request, answer, NO_USAGE, ""))) == [
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.system_instructions",
        "gen_ai.tool.definitions",
    ]


@settings(max_examples=50)
@given(request=views.requests, answer=views.answers, usage=views.usages)
def test_any_view_becomes_attributes_that_can_be_exported(
    request: RequestView, answer: AnswerView, usage: TokenUsage
) -> None:
    attributes = TALKING.request(request) | TALKING.answer(request, answer, usage, "")
    assert views.illegal(attributes) == []


# What a part of each type must have, by the schemas of OpenTelemetry; parts of other types may have anything.
REQUIRED = {
    "text": {"content"},
    "reasoning": {"content"},
    "tool_call": {"name"},
    "tool_call_response": {"response"},
    "blob": {"modality", "content"},
    "uri": {"modality", "uri"},
}


@settings(max_examples=50)
@given(request=views.requests, answer=views.answers)
def test_any_content_has_what_the_schemas_require(request: RequestView, answer: AnswerView) -> None:
    attributes = TALKING.request(request) | TALKING.answer(request, answer, NO_USAGE, "")
    shapes = {key: json.loads(attributes.get(key, "[]")) for key in CONTENT}
    messages = shapes["gen_ai.input.messages"] + shapes["gen_ai.output.messages"]
    parts = [part for message in messages for part in message["parts"]] + shapes["gen_ai.system_instructions"]
    assert all(isinstance(message["role"], str) for message in messages)
    assert all(message["finish_reason"] for message in shapes["gen_ai.output.messages"])
    assert [part for part in parts if not REQUIRED.get(part["type"], set()) <= set(part)] == []
    assert all({"type", "name"} <= set(tool) for tool in shapes["gen_ai.tool.definitions"])


CONTENT = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.tool.definitions")


# --- names ---


def test_every_name_is_one_of_opentelemetrys() -> None:
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    known |= {error_attributes.ERROR_TYPE}
    request = RequestView(
        operation="chat",
        model="m",
        parameters=Parameters(
            max_tokens=1,
            temperature=1.0,
            top_p=1.0,
            top_k=1.0,
            frequency_penalty=1.0,
            presence_penalty=1.0,
            stop=("a",),
            seed=1,
            choices=1,
            encoding_formats=("a",),
            dimensions=1,
            conversation="c",
        ),
        system=(Part(type="text", text="a"),),
        messages=(Message(role="user", text="a"),),
        tools=("{}",),
        tokenization=Tokenization(kind="chat"),
    )
    answer = AnswerView(id="i", model="m", finish_reasons=("stop",), messages=(Message(role="assistant", text="a"),))
    usage = TokenUsage(**dict.fromkeys(TokenUsage.__struct_fields__, 1))
    used = {
        *TALKING.request(request),
        *TALKING.bound("openai"),
        *TALKING.answer(request, answer, usage, ""),
        *TALKING.failure(500, "").attributes,
    }
    assert len(used) == 28
    assert used - known == set()
