"""Any request is counted as its provider takes it, or refused; any answer is a count, or none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.errors import MalformedRequest, UnprocessableRequest, UnreadableAnswer
from tests.unit.translate.tokenize.attempts import COUNTING, send
from tests.unit.translate.tokenize.oracle import ACCEPTS

texts = st.sampled_from(["", " ", "x", "\n", "é", '"\\"', "y "])
odd = st.none() | st.booleans() | st.integers() | texts
PNG = "data:image/png;base64,AAEC"


def one(good: Sequence[Any], bad: Sequence[Any], *, sound: bool) -> st.SearchStrategy[Any]:
    return st.sampled_from([*good] if sound else [*good, *bad])


def typed(kind: str, **members: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(members).map(lambda found: {"type": kind, **found})


def role(name: str, **members: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(members).map(lambda found: {"role": name, **found})


text_parts = typed("text", text=texts, cache_control=st.sampled_from([{"type": "ephemeral"}, None]))
contents = texts | st.lists(text_parts, max_size=2)


def user_parts(*, sound: bool) -> st.SearchStrategy[Any]:
    pages = one(["data:application/pdf;base64,JVBERi0="], ["?", "data:,"], sound=sound)
    images = typed(
        "image_url", image_url=st.fixed_dictionaries({"url": one([PNG], ["https://a/b.png", "", "?"], sound=sound)})
    )
    parts = [text_parts, images, typed("file", file=st.fixed_dictionaries({"file_data": pages}))]
    sounds = typed("input_audio", input_audio=st.fixed_dictionaries({"data": texts, "format": st.just("wav")}))
    return st.one_of(parts if sound else [*parts, sounds])


def answers(*, sound: bool) -> st.SearchStrategy[Any]:
    """Calls, and their results; or those of no call."""
    calls = st.builds(
        lambda id_, name, arguments: {"id": id_, "function": {"name": name, "arguments": arguments}},
        one(["a", "b"], ["", None], sound=sound),
        one(["f", "g"], ["", "h i"], sound=sound),
        one(["{}", '{"a":1.0}', ""], ["[]", "{"], sound=sound),
    )
    called = role("assistant", content=texts, tool_calls=st.lists(calls, min_size=1, max_size=2, unique_by=_id))
    results = called.flatmap(
        lambda message: st.tuples(
            st.just(message),
            *(
                role("tool", content=contents, tool_call_id=st.just(call["id"] or "x"))
                for call in message["tool_calls"]
            ),
        )
    )
    strangers = st.tuples(role("tool", content=contents, tool_call_id=st.sampled_from(["x", ""])))
    return results if sound else results | strangers


def _id(call: dict[str, Any]) -> Any:
    return call["id"]


def conversations(*, sound: bool) -> st.SearchStrategy[Any]:
    single = [
        role("system", content=contents),
        role("developer", content=contents),
        role("user", content=texts | st.lists(user_parts(sound=sound), max_size=3) | st.none()),
        role("assistant", content=contents | st.none()),
    ]
    if not sound:
        single.append(role("critic", content=texts))
    groups = st.lists(st.one_of(single).map(lambda message: (message,)) | answers(sound=sound), max_size=4)
    return groups.map(lambda found: [message for group in found for message in group])


def tools(*, sound: bool) -> st.SearchStrategy[Any]:
    schemas = one(
        [{"type": "object", "properties": {"a": {"type": "string"}}}, {}, None],
        [{"type": "string"}, [1], {"$ref": "#/x"}],
        sound=sound,
    )
    names = one(["f", "g"], [""], sound=sound)
    functions = st.fixed_dictionaries({"name": names, "description": texts, "parameters": schemas})
    kinds = [typed("function", function=functions)]
    found = st.lists(
        st.one_of(kinds if sound else [*kinds, typed("google_search"), typed("x")]),
        max_size=2,
        unique_by=lambda tool: tool.get("function", {}).get("name"),
    )
    return found if sound else found | odd


def requests(*, sound: bool) -> st.SearchStrategy[Any]:
    flags = st.booleans() if sound else odd
    chats = st.fixed_dictionaries(
        {"messages": conversations(sound=sound)},
        optional={
            "tools": tools(sound=sound),
            # Google judges the value; the SDK would only warn of one that it does not know.
            "media_resolution": one(["MEDIA_RESOLUTION_HIGH", "", None], [5], sound=sound),
            "return_token_strs": st.sampled_from([False]) if sound else odd,
            "add_special_tokens": flags,
            "continue_final_message": st.sampled_from([False]) if sound else odd,
        },
    )
    prompts = st.fixed_dictionaries({"prompt": texts if sound else odd}, optional={"tools": tools(sound=sound)})
    return (chats | prompts).map(lambda found: {"model": "m", **found})


models = st.sampled_from(["claude-x", "gemini-1.5-pro", "gemini-3-flash"])


@pytest.mark.parametrize("schema", COUNTING)
@settings(max_examples=40)
@given(request=requests(sound=True), model=models)
def test_a_sound_request_is_sent_as_the_provider_takes_it(schema, request, model):
    try:
        _, sent = send(schema, request, model_override=model)
    except UnprocessableRequest as refusal:
        text = str(refusal)
    else:
        ACCEPTS[schema](sent.path, sent.body)
        return
    # Nothing else is a reason: what is blank is nothing to most providers.
    assert "nothing to" in text or "at least one content entry" in text


@pytest.mark.parametrize("schema", COUNTING)
@settings(max_examples=40)
@given(request=requests(sound=False), model=models)
def test_any_other_is_sent_as_the_provider_takes_it_or_refused(schema, request, model):
    try:
        _, sent = send(schema, request, model_override=model)
    except (MalformedRequest, UnprocessableRequest):
        return
    ACCEPTS[schema](sent.path, sent.body)


json_values = st.recursive(
    odd | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["inputTokens", "input_tokens", "totalTokens", "error", "message", "type"]), inner
        )
    ),
    max_leaves=6,
)
bodies = st.binary(max_size=40) | json_values.map(lambda value: json.dumps(value).encode())


@pytest.mark.parametrize("schema", COUNTING)
@given(body=bodies)
def test_any_answer_is_a_count_or_none(schema, body):
    translator, _ = send(schema)
    translator.response_headers({})
    try:
        result = translator.response_body(body, end_of_stream=True)
    except UnreadableAnswer:
        return
    answer = json.loads(result.body)
    assert answer == {"count": answer["count"], "max_model_len": 0, "tokens": None}
    assert answer["count"] >= 0


@pytest.mark.parametrize("schema", COUNTING)
@given(body=bodies, content_type=st.sampled_from(["application/json", "text/plain", ""]))
def test_any_error_can_be_read(schema, body, content_type):
    translator, _ = send(schema)
    result = translator.response_error("500", {"content-type": content_type}, body)
    error = json.loads(result.body)["error"]
    assert error["type"]
    assert error["code"] == "500"
