"""The process of a worker, started by the supervisor and by nobody else: ``python -m extproc.workers CONTROL HANDING``.

The arguments are the descriptors of its ends of two socket pairs.
"""

from __future__ import annotations

import os
import socket
import sys

from extproc.loops import runner
from extproc.workers.worker import work


def main() -> None:
    """Serve until told to stop, or until the supervisor is gone."""
    try:
        control, handing = (socket.socket(fileno=int(argument)) for argument in sys.argv[1:])
    except (ValueError, OSError):
        sys.exit("a worker is started by `extproc -workers N`, not by hand")
    with runner() as loop:
        loop.run(work(control, handing, os.environ))


if __name__ == "__main__":
    main()
