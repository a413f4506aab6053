"""The upstream-level half: one attempt's request (contract 3.10 to 3.14, 6.1, 6.4)."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from extproc.errors import StreamFailure
from extproc.exchange import names
from extproc.telemetry.exposition import render
from protos.ext_proc_pb2 import Metadata
from tests.support.playbook import (
    BACKEND,
    ROUTE,
    SECOND_BACKEND,
    Gateway,
    Reply,
    cost,
    fed,
    openai_backend,
    request_headers,
)

API_KEY = {"apiKey": {"key": " sk-1 \n"}}
NAMES = {
    "backend_name": BACKEND,
    "ai_service_backend_name": "default/openai",
    "model_name_override": "m",
    "route_name": ROUTE,
}


def gateway(*backends: dict[str, Any], **extra: Any) -> Gateway:
    return Gateway({"version": "dev", "backends": list(backends or [openai_backend()])}, **extra)


def attempt(backend: dict[str, Any], body: bytes = b'{"model":"m"}', headers: dict[str, str] | None = None) -> Reply:
    exchange = gateway(backend).exchange()
    exchange.request(body, headers)
    return exchange.attempt()


def test_nothing_to_change_leaves_the_body_alone():
    reply = attempt(openai_backend(), headers={"content-length": "13"})
    assert not reply.replaces
    assert reply.body is None
    assert reply.set_list == [(":path", "/v1/chat/completions")]
    assert reply.remove == ["x-ai-eg-upstream-host"]
    assert reply.metadata == NAMES


def test_an_override_replaces_the_model_and_nothing_else():
    reply = attempt(
        openai_backend(modelNameOverride="m-2"), b'{"temperature": 1, "model":"m", "x":1, "y":{"model":"inner"}}'
    )
    expected = b'{"temperature": 1, "model":"m-2", "x":1, "y":{"model":"inner"}}'
    assert reply.replaces
    assert reply.body == expected
    assert reply.set_list == [(":path", "/v1/chat/completions"), ("content-length", str(len(expected)))]
    assert reply.metadata == NAMES | {"content_length": len(expected), "model_name_override": "m-2"}


def test_a_chunked_body_gets_a_length():
    body = b'{"model":"m"}'
    reply = attempt(openai_backend(), body)
    assert not reply.replaces
    assert reply.metadata == NAMES | {"content_length": len(body)}


OVERRIDES = {
    "missing": (b'{"x":1}', "b", b'{"x":1,"model":"b"}'),
    "duplicate": (b'{"model":"a","model":"c"}', "b", b'{"model":"b","model":"b"}'),
    "escaped spelling": (b'{"mod\\u0065l":"a"}', "b", b'{"mod\\u0065l":"b"}'),
    "slashes": (b'{"model":"a"}', "/models/x/y", b'{"model":"/models/x/y"}'),
    "quotes": (b'{"model":"a"}', 'a"b', b'{"model":"a\\"b"}'),
    "emoji count as bytes": ('{"model":"a","u":"\U0001f600"}'.encode(), "b", '{"model":"b","u":"\U0001f600"}'.encode()),
}


@pytest.mark.parametrize(("sent", "override", "expected"), OVERRIDES.values(), ids=OVERRIDES)
def test_overrides(sent, override, expected):
    reply = attempt(openai_backend(modelNameOverride=override), sent)
    assert reply.body == expected
    assert reply.metadata["content_length"] == len(expected)
    assert reply.set["content-length"] == str(len(expected))


PATHS = {
    "v1": ("v1", "/v1/chat/completions", "/v1/chat/completions"),
    "longer prefix": ("v1beta/openai", "/v1/chat/completions", "/v1beta/openai/chat/completions"),
    "empty prefix": ("", "/v1/chat/completions", "/chat/completions"),
    "slashes": ("/a//b/", "/v1/chat/completions", "/a/b/chat/completions"),
    "the query goes along": ("v1", "/v1/chat/completions?api-version=1&b", "/v1/chat/completions?api-version=1&b"),
    "completions": ("v1", "/v1/completions", "/v1/completions"),
    "embeddings": ("foo/v1", "/v1/embeddings", "/foo/v1/embeddings"),
}


@pytest.mark.parametrize(("prefix", "path", "expected"), PATHS.values(), ids=PATHS)
def test_paths(prefix, path, expected):
    backend = {**openai_backend(), "schema": {"name": "OpenAI", "prefix": prefix}}
    assert attempt(backend, headers={":path": path}).set[":path"] == expected


@dataclass
class Auth:
    auth: dict[str, Any]
    expected: list[tuple[str, str]]
    headers: dict[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


AUTHS = {
    "api key, trimmed": Auth(API_KEY, [("Authorization", "Bearer sk-1")]),
    "azure api key": Auth({"azureAPIKey": {"key": " k\n"}}, [("api-key", "k")]),
    "azure token": Auth({"azure": {"accessToken": " t \n"}}, [("Authorization", "Bearer t")]),
    "anthropic": Auth({"anthropicAPIKey": {"key": "k"}}, [("x-api-key", "k")]),
    "the first method wins": Auth(
        {"apiKey": {"key": "a"}, "anthropicAPIKey": {"key": "b"}}, [("Authorization", "Bearer a")]
    ),
    "a client's credentials do not travel": Auth(
        {"anthropicAPIKey": {"key": "k"}},
        [("x-api-key", "k")],
        {"authorization": "Bearer client", "api-key": "c", "x-goog-api-key": "g"},
        ("api-key", "authorization", "x-goog-api-key"),
    ),
    "override header": Auth(
        {"apiKey": {"key": "static"}, "credentialOverride": {"headerName": "x-aigw-api-key"}},
        [("Authorization", "Bearer per-request")],
        {"x-aigw-api-key": "  per-request "},
        ("x-aigw-api-key",),
    ),
    "override header in capitals": Auth(
        {"anthropicAPIKey": {"key": "static"}, "credentialOverride": {"headerName": "X-Aigw-Key"}},
        [("x-api-key", "per-request")],
        {"x-aigw-key": "per-request"},
        ("x-aigw-key",),
    ),
    "override absent, fallback": Auth(
        {"apiKey": {"key": "static"}, "credentialOverride": {"headerName": "x-k", "fallbackToConfigured": True}},
        [("Authorization", "Bearer static")],
    ),
    "override blank, fallback": Auth(
        {"azureAPIKey": {"key": "static"}, "credentialOverride": {"headerName": "x-k", "fallbackToConfigured": True}},
        [("api-key", "static")],
        {"x-k": "   "},
        ("x-k",),
    ),
    "override needs no static credential": Auth(
        {"azureAPIKey": {"key": ""}, "credentialOverride": {"headerName": "x-k"}},
        [("api-key", "mine")],
        {"x-k": "mine"},
        ("x-k",),
    ),
}


@pytest.mark.parametrize("case", AUTHS.values(), ids=AUTHS)
def test_auth(case):
    reply = attempt(openai_backend(auth=case.auth), headers=case.headers)
    assert reply.set_list[1:] == case.expected
    assert tuple(reply.remove) == (*case.removed, "x-ai-eg-upstream-host")


def test_without_auth_the_clients_credential_travels():
    reply = attempt(openai_backend(), headers={"authorization": "Bearer client"})
    assert "authorization" not in reply.remove


def test_a_credential_from_dynamic_metadata():
    override = {"dynamicMetadataNamespace": "ns", "dynamicMetadataKey": "k"}
    exchange = gateway(openai_backend(auth={**API_KEY, "credentialOverride": override})).exchange()
    exchange.request(b'{"model":"m"}')
    message = request_headers(exchange.carried, attributes={names.BACKEND_OF_HOST: BACKEND})
    metadata = Metadata()
    metadata.filter_metadata["ns"].update({"k": " from-metadata "})
    message.metadata_context = metadata.SerializeToString()
    reply = exchange.send(exchange.gateway.stream(), message)
    assert reply.set["Authorization"] == "Bearer from-metadata"


def test_metadata_that_is_none_ends_the_stream():
    exchange = gateway(openai_backend(auth=API_KEY)).exchange()
    exchange.request(b'{"model":"m"}')
    message = request_headers(exchange.carried, attributes={names.BACKEND_OF_HOST: BACKEND})
    message.metadata_context = b"\x0a\x05x"
    with pytest.raises(StreamFailure, match="cannot be decoded") as failure:
        exchange.gateway.stream().feed(message.SerializeToString())
    assert failure.value.code == StreamFailure.INTERNAL


def test_a_missing_credential_is_a_401_that_passes_back_untouched():
    auth = {**API_KEY, "credentialOverride": {"headerName": "x-k"}}
    exchange = gateway(openai_backend(auth=auth)).exchange()
    exchange.request(b'{"model":"m"}')
    reply = exchange.attempt()
    assert reply.status == 401
    assert reply.json == {
        "type": "error",
        "error": {"type": "Unauthorized", "code": "401", "message": "missing upstream credential"},
    }
    assert exchange.response({"content-type": "application/json"}, status="401").is_neutral
    assert exchange.piece(reply.body, eos=True).is_neutral


FAULTY = {
    "no method": ({"auth": {}}, "no backend auth handler found"),
    "empty azure key": ({"auth": {"azureAPIKey": {"key": ""}}}, "azure API key"),
    "a key that no header can carry": ({"auth": {"apiKey": {"key": "a\nb"}}}, "line break"),
    "invalid body value": ({"httpBodyMutation": {"set": [{"path": "x", "value": "{bad}"}]}}, ""),
}


@pytest.mark.parametrize(("extra", "fault"), FAULTY.values(), ids=FAULTY)
def test_a_faulty_backend_is_disabled_alone(extra, fault):
    exchange = gateway(openai_backend(**extra), openai_backend(SECOND_BACKEND)).exchange()
    assert fault in exchange.gateway.processor.runtime.faults[BACKEND]
    exchange.request(b'{"model":"m"}')
    refused = exchange.attempt()
    assert refused.status == 503
    assert "default/openai is disabled" in refused.json["error"]["message"]
    assert exchange.attempt(SECOND_BACKEND).kind == "request_headers"


def test_a_backend_that_speaks_another_api_is_a_501():
    backend = {**openai_backend(), "schema": {"name": "Cohere"}}
    reply = attempt(backend)
    assert reply.status == 501
    message = reply.json["error"]["message"]
    assert "Cohere" in message
    assert "default/openai" in message
    assert "chat" in message


def test_an_unknown_backend_is_a_503():
    exchange = gateway().exchange()
    exchange.request(b'{"model":"m"}')
    assert exchange.attempt("default/gone/route/x/rule/0/ref/0").status == 503


def test_a_backend_that_came_with_a_reload_is_known_to_requests_in_flight():
    exchange = gateway().exchange()
    exchange.request(b'{"model":"m"}')
    exchange.gateway.load({"version": "dev", "backends": [openai_backend(SECOND_BACKEND)]})
    assert exchange.attempt(BACKEND).kind == "request_headers"
    assert exchange.attempt(SECOND_BACKEND).kind == "request_headers"


def test_header_mutation():
    mutation = {
        "remove": ["X-Gone", "x-absent", "x-ai-eg-model", ":path"],
        "set": [
            {"name": "X-New", "value": "1"},
            {"name": "x-ai-eg-model", "value": "no"},
            {"name": "x-gone", "value": "2"},
        ],
    }
    reply = attempt(openai_backend(httpHeaderMutation=mutation), headers={"x-gone": "old"})
    assert reply.set_list == [(":path", "/v1/chat/completions"), ("x-new", "1"), ("x-gone", "2")]
    assert reply.remove == ["x-gone", "x-ai-eg-upstream-host"]


def test_body_mutation_works_on_the_translated_body():
    mutation = {
        "set": [{"path": "service_tier", "value": "default"}, {"path": "max_tokens", "value": "5"}],
        "remove": ["internal_flag"],
    }
    reply = attempt(
        openai_backend(httpBodyMutation=mutation, modelNameOverride="b"), b'{"model":"a","internal_flag":1,"x":1.0}'
    )
    assert reply.body == b'{"model":"b","x":1.0,"service_tier":"default","max_tokens":5}'
    assert reply.metadata["content_length"] == len(reply.body)


def test_an_empty_body_mutation_still_sends_the_body():
    reply = attempt(openai_backend(httpBodyMutation={}))
    assert reply.replaces
    assert reply.body == b'{"model":"m"}'


def test_mapped_headers_become_log_metadata():
    exchange = gateway(log_attributes={"agent-session-id": "session.id", "x-absent": "a"}).exchange()
    exchange.request(b'{"model":"m"}', {"agent-session-id": "s-1", "content-length": "13"})
    assert exchange.attempt().metadata == NAMES | {"session.id": "s-1"}


ENCODINGS = {
    "all known": ("gzip, br", None),
    "unknown is dropped": ("gzip, foo;q=0.5", "gzip"),
    "nothing known": ("foo", "identity"),
    "absent": ("", None),
}


@pytest.mark.parametrize(("accepted", "expected"), ENCODINGS.values(), ids=ENCODINGS)
def test_the_backend_is_asked_for_codings_that_can_be_decoded(accepted, expected):
    reply = attempt(openai_backend(), headers={"accept-encoding": accepted} if accepted else {})
    assert reply.set.get("accept-encoding") == expected


# --- binding ---


def test_the_cluster_names_the_backend_where_the_host_does_not():
    exchange = gateway().exchange()
    exchange.request(b'{"model":"m"}')
    for picker in ({}, {"x-gateway-destination-endpoint": "1.2.3.4:80"}):
        message = request_headers({**exchange.carried, **picker}, attributes={names.BACKEND_OF_CLUSTER: BACKEND})
        assert exchange.send(exchange.gateway.stream(), message).metadata["backend_name"] == BACKEND


def test_a_picked_endpoint_prefers_the_clusters_backend_and_falls_back():
    exchange = gateway(openai_backend(), openai_backend(SECOND_BACKEND)).exchange()
    exchange.request(b'{"model":"m"}')
    carried = {**exchange.carried, "x-gateway-destination-endpoint": "1.2.3.4:80"}
    both = {names.BACKEND_OF_HOST: BACKEND, names.BACKEND_OF_CLUSTER: SECOND_BACKEND}
    reply = exchange.send(exchange.gateway.stream(), request_headers(carried, attributes=both))
    assert reply.metadata["backend_name"] == SECOND_BACKEND
    reply = exchange.send(
        exchange.gateway.stream(), request_headers(carried, attributes={names.BACKEND_OF_HOST: BACKEND})
    )
    assert reply.metadata["backend_name"] == BACKEND


@pytest.mark.parametrize("attributes", [{}, {names.ROUTE_NAME: ROUTE}], ids=["none", "no backend"])
def test_an_attempt_that_names_no_backend_is_a_500_with_an_id(attributes):
    exchange = gateway().exchange()
    exchange.request(b'{"model":"m"}')
    reply = exchange.send(exchange.gateway.stream(), request_headers(exchange.carried, attributes=attributes))
    assert reply.status == 500
    assert reply.json["error"]["message"] == "internal error, id id-2"


def test_an_attempt_without_its_request_is_a_500():
    message = request_headers(
        {":path": "/v1/chat/completions", "x-ai-eg-internal-req-id": "x"}, attributes={names.BACKEND_OF_HOST: BACKEND}
    )
    reply = fed(gateway().stream(), message)
    assert reply.status == 500


def test_a_host_that_a_client_names_never_goes_upstream():
    exchange = gateway().exchange()
    exchange.request(b'{"model":"m"}')
    reply = exchange.attempt(headers={"x-ai-eg-upstream-host": "evil.example"}, host="good.example")
    assert "x-ai-eg-upstream-host" in reply.remove
    assert "x-ai-eg-upstream-host" not in reply.set


# --- retries ---


def test_a_retry_starts_from_the_original_request():
    first = openai_backend(
        modelNameOverride="m-1",
        auth={"anthropicAPIKey": {"key": "k-1"}},
        httpHeaderMutation={
            "set": [{"name": "x-first", "value": "1"}, {"name": "x-both", "value": "1"}],
            "remove": ["x-client"],
        },
        httpBodyMutation={"set": [{"path": "tier", "value": "one"}]},
    )
    second = {
        **openai_backend(SECOND_BACKEND, modelNameOverride="m-2", auth=API_KEY),
        "schema": {"name": "OpenAI", "prefix": "other"},
    }
    exchange = gateway(first, second).exchange()
    exchange.request(b'{"model":"m","x": 1}', {"x-client": "c", "x-both": "client", "traceparent": "t"})
    assert exchange.attempt(BACKEND).body == b'{"model":"m-1","x": 1,"tier":"one"}'
    assert exchange.carried["x-api-key"] == "k-1"
    reply = exchange.attempt(SECOND_BACKEND)
    assert reply.body == b'{"model":"m-2","x": 1}'
    assert reply.set == {
        ":path": "/other/chat/completions",
        "content-length": str(len(reply.body)),
        "Authorization": "Bearer sk-1",
        "x-both": "client",
        "x-client": "c",
    }
    assert sorted(reply.remove) == ["x-ai-eg-upstream-host", "x-api-key", "x-first"]


def test_a_retry_sends_the_body_again_though_nothing_changes_it():
    exchange = gateway(openai_backend(), openai_backend(SECOND_BACKEND)).exchange()
    exchange.request(b'{"model":"m"}')
    assert exchange.attempt(BACKEND).body is None
    reply = exchange.attempt(SECOND_BACKEND)
    assert reply.replaces
    assert reply.body == b'{"model":"m"}'


def test_a_credential_of_the_request_serves_every_attempt():
    auth = {**API_KEY, "credentialOverride": {"headerName": "x-k"}}
    exchange = gateway(openai_backend(auth=auth), openai_backend(SECOND_BACKEND, auth=auth)).exchange()
    exchange.request(b'{"model":"m"}', {"x-k": "mine"})
    assert exchange.attempt(BACKEND).set["Authorization"] == "Bearer mine"
    assert "x-k" not in exchange.carried
    reply = exchange.attempt(SECOND_BACKEND)
    assert reply.set["Authorization"] == "Bearer mine"
    assert "x-k" in reply.remove
    assert "x-k" not in reply.set


def test_headers_of_other_filters_survive_a_retry():
    exchange = gateway(openai_backend(auth=API_KEY), openai_backend(SECOND_BACKEND, auth=API_KEY)).exchange()
    exchange.request(b'{"model":"m"}')
    exchange.attempt(BACKEND, headers={"traceparent": "gateway-span", "x-other-filter": "1"})
    reply = exchange.attempt(SECOND_BACKEND)
    assert "traceparent" not in reply.set
    assert reply.remove == ["x-ai-eg-upstream-host"]


def test_after_a_local_reply_the_next_attempts_answer_counts():
    refusing = openai_backend(auth={**API_KEY, "credentialOverride": {"headerName": "x-k"}})
    config = {
        "version": "dev",
        "backends": [refusing, openai_backend(SECOND_BACKEND)],
        "llmRequestCosts": [cost("total")],
    }
    exchange = Gateway(config).exchange()
    exchange.request(b'{"model":"m"}')
    assert exchange.attempt(BACKEND).status == 401
    exchange.attempt(SECOND_BACKEND)
    exchange.response()
    reply = exchange.piece(b'{"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}', eos=True)
    assert reply.metadata["total"] == 3


def test_a_credential_for_one_backend_does_not_reach_another():
    brings = openai_backend(auth={**API_KEY, "credentialOverride": {"headerName": "X-My-Key"}})
    exchange = gateway(brings, openai_backend(SECOND_BACKEND)).exchange()
    exchange.request(b'{"model":"m"}', {"x-my-key": "sk-client"})
    assert "x-my-key" in exchange.attempt(SECOND_BACKEND).remove


# --- what access logs are told ---

NEEDS_KEY = openai_backend(auth={"apiKey": {"key": ""}, "credentialOverride": {"headerName": "x-k"}})
REFUSED = {
    "no credential": (NEEDS_KEY, BACKEND, "Unauthorized", NAMES),
    "no translation": ({**openai_backend(), "schema": {"name": "Cohere"}}, BACKEND, "NotImplemented", NAMES),
    "a disabled backend": (
        openai_backend(auth={"apiKey": {"key": "two\nlines"}}),
        BACKEND,
        "ServiceUnavailable",
        NAMES,
    ),
    "an unknown backend": (
        openai_backend(),
        "ns/other/route/r/rule/0/ref/0",
        "ServiceUnavailable",
        NAMES | {"backend_name": "ns/other/route/r/rule/0/ref/0", "ai_service_backend_name": "ns/other"},
    ),
}


@pytest.mark.parametrize(("config", "backend", "error", "expected"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_says_whose_it_is_and_counts(config, backend, error, expected):
    """BR-114: model, backend and route are known, whoever answers."""
    exchange = gateway(config, log_attributes={"x-team": "team"}).exchange()
    exchange.request(b'{"model":"m"}', {"x-team": "search"})
    reply = exchange.attempt(backend)
    assert reply.json["error"]["type"] == error
    assert reply.metadata == expected | {"response_error": error, "team": "search"}
    page = render(exchange.gateway.metrics.registry)
    assert 'extproc_attempts_total{operation="chat",outcome="refused"} 1\n' in page
    assert 'error_type="_OTHER"' in page


def test_a_refusal_before_the_model_is_known_has_the_mapped_headers():
    exchange = gateway(log_attributes={"x-team": "team"}).exchange()
    exchange.headers({"x-team": "search"})
    assert exchange.body(b"[]").metadata == {"response_error": "BadRequest", "team": "search"}


def test_a_mapped_attribute_goes_before_a_name():
    """As with the peer, whose last word a mapping is at this phase (contract 3.14)."""
    exchange = gateway(log_attributes={"x-route": "route_name", "x-name": "backend_name"}).exchange()
    exchange.request(b'{"model":"m"}', {"x-route": "mine", "x-name": "yours", "content-length": "13"})
    assert exchange.attempt().metadata == NAMES | {"route_name": "mine", "backend_name": "yours"}
