"""What is read of a rerank request, and what a client of Cohere's API is told when it cannot be served."""

import json

import pytest

from extproc.endpoints.rerank import Rerank
from extproc.errors import MalformedRequest, RequestTooLarge, UnsupportedBackend
from tests.support.playbook import BACKEND, Gateway

PATH = "/cohere/v2/rerank"
MULTIPART = "multipart/form-data; boundary=x"


def parse(body, content_type="application/json"):
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Rerank().parse(text, content_type=content_type, metering=True)


TAKEN = {
    # request → model
    "as in Cohere's documentation": (
        {"model": "rerank-v3.5", "query": "q", "documents": ["a", "b"], "top_n": 1, "max_tokens_per_doc": 4096},
        "rerank-v3.5",
    ),
    "members of others": ({"model": "m", "query": "q", "documents": [], "return_documents": True, "x": {}}, "m"),
    "documents that are objects": ({"model": "m", "query": "q", "documents": [{"text": "a"}, "b"]}, "m"),
    "documents and a query with images": (
        {
            "model": "m",
            "query": {"content": [{"type": "image_url", "image_url": {"url": "https://a/b.png"}}]},
            "documents": {"content": [{"type": "text", "text": "a"}]},
        },
        "m",
    ),
    "one document": ({"model": "m", "query": "q", "documents": "a"}, "m"),
    "numbers as text": ({"model": "m", "query": "q", "documents": ["a"], "top_n": "1"}, "m"),
    "nulls": ({"model": "m", "query": None, "documents": [None], "top_n": None}, "m"),
    "no model": ({"query": "q", "documents": ["a"]}, ""),
    "an empty model": ({"model": "", "query": "q", "documents": ["a"]}, ""),
    "a model of null": ({"model": None}, ""),
    "a stream, which there is not": ({"model": "m", "stream": True}, "m"),
}


@pytest.mark.parametrize(("body", "model"), TAKEN.values(), ids=TAKEN)
def test_what_some_backend_takes_goes_through(body, model):
    parsed = parse(body)
    assert (parsed.model, parsed.stream, parsed.rewritten) == (model, False, False)
    assert json.loads(parsed.body) == body


REFUSED = {
    # request: the end of the message
    "not JSON": (b"{", "malformed request: failed to parse JSON for /v2/rerank: "),
    "text after the document": (b'{"model":"m"} x', "malformed request: failed to parse JSON for /v2/rerank: "),
    "no object": (b"[]", "malformed request: failed to parse JSON for /v2/rerank: Expected `object`"),
    "a query that is a number": (
        {"query": 5},
        "malformed request: failed to parse JSON for /v2/rerank: Expected `str | object | null`",
    ),
    "documents that are numbers": (
        {"documents": [1]},
        "malformed request: failed to parse JSON for /v2/rerank: Expected `str | object | null`",
    ),
    "a model that is a number": ({"model": 5}, "malformed request: failed to parse JSON for /v2/rerank: Expected"),
    "a control character": ({"model": "a\nb"}, "malformed request: model holds a control character"),
}


@pytest.mark.parametrize(("body", "message"), REFUSED.values(), ids=REFUSED)
def test_what_no_backend_takes_is_refused(body, message):
    with pytest.raises(MalformedRequest) as refused:
        parse(body)
    assert str(refused.value).startswith(message)


def test_a_form_is_refused():
    with pytest.raises(MalformedRequest, match="malformed request: multipart body not supported for this endpoint"):
        parse({"model": "m"}, MULTIPART)


def test_json_may_have_any_content_type():
    assert parse({"model": "m"}, "text/plain").model == "m"


@pytest.mark.parametrize("error", [MalformedRequest('a "b"\n'), RequestTooLarge(5), UnsupportedBackend("c")])
def test_errors_have_cohere_s_shape(error):
    assert json.loads(Rerank().error_body(error)) == {"message": str(error)}


def test_a_client_reads_our_errors_as_cohere_s():
    exchange = Gateway({"version": "dev", "backends": []}).exchange()
    reply = exchange.request(b'{"model":"m","documents":[1]}', {":path": PATH})
    assert reply.status == 400
    assert reply.json.keys() == {"message"}


def test_a_backend_that_cannot_rerank_is_named():
    backend = {"name": BACKEND, "schema": {"name": "AWSBedrock"}, "modelNameOverride": ""}
    exchange = Gateway({"version": "dev", "backends": [backend]}).exchange()
    exchange.request(b'{"model":"m"}', {":path": PATH})
    reply = exchange.attempt()
    assert reply.status == 501
    assert reply.json == {"message": "backend default/openai speaks AWSBedrock; rerank requests cannot be sent to it"}
