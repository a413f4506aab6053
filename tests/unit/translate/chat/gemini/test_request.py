"""Tools and ``generationConfig`` (contract, chat 9.1, 9.2, 9.5, 9.6, 17.8 and 17.9)."""

from typing import Any

import pytest

from extproc.errors import MalformedRequest, UnprocessableRequest
from tests.unit.translate.chat.gemini.attempts import attempt, attempt_bytes, sent

OLD, PRO, FLASH = "gemini-2.0-flash", "gemini-3-pro-preview", "gemini-3-flash"
INT32 = 2**31 - 1


def test_the_body_of_the_least_request_byte_by_byte():
    _, path, body = attempt({"model": "gemini-pro", "messages": [{"role": "system", "content": "s"}]})
    assert path == "publishers/google/models/gemini-pro:generateContent"
    assert body == (
        b'{"contents":null,"tools":null,"generationConfig":{},"systemInstruction":{"parts":[{"text":"s"}]}}'
    )


def test_the_members_of_the_body_stand_in_the_contracts_order():
    body = sent(
        tools=[function()],
        tool_choice="auto",
        safetySettings=[{"threshold": "BLOCK_NONE", "category": "HARM_CATEGORY_HARASSMENT"}],
        messages=[{"role": "system", "content": "s"}],
    )
    assert list(body) == ["contents", "tools", "toolConfig", "generationConfig", "systemInstruction", "safetySettings"]
    assert list(body["safetySettings"][0]) == ["category", "threshold"]


def test_a_stream_has_its_own_path():
    assert attempt({"stream": True})[1] == "publishers/google/models/gemini-2.5-flash:streamGenerateContent?alt=sse"


def test_an_override_is_in_the_path_and_decides_what_the_model_can():
    _, path, body = attempt({"model": OLD, "tools": [function(parameters={})]}, override="gemini-3-pro")
    assert path == "publishers/google/models/gemini-3-pro:generateContent"
    assert b"parametersJsonSchema" in body


# --- generationConfig ---


CONFIGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing": ({}, {}),
    "sampling": ({"temperature": 0.7, "top_p": 0.95}, {"temperature": 0.7, "topP": 0.95}),
    "zeros": ({"temperature": 0, "top_p": 0}, {"temperature": 0, "topP": 0}),
    "penalties": (
        {"presence_penalty": -0.5, "frequency_penalty": 2},
        {"presencePenalty": -0.5, "frequencyPenalty": 2},
    ),
    "a seed": ({"seed": 42}, {"seed": 42}),
    "a negative seed": ({"seed": -1}, {"seed": -1}),
    "a seed of 64 bits": ({"seed": 2**32 + 7}, {"seed": 7}),
    "a seed beyond that": ({"seed": 2**80 + 2**31}, {"seed": -(2**31)}),
    "candidates": ({"n": 2}, {"candidateCount": 2}),
    "no candidates": ({"n": 0}, {}),
    "a limit": ({"max_tokens": 9}, {"maxOutputTokens": 9}),
    "the newer limit": ({"max_tokens": 9, "max_completion_tokens": 5}, {"maxOutputTokens": 5}),
    "the newer limit of zero": ({"max_tokens": 9, "max_completion_tokens": 0}, {}),
    "a limit beyond all answers": ({"max_tokens": 2**40}, {"maxOutputTokens": INT32}),
    "log probabilities": ({"logprobs": True, "top_logprobs": 3}, {"responseLogprobs": True, "logprobs": 3}),
    "no log probabilities": ({"logprobs": False}, {}),
    "a stop sequence": ({"stop": "x"}, {"stopSequences": ["x"]}),
    "stop sequences": ({"stop": ["x", "y"]}, {"stopSequences": ["x", "y"]}),
    "empty stop sequences": ({"stop": [""]}, {}),
    "text": ({"response_format": {"type": "text"}}, {"responseMimeType": "text/plain"}),
    "a JSON object": ({"response_format": {"type": "json_object"}}, {"responseMimeType": "application/json"}),
    "choices": (
        {"guided_choice": ["a", "b"]},
        {"responseMimeType": "text/x.enum", "responseSchema": {"enum": ["a", "b"], "type": "STRING"}},
    ),
    "no choices": (
        {"guided_choice": []},
        {"responseMimeType": "text/x.enum", "responseSchema": {"enum": [], "type": "STRING"}},
    ),
    "a pattern": (
        {"guided_regex": "a+"},
        {"responseMimeType": "application/json", "responseSchema": {"pattern": "a+", "type": "STRING"}},
    ),
    "no pattern": ({"guided_regex": ""}, {}),
    "a schema by extension": (
        {"guided_json": {"type": "object"}},
        {"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}},
    ),
    "a schema by extension on an older model": (
        {"guided_json": {"type": "object"}, "model": OLD},
        {"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}},
    ),
    "a schema of null": ({"guided_json": None}, {}),
    "resolution": (
        {"generationConfig": {"media_resolution": "MEDIA_RESOLUTION_LOW"}, "model": PRO},
        {"mediaResolution": "MEDIA_RESOLUTION_LOW"},
    ),
    "resolution on an older model": ({"generationConfig": {"media_resolution": "MEDIA_RESOLUTION_LOW"}}, {}),
    "no resolution": ({"generationConfig": {}, "model": PRO}, {}),
    "effort low": ({"reasoning_effort": "low", "model": PRO}, {"thinkingConfig": {"thinkingLevel": "LOW"}}),
    "effort medium on Pro": (
        {"reasoning_effort": "medium", "model": PRO},
        {"thinkingConfig": {"thinkingLevel": "HIGH"}},
    ),
    "effort high on Pro": ({"reasoning_effort": "high", "model": PRO}, {"thinkingConfig": {"thinkingLevel": "HIGH"}}),
    "effort none on Flash": (
        {"reasoning_effort": "none", "model": FLASH},
        {"thinkingConfig": {"thinkingLevel": "MINIMAL"}},
    ),
    "effort medium on Flash": (
        {"reasoning_effort": "medium", "model": FLASH},
        {"thinkingConfig": {"thinkingLevel": "MEDIUM"}},
    ),
    "effort high on Flash": (
        {"reasoning_effort": "high", "model": FLASH},
        {"thinkingConfig": {"thinkingLevel": "HIGH"}},
    ),
    "effort on older models": ({"reasoning_effort": "whatever"}, {}),
    "thinking": (
        {"thinking": {"type": "enabled", "budget_tokens": 9, "includeThoughts": True}},
        {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 9}},
    ),
    "thinking without a budget": ({"thinking": {"type": "enabled"}}, {"thinkingConfig": {}}),
    "thinking as the model likes": (
        {"thinking": {"type": "enabled", "budget_tokens": -1}},
        {"thinkingConfig": {"thinkingBudget": -1}},
    ),
    "thinking without end": (
        {"thinking": {"type": "enabled", "budget_tokens": 2**60}},
        {"thinkingConfig": {"thinkingBudget": INT32}},
    ),
    "thinking before effort": (
        {"thinking": {"type": "enabled", "budget_tokens": 9}, "reasoning_effort": "low", "model": PRO},
        {"thinkingConfig": {"thinkingBudget": 9}},
    ),
    "thinking switched off": ({"thinking": {"type": "disabled"}}, {"thinkingConfig": {"thinkingBudget": 0}}),
    "adaptive thinking": ({"thinking": {"type": "adaptive"}}, {"thinkingConfig": {}}),
    "adaptive thinking with an effort": (
        {"thinking": {"type": "adaptive"}, "reasoning_effort": "low", "model": PRO},
        {"thinkingConfig": {"thinkingLevel": "LOW"}},
    ),
}


@pytest.mark.parametrize(("request_", "config"), CONFIGS.values(), ids=CONFIGS.keys())
def test_the_generation_config(request_, config):
    assert sent(**request_)["generationConfig"] == config


def test_whole_numbers_are_written_as_such_and_others_as_they_are():
    _, _, body = attempt({"temperature": 1.0, "top_p": 0.1, "presence_penalty": -2, "frequency_penalty": 1e-7})
    assert b'{"frequencyPenalty":1e-7,"presencePenalty":-2,"temperature":1,"topP":0.1}' in body


def test_the_members_of_the_config_stand_in_the_contracts_order():
    config = sent(
        model=PRO,
        n=1,
        frequency_penalty=1,
        top_logprobs=1,
        max_tokens=1,
        generationConfig={"media_resolution": "MEDIA_RESOLUTION_LOW"},
        presence_penalty=1,
        logprobs=True,
        response_format={"type": "json_schema", "json_schema": {"schema": {}}},
        seed=1,
        stop="x",
        temperature=1,
        reasoning_effort="low",
        top_p=1,
    )["generationConfig"]
    assert list(config) == [
        "responseJsonSchema",
        "candidateCount",
        "frequencyPenalty",
        "logprobs",
        "maxOutputTokens",
        "mediaResolution",
        "presencePenalty",
        "responseLogprobs",
        "responseMimeType",
        "seed",
        "stopSequences",
        "temperature",
        "thinkingConfig",
        "topP",
    ]


def json_schema(schema: Any = None) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}}


def test_a_schema_is_sent_as_it_is_to_models_that_take_it():
    schema = (
        b'{"type": "object",\n "properties": {"z": {"default": 1.0}, "a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {}}}'
    )
    body = b'{"model":"gemini-2.5-pro","response_format":{"type":"json_schema","json_schema":{"schema":%b}}}' % schema
    assert b'"responseJsonSchema":' + schema in attempt_bytes(body)[2]


def test_a_schema_is_converted_for_models_that_do_not():
    config = sent(model=OLD, **json_schema({"type": ["string", "null"], "$comment": "c"}))["generationConfig"]
    assert config == {"responseMimeType": "application/json", "responseSchema": {"nullable": True, "type": "string"}}


def test_a_schema_of_nothing_is_left_out_on_older_models():
    assert sent(model=OLD, **json_schema({}))["generationConfig"] == {"responseMimeType": "application/json"}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a schema that is no object": (json_schema("x"), "response_format.json_schema.schema: invalid json schema"),
    "a schema that is none": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
        "response_format.json_schema.schema: invalid json schema: there is none",
    ),
    "a schema that cannot be converted": (
        {"model": OLD, **json_schema({"$ref": "#"})},
        "response_format.json_schema.schema: invalid JSON schema: #: recursive",
    ),
    "two formats": (
        {"response_format": {"type": "text"}, "guided_choice": ["a"]},
        "only one of response_format, guided_choice, guided_regex and guided_json can be specified",
    ),
    "two extensions": ({"guided_regex": "a", "guided_json": {}}, "only one of"),
    "effort none on Pro": (
        {"reasoning_effort": "none", "model": PRO},
        "'none' is only supported for Gemini Flash models",
    ),
    "an unknown effort": ({"reasoning_effort": "minimal", "model": FLASH}, "invalid reasoning effort: minimal"),
    "a negative limit": ({"max_tokens": -1}, "max_tokens: -1 is out of range"),
    "a negative newer limit": ({"max_completion_tokens": -1}, "max_completion_tokens: -1 is out of range"),
    "negative candidates": ({"n": -1}, "n: -1 is out of range"),
    "too many candidates": ({"n": 2**31}, "n: 2147483648 is out of range"),
    "too many log probabilities": ({"top_logprobs": 2**31}, "top_logprobs: 2147483648 is out of range"),
}


@pytest.mark.parametrize(("request_", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_said_is_refused(request_, reason):
    with pytest.raises(UnprocessableRequest) as refused:
        attempt(request_)
    assert reason in str(refused.value)


# --- tools ---


def function(name: str = "f", **members: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **members}}


PARAMETERS = {"type": "object", "properties": {"b": {"type": ["string", "null"]}, "a": {"type": "integer"}}}

TOOLS: dict[str, tuple[str, list[dict[str, Any]], list[dict[str, Any]] | None]] = {
    "none": (OLD, [], None),
    "a function without a function": (OLD, [{"type": "function"}], None),
    "a function": (OLD, [function(description="d")], [{"functionDeclarations": [{"description": "d", "name": "f"}]}]),
    "empty parameters": (OLD, [function(parameters={})], [{"functionDeclarations": [{"name": "f"}]}]),
    "parameters of null": (PRO, [function(parameters=None)], [{"functionDeclarations": [{"name": "f"}]}]),
    "parameters on an older model": (
        OLD,
        [function(parameters=PARAMETERS)],
        [
            {
                "functionDeclarations": [
                    {
                        "name": "f",
                        "parameters": {
                            "properties": {"a": {"type": "integer"}, "b": {"nullable": True, "type": "string"}},
                            "type": "object",
                        },
                    }
                ]
            }
        ],
    ),
    "parameters as they are": (
        PRO,
        [function(parameters=PARAMETERS)],
        [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": PARAMETERS}]}],
    ),
    "empty parameters as they are": (
        PRO,
        [function(parameters={})],
        [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {}}]}],
    ),
    "parameters of any type as they are": (
        PRO,
        [function(parameters="x")],
        [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": "x"}]}],
    ),
    "search before functions": (
        OLD,
        [function("f"), {"type": "google_search"}, function("g", strict=True), {"type": "enterprise_search"}],
        [
            {"googleSearch": {}},
            {"enterpriseWebSearch": {}},
            {"functionDeclarations": [{"name": "f"}, {"name": "g"}]},
        ],
    ),
    "search with options": (
        OLD,
        [
            {
                "type": "google_search",
                "google_search": {
                    "exclude_domains": ["a.example"],
                    "blocking_confidence": "BLOCK_HIGH_AND_ABOVE",
                    "time_range_filter": {"start_time": "2025-01-01T00:00:00.5+01:00"},
                },
            }
        ],
        [
            {
                "googleSearch": {
                    "blockingConfidence": "BLOCK_HIGH_AND_ABOVE",
                    "excludeDomains": ["a.example"],
                    "timeRangeFilter": {"startTime": "2025-01-01T00:00:00.5+01:00"},
                }
            }
        ],
    ),
    "search without a range": (
        OLD,
        [{"type": "google_search", "google_search": {"exclude_domains": [], "time_range_filter": {}}}],
        [{"googleSearch": {}}],
    ),
}


@pytest.mark.parametrize(("model", "tools", "expected"), TOOLS.values(), ids=TOOLS.keys())
def test_tools(model, tools, expected):
    assert sent(model=model, tools=tools)["tools"] == expected


CHOICES: dict[str, tuple[Any, Any]] = {
    "none given": (None, None),
    "auto": ("auto", {"mode": "AUTO"}),
    "none": ("none", {"mode": "NONE"}),
    "required": ("required", {"mode": "ANY"}),
    "a function": (
        {"type": "function", "function": {"name": "f"}},
        {"allowedFunctionNames": ["f"], "mode": "ANY"},
    ),
}


@pytest.mark.parametrize(("choice", "expected"), CHOICES.values(), ids=CHOICES.keys())
def test_the_choice_of_a_tool(choice, expected):
    config = sent(tool_choice=choice).get("toolConfig")
    assert config == (None if expected is None else {"functionCallingConfig": expected})


REFUSED_TOOLS: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown type": ({"tools": [{"type": "retrieval"}]}, "tools of any other type is not supported"),
    "no type": ({"tools": [{}]}, "tools of any other type is not supported"),
    "image generation": ({"tools": [{"type": "image_generation"}]}, "tools.image_generation is not supported"),
    "parameters that are no object": (
        {"model": OLD, "tools": [function(parameters="x")]},
        "tools[0].function.parameters: tool f parameters must be a JSON object",
    ),
    "parameters that cannot be converted": (
        {"model": OLD, "tools": [{"type": "google_search"}, function(parameters={"items": {"$ref": "#"}})]},
        "tools[1].function.parameters: invalid JSON schema: #/items: recursive",
    ),
    "a time that is none": (
        {"tools": [{"type": "google_search", "google_search": {"time_range_filter": {"end_time": "yesterday"}}}]},
        "tools[0].google_search.time_range_filter.end_time: expected a time",
    ),
    "a day that is none": (
        {
            "tools": [
                {
                    "type": "google_search",
                    "google_search": {"time_range_filter": {"start_time": "2025-02-30T00:00:00Z"}},
                }
            ]
        },
        "tools[0].google_search.time_range_filter.start_time: expected a time",
    ),
    "an unknown choice": ({"tool_choice": "any"}, "tool_choice: unsupported tool_choice value 'any'"),
    "a choice of nothing": ({"tool_choice": {"type": "function"}}, "tool_choice.function.name: expected the name"),
}


@pytest.mark.parametrize(("request_", "reason"), REFUSED_TOOLS.values(), ids=REFUSED_TOOLS.keys())
def test_tools_that_gemini_does_not_have_are_refused(request_, reason):
    with pytest.raises(UnprocessableRequest) as refused:
        attempt(request_)
    assert reason in str(refused.value)


def test_bytes_that_are_no_text_are_refused_even_where_json_goes_through():
    body = b'{"model":"gemini-3-pro","tools":[{"type":"function","function":{"name":"f","parameters":{"a":"\xff"}}}]}'
    with pytest.raises(UnprocessableRequest, match="must be a JSON object"):
        attempt_bytes(body)


def test_json_that_can_just_be_read_is_not_written_a_level_deeper_than_it_can():
    refused = 0
    for depth in range(100, 1000, 20):
        nested = "[" * depth + "]" * depth
        calls = [{"id": "1", "function": {"name": "f", "arguments": '{"a":' + nested + "}"}}]
        try:
            attempt({"messages": [{"role": "assistant", "tool_calls": calls}]})
        except (UnprocessableRequest, MalformedRequest):
            refused += 1
    assert refused
