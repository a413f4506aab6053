"""The router-level half: request headers and body (contract 3.3 to 3.9)."""

from dataclasses import dataclass, field

import pytest

from extproc.endpoints.table import EndpointTable
from extproc.errors import StreamFailure
from extproc.paths import EndpointPrefixes
from protos.ext_proc_pb2 import BUFFERED, FULL_DUPLEX_STREAMED, STREAMED, ProcessingRequest
from tests.support.playbook import (
    DEFAULT_HEADERS,
    Gateway,
    body_modes,
    cost,
    fed,
    openai_backend,
    request_body,
    request_headers,
)

CONFIG = {"version": "dev", "backends": [openai_backend()]}
METERED = {**CONFIG, "llmRequestCosts": [cost("total")]}


@pytest.fixture
def gateway():
    return Gateway(CONFIG)


def test_headers_get_an_id_of_ours_and_nothing_else(gateway):
    reply = gateway.exchange().headers()
    assert reply.set_list == [("x-ai-eg-internal-req-id", "req-1-id-1")]
    assert reply.remove == []
    assert not reply.message.HasField("dynamic_metadata")
    assert not reply.message.HasField("mode_override")


def test_a_request_without_an_id_gets_a_unique_one(gateway):
    headers = {name: value for name, value in DEFAULT_HEADERS.items() if name != "x-request-id"}
    reply = fed(gateway.stream(), request_headers(headers))
    assert reply.set == {"x-ai-eg-internal-req-id": "-id-1"}


def test_internal_headers_of_a_client_are_removed(gateway):
    forged = {
        "x-ai-eg-internal-req-id": "stolen",
        "x-ai-eg-model": "other",
        "x-ai-eg-original-path": "/v1/models",
        "x-ai-eg-upstream-host": "evil.example",
        "x-ai-eg-anything": "1",
    }
    exchange = gateway.exchange()
    reply = exchange.headers(forged)
    assert sorted(reply.remove) == sorted(name for name in forged if name != "x-ai-eg-internal-req-id")
    assert reply.set["x-ai-eg-internal-req-id"] == "req-1-id-1"
    assert exchange.body({"model": "m"}).set["x-ai-eg-model"] == "m"


def test_the_body_routes_on_the_model(gateway):
    exchange = gateway.exchange()
    exchange.headers({":path": "/v1/chat/completions?x=1"})
    reply = exchange.body({"model": "meta-llama/Llama-3.1-8B", "messages": []})
    assert reply.set_list == [
        ("x-ai-eg-model", "meta-llama/Llama-3.1-8B"),
        ("x-ai-eg-original-path", "/v1/chat/completions?x=1"),
        ("x-envoy-original-path", "/v1/chat/completions?x=1"),
    ]
    common = reply.message.request_body.response
    assert common.clear_route_cache
    assert not common.HasField("body_mutation")
    assert {option.append_action for option in common.header_mutation.set_headers} == {2}


@dataclass
class Refused:
    body: bytes
    message: str
    path: str = "/v1/chat/completions"
    headers: dict[str, str] = field(default_factory=dict)


CHAT = "failed to parse JSON for /v1/chat/completions"
REFUSED = {
    "not JSON": Refused(b"nonjson", CHAT),
    "truncated": Refused(b'{"model":"m"', CHAT),
    "an array": Refused(b"[]", CHAT),
    "null": Refused(b"null", CHAT),
    "empty": Refused(b"", CHAT),
    "NaN": Refused(b'{"model":"m","x":NaN}', CHAT),
    "model is a number": Refused(b'{"model":1}', "$.model"),
    "stream is a string": Refused(b'{"model":"m","stream":"yes"}', "$.stream"),
    "stream_options is a list": Refused(b'{"model":"m","stream_options":[]}', "$.stream_options"),
    "invalid UTF-8": Refused(b'{"model":"\xff"}', CHAT),
    "5000 levels deep": Refused(b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}", CHAT),
    "a newline in the model": Refused(rb'{"model":"a\nx-evil: 1"}', "control character"),
    "multipart": Refused(
        b"--x",
        "multipart body not supported for this endpoint",
        headers={"content-type": "Multipart/Form-Data; boundary=x"},
    ),
    "completions: prompt is null": Refused(b'{"prompt":null}', "invalid prompt type", "/v1/completions"),
    "completions: prompt is an object": Refused(b'{"prompt": {}}', "invalid prompt type", "/v1/completions"),
    "embeddings: both inputs": Refused(b'{"input":"a","messages":[]}', "not both", "/v1/embeddings"),
    "embeddings: both inputs, null": Refused(b'{"input":null,"messages":null}', "not both", "/v1/embeddings"),
    "embeddings: input is a number": Refused(b'{"input":1}', "invalid input type", "/v1/embeddings"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_bad_bodies_are_answered_in_the_clients_error_shape(gateway, case):
    exchange = gateway.exchange()
    exchange.headers({":path": case.path, **case.headers})
    reply = exchange.body(case.body)
    assert reply.status == 400
    assert reply.message.immediate_response.grpc_status.status == 3
    error = reply.json
    assert list(error) == ["type", "error"]
    assert error["type"] == "error"
    assert list(error["error"]) == ["type", "code", "message"]
    assert error["error"]["type"] == "BadRequest"
    assert error["error"]["code"] == "400"
    assert error["error"]["message"].startswith("malformed request: ")
    assert case.message in error["error"]["message"]
    assert reply.set == {"content-type": "application/json", "content-length": str(len(reply.body))}


def test_a_body_that_another_gateway_would_refuse_passes(gateway):
    """Members that the processor need not read may have any type."""
    exchange = gateway.exchange()
    reply = exchange.request(b'{"messages":"new form","created":null,"model":"m","tools":{"brand":"new"}}')
    assert reply.set["x-ai-eg-model"] == "m"


def test_a_request_without_a_body_is_refused_at_its_headers(gateway):
    reply = gateway.exchange().headers(eos=True)
    assert reply.status == 400
    assert "no body" in reply.json["error"]["message"]


def test_an_unknown_path_is_a_404_and_ends_the_stream(gateway):
    stream = gateway.stream()
    reply = fed(stream, request_headers({":path": "/unknown?q=1"}))
    assert reply.status == 404
    assert reply.body == b"unsupported path: /unknown?q=1"
    assert reply.message.immediate_response.grpc_status.status == 5
    assert not reply.message.immediate_response.HasField("headers")
    assert stream.end is not None
    assert (stream.end.code, stream.end.message) == (StreamFailure.NOT_FOUND, "unsupported path: /unknown?q=1")


PATHS = {
    "query": "/v1/chat/completions?beta=true",
    "query and fragment": "/v1/chat/completions?beta=true#fragment",
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_the_query_does_not_count(gateway, path):
    assert gateway.exchange().headers({":path": path}).kind == "request_headers"


UNKNOWN_PATHS = [
    "",
    "?beta=true",
    "/v1/chat/completions/",
    "/V1/chat/completions",
    "/v1/chat/completions#f",
    "/v1/models/x",
]


@pytest.mark.parametrize("path", UNKNOWN_PATHS)
def test_paths_match_exactly(gateway, path):
    assert fed(gateway.stream(), request_headers({":path": path})).status == 404


PREFIXES = {
    "defaults": ("/", EndpointPrefixes(), "/v1/chat/completions"),
    "root": ("/ai/", EndpointPrefixes(), "/ai/v1/chat/completions"),
    "root without slash": ("ai", EndpointPrefixes(), "/ai/v1/chat/completions"),
    "openai prefix": ("/", EndpointPrefixes(openai="/openai"), "/openai/v1/chat/completions"),
    "both": ("/a//b", EndpointPrefixes(openai="c/"), "/a/b/c/v1/chat/completions"),
    "empty openai prefix": ("/", EndpointPrefixes(openai=""), "/v1/chat/completions"),
}


@pytest.mark.parametrize(("root", "prefixes", "path"), PREFIXES.values(), ids=PREFIXES)
def test_prefixes(root, prefixes, path):
    gateway = Gateway(CONFIG, endpoints=EndpointTable.build(prefixes, root=root))
    assert gateway.exchange().headers({":path": path}).kind == "request_headers"


def test_without_a_config_every_request_is_a_503():
    gateway = Gateway()
    reply = gateway.exchange().headers()
    assert reply.status == 503
    assert "no configuration" in reply.json["error"]["message"]


def test_a_body_over_the_cap_is_a_413():
    gateway = Gateway(CONFIG, max_body_bytes=100)
    exchange = gateway.exchange()
    exchange.headers()
    reply = exchange.body(b'{"model":"' + b"m" * 100 + b'"}')
    assert reply.status == 413
    assert "100 bytes" in reply.json["error"]["message"]


def test_a_declared_length_over_the_cap_is_a_413_before_the_body():
    gateway = Gateway(CONFIG, max_body_bytes=100)
    assert gateway.exchange().headers({"content-length": "101"}).status == 413
    assert gateway.exchange().headers({"content-length": "100"}).kind == "request_headers"


BODY = b'{"model":"m","messages":[{"role":"user","content":"h\xc3\xa4"}]}'


def _mode(request_mode: int, response_mode: int = BUFFERED) -> ProcessingRequest:
    message = request_headers(DEFAULT_HEADERS)
    message.protocol_config = body_modes(request_mode, response_mode)
    return message


def test_modes_that_are_none_end_the_stream(gateway):
    message = request_headers(DEFAULT_HEADERS)
    message.protocol_config = b"\x0a\x05x"
    with pytest.raises(StreamFailure, match="cannot be decoded") as failure:
        gateway.stream().feed(message.SerializeToString())
    assert failure.value.code == StreamFailure.INTERNAL


@pytest.mark.parametrize("size", [1, 7, 20, len(BODY)])
def test_a_streamed_body_is_read_when_it_is_whole(gateway, size):
    stream = gateway.stream()
    stream.feed(_mode(STREAMED).SerializeToString())
    pieces = [BODY[i : i + size] for i in range(0, len(BODY), size)]
    replies = [fed(stream, request_body(piece, eos=index == len(pieces) - 1)) for index, piece in enumerate(pieces)]
    assert all(reply.is_neutral for reply in replies[:-1])
    assert replies[-1].set["x-ai-eg-model"] == "m"


def test_a_buffered_body_needs_no_end_of_stream(gateway):
    """With request trailers the flag is on them."""
    stream = gateway.stream()
    stream.feed(_mode(BUFFERED).SerializeToString())
    assert fed(stream, request_body(BODY, eos=False)).set["x-ai-eg-model"] == "m"


UNDECLARED = {
    "whole without end of stream": ([BODY], [False]),
    "cut in two": ([BODY[:20], BODY[20:]], [False, True]),
    "cut in two, never ended": ([BODY[:20], BODY[20:]], [False, False]),
}


@pytest.mark.parametrize(("pieces", "ends"), UNDECLARED.values(), ids=UNDECLARED)
@pytest.mark.parametrize("declare", [True, False], ids=["content-length", "no content-length"])
def test_an_envoy_that_does_not_name_its_mode(gateway, pieces, ends, declare):
    exchange = gateway.exchange()
    exchange.headers({"content-length": str(len(BODY))} if declare else {})
    replies = [exchange.body(piece, eos=eos) for piece, eos in zip(pieces, ends, strict=True)]
    assert all(reply.is_neutral for reply in replies[:-1])
    assert replies[-1].set["x-ai-eg-model"] == "m"


def test_a_repeated_end_of_the_body_is_not_read_again(gateway):
    exchange = gateway.exchange()
    exchange.headers()
    assert exchange.body(b'{"model":', eos=False).is_neutral
    assert exchange.body(b'"m"}').set["x-ai-eg-model"] == "m"
    assert exchange.body(b'"m"}').is_neutral


@pytest.mark.parametrize("modes", [(FULL_DUPLEX_STREAMED, BUFFERED), (BUFFERED, FULL_DUPLEX_STREAMED)])
def test_full_duplex_is_refused_at_once(gateway, modes):
    reply = fed(gateway.stream(), _mode(*modes))
    assert reply.status == 503
    assert "body mode" in reply.json["error"]["message"]


def test_a_closing_processor_turns_requests_away_and_serves_their_attempts(gateway):
    exchange = gateway.exchange()
    exchange.request(b'{"model":"m"}')
    gateway.processor.close()
    with pytest.raises(StreamFailure) as failure:
        gateway.exchange().headers()
    assert failure.value.code == StreamFailure.UNAVAILABLE
    assert exchange.attempt().kind == "request_headers"
    assert (gateway.processor.requests_in_flight, gateway.processor.requests_awaiting_response) == (1, 1)
    exchange.response()
    assert (gateway.processor.requests_in_flight, gateway.processor.requests_awaiting_response) == (1, 0)
    exchange.close()
    assert gateway.processor.requests_in_flight == 0


USAGE_FORCED = {
    "absent": (
        b'{"model":"m","stream": true}',
        b'{"model":"m","stream": true,"stream_options":{"include_usage":true}}',
    ),
    "empty": (b'{"stream":true,"stream_options":{}}', b'{"stream":true,"stream_options":{"include_usage":true}}'),
    "null": (b'{"stream":true,"stream_options":null}', b'{"stream":true,"stream_options":{"include_usage":true}}'),
    "false": (
        b'{"stream":true, "stream_options": {"include_usage": false} }',
        b'{"stream":true, "stream_options": {"include_usage": true} }',
    ),
    "other options are kept": (
        b'{"stream":true,"stream_options":{"x":[1, 2]}}',
        b'{"stream":true,"stream_options":{"x":[1, 2],"include_usage":true}}',
    ),
}


@pytest.mark.parametrize(("sent", "upstream"), USAGE_FORCED.values(), ids=USAGE_FORCED)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_usage_is_asked_for_when_costs_need_it(sent, upstream, path):
    exchange = Gateway(METERED).exchange()
    exchange.request(sent, {":path": path})
    reply = exchange.attempt()
    assert reply.body == upstream
    assert reply.replaces
    assert reply.metadata["content_length"] == len(upstream)


USAGE_LEFT = {
    "no costs": (CONFIG, b'{"stream":true}'),
    "not a stream": (METERED, b'{"stream":false}'),
    "asked by the client": (METERED, b'{"stream":true,"stream_options":{"include_usage":true,"x":1}}'),
}


@pytest.mark.parametrize(("config", "sent"), USAGE_LEFT.values(), ids=USAGE_LEFT)
def test_usage_is_not_asked_for_without_need(config, sent):
    exchange = Gateway(config).exchange()
    exchange.request(sent)
    reply = exchange.attempt()
    assert reply.body is None
    assert not reply.replaces


def test_global_costs_ask_for_usage_too():
    exchange = Gateway({**CONFIG, "globalLLMRequestCosts": [{"metadataKey": "t", "type": "TotalToken"}]}).exchange()
    exchange.request(b'{"stream":true}')
    assert exchange.attempt().body == b'{"stream":true,"stream_options":{"include_usage":true}}'
