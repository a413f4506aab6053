"""The responses API through Envoy: OpenAI's SDK on one side, services that speak it, or only another API, behind."""

from __future__ import annotations

import json
from types import SimpleNamespace

import openai
import pytest

from deploy.envoy import names
from tests.dataplane.harness.client import new_id
from tests.dataplane.harness.documents import cost, filter_config, route
from tests.dataplane.harness.providers import (
    BY_SCHEMA,
    ERRORS_IN_STREAMS,
    configured,
    error_of,
    framed,
    place,
    rule_of,
    serving,
)
from tests.dataplane.harness.replies import Reply, json_reply, stream_reply
from tests.unit.translate.responses.oracle import accepts_chat

COSTS = [
    cost("input", "InputToken"),
    cost("cached", "CachedInputToken"),
    cost("created", "CacheCreationInputToken"),
    cost("output", "OutputToken"),
    cost("reasoning", "ReasoningToken"),
    cost("total"),
]
NATIVE = {"native": "OpenAI", "native-azure": "AzureOpenAI"}
CHAT_ONLY = {"chat-only": "OpenAI", "chat-only-azure": "AzureOpenAI"}
CARRIED = {**CHAT_ONLY, "AWSBedrock": "AWSBedrock", "Anthropic": "Anthropic", "GCPVertexAI": "GCPVertexAI"}
SCHEMAS = {**NATIVE, **CARRIED}
"""Every backend by the name that clients use, and its schema."""

ON_NATIVE = pytest.mark.parametrize("name", NATIVE)
ON_CARRIED = pytest.mark.parametrize("name", CARRIED)
BOTH_WAYS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])

VERSION = "2025-04-01-preview"
PATHS = {"native": "/v1/responses", "native-azure": f"/openai/responses?api-version={VERSION}"}
COUNT_PATHS = {
    "native": "/v1/responses/input_tokens",
    "native-azure": f"/openai/responses/input_tokens?api-version={VERSION}",
}


@pytest.fixture(scope="module")
def upstreams(start_upstream):
    started = {name: start_upstream(name.lower()) for name in SCHEMAS}
    for name in CARRIED:
        started[name].always(serving(BY_SCHEMA[SCHEMAS[name]].provider))
    return started


@pytest.fixture(scope="module")
def stack(start_stack, upstreams):
    speakers = {name: BY_SCHEMA[schema] for name, schema in SCHEMAS.items()}
    where = route(*(rule_of(place(upstreams[name], speaker), model=name) for name, speaker in speakers.items()))
    backends = []
    for index, (name, speaker) in enumerate(speakers.items()):
        backend = configured(where.backend_name(index, 0), speaker)
        if name in CHAT_ONLY:
            backend["schema"]["chatOnly"] = True
        if name == "native-azure":
            backend["schema"]["version"] = VERSION
        backends.append(backend)
    config = filter_config(*backends, globalLLMRequestCosts=COSTS)
    return start_stack(routes=[where], config=config, cost_keys=[rule["metadataKey"] for rule in COSTS])


@pytest.fixture(scope="module")
def client(stack):
    with openai.OpenAI(base_url=f"{stack.base_url}/v1", api_key="sk-of-the-client", max_retries=0, timeout=30) as made:
        yield made


@pytest.fixture
def ask(client, stack):
    """``ask(name, input, stream=…, **fields)``: the response that the SDK gathered, and what Envoy metered."""

    def ask(name, given, *, stream, **fields):
        request_id = new_id()
        call = {"model": name, "input": given, "extra_headers": {"x-request-id": request_id}, **fields}
        events = []
        if stream:
            with client.responses.stream(**call) as following:
                events = list(following)
            response = events[-1].response
        else:
            response = client.responses.create(**call)
        costs = {key: value or 0 for key, value in stack.access_log.wait_for(request_id)["costs"].items()}
        return SimpleNamespace(response=response, events=events, costs=costs)

    return ask


# --- backends that speak it ---

USAGE = {
    "input_tokens": 36,
    "input_tokens_details": {"cached_tokens": 12, "cache_write_tokens": 8},
    "output_tokens": 87,
    "output_tokens_details": {"reasoning_tokens": 64},
    "total_tokens": 123,
}
METERED = {"input": 36, "cached": 12, "created": 8, "output": 87, "reasoning": 64, "total": 123}
MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hi 🚀", "annotations": []}],
}
ANSWER = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1_700_000_000,
    "status": "completed",
    "model": "real",
    "output": [
        {"type": "brand_new_call", "id": "bn_1", "x": {"y": 1.0}},
        MESSAGE,
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": USAGE,
}
UNKNOWN = {
    "input": [
        {"type": "brand_new", "x": 1.0},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "t"}]},
        {"role": "user", "content": "go on"},
    ],
    "tools": [{"type": "brand_new_tool", "limit": 1}, {"type": "custom", "name": "c"}],
    "tool_choice": {"type": "web_search"},
    "previous_response_id": "resp_0",
}


def events_of(*events):
    return stream_reply(*(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events), piece=37)


CREATED = {
    "type": "response.created",
    "sequence_number": 0,
    "response": {**ANSWER, "status": "in_progress", "output": []},
}
ADDED = {
    "type": "response.output_item.added",
    "sequence_number": 1,
    "output_index": 0,
    "item": {"type": "message", "id": "msg_1", "status": "in_progress", "role": "assistant", "content": []},
}
NEWS = {"type": "response.brand_new.delta", "sequence_number": 2, "delta": "x"}
COMPLETED = {"type": "response.completed", "sequence_number": 3, "response": ANSWER}


@ON_NATIVE
def test_items_and_tools_that_nobody_knows_pass(client, stack, upstreams, name):
    upstreams[name].reply(json_reply(ANSWER))
    request_id = new_id()

    raw = client.responses.with_raw_response.create(
        model=name, **UNKNOWN, extra_query={"x": "1", "api-version": "mine"}, extra_headers={"x-request-id": request_id}
    )

    assert json.loads(raw.content) == ANSWER
    assert raw.parse().output_text == "Hi 🚀"
    received = upstreams[name].last
    assert received.json() == {"model": BY_SCHEMA[NATIVE[name]].model, **UNKNOWN}
    expected = PATHS[name] + ("&x=1" if "?" in PATHS[name] else "?x=1&api-version=mine")
    assert received.target == expected
    assert stack.access_log.wait_for(request_id)["costs"] == METERED


@ON_NATIVE
def test_a_stream_passes_byte_by_byte(client, stack, upstreams, name):
    reply = events_of(CREATED, ADDED, NEWS, COMPLETED)
    upstreams[name].reply(reply)
    request_id = new_id()

    with client.responses.with_streaming_response.create(
        model=name, input="hi", stream=True, extra_headers={"x-request-id": request_id}
    ) as raw:
        received = raw.read()

    assert received == reply.body
    assert stack.access_log.wait_for(request_id)["costs"] == METERED
    assert upstreams[name].last.json() == {"model": BY_SCHEMA[NATIVE[name]].model, "input": "hi", "stream": True}


@ON_NATIVE
def test_the_sdk_follows_a_stream(ask, upstreams, name):
    upstreams[name].reply(events_of(CREATED, ADDED, NEWS, {**COMPLETED, "response": {**ANSWER, "output": [MESSAGE]}}))

    heard = ask(name, "hi", stream=True)

    assert [event.type for event in heard.events] == [
        "response.created",
        "response.output_item.added",
        "response.brand_new.delta",
        "response.completed",
    ]
    assert (heard.response.output_text, heard.costs) == ("Hi 🚀", METERED)


ENDS = {
    "incomplete": {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
    "failed": {"status": "failed", "error": {"code": "server_error", "message": "m"}},
}


@pytest.mark.parametrize("end", ENDS)
def test_the_usage_of_an_answer_that_is_not_whole_is_charged(ask, upstreams, end):
    upstreams["native"].reply(
        events_of(CREATED, {"type": f"response.{end}", "sequence_number": 1, "response": {**ANSWER, **ENDS[end]}})
    )

    heard = ask("native", "hi", stream=True)

    assert (heard.response.status, heard.costs) == (end, METERED)


def test_an_answer_in_the_background_costs_nothing_yet(ask, upstreams):
    upstreams["native"].reply(json_reply({**ANSWER, "status": "queued", "output": [], "usage": None}))

    heard = ask("native", "hi", stream=False, background=True)

    assert (heard.response.status, set(heard.costs.values())) == ("queued", {0})


@ON_NATIVE
@BOTH_WAYS
def test_errors_of_a_native_backend_pass(client, upstreams, name, stream):
    upstreams[name].reply(error_of(NATIVE[name], 429, 'slow "down"'))

    with pytest.raises(openai.RateLimitError, match="slow"):
        client.responses.create(model=name, input="hi", stream=stream)


def test_a_page_of_a_proxy_becomes_an_error_with_a_message(client, upstreams):
    upstreams["native"].reply(Reply(status=502, headers=(("content-type", "text/html"),), pieces=(b"<h1>Bad</h1>",)))

    with pytest.raises(openai.InternalServerError) as caught:
        client.responses.create(model="native", input="hi")

    assert (caught.value.type, caught.value.code) == ("OpenAIBackendError", "502")


# --- counting tokens ---


@ON_NATIVE
def test_tokens_are_counted(client, stack, upstreams, name):
    upstreams[name].reply(json_reply({"object": "response.input_tokens", "input_tokens": 31}))
    request_id = new_id()

    counted = client.responses.input_tokens.count(
        model=name, input=UNKNOWN["input"], extra_headers={"x-request-id": request_id}
    )

    assert counted.input_tokens == 31
    received = upstreams[name].last
    assert received.target == COUNT_PATHS[name]
    assert received.json() == {"model": BY_SCHEMA[NATIVE[name]].model, "input": UNKNOWN["input"]}
    # What is counted has not been spent.
    assert set(stack.access_log.wait_for(request_id)["costs"].values()) == {None}


@ON_NATIVE
def test_errors_of_counting_pass(client, upstreams, name):
    upstreams[name].reply(error_of(NATIVE[name], 400, "no such thing"))

    with pytest.raises(openai.BadRequestError, match="no such thing"):
        client.responses.input_tokens.count(model=name, input="hi")


@ON_CARRIED
def test_where_nobody_counts_tokens_it_is_said(client, upstreams, name):
    with pytest.raises(openai.APIStatusError) as caught:
        client.responses.input_tokens.count(model=name, input="hi")

    assert (caught.value.status_code, caught.value.type) == (501, "NotImplemented")
    assert upstreams[name].requests == []


# --- backends that are reached through chat completions ---

QUESTION = "What is the weather in Paris?"
BOTH = "What about both Paris and Rome?"
TOOLS = [
    {
        "type": "function",
        "name": "get_weather",
        "description": "The weather in a city, now.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": True,
    }
]


def calls(response):
    return [(item.name, json.loads(item.arguments)) for item in response.output if item.type == "function_call"]


def history(response):
    return [item.to_dict(mode="json") for item in response.output]


def results(response, *texts):
    ids = [item.call_id for item in response.output if item.type == "function_call"]
    return [
        {"type": "function_call_output", "call_id": call_id, "output": text}
        for call_id, text in zip(ids, texts, strict=True)
    ]


def check_usage(heard):
    """What the client was told, and what Envoy was."""
    usage = heard.response.usage
    assert heard.costs["input"] == usage.input_tokens > 0
    assert heard.costs["output"] == usage.output_tokens > 0
    assert heard.costs["total"] == usage.total_tokens == usage.input_tokens + usage.output_tokens
    assert heard.costs["cached"] == usage.input_tokens_details.cached_tokens
    assert heard.costs["reasoning"] == usage.output_tokens_details.reasoning_tokens


@ON_CARRIED
@BOTH_WAYS
def test_a_text(ask, upstreams, name, stream):
    heard = ask(name, QUESTION, stream=stream, instructions="Be brief.", metadata={"a": "b"}, user="u")

    assert heard.response.output_text == f"You said: {QUESTION}"
    assert (heard.response.status, heard.response.store) == ("completed", False)
    assert (heard.response.instructions, heard.response.metadata) == ("Be brief.", {"a": "b"})
    assert heard.costs["input"] == 8
    check_usage(heard)
    if name in CHAT_ONLY:
        received = upstreams[name].last
        accepts_chat(received.target, received.body)


@ON_CARRIED
@BOTH_WAYS
def test_a_conversation_with_two_calls_at_a_time(ask, name, stream):
    question = {"role": "user", "content": [{"type": "input_text", "text": BOTH}]}
    asked = ask(name, [question], stream=stream, tools=TOOLS)
    answered = [*history(asked.response), *results(asked.response, "18 degrees", "25 degrees")]
    told = ask(name, [question, *answered], stream=stream, tools=TOOLS)

    assert asked.response.output_text == "Let me look that up."
    assert calls(asked.response) == [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})]
    assert asked.response.tools[0].name == "get_weather"
    check_usage(asked)
    assert told.response.output_text == "The tools say: 18 degrees; 25 degrees"
    check_usage(told)


@ON_CARRIED
def test_the_events_of_a_stream(ask, name):
    heard = ask(name, BOTH, stream=True, tools=TOOLS)

    kinds = [event.type.removeprefix("response.") for event in heard.events]
    assert kinds[:4] == ["created", "in_progress", "output_item.added", "content_part.added"]
    assert kinds[-1] == "completed"
    assert [event.sequence_number for event in heard.events] == list(range(len(heard.events)))
    texts = [event.delta for event in heard.events if event.type == "response.output_text.delta"]
    assert "".join(texts) == "Let me look that up."
    assert len(texts) > 1


THINKING = {"extra_body": {"thinking": {"type": "enabled", "budget_tokens": 1024}}, "max_output_tokens": 4096}


@pytest.mark.parametrize("name", ["AWSBedrock", "Anthropic"])
@BOTH_WAYS
def test_thoughts_come_back_with_their_signature_and_are_accepted(ask, name, stream):
    """The providers check the signature of what they are given back, and insist on the thought before a call."""
    asked = ask(name, QUESTION, stream=stream, tools=TOOLS, **THINKING)
    question = {"role": "user", "content": QUESTION}
    answered = [question, *history(asked.response), *results(asked.response, "18 degrees")]
    told = ask(name, answered, stream=stream, tools=TOOLS, **THINKING)

    assert [item.type for item in asked.response.output] == ["reasoning", "message", "function_call"]
    assert asked.response.output[0].content[0].text == f"The user wants to know: {QUESTION}"
    assert told.response.output_text == "The tools say: 18 degrees"


@ON_CARRIED
@BOTH_WAYS
def test_a_limit(ask, name, stream):
    heard = ask(name, QUESTION, stream=stream, max_output_tokens=3)

    assert (heard.response.status, heard.response.output_text) == ("incomplete", "You said: What")
    assert heard.response.incomplete_details.reason == "max_output_tokens"
    assert heard.costs["output"] == 3


ERRORS = {400: openai.BadRequestError, 429: openai.RateLimitError, 503: openai.InternalServerError}


@ON_CARRIED
@BOTH_WAYS
@pytest.mark.parametrize("status", ERRORS)
def test_errors_of_a_backend(client, upstreams, name, stream, status):
    upstreams[name].reply(error_of(CARRIED[name], status, 'the backend says "no"'))

    with pytest.raises(ERRORS[status], match='the backend says "no"') as caught:
        client.responses.create(model=name, input=QUESTION, stream=stream)

    assert caught.value.status_code == status
    assert caught.value.type


@ON_CARRIED
def test_an_error_in_the_middle_of_a_stream(ask, upstreams, name):
    schema = CARRIED[name]

    def breaking(received):
        provider = BY_SCHEMA[schema].provider
        answer = provider.answer(received.method, received.target, received.headers, received.body)
        return framed(answer, ERRORS_IN_STREAMS[schema], upto=4)

    upstreams[name].always(breaking)
    try:
        heard = ask(name, QUESTION, stream=True)
    finally:
        upstreams[name].always(serving(BY_SCHEMA[schema].provider))

    assert (heard.events[-1].type, heard.response.status) == ("response.failed", "failed")
    assert heard.response.error.message == "the model is busy"


REFUSALS = {
    "an earlier response": {"previous_response_id": "resp_1"},
    "a tool of the provider": {"tools": [{"type": "web_search"}]},
    "a reference": {"input": [{"type": "item_reference", "id": "msg_1"}]},
}


@ON_CARRIED
@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_said_is_refused_before_anyone_is_asked(client, upstreams, name, case):
    with pytest.raises(
        openai.UnprocessableEntityError, match="not supported by backends that are reached through chat"
    ):
        client.responses.create(**{"model": name, "input": QUESTION, **REFUSALS[case]})

    assert upstreams[name].requests == []


def test_a_model_that_nobody_has(client):
    with pytest.raises(openai.NotFoundError) as caught:
        client.responses.create(model="nobody-has-it", input="hi")
    assert caught.value.body == names.NOT_FOUND_BODY
