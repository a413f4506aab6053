"""Waiting for an event, and for no longer than is said."""

from __future__ import annotations

import asyncio

import pytest

from extproc.loops import set_within


@pytest.mark.parametrize(
    ("seconds", "sets", "was"), [(0, False, False), (30, True, True), (None, True, True), (0, True, True)]
)
def test_it_says_whether_the_event_was_set(seconds, sets, was):
    async def live():
        event = asyncio.Event()
        if sets:
            event.set()
        return await set_within(event, seconds)

    assert asyncio.run(live()) is was


def test_an_event_that_another_has_cleared_was_set_all_the_same():
    async def live():
        event = asyncio.Event()

        async def clears():
            assert await set_within(event, None)
            event.clear()

        waiting = asyncio.gather(clears(), clears())
        await asyncio.sleep(0)
        event.set()
        await waiting

    asyncio.run(live())


@pytest.mark.parametrize("turns", range(4))
def test_who_is_cancelled_as_the_event_is_set_is_cancelled(turns):
    async def live():
        event = asyncio.Event()
        waiting = asyncio.create_task(set_within(event, 30))
        await asyncio.sleep(0)
        waiting.cancel()
        event.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(live())
