"""gRPC over HTTP/2: calls, messages, status, deadlines, health. Rows name the productions of its protocol page."""

from __future__ import annotations

import pytest

from protos.health_pb2 import HealthCheckRequest, HealthCheckResponse, HealthListResponse
from tests.support.http2_peer import (
    CHECK,
    DATA,
    HEADERS,
    PROCESS,
    EchoProcessor,
    Peer,
    build_engine,
    call,
    cut,
    data,
    fields,
    headers,
    message,
    prefixed,
    rst_stream,
    say,
)
from tests.support.http2_rows import (
    ARRIVALS,
    Row,
    accepted,
    check,
    done,
    either,
    fed,
    http_status,
    malformed,
    never_sent,
    opened,
    replies,
    served_after_all,
    status,
)

ECHO = message(b"echo")
NEVER = message(b"never")
UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND = range(2, 6)
RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL = 8, 12, 13
LIST, WATCH = b"/grpc.health.v1.Health/List", b"/grpc.health.v1.Health/Watch"


def sent_to(path, *payloads, stream=1, end=True, **changed):
    """A call of another method."""
    return headers(stream, fields(path=path, **changed)) + data(stream, b"".join(map(prefixed, payloads)), end=end)


def trailers_only(seen):
    """Trailers-Only: one HEADERS with the fields of an answer and its status, and no DATA."""
    assert [each.kind for each in seen.peer.frames if each.stream == 1 and each.kind in (DATA, HEADERS)] == [HEADERS]
    assert [name for name, _ in seen.peer.blocks[1][0]][:2] == [b":status", b"content-type"]


def accepts_identity(seen):
    """A server that cannot decompress says what it takes: grpc-accept-encoding (Compression)."""
    listed = [value for block in seen.peer.blocks[1] for name, value in block if name == b"grpc-accept-encoding"]
    assert [value for value in listed if b"identity" in value.split(b",")], seen.peer.blocks[1]


MESSAGES = {
    "Length-Prefixed-Message: one": Row(send=call(1, b"echo"), expect=done(1, b"echo")),
    "Length-Prefixed-Message: several in one DATA": Row(
        send=call(1, b"a", b"b", b"c"), expect=(done(1, b"a", b"b", b"c"), fed(b"a", b"b", b"c"))
    ),
    "Length-Prefixed-Message: one octet in each DATA": Row(
        send=headers(1)
        + b"".join(data(1, octet) for octet in cut(message(b"a") + message(b"bc"), 1))
        + data(1, end=True),
        expect=done(1, b"a", b"bc"),
    ),
    "Length-Prefixed-Message: of no octets": Row(
        send=headers(1) + data(1, prefixed(b"") + ECHO, end=True), expect=(done(1, b"", b"echo"), opened(1))
    ),
    "Length-Prefixed-Message: several of no octets": Row(
        send=headers(1) + data(1, prefixed(b"") * 3, end=True), expect=done(1, b"", b"", b"")
    ),
    "Length-Prefixed-Message: none": Row(send=headers(1) + data(1, end=True), expect=done(1)),
    "Length-Prefixed-Message: larger than a frame": Row(send=call(1, b"x" * 40_000), expect=done(1, b"x" * 40_000)),
    "Length-Prefixed-Message: the end of one and the start of the next in one DATA": Row(
        send=headers(1)
        + data(1, ECHO[:3])
        + data(1, ECHO[3:] + message(b"b")[:4])
        + data(1, message(b"b")[4:] + message(b"c"), end=True),
        expect=done(1, b"echo", b"b", b"c"),
    ),
    "Length-Prefixed-Message: half a message keeps others waiting for nothing": Row(
        send=headers(1) + data(1, ECHO + message(b"later")[:8]), expect=(replies(1, b"echo"), fed(b"echo"))
    ),
    "Length-Prefixed-Message: END_STREAM within the prefix": Row(
        send=headers(1) + data(1, NEVER[:3], end=True), expect=(status(1, INTERNAL, INVALID_ARGUMENT, UNKNOWN), fed())
    ),
    "Length-Prefixed-Message: END_STREAM after the prefix": Row(
        send=headers(1) + data(1, NEVER[:5], end=True), expect=(status(1, INTERNAL, INVALID_ARGUMENT, UNKNOWN), fed())
    ),
    "Length-Prefixed-Message: END_STREAM within a message": Row(
        send=headers(1) + data(1, ECHO) + data(1, NEVER[:-1], end=True),
        expect=(status(1, INTERNAL, INVALID_ARGUMENT, UNKNOWN), served_after_all(1), fed(b"echo")),
    ),
    "Length-Prefixed-Message: trailers within a message": Row(
        send=headers(1) + data(1, NEVER[:-1]) + headers(1, [(b"x", b"1")], end=True),
        expect=(status(1, INTERNAL, INVALID_ARGUMENT, UNKNOWN), fed()),
    ),
    "Length-Prefixed-Message: RST_STREAM within a message": Row(
        send=headers(1) + data(1, NEVER[:-1]) + rst_stream(1), expect=(accepted, fed())
    ),
    "Length-Prefixed-Message: what is no protobuf": Row(
        send=headers(1) + data(1, prefixed(b"\xff\xff\xff") + NEVER, end=True),
        expect=(status(1, INTERNAL, INVALID_ARGUMENT), fed()),
    ),
    "Length-Prefixed-Message: what is no protobuf harms no other call": Row(
        send=headers(1) + headers(3) + data(1, prefixed(b"\x0a")) + data(3, ECHO, end=True),
        expect=(status(1, INTERNAL, INVALID_ARGUMENT), served_after_all(3)),
    ),
    **{
        f"Compressed-Flag: {flag} is no flag": Row(
            send=headers(1) + data(1, prefixed(b"", flag=flag) + NEVER, end=True),
            expect=(status(1, INTERNAL, UNIMPLEMENTED), fed()),
        )
        for flag in (2, 3, 128, 255)
    },
    "Compressed-Flag: compressed, with an encoding that is not offered": Row(
        send=headers(1, fields((b"grpc-encoding", b"gzip"))) + data(1, prefixed(b"\x1f\x8b", flag=1) + NEVER, end=True),
        expect=(status(1, UNIMPLEMENTED), accepts_identity, fed()),
    ),
    "Compressed-Flag: compressed, and no encoding named (INTERNAL by the page)": Row(
        send=headers(1) + data(1, prefixed(b"\x1f\x8b", flag=1) + NEVER, end=True),
        expect=(status(1, INTERNAL, UNIMPLEMENTED), fed()),
    ),
    "Compressed-Flag: compressed, and the encoding is identity (INTERNAL by the page)": Row(
        send=headers(1, fields((b"grpc-encoding", b"identity"))) + data(1, prefixed(b"", flag=1) + NEVER, end=True),
        expect=(status(1, INTERNAL, UNIMPLEMENTED), fed()),
    ),
    "Compressed-Flag: the second message is compressed": Row(
        send=headers(1, fields((b"grpc-encoding", b"gzip"))) + data(1, ECHO) + data(1, prefixed(b"\x1f", flag=1)),
        # A server may refuse the encoding as soon as it is named.
        expect=(status(1, UNIMPLEMENTED), accepts_identity),
    ),
    "Message-Encoding: identity": Row(
        send=call(1, b"echo", listed=fields((b"grpc-encoding", b"identity"))), expect=done(1, b"echo")
    ),
    "Message-Encoding: an encoding is named, and not used (a server may refuse it)": Row(
        send=call(1, b"echo", listed=fields((b"grpc-encoding", b"gzip"))),
        expect=either(done(1, b"echo"), status(1, UNIMPLEMENTED)),
    ),
    "Message-Accept-Encoding: the answer is not compressed all the same": Row(
        send=call(1, b"size:5000", listed=fields((b"grpc-accept-encoding", b"gzip,identity"))),
        expect=done(1, b"x" * 5000),
    ),
    "Length-Prefixed-Message: the largest length is refused at its prefix": Row(
        options={"max_message": 1000},
        send=headers(1) + data(1, prefixed(b"", length=2**32 - 1)),
        expect=(status(1, RESOURCE_EXHAUSTED), fed()),
    ),
    "Length-Prefixed-Message: one octet above the limit": Row(
        options={"max_message": 1000},
        send=headers(1) + data(1, prefixed(b"", length=1001)),
        expect=(status(1, RESOURCE_EXHAUSTED), fed()),
    ),
    "Length-Prefixed-Message: at the limit": Row(
        options={"max_message": len(ECHO) - 5}, send=call(1, b"echo"), expect=done(1, b"echo"), serves=False
    ),
    "Length-Prefixed-Message: the limit is one of each message": Row(
        options={"max_message": len(ECHO) - 5},
        send=call(1, *[b"echo"] * 9),
        expect=done(1, *[b"echo"] * 9),
        serves=False,
    ),
}

REQUESTS = {
    **{
        f"Content-Type: {value.decode()}": Row(
            send=call(1, b"echo", listed=fields(content_type=value)), expect=done(1, b"echo")
        )
        for value in (b"application/grpc", b"application/grpc+proto", b"application/grpc;charset=utf-8")
    },
    **{
        f"Content-Type: {value.decode()} is another protocol": Row(
            send=call(1, b"never", listed=fields(content_type=value)), expect=(http_status(1, 415), opened(0))
        )
        for value in (
            b"application/json",
            b"application/grpc-web",
            b"application/grpc-web+proto",
            b"application/grpcx",
            b"application/gRP",
            b"text/html",
            b"",
        )
    },
    "Content-Type: application/grpc+json, a codec that is not offered (or the codec is not looked at)": Row(
        send=call(1, b"echo", listed=fields(content_type=b"application/grpc+json")),
        expect=either(done(1, b"echo"), http_status(1, 415), status(1, UNIMPLEMENTED, INTERNAL)),
    ),
    "Content-Type: missing": Row(
        send=call(1, b"never", listed=fields(without=[b"content-type"])), expect=(http_status(1, 415), opened(0))
    ),
    "Call-Definition: trailers are not asked for (a proxy may have removed it; a server may refuse)": Row(
        send=call(1, b"echo", listed=fields(without=[b"te"])),  # codespell:ignore te
        expect=either(done(1, b"echo"), http_status(1, 400), status(1, INTERNAL)),
    ),
    **{
        f"Method: {method.decode()} is not POST": Row(
            send=call(1, b"never", listed=fields(method=method)),
            expect=(
                either(http_status(1, 400, 405, 415, 501), status(1, INTERNAL, UNIMPLEMENTED), malformed(1)),
                opened(0),
            ),
        )
        for method in (b"GET", b"PUT", b"post", b"PRI")
    },
    **{
        f"Path: {path.decode()}": Row(
            send=call(1, b"never", listed=fields(path=path)), expect=(status(1, UNIMPLEMENTED), opened(0))
        )
        for path in (
            b"/envoy.service.ext_proc.v3.ExternalProcessor/Other",
            b"/other.Service/Process",
            b"/envoy.service.ext_proc.v3.ExternalProcessor",
            b"/",
            b"//",
            PROCESS + b"/",
            PROCESS + b"?x=1",
            PROCESS.lower(),
            PROCESS[:-1],
            b"/" + PROCESS,
            b"/envoy.service.ext_proc.v3.ExternalProcessor/Check",
            b"/grpc.health.v1.Health/Process",
        )
    },
    "Status: an unknown method is answered before its messages": Row(
        send=headers(1, fields(path=b"/none.Such/Method")), expect=(status(1, UNIMPLEMENTED), trailers_only)
    ),
    "Status: what an unknown method is sent is discarded": Row(
        send=headers(1, fields(path=b"/none.Such/Method")),
        then=data(1, NEVER) + data(1, NEVER, end=True) + call(3, b"echo"),
        expect=(status(1, UNIMPLEMENTED), served_after_all(3), fed(b"echo")),
    ),
    "Custom-Metadata: other fields say nothing": Row(
        send=call(
            1,
            b"echo",
            listed=fields(
                (b"user-agent", b"grpc-c++/1.70 envoy/1.40"),
                (b"x-request-id", b"7"),
                (b"trace-proto-bin", b"AAEC"),
                (b"grpc-trace-bin", b"AAEC,Aw"),
                (b"grpc-previous-rpc-attempts", b"1"),
            ),
        ),
        expect=done(1, b"echo"),
    ),
}


def raw_message(text):
    """grpc-message as it is on the wire."""

    def spelled(seen):
        assert seen.peer.trailers(1)[b"grpc-message"] == text, seen.peer.trailers(1)

    return spelled


def leading_fields(seen):
    """:status and content-type, and nothing but what is listed for an answer."""
    listed = dict(seen.peer.blocks[1][0])
    assert listed.pop(b"grpc-accept-encoding", b"identity") == b"identity"
    assert listed == {b":status": b"200", b"content-type": b"application/grpc"}


def unfinished(seen):
    assert seen.peer.status(1) is None


def text_of(*texts):
    """grpc-message is one of these."""

    def said(seen):
        assert seen.peer.status(1)[1] in texts, seen.peer.status(1)

    return said


def beginning_of(text):
    """grpc-message is this, or the beginning of it: fields have a size."""

    def said(seen):
        got = seen.peer.status(1)[1]
        assert got, "no text"
        assert text.startswith(got), got

    return said


STATUS = {
    "Responses: fields, messages, trailers": Row(
        send=call(1, b"echo"),
        expect=(done(1, b"echo"), leading_fields),
    ),
    "Responses: the reply to a message does not wait for the next": Row(
        send=call(1, b"a", end=False),
        expect=(replies(1, b"a"), unfinished),
    ),
    "Responses: a message that wants no reply": Row(
        send=call(1, b"silent", b"b", b"silent"), expect=(done(1, b"b"), fed(b"silent", b"b", b"silent"))
    ),
    "Responses: no reply at all": Row(send=call(1, b"silent"), expect=done(1)),
    "Trailers-Only: a failure before any reply": Row(
        send=call(1, b"fail:unsupported path: /x", end=False),
        expect=(status(1, NOT_FOUND, text="unsupported path: /x"), trailers_only),
    ),
    "Status: a failure after a reply": Row(
        send=call(1, b"a", b"fail:then this", b"never"),
        expect=(status(1, NOT_FOUND, text="then this"), served_after_all(1, b"a"), fed(b"a", b"fail:then this")),
    ),
    "Status: a last reply": Row(
        send=call(1, b"a", b"last:that was all", b"never"),
        expect=(status(1, NOT_FOUND, text="that was all"), served_after_all(1, b"a", b"last:that was all")),
    ),
    "Status: nothing is fed after a failure": Row(
        send=call(1, b"fail:x", end=False),
        then=say(1, b"never") + say(1, b"never", end=True) + call(3, b"echo"),
        expect=(status(1, NOT_FOUND), served_after_all(3), fed(b"fail:x", b"echo")),
    ),
    "Status-Message: without text": Row(send=call(1, b"fail:"), expect=status(1, NOT_FOUND, text="")),
    "Status-Message: a percent sign": Row(
        send=call(1, b"fail:100% of %41"),
        expect=(status(1, NOT_FOUND, text="100% of %41"), raw_message(b"100%25 of %2541")),
    ),
    "Status-Message: lines": Row(
        send=call(1, b"fail:a\r\nb\tc"), expect=(status(1, NOT_FOUND, text="a\r\nb\tc"), raw_message(b"a%0D%0Ab%09c"))
    ),
    "Status-Message: other scripts": Row(
        send=call(1, "fail:café 模型".encode()),
        expect=(status(1, NOT_FOUND, text="café 模型"), raw_message(b"caf%C3%A9 %E6%A8%A1%E5%9E%8B")),
    ),
    "Status-Message: control characters": Row(
        send=call(1, b"fail:\0\x01\x7f"), expect=(status(1, NOT_FOUND, text="\0\x01\x7f"), raw_message(b"%00%01%7F"))
    ),
    "Status-Message: spaces at its ends, where no field value has any (encoded, or left out)": Row(
        send=call(1, b"fail: padded "),
        expect=(status(1, NOT_FOUND), text_of(" padded ", "padded")),
    ),
    "Status-Message: printable characters stay": Row(
        send=call(1, b"fail:!\"#$&'()*+,-./:;<=>?@[]^_`{|}~"), expect=raw_message(b"!\"#$&'()*+,-./:;<=>?@[]^_`{|}~")
    ),
    "Status-Message: long (may be cut)": Row(
        send=call(1, b"fail:" + b"y" * 3000), expect=(status(1, NOT_FOUND), beginning_of("y" * 3000))
    ),
    "Errors: the core's own fault is INTERNAL, without what it was about": Row(
        send=call(1, b"fault") + call(3, b"echo"),
        expect=(
            status(1, INTERNAL),
            lambda seen: "planted" not in seen.peer.status(1)[1] or pytest.fail(seen.peer.status(1)[1]),
            served_after_all(3),
        ),
    ),
}

# Timeout → TimeoutValue TimeoutUnit; TimeoutValue → at most 8 digits; TimeoutUnit → one of H M S m u n.
TIMEOUTS = {
    **{
        f"Timeout: {value}": Row(
            send=call(1, b"echo", listed=fields(grpc_timeout=value.encode())), expect=done(1, b"echo")
        )
        for value in ("1H", "1M", "10S", "99999m", "99999999u", "99999999H", "00000010S")
    },
    **{
        f"Timeout: {value[:20]!r} is none (it is refused, or as if it were missing)": Row(
            send=call(1, b"echo", listed=fields(grpc_timeout=value.encode())),
            expect=either(
                done(1, b"echo"), status(1, INTERNAL, INVALID_ARGUMENT, UNKNOWN), http_status(1, 400), malformed(1)
            ),
        )
        for value in (
            "",
            "1",
            "S",
            "1s",
            "1h",
            "-1S",
            "1.5S",
            "123456789S",
            "1 S",
            "1SS",
            "0x1S",
            "1_0S",
            "\uff11S",
            "9" * 500 + "S",
        )
    },
    "Timeout: 0 is over at once (or a moment later)": Row(
        send=call(1, b"echo", listed=fields(grpc_timeout=b"0n")),
        expect=either(status(1, DEADLINE_EXCEEDED), done(1, b"echo")),
    ),
}


def health(stream, wanted):
    def answered(seen):
        assert [HealthCheckResponse.FromString(each) for each in seen.peer.messages(stream)] == [
            HealthCheckResponse(status=HealthCheckResponse.ServingStatus.Value(wanted))
        ]
        assert seen.peer.status(stream) == (0, "")

    return answered


def watched(seen):
    """The status came, and the call goes on: there are no trailers."""
    assert [HealthCheckResponse.FromString(each).status for each in seen.peer.messages(1)] == [1]
    assert len(seen.peer.blocks[1]) == 1


ANYTHING = HealthCheckRequest(service="anything").SerializeToString()

HEALTH = {
    "Health: Check": Row(send=sent_to(CHECK, b""), expect=(accepted, health(1, "SERVING"), opened(0))),
    "Health: Check of a service": Row(send=sent_to(CHECK, ANYTHING), expect=health(1, "SERVING")),
    "Health: Check when it does not serve": Row(
        options={"is_serving": lambda: False}, send=sent_to(CHECK, b""), expect=health(1, "NOT_SERVING")
    ),
    "Health: Check, the end comes later": Row(
        send=sent_to(CHECK, b"", end=False), then=data(1, end=True), expect=health(1, "SERVING")
    ),
    "Health: Check, the message comes in pieces": Row(
        send=headers(1, fields(path=CHECK))
        + b"".join(data(1, octet) for octet in cut(prefixed(ANYTHING), 1))
        + data(1, end=True),
        expect=health(1, "SERVING"),
    ),
    "Health: Check without a message": Row(
        send=headers(1, fields(path=CHECK), end=True),
        expect=status(1, INTERNAL, UNIMPLEMENTED, INVALID_ARGUMENT, UNKNOWN),
    ),
    "Health: Check with two messages": Row(
        send=sent_to(CHECK, b"", b""),
        expect=either(status(1, INTERNAL, UNIMPLEMENTED, INVALID_ARGUMENT, UNKNOWN), health(1, "SERVING")),
    ),
    "Health: Check of what is no protobuf": Row(
        send=sent_to(CHECK, b"\xff"), expect=status(1, INTERNAL, INVALID_ARGUMENT)
    ),
    "Health: Check beside a call": Row(
        send=headers(1) + sent_to(CHECK, b"", stream=3) + data(1, ECHO, end=True),
        expect=(done(1, b"echo"), health(3, "SERVING")),
    ),
    "Health: List": Row(
        send=sent_to(LIST, b""),
        expect=lambda seen: (
            [*HealthListResponse.FromString(*seen.peer.messages(1)).statuses] == ["extproc"]
            or pytest.fail(str(seen.peer.messages(1)))
        ),
    ),
    "Health: Watch": Row(send=sent_to(WATCH, b""), expect=watched),
    "Health: Watch of a service": Row(send=sent_to(WATCH, ANYTHING), expect=watched),
    "Health: Watch of what is no protobuf": Row(
        send=sent_to(WATCH, b"\xff"), expect=status(1, INTERNAL, INVALID_ARGUMENT)
    ),
    "Health: Watch without a message": Row(
        send=headers(1, fields(path=WATCH), end=True),
        expect=status(1, INTERNAL, UNIMPLEMENTED, INVALID_ARGUMENT, UNKNOWN),
    ),
    "Health: an unknown method of it": Row(
        send=sent_to(b"/grpc.health.v1.Health/Such", b""), expect=status(1, UNIMPLEMENTED)
    ),
}

ROWS = {**MESSAGES, **REQUESTS, **STATUS, **TIMEOUTS, **HEALTH}


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("rule", ROWS)
def test_a_rule_of_grpc(rule, arrival):
    check(ROWS[rule], arrival)


TWO = message(b"first") + prefixed(b"") + message(b"second")


@pytest.mark.parametrize("at", range(len(TWO) + 1))
def test_messages_may_be_cut_into_frames_anywhere(at):
    """Length-Prefixed-Message: DATA frames say nothing about where messages begin and end."""
    check(
        Row(
            send=headers(1) + data(1, TWO[:at]) + data(1, TWO[at:], end=True),
            expect=(done(1, b"first", b"", b"second"), fed(b"first", b"", b"second"), never_sent(3, 1)),
        ),
        "at once",
    )


@pytest.mark.parametrize("at", range(1, len(TWO)))
def test_a_call_that_is_reset_within_a_message_is_closed_once(at):
    """The normal end of an ext_proc stream, wherever it happens."""
    check(Row(send=headers(1) + data(1, TWO[:at]) + rst_stream(1), expect=(accepted, never_sent(3, 1))), "at once")


def test_a_call_past_its_deadline_is_ended():
    """Timeout: a server that learns of it in time ends the call, DEADLINE_EXCEEDED; one that does not answers it."""
    now = [100.0]
    processor = EchoProcessor()
    peer = Peer(build_engine(processor, clock=lambda: now[0])).greet()
    peer.send(headers(1, fields(grpc_timeout=b"5S")), say(1, b"in time"))
    assert peer.replies(1) == [b"in time"]
    now[0] += 6
    peer.send(say(1, b"late"))
    ended = peer.status(1)
    assert peer.replies(1)[1:] == [b"late"] if ended is None else ended[0] == DEADLINE_EXCEEDED
    assert peer.is_alive()


def test_a_core_that_refuses_to_open_harms_only_its_call():
    """Errors: a fault of ours in one call is INTERNAL there, and nothing elsewhere."""

    class Broken(EchoProcessor):
        def open(self):
            if not self.opened:
                self.opened += 1
                self.closed += 1
                raise KeyError("planted")
            return super().open()

    processor = Broken()
    peer = Peer(build_engine(processor)).greet()
    peer.send(call(1, b"never"), call(3, b"echo"))
    assert peer.status(1)[0] == INTERNAL
    assert "planted" not in peer.status(1)[1]
    assert peer.replies(3) == [b"echo"]


def test_calls_are_closed_when_the_connection_is_lost():
    """The core learns of each end, once."""
    processor = EchoProcessor()
    peer = Peer(build_engine(processor)).greet()
    peer.send(*(call(stream, b"echo", end=False) for stream in range(1, 21, 2)))
    assert peer.engine.open_streams == 10
    peer.engine.connection_lost()
    assert (processor.opened, processor.closed) == (10, 10)
    assert peer.engine.open_streams == 0
    peer.engine.connection_lost()
    assert processor.closed == 10
