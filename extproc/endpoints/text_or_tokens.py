"""What the older OpenAI APIs take for text: a string, strings, token ids, or lists of token ids.

The first element of an array decides what the others have to be (contract, completions 9.1 and embeddings 10.1).
Only the form is looked at; how many there may be, and how long, is up to the backend.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

import msgspec
from msgspec import Struct

from extproc.errors import MalformedRequest


class Kind(StrEnum):
    """The forms, in words for messages."""

    TEXT = "string"
    TEXTS = "array of strings"
    TOKENS = "array of tokens"
    BATCHED_TOKENS = "array of token arrays"
    ITEM = "object"
    ITEMS = "array of objects"


class Form(Struct, frozen=True):
    """A form, and the decoder that checks it."""

    kind: Kind
    decoder: msgspec.json.Decoder[object]


TEXT = Form(Kind.TEXT, msgspec.json.Decoder(str))
TEXTS = Form(Kind.TEXTS, msgspec.json.Decoder(list[str]))
TOKENS = Form(Kind.TOKENS, msgspec.json.Decoder(list[int]))
BATCHED_TOKENS = Form(Kind.BATCHED_TOKENS, msgspec.json.Decoder(list[list[int]]))

Forms = Mapping[bytes, Form]
"""The first byte of a value, or of an array's first element behind its bracket, → its form."""

# An empty array counts as one of strings.
FORMS: Forms = {b'"': TEXT, b'["': TEXTS, b"[": TEXTS, b"[[": BATCHED_TOKENS} | {
    b"[" + bytes([digit]): TOKENS for digit in b"-0123456789"
}
"""Those that every API has."""

_ARRAY = re.compile(rb"\[[ \t\r\n]*([^] \t\r\n])")


def read(raw: msgspec.Raw, *, member: str, path: str, forms: Forms = FORMS, or_object: str = "") -> tuple[Kind, object]:
    """The form of a member, and its decoded value.

    Args:
        raw: the value as it stands in the body.
        member: its name, for messages.
        path: of the endpoint, for messages.
        forms: those that the API has.
        or_object: further words on what the member may be.

    Raises:
        MalformedRequest: it has none of the forms.
    """
    start = bytes(memoryview(raw)[:1])
    array = _ARRAY.match(raw) if start == b"[" else None
    form = forms.get(start + array[1] if array else start)
    if form is None and array:
        raise malformed(path, f"invalid {member} array element")
    if form is None:
        raise malformed(path, f"invalid {member} type (must be string{or_object or ' or'} array)")
    try:
        return form.kind, form.decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise malformed(path, f"cannot unmarshal {member} as {form.kind}: {error}") from error


def malformed(path: str, detail: str) -> MalformedRequest:
    return MalformedRequest(f"failed to parse JSON for {path}: {detail}")
