"""Failover of the endpoints beside chat from one API to another: a later attempt is what a direct request would be.

The official SDKs ask; strict stand-ins of the providers judge what every attempt sends, and what it is signed with.
"""

from __future__ import annotations

import anthropic
import openai
import pytest

from deploy.envoy.model import Retry
from tests.dataplane.harness.client import new_id
from tests.dataplane.harness.documents import cost, filter_config, route
from tests.dataplane.harness.providers import BY_SCHEMA, configured, error_of, place, rule_of, serving
from tests.dataplane.harness.replies import json_reply
from tests.support.embeddings import ACCEPTS, predict_answer, titan_answer

QUESTION = "What is the weather in Paris?"
VECTOR = [0.5, -0.25, 1.0]
COSTS = [cost("input", "InputToken"), cost("output", "OutputToken"), cost("total")]
CHAINS = {
    "messages": ("Anthropic", "AWSBedrock", "OpenAI"),
    "embeddings": ("OpenAI", "AWSBedrock", "GCPVertexAI"),
    "responses": ("OpenAI", "Anthropic"),
}
MODELS = {
    ("embeddings", "OpenAI"): "text-embedding-3-small",
    ("embeddings", "AWSBedrock"): "amazon.titan-embed-text-v2:0",
    ("embeddings", "GCPVertexAI"): "text-embedding-005",
}
"""Names of models, where they are not those of the stand-ins."""
ONLY_FIRST = {
    "httpHeaderMutation": {"set": [{"name": "x-only-first", "value": "1"}], "remove": ["x-of-the-client"]},
    "httpBodyMutation": {"set": [{"path": "metadata", "value": '{"user_id":"first"}'}]},
}

LATER = {
    f"{chain}, {'streamed, ' if stream else ''}from {' to '.join(schemas[: depth + 1])}": (chain, depth, stream)
    for chain, schemas in CHAINS.items()
    for depth in range(1, len(schemas))
    for stream in ([False] if chain == "embeddings" else [False, True])
}


@pytest.fixture(scope="module")
def upstreams(start_upstream):
    """By endpoint and schema."""
    return {
        (chain, schema): start_upstream(f"{chain}-{schema.lower()}")
        for chain, schemas in CHAINS.items()
        for schema in schemas
    }


@pytest.fixture(scope="module")
def stack(start_stack, upstreams):
    """An endpoint is a model to ask for, with its chain of backends; on host ``direct-<n>.test`` the n-th alone."""

    def backend(chain, depth, priority=0):
        schema = CHAINS[chain][depth]
        return place(upstreams[chain, schema], BY_SCHEMA[schema], priority=priority)

    routes = [
        route(
            *(
                rule_of(*(backend(chain, at, at) for at in range(len(schemas))), model=chain, retry=Retry(attempts=3))
                for chain, schemas in CHAINS.items()
            )
        )
    ]
    entries = [
        (routes[0].backend_name(rule, at), chain, at)
        for rule, (chain, schemas) in enumerate(CHAINS.items())
        for at in range(len(schemas))
    ]
    for depth in (1, 2):
        chains = [chain for chain, schemas in CHAINS.items() if depth < len(schemas)]
        rules = (rule_of(backend(chain, depth), model=chain) for chain in chains)
        routes.append(route(*rules, name=f"direct-{depth}", hostnames=(f"direct-{depth}.test",)))
        entries += [(routes[-1].backend_name(rule, 0), chain, depth) for rule, chain in enumerate(chains)]
    backends = []
    for name, chain, depth in entries:
        schema = CHAINS[chain][depth]
        entry = configured(name, BY_SCHEMA[schema], model=MODELS.get((chain, schema)))
        backends.append(entry if depth else entry | (ONLY_FIRST if chain != "embeddings" else {}))
    return start_stack(
        routes=routes,
        config=filter_config(*backends, globalLLMRequestCosts=COSTS),
        cost_keys=[rule["metadataKey"] for rule in COSTS],
    )


# --- what clients ask ---


@pytest.fixture(scope="module")
def ask(stack):
    """``ask(endpoint, stream=…, **headers)``: what was answered, its tokens in and out, and the access log's entry."""
    options = {"api_key": "sk-of-the-client", "max_retries": 0, "timeout": 30}
    with (
        anthropic.Anthropic(base_url=f"{stack.base_url}/anthropic", **options) as claude,
        openai.OpenAI(base_url=f"{stack.base_url}/v1", **options) as gpt,
    ):
        asking = {"messages": _messages(claude), "responses": _responses(gpt), "embeddings": _embeddings(gpt)}

        def ask(endpoint, *, stream, **headers):
            request_id = new_id()
            told = asking[endpoint](stream, {"x-request-id": request_id, "x-of-the-client": "kept", **headers})
            return *told, stack.access_log.wait_for(request_id)

        yield ask


def _messages(client):
    def ask(stream, headers):
        question = {"role": "user", "content": QUESTION}
        call = {"model": "messages", "max_tokens": 500, "messages": [question], "extra_headers": headers}
        # No system prompt, no sampling: the SDK's version of the API has none.
        if stream:
            with client.messages.stream(**call) as events:
                message = events.get_final_message()
        else:
            message = client.messages.create(**call)
        return message.content[0].text, message.usage.input_tokens, message.usage.output_tokens

    return ask


def _responses(client):
    def ask(stream, headers):
        call = {"model": "responses", "input": QUESTION, "store": False, "extra_headers": headers}
        if stream:
            with client.responses.stream(**call) as events:
                response = events.get_final_response()
        else:
            response = client.responses.create(**call)
        return response.output_text, response.usage.input_tokens, response.usage.output_tokens

    return ask


def _embeddings(client):
    def ask(stream, headers):
        assert not stream
        answer = client.embeddings.create(
            model="embeddings", input=QUESTION, encoding_format="float", extra_headers=headers
        )
        return answer.data[0].embedding, answer.usage.prompt_tokens, 0

    return ask


# --- what backends answer ---


def answers(chain, schema):
    """What an upstream does when all is well."""
    if chain != "embeddings":
        return serving(BY_SCHEMA[schema].provider)
    judge = BY_SCHEMA[schema].provider

    def embed(received):
        path, _, _ = received.target.partition("?")
        ACCEPTS[schema](
            path[path.index("publishers/") :] if schema == "GCPVertexAI" else received.target, received.body
        )
        signed = serving(judge)(received) if schema == "AWSBedrock" else None
        assert signed is None or signed.status != 403, signed.body
        return json_reply(
            titan_answer(VECTOR, tokens=6) if schema == "AWSBedrock" else predict_answer(VECTOR, tokens=7)
        )

    return embed


def told_apart(received):
    """A request without what differs from one to the next; who has signed it, the stand-in has judged."""
    changing = {"x-request-id", "x-ai-eg-internal-req-id", "x-amz-date", "host"}
    if received.header("x-amz-date"):
        changing.add("authorization")
    headers = sorted((name.lower(), value) for name, value in received.headers if name.lower() not in changing)
    return received.method, received.target, headers, received.body


@pytest.mark.parametrize(("chain", "depth", "stream"), LATER.values(), ids=LATER)
def test_a_later_attempt_is_what_a_direct_request_would_be(upstreams, ask, chain, depth, stream):
    """BR-40: nothing of the attempts before it shows, and only the backend that answered is paid."""
    schemas = CHAINS[chain]
    for at, schema in enumerate(schemas):
        busy = error_of(schema, 503, "busy, and 500 tokens were spent")
        upstreams[chain, schema].always(busy if at < depth else answers(chain, schema))
    last = upstreams[chain, schemas[depth]]

    direct, *_ = ask(chain, stream=stream, host=f"direct-{depth}.test")
    wanted = last.last
    assert not any(upstreams[chain, schema].requests for schema in schemas[:depth])
    answer, input_, output, entry = ask(chain, stream=stream)

    assert answer == direct
    assert told_apart(last.last) == told_apart(wanted)
    assert last.last is not wanted
    assert last.last.header("host") == BY_SCHEMA[schemas[depth]].host
    assert last.last.header("x-of-the-client") == "kept"
    assert "sk-of-the-client" not in str(last.last.headers)
    assert entry["attempts"] == depth + 1
    assert entry["backend"] == f"default/{last.name}"
    assert entry["costs"] == {"input": input_, "output": output, "total": input_ + output}
    assert input_ > 0


@pytest.mark.parametrize("chain", ["messages", "responses"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_every_attempt_is_one_that_its_provider_takes(upstreams, ask, chain, stream):
    """Also those that were refused because the provider was busy."""
    for schema in CHAINS[chain]:
        upstreams[chain, schema].always(error_of(schema, 503, "busy"))

    failure = anthropic.InternalServerError if chain == "messages" else openai.InternalServerError
    with pytest.raises(failure) as raised:
        ask(chain, stream=stream)

    assert raised.value.status_code == 503
    assert "busy" in raised.value.message
    for schema in CHAINS[chain]:
        received = upstreams[chain, schema].last
        if (chain, schema) != ("responses", "OpenAI"):
            # Of that endpoint there is no stand-in.
            assert serving(BY_SCHEMA[schema].provider)(received).status == 200
    first = upstreams[chain, CHAINS[chain][0]].last
    assert first.header("x-only-first") == "1"
    assert first.json()["metadata"] == {"user_id": "first"}
    assert "x-of-the-client" not in first.names()
