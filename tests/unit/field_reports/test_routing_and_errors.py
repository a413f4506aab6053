"""Field reports about models, backends, retries and what a client is told when something cannot be done."""

import json
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.endpoints.base import Operation
from extproc.endpoints.table import EndpointTable
from extproc.exchange import names
from extproc.paths import EndpointPrefixes
from extproc.runtime import build_runtime
from extproc.translate.table import TRANSLATORS
from filter_config.load import decode
from tests.support.field_reports import (
    ASKED,
    CHAT,
    COMPLETIONS,
    CONFIG,
    DONE,
    EMBEDDINGS,
    JSON,
    NOT_ASKED,
    PATHS,
    PLAIN,
    SSE,
    TRIPLE,
    WatchedExchange,
    WatchedGateway,
    answer,
    delta,
    event,
    report,
    watched,
)
from tests.support.playbook import BACKEND, SECOND_BACKEND, cost, openai_backend

SCHEMAS = ["AzureOpenAI", "AWSBedrock", "AWSAnthropic", "GCPVertexAI", "GCPAnthropic", "Anthropic", "Cohere"]
OPERATIONS = {CHAT: Operation.CHAT, COMPLETIONS: Operation.COMPLETION, EMBEDDINGS: Operation.EMBEDDINGS}
UNSERVED = [(path, schema) for path in PATHS for schema in SCHEMAS if (OPERATIONS[path], schema) not in TRANSLATORS]
# Those that speak another API than the client; Azure's is the same.
TRANSLATED = [schema for schema in SCHEMAS if schema not in ("AzureOpenAI", "Cohere")]
KEY = "sk-planted-secret"


def backends(*listed: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**CONFIG, "backends": list(listed), **more}


def sent(gateway: WatchedGateway, body: bytes, path: str = CHAT, headers: dict[str, str] | None = None) -> Any:
    exchange = gateway.exchange()
    exchange.request(body, {":path": path, **(headers or {})})
    return exchange.attempt()


class TestForcedOptions:
    """BR-11: the option exists only where the backend speaks the client's API."""

    @pytest.mark.parametrize("schema", TRANSLATED)
    def test_no_other_backend_is_sent_it(self, open_gateway, schema):
        backend = {**openai_backend(), "schema": {"name": schema}}
        asked = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}'
        reply = sent(open_gateway(backends(backend)), asked)
        assert reply.kind == "request_headers"
        assert b"stream_options" not in reply.body
        assert b"include_usage" not in reply.body

    def test_a_mutation_can_take_it_out_for_one_backend(self, open_gateway):
        """A backend that rejects the field is served by a configured removal."""
        backend = openai_backend(httpBodyMutation={"remove": ["stream_options"]})
        reply = sent(open_gateway(backends(backend)), NOT_ASKED)
        assert reply.body == NOT_ASKED
        assert reply.set["content-length"] == str(len(NOT_ASKED))


class TestRetries:
    """BR-40: an attempt is made of the client's request, whatever attempts before it did."""

    FIRST = openai_backend(
        modelNameOverride="first",
        schema={"name": "OpenAI", "prefix": "one/v9"},
        auth={"azureAPIKey": {"key": "azure-key"}},
        httpHeaderMutation={
            "set": [{"name": "X-First", "value": "1"}, {"name": "user-agent", "value": "gateway"}],
            "remove": ["accept", "x-drop"],
        },
        httpBodyMutation={"set": [{"path": "first", "value": "true"}], "remove": ["messages"]},
    )
    SECOND = openai_backend(SECOND_BACKEND, modelNameOverride="second", auth={"apiKey": {"key": KEY}})
    HEADERS: ClassVar = {
        "accept": "text/event-stream",
        "user-agent": "sdk/1",
        "x-drop": "client's",
        "accept-encoding": "gzip, snappy",
        "traceparent": "00-1",
    }
    BODY = '{"messages":[ "\u00fc" ] , "model":"virt","stream":true}'.encode()

    def final(self, gateway: WatchedGateway, *attempts: str) -> tuple[WatchedExchange, Any]:
        exchange = gateway.exchange()
        exchange.request(self.BODY, self.HEADERS)
        for backend in attempts:
            reply = exchange.attempt(backend)
        return exchange, reply

    def upstream(self, exchange: WatchedExchange) -> dict[str, str]:
        """The headers that a backend gets, without the id of the request."""
        return {k: v for k, v in exchange.carried.items() if k not in (names.INTERNAL_REQUEST_ID, "content-length")}

    @pytest.mark.parametrize("before", [(BACKEND,), (BACKEND, BACKEND), (BACKEND, SECOND_BACKEND, BACKEND)])
    def test_the_last_attempt_is_like_a_first_one(self, open_gateway, before):
        gateway = open_gateway(backends(self.FIRST, self.SECOND))
        retried, reply = self.final(gateway, *before, SECOND_BACKEND)
        direct, expected = self.final(gateway, SECOND_BACKEND)
        assert reply.body == expected.body
        assert self.upstream(retried) == self.upstream(direct)
        assert reply.set["content-length"] == str(len(reply.body))
        assert "api-key" not in retried.carried
        assert retried.carried["authorization"] == f"Bearer {KEY}"

    def test_back_to_the_first(self, open_gateway):
        gateway = open_gateway(backends(self.FIRST, self.SECOND))
        retried, reply = self.final(gateway, SECOND_BACKEND, BACKEND)
        direct, expected = self.final(gateway, BACKEND)
        assert reply.body == expected.body
        assert self.upstream(retried) == self.upstream(direct)
        assert "authorization" not in retried.carried

    def test_what_other_filters_set_before_the_first_attempt_comes_back(self, open_gateway):
        """A route may add headers after the router-level filter; an attempt that takes one away gives it back."""
        gateway = open_gateway(backends(self.FIRST, self.SECOND))
        exchange = gateway.exchange()
        exchange.request(self.BODY)
        exchange.attempt(BACKEND, headers={"x-drop": "the route's"})
        exchange.attempt(SECOND_BACKEND)
        assert exchange.carried.get("x-drop") == "the route's"

    def test_a_credential_that_another_filter_brings_serves_every_attempt(self, open_gateway):
        override = {"headerName": "x-user-key"}
        gateway = open_gateway(
            backends(
                openai_backend(auth={"apiKey": {"key": ""}, "credentialOverride": override}),
                openai_backend(SECOND_BACKEND, auth={"apiKey": {"key": ""}, "credentialOverride": override}),
            )
        )
        exchange = gateway.exchange()
        exchange.request(PLAIN)
        exchange.attempt(BACKEND, headers={"x-user-key": "theirs"})
        assert exchange.attempt(SECOND_BACKEND).set["Authorization"] == "Bearer theirs"
        assert "x-user-key" not in exchange.carried

    def test_usage_and_model_are_those_of_the_last(self, open_gateway):
        exchange, _ = self.final(open_gateway(backends(self.FIRST, self.SECOND)), BACKEND, SECOND_BACKEND)
        exchange.response(SSE)
        metadata = exchange.piece(event(report()) + DONE, eos=True).metadata
        assert metadata["model_name_override"] == "second"
        assert metadata["ai_service_backend_name"] == "default/second"

    def test_an_answer_after_a_refusal_counts(self, open_gateway):
        refusing = openai_backend(auth={"apiKey": {"key": ""}, "credentialOverride": {"headerName": "x-none"}})
        gateway = open_gateway(backends(refusing, self.SECOND))
        exchange = gateway.exchange()
        exchange.request(PLAIN)
        assert exchange.attempt().status == 401
        exchange.attempt(SECOND_BACKEND)
        exchange.response()
        assert exchange.piece(json.dumps(answer(CHAT)).encode(), eos=True).metadata["total"] == 15


OVERRIDES = [
    "pub/real-1@2024",
    "/models/x/y",
    "arn:aws:bedrock:us-east-1::x/y",
    'a"b\\c',
    "模型",
    "with space",
    "\U0001f600",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("override", OVERRIDES)
@pytest.mark.parametrize(
    "body",
    [b'{"model":"virt"}', b'{ "model" : "virt" }', b'{"x":{"model":"virt"},"model":"virt"}', b'{"mod\\u0065l":"virt"}'],
)
def test_overrides_are_applied_on_every_endpoint(open_gateway, path, override, body):
    """BR-42: the backend's name for the model is in the body, whatever it looks like; the client's is gone."""
    gateway = open_gateway(backends(openai_backend(modelNameOverride=override)))
    reply = sent(gateway, body, path)
    assert json.loads(reply.body)["model"] == override
    assert reply.set[":path"] == path
    assert json.loads(reply.body).get("x") == json.loads(body).get("x")


@pytest.mark.parametrize("reported", ["real-2024", "", None, 7])
@pytest.mark.parametrize("streamed", [True, False])
def test_the_response_model_follows_one_rule(open_gateway, reported, streamed):
    """BR-42: what the backend says it used, else what it was asked for, streamed or not."""
    gateway = open_gateway(backends(openai_backend(modelNameOverride="real")))
    exchange = gateway.start(ASKED if streamed else PLAIN)
    exchange.response(SSE if streamed else JSON)
    members = {**report(), "model": reported}
    metadata = exchange.piece(event(members) if streamed else json.dumps(members).encode(), eos=True).metadata
    assert metadata["response_model"] == (reported if reported == "real-2024" else "real")
    assert metadata["model_name_override"] == "real"


def test_the_model_of_the_last_chunk_counts(gateway):
    """BR-42: a backend that names its model late, or another one later, is believed (contract, chat 6.4)."""
    exchange = gateway.start(ASKED)
    exchange.response(SSE)
    events = [event(delta("a", model="")), event(delta("b", model="first")), event(delta("c", model="second")), DONE]
    assert exchange.play(events).metadata["response_model"] == "second"


class TestModelHeader:
    """BR-43: the routing header comes from the body, and from nowhere else."""

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-8B-Instruct", "模型", "a b", "", "x" * 300, "a:b@c"])
    @pytest.mark.parametrize("claimed", [None, "other"])
    def test_set_from_the_body(self, gateway, path, model, claimed):
        exchange = gateway.exchange()
        exchange.headers({":path": path} | ({names.MODEL: claimed} if claimed else {}))
        assert names.MODEL not in exchange.carried
        reply = exchange.body(json.dumps({"model": model, "input": "a"}, ensure_ascii=False).encode())
        assert reply.set[names.MODEL] == model
        assert reply.message.request_body.response.clear_route_cache
        assert exchange.attempt().kind == "request_headers"

    def test_a_protected_name_is_reported_when_the_config_is_loaded(self):
        mutation = {"set": [{"name": "x-ai-eg-model", "value": "x"}], "remove": [":path", "X-Envoy-Original-Path"]}
        problems = decode(json.dumps(backends(openai_backend(httpHeaderMutation=mutation))).encode()).problems
        for name in ("x-ai-eg-model", ":path", "X-Envoy-Original-Path"):
            assert any(name in problem.message and "protected" in problem.message for problem in problems)

    def test_lists_have_no_duplicates(self, open_gateway):
        models = [{"name": name, "createdAt": "2024-01-02T03:04:05Z"} for name in ("a/b", "c", "a/b", "c")]
        gateway = open_gateway({**CONFIG, "models": models})
        for path in ("/v1/models", "/anthropic/v1/models", "/v1/models?limit=1"):
            listed = gateway.exchange().headers({":path": path}).json["data"]
            assert [model["id"] for model in listed] == ["a/b", "c"]


class TestUnsupportedPairs:
    """BR-44: an endpoint that a backend cannot serve is a 501 that names both, and a finding of the config."""

    @pytest.mark.parametrize(("path", "schema"), UNSERVED)
    def test_501(self, open_gateway, schema, path):
        backend = {**openai_backend(), "schema": {"name": schema}}
        gateway = open_gateway(backends(backend))
        reply = sent(gateway, b'{"model":"m","input":"a"}', path)
        assert reply.status == 501
        message = reply.json["error"]["message"]
        assert schema in message
        assert "default/openai" in message
        assert OPERATIONS[path] in message

    def test_other_backends_serve_on(self, open_gateway):
        gateway = open_gateway(
            backends({**openai_backend(), "schema": {"name": "Cohere"}}, openai_backend(SECOND_BACKEND))
        )
        exchange = gateway.exchange()
        exchange.request(PLAIN)
        assert exchange.attempt().status == 501
        assert exchange.attempt(SECOND_BACKEND).kind == "request_headers"


ERROR_BODIES = {
    "numeric code": b'{"error":{"message":"m","type":"BadRequestError","param":null,"code":400}}',
    "text": b'{"error":"text"}',
    "detail": b'{"detail":"x"}',
    "flat": b'{"object":"error","message":"x","code":404}',
    "array": b"[]",
    "null": b"null",
    "HTML": "<html>ü</html>".encode(),
    "empty": b"",
    "no text": b"\xff\x00",
    "cut JSON": b'{"error":{"mess',
    "deep": b"[" * 5000,
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", ERROR_BODIES.values(), ids=ERROR_BODIES)
@pytest.mark.parametrize(
    "content_type", ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "text/html", "", None]
)
def test_errors_of_backends_keep_their_status_and_message(gateway, path, body, content_type):
    """BR-65: a JSON error passes as it is, anything else becomes the message of an error that an SDK can read."""
    exchange = gateway.start(b'{"model":"m","input":"a"}', path)
    headers = exchange.response({"content-type": content_type} if content_type is not None else {}, status="400")
    assert headers.set_list == []
    reply = exchange.piece(body, eos=True)
    if content_type and "json" in content_type.lower():
        assert (reply.body, reply.set) == (None, {})
        assert reply.metadata.keys() <= {"response_error"}
    else:
        error = json.loads(reply.body)["error"]
        assert error["type"] == "OpenAIBackendError"
        assert error["code"] == "400"
        assert error.get("message", "") == body.decode("utf-8", "replace")
        assert reply.set == {"content-type": "application/json", "content-length": str(len(reply.body))}
        assert reply.metadata == {"response_error": error["type"]}


def test_a_long_error_is_bounded(gateway):
    """BR-65: the raw text of an unknown error is the message, up to a bound."""
    exchange = gateway.start()
    exchange.response({"content-type": "text/plain"}, status="500")
    reply = exchange.piece("ü".encode() * 10_000_000, eos=True)
    assert len(reply.body) < 1_000_000
    assert json.loads(reply.body)["error"]["message"].startswith("üü")


BAD_BODIES = {
    "array": b"[]",
    "string": b'"x"',
    "invalid UTF-8": b'{"model":"\xff"}',
    "a lone surrogate": b'{"model":"\\ud800"}',
    "depth 5000": b'{"model":"m","x":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "depth 100000, cut": b'{"model":"m","x":' + b'{"a":' * 100_000,
    "NaN": b'{"model":"m","temperature":NaN}',
    "Infinity": b'{"model":"m","temperature":-Infinity}',
    "single quotes": b"{'model':'m'}",
    "a comment": b'{"model":"m"} // x',
    "two documents": b'{"model":"m"}{"model":"n"}',
    "UTF-16": '{"model":"m"}'.encode("utf-16"),
    "form": b"model=m&stream=true",
    "model is null and a list": b'{"model":["m"]}',
    "model is an object": b'{"model":{}}',
    "stream is 1": b'{"model":"m","stream":1}',
    "a header in the model": b'{"model":"m\\r\\nx-evil: 1"}',
    "NUL in the model": b'{"model":"m\\u0000"}',
    "empty": b"",
    "blank": b" \n",
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
def test_bad_input_is_the_clients_fault(gateway, path, body):
    """BR-67: a body that cannot be read is answered 4xx with JSON that says why; SDKs do not retry that."""
    exchange = gateway.exchange()
    exchange.headers({":path": path})
    reply = exchange.body(body)
    if b'"stream":1' in body and path == EMBEDDINGS:
        # This API has no such member, so what it holds is between the client and the backend.
        assert reply.kind == "request_body"
        return
    assert 400 <= reply.status < 500
    assert reply.json["type"] == "error"
    assert reply.json["error"]["code"] == str(reply.status)
    assert reply.json["error"]["message"]


STRANGE_BODIES = {
    "a thousand models": b"{" + b",".join([b'"model":"m"'] * 1000) + b"}",
    "two thousand models": b"{" + b",".join([b'"model":"m"'] * 2000) + b"}",
    "two thousand stream_options": b'{"model":"m","stream":true,' + b",".join([b'"stream_options":{}'] * 2000) + b"}",
    "deep stream_options": b'{"model":"m","stream":true,"stream_options":{"x":' + b"[" * 900 + b"]" * 900 + b"}}",
    "model is null": b'{"model":null,"stream":true}',
    "messages is a string": b'{"model":"m","messages":"str","stream":true}',
    "an unknown tool": b'{"model":"m","tools":[{"type":"x"}],"tool_choice":7,"stream":true}',
    "a bad image": b'{"model":"m","messages":[{"content":[{"image_url":{"url":"data:image/png;base64,@@@"}}]}]}',
    "big numbers": b'{"model":"m","seed":' + b"9" * 5000 + b',"x":1e999,"stream":true}',
    "invalid UTF-8 elsewhere": b'{"model":"m","x":"\xff"}',
    "a long model": b'{"model":"' + b"m" * 200_000 + b'"}',
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("override", ["", "real"])
@pytest.mark.parametrize("body", STRANGE_BODIES.values(), ids=STRANGE_BODIES)
def test_strange_input_is_never_a_fault_of_ours(open_gateway, path, override, body):
    """BR-67, BR-82: what need not be read passes; what cannot be edited is a 4xx, not a 500."""
    mutation = {"set": [{"path": "a.b", "value": "1"}, {"path": "messages.0.x", "value": "1"}], "remove": ["tools.0.y"]}
    gateway = open_gateway(backends(openai_backend(modelNameOverride=override, httpBodyMutation=mutation)))
    exchange = gateway.exchange()
    exchange.headers({":path": path})
    reply = exchange.body(body)
    if reply.kind == "request_body":
        reply = exchange.attempt()
    assert reply.kind == "request_headers" or 400 <= reply.status < 500


PREFIXES = {
    "none": ("", ""),
    "a slash": ("/", ""),
    "slashes": ("//", ""),
    "v1": ("v1", "/v1"),
    "outer slashes": ("/v1/", "/v1"),
    "doubled": ("a//b", "/a/b"),
    "longer": ("v1beta/openai", "/v1beta/openai"),
    "blank segment": (" ", "/ "),
    "not ASCII": ("pfad-ü", "/pfad-ü"),
}
SUFFIXES = {CHAT: "/chat/completions", COMPLETIONS: "/completions", EMBEDDINGS: "/embeddings"}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("prefix", "expected"), PREFIXES.values(), ids=PREFIXES)
@pytest.mark.parametrize("query", ["", "?", "?a=1", "?a=1&a=2", "?x=/y?z", "?api-version=2024-10-21"])
def test_paths_of_backends(open_gateway, path, prefix, expected, query):
    """BR-103: the prefix is joined without empty segments; the client's query goes along once."""
    backend = {**openai_backend(), "schema": {"name": "OpenAI", "prefix": prefix}}
    reply = sent(open_gateway(backends(backend)), PLAIN, path + query)
    upstream, _, kept = reply.set[":path"].partition("?")
    assert upstream == expected + SUFFIXES[path]
    assert kept == query[1:]


@pytest.mark.parametrize(
    ("root", "openai", "expected"),
    [("/", "/", CHAT), ("/gw", "/", "/gw" + CHAT), ("gw/", "/oai/", "/gw/oai" + CHAT), ("/", "", CHAT)],
)
def test_paths_of_clients(root, openai, expected):
    """BR-103: prefixes of the client's side never leak: they are joined without empty segments."""
    table = EndpointTable.build(EndpointPrefixes(openai=openai), root=root)
    assert expected in table.endpoints
    assert not any("//" in path for path in table.paths())


def test_a_clients_prefix_does_not_reach_the_backend(open_gateway):
    """BR-103: the backend's path is made of its own prefix."""
    table = EndpointTable.build(EndpointPrefixes(openai="/oai"), root="/gw")
    reply = sent(open_gateway(CONFIG, endpoints=table), PLAIN, "/gw/oai" + CHAT)
    assert reply.set[":path"] == CHAT


class TestVersions:
    """BR-108: a config of another version that can be read is served; what is unknown in it is reported."""

    DOCUMENT: ClassVar = {
        **CONFIG,
        "version": "v9.9.9",
        "aBrandNewField": {"x": [1]},
        "backends": [openai_backend(newer=True)],
    }

    def test_cold_start(self, open_gateway):
        gateway = open_gateway(self.DOCUMENT)
        exchange = gateway.start()
        exchange.response()
        assert exchange.piece(json.dumps(answer(CHAT)).encode(), eos=True).metadata["total"] == 15

    def test_what_is_unknown_is_reported(self):
        decoded = decode(json.dumps(self.DOCUMENT).encode())
        assert decoded.config is not None
        reported = " ".join(problem.path + problem.message for problem in decoded.problems)
        assert "aBrandNewField" in reported
        assert "newer" in reported

    def test_a_swap_does_not_touch_streams_in_flight(self, open_gateway):
        gateway = open_gateway(backends(openai_backend(modelNameOverride="old")))
        exchange = gateway.start(ASKED)
        gateway.load({**self.DOCUMENT, "llmRequestCosts": [], "backends": []})
        assert json.loads(exchange.attempt().body)["model"] == "old"
        exchange.response(SSE)
        assert exchange.play([event(report()) + DONE]).tokens == TRIPLE


class TestSecrets:
    """No credential leaves by another way than the request to its backend."""

    @pytest.mark.parametrize("method", ["apiKey", "azureAPIKey", "anthropicAPIKey"])
    @pytest.mark.parametrize("name", ["authorization", "api-key", "x-api-key"])
    def test_a_header_that_is_mapped_for_logs_and_metrics(self, open_gateway, method, name):
        """Operators map headers of the client; what we inject under the same name is not one of them."""
        gateway = open_gateway(
            backends(openai_backend(auth={method: {"key": KEY}})),
            log_attributes={name: "logged"},
            metric_attributes={name: "measured"},
        )
        exchange = gateway.exchange()
        exchange.request(PLAIN, {name: "client"})
        reply = exchange.attempt()
        assert KEY not in str(reply.metadata)
        exchange.response()
        assert KEY not in str(exchange.piece(json.dumps(answer(CHAT)).encode(), eos=True).metadata)
        exchange.close()
        assert KEY not in gateway.scrape()

    def test_no_error_names_a_credential(self, open_gateway):
        gateway = open_gateway(backends(openai_backend(auth={"azureAPIKey": {"key": f"{KEY}\nx"}})))
        reply = sent(gateway, PLAIN)
        assert reply.status == 503
        assert KEY not in str(reply.message)
        assert KEY not in repr(gateway.processor.runtime)


def test_a_rule_that_changes_nothing_does_not_disable_its_backend():
    """BR-44: the same config is judged alike when it is checked and when it is loaded.

    A path with an unescaped special character is a rule that cannot be applied (contract 3.11): a warning, and the
    other backends and bodies are served as they are.
    """
    for mutation in ({"remove": ["messages.#.x"]}, {"set": [{"path": "a*", "value": "1"}]}):
        decoded = decode(json.dumps(backends(openai_backend(httpBodyMutation=mutation))).encode())
        disabled = {problem.backend for problem in decoded.problems if problem.severity == "fault"}
        runtime = build_runtime(decoded.config, digest="x", problems=decoded.problems)
        assert set(runtime.faults) == disabled


# --- edits through the whole way of a request ---

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OPTIONS = st.none() | st.dictionaries(st.sampled_from(["include_usage"]), st.booleans() | st.none(), max_size=1)
DOCUMENTS = st.fixed_dictionaries(
    {"model": TEXT.filter(str.isprintable), "stream": st.booleans()},
    optional={
        "stream_options": OPTIONS,
        "messages": st.lists(VALUES, max_size=3),
        "x": VALUES,
        "ü": VALUES,
        "prompt": TEXT,
    },
)


@settings(max_examples=80, deadline=None)
@given(
    document=DOCUMENTS,
    order=st.randoms(use_true_random=False),
    indent=st.sampled_from([None, 1, "\t"]),
    ascii_=st.booleans(),
    override=st.sampled_from(["", "real/1", 'q"ü']),
    path=st.sampled_from([CHAT, COMPLETIONS]),
    retry=st.booleans(),
)
def test_every_edit_is_parse_edit_dump(*, document, order, indent, ascii_, override, path, retry):
    """BR-09, BR-42, BR-98: override, forced usage and body mutation together give what editing the object gives."""
    keys = list(document)
    order.shuffle(keys)
    document = {key: document[key] for key in keys}
    body = json.dumps(document, indent=indent, ensure_ascii=ascii_).encode()
    mutation = {
        "set": [{"path": "added.deep", "value": "[1, 2]"}, {"path": "x", "value": "text"}],
        "remove": ["messages"],
    }
    backend = openai_backend(modelNameOverride=override, httpBodyMutation=mutation)
    with watched(backends(backend)) as gateway:
        exchange = gateway.exchange()
        exchange.request(body, {":path": path})
        if retry:
            exchange.attempt()
        reply = exchange.attempt()
        expected = {key: value for key, value in document.items() if key != "messages"}
        expected |= {"added": {"deep": [1, 2]}, "x": "text"}
        if override:
            expected["model"] = override
        if document["stream"]:
            expected["stream_options"] = {**(document.get("stream_options") or {}), "include_usage": True}
        assert json.loads(reply.body) == expected
        assert reply.set["content-length"] == str(len(reply.body))


@settings(max_examples=80, deadline=None)
@given(document=DOCUMENTS, indent=st.sampled_from([None, 1]), ascii_=st.booleans(), head=st.sampled_from([b"", b" \n"]))
def test_bytes_outside_of_the_edits_stay(document, indent, ascii_, head):
    """BR-09, BR-42: where only the model's value changes, every other byte is the client's."""
    del document["stream"]
    marked = {**document, "model": "\u0001marker\u0001"}
    template = head + json.dumps(marked, indent=indent, ensure_ascii=ascii_).encode() + head
    quoted = json.dumps(marked["model"], ensure_ascii=ascii_).encode()
    sent_body = template.replace(quoted, b'"m"')
    with watched(backends(openai_backend(modelNameOverride="real"))) as gateway:
        assert sent(gateway, sent_body).body == template.replace(quoted, b'"real"')


def test_costs_by_the_name_that_the_backend_was_asked_for(open_gateway):
    """BR-42, BR-88: rules see the override."""
    rule = cost("k", "CEL", cel="model == 'real' ? 1u : 0u")
    gateway = open_gateway(backends(openai_backend(modelNameOverride="real"), llmRequestCosts=[rule]))
    exchange = gateway.start()
    exchange.response()
    assert exchange.piece(json.dumps(answer(CHAT)).encode(), eos=True).metadata["k"] == 1
