"""The answer on its way back: observation, usage, costs, encodings, endings (contract 3.15 to 3.17)."""

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.telemetry import exposition
from tests.support.playbook import (
    BACKEND,
    SECOND_BACKEND,
    Exchange,
    Gateway,
    cost,
    openai_backend,
    response_trailers,
)

COSTS = [
    cost("in", "InputToken"),
    cost("out", "OutputToken"),
    cost("total"),
    cost("cached", "CachedInputToken"),
    cost("creation", "CacheCreationInputToken"),
    cost("reasoning", "ReasoningToken"),
]
CONFIG: dict[str, Any] = {"version": "dev", "backends": [openai_backend()], "llmRequestCosts": COSTS}

USAGE = {
    "prompt_tokens": 11,
    "completion_tokens": 4,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 3, "cache_creation_input_tokens": 2},
    "completion_tokens_details": {"reasoning_tokens": 1},
}
COUNTS = {"in": 11, "out": 4, "total": 15, "cached": 3, "creation": 2, "reasoning": 1}
ANSWER = {"id": "x", "model": "m-2024", "choices": [{"message": {"content": "hallo"}}], "usage": USAGE}


def chunk(**members: Any) -> bytes:
    return b"data: " + json.dumps({"id": "x", "model": "m-2024", **members}).encode() + b"\n\n"


def delta(text: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}}]}


CONTENT = [
    chunk(**delta("hal")),
    chunk(**delta("lo \U0001f600")),
    chunk(choices=[{"finish_reason": "stop", "delta": {}}]),
]
USAGE_CHUNK = chunk(choices=[], usage=USAGE)
DONE = b"data: [DONE]\n\n"
STREAM = b"".join([*CONTENT, USAGE_CHUNK, DONE])
STREAM_WITHOUT_USAGE = b"".join([*CONTENT, DONE])
SSE = {"content-type": "text/event-stream"}

ASKED = b'{"model":"m","stream":true,"stream_options":{"include_usage":true}}'
NOT_ASKED = b'{"model":"m","stream":true}'


def start(
    config: dict[str, Any] = CONFIG, body: bytes = b'{"model":"m"}', path: str = "/v1/chat/completions"
) -> Exchange:
    exchange = Gateway(config).exchange()
    exchange.request(body, {":path": path})
    assert exchange.attempt().kind == "request_headers"
    return exchange


def counts(metadata: dict[str, Any]) -> dict[str, Any]:
    return {key: metadata[key] for key in COUNTS if key in metadata}


def test_a_plain_answer_passes_and_is_metered():
    exchange = start()
    headers = exchange.response()
    assert headers.set_list == []
    assert headers.remove == []
    assert not headers.message.HasField("mode_override")
    reply = exchange.piece(json.dumps(ANSWER).encode(), eos=True)
    assert reply.body is None
    assert reply.metadata == {
        **COUNTS,
        "model_name_override": "m",
        "ai_service_backend_name": "default/openai",
        "route_name": "default/chat",
        "response_model": "m-2024",
    }


def test_a_stream_is_switched_to_pieces_at_its_headers():
    exchange = start(body=ASKED)
    reply = exchange.response(SSE)
    assert reply.message.mode_override.response_body_mode == 1
    assert reply.remove == ["content-length"]


@pytest.mark.parametrize("status", ["500", "201", "429"])
def test_only_a_200_is_streamed(status):
    exchange = start(body=ASKED)
    reply = exchange.response(SSE, status=status)
    assert not reply.message.HasField("mode_override")
    assert reply.remove == []


def test_no_costs_no_metadata():
    exchange = start({**CONFIG, "llmRequestCosts": []})
    exchange.response()
    assert exchange.piece(json.dumps(ANSWER).encode(), eos=True).metadata == {}


def test_usage_is_written_with_the_chunk_that_brings_it():
    """A client that hangs up after it is charged all the same: no further message is needed."""
    exchange = start(body=ASKED)
    exchange.response(SSE)
    assert all(exchange.piece(piece).metadata == {} for piece in CONTENT)
    assert counts(exchange.piece(USAGE_CHUNK).metadata) == COUNTS
    assert exchange.piece(DONE).metadata == {}
    assert counts(exchange.piece(b"", eos=True).metadata) == COUNTS


def cuts(data: bytes, places: list[int]) -> Iterator[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    for begin, end in pairwise(edges):
        yield data[begin:end]


PLACES = st.lists(st.integers(min_value=0, max_value=10_000), max_size=12)


@given(PLACES)
@settings(max_examples=60)
def test_any_cut_of_a_stream_gives_the_same(places):
    exchange = start(body=ASKED)
    exchange.response(SSE)
    output, metadata = exchange.pieces(cuts(STREAM, places))
    assert output == STREAM
    assert counts(metadata) == COUNTS
    assert metadata["response_model"] == "m-2024"


@given(PLACES)
@settings(max_examples=60)
def test_any_cut_of_a_stream_hides_the_usage_that_was_not_asked_for(places):
    exchange = start(body=NOT_ASKED)
    exchange.response(SSE)
    output, metadata = exchange.pieces(cuts(STREAM, places))
    assert output == STREAM_WITHOUT_USAGE
    assert counts(metadata) == COUNTS


@pytest.mark.parametrize("ending", [b"\n\n", b"\r\n\r\n", b"\r\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("space", [b" ", b""], ids=["space", "no space"])
@pytest.mark.parametrize("size", [1, 5, 10_000])
def test_every_form_of_events_is_read(ending, space, size):
    stream = STREAM.replace(b"\n\n", ending).replace(b"data: ", b"data:" + space)
    exchange = start(body=ASKED)
    exchange.response(SSE)
    output, metadata = exchange.pieces(stream[i : i + size] for i in range(0, len(stream), size))
    assert output == stream
    assert counts(metadata) == COUNTS


def test_usage_beside_a_choice_is_taken_out_of_the_chunk():
    exchange = start(body=NOT_ASKED)
    exchange.response(SSE)
    reply = exchange.piece(chunk(**delta("x"), usage=USAGE))
    assert reply.body == chunk(**delta("x"))
    assert counts(reply.metadata) == COUNTS


def test_running_totals_replace_each_other():
    exchange = start(body=ASKED)
    exchange.response(SSE)
    for output in (1, 2, 3):
        usage = {"prompt_tokens": 10, "completion_tokens": output, "total_tokens": 10 + output}
        metadata = exchange.piece(chunk(**delta("x"), usage=usage)).metadata
        assert (metadata["in"], metadata["out"], metadata["total"]) == (10, output, 10 + output)
    exchange.piece(chunk(choices=[], usage=None))
    metadata = exchange.piece(DONE, eos=True).metadata
    assert (metadata["in"], metadata["out"], metadata["total"]) == (10, 3, 13)


def test_the_last_event_counts_without_its_blank_line():
    exchange = start(body=ASKED)
    exchange.response(SSE)
    exchange.piece(b"".join(CONTENT))
    reply = exchange.piece(USAGE_CHUNK.rstrip(b"\n"), eos=True)
    assert counts(reply.metadata) == COUNTS


def test_an_unterminated_last_event_is_not_lost_from_a_cleaned_stream():
    exchange = start(body=NOT_ASKED)
    exchange.response(SSE)
    output, _ = exchange.pieces([b"".join(CONTENT), USAGE_CHUNK, DONE.rstrip(b"\n"), b""])
    assert output == STREAM_WITHOUT_USAGE.rstrip(b"\n")


def test_a_stream_that_comes_as_one_body():
    """Envoy without allow_mode_override ignores the switch: the stream comes whole."""
    exchange = start(body=ASKED)
    exchange.response(SSE)
    assert counts(exchange.piece(STREAM, eos=True).metadata) == COUNTS


def test_a_backend_that_ignores_stream():
    exchange = start(body=ASKED)
    exchange.response({"content-type": "application/json"})
    data = json.dumps(ANSWER).encode()
    output, metadata = exchange.pieces([data[:9], data[9:30], data[30:], b""])
    assert output == data
    assert counts(metadata) == COUNTS


def test_a_backend_that_always_streams():
    exchange = start()
    exchange.response(SSE)
    assert counts(exchange.piece(STREAM, eos=True).metadata) == COUNTS


@dataclass
class Report:
    usage: Any
    expected: dict[str, int]


ZERO = dict.fromkeys(COUNTS, 0)
REPORTS = {
    "absent": Report(None, ZERO),
    "only a total": Report({"total_tokens": 42}, {**ZERO, "total": 42}),
    "no total": Report({"prompt_tokens": 2, "completion_tokens": 3}, {**ZERO, "in": 2, "out": 3, "total": 5}),
    "no prompt": Report({"completion_tokens": 3, "total_tokens": 3}, {**ZERO, "out": 3, "total": 3}),
    "null details": Report(
        {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2, "prompt_tokens_details": None},
        {**ZERO, "in": 1, "out": 1, "total": 2},
    ),
    "negative and strings": Report({"prompt_tokens": -1, "completion_tokens": "9", "total_tokens": True}, ZERO),
    "integral floats": Report(
        {"prompt_tokens": 2.0, "completion_tokens": 1.0, "total_tokens": 3.0}, {**ZERO, "in": 2, "out": 1, "total": 3}
    ),
    "beyond 32 bits": Report(
        {"prompt_tokens": 2**33, "completion_tokens": 1, "total_tokens": 2**33 + 1},
        {**ZERO, "in": 2**33, "out": 1, "total": 2**33 + 1},
    ),
    "a string": Report("many", ZERO),
}


@pytest.mark.parametrize("case", REPORTS.values(), ids=REPORTS)
def test_usage_reports(case):
    exchange = start()
    exchange.response()
    metadata = exchange.piece(json.dumps({"choices": [], "usage": case.usage}).encode(), eos=True).metadata
    assert counts(metadata) == case.expected
    assert metadata["response_model"] == "m"


def test_embeddings_have_no_output():
    exchange = start(path="/v1/embeddings", body=b'{"model":"m","input":"x"}')
    exchange.response()
    body = b'{"data":[{"embedding":"AAAA"}],"model":"e","usage":{"prompt_tokens":8,"total_tokens":8}}'
    metadata = exchange.piece(body, eos=True).metadata
    assert counts(metadata) == {**ZERO, "in": 8, "total": 8}
    assert 'gen_ai_token_type="output"' not in scrape(exchange)


ODD = {"not JSON": b"hello", "null": b"null", "a list": b"[]", "empty": b"", "deep": b"[" * 10_000}


@pytest.mark.parametrize("body", ODD.values(), ids=ODD)
def test_an_answer_that_cannot_be_read_passes(body):
    exchange = start()
    exchange.response()
    reply = exchange.piece(body, eos=True)
    assert reply.body is None
    assert counts(reply.metadata) == ZERO


# --- encodings ---

CODINGS = {
    "gzip": gzip.compress,
    "gzip, two members": lambda data: gzip.compress(data[:50]) + gzip.compress(data[50:]),
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
}


def coding_of(name: str) -> str:
    return name.partition(",")[0]


@pytest.mark.parametrize("name", CODINGS)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"])
def test_an_encoded_answer_passes_encoded_and_is_metered(name, path):
    exchange = start(path=path)
    exchange.response({"content-type": "application/json", "content-encoding": coding_of(name)})
    reply = exchange.piece(CODINGS[name](json.dumps(ANSWER).encode()), eos=True)
    assert reply.body is None
    assert reply.remove == []
    assert reply.metadata["total"] == 15


@pytest.mark.parametrize("name", CODINGS)
@given(places=PLACES)
@settings(max_examples=15)
def test_any_cut_of_an_encoded_stream(name, places):
    encoded = CODINGS[name](STREAM)
    exchange = start(body=ASKED)
    headers = exchange.response({**SSE, "content-encoding": coding_of(name)})
    assert headers.remove == ["content-length"]
    output, metadata = exchange.pieces(cuts(encoded, places))
    assert output == encoded
    assert counts(metadata) == COUNTS


@pytest.mark.parametrize("name", CODINGS)
@given(places=PLACES)
@settings(max_examples=15)
def test_a_cleaned_stream_goes_on_plain(name, places):
    """The coding is taken back at the headers; at the first piece it would be too late."""
    exchange = start(body=NOT_ASKED)
    headers = exchange.response({**SSE, "content-encoding": coding_of(name)})
    assert headers.remove == ["content-length", "content-encoding"]
    output, metadata = exchange.pieces(cuts(CODINGS[name](STREAM), places))
    assert output == STREAM_WITHOUT_USAGE
    assert counts(metadata) == COUNTS


def test_a_flushed_event_is_not_held_back():
    compressor = zlib.compressobj(wbits=31)
    exchange = start(body=NOT_ASKED)
    exchange.response({**SSE, "content-encoding": "gzip"})
    for event in (*CONTENT, DONE):
        assert exchange.piece(compressor.compress(event) + compressor.flush(zlib.Z_SYNC_FLUSH)).body == event


UNREADABLE = {
    "unknown coding": ("foo", b"\x00\x01"),
    "garbage": ("gzip", b"garbage"),
    "cut": ("gzip", gzip.compress(b"x" * 99)[:-5]),
}


@pytest.mark.parametrize(("coding", "body"), UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("status", ["200", "500"])
def test_an_answer_that_cannot_be_decoded_passes(coding, body, status):
    exchange = start()
    exchange.response({"content-type": "application/json", "content-encoding": coding}, status=status)
    reply = exchange.piece(body, eos=True)
    assert reply.body is None
    assert reply.remove == []


def test_a_stream_in_an_unknown_coding_is_not_cleaned():
    exchange = start(body=NOT_ASKED)
    assert exchange.response({**SSE, "content-encoding": "foo"}).remove == ["content-length"]
    assert exchange.pieces([b"\x00", b"\x01", b""])[0] == b"\x00\x01"


@pytest.mark.parametrize("status", ["200", "204", "400"])
@pytest.mark.parametrize("eos", [True, False], ids=["with the headers", "with an empty body"])
def test_an_empty_encoded_body(status, eos):
    exchange = start()
    exchange.response({"content-encoding": "gzip", "content-type": "application/json"}, status=status, eos=eos)
    if not eos:
        assert exchange.piece(b"", eos=True).body is None
    exchange.close()


# --- errors ---


def test_a_json_error_passes_with_its_status_and_headers():
    exchange = start(body=ASKED)
    reply = exchange.response({"content-type": "application/json", "retry-after": "3"}, status="429")
    assert reply.set_list == []
    assert reply.remove == []
    reply = exchange.piece(b'{"error":{"message":"slow down","code":429}}', eos=True)
    assert reply.body is None
    assert reply.metadata == {}


WRAPPED = {
    "text": ({"content-type": "text/plain"}, b"backend timeout", "backend timeout"),
    "no type": ({}, b"x", "x"),
    "problem+json": ({"content-type": "application/problem+json"}, b'{"title":"t"}', '{"title":"t"}'),
    "quotes and newlines": ({"content-type": "text/html"}, b'<a href="x">\n</a>', '<a href="x">\n</a>'),
    "not UTF-8": ({"content-type": "text/plain"}, b"\xff", "\ufffd"),
    "empty": ({"content-type": "text/plain"}, b"", ""),
}


@pytest.mark.parametrize(("headers", "body", "message"), WRAPPED.values(), ids=WRAPPED)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"])
def test_another_error_is_wrapped(headers, body, message, path):
    exchange = start(path=path)
    exchange.response(headers, status="503")
    reply = exchange.piece(body, eos=True)
    error = {"type": "OpenAIBackendError", "code": "503"} | ({"message": message} if message else {})
    assert json.loads(reply.body) == {"type": "error", "error": error}
    assert reply.set == {"content-type": "application/json", "content-length": str(len(reply.body))}
    assert reply.remove == []


def test_a_wrapped_error_loses_its_coding():
    exchange = start()
    exchange.response({"content-type": "text/plain", "content-encoding": "gzip"}, status="400")
    reply = exchange.piece(gzip.compress(b"bad"), eos=True)
    assert json.loads(reply.body)["error"]["message"] == "bad"
    assert reply.remove == ["content-encoding"]
    assert reply.set["content-length"] == str(len(reply.body))


# --- responses that nobody asked us about ---


def test_a_response_before_any_attempt_passes():
    exchange = Gateway(CONFIG).exchange()
    exchange.request(b'{"model":"m"}')
    assert exchange.response({"content-type": "text/plain"}, status="404").is_neutral
    assert exchange.piece(b"no route", eos=True).is_neutral


@pytest.mark.parametrize("first", ["response", "piece"])
def test_a_response_without_a_request_passes(first):
    exchange = Gateway(CONFIG).exchange()
    if first == "response":
        assert exchange.response({"content-type": "text/plain"}, status="403").is_neutral
    assert exchange.piece(b"RBAC: access denied", eos=True).is_neutral
    exchange.close()


def test_trailers_first():
    exchange = Gateway(CONFIG).exchange()
    assert exchange.send(exchange.router, response_trailers()).is_neutral


# --- costs ---


def test_a_failing_rule_harms_nothing_else():
    config = {
        **CONFIG,
        "llmRequestCosts": [
            cost("bad", "CEL", cel="cached_input_tokens - input_tokens"),
            cost("unknown", "Nonsense"),
            cost("good", "CEL", cel="input_tokens * 2u"),
        ],
    }
    exchange = start(config)
    exchange.response()
    reply = exchange.piece(json.dumps(ANSWER).encode(), eos=True)
    assert reply.metadata["good"] == 22
    assert "bad" not in reply.metadata
    assert "unknown" not in reply.metadata
    assert 'extproc_cost_errors_total{metadata_key="bad"} 1' in scrape(exchange)


SCOPES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, int]]] = {
    "the route's rule": (
        [cost("k", "CEL", cel="3", route="default/chat"), cost("k", "CEL", cel="99", route="x/y")],
        [],
        {"k": 3},
    ),
    "the other order": ([cost("k", "CEL", cel="99", route="x/y"), cost("k", "CEL", cel="3")], [], {"k": 3}),
    "the last match wins": ([cost("k", "CEL", cel="1"), cost("k", "CEL", cel="2")], [], {"k": 2}),
    "route before global": ([cost("k", "CEL", cel="0")], [{"metadataKey": "k", "type": "CEL", "cel": "7"}], {"k": 0}),
    "global where no route matches": (
        [cost("k", "CEL", cel="0", route="x/y")],
        [{"metadataKey": "k", "type": "CEL", "cel": "7"}],
        {"k": 7},
    ),
    "no match, no key": ([cost("k", route="x/y")], [], {}),
    "model filter": ([cost("k", "CEL", cel="1", model="other"), cost("k", "CEL", cel="2", model="m")], [], {"k": 2}),
    "backend filter": (
        [cost("k", "CEL", cel="1", backend="default/other"), cost("j", "CEL", cel="2", backend="default/openai")],
        [],
        {"j": 2},
    ),
    "a failed route rule is not replaced by a global one": (
        [cost("k", "CEL", cel="cached_input_tokens - input_tokens")],
        [{"metadataKey": "k", "type": "CEL", "cel": "7"}],
        {},
    ),
}


@pytest.mark.parametrize(("route", "global_", "expected"), SCOPES.values(), ids=SCOPES)
def test_which_rule_counts(route, global_, expected):
    exchange = start({**CONFIG, "llmRequestCosts": route, "globalLLMRequestCosts": global_})
    exchange.response()
    metadata = exchange.piece(json.dumps(ANSWER).encode(), eos=True).metadata
    assert {key: metadata[key] for key in ("k", "j") if key in metadata} == expected


def test_costs_see_the_override_and_the_names():
    cel = "model == 'm-2' && backend.endsWith('/ref/0') && route_name == 'default/chat' ? total_tokens : 0u"
    config = {
        **CONFIG,
        "backends": [openai_backend(modelNameOverride="m-2")],
        "llmRequestCosts": [cost("k", "CEL", cel=cel)],
    }
    exchange = start(config)
    exchange.response()
    metadata = exchange.piece(json.dumps(ANSWER).encode(), eos=True).metadata
    assert metadata["k"] == 15
    assert metadata["model_name_override"] == "m-2"


# --- endings and accounting ---


def scrape(exchange: Exchange) -> str:
    exchange.close()
    return exposition.render(exchange.gateway.metrics.registry)


def durations(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("gen_ai_server_request_duration_seconds_count")]


def test_a_request_is_counted_once():
    exchange = start(body=ASKED)
    exchange.response(SSE)
    exchange.pieces([STREAM, b""])
    exchange.piece(b"", eos=True)
    text = scrape(exchange)
    (line,) = durations(text)
    assert line.endswith(" 1")
    assert "error_type" not in line
    assert 'gen_ai_original_model="m"' in line
    assert 'gen_ai_response_model="m-2024"' in line
    assert text.count('gen_ai_token_type="input",') > 0


ENDINGS = {
    "before the headers": ([], "client_cancelled"),
    "after the headers": ([None], "client_cancelled"),
    "in mid-stream": ([None, CONTENT[0]], "client_cancelled"),
    "after the usage, before the end": ([None, *CONTENT, USAGE_CHUNK], "client_cancelled"),
    "after [DONE], as with trailers": ([None, STREAM], None),
}


@pytest.mark.parametrize(("played", "error_type"), ENDINGS.values(), ids=ENDINGS)
def test_a_stream_that_ends_early_is_counted_once(played, error_type):
    exchange = start(body=ASKED)
    for piece in played:
        if piece is None:
            exchange.response(SSE)
        else:
            exchange.piece(piece)
    exchange.close()
    exchange.close()
    text = scrape(exchange)
    (line,) = durations(text)
    assert line.endswith(" 1")
    assert (f'error_type="{error_type}"' in line) == (error_type is not None)
    reported = any(piece is not None and USAGE_CHUNK in piece for piece in played)
    assert ("gen_ai_client_token_usage_count" in text) == reported
    assert exchange.gateway.processor.requests_in_flight == 0


def test_trailers_end_a_stream():
    exchange = start(body=ASKED)
    exchange.response(SSE)
    exchange.piece(b"".join(CONTENT) + USAGE_CHUNK.rstrip(b"\n"))
    reply = exchange.send(exchange.router, response_trailers())
    assert reply.kind == "response_trailers"
    assert counts(reply.metadata) == COUNTS
    (line,) = durations(scrape(exchange))
    assert "error_type" not in line


def test_a_buffered_body_before_trailers_has_no_end_of_stream():
    exchange = start()
    exchange.response()
    assert counts(exchange.piece(json.dumps(ANSWER).encode(), eos=False).metadata) == COUNTS


def test_a_retried_attempt_is_counted_as_failed():
    exchange = start({**CONFIG, "backends": [openai_backend(), openai_backend(SECOND_BACKEND)]})
    exchange.attempt(SECOND_BACKEND)
    exchange.response()
    exchange.piece(json.dumps(ANSWER).encode(), eos=True)
    lines = durations(scrape(exchange))
    assert len(lines) == 2
    assert sum('error_type="_OTHER"' in line for line in lines) == 1


def test_latency_of_a_stream():
    exchange = start(body=ASKED)
    clock = exchange.gateway.clock
    clock.advance(1.0004)
    exchange.response(SSE)
    exchange.piece(CONTENT[0])
    clock.advance(3)
    exchange.piece(USAGE_CHUNK)
    metadata = exchange.piece(DONE, eos=True).metadata
    assert metadata["token_latency_ttft"] == 1000
    assert metadata["token_latency_itl"] == pytest.approx(1000)
    text = scrape(exchange)
    assert "gen_ai_server_time_to_first_token_seconds_sum" in text
    assert "gen_ai_server_time_per_output_token_seconds_count" in text


def test_a_response_model_that_differs_from_the_request():
    exchange = start()
    exchange.response()
    exchange.piece(json.dumps(ANSWER).encode(), eos=True)
    text = scrape(exchange)
    assert 'gen_ai_request_model="m"' in text
    assert 'gen_ai_provider_name="openai"' in text


def test_duplicate_request_ids_do_not_meet():
    gateway = Gateway({**CONFIG, "backends": [openai_backend(modelNameOverride="")]})
    first, second = gateway.exchange(), gateway.exchange()
    first.request(b'{"model":"one","stream":true}', {"x-request-id": "same"})
    second.request(b'{"model":"two","stream":true}', {"x-request-id": "same"})
    assert first.attempt().body.startswith(b'{"model":"one"')
    first.close()
    assert second.attempt().body.startswith(b'{"model":"two"')
    second.close()
    assert gateway.processor.requests_in_flight == 0


def test_backend_names_in_metadata_are_short():
    exchange = start()
    exchange.response()
    metadata = exchange.piece(b"{}", eos=True).metadata
    assert metadata["ai_service_backend_name"] == "/".join(BACKEND.split("/")[:2])
