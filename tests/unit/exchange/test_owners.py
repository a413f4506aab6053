"""Internal request ids name the worker that made them."""

import pytest

from extproc.exchange import names
from extproc.exchange.context import ExchangeOptions
from extproc.exchange.owners import ForeignAttempt, Owner
from extproc.exchange.stream import Processor
from extproc.telemetry.metrics import Metrics
from tests.support.playbook import BACKEND, DEFAULT_HEADERS, Gateway, fed, openai_backend, request_headers

OWN = Owner(group="0a1b2c3d", worker=2, incarnation=5)
ATTRIBUTES = {names.BACKEND_OF_HOST: BACKEND}


@pytest.fixture
def gateway():
    return Gateway({"version": "dev", "backends": [openai_backend()]})


@pytest.fixture
def processor(gateway):
    made = Processor(metrics=gateway.metrics, options=ExchangeOptions(), ids=lambda: "uuid", owner=OWN)
    made.runtime = gateway.processor.runtime
    return made


def carrying(request_id):
    return DEFAULT_HEADERS | {names.INTERNAL_REQUEST_ID: request_id}


def test_an_id_ends_in_its_owners_tag(processor):
    reply = fed(processor.open(), request_headers(DEFAULT_HEADERS))
    assert reply.set[names.INTERNAL_REQUEST_ID] == "req-1-uuid-0a1b2c3d-w2.5"


FOREIGN = {
    "another worker": ("req-1-uuid-0a1b2c3d-w1.5", ("w1.5")),
    "an earlier life": ("req-1-uuid-0a1b2c3d-w2.4", ("w2.4")),
    "a later life": ("req-1-uuid-0a1b2c3d-w2.51", ("w2.51")),
    "a client's id that looks like a tag": ("x-0a1b2c3d-w2.5-uuid-0a1b2c3d-w3.1", ("w3.1")),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_an_attempt_at_another_workers_request_is_not_touched(processor, gateway, name):
    request_id, owner = FOREIGN[name]
    before = gateway.metrics.snapshot()
    stream = processor.open()
    with pytest.raises(ForeignAttempt) as caught:
        stream.feed(request_headers(carrying(request_id), attributes=ATTRIBUTES).SerializeToString())
    stream.close()
    assert caught.value.owner.name == owner
    # A transport that cannot relay ends the stream, and Envoy may try again.
    assert caught.value.code == ForeignAttempt.UNAVAILABLE
    assert gateway.metrics.snapshot() == before


OWN_FAULT = {
    "our own, and over": "req-1-uuid-0a1b2c3d-w2.5",
    "of a gateway before this one": "req-1-uuid-ffffffff-w1.1",
    "of one process alone": "req-1-uuid",
    "no worker": "req-1-uuid-0a1b2c3d-w.1",
    "not at the end": "req-1-uuid-0a1b2c3d-w1.1-more",
    "with a line end": "req-1-uuid-0a1b2c3d-w1.1\n",
    "empty": "",
}


@pytest.mark.parametrize("name", OWN_FAULT)
def test_an_attempt_of_nobody_is_refused_here(processor, name):
    reply = fed(processor.open(), request_headers(carrying(OWN_FAULT[name]), attributes=ATTRIBUTES))
    assert reply.status == 500


def test_a_client_that_carries_anothers_id_goes_no_further(processor):
    """As with an id of one's own: this filter has lost its attributes, or a client plays with an id."""
    reply = fed(processor.open(), request_headers(carrying("req-1-uuid-0a1b2c3d-w1.5")))
    assert reply.status == 500


def test_a_request_that_another_gateway_sent_here_is_an_ordinary_one(processor):
    reply = fed(processor.open(), request_headers(carrying("req-1-uuid-ffffffff-w1.1")))
    assert reply.set[names.INTERNAL_REQUEST_ID] == "req-1-uuid-0a1b2c3d-w2.5"


def test_a_process_of_its_own_knows_no_other():
    alone = Gateway({"version": "dev", "backends": [openai_backend()]}).processor
    reply = fed(alone.open(), request_headers(carrying("req-1-uuid-0a1b2c3d-w1.5"), attributes=ATTRIBUTES))
    assert reply.status == 500
    assert Metrics().snapshot().scalars["extproc_relayed_attempts"] == []
