"""Any message in any order, and any story of a request: the rules of ext_proc hold, and nothing is left behind."""

import json

import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.errors import StreamFailure
from extproc.exchange import names
from protos.ext_proc_pb2 import (
    BodySendMode,
    ProcessingRequest,
    ProcessingResponse,
)
from tests.support.field_reports import (
    ASKED,
    CHAT,
    CODINGS,
    CONFIG,
    DONE,
    JSON,
    NOT_ASKED,
    PLAIN,
    SSE,
    answer,
    check_reply,
    cut,
    delta,
    event,
    report,
    request_trailers,
    watched,
)
from tests.support.playbook import (
    BACKEND,
    DEFAULT_HEADERS,
    SECOND_BACKEND,
    body_modes,
    openai_backend,
    request_body,
    request_headers,
    response_body,
    response_headers,
    response_trailers,
)

ANSWER = json.dumps(answer(CHAT)).encode()
KEYED = openai_backend(auth={"apiKey": {"key": "k"}})

PATHS_OF_ALL_KINDS = [
    CHAT,
    CHAT + "?a=b",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/models",
    "/anthropic/v1/models",
    "/x",
    "",
]
BODIES = [PLAIN, ASKED, NOT_ASKED, b"", b"[]", b'{"model":"m"', b'{"model":1}', b"\xff", ANSWER, event(report()), DONE]
HEADER = st.tuples(
    st.sampled_from(
        [":path", ":status", "content-type", "content-encoding", "content-length", "x-request-id", names.MODEL,
         names.INTERNAL_REQUEST_ID, names.ENDPOINT_PICKED, "authorization", "accept-encoding", ":authority"]
    ),
    st.one_of(
        st.sampled_from([*PATHS_OF_ALL_KINDS, "200", "204", "429", "500", "application/json", "text/event-stream",
                         "multipart/form-data", "gzip", "br", "snappy", "identity", "0", "13", "req-1-id-1", "-id-1"]),
        st.binary(max_size=6),
        st.text(max_size=4),
    ),
)  # fmt: skip
ATTRIBUTES = st.one_of(
    st.none(),
    st.dictionaries(
        st.sampled_from(
            [names.BACKEND_OF_HOST, names.BACKEND_OF_CLUSTER, names.ROUTE_NAME, names.HOST_OF_UPSTREAM, "x"]
        ),
        st.sampled_from([BACKEND, SECOND_BACKEND, "default/chat", "", "host:1"]),
    ),
)


@st.composite
def messages(draw: st.DrawFn) -> ProcessingRequest:
    kind = draw(
        st.sampled_from(["request_headers", "request_body", "response_headers", "response_body", "trailers", "none"])
    )
    eos = draw(st.booleans())
    headers = draw(st.lists(HEADER, max_size=6))
    if draw(st.booleans()):
        headers = [*DEFAULT_HEADERS.items(), (":status", "200"), *headers]
    body = draw(st.one_of(st.sampled_from(BODIES), st.binary(max_size=20)))
    match kind:
        case "request_headers":
            message = request_headers(headers, eos=eos, attributes=draw(ATTRIBUTES))
        case "request_body":
            message = request_body(body, eos=eos)
        case "response_headers":
            message = response_headers(headers, eos=eos)
        case "response_body":
            message = response_body(body, eos=eos)
        case "trailers":
            message = draw(st.sampled_from([request_trailers, response_trailers]))()
        case _:
            message = ProcessingRequest()
    if draw(st.booleans()):
        modes = st.sampled_from(BodySendMode.values())
        message.protocol_config = body_modes(draw(modes), draw(modes))
    message.observability_mode = draw(st.sampled_from([False, False, False, True]))
    return message


OPTIONS = st.sampled_from([{}, {"max_body_bytes": 10}, {"debug": True}, {"debug": True, "redact": False}])
PLAY = st.lists(st.tuples(st.integers(0, 3), messages()), max_size=25)


@settings(max_examples=120, deadline=None)
@given(play=PLAY, options=OPTIONS, config=st.sampled_from([CONFIG, None]))
def test_any_messages_in_any_order(play, options, config):
    """BR-30, BR-32, BR-33: whatever four streams are told, each message gets its reply and nothing is left."""
    with structlog.testing.capture_logs() as logs, watched(config, **options) as gateway:
        streams = [gateway.stream() for _ in range(4)]
        ended = set()
        for index, message in play:
            if index in ended:
                continue
            stream = streams[index]
            try:
                reply = stream.feed(message.SerializeToString())
            except StreamFailure:
                ended.add(index)
                continue
            if message.observability_mode:
                assert reply is None
                continue
            assert reply is not None
            reply = ProcessingResponse.FromString(reply.SerializeToString())
            streaming = stream._router is not None and stream._router.response_started
            check_reply(message, reply, immediate=not streaming)
            if reply.WhichOneof("response") == "immediate_response" or stream.end is not None:
                ended.add(index)
    assert [entry for entry in logs if entry["event"] == "fault"] == []


STORY = st.tuples(
    st.sampled_from([PLAIN, ASKED, NOT_ASKED, b'{"model":"m","stream":true,"stream_options":{"x":"\xc3\xbc"}}']),
    st.integers(1, 3),
    st.sampled_from(["200", "200", "200", "201", "429", "503"]),
    st.sampled_from([None, "gzip", "br", "zstd", "deflate", "identity", "snappy"]),
    st.lists(st.integers(0, 600), max_size=6),
    st.integers(0, 8),
)


@settings(max_examples=80, deadline=None)
@given(story=STORY)
def test_any_story_of_a_request(story):
    """BR-30, BR-112: attempts, codings, cuts and an end at any message: nothing raises, all is counted once."""
    body, attempts, status, coding, places, stop = story
    with watched({**CONFIG, "backends": [KEYED, openai_backend(SECOND_BACKEND, modelNameOverride="two")]}) as gateway:
        exchange = gateway.exchange()
        exchange.request(body)
        for number in range(attempts):
            exchange.attempt((BACKEND, SECOND_BACKEND)[number % 2])
        streamed = body is not PLAIN
        exchange.response((SSE if streamed else JSON) | ({"content-encoding": coding} if coding else {}), status=status)
        plain = event(delta("a")) + event(report()) + DONE if streamed else ANSWER
        encoded = CODINGS.get(coding or "", bytes)(plain)
        pieces = cut(encoded, places) if streamed and status == "200" else [encoded]
        for index, piece in enumerate(pieces[:stop]):
            exchange.piece(piece, eos=index == len(pieces) - 1)
