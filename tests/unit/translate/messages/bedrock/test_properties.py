"""Any messages request is sent as the service takes it, or refused; and what we answer can be sent back to us."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.endpoints.count_tokens import PATH
from extproc.errors import MalformedRequest, UnprocessableRequest
from extproc.translate.messages.bedrock.request import read_request
from tests.support.converse import accept
from tests.unit.translate.messages.bedrock.attempts import USER, content, make_translator, messages, send

# Nothing else may be raised: each is a status of 4xx with a message for the client.
REFUSALS = (MalformedRequest, UnprocessableRequest)

texts = st.sampled_from(["", " ", "x", "\n", "é", '"\\"'])
controls = st.sampled_from([None, {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}, {"type": "other"}])
ids = st.sampled_from(["a", "b"])


class Draw:
    """Strategies for requests; ``sound``: only such as the service can answer."""

    def __init__(self, *, sound: bool) -> None:
        self.sound = sound

    def objects(self, **members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
        """Objects of which, if they need not be sound, any member may be missing."""
        return st.fixed_dictionaries(members) if self.sound else st.fixed_dictionaries({}, optional=members)

    def one(self, *sound: Any, broken: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:
        return st.sampled_from(sound if self.sound else (*sound, *broken))

    def block(self, kind: str, **members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
        return self.objects(**members, cache_control=controls).map(lambda found: {"type": kind, **found})

    def source(self, *media_types: str) -> st.SearchStrategy[Any]:
        kind, data = self.one("base64", broken=("url", "", 7)), self.one("AAEC", broken=("", "?", None))
        return self.objects(type=kind, media_type=self.one(*media_types, broken=("x/y", "")), data=data)

    def media(self) -> list[st.SearchStrategy[Any]]:
        titles = self.one("a.pdf", "b_é", "", "x" * 300, None)
        chunks = self.objects(type=st.just("content"), content=self.one([{"type": "text", "text": "x"}], "y"))
        plain = self.objects(type=st.just("text"), data=self.one("x", broken=("", 7)))
        sources = st.one_of(self.source("application/pdf", "text/csv"), chunks, plain)
        wanted = self.one({"enabled": True}, None, {"enabled": False}, broken=([], 7))
        return [
            self.block("text", text=texts),
            self.block("image", source=self.source("image/png", "image/webp")),
            self.block("document", source=sources, title=titles, context=texts, citations=wanted),
            self.block(
                "search_result",
                source=st.just("s"),
                title=texts,
                content=self.one([{"type": "text", "text": "x"}], broken=([], "x", [{"type": "image"}])),
            ),
        ]

    def user_blocks(self) -> st.SearchStrategy[Any]:
        inner = texts | st.none() | st.lists(st.one_of(*self.media()), max_size=2)
        failed = st.sampled_from([True, False, None] if self.sound else [True, 7])
        result = self.block("tool_result", tool_use_id=self.one("a", "b", broken=("",)), content=inner, is_error=failed)
        return st.one_of(*self.media(), result, *([] if self.sound else [self.block("new", text=texts)]))

    def assistant_blocks(self) -> st.SearchStrategy[Any]:
        inputs = self.one({}, {"b": 1.0, "a": [1e3]}, broken=([], "x"))
        return st.one_of(
            self.block("text", text=texts),
            self.objects(thinking=texts, signature=texts).map(lambda found: {"type": "thinking", **found}),
            self.block("redacted_thinking", data=self.one("", "AA==", broken=("?",))),
            self.block("tool_use", id=ids, name=self.one("f", "g", broken=("",)), input=inputs),
        )

    def messages(self) -> st.SearchStrategy[Any]:
        def of(role: str, blocks: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
            return self.objects(role=st.just(role), content=texts | st.lists(blocks, max_size=4))

        return st.lists(
            st.one_of(
                of("user", self.user_blocks()),
                of("assistant", self.assistant_blocks()),
                of("system", self.block("text", text=texts)),
            ),
            max_size=6,
        )

    def tools(self) -> st.SearchStrategy[Any]:
        schema = self.one({"type": "object"}, {"a": 1.5}, broken=([], 7))
        return self.block("custom", name=self.one("f", "g", broken=("",)), description=texts, input_schema=schema)

    def requests(self) -> st.SearchStrategy[dict[str, Any]]:
        choices = self.one(None, {"type": "auto"}, {"type": "none"}, broken=({"type": "any"}, {"type": "x"}, {}, 7))
        thinking = self.one({"type": "adaptive"}, {"type": "enabled", "budget_tokens": 9}, broken=({}, {"type": "x"}))
        rest = {
            "system": st.none() | texts | st.lists(self.block("text", text=texts), max_size=3),
            "max_tokens": self.one(None, 1, 9.0, broken=(0, -1, "x", 1e300)),
            "temperature": self.one(None, 0, 0.5, broken=(-1, "x")),
            "top_k": self.one(None, 5, broken=("x",)),
            "stop_sequences": self.one(None, [], ["x"], broken=([""], 7)),
            "thinking": thinking,
            "tool_choice": choices,
            "tools": st.none() | st.lists(self.tools(), max_size=2),
            "cache_control": controls,
        }
        messages_ = self.messages().map(lambda found: [*found, USER])
        return st.fixed_dictionaries({"messages": messages_ if self.sound else self.messages()}, optional=rest)


@settings(max_examples=70, deadline=None)
@given(Draw(sound=True).requests(), st.booleans())
def test_what_can_be_said_is_accepted_by_the_service(request, stream):
    sent = send(make_translator(), {**request, "stream": stream})
    accept(sent.path, sent.body or b"")


@settings(max_examples=100, deadline=None)
@given(Draw(sound=False).requests())
def test_anything_else_is_accepted_or_refused(request):
    with suppress(*REFUSALS):
        sent = send(make_translator(), request)
        accept(sent.path, sent.body or b"")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_any_bytes_are_a_request_or_malformed(body):
    with suppress(MalformedRequest):
        request = read_request(body, PATH)
        assert request.messages is None or isinstance(request.messages, list)


said = st.sampled_from(["x", "é", '"\\"'])
answers = st.lists(
    st.one_of(
        said.map(lambda text: {"text": text}),
        st.tuples(said, said).map(
            lambda pair: {"reasoningContent": {"reasoningText": {"text": pair[0], "signature": pair[1]}}}
        ),
        st.sampled_from(["AAEC", "/+8="]).map(lambda data: {"reasoningContent": {"redactedContent": data}}),
        st.sampled_from([{}, {"b": 1.5, "a": None}]).map(
            lambda given: {"toolUse": {"name": "f", "input": given, "toolUseId": "t"}}
        ),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=80, deadline=None)
@given(answers)
def test_an_answer_that_is_sent_back_is_what_the_service_has_said(blocks):
    """BR-58."""
    assert messages(USER, {"role": "assistant", "content": content(*blocks)}, USER)[1]["content"] == blocks
