"""Forms as byte ranges: what is read, what is edited, and what is refused and why (contract, transcriptions 13.1)."""

from __future__ import annotations

import pytest

from extproc.formats import multipart
from extproc.formats.multipart import MultipartError

MODEL = b'Content-Disposition: form-data; name="model"'


def form(*lines: bytes, end: bytes = b"\r\n") -> bytes:
    return end.join((*lines, b""))


def simple(*headers: bytes, content: bytes = b"a", end: bytes = b"\r\n") -> bytes:
    """A form of one part, with boundary ``q``."""
    return form(b"--q", *headers, b"", content, b"--q--", end=end)


def found(body: bytes, boundary: bytes = b"q") -> list[tuple[str, bytes]]:
    return [(part.name, body[part.start : part.end]) for part in multipart.read(body, boundary).parts]


CONTENT_TYPES = {
    "bare": ("multipart/form-data; boundary=q", b"q"),
    "quoted": ('multipart/form-data; boundary="a b:c"', b"a b:c"),
    "quoted with escapes": (r'multipart/form-data; boundary="a\"b\\c"', rb'a"b\c'),
    "upper case": ("Multipart/Form-Data; BOUNDARY=Q", b"Q"),
    "no blank": ("multipart/form-data;boundary=q", b"q"),
    "blanks": ("multipart/form-data \t;\t boundary=q \t", b"q"),
    "other parameters": ('multipart/form-data; charset=utf-8; x="a;boundary=b"; boundary=q; y=z', b"q"),
    "semicolon at the end": ("multipart/form-data; boundary=q;", b"q"),
    "two semicolons": ("multipart/form-data;; boundary=q", b"q"),
    "signs that owe quotes": ("multipart/form-data; boundary=----=_Part_1:2/3", b"----=_Part_1:2/3"),
    "stars": ("multipart/form-data; boundary=*****", b"*****"),
}


@pytest.mark.parametrize(("content_type", "boundary"), CONTENT_TYPES.values(), ids=CONTENT_TYPES)
def test_the_boundary_is_read_from_the_content_type(content_type, boundary):
    assert multipart.is_form(content_type)
    assert multipart.boundary_of(content_type) == boundary


BAD_CONTENT_TYPES = {
    "another type": ("text/plain; boundary=q", "not multipart/form-data"),
    "a longer type": ("multipart/form-data-x; boundary=q", "not multipart/form-data"),
    "no type": ("; boundary=q", "not multipart/form-data"),
    "none": ("multipart/form-data", "missing boundary"),
    "none among parameters": ("multipart/form-data; charset=utf-8", "missing boundary"),
    "empty": ('multipart/form-data; boundary=""', "missing boundary"),
    "no value": ("multipart/form-data; boundary=", "cannot be read"),
    "no name": ("multipart/form-data; ===", "cannot be read"),
    "unfinished quotes": ('multipart/form-data; boundary="q', "cannot be read"),
    "two values": ("multipart/form-data; boundary=q w", "cannot be read"),
    "twice": ("multipart/form-data; boundary=q; Boundary=q", "twice"),
    "extended": ("multipart/form-data; boundary*=utf-8''q; boundary=q", "extended"),
    "too long": ("multipart/form-data; boundary=" + "q" * 201, "longer than 200"),
    "blank at the end": ('multipart/form-data; boundary="q "', "cannot stand in a line"),
    "line end": ('multipart/form-data; boundary="q\r\n"', "cannot stand in a line"),
    "unknown escape": (r'multipart/form-data; boundary="\q"', "unknown escape"),
}


@pytest.mark.parametrize(("content_type", "reason"), BAD_CONTENT_TYPES.values(), ids=BAD_CONTENT_TYPES)
def test_a_content_type_without_a_usable_boundary_is_refused(content_type, reason):
    with pytest.raises(MultipartError, match=reason):
        multipart.boundary_of(content_type)


FORMS = {
    "one part": (simple(MODEL), [("model", b"a")]),
    "two parts": (
        form(b"--q", MODEL, b"", b"a", b"--q", b"content-disposition: form-data; name=file", b"", b"RIFF", b"--q--"),
        [("model", b"a"), ("file", b"RIFF")],
    ),
    "line ends of LF": (
        form(b"--q", MODEL, b"", b"a", b"--q", MODEL, b"", b"b\r\nc", b"--q--", end=b"\n"),
        [("model", b"a"), ("model", b"b\r\nc")],
    ),
    "CR before a bare LF is content": (simple(MODEL, content=b"a\r", end=b"\n"), [("model", b"a\r")]),
    "preamble and epilogue": (
        form(b"before", b"--qx", b"-q", b"--q", MODEL, b"", b"a", b"--q--", b"after", b"--q", b"x"),
        [("model", b"a")],
    ),
    "nothing after the closing boundary": (simple(MODEL)[:-2], [("model", b"a")]),
    "blanks after boundaries": (form(b"--q \t", MODEL, b"", b"a", b"--q-- \t"), [("model", b"a")]),
    "empty content": (simple(MODEL, content=b""), [("model", b"")]),
    "empty content without a line end of its own": (form(b"--q", MODEL, b"", b"--q--"), [("model", b"")]),
    "content with line ends": (simple(MODEL, content=b"\r\na\r\n\r\n"), [("model", b"\r\na\r\n\r\n")]),
    "content with other dashes": (
        simple(MODEL, content=b"-q\r\n---q\r\n--\r\n--p\r\n--qq\r\n--q-\r\n --q\r\na--q\r\n"),
        [("model", b"-q\r\n---q\r\n--\r\n--p\r\n--qq\r\n--q-\r\n --q\r\na--q\r\n")],
    ),
    "headers in any case": (
        simple(b"CONTENT-DISPOSITION: FORM-DATA; NAME=model", b"content-TYPE: text/plain"),
        [("model", b"a")],
    ),
    "no blank after the colon": (simple(b"Content-Disposition:form-data;name=model"), [("model", b"a")]),
    "folded header": (simple(b"Content-Disposition: form-data;", b'\tname="model"'), [("model", b"a")]),
    "extended name of a file": (
        simple(b"Content-Disposition: form-data; filename*=utf-8''%e2%82%ac.wav; name=file"),
        [("file", b"a")],
    ),
    "name of a file with backslashes": (
        simple(rb'Content-Disposition: form-data; filename="C:\new\a.wav"; name="file"'),
        [("file", b"a")],
    ),
    "name of a file with name in it": (
        simple(b'Content-Disposition: form-data; filename="; name=model"; name="file"'),
        [("file", b"a")],
    ),
    "name with escapes": (
        simple(rb'Content-Disposition: form-data; name="a\"\\b"'),
        [(r"a\"\b".replace(r"\"", '"'), b"a")],
    ),
    "name in UTF-8": (simple('Content-Disposition: form-data; name="größe"'.encode()), [("größe", b"a")]),
    "name that is not UTF-8": (simple(b'Content-Disposition: form-data; name="mod\xffel"'), [("mod\ufffdel", b"a")]),
    "another case is another name": (simple(b"Content-Disposition: form-data; name=Model"), [("Model", b"a")]),
    "no name": (simple(b"Content-Disposition: form-data"), [("", b"a")]),
    "no disposition": (simple(b"Content-Type: text/plain"), [("", b"a")]),
    "no headers": (form(b"--q", b"", b"a", b"--q--"), [("", b"a")]),
    "nothing at all": (form(b"--q", b"", b"--q--"), [("", b"")]),
}


@pytest.mark.parametrize(("body", "parts"), FORMS.values(), ids=FORMS)
def test_parts_are_found_with_their_bytes(body, parts):
    assert found(body) == parts


def test_a_boundary_may_hold_what_looks_like_its_end():
    body = form(b"--q--q", MODEL, b"", b"--q--", b"--q--q--")

    assert found(body, b"q--q") == [("model", b"--q--")]


BAD_FORMS = {
    "empty": (b"", "the boundary is nowhere"),
    "garbage": (b"not a form", "the boundary is nowhere"),
    "another boundary": (simple(MODEL).replace(b"--q", b"--p"), "the boundary is nowhere"),
    "only a closing boundary": (b"--q--\r\n", "no part"),
    "no closing boundary": (simple(MODEL)[:-7], "the closing boundary is missing"),
    "half of the closing boundary": (simple(MODEL)[:-4], "the closing boundary is missing"),
    "cut off after a boundary": (form(b"--q", MODEL, b"", b"a", b"--q"), "the closing boundary is missing"),
    "cut off in a boundary line": (form(b"--q", MODEL, b"", b"a") + b"--q", "the closing boundary is missing"),
    "cut off in headers": (form(b"--q", MODEL), "the closing boundary is missing"),
    "more on a boundary line": (form(b"--q", MODEL, b"", b"a", b"--q x", b"--q--"), "goes on after the boundary"),
    "more on the closing line": (form(b"--q", MODEL, b"", b"a", b"--q--x"), "goes on after the boundary"),
    "CR alone after a boundary": (form(b"--q", MODEL, b"", b"a", b"--q\rb", b"--q--"), "goes on after the boundary"),
    "LF after CRLF": (form(b"--q", MODEL, b"", b"a") + b"--q\n" + simple(MODEL), "different line ends"),
    "CRLF after LF": (b"--q\n\na\n--q\r\n\na\n--q--\n", "different line ends"),
    "boundary behind a bare LF": (simple(MODEL, content=b"a\n--q\r\nb"), "another line end"),
    "boundary behind a bare CR": (simple(MODEL, content=b"a\r--q\r\nb"), "another line end"),
    "boundary behind a bare CR, lines of LF": (simple(MODEL, content=b"a\r--q\nb", end=b"\n"), "another line end"),
    "first boundary behind a bare LF": (b"before\n" + simple(MODEL), "another line end"),
    "no end of the headers": (form(b"--q", MODEL, b"--q--"), "part 1: its headers have no end"),
    "no end of the headers of the second": (
        form(b"--q", b"", b"a", b"--q", MODEL, b"--q--"),
        "part 2: its headers have no end",
    ),
    "no end of no headers": (form(b"--q", b"--q--"), "part 1: its headers have no end"),
    "headers that are too long": (simple(MODEL, b"X: " + b"x" * 17_000), "part 1: its headers are longer than 16384"),
    "LF alone in headers": (simple(MODEL + b"\nX: y"), "part 1: a header holds a control character"),
    "CR alone in headers": (simple(MODEL + b"\rX: y"), "control character"),
    "headers in CRLF of a form in LF": (simple(MODEL + b"\r\nX: y", end=b"\n"), "control character"),
    "NUL in headers": (simple(MODEL + b"\0"), "control character"),
    "no colon": (simple(b"Content-Disposition"), "a header has no name"),
    "no name of a header": (simple(b": form-data"), "a header has no name"),
    "blank before the colon": (simple(b"Content-Disposition : form-data"), "a header has no name"),
    "fold at the beginning": (simple(b" x", MODEL), "begins with a blank"),
    "two dispositions": (simple(MODEL, MODEL.replace(b"model", b"file")), "a header is there twice"),
    "the same disposition twice": (simple(MODEL, MODEL), "a header is there twice"),
    "two names": (simple(MODEL + b"; name=file"), "a parameter twice"),
    "two names in other cases": (simple(MODEL + b"; Name=file"), "a parameter twice"),
    "extended name": (simple(b"Content-Disposition: form-data; name*=utf-8''model"), "extended name"),
    "name in pieces": (simple(b"Content-Disposition: form-data; name*0=mo; name*1=del"), "extended name"),
    "another disposition": (simple(MODEL.replace(b"form-data", b"attachment")), "not form-data"),
    "unfinished quotes": (simple(MODEL[:-1]), "a parameter that cannot be read"),
    "text after quotes": (simple(MODEL + b"x"), "a parameter that cannot be read"),
    "blank in a bare name": (simple(b"Content-Disposition: form-data; name=mo del"), "cannot be read"),
    "unknown escape in a name": (simple(rb'Content-Disposition: form-data; name="mo\del"'), "unknown escape"),
    "too many parts": (b"--q\r\n\r\n\r\n" * 1001 + b"--q--", "more than 1000 parts"),
    "too many lines like the boundary": (
        simple(MODEL, content=b"\r\n--qx" * 2001),
        "too many lines begin like the boundary",
    ),
}


@pytest.mark.parametrize(("body", "reason"), BAD_FORMS.values(), ids=BAD_FORMS)
def test_a_form_that_is_broken_or_ambiguous_is_refused(body, reason):
    with pytest.raises(MultipartError, match=reason):
        multipart.read(body, b"q")


def test_as_many_parts_as_are_allowed_are_read():
    assert len(multipart.read(b"--q\r\n\r\n\r\n" * 1000 + b"--q--", b"q").parts) == 1000


@pytest.mark.parametrize("body", [simple(MODEL), form(b"x", b"--q", MODEL, b"", b"--q--", end=b"\n")])
def test_no_beginning_of_a_form_is_read(body):
    for length in range(len(body) - 1):
        if b"--q--" not in body[:length]:
            with pytest.raises(MultipartError):
                multipart.read(body[:length], b"q")


TEXTS = {
    "plain": ((), b"gpt-4", "gpt-4"),
    "UTF-8": ((), "größe \U0001f680".encode(), "größe \U0001f680"),
    "empty": ((), b"", ""),
    "8bit": ((b"Content-Transfer-Encoding: 8bit",), b"a=3D", "a=3D"),
    "binary": ((b"content-transfer-encoding:BINARY",), b"a=3D", "a=3D"),
    "quoted-printable": ((b"Content-Transfer-Encoding: Quoted-Printable",), b"gpt=2D4=3d=\r\n=C3=A4", "gpt-4=ä"),
}


@pytest.mark.parametrize(("headers", "content", "text"), TEXTS.values(), ids=TEXTS)
def test_a_part_is_read_as_text(headers, content, text):
    read = multipart.read(simple(MODEL, *headers, content=content), b"q")

    assert read.text(read.parts[0]) == text


BAD_TEXTS = {
    "not UTF-8": ((), b"\xff", "not UTF-8"),
    "too long": ((), b"x" * 65_537, "longer than 65536 bytes"),
    "base64": ((b"Content-Transfer-Encoding: base64",), b"YQ==", "unknown"),
    "broken quoted-printable": ((b"Content-Transfer-Encoding: quoted-printable",), b"a=4", "not quoted-printable"),
    "quoted-printable that is not UTF-8": ((b"Content-Transfer-Encoding: quoted-printable",), b"=FF", "not UTF-8"),
}


@pytest.mark.parametrize(("headers", "content", "reason"), BAD_TEXTS.values(), ids=BAD_TEXTS)
def test_a_part_that_is_no_text_is_refused_only_when_it_is_read(headers, content, reason):
    read = multipart.read(simple(MODEL, *headers, content=content), b"q")

    with pytest.raises(MultipartError, match=reason):
        read.text(read.parts[0])


QUOTED = b"Content-Transfer-Encoding: quoted-printable"
EDITS = {
    "in place": (simple(MODEL), simple(MODEL, content=b"new")),
    "every part of the name": (
        form(b"--q", MODEL, b"", b"a", b"--q", b"X: y", b"", b"a", b"--q", MODEL, b"X:z", b"", b"", b"--q--"),
        form(b"--q", MODEL, b"", b"new", b"--q", b"X: y", b"", b"a", b"--q", MODEL, b"X:z", b"", b"new", b"--q--"),
    ),
    "lines of LF": (simple(MODEL, end=b"\n"), simple(MODEL, content=b"new", end=b"\n")),
    "a part without a line end of its own": (
        form(b"--q", MODEL, b"", b"--q", MODEL, b"", b"--q--", b"after"),
        form(b"--q", MODEL, b"", b"new", b"--q", MODEL, b"", b"new", b"--q--", b"after"),
    ),
    "the same in lines of LF": (
        form(b"--q", MODEL, b"", b"--q--", end=b"\n"),
        form(b"--q", MODEL, b"", b"new", b"--q--", end=b"\n"),
    ),
    "around it": (
        form(b"before", b"--q \t", MODEL, b"", b"\xff\0a", b"--q-- ", b"after \xff")[:-2],
        form(b"before", b"--q \t", MODEL, b"", b"new", b"--q-- ", b"after \xff")[:-2],
    ),
    "no such part": (simple(b"X: y"), simple(b"X: y")),
}


@pytest.mark.parametrize(("body", "edited"), EDITS.values(), ids=EDITS)
def test_an_edit_leaves_every_other_byte(body, edited):
    read = multipart.read(body, b"q")

    assert read.replace(read.named("model"), "new") == edited


def test_an_edit_keeps_to_the_encoding_of_its_part():
    read = multipart.read(simple(MODEL, QUOTED), b"q")

    edited = read.replace(read.parts, "a=b ä")

    assert edited == simple(MODEL, QUOTED, content=b"a=3Db=20=C3=A4")
    again = multipart.read(edited, b"q")
    assert again.text(again.parts[0]) == "a=b ä"


def test_an_edit_that_would_break_the_form_is_refused():
    read = multipart.read(simple(MODEL), b"q")
    with pytest.raises(MultipartError, match="holds the form's boundary"):
        read.replace(read.parts, "--q")

    encoded = multipart.read(simple(MODEL, b"Content-Transfer-Encoding: base64"), b"q")
    with pytest.raises(MultipartError, match="unknown"):
        encoded.replace(encoded.parts, "new")
