"""What backends would say to a chat request that a messages request has become.

OpenAI and Azure are asked in two ways: by the types of OpenAI's SDK made strict, and by the demo's stand-in, which
knows the rules that types cannot say. Gemini is asked by Google's own types.
"""

from __future__ import annotations

import json
from typing import Any

from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from pydantic import TypeAdapter
from pydantic_core import SchemaValidator

from deploy.demo.providers import openai_chat
from tests.unit.translate.chat.gemini import oracle as gemini


def strict(node: Any) -> Any:
    """A schema of the SDK's with unknown members forbidden, and iterables read to their end."""
    if isinstance(node, dict):
        node = {key: strict(value) for key, value in node.items()}
        if node.get("type") == "typed-dict" and "extra_fields_behavior" not in node.get("config", {}):
            node["extra_behavior"] = "forbid"
        if node.get("type") == "generator":
            node = {**node, "type": "list"}
        return node
    if isinstance(node, list | tuple):
        return type(node)(strict(each) for each in node)
    return node


_WHOLE = SchemaValidator(strict(TypeAdapter(CompletionCreateParamsNonStreaming).core_schema))
_STREAMED = SchemaValidator(strict(TypeAdapter(CompletionCreateParamsStreaming).core_schema))


def accepts_types(path: str, body: bytes) -> dict[str, Any]:
    """The request, decoded, if the SDK would let its users send it.

    Raises:
        AssertionError: the path is no one's.
        pydantic_core.ValidationError: the SDK does not know a member, or a value.
    """
    assert path.endswith("/chat/completions") or "/chat/completions?api-version=" in path
    request: dict[str, Any] = json.loads(body)
    (_STREAMED if "stream" in request else _WHOLE).validate_json(body)
    return request


def accepts(path: str, body: bytes) -> None:
    """Raises when the backend would refuse the request."""
    if path.startswith("publishers/google/"):
        gemini.accept(path, body)
        return
    accepts_types(path, body)
    openai_chat.read(body)
