"""OpenInference spans, by the rows of the contract (7.8)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from extproc.endpoints.base import Operation
from extproc.telemetry.tracing.base import Event, Failure
from extproc.telemetry.tracing.openinference import OpenInference
from extproc.telemetry.tracing.openinference_hiding import TraceConfig
from extproc.telemetry.tracing.views import AnswerView, Message, Part, RequestView, Tokenization, ToolCall
from extproc.usage import NO_USAGE, TokenUsage
from tests.support import tracing_views as views

OPEN = OpenInference(TraceConfig())
IMAGE = "data:image/png;base64,aGVsbG8/"


def asked(operation: str = "chat", **members: object) -> RequestView:
    return RequestView(operation=operation, model="m", **members)


def answered(convention: OpenInference, answer: AnswerView, operation: str = "chat", usage: TokenUsage = NO_USAGE):
    return convention.answer(asked(operation), answer, usage, "")


# --- names and kinds ---


ROWS = {
    "chat": ("chat", "ChatCompletion", {"llm.system": "openai", "llm.model_name": "m"}),
    "completion": ("completion", "Completion", {"llm.system": "openai", "llm.model_name": "m"}),
    "embeddings": ("embeddings", "CreateEmbeddings", {"embedding.model_name": "m"}),
    "image generation": ("image_generation", "ImagesResponse", {"llm.system": "openai", "llm.model_name": "m"}),
    "image edit": ("image_edit", "ImagesResponse", {"llm.system": "openai", "llm.model_name": "m"}),
    "responses": ("responses", "Responses", {"llm.system": "openai", "llm.model_name": "m"}),
    "speech": ("speech", "AudioSpeech", {"llm.system": "openai", "llm.model_name": "m"}),
    "transcription": ("transcription", "Transcription", {"llm.system": "openai", "llm.model_name": "m"}),
    "translation": ("translation", "Translation", {"llm.system": "openai", "llm.model_name": "m"}),
    "rerank": ("rerank", "Rerank", {"llm.system": "cohere", "reranker.model_name": "m"}),
    "messages": ("messages", "Message", {"llm.system": "anthropic", "llm.model_name": "m"}),
    "tokenize": ("tokenize", "Tokenize", {"llm.system": "openai", "llm.model_name": "m"}),
    "input tokens": (
        "responses_input_tokens",
        "ResponsesInputTokens",
        {"llm.system": "openai", "llm.model_name": "m"},
    ),
    "count tokens": ("count_tokens", "CountTokens", {"llm.system": "anthropic", "llm.model_name": "m"}),
}


@pytest.mark.parametrize(("operation", "name", "general"), ROWS.values(), ids=ROWS)
def test_an_operation_has_its_name_and_its_system(operation: str, name: str, general: dict[str, str]) -> None:
    attributes = OPEN.request(asked(operation))
    kind = attributes.pop("openinference.span.kind")
    assert (OPEN.name(asked(operation)), attributes) == (name, general)
    assert kind == {
        "embeddings": "EMBEDDING",
        "rerank": "RERANKER",
        "tokenize": "TOKEN_COUNTER",
        "responses_input_tokens": "TOKEN_COUNTER",
        "count_tokens": "TOKEN_COUNTER",
    }.get(operation, "LLM")


@pytest.mark.parametrize("operation", list(Operation))
def test_no_operation_is_without_a_name(operation: Operation) -> None:
    assert OPEN.name(asked(operation))


def test_a_span_is_internal_and_does_not_say_who_answers() -> None:
    assert (OPEN.kind, OPEN.bound("openai")) == ("internal", {})


# --- the request ---


REQUESTS = {
    "the body": (
        asked(text='{"a":1}', mime="application/json"),
        {"input.value": '{"a":1}', "input.mime_type": "application/json"},
    ),
    "parameters": (asked(invocation='{"seed":1}'), {"llm.invocation_parameters": '{"seed":1}'}),
    "parameters of embeddings": (
        asked("embeddings", invocation='{"dimensions":1}'),
        {"embedding.invocation_parameters": '{"dimensions":1}'},
    ),
    "parameters of a rerank request have their keys": (
        asked("rerank", invocation='{"top_n":3}', top_n=3, query="q", documents=("a", "b")),
        {
            "reranker.top_k": 3,
            "reranker.query": "q",
            "reranker.input_documents.0.document.content": "a",
            "reranker.input_documents.1.document.content": "b",
        },
    ),
    "a message of one text": (
        asked(messages=(Message(role="user", text="hi"),)),
        {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "hi"},
    ),
    "a message of parts": (
        asked(
            messages=(
                Message(
                    role="user",
                    parts=(Part(type="text", text="what"), Part(type="image", url=IMAGE), Part(type="file", url=IMAGE)),
                ),
            ),
        ),
        {
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.contents.0.message_content.type": "text",
            "llm.input_messages.0.message.contents.0.message_content.text": "what",
            "llm.input_messages.0.message.contents.1.message_content.type": "image",
            "llm.input_messages.0.message.contents.1.message_content.image.image.url": IMAGE,
            "llm.input_messages.0.message.contents.2.message_content.type": "file",
        },
    ),
    "calls of tools and their results": (
        asked(
            messages=(
                Message(
                    role="assistant",
                    tool_calls=(ToolCall(id="1", name="f", arguments="{}"), ToolCall(name="g")),
                ),
                Message(role="tool", text="42", answers="1"),
            ),
        ),
        {
            "llm.input_messages.0.message.role": "assistant",
            "llm.input_messages.0.message.tool_calls.0.tool_call.id": "1",
            "llm.input_messages.0.message.tool_calls.0.tool_call.function.name": "f",
            "llm.input_messages.0.message.tool_calls.0.tool_call.function.arguments": "{}",
            "llm.input_messages.0.message.tool_calls.1.tool_call.function.name": "g",
            "llm.input_messages.1.message.role": "tool",
            "llm.input_messages.1.message.content": "42",
            "llm.input_messages.1.message.tool_call_id": "1",
        },
    ),
    "a text beside the reasoning that led to it": (
        asked(messages=(Message(role="assistant", text="hi", parts=(Part(type="reasoning", text="hm"),)),)),
        {
            "llm.input_messages.0.message.role": "assistant",
            "llm.input_messages.0.message.content": "hi",
            "llm.input_messages.0.message.contents.0.message_content.type": "reasoning",
            "llm.input_messages.0.message.contents.0.message_content.text": "hm",
        },
    ),
    "the prompt for the system comes first": (
        asked(system=(Part(type="text", text="be brief"),), messages=(Message(role="user", text="hi"),)),
        {
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.0.message.content": "be brief",
            "llm.input_messages.1.message.role": "user",
            "llm.input_messages.1.message.content": "hi",
        },
    ),
    "and may have parts": (
        asked(system=(Part(type="text", text="be"), Part(type="text", text="brief"))),
        {
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.0.message.contents.0.message_content.type": "text",
            "llm.input_messages.0.message.contents.0.message_content.text": "be",
            "llm.input_messages.0.message.contents.1.message_content.type": "text",
            "llm.input_messages.0.message.contents.1.message_content.text": "brief",
        },
    ),
    "tools": (
        asked(tools=('{"a":1}', "{}")),
        {
            "llm.tools.0.tool.json_schema": '{"a":1}',
            "llm.tools.1.tool.json_schema": "{}",
        },
    ),
    "prompts": (
        asked("completion", prompts=("a", "b")),
        {
            "llm.prompts.0.prompt.text": "a",
            "llm.prompts.1.prompt.text": "b",
        },
    ),
    "texts to embed": (
        asked("embeddings", texts=("a", "b")),
        {
            "embedding.embeddings.0.embedding.text": "a",
            "embedding.embeddings.1.embedding.text": "b",
        },
    ),
    "a text to speak is what the user says": (
        asked("speech", system=(Part(type="text", text="slowly"),), texts=("a",)),
        {
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.0.message.content": "slowly",
            "llm.input_messages.1.message.role": "user",
            "llm.input_messages.1.message.content": "a",
        },
    ),
    "tokenization": (
        asked(
            "tokenize",
            tokenization=Tokenization(
                kind="chat",
                add_special_tokens=False,
                return_token_strs=True,
                add_generation_prompt=True,
                continue_final_message=False,
                message_count=2,
            ),
        ),
        {
            "tokenize.request_type": "chat",
            "tokenize.add_special_tokens": False,
            "tokenize.return_token_strs": True,
            "tokenize.add_generation_prompt": True,
            "tokenize.continue_final_message": False,
            "tokenize.message_count": 2,
        },
    ),
    "tokenization without options": (
        asked("tokenize", tokenization=Tokenization(kind="completion")),
        {"tokenize.request_type": "completion"},
    ),
}


@pytest.mark.parametrize(("request_", "expected"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_is_spelled_out(request_: RequestView, expected: dict[str, object]) -> None:
    general = OPEN.request(asked(request_.operation))
    assert OPEN.request(request_) == {**general, **expected}


# --- the answer ---


ANSWERS = {
    "the body": ("chat", AnswerView(text="{}"), {"output.value": "{}", "output.mime_type": "application/json"}),
    "the model that answered": ("chat", AnswerView(model="m-1"), {"llm.model_name": "m-1"}),
    "the model that embedded": ("embeddings", AnswerView(model="m-1"), {"embedding.model_name": "m-1"}),
    "messages": (
        "chat",
        AnswerView(
            messages=(
                Message(role="assistant", text="hi", finish="stop"),
                Message(role="assistant", tool_calls=(ToolCall(id="1", name="f", arguments="{}"),)),
            ),
        ),
        {
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "hi",
            "llm.output_messages.1.message.role": "assistant",
            "llm.output_messages.1.message.tool_calls.0.tool_call.id": "1",
            "llm.output_messages.1.message.tool_calls.0.tool_call.function.name": "f",
            "llm.output_messages.1.message.tool_calls.0.tool_call.function.arguments": "{}",
        },
    ),
    "choices": (
        "completion",
        AnswerView(choices=("a", "b")),
        {
            "llm.choices.0.completion.text": "a",
            "llm.choices.1.completion.text": "b",
        },
    ),
    "vectors": (
        "embeddings",
        AnswerView(vectors=((0.5, 1.0), (0.25,))),
        {
            "embedding.embeddings.0.embedding.vector": (0.5, 1.0),
            "embedding.embeddings.1.embedding.vector": (0.25,),
        },
    ),
    "scores, none too small": (
        "rerank",
        AnswerView(scores=(0.75, 0.0)),
        {
            "reranker.output_documents.0.document.score": 0.75,
            "reranker.output_documents.1.document.score": 0.0,
        },
    ),
    "speech": (
        "speech",
        AnswerView(mime="audio/mpeg", audio_bytes=2048),
        {"output.mime_type": "audio/mpeg", "output.audio_bytes": 2048},
    ),
    "a transcript": (
        "transcription",
        AnswerView(text="hello", mime="text/plain", audio_duration=1.5, language="english"),
        {
            "output.value": "hello",
            "output.mime_type": "text/plain",
            "output.audio_duration": 1.5,
            "output.language": "english",
        },
    ),
    "tokens": (
        "tokenize",
        AnswerView(token_count=3, max_model_len=4096, tokens=3, token_strings=0),
        {
            "tokenize.token_count": 3,
            "tokenize.max_model_len": 4096,
            "tokenize.tokens_returned": 3,
            "tokenize.token_strings_returned": 0,
        },
    ),
    "a count of what a message would take": (
        "count_tokens",
        AnswerView(token_count=9),
        {
            "llm.token_count.prompt": 9,
        },
    ),
    "a count of what a response would take": (
        "responses_input_tokens",
        AnswerView(token_count=9),
        {
            "llm.token_count.prompt": 9,
        },
    ),
    "audio that was counted": (
        "chat",
        AnswerView(prompt_audio_tokens=4, completion_audio_tokens=0),
        {
            "llm.token_count.prompt_details.audio": 4,
            "llm.token_count.completion_details.audio": 0,
        },
    ),
    "nothing": ("chat", AnswerView(), {}),
}


@pytest.mark.parametrize(("operation", "answer", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_is_spelled_out(operation: str, answer: AnswerView, expected: dict[str, object]) -> None:
    assert answered(OPEN, answer, operation) == expected


def test_usage_is_counted_as_it_was_metered() -> None:
    usage = TokenUsage(input=10, output=5, total=15, cached_input=4, cache_creation_input=0, reasoning=2)
    assert answered(OPEN, AnswerView(), usage=usage) == {
        "llm.token_count.prompt": 10,
        "llm.token_count.completion": 5,
        "llm.token_count.total": 15,
        "llm.token_count.prompt_details.cache_read": 4,
        "llm.token_count.prompt_details.cache_creation": 0,
        "llm.token_count.completion_details.reasoning": 2,
    }


def test_a_count_that_was_metered_goes_before_that_of_the_answer() -> None:
    attributes = OPEN.answer(asked("count_tokens"), AnswerView(token_count=9), TokenUsage(input=8), "")
    assert attributes == {"llm.token_count.prompt": 8}


def test_the_model_that_was_metered_has_answered() -> None:
    attributes = OPEN.answer(asked(), AnswerView(model="as the client reads"), NO_USAGE, "metered")
    assert attributes == {"llm.model_name": "metered"}


# --- events and errors ---


@pytest.mark.parametrize("operation", list(Operation))
def test_the_first_piece_of_a_stream_of_tokens_is_an_event(operation: Operation) -> None:
    told = operation in {"chat", "completion", "messages", "responses"}
    assert OPEN.first_piece(asked(operation, stream=True)) == (Event("First Token Stream Event", {}) if told else None)
    assert OPEN.first_piece(asked(operation)) is None


COMPLETED = {
    "a response that is complete": ("responses", True, [Event("Response Completed Event", {})]),
    "a response that is not": ("responses", False, []),
    "another API": ("chat", True, []),
}


@pytest.mark.parametrize(("operation", "completed", "events"), COMPLETED.values(), ids=COMPLETED)
def test_a_completed_response_is_an_event(*, operation: str, completed: bool, events: list[Event]) -> None:
    assert OPEN.events(asked(operation), AnswerView(completed=completed)) == events


@pytest.mark.parametrize(
    ("status", "type_"),
    [
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (403, "PermissionDeniedError"),
        (404, "NotFoundError"),
        (422, "Error"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
        (502, "InternalServerError"),
        (503, "InternalServerError"),
        (504, "Error"),
    ],
)
def test_an_error_is_an_exception(status: int, type_: str) -> None:
    message = f"Error code: {status} - no"
    event = Event("exception", {"exception.type": type_, "exception.message": message})
    assert OPEN.failure(status, "no") == Failure(message, {}, event)


UNSPECIFIC = {
    "no body": (503, "", "Error code: 503"),
    "no status": (0, "", "The answer is not complete"),
    "no status, but a reason": (0, "cut off", "The answer is not complete - cut off"),
}


@pytest.mark.parametrize(("status", "body", "message"), UNSPECIFIC.values(), ids=UNSPECIFIC)
def test_an_error_says_what_is_known_of_it(status: int, body: str, message: str) -> None:
    failure = OPEN.failure(status, body)
    assert failure.description == message
    assert failure.event is not None
    assert failure.event.attributes["exception.message"] == message


# --- any view ---


@pytest.mark.parametrize("operation", list(Operation))
def test_what_was_said_is_in_a_span_otherwise(operation: Operation) -> None:
    request, answer = views.spoken_request(operation), views.spoken_answer()
    assert len(views.said(OPEN.request(request))) > 1
    assert len(views.said(answered(OPEN, answer, operation))) > 1


@settings(max_examples=50)
@given(request=views.requests, answer=views.answers, usage=views.usages)
def test_any_view_becomes_attributes_that_can_be_exported(
    request: RequestView, answer: AnswerView, usage: TokenUsage
) -> None:
    attributes = OPEN.request(request) | OPEN.answer(request, answer, usage, "")
    assert views.illegal(attributes) == []
    json.dumps(attributes)
