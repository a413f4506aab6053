"""The table of support is true: each member that it names is refused, or changes what is sent, or does not."""

from __future__ import annotations

from typing import Any

import pytest

from extproc.errors import UnprocessableRequest
from extproc.translate.chat.bedrock.dialect import SUPPORT
from extproc.translate.chat.support import FIELDS, Support
from tests.unit.translate.chat.bedrock.attempts import TOOL, USER, sent_text

CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
URI = "data:image/png;base64,AAEC"


def user(**part: Any) -> dict[str, Any]:
    return {"messages": [USER, {"role": "user", "content": [part]}]}


def assistant(**members: Any) -> dict[str, Any]:
    return {"messages": [USER, {"role": "assistant", **members}]}


def function(kind: str = "function", **members: Any) -> dict[str, Any]:
    return {"tools": [{"type": kind, "function": {"name": "f", **members}}]}


# For each member, a request with it; and one that only lacks it, where that is not a request of nothing.
USED: dict[str, Any] = {
    "messages": {"messages": [USER, USER]},
    "messages.user.image_url": user(type="image_url", image_url={"url": URI}),
    "messages.user.input_audio": user(type="input_audio", input_audio={"data": "AA==", "format": "mp3"}),
    "messages.user.audio_url": user(type="audio_url", audio_url={"url": "data:audio/mp3;base64,AA=="}),
    "messages.user.video_url": user(type="video_url", video_url={"url": "data:video/mp4;base64,AA=="}),
    "messages.user.file": user(type="file", file={"file_data": "JVBERi0="}),
    "messages.system, developer, tool: parts that are not text": {
        "messages": [{"role": "system", "content": [{"type": "image_url"}]}]
    },
    "messages.assistant.tool_calls": assistant(tool_calls=[CALL]),
    "messages.assistant.thinking": assistant(content=[{"type": "thinking", "text": "t"}]),
    "messages.assistant.redacted_thinking": assistant(
        content=[{"type": "redacted_thinking", "redactedContent": "AA=="}]
    ),
    "messages.assistant.thinking_blocks": assistant(thinking_blocks=[{"type": "thinking", "thinking": "t"}]),
    "messages.assistant.refusal": assistant(content=[{"type": "refusal", "refusal": "no"}]),
    "cache_control": (
        user(type="text", text="x", cache_control={"type": "ephemeral"}),
        user(type="text", text="x"),
    ),
    "audio": {"audio": {"voice": "alloy", "format": "mp3"}},
    "frequency_penalty": {"frequency_penalty": 1},
    "generationConfig": {"generationConfig": {"media_resolution": "high"}},
    "guardrailConfig": {"guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1"}},
    "guided_choice": {"guided_choice": ["a"]},
    "guided_json": {"guided_json": {}},
    "guided_regex": {"guided_regex": "a"},
    "logit_bias": {"logit_bias": {"1": 1}},
    "logprobs": {"logprobs": True},
    "max_completion_tokens": {"max_completion_tokens": 5},
    "max_tokens": {"max_tokens": 5},
    "modalities": {"modalities": ["text", "audio"]},
    "n": {"n": 2},
    "parallel_tool_calls": ({"tools": [TOOL], "parallel_tool_calls": False}, {"tools": [TOOL]}),
    "prediction": {"prediction": {"type": "content", "content": "x"}},
    "presence_penalty": {"presence_penalty": 1},
    "reasoning_effort": {"reasoning_effort": "low"},
    "response_format.json_object": {"response_format": {"type": "json_object"}},
    "response_format.json_schema": {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}},
    "safetySettings": {"safetySettings": [{"category": "x"}]},
    "seed": {"seed": 1},
    "service_tier": {"service_tier": "priority"},
    "stop": {"stop": "x"},
    "temperature": {"temperature": 0.5},
    "thinking.enabled": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    "thinking.disabled": {"thinking": {"type": "disabled"}},
    "thinking.adaptive": {"thinking": {"type": "adaptive"}},
    "tool_choice": ({"tools": [TOOL], "tool_choice": "required"}, {"tools": [TOOL]}),
    "tools.function": function(),
    "tools.google_search": {"tools": [{"type": "google_search"}]},
    "tools.enterprise_search": {"tools": [{"type": "enterprise_search"}]},
    "tools.image_generation": {"tools": [{"type": "image_generation"}]},
    "tools of any other type": function("custom"),
    "tools.function.strict": (function(strict=True), function()),
    "top_logprobs": {"top_logprobs": 2},
    "top_p": {"top_p": 0.5},
    "user": {"user": "u"},
    "verbosity": {"verbosity": "low"},
    "web_search_options": {"web_search_options": {}},
}


def test_every_member_is_shown():
    assert USED.keys() == FIELDS.keys()


@pytest.mark.parametrize("name", USED)
def test_a_member_is_supported_as_the_table_says(name: str):
    given = USED[name]
    with_it, without_it = given if isinstance(given, tuple) else (given, {})
    match SUPPORT.fields[name].support:
        case Support.REFUSED:
            with pytest.raises(UnprocessableRequest) as caught:
                sent_text(**with_it)
            assert str(caught.value).startswith(f"invalid request body: {name}")
        case Support.MAPPED:
            assert sent_text(**with_it) != sent_text(**without_it)
        case Support.IGNORED:
            assert sent_text(**with_it) == sent_text(**without_it)


MEANINGLESS = {
    "n": {"n": 1},
    "logprobs": {"logprobs": False, "top_logprobs": 0},
    "logit_bias": {"logit_bias": {}},
    "modalities": {"modalities": ["text"]},
    "response_format": {"response_format": {"type": "text"}},
    "nulls": {"audio": None, "web_search_options": None, "guided_choice": None, "thinking": None, "tools": None},
}


@pytest.mark.parametrize("request_", MEANINGLESS.values(), ids=MEANINGLESS)
def test_what_asks_for_nothing_is_accepted(request_: dict[str, Any]):
    assert sent_text(**request_) == sent_text()
