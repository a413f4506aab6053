"""Debug lines show the exchange and none of its secrets."""

import structlog
from structlog.testing import capture_logs

from tests.support.playbook import BACKEND, ROUTE, Gateway, openai_backend

SECRET = "sk-planted-canary"
CONFIG = {
    "version": "dev",
    "backends": [
        openai_backend(
            auth={
                "apiKey": {"key": SECRET},
                "credentialOverride": {"headerName": "x-mine", "fallbackToConfigured": True},
            },
            httpHeaderMutation={"set": [{"name": "x-configured", "value": SECRET}]},
        )
    ],
}


def lines(**options: bool) -> list[structlog.typing.EventDict]:
    with capture_logs() as captured:
        exchange = Gateway(CONFIG, debug=True, **options).exchange()
        exchange.request(
            b'{"model":"m","messages":"prompt-text"}',
            {
                ":path": f"/v1/chat/completions?key={SECRET}",
                "authorization": f"Bearer {SECRET}",
                "x-mine": SECRET,
                "x-plain": "shown",
            },
        )
        exchange.attempt()
        exchange.response({"content-type": "application/json", "set-cookie": SECRET})
        exchange.piece(b'{"answer":"answer-text"}', eos=True)
    return captured


def test_headers_are_redacted_and_the_rest_is_shown():
    text = str(lines(redact=False))
    assert SECRET not in text
    assert "[REDACTED]" in text
    assert "shown" in text
    assert "prompt-text" in text
    assert "answer-text" in text


def test_a_path_that_is_not_served_is_shown_without_its_query():
    with capture_logs() as captured:
        exchange = Gateway(CONFIG, debug=True, redact=False).exchange()
        exchange.headers({":path": f"/v1/nowhere?key={SECRET}"})
    assert "unsupported path: /v1/nowhere?key=[REDACTED]" in str(captured)
    assert SECRET not in str(captured)


def test_a_key_that_a_backend_quotes_is_not_shown():
    with capture_logs() as captured:
        exchange = Gateway(CONFIG, debug=True, redact=False).exchange()
        exchange.request(b'{"model":"m","messages":[]}')
        exchange.attempt()
        exchange.response(status="401")
        exchange.piece(f'{{"error":{{"message":"no such key: {SECRET}"}}}}'.encode(), eos=True)
    assert "no such key: [REDACTED]" in str(captured)
    assert SECRET not in str(captured)


def test_bodies_can_be_redacted():
    text = str(lines(redact=True))
    assert "prompt-text" not in text
    assert "answer-text" not in text
    assert "[REDACTED LENGTH=" in text


def test_every_message_and_its_answer_have_a_line():
    captured = lines(redact=True)
    received = [line["kind"] for line in captured if line["event"] == "message received"]
    assert received == ["request_headers", "request_body", "request_headers", "response_headers", "response_body"]
    assert sum(line["event"] == "message answered" for line in captured) == len(received)
    assert {line["request_id"] for line in captured if line["event"] == "message answered"} == {"req-1"}


def test_nothing_is_written_without_debug():
    with capture_logs() as captured:
        exchange = Gateway(CONFIG).exchange()
        exchange.request(b'{"model":"m"}')
        exchange.attempt()
    assert captured == []


def test_a_refused_message_has_its_lines_too():
    with capture_logs() as captured:
        exchange = Gateway(CONFIG, debug=True, redact=False).exchange()
        exchange.request(b'{"model": 1}')
    answered = [line for line in captured if line["event"] == "message answered"]
    assert [line["reply"] for line in answered] == ["request_headers", "immediate_response"]
    assert answered[-1]["status"] == 400
    assert "BadRequest" in answered[-1]["body"]


def test_a_redacted_body_keeps_its_shape():
    bodies = [line["body"] for line in lines(redact=True) if "body" in line]
    assert '"model":"m"' in bodies[0]
    assert "REDACTED LENGTH=11" in bodies[0]
    assert bodies[-1].startswith('{"answer":"[REDACTED')


def test_a_fault_in_a_debug_line_costs_nobody_an_answer(monkeypatch):
    def fails(*_, **__):
        raise ValueError("broken")

    monkeypatch.setattr("extproc.exchange.stream.debug.request_fields", fails)
    with capture_logs() as captured:
        exchange = Gateway(CONFIG, debug=True).exchange()
        assert exchange.request(b'{"model":"m"}').kind == "request_body"
    assert {line["event"] for line in captured} == {"fault while preparing a debug line"}


def test_a_refusal_is_one_line_that_says_whose_it_is():
    with capture_logs() as captured:
        Gateway().exchange().headers()
        exchange = Gateway(CONFIG).exchange()
        exchange.request(b"[]")
        needs_key = openai_backend(auth={"apiKey": {"key": ""}, "credentialOverride": {"headerName": "x-mine"}})
        exchange = Gateway({"version": "dev", "backends": [needs_key]}).exchange()
        exchange.request(b'{"model":"m"}')
        exchange.attempt()
    assert [(line["event"], line["status"], line["request_id"]) for line in captured] == [
        ("request refused", 503, "req-1"),
        ("request refused", 400, "req-1"),
        ("request refused", 401, "req-1"),
    ]
    assert (captured[-1]["model"], captured[-1]["backend"], captured[-1]["route"]) == ("m", BACKEND, ROUTE)
