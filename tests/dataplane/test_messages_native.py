"""Anthropic's API where it is spoken: the official SDK on one side of Envoy, the strict places on the other.

Both kinds of client run the same conversations: ``ask`` hides which of them waits.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time

import anthropic
import httpx
import pytest

from deploy.demo.providers.eventstream import CONTENT_TYPE, event_frame, exception_frame
from deploy.envoy.model import Rule
from tests.dataplane.harness.client import new_id
from tests.dataplane.harness.documents import cost, filter_config, route
from tests.dataplane.harness.providers import (
    BY_SCHEMA,
    CALLERS,
    ERROR_OF_CLAUDE,
    ERRORS_IN_STREAMS,
    configured,
    error_of,
    place,
    rule_of,
    serving,
)
from tests.dataplane.harness.replies import Reply, body_reply, json_reply, stream_reply
from tests.support.sigv4_verifier import verify
from tests.unit.translate.messages.native.attempts import frames
from tests.unit.translate.messages.native.oracle import accepts

SCHEMAS = ("Anthropic", "GCPAnthropic", "AWSAnthropic")
EVERYWHERE = pytest.mark.parametrize("schema", SCHEMAS)
BOTH_WAYS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
MUTATED = "mutated"
VERSION = "2023-06-01"
"""Which the first party gets of a client that sends none."""
VERSION_OF_THE_SDK = anthropic.Anthropic(api_key="x").default_headers["anthropic-version"]
SYSTEM = "You are a weather service. Be brief."
QUESTION = {"role": "user", "content": "What is the weather in Paris?"}
TOOLS = [
    {
        "name": "get_weather",
        "description": "The weather in a city, now.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
]
COSTS = [
    cost("input", "InputToken"),
    cost("cached", "CachedInputToken"),
    cost("created", "CacheCreationInputToken"),
    cost("output", "OutputToken"),
    cost("reasoning", "ReasoningToken"),
    cost("total"),
]


@pytest.fixture(scope="module")
def upstreams(start_upstream):
    started = {}
    for schema in SCHEMAS:
        started[schema] = start_upstream(schema.lower())
        started[schema].always(serving(BY_SCHEMA[schema].provider))
    return started


@pytest.fixture(scope="module")
def stack(start_stack, upstreams):
    rules = [rule_of(place(upstreams[schema], BY_SCHEMA[schema]), model=schema) for schema in SCHEMAS]
    rules.append(Rule(models=(MUTATED,), backends=(place(upstreams["Anthropic"], BY_SCHEMA["Anthropic"]),)))
    where = route(*rules)
    backends = [configured(where.backend_name(at, 0), BY_SCHEMA[schema]) for at, schema in enumerate(SCHEMAS)]
    mutation = {"set": [{"path": "max_tokens", "value": "200"}, {"path": "temperature", "value": "0.7"}]}
    mutated = configured(where.backend_name(len(SCHEMAS), 0), BY_SCHEMA["Anthropic"], model="")
    config = filter_config(*backends, {**mutated, "httpBodyMutation": mutation}, globalLLMRequestCosts=COSTS)
    return start_stack(routes=[where], config=config, cost_keys=[rule["metadataKey"] for rule in COSTS])


class Asking:
    """One client of the SDK."""

    def __init__(self, client, runner, stack):
        self.client = client
        self._runner = runner
        self._stack = stack

    def ask(self, answer):
        return self._runner.run(_wait(answer)) if inspect.isawaitable(answer) else answer

    def message(self, schema, messages, *, stream, **fields):
        """The message as the SDK has read or gathered it, and what Envoy metered for it."""
        request_id = new_id()
        call = {"model": schema, "messages": messages, "max_tokens": 4096, **fields}
        call["extra_headers"] = {"x-request-id": request_id, **fields.get("extra_headers", {})}
        if not stream:
            message = self.ask(self.client.messages.create(**call))
        elif isinstance(self.client, anthropic.Anthropic):
            with self.client.messages.stream(**call) as events:
                message = events.get_final_message()
        else:
            message = self._runner.run(self._gather(call))
        costs = self._stack.access_log.wait_for(request_id)["costs"]
        return message, {name: count or 0 for name, count in costs.items()}

    async def _gather(self, call):
        async with self.client.messages.stream(**call) as events:
            return await events.get_final_message()

    def events(self, **call):
        """Events until the stream is over; the exception that it ended with, or ``None``."""
        return self._runner.run(_collect(self.client, call))


async def _wait(answer):
    return await answer


async def _collect(client, call):
    told = []
    try:
        if isinstance(client, anthropic.Anthropic):
            told.extend(client.messages.create(**call, stream=True))
        else:
            async for event in await client.messages.create(**call, stream=True):
                told.append(event)  # noqa: PERF401 - what came before an error is kept
    except anthropic.APIError as error:
        return told, error
    return told, None


@pytest.fixture(scope="module", params=["sync", "async"])
def sdk(request, stack):
    options = {
        "base_url": f"{stack.base_url}/anthropic",
        "api_key": "sk-of-the-client",
        "max_retries": 0,
        "timeout": 30,
    }
    with asyncio.Runner() as runner:
        if request.param == "sync":
            with anthropic.Anthropic(**options) as client:
                yield Asking(client, runner, stack)
        else:
            client = anthropic.AsyncAnthropic(**options)
            yield Asking(client, runner, stack)
            runner.run(client.close())


@pytest.fixture(scope="module")
def http(stack):
    with httpx.Client(base_url=stack.base_url, timeout=30, trust_env=False, verify=False) as client:
        yield client


def post(http, body, path="/anthropic/v1/messages", **headers):
    told = body if isinstance(body, bytes) else json.dumps(body).encode()
    return http.post(path, content=told, headers={"content-type": "application/json", **headers})


def assistant(message):
    return {"role": "assistant", "content": [block.to_dict() for block in message.content]}


def result(message, content="18 degrees and sunny"):
    (call,) = [block for block in message.content if block.type == "tool_use"]
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": content}]}


def check_tokens(message, costs, *, prompt, cached, output, created=0, reasoning=0):
    """What the client was told, which counts the cache beside the input, and what Envoy was: the sum is right."""
    usage = message.usage
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    assert (usage.input_tokens + read + written, read, written) == (prompt, cached, created)
    assert usage.output_tokens == output
    told = {"input": prompt, "cached": cached, "created": created, "output": output, "total": prompt + output}
    assert costs == {**told, "reasoning": reasoning}


# --- conversations ---


@EVERYWHERE
@BOTH_WAYS
def test_a_conversation_with_a_tool(sdk, upstreams, schema, stream):
    asked, costs = sdk.message(schema, [QUESTION], stream=stream, system=SYSTEM, tools=TOOLS)
    history = [QUESTION, assistant(asked), result(asked)]
    told, more = sdk.message(schema, history, stream=stream, system=SYSTEM, tools=TOOLS)

    text, call = asked.content
    assert (text.text, call.name, call.input) == ("Let me look that up.", "get_weather", {"city": "Paris"})
    assert asked.stop_reason == "tool_use"
    check_tokens(asked, costs, prompt=25, cached=0, output=11)
    assert told.content[0].text == "The tools say: 18 degrees and sunny"
    assert told.stop_reason == "end_turn"
    check_tokens(told, more, prompt=40, cached=7, output=7)
    for received in upstreams[schema].requests:
        accepts(received.target.partition("/locations/us-east5/")[2] or received.target, received.body)


@EVERYWHERE
@BOTH_WAYS
def test_thoughts_and_a_prompt_that_is_cached(sdk, schema, stream):
    """Signatures are checked by the provider; reading and writing the cache have prices of their own."""
    system = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]
    fields = {"system": system, "tools": TOOLS, "thinking": {"type": "enabled", "budget_tokens": 1024}}

    asked, costs = sdk.message(schema, [QUESTION], stream=stream, **fields)
    told, _ = sdk.message(schema, [QUESTION, assistant(asked), result(asked)], stream=stream, **fields)

    assert asked.content[0].thinking == "The user wants to know: What is the weather in Paris?"
    check_tokens(asked, costs, prompt=25, cached=0, created=7, output=22, reasoning=11)
    assert told.stop_reason == "end_turn"


@EVERYWHERE
def test_where_a_request_goes_and_with_what(sdk, upstreams, schema):
    sdk.message(schema, [QUESTION], stream=False, extra_headers={"x-ai-eg-upstream-host": "evil.example"})

    received = upstreams[schema].last
    speaker = BY_SCHEMA[schema]
    assert received.header("host") == speaker.host
    assert received.header("anthropic-version") == VERSION_OF_THE_SDK
    assert "sk-of-the-client" not in str(received.headers)
    assert "evil.example" not in str(received.headers)
    match schema:
        case "Anthropic":
            assert received.target == "/v1/messages"
            assert received.header("x-api-key") == speaker.auth["anthropicAPIKey"]["key"]
            assert received.json()["model"] == speaker.model
        case "GCPAnthropic":
            models = "/v1/projects/demo-project/locations/us-east5/publishers/anthropic/models/"
            assert received.target == f"{models}{speaker.model}:rawPredict"
            assert received.header("authorization") == f"Bearer {speaker.auth['gcp']['accessToken']}"
            assert received.json()["anthropic_version"] == "vertex-2023-10-16"
        case _:
            assert received.target == f"/model/{speaker.model.replace('/', '%2F')}/invoke"
            assert received.json()["anthropic_version"] == "bedrock-2023-05-31"
            assert received.header("x-api-key") is None
    assert schema == "Anthropic" or "model" not in received.json()


@EVERYWHERE
def test_beta_features_of_the_sdk(sdk, upstreams, schema):
    """A query and the flags go where they are understood."""
    flags = ["context-1m-2025-08-07", "files-api-2025-04-14"]
    call = {"model": schema, "max_tokens": 9, "messages": [QUESTION]}
    answer = sdk.ask(sdk.client.beta.messages.create(**call, betas=flags, extra_query={"beta": "true"}))

    received = upstreams[schema].last
    assert answer.content[0].text.startswith("You said: What")
    assert ("?beta=true" in received.target) == (schema == "Anthropic")
    assert received.header("anthropic-beta") == (None if schema == "AWSAnthropic" else ",".join(flags))
    assert received.json().get("anthropic_beta") == (flags[:1] if schema == "AWSAnthropic" else None)


# --- counting ---

COUNTED = {
    "Anthropic": ({"input_tokens": 42}, "/v1/messages/count_tokens"),
    "GCPAnthropic": (
        {"input_tokens": 42},
        "/v1/projects/demo-project/locations/us-east5/publishers/anthropic/models/count-tokens:rawPredict",
    ),
    "AWSAnthropic": (
        {"inputTokens": 42},
        "/model/anthropic.claude-sonnet-4-5-20250929-v1:0/count-tokens",
    ),
}


@EVERYWHERE
@pytest.mark.parametrize("encoding", [None, "gzip"])
def test_counting(sdk, stack, upstreams, schema, encoding):
    answer, path = COUNTED[schema]
    upstreams[schema].reply(json_reply(answer, encoding=encoding))
    request_id = new_id()

    counted = sdk.ask(
        sdk.client.messages.count_tokens(
            model=schema, messages=[QUESTION], system=SYSTEM, tools=TOOLS, extra_headers={"x-request-id": request_id}
        )
    )

    received = upstreams[schema].last
    assert counted.input_tokens == 42
    assert received.target == path
    accepts(received.target.partition("/locations/us-east5/")[2] or received.target, received.body)
    if schema == "AWSAnthropic":
        headers = received.headers
        verify(method="POST", path=path, headers=headers, body=received.body, secrets=CALLERS, now=time.time())
    # BR-70: counting is free.
    assert set(stack.access_log.wait_for(request_id)["costs"].values()) == {None}


@EVERYWHERE
def test_counting_that_is_refused(sdk, upstreams, schema):
    """BR-70: whoever refuses, the client can read it."""
    upstreams[schema].reply(error_of(schema, 400, "this model cannot count"))
    with pytest.raises(anthropic.BadRequestError, match="this model cannot count") as caught:
        sdk.ask(sdk.client.messages.count_tokens(model=schema, messages=[QUESTION]))
    assert caught.value.body["error"]["type"] == "invalid_request_error"


# --- the peer's own cases (contract, data-plane cases 18) ---

HELLO = b'{\n  "model": "%b",\n  "max_tokens": 100,\n  "messages": [ { "role": "user", "content": "say hi" } ]%b\n}'
ANSWER = '{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"Hi 👋"}],"model":"m"}'
EVENTS = [
    {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 10, "output_tokens": 1}}},
    {"type": "ping"},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi ü"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 15}},
    {"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 10, "outputTokenCount": 15}},
]
SSE = b"".join(f"event: {each['type']}\ndata: {json.dumps(each, ensure_ascii=False)}\n\n".encode() for each in EVENTS)
FRAMES = Reply(headers=(("content-type", CONTENT_TYPE),), pieces=(frames(EVENTS),), framing="chunked")


def costs_of(stack, request_id):
    return {name: count for name, count in stack.access_log.wait_for(request_id)["costs"].items() if count}


@EVERYWHERE
def test_an_answer_reaches_the_client_as_it_is(http, upstreams, schema):
    upstreams[schema].reply(body_reply(ANSWER.encode()))

    answer = post(http, HELLO % (schema.encode(), b""))

    assert answer.text == ANSWER
    if schema == "Anthropic":
        assert upstreams[schema].last.body == HELLO % (BY_SCHEMA[schema].model.encode(), b"")


WAYS = [{}, {"piece": 1}, {"piece": 100}, *({"encoding": each, "piece": 7} for each in ("gzip", "br", "zstd"))]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("schema", ["Anthropic", "GCPAnthropic"])
def test_a_stream_reaches_the_client_as_it_is(http, stack, upstreams, schema, way):
    """BR-01, BR-14: however it is cut and encoded, it is read all the same."""
    request_id = new_id()
    upstreams[schema].reply(stream_reply(SSE, **way))

    body = HELLO % (schema.encode(), b',"stream":true')
    answer = post(http, body, **{"x-request-id": request_id, "accept-encoding": "gzip, br, zstd"})

    assert answer.content == SSE
    assert costs_of(stack, request_id) == {"input": 10, "output": 15, "total": 25}


@pytest.mark.parametrize("piece", [None, 1, 100])
def test_frames_reach_the_client_as_events(http, stack, upstreams, piece):
    request_id, size = new_id(), piece or len(FRAMES.body)
    pieces = tuple(FRAMES.body[at : at + size] for at in range(0, len(FRAMES.body), size))
    upstreams["AWSAnthropic"].reply(Reply(headers=FRAMES.headers, pieces=pieces, framing="chunked"))

    answer = post(http, HELLO % (b"AWSAnthropic", b',"stream":true'), **{"x-request-id": request_id})

    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.content == SSE
    assert costs_of(stack, request_id) == {"input": 10, "output": 15, "total": 25}


def test_a_body_mutation_of_the_backend(sdk, upstreams):
    # Only the first version of the API has what is set here.
    sdk.message(MUTATED, [QUESTION], stream=False, max_tokens=50, extra_headers={"anthropic-version": VERSION})

    assert upstreams["Anthropic"].last.json() == {
        "model": MUTATED,
        "max_tokens": 200,
        "messages": [QUESTION],
        "temperature": 0.7,
    }


@EVERYWHERE
@pytest.mark.parametrize("version", [None, "2099-01-01"])
def test_the_version_of_the_client_goes_along(http, upstreams, schema, version):
    """Where it sends none, the first party gets the one that it demands."""
    upstreams[schema].reply(body_reply(ANSWER.encode()))
    post(http, HELLO % (schema.encode(), b""), **({} if version is None else {"anthropic-version": version}))
    expected = version or (VERSION if schema == "Anthropic" else None)
    assert upstreams[schema].last.header("anthropic-version") == expected


def test_two_headers_of_flags(http, upstreams):
    """BR-68: what stands in the second counts as well."""
    request = json.dumps({"model": "AWSAnthropic", "max_tokens": 9, "messages": [QUESTION]}).encode()
    flags = ["context-1m-2025-08-07, x", "interleaved-thinking-2025-05-14"]
    headers = [("content-type", "application/json"), *(("anthropic-beta", each) for each in flags)]

    assert http.post("/anthropic/v1/messages", content=request, headers=headers).status_code == 200

    assert upstreams["AWSAnthropic"].last.json()["anthropic_beta"] == [
        "context-1m-2025-08-07",
        "interleaved-thinking-2025-05-14",
    ]


# --- errors ---

RAISED = {
    400: anthropic.BadRequestError,
    401: anthropic.AuthenticationError,
    403: anthropic.PermissionDeniedError,
    404: anthropic.NotFoundError,
    413: anthropic.RequestTooLargeError,
    429: anthropic.RateLimitError,
    500: anthropic.InternalServerError,
    529: anthropic.OverloadedError,
}


@EVERYWHERE
@BOTH_WAYS
@pytest.mark.parametrize("status", RAISED)
def test_an_error_of_the_place(sdk, upstreams, schema, stream, status):
    upstreams[schema].reply(error_of(schema, status, 'it said "no"\n'))

    with pytest.raises(RAISED[status]) as raised:
        sdk.ask(sdk.client.messages.create(model=schema, max_tokens=9, messages=[QUESTION], stream=stream))

    assert raised.value.status_code == status
    assert raised.value.body["error"]["message"] == 'it said "no"\n'
    assert raised.value.response.headers["content-type"] == "application/json"


@EVERYWHERE
def test_an_error_of_a_proxy(sdk, upstreams, schema):
    upstreams[schema].reply(body_reply(b"<html>busy</html>", status=503, content_type="text/html"))

    with pytest.raises(anthropic.InternalServerError) as raised:
        sdk.ask(sdk.client.messages.create(model=schema, max_tokens=9, messages=[QUESTION], stream=True))

    assert raised.value.body == {"type": "error", "error": {"type": "api_error", "message": "<html>busy</html>"}}


@EVERYWHERE
def test_an_error_within_a_stream_is_raised(sdk, stack, upstreams, schema):
    """BR-13, BR-53: what came before it was read, and is paid for."""
    request_id = new_id()
    begin = EVENTS[:4]
    if schema == "AWSAnthropic":
        upstreams[schema].reply(Reply(headers=FRAMES.headers, pieces=(frames(begin), BROKEN), framing="chunked"))
    else:
        told = SSE[: SSE.index(b"event: content_block_stop")]
        upstreams[schema].reply(stream_reply(told, ERRORS_IN_STREAMS[schema]))

    events, error = sdk.events(
        model=schema, max_tokens=9, messages=[QUESTION], extra_headers={"x-request-id": request_id}
    )

    assert [event.type for event in events] == ["message_start", "content_block_start", "content_block_delta"]
    assert "the model is busy" in str(error)
    assert costs_of(stack, request_id) == {"input": 10, "output": 1, "total": 11}


BROKEN = exception_frame("modelStreamErrorException", "the model is busy")
ENDS = {
    "an exception": (BROKEN, "the model is busy"),
    "an error of the model": (ERROR_OF_CLAUDE, "the model is busy"),
    "nothing": (b"", "ended before its message did"),
    "half a frame": (FRAMES.body[:50], "ended before its message did"),
    "a broken frame": (event_frame("chunk", {})[:-1] + b"?", "checksum"),
}


@pytest.mark.parametrize(("end", "message"), ENDS.values(), ids=ENDS)
def test_a_stream_of_amazons_that_breaks_off_is_never_a_whole_message(sdk, upstreams, end, message):
    pieces = (frames(EVENTS[:4]), end) if end else (frames(EVENTS[:4]),)
    upstreams["AWSAnthropic"].reply(Reply(headers=FRAMES.headers, pieces=pieces, framing="chunked"))

    events, error = sdk.events(model="AWSAnthropic", max_tokens=9, messages=[QUESTION])

    assert message in str(error)
    assert "message_stop" not in [event.type for event in events]


def test_errors_of_ours_are_in_the_clients_language(sdk, upstreams):
    with pytest.raises(anthropic.BadRequestError) as raised:
        sdk.ask(sdk.client.messages.create(model="", max_tokens=9, messages=[QUESTION]))

    message = "invalid request body: model field is required"
    assert raised.value.body == {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    assert all(upstream.requests == [] for upstream in upstreams.values())


@EVERYWHERE
def test_what_the_place_refuses_itself(sdk, schema):
    with pytest.raises(anthropic.BadRequestError) as raised:
        sdk.message(schema, [QUESTION], stream=False, max_tokens=0)

    assert raised.value.body["error"]["type"] == "invalid_request_error"
    assert "max_tokens" in raised.value.body["error"]["message"]
