"""The name of an error as a client reads it."""

from __future__ import annotations

import pytest

from extproc.translate.observe import named_error

BODIES = {
    "OpenAI, by its code": (
        b'{"error":{"type":"requests","code":"rate_limit_exceeded","message":"m"}}',
        "rate_limit_exceeded",
    ),
    "OpenAI, by its type": (b'{"error":{"type":"invalid_request_error","code":null}}', "invalid_request_error"),
    "a code that is the status": (b'{"error":{"type":"OpenAIBackendError","code":"503"}}', "OpenAIBackendError"),
    "a code that is a number": (b'{"error":{"type":"BadRequestError","code":400}}', "BadRequestError"),
    "Anthropic": (b'{"type":"error","error":{"type":"overloaded_error","message":"m"}}', "overloaded_error"),
    "text": (b'{"error":"no"}', ""),
    "no error": (b'{"detail":"no"}', ""),
    "no object": (b"[]", ""),
    "no JSON": (b"<html>", ""),
    "empty": (b"", ""),
    "not UTF-8": (b'{"error":{"type":"\xff"}}', ""),
    "deep": (b'{"error":' + b"[" * 5000, ""),
    "a long name": (b'{"error":{"type":"%s"}}' % (b"x" * 1000), "x" * 256),
    "an endless one": (b'{"error":{"type":"x","message":"%s"}}' % (b"m" * 300_000), ""),
}


@pytest.mark.parametrize(("body", "name"), BODIES.values(), ids=BODIES)
def test_an_error_is_named_by_what_the_client_reads(body, name):
    assert named_error(body) == name
