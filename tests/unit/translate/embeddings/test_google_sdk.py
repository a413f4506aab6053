"""Google's own SDK on the other side: what it sends for the same texts is what we send, and it reads what we read."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from google import genai
from google.genai import types
from google.oauth2.credentials import Credentials

from tests.support.embeddings import embed_content_answer, predict_answer
from tests.unit.translate.embeddings.attempts import EMBED_CONTENT, PREDICT, answer, attempt

PREFIX = "/v1/projects/p/locations/l/"


def told(model: str, contents: Any, document: dict[str, Any], **config: Any) -> tuple[str, Any, Any]:
    """Path and body that the SDK sends, and the answer that it reads."""
    seen: list[httpx.Request] = []

    def serve(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=document)

    http_client = httpx.Client(transport=httpx.MockTransport(serve))
    client = genai.Client(
        vertexai=True,
        project="p",
        location="l",
        credentials=Credentials(token="t"),
        http_options=types.HttpOptions(api_version="v1", httpx_client=http_client),
    )
    read = client.models.embed_content(model=model, contents=contents, config=types.EmbedContentConfig(**config))
    return seen[0].url.path.removeprefix(PREFIX), json.loads(seen[0].content), read


OPTIONS = {"task_type": "RETRIEVAL_DOCUMENT", "title": "T", "auto_truncate": False}
CASES = {
    "texts": (PREDICT, ["a", "b"], {}),
    "texts with a purpose": (PREDICT, ["a", "b"], OPTIONS),
    "a text with dimensions": (PREDICT, ["a"], {"dimensions": 64}),
    "a content": (EMBED_CONTENT, ["a"], {}),
    "a content with a purpose": (EMBED_CONTENT, ["a"], OPTIONS | {"dimensions": 64}),
}


@pytest.mark.parametrize("name", CASES)
def test_we_send_what_the_sdk_sends(name):
    model, texts, options = CASES[name]
    config = {"output_dimensionality" if key == "dimensions" else key: value for key, value in options.items()}
    document = predict_answer(*[[0.5]] * len(texts)) if model == PREDICT else embed_content_answer([0.5])

    path, body, read = told(model, texts, document, **config)
    _, our_path, our_body = attempt(model, input=texts, **options)

    ours = json.loads(our_body)
    # The SDK leaves out what is empty, and says whose content it is; neither says anything.
    assert {name: value for name, value in ours.items() if value != {}} == _without_role(body)
    assert our_path == path
    data = answer(model, document, input=texts)["data"]
    assert [each["embedding"] for each in data] == [each.values for each in read.embeddings]


def _without_role(body: dict[str, Any]) -> dict[str, Any]:
    if "content" in body:
        body["content"].pop("role", None)
    return body
