"""The golden transcripts, with each attempt relayed."""

import pytest

from tests.support.playbook import Gateway
from tests.support.transcript import Transcript
from tests.unit.exchange.test_golden import CONFIG, GOLDEN, SCENARIOS
from tests.unit.workers.exchange.joined import OWNER


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_transcript_is_that_of_one_worker(name, pairs):
    exchange = Transcript(Gateway(CONFIG))
    SCENARIOS[name](exchange)
    exchange.close()

    assert exchange.text.replace(OWNER.tag, "") == (GOLDEN / f"{name}.txt").read_text()
    (pair,) = pairs
    assert pair.owners == [OWNER] * len(exchange.attempts)
    assert pair.link.owner.open_calls == 0
