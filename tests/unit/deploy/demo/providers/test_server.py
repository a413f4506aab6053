"""All stand-ins behind one port."""

from __future__ import annotations

import http.client
import json

import pytest

from deploy.demo.providers.server import ProviderServer
from tests.unit.deploy.demo.providers.conversations import AWS_HEADERS, BEDROCK, CONVERSE_REQUEST, OPENAI

PROFILE = "arn:aws:bedrock:us-east-1:111122223333:inference-profile%2Fus.anthropic.claude-x-v1:0"


@pytest.fixture(scope="module")
def server():
    running = ProviderServer({"api.openai.com": OPENAI, "bedrock.test": BEDROCK})
    running.start()
    yield running
    running.stop()


def post(server, target, document, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request("POST", target, json.dumps(document), {"content-type": "application/json", **headers})
        response = connection.getresponse()
        return response.status, response.getheader("content-type"), response.read()
    finally:
        connection.close()


def test_the_host_decides(server):
    question = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}

    status, _, body = post(server, "/v1/chat/completions", question, host="api.openai.com", authorization="Bearer sk-1")

    assert status == 200
    assert json.loads(body)["choices"][0]["message"]["content"] == "You said: Hi"
    assert server.seen["api.openai.com"][-1].json() == question


def test_a_path_comes_as_it_was_sent(server):
    target = f"/model/{PROFILE}/converse-stream"

    status, kind, body = post(server, target, CONVERSE_REQUEST, host="bedrock.test:443", **AWS_HEADERS)

    assert (status, kind) == (200, "application/vnd.amazon.eventstream")
    assert body[12:].startswith(b"\x0b:event-type")
    assert server.seen["bedrock.test"][-1].path == target


def test_nobody_is_at_home(server):
    status, _, body = post(server, "/", {}, host="example.com")

    assert status == 421
    assert b"example.com" in body
