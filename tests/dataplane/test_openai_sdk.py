"""The official OpenAI SDK, sync and async, through Envoy: what it sends is understood, what it gets it can read.

Both kinds of client run the same tests: ``ask`` hides which of them waits.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import struct

import openai
import pytest

from deploy.envoy import names
from tests.dataplane.harness.documents import backend, cost, filter_config, route, rule
from tests.dataplane.harness.replies import Reply, chat_chunks, chat_completion, event, json_reply, stream_reply, usage

MESSAGES = [{"role": "user", "content": "Hello? 👩‍🚀"}]
MODELS = [
    {"name": "small", "ownedBy": "us", "createdAt": "2024-05-01T00:00:00Z"},
    {"name": "large", "ownedBy": "them", "createdAt": "2024-05-02T00:00:00Z"},
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "strict": True,
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]


@pytest.fixture(scope="module")
def upstream(start_upstream):
    return start_upstream("openai")


@pytest.fixture(scope="module")
def stack(start_stack, upstream):
    where = route(rule(upstream, models=["small"]))
    own_key = {"apiKey": {"key": "sk-unused"}, "credentialOverride": {"headerName": "x-own-key"}}
    other = route(rule(upstream, models=["own-key"]), name="own-key")
    return start_stack(
        routes=[where, other],
        config=filter_config(
            backend(where.backend_name(0, 0), model="real", key="sk-of-the-backend"),
            backend(other.backend_name(0, 0), auth=own_key),
            models=MODELS,
            globalLLMRequestCosts=[cost("tokens")],
        ),
        cost_keys=["tokens"],
    )


class Asking:
    """One client of the SDK. ``ask`` runs a call to its end; ``events`` gives the events of a stream."""

    def __init__(self, client, runner):
        self.client = client
        self._runner = runner

    def ask(self, answer):
        return self._runner.run(_wait(answer)) if inspect.isawaitable(answer) else answer

    def events(self, stream):
        opened = self.ask(stream)
        if isinstance(opened, openai.Stream):
            return list(opened)
        return self._runner.run(_collect(opened))


async def _wait(answer):
    return await answer


async def _collect(stream):
    return [event async for event in stream]


@pytest.fixture(scope="module", params=["sync", "async"])
def sdk(request, stack):
    options = {"base_url": f"{stack.base_url}/v1", "api_key": "sk-of-the-client", "max_retries": 0, "timeout": 30}
    with asyncio.Runner() as runner:
        if request.param == "sync":
            with openai.OpenAI(**options) as client:
                yield Asking(client, runner)
        else:
            client = openai.AsyncOpenAI(**options)
            yield Asking(client, runner)
            runner.run(client.close())


def test_chat(sdk, upstream):
    upstream.reply(json_reply(chat_completion("real", text="Hi! 🚀", prompt=11, completion=7)))

    answer = sdk.ask(sdk.client.chat.completions.create(model="small", messages=MESSAGES, temperature=0.5, seed=7))

    assert answer.choices[0].message.content == "Hi! 🚀"
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (11, 18)
    assert upstream.last.json() == {"model": "real", "messages": MESSAGES, "temperature": 0.5, "seed": 7}
    assert upstream.last.header("authorization") == "Bearer sk-of-the-backend"


@pytest.mark.parametrize("encoding", [None, "gzip"])
def test_chat_as_a_stream(sdk, upstream, encoding):
    upstream.reply(stream_reply(*chat_chunks("real", "Hel", "lo 🚀"), encoding=encoding, piece=13))

    chunks = sdk.events(sdk.client.chat.completions.create(model="small", messages=MESSAGES, stream=True))

    # `choices[0]` of every chunk: a client that did not ask for usage relies on it.
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello 🚀"
    assert [chunk.usage for chunk in chunks] == [None] * 3
    assert upstream.last.json()["stream_options"] == {"include_usage": True}


def test_chat_as_a_stream_with_usage(sdk, upstream):
    upstream.reply(stream_reply(*chat_chunks("real", "a", "b", prompt=11, completion=7)))

    chunks = sdk.events(
        sdk.client.chat.completions.create(
            model="small", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
    )

    assert chunks[-1].choices == []
    assert chunks[-1].usage.total_tokens == 18


def test_tools_in_chat_pass_through(sdk, upstream):
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Zürich"}'}}
    document = chat_completion("real")
    document["choices"][0] |= {
        "message": {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]},
        "finish_reason": "tool_calls",
    }
    upstream.reply(json_reply(document))
    history = [
        *MESSAGES,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]

    answer = sdk.ask(
        sdk.client.chat.completions.create(model="small", messages=history, tools=TOOLS, tool_choice="required")
    )

    (got,) = answer.choices[0].message.tool_calls
    assert (got.function.name, json.loads(got.function.arguments)) == ("weather", {"city": "Zürich"})
    assert upstream.last.json() == {"model": "real", "messages": history, "tools": TOOLS, "tool_choice": "required"}


def test_tools_in_a_stream_pass_through(sdk, upstream):
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "real"}
    calls = [
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"city":'}},
        {"index": 0, "function": {"arguments": '"Zürich"}'}},
    ]
    parts = [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None} for call in calls]
    parts.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    upstream.reply(stream_reply(*(event(head | {"choices": [part]}) for part in parts), event("[DONE]"), piece=17))

    chunks = sdk.events(sdk.client.chat.completions.create(model="small", messages=MESSAGES, tools=TOOLS, stream=True))

    deltas = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert (deltas[0].id, deltas[0].function.name) == ("call_1", "weather")
    assert json.loads("".join(delta.function.arguments for delta in deltas)) == {"city": "Zürich"}
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


COMPLETION = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "real"}


def test_completions(sdk, upstream):
    choices = [{"index": 0, "text": "once", "logprobs": None, "finish_reason": "stop"}]
    upstream.reply(json_reply(COMPLETION | {"choices": choices, "usage": usage(3, 4)}))

    answer = sdk.ask(sdk.client.completions.create(model="small", prompt="Tell me", max_tokens=5))

    assert (answer.choices[0].text, answer.usage.total_tokens) == ("once", 7)
    assert upstream.last.json() == {"model": "real", "prompt": "Tell me", "max_tokens": 5}
    assert upstream.last.target == "/v1/completions"


def test_completions_as_a_stream(sdk, upstream):
    pieces = [{"choices": [{"index": 0, "text": text, "finish_reason": None}]} for text in ("on", "ce")]
    pieces.append({"choices": [], "usage": usage(3, 4)})
    upstream.reply(stream_reply(*(event(COMPLETION | piece) for piece in pieces), event("[DONE]"), piece=7))

    chunks = sdk.events(sdk.client.completions.create(model="small", prompt="Tell me", stream=True))

    assert "".join(chunk.choices[0].text for chunk in chunks) == "once"


@pytest.mark.parametrize("encoding", [None, "gzip"])
def test_embeddings(sdk, upstream, encoding):
    vector = [0.5, -1.0, 2.25]
    # The SDK asks for base64 of its own accord, and decodes it.
    data = base64.b64encode(struct.pack("<3f", *vector)).decode()
    upstream.reply(
        json_reply(
            {
                "object": "list",
                "model": "real",
                "data": [{"object": "embedding", "index": 0, "embedding": data}],
                "usage": {"prompt_tokens": 2, "total_tokens": 2},
            },
            encoding=encoding,
        )
    )

    answer = sdk.ask(sdk.client.embeddings.create(model="small", input=["Hello?"]))

    assert answer.data[0].embedding == vector
    assert answer.usage.total_tokens == 2
    assert upstream.last.json() == {"model": "real", "input": ["Hello?"], "encoding_format": "base64"}


def test_models(sdk, upstream):
    answer = sdk.ask(sdk.client.models.list())

    assert [(model.id, model.owned_by, model.created) for model in answer.data] == [
        ("small", "us", 1_714_521_600),
        ("large", "them", 1_714_608_000),
    ]
    assert upstream.requests == []


def api_error(status, kind, message, **headers):
    reply = json_reply({"error": {"message": message, "type": kind, "param": "p", "code": "c"}}, status=status)
    return Reply(status=status, headers=(*reply.headers, *headers.items()), pieces=reply.pieces)


ERRORS = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    422: openai.UnprocessableEntityError,
    429: openai.RateLimitError,
    500: openai.InternalServerError,
    503: openai.InternalServerError,
}


@pytest.mark.parametrize("fields", [{}, {"stream": True}], ids=["document", "stream"])
@pytest.mark.parametrize("status", ERRORS)
def test_errors_of_the_upstream_keep_their_class_and_words(sdk, upstream, status, fields):
    upstream.reply(api_error(status, "some_error", "the upstream says no", **{"retry-after": "7"}))

    with pytest.raises(ERRORS[status], match="the upstream says no") as caught:
        sdk.ask(sdk.client.chat.completions.create(model="small", messages=MESSAGES, **fields))

    error = caught.value
    assert (error.status_code, error.type, error.param, error.code) == (status, "some_error", "p", "c")
    assert error.response.headers["retry-after"] == "7"


def test_a_page_of_a_proxy_becomes_an_error_with_a_message(sdk, upstream):
    upstream.reply(Reply(status=502, headers=(("content-type", "text/html"),), pieces=(b"<h1>Bad Gateway</h1>",)))

    with pytest.raises(openai.InternalServerError) as caught:
        sdk.ask(sdk.client.chat.completions.create(model="small", messages=MESSAGES))

    assert (caught.value.type, caught.value.code) == ("OpenAIBackendError", "502")
    assert caught.value.body["message"] == "<h1>Bad Gateway</h1>"


def test_errors_of_ours_have_a_message_too(sdk, upstream):
    with pytest.raises(openai.BadRequestError, match="malformed request") as caught:
        sdk.ask(sdk.client.chat.completions.create(model=7, messages=MESSAGES))
    assert caught.value.type == "BadRequest"

    with pytest.raises(openai.AuthenticationError, match="missing upstream credential"):
        sdk.ask(sdk.client.chat.completions.create(model="own-key", messages=MESSAGES))
    assert upstream.requests == []


def test_what_nobody_serves_is_not_found(sdk, upstream):
    # Both answers are plain text, which the SDK keeps as the body of its error.
    with pytest.raises(openai.NotFoundError) as caught:
        sdk.ask(sdk.client.chat.completions.create(model="nobody-has-it", messages=MESSAGES))
    assert caught.value.body == names.NOT_FOUND_BODY
    with pytest.raises(openai.NotFoundError) as caught:
        sdk.ask(sdk.client.moderations.create(input="a"))
    assert caught.value.response.text == "unsupported path: /v1/moderations"
    assert upstream.requests == []


def test_an_error_in_a_stream_is_raised(sdk, upstream):
    first, *_ = chat_chunks("real", "a")
    upstream.reply(stream_reply(first, event({"error": {"message": "overloaded", "type": "server_error"}})))

    with pytest.raises(openai.APIError, match="overloaded"):
        sdk.events(sdk.client.chat.completions.create(model="small", messages=MESSAGES, stream=True))


def test_a_retry_of_the_sdk_works_as_well(sdk, upstream):
    upstream.reply(api_error(429, "rate_limit", "slow down", **{"retry-after-ms": "1"}))
    upstream.reply(json_reply(chat_completion("real", text="at last")))

    answer = sdk.ask(sdk.client.with_options(max_retries=1).chat.completions.create(model="small", messages=MESSAGES))

    assert answer.choices[0].message.content == "at last"
    assert len(upstream.requests) == 2
