"""What providers offer: how they are asked, what counts as an answer, and what is made of it."""

from __future__ import annotations

import queue
import socket
import ssl
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from deploy.local import automatic, offered
from deploy.local.automatic import EnvironmentIncomplete
from deploy.local.compiling import Compiler
from deploy.local.offered import Offers, Unanswered, ask
from filter_config.model import ZERO_TIME, Model
from filter_config.sources.faults import Faults
from tests.support.certificates import Authority

MODELS = b'{"object": "list", "data": [{"id": "b", "object": "model", "owned_by": "x", "created": 7}, {"id": "a"}]}'


@contextmanager
def served(body=MODELS, *, status=200, headers=(), tls=None):
    """A provider that answers everything alike; gives its port and what it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, dict(self.headers.items())))
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port, asked
        finally:
            server.shutdown()
            thread.join()


def asked_of(environ):
    (provider,) = automatic.providers(environ)
    return [model.name for model in ask(provider, environ)]


ASKED = {
    "a server on this machine": ({"OPENAI_BASE_URL": "http://127.0.0.1:{}/v1"}, "/v1/models", {}),
    "a server with a path, a key and a tenant": (
        {"OPENAI_BASE_URL": "http://127.0.0.1:{}/api/v1/", "OPENAI_API_KEY": "k\n", "OPENAI_ORG_ID": "org"},
        "/api/v1/models",
        {"authorization": "Bearer k", "OpenAI-Organization": "org"},
    ),
    "Anthropic": (
        {"ANTHROPIC_BASE_URL": "http://127.0.0.1:{}/anthropic", "ANTHROPIC_API_KEY": "k"},
        "/anthropic/v1/models?limit=1000",
        {"x-api-key": "k", "anthropic-version": "2023-06-01"},
    ),
}


@pytest.mark.parametrize(("variables", "path", "headers"), ASKED.values(), ids=ASKED)
def test_how_a_provider_is_asked(variables, path, headers):
    with served() as (port, asked):
        models = asked_of({name: value.format(port) for name, value in variables.items()})

    assert models == ["b", "a"]
    ((target, sent),) = asked
    assert target == path
    extra = {name: value for name, value in sent.items() if name.lower() not in {"host", "accept", "accept-encoding"}}
    assert extra == headers


def test_a_provider_is_asked_over_tls_and_proves_who_it_is(tmp_path, monkeypatch):
    authority = Authority(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.issue("localhost"))
    with served(tls=context) as (port, _):
        environ = {"OPENAI_BASE_URL": f"https://localhost:{port}"}
        with pytest.raises(Unanswered, match=r"CERTIFICATE_VERIFY_FAILED|certificate verify failed"):
            asked_of(environ)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
        assert asked_of(environ) == ["b", "a"]


BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
ANSWERS = {
    "whole": (b'{"data": [{"id": "m", "created": 60, "owned_by": "me"}]}', [("m", "me", BEGINNING + timedelta(0, 60))]),
    "a bare list": (b'[{"id": "m"}]', [("m", "127.0.0.1", BEGINNING)]),
    "none": (b'{"data": []}', []),
    "as Anthropic has it": (
        b'{"data": [{"id": "m", "type": "model", "created_at": "2025-02-24T00:00:00Z"}], "has_more": false}',
        [("m", "127.0.0.1", datetime(2025, 2, 24, tzinfo=UTC))],
    ),
    "no time that there is": (b'{"data": [{"id": "m", "created": 1e300}]}', [("m", "127.0.0.1", ZERO_TIME)]),
    "no zone": (b'{"data": [{"id": "m", "created_at": "2025-02-24T00:00:00"}]}', [("m", "127.0.0.1", BEGINNING)]),
    "names that no screen should show": (
        b'{"data": [{"id": ""}, {"id": "a\\u001bb"}, {"id": "a\\nb"}, {"id": "@cf/x:3b"}]}',
        [("@cf/x:3b", "127.0.0.1", BEGINNING)],
    ),
}


@pytest.mark.parametrize(("body", "models"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer(body, models):
    with served(body) as (port, _):
        environ = {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}"}
        listed = ask(*automatic.providers(environ), environ)

    assert [(model.name, model.owned_by, model.created_at) for model in listed] == models


NO_ANSWERS = {
    "a failure": ({"status": 404}, "status 404"),
    "a redirection, which would carry the key elsewhere": (
        {"status": 302, "headers": [("location", "http://127.0.0.1:1/")]},
        "status 302",
    ),
    "no JSON": ({"body": b"<html>"}, "no list of models"),
    "no UTF-8": ({"body": b'{"data": [{"id": "\xff"}]}'}, "no list of models"),
    "more depth than there is": ({"body": b'{"x": ' + b"[" * 100_000}, "no list of models"),
    "something else": ({"body": b'{"models": []}'}, "no list of models"),
}


@pytest.mark.parametrize(("answer", "words"), NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_no_answer(answer, words):
    with served(**answer) as (port, _), pytest.raises(Unanswered) as raised:
        asked_of({"OPENAI_BASE_URL": f"http://127.0.0.1:{port}"})

    assert str(raised.value) == words


def test_an_answer_without_end(monkeypatch):
    monkeypatch.setattr(offered, "_MOST_BYTES", 16)
    with served() as (port, _), pytest.raises(Unanswered, match="a list of more than"):
        asked_of({"OPENAI_BASE_URL": f"http://127.0.0.1:{port}"})


def test_nobody_there():
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    with pytest.raises(Unanswered, match="Connection refused"):
        asked_of({"OPENAI_BASE_URL": f"http://127.0.0.1:{port}"})


@pytest.mark.parametrize("key", ["sk-a\nb", "sk-a€"])
def test_a_key_that_cannot_be_sent_is_not_shown(key):
    with served() as (port, asked), pytest.raises(Unanswered) as raised:
        asked_of({"OPENAI_BASE_URL": f"http://127.0.0.1:{port}", "OPENAI_API_KEY": key})

    assert "sk-a" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert asked == []


def listed(offers, environ):
    """The names that a gateway of the environment lists."""
    result = Compiler(environ).compile([automatic.resources(environ)], Faults())
    assert result.faults == ()
    (made,) = offers.listed(result).gateways
    return [model.name for model in made.config.models]


def named(*names):
    return tuple(Model(name=name) for name in names)


def test_a_model_is_listed_once_and_under_the_provider_that_gets_its_requests():
    environ = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    answers = {"openai": named("gpt-4o", "claude-x", "claude-y", "gpt-4o"), "anthropic": named("claude-x", "other")}
    offers = Offers(environ, ask=lambda provider, _: answers[provider.name])

    offers.start(again=False)

    assert listed(offers, environ) == ["claude-x", "gpt-4o"]


def test_deployments_of_azure_have_other_names_than_its_list():
    asked = []
    offers = Offers(
        {"AZURE_OPENAI_API_KEY": "k", "AZURE_OPENAI_ENDPOINT": "https://a.example", "OPENAI_API_VERSION": "v"},
        ask=lambda *given: asked.append(given) or (),
    )

    offers.start(again=False)

    assert asked == []


def test_who_is_named_by_nobody():
    with pytest.raises(EnvironmentIncomplete):
        Offers({})


def test_what_a_provider_says_later_is_news_and_what_it_fails_to_say_is_told_once(monkeypatch):
    answers = queue.SimpleQueue()
    done = threading.Semaphore(0)
    go = threading.Semaphore(0)

    def answer(provider, _):
        done.release()
        go.acquire()
        said = answers.get()
        if isinstance(said, str):
            raise Unanswered(said)
        return said

    # The pauses are what the asked one takes.
    monkeypatch.setattr(offered.time, "sleep", lambda _: None)
    monkeypatch.setattr(offered, "_FIRST_WAIT", 0.0)
    environ = {"OPENAI_BASE_URL": "http://user:secret@h:1/v1"}
    offers = Offers(environ, ask=answer)
    offers.start(again=True)

    def says(said):
        answers.put(said)
        done.acquire()
        go.release()
        # Asked again, it is through with this answer.
        done.acquire()
        done.release()
        return offers.changed(), offers.problems(), listed(offers, environ)

    a, ab = named("a"), named("a", "b")
    told = ["http://h:1 does not list its models: status 503; any name is passed on"]
    assert says("status 503") == (False, told, [])
    assert says("status 503") == (False, [], [])
    assert says(a) == (True, [], ["a"])
    assert says(a) == (False, [], ["a"])
    assert says("status 503") == (False, told, ["a"])
    assert says(ab) == (True, [], ["a", "b"])
