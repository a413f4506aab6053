"""What a request for text completions may look like (contract, completions 9.1 and 17.1)."""

from __future__ import annotations

import json

import pytest

from extproc.endpoints.base import Operation
from extproc.endpoints.completions import PATH, Completions
from extproc.errors import MalformedRequest

ENDPOINT = Completions()
PREFIX = f"malformed request: failed to parse JSON for {PATH}: "


def parse(body: bytes, *, metering: bool = False):
    return ENDPOINT.parse(body, content_type="application/json", metering=metering)


TAKEN = {
    "a text": b'{"model":"m","prompt":"a"}',
    "texts": b'{"model":"m","prompt":["a", "b"]}',
    "no texts": b'{"model":"m","prompt":[ ]}',
    "tokens": b'{"model":"m","prompt":[ 1,2]}',
    "lists of tokens": b'{"model":"m","prompt":[[1],[2, 3]]}',
    "no prompt": b'{"model":"m"}',
    "no model": b'{"prompt":"a"}',
    "members of another type": b'{"model":"m","prompt":"a","n":"1","stop":{},"logit_bias":[]}',
    "a member that is new": b'{"model":"m","prompt":"a","prompt_embeds":"AAAA"}',
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_a_backend_may_take_is_not_refused(name):
    parsed = parse(TAKEN[name])
    assert (parsed.body, parsed.stream, parsed.rewritten) == (TAKEN[name], False, False)


TYPE = "invalid prompt type (must be string or array)"
ELEMENT = "invalid prompt array element"
REFUSED = {
    "null": ("null", TYPE),
    "a number": ("7", TYPE),
    "an object": ('{"content":"a"}', TYPE),
    "an array of objects": ('[{"content":"a"}]', ELEMENT),
    "an array of nulls": ("[null]", ELEMENT),
    "texts, and a number": ('["a",1]', "cannot unmarshal prompt as array of strings: "),
    "tokens, and a text": ('[1,"a"]', "cannot unmarshal prompt as array of tokens: "),
    "lists of texts": ('[["a"]]', "cannot unmarshal prompt as array of token arrays: "),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_prompt_of_no_form_is_refused(name):
    text, message = REFUSED[name]
    with pytest.raises(MalformedRequest) as refused:
        parse(b'{"model":"m","prompt":%s}' % text.encode())
    assert str(refused.value).startswith(PREFIX + message)


@pytest.mark.parametrize("body", [b"", b'{"prompt":"a"', b"[]", b"{}x", b'{"stream":"yes"}'])
def test_what_is_no_request_is_refused(body):
    with pytest.raises(MalformedRequest, match="failed to parse JSON for /v1/completions: "):
        parse(body)


def test_a_multipart_body_is_refused():
    with pytest.raises(MalformedRequest, match="multipart body not supported for this endpoint"):
        ENDPOINT.parse(b"{}", content_type="multipart/form-data", metering=False)


ASKED = {
    # options, metering: whether the backend is made to report, whether the client gets to see it
    "nobody needs it": ("", False, False, True),
    "costs need it": ("", True, True, False),
    "the client has asked": (',"stream_options":{"include_usage":true}', True, False, True),
    "the client will not have it": (',"stream_options":{"include_usage":false}', True, True, False),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_stream_is_made_to_report_usage_where_costs_need_it(name):
    options, metering, forced, visible = ASKED[name]
    parsed = parse(b'{"model":"m","prompt":"a","stream":true%s}' % options.encode(), metering=metering)
    assert (parsed.model, parsed.stream, parsed.rewritten, parsed.hide_usage) == ("m", True, forced, not visible)
    reports = json.loads(parsed.body).get("stream_options", {}).get("include_usage", False)
    assert reports is (forced or "true" in options)


def test_an_error_is_told_in_openais_shape():
    assert ENDPOINT.operation is Operation.COMPLETION
    told = json.loads(ENDPOINT.error_body(MalformedRequest("x")))
    assert told["error"] == {"type": "BadRequest", "code": "400", "message": "malformed request: x"}
