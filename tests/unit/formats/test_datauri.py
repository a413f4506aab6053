"""Data URIs (contract, chat 3.2 and 17.3)."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.formats.datauri import DataURI, DataURIError, checked_base64, is_data_uri, read_data_uri

READ = {
    "an image": ("data:image/png;base64,AAEC", DataURI("image/png", "AAEC")),
    "base64 without saying so": ("data:text/plain,AAEC", DataURI("text/plain", "AAEC")),
    "percent-encoded": ("data:text/plain,a%20b", DataURI("text/plain", "YSBi")),
    "parameters and capitals": ("DATA:Image/PNG; charset=x ;BASE64,AAEC", DataURI("image/png", "AAEC")),
    "no type": ("data:;base64,AAEC", DataURI("", "AAEC")),
    "nothing": ("data:,", DataURI("", "")),
    "line ends": ("data:image/png;base64,AA\r\nEC\n", DataURI("image/png", "AAEC")),
    "a comma in the data": ("data:text/csv,a,b", DataURI("text/csv", "YSxi")),
}


@pytest.mark.parametrize(("uri", "expected"), READ.values(), ids=READ)
def test_data_uris(uri: str, expected: DataURI):
    assert is_data_uri(uri)
    assert read_data_uri(uri) == expected


@pytest.mark.parametrize("text", ["http://x/y.png", "not-a-data-uri", "", "data:image/png;base64", " data:,"])
def test_what_is_no_data_uri(text: str):
    assert not is_data_uri(text)
    with pytest.raises(DataURIError, match="data uri does not have a valid format"):
        read_data_uri(text)


@pytest.mark.parametrize("payload", ["a", "AAEC=", "AAEC====", "AA=====", "AA EC", "é", "AAE", "_-8="])
def test_what_says_base64_and_is_not(payload: str):
    with pytest.raises(DataURIError, match="not base64"):
        read_data_uri(f"data:image/png;base64,{payload}")
    with pytest.raises(DataURIError):
        checked_base64(payload)


@given(st.binary(max_size=60))
def test_any_octets_can_be_carried(octets: bytes):
    encoded = b64encode(octets).decode()
    assert read_data_uri(f"data:a/b;base64,{encoded}").data == encoded


@given(st.text(max_size=30))
def test_any_text_can_be_percent_encoded(text: str):
    # Text that happens to be base64 is taken for it.
    encoded = quote(f"%{text}", safe="")
    assert read_data_uri(f"data:text/plain,{encoded}").data == b64encode(f"%{text}".encode()).decode()
