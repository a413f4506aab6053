"""``python -m deploy.grafana``: write the dashboard; with ``--check``, only say whether it is out of date."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from deploy.generated import command
from deploy.grafana.dashboard import NAME, render

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE: Final = Path(__file__).resolve().parent


def main(argv: Sequence[str] | None = None) -> int:
    """See :func:`deploy.generated.command`."""
    return command("deploy.grafana", __doc__, lambda: {NAME: render()}, HERE, argv)


if __name__ == "__main__":
    sys.exit(main())
