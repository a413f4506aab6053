"""What providers are asked to count: paths, models, versions, and what becomes of the client's words (contract, 15)."""

import base64
import json

import pytest

from extproc.errors import MalformedRequest, UnprocessableRequest
from tests.unit.translate.tokenize.attempts import CLAUDE, COUNTING, PROMPT, USER, chat, counted, send, text_of, turns
from tests.unit.translate.tokenize.oracle import ACCEPTS

EVERY_COUNTER = pytest.mark.parametrize("schema", COUNTING)
VERTEX = "publishers/anthropic/models/count-tokens:rawPredict"
GEMINI = "publishers/google/models"
TOOL = {"type": "function", "function": {"name": "f", "description": "does it", "parameters": {"type": "object"}}}

PATHS = {
    # schema, model, backend: path
    "OpenAI": ("OpenAI", "m", {}, "/tokenize"),
    "OpenAI with its version": ("OpenAI", "m", {"prefix": "v1"}, "/tokenize"),
    "OpenAI with its version as a path": ("OpenAI", "m", {"prefix": "/v1/"}, "/tokenize"),
    "OpenAI behind a gateway": ("OpenAI", "m", {"prefix": "/gateway/v1"}, "/gateway/tokenize"),
    "OpenAI without a version": ("OpenAI", "m", {"prefix": "llm/qwen"}, "/llm/qwen/tokenize"),
    "OpenAI with a name that begins like a version": ("OpenAI", "m", {"prefix": "v1-openai"}, "/v1-openai/tokenize"),
    "OpenAI with a name that ends like a version": ("OpenAI", "m", {"prefix": "llmv1"}, "/llmv1/tokenize"),
    "Anthropic": ("Anthropic", "m", {}, "/v1/messages/count_tokens"),
    "Anthropic behind a gateway": ("Anthropic", "m", {"prefix": "a/v1"}, "/a/v1/messages/count_tokens"),
    "Gemini": ("GCPVertexAI", "gemini-2.5-pro", {}, f"{GEMINI}/gemini-2.5-pro:countTokens"),
    "Gemini, escaped": ("GCPVertexAI", "a/../b?c", {}, f"{GEMINI}/a%2F..%2Fb%3Fc:countTokens"),
    "Claude on Vertex AI": ("GCPAnthropic", "claude-x@20250101", {}, VERTEX),
    **{
        f"{schema}, {model}": (schema, model, {}, f"/model/{base}/count-tokens")
        for schema in ("AWSBedrock", "AWSAnthropic")
        for model, base in {
            "anthropic.claude-x-v1:0": "anthropic.claude-x-v1:0",
            **{
                f"{geography}.anthropic.claude-x": "anthropic.claude-x"
                for geography in ("us-gov", "us", "eu", "apac", "uk", "au", "jp", "global")
            },
            "apac.amazon.nova-pro-v1:0": "amazon.nova-pro-v1:0",
            "us.us.amazon.x": "us.amazon.x",
            "usa.amazon.x": "usa.amazon.x",
            "a/b c": "a%2Fb%20c",
        }.items()
    },
}


@pytest.mark.parametrize(("schema", "model", "backend", "path"), PATHS.values(), ids=PATHS)
def test_the_path_is_that_of_the_provider(schema, model, backend, path):
    _, of_client = send(schema, {**PROMPT, "model": model}, **backend)
    _, of_override = send(schema, PROMPT, model_override=model, **backend)
    assert of_client.path == of_override.path == path


@EVERY_COUNTER
def test_the_query_of_the_client_stays_here(schema):
    _, sent = send(schema, query="a=1")
    assert "?" not in sent.path


def test_the_query_goes_along_to_the_same_api():
    _, sent = send("OpenAI", query="a=1")
    assert sent.path == "/tokenize?a=1"


# --- a backend of the same API ---

BODY = b'{ "model":"m" , "messages":[{"role":"critic","content":[{"type":"x"}]}], "mm_processor_kwargs":{"n":1.0} }'
BODIES = {
    # override, force: body
    "as it is": ("", False, None),
    "a retry": ("", True, BODY),
    "an override": ("real", False, BODY.replace(b'"m"', b'"real"')),
    "an override in a retry": ("real", True, BODY.replace(b'"m"', b'"real"')),
}


@pytest.mark.parametrize(("override", "force", "body"), BODIES.values(), ids=BODIES)
def test_only_the_model_is_changed_for_the_same_api(override, force, body):
    _, sent = send("OpenAI", BODY, force=force, model_override=override)
    assert sent.body == body
    assert sent.headers == ()


# --- the others ---


@EVERY_COUNTER
def test_a_prompt_is_what_a_user_says(schema):
    assert turns(counted(schema, {**PROMPT, "prompt": "What is 1 < 2?"})) == [text_of(schema, "What is 1 < 2?")]


@EVERY_COUNTER
def test_what_is_sent_is_valid(schema):
    whole = chat({"role": "system", "content": "s"}, USER, tools=[TOOL], media_resolution="MEDIA_RESOLUTION_LOW")
    for request in (PROMPT, whole):
        _, sent = send(schema, request, model_override="claude-or-gemini")
        ACCEPTS[schema](sent.path, sent.body)


@EVERY_COUNTER
def test_an_attempt_takes_nothing_from_the_next(schema):
    request = chat({"role": "system", "content": "s"}, USER, tools=[TOOL])
    assert [send(schema, request)[1].body for _ in range(2)] == [send(schema, request, force=True)[1].body] * 2


SYSTEM = {
    "AWSBedrock": [{"text": "a"}, {"text": "b"}],
    "GCPVertexAI": {"parts": [{"text": "a"}, {"text": "b"}]},
    **{schema: [{"text": "a", "type": "text"}, {"text": "b", "type": "text"}] for schema in CLAUDE},
}


@EVERY_COUNTER
@pytest.mark.parametrize("roles", [("system", "system"), ("system", "developer"), ("developer", "developer")])
def test_system_and_developer_are_the_system_prompt(schema, roles):
    first, second = roles
    body = counted(schema, chat({"role": first, "content": "a"}, USER, {"role": second, "content": "b"}))
    assert turns(body) == [text_of(schema, "hi")]
    assert body.get("systemInstruction", body.get("system")) == SYSTEM[schema]


@pytest.mark.parametrize("schema", CLAUDE)
def test_a_single_system_prompt_is_a_text(schema):
    body = counted(schema, chat({"role": "system", "content": [{"type": "text", "text": "a"}]}, USER))
    assert body["system"] == "a"


DESCRIBED = {
    "AWSBedrock": lambda body: body["toolConfig"]["tools"][0]["toolSpec"]["description"],
    "GCPVertexAI": lambda body: body["tools"][0]["functionDeclarations"][0]["description"],
    **dict.fromkeys(CLAUDE, lambda body: body["tools"][0]["description"]),
}


@EVERY_COUNTER
def test_descriptions_of_tools_are_counted(schema):
    """Without them the count would be too low (quirk Q32)."""
    assert DESCRIBED[schema](counted(schema, chat(USER, tools=[TOOL]))) == "does it"


@EVERY_COUNTER
@pytest.mark.parametrize("tools", [[], None])
def test_without_tools_none_are_named(schema, tools):
    body = counted(schema, chat(USER, tools=tools))
    assert not {"tools", "toolConfig"} & body.keys()


@pytest.mark.parametrize("schema", [*CLAUDE, "GCPVertexAI"])
def test_a_tool_without_a_function_is_none(schema):
    assert "tools" not in counted(schema, chat(USER, tools=[{"type": "function"}]))


CALLS = (
    USER,
    {
        "role": "assistant",
        "tool_calls": [
            {"id": f"call_{name}", "type": "function", "function": {"name": name, "arguments": "{}"}} for name in "ab"
        ],
    },
    {"role": "tool", "tool_call_id": "call_a", "content": "1"},
    {"role": "tool", "tool_call_id": "call_b", "content": "2"},
)


@EVERY_COUNTER
def test_results_of_tools_in_a_row_are_one_turn(schema):
    """Bedrock refuses two turns of one role (quirk Q32)."""
    history = turns(counted(schema, chat(*CALLS, tools=[TOOL])))
    assert [turn["role"] for turn in history] == ["user", "model" if schema == "GCPVertexAI" else "assistant", "user"]
    assert [len(turn.get("parts", turn.get("content"))) for turn in history] == [1, 2, 2]


RESOLUTIONS = {"given": ("HIGH", {"mediaResolution": "HIGH"}), "empty": ("", None), "null": (None, None)}


@pytest.mark.parametrize(("given", "expected"), RESOLUTIONS.values(), ids=RESOLUTIONS)
@pytest.mark.parametrize("model", ["gemini-1.5-pro", "gemini-3-pro"])
def test_the_resolution_of_images_goes_to_gemini(given, expected, model):
    body = counted("GCPVertexAI", chat(USER, media_resolution=given), model_override=model)
    assert body.get("generationConfig") == expected


@pytest.mark.parametrize("schema", [each for each in COUNTING if each != "GCPVertexAI"])
def test_other_providers_have_no_such_resolution(schema):
    assert counted(schema, chat(USER, media_resolution="HIGH")) == counted(schema, chat(USER))


RENDERING = {
    "special tokens": {"add_special_tokens": True},
    "a template": {"chat_template": "{{ messages }}"},
    "arguments of a template": {"chat_template_kwargs": {"enable_thinking": False}},
    "arguments of a processor": {"mm_processor_kwargs": {"num_crops": 4}},
    "a generation prompt": {"add_generation_prompt": False},
    "no strings": {"return_token_strs": False},
    "what we do not know": {"x": 1},
}


@EVERY_COUNTER
@pytest.mark.parametrize("members", RENDERING.values(), ids=RENDERING)
def test_how_a_tokenizer_of_one_s_own_renders_a_chat_does_not_matter(schema, members):
    assert counted(schema, chat(USER, **members)) == counted(schema, chat(USER))


# --- models and versions ---

VERTEX_MODELS = {
    "claude-x": "claude-x",
    "claude-x@default": "claude-x",
    "claude-x@latest": "claude-x",
    "claude-x@latest@default": "claude-x",
    "claude-x@20251001": "claude-x@20251001",
    "anthropic/claude-x@latest": "claude-x",
    "publishers/anthropic/models/claude-x": "claude-x",
}


@pytest.mark.parametrize("given", VERTEX_MODELS)
def test_an_alias_is_no_model_of_vertex_ai(given):
    for request, override in (({**PROMPT, "model": given}, ""), (PROMPT, given)):
        body = counted("GCPAnthropic", request, model_override=override)
        assert body["model"] == VERTEX_MODELS[given]


VERSIONS = {
    # schema, version: what is in the body
    "Vertex AI": ("GCPAnthropic", "", "vertex-2023-10-16"),
    "Vertex AI, configured": ("GCPAnthropic", "vertex-x", "vertex-x"),
    "Bedrock": ("AWSAnthropic", "", "bedrock-2023-05-31"),
    "Bedrock, configured": ("AWSAnthropic", "bedrock-x", "bedrock-x"),
    "first-party": ("Anthropic", "", None),
}


@pytest.mark.parametrize(("schema", "version", "expected"), VERSIONS.values(), ids=VERSIONS)
def test_the_version_is_in_the_body(schema, version, expected):
    assert counted(schema, PROMPT, version=version).get("anthropic_version") == expected


@pytest.mark.parametrize(("version", "expected"), [("", "2023-06-01"), ("2024-01-01", "2024-01-01")])
def test_anthropic_s_version_is_a_header(version, expected):
    assert send("Anthropic", version=version)[1].headers == (("anthropic-version", expected),)


def test_invoke_model_gets_a_limit_and_no_model():
    _, sent = send("AWSAnthropic", chat({"role": "system", "content": "s"}, USER, tools=[TOOL]))
    inner = base64.b64decode(json.loads(sent.body)["input"]["invokeModel"]["body"])
    body = json.loads(inner)
    assert list(body) == ["messages", "system", "tools", "anthropic_version", "max_tokens"]
    assert body["max_tokens"] == 1


def test_members_stand_in_the_order_of_the_contract():
    whole = chat({"role": "system", "content": "s"}, USER, tools=[TOOL], media_resolution="X")
    assert list(counted("GCPVertexAI", whole)) == ["contents", "systemInstruction", "tools", "generationConfig"]
    assert list(counted("AWSBedrock", whole)) == ["messages", "system", "toolConfig"]
    assert list(counted("GCPAnthropic", whole)) == ["messages", "model", "system", "tools", "anthropic_version"]


# --- refusals ---

NOTHING = {
    "no prompt": {"model": "m"},
    "an empty prompt": {"model": "m", "prompt": ""},
    "no messages": chat(),
    "a message without content": chat({"role": "user", "content": ""}),
    "parts without content": chat({"role": "user", "content": [{"type": "text", "text": ""}]}),
    "an empty system prompt": chat({"role": "system", "content": ""}),
}


@EVERY_COUNTER
@pytest.mark.parametrize("request_", NOTHING.values(), ids=NOTHING)
def test_nothing_cannot_be_counted(schema, request_):
    with pytest.raises(UnprocessableRequest, match=r"nothing to|at least one content entry"):
        send(schema, request_)


AUDIO = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
INEXPRESSIBLE = {
    # schemas, request: what the message names
    "the strings of tokens": (COUNTING, {**PROMPT, "return_token_strs": True}, "return_token_strs"),
    "audio": ((*CLAUDE, "AWSBedrock"), chat({"role": "user", "content": [AUDIO]}), "audio"),
    "an image by its address": (
        ("AWSBedrock",),
        chat({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a/b.png"}}]}),
        "invalid image data URI",
    ),
    "an image of an unknown format": (
        ("AWSBedrock",),
        chat({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/bmp;base64,AA=="}}]}),
        "unsupported image format image/bmp",
    ),
    "a call without an id": (
        COUNTING,
        chat(USER, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}),
        "missing required field 'id'",
    ),
    "arguments that are no JSON": (
        COUNTING,
        chat(USER, {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{"}}]}),
        r"tool_calls\[0\]\.function\.arguments",
    ),
    "parameters that are no object": (
        COUNTING,
        chat(USER, tools=[{"type": "function", "function": {"name": "f", "parameters": [1]}}]),
        r"tools\[0\]\.function\.parameters",
    ),
    "a tool of another kind": ((*CLAUDE, "AWSBedrock"), chat(USER, tools=[{"type": "google_search"}]), "google_search"),
}


@pytest.mark.parametrize(
    ("schema", "request_", "named"),
    [
        pytest.param(schema, request_, named, id=f"{name}, {schema}")
        for name, (schemas, request_, named) in INEXPRESSIBLE.items()
        for schema in schemas
    ],
)
def test_what_the_provider_cannot_count_is_named(schema, request_, named):
    with pytest.raises(UnprocessableRequest, match=named):
        send(schema, request_, model_override="gemini-1.5-pro" if schema == "GCPVertexAI" else "")


@EVERY_COUNTER
def test_several_prompts_are_no_chat(schema):
    with pytest.raises(MalformedRequest, match="failed to parse JSON for /tokenize"):
        send(schema, {"model": "m", "prompt": ["a", "b"]})
