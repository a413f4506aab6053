"""Field reports about streams: events cut anywhere, usage that was forced, encodings, endings."""

import gzip
import json
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.costs import CostFormula
from extproc.translate import openai_usage
from tests.support.field_reports import (
    ASKED,
    CHAT,
    CODINGS,
    COMPLETIONS,
    CONFIG,
    DONE,
    JSON,
    NOT_ASKED,
    PLAIN,
    SSE,
    STREAMING_PATHS,
    TRIPLE,
    USAGE,
    ZERO,
    WatchedExchange,
    WatchedGateway,
    answer,
    cut,
    cuts,
    delta,
    event,
    play,
    report,
    streaming,
    text,
    watched,
)
from tests.support.playbook import SECOND_BACKEND, openai_backend, response_trailers

CHUNK = {CHAT: delta, COMPLETIONS: text}


def chunks(path: str) -> list[bytes]:
    make = CHUNK[path]
    return [event(make("grüße ")), event(make('\U0001f600, "usage": 1')), event(make("", finish_reason="stop"))]


@pytest.mark.parametrize("path", STREAMING_PATHS)
def test_any_cut_gives_the_same_usage_and_bytes(gateway, path):
    """BR-01: an event that is spread over several body messages is still read, and its bytes pass unchanged."""
    stream = b"".join([*chunks(path), event(report()), DONE])
    for pieces in cuts(stream):
        played = play(gateway, pieces, path=path)
        assert played.tokens == TRIPLE
        assert played.output == stream


@pytest.mark.parametrize("path", STREAMING_PATHS)
def test_any_cut_of_a_cleaned_stream_gives_the_same(gateway, path):
    """BR-10: the usage chunk that the client did not ask for stays away, wherever it is cut."""
    rest = chunks(path)
    stream = b"".join([*rest, event(report()), DONE])
    for pieces in cuts(stream):
        played = play(gateway, pieces, NOT_ASKED, path)
        assert played.tokens == TRIPLE
        assert played.output == b"".join([*rest, DONE])


STYLES = {
    "no space": ({"prefix": b"data:"}, b"data:[DONE]\n\n"),
    "two spaces": ({"prefix": b"data:  "}, DONE),
    "CRLF": ({"ending": b"\r\n"}, b"data: [DONE]\r\n\r\n"),
    "CR": ({"ending": b"\r"}, b"data: [DONE]\r\r"),
    "CRLF, no space": ({"prefix": b"data:", "ending": b"\r\n"}, b"data:[DONE]\r\n\r\n"),
    "comments before": ({"prefix": b": ping\n:\ndata: "}, b": bye\n" + DONE),
    "retry and id": ({"prefix": b"retry: 10\nid: 7\ndata: "}, DONE),
    "event name": ({"prefix": b"event: message\ndata: "}, DONE),
    "event name, no space": ({"prefix": b"event:message\ndata:"}, DONE),
    "an unknown field": ({"prefix": b"x-y: z\ndata\ndata: "}, DONE),
    "a comment without its blank line": ({"prefix": b":\r\ndata: "}, DONE),
}


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize(("style", "done"), STYLES.values(), ids=STYLES)
def test_every_style_of_events_is_read(gateway, style, done, asked):
    """BR-02: the space after the colon, line ends, comments and other fields do not hide the usage."""
    rest = [event(delta("a"), **style), event(delta("b"), **style)]
    usage = event(report(), **style)
    stream = b"".join([*rest, usage, done])
    expected = stream if asked else b"".join([*rest, done])
    for pieces in ([stream], [stream[index : index + 1] for index in range(len(stream))], cut(stream, [40, 99, 200])):
        played = play(gateway, pieces, ASKED if asked else NOT_ASKED)
        assert played.tokens == TRIPLE
        assert played.output == expected


def test_blank_lines_and_a_byte_order_mark(gateway):
    """BR-02: a byte order mark, stray blank lines and keep-alive comments are passed on and change nothing."""
    stream = b"\xef\xbb\xbf\n: ping\n\n\n" + event(delta("a")) + b": ping\n\n" + event(report()) + DONE + b": end\n\n"
    for pieces in cuts(stream, rounds=2):
        played = play(gateway, pieces)
        assert (played.output, played.tokens) == (stream, TRIPLE)


SPELLINGS = {
    "blanks around the colon": b'{"choices" : [ ] , "model" : "m" , "usage" : { "prompt_tokens" : 11 , '
    b'"completion_tokens":4, "total_tokens"\t:15 } }',
    "usage first": b'{"usage":{"total_tokens":15,"completion_tokens":4,"prompt_tokens":11},"choices":[]}',
    "no choices": b'{"usage":{"total_tokens":15,"completion_tokens":4,"prompt_tokens":11}}',
    "choices is null": b'{"choices":null,"usage":{"total_tokens":15,"completion_tokens":4,"prompt_tokens":11}}',
    "unknown members": b'{"choices":[],"usage":{"x":{"usage":1},"prompt_tokens":11,"completion_tokens":4,'
    b'"total_tokens":15}}',
    "a key twice": b'{"choices":[],"usage":null,"usage":{"prompt_tokens":11,"completion_tokens":4,"total_tokens":15}}',
    "an escaped key": b'{"choices":[],"\\u0075sage":{"prompt_tokens":11,"completion_tokens":4,"total_tokens":15}}',
    "escaped inner keys": b'{"choices":[],"usage":{"prompt\\u005ftokens":11,"completion_tokens":4,"total_tokens":15}}',
    "integral floats": b'{"choices":[],"usage":{"prompt_tokens":11.0,"completion_tokens":4.0,"total_tokens":15e0}}',
}


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_every_spelling_of_a_report_is_read(gateway, spelling, asked):
    """BR-01, BR-10: a report is known by what its JSON means, not by how it is written."""
    stream = event(delta("a")) + event(spelling) + DONE
    played = play(gateway, cut(stream, [90, 130]), ASKED if asked else NOT_ASKED)
    assert played.tokens == TRIPLE
    assert played.output == (stream if asked else event(delta("a")) + DONE)


def test_a_report_over_several_data_lines(gateway):
    """BR-02: a pretty-printed event is one event."""
    pretty = json.dumps(report(), indent=1).encode().replace(b"\n", b"\ndata: ")
    stream = event(delta("a")) + event(pretty) + DONE
    assert play(gateway, [stream]).tokens == TRIPLE
    hidden = play(gateway, [stream], NOT_ASKED)
    assert hidden.tokens == TRIPLE
    assert hidden.output == event(delta("a")) + DONE


@pytest.mark.parametrize("path", STREAMING_PATHS)
def test_costs_are_in_the_reply_to_the_usage(gateway, path):
    """BR-07: a client that hangs up after the usage has been charged; the end only writes the same again."""
    exchange = streaming(gateway, path=path)
    assert exchange.piece(chunks(path)[0]).metadata == {}
    assert exchange.piece(event(report())[:-30]).metadata == {}
    metadata = exchange.piece(event(report())[-30:]).metadata
    assert {key: metadata[key] for key in TRIPLE} == TRIPLE
    assert metadata["model_name_override"] == "m"
    exchange.close()
    assert gateway.count("gen_ai_client_token_usage_sum", 'token_type="input"') == 11
    assert gateway.count("extproc_attempts_total", 'outcome="client_cancelled"') == 1


RUNNING = [(10, 1), (10, 2), (10, 3)]
LAST = {
    "the same again": [report(usage={"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13})],
    "null": [report(usage=None)],
    "absent": [{"choices": []}],
    "empty": [report(usage={})],
    "not an object": [report(usage="13")],
    "only a part": [report(usage={"completion_tokens": 3})],
    "null counts": [report(usage={"prompt_tokens": None, "completion_tokens": None, "total_tokens": None})],
}


@pytest.mark.parametrize("path", STREAMING_PATHS)
@pytest.mark.parametrize("last", LAST.values(), ids=LAST)
def test_running_totals_are_not_added_up(gateway, path, last):
    """BR-12: usage on every chunk is a running total; the last one that says something counts."""
    running = [
        event(CHUNK[path]("a", usage={"prompt_tokens": i, "completion_tokens": o, "total_tokens": i + o}))
        for i, o in RUNNING
    ]
    events = [*running, *map(event, last), DONE]
    expected = {"in": 10, "out": 3, "total": 13}
    assert play(gateway, events, path=path).tokens == expected
    assert play(gateway, [b"".join(events)], path=path).tokens == expected


def test_a_partial_report_keeps_the_sum_right(gateway):
    """BR-12: a report of the output alone moves the total with it."""
    played = play(gateway, [event(report()), event(report(usage={"completion_tokens": 9})), DONE])
    assert played.tokens == {"in": 11, "out": 9, "total": 20}


class TestGzip:
    """BR-14: one decoder for one stream, whatever the pieces are."""

    EVENTS = (*chunks(CHAT), event(report()), DONE)

    def flushed(self) -> list[bytes]:
        encoder = zlib.compressobj(wbits=31)
        parts = [encoder.compress(piece) + encoder.flush(zlib.Z_SYNC_FLUSH) for piece in self.EVENTS]
        return [*parts, encoder.flush()]

    def encoded(self, gateway: WatchedGateway, body: bytes, coding: str = "gzip") -> WatchedExchange:
        return streaming(gateway, body, headers={**SSE, "content-encoding": coding})

    def test_a_piece_per_flush_is_timely(self, gateway):
        exchange = self.encoded(gateway, NOT_ASKED)
        for piece, plain in zip(self.flushed(), self.EVENTS, strict=False):
            reply = exchange.piece(piece)
            assert reply.body == (b"" if b'"usage"' in plain and b'choices": []' in plain else plain)
        assert exchange.piece(self.flushed()[-1], eos=True).metadata["total"] == 15

    def test_the_reply_to_the_usage_has_the_costs(self, gateway):
        exchange = self.encoded(gateway, ASKED)
        replies = [exchange.piece(piece) for piece in self.flushed()]
        assert [bool(reply.metadata) for reply in replies] == [False, False, False, True, False, False]
        assert all(reply.body is None for reply in replies)

    @settings(max_examples=40, deadline=None)
    @given(places=st.lists(st.integers(0, 2000), max_size=20), asked=st.booleans(), members=st.integers(1, 3))
    def test_any_cut(self, places, asked, members):
        plain = b"".join(self.EVENTS)
        step = len(plain) // members + 1
        body = b"".join(gzip.compress(plain[at : at + step]) for at in range(0, len(plain), step))
        with watched() as gateway:
            played = self.encoded(gateway, ASKED if asked else NOT_ASKED).play(cut(body, places))
            assert played.tokens == TRIPLE
            assert played.output == (body if asked else b"".join([*self.EVENTS[:3], DONE]))

    @pytest.mark.parametrize("coding", ["GZIP", " gzip ", "x-gzip"])
    def test_other_names(self, gateway, coding):
        exchange = self.encoded(gateway, NOT_ASKED, coding)
        played = exchange.play([gzip.compress(b"".join(self.EVENTS))])
        assert (played.tokens, played.output) == (TRIPLE, b"".join([*self.EVENTS[:3], DONE]))

    def test_identity_is_plain(self, gateway):
        exchange = self.encoded(gateway, ASKED, "identity")
        played = exchange.play([b"".join(self.EVENTS)])
        assert (played.tokens, played.output) == (TRIPLE, b"".join(self.EVENTS))

    @pytest.mark.parametrize("body", [ASKED, NOT_ASKED])
    @pytest.mark.parametrize("pieces", [1, 3])
    def test_what_was_decoded_counts_though_the_end_is_cut_off(self, gateway, body, pieces):
        """Only the checksum is missing: every event is here, and clients do not mind either."""
        encoded = gzip.compress(b"".join(self.EVENTS))[:-5]
        played = self.encoded(gateway, body).play(cut(encoded, range(50, 50 * pieces, 50)))
        assert played.tokens == TRIPLE
        assert played.output == (encoded if body is ASKED else b"".join([*self.EVENTS[:3], DONE]))

    @pytest.mark.parametrize("body", [ASKED, NOT_ASKED])
    def test_a_client_that_hangs_up_in_the_middle_is_no_failure(self, gateway, body):
        """BR-112: the rest of the coding cannot come, which is not the backend's fault."""
        exchange = self.encoded(gateway, body)
        for piece in self.flushed()[:4]:
            exchange.piece(piece)
        exchange.close()
        assert gateway.count("extproc_attempts_total", 'outcome="client_cancelled"') == 1


class TestEmptyBodies:
    """BR-15: nothing at all is no broken coding."""

    @pytest.mark.parametrize("coding", [*CODINGS, "identity", "snappy"])
    @pytest.mark.parametrize("body", [PLAIN, ASKED, NOT_ASKED])
    @pytest.mark.parametrize("status", ["200", "204", "304", "429", "500"])
    def test_empty_encoded_body(self, gateway, coding, body, status):
        exchange = gateway.start(body)
        exchange.response({**JSON, "content-encoding": coding}, status=status)
        reply = exchange.piece(b"", eos=True)
        assert not reply.body

    @pytest.mark.parametrize("coding", CODINGS)
    def test_an_empty_piece_in_the_middle(self, gateway, coding):
        exchange = streaming(gateway, headers={**SSE, "content-encoding": coding})
        body = CODINGS[coding](b"".join(TestGzip.EVENTS))
        played = exchange.play([b"", body[:20], b"", b"", body[20:], b""])
        assert (played.tokens, played.output) == (TRIPLE, body)

    @pytest.mark.parametrize("status", ["200", "204", "304", "404"])
    def test_a_header_only_response(self, gateway, status):
        exchange = gateway.start(ASKED)
        reply = exchange.response({**SSE, "content-encoding": "gzip"}, status=status, eos=True)
        assert reply.remove == []
        assert not reply.message.HasField("mode_override")


class TestErrorsOfStreams:
    """BR-20: a stream request whose backend refuses gets that answer, not a stream."""

    SLOW = b'{"error":{"message":"slow down"}}'

    @pytest.mark.parametrize("body", [ASKED, NOT_ASKED])
    @pytest.mark.parametrize("status", ["401", "429", "500", "529", "302"])
    def test_json_passes(self, gateway, body, status):
        exchange = gateway.start(body)
        headers = exchange.response(
            {"content-type": "application/json; charset=utf-8", "retry-after": "3"}, status=status
        )
        assert (headers.set_list, headers.remove) == ([], [])
        assert not headers.message.HasField("mode_override")
        reply = exchange.piece(self.SLOW, eos=True)
        assert (reply.body, reply.set_list, reply.remove, reply.metadata) == (None, [], [], {})

    @pytest.mark.parametrize("pieces", [[b"slow ", b"down"], [b"slow down", b""], [b"", b"slow down"]])
    @pytest.mark.parametrize("coding", [None, "gzip"])
    @pytest.mark.parametrize("body", [ASKED, NOT_ASKED])
    def test_pieces_of_an_error_are_never_mixed_with_another_body(self, gateway, pieces, coding, body):
        """Where the filter is set to send response bodies in pieces, the first piece of an error is gone already."""
        exchange = gateway.exchange()
        exchange.headers_with_modes(response="STREAMED")
        exchange.body(body)
        exchange.attempt()
        exchange.response(
            {"content-type": "text/plain"} | ({"content-encoding": coding} if coding else {}), status="503"
        )
        whole = b"".join(pieces)
        sent = cut(gzip.compress(whole), [15]) if coding else pieces
        output = exchange.play(sent).output
        assert output == b"".join(sent) or json.loads(output)["error"]["message"] == "slow down"

    @pytest.mark.parametrize("status", ["203", "503"])
    @pytest.mark.parametrize("content_type", ["text/plain", "text/event-stream"])
    @pytest.mark.parametrize("coding", [None, "gzip"])
    def test_headers_that_are_gone_stay_true(self, gateway, status, content_type, coding):
        """In pieces, the length and the coding have been sent: then the body must be as they say."""
        exchange = gateway.exchange()
        exchange.headers_with_modes(response="STREAMED")
        exchange.body(NOT_ASKED)
        exchange.attempt()
        plain = event(delta("a")) + event(report()) + DONE
        body = CODINGS[coding](plain) if coding else plain
        headers = {"content-type": content_type, "content-length": str(len(body))}
        headers |= {"content-encoding": coding} if coding else {}
        removed = exchange.response(headers, status=status).remove
        output = exchange.play([body]).output
        assert len(output) == len(body) or "content-length" in removed
        assert output == body or coding is None or "content-encoding" in removed

    def test_a_stream_is_never_made_up(self, gateway):
        exchange = gateway.start(NOT_ASKED)
        exchange.response({"content-type": "text/event-stream"}, status="500")
        reply = exchange.piece(event({"error": "x"}), eos=True)
        assert b"[DONE]" not in (reply.body or b"")


class TestWithoutModeOverride:
    """BR-35: where the override is not allowed, the stream comes as one body and is metered all the same."""

    STREAM = event(delta("a")) + event(report()) + DONE

    @pytest.mark.parametrize("eos", [True, False])
    @pytest.mark.parametrize("body", [ASKED, NOT_ASKED])
    def test_one_big_piece(self, gateway, body, eos):
        exchange = streaming(gateway, body)
        reply = exchange.piece(self.STREAM, eos=eos)
        if not eos:
            assert exchange.send(exchange.router, response_trailers()).metadata["total"] == 15
        assert reply.metadata["total"] == 15
        hidden = event(delta("a")) + DONE
        assert (reply.body if reply.body is not None else self.STREAM) == (self.STREAM if body is ASKED else hidden)

    @pytest.mark.parametrize("body", [ASKED, NOT_ASKED])
    def test_the_length_is_not_wrong(self, gateway, body):
        exchange = gateway.start(body)
        headers = exchange.response({**SSE, "content-length": str(len(self.STREAM))})
        reply = exchange.piece(self.STREAM, eos=True)
        assert "content-length" in headers.remove or reply.body is None or "content-length" in reply.set

    def test_only_replies_to_headers_override(self, gateway):
        exchange = gateway.exchange()
        replies = [exchange.headers(), exchange.body(ASKED), exchange.attempt()]
        assert not any(reply.message.HasField("mode_override") for reply in replies)
        assert exchange.response(SSE).message.mode_override.response_body_mode == 1

    @pytest.mark.parametrize(
        "content_type", ["application/json", "Application/JSON; charset=utf-8", None, "text/plain"]
    )
    def test_a_stream_under_another_type(self, gateway, content_type):
        """A backend may label its stream wrongly; what was asked for and what comes tell more than the label."""
        exchange = streaming(gateway, ASKED, headers={"content-type": content_type} if content_type else {})
        played = exchange.play(cut(self.STREAM, [20, 150]))
        assert (played.tokens, played.output) == (TRIPLE, self.STREAM)

    @pytest.mark.parametrize(
        "content_type", ["application/json", "Application/JSON; charset=utf-8", None, "text/plain"]
    )
    def test_a_document_under_another_type(self, gateway, content_type):
        exchange = streaming(gateway, ASKED, headers={"content-type": content_type} if content_type else {})
        document = json.dumps(answer(CHAT), indent=1).encode()
        assert exchange.play(cut(document, [20, 90])).tokens == TRIPLE

    @pytest.mark.parametrize(
        "blanks",
        [b"\n" * 63, b"\n" * 64, b"\r\n" * 500, b": ping\n\n"],
        ids=["63 lines", "64 lines", "500 lines", "a comment"],
    )
    @pytest.mark.parametrize("size", [1, 64, 10_000])
    def test_a_stream_that_begins_with_blanks(self, gateway, blanks, size):
        """Blank lines and comments before the first event do not make a document of a stream."""
        exchange = streaming(gateway, ASKED, headers={})
        stream = blanks + self.STREAM
        played = exchange.play([stream[at : at + size] for at in range(0, len(stream), size)])
        assert (played.tokens, played.output) == (TRIPLE, stream)

    @pytest.mark.parametrize("content_type", ["text/event-stream", "Text/Event-Stream; charset=utf-8"])
    def test_a_stream_that_was_not_asked_for(self, gateway, content_type):
        exchange = gateway.start(PLAIN)
        exchange.response({"content-type": content_type})
        assert exchange.play([self.STREAM]).tokens == TRIPLE


ENDS = {
    "one message": [event(report()) + DONE],
    "two messages": [event(report()), DONE],
    "three messages": [event(report()), DONE, b""],
    "four messages": [event(report()), DONE, b"", b""],
}


@pytest.mark.parametrize("pieces", ENDS.values(), ids=ENDS)
def test_the_same_usage_is_charged_once(gateway, pieces):
    """BR-119: every write names the same total under the same keys; metadata overwrites, so it is one charge."""
    exchange = streaming(gateway)
    written = []
    for index, piece in enumerate(pieces):
        metadata = exchange.piece(piece, eos=index == len(pieces) - 1).metadata
        if metadata:
            written.append({key: metadata[key] for key in TRIPLE})
    assert written
    assert all(tokens == TRIPLE for tokens in written)
    exchange.close()
    assert gateway.count("gen_ai_client_token_usage_sum", 'token_type="output"') == 4
    assert gateway.count("gen_ai_client_token_usage_count", 'token_type="output"') == 1


def test_only_the_last_attempt_is_charged(open_gateway):
    """BR-119: what a failed attempt used is not in the metadata of the one that answered."""
    gateway = open_gateway({**CONFIG, "backends": [openai_backend(), openai_backend(SECOND_BACKEND)]})
    exchange = gateway.start(ASKED)
    exchange.attempt(SECOND_BACKEND)
    exchange.response(SSE)
    played = exchange.play([event(delta("a")), event(report()), DONE])
    assert played.tokens == TRIPLE
    assert played.metadata["ai_service_backend_name"] == "default/second"


class TestDecoding:
    """BR-110: a chunk without a usage marker is not parsed."""

    @pytest.fixture
    def decoded(self, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
        documents: list[bytes] = []
        real = openai_usage._decode_chat

        def counting(data: bytes) -> object:
            documents.append(data)
            return real(data)

        monkeypatch.setattr(openai_usage, "_decode_chat", counting)
        return documents

    @pytest.mark.parametrize("body", [ASKED, NOT_ASKED])
    def test_only_the_model_and_the_usage_are_decoded(self, gateway, decoded, body):
        exchange = streaming(gateway, body)
        exchange.play([event(delta(f'{n} "usage": {{}}')) for n in range(500)] + [event(report()), DONE])
        # The first chunk names the model.
        assert len(decoded) == 2
        assert exchange.router._router._attempt.response_model == "m-1"

    @pytest.mark.parametrize("text", ["gr\u00fc\u00dfe \u00e9", "\x1b[0m", "\u2028"])
    def test_escapes_in_the_text_are_no_reason_to_parse(self, gateway, decoded, text):
        """Many backends write everything beyond ASCII as escapes."""
        chunk = b"data: " + json.dumps(delta(text)).encode() + b"\n\n"
        assert b"\\u" in chunk
        streaming(gateway).play([chunk] * 100 + [event(report()), DONE])
        assert len(decoded) == 2

    def test_costs_are_computed_when_the_usage_changes(self, open_gateway, monkeypatch):
        """BR-91: 500 reports of the same usage are one evaluation of the rules, 500 different ones are 500."""
        gateway = open_gateway()
        evaluated = []
        real = CostFormula.evaluate
        monkeypatch.setattr(CostFormula, "evaluate", lambda *a: evaluated.append(a[1]) or real(*a))
        play(gateway, [event(report())] * 500 + [DONE])
        assert len(evaluated) == 1
        play(gateway, [event(delta("a"))] * 500 + [event(report()), DONE])
        assert len(evaluated) == 2


class TestHugeEvents:
    """BR-01: an event may be large, and need not end the observation of the stream."""

    @pytest.mark.parametrize("size", [70_000, 1_000_000, 8_000_000])
    @pytest.mark.parametrize("body", [ASKED, NOT_ASKED])
    def test_a_huge_event_in_pieces(self, gateway, size, body):
        huge = event(delta("x" * size))
        stream = huge + event(report()) + DONE
        played = play(gateway, [stream[at : at + 65536] for at in range(0, len(stream), 65536)], body)
        assert played.tokens == TRIPLE
        assert played.output == (stream if body is ASKED else huge + DONE)

    def test_usage_after_an_event_beyond_every_bound(self, gateway):
        stream = event(delta("x" * (17 * 1024 * 1024))) + event(report()) + DONE
        played = play(gateway, [stream[at : at + 1_000_000] for at in range(0, len(stream), 1_000_000)])
        assert played.output == stream
        assert played.tokens == TRIPLE


JUNK = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [b"data:", b"\n", b"\r", b"\n\n", b"event: x\n", b": c\n", b'"usage"', b"[DONE]", b"\xef\xbb\xbf", b"\xff"]
    ),
    st.sampled_from([event(report()), event(delta("ü", usage=USAGE)), event(delta("a")), DONE]),
)


@settings(max_examples=60, deadline=None)
@given(parts=st.lists(JUNK, max_size=12), places=st.lists(st.integers(0, 3000), max_size=8), asked=st.booleans())
def test_any_bytes_any_cut(parts, places, asked):
    """BR-01, BR-10: whatever a backend sends, the cut changes nothing, and who asked gets every byte."""
    stream = b"".join(parts)
    body = ASKED if asked else NOT_ASKED
    with watched() as gateway:
        whole = play(gateway, [stream], body)
        pieces = play(gateway, cut(stream, places), body)
    assert pieces.output == whole.output
    assert pieces.tokens == whole.tokens
    if asked:
        assert whole.output == stream


def test_no_usage_at_all_is_zero(gateway):
    """BR-93: an answer without usage costs nothing, and says so."""
    assert play(gateway, [event(delta("a")), DONE]).tokens == ZERO
