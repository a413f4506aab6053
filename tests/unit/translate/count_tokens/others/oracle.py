"""What a backend would say to a request for a count: OpenAI's and Google's own types, made strict."""

from __future__ import annotations

import json
from typing import Any

from google.genai import _common, types
from openai.types.responses.input_token_count_params import InputTokenCountParams
from pydantic import TypeAdapter
from pydantic_core import SchemaValidator

from tests.unit.translate.messages.carried.oracle import strict

_OPENAI = SchemaValidator(strict(TypeAdapter(InputTokenCountParams).core_schema))


class CountTokensRequest(_common.BaseModel):
    """The SDK has the members of the body only as arguments of its methods."""

    contents: list[types.Content]
    system_instruction: types.Content | None = None
    tools: list[types.Tool] | None = None
    generation_config: types.GenerationConfig | None = None


def accepts(path: str, body: bytes) -> dict[str, Any]:
    """The request, decoded, if the backend would count it."""
    request: dict[str, Any] = json.loads(body)
    if path.startswith("publishers/google/"):
        assert path.endswith(":countTokens")
        CountTokensRequest.model_validate_json(body)
        return request
    assert path.partition("?")[0].endswith("/responses/input_tokens")
    _OPENAI.validate_json(body)
    assert request["model"]
    return request
