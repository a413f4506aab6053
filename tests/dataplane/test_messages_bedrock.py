"""The official Anthropic SDK, and Amazon's Converse behind Envoy: conversations, streams, errors, counts and costs."""

from __future__ import annotations

import base64
import time
from dataclasses import replace
from types import SimpleNamespace

import anthropic
import httpx2
import pytest

from deploy.demo.providers.service import Reply as Answer
from tests.dataplane.harness.client import new_id
from tests.dataplane.harness.documents import cost, filter_config, route
from tests.dataplane.harness.providers import (
    BY_SCHEMA,
    CALLERS,
    ERRORS_IN_STREAMS,
    configured,
    error_of,
    framed,
    place,
    rule_of,
    serving,
)
from tests.dataplane.harness.replies import Abort, json_reply
from tests.support import converse
from tests.support.sigv4_verifier import verify
from tests.unit.translate.count_tokens.bedrock import oracle as counting

SPEAKER = BY_SCHEMA["AWSBedrock"]
NOVA = "us.amazon.nova-lite-v1:0"
SYSTEM = "You are a weather service. Be brief."
QUESTION = {"role": "user", "content": "What is the weather in Paris?"}
BOTH = {"role": "user", "content": "What about both Paris and Rome?"}
TOOLS = [
    {
        "name": "get_weather",
        "description": "The weather in a city, now.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
]
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4096}
PDF = base64.b64encode(b"%PDF-1.4 a report").decode()
COSTS = [
    cost("input", "InputToken"),
    cost("cached", "CachedInputToken"),
    cost("created", "CacheCreationInputToken"),
    cost("output", "OutputToken"),
    cost("total"),
]
BOTH_WAYS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def standing_in(received):
    """Amazon, for whom every request is signed and of the form that its own model describes."""
    if not received.target.endswith("/count-tokens"):
        converse.accept(received.target, received.body)
        return serving(SPEAKER.provider)(received)
    verify(
        method=received.method,
        path=received.target,
        headers=received.headers,
        body=received.body,
        secrets=CALLERS,
        now=time.time(),
    )
    counted = counting.accept(received.target, received.body)
    return json_reply({"inputTokens": 17 if "anthropic_version" in counted else 42})


@pytest.fixture(scope="module")
def upstream(start_upstream):
    started = start_upstream("awsbedrock")
    started.always(standing_in)
    return started


@pytest.fixture(scope="module")
def stack(start_stack, upstream):
    models = {"claude": SPEAKER.model, "nova": NOVA}
    where = route(*(rule_of(place(upstream, SPEAKER), model=name) for name in models))
    backends = [
        configured(where.backend_name(index, 0), SPEAKER, model=model) for index, model in enumerate(models.values())
    ]
    return start_stack(
        routes=[where],
        config=filter_config(*backends, globalLLMRequestCosts=COSTS),
        cost_keys=[*(rule["metadataKey"] for rule in COSTS), "response_error"],
    )


@pytest.fixture(scope="module")
def client(stack):
    url = f"{stack.base_url}/anthropic"
    with anthropic.Anthropic(base_url=url, api_key="sk-of-the-client", max_retries=0, timeout=30) as made:
        yield made


@pytest.fixture
def ask(client, stack):
    """``ask(messages, stream=…, **fields)``: the message that the SDK gathered, and what Envoy metered."""

    def ask(messages, *, stream=False, **fields):
        request_id = new_id()
        call = {
            "model": "claude",
            "max_tokens": 1000,
            "messages": messages,
            "extra_headers": {"x-request-id": request_id},
            **fields,
        }
        if stream:
            with client.messages.stream(**call) as events:
                message = events.get_final_message()
        else:
            message = client.messages.create(**call)
        logged = stack.access_log.wait_for(request_id)["costs"]
        return SimpleNamespace(
            message=message,
            text="".join(block.text for block in message.content if block.type == "text"),
            calls=[(block.name, block.input) for block in message.content if block.type == "tool_use"],
            costs={rule["metadataKey"]: logged[rule["metadataKey"]] or 0 for rule in COSTS},
        )

    return ask


def back(message):
    """The message as the history has it."""
    return {"role": "assistant", "content": [block.to_dict() for block in message.content]}


def results(message, *contents):
    calls = [block.id for block in message.content if block.type == "tool_use"]
    blocks = [
        {"type": "tool_result", "tool_use_id": call, "content": content}
        for call, content in zip(calls, contents, strict=True)
    ]
    return {"role": "user", "content": blocks}


@BOTH_WAYS
def test_a_conversation_with_a_tool(ask, upstream, stream):
    asked = ask([QUESTION], stream=stream, system=SYSTEM, tools=TOOLS)
    told = ask(
        [QUESTION, back(asked.message), results(asked.message, "18 degrees and sunny")],
        stream=stream,
        system=SYSTEM,
        tools=TOOLS,
    )

    assert (asked.text, asked.message.stop_reason) == ("Let me look that up.", "tool_use")
    assert asked.calls == [("get_weather", {"city": "Paris"})]
    assert asked.costs == {"input": 25, "cached": 0, "created": 0, "output": 11, "total": 36}
    assert (told.text, told.message.stop_reason) == ("The tools say: 18 degrees and sunny", "end_turn")
    usage = told.message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (33, 7, 7)
    assert told.costs == {"input": 40, "cached": 7, "created": 0, "output": 7, "total": 47}
    assert told.message.model == SPEAKER.model
    assert upstream.last.header("host") == SPEAKER.host
    assert "sk-of-the-client" not in str(upstream.last.headers)


@BOTH_WAYS
def test_two_calls_at_a_time(ask, stream):
    asked = ask([BOTH], stream=stream, tools=TOOLS)
    first, second = results(asked.message, "18 degrees", "25 degrees")["content"]
    # Some clients send each result in a message of its own.
    history = [BOTH, back(asked.message), {"role": "user", "content": [first]}, {"role": "user", "content": [second]}]
    told = ask(history, stream=stream, tools=TOOLS)

    assert asked.calls == [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})]
    assert told.text == "The tools say: 18 degrees; 25 degrees"


@BOTH_WAYS
def test_thoughts_come_back_with_their_signature_and_are_accepted(ask, stream):
    asked = ask([QUESTION], stream=stream, tools=TOOLS, **THINKING)
    told = ask(
        [QUESTION, back(asked.message), results(asked.message, "18 degrees")], stream=stream, tools=TOOLS, **THINKING
    )

    thought = asked.message.content[0]
    assert thought.thinking == "The user wants to know: What is the weather in Paris?"
    assert thought.signature
    assert told.text == "The tools say: 18 degrees"


@BOTH_WAYS
def test_a_document(ask, upstream, stream):
    source = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    document = {"type": "document", "title": "Report: Q1.pdf", "source": source}

    seen = ask([{"role": "user", "content": [document, {"type": "text", "text": "What is this?"}]}], stream=stream)

    assert seen.text == "You said: What is this?"
    sent = upstream.last.json()["messages"][0]["content"][0]["document"]
    assert sent == {"format": "pdf", "name": "Report Q1", "source": {"bytes": PDF}}


@BOTH_WAYS
def test_a_prompt_that_is_marked_for_the_cache(ask, stream):
    system = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]

    asked = ask([QUESTION], stream=stream, system=system, tools=TOOLS)

    usage = asked.message.usage
    assert (usage.input_tokens, usage.cache_creation_input_tokens) == (18, 7)
    assert asked.costs == {"input": 25, "cached": 0, "created": 7, "output": 11, "total": 36}


@BOTH_WAYS
def test_a_limit(ask, stream):
    cut = ask([QUESTION], stream=stream, max_tokens=3)

    assert (cut.text, cut.message.stop_reason) == ("You said: What", "max_tokens")


def test_events_come_as_they_are_made(client):
    with client.messages.stream(model="claude", max_tokens=100, messages=[QUESTION]) as events:
        names = [event.type for event in events]

    assert names[:2] == ["message_start", "content_block_start"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]


# --- errors ---


@BOTH_WAYS
@pytest.mark.parametrize(
    ("status", "kind"),
    {
        400: anthropic.BadRequestError,
        429: anthropic.RateLimitError,
        503: anthropic.InternalServerError,
    }.items(),
)
def test_an_error_of_the_service(ask, upstream, status, kind, stream):
    upstream.reply(error_of("AWSBedrock", status, 'not "now"'))

    with pytest.raises(kind) as caught:
        ask([QUESTION], stream=stream)

    assert caught.value.status_code == status
    assert caught.value.body["type"] == "error"
    assert caught.value.body["error"]["message"] == 'not "now"'
    assert caught.value.body["request_id"]


def test_what_converse_cannot_say_is_refused_by_name(client, upstream):
    image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}

    with pytest.raises(anthropic.UnprocessableEntityError, match="only base64 image sources") as caught:
        client.messages.create(model="claude", max_tokens=9, messages=[{"role": "user", "content": [image]}])

    assert caught.value.body["error"]["type"] == "invalid_request_error"
    assert upstream.requests == []


@pytest.mark.parametrize(
    ("ending", "failure"),
    [(ERRORS_IN_STREAMS["AWSBedrock"], "modelStreamErrorException"), (b"", "stream_truncated")],
    ids=["an exception", "an end without the end of the message"],
)
def test_a_stream_that_breaks_off_is_an_error(client, stack, upstream, ending, failure):
    """What came before it has been heard; what ends the message has not."""
    request_id = new_id()
    upstream.always(lambda received: framed(_answer(received), *([ending] if ending else []), upto=3))
    heard = []
    try:
        with (
            pytest.raises(anthropic.APIStatusError) as caught,
            client.messages.stream(
                model="claude", max_tokens=100, messages=[QUESTION], extra_headers={"x-request-id": request_id}
            ) as events,
        ):
            heard += [event.type for event in events]
    finally:
        upstream.always(standing_in)

    assert caught.value.body["error"]["type"] == "api_error"
    assert "message_stop" not in heard
    assert stack.access_log.wait_for(request_id)["costs"]["response_error"] == failure


def _answer(received):
    """What the provider would say."""
    known = replace(SPEAKER.provider, access_key_ids=frozenset(CALLERS))
    answer = known.answer(received.method, received.target, received.headers, received.body)
    assert isinstance(answer, Answer)
    return answer


def test_a_connection_that_breaks_is_no_good_answer(client, upstream):
    upstream.always(lambda received: framed(_answer(received), Abort(), upto=3))
    heard = []
    try:
        with (
            pytest.raises((anthropic.APIError, httpx2.HTTPError)),
            client.messages.stream(model="claude", max_tokens=100, messages=[QUESTION]) as events,
        ):
            heard += [event.type for event in events]
    finally:
        upstream.always(standing_in)

    assert "message_stop" not in heard


# --- counts ---


def test_claude_counts_what_it_would_be_sent(client, stack, upstream):
    request_id = new_id()
    count = client.messages.count_tokens(
        model="claude", messages=[QUESTION], tools=TOOLS, extra_headers={"x-request-id": request_id}
    )

    assert count.input_tokens == 17
    assert upstream.last.target.endswith("/count-tokens")
    assert upstream.last.header("authorization").startswith("AWS4-HMAC-SHA256 ")
    # What is only counted has not been spent (BR-70).
    assert (stack.access_log.wait_for(request_id)["costs"] or {}).get("input") is None


def test_other_models_count_what_converse_would_be_sent(client, upstream):
    assert client.messages.count_tokens(model="nova", system=SYSTEM, messages=[QUESTION]).input_tokens == 42
    assert upstream.last.target == "/model/amazon.nova-lite-v1:0/count-tokens"


def test_a_count_that_is_refused(client, upstream):
    upstream.reply(error_of("AWSBedrock", 400, "this model cannot count"))

    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.count_tokens(model="claude", messages=[QUESTION])

    assert caught.value.body["error"] == {"type": "invalid_request_error", "message": "this model cannot count"}
