"""The stand-in upstream: it speaks the OpenAI API well enough for the official client library."""

from __future__ import annotations

import logging
import subprocess
import sys

import httpx
import openai
import pytest

from deploy.demo.upstream import Upstream, main
from tests.support.children import child


@pytest.fixture(scope="module")
def upstream():
    running = Upstream("alpha")
    running.start()
    yield running
    running.stop()


@pytest.fixture
def client(upstream):
    with openai.OpenAI(base_url=f"http://127.0.0.1:{upstream.port}/v1", api_key="k", max_retries=0) as made:
        yield made


MESSAGES = [{"role": "user", "content": "one two three"}]
TEXT = "This is m at alpha: I have read what you wrote."


def test_chat(client, upstream):
    answer = client.chat.completions.create(model="m", messages=MESSAGES)

    assert answer.choices[0].message.content == TEXT
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (3, 11, 14)
    assert upstream.last.json()["messages"] == MESSAGES
    assert upstream.last.header("authorization") == "Bearer k"


@pytest.mark.parametrize("wanted", [True, False])
def test_chat_as_a_stream(client, wanted):
    options = {"stream_options": {"include_usage": True}} if wanted else {}

    chunks = list(client.chat.completions.create(model="m", messages=MESSAGES, stream=True, **options))

    assert "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices) == TEXT
    assert [chunk.usage.total_tokens for chunk in chunks if chunk.usage] == ([14] if wanted else [])


def test_completions(client):
    answer = client.completions.create(model="m", prompt="one two")
    pieces = client.completions.create(model="m", prompt="one two", stream=True)

    assert answer.choices[0].text == TEXT
    assert "".join(piece.choices[0].text for piece in pieces) == TEXT
    assert answer.usage.total_tokens == 13


def test_embeddings(client):
    answer = client.embeddings.create(model="m", input=["one two", "three"], encoding_format="float")

    assert [entry.embedding for entry in answer.data] == [[2.0, 0.5, -0.5], [1.0, 0.5, -0.5]]
    assert answer.usage.total_tokens == 3


def test_models(client, upstream):
    assert [model.owned_by for model in client.models.list()] == ["alpha"]
    assert upstream.last.path == "/v1/models"


def test_it_fails_when_told_to(client, upstream):
    control = f"http://127.0.0.1:{upstream.port}/standin"
    httpx.put(control, json={"failing": 503})
    try:
        with pytest.raises(openai.InternalServerError, match="alpha has been told to fail"):
            client.chat.completions.create(model="m", messages=MESSAGES)
    finally:
        httpx.put(control, json={"failing": None})

    seen = httpx.get(control).json()
    assert seen["failing"] is None
    assert seen["seen"][-1]["path"] == "/v1/chat/completions"
    assert client.chat.completions.create(model="m", messages=MESSAGES).choices


def test_told_how_to_behave_it_answers_how_it_does(upstream):
    control = f"http://127.0.0.1:{upstream.port}/standin"
    try:
        told = httpx.put(control, json={"failing": 429, "pause": 0.5})
    finally:
        back = httpx.put(control, json={"pause": 0})

    assert (told.status_code, told.json()) == (200, {"name": "alpha", "failing": 429, "pause": 0.5})
    assert back.json() == {"name": "alpha", "failing": None, "pause": 0}


WRONG = {
    "nothing": b"",
    "no JSON": b"{failing: 503}",
    "not UTF-8": b'{"failing": "\xff"}',
    "nested too deep": b"[" * 100_000,
    "a list": b"[503]",
    "a number": b"503",
    "unknown key": b'{"fail": 503}',
    "status as text": b'{"failing": "503"}',
    "status that is a boolean": b'{"failing": true}',
    "status that does not fail": b'{"failing": 200}',
    "status that is none": b'{"failing": 999}',
    "pause as text": b'{"pause": "1"}',
    "pause of nothing": b'{"pause": null}',
    "negative pause": b'{"pause": -1}',
    "endless pause": b'{"pause": Infinity}',
    "pause that is no number": b'{"pause": NaN}',
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_told_what_it_cannot_do_it_says_so_in_a_line_and_goes_on_as_before(body, upstream):
    control = f"http://127.0.0.1:{upstream.port}/standin"
    before = httpx.get(control).json()

    answer = httpx.put(control, content=body)

    assert answer.status_code == 400
    assert answer.text.count("\n") == 1
    assert answer.text.endswith("\n")
    assert httpx.get(control).json() == before


def test_a_request_without_a_model(upstream):
    url = f"http://127.0.0.1:{upstream.port}/v1/chat/completions"

    answers = [httpx.post(url, content=body) for body in (b"{}", b"not json", b"[]")]

    assert [answer.status_code for answer in answers] == [400, 400, 400]
    assert answers[0].json()["error"]["type"] == "invalid_request_error"


def test_a_port_that_is_taken(upstream, capfd):
    assert main(["--port", str(upstream.port)]) == 1

    (line,) = capfd.readouterr().err.splitlines()
    assert line == f"upstream: cannot listen on 127.0.0.1:{upstream.port}"
    assert logging.getLogger("uvicorn").handlers == []


def test_the_command_serves_until_it_is_told_to_stop():
    command = [sys.executable, "-m", "deploy.demo.upstream", "--name", "alone", "--port", "0"]
    with child(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        address = process.stdout.readline().removeprefix("upstream alone listens on ").strip()
        models = httpx.get(f"http://{address}/v1/models", timeout=10, trust_env=False)
        process.terminate()
        process.wait(10)

    assert models.status_code == 200
