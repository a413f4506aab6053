"""Fuzz target of the forms: any body is read or refused, and an edit changes nothing but what it is for."""

from __future__ import annotations

from email import policy
from email.parser import BytesParser

from extproc.formats import multipart
from extproc.formats.multipart import Form, MultipartError
from tests.fuzz.driver import drive

BOUNDARIES = (b"q", b"----q", b"*****", b"a b", b"q--q", b'"', b"--", b"boundary-with-a-usual-length-1234567890")

MODEL = b'Content-Disposition: form-data; name="model"'
FILE = b'content-disposition: form-data; filename="x.wav"; name="file"\r\nContent-Type: audio/wav'


def _form(*lines: bytes, end: bytes = b"\r\n") -> bytes:
    return end.join((*lines, b""))


# The first octet chooses the boundary.
SEEDS = (
    b"\0" + _form(b"--q", MODEL, b"", b"a", b"--q", FILE, b"", b"RIFF\r\n-q\r\n--p", b"--q--"),
    b"\0" + _form(b"--q", MODEL, b"", b"a", b"--q", MODEL, b"", b"--q--", end=b"\n"),
    b"\0" + _form(b"before", b"--q \t", MODEL, b"", b"--q", b"", b"nameless", b"--q--  ", b"after", b"--q"),
    b"\0" + _form(b"--q", MODEL, b"Content-Transfer-Encoding: quoted-printable", b"", b"a=3Db", b"--q--"),
    b"\1" + _form(b"------q", b"Content-Disposition: form-data;", b' name="model"', b"", b"a", b"------q--"),
    b"\0" + _form(b"--q", b"Content-Disposition: form-data; name*=utf-8''model", b"", b"a", b"--q--"),
    b"\0" + _form(b"--q", b'A: "\\"', MODEL + b"; filename*=utf-8''%e2%82%ac; x=y z", b"", b"a", b"--q--"),
    b"\0" + _form(b"--q", MODEL, b"", b"cut off"),
    b"\4" + _form(b"--q--q", MODEL, b"", b"--q--q--q", b"--q--q--"),
    b"\0--q\r\n--q\r\n--q--",
    b'\0multipart/form-data; x="a\\"b;c"; boundary=q;',
)


def one_input(data: bytes) -> None:
    """Read and edit. Raises nothing; asserts that an edit is found again, and all else as it was."""
    boundary, body = BOUNDARIES[(data[:1] or b"\0")[0] % len(BOUNDARIES)], data[1:]
    _check_content_type(body[:200])
    try:
        form = multipart.read(body, boundary)
    except MultipartError:
        return
    _check_places(form)
    _check_reader_of_mail(form)
    models = form.named("model")
    try:
        edited = form.replace(models, "b")
    except MultipartError:
        assert any(part.encoding not in {"", "quoted-printable"} for part in models)
        return
    _check_edit(form, multipart.read(edited, boundary))


def _check_content_type(text: bytes) -> None:
    try:
        boundary = multipart.boundary_of(text.decode("utf-8", "replace"))
    except MultipartError:
        return
    assert boundary
    assert b"\n" not in boundary
    assert multipart.is_form(text.decode("utf-8", "replace"))


def _check_places(form: Form) -> None:
    position = 0
    for part in form.parts:
        assert position < part.start <= part.end < len(form.body)
        position = part.end
        try:
            form.text(part)
        except MultipartError:
            continue


def _check_reader_of_mail(form: Form) -> None:
    """A reader that takes lines to end in anything finds the same contents."""
    head = b'Content-Type: multipart/form-data; boundary="%b"\n\n' % form.boundary.replace(b'"', b'\\"')
    message = BytesParser(policy=policy.compat32).parsebytes(head + form.body)
    found = message.get_payload()
    # It has its own mind on what a quoted boundary is, and reads forms inside of forms.
    if b"multipart" in form.body.lower() or b"message" in form.body.lower() or form.boundary in (b'"', b"a b"):
        return
    assert len(found) == len(form.parts) or not form.parts
    for part, other in zip(form.parts, found, strict=bool(form.parts)):
        content = form.body[part.start : part.end]
        if form.newline == b"\n":
            # A CR before a bare LF is content here, and for it a part of the line end.
            content = content.removesuffix(b"\r")
        # Its accessor decodes what is no ASCII.
        assert other._payload.encode("ascii", "surrogateescape") == content


def _check_edit(form: Form, edited: Form) -> None:
    assert len(form.parts) == len(edited.parts)
    position = edited_position = 0
    for part, after in zip(form.parts, edited.parts, strict=True):
        assert form.body[position : part.start] == edited.body[edited_position : after.start].removeprefix(
            b"" if form.body.startswith(form.newline, position) else form.newline
        )
        assert (part.name, part.encoding) == (after.name, after.encoding)
        if part.name == "model":
            assert edited.text(after) == "b"
        else:
            assert form.body[part.start : part.end] == edited.body[after.start : after.end]
        position, edited_position = part.end, after.end
    assert form.body[position:] == edited.body[edited_position:].removeprefix(
        b"" if form.body.startswith(form.newline, position) else form.newline
    )


if __name__ == "__main__":
    drive(one_input, name="multipart", package="extproc.formats", seeds=SEEDS)
