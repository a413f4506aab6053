"""The files of resources that a command was given: what is in them now, and where to look for changes.

An editor may empty a file before it writes it, or move it away and put a new one in its place. So what has vanished
or has become blank is looked at once more, a little later.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from filter_config.sources.envoy_ai_gateway.documents import STDIN, Text, read_files, text_of
from filter_config.sources.faults import Faults
from filter_config.volume import link_directories

_SECOND_LOOK: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What the files hold, and what is wrong with those that cannot be read."""

    texts: tuple[Text, ...]
    faults: Faults

    @property
    def by_name(self) -> Mapping[str, bytes]:
        """The bytes of each file."""
        return {text.name: text.data for text in self.texts}


class Files:
    """Files, directories of them, and ``-`` for the standard input, which is read once."""

    def __init__(self, paths: Sequence[str], *, stdin: BinaryIO | None = None) -> None:
        self._paths = tuple(path for path in paths if path != STDIN)
        self._given: tuple[Text, ...] = ()
        # Where a shell has closed it there is none.
        stdin = stdin or getattr(sys.stdin, "buffer", None)
        self._missing = (STDIN,) if STDIN in paths and stdin is None else ()
        if STDIN in paths and stdin is not None:
            self._given = (text_of(STDIN, stdin.read()),)

    @classmethod
    def of_text(cls, text: Text) -> Files:
        """A text that is in no file and never changes."""
        files = cls(())
        files._given = (text,)
        return files

    def read(self) -> Content:
        """What the files hold now."""
        faults = Faults()
        return Content(texts=(*self._given, *read_files((*self._missing, *self._paths), faults)), faults=faults)

    def read_settled(self, before: Content) -> Content:
        """The same, but what was there ``before`` and seems to be gone is given the time to come back."""
        content = self.read()
        if _lost(before.by_name, content.by_name):
            time.sleep(_SECOND_LOOK)
            content = self.read()
        return content

    def directories(self) -> tuple[Path, ...]:
        """The directories in which something changes when the files do."""
        found: dict[Path, None] = {}
        for path in map(Path, self._paths):
            found.update(dict.fromkeys(link_directories(path)))
        return tuple(found)


def _lost(before: Mapping[str, bytes], now: Mapping[str, bytes]) -> bool:
    return any(data.strip() and not now.get(name, b"").strip() for name, data in before.items())
