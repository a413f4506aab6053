"""Any conversation is sent as the service takes it, or refused; and what we answer can be sent back to us."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.errors import MalformedRequest, UnprocessableRequest
from tests.support.converse import accept
from tests.support.eventstream import event
from tests.support.golden import make_translator
from tests.unit.translate.chat.bedrock.attempts import MODEL, Stream, completion, messages, send

# Nothing else may be raised: each is a status of 4xx with a message for the client.
REFUSALS = (MalformedRequest, UnprocessableRequest)

texts = st.sampled_from(["", " ", "x", "\n", "é", '"\\"'])
controls = st.sampled_from([None, {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}, {"type": "other"}, {}])
odd = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts


class Draw:
    """Strategies for requests; ``sound``: only such as the service can answer."""

    def __init__(self, *, sound: bool) -> None:
        self.sound = sound

    def objects(self, **members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
        """Objects of which, if they need not be sound, any member may be missing."""
        return st.fixed_dictionaries(members) if self.sound else st.fixed_dictionaries({}, optional=members)

    def one(self, *sound: Any, broken: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:
        return st.sampled_from(sound if self.sound else (*sound, *broken))

    def typed(self, kind: str, **members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
        return self.objects(**members, cache_control=controls).map(lambda found: {"type": kind, **found})

    def role(self, name: str, **members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
        return self.objects(**members).map(lambda found: {"role": name, **found})

    def uri(self, *sound: str) -> st.SearchStrategy[str]:
        return self.one(*sound, broken=("https://a/b.png", "data:,", "data:image/png;base64,!", "", "data:x/y,AAAA"))

    def user_parts(self) -> st.SearchStrategy[Any]:
        images = self.uri("data:image/png;base64,AAEC", "data:image/gif,AAEC")
        files = self.uri("data:application/pdf;base64,JVBERi0=", "data:text/csv,a%2Cb", "JVBERi0=")
        names = self.one("a.pdf", "b_é.csv", "", ".md", "a  b")
        return st.one_of(
            self.typed("text", text=texts),
            self.typed("image_url", image_url=self.objects(url=images, detail=texts)),
            self.typed("video_url", video_url=self.objects(url=self.uri("data:video/mp4;base64,AAEC"))),
            self.typed("file", file=self.objects(file_data=files, filename=names)),
        )

    def assistant_parts(self) -> st.SearchStrategy[Any]:
        return st.one_of(
            self.typed("text", text=texts),
            self.typed("refusal", refusal=texts),
            self.typed("thinking", text=texts, signature=texts),
            self.typed("redacted_thinking", redactedContent=self.one("", "AA==", broken=("?",))),
        )

    def calls(self) -> st.SearchStrategy[Any]:
        arguments = self.one(
            "", "{}", '{"b":1.0,"a":[1e3]}', "null", broken=("[]", "{", '{"a":1e999}', '{"a":"\\ud800"}')
        )
        function = self.objects(name=self.one("f", "g", broken=("",)), arguments=arguments)
        return self.objects(
            id=self.one("a", "b", broken=("", None)), type=texts, function=function, cache_control=controls
        )

    def messages(self) -> st.SearchStrategy[Any]:
        text_parts = st.lists(self.typed("text", text=texts), max_size=3)
        thoughts = self.objects(
            type=self.one("thinking", "redacted_thinking", broken=("x",)),
            thinking=texts,
            signature=texts,
            data=self.one("", "AA=="),
        )
        parts = self.assistant_parts()
        return st.one_of(
            self.role("system", content=texts | text_parts),
            self.role("developer", content=texts | text_parts),
            self.role("user", content=st.none() | texts | st.lists(self.user_parts(), max_size=4)),
            self.role(
                "assistant",
                content=st.none() | texts | st.lists(parts, max_size=4) | parts,
                refusal=texts,
                tool_calls=st.none() | st.lists(self.calls(), max_size=3),
                thinking_blocks=st.none() | st.lists(thoughts, max_size=3),
                reasoning_content=odd,
            ),
            self.role(
                "tool",
                content=texts | text_parts,
                tool_call_id=self.one("a", "b", broken=("",)),
                cache_control=controls,
            ),
        )

    def tools(self) -> st.SearchStrategy[Any]:
        function = self.objects(
            name=self.one("f", "g"),
            description=texts,
            strict=st.booleans(),
            parameters=self.one(None, {}, {"type": "object"}, broken=([], "x")),
            cache_control=controls,
        )
        kinds = self.one("function", "x", broken=("google_search",))
        return st.lists(self.objects(type=kinds, function=function), max_size=3)

    def requests(self) -> st.SearchStrategy[dict[str, Any]]:
        return self.objects(
            messages=st.lists(self.messages(), min_size=3 if self.sound else 0, max_size=8),
            max_tokens=self.one(None, 1, 2**31 - 1, broken=(0, -1, 2**31, 2**63, 2**64)),
            temperature=self.one(None, 0, 0.5, 1.0, broken=(-1, 1e300)),
            top_p=st.none() | st.floats(0, 1),
            stop=st.none() | texts | st.lists(texts | st.integers() | st.booleans(), max_size=2),
            tools=self.tools(),
            tool_choice=self.one(None, "", "auto", "none", broken=("required", "f", {"function": {"name": "f"}}, {})),
            service_tier=self.one(None, "", "auto", "flex", "default"),
            reasoning_effort=texts,
            thinking=self.one(None, {"type": "enabled", "budget_tokens": 1}, {"type": "disabled"}),
            response_format=self.one(
                None, {"type": "text"}, {"type": "json_schema", "json_schema": {"name": "n", "schema": {"a": 1.0}}}
            ),
            stream=st.booleans(),
        )


SOUND, ANY = Draw(sound=True), Draw(sound=False)


@settings(max_examples=200)
@given(SOUND.requests())
def test_a_sound_conversation_is_accepted_by_the_service(request: dict[str, Any]):
    sent = send(make_translator("AWSBedrock", {}), request)
    assert sent.body is not None
    accept(sent.path, sent.body)


@settings(max_examples=200)
@given(ANY.requests())
def test_any_conversation_is_accepted_by_the_service_or_refused(request: dict[str, Any]):
    try:
        sent = send(make_translator("AWSBedrock", {}), request)
    except REFUSALS:
        return
    assert sent.body is not None
    accept(sent.path, sent.body)


@settings(max_examples=200)
@given(
    ANY.objects(
        messages=st.lists(ANY.role("user", content=odd) | ANY.messages() | odd, max_size=3),
        tools=odd,
        thinking=odd,
        n=odd,
    )
)
def test_members_of_any_type_are_a_4xx_at_worst(request: dict[str, Any]):
    with suppress(*REFUSALS):
        send(make_translator("AWSBedrock", {}), request)


# --- there and back ---

replied = st.one_of(
    st.sampled_from(["x", "é\n", '"']).map(lambda text: {"text": text}),
    st.tuples(st.sampled_from(["think", "é"]), st.sampled_from(["c2ln", "c2lnMg=="])).map(
        lambda both: {"reasoningContent": {"reasoningText": {"text": both[0], "signature": both[1]}}}
    ),
    st.sampled_from(["AA==", "b3BhcXVl"]).map(lambda data: {"reasoningContent": {"redactedContent": data}}),
    st.tuples(st.sampled_from(["t1", "t2"]), st.sampled_from([{}, {"a": 1, "b": ["é", None]}])).map(
        lambda both: {"toolUse": {"name": "f", "input": both[1], "toolUseId": both[0]}}
    ),
)


def in_order(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As a message of chat completions can say it: thoughts, one text, calls."""
    thoughts = [block for block in content if "reasoningContent" in block]
    text = "".join(block.get("text", "") for block in content)
    calls = [block for block in content if "toolUse" in block]
    return [*thoughts, *([{"text": text}] if text else []), *calls]


def sent_back(message: dict[str, Any]) -> Any:
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "r"} for call in message.get("tool_calls") or ()]
    return messages({"role": "user", "content": "q"}, message, *results, {"role": "user", "content": "go on"})[1]


@given(st.lists(replied, min_size=1, max_size=5))
def test_an_answer_that_is_sent_back_loses_nothing(content: list[dict[str, Any]]):
    answer = {"output": {"message": {"role": "assistant", "content": content}}, "stopReason": "end_turn"}
    message = completion(answer)["choices"][0]["message"]
    assert sent_back(message) == {"content": in_order(content), "role": "assistant"}


def streamed(content: list[dict[str, Any]]) -> list[bytes]:
    """The events of a stream that says this content."""
    events = [event("messageStart", {"role": "assistant"})]
    for index, block in enumerate(content):
        deltas: list[dict[str, Any]]
        if "toolUse" in block:
            use = block["toolUse"]
            start = {"toolUse": {"toolUseId": use["toolUseId"], "name": use["name"]}}
            events.append(event("contentBlockStart", {"contentBlockIndex": index, "start": start}))
            spelled = json.dumps(use["input"])
            deltas = [{"toolUse": {"input": spelled[:3]}}, {"toolUse": {"input": spelled[3:]}}]
        elif "text" in block:
            deltas = [{"text": each} for each in block["text"]]
        elif text := block["reasoningContent"].get("reasoningText"):
            deltas = [{"reasoningContent": {"text": each}} for each in text["text"]]
            deltas.append({"reasoningContent": {"signature": text["signature"]}})
        else:
            deltas = [{"reasoningContent": block["reasoningContent"]}]
        events += [event("contentBlockDelta", {"contentBlockIndex": index, "delta": delta}) for delta in deltas]
        events.append(event("contentBlockStop", {"contentBlockIndex": index}))
    return [*events, event("messageStop", {"stopReason": "end_turn"})]


def gathered(deltas: list[dict[str, Any]]) -> dict[str, Any]:
    """The message that a client makes of a stream."""
    message: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [], "thinking_blocks": []}
    message["reasoning_content"] = "".join(delta.get("reasoning_content", "") for delta in deltas)
    for delta in deltas:
        message["content"] += delta.get("content", "")
        message["thinking_blocks"] += delta.get("thinking_blocks", [])
        for piece in delta.get("tool_calls", []):
            if "id" in piece:
                message["tool_calls"].append({**piece, "function": dict(piece["function"])})
            else:
                message["tool_calls"][piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
    return message


@settings(max_examples=50)
@given(st.lists(replied, min_size=1, max_size=5))
def test_a_stream_that_is_sent_back_loses_nothing(content: list[dict[str, Any]]):
    message = gathered(Stream(*streamed(content)).deltas)
    assert sent_back(message) == {"content": in_order(content), "role": "assistant"}


@pytest.mark.parametrize("model", ["..", "a/b", "é"])
def test_any_model_is_a_path_that_the_service_has(model: str):
    sent = send(make_translator("AWSBedrock", {}), {"model": model})
    assert sent.path.startswith("/model/")
    assert sent.path.endswith("/converse")
    assert sent.path.count("/") == 3
    assert MODEL not in sent.path
