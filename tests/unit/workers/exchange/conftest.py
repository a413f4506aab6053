"""The tests of the exchange suite once more, with each attempt at the wrong worker and relayed to the right one."""

import pytest

from tests.unit.workers.exchange.joined import join


@pytest.fixture(autouse=True)
def pairs(monkeypatch):
    """Every pair of workers that the test makes."""
    made = []
    join(monkeypatch, made)
    return made
