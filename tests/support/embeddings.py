"""Judges requests for embeddings as each provider would, writes its answers, and reads ours as OpenAI's SDK does.

OpenAI's and Google's shapes are those of their own SDKs. Amazon's service model has no bodies for InvokeModel, so the
ones that the models' pages document are written down here, with nothing allowed beside them.

NB: annotations of shapes are evaluated, decoders are built from them.
"""

import json
import re
from typing import Any, Literal

import httpx2
import msgspec
import openai
from google.genai import _common, types
from msgspec import Struct
from openai.types import CreateEmbeddingResponse, EmbeddingCreateParams
from pydantic import TypeAdapter

_INVOKE = re.compile(r"/model/[^/?#]+/invoke")
_GOOGLE = re.compile(r"publishers/google/models/([^/?#]+):(predict|embedContent)")
_OPENAI = re.compile(r"/[^?#]*embeddings(\?[^#]*)?")
_AZURE = re.compile(r"/openai/deployments/[^/?#]+/embeddings(\?[^#]*)?")

# --- requests ---


class TitanRequest(Struct, forbid_unknown_fields=True, rename="camel"):
    """Titan Text Embeddings V2; of G1 only the first member exists."""

    input_text: str
    dimensions: int | None = None
    normalize: bool = True
    embedding_types: list[Literal["float", "binary"]] | None = None


class TitanImageConfig(Struct, forbid_unknown_fields=True, rename="camel"):
    output_embedding_length: int


class TitanImageRequest(Struct, forbid_unknown_fields=True, rename="camel"):
    input_text: str | None = None
    input_image: str | None = None
    embedding_config: TitanImageConfig | None = None


class CohereRequest(Struct, forbid_unknown_fields=True):
    texts: list[str]
    input_type: Literal["search_document", "search_query", "classification", "clustering"]
    embedding_types: list[Literal["float", "int8", "uint8", "binary", "ubinary"]] | None = None


class Cohere3Request(CohereRequest, forbid_unknown_fields=True):
    truncate: Literal["NONE", "START", "END"] | None = None


class Cohere4Request(CohereRequest, forbid_unknown_fields=True):
    truncate: Literal["NONE", "LEFT", "RIGHT"] | None = None
    output_dimension: int | None = None
    max_tokens: int | None = None


class Instance(Struct, forbid_unknown_fields=True):
    content: str
    task_type: str | None = None
    title: str | None = None


class Parameters(Struct, forbid_unknown_fields=True, rename="camel"):
    auto_truncate: bool | None = None
    output_dimensionality: int | None = None


class PredictRequest(Struct, forbid_unknown_fields=True):
    instances: list[Instance]
    parameters: Parameters


class EmbedContentRequest(_common.BaseModel):
    """The SDK has the members of the body only as arguments of its method."""

    content: types.Content
    embed_content_config: types.EmbedContentConfig | None = None


_openai_request = TypeAdapter(EmbeddingCreateParams)


def accept_openai(path: str, body: bytes) -> dict[str, Any]:
    """The body, decoded.

    Raises:
        AssertionError: OpenAI would not know the path. An error of pydantic's says what is wrong with the body.
    """
    assert _OPENAI.fullmatch(path), f"no such path: {path}"
    _openai_request.validate_json(body)
    return json.loads(body)


def accept_azure(path: str, body: bytes) -> dict[str, Any]:
    """As ``accept_openai``, for a deployment."""
    assert _AZURE.fullmatch(path), f"no such path: {path}"
    _openai_request.validate_json(body)
    return json.loads(body)


def accept_bedrock(path: str, body: bytes) -> dict[str, Any]:
    """The body, decoded; which model it is for is told by the path, as it is to Amazon.

    Raises:
        AssertionError: Amazon would answer 400; the text says why. A ``ValidationError`` says that the body is not of
            the model's shape.
    """
    assert _INVOKE.fullmatch(path), f"no such path: {path}"
    request = msgspec.json.decode(body, type=_shape(path))
    if isinstance(request, CohereRequest):
        assert 0 < len(request.texts) <= 96
    return json.loads(body)


def _shape(path: str) -> type[Struct]:
    if "titan-embed-image" in path:
        return TitanImageRequest
    if "cohere" in path:
        return Cohere3Request if "-v3" in path else Cohere4Request
    return TitanRequest


def accept_google(path: str, body: bytes) -> dict[str, Any]:
    """As ``accept_bedrock``, for Vertex AI.

    Raises:
        AssertionError: Google would answer 400; the text says why. An error of pydantic's says that the SDK does not
            know a value or a member.
    """
    found = _GOOGLE.fullmatch(path)
    assert found, f"no such path: {path}"
    if found[2] == "predict":
        predict = msgspec.json.decode(body, type=PredictRequest)
        assert predict.instances
        for instance in predict.instances:
            assert instance.title is None or instance.task_type == "RETRIEVAL_DOCUMENT"
    else:
        assert EmbedContentRequest.model_config["extra"] == "forbid"
        embed = EmbedContentRequest.model_validate_json(body)
        assert embed.content.parts
        assert all(len(part.keys() - {"mediaResolution"}) == 1 for part in json.loads(body)["content"]["parts"])
        config = embed.embed_content_config
        assert config is None or config.title is None or config.task_type == "RETRIEVAL_DOCUMENT"
    return json.loads(body)


ACCEPTS = {
    "OpenAI": accept_openai,
    "AzureOpenAI": accept_azure,
    "AWSBedrock": accept_bedrock,
    "GCPVertexAI": accept_google,
}

# --- answers ---


def titan_answer(values: list[float], *, tokens: int = 3) -> dict[str, Any]:
    return {"embedding": values, "embeddingsByType": {"float": values}, "inputTextTokenCount": tokens}


def cohere_answer(*vectors: list[float], by_type: bool = True) -> dict[str, Any]:
    kind = "embeddings_by_type" if by_type else "embeddings_floats"
    found = {"float": list(vectors)} if by_type else list(vectors)
    return {"id": "1", "texts": ["…"] * len(vectors), "embeddings": found, "response_type": kind}


def predict_answer(*vectors: list[float], tokens: int = 3, truncated: bool = False) -> dict[str, Any]:
    statistics = {"token_count": tokens, "truncated": truncated}
    embeddings = [{"embeddings": {"values": values, "statistics": statistics}} for values in vectors]
    return {"predictions": embeddings, "metadata": {"billableCharacterCount": 10}}


def embed_content_answer(values: list[float], *, tokens: int = 3, truncated: bool = False) -> dict[str, Any]:
    usage = {"promptTokenCount": tokens, "totalTokenCount": tokens}
    return {"embedding": {"values": values}, "usageMetadata": usage, "truncated": truncated}


def as_openai_reads(body: bytes, **asked: Any) -> CreateEmbeddingResponse:
    """What OpenAI's SDK makes of an answer; ``asked`` is what it was asked for, base64 without ``encoding_format``."""

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "application/json"}, content=body)

    transport = httpx2.MockTransport(answer)
    client = openai.OpenAI(api_key="none", http_client=httpx2.Client(transport=transport), max_retries=0)
    read = client.embeddings.create(model="m", input="x", **asked)
    # The SDK itself is lenient. It leaves base64 to whoever has asked for it in so many words.
    if asked.get("encoding_format") != "base64":
        CreateEmbeddingResponse.model_validate(read.model_dump(), strict=True)
    return read
