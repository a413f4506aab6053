"""What requests of all client APIs have in common: members of JSON or fields of a form, and what steers generation."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from msgspec import Raw, Struct

from extproc.formats import multipart
from extproc.formats.multipart import MultipartError
from extproc.telemetry.tracing.base import AnswerReader, TracedRequest
from extproc.telemetry.tracing.readers.answers import (
    MAX_CAPTURED,
    Budget,
    DocumentAnswer,
    Gatherer,
    ReadDocument,
    StreamAnswer,
)
from extproc.telemetry.tracing.readers.credentials import read_sealed
from extproc.telemetry.tracing.readers.lenient import (
    Members,
    as_integer,
    as_number,
    as_object,
    as_text,
    as_texts,
    elements_of,
    encode,
    spelled,
    value_of,
    without,
)
from extproc.telemetry.tracing.views import Parameters, RequestView

Understand = Callable[[RequestView, Members], RequestView]
"""Puts the content of a request into a view that has all else."""

MAX_READ: Final = 8 * 1024 * 1024
"""Octets of a document that are read; of a longer one only the frame is known, as its reader would hold up all others.

Nor can its beginning be shown: what a credential is in it, only the whole would tell. Of forms, files are not read.
"""

MAX_STRINGS: Final = 100_000
MAX_NESTED: Final = 50_000
"""Strings, and objects and arrays, that a document may have to be read, likewise: each takes some microseconds."""

_FEW_BYTES: Final = 256 * 1024
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)

# Fields of forms that are files.
_FILES: Final = frozenset({"file", "image", "image[]", "mask"})


class APIReader(Struct, frozen=True, kw_only=True):
    """The reader of a client API.

    Attributes:
        content: names of the members that are content, and so no parameters of the invocation.
        understand: reads them.
        read: reads its answers.
        gather: reads its streams; an API without one does not stream.
    """

    content: frozenset[str]
    understand: Understand
    read: ReadDocument
    gather: Callable[[Budget], Gatherer] | None = None
    limit: int = MAX_CAPTURED

    def request(self, request: TracedRequest) -> RequestView:
        return request_view(request, self.content, self.understand)

    def answer(self, request: TracedRequest, *, stream: bool) -> AnswerReader:  # noqa: ARG002 - documents say it all
        if stream and self.gather is not None:
            return StreamAnswer(self.gather(Budget(self.limit)), self.read, self.limit)
        return DocumentAnswer(self.read, self.limit)


def request_view(request: TracedRequest, content: frozenset[str], understand: Understand) -> RequestView:
    if not (multipart.is_form(request.content_type) or _readable(request.body)):
        return RequestView(operation=request.operation, model=request.model, stream=request.stream)
    if multipart.is_form(request.content_type):
        members = _fields(request)
        text = without(members, frozenset())
    else:
        members, text = read_sealed(request.body)
    view = RequestView(
        operation=request.operation,
        model=request.model,
        stream=request.stream,
        text=text,
        invocation=without(members, content),
        parameters=_parameters(members),
    )
    return understand(view, members)


def _readable(body: bytes) -> bool:
    """Whether a document can be read in a time that nobody notices: it is the size, and how many things are in it."""
    if len(body) <= _FEW_BYTES:
        return True
    if len(body) > MAX_READ or body.count(b'"') - body.count(b'\\"') > 2 * MAX_STRINGS:
        return False
    if body.count(b"{") + body.count(b"[") <= MAX_NESTED:
        return True
    # Programs have such characters too, but in strings.
    bare = _STRING.sub(b"", body)
    return bare.count(b"{") + bare.count(b"[") <= MAX_NESTED


def _fields(request: TracedRequest) -> Members:
    """A form's fields as members of an object, but for files: of names that end in brackets all, else the last one."""
    fields: dict[str, str | list[str]] = {}
    try:
        form = multipart.read(request.body, multipart.boundary_of(request.content_type))
    except (MultipartError, UnicodeError):
        return {}
    for part in form.parts:
        try:
            text = "" if part.name in _FILES else form.text(part)
        except MultipartError:
            continue
        if part.name.endswith("[]"):
            given = fields.setdefault(part.name, [])
            if isinstance(given, list):
                given.append(text)
        else:
            fields[part.name] = text
    return {name: Raw(encode(value)) for name, value in fields.items() if name and name not in _FILES}


def _parameters(members: Members) -> Parameters:
    def given(*names: str) -> object:
        """The value of the first of these members that has one."""
        values = (value_of(members.get(name)) for name in names)
        return next((value for value in values if value is not None), None)

    conversation = given("conversation")
    return Parameters(
        max_tokens=as_integer(given("max_completion_tokens", "max_tokens", "max_output_tokens")),
        temperature=as_number(given("temperature")),
        top_p=as_number(given("top_p")),
        top_k=as_number(given("top_k")),
        frequency_penalty=as_number(given("frequency_penalty")),
        presence_penalty=as_number(given("presence_penalty")),
        stop=as_texts(given("stop", "stop_sequences")),
        seed=as_integer(given("seed")),
        choices=as_integer(given("n")),
        encoding_formats=as_texts(given("encoding_format")),
        dimensions=as_integer(given("dimensions")),
        conversation=as_text(conversation) or as_text(as_object(conversation).get("id")),
    )


def tools_of(members: Members, *names: str) -> tuple[str, ...]:
    """Definitions of tools, each as JSON."""
    return tuple(spelled(each) for name in names for each in elements_of(members.get(name)))


def texts_of(members: Members, name: str) -> tuple[str, ...]:
    """A text or texts; token ids are none."""
    return as_texts(value_of(members.get(name)))
