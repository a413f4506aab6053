"""How much a model is asked to think, over chat completions."""

from __future__ import annotations

import json

import pytest

from tests.unit.translate.responses.attempts import ask

EFFORTS = {
    # schema, model: asked for, and sent
    "Claude": ("Anthropic", "claude-opus-4-6", {"none": None, "minimal": "low", "low": "low", "xhigh": "xhigh"}),
    "Gemini": ("GCPVertexAI", "gemini-3-pro", {"minimal": "LOW", "low": "LOW", "xhigh": "HIGH", "max": "HIGH"}),
    "Claude on Converse": ("AWSBedrock", "us.anthropic.claude-x", {"none": None, "medium": None}),
    "others on Converse": ("AWSBedrock", "openai.gpt-oss", {"none": None, "minimal": "low", "medium": "medium"}),
    "others": ("OpenAI", "m", {"none": "none", "minimal": "minimal", "xhigh": "xhigh"}),
}


@pytest.mark.parametrize(("schema", "model", "levels"), EFFORTS.values(), ids=EFFORTS)
def test_an_effort_that_a_model_does_not_know_is_the_nearest_one(schema, model, levels):
    """SDKs send ``none`` and ``minimal`` of their own accord."""
    for effort, expected in levels.items():
        body = ask({"model": model, "reasoning": {"effort": effort}}, schema)[1].body or b""
        request = json.loads(body)
        thinking = request.get("generationConfig", {}).get("thinkingConfig", {})
        found = {
            "Anthropic": request.get("output_config", {}).get("effort"),
            "GCPVertexAI": thinking.get("thinkingLevel"),
            "AWSBedrock": request.get("additionalModelRequestFields", {}).get("reasoning_config"),
            "OpenAI": request.get("reasoning_effort"),
        }
        assert found[schema] == expected
