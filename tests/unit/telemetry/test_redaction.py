from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.telemetry.redaction import (
    REDACTED,
    bare_credential,
    body_placeholder,
    is_sensitive_header,
    is_sensitive_key,
    redact_headers,
    redact_tree,
    without_credentials,
)
from filter_config.redact import Secret

SENSITIVE = [
    "authorization",
    "Authorization",
    "x-api-key",
    "x-aigw-anything",
    "x-my-access-key-id",
    "x-my-secret-access-key",
    "x-my-session-token",
    # Not in the peer's list (quirk Q59).
    "api-key",
    "X-Amz-Security-Token",
    "x-goog-api-key",
    "cookie",
    "set-cookie",
    "proxy-authorization",
    "x-custom-api-key",
    "x-auth-token",
    "x-forwarded-authorization",
]
PLAIN = [
    "content-type",
    ":path",
    "x-request-id",
    "x-ai-eg-model",
    "x-api-key-name",
    "session-token-count",
    "x-ratelimit-limit-tokens",
    "anthropic-version",
]


@pytest.mark.parametrize("name", SENSITIVE)
def test_sensitive_headers(name):
    assert is_sensitive_header(name)


@pytest.mark.parametrize("name", PLAIN)
def test_plain_headers(name):
    assert not is_sensitive_header(name)


@pytest.mark.parametrize(
    "key", ["key", "accessToken", "access_token", "credentialFileLiteral", "client_secret", "cookie"]
)
def test_sensitive_keys(key):
    assert is_sensitive_key(key)


@pytest.mark.parametrize("key", ["metadata_key", "input_tokens", "token_type", "header_key", "model", "region", "keys"])
def test_plain_keys(key):
    assert not is_sensitive_key(key)


def test_headers_keep_their_order_and_repeats():
    headers = [("a", "1"), ("Cookie", "x=y"), ("a", "2"), ("cookie", "z")]
    assert redact_headers(headers) == [("a", "1"), ("Cookie", REDACTED), ("a", "2"), ("cookie", REDACTED)]


@pytest.mark.parametrize("body", ["", b""])
def test_an_empty_body_stays_empty(body):
    assert body_placeholder(body) == ""


def test_the_placeholder_has_length_in_bytes_and_hash():
    digest = hashlib.sha256("é".encode()).hexdigest()[:16]
    assert body_placeholder("é") == f"[REDACTED LENGTH=2 HASH={digest}]"
    assert body_placeholder("é".encode()) == body_placeholder("é")


@given(st.text(min_size=8))
def test_a_text_is_not_in_its_placeholder(text):
    assert text not in body_placeholder(text)


TREE = st.recursive(
    st.one_of(st.builds(Secret, st.just("hunter2")), st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "token", "b"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(TREE)
def test_no_secret_is_left_in_a_tree(tree):
    def flat(value):
        if isinstance(value, dict):
            return [part for item in value.values() for part in flat(item)]
        if isinstance(value, list):
            return [part for item in value for part in flat(item)]
        return [value]

    assert not any(isinstance(value, Secret) for value in flat(redact_tree(tree)))


def test_the_original_tree_is_left_alone():
    tree = {"token": "hunter2", "list": [{"key": "x"}]}
    assert redact_tree(tree) == {"token": REDACTED, "list": [{"key": REDACTED}]}
    assert tree == {"token": "hunter2", "list": [{"key": "x"}]}


def test_an_empty_value_shows_that_it_is_empty():
    assert redact_tree({"key": "", "token": None}) == {"key": "", "token": None}


QUOTED = {
    "a key of OpenAI": ("Incorrect API key: sk-proj-abc_DEF-123.", f"Incorrect API key: {REDACTED}."),
    "a key id of AWS": ("key AKIAABCDEFGHIJKLMNOP!", f"key {REDACTED}!"),
    "a token of Google": ('{"t":"ya29.a0Af-x_y"}', f'{{"t":"{REDACTED}"}}'),
    "a key of Google": (f"AIza{'x' * 35} is not valid", f"{REDACTED} is not valid"),
    "a JSON web token": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", REDACTED),
    "after its scheme": ('"Bearer opaque-token-1"', f'"Bearer {REDACTED}"'),
    "in a query": ("/v1/x?key=abc&alt=sse", f"/v1/x?key={REDACTED}&alt=sse"),
    "further in a query": ("/v1/x?alt=sse&key=abc", f"/v1/x?alt=sse&key={REDACTED}"),
    "what is known": ("my-odd-one was refused", f"{REDACTED} was refused"),
    "words": ("risk-based asking, Bearer token, ?keys=1", "risk-based asking, Bearer token, ?keys=1"),
}


@pytest.mark.parametrize("name", QUOTED)
def test_what_looks_like_a_credential_is_taken_out_of_a_text(name):
    text, expected = QUOTED[name]
    assert without_credentials(text, ["my-odd-one"]) == expected


BARE = {
    "Bearer abcdefgh": "abcdefgh",
    "bearer  abcdefgh ": "abcdefgh",
    "Basic YTpiY2RlZg==": "YTpiY2RlZg==",
    "plain-credential": "plain-credential",
    "AWS4-HMAC-SHA256 Credential=AKIA/x": "AWS4-HMAC-SHA256 Credential=AKIA/x",
    "Bearer short": "",
    "": "",
}


@pytest.mark.parametrize("value", BARE)
def test_the_credential_of_a_header_is_what_comes_after_its_scheme(value):
    assert bare_credential(value) == BARE[value]
