"""Reads data URIs, which carry images and files within JSON (RFC 2397; contract, chat 3.2)."""

from __future__ import annotations

import binascii
import re
from base64 import b64encode
from urllib.parse import unquote_to_bytes

from msgspec import Struct

_URI = re.compile(r"data:([^,]*),", re.IGNORECASE)
_LINE_ENDS = str.maketrans("", "", "\r\n")


class DataURIError(Exception):
    """The text is not a data URI, or its payload is not what it says; the message says which."""


class DataURI(Struct, frozen=True):
    """A data URI.

    Attributes:
        media_type: in lower case and without parameters; empty when it is not given.
        data: the payload in standard base64; may be empty.
    """

    media_type: str
    data: str


def is_data_uri(text: str) -> bool:
    return _URI.match(text) is not None


def read_data_uri(text: str) -> DataURI:
    """Read a data URI.

    A payload is taken for base64 even where the URI does not say so, as clients forget it; one that is none is then
    percent-encoded text.

    Raises:
        DataURIError: it is none, or says base64 and is not.
    """
    match = _URI.match(text)
    if match is None:
        raise DataURIError("data uri does not have a valid format")
    media_type, *parameters = (each.strip().lower() for each in match[1].split(";"))
    payload = text[match.end() :]
    try:
        return DataURI(media_type, checked_base64(payload))
    except DataURIError:
        if "base64" in parameters:
            raise
    return DataURI(media_type, b64encode(unquote_to_bytes(payload)).decode())


def checked_base64(text: str) -> str:
    """Standard padded base64 as it stands, but for line ends.

    Raises:
        DataURIError: it is something else.
    """
    if "\n" in text or "\r" in text:
        text = text.translate(_LINE_ENDS)
    try:
        # Text that is right is used again: a large image is decoded once, and never encoded.
        octets = binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise DataURIError("the data is not base64") from error
    # The module forgives padding that is too long.
    if len(text) != (len(octets) + 2) // 3 * 4:
        raise DataURIError("the data is not base64")
    return text
