"""Claude's streams out of Amazon's frames: what the client reads is what Anthropic's own API would have sent."""

import base64
import json

import pytest
from anthropic.lib.bedrock._stream_decoder import AWSEventStreamDecoder

from tests.support import eventstream
from tests.unit.translate.chat.anthropic.attempts import CONVERSATION, PING, sse, start, stop, text_block
from tests.unit.translate.messages.native.attempts import CONTENT_TYPES, ask, counts, frames, stream, total

BEGIN = [start(cache_read_input_tokens=3), *text_block(0, "Hel", "lo")]
TOLD = {"type": "error", "error": {"message": "the backend's stream ended before its message did", "type": "api_error"}}


def raw(data, *, padding=11):
    """A frame with these bytes as its event."""
    return eventstream.event("chunk", {"bytes": base64.b64encode(data).decode()}, padding=padding)


def read(*pieces):
    return stream("AWSAnthropic", [*pieces, b""])


def events_of(output):
    """Name and JSON of each event; of one without a name, ``None``."""
    *blocks, rest = output.decode().split("\n\n")
    assert rest == ""
    told = []
    for block in blocks:
        *names, data = block.split("\n")
        told.append((names[0].removeprefix("event: ") if names else None, json.loads(data.removeprefix("data: "))))
    return told


def broken(output):
    """The error that ends a stream."""
    *before, (name, error) = events_of(output)
    assert name == "error"
    assert "message_stop" not in [name for name, _ in before]
    assert error.keys() == {"error", "type"}
    return error["error"]


def test_frames_become_events():
    translator, _ = ask("AWSAnthropic", {"stream": True})
    headers = {":status": "200", "content-type": CONTENT_TYPES["AWSAnthropic"]}
    assert translator.response_headers(headers) == [("content-type", "text/event-stream")]
    assert translator.rewrites_stream
    output, results = read(frames(CONVERSATION))
    assert output == sse(CONVERSATION)
    assert counts(total(results)) == "13/3/0/40/53"
    assert [result.complete for result in results] == [True, True]
    assert not any(result.failure for result in results)


def test_any_cut_of_the_frames_gives_the_same():
    """BR-51: byte by byte, and in pieces of every size up to a frame's."""
    body = frames(CONVERSATION)
    for size in (1, 2, 7, 11, 12, 13, 100, 1000):
        output, results = read(*(body[at : at + size] for at in range(0, len(body), size)))
        assert output == sse(CONVERSATION)
        assert counts(total(results)) == "13/3/0/40/53"


def test_events_are_told_as_they_come():
    parts = [frames([event]) for event in CONVERSATION]
    translator, _ = ask("AWSAnthropic", {"stream": True})
    translator.response_headers({"content-type": CONTENT_TYPES["AWSAnthropic"]})
    for part, event in zip(parts, CONVERSATION, strict=True):
        assert translator.response_body(part, end_of_stream=False).body == sse([event])


VERBATIM = {
    "spelling": b'{ "type" : "ping" ,"x":1.00,"y":"\\u00fc \xc3\xbc"}',
    "an event that is not known": b'{"type":"later","z":[]}',
    "metrics": b'{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":1}}',
}


@pytest.mark.parametrize("data", VERBATIM.values(), ids=VERBATIM)
def test_the_json_of_an_event_goes_on_as_it_came(data):
    name = json.loads(data)["type"].encode()
    output, _ = read(raw(data))
    assert output.startswith(b"event: %b\ndata: %b\n\n" % (name, data))


def test_an_event_without_a_type_has_no_name():
    for data in (b'{"x":1}', b'{"type":7}', b'{"type":"a\\nevent: b"}', b'{"type":""}'):
        output, _ = read(raw(data))
        assert output.startswith(b"data: %b\n\n" % data)


def test_line_ends_within_the_json_stay_within_the_event():
    output, _ = read(raw(b'{"type":\r\n"ping"\n}'))
    assert output.startswith(b'event: ping\ndata: {"type":\ndata: "ping"\ndata: }\n\n')


def test_other_messages_of_the_operation_say_nothing_here():
    other = eventstream.event("later", {"x": 1}) + eventstream.event("chunk", {"p": "ab"})
    assert read(other + frames(CONVERSATION))[0] == sse(CONVERSATION)


EXCEPTIONS = {
    "throttlingException": "rate_limit_error",
    "validationException": "invalid_request_error",
    "modelTimeoutException": "timeout_error",
    "modelStreamErrorException": "api_error",
    "internalServerException": "api_error",
    "serviceUnavailableException": "api_error",
    "laterException": "api_error",
}


@pytest.mark.parametrize(("name", "kind"), EXCEPTIONS.items(), ids=EXCEPTIONS)
def test_an_exception_of_amazon_is_an_error_of_the_api(name, kind):
    """BR-13, BR-53: the client reads it, nothing says that the message is whole, and what was used is known."""
    output, results = read(frames(BEGIN) + eventstream.exception(name, {"message": "slow\ndown"}), frames(stop()))
    assert output.startswith(sse(BEGIN))
    assert broken(output) == {"type": kind, "message": "slow\ndown"}
    assert results[0].failure == kind
    assert not results[-1].complete
    assert counts(total(results)) == "13/3/0/1/14"


def test_an_exception_without_words_is_known_by_its_name():
    assert broken(read(eventstream.exception("throttlingException", b""))[0])["message"] == "throttlingException"


def test_an_error_of_the_framing_is_one_of_the_api():
    output, results = read(eventstream.error("InternalError", "An internal error"))
    assert broken(output) == {"type": "api_error", "message": "An internal error"}
    assert results[0].failure == "api_error"


FLIPPED = bytearray(frames([PING]))
FLIPPED[-1] ^= 1

FAULTS = {
    "the checksum of a message": bytes(FLIPPED),
    "the checksum of a prelude": b"\x00\x00\x00\x20" + b"\x00" * 28,
    "garbage": b"<html>Bad Gateway</html>",
    "a payload that is no JSON": eventstream.event("chunk", b"<html>"),
    "an event that is no base64": eventstream.event("chunk", {"bytes": "?"}),
    "an event that is no JSON": raw(b"<html>"),
    "an event that is a list": raw(b"[]"),
    "an event that is deep": raw(b'{"x":' + b"[" * 100_000),
    "an event that is no text": raw(b'{"type":"\xff"}'),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_what_cannot_be_read_ends_the_stream_with_an_error(fault):
    """After what was whole before; and nothing that follows is told."""
    for pieces in ([frames(BEGIN) + fault + frames(stop())], [frames(BEGIN), fault, frames(stop())]):
        output, results = read(*pieces)
        assert output.startswith(sse(BEGIN))
        error = broken(output)
        assert error["type"] == "api_error"
        assert error["message"].startswith("the backend's stream cannot be read: ")
        assert output.count(b"event: error") == 1
        assert "api_error" in [result.failure for result in results]
        assert counts(total(results)) == "13/3/0/1/14"


@pytest.mark.parametrize("count", range(len(CONVERSATION)))
def test_a_stream_that_ends_before_its_message_is_broken(count):
    """BR-53: wherever it ends, whole frames or not."""
    whole = frames(CONVERSATION[:count])
    for pieces in ([whole], [whole, frames(CONVERSATION[count:])[:-1][:20]]):
        output, results = read(*pieces)
        assert events_of(output)[-1] == ("error", TOLD)
        assert (results[-1].complete, results[-1].failure) == (False, "api_error")


def test_an_error_event_of_the_model_is_not_told_a_second_time():
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    output, results = read(frames([*BEGIN, error]), frames(stop()))
    assert output == sse([*BEGIN, error])
    assert {result.failure for result in results} == {"overloaded_error"}


def test_nothing_is_told_after_the_end_of_the_message():
    late = eventstream.exception("internalServerException", {"message": "late"})
    for more in (late, bytes(FLIPPED), frames([PING]), b"\x00"):
        output, results = read(frames(CONVERSATION), more)
        assert output == sse(CONVERSATION)
        assert not any(result.failure for result in results)
        assert results[-1].complete


def test_a_stream_under_another_success_is_read_as_well():
    """Envoy buffers what is not 200, so it comes in one piece."""
    translator, _ = ask("AWSAnthropic", {"stream": True})
    translator.response_headers({":status": "201", "content-type": "Application/vnd.amazon.eventstream; x=y"})
    assert translator.response_body(frames(CONVERSATION), end_of_stream=True).body == sse(CONVERSATION)


def test_amazons_own_decoder_reads_the_same_events():
    [*told] = AWSEventStreamDecoder().iter_bytes(iter([frames(CONVERSATION)]))
    assert [(each.event, json.loads(each.data)) for each in told] == events_of(read(frames(CONVERSATION))[0])
