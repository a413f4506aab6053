"""Messages are read as the wire library reads them, however often one like them came before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.errors import StreamFailure
from extproc.exchange import message_forms, message_reader, names
from extproc.exchange.headers import header_map
from extproc.exchange.message_forms import MessageForms
from extproc.exchange.message_reader import read_message
from protos.ext_proc_pb2 import HeaderMap, HeaderValue, HttpBody, HttpHeaders, ProcessingRequest
from tests.support.plain_messages import plainly, told

# What is in each message of Envoy that forwards none.
NO_METADATA = b"\x42\0"

# Maps of few lengths: a header may stand where in another map a value does.
SHORT = st.text("ab\n\x1a", min_size=1, max_size=3)
MAP = st.lists(st.tuples(SHORT | st.just("authorization"), SHORT.map(str.encode)), min_size=1, max_size=3).map(
    header_map
)
PARTS = {
    "end_of_stream": st.booleans(),
    "observability_mode": st.sampled_from([False, False, True]),
    "attributes": st.sampled_from([{}, {}, {"a": b"1"}, {"a": b"2"}, {"a": b"1", "b": b"2"}]),
    "metadata_context": st.sampled_from([None, b"", b"m", b"one", b"two"]),
    "protocol_config": st.sampled_from([b"", b"\x08\x02"]),
}


@st.composite
def messages(draw, kinds):
    """One as a gateway might send it: with its fields in order, and each once."""
    kind = draw(st.sampled_from(kinds))
    drawn = {name: draw(values) for name, values in PARTS.items()}
    end = drawn.pop("end_of_stream")
    if kind.endswith("_headers"):
        part = HttpHeaders(headers=draw(MAP), end_of_stream=end)
    else:
        size = draw(st.integers(0, 300) | st.sampled_from([16_380, 16_383, 16_384, 2**21]))
        part = HttpBody(body=b"\x42\0\x10\x01" * (size // 4) + b"x" * (size % 4), end_of_stream=end)
    return ProcessingRequest(**{kind: part}, **drawn).SerializeToString()


HEADERS = ("request_headers", "response_headers")
BODIES = ("request_body", "response_body")


@pytest.fixture(autouse=True)
def forgetful(monkeypatch):
    """Nothing is known at the start of a test, and every message is learnt from."""
    monkeypatch.setattr(message_reader, "_forms", MessageForms())
    monkeypatch.setattr(message_forms, "_LEARNT_OF", 1)


def carried(*headers: tuple[str, bytes], **parts: object) -> bytes:
    """A message with headers."""
    part = HttpHeaders(headers=header_map(headers))
    return ProcessingRequest(request_headers=part, **{"metadata_context": b"", **parts}).SerializeToString()


def request(**changed: str) -> bytes:
    usual = {
        ":path": "/v1/chat/completions",
        "content-length": "612",
        "x-request-id": "ffa059a0-a495-4355-8501-000000000000",
        "authorization": "Bearer sk-client-secret",
        "user-agent": "OpenAI/Python 1.0",
    }
    usual |= {name.replace("_", "-"): value for name, value in changed.items()}
    return carried(*((name, value.encode()) for name, value in usual.items()))


def kept() -> list[object]:
    return [form for alike in message_reader._forms._forms.values() for form in alike]


@given(st.lists(messages(HEADERS), min_size=1, max_size=12))
def test_each_is_read_as_if_it_were_the_only_one(sent):
    message_reader._forms = MessageForms()
    for data in sent:
        assert told(read_message(data)) == plainly(data)


@given(st.lists(messages(HEADERS + BODIES), min_size=1, max_size=12), st.data())
def test_one_that_is_spoilt_is_read_as_what_it_is(sent, drawn):
    message_reader._forms = MessageForms()
    for data in sent:
        read_message(data)
    spoilt = bytearray(drawn.draw(st.sampled_from(sent)))
    for place in drawn.draw(st.lists(st.integers(0, min(len(spoilt), 200) - 1), min_size=1, max_size=3)):
        spoilt[place] = drawn.draw(st.integers(0, 255))
    expected = plainly(bytes(spoilt))
    if expected is None:
        with pytest.raises(StreamFailure, match="cannot be decoded"):
            read_message(bytes(spoilt))
    else:
        assert told(read_message(bytes(spoilt))) == expected


class TestBodies:
    @given(messages(BODIES))
    def test_a_body_is_read_as_the_library_reads_it(self, data):
        assert told(read_message(data)) == plainly(data)

    @pytest.mark.parametrize("end", [False, True])
    @pytest.mark.parametrize("size", [1, 123, 124, 125, 127, 128, 129, 16_376, 16_379, 16_383, 16_384, 1_000_000])
    def test_it_is_cut_out_of_its_message(self, size, end, monkeypatch):
        message = ProcessingRequest(response_body=HttpBody(body=b"x" * size, end_of_stream=end)).SerializeToString()
        monkeypatch.setattr(message_reader, "_decode", None)
        for data in (message, message + NO_METADATA):
            read = read_message(data)
            assert (read.envelope.kind, read.envelope.end_of_stream) == ("response_body", end)
            assert read.body == b"x" * size

    @pytest.mark.parametrize("cut", range(1, 10))
    def test_one_that_is_cut_ends_the_stream(self, cut):
        data = ProcessingRequest(request_body=HttpBody(body=b"x" * 200, end_of_stream=True)).SerializeToString()
        for cut_off in (data[:cut], data[:-cut]):
            with pytest.raises(StreamFailure, match="cannot be decoded"):
                read_message(cut_off)

    def test_a_size_with_needless_octets_is_read(self):
        assert read_message(b"\x22\x84\x00\x0a\x02xx").body == b"xx"
        assert read_message(b"\x22\x84\x80\x00\x0a\x02xx").body == b"xx"
        assert read_message(b"\x22\x84\x80\x80\x00\x0a\x02xx").body == b"xx"


class TestMessagesThatAreAlike:
    def test_only_what_differs_is_decoded(self, monkeypatch):
        for length in ("612", "613"):
            read_message(request(content_length=length))
        monkeypatch.setattr(message_reader, "_decode", None)
        read = read_message(request(content_length="999", authorization="Bearer sk-another-key!!")).headers
        assert read["content-length"] == "999"
        assert read["authorization"] == "Bearer sk-another-key!!"
        assert read["user-agent"] == "OpenAI/Python 1.0"
        assert list(read) == [":path", "content-length", "x-request-id", "authorization", "user-agent"]

    def test_each_reader_may_change_what_it_got(self):
        for _ in range(3):
            read = read_message(request()).headers
            assert read["x-request-id"] == "ffa059a0-a495-4355-8501-000000000000"
            read["x-request-id"] = "changed"
            read["another"] = "1"

    def test_a_value_that_is_no_text_is_shown_as_such(self):
        for value in (b"\xff\xfe", b"ab", b"\xc3\xa9", b"\xff\x00"):
            data = carried(("x-a", value), ("x-b", b"1"))
            assert told(read_message(data)) == plainly(data)

    def test_a_repeated_header_is_never_part_of_a_form(self):
        for value in (b"x", b"y", b"z"):
            data = carried(("anthropic-beta", b"a"), ("anthropic-beta", value))
            assert read_message(data).headers == {"anthropic-beta": f"a,{value.decode()}"}
        assert not kept()

    def test_the_older_field_is_read(self):
        for value in (b"1", b"2", b"3"):
            encoded = HeaderMap(headers=[HeaderValue(key="x-a", value=value).SerializeToString()]).SerializeToString()
            message = ProcessingRequest(request_headers=HttpHeaders(headers=encoded))
            assert read_message(message.SerializeToString()).headers == {"x-a": value.decode()}

    def test_what_is_beside_the_headers_is_part_of_the_form(self):
        for value in (b"1", b"2", b"3"):
            for protocol in (b"", b"\x08\x02", b"\x08\x01"):
                data = carried(("x-a", value), protocol_config=protocol)
                assert read_message(data).envelope.protocol == protocol
        assert len(kept()) == 3

    def test_attempts_at_many_backends_have_one_form(self, monkeypatch):
        sent = [carried(("x-a", b"%02d" % n), attributes={names.ATTRIBUTES: b"backend-%02d" % n}) for n in range(40)]
        for data in sent[:4]:
            read_message(data)
        assert len(kept()) == 1
        monkeypatch.setattr(message_reader, "_decode", None)
        for data in sent:
            assert told(read_message(data)) == plainly(data)

    def test_attributes_that_look_like_a_header_are_read_as_what_they_are(self):
        for value, attribute in ((b"11", b"11"), (b"22", b"33"), (b"33", b"22"), (b"44", b"44")):
            data = carried(("x-a", value), attributes={"a": attribute})
            assert told(read_message(data)) == plainly(data)

    def test_a_message_that_has_its_map_twice_is_never_part_of_a_form(self):
        """Which of them counts would be forgotten."""
        for first, second in ((b"1", b"1"), (b"2", b"1"), (b"1", b"1")):
            data = carried(("x-a", first)) + carried(("x-a", second))
            assert told(read_message(data)) == plainly(data)
        assert not kept()

    def test_one_in_so_many_is_learnt_from(self, monkeypatch):
        monkeypatch.setattr(message_forms, "_LEARNT_OF", 3)
        met = [carried(("x-a", b"%d" % number)) for number in range(6)]
        for data in met[:2]:
            read_message(data)
        assert not kept()
        for data in met[2:]:
            read_message(data)
        monkeypatch.setattr(message_reader, "_decode", None)
        assert read_message(carried(("x-a", b"9"))).headers == {"x-a": "9"}

    def test_no_credential_is_kept(self):
        for name in ("authorization", "cookie", "x-api-key", names.INTERNAL_REQUEST_ID):
            read_message(carried(("x-a", b"1"), (name, b"canary")))
            read_message(carried((name, b"1"), metadata_context=b"canary"))
        assert len(kept()) == 8
        assert "canary" not in repr(kept())

    def test_nothing_is_kept_that_was_overwritten(self):
        """An attribute without a value is shorter than the library makes it: sizes alone tell nothing."""
        short = b"".join(b"\x4a\x03\x0a\x01%c" % letter for letter in range(97, 123))
        for hidden in (carried(("cookie", b"canary")), ProcessingRequest(metadata_context=b"canary")):
            first = hidden if isinstance(hidden, bytes) else hidden.SerializeToString()
            for missing in range(len(short) // 5):
                read_message(first + carried(("x-c", b"1")) + short[: 5 * missing])
                read_message(carried(("x-c", b"1")).replace(NO_METADATA, first + NO_METADATA) + short[: 5 * missing])
        assert "canary" not in repr(kept())

    def test_metadata_that_differs_is_read(self, monkeypatch):
        sent = [carried(("x-a", b"1"), metadata_context=b"metadata %d" % n) for n in range(9)]
        read_message(sent[0])
        monkeypatch.setattr(message_reader, "_decode", None)
        for data in sent:
            assert told(read_message(data)) == plainly(data)

    def test_what_cannot_be_learnt_from_does_not_take_the_turn_of_another(self, monkeypatch):
        monkeypatch.setattr(message_forms, "_LEARNT_OF", 2)
        for number in range(4):
            read_message(carried(("x-a", b"%d" % number)))
            read_message(carried(("x-a", b"1"), ("x-long", b"x" * 9_000)))
        assert len(kept()) == 1

    def test_a_message_with_a_crowd_of_headers_is_not_kept(self):
        for _ in range(2):
            read_message(carried(*((f"x-{number}", b"") for number in range(message_forms._MOST_HEADERS + 1))))
        assert not kept()

    def test_forms_are_bounded_in_number_and_size(self, monkeypatch):
        monkeypatch.setattr(message_forms, "_MOST_FORMS", 100)
        forms = message_reader._forms
        for number in range(3 * message_forms._MOST_FORMS):
            for long in (9_000, 900):
                read_message(carried((f"x-{number % 50}", b"x" * (number % 100)), ("x-long", b"x" * long)))
            assert len(kept()) == forms._count <= message_forms._MOST_FORMS
            assert all(len(alike) <= message_forms._MOST_ALIKE for alike in forms._forms.values())
        assert kept()
        assert all(value is None or len(value) <= 256 for form in kept() for _, _, value, _ in form.shape.lines)
        assert max(forms._forms) <= message_forms._LONGEST
