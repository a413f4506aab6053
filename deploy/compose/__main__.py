"""``python -m deploy.compose``: write the generated files; with ``--check``, only say which are out of date."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from deploy.compose.files import render
from deploy.generated import command

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE: Final = Path(__file__).resolve().parent


def main(argv: Sequence[str] | None = None) -> int:
    """See :func:`deploy.generated.command`."""
    return command("deploy.compose", __doc__, render, HERE, argv)


if __name__ == "__main__":
    sys.exit(main())
