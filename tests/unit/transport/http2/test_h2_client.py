"""The `h2` library as the client: it checks every frame and header block that it gets, and keeps to the windows."""

from __future__ import annotations

from collections import defaultdict

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    PingAckReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from h2.settings import SettingCodes
from hypothesis import given
from hypothesis import strategies as st

from extproc.transport.http2.connection import Connection
from extproc.transport.http2.grpc_calls import GrpcCalls
from protos.ext_proc_pb2 import ProcessingResponse
from protos.health_pb2 import HealthCheckResponse
from tests.support.http2_peer import prefixed
from tests.support.served import PROCESS, Processor, body

REQUEST = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", PROCESS),
    (":authority", "extproc"),
    ("te", "trailers"),  # codespell:ignore te
    ("content-type", "application/grpc"),
]


class Client:
    """Both ends of a connection, in memory. ``events`` are what the client saw, by stream."""

    def __init__(self, settings=None):
        self.processor = Processor()
        self.server = Connection(GrpcCalls(self.processor, is_serving=lambda: True))
        strict = H2Configuration(
            client_side=True, validate_inbound_headers=True, validate_outbound_headers=False, header_encoding="utf-8"
        )
        self.h2 = H2Connection(strict)
        self.h2.initiate_connection()
        if settings:
            self.h2.update_settings(settings)
        self.events = defaultdict(list)
        self.unsent = {}
        self.exchange()

    def exchange(self):
        """Carry bytes both ways until both have nothing more to say."""
        while True:
            self._send_what_fits()
            if there := self.h2.data_to_send():
                self.server.receive(there)
            back = self.server.data_to_send()
            for event in self.h2.receive_data(back):
                self.events[getattr(event, "stream_id", 0)].append(event)
                if isinstance(event, DataReceived):
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if not there and not back:
                return

    def _send_what_fits(self):
        for stream, (data, end) in list(self.unsent.items()):
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            piece, rest = data[:room], data[room:]
            if piece or (end and not rest):
                self.h2.send_data(stream, piece, end_stream=end and not rest)
            if rest:
                self.unsent[stream] = (rest, end)
            else:
                del self.unsent[stream]

    def call(self, *bodies, end=False, headers=REQUEST):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, headers)
        self.say(stream, *bodies, end=end)
        return stream

    def say(self, stream, *bodies, end=False):
        messages = b"".join(prefixed(body(data).SerializeToString()) for data in bodies)
        if messages or end:
            self.unsent[stream] = (messages, end)
        self.exchange()

    def of(self, stream, kind):
        return [event for event in self.events[stream] if isinstance(event, kind)]

    def replies(self, stream):
        data = b"".join(event.data for event in self.of(stream, DataReceived))
        found = []
        while data:
            assert data[0] == 0
            size = int.from_bytes(data[1:5], "big")
            reply = ProcessingResponse.FromString(data[5 : 5 + size])
            found.append(reply.request_body.response.body_mutation.body)
            data = data[5 + size :]
        return found

    def trailers(self, stream):
        (event,) = self.of(stream, TrailersReceived)
        return dict(event.headers)


def test_a_call_from_beginning_to_end():
    client = Client()
    stream = client.call(b"one")
    client.say(stream, b"two", b"three", end=True)
    (response,) = client.of(stream, ResponseReceived)
    assert dict(response.headers) == {":status": "200", "content-type": "application/grpc"}
    assert client.replies(stream) == [b"one", b"two", b"three"]
    assert client.trailers(stream) == {"grpc-status": "0"}
    assert client.of(stream, StreamEnded)
    assert not client.of(stream, StreamReset)


def test_a_failure_asks_the_client_to_stop():
    client = Client()
    stream = client.call(b"fail")
    (response,) = client.of(stream, ResponseReceived)
    assert dict(response.headers)["grpc-status"] == "5"
    assert dict(response.headers)["grpc-message"] == "unsupported path: /x"
    (reset,) = client.of(stream, StreamReset)
    assert reset.error_code == ErrorCodes.NO_ERROR


def test_many_calls_at_once():
    client = Client()
    streams = [client.call(b"%d" % number) for number in range(200)]
    for stream in reversed(streams):
        client.say(stream, b"more", end=True)
    assert [client.replies(stream) for stream in streams] == [[b"%d" % number, b"more"] for number in range(200)]
    assert client.server.open_streams == 0
    assert client.processor.closed == 200


def test_a_message_larger_than_every_window():
    client = Client()
    data = bytes(range(256)) * 50_000
    stream = client.call(data, end=True)
    assert client.replies(stream) == [data]
    assert client.of(stream, WindowUpdated)
    assert client.trailers(stream) == {"grpc-status": "0"}


@pytest.mark.parametrize("window", [1, 10, 16_383, 16_385, 2**31 - 1])
def test_the_window_of_the_client(window):
    client = Client({SettingCodes.INITIAL_WINDOW_SIZE: window})
    data = b"x" * min(100_000, window * 300)
    stream = client.call(data, end=True)
    assert client.replies(stream) == [data]
    assert client.trailers(stream) == {"grpc-status": "0"}


def test_a_window_that_shrinks_below_zero_in_mid_stream():
    client = Client()
    stream = client.call(b"x" * 60_000)
    client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 100})
    client.say(stream, b"y" * 60_000)
    client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1_000_000})
    client.say(stream, b"z", end=True)
    assert client.replies(stream) == [b"x" * 60_000, b"y" * 60_000, b"z"]


@pytest.mark.parametrize("size", [0, 100, 4096, 65_536])
def test_the_header_table_of_the_client(size):
    """RFC 7541, 4.2: a client whose table is smaller waits for the encoder to say that it knows."""
    client = Client({SettingCodes.HEADER_TABLE_SIZE: size})
    first, second = client.call(b"one", end=True), client.call(b"two", end=True)
    client.h2.update_settings({SettingCodes.HEADER_TABLE_SIZE: 50})
    third = client.call(b"three", end=True)
    assert [client.trailers(stream) for stream in (first, second, third)] == [{"grpc-status": "0"}] * 3


def test_a_larger_frame_of_the_client():
    client = Client({SettingCodes.MAX_FRAME_SIZE: 2**20, SettingCodes.INITIAL_WINDOW_SIZE: 2**24})
    client.h2.increment_flow_control_window(2**24)
    stream = client.call(b"x" * 500_000, end=True)
    assert client.replies(stream) == [b"x" * 500_000]
    assert len(client.of(stream, DataReceived)) == 1


def test_health():
    client = Client()
    path = [(name, "/grpc.health.v1.Health/Check" if name == ":path" else value) for name, value in REQUEST]
    stream = client.h2.get_next_available_stream_id()
    client.h2.send_headers(stream, path)
    client.h2.send_data(stream, prefixed(b""), end_stream=True)
    client.exchange()
    (data,) = client.of(stream, DataReceived)
    assert HealthCheckResponse.FromString(data.data[5:]).status == HealthCheckResponse.SERVING


def test_a_drain_lets_streams_finish():
    client = Client()
    stream = client.call(b"one")
    client.server.drain()
    back = client.server.data_to_send()
    late = client.h2.get_next_available_stream_id()
    client.h2.send_headers(late, REQUEST)
    # The library thinks that GOAWAY ends everything, so its bytes are read, and its answer to PING taken, by hand.
    client.server.receive(client.h2.data_to_send())
    assert client.server.open_streams == 2
    assert back[3] == 7
    assert int.from_bytes(back[9:13], "big") == 2**31 - 1
    ping = back[17 + 9 : 17 + 9 + 8]
    client.server.receive(b"\0\0\x08\x06\x01\0\0\0\0" + ping)
    final = client.server.data_to_send()
    assert int.from_bytes(final[9:13], "big") == late
    assert not client.server.closed
    for open_stream in (stream, late):
        client.server.receive(b"\0\0\0\0\x01" + open_stream.to_bytes(4, "big"))
    assert client.server.closed
    assert client.processor.closed == 2


def test_pings_are_answered():
    client = Client()
    client.h2.ping(b"12345678")
    client.exchange()
    assert [event.ping_data for event in client.of(0, PingAckReceived)] == [b"12345678"]
    assert not client.of(0, ConnectionTerminated)


@given(st.lists(st.tuples(st.integers(0, 4), st.binary(max_size=40_000), st.booleans()), max_size=30))
def test_any_conversation(steps):
    """Whatever is said on whichever stream, each message is answered by itself, in order."""
    client = Client({SettingCodes.INITIAL_WINDOW_SIZE: 1000})
    streams, said = {}, defaultdict(list)
    for slot, data, reset in steps:
        if slot not in streams:
            streams[slot] = client.call()
        stream = streams[slot]
        if reset:
            client.h2.reset_stream(stream)
            client.exchange()
            del streams[slot]
            continue
        client.say(stream, b"=" + data)
        said[stream].append(b"=" + data)
    for stream in streams.values():
        client.say(stream, end=True)
        assert client.replies(stream) == said[stream]
        assert client.trailers(stream) == {"grpc-status": "0"}
    assert client.server.open_streams == 0
    assert client.processor.opened == client.processor.closed
