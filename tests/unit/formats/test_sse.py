"""Server-sent events: the rules of the format, and the same events from the same bytes however they are cut."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.formats.sse import SSEEvent, SSEReader, encode_event

CHUNKS = [
    b'{"id":"chatcmpl-1","object":"chat.completion.chunk","model":"m","choices":[{"delta":{"role":"assistant"}}]}',
    '{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"Grüße \N{GRINNING FACE}"}}]}'.encode(),
    b'{"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
    b'{"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":4,"total_tokens":15}}',
    b"[DONE]",
]
CHAT = b"".join(b"data: %b\n\n" % chunk for chunk in CHUNKS)
NAMED = (
    b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":3}}}\n\n'
    b": ping\n\n"
    b'event:message_delta\ndata:{"type":"message_delta","usage":{"output_tokens":5}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)


def read(pieces, **options):
    reader = SSEReader(**options)
    events = []
    for piece in pieces:
        events += reader.feed(piece)
    return events + reader.flush()


def cut(data, places):
    edges = [0, *sorted(places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def dispatched(data):
    """The rules of the format, applied to the whole text at once: (name, data) of each block that says anything."""
    lines = re.split(rb"\r\n|\n|\r", data.removeprefix(b"\xef\xbb\xbf"))
    blocks, event, values = [], None, []
    for line in [*lines, b""]:
        if not line:
            if event is not None or values:
                blocks.append((event, b"\n".join(values)))
            event, values = None, []
        name, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if name == b"data":
            values.append(value)
        elif name == b"event":
            event = value
    return blocks


def said(events):
    """What `dispatched` shows of the events; a block with one empty data line counts as one without data."""
    return [(event.event, event.data) for event in events if event.event is not None or event.data]


BLOCKS = {
    "one event": (b"data: x\n\n", [SSEEvent(b"data: x\n\n", b"x")]),
    "no space": (b"data:x\n\n", [SSEEvent(b"data:x\n\n", b"x")]),
    "two spaces, one goes": (b"data:  x\n\n", [SSEEvent(b"data:  x\n\n", b" x")]),
    "a tab is data": (b"data:\tx\n\n", [SSEEvent(b"data:\tx\n\n", b"\tx")]),
    "data lines join": (b"data: a\ndata:b\ndata\n\n", [SSEEvent(b"data: a\ndata:b\ndata\n\n", b"a\nb\n")]),
    "data is empty": (b"data: \n\n", [SSEEvent(b"data: \n\n", b"")]),
    "named": (b"event: n\ndata: x\n\n", [SSEEvent(b"event: n\ndata: x\n\n", b"x", b"n")]),
    "named, no space": (b"event:n\ndata:x\n\n", [SSEEvent(b"event:n\ndata:x\n\n", b"x", b"n")]),
    "name after data": (b"data: x\nevent: n\n\n", [SSEEvent(b"data: x\nevent: n\n\n", b"x", b"n")]),
    "two names, the last": (b"event: a\nevent: b\n\n", [SSEEvent(b"event: a\nevent: b\n\n", b"", b"b")]),
    "name without value": (b"event\ndata: x\n\n", [SSEEvent(b"event\ndata: x\n\n", b"x", b"")]),
    "other fields": (b"id: 1\nretry: 5\ndata: x\nfoo\n\n", [SSEEvent(b"id: 1\nretry: 5\ndata: x\nfoo\n\n", b"x")]),
    "not quite data": (b"data : x\nDATA: x\n data: x\n\n", [SSEEvent(b"data : x\nDATA: x\n data: x\n\n")]),
    "named, other second line": (
        b"event: n\nid: 1\ndata: x\n\n",
        [SSEEvent(b"event: n\nid: 1\ndata: x\n\n", b"x", b"n")],
    ),
    "named, two data lines": (
        b"event: n\ndata: x\ndata: y\n\n",
        [SSEEvent(b"event: n\ndata: x\ndata: y\n\n", b"x\ny", b"n")],
    ),
    "comment": (b": ping\n\ndata: x\n\n", [SSEEvent(b": ping\n\n"), SSEEvent(b"data: x\n\n", b"x")]),
    "comment in an event": (b"data: a\n: c\ndata: b\n\n", [SSEEvent(b"data: a\n: c\ndata: b\n\n", b"a\nb")]),
    "blank lines": (b"\n\ndata: x\n\n\n", [*[SSEEvent(b"\n")] * 2, SSEEvent(b"data: x\n\n", b"x"), SSEEvent(b"\n")]),
    "byte order mark": (b"\xef\xbb\xbfdata: x\n\n", [SSEEvent(b"\xef\xbb\xbfdata: x\n\n", b"x")]),
    "byte order mark and a blank line": (
        b"\xef\xbb\xbf\ndata: x\n\n",
        [SSEEvent(b"\xef\xbb\xbf\n"), SSEEvent(b"data: x\n\n", b"x")],
    ),
    "byte order mark later": (
        b"data: x\n\n\xef\xbb\xbfdata: y\n\n",
        [SSEEvent(b"data: x\n\n", b"x"), SSEEvent(b"\xef\xbb\xbfdata: y\n\n")],
    ),
    "CRLF": (b"event: n\r\ndata: x\r\n\r\n", [SSEEvent(b"event: n\r\ndata: x\r\n\r\n", b"x", b"n")]),
    "CR": (b"event: n\rdata: x\r\rdata: y\r\r", [
        SSEEvent(b"event: n\rdata: x\r\r", b"x", b"n"), SSEEvent(b"data: y\r\r", b"y"),
    ]),
    "CR, then a CRLF": (b"data: x\r\r\ndata: y\n\n", [
        SSEEvent(b"data: x\r\r", b"x"), SSEEvent(b"\n"), SSEEvent(b"data: y\n\n", b"y"),
    ]),
    "LF, then CR": (b"data: x\n\rdata: y\n\r", [SSEEvent(b"data: x\n\r", b"x"), SSEEvent(b"data: y\n\r", b"y")]),
    "blank lines of CR": (b"\r\rdata: x\r\r\r", [
        SSEEvent(b"\r"), SSEEvent(b"\r"), SSEEvent(b"data: x\r\r", b"x"), SSEEvent(b"\r"),
    ]),
    "blank lines of CRLF": (b"\r\n\r\n", [SSEEvent(b"\r\n")] * 2),
    "unterminated": (b"data: x\n\ndata: y", [SSEEvent(b"data: x\n\n", b"x"), SSEEvent(b"data: y", b"y")]),
    "half terminated": (b"data: x\n", [SSEEvent(b"data: x\n", b"x")]),
    "half terminated by CR": (b"data: x\r", [SSEEvent(b"data: x\r", b"x")]),
    "only a byte order mark": (b"\xef\xbb\xbf", [SSEEvent(b"\xef\xbb\xbf")]),
    "nothing": (b"", []),
    "no text": (b"data: \xff\x00\n\n", [SSEEvent(b"data: \xff\x00\n\n", b"\xff\x00")]),
    "other line ends are none": (
        "data: a\u2028b\u0085c\x0bd\n\n".encode(),
        [SSEEvent("data: a\u2028b\u0085c\x0bd\n\n".encode(), "a\u2028b\u0085c\x0bd".encode())],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("data", "events"), BLOCKS.values(), ids=BLOCKS)
def test_blocks(data, events):
    assert read([data]) == events
    assert read([data[i : i + 1] for i in range(len(data))]) == events


STREAMS = {
    "chat": CHAT,
    "named": NAMED,
    "CRLF": CHAT.replace(b"\n", b"\r\n"),
    "CR": NAMED.replace(b"\n", b"\r"),
    "byte order mark": b"\xef\xbb\xbf" + CHAT,
    "unterminated": CHAT[:-1],
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_every_cut_in_two_gives_the_same_events(stream):
    whole = read([stream])

    assert said(whole) == dispatched(stream)
    for place in range(len(stream)):
        assert read(cut(stream, [place])) == whole


def test_the_samples_say_what_was_put_in():
    assert [event.data for event in read([CHAT])] == CHUNKS
    assert [event.event for event in read([NAMED])] == [b"message_start", None, b"message_delta", b"message_stop"]


lines = st.sampled_from([
    b"data: x", b"data:y", b"data", b"data:  z", b"event: n", b"event:m", b"event", b": c", b":", b"id: 1", b"", b"",
    b"", b"\xef\xbb\xbf", b"\xef\xbb\xbfdata: b", b"\xef", b"data: " + b"l" * 50,
])  # fmt: skip
streams = st.one_of(
    st.lists(st.tuples(lines, st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"])), max_size=14).map(
        lambda pairs: b"".join(line + end for line, end in pairs)
    ),
    st.lists(st.sampled_from([b"\r", b"\n", b"data:", b" ", b"x", b"\xef\xbb\xbf", b"event:"]), max_size=20).map(
        b"".join
    ),
)


@settings(deadline=None, max_examples=400)
@given(stream=streams, data=st.data())
def test_any_cut_gives_the_same_events(stream, data):
    places = data.draw(st.lists(st.integers(0, len(stream)), max_size=8))
    whole = read([stream])

    assert b"".join(event.raw for event in whole) == stream
    assert said(whole) == [block for block in dispatched(stream) if block != (None, b"")]
    assert read(cut(stream, places)) == whole
    assert read([stream[i : i + 1] for i in range(len(stream))]) == whole


@settings(deadline=None)
@given(stream=streams, data=st.data())
def test_nothing_is_lost_on_the_way(stream, data):
    reader = SSEReader()
    raw, fed = b"", 0
    for piece in cut(stream, data.draw(st.lists(st.integers(0, len(stream)), max_size=8))):
        raw += b"".join(event.raw for event in reader.feed(piece))
        fed += len(piece)
        assert len(raw) + reader.pending == fed

    assert raw + reader.take_pending() == stream
    assert reader.pending == 0
    assert reader.flush() == []


@settings(deadline=None)
@given(stream=streams, limit=st.integers(1, 40), data=st.data())
def test_events_around_an_overflow_do_not_depend_on_the_cut(stream, limit, data):
    pieces = cut(stream, data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    whole, parts = read([stream], max_event_bytes=limit), read(pieces, max_event_bytes=limit)

    assert b"".join(event.raw for event in parts) == b"".join(event.raw for event in whole) == stream
    assert said(parts) == said(whole)


PUNCTUAL = {
    "LF": [b"data: x\n\n", b"data: y\n\n"],
    "CRLF": [b"data: x\r\n\r\n", b"data: y\r\n\r\n"],
    "CR": [b"data: x\r\r", b"data: y\r\r"],
    "keepalive": [b"\n", b": ping\n\n", b"\r\n", b"\n"],
    "several at once": [CHAT, CHAT],
}


@pytest.mark.parametrize("pieces", PUNCTUAL.values(), ids=PUNCTUAL)
def test_an_event_is_not_held_back(pieces):
    reader = SSEReader()
    for piece in pieces:
        assert b"".join(event.raw for event in reader.feed(piece)) == piece
        assert reader.pending == 0


def test_half_of_a_crlf_waits_for_its_other_half():
    reader = SSEReader()

    assert reader.feed(b"data: x\r\n\r") == []
    assert reader.pending == 10
    assert reader.feed(b"\ndata") == [SSEEvent(b"data: x\r\n\r\n", b"x")]
    assert reader.pending == 4


def test_the_end_of_the_stream_decides_what_waits():
    reader = SSEReader()
    reader.feed(b"data: x\n\r")

    assert reader.flush() == [SSEEvent(b"data: x\n\r", b"x")]
    assert reader.flush() == []


def test_an_event_of_the_limit_is_read_and_one_byte_more_is_not():
    event = b"data: 0123456789\n\n"

    assert read([event * 2], max_event_bytes=len(event)) == [SSEEvent(event, b"0123456789")] * 2

    reader = SSEReader(max_event_bytes=len(event) - 1)
    assert reader.feed(event) == [SSEEvent(event)]
    assert reader.overflow
    assert reader.feed(b"data: x\n\n") == [SSEEvent(b"data: x\n\n", b"x")]
    assert reader.feed(b"") == []
    assert reader.flush() == []


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"], ids=repr)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_reading_goes_on_after_an_event_over_the_limit(line_end, size):
    stream = (b"data: " + b"x" * 50 + b"\n\ndata: y\n\n").replace(b"\n", line_end)

    events = read([stream[at : at + size] for at in range(0, len(stream), size)], max_event_bytes=20)

    assert b"".join(event.raw for event in events) == stream
    assert said(events) == [(None, b"y")]


def test_an_endless_line_is_let_go_when_it_exceeds_the_limit():
    reader = SSEReader(max_event_bytes=100)
    reader.feed(b"data: ok\n\n")

    pieces = [reader.feed(b"x" * 30) for _ in range(5)]

    assert pieces[:3] == [[], [], []]
    assert pieces[3:] == [[SSEEvent(b"x" * 120)], [SSEEvent(b"x" * 30)]]
    assert (reader.overflow, reader.pending) == (True, 0)


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"], ids=repr)
def test_a_large_event_in_single_bytes_is_read_in_linear_time(line_end):
    data = b"data: " + b"x" * 300_000 + line_end * 2
    reader = SSEReader()

    events = [event for i in range(len(data)) for event in reader.feed(data[i : i + 1])]

    assert events == [SSEEvent(data, b"x" * 300_000)]


def test_an_event_is_a_value():
    assert SSEEvent(b"data: x\n\n", b"x") == SSEEvent(b"data: x\n\n", b"x", None)
    with pytest.raises(AttributeError):
        SSEEvent(b"").data = b"y"


ENCODED = {
    "data": (b"x", None, b"data: x\n\n"),
    "name": (b"x", b"n", b"event: n\ndata: x\n\n"),
    "no data": (b"", None, b"data: \n\n"),
    "lines": (b"a\n\nb\n", None, b"data: a\ndata: \ndata: b\ndata: \n\n"),
    "CR would end a line": (b"a\rb\r\nc", b"n", b"event: n\ndata: a\ndata: b\ndata: c\n\n"),
}


@pytest.mark.parametrize(("data", "event", "gives"), ENCODED.values(), ids=ENCODED)
def test_encode(data, event, gives):
    assert encode_event(data, event) == gives


@pytest.mark.parametrize("name", [b"a\nb", b"a\rb", b"\n"])
def test_a_name_cannot_smuggle_lines_in(name):
    with pytest.raises(ValueError, match="line end"):
        encode_event(b"x", name)


@settings(deadline=None)
@given(data=st.binary(), event=st.none() | st.binary().filter(lambda name: not set(name) & set(b"\r\n")))
def test_an_encoded_event_is_read_back(data, event):
    (read_back,) = read([encode_event(data, event)])

    assert read_back.data == re.sub(rb"\r\n|\r", b"\n", data)
    assert read_back.event == event
