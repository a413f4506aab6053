"""What the switches of the OpenInference specification keep out of spans, and what they leave in."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given, settings

from extproc.endpoints.base import Operation
from extproc.telemetry.tracing.openinference import OpenInference
from extproc.telemetry.tracing.openinference_hiding import TraceConfig
from extproc.telemetry.tracing.views import AnswerView, Message, Part, RequestView, ToolCall
from extproc.usage import NO_USAGE, TokenUsage
from tests.support import tracing_views as views

OPEN = OpenInference(TraceConfig())
HIDING = OpenInference(
    TraceConfig(**{field.name: True for field in fields(TraceConfig) if field.name.startswith("hide_")})
)
IMAGE = "data:image/png;base64,aGVsbG8/"
PIXELS = IMAGE.partition(",")[2]


def hiding(**switches: bool | int) -> OpenInference:
    return OpenInference(replace(TraceConfig(), **switches))


def asked(operation: str = "chat", **members: object) -> RequestView:
    return RequestView(operation=operation, model="m", **members)


def answered(convention: OpenInference, answer: AnswerView, operation: str = "chat", usage: TokenUsage = NO_USAGE):
    return convention.answer(asked(operation), answer, usage, "")


# --- what a switch hides ---

CHAT = asked(
    text=f'{{"said":"words","image":"{IMAGE}"}}',
    invocation='{"seed":1}',
    system=(Part(type="text", text="be brief"),),
    messages=(
        Message(
            role="user",
            parts=(Part(type="text", text="what"), Part(type="reasoning", text="hm"), Part(type="image", url=IMAGE)),
        ),
        Message(role="assistant", tool_calls=(ToolCall(id="1", name="f", arguments="{}"),)),
    ),
    tools=('{"name":"f"}',),
)
COMPLETION = asked("completion", text='{"prompt":"a"}', prompts=("a", ""))
EMBEDDINGS = asked("embeddings", text='{"input":"a"}', texts=("a",), invocation='{"dimensions":2}')
RERANK = asked("rerank", text='{"query":"q"}', query="q", documents=("a",), top_n=1)
FIRST = "llm.input_messages.0.message."
SECOND = "llm.input_messages.1.message."
HIDDEN = "__REDACTED__"


OF_REQUESTS = {
    "all of a chat": (
        "hide_inputs",
        CHAT,
        {"input.value": HIDDEN},
        ["input.mime_type", "llm.input_messages", "llm.tools"],
    ),
    "all of a completion": (
        "hide_inputs",
        COMPLETION,
        {"input.value": HIDDEN, "llm.prompts.0.prompt.text": HIDDEN},
        ["input.mime_type"],
    ),
    "all that is embedded": (
        "hide_inputs",
        EMBEDDINGS,
        {"input.value": HIDDEN, "embedding.embeddings.0.embedding.text": HIDDEN},
        ["input.mime_type"],
    ),
    "all that is ranked": (
        "hide_inputs",
        RERANK,
        {"input.value": HIDDEN, "reranker.query": HIDDEN},
        ["input.mime_type", "reranker.input_documents"],
    ),
    "messages": ("hide_input_messages", CHAT, {}, ["llm.input_messages"]),
    "texts of messages": (
        "hide_input_text",
        CHAT,
        {
            f"{FIRST}content": HIDDEN,
            f"{SECOND}contents.0.message_content.text": HIDDEN,
            f"{SECOND}contents.1.message_content.text": HIDDEN,
        },
        [],
    ),
    "images, in the body too": (
        "hide_input_images",
        CHAT,
        {
            "input.value": '{"said":"words","image":"__REDACTED__"}',
            f"{SECOND}contents.2.message_content.image.image.url": HIDDEN,
        },
        [],
    ),
    "parameters": ("hide_llm_invocation_parameters", CHAT, {}, ["llm.invocation_parameters"]),
    "parameters of embeddings": (
        "hide_llm_invocation_parameters",
        EMBEDDINGS,
        {},
        ["embedding.invocation_parameters"],
    ),
    "tools": ("hide_llm_tools", CHAT, {}, ["llm.tools"]),
    "prompts": ("hide_prompts", COMPLETION, {"llm.prompts.0.prompt.text": HIDDEN}, []),
    "texts to embed": (
        "hide_embeddings_text",
        EMBEDDINGS,
        {"embedding.embeddings.0.embedding.text": HIDDEN},
        [],
    ),
    "nothing of a request by the switch of answers": ("hide_outputs", CHAT, {}, []),
    "nothing of it by the switch of their texts": ("hide_output_text", CHAT, {}, []),
}


@pytest.mark.parametrize(("switch", "request_", "masked", "omitted"), OF_REQUESTS.values(), ids=OF_REQUESTS)
def test_a_switch_hides_of_a_request(
    switch: str, request_: RequestView, masked: dict[str, str], omitted: list[str]
) -> None:
    shown = OPEN.request(request_)
    kept = {key: value for key, value in shown.items() if not key.startswith(tuple(omitted))}
    assert set(masked) <= set(kept)
    assert hiding(**{switch: True}).request(request_) == {**kept, **masked}


ANSWER = AnswerView(
    text="{}",
    messages=(
        Message(
            role="assistant",
            parts=(Part(type="text", text="it"), Part(type="image", url=IMAGE)),
            tool_calls=(ToolCall(id="1", name="f", arguments="{}"),),
        ),
        Message(role="assistant", text="that"),
    ),
    choices=("a",),
    vectors=((0.5,),),
    scores=(0.75,),
    audio_bytes=7,
    audio_duration=1.5,
    language="english",
    prompt_audio_tokens=3,
)
OUTPUT = "llm.output_messages.0.message."


OF_ANSWERS = {
    "all": (
        "hide_outputs",
        {
            "output.value": HIDDEN,
            "llm.choices.0.completion.text": HIDDEN,
            "embedding.embeddings.0.embedding.vector": HIDDEN,
        },
        [
            "output.mime_type",
            "output.audio_bytes",
            "output.audio_duration",
            "output.language",
            "llm.output_messages",
            "reranker.output_documents",
        ],
    ),
    "messages": ("hide_output_messages", {}, ["llm.output_messages"]),
    "texts of messages": (
        "hide_output_text",
        {
            f"{OUTPUT}contents.0.message_content.text": HIDDEN,
            "llm.output_messages.1.message.content": HIDDEN,
        },
        [],
    ),
    "choices": ("hide_choices", {"llm.choices.0.completion.text": HIDDEN}, []),
    "vectors": ("hide_embeddings_vectors", {"embedding.embeddings.0.embedding.vector": HIDDEN}, []),
    "vectors, by the old name": ("hide_embedding_vectors", {"embedding.embeddings.0.embedding.vector": HIDDEN}, []),
    "nothing by the switch of requests": ("hide_inputs", {}, []),
    "nothing by the switch of images that are asked about": ("hide_input_images", {}, []),
}


@pytest.mark.parametrize(("switch", "masked", "omitted"), OF_ANSWERS.values(), ids=OF_ANSWERS)
def test_a_switch_hides_of_an_answer(switch: str, masked: dict[str, str], omitted: list[str]) -> None:
    shown = answered(OPEN, ANSWER)
    kept = {key: value for key, value in shown.items() if not key.startswith(tuple(omitted))}
    assert set(masked) <= set(kept)
    assert answered(hiding(**{switch: True}), ANSWER) == {**kept, **masked}


def test_usage_is_never_hidden() -> None:
    usage = TokenUsage(input=1, output=2, total=3)
    assert answered(HIDING, AnswerView(text="{}"), usage=usage) == {
        "output.value": HIDDEN,
        "llm.token_count.prompt": 1,
        "llm.token_count.completion": 2,
        "llm.token_count.total": 3,
    }


# --- long images ---


IMAGES = {
    "as long as may be": (IMAGE, len(IMAGE), IMAGE),
    "longer": (IMAGE, len(IMAGE) - 1, HIDDEN),
    "elsewhere": ("https://example.com/image/base64.png", 5, "https://example.com/image/base64.png"),
    "no image": ("data:text/plain;base64,aGVsbG8=", 5, "data:text/plain;base64,aGVsbG8="),
    "not in base64": ("data:image/svg+xml,<svg base64/>", 5, "data:image/svg+xml,<svg base64/>"),
}


@pytest.mark.parametrize(("url", "longest", "shown"), IMAGES.values(), ids=IMAGES)
def test_an_image_in_base64_is_shown_up_to_a_length(url: str, longest: int, shown: str) -> None:
    request = asked(messages=(Message(role="user", parts=(Part(type="image", url=url),)),))
    attributes = hiding(base64_image_max_length=longest).request(request)
    assert attributes[f"{FIRST}contents.0.message_content.image.image.url"] == shown


BODIES = {
    "as a URL": (f'{{"url":"{IMAGE}"}}', '{"url":"__REDACTED__"}'),
    "as data": (f'{{"data":"{PIXELS}","n":1}}', '{"data":"__REDACTED__","n":1}'),
    "with slashes escaped": ('{"url":"data:image\\/png;base64,aGVsbG8\\/"}', '{"url":"__REDACTED__"}'),
    "as data with slashes escaped": ('{"data":"aGVsbG8\\/"}', '{"data":"__REDACTED__"}'),
    "twice": (f'["{IMAGE}","{PIXELS}","{IMAGE}"]', '["__REDACTED__","__REDACTED__","__REDACTED__"]'),
    "as one that no message has": (
        f'["{IMAGE}AAAA","data:image\\/gif;base64,AAAA"]',
        '["__REDACTED__","__REDACTED__"]',
    ),
    "what is no image stays": ('["data:text/plain;base64,AAAA"]', '["data:text/plain;base64,AAAA"]'),
    "quoted within a text it is a text": (f'{{"t":"\\"{IMAGE}\\""}}', f'{{"t":"\\"{IMAGE}\\""}}'),
    "within a text it is a text": (f'{{"text":"see {IMAGE} there"}}', f'{{"text":"see {IMAGE} there"}}'),
}


def test_a_body_is_shown_without_the_address_of_an_image_that_is_hidden() -> None:
    url = "https://example.com/a.png"
    image = Message(role="user", parts=(Part(type="image", url=url),))
    request = asked(text=f'["{url}","{url}?b"]', messages=(image,))
    assert hiding(hide_input_images=True).request(request)["input.value"] == f'["__REDACTED__","{url}?b"]'
    assert hiding(base64_image_max_length=5).request(request)["input.value"] == request.text


@pytest.mark.parametrize(("body", "shown"), BODIES.values(), ids=BODIES)
def test_a_body_is_shown_without_the_images_that_are_hidden(body: str, shown: str) -> None:
    request = asked(text=body, messages=(Message(role="user", parts=(Part(type="image", url=IMAGE),)),))
    answer = AnswerView(text=body, messages=request.messages)
    assert hiding(base64_image_max_length=5).request(request)["input.value"] == shown
    assert answered(hiding(base64_image_max_length=5), answer)["output.value"] == shown
    assert OPEN.request(request)["input.value"] == body


# --- errors and limits ---


@pytest.mark.parametrize("switch", ["hide_inputs", "hide_outputs"])
def test_the_body_of_an_error_is_hidden_where_it_could_tell_what_is(switch: str) -> None:
    failure = hiding(**{switch: True}).failure(400, "you said: secret")
    assert failure.description == "Error code: 400 - __REDACTED__"
    assert "secret" not in str(failure)
    assert hiding(**{switch: True}).failure(400, "").description == "Error code: 400"


LIMITS = {
    "nothing is hidden": ({}, True),
    "answers are shown": ({"hide_inputs": True}, True),
    "requests are shown": ({"hide_outputs": True}, True),
    "both are hidden": ({"hide_inputs": True, "hide_outputs": True}, False),
}


@pytest.mark.parametrize(("switches", "unlimited"), LIMITS.values(), ids=LIMITS)
def test_spans_have_any_number_of_attributes_while_they_have_content(
    *, switches: dict[str, bool], unlimited: bool
) -> None:
    assert hiding(**switches).unlimited is unlimited


# --- any view ---


@pytest.mark.parametrize("operation", list(Operation))
def test_nothing_that_was_said_is_in_a_span_while_all_is_hidden(operation: Operation) -> None:
    request, answer = views.spoken_request(operation), views.spoken_answer()
    attributes = HIDING.request(request) | HIDING.answer(request, answer, NO_USAGE, "")
    assert views.said(attributes) == []
    assert views.WORD not in str(HIDING.failure(400, views.WORD))


@pytest.mark.parametrize("operation", list(Operation))
def test_the_two_switches_for_everything_hide_all_but_the_parameters(operation: Operation) -> None:
    convention = hiding(hide_inputs=True, hide_outputs=True)
    request, answer = views.spoken_request(operation), views.spoken_answer()
    attributes = convention.request(request) | convention.answer(request, answer, NO_USAGE, "")
    assert [key for key in views.said(attributes) if not key.endswith(".invocation_parameters")] == []


@settings(max_examples=50)
@given(request=views.requests, answer=views.answers, usage=views.usages)
def test_any_view_becomes_attributes_that_can_be_exported(
    request: RequestView, answer: AnswerView, usage: TokenUsage
) -> None:
    attributes = HIDING.request(request) | HIDING.answer(request, answer, usage, "")
    assert views.illegal(attributes) == []
