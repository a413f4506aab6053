"""Plain builtins to the structs of resources, and everything that is wrong with them.

A resource without a fault is decoded by msgspec in one go. Only when that refuses it, the slow way looks at every value
by the same annotations, as msgspec's decoder stops at the first fault and words it for programmers. A wrong value is
read as nothing then, so that the rest is still looked at. Values of credentials are never shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from filter_config.decode import did_you_mean, parse_time, shown
from filter_config.redact import Secret, dec_hook

StructT = TypeVar("StructT", bound=msgspec.Struct)


class Finding(NamedTuple):
    """Something wrong at a path of a resource."""

    path: str
    message: str
    fix: str = ""
    warning: bool = False


class Findings(list[Finding]):
    """What is wrong with a resource, in the order of its fields."""

    def __init__(self) -> None:
        super().__init__()
        self.lossy: set[str] = set()
        """Paths of lists of which an entry could not be read, so that the indexes of what was read are not theirs."""

    @property
    def refused(self) -> bool:
        """Whether anything is an error."""
        return any(not finding.warning for finding in self)

    def judge(self, found: Iterable[Finding]) -> None:
        """Adds what the rules of the kind find, except about values that could not be read.

        An unknown field is a warning, and all that is known beside it has been read.
        """
        unread = {finding.path for finding in self if not finding.warning}
        self.extend(finding for finding in list(found) if not self._is_unread(finding.path, unread))

    def _is_unread(self, path: str, unread: set[str]) -> bool:
        inside = any(other == path or other.startswith((f"{path}.", f"{path}[")) for other in unread)
        return inside or any(path.startswith(f"{lossy}[") for lossy in self.lossy)


Reader = Callable[[object, str, Findings], Any]

NOTHING: Final = object()
"""What a value that cannot be read is read as."""

# How a pattern's texts look, for those who do not read patterns.
_WORDINGS: Final = (
    (r"(h|m|s|ms)", 'write a duration such as "30s" or "1m30s"'),
    (r"(\*\.)?", "write a host name in lower case, or *. and a domain"),
    (r"!#$%&", "write letters, digits and - only"),
    (r"[a-zA-Z](", "write a kind such as Gateway"),
    (r":[^\s]", "write a URI with its scheme"),
    (r"[a-z0-9]", "write lower-case letters, digits and - only, beginning and ending with a letter or digit"),
)


def read(kind: type[StructT], value: object) -> tuple[StructT | None, Findings]:
    """Reads a resource.

    Returns:
        The struct and all findings. None when so much is wrong that there is nothing to hold; otherwise what could not
        be read is at its default, and an entry of a list that could not be read is left out.
    """
    try:
        return msgspec.convert(value, kind, dec_hook=dec_hook), Findings()
    except msgspec.ValidationError:
        findings = Findings()
        read_value = _struct_reader(kind)(value, "", findings)
        return None if read_value is NOTHING else read_value, findings


def _kind_of(value: object) -> str:
    match value:
        case bool():
            return f"the boolean {'true' if value else 'false'}"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "a mapping" if isinstance(value, dict) else "null"


def _expected(what: str, value: object, path: str, findings: Findings, fix: str = "") -> object:
    findings.append(Finding(path, f"expected {what}, got {_kind_of(value)}", fix or f"write {what}"))
    return NOTHING


# --- scalars ---


def _text_reader(kind: inspect.StrType) -> Reader:
    pattern = re.compile(kind.pattern) if kind.pattern is not None else None

    def read_text(value: object, path: str, findings: Findings) -> object:
        if not isinstance(value, str):
            return _expected("a text", value, path, findings, "put it in quotes" if _is_scalar(value) else "")
        if kind.min_length and not value:
            findings.append(Finding(path, "must not be empty", "write a text"))
        elif kind.max_length is not None and len(value) > kind.max_length:
            findings.append(Finding(path, f"longer than {kind.max_length} characters", "write a shorter text"))
        elif pattern is not None and pattern.search(value) is None:
            findings.append(Finding(path, f"{shown(value)} is not allowed", _wording(pattern.pattern)))
        else:
            return value
        return NOTHING

    return read_text


def _is_scalar(value: object) -> bool:
    return isinstance(value, bool | int | float)


def _wording(pattern: str) -> str:
    return next((words for part, words in _WORDINGS if part in pattern), f"write what matches {pattern}")


def _read_secret(value: object, path: str, findings: Findings) -> object:
    if isinstance(value, str):
        return Secret(value)
    return _expected("a text", value, path, findings, "put it in quotes" if _is_scalar(value) else "")


def _read_bool(value: object, path: str, findings: Findings) -> object:
    if isinstance(value, bool):
        return value
    return _expected("a boolean", value, path, findings, "write true or false, without quotes")


def _integer_reader(kind: inspect.IntType) -> Reader:
    def read_integer(value: object, path: str, findings: Findings) -> object:
        if not isinstance(value, int) or isinstance(value, bool):
            return _expected("an integer", value, path, findings, "write an integer, without quotes")
        if kind.ge is not None and value < kind.ge:
            findings.append(Finding(path, f"{value} is less than {kind.ge}", f"write {kind.ge} or more"))
        elif kind.le is not None and value > kind.le:
            findings.append(Finding(path, f"{value} is more than {kind.le}", f"write {kind.le} or less"))
        else:
            return value
        return NOTHING

    return read_integer


def _read_time(value: object, path: str, findings: Findings) -> object:
    moment = parse_time(value) if isinstance(value, str) else None
    if moment is not None:
        return moment
    fix = 'write an RFC 3339 timestamp with a time zone, such as "2024-01-02T03:04:05Z"'
    what = shown(value) if isinstance(value, str) else _kind_of(value)
    findings.append(Finding(path, f"{what} is no timestamp", fix))
    return NOTHING


def _choice_reader(choices: dict[Any, Any]) -> Reader:
    """``choices``: the values by what stands for them."""

    def read_choice(value: object, path: str, findings: Findings) -> object:
        if not isinstance(value, str):
            return _expected("a text", value, path, findings)
        if value in choices:
            return choices[value]
        known = tuple(choices)
        fix = did_you_mean(value, known) or f"write {_alternatives(known)}"
        findings.append(Finding(path, f"{shown(value)} is not allowed", fix))
        return NOTHING

    return read_choice


def _alternatives(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


# --- containers ---


def _list_reader(kind: inspect.VarTupleType) -> Reader:
    item = _reader(kind.item_type)

    def read_list(value: object, path: str, findings: Findings) -> object:
        if not isinstance(value, list):
            return _expected("a list", value, path, findings)
        if kind.min_length is not None and len(value) < kind.min_length:
            # No list of these kinds needs more than one entry.
            findings.append(Finding(path, "must not be empty", "add an entry"))
        if kind.max_length is not None and len(value) > kind.max_length:
            message = f"{len(value)} entries, and at most {kind.max_length} are allowed"
            findings.append(Finding(path, message, "split the resource"))
        entries = [item(entry, f"{path}[{index}]", findings) for index, entry in enumerate(value)]
        if NOTHING in entries:
            findings.lossy.add(path)
        return tuple([entry for entry in entries if entry is not NOTHING])

    return read_list


def _map_reader(item: Reader) -> Reader:
    def read_map(value: object, path: str, findings: Findings) -> object:
        if not isinstance(value, dict):
            return _expected("a mapping", value, path, findings)
        entries = ((key, item(entry, f"{path}[{key}]", findings)) for key, entry in value.items())
        return {key: entry for key, entry in entries if entry is not NOTHING}

    return read_map


def _read_any(value: object, _path: str, _findings: Findings) -> object:
    return value


@cache
def _struct_reader(kind: type[msgspec.Struct]) -> Reader:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    readers = {field.encode_name: (field, _reader(field.type)) for field in info.fields}

    def read_struct(value: object, path: str, findings: Findings) -> object:
        if not isinstance(value, dict):
            return _expected("a mapping", value, path, findings)
        given: dict[str, Any] = {}
        complete = True
        if info.forbid_unknown_fields:
            findings.extend(_unknown(key, path, tuple(readers)) for key in sorted(value) if key not in readers)
        for key, (field, reader) in readers.items():
            at = f"{path}.{key}" if path else key
            # The API server drops a null, which is how generated documents say that there is nothing.
            if value.get(key) is None:
                if field.required:
                    findings.append(Finding(at, "is required", "add it"))
                    complete = False
                continue
            item = reader(value[key], at, findings)
            if item is not NOTHING:
                given[field.name] = item
            elif field.required:
                complete = False
        return kind(**given) if complete else NOTHING

    return read_struct


def _unknown(key: str, path: str, known: tuple[str, ...]) -> Finding:
    at = f"{path}.{key}" if path else key
    return Finding(at, f"unknown field {shown(key)}", did_you_mean(key, known) or "remove it", warning=True)


_SIMPLE: Final[tuple[tuple[type[inspect.Type], Reader], ...]] = (
    (inspect.BoolType, _read_bool),
    (inspect.DateTimeType, _read_time),
    (inspect.AnyType, _read_any),
)


def _reader(kind: inspect.Type) -> Reader:
    """The reader of a field's type. The set is closed: a kind of field that no struct has yet is an error at once."""
    for simple, reader in _SIMPLE:
        if isinstance(kind, simple):
            return reader
    match kind:
        case inspect.StrType():
            return _text_reader(kind)
        case inspect.IntType():
            return _integer_reader(kind)
        case inspect.LiteralType(values=values):
            return _choice_reader({value: value for value in values})
        case inspect.EnumType(cls=cls):
            return _choice_reader({member.value: member for member in cls})
        case inspect.CustomType(cls=cls) if cls is Secret:
            return _read_secret
        case _:
            return _container_reader(kind)


def _container_reader(kind: inspect.Type) -> Reader:
    match kind:
        case inspect.StructType(cls=cls):
            return _struct_reader(cls)
        case inspect.VarTupleType():
            return _list_reader(kind)
        case inspect.DictType(value_type=item):
            return _map_reader(_reader(item))
        case inspect.UnionType(types=types):
            (inner,) = [member for member in types if not isinstance(member, inspect.NoneType)]
            return _reader(inner)
        case _:
            raise TypeError(f"no reader for {kind}")
