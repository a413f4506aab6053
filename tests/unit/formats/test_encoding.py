"""Content codings: what was encoded comes back under any cut, and nothing else is raised than `DecodeError`."""

from __future__ import annotations

import gzip
import itertools
import random
import struct
import tracemalloc
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.formats.encoding import SUPPORTED, DecodeError, acceptable, decoder_for

EVENTS = [b'data: {"choices":[{"delta":{"content":"word %d"}}]}\n\n' % i for i in range(5)]
TEXT = b"".join(EVENTS)


def compress_small(data):
    compressor = zlib.compressobj(wbits=9)
    return compressor.compress(data) + compressor.flush()


def raw_deflate(data):
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


def zstd_stream(data):
    compressor = zstandard.ZstdCompressor().compressobj()
    return compressor.compress(data) + compressor.flush()


def gzip_members(data):
    return b"".join(gzip.compress(data[i : i + 7]) for i in range(0, len(data), 7)) or gzip.compress(b"")


def zstd_frames(data):
    skippable = struct.pack("<II", 0x184D2A5F, 3) + b"abc"
    frames = [zstandard.compress(data[i : i + 7]) + skippable for i in range(0, len(data), 7)]
    return skippable + b"".join(frames)


# Each way to encode, with the header that says so.
ENCODERS = {
    "gzip": ("gzip", gzip.compress),
    "gzip under its old name": ("x-gzip", gzip.compress),
    "gzip, many members": ("gzip", gzip_members),
    "gzip with zeros behind": ("gzip", lambda data: gzip.compress(data) + bytes(600)),
    "deflate": ("deflate", zlib.compress),
    "deflate, stored": ("deflate", lambda data: zlib.compress(data, 0)),
    "deflate, small window": ("deflate", compress_small),
    "deflate, raw": ("deflate", raw_deflate),
    "brotli": ("br", brotli.compress),
    "brotli, fast": ("br", lambda data: brotli.compress(data, quality=0)),
    "zstd": ("zstd", zstandard.compress),
    "zstd, size unknown": ("zstd", zstd_stream),
    "zstd, many frames": ("zstd", zstd_frames),
    "two codings": ("gzip, br", lambda data: brotli.compress(gzip.compress(data))),
    "four codings": (
        "zstd,deflate, br ,gzip",
        lambda data: gzip.compress(brotli.compress(zlib.compress(zstandard.compress(data)))),
    ),
    "upper case, and identity": (" GZip , identity", gzip.compress),
}
each_encoder = pytest.mark.parametrize(("header", "encode"), ENCODERS.values(), ids=ENCODERS)


def cut(data, places):
    edges = [0, *sorted(places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def decode(header, pieces, **options):
    decoder = decoder_for(header, **options)
    return b"".join([*map(decoder.feed, pieces), decoder.finish()])


@each_encoder
@settings(deadline=None, max_examples=40)
@given(data=st.one_of(st.binary(max_size=300), st.integers(0, 40).map(lambda times: TEXT * times)), cuts=st.data())
def test_any_cut_decodes_to_what_was_encoded(header, encode, data, cuts):
    encoded = encode(data)
    places = cuts.draw(st.lists(st.integers(0, len(encoded)), max_size=6))

    assert decode(header, cut(encoded, places)) == data


@each_encoder
def test_single_bytes_decode_to_what_was_encoded(header, encode):
    encoded = encode(TEXT)

    assert decode(header, [encoded[i : i + 1] for i in range(len(encoded))]) == TEXT


# Between members or frames, and in the padding behind them, a body may end.
ENDS_IN_BETWEEN = {"gzip, many members", "gzip with zeros behind", "zstd, many frames"}


@pytest.mark.parametrize("name", [name for name in ENCODERS if name not in ENDS_IN_BETWEEN])
def test_what_is_cut_short_is_an_error_at_the_end(name):
    header, encode = ENCODERS[name]
    encoded = encode(TEXT)

    for length in range(1, len(encoded)):
        decoder = decoder_for(header)
        assert TEXT.startswith(decoder.feed(encoded[:length]))
        with pytest.raises(DecodeError, match="cut short"):
            decoder.finish()


@pytest.mark.parametrize(
    ("header", "body"), [("gzip", gzip.compress(b"a")), ("zstd", zstandard.compress(b"a"))], ids=["gzip", "zstd"]
)
def test_a_second_member_that_is_cut_short_is_an_error_at_the_end(header, body):
    assert decode(header, [body * 2]) == b"aa"

    for length in range(1, len(body)):
        decoder = decoder_for(header)
        assert decoder.feed(body + body[:length])[:1] == b"a"
        with pytest.raises(DecodeError, match="cut short"):
            decoder.finish()


FLUSHING = {
    "gzip": lambda: zlib.compressobj(wbits=31),
    "deflate": zlib.compressobj,
    "br": lambda: brotli.Compressor(quality=1),
    "zstd": lambda: zstandard.ZstdCompressor().compressobj(),
}


def flushed(coding, compressor, event):
    match coding:
        case "br":
            return compressor.process(event) + compressor.flush()
        case "zstd":
            return compressor.compress(event) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    return compressor.compress(event) + compressor.flush(zlib.Z_SYNC_FLUSH)


@pytest.mark.parametrize("coding", FLUSHING)
def test_an_event_that_was_flushed_is_there_at_once(coding):
    decoder, compressor = decoder_for(coding), FLUSHING[coding]()

    for event in EVENTS:
        assert decoder.feed(flushed(coding, compressor, event)) == event
        assert decoder.feed(b"") == b""


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, br", "identity", ""])
@pytest.mark.parametrize("pieces", [[], [b""], [b"", b""]])
def test_a_body_of_no_bytes_is_whole(coding, pieces):
    decoder = decoder_for(coding)

    assert [decoder.feed(piece) for piece in pieces] == pieces
    assert decoder.finish() == b""
    assert not decoder.started


@pytest.mark.parametrize("header", ["", "identity", " Identity ", "identity, identity", ","])
def test_identity_changes_nothing(header):
    assert decode(header, [b"a", b"", b"bc"]) == b"abc"


@pytest.mark.parametrize("header", ["compress", "gzip, foo", "gzip;q=1", "*", "gzip gzip", ", ".join(["gzip"] * 5)])
def test_an_unknown_coding_has_no_decoder(header):
    assert decoder_for(header) is None


CORRUPT = {
    "gzip: no header": ("gzip", b"data: x\n\n"),
    "gzip: wrong checksum": ("gzip", gzip.compress(TEXT)[:-8] + b"12345678"),
    "gzip: no member behind a member": ("gzip", gzip.compress(TEXT) + b"tail"),
    "gzip: zeros first": ("gzip", bytes(10) + gzip.compress(TEXT)),
    "deflate: wrong checksum": ("deflate", zlib.compress(TEXT)[:-4] + b"1234"),
    "deflate: needs a dictionary": ("deflate", b"\x78\xbb" + zlib.compress(TEXT)[2:]),
    "deflate: data behind the end": ("deflate", zlib.compress(TEXT) + b"tail"),
    "deflate: no such block": ("deflate", b"\x07\x00"),
    "br: no such data": ("br", b"\xff" * 20),
    "br: data behind the end": ("br", brotli.compress(TEXT) + b"tail"),
    "zstd: no magic number": ("zstd", b"data: x\n\n"),
    "zstd: data behind the end": ("zstd", zstandard.compress(TEXT) + b"tail"),
    "inner coding": ("gzip, br", brotli.compress(b"no gzip, but long enough")),
}


@pytest.mark.parametrize(("header", "body"), CORRUPT.values(), ids=CORRUPT)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_corrupt_data_is_an_error_and_stays_one(header, body, size):
    decoder = decoder_for(header)

    with pytest.raises(DecodeError):
        feed_all(decoder, [body[start : start + size] for start in range(0, len(body), size)])
    with pytest.raises(DecodeError, match="before"):
        decoder.feed(b"x")
    with pytest.raises(DecodeError, match="before"):
        decoder.finish()
    assert decoder.feed(b"") == b""


@settings(deadline=None, max_examples=300)
@given(
    header=st.lists(st.sampled_from(sorted(SUPPORTED)), min_size=1, max_size=3).map(",".join),
    body=st.one_of(
        st.binary(max_size=200),
        st.tuples(st.sampled_from([encode for _, encode in ENCODERS.values()]), st.integers(0, 2**32)).map(
            lambda drawn: damaged(drawn[0](TEXT), random.Random(drawn[1]))
        ),
    ),
    places=st.lists(st.integers(0, 200), max_size=4),
)
def test_garbage_raises_nothing_but_a_decode_error(header, body, places):
    decoder = decoder_for(header)
    try:
        feed_all(decoder, cut(body, [min(place, len(body)) for place in places]))
        decoder.finish()
    except DecodeError as error:
        reason = str(error)
    else:
        reason = "right by chance"

    assert reason


def feed_all(decoder, pieces):
    return b"".join(map(decoder.feed, pieces))


def damaged(data, chance):
    edited = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        edited[chance.randrange(len(edited))] = chance.randrange(256)
    return bytes(edited)


MIB = 1 << 20


def brotli_bomb(size):
    compressor, zeros = brotli.Compressor(quality=5), bytes(MIB)
    return b"".join([*(compressor.process(zeros) for _ in range(size // MIB)), compressor.finish()])


BOMBS = {
    "gzip": lambda size: gzip.compress(bytes(size), 1),
    "deflate": lambda size: zlib.compress(bytes(size), 1),
    "br": brotli_bomb,
    "zstd": lambda size: zstandard.compress(bytes(size)),
    "gzip, gzip": lambda size: gzip.compress(gzip.compress(bytes(size), 1)),
    "zstd, br": lambda size: brotli.compress(zstandard.compress(bytes(size))),
}


@pytest.mark.parametrize(("header", "bomb"), BOMBS.items(), ids=BOMBS)
def test_a_bomb_ends_close_to_the_limit(header, bomb):
    body = bomb(64 * MIB)
    decoder = decoder_for(header, limit=2 * MIB)

    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match="exceeds the limit"):
            decoder.feed(body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # zstd gives no bound on its output but that of its input: 128 KiB for each 4 bytes of a slice.
    assert peak < (40 if "zstd" in header else 8) * MIB


@pytest.mark.parametrize(("header", "encode"), [ENCODERS[name] for name in ("gzip", "deflate", "brotli", "zstd")])
def test_the_limit_is_on_the_whole_body_and_is_inclusive(header, encode):
    body = encode(TEXT)

    assert decode(header, [body], limit=len(TEXT)) == TEXT
    with pytest.raises(DecodeError, match="exceeds the limit"):
        decode(header, [body[i : i + 1] for i in range(len(body))], limit=len(TEXT) - 1)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_a_long_stream_in_small_pieces_is_decoded_in_linear_time(coding):
    compressor, decoder, size = FLUSHING[coding](), decoder_for(coding), 0
    chance = random.Random(1)
    for _ in range(4000):
        piece = flushed(coding, compressor, chance.randbytes(5000))
        size += len(decoder.feed(piece[:500])) + len(decoder.feed(piece[500:]))

    assert size == 20_000_000


def test_many_tiny_members_at_once_are_decoded_in_linear_time():
    members, frames = gzip.compress(b"x") * 40_000, zstandard.compress(b"x") * 40_000

    assert decode("gzip", [members]) == b"x" * 40_000
    assert decode("zstd", [frames]) == b"x" * 40_000


def test_a_zstd_window_beyond_the_standard_is_refused():
    wide = zstandard.ZstdCompressionParameters.from_level(19, window_log=24)
    compressor = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    body = compressor.compress(b"x" * 100) + compressor.flush()

    with pytest.raises(DecodeError, match="memory"):
        decoder_for("zstd").feed(body)


ACCEPTED = {
    "all known": ("gzip, deflate, br, zstd", None),
    "none given": ("", None),
    "identity": ("identity", None),
    "an unknown one": ("gzip, compress, br", "gzip, br"),
    "any": ("gzip, *", "gzip"),
    "only any": ("*", "identity"),
    "only unknown": ("dcb, dcz", "identity"),
    "weights": ("br;q=1.0, foo;q=0.9, gzip;q=0.8, *;q=0.1", "br;q=1.0, gzip;q=0.8"),
    "a weight of zero": ("gzip;q=0, *", "gzip;q=0"),
    "upper case": ("GZIP, Foo", "GZIP"),
    "blanks": (" gzip ;q=0.5 ,foo", "gzip ;q=0.5"),
    "empty items": ("gzip,,br", None),
    "nothing is refused but identity": ("identity;q=0, gzip, foo", "identity;q=0, gzip"),
}


@pytest.mark.parametrize(("header", "gives"), ACCEPTED.values(), ids=ACCEPTED)
def test_acceptable(header, gives):
    assert acceptable(header) == gives


@given(
    header=st.lists(st.sampled_from(["gzip", "br;q=0.5", "foo", "*", "identity", "zstd", " X-GZIP", ""])).map(",".join)
)
def test_what_is_acceptable_can_be_decoded(header):
    rewritten = acceptable(header)

    assert acceptable(header if rewritten is None else rewritten) is None
    for item in (header if rewritten is None else rewritten).split(","):
        assert decoder_for(item.partition(";")[0]) is not None
