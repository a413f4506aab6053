"""Judges requests as Vertex AI would: by the types of Google's own SDK, and by rules that those cannot say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from google.genai import _common, types

_PATH = re.compile(r"publishers/google/models/([^/?#]+):(generateContent|streamGenerateContent\?alt=sse)")
_DATA = {"fileData", "functionCall", "functionResponse", "inlineData", "text"}


class GenerateContentRequest(_common.BaseModel):
    """The SDK has the members of the body only as arguments of its methods."""

    contents: list[types.Content] | None
    tools: list[types.Tool] | None
    tool_config: types.ToolConfig | None = None
    generation_config: types.GenerationConfig
    system_instruction: types.Content | None = None
    safety_settings: list[types.SafetySetting] | None = None


def accept(path: str, body: bytes) -> dict[str, Any]:
    """The body, decoded.

    Raises:
        AssertionError: Google would answer 400; the text says why. A ``UserWarning``, or an error of pydantic's, says
            that the SDK does not know a value or a member.
    """
    assert _PATH.fullmatch(path), f"no such path: {path}"
    assert GenerateContentRequest.model_config["extra"] == "forbid"
    GenerateContentRequest.model_validate_json(body)
    request: dict[str, Any] = json.loads(body)
    for content in request["contents"] or ():
        _check_content(content)
    if "systemInstruction" in request:
        assert all(part["text"] for part in request["systemInstruction"]["parts"])
    for schema in _schemas(request):
        _check_schema(schema)
    return request


def _check_content(content: dict[str, Any]) -> None:
    assert content["role"] in {"user", "model"}
    assert content["parts"], "a content must have parts"
    for part in content["parts"]:
        assert len(part.keys() & _DATA) == 1, f"a part holds one thing: {part}"
        assert part.get("text") != "", "a part must not be empty"
    names = [kind for part in content["parts"] for kind in part if kind in {"functionCall", "functionResponse"}]
    assert len(set(names)) < 2
    assert "functionCall" not in names or content["role"] == "model"
    assert "functionResponse" not in names or content["role"] == "user"


def _schemas(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for tool in request["tools"] or ():
        for declaration in tool.get("functionDeclarations", ()):
            if "parameters" in declaration:
                yield declaration["parameters"]
    if "responseSchema" in request["generationConfig"]:
        yield request["generationConfig"]["responseSchema"]


def _check_schema(schema: dict[str, Any]) -> None:
    if "anyOf" in schema:
        # Vertex AI refuses any other member beside it.
        assert schema.keys() == {"anyOf"}
    for inner in [*schema.get("anyOf", ()), *schema.get("properties", {}).values()]:
        _check_schema(inner)
    if "items" in schema:
        _check_schema(schema["items"])
