"""Embeddings at every backend schema: the official SDK on one side of Envoy, strict providers on the other.

All texts are the same, so all vectors have to be the same, and so do the tokens that are metered.
"""

from __future__ import annotations

import base64
import struct
import time

import openai
import pytest

from tests.dataplane.harness.client import EMBEDDINGS, connect, new_id
from tests.dataplane.harness.documents import cost, filter_config, route
from tests.dataplane.harness.providers import BY_SCHEMA, CALLERS, configured, error_of, place, rule_of
from tests.dataplane.harness.replies import Reply, body_reply, json_reply
from tests.support.embeddings import ACCEPTS, cohere_answer, embed_content_answer, predict_answer, titan_answer
from tests.support.sigv4_verifier import verify

MODELS = {
    # as clients name it: schema, name at the backend
    "openai": ("OpenAI", "text-embedding-3-small"),
    "azure": ("AzureOpenAI", "embedding deployment"),
    "titan": ("AWSBedrock", "amazon.titan-embed-text-v2:0"),
    "cohere-3": ("AWSBedrock", "cohere.embed-multilingual-v3"),
    "cohere-4": (
        "AWSBedrock",
        "arn:aws:bedrock:us-east-1:111122223333:inference-profile/us.cohere.embed-v4:0",
    ),
    "vertex": ("GCPVertexAI", "text-embedding-005"),
    "gemini": ("GCPVertexAI", "gemini-embedding-2-preview"),
    # As they come from clients.
    "text-embedding-004": ("GCPVertexAI", ""),
    "text-embedding-ada-002": ("AzureOpenAI", ""),
    "amazon.nova-2-multimodal-embeddings-v1:0": ("AWSBedrock", ""),
    "no-credential": ("AWSBedrock", "amazon.titan-embed-text-v1"),
}
ONE_BY_ONE = ("openai", "azure", "titan", "cohere-3", "cohere-4", "vertex", "gemini")
IN_BATCHES = ("openai", "azure", "cohere-3", "cohere-4", "vertex")
TRANSLATED = ("titan", "cohere-3", "cohere-4", "vertex", "gemini")
COSTS = [cost("input", "InputToken"), cost("output", "OutputToken"), cost("total")]
OWN_ONLY = {"credentialOverride": {"headerName": "x-aigw-aws-"}}
PROJECT = "/v1/projects/demo-project/locations/us-central1/"
AZURE_QUERY = "api-version=2025-01-01-preview"

ON_EVERY_MODEL = pytest.mark.parametrize("model", ONE_BY_ONE)


def vector_of(text: str) -> list[float]:
    """What every provider makes of a text; each number is one of 32 bits."""
    return [len(text) / 8, -0.5, 1e-7 if text else 0.0]


def tokens_of(*texts: str) -> int:
    return sum(len(text.split()) for text in texts)


def near(text: str):
    return pytest.approx(vector_of(text), rel=1e-6)


# --- the providers ---


def openai_answer(body, model):
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    vectors = [vector_of(text) for text in texts]
    if body.get("encoding_format") == "base64":
        vectors = [base64.b64encode(struct.pack("<3f", *vector)).decode() for vector in vectors]
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    spent = tokens_of(*texts)
    return {
        "object": "list",
        "data": data,
        "model": model,
        "usage": {"prompt_tokens": spent, "total_tokens": spent},
    }, spent


def bedrock_answer(body, path):
    texts = body.get("texts", [body.get("inputText")])
    vectors = [vector_of(text) for text in texts]
    spent = tokens_of(*texts)
    if "inputText" in body:
        return titan_answer(vectors[0], tokens=spent), spent
    return cohere_answer(*vectors, by_type="embed-v4" in path), spent


def google_answer(body):
    if "content" in body:
        texts = [part["text"] for part in body["content"]["parts"] if "text" in part]
        return embed_content_answer(vector_of(texts[0]), tokens=tokens_of(*texts))
    texts = [instance["content"] for instance in body["instances"]]
    predictions = [predict_answer(vector_of(text), tokens=tokens_of(text))["predictions"][0] for text in texts]
    return {"predictions": predictions}


def check_caller(schema, received):
    """The provider lets nobody in but the gateway, at its own host."""
    assert received.header("host") == BY_SCHEMA[schema].host
    assert "of-the-client" not in str(received.headers)
    match schema:
        case "AWSBedrock":
            verify(
                method=received.method,
                path=received.target,
                headers=received.headers,
                body=received.body,
                secrets=CALLERS,
                now=time.time(),
            )
        case "AzureOpenAI":
            assert received.header("api-key") == "az-demo-0002"
        case "OpenAI":
            assert received.header("authorization") == "Bearer sk-demo-openai-0001"
        case "GCPVertexAI":
            assert received.header("authorization") == "Bearer ya29.demo-0004"


def provider(schema, *, encoding=None):
    """What an upstream ``always`` does: refuse what the provider would, else embed."""

    def answer(received):
        try:
            check_caller(schema, received)
            path = received.target.removeprefix(PROJECT if schema == "GCPVertexAI" else "")
            body = ACCEPTS[schema](path, received.body)
        except Exception as refused:  # noqa: BLE001 - whatever is wrong is the answer, and the test fails with it
            return json_reply({"error": {"message": f"refused: {refused!r}", "status": "REFUSED"}}, status=400)
        headers = ()
        if schema == "AWSBedrock":
            document, spent = bedrock_answer(body, path)
            headers = (("x-amzn-bedrock-input-token-count", str(spent)), ("x-amzn-requestid", "rid"))
        elif schema == "GCPVertexAI":
            document = google_answer(body)
        else:
            document, _ = openai_answer(body, "said")
        reply = json_reply(document, encoding=encoding)
        return Reply(headers=(*reply.headers, *headers), pieces=reply.pieces)

    return answer


@pytest.fixture(scope="module")
def upstreams(start_upstream):
    return {schema: start_upstream(schema.lower()) for schema in ACCEPTS}


@pytest.fixture(autouse=True)
def _providers(upstreams):
    for schema, upstream in upstreams.items():
        upstream.always(provider(schema))


@pytest.fixture(scope="module")
def stack(start_stack, upstreams):
    where = route(
        *(rule_of(place(upstreams[schema], BY_SCHEMA[schema]), model=model) for model, (schema, _) in MODELS.items())
    )
    entries = [
        configured(
            where.backend_name(index, 0),
            BY_SCHEMA[schema],
            model=named,
            **(OWN_ONLY if model == "no-credential" else {}),
        )
        for index, (model, (schema, named)) in enumerate(MODELS.items())
    ]
    return start_stack(
        routes=[where],
        config=filter_config(*entries, globalLLMRequestCosts=COSTS),
        cost_keys=[rule["metadataKey"] for rule in COSTS],
    )


@pytest.fixture(scope="module")
def client(stack):
    with openai.OpenAI(base_url=f"{stack.base_url}/v1", api_key="of-the-client", max_retries=0, timeout=30) as made:
        yield made


@pytest.fixture(scope="module")
def plain(stack):
    with connect(stack) as made:
        yield made


@pytest.fixture
def ask(client, stack):
    """``ask(model, input, **fields)``: what the SDK has read, and what Envoy has metered."""

    def ask(model, given, **fields):
        request_id = new_id("embeddings")
        read = client.embeddings.create(model=model, input=given, extra_headers={"x-request-id": request_id}, **fields)
        return read, stack.access_log.wait_for(request_id)["costs"]

    return ask


@pytest.fixture
def ask_in_vain(client, stack):
    """``ask_in_vain(model, error)``: the error that the SDK has raised, and what Envoy has metered."""

    def ask(model, error):
        request_id = new_id("in-vain")
        with pytest.raises(error) as told:
            client.embeddings.create(model=model, input="a", extra_headers={"x-request-id": request_id})
        return told.value, stack.access_log.wait_for(request_id)["costs"]

    return ask


def charged(spent):
    return {"input": spent, "output": 0, "total": spent}


def metered(costs):
    return {name: count or 0 for name, count in costs.items()}


# --- what is embedded ---


@ON_EVERY_MODEL
@pytest.mark.parametrize("asked", [{}, {"encoding_format": "float"}], ids=["as the SDK asks", "as numbers"])
def test_a_text(ask, upstreams, model, asked):
    read, costs = ask(model, "three words here", **asked)

    assert read.data[0].embedding == near("three words here")
    assert (read.usage.prompt_tokens, read.usage.total_tokens) == (3, 3)
    assert metered(costs) == charged(3)
    assert read.model == ("said" if model in ("openai", "azure") else MODELS[model][1])
    assert len(upstreams[MODELS[model][0]].requests) == 1


@ON_EVERY_MODEL
def test_base64_for_a_client_that_decodes_it_itself(ask, model):
    read, _ = ask(model, "a b", encoding_format="base64")

    assert list(struct.unpack("<3f", base64.b64decode(read.data[0].embedding))) == near("a b")


@pytest.mark.parametrize("model", IN_BATCHES)
def test_a_batch(ask, model):
    texts = ["one", "one two", "", "one two three"]
    read, costs = ask(model, texts)

    assert [each.embedding for each in read.data] == [near(text) for text in texts]
    assert [each.index for each in read.data] == [0, 1, 2, 3]
    assert metered(costs) == charged(6)


@pytest.mark.parametrize("model", ["titan", "gemini"])
def test_a_batch_where_there_is_none(client, upstreams, model):
    with pytest.raises(openai.UnprocessableEntityError, match="does not support batch embeddings") as refused:
        client.embeddings.create(model=model, input=["a", "b"])

    assert refused.value.body["type"] == "UnprocessableEntity"
    assert upstreams[MODELS[model][0]].requests == []


@pytest.mark.parametrize("encoding", ["gzip", "br"])
@ON_EVERY_MODEL
def test_a_compressed_answer(ask, upstreams, model, encoding):
    schema = MODELS[model][0]
    upstreams[schema].always(provider(schema, encoding=encoding))

    read, costs = ask(model, "a b")

    assert read.data[0].embedding == near("a b")
    assert metered(costs) == charged(2)


DIMENSIONS = {
    "openai": b'"dimensions":256',
    "titan": b'"dimensions":256',
    "cohere-4": b'"output_dimension":256',
    "vertex": b'"parameters":{"outputDimensionality":256}',
    "gemini": b'"embedContentConfig":{"outputDimensionality":256}',
}


@pytest.mark.parametrize("model", DIMENSIONS)
def test_dimensions(ask, upstreams, model):
    ask(model, "a", dimensions=256)

    assert DIMENSIONS[model] in upstreams[MODELS[model][0]].last.body


def test_purposes_reach_cohere(ask, upstreams):
    ask("cohere-4", "a", extra_body={"task_type": "RETRIEVAL_QUERY", "auto_truncate": True})

    sent = upstreams["AWSBedrock"].last.json()
    assert (sent["input_type"], sent["truncate"]) == ("search_query", "RIGHT")


def test_a_conversation_with_an_image(plain, upstreams):
    parts = [
        {"type": "text", "text": "two words"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png?x=1"}},
    ]
    response = plain.post(EMBEDDINGS, json={"model": "gemini", "messages": [{"role": "user", "content": parts}]})

    assert response.json()["data"][0]["embedding"] == near("two words")
    assert upstreams["GCPVertexAI"].last.json()["content"]["parts"][1]["fileData"]["mimeType"] == "image/png"


def test_a_large_answer(ask, upstreams):
    """Beyond the 4 MiB that gRPC allows of its own accord."""
    values = [0.12345678901234567] * 1536
    upstreams["GCPVertexAI"].reply(json_reply(predict_answer(*[values] * 200)))

    read, costs = ask("vertex", ["a"] * 200, encoding_format="float")

    assert len(read.data) == 200
    assert read.data[199].embedding == values
    assert metered(costs) == charged(600)


# --- where it goes ---


PATHS = {
    "openai": "/v1/embeddings?beta=1",
    "azure": f"/openai/deployments/embedding%20deployment/embeddings?{AZURE_QUERY}&beta=1",
    "titan": "/model/amazon.titan-embed-text-v2:0/invoke",
    "cohere-4": f"/model/{MODELS['cohere-4'][1].replace('/', '%2F')}/invoke",
    "vertex": f"{PROJECT}publishers/google/models/text-embedding-005:predict",
    "gemini": f"{PROJECT}publishers/google/models/gemini-embedding-2-preview:embedContent",
}


@pytest.mark.parametrize("model", PATHS)
def test_the_path_is_the_providers_and_only_its_own_api_gets_the_query(ask, upstreams, model):
    ask(model, "a", extra_query={"beta": "1"})

    assert upstreams[MODELS[model][0]].last.target == PATHS[model]


# --- errors ---


KINDS = {
    "AWSBedrock": {401: "ValidationException", 404: "UnknownOperationException", 429: "ThrottlingException"},
    "GCPVertexAI": {401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"},
}
REFUSALS = {401: openai.AuthenticationError, 404: openai.NotFoundError, 429: openai.RateLimitError}


@ON_EVERY_MODEL
@pytest.mark.parametrize("status", REFUSALS)
def test_an_error_of_the_provider(ask_in_vain, upstreams, model, status):
    schema = MODELS[model][0]
    upstreams[schema].reply(error_of(schema, status, 'the provider says "no"'))

    told, costs = ask_in_vain(model, REFUSALS[status])

    assert told.body["message"] == 'the provider says "no"'
    if schema in ("AWSBedrock", "GCPVertexAI"):
        assert told.code == str(status)
        assert told.type == KINDS[schema][status]
    assert metered(costs) == charged(0)


@ON_EVERY_MODEL
def test_a_page_instead_of_an_error(client, upstreams, model):
    page = b'<h1>no "upstream"</h1>'
    upstreams[MODELS[model][0]].reply(body_reply(page, status=503, content_type="text/html", encoding="gzip"))

    with pytest.raises(openai.InternalServerError) as told:
        client.embeddings.create(model=model, input="a")

    assert told.value.body["message"] == page.decode()
    assert told.value.body["type"].endswith("BackendError")


@pytest.mark.parametrize("model", TRANSLATED)
@pytest.mark.parametrize("body", [b"", b"not json", b'{"embedding":["x"],"predictions":[null],"embeddings":null}'])
def test_an_answer_that_is_none(client, upstreams, model, body):
    upstreams[MODELS[model][0]].reply(body_reply(body))

    with pytest.raises(openai.InternalServerError, match="the backend's answer cannot be read") as told:
        client.embeddings.create(model=model, input="a")

    assert (told.value.status_code, told.value.type) == (502, "BadGateway")


def test_a_request_without_its_credential(client, upstreams):
    with pytest.raises(openai.AuthenticationError, match="missing upstream credential") as told:
        client.embeddings.create(model="no-credential", input="a")

    assert told.value.type == "Unauthorized"
    assert upstreams["AWSBedrock"].requests == []


def test_a_model_that_embeds_nothing(client, upstreams):
    model = "amazon.nova-2-multimodal-embeddings-v1:0"
    with pytest.raises(openai.UnprocessableEntityError, match=f"model {model} has no embeddings"):
        client.embeddings.create(model=model, input="a")

    assert upstreams["AWSBedrock"].requests == []


BAD = {
    "a number": ({"input": 1}, "invalid input type (must be string, object, or array)"),
    "both": ({"input": "a", "messages": []}, "must have either 'input' or 'messages', not both"),
    "mixed": ({"input": ["a", 1]}, "cannot unmarshal input as array of strings"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_answered_at_once(plain, upstreams, name):
    fields, message = BAD[name]
    response = plain.post(EMBEDDINGS, json={"model": "openai", **fields})

    assert response.status_code == 400
    assert message in response.json()["error"]["message"]
    assert upstreams["OpenAI"].requests == []


# --- the peer's own cases (contract, endpoints 18) ---

LIST = (
    b'{"object":"list","data":[{"object":"embedding","embedding":[0.1, 0.20],"index":0}],'
    b'"usage":{"prompt_tokens":4,"total_tokens":4}}'
)
INVALID = b'{"error": {"message": "Input cannot be empty", "type": "invalid_request_error"}}'


@pytest.mark.parametrize("encoding", [None, "gzip"])
@pytest.mark.parametrize("model", ["openai", "text-embedding-ada-002"])
def test_an_answer_of_the_clients_api_keeps_its_bytes(plain, upstreams, model, encoding):
    schema = MODELS[model][0]
    upstreams[schema].reply(body_reply(LIST, encoding=encoding))

    response = plain.post(EMBEDDINGS, json={"model": model, "input": "The food was delicious"})

    assert response.content == LIST
    path = f"/openai/deployments/{model}/embeddings?{AZURE_QUERY}" if schema == "AzureOpenAI" else "/v1/embeddings"
    assert upstreams[schema].last.target == path


@pytest.mark.parametrize("model", ["openai", "text-embedding-ada-002"])
def test_an_error_of_the_clients_api_keeps_its_bytes(plain, upstreams, model):
    upstreams[MODELS[model][0]].reply(body_reply(INVALID, status=400))

    response = plain.post(EMBEDDINGS, json={"model": model, "input": ""})

    assert (response.status_code, response.content) == (400, INVALID)


def prediction(*values, tokens):
    return {"embeddings": {"values": list(values), "statistics": {"token_count": tokens, "truncated": False}}}


def listed(*vectors, tokens, model="text-embedding-004"):
    return {
        "object": "list",
        "data": [{"object": "embedding", "embedding": vector, "index": index} for index, vector in enumerate(vectors)],
        "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


DOCUMENT = {"content": "A document", "task_type": "RETRIEVAL_DOCUMENT", "title": "Its title"}
DOCUMENT_AT_GOOGLE = b'{"content":"A document","task_type":"RETRIEVAL_DOCUMENT","title":"Its title"}'
QUERY_AT_GOOGLE = b'{"content":"A query","task_type":"RETRIEVAL_QUERY"}'
QUERY = {"content": "A query", "task_type": "RETRIEVAL_QUERY"}
ROWS = {
    # request, body at Google, predictions, what the client gets
    "a string": (
        {"input": "This is a test"},
        b'{"instances":[{"content":"This is a test"}],"parameters":{}}',
        [prediction(0.5, 1.0, 1.5, tokens=5)],
        listed([0.5, 1.0, 1.5], tokens=5),
    ),
    "an item": (
        {"input": DOCUMENT},
        b'{"instances":[' + DOCUMENT_AT_GOOGLE + b'],"parameters":{}}',
        [prediction(0.5, tokens=7)],
        listed([0.5], tokens=7),
    ),
    "three strings": (
        {"input": ["a", "b", "c"]},
        b'{"instances":[{"content":"a"},{"content":"b"},{"content":"c"}],"parameters":{}}',
        [prediction(0.1, tokens=2), prediction(0.2, tokens=2), prediction(0.3, tokens=2)],
        listed([0.1], [0.2], [0.3], tokens=6),
    ),
    "two items": (
        {"input": [QUERY, DOCUMENT]},
        b'{"instances":[{"content":"A query","task_type":"RETRIEVAL_QUERY"},'
        + DOCUMENT_AT_GOOGLE
        + b'],"parameters":{}}',
        [prediction(0.1, tokens=4), prediction(0.2, tokens=5)],
        listed([0.1], [0.2], tokens=9),
    ),
    "dimensions": (
        {"input": "a", "dimensions": 256},
        b'{"instances":[{"content":"a"}],"parameters":{"outputDimensionality":256}}',
        [prediction(0.1, tokens=1)],
        listed([0.1], tokens=1),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_peers_cases_at_vertex(plain, upstreams, name):
    request, body, predictions, expected = ROWS[name]
    upstreams["GCPVertexAI"].reply(json_reply({"predictions": predictions}))

    response = plain.post(EMBEDDINGS, json={"model": "text-embedding-004", **request})

    received = upstreams["GCPVertexAI"].last
    assert received.target == f"{PROJECT}publishers/google/models/text-embedding-004:predict"
    assert received.header("authorization") == "Bearer ya29.demo-0004"
    assert received.body == body
    assert response.json() == expected


def test_the_peers_case_of_an_error_at_vertex(plain, upstreams):
    fault = {"error": {"code": 400, "message": "Invalid embedding request", "status": "INVALID_ARGUMENT"}}
    upstreams["GCPVertexAI"].reply(json_reply(fault, status=400))

    response = plain.post(EMBEDDINGS, json={"model": "text-embedding-004", "input": ""})

    assert upstreams["GCPVertexAI"].last.body == b'{"instances":[{"content":""}],"parameters":{}}'
    assert response.status_code == 400
    assert response.json() == {
        "type": "error",
        "error": {"code": "400", "message": "Invalid embedding request", "type": "INVALID_ARGUMENT"},
    }
