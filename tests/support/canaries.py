"""What credentials look like in these tests, so that none of them goes unnoticed where output is kept.

Every credential that a test plants has one of these forms. The whole run is watched: what a test's code prints and
logs, and the logs of the processes that it starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

CREDENTIAL = re.compile(
    # Planted for this purpose; keys of OpenAI and Anthropic; key ids of AWS; access tokens of Google; JSON web tokens.
    r"canary|\bsk-[a-z0-9]|\bAKIA[A-Z0-9]{4}|\bya29\.|\beyJ[A-Za-z0-9_-]{10,}\.",
    re.IGNORECASE,
)
_AROUND = 80


def shown(text: str) -> str | None:
    """The surroundings of the first credential that a text shows; ``None`` when there is none."""
    found = CREDENTIAL.search(text)
    return found and text[max(found.start() - _AROUND, 0) : found.end() + _AROUND]


def shown_in_logs(directory: Path) -> Iterator[str]:
    """Each log file below a directory that shows a credential, with its surroundings."""
    for path in sorted(directory.rglob("*.log")):
        if (where := shown(path.read_text(encoding="utf-8", errors="replace"))) is not None:
            yield f"{path.name}: …{where}…"
