"""``python -m deploy.ratelimit``: the service alone, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.command_line import Parser

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deploy.ratelimit.service import RateLimiter


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Gives 0 when it was told to stop, 1 when it cannot serve."""
    parser = Parser(prog="python -m deploy.ratelimit", description="A small rate limit service.")
    parser.add_argument("--config", type=Path, required=True, help="budgets, in the format of envoyproxy/ratelimit")
    parser.add_argument("--address", default="127.0.0.1:8081", help="where to listen (default %(default)s)")
    parser.add_argument("--redis-url", help="keep the budgets in Redis: redis://host:port/db (default: in memory)")
    arguments = parser.parse_args(argv)
    try:
        # What it is made of is an extra; without it this command still has to say so.
        from deploy.ratelimit import budgets  # noqa: PLC0415
        from deploy.ratelimit.service import MEMORY, RateLimiter, StorageUnusable  # noqa: PLC0415
    except ModuleNotFoundError as error:
        return _fail(f"{error.name} is missing: install the extra 'demo' (pip install 'envoy-llm-extproc[demo]')")
    try:
        limiter = RateLimiter(budgets.load(arguments.config), storage_url=arguments.redis_url or MEMORY)
        asyncio.run(_serve(limiter, arguments.address))
    except (OSError, budgets.BudgetsInvalid, StorageUnusable) as error:
        return _fail(str(error))
    return 0


async def _serve(limiter: RateLimiter, address: str) -> None:
    from deploy.ratelimit.service import start_server  # noqa: PLC0415 - see main

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await limiter.open()
    server, port = await start_server(limiter, address)
    sys.stdout.write(f"rate limit service is ready on port {port}\n")
    sys.stdout.flush()
    await stop.wait()
    await server.stop(grace=1.0)
    await limiter.close()


def _fail(text: str) -> int:
    sys.stderr.write(f"ratelimit: {text}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
