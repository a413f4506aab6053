"""What the publishers on Vertex AI share: the path of a model, and the shape of Google's errors.

Paths are relative: the credentials put project and location before them (contract, chat 1.6).
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

import msgspec

# RFC 3986, 3.3: what a path segment may hold unescaped. Versions stand behind `@`; a colon is part of tuned names.
_SEGMENT = "!$&'()*+,;=:@"


def model_name(publisher: str, model: str) -> str:
    """The model's own name, of a name that may say its publisher as well.

    ``google/gemini-3-pro`` is how Google's OpenAI-like API names models, and ``publishers/google/models/gemini-3-pro``
    is the resource.
    """
    return model.removeprefix(f"publishers/{publisher}/models/").removeprefix(f"{publisher}/")


def model_path(publisher: str, model: str, action: str) -> str:
    """The path of an action on a publisher's model, relative to project and location.

    The name always is one segment, whatever is in it: a client that may choose the model must not reach another
    resource of the project. A name with another publisher, project or location is thus a model that Google does not
    know.

    Args:
        publisher: as Google spells it, ``google`` or ``anthropic``.
        model: the name, or one of the forms that ``model_name`` takes.
        action: what follows the colon, ``generateContent``; may have a query.
    """
    return f"publishers/{publisher}/models/{quote(model_name(publisher, model), safe=_SEGMENT)}:{action}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleError:
    """An error of Google's APIs (``google.rpc.Status`` as JSON).

    Attributes:
        status: the canonical name, as ``RESOURCE_EXHAUSTED``; empty when it is not given.
        code: the HTTP status that it stands for; ``None`` when it is not given.
        message: for people, with the details as Google wrote them.
    """

    status: str
    code: int | None
    message: str


class _ErrorStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The ``error`` object as it comes; members of a wrong type count as absent."""

    code: object = None
    message: object = None
    status: object = None
    details: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET

    def read(self) -> GoogleError:
        message = self.message if isinstance(self.message, str) else ""
        # The peer writes details in any case, so clients may search this text; a null says nothing.
        if self.details is not msgspec.UNSET and (details := bytes(self.details)) != b"null":
            message = f"Error: {message}\nDetails: {details.decode()}"
        return GoogleError(
            status=self.status if isinstance(self.status, str) else "",
            code=self.code if isinstance(self.code, int) and not isinstance(self.code, bool) else None,
            message=message,
        )


class _ErrorBody(msgspec.Struct, frozen=True):
    error: _ErrorStatus


# Streams that are not SSE are JSON arrays, and so are the errors of some front ends.
_decoder = msgspec.json.Decoder(_ErrorBody | list[_ErrorBody])


def read_google_error(body: bytes) -> GoogleError | None:
    """Read an error answer, alone or the first in an array, or ``None`` when it is no error of Google's APIs.

    Content types are not consulted (contract, chat 9.10). Never raises.
    """
    try:
        decoded = _decoder.decode(body)
        if isinstance(decoded, list):
            return decoded[0].error.read() if decoded else None
        return decoded.error.read()
    # Not JSON, or not of this shape; no text in UTF-8; nested deeper than the stack; a number of absurd length.
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
        return None
