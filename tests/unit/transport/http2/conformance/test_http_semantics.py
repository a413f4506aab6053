"""RFC 9113, section 8: how a request is framed, and which fields it may have."""

from __future__ import annotations

import pytest

from tests.support.http2_hpack import block
from tests.support.http2_peer import (
    NO_ERROR,
    PROTOCOL_ERROR,
    call,
    continuation,
    data,
    fields,
    headers,
    message,
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
    opened,
    replies,
    reset,
    served_after_all,
    status,
)

ECHO = message(b"echo")
NEVER = message(b"never")
TRAILER = (b"x-end", b"1")


def never(*more, without=(), **changed):
    """A call with these fields whose message must not reach the application."""
    return call(1, b"never", listed=fields(*more, without=without, **changed))


def echoed(*more, without=(), **changed):
    return Row(send=call(1, b"echo", listed=fields(*more, without=without, **changed)), expect=done(1, b"echo"))


def ordered(*listed):
    """A call with exactly these fields, in this order."""
    return call(1, b"never", listed=listed)


def refused(octets):
    return Row(send=octets, expect=(malformed(1), opened(0)))


METHOD, SCHEME, PATH, AUTHORITY, TYPE, TRAILERS = fields()


def asked_to_stop_or_open(seen):
    """The client may not be left with an open stream on which nobody gives its windows back."""
    assert seen.peer.resets.get(1) == NO_ERROR or seen.peer.engine.open_streams == 1


MESSAGES = {
    "9113 8.1: a request of HEADERS alone": Row(send=headers(1, end=True), expect=done(1)),
    "9113 8.1: HEADERS, DATA": Row(send=call(1, b"echo"), expect=done(1, b"echo")),
    "9113 8.1: HEADERS, DATA, trailers": Row(
        send=call(1, b"echo", end=False) + headers(1, [TRAILER], end=True), expect=done(1, b"echo")
    ),
    "9113 8.1: HEADERS, trailers": Row(send=headers(1) + headers(1, [TRAILER], end=True), expect=done(1)),
    "9113 8.1: trailers without a field": Row(
        send=call(1, b"echo", end=False) + headers(1, encoded=b"", end=True), expect=done(1, b"echo")
    ),
    "9113 8.1: HEADERS in the middle, without END_STREAM": Row(
        send=call(1, b"echo", end=False) + headers(1, [TRAILER]) + data(1, NEVER, end=True), expect=malformed(1)
    ),
    "9113 8.1: the fields of a request twice": Row(send=headers(1) + headers(1) + data(1, NEVER), expect=malformed(1)),
    "9113 8.1: the fields of a request twice, the second with END_STREAM": Row(
        send=headers(1) + headers(1, end=True), expect=malformed(1)
    ),
    "9113 8.1: no message is lost that came before a mistake": Row(
        send=call(1, b"echo", end=False),
        then=headers(1, [TRAILER]) + data(1, NEVER),
        expect=(reset(1, PROTOCOL_ERROR), served_after_all(1), fed(b"echo")),
    ),
    "9113 8.1: a mistake in one call does not harm another": Row(
        send=headers(1) + headers(3) + headers(1, [TRAILER]) + data(3, ECHO, end=True),
        expect=(malformed(1), served_after_all(3)),
    ),
    "9113 8.1: an answer that is complete before the request (RST_STREAM, or the stream stays open)": Row(
        send=headers(1, fields(path=b"/none.Such/Method")), expect=(status(1, 12), asked_to_stop_or_open)
    ),
    "9113 8.1: an answer to the whole request needs no RST_STREAM": Row(
        send=headers(1, fields(path=b"/none.Such/Method"), end=True) + call(3, b"fail:x") + call(5, b"echo"),
        expect=(accepted, status(1, 12), status(3, 5), status(5, 0)),
    ),
    "9113 8.1.1: content-length that fits": Row(
        send=headers(1, fields((b"content-length", b"%d" % len(ECHO)))) + data(1, ECHO, end=True),
        expect=done(1, b"echo"),
    ),
    "9113 8.1.1: content-length that fits, padding apart, over several DATA": Row(
        send=headers(1, fields((b"content-length", b"%d" % len(ECHO))))
        + data(1, ECHO[:4], padding=9)
        + data(1, ECHO[4:])
        + data(1, b"", padding=0, end=True),
        expect=done(1, b"echo"),
    ),
    "9113 8.1.1: content-length that fits, and trailers": Row(
        send=headers(1, fields((b"content-length", b"%d" % len(ECHO))))
        + data(1, ECHO)
        + headers(1, [TRAILER], end=True),
        expect=done(1, b"echo"),
    ),
    "9113 8.1.1: less content than content-length": Row(
        send=headers(1, fields((b"content-length", b"99"))) + data(1, ECHO, end=True), expect=reset(1, PROTOCOL_ERROR)
    ),
    "9113 8.1.1: less content than content-length, over several DATA": Row(
        send=headers(1, fields((b"content-length", b"%d" % (len(ECHO) + 1))))
        + data(1, ECHO[:5])
        + data(1, ECHO[5:])
        + data(1, end=True),
        expect=reset(1, PROTOCOL_ERROR),
    ),
    "9113 8.1.1: more content than content-length": Row(
        send=headers(1, fields((b"content-length", b"2"))) + data(1, NEVER, end=True), expect=malformed(1)
    ),
    "9113 8.1.1: content-length, and no content": Row(
        send=headers(1, fields((b"content-length", b"10")), end=True), expect=reset(1, PROTOCOL_ERROR)
    ),
    "9113 8.1.1: content-length, trailers, and no content": Row(
        send=headers(1, fields((b"content-length", b"10"))) + headers(1, [TRAILER], end=True),
        expect=reset(1, PROTOCOL_ERROR),
    ),
    "9113 8.1.1: content-length of 0, and no content": Row(
        send=headers(1, fields((b"content-length", b"0")), end=True), expect=done(1)
    ),
    "9110 8.6: content-length twice, with another value": Row(
        send=headers(1, fields((b"content-length", b"12"), (b"content-length", b"13"))),
        expect=(malformed(1), opened(0)),
    ),
    "9110 8.6: content-length twice, with the same value (a server may refuse it)": Row(
        send=headers(1, fields(*[(b"content-length", b"%d" % len(ECHO))] * 2)) + data(1, ECHO, end=True),
        expect=either(done(1, b"echo"), malformed(1)),
    ),
    **{
        f"9110 8.6: content-length {value!r} is no number": Row(
            send=headers(1, fields((b"content-length", value))) + data(1, NEVER, end=True), expect=malformed(1)
        )
        for value in (b"ten", b"-1", b"+9", b"1_0", b"0x10", b"9, 10", b"")
    },
}

BAD_NAMES = {
    "upper case": b"X-Upper",
    "one upper case letter at the end": b"x-uppeR",
    "a space": b"x y",
    "a leading space": b" x",
    "a colon": b"x:y",
    "a colon at the end": b"x:",
    "NUL": b"x\0y",
    "LF": b"x\ny",
    "CR": b"x\ry",
    "HTAB": b"x\ty",
    "DEL": b"x\x7fy",
    "an octet above 0x7f": b"x\x80y",
    "0xff": b"\xff",
    "UTF-8": "naïve".encode(),
    "no octet": b"",
}

BAD_VALUES = {
    "NUL": b"a\0b",
    "LF": b"a\nb",
    "CR": b"a\rb",
    "CR LF and a field": b"a\r\nx-smuggled: 1",
    "NUL first": b"\0a",
    "LF last": b"a\n",
    "nothing but NUL": b"\0",
    "a leading space": b" a",
    "a trailing space": b"a ",
    "a leading tab": b"\ta",
    "a trailing tab": b"a\t",
    "nothing but a space": b" ",
}

GOOD_VALUES = {
    "no octet": b"",
    "a space within": b"a b",
    "a tab within": b"a\tb",
    "octets above 0x7f": b"caf\xc3\xa9 \xff",
    "punctuation": b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
}

CONNECTION_SPECIFIC = {
    "connection": b"keep-alive",
    "proxy-connection": b"keep-alive",
    "keep-alive": b"timeout=5",
    "transfer-encoding": b"chunked",
    "upgrade": b"h2c",
}

FIELDS = {
    **{f"9113 8.2.1: a field name with {what}": refused(never((name, b"1"))) for what, name in BAD_NAMES.items()},
    **{f"9113 8.2.1: a field value with {what}": refused(never((b"x", value))) for what, value in BAD_VALUES.items()},
    **{f"9113 8.2.1: a field value with {what} is fine": echoed((b"x", value)) for what, value in GOOD_VALUES.items()},
    "9113 8.2.1: a field name of all the characters it may have": echoed((b"!#$%&'*+-.^_`|~09az", b"1")),
    "9113 8.2.1: a bad name in the middle of good ones": refused(
        ordered(METHOD, SCHEME, PATH, AUTHORITY, (b"X", b"1"), TYPE, TRAILERS)
    ),
    "9113 8.2.1: a pseudo-header field with a bad value": refused(never(path=b"/a\0b")),
    "9113 8.2.1: :authority with a line feed": refused(never(authority=b"a\nb")),
    "9113 8.2.1: trailers with a bad name": Row(
        send=call(1, b"echo", end=False) + headers(1, [(b"X", b"1")], end=True), expect=reset(1, PROTOCOL_ERROR)
    ),
    "9113 8.2.1: trailers with a bad value": Row(
        send=call(1, b"echo", end=False) + headers(1, [(b"x", b"a\nb")], end=True), expect=reset(1, PROTOCOL_ERROR)
    ),
    **{
        f"9113 8.2.2: the connection-specific field {name}": refused(never((name.encode(), value)))
        for name, value in CONNECTION_SPECIFIC.items()
    },
    "9113 8.2.2: te: trailers": echoed(),  # codespell:ignore te
    "9113 8.2.2: te with another value": refused(never(te=b"gzip")),  # codespell:ignore te
    "9113 8.2.2: te with trailers and another value": refused(never(te=b"trailers, deflate")),  # codespell:ignore te
    "9113 8.2.2: a connection-specific field in trailers": Row(
        send=call(1, b"echo", end=False) + headers(1, [(b"connection", b"close")], end=True),
        expect=either(reset(1, PROTOCOL_ERROR), done(1, b"echo")),
    ),
    "9113 8.2.3: cookies in several fields": echoed((b"cookie", b"a=1"), (b"cookie", b"b=2")),
    "9113 8.2: a field that comes twice": echoed((b"x-twice", b"1"), (b"x-twice", b"2")),
}

PSEUDO = {
    "9113 8.3: a pseudo-header field that is unknown": refused(ordered(METHOD, SCHEME, PATH, (b":foo", b"1"), TYPE)),
    "9113 8.3: a pseudo-header field of answers": refused(ordered(METHOD, SCHEME, PATH, (b":status", b"200"), TYPE)),
    "9113 8.3: a pseudo-header field without a name": refused(ordered(METHOD, SCHEME, PATH, (b":", b"1"), TYPE)),
    "9113 8.3: a pseudo-header field in upper case": refused(ordered(METHOD, SCHEME, PATH, (b":Path", b"/"), TYPE)),
    "9113 8.3: a pseudo-header field after others": refused(ordered(METHOD, SCHEME, TYPE, PATH, AUTHORITY)),
    "9113 8.3: the last pseudo-header field after others": refused(ordered(METHOD, SCHEME, PATH, TYPE, AUTHORITY)),
    "9113 8.3: a pseudo-header field in trailers": Row(
        send=call(1, b"echo", end=False) + headers(1, [PATH], end=True), expect=malformed(1)
    ),
    "9113 8.3: :status in trailers": Row(
        send=call(1, b"echo", end=False) + headers(1, [(b":status", b"200")], end=True), expect=malformed(1)
    ),
    **{
        f"9113 8.3.1: {name.decode()} is missing": refused(never(without=[name]))
        for name in (b":method", b":scheme", b":path")
    },
    **{
        f"9113 8.3.1: {name.decode()} comes twice": refused(
            ordered(METHOD, SCHEME, PATH, AUTHORITY, (name, value), TYPE, TRAILERS)
        )
        for name, value in (METHOD, SCHEME, PATH, AUTHORITY)
    },
    "9113 8.3.1: :path comes twice, with another value": refused(
        ordered(METHOD, SCHEME, PATH, (b":path", b"/other"), AUTHORITY, TYPE, TRAILERS)
    ),
    "9113 8.3.1: no field at all": refused(headers(1, encoded=b"", end=True)),
    "9113 8.3.1: an empty :path": refused(never(path=b"")),
    "9113 8.3.1: pseudo-header fields in another order": Row(
        send=call(1, b"echo", listed=[AUTHORITY, PATH, SCHEME, METHOD, TYPE, TRAILERS]), expect=done(1, b"echo")
    ),
    "9113 8.3.1: :authority may be missing": echoed(without=[b":authority"]),
    "9113 8.3.1: host instead of :authority": echoed((b"host", b"processor"), without=[b":authority"]),
    "9113 8.3.1: host beside an equal :authority": echoed((b"host", b"processor")),
    "9113 8.3.1: host that differs from :authority (a server should refuse, :authority counts)": Row(
        send=call(1, b"echo", listed=fields((b"host", b"other"))), expect=either(done(1, b"echo"), malformed(1))
    ),
    "9113 8.3.1: :authority with user information (a client must not)": Row(
        send=call(1, b"echo", listed=fields(authority=b"user@processor")),
        expect=either(done(1, b"echo"), malformed(1)),
    ),
    "9113 8.3.1: :scheme https": echoed(scheme=b"https"),
    "9113 8.3.1: :path * is for OPTIONS": Row(
        send=never(path=b"*"), expect=(either(malformed(1), status(1, 12), http_status(1, 400, 404)), fed())
    ),
    "9113 8.3.1: :path without a slash": Row(
        send=never(path=b"process"), expect=(either(malformed(1), status(1, 12), http_status(1, 400, 404)), fed())
    ),
    "9113 8.5: CONNECT with :scheme and :path": Row(
        send=never(method=b"CONNECT"),
        expect=(either(malformed(1), http_status(1, 400, 405, 501), status(1, 12)), fed()),
    ),
    "9113 8.5: CONNECT as it should be is not offered": Row(
        send=headers(1, [(b":method", b"CONNECT"), AUTHORITY]) + data(1, b"tunnel"),
        expect=(either(malformed(1), http_status(1, 400, 404, 405, 415, 501), status(1, 12)), fed()),
    ),
    "9113 8.3: fields that are split between HEADERS and CONTINUATION keep their order": Row(
        send=headers(1, encoded=block([METHOD, TYPE]), flags=0)
        + continuation(1, block([SCHEME, PATH]))
        + data(1, NEVER),
        expect=malformed(1),
    ),
    "9113 8.1.1: a malformed request is forgotten, the next one is served": Row(
        send=call(1, b"never", listed=fields((b"X", b"1"))) + call(3, b"echo"),
        expect=(malformed(1), served_after_all(3)),
    ),
    "9113 8.1.1: the same malformed request is refused every time": Row(
        send=b"".join(call(stream, b"never", listed=fields((b"X", b"1"))) for stream in (1, 3, 5)),
        expect=(malformed(1), malformed(3), malformed(5)),
    ),
    "9113 8.1: the same request is served every time": Row(
        send=b"".join(call(stream, b"echo") for stream in (1, 3, 5, 7)),
        expect=(done(1, b"echo"), done(3, b"echo"), done(5, b"echo"), done(7, b"echo")),
    ),
    "9113 8.7: open calls without a mistake": Row(
        send=call(1, b"a", end=False) + call(3, b"b", end=False), expect=(replies(1, b"a"), replies(3, b"b"), accepted)
    ),
}

ROWS = {**MESSAGES, **FIELDS, **PSEUDO}


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("rule", ROWS)
def test_a_rule_of_requests(rule, arrival):
    check(ROWS[rule], arrival)


# RFC 9113, 8.2.1: what a field name must not contain; a colon is none of a token either.
NAME_OCTETS = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")
FORBIDDEN_IN_NAMES = frozenset([*range(0x21), *range(0x41, 0x5B), *range(0x7F, 0x100), ord(":")])


@pytest.mark.parametrize("octet", range(256))
def test_each_octet_in_a_field_name(octet):
    """RFC 9113, 8.2.1; the octets between its two lists are no tokens (RFC 9110, 5.6.2) and may be refused."""
    name = b"x" + bytes([octet]) + b"y"
    send = call(1, b"echo", listed=fields((name, b"1")))
    if octet in NAME_OCTETS:
        row = Row(send=send, expect=done(1, b"echo"))
    elif octet in FORBIDDEN_IN_NAMES:
        row = refused(never((name, b"1")))
    else:
        row = Row(send=send, expect=either(done(1, b"echo"), malformed(1)))
    check(row, "at once")


@pytest.mark.parametrize("octet", range(256))
def test_each_octet_in_a_field_value(octet):
    """RFC 9113, 8.2.1: NUL, LF and CR never; other control characters are no field content and may be refused."""
    value = b"a" + bytes([octet]) + b"b"
    if octet in b"\0\r\n":
        row = refused(never((b"x", value)))
    elif octet == 0x7F or (octet < 0x20 and octet != 0x09):
        row = Row(
            send=call(1, b"echo", listed=fields((b"x", value))),
            expect=either(done(1, b"echo"), malformed(1)),
        )
    else:
        row = echoed((b"x", value))
    check(row, "at once")
