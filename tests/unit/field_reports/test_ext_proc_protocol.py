"""Field reports about ext_proc itself: phases in any order, headers, lengths, endings, faults."""

import json
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import structlog

from extproc.auth.base import ConfiguredCredential
from extproc.endpoints.chat_completions import ChatCompletions
from extproc.errors import StreamFailure
from extproc.exchange import names
from extproc.exchange.headers import listed_headers
from extproc.translate.passthrough import PassThrough
from protos.ext_proc_pb2 import HeaderMap, HeaderValue, ProcessingRequest
from tests.support.field_reports import (
    ASKED,
    CHAT,
    CONFIG,
    DONE,
    JSON,
    NOT_ASKED,
    PATHS,
    PLAIN,
    SSE,
    TRIPLE,
    WatchedGateway,
    answer,
    delta,
    event,
    header_values,
    report,
    request_trailers,
)
from tests.support.playbook import (
    BACKEND,
    DEFAULT_HEADERS,
    ROUTE,
    openai_backend,
    request_body,
    request_headers,
    response_body,
    response_headers,
    response_trailers,
)

ANSWER = json.dumps(answer(CHAT)).encode()
KEY = "sk-planted-secret"
INNER = "what nobody but the log may know"
KEYED = openai_backend(auth={"apiKey": {"key": KEY}})


class TestLengths:
    """BR-23: a body of another length comes with its length, counted in bytes of what is sent."""

    @pytest.mark.parametrize("text", ["plain", "grüße", "\U0001f600" * 20, "\u2028"])
    @pytest.mark.parametrize("override", ["m", "a-much-longer-model-name", "模型"])
    def test_a_rewritten_request(self, open_gateway, text, override):
        gateway = open_gateway({**CONFIG, "backends": [openai_backend(modelNameOverride=override)]})
        sent = json.dumps({"model": "m", "messages": [text]}, ensure_ascii=False).encode()
        exchange = gateway.exchange()
        exchange.request(sent, {"content-length": str(len(sent))})
        reply = exchange.attempt()
        assert reply.set["content-length"] == str(len(reply.body)) == str(int(reply.metadata["content_length"]))
        assert json.loads(reply.body) == {"model": override, "messages": [text]}

    def test_a_request_that_stays_needs_none(self, gateway):
        exchange = gateway.exchange()
        exchange.request(PLAIN, {"content-length": str(len(PLAIN))})
        reply = exchange.attempt()
        assert "content-length" not in reply.set
        assert "content_length" not in reply.metadata

    @pytest.mark.parametrize("message", ["short", "ü" * 5000, "\U0001f600", '"\\\n\x00'])
    def test_a_rewritten_response(self, gateway, message):
        exchange = gateway.start()
        exchange.response({"content-type": "text/plain", "content-length": str(len(message.encode()))}, status="500")
        reply = exchange.piece(message.encode(), eos=True)
        assert reply.set["content-length"] == str(len(reply.body))
        assert json.loads(reply.body)["error"]["message"] == message

    def test_a_rewritten_stream_has_no_length(self, gateway):
        exchange = gateway.start(NOT_ASKED)
        assert "content-length" in exchange.response({**SSE, "content-length": "999"}).remove
        assert exchange.piece(event(report()) + DONE, eos=True).set == {}


class TestRepeatedEnds:
    """BR-26: after the end of the body, nothing of it is read again."""

    @pytest.mark.parametrize("first", [b'{"model":', b""])
    @pytest.mark.parametrize("again", [b'"m"}', b'{"model":"other"}', b"", b"\xff"])
    @pytest.mark.parametrize("eos", [True, False])
    @pytest.mark.parametrize("mode", ["STREAMED", "BUFFERED", None])
    def test_of_the_request(self, gateway, first, again, eos, mode):
        exchange = gateway.exchange()
        rest = b'"m"}' if first else b'{"model":"m"}'
        if mode == "BUFFERED":
            first, rest = b"", first + rest
        exchange.headers_with_modes(request=mode) if mode else exchange.headers()
        if mode != "BUFFERED":
            assert exchange.body(first, eos=False).is_neutral
        routed = exchange.body(rest)
        assert routed.set[names.MODEL] == "m"
        with structlog.testing.capture_logs() as logs:
            assert exchange.body(again, eos=eos).is_neutral
        assert [entry["log_level"] for entry in logs] == ["warning"]
        assert exchange.attempt().body is None
        exchange.response()
        assert exchange.piece(ANSWER, eos=True).metadata["total"] == 15

    def test_of_the_response(self, gateway):
        exchange = gateway.start()
        exchange.response()
        assert exchange.piece(ANSWER, eos=True).metadata["total"] == 15
        assert exchange.piece(ANSWER, eos=True).is_neutral
        exchange.close()
        assert gateway.count("gen_ai_client_token_usage_sum", 'type="input"') == 11

    def test_after_a_refusal(self, gateway):
        exchange = gateway.exchange()
        exchange.headers()
        assert exchange.body(b"[]").status == 400
        assert exchange.body(PLAIN).is_neutral


@pytest.mark.parametrize("mode", ["FULL_DUPLEX_STREAMED", "GRPC"])
@pytest.mark.parametrize("side", ["request", "response"])
@pytest.mark.parametrize("path", [*PATHS, "/v1/models"])
def test_a_mode_that_is_not_taken_is_refused_at_once(gateway, mode, side, path):
    """BR-27: no hang and no lost data: the first reply says that the filter is set up wrongly."""
    exchange = gateway.exchange()
    reply = exchange.headers_with_modes(**{side: mode}, headers={":path": path})
    assert reply.status == 503
    assert reply.json["error"]["type"] == "ServiceUnavailable"
    for message in (request_body(PLAIN, eos=False), request_body(b""), request_trailers()):
        assert exchange.send(exchange.router, message).is_neutral


class TestHeaderValues:
    """BR-28: values go out as `raw_value`; they come in as either, in any bytes."""

    def test_nothing_but_raw_values(self, open_gateway):
        backend = openai_backend(
            modelNameOverride="o",
            auth={"apiKey": {"key": "k"}},
            httpHeaderMutation={"set": [{"name": "x", "value": "ü"}]},
        )
        gateway = open_gateway({**CONFIG, "backends": [backend]})
        exchange = gateway.exchange()
        replies = [exchange.headers(), exchange.body(NOT_ASKED), exchange.attempt(), exchange.response(SSE)]
        replies += [exchange.piece(event(report()), eos=True), gateway.exchange().headers({":path": "/v1/models"})]
        refused = gateway.exchange()
        refused.headers()
        replies.append(refused.body(b"nonsense"))
        values = [value for reply in replies for value in header_values(reply.message)]
        assert len(values) > 10
        assert all(value.raw_value and not value.value for value in values)

    def test_every_set_overwrites(self, open_gateway):
        gateway = open_gateway({**CONFIG, "backends": [KEYED]})
        exchange = gateway.exchange()
        replies = [exchange.headers(), exchange.body(NOT_ASKED), exchange.attempt()]
        for reply in replies:
            for option in getattr(reply.message, reply.kind).response.header_mutation.set_headers:
                assert option.append_action == 2

    def test_the_older_field_is_read(self, gateway):
        message = ProcessingRequest()
        older = [HeaderValue(key=name, value=value.encode()) for name, value in DEFAULT_HEADERS.items()]
        message.request_headers.headers = HeaderMap(
            headers=[header.SerializeToString() for header in older]
        ).SerializeToString()
        exchange = gateway.exchange()
        exchange.carried = dict(DEFAULT_HEADERS)
        reply = exchange.send(exchange.router, message)
        assert reply.kind == "request_headers"
        assert reply.set[names.INTERNAL_REQUEST_ID].startswith("req-1-")

    def test_raw_value_goes_first(self, gateway):
        message = request_headers(DEFAULT_HEADERS)
        headers = listed_headers(message.request_headers.headers)
        for header in headers:
            header.value = b"/wrong"
        message.request_headers.headers = HeaderMap(
            headers=[header.SerializeToString() for header in headers]
        ).SerializeToString()
        assert gateway.exchange().send(gateway.exchange().router, message).kind == "request_headers"

    @pytest.mark.parametrize(
        "name", ["x-request-id", "content-type", "accept-encoding", "x-any", "content-length", names.MODEL]
    )
    def test_bytes_that_are_no_text(self, gateway, name):
        exchange = gateway.exchange()
        headers = [*((key, value) for key, value in DEFAULT_HEADERS.items() if key != name), (name, b"\xff\xfe")]
        assert exchange.send(exchange.router, request_headers(headers)).kind == "request_headers"
        exchange.body(PLAIN)
        attributes = {names.BACKEND_OF_HOST: BACKEND, names.ROUTE_NAME: ROUTE}
        carried = [*headers, (names.INTERNAL_REQUEST_ID, exchange.router._router.internal_id)]
        assert (
            exchange.send(gateway.stream(), request_headers(carried, attributes=attributes)).kind == "request_headers"
        )
        exchange.send(exchange.router, response_headers([(":status", "200"), (name, b"\xff")]))
        assert exchange.piece(ANSWER, eos=True).metadata["total"] == 15

    @pytest.mark.parametrize("name", ["authorization", "x-api-key", "api-key", "x-goog-api-key"])
    @pytest.mark.parametrize("method", ["apiKey", "azureAPIKey", "anthropicAPIKey"])
    def test_a_client_credential_that_is_no_text_does_not_travel(self, open_gateway, name, method):
        """A credential of the client is stripped by its name, whatever its bytes are."""
        gateway = open_gateway({**CONFIG, "backends": [openai_backend(auth={method: {"key": KEY}})]})
        removed, set_ = self.upstream(gateway, (name, b"Bearer \xe9"))
        assert name in removed or name in {key.lower() for key in set_}

    def test_a_configured_removal_that_is_no_text(self, open_gateway):
        backend = openai_backend(httpHeaderMutation={"remove": ["x-internal"]})
        removed, _ = self.upstream(open_gateway({**CONFIG, "backends": [backend]}), ("x-internal", b"\xe9"))
        assert "x-internal" in removed

    def test_a_forged_internal_header_that_is_no_text(self, gateway):
        exchange = gateway.exchange()
        headers = [*DEFAULT_HEADERS.items(), ("x-ai-eg-upstream-host", b"\xe9"), ("x-ai-eg-other", b"\xe9")]
        reply = exchange.send(exchange.router, request_headers(headers))
        assert {"x-ai-eg-upstream-host", "x-ai-eg-other"} <= set(reply.remove)

    def upstream(self, gateway: WatchedGateway, header: tuple[str, bytes]) -> tuple[list[str], dict[str, str]]:
        exchange = gateway.exchange()
        headers = [*DEFAULT_HEADERS.items(), header]
        exchange.send(exchange.router, request_headers(headers))
        exchange.body(PLAIN)
        carried = [*headers, (names.INTERNAL_REQUEST_ID, exchange.router._router.internal_id)]
        reply = exchange.send(gateway.stream(), request_headers(carried, attributes={names.BACKEND_OF_HOST: BACKEND}))
        return reply.remove, reply.set

    def test_duplicates(self, gateway):
        """The last value counts, and a name is removed with all of its values."""
        exchange = gateway.exchange()
        headers = [
            *DEFAULT_HEADERS.items(),
            ("content-type", "multipart/form-data"),
            ("content-type", "application/json"),
        ]
        headers += [
            (names.MODEL, "a"),
            (names.MODEL, "b"),
            (names.INTERNAL_REQUEST_ID, "x"),
            (names.INTERNAL_REQUEST_ID, "y"),
        ]
        reply = exchange.send(exchange.router, request_headers(headers))
        assert reply.remove.count(names.MODEL) >= 1
        assert reply.set[names.INTERNAL_REQUEST_ID].startswith("req-1-id-")
        assert exchange.body(PLAIN).kind == "request_body"


class TestResets:
    """BR-30: Envoy resets streams; that is how a stream ends, and nothing is left or logged."""

    STEPS = ("headers", "body", "attempt", "response", "piece", "end")

    @pytest.mark.parametrize("steps", range(len(STEPS) + 1))
    @pytest.mark.parametrize("body", [PLAIN, ASKED, NOT_ASKED])
    def test_a_reset_after_any_step(self, gateway, steps, body):
        with structlog.testing.capture_logs() as logs:
            for _ in range(50):
                exchange = gateway.exchange()
                script: list[Callable[[], Any]] = [
                    exchange.headers,
                    lambda e=exchange: e.body(body),
                    exchange.attempt,
                    lambda e=exchange: e.response(JSON if body is PLAIN else SSE),
                    lambda e=exchange: e.piece(b"", eos=False) if body is PLAIN else e.piece(event(delta("a"))),
                    lambda e=exchange: e.piece(event(report()), eos=True),
                ]
                for step in script[:steps]:
                    step()
                exchange.close()
                exchange.close()
        assert [entry for entry in logs if entry["log_level"] in ("warning", "error")] == []
        assert gateway.processor.requests_in_flight == 0

    @pytest.mark.parametrize("body", [ASKED, NOT_ASKED])
    def test_a_reset_in_an_encoded_stream_says_nothing(self, gateway, body):
        import gzip

        with structlog.testing.capture_logs() as logs:
            exchange = gateway.start(body)
            exchange.response({**SSE, "content-encoding": "gzip"})
            exchange.piece(gzip.compress(event(delta("a")) * 50)[:40])
            exchange.close()
        assert [entry for entry in logs if entry["log_level"] in ("warning", "error")] == []

    def test_the_attempts_stream_may_go_first_or_last(self, gateway):
        for router_first in (True, False):
            exchange = gateway.start(ASKED)
            streams = [exchange.router, *exchange.attempts]
            for stream in streams if router_first else streams[::-1]:
                stream.close()

    def test_a_close_does_not_raise(self, gateway, monkeypatch):
        """What fails while the rest of an answer is read must not reach the transport; the attempt is counted."""
        exchange = gateway.start(ASKED)
        exchange.response(SSE)
        exchange.piece(b"data: {")
        monkeypatch.setattr(PassThrough, "response_body", lambda *_, **__: 1 / 0)
        exchange.router.close()
        assert gateway.processor.requests_in_flight == 0


class TestFaults:
    """BR-31: a fault of ours is answered at once and in the client's shape; it shows an id and no more."""

    def fail(self, monkeypatch: pytest.MonkeyPatch, target: type, name: str) -> None:
        def broken(*_: Any, **__: Any) -> Any:
            raise RuntimeError(f"Traceback {INNER}")

        monkeypatch.setattr(target, name, broken)

    REQUEST_SIDE: ClassVar = {
        "parsing": (ChatCompletions, "parse"),
        "translation": (PassThrough, "request"),
        "authentication": (ConfiguredCredential, "authenticate"),
    }

    @pytest.mark.parametrize(("target", "name"), REQUEST_SIDE.values(), ids=REQUEST_SIDE)
    def test_in_a_request_phase(self, open_gateway, monkeypatch, target, name):
        self.fail(monkeypatch, target, name)
        exchange = open_gateway({**CONFIG, "backends": [KEYED]}).exchange()
        exchange.headers()
        with structlog.testing.capture_logs() as logs:
            reply = exchange.body(PLAIN)
            if reply.kind != "immediate_response":
                reply = exchange.attempt()
        assert reply.status == 500
        assert reply.json["error"]["type"] == "InternalServerError"
        assert reply.json["error"]["message"].startswith("internal error, id ")
        assert INNER not in str(reply.message)
        (fault,) = (entry for entry in logs if entry["log_level"] == "error")
        assert fault["fault_id"] in reply.json["error"]["message"]
        assert fault["request_id"] == "req-1"

    @pytest.mark.parametrize("error", [KeyError, IndexError, ValueError, RecursionError, MemoryError, UnicodeError])
    def test_whatever_its_class_the_log_has_its_cause(self, gateway, monkeypatch, error):
        def broken(*_: Any, **__: Any) -> Any:
            raise error("cause")

        monkeypatch.setattr(PassThrough, "request", broken)
        exchange = gateway.exchange()
        exchange.request(PLAIN)
        with structlog.testing.capture_logs() as logs:
            assert exchange.attempt().status == 500
        (fault,) = (entry for entry in logs if entry["log_level"] == "error")
        assert isinstance(fault.get("exc_info"), error)

    @pytest.mark.parametrize("name", ["response_headers", "response_body"])
    def test_before_the_client_has_its_status(self, gateway, monkeypatch, name):
        self.fail(monkeypatch, PassThrough, name)
        exchange = gateway.start()
        reply = exchange.response()
        if reply.kind != "immediate_response":
            reply = exchange.piece(ANSWER, eos=True)
        assert reply.status == 500
        assert INNER not in str(reply.message)

    def test_after_it_has(self, gateway, monkeypatch):
        exchange = gateway.start(ASKED)
        exchange.response(SSE)
        self.fail(monkeypatch, PassThrough, "response_body")
        with pytest.raises(StreamFailure) as failed:
            exchange.piece(event(delta("a")))
        assert failed.value.code == StreamFailure.INTERNAL
        assert INNER not in failed.value.message
        monkeypatch.undo()

    def test_one_stream_does_not_harm_another(self, gateway, monkeypatch):
        other = gateway.start(ASKED)
        other.response(SSE)
        with monkeypatch.context() as patch:
            self.fail(patch, PassThrough, "request")
            failed = gateway.exchange()
            failed.request(PLAIN)
            assert failed.attempt().status == 500
            # The answer of ours comes back through the router's stream, untouched.
            assert failed.response(JSON, status="500").is_neutral
            assert failed.piece(b"x", eos=True).is_neutral
        assert other.play([event(report()) + DONE]).tokens == TRIPLE


class TestWithoutARequest:
    """BR-32: another filter answers; what comes of it passes, whatever comes first."""

    MESSAGES: ClassVar = {
        "headers": lambda: response_headers([(":status", "403"), ("content-type", "text/plain")]),
        "headers at the end": lambda: response_headers([(":status", "403")], eos=True),
        "no headers at all": lambda: response_headers([]),
        "body": lambda: response_body(b"RBAC: access denied"),
        "piece": lambda: response_body(b"RBAC", eos=False),
        "trailers": response_trailers,
        "request trailers": request_trailers,
        "request body": lambda: request_body(b"x"),
    }

    @pytest.mark.parametrize("first", MESSAGES.values(), ids=MESSAGES)
    @pytest.mark.parametrize("second", MESSAGES.values(), ids=MESSAGES)
    def test_as_the_first_messages(self, gateway, first, second):
        exchange = gateway.exchange()
        for message in (first(), second()):
            assert exchange.send(exchange.router, message).is_neutral
        exchange.close()
        assert gateway.count("gen_ai_server_request_duration_seconds_count") == 0

    @pytest.mark.parametrize("after", ["headers", "body", "refused", "unknown path", "list"])
    def test_after_a_part_of_the_request(self, gateway, after):
        exchange = gateway.exchange()
        exchange.headers({":path": {"unknown path": "/x", "list": "/v1/models"}.get(after, CHAT)})
        if after == "refused":
            exchange.body(b"[]")
        elif after == "body":
            exchange.body(PLAIN)
        for make in (self.MESSAGES["headers"], self.MESSAGES["body"], self.MESSAGES["trailers"]):
            reply = exchange.send(exchange.router, make())
            assert reply.is_neutral

    def test_an_empty_message(self, gateway):
        """An empty oneof is no phase at all; there is no reply of its kind."""
        with pytest.raises(StreamFailure) as failed:
            gateway.stream().feed(b"")
        assert failed.value.code == StreamFailure.UNKNOWN

    def test_a_local_answer_after_the_attempt_is_in_the_clients_shape(self, gateway):
        exchange = gateway.start()
        exchange.response({"content-type": "text/plain"}, status="503")
        reply = exchange.piece(b"upstream connect error", eos=True)
        assert json.loads(reply.body)["error"]["message"] == "upstream connect error"

    @pytest.mark.parametrize(
        "status", ["", "abc", "2", "20", "2000", "99", "100", "101", "103", "301", "304", "-200", " 200"]
    )
    def test_odd_statuses_are_errors(self, gateway, status):
        exchange = gateway.start(ASKED)
        headers = exchange.response(JSON, status=status)
        assert not headers.message.HasField("mode_override")
        assert exchange.piece(b"{}", eos=True).metadata == {}
        exchange.close()
        assert gateway.count("gen_ai_server_request_duration_seconds_count", 'error_type="_OTHER"') == 1

    def test_no_status_is_an_error(self, gateway):
        exchange = gateway.start()
        exchange.send(exchange.router, response_headers([("content-type", "application/json")]))
        assert exchange.piece(b"{}", eos=True).metadata == {}


class TestRequestIds:
    """BR-33: requests are told apart by an id of ours, whatever a client claims."""

    IDS: ClassVar = ["same", None, "", "i" * 10_240, b"\xff\xfe", "grü".encode()[:-1]]

    @pytest.mark.parametrize("request_id", IDS, ids=["equal", "none", "empty", "10 kB", "no text", "cut text"])
    def test_interleaved(self, gateway, request_id):
        exchanges = []
        for model in ("one", "two", "three"):
            exchange = gateway.exchange()
            headers = [(k, v) for k, v in DEFAULT_HEADERS.items() if k != "x-request-id"]
            headers += [("x-request-id", request_id)] if request_id is not None else []
            reply = exchange.send(exchange.router, request_headers(headers))
            exchange.carried = {k: v for k, v in headers if isinstance(v, str)} | reply.set
            exchange.body(json.dumps({"model": model, "stream": True}).encode())
            exchanges.append(exchange)
        assert len({exchange.carried[names.INTERNAL_REQUEST_ID] for exchange in exchanges}) == 3
        for exchange, model in zip(exchanges, ("one", "two", "three"), strict=True):
            assert json.loads(exchange.attempt().body)["model"] == model
        exchanges[0].close()
        for exchange in exchanges[1:]:
            exchange.response(SSE)
            assert exchange.play([event(report()) + DONE]).tokens == TRIPLE

    def test_a_forged_id_names_no_other_request(self, gateway):
        victim = gateway.start(ASKED)
        forged = gateway.exchange().headers({names.INTERNAL_REQUEST_ID: "req-1-id-999", "x-request-id": "req-1"})
        assert forged.kind == "request_headers"
        victim.response(SSE)
        assert victim.play([event(report()) + DONE]).tokens == TRIPLE

    def test_an_id_that_a_backend_has_seen_harms_nobody(self, gateway):
        """Backends see the id of a request in flight; a client that repeats it must not touch that request."""
        victim = gateway.start(ASKED)
        seen = victim.carried[names.INTERNAL_REQUEST_ID]
        gateway.exchange().headers({names.INTERNAL_REQUEST_ID: seen})
        victim.response(SSE)
        assert victim.play([event(report()) + DONE]).tokens == TRIPLE

    def test_an_attempt_without_attributes_is_not_let_through(self, open_gateway):
        """Should the upstream-level filter send none, the request must not go on with the client's model and key."""
        gateway = open_gateway({**CONFIG, "backends": [KEYED]})
        exchange = gateway.exchange()
        exchange.request(PLAIN)
        reply = exchange.send(gateway.stream(), request_headers(exchange.carried))
        assert reply.kind == "immediate_response"

    def test_an_attempt_after_its_request(self, gateway):
        exchange = gateway.exchange()
        exchange.request(PLAIN)
        exchange.close()
        assert exchange.attempt().status == 500


class TestRequestBodies:
    """BR-37: buffered or in pieces, small or large: the same request comes of it, up to a cap of ours."""

    SIZES = (32_768, 32_769, 1_000_000)

    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.parametrize("mode", ["BUFFERED", "BUFFERED_PARTIAL", "STREAMED"])
    @pytest.mark.parametrize("path", PATHS)
    def test_every_mode(self, open_gateway, size, mode, path):
        gateway = open_gateway({**CONFIG, "backends": [openai_backend(modelNameOverride="real")]})
        filler = "x" * (size - 40)
        body = json.dumps({"input": filler, "model": "m"}).encode()
        exchange = gateway.exchange()
        exchange.headers_with_modes(request=mode, headers={":path": path, "content-length": str(len(body))})
        step = 65_536 if mode == "STREAMED" else len(body)
        pieces = [body[at : at + step] for at in range(0, len(body), step)]
        replies = [exchange.body(piece, eos=index == len(pieces) - 1) for index, piece in enumerate(pieces)]
        assert all(reply.is_neutral for reply in replies[:-1])
        assert replies[-1].set[names.MODEL] == "m"
        assert exchange.attempt().body == body[: -len('"m"}')] + b'"real"}'

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize("pieces", [[b"x" * 101], [b"x" * 50, b"x" * 51], [b"x" * 100, b"", b"x"]])
    def test_over_the_cap(self, open_gateway, path, pieces):
        exchange = open_gateway(CONFIG, max_body_bytes=100).exchange()
        exchange.headers_with_modes(request="STREAMED", headers={":path": path})
        replies = [exchange.body(piece, eos=False) for piece in pieces]
        assert replies[-1].status == 413
        assert replies[-1].json["error"]["type"] == "RequestTooLarge"
        assert exchange.body(b"x").is_neutral

    def test_the_cap_itself_is_fine(self, open_gateway):
        body = b'{"model":"m","x":"' + b"y" * 80 + b'"}'
        exchange = open_gateway(CONFIG, max_body_bytes=len(body)).exchange()
        exchange.headers({"content-length": str(len(body))})
        assert exchange.body(body).set[names.MODEL] == "m"

    @pytest.mark.parametrize("declared", ["101", "99999999999999999999", "1" * 5000])
    def test_a_declared_length_over_the_cap(self, open_gateway, declared):
        exchange = open_gateway(CONFIG, max_body_bytes=100).exchange()
        assert exchange.headers({"content-length": declared}).status == 413

    @pytest.mark.parametrize("declared", ["", "abc", "-1", "1e9", "٣", "0x10", " 5 "])
    def test_a_declared_length_that_is_none(self, gateway, declared):
        exchange = gateway.exchange()
        exchange.headers({"content-length": declared})
        assert exchange.body(PLAIN).set[names.MODEL] == "m"

    def test_a_client_that_stops_in_the_middle(self, gateway):
        exchange = gateway.exchange()
        exchange.headers_with_modes(request="STREAMED")
        exchange.body(b'{"model":"m","x":"' + b"y" * 100_000, eos=False)
        exchange.close()
        assert exchange.router._router._pieces == []

    @pytest.mark.parametrize("body", [b'{"model":"m"', b"", b'{"model":"m","x":"', b"nonsense"])
    def test_a_cut_body_before_trailers_is_refused(self, gateway, body):
        """A buffered body is one message, so what is cut there stays cut; nothing more can come."""
        exchange = gateway.exchange()
        exchange.headers_with_modes(request="BUFFERED")
        assert exchange.body(body, eos=False).status == 400

    def test_an_attempt_before_the_body(self, gateway):
        exchange = gateway.exchange()
        exchange.headers_with_modes(request="STREAMED")
        exchange.body(b'{"model":', eos=False)
        reply = exchange.attempt()
        assert reply.status == 503
