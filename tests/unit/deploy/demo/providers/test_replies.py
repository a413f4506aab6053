"""What the stand-ins answer, as the providers' own libraries read it: the same conversation at every one of them."""

from __future__ import annotations

import json

import pytest

from tests.unit.deploy.demo.providers.conversations import (
    APIS,
    RESULT,
    THINKING,
    after_the_call,
    with_text,
    with_tools,
)
from tests.unit.deploy.demo.providers.sdk import Heard, hear

STOPS = {
    "end": {"stop", "end_turn", "STOP"},
    "tools": {"tool_calls", "tool_use", "STOP"},
    "length": {"length", "max_tokens", "MAX_TOKENS"},
}
BOTH_WAYS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
EVERYWHERE = pytest.mark.parametrize("schema", APIS)


def heard(schema, changes=None, *, stream):
    reply = APIS[schema].ask(changes, stream=stream)
    assert reply.status == 200, reply.body
    return hear(schema, reply, stream=stream)


@EVERYWHERE
@BOTH_WAYS
def test_a_question_is_answered_with_what_it_said(schema, stream):
    answer = heard(schema, stream=stream)

    assert answer.text == "You said: What is the weather in Paris?"
    assert (answer.calls, answer.thinking) == ([], "")
    assert answer.stop in STOPS["end"]
    assert answer.tokens == (9, 0, 8)


@EVERYWHERE
@BOTH_WAYS
def test_a_tool_that_is_offered_is_called(schema, stream):
    answer = heard(schema, with_tools(schema), stream=stream)

    assert answer.text == "Let me look that up."
    assert answer.calls == [("weather", {"city": "Paris"})]
    assert answer.stop in STOPS["tools"]
    assert answer.tokens == (21, 0, 11)


@EVERYWHERE
@BOTH_WAYS
def test_two_are_called_when_both_are_asked_for(schema, stream):
    question = with_text(schema, "What about both Paris and Rome?")

    answer = heard(schema, question | with_tools(schema), stream=stream)

    assert answer.calls == [("weather", {"city": "Paris"}), ("weather", {"city": "Rome"})]


@EVERYWHERE
@BOTH_WAYS
def test_what_a_tool_gave_is_told_and_the_system_prompt_is_cached_by_then(schema, stream):
    answer = heard(schema, after_the_call(schema), stream=stream)

    assert answer.text == f"The tools say: {RESULT}"
    assert answer.calls == []
    assert answer.stop in STOPS["end"]
    assert answer.tokens == (36, 3, 7)


@pytest.mark.parametrize("schema", THINKING)
@BOTH_WAYS
def test_thinking_is_shown_with_a_signature_when_it_is_asked_for(schema, stream):
    answer = heard(schema, THINKING[schema], stream=stream)

    assert answer.thinking == "The user wants to know: What is the weather in Paris?"
    assert len(answer.signature) > 20
    assert answer.text == "You said: What is the weather in Paris?"
    assert answer.tokens == (9, 0, 19)


LIMITS = {
    "OpenAI": {"max_completion_tokens": 3},
    "AzureOpenAI": {"max_tokens": 3},
    "AWSBedrock": {"inferenceConfig": {"maxTokens": 3}},
    "GCPVertexAI": {"generationConfig": {"maxOutputTokens": 3}},
    "GCPAnthropic": {"max_tokens": 3},
    "AWSAnthropic": {"max_tokens": 3},
    "Anthropic": {"max_tokens": 3},
}


@EVERYWHERE
@BOTH_WAYS
def test_an_answer_ends_at_the_limit(schema, stream):
    answer = heard(schema, LIMITS[schema], stream=stream)

    assert answer.text == "You said: What"
    assert answer.stop in STOPS["length"]
    assert answer.tokens == (9, 0, 3)


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "sure": {"type": "boolean"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees", "sure"],
    "additionalProperties": False,
}
FORMATS = {
    "OpenAI": {"response_format": {"type": "json_schema", "json_schema": {"name": "w", "schema": SCHEMA}}},
    "AzureOpenAI": {"response_format": {"type": "json_schema", "json_schema": {"name": "w", "schema": SCHEMA}}},
    "AWSBedrock": {
        "outputConfig": {
            "textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"schema": json.dumps(SCHEMA)}}}
        }
    },
    "GCPVertexAI": {
        "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA},
    },
    "GCPAnthropic": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    "AWSAnthropic": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    "Anthropic": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
}


@EVERYWHERE
@BOTH_WAYS
def test_json_of_a_schema(schema, stream):
    answer = heard(schema, FORMATS[schema], stream=stream)

    assert json.loads(answer.text) == {"city": "Paris", "degrees": 1, "sure": True}


CHOICES = {
    "none": {
        "OpenAI": {"tool_choice": "none"},
        "GCPVertexAI": {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}},
        "Anthropic": {"tool_choice": {"type": "none"}},
    },
    "one by one": {
        "OpenAI": {"parallel_tool_calls": False},
        "Anthropic": {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    },
}


@pytest.mark.parametrize(
    ("choice", "schema"), [(choice, schema) for choice, schemas in CHOICES.items() for schema in schemas]
)
def test_a_choice_of_tools_is_respected(choice, schema):
    question = with_text(schema, "What about both Paris and Rome?")

    answer = heard(schema, question | with_tools(schema) | CHOICES[choice][schema], stream=False)

    assert len(answer.calls) == {"none": 0, "one by one": 1}[choice]


def test_a_named_tool_is_the_one_that_is_called():
    other = {"name": "time", "input_schema": {"type": "object"}}
    tools = [*with_tools("Anthropic")["tools"], other]

    answer = heard("Anthropic", {"tools": tools, "tool_choice": {"type": "tool", "name": "time"}}, stream=False)

    assert answer.calls == [("time", {})]


MARKED = [{"type": "text", "text": "You are brief.", "cache_control": {"type": "ephemeral"}}]
CACHED = {
    "AWSBedrock": {"system": [{"text": "You are brief."}, {"cachePoint": {"type": "default"}}]},
    "GCPAnthropic": {"system": MARKED},
    "AWSAnthropic": {"system": MARKED},
    "Anthropic": {"system": MARKED},
}


@pytest.mark.parametrize("schema", CACHED)
@BOTH_WAYS
def test_what_is_marked_for_the_cache_is_written_there_once_and_read_from_then_on(schema, stream):
    replies = [APIS[schema].ask(CACHED[schema] | more, stream=stream) for more in ({}, after_the_call(schema))]

    first, second = (hear(schema, reply, stream=stream) for reply in replies)

    assert (first.written, first.tokens) == (3, (9, 0, 8))
    assert (second.written, second.tokens) == (0, (36, 3, 7))


@EVERYWHERE
def test_whole_and_streamed_say_the_same(schema):
    changes = after_the_call(schema)

    assert heard(schema, changes, stream=False) == heard(schema, changes, stream=True) != Heard()
