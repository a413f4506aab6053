"""Credentials that are fetched and rotate while clients ask: nobody notices (field reports BR-99 and BR-100)."""

from __future__ import annotations

import json
import time

import pytest

from tests.dataplane.harness.client import CHAT, connect, question
from tests.dataplane.harness.documents import backend, filter_config, route, rule
from tests.dataplane.harness.load import Load
from tests.dataplane.harness.replies import chat_completion, json_reply
from tests.dataplane.harness.waiting import wait_until
from tests.support.aws_endpoints import aws_endpoints

REQUESTS = 1000
ROTATIONS = 3
LIFETIME = 14.0
"""Seconds that credentials last; they are renewed when seven are left."""
SOURCE = "aws-default-chain/us-east-1"
REFRESHES = "extproc_credential_refreshes_total"
AWS = {"aws": {"region": "us-east-1"}}


@pytest.fixture(scope="module")
def endpoints():
    with aws_endpoints() as running:
        yield running


@pytest.fixture(scope="module")
def signed(start_upstream):
    return start_upstream("signed")


@pytest.fixture(scope="module")
def keyed(start_upstream):
    return start_upstream("keyed")


@pytest.fixture(scope="module")
def token_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("token") / "token"
    path.write_text("first-token-canary")
    return path


@pytest.fixture(scope="module")
def where(signed, keyed):
    return route(rule(signed, models=["signed"]), rule(keyed, models=["keyed"]))


@pytest.fixture(scope="module")
def document(where):
    """``document(uuid)``: the same backends each time."""

    def make(uuid):
        return filter_config(
            backend(where.backend_name(0, 0), auth=AWS), backend(where.backend_name(1, 0), key="sk-k"), uuid=uuid
        )

    return make


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two workers"])
def workers(request):
    return request.param


@pytest.fixture(scope="module")
def environment(workers, endpoints, token_file):
    nobody = {"AWS_SHARED_CREDENTIALS_FILE": "/nowhere", "AWS_CONFIG_FILE": "/nowhere", "NO_PROXY": "127.0.0.1"}
    return {**nobody, **endpoints.environment("sts", token_file), "EXTPROC_WORKERS": str(workers)}


@pytest.fixture(scope="module")
def stack(start_stack, where, document, environment):
    return start_stack(routes=[where], config=document("first"), environment=environment)


@pytest.fixture
def refusals(signed, keyed, endpoints):
    """What AWS would have refused; the upstreams answer everything else."""
    refused = []

    def answer(received):
        refusal = endpoints.judge(
            method=received.method, path=received.target, headers=received.headers, body=received.body
        )
        if refusal is not None:
            refused.append(refusal)
            return json_reply({"message": refusal}, status=403)
        return json_reply(chat_completion(model="m"))

    signed.always(answer)
    keyed.always(json_reply(chat_completion(model="m")))
    return refused


@pytest.fixture
def ask(stack):
    with connect(stack) as client:
        yield lambda model: client.post(CHAT, json=question(model))


@pytest.fixture
def ready(ask, endpoints, refusals):
    """The credential is there; a start does not wait for it."""
    endpoints.status, endpoints.lifetime = 200, LIFETIME
    wait_until(lambda: ask("signed").status_code == 200, "the backend serves", 20)


def refreshes(stack, result="ok"):
    return stack.metrics().sum(REFRESHES, source=SOURCE, result=result)


@pytest.fixture
def rotate(stack, token_file, workers):
    """Renews the token file, and waits until every process has another credential."""

    def rotate():
        wanted = refreshes(stack) + workers
        token_file.write_text(f"token-canary-{time.time()}")
        wait_until(lambda: refreshes(stack) >= wanted, "the credential has rotated", 20)

    return rotate


def test_a_thousand_requests_through_rotations_of_the_credential_and_none_is_lost(
    stack, ready, refusals, document, rotate
):
    with Load(stack, question("signed"), good=lambda status, _: status == 200) as load:
        load.wait_for_more(REQUESTS // 2)
        # A reload on top: the cell, and what is in it, stays.
        stack.swap_config(document(f"second-{time.time()}"))
        for _ in range(ROTATIONS):
            rotate()
        # And at least once because its end is near.
        done = refreshes(stack)
        wait_until(lambda: refreshes(stack) > done, "the credential has been renewed", 40)
        load.wait_for_more(REQUESTS // 2)
    assert load.failures == []
    assert refusals == []
    assert load.served >= REQUESTS


def test_an_outage_fails_only_the_requests_that_need_the_credential_and_shows(stack, ready, ask, endpoints, rotate):
    endpoints.lifetime = 4.0
    rotate()
    endpoints.status = 503
    wait_until(lambda: ask("signed").status_code == 503, "the credential has expired", 20)
    answer = ask("signed")
    assert answer.json()["error"]["message"] == f"the credential of the backend has expired ({SOURCE})"
    assert ask("keyed").status_code == 200
    wait_until(
        lambda: stack.metrics().sum("extproc_credential_unavailable_requests_total", source=SOURCE) >= 1, "counted"
    )
    wait_until(lambda: stack.metrics().sum("extproc_credential_missing", source=SOURCE) >= 1, "missing")
    assert refreshes(stack, "failed") >= 1
    endpoints.status = 200
    wait_until(lambda: ask("signed").status_code == 200, "the backend serves again", 30)


def test_no_page_and_no_log_shows_a_credential(stack, ready):
    shown = [stack.processor.admin(page)[1] for page in ("/config", "/metrics", "/ready")]
    shown += stack.logs().values()
    assert SOURCE in shown[1]
    assert "canary" not in "".join(shown).lower()


def test_the_page_shows_the_state_of_each_source_that_this_process_asks(stack, ready, workers):
    states = json.loads(stack.processor.admin("/config")[1])["credentials"]
    if workers > 1:
        assert states is None
        return
    (state,) = states
    assert state["source"] == SOURCE
    assert state["usable"]
    assert 0 < state["expires_in_seconds"] <= LIFETIME
