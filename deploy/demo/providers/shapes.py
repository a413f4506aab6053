"""The common ground of all request shapes: nothing is accepted that the shape does not name.

NB: annotations of shapes are evaluated, decoders are built from them.
"""

import re
from typing import TypeVar

import msgspec

from deploy.demo.providers.service import Refused

_PLACE = re.compile(r" - at `(?:key in )?\$(?P<path>[^`]*)`$")

ShapeT = TypeVar("ShapeT")


class Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object whose members are all known. Providers take a null for an absent optional member."""


def decode(body: bytes, shape: type[ShapeT]) -> ShapeT:
    """Read a request.

    Raises:
        Refused: it is not JSON, or not of this shape; the message starts with the place.
    """
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError as error:
        raise Refused(_with_place_first(str(error))) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Refused(f"the body is not JSON: {error}") from None


def _with_place_first(complaint: str) -> str:
    found = _PLACE.search(complaint)
    if found is None:
        return complaint
    path = re.sub(r"\[(\d+|\.\.\.)\]", r".\1", found["path"]).lstrip(".")
    return f"{path}: {complaint[: found.start()]}"


def check_range(name: str, value: float | None, low: float, high: float) -> None:
    """Raises ``Refused`` for a number outside of its range."""
    if value is not None and not low <= value <= high:
        raise Refused(f"{name}: {value:g} is not between {low:g} and {high:g}")
