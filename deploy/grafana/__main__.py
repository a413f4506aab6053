"""``python -m deploy.grafana``: write the dashboard; with ``--check``, only say whether it is out of date."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from deploy.grafana.dashboard import NAME, render

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE: Final = Path(__file__).resolve().parent


def main(argv: Sequence[str] | None = None) -> int:
    """Gives 0 when the file is, or now is, as it should be; 1 when ``--check`` finds that it is not."""
    parser = argparse.ArgumentParser(prog="python -m deploy.grafana", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if the file is out of date")
    parser.add_argument("--directory", type=Path, default=HERE, help="where the file is (default: beside this module)")
    arguments = parser.parse_args(argv)
    path, text = arguments.directory / NAME, render()
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return 0
    if arguments.check:
        sys.stderr.write(f"{path}: out of date, run python -m deploy.grafana\n")
        return 1
    path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
