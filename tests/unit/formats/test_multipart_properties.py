"""Forms of any content: they are read as the standard library's reader of mail does, and edits are found again."""

from __future__ import annotations

import random
from email import policy
from email.parser import BytesParser

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from extproc.formats import multipart
from extproc.formats.multipart import MultipartError
from tests.fuzz import fuzz_multipart

few = settings(max_examples=40)
"""A form costs a millisecond or two to draw."""

NAMES = ("model", "file", "prompt", "image[]", "größe", 'a"b', "stream")
TEMPLATES = (
    'Content-Disposition: form-data; name="{}"',
    "content-disposition:form-data;name=\"{}\"; filename*=utf-8''%41",
    'Content-Type: audio/wav\r\nCONTENT-DISPOSITION: form-data; filename="x.wav"; name="{}"',
    'Content-Disposition: form-data;\r\n name="{}"',
)
BOUNDARIES = st.text("abcXYZ019'()+_,-./:=?", min_size=1, max_size=70)
SIGNS = '\r\n-- \t=:;"q\0\x7fé'


@st.composite
def contents(draw: st.DrawFn, boundary: str) -> bytes:
    """Octets with much that looks like a boundary, but no boundary where a line begins."""
    lookalikes = [
        f"\r\n-{boundary}",
        f"\r\n---{boundary}",
        f"--{boundary}",
        f"\r\n--{boundary[:-1]}",
        f" --{boundary}--",
    ]
    piece = st.one_of(
        st.binary(max_size=20), st.text(SIGNS, max_size=8).map(str.encode), st.sampled_from(lookalikes).map(str.encode)
    )
    content = b"x" + b"".join(draw(st.lists(piece, max_size=6)))
    needle = f"--{boundary}".encode()
    assume(b"\n" + needle not in content)
    assume(b"\r" + needle not in content)
    return content


@st.composite
def forms(draw: st.DrawFn) -> tuple[bytes, str, list[tuple[str, bytes]]]:
    """A body, its boundary, and the names and contents of its parts."""
    boundary = draw(BOUNDARIES)
    preamble, epilogue = draw(contents(boundary)) + b"\r\n", draw(contents(boundary))
    body = draw(st.sampled_from([b"", preamble]))
    parts = []
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6)):
        content = draw(st.one_of(st.just(b""), contents(boundary)))
        header = draw(st.sampled_from(TEMPLATES)).format(name.replace('"', '\\"'))
        parts.append((name, content))
        body += b"--%b\r\n%b\r\n\r\n%b\r\n" % (boundary.encode(), header.encode(), content)
    body += f"--{boundary}--".encode() + draw(st.sampled_from([b"", b"\r\n", b"\r\n" + epilogue]))
    return body, boundary, parts


def read_as_mail(body: bytes, content_type: str) -> list[tuple[str, bytes]]:
    """What the standard library finds: another reader, that shares no line with ours."""
    head = b"Content-Type: " + content_type.encode() + b"\r\n\r\n"
    message = BytesParser(policy=policy.compat32).parsebytes(head + body)
    return [
        (part.get_param("name", header="content-disposition"), part._payload.encode("ascii", "surrogateescape"))
        for part in message.get_payload()
    ]


def without_hard_names(parts: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Parts without the names for which the reader of mail has its own rules."""
    return [(name if name.isascii() and '"' not in name else "", content) for name, content in parts]


def agree(parts: list[tuple[str, bytes]], as_mail: list[tuple[str, bytes]]) -> bool:
    return without_hard_names(parts) == [
        (name if mine else "", content)
        for (name, content), (mine, _) in zip(as_mail, without_hard_names(parts), strict=True)
    ]


@few
@given(form=forms())
def test_any_form_is_read_as_another_reader_does(form):
    body, boundary, parts = form
    content_type = f'multipart/form-data; boundary="{boundary}"'

    read = multipart.read(body, multipart.boundary_of(content_type))

    assert [(part.name, body[part.start : part.end]) for part in read.parts] == parts
    assert agree(parts, read_as_mail(body, content_type))


@few
@given(form=forms(), model=st.text(st.characters(min_codepoint=32, exclude_categories=("Cs",)), max_size=40))
def test_an_edited_form_is_the_form_with_another_model(form, model):
    body, boundary, parts = form
    assume(f"--{boundary}" not in model)
    content_type = f'multipart/form-data; boundary="{boundary}"'
    read = multipart.read(body, boundary.encode())

    edited = read.replace(read.named("model"), model)

    after = multipart.read(edited, boundary.encode())
    wanted = [(name, model.encode() if name == "model" else content) for name, content in parts]
    assert [(part.name, edited[part.start : part.end]) for part in after.parts] == wanted
    assert agree(wanted, read_as_mail(edited, content_type))
    assert [after.text(part) for part in after.named("model")] == [model] * len(read.named("model"))
    # Put the old contents back, and not a byte is different.
    position, pieces = 0, []
    for part, (_, content) in zip(after.parts, parts, strict=True):
        pieces += [edited[position : part.start], content]
        position = part.end
    assert b"".join([*pieces, edited[position:]]) == body


@few
@given(form=forms(), data=st.data())
def test_a_mutilated_form_is_read_or_refused(form, data):
    body, boundary, _ = form
    mutilated = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(mutilated)))
        mutilated[place : place + data.draw(st.integers(0, 3))] = data.draw(
            st.sampled_from([b"", b"\n", b"\r", b"\r\n", b"-", b" ", b'"', b"\\", b"\xff", f"--{boundary}".encode()])
        )
    try:
        read = multipart.read(bytes(mutilated), boundary.encode())
    except MultipartError:
        return
    assert all(0 < part.start <= part.end < len(mutilated) for part in read.parts)


@given(text=st.one_of(st.text(), st.text("multipart/form-data; boundary=\"q\\'*", max_size=60)))
def test_any_content_type_is_read_or_refused(text):
    try:
        boundary = multipart.boundary_of(text)
    except MultipartError:
        return
    assert multipart.is_form(text)
    assert boundary


SEEDS = {str(number): seed for number, seed in enumerate(fuzz_multipart.SEEDS)}


@pytest.mark.parametrize("seed", SEEDS.values(), ids=SEEDS)
def test_the_fuzz_target_accepts_its_seeds(seed):
    assert fuzz_multipart.one_input(seed) is None


@given(number=st.integers(0, 100), seed=st.integers(0, 2**32))
def test_the_fuzz_target_accepts_damaged_seeds(number, seed):
    chance = random.Random(seed)
    data = bytearray(fuzz_multipart.SEEDS[number % len(fuzz_multipart.SEEDS)])
    for _ in range(chance.randrange(1, 6)):
        place = chance.randrange(len(data))
        match chance.randrange(3):
            case 0:
                data[place:place] = chance.choice([b"\r", b"\n", b"\r\n", b"--q", b'"', b"\\", b";", b":", b" ", b"-"])
            case 1 if len(data) > 3:
                del data[place : place + chance.randrange(1, 4)]
            case _:
                data += data[place : place + 30]

    assert fuzz_multipart.one_input(bytes(data)) is None
