"""Field reports about usage that the client did not ask for: it is forced on the backend and kept from the client."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.field_reports import (
    ASKED,
    CHAT,
    CODINGS,
    CONFIG,
    DONE,
    JSON,
    NOT_ASKED,
    SSE,
    STREAMING_PATHS,
    TRIPLE,
    UNMETERED,
    USAGE,
    ZERO,
    Played,
    WatchedGateway,
    answer,
    cut,
    delta,
    event,
    play,
    report,
    streaming,
    watched,
)
from tests.support.playbook import SECOND_BACKEND, openai_backend

SENT = {
    "no options": (
        b'{"model":"m","stream":true}',
        b'{"model":"m","stream":true,"stream_options":{"include_usage":true}}',
    ),
    "empty": (
        b'{ "stream" : true, "stream_options": { } ,"model":"m"}\n',
        b'{ "stream" : true, "stream_options": {"include_usage":true } ,"model":"m"}\n',
    ),
    "false": (
        b'{"stream_options":{"include_usage": false,"y":[1, 2]},"stream":true,"model":"m"}',
        b'{"stream_options":{"include_usage": true,"y":[1, 2]},"stream":true,"model":"m"}',
    ),
    "null": (
        b'{"stream":true,"stream_options":null,"model":"\\u00fc\xc3\xbc"}',
        b'{"stream":true,"stream_options":{"include_usage":true},"model":"\\u00fc\xc3\xbc"}',
    ),
    "null inside": (
        b'{"stream":true,"stream_options":{"include_usage":null,"x":1}}',
        b'{"stream":true,"stream_options":{"include_usage":true,"x":1}}',
    ),
    "escaped keys": (
        b'{"stre\\u0061m":true,"\\u0073tream_options":{"include\\u005fusage":false}}',
        b'{"stre\\u0061m":true,"\\u0073tream_options":{"include\\u005fusage":true}}',
    ),
    "given twice": (
        b'{"stream":true,"stream_options":{"include_usage":true},"stream_options":{"include_usage":false}}',
        b'{"stream":true,"stream_options":{"include_usage":true},"stream_options":{"include_usage":true}}',
    ),
    "asked": (b'{"stream":true,"stream_options":{"include_usage":true,"x":1}}', None),
    "no stream": (b'{"model":"m","stream":false,"stream_options":{"include_usage":false}}', None),
    "stream is null": (b'{"model":"m","stream":null}', None),
    "stream is missing": (b'{"model":"m", "x" : "\\"stream\\":true"}', None),
}


@pytest.mark.parametrize("path", STREAMING_PATHS)
@pytest.mark.parametrize(("sent", "upstream"), SENT.values(), ids=SENT)
def test_usage_is_forced_as_a_byte_edit(open_gateway, path, sent, upstream):
    """BR-09: metered streams ask for usage, whatever the client says; everything else stays byte for byte."""
    exchange = open_gateway().exchange()
    exchange.request(sent, {":path": path})
    reply = exchange.attempt()
    # The members' order is not the matter here: an added member may stand anywhere in its object.
    assert reply.body == upstream or (upstream and json.loads(reply.body) == json.loads(upstream))
    assert reply.replaces == (upstream is not None)
    unmetered = open_gateway(UNMETERED).exchange()
    unmetered.request(sent, {":path": path})
    assert unmetered.attempt().body is None


def test_embeddings_are_never_asked_for_a_stream_report(gateway):
    """BR-09: an API without streams gets no stream options."""
    assert gateway.start(b'{"model":"m","input":"a","stream":true}', "/v1/embeddings").carried
    exchange = gateway.exchange()
    exchange.request(b'{"model":"m","input":"a","stream":true}', {":path": "/v1/embeddings"})
    assert exchange.attempt().body is None


class TestHiddenUsage:
    """BR-10: a client that did not ask for usage sees its stream as if nobody had."""

    def hidden(self, gateway: WatchedGateway, *events: bytes) -> Played:
        return play(gateway, [b"".join(events)], NOT_ASKED)

    def test_usage_beside_a_choice_is_cut_out(self, gateway):
        both = event(
            b'{"id":"c", "choices": [{"index":0,"delta":{}}] , "usage" : {"prompt_tokens":11,'
            b'"completion_tokens":4,"total_tokens":15}, "x":1}'
        )
        played = self.hidden(gateway, event(delta("a")), both, DONE)
        assert played.tokens == TRIPLE
        kept = json.loads(played.output.split(b"data: ")[2])
        assert kept == {"id": "c", "choices": [{"index": 0, "delta": {}}], "x": 1}

    def test_an_event_name_is_kept(self, gateway):
        both = event(delta("a", usage=USAGE), prefix=b"event: chunk\ndata: ")
        played = self.hidden(gateway, both, DONE)
        assert played.output.startswith(b"event: chunk\n")
        assert b"usage" not in played.output

    def test_usage_in_every_chunk(self, gateway):
        running = [
            event(delta("a", usage={"prompt_tokens": 11, "completion_tokens": n, "total_tokens": 11 + n}))
            for n in (1, 2)
        ]
        played = self.hidden(gateway, *running, event(report()), DONE)
        assert played.tokens == TRIPLE
        assert b"usage" not in played.output
        assert played.output.count(b'"content"') == 2

    def test_usage_in_the_first_chunk(self, gateway):
        played = self.hidden(gateway, event(report()), event(delta("a")), DONE)
        assert (played.tokens, played.output) == (TRIPLE, event(delta("a")) + DONE)

    def test_the_word_in_the_content_stays(self, gateway):
        said = event(delta('say "usage": {"prompt_tokens": 1}'))
        nested = event({"choices": [{"index": 0, "delta": {"tool": {"usage": {"prompt_tokens": 9}}}}]})
        played = self.hidden(gateway, said, nested, event(report()), DONE)
        assert (played.tokens, played.output) == (TRIPLE, said + nested + DONE)

    def test_an_error_beside_the_usage_is_not_swallowed(self, gateway):
        failed = event({"error": {"message": "overloaded", "code": 529}, "usage": USAGE})
        played = self.hidden(gateway, event(delta("a")), failed)
        assert played.tokens == TRIPLE
        assert b"overloaded" in played.output

    def test_other_news_beside_the_usage_is_not_swallowed(self, gateway):
        filtered = event(report(prompt_filter_results=[{"prompt_index": 0}]))
        played = self.hidden(gateway, event(delta("a")), filtered, DONE)
        assert b"prompt_filter_results" in played.output
        assert b'"usage"' not in played.output

    def test_no_orphans_are_left(self, gateway):
        played = self.hidden(gateway, event(delta("a")), event(report()), event(report()), DONE)
        assert played.output == event(delta("a")) + DONE

    def test_a_broken_event_passes(self, gateway):
        broken = b'data: {"choices":[],"usage":{"prompt_tok\n\n'
        played = self.hidden(gateway, broken, event(report()), DONE)
        assert (played.tokens, played.output) == (TRIPLE, broken + DONE)

    def test_a_chunk_that_cannot_be_decoded_whole_does_not_end_the_stream(self, gateway):
        """What is not read need not be valid: the client gets the chunk, at worst with its usage."""
        usage = b'"usage":{"prompt_tokens":11,"completion_tokens":4,"total_tokens":15}'
        for odd in (b'"\xff"', b'"\\ud800"', b"9" * 5000, b"[" * 900 + b"]" * 900, b"1e999"):
            chunk = event(b'{"choices":[],"x":' + odd + b"," + usage + b"}")
            played = self.hidden(gateway, event(delta("a")), chunk, DONE)
            assert played.output.startswith(event(delta("a")))
            assert played.output.endswith(DONE)

    def test_no_copy_of_the_usage_is_left(self, gateway):
        """Decoders differ in which of two equal keys they take, so both go."""
        counts = b'{"prompt_tokens":11,"completion_tokens":4,"total_tokens":15}'
        for first, second in ((b"null", counts), (counts, counts)):
            chunk = event(b'{"usage":' + first + b',"choices":[{"index":0}],"usage":' + second + b"}")
            escaped = chunk.replace(b'"usage"', b'"us\\u0061ge"', 1)
            for sent in (chunk, escaped):
                played = self.hidden(gateway, sent, DONE)
                assert played.tokens == TRIPLE
                assert json.loads(played.output.removesuffix(DONE)[6:]) == {"choices": [{"index": 0}]}

    def test_a_null_usage_is_no_report(self, gateway):
        null = event(delta("a", usage=None))
        played = self.hidden(gateway, null, event(report()), event(b'{"choices":[],"usage":null}'), DONE)
        assert played.tokens == TRIPLE
        assert b'"content": "a"' in played.output

    def test_who_asked_gets_it(self, gateway):
        stream = event(delta("a")) + event(report()) + DONE
        assert play(gateway, [stream], ASKED).output == stream

    def test_it_is_not_hidden_where_nobody_meters(self, open_gateway):
        stream = event(delta("a")) + event(report()) + DONE
        assert play(open_gateway(UNMETERED), [stream], NOT_ASKED).output == stream

    def test_the_report_of_an_answer_that_is_no_stream_stays(self, gateway):
        exchange = streaming(gateway, NOT_ASKED, headers=JSON)
        document = json.dumps(answer(CHAT)).encode()
        played = exchange.play(cut(document, [10, 50]))
        assert (played.tokens, played.output) == (TRIPLE, document)

    @pytest.mark.parametrize("coding", CODINGS)
    def test_an_encoded_answer_that_is_no_stream_keeps_its_coding(self, gateway, coding):
        exchange = gateway.start(NOT_ASKED)
        headers = exchange.response({**JSON, "content-encoding": coding})
        body = CODINGS[coding](json.dumps(answer(CHAT)).encode())
        played = exchange.play([body])
        assert played.tokens == TRIPLE
        # Either both stay or both go: encoded bytes without the header cannot be read.
        assert (played.output == body) == ("content-encoding" not in headers.remove)

    def test_it_is_hidden_again_on_a_retry(self, open_gateway):
        gateway = open_gateway({**CONFIG, "backends": [openai_backend(), openai_backend(SECOND_BACKEND)]})
        exchange = gateway.start(NOT_ASKED)
        assert b'"include_usage":true' in (exchange.attempt(SECOND_BACKEND).body or b"")
        exchange.response(SSE)
        played = exchange.play([event(delta("a")) + event(report()) + DONE])
        assert (played.tokens, played.output) == (TRIPLE, event(delta("a")) + DONE)


MEMBERS = st.dictionaries(
    st.sampled_from(["id", "model", "choices", "error", "x", "usage2", "\u00fc", "us\\age"]),
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4) | st.lists(st.integers(), max_size=2),
    max_size=5,
)


@settings(max_examples=80, deadline=None)
@given(
    before=MEMBERS,
    after=MEMBERS,
    reports=st.booleans(),
    ascii_=st.booleans(),
    places=st.lists(st.integers(0, 500), max_size=4),
)
def test_any_chunk_is_cleaned_of_its_usage_and_of_nothing_else(before, after, reports, ascii_, places):
    """BR-10: what the client gets of a chunk is the chunk without its usage, or nothing where that was all."""
    rest = {key: value for key, value in {**before, **after}.items() if key != "usage"}
    keys = list(rest)
    chunk = {key: rest[key] for key in keys[: len(before)]}
    chunk |= {"usage": USAGE} if reports else {}
    chunk |= rest
    stream = event(json.dumps(chunk, ensure_ascii=ascii_).encode()) + DONE
    with watched() as gateway:
        played = play(gateway, cut(stream, places), NOT_ASKED)
    assert played.tokens == (TRIPLE if reports else ZERO)
    kept = played.output.removesuffix(DONE)
    assert played.output.endswith(DONE)
    if kept:
        assert json.loads(kept[6:]) == rest
    else:
        assert reports
        assert not rest.get("choices")
        assert "error" not in rest
        assert "x" not in rest
