"""The ``h2`` library as client, strict as it is by default, in memory: a second opinion on what the engine writes.

A server that drains is not shown to it: after GOAWAY it takes nothing more, not even for streams that are open.
"""

from __future__ import annotations

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest

from protos.ext_proc_pb2 import ProcessingResponse
from tests.support.http2_peer import CHECK, PROCESS, EchoProcessor, build_engine, message, prefixed


class Client:
    """An h2 connection and an engine, each fed with what the other writes."""

    def __init__(self, processor=None, *, settings=None, **bounds):
        self.processor = processor or EchoProcessor()
        self.engine = build_engine(self.processor, **bounds)
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self.h2 = h2.connection.H2Connection(config=config)
        self.content, self.fields, self.trailers, self.resets = {}, {}, {}, {}
        self.ended, self.events = set(), []
        self.takes_data = True
        self.h2.initiate_connection()
        if settings:
            self.h2.update_settings(settings)
        self.exchange()

    def exchange(self):
        """Let both talk until neither has anything to say. Whatever h2 dislikes, it raises."""
        while True:
            octets = self.h2.data_to_send()
            if octets:
                self.engine.receive(octets)
            answer = self.engine.data_to_send()
            for event in self.h2.receive_data(answer) if answer else ():
                self._note(event)
            if not octets and not answer:
                return

    def _note(self, event):
        self.events.append(event)
        match event:
            case h2.events.DataReceived():
                self.content.setdefault(event.stream_id, bytearray()).extend(event.data)
                if self.takes_data:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.ResponseReceived():
                self.fields[event.stream_id] = dict(event.headers)
            case h2.events.TrailersReceived():
                self.trailers[event.stream_id] = dict(event.headers)
            case h2.events.StreamEnded():
                self.ended.add(event.stream_id)
            case h2.events.StreamReset():
                self.resets[event.stream_id] = event.error_code

    def open(self, path=PROCESS, **changed):
        stream = self.h2.get_next_available_stream_id()
        listed = {
            ":method": "POST",
            ":scheme": "http",
            ":path": path.decode(),
            ":authority": "processor",
            "content-type": "application/grpc",
            "te": "trailers",  # codespell:ignore te
            **changed,
        }
        self.h2.send_headers(stream, list(listed.items()))
        self.exchange()
        return stream

    def say(self, stream, *bodies, end=False):
        self.send(stream, b"".join(map(message, bodies)), end=end)

    def send(self, stream, octets, *, end=False):
        while octets:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            assert room > 0, "the engine gives no window back"
            self.h2.send_data(stream, octets[:room])
            octets = octets[room:]
            self.exchange()
        if end:
            self.h2.end_stream(stream)
        self.exchange()

    def replies(self, stream):
        octets, out = bytes(self.content.get(stream, b"")), []
        while len(octets) >= 5:
            length = int.from_bytes(octets[1:5], "big")
            out.append(ProcessingResponse.FromString(octets[5 : 5 + length]).request_body.response.body_mutation.body)
            octets = octets[5 + length :]
        return out

    def status(self, stream):
        return (self.trailers.get(stream) or self.fields[stream]).get("grpc-status")


def test_a_call():
    client = Client()
    stream = client.open()
    client.say(stream, b"one", b"two", end=True)
    assert client.replies(stream) == [b"one", b"two"]
    assert client.fields[stream][":status"] == "200"
    assert client.status(stream) == "0"
    assert stream in client.ended


def test_many_calls_on_one_connection():
    client = Client()
    for number in range(300):
        stream = client.open(**{"x-request-id": str(number)})
        client.say(stream, b"%d" % number, end=number % 2 == 0)
        if number % 2:
            client.h2.reset_stream(stream, 8)
            client.exchange()
        assert client.replies(stream) == [b"%d" % number]
    assert client.engine.open_streams == 0
    assert client.processor.opened == client.processor.closed == 300


def test_calls_side_by_side():
    client = Client()
    streams = [client.open() for _ in range(20)]
    for round_ in range(5):
        for stream in streams:
            client.say(stream, b"%d-%d" % (round_, stream))
    for stream in streams:
        client.h2.end_stream(stream)
    client.exchange()
    for stream in streams:
        assert client.replies(stream) == [b"%d-%d" % (round_, stream) for round_ in range(5)]
        assert client.status(stream) == "0"


@pytest.mark.parametrize("size", [0, 1, 16_384, 65_535, 65_536, 3_000_000])
def test_a_large_message_both_ways(size):
    client = Client()
    stream = client.open()
    client.say(stream, b"x" * size, end=True)
    assert client.replies(stream) == [b"x" * size]
    assert client.status(stream) == "0"


@pytest.mark.parametrize("window", [1, 10, 1000, 65_535, 2**31 - 1])
def test_windows_of_the_client(window):
    """h2 raises when more comes than it granted."""
    client = Client(settings={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
    stream = client.open()
    client.takes_data = False
    client.say(stream, b"size:3000", end=True)
    at_first = len(client.content.get(stream, b""))
    while stream not in client.ended:
        client.h2.increment_flow_control_window(500, stream)
        client.exchange()
    assert client.replies(stream) == [b"x" * 3000]
    assert at_first == min(window, len(client.content[stream]))


def test_the_initial_window_changes_in_the_middle():
    client = Client(settings={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 100})
    client.takes_data = False
    streams = [client.open() for _ in range(3)]
    for stream in streams:
        client.say(stream, b"size:500", end=True)
    for window in (50, 300, 0, 700):
        client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        client.exchange()
    assert [client.replies(stream) for stream in streams] == [[b"x" * 500]] * 3
    assert client.ended == set(streams)


def test_a_smaller_header_table_and_frame_size():
    client = Client(
        settings={
            h2.settings.SettingCodes.HEADER_TABLE_SIZE: 0,
            h2.settings.SettingCodes.MAX_FRAME_SIZE: 16_384,
            h2.settings.SettingCodes.ENABLE_PUSH: 0,
        }
    )
    for _ in range(3):
        stream = client.open()
        client.say(stream, b"size:40000", end=True)
        assert client.replies(stream) == [b"x" * 40_000]
    client.h2.update_settings({h2.settings.SettingCodes.HEADER_TABLE_SIZE: 4096})
    client.exchange()
    stream = client.open()
    client.say(stream, b"echo", end=True)
    assert client.replies(stream) == [b"echo"]


@pytest.mark.parametrize(
    ("path", "changed", "status"),
    [
        (b"/none.Such/Method", {}, "12"),
        (PROCESS + b"x", {}, "12"),
        (PROCESS, {"grpc-encoding": "gzip"}, "12"),
    ],
)
def test_calls_that_are_refused(path, changed, status):
    client = Client()
    stream = client.open(path, **changed)
    if stream not in client.ended:
        client.send(stream, prefixed(b"\x1f\x8b", flag=1))
    assert client.status(stream) == status
    assert client.resets.get(stream, 0) == 0
    again = client.open()
    client.say(again, b"echo", end=True)
    assert client.replies(again) == [b"echo"]


def test_another_protocol():
    client = Client()
    stream = client.open(**{"content-type": "application/json"})
    assert client.fields[stream][":status"] == "415"
    assert stream in client.ended


def test_a_failure_of_the_core():
    client = Client()
    stream = client.open()
    client.say(stream, b"one", "fail:unsupported path: /模型".encode())
    assert client.replies(stream) == [b"one"]
    assert client.status(stream) == "5"
    assert client.trailers[stream]["grpc-message"] == "unsupported path: /%E6%A8%A1%E5%9E%8B"


def test_trailers_of_the_client():
    client = Client()
    stream = client.open()
    client.say(stream, b"one")
    client.h2.send_headers(stream, [("x-end", "1")], end_stream=True)
    client.exchange()
    assert client.replies(stream) == [b"one"]
    assert client.status(stream) == "0"


def test_health():
    client = Client()
    stream = client.open(CHECK)
    client.send(stream, prefixed(b""), end=True)
    assert bytes(client.content[stream]) == prefixed(b"\x08\x01")
    assert client.status(stream) == "0"


def test_ping_priority_and_unknown_settings():
    client = Client()
    client.h2.ping(b"12345678")
    stream = client.open()
    client.h2.prioritize(stream, weight=3, depends_on=0, exclusive=True)
    client.exchange()
    assert [event.ping_data for event in client.events if isinstance(event, h2.events.PingAckReceived)] == [b"12345678"]
    client.say(stream, b"echo", end=True)
    assert client.replies(stream) == [b"echo"]


def test_the_client_leaves():
    client = Client()
    stream = client.open()
    client.say(stream, b"one", end=True)
    client.h2.close_connection()
    client.exchange()
    assert client.replies(stream) == [b"one"]
    client.engine.connection_lost()
    assert client.processor.opened == client.processor.closed


def test_more_streams_than_are_announced():
    """h2 itself refuses to open them, so it has understood the setting."""
    client = Client(max_concurrent_streams=3)
    for _ in range(3):
        client.open()
    with pytest.raises(h2.exceptions.TooManyStreamsError):
        client.open()
