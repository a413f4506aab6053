"""Header maps are read as the wire library reads them, however often one like them came before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.errors import StreamFailure
from extproc.exchange import header_forms, headers, names
from extproc.exchange.attributes import read_target
from extproc.exchange.header_forms import HeaderForms
from extproc.exchange.headers import header_map, listed_headers, read_headers
from protos.ext_proc_pb2 import HeaderMap, HeaderValue

NAME = st.sampled_from([":path", "x-a", "x-b", "cookie"]) | st.text(max_size=8)
VALUE = st.binary(max_size=8) | st.sampled_from([b"", b"/v1", b"\xff", "é".encode(), b"x" * 200, b"x" * 20_000])
HEADERS = st.lists(st.builds(HeaderValue, key=NAME, value=VALUE, raw_value=VALUE), max_size=6)
NO_MESSAGE = b"\x0a\x05x"

# Maps of few lengths: a header may stand where in another map a value does.
SHORT = st.text("ab\n\x1a", min_size=1, max_size=3)
ALIKE = st.lists(
    st.lists(st.tuples(SHORT | st.just("authorization"), SHORT.map(str.encode)), min_size=1, max_size=3).map(
        header_map
    ),
    min_size=1,
    max_size=12,
)


@pytest.fixture(autouse=True)
def forgetful(monkeypatch):
    """Nothing is known at the start of a test, and every map is learnt from."""
    monkeypatch.setattr(headers, "_known", headers._Known())
    monkeypatch.setattr(headers, "_forms", HeaderForms())
    monkeypatch.setattr(header_forms, "_LEARNT_OF", 1)


def message(*encoded: bytes) -> bytes:
    return HeaderMap(headers=encoded).SerializeToString()


def plainly(encoded: bytes) -> dict[str, str]:
    return {each.key: (each.raw_value or each.value).decode("utf-8", "replace") for each in listed_headers(encoded)}


def request(**changed: str) -> bytes:
    usual = {
        ":path": "/v1/chat/completions",
        "content-length": "612",
        "x-request-id": "ffa059a0-a495-4355-8501-000000000000",
        "authorization": "Bearer sk-client-secret",
        "user-agent": "OpenAI/Python 1.0",
    }
    usual |= {name.replace("_", "-"): value for name, value in changed.items()}
    return header_map((name, value.encode()) for name, value in usual.items())


@given(HEADERS)
def test_every_header_is_read_and_the_last_of_a_name_counts(listed):
    expected = {each.key: (each.raw_value or each.value).decode("utf-8", "replace") for each in listed}
    made = message(*(each.SerializeToString() for each in listed))
    assert read_headers(made) == expected
    assert read_headers(made) == expected


@pytest.mark.parametrize(
    "encoded",
    [NO_MESSAGE, message(NO_MESSAGE), message(b"\x0a\x01\xff"), message(b"\xff")],
    ids=["map is cut", "cut", "name is no text", "no field"],
)
def test_what_is_no_header_ends_the_stream(encoded):
    with pytest.raises(StreamFailure, match="cannot be decoded") as caught:
        read_headers(encoded)
    assert caught.value.code == StreamFailure.INTERNAL


def test_attributes_that_are_none_end_the_stream():
    with pytest.raises(StreamFailure, match="cannot be decoded"):
        read_target({names.ATTRIBUTES: NO_MESSAGE}, {})


def test_what_is_remembered_is_bounded_in_number_and_size(monkeypatch):
    monkeypatch.setattr(headers, "_forms", HeaderForms())
    monkeypatch.setattr(header_forms, "_LEARNT_OF", 2**32)
    known = headers._known
    for number in range(headers._KNOWN_HEADERS + 10):
        assert read_headers(header_map([("x-request-id", b"%d" % number)])) == {"x-request-id": str(number)}
    assert 0 < len(known) <= headers._KNOWN_HEADERS
    known.clear()
    long = b"x" * headers._KNOWN_BYTES
    assert read_headers(header_map([("cookie", long)]))["cookie"] == long.decode()
    assert not known


def test_what_comes_once_is_not_remembered():
    assert read_headers(header_map([(names.INTERNAL_REQUEST_ID, b"1")])) == {names.INTERNAL_REQUEST_ID: "1"}
    assert not headers._known
    assert read_headers(header_map([(names.INTERNAL_REQUEST_ID, b"2")])) == {names.INTERNAL_REQUEST_ID: "2"}


def test_what_was_read_before_is_not_decoded_again(monkeypatch):
    made = header_map([("x-a", b"1"), ("x-a", b"2")])
    first = read_headers(made)
    monkeypatch.setattr(headers, "HeaderValue", None)
    assert read_headers(made) == first == {"x-a": "2"}


class TestMapsThatAreAlike:
    @given(ALIKE)
    def test_each_is_read_as_if_it_were_the_only_one(self, maps):
        headers._forms = HeaderForms()
        for encoded in maps:
            read = read_headers(encoded)
            assert read == plainly(encoded)
            assert list(read) == list(plainly(encoded))

    @given(ALIKE, st.data())
    def test_one_that_is_spoilt_is_read_as_what_it_is(self, maps, data):
        headers._forms = HeaderForms()
        for encoded in maps:
            read_headers(encoded)
        spoilt = bytearray(data.draw(st.sampled_from(maps)))
        for place in data.draw(st.lists(st.integers(0, len(spoilt) - 1), min_size=1, max_size=3)):
            spoilt[place] = data.draw(st.integers(0, 255))
        try:
            expected = plainly(bytes(spoilt))
        except StreamFailure:
            with pytest.raises(StreamFailure, match="cannot be decoded"):
                read_headers(bytes(spoilt))
        else:
            assert read_headers(bytes(spoilt)) == expected

    def test_only_what_differs_is_decoded(self, monkeypatch):
        for path, length in (("/v1/chat/completions", "612"), ("/v1/chat/completions", "613")):
            read_headers(request(**{":path": path}, content_length=length))
        monkeypatch.setattr(headers, "decode", None)
        changed = {"content_length": "999", "authorization": "Bearer sk-another-key!!"}
        read = read_headers(request(**changed))
        assert read["content-length"] == "999"
        assert read["authorization"] == "Bearer sk-another-key!!"
        assert read["user-agent"] == "OpenAI/Python 1.0"
        assert list(read) == [":path", "content-length", "x-request-id", "authorization", "user-agent"]

    def test_each_reader_may_change_what_it_got(self):
        for _ in range(3):
            read = read_headers(request())
            assert read["x-request-id"] == "ffa059a0-a495-4355-8501-000000000000"
            read["x-request-id"] = "changed"
            read["another"] = "1"

    def test_a_value_that_is_no_text_is_shown_as_such(self):
        for value in (b"\xff\xfe", b"ab", b"\xc3\xa9", b"\xff\x00"):
            encoded = header_map([("x-a", value), ("x-b", b"1")])
            assert read_headers(encoded) == plainly(encoded)

    def test_a_repeated_header_is_never_part_of_a_form(self):
        for value in (b"x", b"y", b"z"):
            encoded = header_map([("anthropic-beta", b"a"), ("anthropic-beta", value)])
            assert read_headers(encoded) == {"anthropic-beta": f"a,{value.decode()}"}

    def test_the_older_field_is_read(self):
        for value in (b"1", b"2", b"3"):
            encoded = message(HeaderValue(key="x-a", value=value).SerializeToString())
            assert read_headers(encoded) == {"x-a": value.decode()}

    def test_one_in_so_many_is_learnt_from(self, monkeypatch):
        monkeypatch.setattr(header_forms, "_LEARNT_OF", 3)
        met = [header_map([("x-a", b"%d" % number)]) for number in range(6)]
        for encoded in met[:2]:
            read_headers(encoded)
        assert not headers._forms._forms
        for encoded in met[2:]:
            read_headers(encoded)
        assert headers._forms.read(header_map([("x-a", b"9")])) == {"x-a": "9"}

    def test_no_credential_is_kept(self):
        for name in ("authorization", "cookie", "x-api-key", names.INTERNAL_REQUEST_ID):
            read_headers(header_map([("x-a", b"1"), (name, b"canary")]))
        kept = [form for alike in headers._forms._forms.values() for form in alike]
        assert len(kept) == 4
        assert "canary" not in repr(kept)

    def test_forms_are_bounded_in_number_and_size(self, monkeypatch):
        monkeypatch.setattr(header_forms, "_MOST_FORMS", 100)
        forms = headers._forms
        for number in range(3 * header_forms._MOST_FORMS):
            read_headers(header_map([(f"x-{number % 50}", b"x" * (number % 100)), ("x-long", b"x" * 9_000)]))
            read_headers(header_map([(f"x-{number % 50}", b"x" * (number % 100)), ("x-long", b"x" * 900)]))
            kept = [form for alike in forms._forms.values() for form in alike]
            assert len(kept) == forms._count <= header_forms._MOST_FORMS
            assert all(len(alike) <= header_forms._MOST_ALIKE for alike in forms._forms.values())
        assert kept
        assert all(value is None or len(value) <= 256 for form in kept for _, _, value in form.lines)
        assert max(forms._forms) <= header_forms._LONGEST_MAP
