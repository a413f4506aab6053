"""The reference page of what each backend makes of a chat completion request, written from the tables that decide it.

``python -m extproc.translate.chat.matrix`` prints ``docs/reference/chat-backends.md``; ``make check`` compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Final

from extproc.translate.chat.anthropic.request import support_table
from extproc.translate.chat.bedrock.dialect import SUPPORT as BEDROCK
from extproc.translate.chat.gemini.dialect import SUPPORT as GEMINI
from extproc.translate.chat.support import FIELDS, Support, SupportTable

TABLES: Final[Mapping[str, SupportTable]] = {
    "AWSBedrock": BEDROCK,
    "GCPVertexAI": GEMINI,
    "Anthropic, GCPAnthropic, AWSAnthropic": support_table("Anthropic"),
}

_HEAD: Final = """\
<!-- Written by `make golden` from the tables in extproc/translate/chat; do not edit. -->

# Chat completions: what each backend makes of a request

Backends of schema `OpenAI` and `AzureOpenAI` speak the client's API: every member reaches them as the client wrote it.
For the others, each member of the request is

- **mapped**: the backend's API can say it; how, where it is not obvious, stands below the table;
- ignored: the backend's API cannot say it, and the answer means the same without it;
- **refused**: the backend's API cannot say it, and an answer without it would not be what was asked for. The client
  gets a 422 that names the member.

Members that are not listed (`metadata`, `store`, …) are ignored. What a value must be for a backend (a range, a form)
is checked as well; such a refusal names the member, too.
"""


def page() -> str:
    """The page, as Markdown."""
    sections = (_section(backends, table) for backends, table in TABLES.items())
    return "\n".join([_HEAD, *_rows(), *(line for section in sections for line in section)]) + "\n"


def _rows() -> Iterator[str]:
    yield "| member | " + " | ".join(TABLES) + " |"
    yield "|---" * (len(TABLES) + 1) + "|"
    for name in FIELDS:
        cells = [_WORDS[table.fields[name].support] for table in TABLES.values()]
        yield f"| {_code(name)} | " + " | ".join(cells) + " |"


_WORDS: Final = {Support.MAPPED: "**mapped**", Support.IGNORED: "ignored", Support.REFUSED: "**refused**"}


def _section(backends: str, table: SupportTable) -> Iterator[str]:
    """What there is to say of single members."""
    yield from ("", f"## {backends}", "")
    for name, field in table.fields.items():
        if field.note:
            yield f"- {_code(name)} ({field.support.value}): {field.note}"


def _code(name: str) -> str:
    """Names of members as code; rows that describe a kind of value stay text."""
    return name if " " in name else f"`{name}`"


if __name__ == "__main__":
    sys.stdout.write(page())
