"""Field reports about usage and cost rules: every endpoint, every coding, every kind of number."""

import json
import math
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.endpoints.base import Operation
from extproc.endpoints.table import EndpointTable
from extproc.errors import ConfigRejected
from extproc.runtime import build_runtime
from filter_config.cel import CELError, compile_cost
from filter_config.load import decode
from tests.support.field_reports import (
    ASKED,
    CHAT,
    CODINGS,
    COMPLETIONS,
    CONFIG,
    COSTS,
    DONE,
    EMBEDDINGS,
    JSON,
    NOT_ASKED,
    PATHS,
    PLAIN,
    SSE,
    TRIPLE,
    USAGE,
    ZERO,
    answer,
    delta,
    event,
    report,
    triple,
    watched,
)
from tests.support.forms import CONTENT_TYPE, form
from tests.support.playbook import BACKEND, SECOND_BACKEND, cost, openai_backend, response_trailers

DETAILS = {
    **USAGE,
    "prompt_tokens_details": {"cached_tokens": 3, "cache_creation_input_tokens": 2, "audio_tokens": 1},
    "completion_tokens_details": {"reasoning_tokens": 1},
}


def priced(*costs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**CONFIG, "llmRequestCosts": list(costs), **more}


def body_of(path: str) -> bytes:
    return b'{"model":"m","input":"a"}' if path == EMBEDDINGS else b'{"model":"m","prompt":"a","messages":[]}'


# --- every endpoint ---


@dataclass(frozen=True, kw_only=True)
class Served:
    """A request, the answer of a backend of the same API, and what that costs.

    Attributes:
        body: beside the model, or the whole of a body that is not JSON.
        answer: beside the model, or the whole of an answer that is not JSON.
    """

    body: dict[str, Any] | bytes
    answer: dict[str, Any] | bytes
    costs: dict[str, int]
    schema: str = "OpenAI"
    content_type: str = "application/json"

    @property
    def request(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps({"model": "m", **self.body}).encode()

    @property
    def reply(self) -> bytes:
        return self.answer if isinstance(self.answer, bytes) else json.dumps({"model": "m-1", **self.answer}).encode()


INPUT_AND_OUTPUT = {"input_tokens": 11, "output_tokens": 4, "total_tokens": 15}
USER = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 5}
SERVED: dict[Operation, Served] = {
    Operation.CHAT: Served(body=USER, answer=answer(CHAT), costs=TRIPLE),
    Operation.COMPLETION: Served(body={"prompt": "a"}, answer=answer(COMPLETIONS), costs=TRIPLE),
    Operation.EMBEDDINGS: Served(body={"input": "a"}, answer=answer(EMBEDDINGS), costs=triple(EMBEDDINGS)),
    Operation.RESPONSES: Served(
        body={"input": "a"},
        answer={"object": "response", "status": "completed", "output": [], "usage": INPUT_AND_OUTPUT},
        costs=TRIPLE,
    ),
    Operation.RESPONSES_INPUT_TOKENS: Served(
        body={"input": "a"}, answer={"object": "response.input_tokens", "input_tokens": 11}, costs={}
    ),
    # Sound reports nothing.
    Operation.SPEECH: Served(body={"input": "a", "voice": "b"}, answer=b"ID3\x00", costs=ZERO),
    Operation.TRANSCRIPTION: Served(
        body=form(("model", "m"), ("file", b"a")),
        answer={"text": "a", "usage": {"type": "tokens", **INPUT_AND_OUTPUT}},
        costs=TRIPLE,
        content_type=CONTENT_TYPE,
    ),
    Operation.TRANSLATION: Served(
        body=form(("model", "m"), ("file", b"a")),
        answer={"text": "a", "usage": {"type": "tokens", **INPUT_AND_OUTPUT}},
        costs=TRIPLE,
        content_type=CONTENT_TYPE,
    ),
    Operation.IMAGE_GENERATION: Served(
        body={"prompt": "a"},
        answer={"created": 1, "data": [{"b64_json": "AA=="}], "usage": INPUT_AND_OUTPUT},
        costs=TRIPLE,
    ),
    Operation.IMAGE_EDIT: Served(
        body=form(("model", "m"), ("prompt", "a"), ("image", b"a")),
        answer={"created": 1, "data": [{"b64_json": "AA=="}], "usage": INPUT_AND_OUTPUT},
        costs=TRIPLE,
        content_type=CONTENT_TYPE,
    ),
    Operation.RERANK: Served(
        body={"query": "a", "documents": ["b"]},
        answer={"results": [], "meta": {"tokens": {"input_tokens": 11, "output_tokens": 4}}},
        costs=TRIPLE,
        schema="Cohere",
    ),
    Operation.MESSAGES: Served(
        body=USER,
        answer={"type": "message", "content": [], "usage": {"input_tokens": 11, "output_tokens": 4}},
        costs=TRIPLE,
        schema="Anthropic",
    ),
    Operation.COUNT_TOKENS: Served(body=USER, answer={"input_tokens": 11}, costs={}, schema="Anthropic"),
    Operation.TOKENIZE: Served(body={"prompt": "a"}, answer={"count": 11, "tokens": [1] * 11}, costs={}),
}
ENDPOINTS = EndpointTable.build().endpoints


def test_no_endpoint_is_missing_below(gateway):
    assert gateway.processor._context.options.endpoints.endpoints.keys() == ENDPOINTS.keys()
    assert {endpoint.operation for endpoint in ENDPOINTS.values()} == SERVED.keys() == set(Operation)


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize("coding", [None, *CODINGS, "GZIP", "x-gzip", " br ", "identity"])
@pytest.mark.parametrize("cased", ["content-encoding", "content-type"])
def test_every_endpoint_reads_every_coding(open_gateway, path, coding, cased):
    """BR-16, BR-18: an encoded answer costs what the same answer costs in plain, on every endpoint there is."""
    served = SERVED[ENDPOINTS[path].operation]
    gateway = open_gateway({**CONFIG, "backends": [openai_backend(schema={"name": served.schema, "prefix": "v1"})]})
    exchange = gateway.start(served.request, path, {"content-type": served.content_type})
    headers = {"content-type": "Application/JSON; Charset=UTF-8" if cased == "content-type" else "application/json"}
    exchange.response(headers | ({"content-encoding": coding} if coding else {}))
    encoded = CODINGS.get((coding or "").strip().lower().removeprefix("x-"), bytes)(served.reply)
    reply = exchange.piece(encoded, eos=True)
    # Counting is free (BR-70).
    assert {key: cost for key, cost in reply.metadata.items() if key in TRIPLE} == served.costs
    # The body goes on as it came, so its header does too.
    assert (reply.body, reply.remove) == (None, [])


@pytest.mark.parametrize("coding", ["snappy", "compress", "gzip, snappy", "", "aes128gcm", "\u00fc"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("status", ["200", "500"])
def test_an_unknown_coding_passes_and_is_counted(gateway, path, coding, status):
    """BR-18: what cannot be decoded is not touched; the gRPC stream lives on."""
    exchange = gateway.start(body_of(path), path)
    exchange.response({**JSON, "content-encoding": coding}, status=status)
    reply = exchange.piece(b"\x00\x01binary", eos=True)
    assert (reply.body, reply.set_list, reply.remove) == (None, [], [])
    assert gateway.count("extproc_unknown_encodings_total") == bool(coding)


@pytest.mark.parametrize(
    "accepted",
    [
        "gzip, br, zstd",
        "br",
        "snappy",
        "*",
        "gzip;q=0",
        "snappy, gzip;q=0.5",
        "",
        "identity",
        "GZIP , x",
        "br;q=1.0,*;q=0",
    ],
)
def test_a_backend_is_asked_for_what_can_be_decoded(gateway, accepted):
    """BR-18: the backend never learns of a coding that could not be read here."""
    exchange = gateway.exchange()
    exchange.request(PLAIN, {"accept-encoding": accepted})
    exchange.attempt()
    upstream = exchange.carried["accept-encoding"]
    asked = {part.partition(";")[0].strip().lower() for part in upstream.split(",") if part.strip()}
    assert asked <= {"gzip", "x-gzip", "deflate", "br", "zstd", "identity"} | ({"*"} if "q=0" in upstream else set())


class TestStaleHeaders:
    """BR-17: a replaced body loses the coding of the old one and gets its own length; a kept one keeps both."""

    def test_a_wrapped_error(self, gateway):
        exchange = gateway.start()
        exchange.response(
            {"content-type": "text/html", "content-encoding": "gzip", "content-length": "9"}, status="502"
        )
        reply = exchange.piece(CODINGS["gzip"]("<h1>schön</h1>".encode()), eos=True)
        assert json.loads(reply.body)["error"]["message"] == "<h1>schön</h1>"
        assert reply.remove == ["content-encoding"]
        assert reply.set == {"content-type": "application/json", "content-length": str(len(reply.body))}

    @pytest.mark.parametrize("status", ["200", "400"])
    def test_a_kept_body(self, gateway, status):
        exchange = gateway.start()
        headers = exchange.response({**JSON, "content-encoding": "gzip"}, status=status)
        reply = exchange.piece(CODINGS["gzip"](b'{"message":"bad"}'), eos=True)
        assert (headers.remove, reply.remove, reply.body, reply.set) == ([], [], None, {})

    @pytest.mark.parametrize("body", [ASKED, NOT_ASKED])
    def test_a_stream_decides_at_its_headers(self, gateway, body):
        exchange = gateway.start(body)
        headers = exchange.response({**SSE, "content-encoding": "gzip"})
        assert ("content-encoding" in headers.remove) == (body is NOT_ASKED)
        reply = exchange.piece(CODINGS["gzip"](event(report()) + DONE), eos=True)
        assert (reply.body, reply.set, reply.remove) == (None if body is ASKED else DONE, {}, [])

    def test_a_success_that_is_no_200(self, gateway):
        exchange = gateway.start(NOT_ASKED)
        exchange.response({**SSE, "content-encoding": "br"}, status="203")
        reply = exchange.piece(CODINGS["br"](event(report()) + DONE), eos=True)
        assert reply.body == DONE
        assert reply.remove == ["content-encoding"]
        assert reply.set == {"content-length": str(len(DONE))}


# --- numbers ---

NUMBERS: dict[str, tuple[str, dict[str, int]]] = {
    "beyond 32 bits": ("5000000000", {"in": 5_000_000_000, "out": 4, "total": 5_000_000_004}),
    "a string": ('"11"', {"in": 0, "out": 4, "total": 4}),
    "negative": ("-11", {"in": 0, "out": 4, "total": 4}),
    "a boolean": ("true", {"in": 0, "out": 4, "total": 4}),
    "a fraction": ("11.5", {"in": 0, "out": 4, "total": 4}),
    "an object": ('{"n":11}', {"in": 0, "out": 4, "total": 4}),
}


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize(("number", "expected"), NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("streamed", [True, False])
def test_odd_numbers_harm_nothing(open_gateway, path, number, expected, streamed):
    """BR-65: a provider that reports nonsense neither breaks the answer nor the other counts."""
    gateway = open_gateway(priced(*COSTS, cost("cel", "CEL", cel="input_tokens + output_tokens")))
    text = b'{"usage":{"prompt_tokens":%b,"completion_tokens":4}}' % number.encode()
    exchange = gateway.start(ASKED if streamed else PLAIN, path)
    exchange.response(SSE if streamed else JSON)
    metadata = exchange.piece(event(text) if streamed else text, eos=True).metadata
    assert {key: metadata[key] for key in TRIPLE} == expected
    assert metadata["cel"] == expected["in"] + expected["out"]


@pytest.mark.parametrize(
    "number", ["1e30", "1e400", "1" + "0" * 19, "1" + "0" * 30, "1" + "0" * 400, "9" * 5000, "-0", "1e3"]
)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("rules", [COSTS, [cost("cel", "CEL", cel="total_tokens + 1u")]])
def test_absurd_numbers_harm_nothing(open_gateway, path, number, rules):
    """BR-65: not even a count that fits no machine word fails the answer."""
    gateway = open_gateway(priced(*rules))
    exchange = gateway.start(body_of(path), path)
    exchange.response()
    text = b'{"model":"m","usage":{"prompt_tokens":%b,"total_tokens":%b}}' % (number.encode(), number.encode())
    reply = exchange.piece(text, eos=True)
    assert reply.kind == "response_body"
    assert reply.body is None
    assert all(math.isfinite(value) for value in reply.metadata.values() if isinstance(value, float))


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*USAGE, *DETAILS, "cached_tokens", "x"]), inner, max_size=5)
    ),
    max_leaves=12,
)


@settings(max_examples=80, deadline=None)
@given(usage=JSON_VALUES, path=st.sampled_from(PATHS), streamed=st.booleans())
def test_any_usage_harms_nothing(usage, path, streamed):
    """BR-65: whatever stands in the place of the usage, the answer passes and the stream lives on."""
    with watched(priced(*COSTS, cost("cached", "CachedInputToken"), cost("cel", "CEL", cel="total_tokens"))) as gateway:
        streamed = streamed and path != EMBEDDINGS
        exchange = gateway.exchange()
        exchange.request(ASKED if streamed else body_of(path), {":path": path})
        exchange.attempt()
        exchange.response(SSE if streamed else JSON)
        exchange.consistent = False
        text = json.dumps({"choices": [], "usage": usage}).encode()
        reply = exchange.piece(event(text) if streamed else text, eos=True)
        assert reply.body is None
        assert reply.metadata


class TestMetadataInEveryPath:
    """BR-34: the reply that has the usage has the metadata, as Struct numbers."""

    @pytest.mark.parametrize("path", PATHS)
    def test_a_document(self, gateway, path):
        exchange = gateway.start(body_of(path), path)
        exchange.response()
        reply = exchange.piece(json.dumps(answer(path)).encode(), eos=True)
        struct = reply.message.dynamic_metadata.fields["io.envoy.ai_gateway"].struct_value
        assert {struct.fields[key].WhichOneof("kind") for key in TRIPLE} == {"number_value"}

    @pytest.mark.parametrize("override", ["", "other"])
    def test_with_a_mutated_request(self, open_gateway, override):
        backend = openai_backend(modelNameOverride=override, httpBodyMutation={"set": [{"path": "x", "value": "1"}]})
        exchange = open_gateway({**CONFIG, "backends": [backend]}).start()
        exchange.response()
        metadata = exchange.piece(json.dumps(answer(CHAT)).encode(), eos=True).metadata
        assert metadata["total"] == 15
        assert metadata["model_name_override"] == (override or "m")

    def test_before_trailers(self, gateway):
        exchange = gateway.start(ASKED)
        exchange.response(SSE)
        assert exchange.piece(event(report())).metadata["total"] == 15
        assert exchange.send(exchange.router, response_trailers()).metadata["total"] == 15

    @pytest.mark.parametrize("status", ["400", "429", "500", "301", "", "abc", "0500", "100"])
    def test_an_error_costs_nothing(self, gateway, status):
        exchange = gateway.start(ASKED)
        exchange.response(JSON, status=status)
        assert exchange.piece(json.dumps(answer(CHAT)).encode(), eos=True).metadata == {}

    def test_zero_is_written(self, gateway):
        """BR-93: zero tokens are charged as zero, which only a number that is there can say."""
        exchange = gateway.start()
        exchange.response()
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        metadata = exchange.piece(json.dumps(answer(CHAT, usage)).encode(), eos=True).metadata
        assert {key: metadata[key] for key in ZERO} == ZERO


# --- rules ---

FREE, PAID = "default/free", "default/paid"
SAME_KEY = [
    cost("billing", "CEL", route=FREE, cel="0"),
    cost("billing", "CEL", route=PAID, cel="input_tokens"),
]


@pytest.mark.parametrize("rules", [SAME_KEY, SAME_KEY[::-1]], ids=["in order", "reversed"])
@pytest.mark.parametrize("with_global", [True, False])
@pytest.mark.parametrize("streamed", [True, False])
def test_one_key_and_a_rule_per_route(open_gateway, rules, with_global, streamed):
    """BR-88: a route's own rule counts, for every order of the rules; a global one only where there is none."""
    global_rules = [{"metadataKey": "billing", "type": "CEL", "cel": "total_tokens * 100u"}] if with_global else []
    gateway = open_gateway(priced(*rules, globalLLMRequestCosts=global_rules))
    found = {}
    for route in (FREE, PAID, "default/other", ""):
        exchange = gateway.start(ASKED if streamed else PLAIN, route=route)
        exchange.response(SSE if streamed else JSON)
        metadata = exchange.piece(event(report()) if streamed else json.dumps(answer(CHAT)).encode(), eos=True).metadata
        found[route] = metadata.get("billing")
    other = 1500 if with_global else None
    assert found == {FREE: 0, PAID: 11, "default/other": other, "": other}


SCOPED = {
    "backend": ({"backend": "default/openai"}, True),
    "full backend name": ({"backend": BACKEND}, False),
    "another backend": ({"backend": "default/second"}, False),
    "the override": ({"model": "real"}, True),
    "the client's model": ({"model": "m"}, False),
    "both": ({"backend": "default/openai", "model": "real"}, True),
    "one of both": ({"backend": "default/openai", "model": "m"}, False),
}


@pytest.mark.parametrize(("scope", "applies"), SCOPED.values(), ids=SCOPED)
def test_rules_by_backend_and_model(open_gateway, scope, applies):
    """BR-88: a rule of a backend or a model counts there and nowhere else."""
    rule = cost("k", "CEL", cel="7", **scope)
    exchange = open_gateway(priced(rule, backends=[openai_backend(modelNameOverride="real")])).start()
    exchange.response()
    assert ("k" in exchange.piece(json.dumps(answer(CHAT)).encode(), eos=True).metadata) == applies


def test_a_key_that_the_processor_writes_itself(open_gateway):
    """BR-88: a rule cannot write over a key of ours, which keeps its meaning (contract 3.16)."""
    exchange = open_gateway(priced(cost("route_name"), cost("total"))).start()
    exchange.response()
    metadata = exchange.piece(json.dumps(answer(CHAT)).encode(), eos=True).metadata
    assert metadata["route_name"] == "default/chat"
    assert metadata["total"] == 15


LOADED = {
    "a: a double among uints": (
        "(input_tokens - cached_input_tokens) + cached_input_tokens * 0.1 + output_tokens",
        None,
    ),
    "b: an int literal": ("input_tokens * 2", None),
    "c: a uint literal": ("input_tokens * 2u", 200),
    "e: through double": ("uint(double(cached_input_tokens) * 0.15)", 4),
    "f: int and double": ("10 < 4.0", None),
    "a boolean": ("input_tokens > 1u", None),
    "division by zero": ("input_tokens / output_tokens", None),
    "guarded division": ("output_tokens == 0u ? 0u : input_tokens / output_tokens", 10),
    "negative at once": ("-1", None),
    "ternary on the model": ("model == 'm' ? input_tokens : 0u", 100),
    "negative for zeros": ("int(input_tokens) - 1", None),
}


@pytest.mark.parametrize(("cel", "value"), LOADED.values(), ids=LOADED)
def test_expressions_are_judged_when_the_config_is_loaded(open_gateway, cel, value):
    """BR-89: static types decide at load; what loads gives the same number for a request."""
    config = priced(cost("k", "CEL", cel=cel))
    if value is None:
        with pytest.raises(CELError):
            compile_cost(cel)
        decoded = decode(json.dumps(config).encode())
        assert decoded.config is None or _rejects(decoded.config)
        return
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "total_tokens": 110,
        "prompt_tokens_details": {"cached_tokens": 30},
    }
    exchange = open_gateway(config).start()
    exchange.response()
    assert exchange.piece(json.dumps(answer(CHAT, usage)).encode(), eos=True).metadata["k"] == value


def _rejects(config: Any) -> bool:
    with pytest.raises(ConfigRejected):
        build_runtime(config, digest="x")
    return True


@pytest.mark.parametrize(
    "cel", ["cached_input_tokens - input_tokens", "input_tokens - output_tokens - 50u", "int(output_tokens) - 50"]
)
@pytest.mark.parametrize("streamed", [True, False])
def test_a_rule_that_fails_on_a_request_is_left_out(open_gateway, cel, streamed):
    """BR-89 (d): an overflow below zero leaves its own key out, and nothing else."""
    # The last two load because the trial has only zeros and these guard them.
    guarded = f"output_tokens == 0u ? {'0' if 'int(' in cel else '0u'} : {cel}"
    gateway = open_gateway(priced(*COSTS, cost("bad", "CEL", cel=guarded), cost("good", "CEL", cel="output_tokens")))
    exchange = gateway.start(ASKED if streamed else PLAIN)
    exchange.response(SSE if streamed else JSON)
    reply = exchange.piece(event(report()) if streamed else json.dumps(answer(CHAT)).encode(), eos=True)
    assert reply.kind == "response_body"
    assert "bad" not in reply.metadata
    assert reply.metadata["good"] == 4
    assert reply.metadata["total"] == 15
    assert gateway.count("extproc_cost_errors_total", 'metadata_key="bad"') == 1


def test_more_cached_than_input(open_gateway):
    """BR-62 (c), BR-89: with bad data of a provider (cached > prompt) nothing is negative, and no rule fails."""
    gateway = open_gateway(priced(*COSTS, cost("net", "CEL", cel="input_tokens - cached_input_tokens")))
    exchange = gateway.start()
    exchange.response()
    usage = {**USAGE, "prompt_tokens_details": {"cached_tokens": 12}}
    metadata = exchange.piece(json.dumps(answer(CHAT, usage)).encode(), eos=True).metadata
    assert (metadata["in"], metadata["net"]) == (11, 0)
    assert gateway.count("extproc_cost_errors_total") == 0


def test_expressions_give_the_same_on_every_python():
    """BR-92: the values of the examples in the documentation."""
    assert compile_cost("uint(double(input_tokens) * 0.5) + 1u").expression


class TestCounting:
    """BR-112: each attempt is counted once, with what is known of its usage, whenever the stream ends."""

    MOMENTS = ("request", "attempt", "headers", "content", "usage", "done", "end")

    @pytest.mark.parametrize("moment", MOMENTS)
    @pytest.mark.parametrize("body", [ASKED, NOT_ASKED])
    def test_a_cancel_at_any_moment(self, gateway, moment, body):
        rounds = 20
        for _ in range(rounds):
            exchange = gateway.exchange()
            steps = {
                "request": lambda e=exchange: e.request(body),
                "attempt": lambda e=exchange: e.attempt(),
                "headers": lambda e=exchange: e.response(SSE),
                "content": lambda e=exchange: e.piece(event(delta("a"))),
                "usage": lambda e=exchange: e.piece(event(report())),
                "done": lambda e=exchange: e.piece(DONE),
                "end": lambda e=exchange: e.piece(b"", eos=True),
            }
            for name in self.MOMENTS:
                steps[name]()
                if name == moment:
                    break
            exchange.close()
        position = self.MOMENTS.index(moment)
        attempts = rounds if position >= 1 else 0
        tokens = rounds if position >= self.MOMENTS.index("usage") else 0
        assert gateway.count("gen_ai_server_request_duration_seconds_count") == attempts
        assert gateway.count("gen_ai_client_token_usage_count", 'type="output"') == tokens
        assert gateway.count("gen_ai_client_token_usage_sum", 'type="output"') == 4 * tokens
        finished = rounds if position >= self.MOMENTS.index("done") else 0
        assert gateway.count("extproc_attempts_total", 'outcome="success"') == finished

    def test_a_cancel_while_the_backend_thinks_is_the_clients(self, gateway):
        """Without response headers nobody failed: every failure of a backend comes back as headers."""
        exchange = gateway.start(ASKED)
        exchange.close()
        assert gateway.count("extproc_attempts_total", 'outcome="client_cancelled"') == 1

    def test_a_fault_of_ours_is_no_cancel(self, gateway, monkeypatch):
        """A reply that could not be made is a failed attempt, not a client that left."""
        from extproc.errors import StreamFailure
        from extproc.translate.passthrough import PassThrough

        exchange = gateway.start(ASKED)
        exchange.response(SSE)
        monkeypatch.setattr(PassThrough, "response_body", lambda *_, **__: 1 / 0)
        with pytest.raises(StreamFailure):
            exchange.piece(event(delta("a")))
        monkeypatch.undo()
        exchange.close()
        assert gateway.count("extproc_attempts_total", 'outcome="client_cancelled"') == 0
        assert gateway.count("extproc_attempts_total", 'outcome="failed"') == 1

    def test_a_retry_counts_each_attempt(self, open_gateway):
        gateway = open_gateway({**CONFIG, "backends": [openai_backend(), openai_backend(SECOND_BACKEND)]})
        exchange = gateway.start()
        exchange.attempt(SECOND_BACKEND)
        exchange.response()
        exchange.piece(json.dumps(answer(CHAT)).encode(), eos=True)
        exchange.close()
        assert gateway.count("extproc_attempts_total", 'outcome="retried"') == 1
        assert gateway.count("extproc_attempts_total", 'outcome="success"') == 1
        assert gateway.count("gen_ai_client_token_usage_sum", 'type="input"') == 11
