"""Forms as clients send them, and a reader of them that is not ours."""

from __future__ import annotations

from email import policy
from email.message import Message
from email.parser import BytesParser
from typing import get_type_hints

from pydantic import TypeAdapter
from typing_extensions import TypedDict

BOUNDARY = "a-boundary-of-the-client"
CONTENT_TYPE = f"multipart/form-data; boundary={BOUNDARY}"


def form(*fields: tuple[str, str | bytes], boundary: str = BOUNDARY) -> bytes:
    """A form; a field whose value is bytes is a file."""
    lines: list[bytes] = []
    for name, value in fields:
        headers = f'Content-Disposition: form-data; name="{name}"'
        if isinstance(value, bytes):
            headers += f'; filename="{name}.bin"\r\nContent-Type: application/octet-stream'
        content = value if isinstance(value, bytes) else value.encode()
        lines += [f"--{boundary}".encode(), headers.encode(), b"", content]
    return b"\r\n".join([*lines, f"--{boundary}--".encode(), b""])


def read_form(body: bytes, content_type: str) -> list[tuple[str, bytes]]:
    """Names and contents of a form, as the standard library's reader of mail finds them.

    Raises:
        AssertionError: the form is broken.
    """
    return [
        (str(part.get_param("name", header="content-disposition")), _content(part))
        for part in read_parts(body, content_type)
    ]


def read_parts(body: bytes, content_type: str) -> list[Message]:
    """The parts of a form with their headers."""
    message = BytesParser(policy=policy.compat32).parsebytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
    assert message.is_multipart(), "no form"
    assert not message.defects, message.defects
    parts: list[Message] = message.get_payload()
    return parts


def _content(part: Message) -> bytes:
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    return content


def as_arguments(body: bytes, content_type: str) -> dict[str, object]:
    """A form as the arguments of an SDK's method: files as bytes, what is repeated as a list."""
    arguments: dict[str, object] = {}
    for part in read_parts(body, content_type):
        name = str(part.get_param("name", header="content-disposition"))
        content = _content(part)
        value = content if part.get_filename() is not None else content.decode()
        if name.endswith("[]"):
            listed = arguments.setdefault(name[:-2], [])
            assert isinstance(listed, list)
            listed.append(value)
        else:
            arguments[name] = value
    return arguments


class FormJudge:
    """Judges forms by the type that an SDK has for the arguments of its method.

    Args:
        arguments: the type, a ``TypedDict``.
        files: its members that are files, which pydantic cannot judge; the first one is required.
    """

    def __init__(self, arguments: type, *files: str) -> None:
        hints = get_type_hints(arguments, include_extras=True)
        assert hints.keys() >= set(files)
        fields = {name: hint for name, hint in hints.items() if name not in files}
        self._fields = TypeAdapter(TypedDict("Fields", fields, total=False))
        self._known = hints.keys()
        self._files = files

    def accept(self, body: bytes, content_type: str) -> dict[str, object]:
        """The arguments that the form stands for.

        Raises:
            ValueError: a field is missing or has another type.
            AssertionError: the form is broken, or has a field that the SDK does not know, or no file.
        """
        arguments = as_arguments(body, content_type)
        assert arguments.keys() <= {*self._known, "stream"}
        assert self._files[0] in arguments, f"no {self._files[0]}"
        for name in arguments.keys() & set(self._files):
            value = arguments[name]
            assert all(isinstance(each, bytes) for each in (value if isinstance(value, list) else [value]))
        self._fields.validate_python(arguments)
        return arguments
