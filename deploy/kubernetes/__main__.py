"""``python -m deploy.kubernetes``: write the generated files; with ``--check``, only say which are out of date."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.kubernetes.files import DEPLOY, render

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Gives 0 when all files are, or now are, as they should be; 1 when ``--check`` finds one that is not."""
    parser = argparse.ArgumentParser(prog="python -m deploy.kubernetes", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if a file is out of date")
    parser.add_argument("--directory", type=Path, default=DEPLOY, help="where kubernetes/ and helm/ are")
    arguments = parser.parse_args(argv)
    files = [(arguments.directory / name, text) for name, text in render().items()]
    stale = [(path, text) for path, text in files if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path, text in stale:
        if arguments.check:
            sys.stderr.write(f"{path}: out of date, run python -m deploy.kubernetes\n")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 1 if arguments.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
