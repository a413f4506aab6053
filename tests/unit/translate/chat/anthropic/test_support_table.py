"""What the table of support says of each member is what becomes of it."""

import json
from typing import Any

import pytest

from extproc.endpoints.chat_request import decode_chat_request
from extproc.errors import UnprocessableRequest
from extproc.translate.chat.anthropic.dialects import ANTHROPIC, AWS_ANTHROPIC, GCP_ANTHROPIC
from extproc.translate.chat.support import FIELDS, Support
from tests.unit.translate.chat.anthropic.attempts import HELLO, SCHEMAS, ask, sent

TABLES = {"Anthropic": ANTHROPIC, "GCPAnthropic": GCP_ANTHROPIC, "AWSAnthropic": AWS_ANTHROPIC}
FUNCTION = {"type": "function", "function": {"name": "f"}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}


def user(part):
    return {"messages": [{"role": "user", "content": [part]}]}


def assistant(**members):
    return {"messages": [*HELLO, {"role": "assistant", **members}, *HELLO]}


WITHOUT: dict[str, dict[str, Any]] = {
    "messages.assistant.thinking_blocks": assistant(content="a"),
    "tool_choice": {"tools": [FUNCTION]},
    "parallel_tool_calls": {"tools": [FUNCTION]},
    "tools.function.strict": {"tools": [FUNCTION]},
}
"""What a request is compared with, where that is not the shortest one."""

USES: dict[str, dict[str, Any]] = {
    "messages": {"messages": [*HELLO, *HELLO]},
    "messages.user.image_url": user({"type": "image_url", "image_url": {"url": "https://a/b.png"}}),
    "messages.user.input_audio": user({"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}),
    "messages.user.audio_url": user({"type": "audio_url", "audio_url": {"url": "https://a/b.wav"}}),
    "messages.user.video_url": user({"type": "video_url", "video_url": {"url": "https://a/b.mp4"}}),
    "messages.user.file": user({"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0="}}),
    "messages.system, developer, tool: parts that are not text": {
        "messages": [*HELLO, {"role": "system", "content": [{"type": "image_url"}]}]
    },
    "messages.assistant.tool_calls": assistant(
        tool_calls=[{"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    ),
    "messages.assistant.thinking": assistant(content=[{"type": "thinking", "text": "Hm", "signature": "s"}]),
    "messages.assistant.redacted_thinking": assistant(content=[{"type": "redacted_thinking", "redactedContent": "x"}]),
    "messages.assistant.thinking_blocks": assistant(
        content="a", thinking_blocks=[{"type": "thinking", "thinking": "Hm", "signature": "s"}]
    ),
    "messages.assistant.refusal": assistant(content=[{"type": "refusal", "refusal": "no"}]),
    "cache_control": user({"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}),
    "audio": {"audio": {"voice": "alloy", "format": "wav"}},
    "frequency_penalty": {"frequency_penalty": 1.5},
    "generationConfig": {"generationConfig": {"media_resolution": "x"}},
    "guardrailConfig": {"guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1"}},
    "guided_choice": {"guided_choice": ["a"]},
    "guided_json": {"guided_json": {"type": "object"}},
    "guided_regex": {"guided_regex": "a+"},
    "logit_bias": {"logit_bias": {"50256": -100}},
    "logprobs": {"logprobs": True},
    "max_completion_tokens": {"max_completion_tokens": 7},
    "max_tokens": {"max_tokens": 7},
    "modalities": {"modalities": ["text", "audio"]},
    "n": {"n": 2},
    "parallel_tool_calls": {"tools": [FUNCTION], "parallel_tool_calls": False},
    "prediction": {"prediction": {"type": "content", "content": "x"}},
    "presence_penalty": {"presence_penalty": 1.5},
    "reasoning_effort": {"reasoning_effort": "low"},
    "response_format.json_object": {"response_format": {"type": "json_object"}},
    "response_format.json_schema": {"response_format": SCHEMA},
    "safetySettings": {"safetySettings": [{"category": "a", "threshold": "b"}]},
    "seed": {"seed": 7},
    "service_tier": {"service_tier": "flex"},
    "stop": {"stop": "END"},
    "temperature": {"temperature": 0.5},
    "thinking.enabled": {"thinking": {"type": "enabled", "budget_tokens": 2048}},
    "thinking.disabled": {"thinking": {"type": "disabled"}},
    "thinking.adaptive": {"thinking": {"type": "adaptive"}},
    "tool_choice": {"tools": [FUNCTION], "tool_choice": "required"},
    "tools.function": {"tools": [FUNCTION]},
    "tools.google_search": {"tools": [{"type": "google_search", "google_search": {}}]},
    "tools.enterprise_search": {"tools": [{"type": "enterprise_search"}]},
    "tools.image_generation": {"tools": [{"type": "image_generation"}]},
    "tools of any other type": {"tools": [{"type": "retrieval"}]},
    "tools.function.strict": {"tools": [{"type": "function", "function": {"name": "f", "strict": True}}]},
    "top_logprobs": {"top_logprobs": 2},
    "top_p": {"top_p": 0.5},
    "user": {"user": "ann"},
    "verbosity": {"verbosity": "low"},
    "web_search_options": {"web_search_options": {}},
}


def test_every_member_is_tried():
    assert USES.keys() == FIELDS.keys()


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("name", USES)
def test_a_member_is_mapped_ignored_or_refused_as_the_table_says(schema, name):
    request = {"model": "claude-opus-4-6", **USES[name]}
    assert FIELDS[name](decode_chat_request(json.dumps({"messages": HELLO, **request}).encode()))
    match TABLES[schema].fields[name].support:
        case Support.REFUSED:
            with pytest.raises(UnprocessableRequest) as caught:
                ask(schema, request)
            assert name in str(caught.value)
            assert schema in str(caught.value)
        case Support.IGNORED:
            assert sent(request, schema) == sent({"model": "claude-opus-4-6"}, schema)
        case Support.MAPPED:
            plain = {"model": "claude-opus-4-6", **WITHOUT.get(name, {})}
            assert sent(request, schema) != sent(plain, schema)
