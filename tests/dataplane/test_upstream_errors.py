"""Errors of an upstream: their status and what they say reach the client, in a form that its SDK can read."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from tests.dataplane.harness.broken import Absent
from tests.dataplane.harness.client import CHAT, OpenAnswer, connect, new_id, question
from tests.dataplane.harness.documents import backend, cost, filter_config, route, rule
from tests.dataplane.harness.replies import Reply, encoded

JSON = "application/json"
HTML = "<html><body><h1>502 Bad Gateway</h1>\n\"quoted\" & 'é👩‍🚀'</body></html>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An error body. ``message`` is what it becomes where the client could not read it as it is."""

    body: bytes
    content_type: str | None = JSON
    message: str | None = None


CASES = {
    "of the API": Case(body=b'{"error":{"message":"no","type":"invalid_request_error","param":null,"code":"x"}}'),
    "numeric code": Case(body=b'{"error":{"message":"m","type":"BadRequestError","param":null,"code":400}}'),
    "error as text": Case(body=b'{"error":"text"}'),
    "detail": Case(body=b'{"detail":"x"}'),
    "flat": Case(body=b'{"object":"error","message":"x","code":404}'),
    "list": Case(body=b"[]"),
    "null": Case(body=b"null"),
    "spaced JSON with charset": Case(
        body=b'{ "error" : { "message" : "no" } }\n', content_type=f"{JSON}; charset=utf-8"
    ),
    "JSON in name only": Case(body=b"not json"),
    "empty JSON": Case(body=b""),
    "text": Case(body=b"upstream says no\n", content_type="text/plain", message="upstream says no\n"),
    "HTML": Case(body=HTML.encode(), content_type="text/html", message=HTML),
    "not UTF-8": Case(body=b"caf\xe9", content_type="text/plain", message="caf�"),
    "without a type": Case(body=b"no type", content_type=None, message="no type"),
    "empty text": Case(body=b"", content_type="text/plain", message=None),
}
STATUSES = [400, 401, 404, 429, 500, 502, 503]
MODES = {"document": {}, "stream": {"stream": True}}


@pytest.fixture(scope="module")
def upstream(start_upstream):
    return start_upstream("openai")


@pytest.fixture(scope="module")
def stack(start_stack, upstream):
    where = route(rule(upstream, models=["small"]))
    entry = backend(where.backend_name(0, 0), model="real", key="sk")
    return start_stack(
        routes=[where], config=filter_config(entry, globalLLMRequestCosts=[cost("tokens")]), cost_keys=["tokens"]
    )


@pytest.fixture(scope="module")
def client(stack):
    with connect(stack) as client:
        yield client


def failure(case, status, encoding=None):
    headers = [("retry-after", "17"), ("x-of-the-upstream", "kept")]
    if case.content_type is not None:
        headers.append(("content-type", case.content_type))
    body = case.body
    if encoding is not None:
        headers.append(("content-encoding", encoding))
        body = encoded(body, encoding)
    return Reply(status=status, headers=tuple(headers), pieces=(body,))


def wrapped(status, message):
    return {"type": "error", "error": {"type": "OpenAIBackendError", "code": str(status), "message": message}}


@pytest.mark.parametrize("fields", MODES.values(), ids=MODES)
@pytest.mark.parametrize("name", CASES)
def test_every_form_of_an_error_reaches_the_client(client, stack, upstream, name, fields):
    case = CASES[name]
    for status in STATUSES:
        request_id = new_id("error")
        upstream.reply(failure(case, status))

        response = client.post(CHAT, json=question(**fields), headers={"x-request-id": request_id})

        assert response.status_code == status
        assert (response.headers["retry-after"], response.headers["x-of-the-upstream"]) == ("17", "kept")
        assert response.headers["content-length"] == str(len(response.content))
        if case.message is None:
            assert response.content == case.body
            assert response.headers["content-type"] == case.content_type
        else:
            assert response.headers["content-type"] == JSON
            assert response.json() == wrapped(status, case.message)
        assert stack.access_log.wait_for(request_id)["costs"] == {"tokens": None}


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate"])
@pytest.mark.parametrize("fields", MODES.values(), ids=MODES)
def test_a_compressed_json_error_passes_as_it_is(stack, upstream, encoding, fields):
    case = CASES["of the API"]
    upstream.reply(failure(case, 400, encoding))

    with OpenAnswer(stack, question(**fields), **{"accept-encoding": "gzip, br, zstd, deflate"}) as answer:
        assert (answer.status, answer.headers["content-encoding"]) == (400, encoding)
        assert answer.rest() == encoded(case.body, encoding)


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate"])
@pytest.mark.parametrize("fields", MODES.values(), ids=MODES)
def test_a_compressed_page_becomes_a_plain_error(stack, upstream, encoding, fields):
    upstream.reply(failure(CASES["HTML"], 502, encoding))

    with OpenAnswer(stack, question(**fields), **{"accept-encoding": "gzip, br, zstd, deflate"}) as answer:
        body = answer.rest()
        assert answer.status == 502
        assert "content-encoding" not in answer.headers
        assert answer.headers["content-length"] == str(len(body))
        assert json.loads(body) == wrapped(502, HTML)


def test_an_error_that_cannot_be_decoded_passes_as_it_is(stack, upstream):
    headers = (("content-type", "text/plain"), ("content-encoding", "gzip"))
    upstream.reply(Reply(status=500, headers=headers, pieces=(b"not gzip",)))

    with OpenAnswer(stack, question(), **{"accept-encoding": "gzip"}) as answer:
        assert answer.status == 500
        assert answer.rest() == b"not gzip"


def test_an_empty_body_that_claims_to_be_compressed_passes(stack, upstream):
    headers = (("content-type", JSON), ("content-encoding", "gzip"))
    for status in (200, 500):
        upstream.reply(Reply(status=status, headers=headers, pieces=()))

        with OpenAnswer(stack, question(), **{"accept-encoding": "gzip"}) as answer:
            assert (answer.status, answer.rest()) == (status, b"")


def test_an_answer_in_an_unknown_coding_passes_unread(stack, upstream):
    request_id = new_id("coding")
    headers = (("content-type", JSON), ("content-encoding", "x-own"))
    upstream.reply(Reply(headers=headers, pieces=(b"\x00\x01\x02",)))

    with OpenAnswer(stack, question(), **{"x-request-id": request_id}) as answer:
        assert (answer.status, answer.headers["content-encoding"]) == (200, "x-own")
        assert answer.rest() == b"\x00\x01\x02"

    assert stack.metrics().sum("extproc_unknown_encodings_total", coding="x-own") >= 1


def test_no_upstream_at_all_is_an_error_of_the_gateway(start_stack):
    with Absent() as absent:
        where = route(rule(absent, models=["small"]))
        config = filter_config(backend(where.backend_name(0, 0), key="sk"), globalLLMRequestCosts=[cost("tokens")])
        stack = start_stack(routes=[where], config=config, cost_keys=["tokens"])
        with connect(stack) as client:
            response = client.post(CHAT, json=question(), headers={"x-request-id": "gone"})

    assert response.status_code == 503
    entry = stack.access_log.wait_for("gone")
    assert (entry["costs"], entry["response_flags"]) == ({"tokens": None}, "UF")
