"""A worker process keeps the credentials of its own configs."""

from __future__ import annotations

import asyncio
import socket

import msgspec

from extproc.exchange.owners import Owner
from extproc.settings import Settings
from extproc.workers.handing import Taker
from extproc.workers.messages import Configure, Configured, Start
from extproc.workers.worker import Worker
from filter_config.load import decode
from tests.support.playbook import openai_backend

SETTINGS = Settings(config_path="unused", transport="http2", workers=2, log_level=8)
START = Start(settings=SETTINGS, owner=Owner(group="0a1b2c3d", worker=1, incarnation=1))


def configure(digest, *regions):
    backends = [openai_backend(region, auth={"aws": {"region": region}}) for region in regions]
    config = decode(msgspec.json.encode({"version": "dev", "backends": backends})).config
    return Configure(digest=digest, config=config)


def test_cells_of_unchanged_sources_outlive_a_config(nowhere):
    async def story():
        ours, theirs = socket.socketpair()
        told = []
        with ours, theirs:
            worker = Worker(START, {}, taker=Taker(theirs), tell=told.append)
            kept = []
            for order in (configure("a", "east", "west"), configure("b", "west")):
                worker.obey(order)
                async with asyncio.timeout(30):
                    while Configured(digest=order.digest) not in told:  # noqa: ASYNC110 - built in a thread
                        await asyncio.sleep(0.001)
                kept.append({cell.source.region: cell for cell in worker.credentials.known.values()})
            before, after = kept
            assert set(before) == {"east", "west"}
            assert after == {"west": before["west"]}
            assert worker.processor.runtime.cells == (before["west"],)

    asyncio.run(story())
