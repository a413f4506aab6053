"""Anthropic's SDK through Envoy to backends of chat completions that refuse what their API does not know.

Every request is first put to the demo's strict stand-in, also where a test has scripted what comes back.
"""

from __future__ import annotations

import json
from collections import deque

import anthropic
import httpx2
import pytest

from deploy.demo.backends.scene import SPEAKERS
from tests.dataplane.harness.client import new_id
from tests.dataplane.harness.documents import cost
from tests.dataplane.harness.providers import BY_SCHEMA, one_rule_each, serving, start_all
from tests.dataplane.harness.replies import Abort, Reply, body_reply, event, json_reply, stream_reply
from tests.unit.translate.count_tokens.others.oracle import accepts as counts

COSTS = [
    cost("input", "InputToken"),
    cost("cached", "CachedInputToken"),
    cost("output", "OutputToken"),
    cost("reasoning", "ReasoningToken"),
    cost("total"),
]
CARRIED = ("OpenAI", "AzureOpenAI", "GCPVertexAI")
EVERYWHERE = pytest.mark.parametrize("schema", CARRIED)
QUESTION = {"role": "user", "content": "What is the weather in Paris?"}
BOTH = {"role": "user", "content": "What about both Paris and Rome?"}
TOOLS = [
    {
        "name": "get_weather",
        "description": "The weather in a city, now.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
]
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_COUNTERS = ("/responses/input_tokens", ":countTokens")


class Backend:
    """A strict upstream, which answers as its provider does unless something else is scripted."""

    def __init__(self, upstream, provider):
        self._upstream = upstream
        self._serve = serving(provider)
        self.scripted = deque()
        self.counted = None
        upstream.always(self._answer)

    @property
    def last(self):
        return self._upstream.last

    @property
    def requests(self):
        return self._upstream.requests

    def _answer(self, received):
        path = received.target.partition("?")[0]
        if path.endswith(_COUNTERS) and self.counted is not None:
            relative = path[path.find("publishers/") :] if "publishers/" in path else path
            counts(relative, received.body)
            return json_reply(self.counted)
        reply = self._serve(received)
        return self.scripted.popleft() if self.scripted and reply.status == 200 else reply


@pytest.fixture(scope="module")
def upstreams(start_upstream):
    return start_all(start_upstream)


@pytest.fixture(scope="module")
def stack(start_stack, upstreams):
    where, config = one_rule_each(upstreams, globalLLMRequestCosts=COSTS)
    return start_stack(routes=[where], config=config, cost_keys=[rule["metadataKey"] for rule in COSTS])


@pytest.fixture
def backends(upstreams):
    speakers = {speaker.name: speaker for speaker in SPEAKERS}
    return {name: Backend(upstreams[name], speakers[name].provider) for name in CARRIED}


@pytest.fixture(scope="module")
def client(stack):
    with anthropic.Anthropic(
        base_url=f"{stack.base_url}/anthropic", api_key="sk-of-the-client", max_retries=0, timeout=30
    ) as made:
        yield made


@pytest.fixture
def ask(client, stack):
    """``ask(schema, *messages, stream=…, **fields)``: the message, and what Envoy metered."""

    def ask(schema, *messages, stream, **fields):
        request_id = new_id()
        call = {
            "model": schema,
            "max_tokens": 4000,
            "messages": list(messages),
            "extra_headers": {"x-request-id": request_id},
            **fields,
        }
        if stream:
            with client.messages.stream(**call) as events:
                message = events.get_final_message()
        else:
            message = client.messages.create(**call)
        return message, stack.access_log.wait_for(request_id)["costs"]

    return ask


BOTH_WAYS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


@EVERYWHERE
@BOTH_WAYS
def test_a_question_is_answered_and_metered(ask, backends, schema, stream):
    message, costs = ask(schema, QUESTION, stream=stream, system="You are a weather service.", stop_sequences=["END"])

    assert text_of(message) == "You said: What is the weather in Paris?"
    assert (message.role, message.type, message.stop_reason, message.stop_sequence) == (
        "assistant",
        "message",
        "end_turn",
        None,
    )
    assert message.model == BY_SCHEMA[schema].model
    assert message.usage.input_tokens == costs["input"] == 11
    assert message.usage.output_tokens == costs["output"] == 8
    assert costs["total"] == 19
    assert backends[schema].last.header("x-api-key") is None


@EVERYWHERE
@BOTH_WAYS
def test_two_tools_are_called_at_once_and_their_results_are_read(ask, schema, stream):
    system = [{"type": "text", "text": "You are a weather service.", "cache_control": {"type": "ephemeral"}}]
    asked, _ = ask(schema, BOTH, stream=stream, tools=TOOLS, system=system)

    assert asked.stop_reason == "tool_use"
    calls = [block for block in asked.content if block.type == "tool_use"]
    assert [(call.name, call.input) for call in calls] == [
        ("get_weather", {"city": "Paris"}),
        ("get_weather", {"city": "Rome"}),
    ]
    assert len({call.id for call in calls}) == 2

    results = [
        {"type": "tool_result", "tool_use_id": calls[1].id, "content": "rain"},
        {"type": "tool_result", "tool_use_id": calls[0].id, "content": [{"type": "text", "text": "sun"}]},
    ]
    history = [BOTH, {"role": "assistant", "content": asked.content}, {"role": "user", "content": results}]
    message, costs = ask(schema, *history, stream=stream, tools=TOOLS, system=system)

    assert text_of(message) in {"The tools say: rain; sun", "The tools say: sun; rain"}
    # Anthropic's client reads what was cached beside the input.
    usage = message.usage
    assert usage.cache_read_input_tokens == costs["cached"] > 0
    assert usage.input_tokens + usage.cache_read_input_tokens == costs["input"]


@EVERYWHERE
def test_one_call_at_a_time_where_the_client_wants_it_so(ask, backends, schema):
    message, _ = ask(
        schema, BOTH, stream=False, tools=TOOLS, tool_choice={"type": "any", "disable_parallel_tool_use": True}
    )
    assert "tool_use" in {block.type for block in message.content}
    if schema != "GCPVertexAI":
        assert len([block for block in message.content if block.type == "tool_use"]) == 1
        assert backends[schema].last.json()["parallel_tool_calls"] is False


@EVERYWHERE
def test_images_and_files_arrive(ask, schema):
    png = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}
    content = [png, pdf, {"type": "text", "text": "What is it?"}]
    message, costs = ask(schema, {"role": "user", "content": content}, stream=False)
    assert text_of(message) == "You said: What is it?"
    assert costs["input"] >= 2 * 85


def chunk(delta, finish=None, **more):
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5"}
    return event(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]} | more)


USAGE = {
    "prompt_tokens": 3936,
    "completion_tokens": 60,
    "total_tokens": 3996,
    "prompt_tokens_details": {"cached_tokens": 3712},
    "completion_tokens_details": {"reasoning_tokens": 40},
}


def thinking_stream():
    return stream_reply(
        chunk({"role": "assistant", "reasoning_content": "The user wants "}),
        chunk({"reasoning_content": "the weather."}),
        chunk({"content": "Sunny."}),
        chunk({}, "stop"),
        event({"id": "chatcmpl-1", "choices": [], "usage": USAGE}),
        event("[DONE]"),
        piece=23,
    )


@BOTH_WAYS
def test_thinking_is_asked_for_and_shown(ask, backends, stream):
    backend = backends["OpenAI"]
    said = {"role": "assistant", "content": "Sunny.", "reasoning_content": "The user wants the weather."}
    document = {"id": "c", "model": "gpt-5", "choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}
    backend.scripted.append(thinking_stream() if stream else json_reply(document | {"usage": USAGE}))

    message, costs = ask("OpenAI", QUESTION, stream=stream, thinking={"type": "enabled", "budget_tokens": 2048})

    thought, answer = message.content
    assert (thought.type, thought.thinking) == ("thinking", "The user wants the weather.")
    assert answer.text == "Sunny."
    assert (costs["input"], costs["cached"], costs["output"], costs["reasoning"]) == (3936, 3712, 60, 40)
    assert (message.usage.input_tokens, message.usage.cache_read_input_tokens) == (224, 3712)
    assert backend.last.json()["reasoning_effort"] == "low"
    # And the thought goes back without harm.
    history = [QUESTION, {"role": "assistant", "content": message.content}, {"role": "user", "content": "And Rome?"}]
    again, _ = ask("OpenAI", *history, stream=stream)
    assert text_of(again) == "You said: And Rome?"


@BOTH_WAYS
def test_gemini_thinks_and_is_given_its_thought_back(ask, backends, stream):
    thinking = {"type": "enabled", "budget_tokens": 1024}
    asked, costs = ask("GCPVertexAI", QUESTION, stream=stream, tools=TOOLS, thinking=thinking)
    thoughts = [block for block in asked.content if block.type == "thinking"]
    assert "".join(block.thinking for block in thoughts) == "The user wants to know: What is the weather in Paris?"
    assert any(block.signature for block in thoughts)
    assert costs["reasoning"] > 0
    [call] = [block for block in asked.content if block.type == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "sun"}
    history = [QUESTION, {"role": "assistant", "content": asked.content}, {"role": "user", "content": [result]}]
    message, _ = ask("GCPVertexAI", *history, stream=stream, tools=TOOLS, thinking=thinking)
    assert text_of(message) == "The tools say: sun"
    signed = [
        part["thoughtSignature"]
        for content in backends["GCPVertexAI"].last.json()["contents"]
        for part in content["parts"]
        if "thoughtSignature" in part
    ]
    # Clients have whose it is before it.
    assert [f"gemini.{each}" for each in signed] == [block.signature for block in thoughts if block.signature]


def test_a_session_of_a_coding_agent(client, stack, backends):
    """What Claude Code sends: a long system prompt with breakpoints, many tools, betas, a user id, all streamed."""
    rules = [f"Rule {number}: be careful with the file {number}." for number in range(400)]
    request_id = new_id()
    call = {
        "model": "OpenAI",
        "max_tokens": 32000,
        "system": [
            {"type": "text", "text": "You are a coding agent.", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "\n".join(rules), "cache_control": {"type": "ephemeral"}},
        ],
        "tools": [{**TOOLS[0], "name": f"tool_{number}"} for number in range(60)],
        "metadata": {"user_id": f"user_{'0f' * 32}_account__session_{'ab' * 16}"},
        "thinking": {"type": "adaptive"},
        "extra_query": {"beta": "true"},
        "extra_body": {
            "temperature": 1.0,
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        },
        "extra_headers": {
            "x-request-id": request_id,
            "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27",
        },
    }
    reminder = {"type": "text", "text": "<system-reminder>Be good.</system-reminder>\n"}
    question = {"type": "text", "text": "Tell both Paris and Rome.", "cache_control": {"type": "ephemeral"}}
    history = [{"role": "user", "content": [reminder, question]}]
    with client.messages.stream(**call, messages=history) as events:
        kinds = [each.type for each in events]
        asked = events.get_final_message()
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    calls = [block for block in asked.content if block.type == "tool_use"]
    assert [call.name for call in calls] == ["tool_0", "tool_1"]

    results = [{"type": "tool_result", "tool_use_id": calls[0].id, "content": "done"}]
    png = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    results.append({"type": "tool_result", "tool_use_id": calls[1].id, "content": [png], "is_error": True})
    history += [{"role": "assistant", "content": asked.content}, {"role": "user", "content": results}]
    with client.messages.stream(**call, messages=history) as events:
        message = events.get_final_message()
    assert message.usage.output_tokens > 0

    sent = backends["OpenAI"].last.json()
    assert backends["OpenAI"].last.target == "/v1/chat/completions"
    assert sent["messages"][0]["content"].startswith("You are a coding agent.\nRule 0:")
    assert [each["role"] for each in sent["messages"]] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert sent["messages"][4]["content"].startswith("Error")
    assert len(sent["user"]) == 64
    assert sent["reasoning_effort"] == "medium"
    assert sent["max_completion_tokens"] == 32000
    assert "cache_control" not in backends["OpenAI"].last.body.decode()
    assert stack.access_log.wait_for(request_id)["costs"]["total"] > 0


# --- errors ---


@BOTH_WAYS
def test_an_error_has_its_class_and_the_words_of_the_backend(ask, backends, stream):
    fault = {"message": 'no "such" thing', "type": "server_error", "code": 429}
    backends["OpenAI"].scripted.append(json_reply({"error": fault}, status=429))
    with pytest.raises(anthropic.RateLimitError) as caught:
        ask("OpenAI", QUESTION, stream=stream)
    assert caught.value.body == {
        "type": "error",
        "error": {"type": "rate_limit_error", "message": 'no "such" thing'},
    }


@BOTH_WAYS
def test_a_page_of_a_proxy_becomes_an_error_with_a_message(ask, backends, stream):
    backends["OpenAI"].scripted.append(body_reply(b"<h1>Bad Gateway</h1>", status=502, content_type="text/html"))
    with pytest.raises(anthropic.InternalServerError, match="<h1>Bad Gateway</h1>") as caught:
        ask("OpenAI", QUESTION, stream=stream)
    assert caught.value.body["error"]["type"] == "api_error"
    assert caught.value.status_code == 502


@EVERYWHERE
def test_what_the_backend_refuses_is_told(ask, schema):
    with pytest.raises(anthropic.BadRequestError) as caught:
        ask(schema, QUESTION, stream=False, extra_body={"temperature": 7})
    assert caught.value.body["error"]["type"] == "invalid_request_error"


@EVERYWHERE
def test_what_chat_completions_cannot_say_is_refused_here(ask, backends, schema):
    with pytest.raises(anthropic.UnprocessableEntityError, match=r"tools\[0\].type") as caught:
        ask(schema, QUESTION, stream=False, tools=[{"type": "bash_20250124", "name": "bash"}])
    assert caught.value.body["error"]["type"] == "invalid_request_error"
    assert backends[schema].requests == []


FAILURES = {
    "an error of the backend": event({"error": {"message": "overloaded", "type": "server_error", "code": None}}),
    "an event that is no JSON": b"data: {\n\n",
    "no end": b"",
}


@pytest.mark.parametrize("last", FAILURES.values(), ids=FAILURES)
def test_a_stream_that_breaks_off_is_an_error(client, backends, last):
    backends["OpenAI"].scripted.append(stream_reply(chunk({"content": "Sun"}), last))
    heard = []
    with (
        pytest.raises(anthropic.APIStatusError) as caught,
        client.messages.stream(model="OpenAI", max_tokens=9, messages=[QUESTION]) as events,
    ):
        heard += events
    assert caught.value.body["error"]["type"] == "api_error"
    assert "message_stop" not in {each.type for each in heard}


def test_a_connection_that_breaks_is_no_good_end(client, backends):
    backends["OpenAI"].scripted.append(stream_reply(chunk({"content": "Sun"}), Abort()))
    heard = []
    with (
        # Envoy may see the break before it has sent the headers on; then it answers itself.
        pytest.raises((httpx2.RemoteProtocolError, anthropic.InternalServerError)),
        client.messages.stream(model="OpenAI", max_tokens=9, messages=[QUESTION]) as events,
    ):
        heard += events
    assert "message_stop" not in {each.type for each in heard}


# --- counting ---


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ("OpenAI", {"object": "response.input_tokens", "input_tokens": 321}),
        ("AzureOpenAI", {"object": "response.input_tokens", "input_tokens": 321}),
        ("GCPVertexAI", {"totalTokens": 321}),
    ],
)
def test_tokens_are_counted_by_the_backend(client, stack, backends, schema, answer):
    backends[schema].counted = answer
    request_id = new_id()
    counted = client.messages.with_raw_response.count_tokens(
        model=schema,
        messages=[QUESTION],
        tools=TOOLS,
        system="Be brief.",
        extra_headers={"x-request-id": request_id},
    )
    assert counted.parse().input_tokens == 321
    assert "x-ai-eg-token-count" not in counted.headers
    costs = stack.access_log.wait_for(request_id)["costs"]
    assert set(costs.values()) == {None}


def test_a_backend_that_cannot_count_has_its_tokens_estimated(client, stack):
    request_id = new_id()
    succeeded = stack.metrics().sum("extproc_attempts_total", operation="count_tokens", outcome="success")
    counted = client.messages.with_raw_response.count_tokens(
        model="OpenAI", messages=[QUESTION], tools=TOOLS, extra_headers={"x-request-id": request_id}
    )
    assert counted.status_code == 200
    assert counted.headers["x-ai-eg-token-count"] == "estimated"
    assert 20 < counted.parse().input_tokens < 100
    assert not any((stack.access_log.wait_for(request_id)["costs"] or {}).values())
    now = stack.metrics().sum("extproc_attempts_total", operation="count_tokens", outcome="success")
    assert now == succeeded + 1


def test_an_error_of_a_count_is_told(client, upstreams):
    upstreams["OpenAI"].reply(Reply(status=503, headers=(("content-type", "text/plain"),), pieces=(b"busy",)))
    with pytest.raises(anthropic.InternalServerError, match="busy"):
        client.messages.count_tokens(model="OpenAI", messages=[QUESTION])


def test_what_is_sent_is_small_json(ask, backends):
    ask("OpenAI", QUESTION, stream=False)
    body = backends["OpenAI"].last.body
    assert body == json.dumps(json.loads(body), separators=(",", ":")).encode()
