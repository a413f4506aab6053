"""Amazon's frames, as botocore reads them."""

from __future__ import annotations

import base64
import json

import pytest
from botocore.eventstream import ChecksumMismatch, EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from deploy.demo.providers.bedrock import chunk
from deploy.demo.providers.eventstream import event_frame, exception_frame, frame

NAMES = st.text(st.characters(codec="ascii", exclude_categories=["C"]), min_size=1, max_size=40)


def read(*frames):
    buffer = EventStreamBuffer()
    buffer.add_data(b"".join(frames))
    return list(buffer)


@given(st.dictionaries(NAMES, st.text(max_size=60), max_size=5), st.binary(max_size=300))
def test_what_is_framed_is_read(headers, payload):
    (message,) = read(frame(headers, payload))

    assert (message.headers, message.payload) == (headers, payload)


@given(st.integers(min_value=0))
def test_a_byte_that_is_wrong_is_found(position):
    data = bytearray(event_frame("messageStart", {"role": "assistant"}))
    # The first twelve bytes are lengths, and a wrong one may only look as if more had to come.
    position = 12 + position % (len(data) - 12)
    data[position] ^= 0x55

    with pytest.raises(ChecksumMismatch):
        read(bytes(data))


def test_events_are_padded():
    messages = read(*(event_frame("contentBlockDelta", {"delta": {"text": word}}) for word in ("a", "bc", "def")))

    assert {message.headers[":event-type"] for message in messages} == {"contentBlockDelta"}
    assert all(json.loads(message.payload)["p"].startswith("a") for message in messages)


def test_an_exception():
    (message,) = read(exception_frame("throttlingException", "slow down"))

    assert message.to_response_dict()["status_code"] == 400
    assert message.headers[":exception-type"] == "throttlingException"
    assert json.loads(message.payload) == {"message": "slow down"}


def test_an_event_of_a_model_is_wrapped():
    (message,) = read(chunk({"type": "ping"}))

    assert message.headers[":event-type"] == "chunk"
    assert json.loads(base64.b64decode(json.loads(message.payload)["bytes"])) == {"type": "ping"}
