"""Field reports about streams, told of backends that speak another API: cuts, codings, breaks, hang-ups."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from typing import Any

import pytest

from tests.support import eventstream
from tests.support.field_reports import ASKED, CODINGS, NOT_ASKED, WatchedExchange, cut, cuts
from tests.support.translated import (
    ALL,
    CLAUDE,
    COUNTS,
    LENGTHS,
    TRANSLATED,
    Counts,
    Read,
    backend,
    config,
    document,
    events,
    framed,
    overload,
    streams_as,
)

USER = [{"role": "user", "content": "q"}]
STREAM = {**json.loads(ASKED), "messages": USER}
SILENT = {**json.loads(NOT_ASKED), "messages": USER}
PLAIN = {"model": "m", "messages": USER}
CALLS = [("f", {"x": 1}), ("g", {"ä": ["", "\n"]})]
TEXT = "Häl lo \n\nthere, \U0001f600 "


@pytest.fixture
def begin(open_gateway):
    """``begin(schema)``: an exchange whose answer has begun."""
    gateways = {}

    def begin_(
        schema: str,
        request: dict[str, Any] = STREAM,
        headers: dict[str, str] | None = None,
        status: str = "200",
    ) -> WatchedExchange:
        if schema not in gateways:
            gateways[schema] = open_gateway(config(backend(schema, signs=False)))
        exchange = gateways[schema].start(request)
        exchange.head = exchange.response(streams_as(schema) if headers is None else headers, status=status)
        return exchange

    begin_.gateways = gateways
    return begin_


def outcome(begin: Any, schema: str, name: str) -> float:
    return begin.gateways[schema].count("extproc_attempts_total", f'outcome="{name}"')


def without_ids(output: bytes) -> list[Any]:
    """The chunks without ids of calls that are made here, each a new one."""
    chunks = Read.of(output).chunks
    for chunk in chunks:
        for choice in chunk["choices"]:
            for call in choice["delta"].get("tool_calls", ()):
                call.pop("id", None)
    return chunks


def picked(metadata: dict[str, Any], like: dict[str, int]) -> dict[str, Any]:
    return {key: metadata.get(key) for key in like}


@pytest.mark.parametrize("schema", TRANSLATED)
def test_any_cut_gives_the_same(begin, schema):
    """BR-01, BR-45, BR-51, BR-77: every cut of the bytes gives the same chunks and costs."""
    stream = b"".join(events(schema, TEXT, CALLS))
    whole = begin(schema).play([stream])
    read = Read.of(whole.output)
    assert read.done
    assert read.joined() == TEXT
    assert [(name, json.loads(arguments)) for _, name, arguments in read.calls] == CALLS
    assert len({identity for identity, _, _ in read.calls}) == len(CALLS)
    assert read.finish_reasons == ["tool_calls"]
    assert [{**usage, "completion_tokens_details": {}} for usage in read.usages] == [
        {"completion_tokens_details": {}, **COUNTS.usage(schema)}
    ]
    assert picked(whole.metadata, COUNTS.costs(schema)) == COUNTS.costs(schema)
    expected = without_ids(whole.output)
    single = [stream[i : i + 1] for i in range(len(stream))]
    for pieces in (single, *(cut(stream, [place]) for place in range(0, len(stream), 31))):
        exchange = begin(schema)
        played = exchange.play(pieces)
        exchange.close()
        assert without_ids(played.output) == expected
        assert picked(played.metadata, COUNTS.costs(schema)) == COUNTS.costs(schema)


@pytest.mark.parametrize("schema", ["AWSBedrock", "GCPVertexAI", "GCPAnthropic", "AWSAnthropic"])
def test_a_cut_at_every_byte_gives_the_same(begin, schema):
    """BR-01, BR-51: the same of a short stream, at each of its bytes, and in pieces of many sizes."""
    stream = b"".join(events(schema, "ü"))
    expected = begin(schema).play([stream]).output
    for pieces in cuts(stream):
        exchange = begin(schema)
        assert exchange.play(pieces).output == expected
        exchange.close()


STYLES = {
    "no blank after the colon": lambda stream: stream.replace(b"data: ", b"data:").replace(b"event: ", b"event:"),
    "no names of events": lambda stream: b"\n".join(
        line for line in stream.split(b"\n") if not line.startswith(b"event:")
    ),
    "CRLF": lambda stream: stream.replace(b"\n", b"\r\n"),
    "CR": lambda stream: stream.replace(b"\n", b"\r"),
    "comments": lambda stream: b": hi\n\n" + stream.replace(b"data: ", b": x\ndata: ") + b":\n\n",
    "unknown fields": lambda stream: stream.replace(b"data: ", b"id: 7\nretry: 5\nnonsense\ndata: "),
    "a byte order mark": lambda stream: b"\xef\xbb\xbf" + stream,
    "no end of the last event": lambda stream: stream.rstrip(b"\n"),
    "another API's end": lambda stream: stream + b"data: [DONE]\n\n",
}


@pytest.mark.parametrize("schema", [each for each in TRANSLATED if not each.startswith("AWS")])
@pytest.mark.parametrize("style", STYLES)
def test_every_style_of_events_is_read(begin, schema, style):
    """BR-02, BR-05: what counts is the JSON, whatever is around it."""
    stream = STYLES[style](b"".join(events(schema, "Hello")))
    for pieces in ([stream], [stream[i : i + 1] for i in range(len(stream))]):
        played = begin(schema).play([*pieces, b""])
        read = Read.of(played.output)
        assert (read.done, read.joined(), read.finish_reasons) == (True, "Hello", ["stop"])
        assert picked(played.metadata, COUNTS.costs(schema)) == COUNTS.costs(schema)


@pytest.mark.parametrize("schema", ALL)
def test_a_client_that_hangs_up_after_the_usage_is_charged(begin, schema):
    """BR-07, BR-30, BR-112: the reply to the usage carries the costs, and each request is counted once."""
    *before, last = events(schema)
    if schema in CLAUDE or schema == "AzureOpenAI":
        last = before.pop()
    exchange = begin(schema)
    seen = [exchange.piece(each).metadata for each in before]
    assert all(each.get("out", 0) == 0 for each in seen), "output that nobody has reported"
    assert picked(exchange.piece(last).metadata, COUNTS.costs(schema)) == COUNTS.costs(schema)
    exchange.close()
    attempts = outcome(begin, schema, "client_cancelled") + outcome(begin, schema, "success")
    assert attempts == 1
    assert begin.gateways[schema].count("gen_ai_client_token_usage_sum", 'token_type="output"') == COUNTS.output


@pytest.mark.parametrize("schema", CLAUDE)
def test_a_client_that_hangs_up_early_is_charged_for_its_input(begin, schema):
    """BR-08: what is known is charged, never more than the end will say."""
    costs = COUNTS.costs(schema)
    stream = events(schema)
    exchange = begin(schema)
    early = exchange.piece(stream[0]).metadata
    assert (early["in"], early["out"], early["total"]) == (costs["in"], 0, costs["in"])
    exchange.close()
    assert picked(begin(schema).play(stream).metadata, costs) == costs


@pytest.mark.parametrize("schema", ALL)
def test_a_reset_at_any_moment_is_counted_once(begin, schema):
    """BR-30, BR-112: of whichever message it is the last; the gateway checks what is left behind."""
    for moment in range(8):
        exchange = begin(schema)
        for piece in events(schema)[:moment]:
            exchange.piece(piece)
        exchange.close()
        assert begin.gateways[schema].count("gen_ai_server_request_duration_seconds_count") == moment + 1
    assert outcome(begin, schema, "failed") == 0


@pytest.mark.parametrize("schema", ALL)
def test_usage_is_shown_to_those_who_ask(begin, schema):
    """BR-09, BR-10: always measured, and seen by the client only if it asked; no empty event is left."""
    for request, shown in ((STREAM, 1), (SILENT, 0), ({**SILENT, "stream_options": {"include_usage": False}}, 0)):
        played = begin(schema, request).play([*events(schema), b""])
        read = Read.of(played.output)
        assert (len(read.usages), read.done) == (shown, True)
        assert all(chunk["choices"] for chunk in read.chunks if "usage" not in chunk)
        assert picked(played.metadata, COUNTS.costs(schema)) == COUNTS.costs(schema)


@pytest.mark.parametrize("schema", ALL)
def test_usage_is_asked_for_where_the_api_knows_how(open_gateway, schema):
    """BR-09, BR-11: ``stream_options`` reaches backends of the client's API, and no other."""
    exchange = open_gateway(config(backend(schema))).exchange()
    exchange.request({**SILENT, "stream_options": None})
    body = json.loads(exchange.attempt().body)
    assert body.get("stream_options") == ({"include_usage": True} if schema == "AzureOpenAI" else None)
    assert b"include_usage" not in json.dumps(body).encode() or schema == "AzureOpenAI"


RUNNING = {
    "AWSBedrock": lambda counts: ("metadata", {"usage": counts.report("AWSBedrock")}),
    "GCPVertexAI": lambda counts: {"usageMetadata": counts.report("GCPVertexAI")},
    **dict.fromkeys(CLAUDE, lambda counts: {"type": "message_delta", "delta": {}, "usage": counts.report("Anthropic")}),
}
NOTHING = {
    "null": None,
    "absent": ...,
    "empty": {},
    "no object": "13",
    "a list": [13],
    "null counts": dict.fromkeys(Counts().report("AWSBedrock") | Counts().report("GCPVertexAI") | Counts().report("")),
}


@pytest.mark.parametrize("schema", TRANSLATED)
@pytest.mark.parametrize("last", NOTHING)
def test_running_totals_are_not_added_up(begin, schema, last):
    """BR-12, BR-59, BR-76: a later report replaces an earlier one; one that says nothing keeps it."""
    name = "usageMetadata" if schema == "GCPVertexAI" else "usage"
    grown = [framed(schema, RUNNING[schema](Counts(output=output))) for output in (1, 2, 5)]
    message = RUNNING[schema](COUNTS)
    holder = message[1] if schema == "AWSBedrock" else message
    if NOTHING[last] is ...:
        del holder[name]
    else:
        holder[name] = NOTHING[last]
    stream = events(schema)
    end = -1 if schema != "GCPVertexAI" else len(stream)
    said = [*stream[:-2], *grown, framed(schema, message), *stream[-2:end], *([] if end > 0 else stream[-1:])]
    if schema == "AWSBedrock":
        said = [*stream[:-2], *grown, framed(schema, message), stream[-2]]
    played = begin(schema).play([*said, b""])
    assert picked(played.metadata, COUNTS.costs(schema)) == COUNTS.costs(schema)
    assert Read.of(played.output).done


@pytest.mark.parametrize("schema", TRANSLATED)
class TestBreaks:
    """BR-13, BR-53, BR-80: what breaks off must never look whole."""

    def told(self, begin, schema: str, pieces: list[bytes]) -> Read:
        played = begin(schema).play([*pieces, b""])
        read = Read.of(played.output)
        assert not read.done
        assert read.finish_reasons == []
        assert read.error is not None
        assert played.metadata["response_error"] == read.error["type"]
        assert outcome(begin, schema, "failed") == 1
        return read

    def test_an_overload_in_the_middle(self, begin, schema):
        message = 'slow "down"\n\\ \u2028 ü'
        read = self.told(begin, schema, [*events(schema)[:2], overload(schema, message), *events(schema)[2:]])
        assert read.error == {"type": "throttlingException", "code": read.error["code"], "message": message}
        assert "finish_reason" not in json.dumps(read.chunks)

    def test_an_overload_at_once(self, begin, schema):
        assert self.told(begin, schema, [overload(schema)]).error["message"] == "slow down"

    def test_usage_before_the_break_is_kept(self, begin, schema):
        reported = framed(schema, RUNNING[schema](COUNTS))
        played = begin(schema).play([*events(schema)[:2], reported, overload(schema), b""])
        assert picked(played.metadata, COUNTS.costs(schema)) == COUNTS.costs(schema)

    def test_an_overload_cut_anywhere(self, begin, schema):
        stream = b"".join([*events(schema)[:2], overload(schema)])
        for place in range(1, len(stream), 7):
            exchange = begin(schema)
            read = Read.of(exchange.play([*cut(stream, [place]), b""]).output)
            exchange.close()
            assert read.error["message"] == "slow down"

    @pytest.mark.parametrize("calls", [(), CALLS], ids=["text", "calls"])
    def test_an_early_end_at_any_byte(self, begin, schema, calls):
        """Up to the event that ends the message, every prefix of the stream is a broken answer."""
        stream = events(schema, "Hi", calls)
        end = len(b"".join(stream[: -2 if schema == "AWSBedrock" else -1]))
        dice = random.Random(3)
        for length in {*dice.sample(range(end), 30), 0, end}:
            exchange = begin(schema)
            read = Read.of(exchange.play([b"".join(stream)[:length], b""]).output)
            exchange.close()
            assert not read.done, length
            assert read.error["type"] in {"stream_truncated", "stream_unreadable"}

    def test_an_event_that_cannot_be_read(self, begin, schema):
        start, text, *rest = events(schema)
        broken = {
            "AWSBedrock": eventstream.event("contentBlockDelta", b'{"delta":{"te'),
            "AWSAnthropic": eventstream.event("chunk", b'{"bytes":"!'),
            "GCPVertexAI": b'data: {"candidates":[{"con\n\n',
        }.get(schema, b'event: content_block_delta\ndata: {"type":"content_block_delta","del\n\n')
        assert self.told(begin, schema, [start, text, broken, *rest]).error["type"] == "stream_unreadable"

    @pytest.mark.parametrize("body", [b"<html>busy</html>", b"\x00\x01\xff\xfe", b"busy", b"\n\n"])
    def test_what_is_no_stream_at_all(self, begin, schema, body):
        self.told(begin, schema, [body])

    def test_tool_arguments_that_the_limit_cut_are_not_called_whole(self, begin, schema):
        stop = LENGTHS.get(schema, "max_tokens")
        read = Read.of(begin(schema).play([*events(schema, "", CALLS[:1], stop=stop), b""]).output)
        assert read.finish_reasons == ["length"]


@pytest.mark.parametrize("schema", ["AWSBedrock", "AWSAnthropic"])
class TestFrames:
    """BR-51: the framing is checked, so a broken length can neither be waited for nor fill memory."""

    @pytest.mark.parametrize("at", [0, 4, 8, 13, 40, -1])
    def test_a_flipped_byte(self, begin, schema, at):
        first, second, *rest = events(schema)
        broken = bytearray(second)
        broken[at] ^= 0x55
        read = Read.of(begin(schema).play([first, bytes(broken), *rest, b""]).output)
        assert read.error["type"] == "stream_unreadable"

    def test_a_length_beyond_every_bound(self, begin, schema):
        prelude = (2**31).to_bytes(4, "big") + (0).to_bytes(4, "big")
        frame = prelude + zlib.crc32(prelude).to_bytes(4, "big")
        exchange = begin(schema)
        assert Read.of(exchange.piece(frame).body).error["type"] == "stream_unreadable"
        assert exchange.piece(b"x" * 10_000).body == b""

    def test_several_frames_in_one_piece(self, begin, schema):
        stream = events(schema)
        read = Read.of(begin(schema).play([b"".join(stream[:3]), b"".join(stream[3:])]).output)
        assert read.done


@pytest.mark.parametrize("schema", TRANSLATED)
class TestCodings:
    """BR-14, BR-15, BR-17: encoded answers, as every provider may send them."""

    def test_a_piece_per_flush_is_timely(self, begin, schema):
        packer = zlib.compressobj(wbits=31)
        exchange = begin(schema, headers={**streams_as(schema), "content-encoding": "gzip", "content-length": "9"})
        assert set(exchange.head.remove) == {"content-length", "content-encoding"}
        pieces = [packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH) for event in events(schema)]
        outputs = [exchange.piece(piece).body for piece in pieces]
        assert b"Hel"[:2] in outputs[1 if schema == "AWSBedrock" else 0 if schema == "GCPVertexAI" else 2]
        outputs.append(exchange.piece(packer.flush(), eos=True).body)
        assert Read.of(b"".join(outputs)).joined() == "Hello"

    def test_any_cut(self, begin, schema):
        stream = gzip.compress(b"".join(events(schema)))
        headers = {**streams_as(schema), "content-encoding": "gzip"}
        for pieces in ([stream[i : i + 1] for i in range(len(stream))], *(cut(stream, [p]) for p in range(0, 300, 7))):
            exchange = begin(schema, headers=headers)
            played = exchange.play(pieces)
            exchange.close()
            assert Read.of(played.output).joined() == "Hello"
            assert picked(played.metadata, COUNTS.costs(schema)) == COUNTS.costs(schema)

    def test_several_members(self, begin, schema):
        stream = b"".join(map(gzip.compress, events(schema)))
        played = begin(schema, headers={**streams_as(schema), "content-encoding": "gzip"}).play([stream, b""])
        assert Read.of(played.output).done

    @pytest.mark.parametrize("coding", CODINGS)
    def test_a_document_in_every_coding(self, begin, schema, coding):
        headers = {"content-type": "application/json", "content-encoding": coding}
        reply = begin(schema, PLAIN, headers).piece(CODINGS[coding](document(schema)), eos=True)
        assert "content-encoding" in reply.remove
        assert reply.set["content-length"] == str(len(reply.body))
        assert json.loads(reply.body)["choices"][0]["message"]["content"] == "Hello"
        assert picked(reply.metadata, COUNTS.costs(schema)) == COUNTS.costs(schema)

    def test_an_empty_piece_in_the_middle(self, begin, schema):
        headers = {**streams_as(schema), "content-encoding": "gzip"}
        stream = gzip.compress(b"".join(events(schema)))
        assert Read.of(begin(schema, headers=headers).play([b"", stream[:20], b"", stream[20:], b""]).output).done

    def test_an_empty_answer_is_an_error_of_the_backend(self, begin, schema):
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        assert begin(schema, PLAIN, headers).piece(b"", eos=True).status == 502


@pytest.mark.parametrize("schema", TRANSLATED)
def test_a_text_of_many_megabytes(begin, schema):
    """BR-14, BR-111: work and memory grow with the text, not with its square."""
    start, *_ = stream = events(schema, "x" * 2**20)
    texts = [each for each in stream if len(each) > 2**18]
    before = stream[: stream.index(texts[0])]
    after = stream[stream.index(texts[-1]) + 1 :]
    exchange = begin(schema)
    got = sum(len(exchange.piece(piece).body) for piece in [*before, *texts * 4, *after])
    assert got > 4 * 2**20
    assert start


def test_one_big_piece_without_the_mode_override(begin):
    """BR-35: where the override is not allowed, the stream comes as one body, and its usage counts."""
    for schema in TRANSLATED:
        reply = begin(schema).piece(b"".join(events(schema)), eos=True)
        assert picked(reply.metadata, COUNTS.costs(schema)) == COUNTS.costs(schema)
        assert Read.of(reply.body).done


@pytest.mark.parametrize("schema", ALL)
def test_the_same_usage_is_charged_once(begin, schema):
    """BR-119: written again at the end, the value is the same."""
    written = []
    exchange = begin(schema)
    for piece in [*events(schema), b""]:
        metadata = exchange.piece(piece, eos=not piece).metadata
        if metadata.get("out"):
            written.append(picked(metadata, COUNTS.costs(schema)))
    assert len(written) >= 2
    assert all(each == COUNTS.costs(schema) for each in written)
    tokens = begin.gateways[schema].count("gen_ai_client_token_usage_sum", 'token_type="output"')
    assert tokens == COUNTS.output
