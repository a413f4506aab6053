"""Environment variables in files of resources: ``${NAME}``, and ``${NAME:-default}`` for when it is not set.

Files that were written for the peer's standalone mode have them (contract, control plane 7.4). A value is pasted as
text, so that a port can be a number; a Secret does better with the annotations of the compiler, which no value breaks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from filter_config.sources.envoy_ai_gateway.documents import Text
from filter_config.sources.faults import Faults, Origin

_REFERENCE: Final = re.compile(rb"\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}\r\n]*))?\}")
_BREAKS: Final = ("\n", "\r")


def substituted(text: Text, environ: Mapping[str, str], faults: Faults) -> Text:
    """The text with the values; a reference to a variable that cannot be used stays as it is, and is told."""
    if b"${" not in text.data:
        return text
    lines = text.data.split(b"\n")
    for index, line in enumerate(lines):
        if b"${" in line and not line.lstrip().startswith(b"#"):
            lines[index] = _line(line, environ, faults, Origin(file=text.name, line=index + 1))
    return Text(name=text.name, data=b"\n".join(lines))


def _line(line: bytes, environ: Mapping[str, str], faults: Faults, origin: Origin) -> bytes:
    def value(match: re.Match[bytes]) -> bytes:
        name = match[1].decode("ascii")
        found = environ.get(name, "")
        if any(mark in found for mark in _BREAKS):
            faults.warning(origin, f"the variable {name} has several lines and is not pasted", "put it into a Secret")
            return match[0]
        if found or match[2] is not None:
            return found.encode("utf-8", "surrogateescape") or match[3]
        faults.warning(origin, f"the variable {name} is not set; {match[0].decode()} stays as it is", "set it")
        return match[0]

    return _REFERENCE.sub(value, line)
