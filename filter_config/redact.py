"""Secrets of the filter config: a type that does not show its value, and the config as it may be shown.

A credential is wrapped where it is decoded and unwrapped where it is put on the wire. Everything between, logs, errors,
``repr`` and encodings, sees the placeholder, so no caller has to remember to redact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

import msgspec

if TYPE_CHECKING:
    from filter_config.model import Config

REDACTED: Final = "[REDACTED]"
"""What stands in place of a secret; the peer's own placeholder (contract, filter config 8.5)."""


@final
class Secret:
    """A text that must not be shown: an API key, a token, a credentials file, the value of a configured header.

    ``str``, ``repr``, ``format`` and the msgspec encodings give the placeholder; only :meth:`reveal` gives the value.
    Equality is by value and only between secrets, truth is non-emptiness, ``len`` counts characters.

    NB: pickling carries the value. It is how a config that was decoded in another process reaches this one.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str = "") -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, for the wire."""
        return self._value

    def __repr__(self) -> str:
        return REDACTED

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(REDACTED, spec)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __len__(self) -> int:
        return len(self._value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Secret):
            return self._value == other._value
        return NotImplemented

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return (Secret, (self._value,))


def enc_hook(value: object) -> object:
    """Hook of msgspec for encodings that may be shown: a secret is the placeholder, an empty one stays empty."""
    if isinstance(value, Secret):
        return REDACTED if value else ""
    raise NotImplementedError(f"cannot encode {type(value).__name__}")


def dec_hook(kind: type, value: object) -> object:
    """Hook of msgspec for decoding: text becomes a :class:`Secret`."""
    if kind is not Secret:
        raise NotImplementedError(f"cannot decode {kind.__name__}")
    if not isinstance(value, str):
        raise TypeError("expected a text")  # which msgspec reports with the path
    return Secret(value)


def redacted(config: Config) -> dict[str, Any]:
    """The config as plain builtins with the document's keys and without a single secret (contract, filter config 8.5).

    Credential literals, keys, tokens and the values of header and body mutations read ``[REDACTED]``; regions, project
    names, header names and body paths stay. A body mutation may carry a secret as well as a header may, so its value is
    hidden too, which the peer does not do.
    """
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(config, enc_hook=enc_hook))
    for backend in document.get("backends", ()):
        for field in (backend.get("httpBodyMutation") or {}).get("set", ()):
            field["value"] = REDACTED
    return document
