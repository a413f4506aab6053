"""Rerank and tokenize through Envoy: a plain client on one side, strict stand-ins of every provider on the other.

A stand-in refuses what its provider would refuse, by the provider's own types, and its signature or key is checked.
"""

from __future__ import annotations

import json
import re

import openai
import pytest

from deploy.envoy.model import Retry
from tests.dataplane.harness.client import connect, new_id
from tests.dataplane.harness.documents import backend, cost, filter_config, route, rule
from tests.dataplane.harness.providers import BY_SCHEMA, CALLERS, configured, error_of, place, rule_of
from tests.dataplane.harness.replies import body_reply, json_reply
from tests.support.sigv4_verifier import SignatureRefused, verify
from tests.unit.translate.tokenize.attempts import COUNT_MEMBERS
from tests.unit.translate.tokenize.oracle import ACCEPTS

RERANK, TOKENIZE = "/cohere/v2/rerank", "/tokenize"
COSTS = [
    cost("input", "InputToken"),
    cost("cached", "CachedInputToken"),
    cost("output", "OutputToken"),
    cost("total"),
    cost("request", cel="1u"),
]
KEYS = [each["metadataKey"] for each in COSTS]


@pytest.fixture
def ask(stack):
    """``ask(path, body, **headers)``: the answer, and what Envoy metered."""
    with connect(stack) as client:

        def ask(path, body, **headers):
            request_id = new_id()
            response = client.post(path, json=body, headers={"x-request-id": request_id, **headers})
            return response, stack.access_log.wait_for(request_id)

        yield ask


@pytest.fixture(scope="module")
def rerankers(start_upstream):
    """An upstream for each of the two APIs that rerank."""
    return {name: start_upstream(name) for name in ("cohere", "vllm")}


@pytest.fixture(scope="module")
def counters(start_upstream):
    """An upstream for each schema that can count tokens."""
    started = {}
    for schema in COUNTED:
        started[schema] = start_upstream(schema.lower())
        started[schema].always(counting(schema))
    return started


@pytest.fixture(scope="module")
def stack(start_stack, rerankers, counters):
    cohere, vllm = rerankers["cohere"], rerankers["vllm"]
    rerank = route(
        rule(cohere, models=["cohere"]),
        rule(vllm, models=["vllm"]),
        rule(cohere, vllm, models=["either"], retry=Retry()),
        name="rerank",
    )
    first = {"name": "Cohere", "version": "v2"}
    second = {"name": "OpenAI", "prefix": "v1"}
    speakers = [BY_SCHEMA[schema] for schema in COUNTED]
    tokenize = route(
        *(rule_of(place(counters[each.name], each), model=each.name) for each in speakers),
        rule_of(
            *(place(counters[each], BY_SCHEMA[each], priority=at) for at, each in enumerate(("OpenAI", "AWSBedrock"))),
            model="failing-over",
            retry=Retry(),
        ),
        name="tokenize",
    )
    last = len(speakers)
    return start_stack(
        routes=[rerank, tokenize],
        config=filter_config(
            backend(rerank.backend_name(0, 0), model="rerank-v3.5", key="sk-cohere", schema=first),
            backend(rerank.backend_name(1, 0), model="bge", key="sk-vllm", schema=second),
            backend(rerank.backend_name(2, 0), model="rerank-v3.5", key="sk-cohere", schema=first),
            backend(rerank.backend_name(2, 1), key="sk-vllm", schema=second),
            *(configured(tokenize.backend_name(at, 0), each) for at, each in enumerate(speakers)),
            configured(tokenize.backend_name(last, 0), BY_SCHEMA["OpenAI"]),
            configured(tokenize.backend_name(last, 1), BY_SCHEMA["AWSBedrock"]),
            globalLLMRequestCosts=COSTS,
        ),
        cost_keys=KEYS,
    )


# --- rerank ---

RESULTS = {"results": [{"index": 1, "relevance_score": 0.98}, {"index": 0, "relevance_score": 0.1}]}
QUESTION = {"query": "Where is Paris?", "documents": ["Rome is in Italy.", "Paris is in France."], "top_n": 2}
ANSWERS = {
    # model, answer: input, cached, output, total
    "Cohere, by tokens": (
        "cohere",
        {"id": "a", **RESULTS, "meta": {"tokens": {"input_tokens": 25.0, "output_tokens": 2}, "cached_tokens": 5}},
        (25, 5, 2, 27),
    ),
    "Cohere, by billed tokens": (
        "cohere",
        {"id": "a", **RESULTS, "meta": {"billed_units": {"input_tokens": 25, "search_units": 1}}},
        (25, 0, 0, 25),
    ),
    "Cohere, by search units": (
        "cohere",
        {"id": "a", **RESULTS, "meta": {"billed_units": {"search_units": 1}}},
        (0, 0, 0, 0),
    ),
    "vLLM": ("vllm", {"model": "bge", "usage": {"prompt_tokens": 56, "total_tokens": 56}, **RESULTS}, (56, 0, 0, 56)),
}


@pytest.mark.parametrize("encoding", [None, "gzip", "br", "zstd"])
@pytest.mark.parametrize("name", ANSWERS)
def test_a_rerank_is_answered_as_the_backend_answers_and_metered(ask, rerankers, name, encoding):
    model, answer, counts = ANSWERS[name]
    upstream = rerankers[model]
    upstream.reply(json_reply(answer, encoding=encoding))

    response, entry = ask(RERANK, {"model": model, **QUESTION})

    assert (response.status_code, response.json()) == (200, answer)
    assert entry["costs"] == dict(zip(KEYS, (*counts, 1), strict=True))
    assert upstream.last.target == {"cohere": "/v2/rerank", "vllm": "/v1/rerank"}[model]
    assert upstream.last.header("authorization") == f"Bearer sk-{model}"
    assert upstream.last.json() == {"model": {"cohere": "rerank-v3.5", "vllm": "bge"}[model], **QUESTION}


def test_documents_may_be_objects(ask, rerankers):
    vllm = rerankers["vllm"]
    vllm.reply(json_reply(ANSWERS["vLLM"][1]))
    documents = [{"text": "a"}, {"image": "https://example.com/b.png"}]

    response, _ = ask(RERANK, {"model": "vllm", "query": {"text": "a"}, "documents": documents})

    assert response.status_code == 200
    assert vllm.last.json()["documents"] == documents


RERANK_ERRORS = {
    # model, answer: what the client reads
    "Cohere's": ("cohere", json_reply({"id": "x", "message": "no"}, status=400), {"id": "x", "message": "no"}),
    "text": ("cohere", body_reply(b'busy "now"', status=502, content_type="text/plain"), {"message": 'busy "now"'}),
    "text, encoded": (
        "cohere",
        body_reply(b"busy", status=502, content_type="text/plain", encoding="gzip"),
        {"message": "busy"},
    ),
    "OpenAI's": ("vllm", json_reply({"error": {"message": "no", "type": "x"}}, status=404), {"message": "no"}),
}


@pytest.mark.parametrize("name", RERANK_ERRORS)
def test_an_error_of_a_reranker_is_told_as_cohere_tells_it(ask, rerankers, name):
    model, answer, told = RERANK_ERRORS[name]
    rerankers[model].reply(answer)

    response, entry = ask(RERANK, {"model": model, **QUESTION})

    assert (response.status_code, response.json()) == (answer.status, told)
    assert response.headers["content-type"] == "application/json"
    assert entry["costs"]["total"] is None


def test_a_rerank_that_nobody_takes_is_refused_here(ask, rerankers):
    response, _ = ask(RERANK, {"model": "cohere", "query": "a", "documents": [1]})

    assert response.status_code == 400
    assert response.json()["message"].startswith("malformed request: failed to parse JSON for /v2/rerank: ")
    assert rerankers["cohere"].requests == []


def test_a_rerank_fails_over_to_another_api(ask, rerankers):
    cohere, vllm = rerankers["cohere"], rerankers["vllm"]
    cohere.reply(json_reply({"message": "busy"}, status=503))
    vllm.reply(json_reply(ANSWERS["vLLM"][1]))

    response, entry = ask(RERANK, {"model": "either", **QUESTION})

    assert response.json() == ANSWERS["vLLM"][1]
    assert (cohere.last.json()["model"], vllm.last.json()["model"]) == ("rerank-v3.5", "either")
    assert vllm.last.target == "/v1/rerank"
    assert entry["costs"]["total"] == 56


# --- tokenize ---

COUNTED = ("OpenAI", *COUNT_MEMBERS)
COUNTERS = pytest.mark.parametrize("schema", COUNTED)
TRANSLATED = pytest.mark.parametrize("schema", COUNT_MEMBERS)
OF_VLLM = {"count": 3, "max_model_len": 8192, "tokens": [1, 2, 3], "token_strs": None}
OF_OTHERS = {"count": 42, "max_model_len": 0, "tokens": None}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city, now.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
PNG = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkqAcAAIUAgUW0RjgAAAAASUVORK5CYII="
)
CHAT = {
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Where is this?"}, image := {"type": "image_url"}]},
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"P"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "18 degrees"},
    ],
    "tools": [TOOL],
}
image["image_url"] = {"url": PNG}
FORMS = pytest.mark.parametrize("form", [{"prompt": "Hello?"}, CHAT], ids=["prompt", "chat"])
_PROJECT = re.compile(r"/v1/projects/demo-project/locations/[a-z0-9-]+/(publishers/.*)")


def counting(schema):
    """What an upstream ``always`` does: count, if the provider would."""

    def answer(received):
        try:
            check_caller(schema, received)
            project = _PROJECT.fullmatch(received.target)
            assert (project is None) == (not schema.startswith("GCP")), received.target
            ACCEPTS[schema](received.target if project is None else project[1], received.body)
        except (AssertionError, SignatureRefused, ValueError) as refused:
            return json_reply({"message": str(refused), "error": {"message": str(refused)}}, status=400)
        return json_reply(OF_VLLM if schema == "OpenAI" else {COUNT_MEMBERS[schema]: 42})

    return answer


def check_caller(schema, received):
    auth = BY_SCHEMA[schema].auth
    if schema.startswith("AWS"):
        verify(
            method=received.method,
            path=received.target,
            headers=received.headers,
            body=received.body,
            secrets=CALLERS,
        )
    elif schema == "Anthropic":
        assert received.header("x-api-key") == auth["anthropicAPIKey"]["key"]
        assert received.header("anthropic-version")
    else:
        token = auth["apiKey"]["key"] if schema == "OpenAI" else auth["gcp"]["accessToken"]
        assert received.header("authorization") == f"Bearer {token}"


@COUNTERS
@FORMS
def test_tokens_are_counted(ask, counters, schema, form):
    response, entry = ask(TOKENIZE, {"model": schema, **form})

    assert (response.status_code, response.json()) == (200, OF_VLLM if schema == "OpenAI" else OF_OTHERS)
    assert len(counters[schema].requests) == 1
    assert set(entry["costs"].values()) == {None}, "counting is free"


def test_the_same_api_gets_the_client_s_own_words(ask, counters):
    ask(TOKENIZE, {"model": "OpenAI", **CHAT, "chat_template": "{{ x }}", "return_token_strs": True})

    sent = counters["OpenAI"].last
    assert sent.target == "/tokenize"
    assert sent.json() == {
        **CHAT,
        "model": BY_SCHEMA["OpenAI"].model,
        "chat_template": "{{ x }}",
        "return_token_strs": True,
    }


def test_the_base_model_counts_for_a_profile(ask, counters):
    for schema in ("AWSBedrock", "AWSAnthropic"):
        ask(TOKENIZE, {"model": schema, "prompt": "a"})
        assert counters[schema].last.target == "/model/anthropic.claude-sonnet-4-5-20250929-v1:0/count-tokens"


@pytest.mark.parametrize("encoding", ["gzip", "br"])
@TRANSLATED
def test_an_encoded_count_is_read(ask, counters, schema, encoding):
    counters[schema].reply(json_reply({COUNT_MEMBERS[schema]: 7}, encoding=encoding))

    response, _ = ask(TOKENIZE, {"model": schema, "prompt": "a"})

    assert response.json() == {"count": 7, "max_model_len": 0, "tokens": None}


@COUNTERS
def test_an_error_is_read_by_the_sdk(stack, counters, schema):
    counters[schema].reply(error_of(schema, 429, 'slow "down"'))
    with (
        openai.OpenAI(base_url=stack.base_url, api_key="sk", max_retries=0, timeout=30) as client,
        pytest.raises(openai.RateLimitError) as raised,
    ):
        client.post(TOKENIZE, body={"model": schema, "prompt": "a"}, cast_to=object)

    error = raised.value.body
    assert error["message"] == 'slow "down"'
    assert error["type"]


@COUNTERS
def test_an_error_page_is_told_in_openai_s_shape(ask, counters, schema):
    counters[schema].reply(body_reply(b'<p class="x">busy</p>', status=503, content_type="text/html"))

    response, entry = ask(TOKENIZE, {"model": schema, "prompt": "a"})

    assert response.status_code == 503
    assert response.json()["error"]["message"] == '<p class="x">busy</p>'
    assert response.json()["error"]["code"] == "503"
    assert entry["costs"]["request"] is None


@TRANSLATED
def test_what_is_no_count_is_a_bad_gateway(ask, counters, schema):
    counters[schema].reply(json_reply({"message": "hello"}))

    response, _ = ask(TOKENIZE, {"model": schema, "prompt": "a"})

    assert response.status_code == 502
    assert "it has no count" in response.json()["error"]["message"]


REFUSED = {
    # request: status, message
    "the strings of tokens": ({"prompt": "a", "return_token_strs": True}, 422, "return_token_strs is not supported by"),
    "nothing": ({"prompt": ""}, 422, "messages"),
    "both": ({"prompt": "a", "messages": []}, 400, "must have either 'prompt' or 'messages', not both"),
    "contradicting flags": ({**CHAT, "continue_final_message": True}, 400, "cannot set both continue_final_message"),
}


@TRANSLATED
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_counted_is_refused_here(ask, counters, schema, name):
    request, status, message = REFUSED[name]
    response, _ = ask(TOKENIZE, {"model": schema, **request})

    assert response.status_code == status
    assert message in response.json()["error"]["message"]
    assert counters[schema].requests == []


def test_a_count_fails_over_to_another_api(ask, counters):
    """The first attempt leaves the request as it came, so that each backend gets it in its own form."""
    counters["OpenAI"].reply(json_reply({"error": {"message": "busy"}}, status=503))

    response, _ = ask(TOKENIZE, {"model": "failing-over", "prompt": "Hello?"})

    assert response.json() == OF_OTHERS
    assert counters["OpenAI"].last.json() == {"model": BY_SCHEMA["OpenAI"].model, "prompt": "Hello?"}
    converse = json.loads(counters["AWSBedrock"].last.body)["input"]["converse"]
    assert converse == {"messages": [{"content": [{"text": "Hello?"}], "role": "user"}]}
