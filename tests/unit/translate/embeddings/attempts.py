"""One attempt at embeddings, as tests ask for it: what is sent, and what becomes of an answer."""

from __future__ import annotations

import json
from typing import Any

from extproc.endpoints.base import Operation
from extproc.endpoints.embeddings import Embeddings
from extproc.translate.base import TranslatedResponse, Translator
from tests.support.embeddings import ACCEPTS
from tests.support.golden import make_translator

TITAN = "amazon.titan-embed-text-v2:0"
COHERE = "cohere.embed-v4:0"
COHERE_3 = "cohere.embed-english-v3"
PREDICT = "text-embedding-005"
EMBED_CONTENT = "gemini-embedding-2-preview"
SCHEMAS = {TITAN: "AWSBedrock", COHERE: "AWSBedrock", COHERE_3: "AWSBedrock"}
EVERY_MODEL = (TITAN, COHERE, COHERE_3, PREDICT, EMBED_CONTENT)
JSON = {":status": "200", "content-type": "application/json"}


def schema_of(model: str) -> str:
    return SCHEMAS.get(model, "GCPVertexAI")


def attempt(
    model: str, *, schema: str = "", query: str = "", override: str = "", **request: Any
) -> tuple[Translator, str, bytes]:
    """A translator that has sent a request, with its path and body."""
    body = json.dumps({"model": model, **request}).encode()
    return attempt_bytes(body, schema=schema or schema_of(model), query=query, override=override)


def attempt_bytes(body: bytes, *, schema: str, query: str = "", override: str = "") -> tuple[Translator, str, bytes]:
    """The same for a request as it comes over the wire."""
    translator = make_translator(schema, {"model_override": override}, operation=Operation.EMBEDDINGS)
    parsed = Embeddings().parse(body, content_type="application/json", metering=False)
    translated = translator.request(parsed, query=query, force=False)
    assert translated.headers == ()
    assert translated.body is not None
    return translator, translated.path, translated.body


def sent(model: str, **request: Any) -> dict[str, Any]:
    """The body that goes upstream, after the provider's own types have accepted it."""
    schema = request.pop("schema", "") or schema_of(model)
    _, path, body = attempt(model, schema=schema, **request)
    return ACCEPTS[schema](path, body)


def answered(
    model: str, document: object, *, headers: dict[str, str] | None = None, **request: Any
) -> TranslatedResponse:
    """What becomes of an answer; without an ``input``, one text was asked for."""
    translator, _, _ = attempt(model, **({"input": "x"} | request))
    assert translator.response_headers({**JSON, **(headers or {})}) == []
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return translator.response_body(data, end_of_stream=True)


def answer(model: str, document: object, **more: Any) -> dict[str, Any]:
    """The document that the client reads."""
    return json.loads(answered(model, document, **more).body or b"")
