"""Any conversation is sent as Google takes it, or refused to the client; and what an answer says comes back."""

import json
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from extproc.errors import ClientError
from tests.unit.translate.chat.gemini.attempts import USER, answer, attempt, candidate, sent, streamed
from tests.unit.translate.chat.gemini.oracle import accept

MODELS = st.sampled_from(["gemini-2.0-flash", "gemini-2.5-pro", "gemini-3-flash", "gemini-3-pro-preview", "our-model"])
TEXT = st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
IDS = st.sampled_from(["1", "2", "3", ""])
SIGNATURES = st.none() | st.sampled_from(["AAEC", "-_8", "", "!"])


def members(required: dict[str, Any] | None = None, **optional: st.SearchStrategy) -> st.SearchStrategy:
    return st.fixed_dictionaries(required or {}, optional=optional)


def tagged(kind: str, **required: st.SearchStrategy) -> st.SearchStrategy:
    return st.fixed_dictionaries({"type": st.just(kind), **required})


URLS = (
    st.sampled_from(
        [
            "data:image/png;base64,AAEC",
            "data:,x",
            "data:",
            "https://example.com/a.png?b",
            "gs://a/b",
            "%",
            "",
            "http://[x",
        ]
    )
    | TEXT
)
TEXT_PARTS = tagged("text", text=TEXT)
USER_PARTS = st.one_of(
    TEXT_PARTS,
    tagged("image_url", image_url=members({"url": URLS}, detail=st.sampled_from(["low", "auto", "sharp"]))),
    tagged("audio_url", audio_url=members({"url": URLS})),
    tagged("video_url", video_url=members({"url": URLS})),
    tagged(
        "input_audio",
        input_audio=members(data=st.sampled_from(["AAEC", "", "?"]), format=st.sampled_from(["wav", "x"])),
    ),
    tagged("file", file=members(file_data=URLS, filename=TEXT, file_id=TEXT)),
)
ASSISTANT_PARTS = st.one_of(
    TEXT_PARTS,
    members({"type": st.just("thinking")}, text=TEXT, signature=SIGNATURES),
    tagged("refusal", refusal=TEXT),
)
ARGUMENTS = st.dictionaries(TEXT, JSON, max_size=2).map(json.dumps) | st.sampled_from(["", "null", "[]", "{"])
CALLS = st.fixed_dictionaries({"id": IDS, "function": st.fixed_dictionaries({"name": TEXT, "arguments": ARGUMENTS})})
BLOCKS = members(
    {"type": st.sampled_from(["thinking", "redacted_thinking"])}, thinking=TEXT, signature=SIGNATURES, data=TEXT
)
MESSAGES = st.one_of(
    members({"role": st.sampled_from(["system", "developer"]), "content": TEXT | st.lists(TEXT_PARTS, max_size=2)}),
    members({"role": st.just("user"), "content": TEXT | st.lists(USER_PARTS, max_size=3)}),
    members(
        {"role": st.just("assistant")},
        content=st.none() | TEXT | st.lists(ASSISTANT_PARTS, max_size=3) | ASSISTANT_PARTS,
        tool_calls=st.lists(CALLS, max_size=3),
        thinking_blocks=st.lists(BLOCKS, max_size=2),
        reasoning_content=TEXT,
    ),
    members({"role": st.just("tool"), "tool_call_id": IDS, "content": TEXT | st.lists(TEXT_PARTS, max_size=2)}),
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])
SCHEMAS = st.recursive(
    st.just({}) | members(type=TYPES | st.lists(TYPES, min_size=1, max_size=3), enum=st.lists(JSON, max_size=2)),
    lambda inner: members(
        type=TYPES,
        properties=st.dictionaries(TEXT, inner, max_size=3),
        items=inner,
        anyOf=st.lists(inner, min_size=1, max_size=3),
        allOf=st.lists(inner, min_size=1, max_size=2),
        const=JSON,
        description=TEXT,
        minLength=st.integers(min_value=0, max_value=2**31),
        maximum=st.integers() | st.floats(allow_nan=False, allow_infinity=False),
        **{"$ref": st.sampled_from(["#", "#/properties/a"])},
    ),
    max_leaves=8,
)
FUNCTIONS = tagged("function", function=members({"name": TEXT}, description=TEXT, parameters=SCHEMAS | JSON))
COUNTS = st.integers(min_value=-(2**70), max_value=2**70)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(min_value=-5, max_value=5)
REQUESTS = members(
    {"model": MODELS, "messages": st.lists(MESSAGES, max_size=6)},
    tools=st.lists(FUNCTIONS | tagged("google_search") | tagged("enterprise_search"), max_size=3),
    tool_choice=st.sampled_from(["auto", "none", "required", "x", {"type": "function", "function": {"name": "f"}}, {}]),
    temperature=NUMBERS,
    top_p=NUMBERS,
    presence_penalty=NUMBERS,
    n=COUNTS,
    seed=COUNTS,
    max_tokens=COUNTS,
    top_logprobs=COUNTS,
    logprobs=st.booleans(),
    stop=TEXT | st.lists(TEXT | st.integers(), max_size=2),
    reasoning_effort=st.sampled_from(["none", "low", "medium", "high", "max"]),
    thinking=st.sampled_from([{"type": "disabled"}, {"type": "adaptive"}])
    | members({"type": st.just("enabled")}, budget_tokens=COUNTS, includeThoughts=st.booleans()),
    response_format=st.sampled_from([{"type": "text"}, {"type": "json_object"}])
    | tagged("json_schema", json_schema=members({"name": TEXT}, schema=SCHEMAS | JSON)),
    guided_choice=st.lists(TEXT, max_size=2),
    guided_json=JSON,
    stream=st.booleans(),
)


@given(REQUESTS)
def test_any_request_is_sent_as_google_takes_it_or_refused(request):
    try:
        _, path, body = attempt(request)
    except ClientError:
        return
    accept(path, body)


MEDIA_PARTS = st.sampled_from(
    [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAEC", "detail": "high"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "input_audio", "input_audio": {"data": "AAEC", "format": "mp3"}},
        {"type": "file", "file": {"file_data": "AAEC", "filename": "a.pdf"}},
    ]
)
BLOCK = st.none() | st.just({"type": "thinking", "thinking": "t", "signature": "AAEC"})
TURNS = st.tuples(
    TEXT | st.lists(TEXT_PARTS | MEDIA_PARTS, max_size=3),
    TEXT,
    st.lists(st.tuples(st.text(min_size=1, max_size=4), st.dictionaries(TEXT, JSON, max_size=2)), max_size=3),
    BLOCK,
    st.randoms(use_true_random=False),
)


@given(turns=st.lists(TURNS, max_size=4), model=MODELS)
def test_a_conversation_as_it_should_be_is_never_refused(turns, model):
    messages: list[dict[str, Any]] = []
    for number, (asked, said, calls, block, random) in enumerate(turns):
        assistant: dict[str, Any] = {"role": "assistant", "content": said}
        if calls:
            assistant["tool_calls"] = [
                {"id": f"{number}-{at}", "function": {"name": name, "arguments": json.dumps(arguments)}}
                for at, (name, arguments) in enumerate(calls)
            ]
        if block:
            assistant["thinking_blocks"] = [block]
        results = [
            {"role": "tool", "tool_call_id": f"{number}-{at}", "content": name} for at, (name, _) in enumerate(calls)
        ]
        random.shuffle(results)
        messages += [{"role": "user", "content": asked}, assistant, *results]
    contents = sent(model=model, messages=messages)["contents"] or []
    called = [part["functionCall"]["name"] for each in contents for part in each["parts"] if "functionCall" in part]
    answered = [part["functionResponse"] for each in contents for part in each["parts"] if "functionResponse" in part]
    assert called == [name for _, _, calls, _, _ in turns for name, _ in calls]
    assert [(each["name"], each["response"]) for each in answered] == [(name, {"output": name}) for name in called]


PIECES = st.text(min_size=1, max_size=6)
ARGS = st.dictionaries(st.text(max_size=3), JSON, max_size=2)
SAID = st.fixed_dictionaries(
    {
        "thoughts": st.lists(PIECES, max_size=2),
        "texts": st.lists(PIECES, max_size=3),
        "calls": st.lists(st.tuples(st.text(min_size=1, max_size=4), ARGS), max_size=3),
        "signature": st.sampled_from(["", "AAEC", "BBBB"]),
    }
)


def parts_of(said: dict[str, Any]) -> list[dict[str, Any]]:
    """An answer of Gemini: thoughts, text, calls; with its signature on the first call, or else on the last text."""
    thoughts = [{"text": each, "thought": True} for each in said["thoughts"]]
    texts = [{"text": each} for each in said["texts"]]
    calls = [{"functionCall": {"name": name, "args": args}} for name, args in said["calls"]]
    if said["signature"]:
        signed = calls[0] if calls else texts[-1]
        signed["thoughtSignature"] = said["signature"]
    return [*thoughts, *texts, *calls]


def gathered(stream: Any) -> dict[str, Any]:
    """The message that a client makes of a stream."""
    calls: list[dict[str, Any]] = []
    blocks: list[dict[str, Any]] = []
    for delta in stream.deltas:
        blocks += delta.get("thinking_blocks", [])
        calls += [{key: value for key, value in each.items() if key != "index"} for each in delta.get("tool_calls", [])]
    message: dict[str, Any] = {"role": "assistant", "content": stream.joined("content") or None}
    if calls:
        message["tool_calls"] = calls
    if blocks:
        message["thinking_blocks"] = blocks
    if reasoning := stream.joined("reasoning_content"):
        message["reasoning_content"] = reasoning
    return message


@given(said=SAID, as_stream=st.booleans())
def test_what_an_answer_says_comes_back_in_the_next_request(said, as_stream):
    assume(said["texts"] or said["calls"])
    parts = parts_of(said)
    if as_stream:
        message = gathered(streamed(*(candidate(part) for part in parts), candidate(finish="STOP")))
    else:
        message = answer(candidate(*parts, finish="STOP"))["choices"][0]["message"]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "r"} for call in message.get("tool_calls", ())]
    model = sent(messages=[USER, message, *results])["contents"][1]["parts"]
    text = "".join(part["text"] for part in model if "text" in part and "thought" not in part)
    assert text == "".join(said["texts"])
    calls = [part["functionCall"] for part in model if "functionCall" in part]
    assert [(call["name"], call.get("args", {})) for call in calls] == said["calls"]
    signatures = [part.get("thoughtSignature") for part in model]
    if said["signature"]:
        signed = signatures.index(said["signature"])
        assert signed == (len(model) - len(calls) if calls else len(model) - 1)
        thoughts = "".join(part["text"] for part in model if part.get("thought"))
        assert thoughts == "".join(said["thoughts"])
    assert sum(signature is not None for signature in signatures) == bool(said["signature"] or calls)
