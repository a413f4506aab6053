"""Debug lines show the exchange and none of its secrets."""

import structlog
from structlog.testing import capture_logs

from tests.support.playbook import Gateway, openai_backend

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
