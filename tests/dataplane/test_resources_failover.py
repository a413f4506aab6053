"""What sends a request on to the next priority, as a BackendTrafficPolicy says it, and what its client gets."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from types import SimpleNamespace

import httpx
import pytest

from tests.dataplane.harness.broken import Absent, HangsUp
from tests.dataplane.harness.client import CHAT, OpenAnswer, connect, question
from tests.dataplane.harness.replies import Gate, chat_chunks, chat_completion, json_reply, stream_reply
from tests.dataplane.harness.resources import provider, serve
from tests.support.gateway_resources import ENVOY_GATEWAY, GATEWAY_API, gateway, ref, resource, route, rule

FAULT = {"error": {"message": "no"}}
GOOD = json_reply(chat_completion("m", text="second"))
POLICY = resource(
    f"{ENVOY_GATEWAY}/v1alpha1",
    "BackendTrafficPolicy",
    "again",
    spec={
        "targetRefs": [{"group": GATEWAY_API, "kind": "HTTPRoute", "name": "r"}],
        "retry": {
            "numRetries": 2,
            "perRetry": {"timeout": "1s"},
            "retryOn": {
                "httpStatusCodes": [429, 500, 502],
                "triggers": ["reset", "connect-failure", "retriable-status-codes"],
            },
        },
    },
)


def rules(*firsts):
    """A first backend each; the second has no weight, the third answers."""
    for first in firsts:
        last = (ref("off", weight=0, priority=1), ref("second", priority=2))
        yield rule(ref(first), *last, model=first)
        yield rule(ref(first), *last, model=f"{first}-idle", streamIdleTimeout="300ms")


@pytest.fixture(scope="module")
def first(start_upstream):
    return start_upstream("first")


@pytest.fixture(scope="module")
def second(start_upstream):
    return start_upstream("second")


@pytest.fixture(scope="module")
def stack(start_stack, first, second):
    with ExitStack() as servers:
        # Connections come to be, and nobody ever takes them.
        silent = servers.enter_context(socket.create_server(("127.0.0.1", 0)))
        broken = {
            "absent": servers.enter_context(Absent()),
            "hangs-up": servers.enter_context(HangsUp()),
            "silent": SimpleNamespace(port=silent.getsockname()[1]),
        }
        yield serve(
            start_stack,
            gateway(),
            route("r", *rules("first", *broken)),
            POLICY,
            *(made for name, server in broken.items() for made in provider(name, server)),
            *provider("first", first),
            *provider("second", second),
            *provider("off", first),
        )


def ask(stack, model):
    with connect(stack) as client:
        return client.post(CHAT, json=question(model))


@pytest.mark.parametrize("model", ["absent", "hangs-up", "silent", "silent-idle"])
def test_a_backend_that_does_not_answer_is_passed_over(stack, first, second, model):
    second.always(GOOD)

    reply = ask(stack, model)

    assert (reply.status_code, reply.json()["choices"][0]["message"]["content"]) == (200, "second")
    assert second.last.header("host") == "second.test"
    assert (len(first.requests), len(second.requests)) == (0, 1)


@pytest.mark.parametrize("status", [429, 500, 502])
def test_a_status_of_the_policy_is_passed_over(stack, first, second, status):
    first.always(json_reply(FAULT, status=status))
    second.always(GOOD)

    assert ask(stack, "first").status_code == 200
    assert (len(first.requests), len(second.requests)) == (1, 1)


@pytest.mark.parametrize("status", [400, 401, 503])
def test_another_status_is_the_clients(stack, first, second, status):
    first.always(json_reply(FAULT, status=status))

    assert ask(stack, "first").status_code == status
    assert second.requests == []


def test_a_stream_that_has_begun_is_cut_and_not_repeated(stack, first, second):
    """The idle time of a rule counts for each attempt, and what the client has seen cannot be taken back."""
    first.always(stream_reply(chat_chunks("m", "a", "b")[0], Gate()))

    with OpenAnswer(stack, question("first-idle", stream=True)) as answer:
        answer.until(b'"a"')
        with pytest.raises(httpx.RemoteProtocolError):
            answer.rest()

    assert second.requests == []
