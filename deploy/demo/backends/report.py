"""What the walk shows of a backend: the request that it got, and a line that can be compared with the others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from deploy.demo.backends.conversation import Held
from deploy.demo.screen import Screen
from deploy.demo.seen import Seen

_CREDENTIALS: Final = ("authorization", "api-key", "x-api-key")
_ACCESS_KEY: Final = re.compile(r"(?<=Credential=)[^/]+")
_SIGNATURE: Final = re.compile(r"(?<=Signature=)\w+")
_SCOPE: Final = re.compile(r"Credential=[^/]+/\d+/(?P<scope>[^,]+)/aws4_request")
_SHOWN: Final = 6
_LINE: Final = 100
_WIDEST: Final = 56


def show_request(screen: Screen, seen: Seen, streamed_path: str) -> None:
    screen.fact("request", f"{seen.method} {seen.path}")
    if streamed_path != seen.path:
        screen.fact("streamed", f"{seen.method} {streamed_path}")
    screen.fact("host", seen.header("host") or "")
    for name, value in credentials(seen):
        screen.fact(name, masked(value))
    if version := seen.header("anthropic-version"):
        screen.fact("anthropic-version", version)
    for line in pretty(seen.json()).splitlines():
        screen.line(f"   {line}")


def pretty(value: object, indent: str = "") -> str:
    """JSON in which whatever fits on a line stays on one."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= _LINE or not isinstance(value, dict | list):
        return line
    inner = f"{indent}  "
    if isinstance(value, list):
        inside, (opening, closing) = [pretty(each, inner) for each in value], "[]"
    else:
        inside = [f"{json.dumps(name)}: {pretty(member, inner)}" for name, member in value.items()]
        opening, closing = "{}"
    lines = f",\n{inner}".join(inside)
    return f"{opening}\n{inner}{lines}\n{indent}{closing}"


def credentials(seen: Seen) -> list[tuple[str, str]]:
    """The headers that let the request in."""
    return [(name, value) for name, value in seen.headers if name in _CREDENTIALS]


def masked(value: str) -> str:
    """A credential, of which only the start is shown; of a signature, everything that it does not protect."""
    if "Signature=" in value:
        return _SIGNATURE.sub("…", _ACCESS_KEY.sub(lambda found: _start(found[0]), value))
    scheme, blank, secret = value.rpartition(" ")
    return f"{scheme}{blank}{_start(secret)}"


def _start(secret: str) -> str:
    return f"{secret[:_SHOWN]}…"


def kind_of_credential(seen: Seen) -> str:
    """In a word or two: the header, and the scheme in it."""
    return ", ".join(_kind(name, value) for name, value in credentials(seen)) or "none"


def _kind(name: str, value: str) -> str:
    if scope := _SCOPE.search(value):
        return f"SigV4 {scope['scope']}"
    scheme, blank, _ = value.rpartition(" ")
    return f"{scheme} token" if blank else name


def row(name: str, seen: Seen, held: Held) -> dict[str, str]:
    """The line of a backend in the table."""
    prompt, completion, total = held.told.usage
    calls = ", ".join(f"{call}({arguments})" for call, arguments in held.asked.calls)
    return {
        "schema": name,
        "path": shortened(seen.path),
        "auth": kind_of_credential(seen),
        "tool call": calls,
        "answer": held.told.text,
        "tokens": f"{prompt} + {completion} = {total}",
        "metered": str(held.told.metered),
    }


def shortened(text: str) -> str:
    if len(text) <= _WIDEST:
        return text
    half = _WIDEST // 2
    return f"{text[: half - 1]}…{text[-half:]}"


def show_table(screen: Screen, rows: Sequence[Mapping[str, str]]) -> None:
    """Columns as wide as what is in them."""
    columns = dict.fromkeys(name for each in rows for name in each)
    widths = {name: max(len(name), *(len(each.get(name, "")) for each in rows)) for name in columns}
    _show_line(
        screen, ({name: name for name in columns}, {name: "-" * widths[name] for name in columns}, *rows), widths
    )


def _show_line(screen: Screen, lines: Iterable[Mapping[str, str]], widths: Mapping[str, int]) -> None:
    for each in lines:
        cells = (f"{each.get(name, ''):<{width}}" for name, width in widths.items())
        screen.line("   " + "  ".join(cells).rstrip())
