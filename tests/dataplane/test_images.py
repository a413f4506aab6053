"""Images through Envoy with the official SDK: generated and edited, as documents and as streams, and charged."""

from __future__ import annotations

import base64
import json

import httpx
import openai
import pytest

from tests.dataplane.harness.client import new_id
from tests.dataplane.harness.documents import backend, cost, filter_config, route, rule
from tests.dataplane.harness.replies import Gate, body_reply, json_reply, stream_reply
from tests.support.forms import read_parts
from tests.unit.translate.images.oracle import EDIT, GENERATION

AZURE = {"name": "AzureOpenAI", "version": "2025-04-01-preview"}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 400
USAGE = {
    "input_tokens": 40,
    "output_tokens": 60,
    "total_tokens": 100,
    "input_tokens_details": {"text_tokens": 10, "image_tokens": 30},
}
COSTS = {"in": 40, "out": 60, "total": 100}
NO_COSTS = dict.fromkeys(COSTS, 0)
IMAGE = {"created": 1_700_000_000, "data": [{"b64_json": base64.b64encode(PNG).decode()}], "usage": USAGE}
ABOUT = {
    "b64_json": base64.b64encode(PNG).decode(),
    "created_at": 1_700_000_000,
    "background": "opaque",
    "output_format": "png",
    "quality": "low",
    "size": "1024x1024",
}


@pytest.fixture(scope="module")
def upstream(start_upstream):
    return start_upstream("openai")


@pytest.fixture(scope="module")
def stack(start_stack, upstream):
    where = route(rule(upstream, models=["image"]))
    azure = route(rule(upstream, models=["azure-image"]), name="azure")
    return start_stack(
        routes=[where, azure],
        config=filter_config(
            backend(where.backend_name(0, 0), model="gpt-image-1", key="sk"),
            backend(
                azure.backend_name(0, 0),
                model="my image",
                schema=AZURE,
                auth={"azureAPIKey": {"key": "azure-key"}},
            ),
            globalLLMRequestCosts=[cost("in", "InputToken"), cost("out", "OutputToken"), cost("total")],
        ),
        cost_keys=list(COSTS),
    )


@pytest.fixture(scope="module")
def sdk(stack):
    with openai.OpenAI(base_url=f"{stack.base_url}/v1", api_key="sk-client", max_retries=0, timeout=30) as client:
        yield client


@pytest.fixture
def charged(stack):
    """A header with an id, and what the request that carries it has cost."""
    request_id = new_id("images")
    return {"x-request-id": request_id}, lambda: stack.access_log.wait_for(request_id)["costs"]


def event(kind, **members):
    document = {"type": kind, **ABOUT, **members}
    return f"event: {kind}\ndata: {json.dumps(document)}\n\n".encode()


def stream_of(api, *, piece=None):
    partial = event(f"{api}.partial_image", partial_image_index=0)
    return stream_reply(partial, event(f"{api}.completed", usage=USAGE), piece=piece)


@pytest.mark.parametrize("encoding", [None, "gzip"])
def test_an_image_is_generated(sdk, upstream, charged, encoding):
    headers, costs = charged
    upstream.reply(json_reply(IMAGE, encoding=encoding))

    answer = sdk.images.generate(model="image", prompt="a cat 🐈", size="1024x1024", extra_headers=headers)

    assert base64.b64decode(answer.data[0].b64_json) == PNG
    assert answer.usage.total_tokens == 100
    assert upstream.last.target == "/v1/images/generations"
    assert upstream.last.header("authorization") == "Bearer sk"
    assert upstream.last.json() == {"model": "gpt-image-1", "prompt": "a cat 🐈", "size": "1024x1024"}
    GENERATION.validate_python(upstream.last.json())
    assert costs() == COSTS


def test_usage_of_chat_is_charged_and_the_answer_stays(sdk, upstream, charged):
    headers, costs = charged
    usage = {"prompt_tokens": 8, "completion_tokens": 1056, "total_tokens": 1064}
    body = json.dumps({"created": 1, "data": [{"url": "https://images.test/1.png"}], "usage": usage}).encode()
    upstream.reply(body_reply(body))

    answer = sdk.images.with_raw_response.generate(model="image", prompt="a", quality="low", extra_headers=headers)

    assert answer.http_response.content == body
    assert costs() == {"in": 8, "out": 1056, "total": 1064}


@pytest.mark.parametrize("piece", [None, 1000, 7001])
def test_an_image_is_generated_as_a_stream(sdk, upstream, charged, piece):
    headers, costs = charged
    upstream.reply(stream_of("image_generation", piece=piece))

    events = list(
        sdk.images.generate(model="image", prompt="a cat", stream=True, partial_images=1, extra_headers=headers)
    )

    assert [each.type for each in events] == ["image_generation.partial_image", "image_generation.completed"]
    assert base64.b64decode(events[-1].b64_json) == PNG
    assert events[-1].usage.total_tokens == 100
    assert upstream.last.json()["stream"] is True
    GENERATION.validate_python(upstream.last.json())
    assert costs() == COSTS


def test_a_partial_image_is_there_before_the_whole_one(sdk, upstream):
    gate = Gate()
    upstream.reply(
        stream_reply(
            event("image_generation.partial_image", partial_image_index=0),
            gate,
            event("image_generation.completed", usage=USAGE),
        )
    )

    events = iter(sdk.images.generate(model="image", prompt="a cat", stream=True, partial_images=1))

    assert next(events).type == "image_generation.partial_image"
    gate.open()
    assert [each.type for each in events] == ["image_generation.completed"]


def test_images_are_edited_in_a_form(sdk, upstream, charged):
    headers, costs = charged
    upstream.reply(json_reply(IMAGE))

    answer = sdk.images.edit(
        model="image",
        image=[("a.png", PNG, "image/png"), ("größe.png", PNG[::-1], "image/png")],
        mask=("mask.png", PNG, "image/png"),
        prompt="a hat, schön",
        n=2,
        extra_headers=headers,
    )

    assert answer.usage.total_tokens == 100
    received = upstream.last
    assert received.target == "/v1/images/edits"
    arguments = EDIT.accept(received.body, received.header("content-type"))
    assert arguments == {
        "model": "gpt-image-1",
        "image": [PNG, PNG[::-1]],
        "mask": PNG,
        "prompt": "a hat, schön",
        "n": "2",
    }
    assert received.header("content-length") == str(len(received.body))
    assert costs() == COSTS


def test_an_edit_is_streamed(sdk, upstream, charged):
    headers, costs = charged
    upstream.reply(stream_of("image_edit", piece=5000))

    events = list(
        sdk.images.edit(model="image", image=("a.png", PNG), prompt="a hat", stream=True, extra_headers=headers)
    )

    assert [each.type for each in events] == ["image_edit.partial_image", "image_edit.completed"]
    arguments = EDIT.accept(upstream.last.body, upstream.last.header("content-type"))
    assert (arguments["model"], arguments["image"], arguments["stream"]) == ("gpt-image-1", PNG, "true")
    assert costs() == COSTS


def test_an_edit_in_json_is_one_as_well(stack, upstream, charged):
    headers, costs = charged
    upstream.reply(json_reply(IMAGE))
    request = {"model": "image", "prompt": "a hat", "images": [{"image_url": "https://images.test/a.png"}]}

    answer = httpx.post(f"{stack.base_url}/v1/images/edits", json=request, headers=headers, trust_env=False)

    assert answer.json() == IMAGE
    assert upstream.last.json() == {**request, "model": "gpt-image-1"}
    assert costs() == COSTS


def test_azure_has_images_below_a_deployment(sdk, upstream, charged):
    headers, costs = charged
    upstream.reply(json_reply(IMAGE), json_reply(IMAGE))

    sdk.images.generate(model="azure-image", prompt="a cat", extra_headers=headers)
    assert upstream.last.target == "/openai/deployments/my%20image/images/generations?api-version=2025-04-01-preview"
    assert upstream.last.header("api-key") == "azure-key"
    assert costs() == COSTS

    sdk.images.edit(model="azure-image", image=("a.png", PNG), prompt="a hat")
    assert upstream.last.target == "/openai/deployments/my%20image/images/edits?api-version=2025-04-01-preview"
    names = [
        part.get_param("name", header="content-disposition")
        for part in read_parts(upstream.last.body, upstream.last.header("content-type"))
    ]
    assert sorted(names) == ["image", "model", "prompt"]


def test_an_answer_of_null_passes(stack, upstream, charged):
    headers, costs = charged
    upstream.reply(body_reply(b"null"))
    request = {"model": "image", "prompt": "a cat"}

    answer = httpx.post(f"{stack.base_url}/v1/images/generations", json=request, headers=headers, trust_env=False)

    assert (answer.status_code, answer.content) == (200, b"null")
    assert costs() == NO_COSTS


def test_errors_are_those_of_the_sdk(sdk, upstream):
    upstream.reply(body_reply(b"backend timeout", status=503, content_type="text/plain"))
    with pytest.raises(openai.InternalServerError) as caught:
        sdk.images.generate(model="image", prompt="a cat")
    assert caught.value.response.json() == {
        "error": {"type": "OpenAIBackendError", "message": "backend timeout", "code": "503"},
        "type": "error",
    }

    refusal = {
        "error": {"message": "rejected", "type": "image_generation_user_error", "param": None, "code": "blocked"}
    }
    upstream.reply(json_reply(refusal, status=400))
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.images.edit(model="image", image=("a.png", PNG), prompt="a hat", stream=True)
    assert caught.value.response.json() == refusal

    first = event("image_generation.partial_image", partial_image_index=0)
    broken = b'event: error\ndata: {"type":"error","error":{"message":"blocked","type":"t","code":"c"}}\n\n'
    upstream.reply(stream_reply(first, broken))
    with pytest.raises(openai.APIError, match="blocked"):
        list(sdk.images.generate(model="image", prompt="a cat", stream=True))


def test_a_form_without_a_model_never_reaches_the_upstream(stack, upstream):
    answer = httpx.post(
        f"{stack.base_url}/v1/images/edits", files={"image": PNG}, data={"prompt": "a hat"}, trust_env=False
    )

    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "malformed request: missing required field 'model'"
    assert upstream.requests == []
