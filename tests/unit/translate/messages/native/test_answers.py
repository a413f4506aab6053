"""Answers of the three places: the client gets their bytes, and what they report is known."""

import json

import pytest

from extproc.usage import NO_USAGE
from tests.unit.translate.chat.anthropic.attempts import CONVERSATION, PING, sse, start, stop, text_block
from tests.unit.translate.messages.native.attempts import SCHEMAS, counts, document, stream, total, wire

EVERYWHERE = pytest.mark.parametrize("schema", SCHEMAS)
AS_SSE = pytest.mark.parametrize("schema", ["Anthropic", "GCPAnthropic"])


def message(usage=None, model="claude-of-the-backend"):
    whole = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": model, "usage": usage}
    return json.dumps({name: value for name, value in whole.items() if value is not None}).encode()


USAGES = {
    "plain": ({"input_tokens": 9, "output_tokens": 16}, "9/0/0/16/25"),
    "none of the cache": (
        {"input_tokens": 9, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 16},
        "9/0/0/16/25",
    ),
    "read": ({"input_tokens": 80, "output_tokens": 30, "cache_read_input_tokens": 20}, "100/20/0/30/130"),
    "written": ({"input_tokens": 60, "output_tokens": 40, "cache_creation_input_tokens": 15}, "75/0/15/40/115"),
    "read and written": (
        {"input_tokens": 70, "output_tokens": 25, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 5},
        "85/10/5/25/110",
    ),
    "large": (
        {
            "input_tokens": 100_000,
            "output_tokens": 50_000,
            "cache_read_input_tokens": 25_000,
            "cache_creation_input_tokens": 15_000,
        },
        "140000/25000/15000/50000/190000",
    ),
    "zero": ({"input_tokens": 0, "output_tokens": 0}, "0/0/0/0/0"),
    "floats": ({"input_tokens": 9.0, "output_tokens": 16.0}, "9/0/0/16/25"),
    "nonsense": ({"input_tokens": "9", "output_tokens": -1}, "-/-/-/-/-"),
    "no object": ([9], "-/-/-/-/-"),
    "nothing": (None, "-/-/-/-/-"),
}


@EVERYWHERE
@pytest.mark.parametrize(("usage", "expected"), USAGES.values(), ids=USAGES)
def test_the_usage_of_a_document_has_cached_tokens_in_its_input(schema, usage, expected):
    told = document(schema, message(usage))
    assert counts(told.usage) == expected
    assert (told.body, told.model, told.complete) == (None, "claude-of-the-backend", True)


def test_thinking_is_a_part_of_the_output():
    usage = {"input_tokens": 1, "output_tokens": 40, "output_tokens_details": {"thinking_tokens": 12}}
    assert document("Anthropic", message(usage)).usage.reasoning == 12


@EVERYWHERE
def test_a_backend_that_does_not_name_its_model_has_used_the_one_that_was_asked_for(schema):
    assert document(schema, message(model=None), model_override="claude-y").model == "claude-y"
    assert document(schema, message(model="")).model == "claude-x"
    assert document(schema, message(model=[1])).model == "claude-x"


UNREADABLE = {
    "empty": b"",
    "null": b"null",
    "a number": b"7",
    "a list": b"[]",
    "text": b"<html>",
    "half": b'{"usage":{"input_tokens":1',
    "no text": b'{"model":"\xff"}',
    "deep": b'{"usage":' + b"[" * 100_000,
    "an absurd number": b'{"usage":{"input_tokens":' + b"9" * 5000 + b"}}",
}


@EVERYWHERE
@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_answer_passes_unmetered(schema, body):
    told = document(schema, body)
    assert (told.body, told.usage, told.model) == (None, NO_USAGE, "claude-x")


# --- streams ---


def delta(**usage):
    return {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}


STOP = {"type": "message_stop"}
BARE_DELTA = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
NO_INPUT = {"input_tokens": 0, "output_tokens": 0}
METRICS = {"inputTokenCount": 3, "outputTokenCount": 5, "cacheReadInputTokenCount": 32651}

STREAMS = {
    "start alone": ([start(input_tokens=9, cache_read_input_tokens=1, output_tokens=0)], "10/1/0/0/10"),
    "start and delta": (
        [start(input_tokens=9, cache_read_input_tokens=1, output_tokens=0), PING, delta(output_tokens=16), STOP],
        "10/1/0/16/26",
    ),
    "the contract's example": (
        [
            start(input_tokens=7, cache_read_input_tokens=40, cache_creation_input_tokens=3, output_tokens=1),
            delta(output_tokens=12),
        ],
        "50/40/3/12/62",
    ),
    "the contract's example, the cache again": (
        [
            start(input_tokens=7, cache_read_input_tokens=40, cache_creation_input_tokens=3, output_tokens=1),
            delta(output_tokens=12, cache_read_input_tokens=45),
        ],
        "55/45/3/12/67",
    ),
    "the contract's example, a delta without usage": (
        [
            start(input_tokens=7, cache_read_input_tokens=40, cache_creation_input_tokens=3, output_tokens=1),
            BARE_DELTA,
        ],
        "50/40/3/1/51",
    ),
    "input at the end": (
        [start(**NO_INPUT), delta(input_tokens=4522, output_tokens=5, cache_creation_input_tokens=4511)],
        "9033/0/4511/5/9038",
    ),
    "input and cached at the end": (
        [start(**NO_INPUT), delta(input_tokens=4522, output_tokens=5, cache_read_input_tokens=4511)],
        "9033/4511/0/5/9038",
    ),
    "cached at the end": (
        [start(input_tokens=1000, output_tokens=0), delta(output_tokens=10, cache_read_input_tokens=500)],
        "1500/500/0/10/1510",
    ),
    "no input at the end": (
        [start(input_tokens=100, cache_read_input_tokens=7), delta(input_tokens=0, output_tokens=50)],
        "107/7/0/50/157",
    ),
    "running totals": (
        [
            start(input_tokens=9, cache_read_input_tokens=1, output_tokens=0),
            delta(input_tokens=9, cache_read_input_tokens=1, output_tokens=5),
            delta(output_tokens=16),
            STOP,
        ],
        "10/1/0/16/26",
    ),
    "a delta of content": (text_block(0, "a"), "-/-/-/-/-"),
    "a delta alone": ([delta(output_tokens=84)], "0/0/0/84/84"),
    "a float": ([delta(output_tokens=42.0)], "0/0/0/42/42"),
    "stop alone": ([STOP], "-/-/-/-/-"),
    "an unknown event": ([{"type": "later", "usage": {"input_tokens": 1}}], "-/-/-/-/-"),
    "a start without a message": ([{"type": "message_start"}], "-/-/-/-/-"),
    "a start without usage": ([{"type": "message_start", "message": {"model": "m"}}], "-/-/-/-/-"),
    "a delta without usage": ([BARE_DELTA], "-/-/-/-/-"),
    "a story": (
        [
            start(input_tokens=15, cache_read_input_tokens=5, cache_creation_input_tokens=1, output_tokens=0),
            *text_block(0, "a", '{"usage":{"output_tokens":999}} "message_delta"'),
            delta(output_tokens=5),
            STOP,
        ],
        "21/5/1/5/26",
    ),
    "Bedrock's count leaves the cache out of the input": (
        [
            start(input_tokens=3, cache_read_input_tokens=32651, output_tokens=1),
            delta(output_tokens=5),
            {**STOP, "amazon-bedrock-invocationMetrics": METRICS},
        ],
        "32654/32651/0/5/32659",
    ),
    "Bedrock's count is not preferred": (
        [
            start(input_tokens=3, output_tokens=1),
            delta(output_tokens=7),
            {**STOP, "amazon-bedrock-invocationMetrics": {**METRICS, "inputTokenCount": 999}},
        ],
        "32654/32651/0/7/32661",
    ),
    "Bedrock's count alone": (
        [{"type": "message_start", "message": {}}, {**STOP, "amazon-bedrock-invocationMetrics": METRICS}],
        "32654/32651/0/5/32659",
    ),
}


@EVERYWHERE
@pytest.mark.parametrize(("events", "expected"), STREAMS.values(), ids=STREAMS)
def test_the_usage_of_a_stream_is_its_last_word_count_by_count(schema, events, expected):
    """BR-59, BR-62, BR-71: reports are running totals, none is added to another, and none unsays the cache."""
    _, results = stream(schema, [wire(schema, events), b""])
    assert counts(total(results)) == expected


def test_a_report_is_given_with_the_piece_that_has_it():
    """BR-07, BR-08: what a client that leaves has used is known before the end."""
    first, second = sse([start(input_tokens=100, output_tokens=1)]), sse(stop(output_tokens=50))
    _, results = stream("Anthropic", [first, sse(text_block(0, "a")), second, b""])
    assert [counts(result.usage) for result in results] == ["100/0/0/1/101", "-/-/-/-/-", "100/0/0/50/150", "-/-/-/-/-"]
    assert [result.complete for result in results] == [False, False, True, False]


@EVERYWHERE
def test_the_model_of_a_stream_is_the_one_that_it_names(schema):
    _, results = stream(schema, [wire(schema, CONVERSATION), b""], model_override="y")
    assert {result.model for result in results} == {"claude-x"}
    unnamed = [{"type": "message_start", "message": {}}, *stop()]
    _, results = stream(schema, [wire(schema, unnamed), b""], model_override="claude-y")
    assert {result.model for result in results} == {"claude-y"}


SPELLINGS = {
    "as it is": sse(CONVERSATION),
    "CRLF": sse(CONVERSATION, line="\r\n"),
    "CR": sse(CONVERSATION, line="\r"),
    "no names": sse(CONVERSATION, named=False),
    "no space": sse(CONVERSATION).replace(b"data: ", b"data:").replace(b"event: ", b"event:"),
    "no blank line at the end": sse(CONVERSATION).rstrip(b"\n"),
    "a byte order mark": b"\xef\xbb\xbf" + sse(CONVERSATION),
    "comments": b": hello\n\n" + sse(CONVERSATION).replace(b"\n\n", b"\n: bye\n\n"),
    "the type last": b"".join(
        sse([{**{k: v for k, v in event.items() if k != "type"}, "type": event["type"]}]) for event in CONVERSATION
    ),
    "types by name alone": b"".join(
        f"event: {event['type']}\ndata: {json.dumps({k: v for k, v in event.items() if k != 'type'})}\n\n".encode()
        for event in CONVERSATION
    ),
}


@AS_SSE
@pytest.mark.parametrize("body", SPELLINGS.values(), ids=SPELLINGS)
def test_any_spelling_and_any_cut_of_a_stream_passes_and_is_read(schema, body):
    """BR-01, BR-02, BR-05: without names, blanks or the last line end; in one piece, in bytes, and in halves."""
    for size in (len(body), 1, 13):
        pieces = [*(bytes(body[at : at + size]) for at in range(0, len(body), size)), b""]
        output, results = stream(schema, pieces)
        assert output == body
        assert all(result.body is None for result in results)
        assert counts(total(results)) == "13/3/0/40/53"
        assert results[-1].model == "claude-x"
        assert any(result.complete for result in results)
        assert total(results).reasoning == 12


@AS_SSE
def test_a_mislabelled_answer_is_read_by_how_it_begins(schema):
    output, results = stream(schema, [sse(CONVERSATION), b""], content_type="application/octet-stream")
    assert output == sse(CONVERSATION)
    assert counts(total(results)) == "13/3/0/40/53"
    _, results = stream(schema, [message({"input_tokens": 1, "output_tokens": 2})], content_type="application/json")
    assert counts(total(results)) == "1/0/0/2/3"


def test_bedrock_may_answer_a_stream_with_a_document():
    output, results = stream(
        "AWSAnthropic", [message({"input_tokens": 1, "output_tokens": 2})], content_type="application/json"
    )
    assert output == message({"input_tokens": 1, "output_tokens": 2})
    assert counts(total(results)) == "1/0/0/2/3"


ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
ERRORS = {
    "an error": (ERROR, "overloaded_error"),
    "an error that does not say which": ({"type": "error", "error": {}}, "api_error"),
    "an error that is none": ({"type": "error", "error": "x"}, "api_error"),
    "an error with an endless name": ({"type": "error", "error": {"type": "x" * 10_000}}, "x" * 256),
}


@EVERYWHERE
@pytest.mark.parametrize(("event", "name"), ERRORS.values(), ids=ERRORS)
def test_an_error_within_a_stream_reaches_the_client_and_is_a_failure(schema, event, name):
    """BR-13: with what was used so far."""
    told = [start(input_tokens=10, output_tokens=1), *text_block(0, "Hi"), event]
    output, results = stream(schema, [wire(schema, told), b""])
    assert output == sse(told)
    assert counts(total(results)) == "10/0/0/1/11"
    assert next(result.failure for result in results if result.failure) == name
    assert not any(result.complete for result in results)


@AS_SSE
@pytest.mark.parametrize("data", [b"busy", b'{"type":', b"\xff", b"[" * 100_000], ids=["text", "half", "bytes", "deep"])
def test_an_error_that_cannot_be_read_is_one_all_the_same(schema, data):
    _, results = stream(schema, [b"event: error\ndata: %b\n\n" % data, b""])
    assert [result.failure for result in results] == ["api_error", ""]


@AS_SSE
@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE)
def test_an_event_that_cannot_be_read_reports_nothing(schema, data):
    told = b"data: %b\n\n" % data
    output, results = stream(schema, [told + sse(CONVERSATION), b""])
    assert output == told + sse(CONVERSATION)
    assert counts(total(results)) == "13/3/0/40/53"
