"""Which convention the environment asks for, and what it hides or shows."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.telemetry.tracing.openinference_hiding import TraceConfig
from extproc.telemetry.tracing.switches import conventions
from extproc.telemetry.tracing.views import AnswerView, Message, RequestView
from extproc.usage import NO_USAGE

CHAT = RequestView(operation="chat", model="m", messages=(Message(role="user", text="hi"),), text="hi")
SWITCHES = [field.name for field in fields(TraceConfig) if field.name.startswith("hide_")]

NAMES = {
    "nothing": ({}, "ChatCompletion"),
    "nothing, empty": ({"AI_GATEWAY_TRACING_SEMCONV": ""}, "ChatCompletion"),
    "openinference": ({"AI_GATEWAY_TRACING_SEMCONV": "openinference"}, "ChatCompletion"),
    "gen_ai": ({"AI_GATEWAY_TRACING_SEMCONV": "gen_ai"}, "chat m"),
}


@pytest.mark.parametrize(("environ", "name"), NAMES.values(), ids=NAMES)
def test_the_environment_chooses_the_convention(environ: dict[str, str], name: str) -> None:
    assert conventions(environ).name(CHAT) == name


UNKNOWN = {
    "another word": ("otel", '"otel"'),
    "another case": ("OpenInference", '"OpenInference"'),
    "with a space": (" gen_ai", '" gen_ai"'),
    "with a quote": ('gen"ai', '"gen\\"ai"'),
}


@pytest.mark.parametrize(("value", "quoted"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_convention_that_there_is_not_is_refused(value: str, quoted: str) -> None:
    with pytest.raises(ValueError, match="invalid AI_GATEWAY_TRACING_SEMCONV") as refused:
        conventions({"AI_GATEWAY_TRACING_SEMCONV": value})
    assert str(refused.value) == (f"invalid AI_GATEWAY_TRACING_SEMCONV {quoted}: must be one of openinference, gen_ai")


BOOLEANS = {
    **dict.fromkeys(["1", "t", "T", "true", "TRUE", "True"], True),
    **dict.fromkeys(["0", "f", "F", "false", "FALSE", "False", "", "yes", "on", "tRUE", " true", "2"], False),
}


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("value", BOOLEANS)
def test_a_switch_is_read_as_go_reads_it(name: str, value: str) -> None:
    config = TraceConfig.read({f"OPENINFERENCE_{name.upper()}": value})
    expected = dict.fromkeys(SWITCHES, False) | {name: BOOLEANS[value]}
    assert {field: getattr(config, field) for field in SWITCHES} == expected


@pytest.mark.parametrize(
    "variable",
    [
        "OPENINFERENCE_HIDE_LLM_INVOCATION_PARAMETERS",
        "OPENINFERENCE_HIDE_INPUTS",
        "OPENINFERENCE_HIDE_OUTPUTS",
        "OPENINFERENCE_HIDE_INPUT_MESSAGES",
        "OPENINFERENCE_HIDE_OUTPUT_MESSAGES",
        "OPENINFERENCE_HIDE_INPUT_IMAGES",
        "OPENINFERENCE_HIDE_INPUT_TEXT",
        "OPENINFERENCE_HIDE_OUTPUT_TEXT",
        "OPENINFERENCE_HIDE_EMBEDDINGS_TEXT",
        "OPENINFERENCE_HIDE_EMBEDDINGS_VECTORS",
        "OPENINFERENCE_HIDE_PROMPTS",
        "OPENINFERENCE_HIDE_CHOICES",
        # Of the specification, but not of the contract.
        "OPENINFERENCE_HIDE_LLM_TOOLS",
        "OPENINFERENCE_HIDE_EMBEDDING_VECTORS",
    ],
)
def test_a_variable_is_a_switch(variable: str) -> None:
    assert TraceConfig.read({variable: "true"}) != TraceConfig.read({})


def test_no_switch_is_without_a_variable() -> None:
    assert len(SWITCHES) == 14


LENGTHS = {
    "none": ({}, 32_000),
    "a number": ({"OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH": "100"}, 100),
    "none at all": ({"OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH": "0"}, 0),
    "with a sign": ({"OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH": "+5"}, 5),
    "less than none": ({"OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH": "-5"}, -5),
    "empty": ({"OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH": ""}, 32_000),
    "with a unit": ({"OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH": "32k"}, 32_000),
    "grouped": ({"OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH": "32_000_0"}, 32_000),
    "digits of another script": ({"OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH": "٣"}, 32_000),
    "more than an int has": ({"OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH": "9" * 30}, 32_000),
}


@pytest.mark.parametrize(("environ", "length"), LENGTHS.values(), ids=LENGTHS)
def test_the_length_of_images_is_a_number(environ: dict[str, str], length: int) -> None:
    assert TraceConfig.read(environ).base64_image_max_length == length


def test_the_switches_reach_the_convention() -> None:
    assert "llm.input_messages.0.message.content" in conventions({}).request(CHAT)
    hiding = conventions({"OPENINFERENCE_HIDE_INPUTS": "1"})
    assert hiding.request(CHAT)["input.value"] == "__REDACTED__"
    assert "llm.input_messages.0.message.content" not in hiding.request(CHAT)


@pytest.mark.parametrize("value", BOOLEANS)
def test_content_is_told_where_it_is_asked_for(value: str) -> None:
    environ = {
        "AI_GATEWAY_TRACING_SEMCONV": "gen_ai",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": value,
    }
    answer = AnswerView(messages=(Message(role="assistant", text="hi"),))
    convention = conventions(environ)
    assert ("gen_ai.input.messages" in convention.request(CHAT)) is BOOLEANS[value]
    assert ("gen_ai.output.messages" in convention.answer(CHAT, answer, NO_USAGE, "")) is BOOLEANS[value]


@given(st.dictionaries(st.sampled_from([f"OPENINFERENCE_{name.upper()}" for name in SWITCHES]), st.text()))
def test_any_value_of_a_switch_is_read(environ: dict[str, str]) -> None:
    assert isinstance(TraceConfig.read(environ), TraceConfig)
