"""Plain builtins to structs, by the peer's rules, collecting every wrong value and every unknown key with its path.

msgspec's own conversion stops at the first fault, knows one spelling of a key and no number for a text. So the struct
types are compiled once into *readers*, one per type, which apply the rules of the contract (filter config 2.1): a key
matches exactly or else in any letter case, numbers and booleans become text where text is wanted, null is the zero
value. A wrong value is reported and read as its zero value, so that the rest of the document is still looked at.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import inspect

from filter_config.model import ZERO_TIME, Model
from filter_config.redact import Secret
from filter_config.scalars import scalar_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from filter_config.problems import Findings

    Reader = Callable[[object, str, Findings], Any]

StructT = TypeVar("StructT", bound=msgspec.Struct)

# RFC 3339 as Go's time package reads it: capital "T" and "Z", any number of fraction digits, no leap second.
_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|([+-])(\d\d):(\d\d))\Z",
    re.ASCII,
)
_MAX_OFFSET_HOURS: Final = 23
_TIMESTAMP_FIX: Final = 'write an RFC 3339 timestamp with a time zone, such as "2024-01-02T03:04:05Z"'

# Beyond this a key is no typing mistake for one of ours, and comparing it would only cost time.
_MAX_SUGGESTION_KEY: Final = 64
_MAX_SHOWN: Final = 80


def read(kind: type[StructT], value: object, findings: Findings) -> StructT:
    """Reads the root of a document; null is the zero value.

    ``findings`` receives an error for each wrong value and a warning for each unknown key.
    """
    result: StructT = _struct_reader(kind)(value, "", findings)
    return result


def _kind_of(value: object) -> str:
    if isinstance(value, bool):
        return f"the boolean {'true' if value else 'false'}"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else "null"


def _at(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def shown(text: str) -> str:
    """A text of the document inside a message: quoted, and cut when it is long."""
    return repr(text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…")


# --- scalars ---


def _read_text(value: object, path: str, findings: Findings) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return scalar_text(value)
    findings.error(path, f"expected a text, got {_kind_of(value)}", "write a text")
    return ""


def _read_secret(value: object, path: str, findings: Findings) -> Secret:
    return Secret(_read_text(value, path, findings))


def _read_bool(value: object, path: str, findings: Findings) -> bool:
    if isinstance(value, bool):
        return value
    if value is not None:
        findings.error(path, f"expected a boolean, got {_kind_of(value)}", "write true or false, without quotes")
    return False


def _read_int(value: object, path: str, findings: Findings) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value is not None:
        findings.error(path, f"expected an integer, got {_kind_of(value)}", "write an integer, without quotes")
    return 0


def _read_time(value: object, path: str, findings: Findings) -> datetime:
    if value is None:
        return ZERO_TIME
    if not isinstance(value, str):
        findings.error(path, f"expected a timestamp, got {_kind_of(value)}", _TIMESTAMP_FIX)
        return ZERO_TIME
    moment = parse_time(value)
    if moment is None:
        findings.error(path, f"{shown(value)} is not an RFC 3339 timestamp", _TIMESTAMP_FIX)
        return ZERO_TIME
    return moment


def parse_time(text: str) -> datetime | None:
    """An RFC 3339 timestamp in UTC, cut to microseconds; None for anything else (contract, filter config 2.3)."""
    match = _TIMESTAMP.match(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, offset_hours, offset_minutes = match.groups()[6:]
    microsecond = int((fraction or "0")[:6].ljust(6, "0"))
    zone: timezone = UTC
    if sign:
        if int(offset_hours) > _MAX_OFFSET_HOURS or int(offset_minutes) > 59:
            return None
        offset = timedelta(hours=int(offset_hours), minutes=int(offset_minutes))
        zone = timezone(-offset if sign == "-" else offset)
    try:
        return datetime(year, month, day, hour, minute, second, microsecond, tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        # No such day or time, or a zone that moves it out of the years 1 to 9999.
        return None


# --- containers ---


def _list_reader(item: Reader) -> Reader:
    def read_list(value: object, path: str, findings: Findings) -> tuple[Any, ...]:
        if isinstance(value, list):
            return tuple([item(entry, f"{path}[{index}]", findings) for index, entry in enumerate(value)])
        if value is not None:
            findings.error(path, f"expected a list, got {_kind_of(value)}", "write a list")
        return ()

    return read_list


def _map_reader(item: Reader) -> Reader:
    def read_map(value: object, path: str, findings: Findings) -> dict[str, Any]:
        if isinstance(value, dict):
            return {key: item(entry, f'{path}["{key}"]', findings) for key, entry in value.items()}
        if value is not None:
            findings.error(path, f"expected a mapping, got {_kind_of(value)}", "write a mapping")
        return {}

    return read_map


def _optional_reader(reader: Reader) -> Reader:
    def read_optional(value: object, path: str, findings: Findings) -> Any:  # noqa: ANN401 - whatever the reader gives
        return None if value is None else reader(value, path, findings)

    return read_optional


@dataclass(frozen=True, slots=True)
class _Field:
    attribute: str
    key: str
    reader: Reader


@cache
def _struct_reader(kind: type[StructT]) -> Reader:
    """The reader of a struct type, with its fields by key and by folded key."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    fields = [_Field(field.name, field.encode_name, _reader(field.type)) for field in info.fields]
    exact = {field.key: field for field in fields}
    folded = {field.key.casefold(): field for field in fields}
    # A model's keys are Go names, for which every spelling is as good as another (contract, filter config 2.3).
    any_case = kind is Model

    def read_struct(value: object, path: str, findings: Findings) -> StructT:
        if not isinstance(value, dict):
            if value is not None:
                findings.error(path, f"expected a mapping, got {_kind_of(value)}", "write a mapping")
            return kind()
        given: dict[str, Any] = {}
        spelled: dict[str, str] = {}
        for key in value if exact.keys() >= value.keys() else sorted(value):
            field = exact.get(key) or folded.get(key.casefold())
            at = _at(path, key if field is None or any_case else field.key)
            if field is None:
                _unknown(key, at, exact, findings)
                continue
            if field.attribute in spelled:
                other = spelled[field.attribute]
                findings.warning(at, f"{shown(key)} and {shown(other)} are the same key; the last is used", "keep one")
            elif key != field.key and not any_case:
                findings.warning(at, f"{shown(key)} is read as {field.key}", f"write {field.key}")
            spelled[field.attribute] = key
            given[field.attribute] = field.reader(value[key], at, findings)
        return kind(**given)

    return read_struct


def _unknown(key: str, at: str, known: Mapping[str, _Field], findings: Findings) -> None:
    hint = "" if findings.crowded else did_you_mean(key, tuple(known))
    findings.warning(at, f"unknown key {shown(key)} is ignored", hint or "remove it")


@lru_cache(maxsize=256)
def did_you_mean(word: str, known: tuple[str, ...]) -> str:
    """A question naming the word that may have been meant, or nothing."""
    if len(word) > _MAX_SUGGESTION_KEY:
        return ""
    folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=0.75)
    return f"did you mean {folded[close[0]]}?" if close else ""


_SCALARS: Final[tuple[tuple[type[inspect.Type], Reader], ...]] = (
    (inspect.StrType, _read_text),
    (inspect.BoolType, _read_bool),
    (inspect.IntType, _read_int),
    (inspect.DateTimeType, _read_time),
)


def _reader(kind: inspect.Type) -> Reader:
    """The reader of a field's type. The set is closed: a kind of field that no struct has yet is an error at once."""
    if isinstance(kind, inspect.Metadata):
        return _reader(kind.type)
    for scalar, reader in _SCALARS:
        if isinstance(kind, scalar):
            return reader
    match kind:
        case inspect.CustomType(cls=cls) if cls is Secret:
            return _read_secret
        case inspect.StructType(cls=cls):
            return _struct_reader(cls)
        case inspect.VarTupleType(item_type=item):
            return _list_reader(_reader(item))
        case inspect.DictType(value_type=item):
            return _map_reader(_reader(item))
        case inspect.UnionType(types=types):
            (inner,) = [member for member in types if not isinstance(member, inspect.NoneType)]
            return _optional_reader(_reader(inner))
        case _:
            raise TypeError(f"no reader for {kind}")
