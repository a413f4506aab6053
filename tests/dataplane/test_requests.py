"""What the upstream gets of a client's request, and what the client gets when there is no request to send."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, field

import pytest

from deploy.envoy import names
from tests.dataplane.harness import envoy_document
from tests.dataplane.harness.client import CHAT, EMBEDDINGS, connect, new_id, question
from tests.dataplane.harness.documents import backend, filter_config, route, rule
from tests.dataplane.harness.envoy_document import edited
from tests.dataplane.harness.replies import chat_completion, json_reply

CLIENT_KEYS = {
    "authorization": "Bearer sk-of-the-client",
    "x-api-key": "sk-of-the-client",
    "api-key": "sk-of-the-client",
    "x-goog-api-key": "sk-of-the-client",
}
FORGED = {
    "x-ai-eg-model": "forged-model",
    "x-ai-eg-internal-req-id": "forged-id",
    "x-ai-eg-original-path": "/forged-path",
    "x-ai-eg-upstream-host": "forged-host.test",
    "X-AI-EG-Anything": "forged-anything",
}
BODY_CAP = 1 << 20
UNKNOWN_MODEL = names.NOT_FOUND_BODY


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One way to authenticate: what the filter config says of the backend, and the only credential it may see."""

    auth: dict[str, object] = field(default_factory=dict)
    sent: dict[str, str] = field(default_factory=dict)
    expected: tuple[str, str]


OVERRIDE = {"headerName": "x-own-key"}
FROM_METADATA = {"dynamicMetadataNamespace": "tenant", "dynamicMetadataKey": "key"}
KINDS = {
    "api-key": Kind(auth={"apiKey": {"key": "sk-bearer"}}, expected=("authorization", "Bearer sk-bearer")),
    "azure-key": Kind(auth={"azureAPIKey": {"key": "sk-azure"}}, expected=("api-key", "sk-azure")),
    "anthropic-key": Kind(auth={"anthropicAPIKey": {"key": "sk-ant"}}, expected=("x-api-key", "sk-ant")),
    "own-key": Kind(
        auth={"apiKey": {"key": "sk-unused"}, "credentialOverride": OVERRIDE},
        sent={"x-own-key": "sk-brought-along"},
        expected=("authorization", "Bearer sk-brought-along"),
    ),
    "own-azure-key": Kind(
        auth={"azureAPIKey": {"key": "sk-unused"}, "credentialOverride": OVERRIDE},
        sent={"x-own-key": "sk-brought-along"},
        expected=("api-key", "sk-brought-along"),
    ),
    "own-key-or-ours": Kind(
        auth={"apiKey": {"key": "sk-ours"}, "credentialOverride": OVERRIDE | {"fallbackToConfigured": True}},
        expected=("authorization", "Bearer sk-ours"),
    ),
    "key-of-the-tenant": Kind(
        auth={"apiKey": {"key": "sk-unused"}, "credentialOverride": FROM_METADATA},
        expected=("authorization", "Bearer sk-of-the-tenant"),
    ),
}
CREDENTIAL_HEADERS = {*CLIENT_KEYS, "x-own-key"}
MODELS = [
    {"name": "small", "ownedBy": "us", "createdAt": "2024-05-01T00:00:00Z"},
    {"name": "api-key", "ownedBy": "them", "createdAt": "2024-05-02T00:00:00Z"},
    {"name": "small", "ownedBy": "us", "createdAt": "2024-05-01T00:00:00Z"},
]


@pytest.fixture(scope="module")
def upstream(start_upstream):
    return start_upstream("openai")


@pytest.fixture(scope="module")
def stack(start_stack, upstream):
    """A backend with a longer model name, one with the same, and one for each way to authenticate."""
    where = route(*(rule(upstream, models=[model]) for model in ("small", "plain", *KINDS)))
    entries = [
        backend(where.backend_name(0, 0), model="a-much-longer-name", key="sk-of-the-backend"),
        backend(where.backend_name(1, 0), key="sk-of-the-backend"),
    ]
    entries += [
        backend(where.backend_name(number, 0), model=f"real-{name}", auth=kind.auth)
        for number, (name, kind) in enumerate(KINDS.items(), start=2)
    ]
    return start_stack(
        routes=[where],
        config=filter_config(*entries, models=MODELS),
        environment={"EXTPROC_MAX_BODY_BYTES": str(BODY_CAP)},
        processor_settings={"forwarding_namespaces": ("tenant",)},
        rewrite=edited(_know_the_tenant),
    )


def _know_the_tenant(document):
    """Let a filter before the processor's write a credential into metadata, as an authenticating one would."""
    envoy_document.manager(document)["http_filters"].insert(
        0,
        {
            "name": "envoy.filters.http.set_metadata",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config",
                "metadata": [{"metadata_namespace": "tenant", "value": {"key": "sk-of-the-tenant"}}],
            },
        },
    )


@pytest.fixture(scope="module")
def client(stack):
    with connect(stack) as client:
        yield client


@pytest.fixture(autouse=True)
def _answer(upstream):
    upstream.always(json_reply(chat_completion("m")))


def test_the_model_is_renamed_and_everything_else_is_kept(client, upstream):
    body = (
        b'{ "x-unknown": [1e400, "\\u00e9\xc3\xa9"],\n "model" : "small", "messages":[], "seed":12345678901234567890}'
    )

    response = client.post(CHAT, content=body, headers={"content-type": "application/json"})

    assert response.status_code == 200
    assert upstream.last.body == body.replace(b'"small"', b'"a-much-longer-name"')
    assert upstream.last.header("host") == "openai.test"


def test_a_model_that_keeps_its_name_keeps_its_bytes(client, upstream):
    body = b'{"messages" : [ ] , "model":"plain" }'

    assert client.post(CHAT, content=body).status_code == 200
    assert upstream.last.body == body


@pytest.mark.parametrize("name", KINDS)
def test_the_upstream_gets_one_credential_and_it_is_not_the_clients(client, upstream, name):
    kind = KINDS[name]

    response = client.post(CHAT, json=question(name), headers={**CLIENT_KEYS, **kind.sent})

    assert response.status_code == 200
    received = upstream.last
    assert received.json()["model"] == f"real-{name}"
    credentials = [(key.lower(), value) for key, value in received.headers if key.lower() in CREDENTIAL_HEADERS]
    assert credentials == [kind.expected]
    assert "sk-of-the-client" not in str(received.headers)


@pytest.mark.parametrize("brought", [{}, {"x-own-key": ""}], ids=["none", "empty"])
def test_without_the_credential_it_should_have_brought_a_request_is_refused(client, upstream, stack, brought):
    request_id = new_id("no-key")

    response = client.post(
        CHAT, json=question("own-key"), headers={**CLIENT_KEYS, **brought, "x-request-id": request_id}
    )

    assert response.status_code == 401
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {
        "type": "error",
        "error": {"type": "Unauthorized", "code": "401", "message": "missing upstream credential"},
    }
    assert upstream.requests == []
    assert stack.access_log.wait_for(request_id)["status"] == 401


def test_internal_headers_of_a_client_steer_nothing_and_go_nowhere(client, upstream, stack):
    request_id = new_id("steering")

    response = client.post(CHAT, json=question(), headers={**FORGED, "x-request-id": request_id})

    assert response.status_code == 200
    assert upstream.last.json()["model"] == "a-much-longer-name"
    assert "forged" not in str(upstream.last.headers)
    assert stack.access_log.wait_for(request_id)["requested_model"] == "small"


def test_two_requests_with_one_id_do_not_meet(client, upstream):
    twice = {"x-request-id": "the-same"}

    for _ in range(2):
        assert client.post(CHAT, json=question(), headers=twice).status_code == 200
    assert [received.json()["model"] for received in upstream.requests] == ["a-much-longer-name"] * 2


TEXTS = {"ascii": "Hello?", "emoji": "👩‍🚀 naïve 🇺🇳", "nothing": ""}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("model", ["small", "plain"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_content_length_counts_the_bytes_that_are_sent(client, upstream, text, model, framing):
    body = json.dumps(question(model, user=text), ensure_ascii=False).encode()

    content = body if framing == "length" else iter([body[:20], body[20:]])
    response = client.post(CHAT, content=content, headers={"content-type": "application/json"})

    assert response.status_code == 200
    assert upstream.refused == []
    assert upstream.last.header("content-length") == str(len(upstream.last.body))
    assert upstream.last.json()["user"] == text


@pytest.mark.parametrize("query", ["a=1", "api-version=2024-10-21&x=a%20b%2Fc&x=2&empty="])
def test_the_query_is_kept(client, upstream, query):
    assert client.post(f"{CHAT}?{query}", json=question()).status_code == 200
    assert upstream.last.target == f"{CHAT}?{query}"


def test_embeddings_and_completions_take_the_same_way(client, upstream):
    assert client.post(EMBEDDINGS, json={"model": "small", "input": ["a", "b"]}).status_code == 200
    assert client.post("/v1/completions", json={"model": "small", "prompt": "a"}).status_code == 200
    assert [(each.target, each.json()["model"]) for each in upstream.requests] == [
        (EMBEDDINGS, "a-much-longer-name"),
        ("/v1/completions", "a-much-longer-name"),
    ]


@pytest.mark.parametrize("path", ["/", "/v1/nothing", "/v1/chat/completions/", "/v1/nothing?model=small"])
def test_an_unknown_path_is_a_404(client, upstream, path):
    response = client.post(path, json=question())

    assert (response.status_code, response.text) == (404, f"unsupported path: {path}")
    assert upstream.requests == []


MALFORMED = {
    "cut": b'{"model":"small","messages":[{"role":"user","content":"a',
    "quotes in the fault": b'{"model":"small" "messages":[]}',
    "not JSON": b"hello\x00\xff",
    "a list": b'[{"model":"small"}]',
    "model of another type": b'{"model":7}',
    "line break in the model": b'{"model":"a\\nb"}',
    "stream of another type": b'{"model":"small","stream":"yes"}',
    "two documents": b'{"model":"small"}{"model":"small"}',
    "nested beyond reason": b'{"model":"small","x":' + b"[" * 100_000,
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_body_is_a_400_in_json(client, upstream, body):
    response = client.post(CHAT, content=body, headers={"content-type": "application/json"})

    assert response.status_code == 400
    assert response.headers["content-type"] == "application/json"
    assert response.headers["content-length"] == str(len(response.content))
    document = response.json()
    assert (document["type"], document["error"]["type"], document["error"]["code"]) == ("error", "BadRequest", "400")
    assert document["error"]["message"].startswith("malformed request: ")
    assert upstream.requests == []


def test_a_request_without_a_body_is_a_400(client, upstream):
    response = client.post(CHAT)

    assert response.status_code == 400
    assert response.json()["error"]["type"] == "BadRequest"
    assert client.get(CHAT).status_code == 400
    assert upstream.requests == []


def test_an_unknown_model_gets_the_answer_of_the_gateway(client, upstream):
    response = client.post(CHAT, json=question("nobody-has-it"))

    assert (response.status_code, response.text) == (404, UNKNOWN_MODEL)
    assert client.post(CHAT, json={"messages": []}).status_code == 404
    assert upstream.requests == []


def test_the_models_are_listed_without_an_upstream(client, upstream):
    response = client.get("/v1/models")

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {
        "object": "list",
        "data": [
            {"id": "small", "created": 1_714_521_600, "object": "model", "owned_by": "us"},
            {"id": "api-key", "created": 1_714_608_000, "object": "model", "owned_by": "them"},
        ],
    }
    assert upstream.requests == []


def body_of(size, model="small"):
    frame = json.dumps(question(model, user="")).encode()
    return frame.replace(b'"user": ""', b'"user": "' + b"x" * (size - len(frame)) + b'"')


def test_a_body_of_the_largest_size_is_taken(client, upstream):
    assert client.post(CHAT, content=body_of(BODY_CAP)).status_code == 200
    assert len(upstream.last.body) == BODY_CAP + len("a-much-longer-name") - len("small")


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_larger_body_is_a_413(client, upstream, framing):
    body = body_of(BODY_CAP + 1)

    response = client.post(CHAT, content=body if framing == "length" else iter([body]))

    assert response.status_code == 413
    assert response.json()["error"] == {
        "type": "RequestTooLarge",
        "code": "413",
        "message": f"request body is larger than the limit of {BODY_CAP} bytes",
    }
    assert upstream.requests == []


def test_a_client_that_announces_a_larger_body_is_refused_before_it_sends_one(stack):
    head = f"POST {CHAT} HTTP/1.1\r\nhost: a\r\ncontent-length: {BODY_CAP + 1}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", stack.port), timeout=10) as connection:
        connection.sendall(head.encode())
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 413 ")
