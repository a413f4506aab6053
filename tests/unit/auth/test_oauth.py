"""Answers of token endpoints: whatever they hold, a token or an error that shows no secret."""

from __future__ import annotations

import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extproc.auth.oauth import Answer, clock_offset, host_of, redacted, refusal, token_from
from extproc.auth.sources import SourceError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["error", "message"]), inner),
    max_leaves=8,
)
FIELDS = st.sampled_from(["access_token", "expires_in", "error", "error_description", "error_codes"])
DOCUMENTS = st.dictionaries(FIELDS, JSON | st.sampled_from(["3600", 3600, "ya29.t"]))
BODIES = st.binary() | (JSON | DOCUMENTS).map(lambda document: json.dumps(document).encode())


@given(status=st.sampled_from([200, 204, 302, 400, 401, 500]), body=BODIES)
@example(status=200, body=b'{"access_token":"t","expires_in":' + b"9" * 400 + b"}")
@example(status=200, body=b'{"access_token":"t","expires_in":"' + "\N{ARABIC-INDIC DIGIT NINE}".encode() + b'"}')
@example(status=200, body=b'{"access_token":"t","expires_in":1e400}')
def test_any_answer_is_a_token_or_an_error(status, body):
    answer = Answer("h", status, body)
    try:
        token = token_from(answer, asked_at=0.0, sent=())
    except SourceError as error:
        told = str(error)
    else:
        assert (status, token.credential.reveal()) == (200, json.loads(body)["access_token"])
        assert token.expires_at > 0
        return
    assert told.startswith("h answered ")
    assert told.isprintable()
    assert len(told) < 400


SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=60)


@given(secret=SECRETS, spell=st.sampled_from([str, quote_plus, lambda text: quote(text, safe="")]), around=st.text())
def test_what_was_sent_is_not_repeated(secret, spell, around):
    body = json.dumps({"error": "e", "error_description": f"{around} {spell(secret)} {around}"}).encode()
    told = str(refusal(Answer("host", 400, body), [secret]))
    assert spell(secret) not in told.replace("[REDACTED]", "").removeprefix("host answered 400: e: ")


OPAQUE = {
    "a token": f"ya29.{'aB3_-' * 20}",
    "a JWT": f"{'eyJhbGciOi' * 3}.{'eyJpc3MiOi' * 4}.{'c2ln' * 20}",
    "a hash": "0123456789abcdef" * 2,
    "a line of a key": "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDA+/==",
}


@pytest.mark.parametrize("text", OPAQUE.values(), ids=OPAQUE)
def test_what_looks_like_a_credential_is_not_told(text):
    assert redacted(f"got {text}, sorry", ()) == "got [REDACTED], sorry"


def test_names_and_numbers_are_told():
    text = (
        "AADSTS700016: Application 'aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee' in invalid_scope, "
        "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES, //iam.googleapis.com/projects/1/locations/global, "
        "/var/run/secrets/azure/tokens/azure-identity-token"
    )
    assert redacted(text, ()) == text


def test_a_long_text_is_cut():
    assert redacted("word " * 100_000, ()) == ("word " * 60)
    assert redacted("z" * 100_000, ()) == "z" * 300


def test_an_answer_does_not_show_its_body():
    assert repr(Answer("h", 200, b"canary")) == "Answer(host='h', status=200)"


HOSTS = {
    "https://user:canary@login.example/canary?canary": "login.example",
    "http://127.0.0.1:8080/token": "127.0.0.1:8080",
    "http://[::1]:80/": "[::1]:80",
}


@pytest.mark.parametrize(("url", "host"), HOSTS.items())
def test_the_host_of_a_url(url, host):
    assert host_of(url) == host


DATES = {
    "none": (None, 0.0),
    "empty": ("", 0.0),
    "no date": ("yesterday", 0.0),
    "no such day": ("Wed, 99 Jan 2020 00:00:00 GMT", 0.0),
    "ahead": ("Thu, 01 Jan 1970 00:21:40 GMT", 300.0),
    "behind": ("Thu, 01 Jan 1970 00:11:40 GMT", -300.0),
}


@pytest.mark.parametrize(("date", "offset"), DATES.values(), ids=DATES)
def test_how_far_a_clock_is_ahead(date, offset):
    assert clock_offset(date, now=1000.0) == offset
