"""Header maps as Envoy sends them."""

from __future__ import annotations

from protos.ext_proc_pb2 import HttpHeaders

HeaderDict = dict[str, str]


class HeaderChanges:
    """Header changes of one attempt.

    Attributes:
        sets: by lower-case name, the name as it is written and the value, in the order in which they are sent.
        removes: lower-case names.
    """

    __slots__ = ("removes", "sets")

    def __init__(self) -> None:
        self.sets: dict[str, tuple[str, str]] = {}
        self.removes: list[str] = []

    def set(self, name: str, value: str) -> None:
        """Set a header, in place of what was set under its name before."""
        key = name.lower()
        self.sets.pop(key, None)
        self.sets[key] = (name, value)


def read_headers(message: HttpHeaders) -> HeaderDict:
    """Headers by name as received (Envoy sends lower case); of a repeated one the last counts (contract 3.2).

    Envoy fills ``raw_value``; ``value`` is its older form. Bytes that are not UTF-8 are shown as U+FFFD: nothing here
    could use them, but the header must be known, to be removed for instance.
    """
    listed = message.headers.headers
    try:
        headers = {header.key: header.raw_value.decode() for header in listed}
    except UnicodeDecodeError:
        pass
    else:
        if "" not in headers.values():
            return headers
    return {header.key: (header.raw_value or header.value).decode("utf-8", "replace") for header in listed}
