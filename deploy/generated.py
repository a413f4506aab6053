"""Generated files: what ``python -m`` of a room that has some writes, or only looks at with ``--check``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def command(
    module: str, about: str | None, render: Callable[[], Mapping[str, str]], home: Path, argv: Sequence[str] | None
) -> int:
    """Writes the files that are not as they should be.

    Args:
        module: the room, as ``python -m`` is told it.
        about: what ``--help`` says of it.
        render: gives all files by their paths below a directory.
        home: that directory, where no other is asked for.
        argv: the command line; None takes the process's own.

    Returns:
        0 when all files are, or now are, as they should be; 1 when ``--check`` finds one that is not.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if a file is out of date")
    parser.add_argument("--directory", type=Path, default=home, help="where the files are (default: %(default)s)")
    arguments = parser.parse_args(argv)
    files = [(arguments.directory / name, text) for name, text in render().items()]
    stale = [(path, text) for path, text in files if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path, text in stale:
        if arguments.check:
            sys.stderr.write(f"{path}: out of date, run python -m {module}\n")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 1 if arguments.check and stale else 0
