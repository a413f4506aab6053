"""What is sent for a request for embeddings, or why nothing is (contract, embeddings 10.2 to 10.5 and 17.9)."""

from __future__ import annotations

import json

import pytest

from extproc.errors import MalformedRequest, UnprocessableRequest
from tests.support.embeddings import ACCEPTS
from tests.unit.translate.embeddings.attempts import (
    COHERE,
    COHERE_3,
    EMBED_CONTENT,
    EVERY_MODEL,
    PREDICT,
    TITAN,
    attempt,
    attempt_bytes,
    sent,
)

PROFILE = "arn:aws:bedrock:us-east-1:111122223333:inference-profile/us.cohere.embed-v4:0"
OPAQUE = "arn:aws:bedrock:us-east-1:111122223333:application-inference-profile/a1b2c3"
PROVISIONED = "arn:aws:bedrock:us-east-1:111122223333:provisioned-model/x9"
GOOGLE = "publishers/google/models"

PATHS = {
    # schema, model, override: path
    "Titan 1": ("AWSBedrock", "amazon.titan-embed-text-v1", "", "/model/amazon.titan-embed-text-v1/invoke"),
    "Titan 2": ("AWSBedrock", TITAN, "", f"/model/{TITAN}/invoke"),
    "an override counts": ("AWSBedrock", "small", TITAN, f"/model/{TITAN}/invoke"),
    "a name is escaped": ("AWSBedrock", f"{TITAN} a/b?", "", f"/model/{TITAN}%20a%2Fb%3F/invoke"),
    "an ARN is one segment": ("AWSBedrock", "m", PROFILE, f"/model/{PROFILE.replace('/', '%2F')}/invoke"),
    "a region's Cohere": ("AWSBedrock", "global.cohere.embed-v4:0", "", "/model/global.cohere.embed-v4:0/invoke"),
    "text-embedding": ("GCPVertexAI", "text-embedding-004", "", f"{GOOGLE}/text-embedding-004:predict"),
    "multilingual": (
        "GCPVertexAI",
        "text-multilingual-embedding-002",
        "",
        f"{GOOGLE}/text-multilingual-embedding-002:predict",
    ),
    "some other": ("GCPVertexAI", "some-maas-model", "", f"{GOOGLE}/some-maas-model:predict"),
    "the first Gemini": ("GCPVertexAI", "gemini-embedding-001", "", f"{GOOGLE}/gemini-embedding-001:predict"),
    "the first Gemini, in full": (
        "GCPVertexAI",
        f"{GOOGLE}/gemini-embedding-001",
        "",
        f"{GOOGLE}/gemini-embedding-001:predict",
    ),
    "Gemini 2": ("GCPVertexAI", "gemini-embedding-2-preview", "", f"{GOOGLE}/gemini-embedding-2-preview:embedContent"),
    "Gemini 2, dated": (
        "GCPVertexAI",
        "gemini-embedding-2-preview-0514",
        "",
        f"{GOOGLE}/gemini-embedding-2-preview-0514:embedContent",
    ),
    "an experiment": (
        "GCPVertexAI",
        "gemini-embedding-exp-03-07",
        "",
        f"{GOOGLE}/gemini-embedding-exp-03-07:embedContent",
    ),
    "a Google override": ("GCPVertexAI", "small", "gemini-embedding-2", f"{GOOGLE}/gemini-embedding-2:embedContent"),
    "a Google name is escaped": ("GCPVertexAI", "m", "a b/../c?", f"{GOOGLE}/a%20b%2F..%2Fc%3F:predict"),
}


@pytest.mark.parametrize("name", PATHS)
def test_the_path_names_model_and_method(name):
    schema, model, override, expected = PATHS[name]
    _, path, body = attempt(model, schema=schema, override=override, query="api-version=1&x", input="x")
    assert path == expected
    ACCEPTS[schema](path, body)


TEXTS = {"input": ["a"]}
IN = {"input": "a"}
BODIES = {
    # model, request: body
    "Titan, a string": (TITAN, IN, {"inputText": "a"}),
    "Titan, a list of one": (TITAN, TEXTS, {"inputText": "a"}),
    "Titan, an empty text is the provider's to judge": (TITAN, {"input": ""}, {"inputText": ""}),
    "Titan, dimensions": (TITAN, IN | {"dimensions": 256}, {"inputText": "a", "dimensions": 256}),
    "Titan, dimensions of 0": (TITAN, IN | {"dimensions": 0}, {"inputText": "a", "dimensions": 0}),
    "Titan, a null": (TITAN, IN | {"dimensions": None, "encoding_format": None}, {"inputText": "a"}),
    "Titan, what it does not know": (
        TITAN,
        IN | {"user": "u", "task_type": "CLUSTERING", "title": "t"},
        {"inputText": "a"},
    ),
    "Titan with images": ("amazon.titan-embed-image-v1", IN, {"inputText": "a"}),
    "Titan with images, dimensions": (
        "amazon.titan-embed-image-v1",
        IN | {"dimensions": 384},
        {"inputText": "a", "embeddingConfig": {"outputEmbeddingLength": 384}},
    ),
    "Cohere, a string": (COHERE, IN, {"texts": ["a"], "input_type": "search_document", "embedding_types": ["float"]}),
    "Cohere, dimensions of 0 are its own": (
        COHERE_3,
        IN | {"dimensions": 0},
        {"texts": ["a"], "input_type": "search_document", "embedding_types": ["float"]},
    ),
    "predict, a string": (PREDICT, IN, {"instances": [{"content": "a"}], "parameters": {}}),
    "predict, strings": (
        PREDICT,
        {"input": ["a", ""]},
        {"instances": [{"content": "a"}, {"content": ""}], "parameters": {}},
    ),
    "predict, an item": (
        PREDICT,
        {"input": {"content": "a", "task_type": "RETRIEVAL_DOCUMENT", "title": "T"}},
        {"instances": [{"content": "a", "task_type": "RETRIEVAL_DOCUMENT", "title": "T"}], "parameters": {}},
    ),
    "predict, a title where there are none": (
        PREDICT,
        {"input": {"content": "a", "task_type": "SEMANTIC_SIMILARITY", "title": "T"}},
        {"instances": [{"content": "a", "task_type": "SEMANTIC_SIMILARITY"}], "parameters": {}},
    ),
    "predict, a title without a task": (
        PREDICT,
        IN | {"title": "T"},
        {"instances": [{"content": "a"}], "parameters": {}},
    ),
    "predict, the request's task and title win": (
        PREDICT,
        {
            "input": [{"content": "a", "task_type": "CLUSTERING"}, {"content": "b", "title": "mine"}],
            "task_type": "RETRIEVAL_DOCUMENT",
            "title": "T",
        },
        {
            "instances": [
                {"content": "a", "task_type": "RETRIEVAL_DOCUMENT", "title": "T"},
                {"content": "b", "task_type": "RETRIEVAL_DOCUMENT", "title": "T"},
            ],
            "parameters": {},
        },
    ),
    "predict, the request's task is not for titles": (
        PREDICT,
        {"input": {"content": "a", "task_type": "RETRIEVAL_DOCUMENT", "title": "T"}, "task_type": "CLUSTERING"},
        {"instances": [{"content": "a", "task_type": "CLUSTERING"}], "parameters": {}},
    ),
    "predict, an empty title": (
        PREDICT,
        {"input": {"content": "a", "task_type": "RETRIEVAL_DOCUMENT", "title": ""}},
        {"instances": [{"content": "a", "task_type": "RETRIEVAL_DOCUMENT"}], "parameters": {}},
    ),
    "predict, a task that is new": (
        PREDICT,
        IN | {"task_type": "NEW"},
        {"instances": [{"content": "a", "task_type": "NEW"}], "parameters": {}},
    ),
    "predict, truncated": (
        PREDICT,
        IN | {"auto_truncate": True},
        {"instances": [{"content": "a"}], "parameters": {"autoTruncate": True}},
    ),
    "predict, not truncated": (
        PREDICT,
        IN | {"auto_truncate": False},
        {"instances": [{"content": "a"}], "parameters": {"autoTruncate": False}},
    ),
    "predict, dimensions": (
        PREDICT,
        IN | {"dimensions": 64},
        {"instances": [{"content": "a"}], "parameters": {"outputDimensionality": 64}},
    ),
    "predict, dimensions of 0": (PREDICT, IN | {"dimensions": 0}, {"instances": [{"content": "a"}], "parameters": {}}),
    "predict, the rest": (
        PREDICT,
        IN | {"user": "u", "encoding_format": "float", "new": 1},
        {"instances": [{"content": "a"}], "parameters": {}},
    ),
    "embedContent, a string": (EMBED_CONTENT, IN, {"content": {"parts": [{"text": "a"}]}}),
    "embedContent, a list of one": (EMBED_CONTENT, TEXTS, {"content": {"parts": [{"text": "a"}]}}),
    "embedContent, options": (
        EMBED_CONTENT,
        IN | {"task_type": "RETRIEVAL_DOCUMENT", "title": "T", "dimensions": 3, "auto_truncate": False},
        {
            "content": {"parts": [{"text": "a"}]},
            "embedContentConfig": {
                "taskType": "RETRIEVAL_DOCUMENT",
                "title": "T",
                "outputDimensionality": 3,
                "autoTruncate": False,
            },
        },
    ),
    "embedContent, a title without its task": (
        EMBED_CONTENT,
        IN | {"task_type": "CLUSTERING", "title": "T"},
        {"content": {"parts": [{"text": "a"}]}, "embedContentConfig": {"taskType": "CLUSTERING"}},
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_the_body_is_what_the_provider_takes(name):
    model, request, expected = BODIES[name]
    schema = "AWSBedrock" if model.startswith("amazon") else ""
    assert json.dumps(sent(model, schema=schema, **request)) == json.dumps(expected)


PURPOSES = {
    "nothing is said": ({}, "search_document"),
    "a document": ({"task_type": "RETRIEVAL_DOCUMENT"}, "search_document"),
    "a query": ({"task_type": "RETRIEVAL_QUERY"}, "search_query"),
    "a query for code": ({"task_type": "CODE_RETRIEVAL_QUERY"}, "search_query"),
    "a question": ({"task_type": "QUESTION_ANSWERING"}, "search_query"),
    "a claim": ({"task_type": "FACT_VERIFICATION"}, "search_query"),
    "classification": ({"task_type": "CLASSIFICATION"}, "classification"),
    "clustering": ({"task_type": "CLUSTERING"}, "clustering"),
    "similarity": ({"task_type": "SEMANTIC_SIMILARITY"}, "search_document"),
    "in Cohere's words": ({"task_type": "search_query"}, "search_query"),
    "Cohere's member": ({"input_type": "clustering"}, "clustering"),
    "Cohere's member wins": ({"input_type": "clustering", "task_type": "RETRIEVAL_QUERY"}, "clustering"),
    "of an item": ({"input": [{"content": "a", "task_type": "RETRIEVAL_QUERY"}]}, "search_query"),
    "of items that agree": (
        {"input": [{"content": "a", "task_type": "QUESTION_ANSWERING"}, {"content": "b", "task_type": "search_query"}]},
        "search_query",
    ),
    "the request's wins": ({"input": {"content": "a", "task_type": "x"}, "task_type": "CLUSTERING"}, "clustering"),
}


@pytest.mark.parametrize("name", PURPOSES)
def test_cohere_is_told_the_purpose(name):
    request, expected = PURPOSES[name]
    assert sent(COHERE, **({"input": "a"} | request))["input_type"] == expected


TRUNCATED = {
    "version 3, cut": (COHERE_3, True, "END"),
    "version 3, not cut": (COHERE_3, False, "NONE"),
    "version 4, cut": (COHERE, True, "RIGHT"),
    "version 4, not cut": (COHERE, False, "NONE"),
    "left to the provider": (COHERE, None, None),
}


@pytest.mark.parametrize("name", TRUNCATED)
def test_cohere_is_told_whether_to_cut(name):
    model, auto, expected = TRUNCATED[name]
    assert sent(model, input="a", auto_truncate=auto).get("truncate") == expected


def test_cohere_takes_a_batch_and_dimensions():
    body = sent(COHERE, input=[str(number) for number in range(96)], dimensions=256)
    assert len(body["texts"]) == 96
    assert body["output_dimension"] == 256


FAMILIES = {
    "an ARN that says it": ("m", PROFILE, "texts"),
    "an opaque one, and the client says it": ("cohere.embed-v4:0", OPAQUE, "texts"),
    "an opaque one that nobody knows": ("small", OPAQUE, "inputText"),
    "provisioned throughput": ("small", PROVISIONED, "inputText"),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_name_of_a_model_tells_its_family(name):
    model, override, member = FAMILIES[name]
    _, _, body = attempt(model, schema="AWSBedrock", override=override, input="x")
    assert member in json.loads(body)


def test_an_opaque_name_keeps_the_version_that_the_client_says():
    _, _, body = attempt("cohere.embed-english-v3", schema="AWSBedrock", override=OPAQUE, input="x", auto_truncate=True)
    assert json.loads(body)["truncate"] == "END"


USER = {"role": "user", "content": "A"}
AUDIO = {"type": "input_audio", "input_audio": {"data": "AAEC", "format": "wav"}}
FILE = {"type": "file", "file": {"file_data": "AAEC"}}
VIDEO = {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}}


def image(url, **more):
    return {"type": "image_url", "image_url": {"url": url, **more}}


def said(*parts):
    return {"messages": [{"role": "user", "content": list(parts)}]}


PARTS = {
    "a text": ({"messages": [USER]}, [{"text": "A"}]),
    "two messages": ({"messages": [USER, {"role": "user", "content": "B"}]}, [{"text": "A"}, {"text": "B"}]),
    "others are skipped": (
        {"messages": [{"role": "system", "content": "s"}, {"role": "assistant", "content": "a"}, USER]},
        [{"text": "A"}],
    ),
    "empty texts are skipped": ({"messages": [{"role": "user", "content": ""}, USER]}, [{"text": "A"}]),
    "an image at an address": (
        said(image("https://example.com/a.png")),
        [{"fileData": {"fileUri": "https://example.com/a.png", "mimeType": "image/png"}}],
    ),
    "a query is no name": (
        said(image("https://example.com/a.png?x=1.gif")),
        [{"fileData": {"fileUri": "https://example.com/a.png?x=1.gif", "mimeType": "image/png"}}],
    ),
    "a name without an extension": (
        said(image("gs://bucket/a")),
        [{"fileData": {"fileUri": "gs://bucket/a", "mimeType": "image/jpeg"}}],
    ),
    "an image inline": (
        said({"type": "text", "text": "B"}, image("data:image/png;base64,AAEC")),
        [{"text": "B"}, {"inlineData": {"data": "AAEC", "mimeType": "image/png"}}],
    ),
    "an empty address is skipped": (said(image(""), {"type": "text", "text": "B"}), [{"text": "B"}]),
    "detail means nothing to this model": (
        said(image("data:image/png;base64,AAEC", detail="high")),
        [{"inlineData": {"data": "AAEC", "mimeType": "image/png"}}],
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_messages_become_one_content(name):
    request, expected = PARTS[name]
    assert sent(EMBED_CONTENT, **request) == {"content": {"parts": expected}}


def test_detail_is_told_to_a_model_that_has_it():
    body = sent("gemini-3-embedding", **said(image("data:image/png;base64,AAEC", detail="low")))
    assert body["content"]["parts"][0]["mediaResolution"] == {"level": "MEDIA_RESOLUTION_LOW"}


ITEMS = {"input": [{"content": "a", "task_type": "CLUSTERING"}]}
REFUSED = {
    # model, request: what the client is told
    "Titan, messages": (
        TITAN,
        {"messages": [USER]},
        "AWS Bedrock Titan requires an input-based embedding request (messages not supported)",
    ),
    "Titan, null messages": (TITAN, {"messages": None}, "(messages not supported)"),
    "Titan, a batch": (
        TITAN,
        {"input": ["a", "b"]},
        "AWS Bedrock Titan does not support batch embeddings (got 2 inputs)",
    ),
    "Titan, an empty list": (TITAN, {"input": []}, "does not support batch embeddings (got 0 inputs)"),
    "Titan, tokens": (TITAN, {"input": [1]}, "unsupported input type: array of tokens"),
    "Titan, lists of tokens": (TITAN, {"input": [[1], [2]]}, "unsupported input type: array of token arrays"),
    "Titan, an item": (TITAN, {"input": {"content": "a"}}, "unsupported input type: object"),
    "Titan, nothing": (TITAN, {}, "unsupported input type: there is no input"),
    "Cohere, messages": (COHERE, {"messages": [USER]}, "messages are not supported"),
    "Cohere, an empty list": (COHERE, {"input": []}, "input must not be empty"),
    "Cohere, tokens": (
        COHERE,
        {"input": [1, 2]},
        "input must be texts for Cohere models on AWSBedrock backends, not an array of tokens",
    ),
    "Cohere, nothing": (COHERE, {}, "input is required"),
    "Cohere, too many": (
        COHERE,
        {"input": ["a"] * 97},
        "input has 97 texts; Cohere models on AWSBedrock backends take up to 96",
    ),
    "Cohere, dimensions of version 3": (
        COHERE_3,
        IN | {"dimensions": 256},
        f"dimensions cannot be chosen for model {COHERE_3}",
    ),
    "Cohere, negative dimensions": (COHERE, IN | {"dimensions": -1}, "dimensions must be positive, not -1"),
    "Cohere, an unknown task": (COHERE, IN | {"task_type": "DANCE"}, "task_type DANCE is not known to Cohere models"),
    "Cohere, an unknown type": (COHERE, IN | {"input_type": "image"}, "input_type must be one of search_document"),
    "Cohere, tasks that differ": (
        COHERE,
        {"input": [{"content": "a", "task_type": "RETRIEVAL_QUERY"}, {"content": "b"}]},
        "input has different task types, Cohere models take one for all: search_document, search_query",
    ),
    "predict, messages": (
        PREDICT,
        {"messages": [USER]},
        f"model {PREDICT} does not support multimodal embedding via messages",
    ),
    "predict, an empty list": (PREDICT, {"input": []}, "input must not be empty"),
    "predict, tokens": (
        PREDICT,
        {"input": [1]},
        "unsupported input type for embedding: array of tokens (supported: string, array of strings, ",
    ),
    "predict, nothing": (PREDICT, {}, "input is required"),
    "predict, negative dimensions": (PREDICT, IN | {"dimensions": -5}, "dimensions must be positive, not -5"),
    "embedContent, a batch": (
        EMBED_CONTENT,
        {"input": ["a", "b"]},
        f"model {EMBED_CONTENT} does not support batch embeddings; send one input per request",
    ),
    "embedContent, an empty list": (EMBED_CONTENT, {"input": []}, "input must not be empty"),
    "embedContent, items": (
        EMBED_CONTENT,
        ITEMS,
        "object input with per-item task_type/title is not supported for this model",
    ),
    "embedContent, tokens": (
        EMBED_CONTENT,
        {"input": [[1]]},
        "unsupported input type for embedding: array of token arrays",
    ),
    "embedContent, nothing": (EMBED_CONTENT, {}, "input is required"),
    "embedContent, no messages": (EMBED_CONTENT, {"messages": []}, "no user messages found in embedding request"),
    "embedContent, null messages": (EMBED_CONTENT, {"messages": None}, "no user messages found"),
    "embedContent, no user": (
        EMBED_CONTENT,
        {"messages": [{"role": "system", "content": "s"}]},
        "no user messages found",
    ),
    "embedContent, an empty user": (
        EMBED_CONTENT,
        {"messages": [{"role": "user", "content": ""}]},
        "no user messages found",
    ),
    "embedContent, a user without content": (
        EMBED_CONTENT,
        {"messages": [{"role": "user"}]},
        "messages[0]: message 'content' must be",
    ),
    "embedContent, sound": (EMBED_CONTENT, said(AUDIO), "messages[0].content[0]: audio content not supported yet"),
    "embedContent, a file": (EMBED_CONTENT, said(FILE), "file content not supported yet"),
    "embedContent, a video": (EMBED_CONTENT, said(VIDEO), "video content not supported yet"),
    "embedContent, a bad address": (
        EMBED_CONTENT,
        said(image("http://[")),
        "messages[0].content[0].image_url.url: invalid image URL",
    ),
    "embedContent, a bad data URI": (EMBED_CONTENT, said(image("data:image/png;base64,!")), "invalid image data URI"),
    "embedContent, a detail that is none": (
        "gemini-3-embedding",
        said(image("data:image/png;base64,AAEC", detail="ultra")),
        "invalid detail ultra",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_said_is_refused(name):
    model, request, message = REFUSED[name]
    with pytest.raises(UnprocessableRequest) as refused:
        attempt(model, **request)
    assert str(refused.value).startswith("invalid request body: ")
    assert message in str(refused.value)


@pytest.mark.parametrize("model", EVERY_MODEL)
def test_an_unknown_encoding_is_refused(model):
    with pytest.raises(UnprocessableRequest, match="encoding_format must be float or base64, not int8"):
        attempt(model, input="x", encoding_format="int8")


@pytest.mark.parametrize("schema", ["AWSBedrock", "GCPVertexAI", "AzureOpenAI"])
def test_a_model_is_required(schema):
    with pytest.raises(UnprocessableRequest, match="model is required"):
        attempt_bytes(b'{"input":"x"}', schema=schema)


@pytest.mark.parametrize(
    "model", ["anthropic.claude-3", "amazon.nova-embed", "cohere.command-r", "titan", "x", "..", "arn:aws:x"]
)
def test_a_model_on_bedrock_that_embeds_nothing_is_named(model):
    with pytest.raises(UnprocessableRequest) as refused:
        attempt(model, schema="AWSBedrock", input="x")
    assert f"model {model} has no embeddings on AWSBedrock backends" in str(refused.value)


MISTYPED = {
    "dimensions": {"dimensions": "256"},
    "encoding_format": {"encoding_format": 1},
    "task_type": {"task_type": ["x"]},
    "auto_truncate": {"auto_truncate": "yes"},
    "messages": {"messages": "hello"},
}


@pytest.mark.parametrize("model", EVERY_MODEL)
@pytest.mark.parametrize("name", MISTYPED)
def test_a_member_of_another_type_is_the_clients_mistake(name, model):
    request = MISTYPED[name] if name == "messages" else {"input": "x", **MISTYPED[name]}
    with pytest.raises(MalformedRequest, match=r"failed to parse JSON for /v1/embeddings: .*\$\." + name):
        attempt(model, **request)
