"""Field reports on the Messages API and its count of tokens, told of Amazon Bedrock's backends through the exchange."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from tests.support import converse, eventstream
from tests.support.field_reports import CODINGS, WatchedGateway, cuts
from tests.support.playbook import BACKEND, SECOND_BACKEND
from tests.support.sigv4_verifier import verify
from tests.support.translated import COUNTS, SECRET, backend, config, document, events, overload
from tests.unit.translate.count_tokens.bedrock import oracle as count_oracle
from tests.unit.translate.messages.bedrock.attempts import _MESSAGE, _gather, _read_event

MESSAGES, COUNT = "/anthropic/v1/messages", "/anthropic/v1/messages/count_tokens"
BEDROCK, AWS = "AWSBedrock", ("AWSBedrock", "AWSAnthropic")
USER = {"role": "user", "content": "q"}
REQUEST: dict[str, Any] = {"model": "anthropic.claude-x", "max_tokens": 9, "messages": [USER]}
FRAMES = {"content-type": "application/vnd.amazon.eventstream", "x-amzn-requestid": "rid"}
CALL = ("f", {"x": 1})


@pytest.fixture
def gateway(open_gateway) -> WatchedGateway:
    return open_gateway(config(backend(BEDROCK)))


def ask(gateway, path=MESSAGES, headers=None, **request):
    """An exchange with its attempt, and the reply to that."""
    exchange = gateway.exchange()
    exchange.request({**REQUEST, **request}, {":path": path, **(headers or {})})
    return exchange, exchange.attempt()


def upstream(gateway, **request):
    """What goes to the service, which accepts it."""
    exchange, reply = ask(gateway, **request)
    assert reply.kind == "request_headers", reply.json
    assert reply.set["content-length"] == str(len(reply.body))
    return converse.accept(exchange.carried[":path"], reply.body)


class Heard:
    """A streamed answer as the client and the costs have it."""

    def __init__(self, gateway, pieces, headers=FRAMES):
        exchange, _ = ask(gateway, stream=True)
        begun = exchange.response(headers)
        assert begun.set["content-type"] == "text/event-stream"
        played = exchange.play(pieces)
        exchange.close()
        self.output, self.metadata = played.output, played.metadata
        self.events = [_read_event(block) for block in played.output.decode().removesuffix("\n\n").split("\n\n")]
        self.names = [event["type"] for event in self.events]
        self.message = _gather(self.events)

    @property
    def bill(self):
        return {key: self.metadata[key] for key in ("in", "out", "total", "cached", "creation")}


SPENT = {key: COUNTS.costs(BEDROCK)[key] for key in ("in", "out", "total", "cached", "creation")}


BREAKS = {
    "an exception": (overload(BEDROCK), "rate_limit_error", "slow down"),
    "one that is not modelled": (eventstream.exception("newException", b"\xff"), "api_error", "\ufffd"),
    "an error of the framing": (eventstream.error("InternalFailure", "gone"), "api_error", "gone"),
    "an event that cannot be read": (
        eventstream.event("contentBlockDelta", b"{"),
        "api_error",
        "cannot be read",
    ),
    "half a frame": (events(BEDROCK)[1][:-3], "api_error", "ended before"),
    "no end": (b"", "api_error", "ended before"),
}


class TestStreams:
    def test_any_cut_gives_the_same(self, gateway):
        """BR-01, BR-08, BR-51, BR-59, BR-61: the same events and the same bill, and the client sees its input."""
        whole = b"".join(events(BEDROCK, "Hällo", [CALL]))
        expected = Heard(gateway, [whole])
        assert expected.bill == SPENT
        assert expected.message["usage"]["input_tokens"] == COUNTS.fresh
        assert expected.message["usage"]["cache_read_input_tokens"] == COUNTS.read
        for pieces in [*cuts(whole, rounds=10)][1 :: max(1, len(whole) // 40)]:
            heard = Heard(gateway, pieces)
            assert (heard.output, heard.bill) == (expected.output, expected.bill)

    def test_a_client_that_hangs_up_after_the_usage_is_charged(self, gateway):
        """BR-07: the reply to the piece with the usage has the costs."""
        exchange, _ = ask(gateway, stream=True)
        exchange.response(FRAMES)
        replies = [exchange.piece(frame) for frame in events(BEDROCK)]
        assert {key: replies[-1].metadata[key] for key in SPENT} == SPENT

    def test_running_totals_are_not_added_up(self, gateway):
        """BR-12, BR-59: a later report replaces, and one of nothing changes nothing."""
        *told, metadata = events(BEDROCK)
        early = eventstream.event("metadata", {"usage": {**COUNTS.report(BEDROCK), "outputTokens": 1}})
        late = eventstream.event("metadata", {"usage": None})
        for order in ([early, metadata], [early, early, metadata, late], [metadata, late]):
            assert Heard(gateway, [*told[:-1], *order[:-1], told[-1], order[-1]]).bill == SPENT

    @pytest.mark.parametrize("coding", CODINGS)
    def test_every_coding(self, gateway, coding):
        """BR-14, BR-16, BR-18."""
        whole = b"".join(events(BEDROCK))
        data = CODINGS[coding](whole)
        heard = Heard(gateway, [data[:30], b"", data[30:]], {**FRAMES, "content-encoding": coding})
        assert (heard.bill, heard.output) == (SPENT, Heard(gateway, [whole]).output)

    def test_an_empty_answer(self, gateway):
        """BR-15: of a stream an error event; of headers alone an error of the backend."""
        assert Heard(gateway, [b""]).names == ["error"]
        exchange, _ = ask(gateway, stream=True)
        assert exchange.response(FRAMES, eos=True).status == 502

    @pytest.mark.parametrize("case", BREAKS)
    def test_a_break_is_told_wherever_it_comes(self, gateway, case):
        """BR-13, BR-53, BR-80: an error event, no sign of a good end, and the failure beside the costs."""
        for after in range(7):
            self.check_break(gateway, events(BEDROCK, "Hello", [CALL])[:after], *BREAKS[case])

    def check_break(self, gateway, told, frame, kind, words):
        heard = Heard(gateway, [*told, frame, b""])
        assert heard.names[-1] == "error"
        assert "message_stop" not in heard.names
        assert "message_delta" not in heard.names
        assert heard.events[-1]["error"]["type"] == kind
        assert words in heard.events[-1]["error"]["message"]
        assert heard.metadata["response_error"]

    def test_what_comes_after_the_end_changes_nothing(self, gateway):
        """BR-53, BR-119: neither events nor an exception."""
        whole = events(BEDROCK)
        expected = Heard(gateway, whole)
        for late in (overload(BEDROCK), eventstream.event("contentBlockDelta", {"delta": {"text": "x"}}), whole[-2]):
            heard = Heard(gateway, [*whole, late, b""])
            assert (heard.output, heard.bill) == (expected.output, SPENT)
            assert "response_error" not in heard.metadata


INPUTS = {
    "an object": ('{ "a" : 1.50 , "a" : [ ] }', b'{"a":1.50,"a":[]}'),
    "text": ('"x"', b"{}"),
    "a number": ("7", b"{}"),
    "a list": ("[{}]", b"{}"),
    "null": ("null", b"{}"),
    "nested deep": ('{"a":' + "[" * 400 + "]" * 400 + "}", b'{"a":' + b"[" * 400 + b"]" * 400 + b"}"),
}


class TestDocuments:
    @pytest.mark.parametrize("coding", ["", *CODINGS])
    def test_the_bill_and_what_the_client_reads(self, gateway, coding):
        """BR-16, BR-54, BR-62: cached tokens are input that is billed, and stand beside the client's."""
        data = document(BEDROCK, "Hello", [CALL])
        exchange, _ = ask(gateway)
        exchange.response({"content-type": "application/json", **({"content-encoding": coding} if coding else {})})
        reply = exchange.piece(CODINGS[coding](data) if coding else data, eos=True)
        message = json.loads(reply.body)
        _MESSAGE.validate_python(message)
        assert {key: reply.metadata[key] for key in SPENT} == SPENT
        assert reply.set["content-length"] == str(len(reply.body))
        assert ("content-encoding" in reply.remove) == bool(coding)
        assert message["usage"] == {
            "cache_creation_input_tokens": COUNTS.written,
            "cache_read_input_tokens": COUNTS.read,
            "input_tokens": COUNTS.fresh,
            "output_tokens": COUNTS.output,
        }

    @pytest.mark.parametrize("case", INPUTS)
    def test_the_input_of_a_call_is_an_object(self, gateway, case):
        """BR-82 of answers: the client's SDK takes nothing else, and no spelling of the model's is changed."""
        given, expected = INPUTS[case]
        self.check_input(gateway, given.encode(), expected)

    def test_an_input_that_is_no_text_is_none(self, gateway):
        """A decoder that copies a value does not look at its encoding, and the client's would choke on it."""
        self.check_input(gateway, b'{"a":"\xff"}', b"{}")

    def check_input(self, gateway, given, expected):
        use = b'{"toolUse":{"toolUseId":"t","name":"f","input":' + given + b"}}"
        exchange, _ = ask(gateway)
        exchange.response()
        reply = exchange.piece(b'{"output":{"message":{"content":[' + use + b']}},"stopReason":"tool_use"}', eos=True)
        assert b'"input":' + expected + b"}" in reply.body
        json.loads(reply.body.decode())


# --- requests ---


BAD: dict[str, tuple[int, dict[str, Any], str]] = {
    # status, members, what the message names
    "no base64": (
        422,
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "@@@"}}
                    ],
                }
            ]
        },
        "messages[0].content[0].source.data",
    ),
    "a tool of the provider's": (422, {"tools": [{"type": "x"}]}, "tools[0]"),
    "a choice that is a number": (400, {"tool_choice": 7}, "tool_choice"),
    "a choice that is unknown": (422, {"tool_choice": {"type": "some"}}, "tool_choice.type"),
    "messages that are text": (400, {"messages": "str"}, "messages"),
    "no messages": (422, {"messages": []}, "messages"),
    "a role that is unknown": (422, {"messages": [{"role": "x", "content": "a"}]}, "messages[0].role"),
    "a block that is unknown": (422, {"messages": [{"role": "user", "content": [{"type": "new"}]}]}, "content[0]"),
    "a schema that is no object": (422, {"tools": [{"name": "f", "input_schema": []}]}, "tools[0].input_schema"),
    "a limit of nothing": (422, {"max_tokens": 0}, "max_tokens"),
    "a number beyond all bounds": (422, {"max_tokens": 1e300}, "max_tokens"),
    "servers": (422, {"mcp_servers": [{"url": "x"}]}, "mcp_servers"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_the_clients_fault(gateway, case):
    """BR-31, BR-67: a 4xx that names the member, in the shape of the client's API."""
    status, members, named = BAD[case]
    _, reply = ask(gateway, **members)
    # 400 is what is no message of this API at all; the client is told either way.
    assert reply.status in {status, 422 if status == 400 else status}
    assert reply.json["type"] == "error"
    assert reply.json["error"]["type"] == "invalid_request_error"
    assert named in reply.json["error"]["message"]


BROKEN = {
    "in a schema": b'"tools":[{"name":"f","input_schema":{"a":"\xff"}}]',
    "in an input": b'"x":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":'
    b'{"a":"\xed\xa0\x80"}}]}]',
    "in a text": b'"system":"\xff"',
    "in a format": b'"output_format":{"type":"json_schema","schema":{"\xff":1}}',
}


@pytest.mark.parametrize("case", BROKEN)
def test_bytes_that_are_no_text_never_go_on(gateway, case):
    """BR-67: nor do they where JSON is copied as it is spelled."""
    exchange = gateway.exchange()
    body = b'{"model":"anthropic.claude-x","messages":[{"role":"user","content":"q"}],' + BROKEN[case] + b"}"
    first = exchange.request(body, {":path": MESSAGES})
    reply = first if first.kind == "immediate_response" else exchange.attempt()
    assert reply.status in {400, 422}
    assert reply.json["error"]["type"] == "invalid_request_error"


def test_what_one_request_may_hold(gateway):
    """BR-46 to 48, BR-56, BR-58, BR-64, BR-85: all of it reaches the service, in the order that it demands."""
    mark = {"cache_control": {"type": "ephemeral"}}
    result = {
        "type": "tool_result",
        "tool_use_id": "t",
        "is_error": True,
        "content": [
            {"type": "text", "text": "r"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAEC"}},
        ],
    }
    sent = upstream(
        gateway,
        system=[{"type": "text", "text": "s", **mark}],
        stop_sequences=["x"],
        top_k=5,
        thinking={"type": "adaptive"},
        messages=[
            USER,
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "", "signature": "sig"},
                    {"type": "redacted_thinking", "data": "AAEC"},
                    {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1.50}},
                ],
            },
            {"role": "user", "content": [{"type": "text", "text": "before"}, {**result, **mark}]},
            {"role": "system", "content": "late"},
            {"role": "user", "content": "after"},
        ],
    )
    assert [block.get("text") for block in sent["system"]] == ["s", None, "late"]
    assert sent["messages"][1]["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "", "signature": "sig"}}},
        {"reasoningContent": {"redactedContent": "AAEC"}},
        {"toolUse": {"name": "f", "input": {"a": 1.5}, "toolUseId": "t"}},
    ]
    kinds = [next(iter(block)) for block in sent["messages"][2]["content"]]
    assert kinds == ["toolResult", "cachePoint", "text", "text"]
    assert sent["messages"][2]["content"][0]["toolResult"]["status"] == "error"
    assert [next(iter(block)) for block in sent["messages"][2]["content"][0]["toolResult"]["content"]] == [
        "text",
        "image",
    ]
    assert sent["toolConfig"]["tools"][0]["toolSpec"]["name"] == "f"
    assert sent["additionalModelRequestFields"] == {"thinking": {"type": "adaptive"}, "top_k": 5}


TITLES = {"short": "a", "none": "", "cut at a blank": "a" * 189 + " " + "b" * 20, "numbered": "a (2)"}


def test_documents_are_told_apart_however_many_are_called_alike(gateway):
    """BR-110, BR-64: in time that grows with their number alone."""
    told = [{"type": "document", "title": t, "source": {"type": "text", "data": "x"}} for t in TITLES.values()] * 700
    blocks = upstream(gateway, messages=[{"role": "user", "content": told}])["messages"][0]["content"]
    assert len({block["document"]["name"] for block in blocks if "document" in block}) == len(told)


BETAS = {
    "known and unknown": (
        "anthropic.claude-x",
        "interleaved-thinking-2025-05-14, files-api-2025-04-14",
        ["interleaved-thinking-2025-05-14"],
    ),
    "none that is known": ("anthropic.claude-x", "x,,", None),
    "another model": ("amazon.nova-pro-v1:0", "interleaved-thinking-2025-05-14", None),
}


@pytest.mark.parametrize("case", BETAS)
def test_flags_that_the_service_does_not_know_stay_here(gateway, case):
    """BR-68."""
    model, header, expected = BETAS[case]
    _, reply = ask(gateway, headers={"anthropic-beta": header}, model=model)
    fields = json.loads(reply.body).get("additionalModelRequestFields", {})
    assert fields.get("anthropic_beta") == expected


NAMES = ["arn:aws:bedrock:eu:1:inference-profile/eu.x-v1:0", "anthropic.c-v1:0", "..", "a?b#c%2e é", "/models/x/y"]


@pytest.mark.parametrize("override", NAMES)
@pytest.mark.parametrize("path", [MESSAGES, COUNT])
def test_the_override_is_one_segment_of_the_path(open_gateway, override, path):
    """BR-42, BR-96, BR-103."""
    exchange, reply = ask(open_gateway(config(backend(BEDROCK, override=override))), f"{path}?beta=true", model="virt")
    assert exchange.carried[":path"].count("/") == 3
    assert not {".", ".."} & set(exchange.carried[":path"].split("/"))
    assert not set(exchange.carried[":path"]) & set(" ?#")
    assert b"virt" not in reply.body


def test_a_signature_is_of_what_is_sent(open_gateway):
    """BR-98: after the override, the translation and a configured mutation."""
    mutated = {**backend(BEDROCK, override="o"), "httpBodyMutation": {"set": [{"path": "x", "value": "1"}]}}
    exchange, reply = ask(open_gateway(config(mutated)))
    assert json.loads(reply.body)["x"] == 1
    received = {**exchange.carried, ":authority": "bedrock-runtime.us-east-1.amazonaws.com"}
    secrets = {f"AKIA{SECRET}": f"aws-{SECRET}"}
    verify(method="POST", path=received[":path"], headers=received, body=reply.body, secrets=secrets)


def test_a_second_attempt_starts_from_the_clients_request(open_gateway):
    """BR-40."""
    both = open_gateway(config(backend("Anthropic"), backend(BEDROCK, SECOND_BACKEND)))
    exchange, first = ask(both)
    second = exchange.attempt(SECOND_BACKEND)
    _, direct = ask(open_gateway(config(backend(BEDROCK, BACKEND))))
    assert first.kind == second.kind == "request_headers"
    assert second.body == direct.body
    assert "x-api-key" not in exchange.carried


# --- errors ---

ERRORS: dict[str, tuple[bytes, str]] = {
    # body: what the message holds
    "Amazon's": (b'{"message":"bad"}', "bad"),
    "Amazon's, another spelling": (b'{"Message":"bad"}', "bad"),
    "no message": (b"{}", "{}"),
    "a list": (b"[]", "[]"),
    "null": (b"null", "null"),
    "a page": (b'<p>"\xff\\</p>', "</p>"),
    "nothing": (b"", "the backend answered with status"),
    "text in an object": (b'{"error":"text"}', "text"),
    "of OpenAI's shape": (b'{"error":{"message":"bad","type":"BadRequestError","param":null,"code":400}}', "bad"),
    "words that are an object": (b'{"error":{"type":"x","message":{"a":1}}}', '{"a":1}'),
    "the API's, but no text": (b'{"type":"error","error":{"type":"x","message":"bad"},"x":"\xff"}', "bad"),
}
TYPES = {
    "400": "invalid_request_error",
    "413": "request_too_large",
    "429": "rate_limit_error",
    "529": "overloaded_error",
}


@pytest.mark.parametrize("coding", ["", "gzip"])
@pytest.mark.parametrize("case", ERRORS)
@pytest.mark.parametrize(("path", "schema"), [(MESSAGES, BEDROCK), *((COUNT, schema) for schema in AWS)])
def test_every_error_can_be_read(open_gateway, path, schema, case, coding):
    """BR-17, BR-20, BR-65, BR-70: status and headers stay, the body is the API's, and its coding goes."""
    gateway = open_gateway(config(backend(schema)))
    for status, kind in TYPES.items():
        exchange, _ = ask(gateway, path, stream=path == MESSAGES)
        check_error(exchange, *ERRORS[case], status=status, kind=kind, coding=coding)


def check_error(exchange, body, words, *, status, kind, coding):
    headers = {"content-type": "application/json", "retry-after": "3", "x-amzn-requestid": "rid"}
    begun = exchange.response(headers | ({"content-encoding": coding} if coding else {}), status=status)
    assert "retry-after" not in begun.remove
    reply = exchange.piece(gzip.compress(body) if coding else body, eos=True)
    told = json.loads(reply.body)
    assert told["type"] == "error"
    assert told["error"]["type"] == kind
    assert words in told["error"]["message"]
    assert told["request_id"] == "rid"
    assert reply.set["content-length"] == str(len(reply.body))
    assert ("content-encoding" in reply.remove) == bool(coding)
    assert reply.metadata == {"response_error": kind}


def test_an_error_of_the_api_passes(gateway):
    """BR-65: a gateway on the way may have written it, and its type is the one that clients decide by."""
    body = b'{ "type":"error","error":{"type":"overloaded_error","message":"m","x":1.0} }'
    for content_type in ("application/json", "text/plain"):
        exchange, _ = ask(gateway)
        exchange.response({"content-type": content_type}, status="503")
        reply = exchange.piece(body, eos=True)
        assert reply.body == body
        assert reply.set.get("content-type", content_type) == "application/json"


@pytest.mark.parametrize("body", [b"{", b"[]", b"null", b'{"message":"m"}', b"\xff", b"<html>"])
@pytest.mark.parametrize(("path", "schema"), [(MESSAGES, BEDROCK), *((COUNT, schema) for schema in AWS)])
def test_a_success_that_is_no_answer_is_a_502(open_gateway, path, schema, body):
    """BR-31: and nothing of what the backend said passes."""
    exchange, _ = ask(open_gateway(config(backend(schema))), path)
    exchange.response()
    reply = exchange.piece(body, eos=True)
    assert (reply.status, reply.json["error"]["type"]) == (502, "api_error")


# --- counting ---

COUNTED = {
    "Claude": (BEDROCK, "us.anthropic.claude-x", "invokeModel"),
    "another model": (BEDROCK, "amazon.nova-pro-v1:0", "converse"),
    "Claude by its own body": ("AWSAnthropic", "eu.anthropic.claude-x", "invokeModel"),
}


@pytest.mark.parametrize("coding", ["", *CODINGS])
@pytest.mark.parametrize("case", COUNTED)
def test_tokens_are_counted(open_gateway, case, coding):
    """BR-16, BR-69, BR-70: the service is asked as it likes, and the client reads its own API's answer."""
    schema, model, kind = COUNTED[case]
    exchange, reply = ask(open_gateway(config(backend(schema))), COUNT, model=model)
    count_oracle.accept(exchange.carried[":path"], reply.body)
    counted = json.loads(reply.body)["input"]
    assert list(counted) == [kind]
    if kind == "invokeModel":
        assert "model" not in json.loads(base64.b64decode(counted[kind]["body"]))
    exchange.response({"content-type": "application/json", **({"content-encoding": coding} if coding else {})})
    data = b'{"inputTokens":42}'
    told = exchange.piece(CODINGS[coding](data) if coding else data, eos=True)
    assert told.body == b'{"input_tokens":42}'
    # What is only counted has not been spent, and no model has answered.
    assert not {"in", "out", "total", "bill", "response_model"} & told.metadata.keys()
