"""Messages that come encoded within others, decoded where they are needed."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from extproc.errors import StreamFailure

_MessageT = TypeVar("_MessageT", bound=Message)


def decode(kind: type[_MessageT], encoded: bytes) -> _MessageT:
    """The message.

    Raises:
        StreamFailure: it is none of this kind.
    """
    try:
        return kind.FromString(encoded)
    except DecodeError as error:
        raise StreamFailure(StreamFailure.INTERNAL, "message cannot be decoded") from error
