"""Free-form JSON that goes through a translation: tool arguments, parameters, schemas.

Numbers keep the client's spelling: ``1.0`` stays ``1.0``, and what no double can hold is not rounded. Members are
written in the order of their names, so the same values give the same bytes (contract, chat 3.3).
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

import msgspec

JSONObject = dict[str, object]

# A number that is no integer; digits in strings may match too, which only costs the slower way.
_FRACTION = re.compile(r"\d[.eE]")

encode = msgspec.json.Encoder(order="deterministic").encode
"""Write a value, typed members in their own order, those of dicts sorted."""


class JSONValueError(Exception):
    """The text is not JSON; the message says where."""


def decode(text: str | bytes) -> object:
    """Read any JSON value; a number with a fraction or an exponent becomes its own text, as ``msgspec.Raw``.

    Raises:
        JSONValueError: it is not JSON, or nested too deep.
    """
    try:
        value: object = msgspec.json.decode(text)
        spelled = text if isinstance(text, str) else text.decode()
        if _FRACTION.search(spelled):
            value = json.loads(spelled, parse_float=_as_spelled, parse_constant=_refuse)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise JSONValueError(str(error)) from error
    return value


def decode_object(text: str | bytes) -> JSONObject:
    """Read a JSON object, as ``decode``.

    Raises:
        JSONValueError: it is not JSON, or not an object.
    """
    value = decode(text)
    if not isinstance(value, dict):
        raise JSONValueError("expected an object")
    return value


def compact_object(spelled: bytes) -> msgspec.Raw:
    """A JSON object as it is spelled, without white space, for where it goes on within another document.

    Text that is only copied is not checked by the decoder that found it, so its encoding is checked here.

    Raises:
        JSONValueError: it is not JSON, not UTF-8, or not an object.
    """
    try:
        spelled.decode()
        compact = msgspec.json.format(spelled, indent=-1)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise JSONValueError(str(error)) from error
    if not compact.startswith(b"{"):
        raise JSONValueError("expected an object")
    return msgspec.Raw(compact)


def _as_spelled(number: str) -> msgspec.Raw:
    return msgspec.Raw(number.encode())


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
