"""The table of what Gemini backends make of each member of a request, held to what is sent."""

from typing import Any

import pytest

from extproc.errors import UnprocessableRequest
from extproc.translate.chat.gemini.dialect import SUPPORT
from extproc.translate.chat.support import Support
from tests.unit.translate.chat.gemini.attempts import USER, sent

MODEL = "gemini-3-flash"


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [USER, {"role": "user", "content": list(parts)}]}


def assistant(**members: Any) -> dict[str, Any]:
    return {"messages": [USER, {"role": "assistant", **members}]}


def tool(kind: str, **members: Any) -> dict[str, Any]:
    return {"tools": [{"type": kind, **members}]}


EXAMPLES: dict[str, dict[str, Any]] = {
    "messages": {"messages": [{"role": "user", "content": "something else"}]},
    "messages.user.image_url": user({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}),
    "messages.user.input_audio": user({"type": "input_audio", "input_audio": {"data": "AAEC", "format": "wav"}}),
    "messages.user.audio_url": user({"type": "audio_url", "audio_url": {"url": "https://example.com/a.mp3"}}),
    "messages.user.video_url": user({"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}}),
    "messages.user.file": user({"type": "file", "file": {"file_data": "AAEC"}}),
    "messages.system, developer, tool: parts that are not text": {
        "messages": [USER, {"role": "system", "content": [{"type": "image_url"}]}]
    },
    "messages.assistant.tool_calls": assistant(tool_calls=[{"id": "1", "function": {"name": "f"}}]),
    "messages.assistant.thinking": assistant(content=[{"type": "thinking", "text": "t"}]),
    "messages.assistant.redacted_thinking": assistant(content=[{"type": "redacted_thinking", "redactedContent": "x"}]),
    "messages.assistant.thinking_blocks": assistant(thinking_blocks=[{"type": "thinking", "thinking": "t"}]),
    "messages.assistant.refusal": assistant(content=[{"type": "refusal", "refusal": "no"}]),
    "cache_control": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]}
        ]
    },
    "audio": {"audio": {"voice": "alloy", "format": "wav"}},
    "frequency_penalty": {"frequency_penalty": 1},
    "generationConfig": {"generationConfig": {"media_resolution": "MEDIA_RESOLUTION_LOW"}},
    "guardrailConfig": {"guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1"}},
    "guided_choice": {"guided_choice": ["a"]},
    "guided_json": {"guided_json": {"type": "object"}},
    "guided_regex": {"guided_regex": "a"},
    "logit_bias": {"logit_bias": {"1": 1}},
    "logprobs": {"logprobs": True},
    "max_completion_tokens": {"max_completion_tokens": 1},
    "max_tokens": {"max_tokens": 1},
    "modalities": {"modalities": ["text", "audio"]},
    "n": {"n": 2},
    "parallel_tool_calls": {"parallel_tool_calls": False},
    "prediction": {"prediction": {"type": "content", "content": "x"}},
    "presence_penalty": {"presence_penalty": 1},
    "reasoning_effort": {"reasoning_effort": "low"},
    "response_format.json_object": {"response_format": {"type": "json_object"}},
    "response_format.json_schema": {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}},
    "safetySettings": {"safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]},
    "seed": {"seed": 1},
    "service_tier": {"service_tier": "flex"},
    "stop": {"stop": "x"},
    "temperature": {"temperature": 1},
    "thinking.enabled": {"thinking": {"type": "enabled", "budget_tokens": 5}},
    "thinking.disabled": {"thinking": {"type": "disabled"}},
    "thinking.adaptive": {"thinking": {"type": "adaptive"}},
    "tool_choice": {"tool_choice": "auto"},
    "tools.function": tool("function", function={"name": "f"}),
    "tools.google_search": tool("google_search"),
    "tools.enterprise_search": tool("enterprise_search"),
    "tools.image_generation": tool("image_generation"),
    "tools of any other type": tool("retrieval"),
    "tools.function.strict": tool("function", function={"name": "f", "strict": True}),
    "top_logprobs": {"top_logprobs": 1},
    "top_p": {"top_p": 0.5},
    "user": {"user": "someone"},
    "verbosity": {"verbosity": "low"},
    "web_search_options": {"web_search_options": {}},
}

# What an ignored member stands on, so that only the member itself is compared.
WITHOUT: dict[str, dict[str, Any]] = {"tools.function.strict": tool("function", function={"name": "f"})}


@pytest.mark.parametrize("member", SUPPORT.fields)
def test_a_member_is_what_the_table_calls_it(member):
    example = EXAMPLES[member]
    match SUPPORT.fields[member].support:
        case Support.REFUSED:
            with pytest.raises(UnprocessableRequest, match="is not supported by GCPVertexAI backends"):
                sent(model=MODEL, **example)
        case Support.IGNORED:
            assert sent(model=MODEL, **example) == sent(model=MODEL, **WITHOUT.get(member, {}))
        case Support.MAPPED:
            assert sent(model=MODEL, **example) != sent(model=MODEL)
