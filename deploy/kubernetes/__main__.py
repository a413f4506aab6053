"""``python -m deploy.kubernetes``: write the generated files; with ``--check``, only say which are out of date."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from deploy.generated import command
from deploy.kubernetes.files import DEPLOY, render

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """See :func:`deploy.generated.command`."""
    return command("deploy.kubernetes", __doc__, render, DEPLOY, argv)


if __name__ == "__main__":
    sys.exit(main())
