"""Chat completions to every backend schema: the official SDK on one side of Envoy, strict providers on the other.

All conversations are the same, so all answers have to be the same, and so do the tokens that are metered.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import openai
import pytest

from tests.dataplane.harness.client import new_id
from tests.dataplane.harness.documents import cost
from tests.dataplane.harness.providers import BY_SCHEMA, TRANSLATED, one_rule_each, start_all

SYSTEM = {"role": "system", "content": "You are a weather service. Be brief."}
QUESTION = {"role": "user", "content": "What is the weather in Paris?"}
BOTH = {"role": "user", "content": "What about both Paris and Rome?"}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city, now.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
THOUGHT = "The user wants to know: What is the weather in Paris?"
COSTS = [
    cost("input", "InputToken"),
    cost("cached", "CachedInputToken"),
    cost("created", "CacheCreationInputToken"),
    cost("output", "OutputToken"),
    cost("reasoning", "ReasoningToken"),
    cost("total"),
]
EVERYWHERE = pytest.mark.parametrize("schema", BY_SCHEMA)
WHERE_TRANSLATED = pytest.mark.parametrize("schema", TRANSLATED)
BOTH_WAYS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture(scope="module")
def upstreams(start_upstream):
    return start_all(start_upstream)


@pytest.fixture(scope="module")
def stack(start_stack, upstreams):
    where, config = one_rule_each(upstreams, globalLLMRequestCosts=COSTS)
    return start_stack(routes=[where], config=config, cost_keys=[rule["metadataKey"] for rule in COSTS])


@pytest.fixture(scope="module")
def client(stack):
    with openai.OpenAI(base_url=f"{stack.base_url}/v1", api_key="sk-of-the-client", max_retries=0, timeout=30) as made:
        yield made


@pytest.fixture
def ask(client, stack):
    """``ask(schema, messages, stream=…, **fields)``: what the SDK understood, and what Envoy metered."""

    def ask(schema, messages, *, stream, **fields):
        request_id = new_id()
        call = {"model": schema, "messages": messages, "extra_headers": {"x-request-id": request_id}, **fields}
        if stream:
            chunks = list(client.chat.completions.create(**call, stream=True, stream_options={"include_usage": True}))
            heard = of_chunks(chunks)
        else:
            heard = of_completion(client.chat.completions.create(**call))
        heard.costs = stack.access_log.wait_for(request_id)["costs"]
        return heard

    return ask


def of_completion(completion):
    (choice,) = completion.choices
    return SimpleNamespace(
        message=choice.message.to_dict(),
        text=choice.message.content,
        calls=[(call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls or ()],
        finish=choice.finish_reason,
        usage=completion.usage,
        model=completion.model,
        id=completion.id,
    )


def of_chunks(chunks):
    """Chunks put together as clients do it, with the reasoning that is not in OpenAI's API."""
    text, thought, signature, finish, calls = "", "", "", None, {}
    for choice in (choice for chunk in chunks for choice in chunk.choices):
        delta, extra = choice.delta, choice.delta.model_extra or {}
        text += delta.content or ""
        thought += extra.get("reasoning_content") or ""
        signature += "".join(block.get("signature") or "" for block in extra.get("thinking_blocks") or ())
        finish = choice.finish_reason or finish
        for piece in delta.tool_calls or ():
            call = calls.setdefault(piece.index, {"id": piece.id, "type": "function", "name": "", "arguments": ""})
            call["name"] += piece.function.name or ""
            call["arguments"] += piece.function.arguments or ""
    assert sorted(calls) == list(range(len(calls)))
    message = {"role": "assistant", "content": text}
    if thought or signature:
        message["thinking_blocks"] = [{"type": "thinking", "thinking": thought, "signature": signature}]
    if calls:
        message["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in calls.values()
        ]
    (usage,) = [chunk.usage for chunk in chunks if chunk.usage]
    return SimpleNamespace(
        message=message | ({"reasoning_content": thought} if thought else {}),
        text=text,
        calls=[(call["name"], json.loads(call["arguments"])) for call in calls.values()],
        finish=finish,
        usage=usage,
        model=chunks[-1].model,
        id=chunks[-1].id,
    )


def results(message, content="18 degrees and sunny"):
    return [{"role": "tool", "tool_call_id": call["id"], "content": content} for call in message["tool_calls"]]


def check_tokens(heard, *, prompt, cached, output, reasoning=0, created=0):
    """What the client was told, and what Envoy was: the same, and the sum is right."""
    usage = heard.usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (prompt, output)
    assert usage.total_tokens == prompt + output
    details = usage.prompt_tokens_details
    assert (details.cached_tokens or 0 if details else 0) == cached
    costs = {name: value or 0 for name, value in heard.costs.items()}
    told = costs.pop("reasoning")
    assert costs == {
        "input": prompt,
        "cached": cached,
        "created": created,
        "output": output,
        "total": prompt + output,
    }
    # Bedrock's Converse does not say how much of the output was thinking.
    assert told in (reasoning, 0)


@EVERYWHERE
@BOTH_WAYS
def test_a_conversation_with_a_tool(ask, schema, stream):
    asked = ask(schema, [SYSTEM, QUESTION], stream=stream, tools=TOOLS)
    told = ask(schema, [SYSTEM, QUESTION, asked.message, *results(asked.message)], stream=stream, tools=TOOLS)

    assert (asked.text, asked.finish) == ("Let me look that up.", "tool_calls")
    assert asked.calls == [("get_weather", {"city": "Paris"})]
    check_tokens(asked, prompt=25, cached=0, output=11)
    assert (told.text, told.finish, told.calls) == ("The tools say: 18 degrees and sunny", "stop", [])
    check_tokens(told, prompt=40, cached=7, output=7)


@EVERYWHERE
@BOTH_WAYS
def test_two_calls_at_a_time(ask, schema, stream):
    asked = ask(schema, [SYSTEM, BOTH], stream=stream, tools=TOOLS)
    first, second = results(asked.message)
    answers = [first | {"content": "18 degrees"}, second | {"content": "25 degrees"}]
    told = ask(schema, [SYSTEM, BOTH, asked.message, *answers], stream=stream, tools=TOOLS)

    assert asked.calls == [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})]
    assert first["tool_call_id"] != second["tool_call_id"]
    assert told.text == "The tools say: 18 degrees; 25 degrees"


@EVERYWHERE
@BOTH_WAYS
def test_a_question_after_a_tool(ask, schema, stream):
    """The next question may come before the model has said anything about the result of the tool."""
    asked = ask(schema, [QUESTION], stream=stream, tools=TOOLS)
    history = [QUESTION, asked.message, *results(asked.message), {"role": "user", "content": "And in Rome?"}]

    told = ask(schema, history, stream=stream, tools=TOOLS)

    assert told.calls == [("get_weather", {"city": "Rome"})]


@EVERYWHERE
def test_a_history_of_tools_that_are_offered_no_more(ask, schema):
    asked = ask(schema, [QUESTION], stream=False, tools=TOOLS)

    told = ask(schema, [QUESTION, asked.message, *results(asked.message)], stream=False)

    assert told.text == "The tools say: 18 degrees and sunny"


@WHERE_TRANSLATED
@BOTH_WAYS
def test_thoughts_come_back_with_their_signature_and_are_accepted(ask, schema, stream):
    """The providers check the signature of what they are given back, and those of Claude insist on the thought."""
    limit = {"max_completion_tokens": 4096, "extra_body": THINKING | INCLUDED.get(schema, {}), "tools": TOOLS}

    asked = ask(schema, [SYSTEM, QUESTION], stream=stream, **limit)
    told = ask(schema, [SYSTEM, QUESTION, asked.message, *results(asked.message)], stream=stream, **limit)

    assert asked.message["reasoning_content"] == THOUGHT
    assert asked.calls == [("get_weather", {"city": "Paris"})]
    check_tokens(asked, prompt=25, cached=0, output=22, reasoning=11)
    assert told.text == "The tools say: 18 degrees and sunny"
    assert told.finish == "stop"


INCLUDED = {
    "GCPVertexAI": {"thinking": {"type": "enabled", "budget_tokens": 1024, "includeThoughts": True}},
}


@EVERYWHERE
@BOTH_WAYS
def test_a_picture(ask, schema, stream):
    parts = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "text", "text": "What is this?"},
    ]

    seen = ask(schema, [{"role": "user", "content": parts}], stream=stream)

    assert seen.text == "You said: What is this?"
    check_tokens(seen, prompt=88, cached=0, output=5)


@pytest.mark.parametrize("schema", ["AWSBedrock", "GCPAnthropic", "AWSAnthropic", "Anthropic"])
@BOTH_WAYS
def test_a_prompt_that_is_marked_for_the_cache(ask, schema, stream):
    """What is written to the cache has a price of its own, and so has what is read from it."""
    marked = {"type": "text", "text": SYSTEM["content"], "cache_control": {"type": "ephemeral"}}
    system = {"role": "system", "content": [marked]}

    asked = ask(schema, [system, QUESTION], stream=stream, tools=TOOLS)
    told = ask(schema, [system, QUESTION, asked.message, *results(asked.message)], stream=stream, tools=TOOLS)

    check_tokens(asked, prompt=25, cached=0, created=7, output=11)
    assert asked.usage.prompt_tokens_details.model_extra["cache_creation_input_tokens"] == 7
    check_tokens(told, prompt=40, cached=7, output=7)


@EVERYWHERE
@BOTH_WAYS
def test_a_limit(ask, schema, stream):
    cut = ask(schema, [QUESTION], stream=stream, max_completion_tokens=3)

    assert (cut.text, cut.finish) == ("You said: What", "length")
    check_tokens(cut, prompt=6, cached=0, output=3)


@EVERYWHERE
@BOTH_WAYS
def test_roles_that_the_provider_does_not_have_or_not_in_this_order(ask, schema, stream):
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "One."},
        {"role": "user", "content": [{"type": "text", "text": "Two."}]},
        {"role": "system", "content": "Be kind."},
        {"role": "assistant", "content": "Three."},
        {"role": "user", "content": "Four 🚀  five"},
    ]

    said = ask(schema, messages, stream=stream)

    assert said.text == "You said: Four 🚀  five"
    check_tokens(said, prompt=10, cached=said.usage.prompt_tokens_details.cached_tokens, output=5)


SCHEMA_OF_ANSWER = {
    "type": "json_schema",
    "json_schema": {
        "name": "weather",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
            "required": ["city", "degrees"],
            "additionalProperties": False,
        },
    },
}


@EVERYWHERE
@BOTH_WAYS
def test_an_answer_of_a_schema(ask, schema, stream):
    answer = ask(schema, [QUESTION], stream=stream, response_format=SCHEMA_OF_ANSWER)

    assert json.loads(answer.text) == {"city": "Paris", "degrees": 1}


@EVERYWHERE
def test_a_stream_without_usage_for_a_client_that_did_not_ask(client, stack, schema):
    request_id = new_id()
    chunks = list(
        client.chat.completions.create(
            model=schema, messages=[QUESTION], stream=True, extra_headers={"x-request-id": request_id}
        )
    )

    assert [chunk.usage for chunk in chunks if chunk.usage] == []
    assert stack.access_log.wait_for(request_id)["costs"]["total"] == 14


@EVERYWHERE
def test_a_client_cannot_choose_the_host_or_bring_a_credential(client, upstreams, schema):
    spoofed = {"x-ai-eg-upstream-host": "evil.example", "x-api-key": "of-the-client", "api-key": "of-the-client"}

    client.chat.completions.create(model=schema, messages=[QUESTION], extra_headers=spoofed)

    received = upstreams[schema].last
    assert received.header("host") == BY_SCHEMA[schema].host
    assert received.header("x-ai-eg-upstream-host") is None
    assert "of-the-client" not in str(received.headers)
    assert "evil.example" not in str(received.headers)
