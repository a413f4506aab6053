"""What the texts of the controller's flags mean (contract, control plane 0): one function for each kind of value.

Each gives the value, or raises ``ValueError``, whose text, when it has one, says more than what a flag of the kind
looks like.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from deploy.envoy.model import SocketAddress
from filter_config.redact import Secret

PARTS: Final = ("controller", "injector", "extension-server")
"""What the command runs."""
QUOTA_PORT: Final = 8081
"""Of a rate limit service that is given without one."""
HIGHEST_PORT: Final = 65535
LONGEST: Final = float(2**63 // 10**9)
"""Seconds that a duration of Go, and one of Envoy, can hold."""
SHORTEST: Final = 0.001
"""Seconds that are more than none to Envoy, which counts milliseconds."""

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_LEVEL: Final = re.compile(r"(debug|info|warn|error)([+-][0-9]+)?", re.ASCII | re.IGNORECASE)
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_HOST: Final = re.compile(r"[^\s/]+")
_PATH: Final = re.compile(r"/[!-~]*")
_FILE: Final = re.compile(r"[^/\0]+")
_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)
_DURATION: Final = re.compile(r"(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|ms|s|m|h))+", re.ASCII)
_DURATION_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|s|m|h)", re.ASCII)
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_FAMILIES: Final = ("openai", "cohere", "anthropic")

Reader = Callable[[str], Any]


def text(given: str) -> str:
    """Any text."""
    return given


def some_text(given: str) -> str:
    """A text that is not empty."""
    if not given:
        raise ValueError("it is empty")
    return given


def some_secret(given: str) -> Secret:
    """A text that is not empty, and must not be shown."""
    return Secret(some_text(given))


def switch(given: str) -> bool:
    """Go's spellings of a boolean."""
    if given in _TRUE:
        return True
    if given in _FALSE:
        return False
    raise ValueError


def one_of(*choices: str) -> Reader:
    """One of some words."""

    def read(given: str) -> str:
        if given not in choices:
            raise ValueError
        return given

    return read


def integer(least: int, most: int = 2**63 - 1) -> Reader:
    """A number within bounds, as Go writes them: with a base prefix and underscores if wanted."""

    def read(given: str) -> int:
        if not given[:1].isdigit():
            raise ValueError
        try:
            value = int(given, 0)
        except ValueError:
            raise ValueError from None
        if value > most:
            raise ValueError(f"it is more than {most}")
        if value < least:
            raise ValueError
        return value

    return read


def seconds(given: str) -> float:
    """A number of seconds that is greater than zero, to Envoy too."""
    if _NUMBER.fullmatch(given) is None or not float(given):
        raise ValueError
    value = _bounded(float(given))
    if value < SHORTEST:
        raise ValueError("it is less than a millisecond")
    return value


def duration(given: str) -> float:
    """Seconds of a duration as Go writes it, ``1m30s``; ``0`` needs no unit."""
    if given == "0":
        return 0.0
    if _DURATION.fullmatch(given) is None:
        raise ValueError
    return _bounded(sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(given)))


def _bounded(value: float) -> float:
    if value > LONGEST:
        raise ValueError("it is longer than 292 years")
    return value


def some_time(given: str) -> float:
    """A duration that is greater than zero."""
    found = duration(given)
    if not found:
        raise ValueError
    return found


def level(given: str) -> str:
    """A level of logs, with an offset if wanted: ``info+2``."""
    if _LEVEL.fullmatch(given) is None:
        raise ValueError
    return given


def address(given: str) -> tuple[str, int]:
    """Host and port to listen on, ``host:port``; the host of IPv6 in brackets, and none for all interfaces."""
    host, colon, port = given.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not _is_port(port) or (":" in bare and not (host != bare and _is_ip(bare))):
        raise ValueError
    return bare, int(port)


def service(given: str) -> SocketAddress:
    """``host`` or ``host:port``; IPv6 with or without brackets."""
    if _is_ip(given):
        return SocketAddress(host=given, port=QUOTA_PORT)
    if given.startswith("[") and given.endswith("]") and _is_ip(given[1:-1]):
        return SocketAddress(host=given[1:-1], port=QUOTA_PORT)
    host, port = address(given if ":" in given else f"{given}:{QUOTA_PORT}")
    if not port or _HOST.fullmatch(host) is None:
        raise ValueError
    return SocketAddress(host=host, port=port)


def name(given: str) -> str:
    """The name of a namespace or the like; empty for none."""
    if given and _NAME.fullmatch(given) is None:
        raise ValueError
    return given


def some_name(given: str) -> str:
    """The name of a namespace."""
    return name(some_text(given))


def object_name(given: str) -> str:
    """The name of a Secret; empty for none."""
    for label in given.split(".") if given else ():
        some_name(label)
    return given


def file_name(given: str) -> str:
    """A name of a file, without directories."""
    if _FILE.fullmatch(given) is None or given in (".", ".."):
        raise ValueError
    return given


def path_prefix(given: str) -> str:
    """A path as a request has it, where other characters than those of ASCII are escaped."""
    if _PATH.fullmatch(given) is None:
        raise ValueError
    return given


def image(given: str) -> str:
    """A reference to an image; empty for none."""
    if any(character.isspace() for character in given):
        raise ValueError("there is space in it")
    return given


def names(separator: str, read: Reader = some_name) -> Reader:
    """Names with a separator between them; empty ones are skipped."""

    def read_all(given: str) -> tuple[str, ...]:
        return tuple(read(part.strip()) for part in given.split(separator) if part.strip())

    return read_all


def parts(given: str) -> frozenset[str]:
    """Parts of the command; none stands for all."""
    found = frozenset(names(",", one_of(*PARTS))(given))
    return found or frozenset(PARTS)


def variables(given: str) -> tuple[tuple[str, str], ...]:
    """``K=v;K2=v2``: what is around an entry goes, what is around its value does not."""
    return tuple(_variable(segment.strip()) for segment in given.split(";") if segment.strip())


def _variable(segment: str) -> tuple[str, str]:
    key, equals, value = segment.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"{segment!r} has no name or no =")
    return key.strip(), value


def attributes(given: str) -> tuple[tuple[str, str], ...]:
    """``header:attribute`` pairs with commas between them; a later pair of one header counts."""
    found: dict[str, str] = {}
    for header, attribute in _pairs(given):
        if not header or not attribute:
            raise ValueError("a header or an attribute is empty")
        found[header.lower()] = attribute
    return tuple(found.items())


def prefixes(given: str) -> str:
    """``family:/prefix`` pairs with commas between them; the text itself, which the processor reads."""
    for family, _ in _pairs(given):
        if family not in _FAMILIES:
            raise ValueError(f"{family!r} is none of {', '.join(_FAMILIES)}")
    return given


def _pairs(given: str) -> Iterator[tuple[str, str]]:
    for pair in given.split(",") if given else ():
        left, colon, right = (part.strip() for part in pair.partition(":"))
        if not colon:
            raise ValueError(f"{pair.strip()!r} has no colon")
        yield left, right


def mapping(given: str) -> str:
    """Pairs of :func:`attributes`; the text itself, which the processor reads. An empty one says "none"."""
    attributes(given)
    return given


def _is_port(given: str) -> bool:
    return given.isascii() and given.isdigit() and int(given) <= HIGHEST_PORT


def _is_ip(given: str) -> bool:
    try:
        ipaddress.ip_address(given)
    except ValueError:
        return False
    return True
