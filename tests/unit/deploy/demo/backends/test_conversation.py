"""The conversation against stand-in gateways: what a client understands, and what it does not take for an answer."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from deploy.demo.backends.conversation import NotUnderstood, hold
from deploy.demo.client import Answer
from deploy.demo.providers.openai import OpenAI

LOG = SimpleNamespace(wait_for=lambda _: {"costs": {"llm_total_token": 47}})


class Direct:
    """A client that has OpenAI itself at the other end, and may have its answers changed."""

    def __init__(self, change=lambda body: body, status=200):
        self._change = change
        self._status = status

    def _ask(self, document):
        body = json.dumps(document).encode()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("authorization", "Bearer k"),
        ]
        return OpenAI(key="k").answer("POST", "/v1/chat/completions", headers, body)

    def post(self, path, document):
        reply = self._ask(document)
        status = self._status if self._status != 200 else reply.status
        return Answer(request_id="r", status=status, headers={}, body=self._change(reply.body))

    def stream(self, path, document):
        *events, done = self._ask({**document, "stream": True}).pieces
        assert done == b"data: [DONE]\n\n"
        return "r", (json.loads(self._change(event[6:])) for event in events)


@pytest.mark.parametrize("stream", [False, True])
def test_it_is_held_to_its_end(stream):
    held = hold(Direct(), LOG, "m", stream=stream)

    assert (held.asked.text, held.asked.finish) == ("Let me look that up.", "tool_calls")
    assert held.asked.calls == (("get_weather", '{"city":"Paris"}'),)
    assert (held.told.text, held.told.finish) == ("The tools say: 18 degrees and sunny", "stop")
    assert (held.told.usage, held.told.metered) == ((40, 7, 47), 47)


def test_an_error_is_no_answer():
    with pytest.raises(NotUnderstood, match=r'^status 503: \{"error"'):
        hold(Direct(lambda _: b'{"error": "busy"}', status=503), LOG, "m", stream=False)


def test_an_error_in_the_stream_is_no_answer():
    with pytest.raises(NotUnderstood, match=r"^an error in the stream: .*busy"):
        hold(Direct(lambda _: b'{"error": "busy"}'), LOG, "m", stream=True)


def test_a_stream_without_usage_is_no_answer():
    def without_usage(event):
        return json.dumps(json.loads(event) | {"usage": None})

    with pytest.raises(NotUnderstood, match=r"^the stream has no usage$"):
        hold(Direct(without_usage), LOG, "m", stream=True)


def test_a_model_that_does_not_call_the_tool():
    def without_calls(body):
        return body.replace(b"tool_calls", b"toolcalls")

    with pytest.raises(NotUnderstood, match=r"^the model did not call the tool: 'Let me look that up\.'$"):
        hold(Direct(without_calls), LOG, "m", stream=False)
