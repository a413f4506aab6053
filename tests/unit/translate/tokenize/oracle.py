"""What each provider would say to a request for a count: its own types, and the rules of its chats."""

from __future__ import annotations

import base64
import json
import re
from typing import Any
from urllib.parse import unquote

import botocore.session
from anthropic.types.message_count_tokens_params import MessageCountTokensParams
from botocore.validate import ParamValidator
from google.genai import types

from tests.support import converse
from tests.unit.translate.chat.anthropic import oracle as anthropic
from tests.unit.translate.chat.gemini import oracle as gemini

_BEDROCK = re.compile(r"/model/([^/]+)/count-tokens")
_GEMINI = re.compile(r"publishers/google/models/([^/?#:]+):countTokens")
_VERTEX = "publishers/anthropic/models/count-tokens:rawPredict"
_COUNT_TOKENS = (
    botocore.session.get_session().get_service_model("bedrock-runtime").operation_model("CountTokens").input_shape
)
_COUNTED = set(MessageCountTokensParams.__annotations__)


def accept_vllm(path: str, body: bytes) -> None:
    """The types of vLLM are in no package that could be had here, so this is its form as documented."""
    assert path.endswith("/tokenize"), path
    request = json.loads(body)
    assert isinstance(request["model"], str)
    assert ("prompt" in request) != ("messages" in request)


def accept_bedrock(path: str, body: bytes) -> None:
    """CountTokens of what Converse would be sent.

    Raises:
        AssertionError: Amazon would answer 400; the text says why.
    """
    request = _count_tokens(path, body)
    counted = request["input"]["converse"]
    # It knows fewer members than Converse, whose rules for conversations hold for the others.
    members = _COUNT_TOKENS.members["input"].members["converse"].members
    assert set(counted) <= set(members), counted.keys()
    # Roles and blocks are those of a conversation; one of system texts only has none.
    if "messages" in counted:
        converse.accept("/model/m/converse", json.dumps(counted).encode())
    else:
        assert counted["system"]


def accept_invoke_model(path: str, body: bytes) -> dict[str, Any]:
    """CountTokens of what InvokeModel would be sent; the inner body, decoded."""
    inner = base64.b64decode(_count_tokens(path, body)["input"]["invokeModel"]["body"], validate=True)
    counted: dict[str, Any] = json.loads(inner)
    anthropic.accepts("/model/m/invoke", _with_blocks(counted))
    assert set(counted) <= _COUNTED | {"anthropic_version", "max_tokens"}, counted.keys()
    return counted


def _count_tokens(path: str, body: bytes) -> Any:
    match = _BEDROCK.fullmatch(path)
    assert match, f"no such path: {path}"
    model = unquote(match[1])
    assert re.fullmatch(_COUNT_TOKENS.members["modelId"].metadata["pattern"], model), model
    request = json.loads(body)
    blobs = {
        kind: {name: base64.b64decode(value) for name, value in members.items()} if kind == "invokeModel" else {}
        for kind, members in request["input"].items()
    }
    report = ParamValidator().validate({"modelId": model, "input": blobs}, _COUNT_TOKENS)
    assert not report.has_errors(), report.generate_report()
    assert len(request["input"]) == 1, "a union has one member"
    return request


def accept_gemini(path: str, body: bytes) -> None:
    """Vertex AI's countTokens.

    Raises:
        AssertionError: Google would answer 400; the text says why. An error of pydantic's says that the SDK does not
            know a member.
    """
    assert _GEMINI.fullmatch(path), f"no such path: {path}"
    request = json.loads(body)
    assert set(request) <= {"contents", *(_camel(name) for name in types.CountTokensConfig.model_fields)}
    whole = {"generationConfig": {}, "tools": None, **request}
    gemini.accept("publishers/google/models/m:generateContent", json.dumps(whole).encode())


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.title() for word in rest)


def accept_anthropic(path: str, body: bytes) -> None:
    """The first-party API's count_tokens.

    Raises:
        RefusedError: Anthropic would answer 400. An error of pydantic's says that the SDK does not know a member.
    """
    assert path.endswith("/messages/count_tokens"), path
    _accept_counted(json.loads(body))


def accept_vertex(path: str, body: bytes) -> None:
    """The same on Vertex AI, as ``accept_anthropic``."""
    assert path == _VERTEX
    request = json.loads(body)
    assert request.pop("anthropic_version").startswith("vertex-")
    _accept_counted(request)


def _accept_counted(request: dict[str, Any]) -> None:
    assert set(request) <= _COUNTED, request.keys()
    # A request for a message, but for the limit.
    anthropic.accepts("/v1/messages", _with_blocks({"max_tokens": 1, **request}))


def _with_blocks(request: dict[str, Any]) -> bytes:
    """The same request with a block where a text stands for itself."""
    system = request.get("system")
    blocks = {"system": [{"type": "text", "text": system}]} if isinstance(system, str) else {}
    return json.dumps({**request, **blocks}).encode()


ACCEPTS = {
    "OpenAI": accept_vllm,
    "AWSBedrock": accept_bedrock,
    "GCPVertexAI": accept_gemini,
    "Anthropic": accept_anthropic,
    "GCPAnthropic": accept_vertex,
    "AWSAnthropic": accept_invoke_model,
}
