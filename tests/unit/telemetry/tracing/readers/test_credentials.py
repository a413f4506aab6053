"""Credentials in bodies are in no view."""

import json

import pytest

from extproc.telemetry.tracing.base import TracedRequest
from extproc.telemetry.tracing.readers.table import READERS

CANARY = "tok-canary-of-a-client"

BODIES = {
    "a tool's authorization": ("responses", {"tools": [{"type": "mcp", "authorization": CANARY, "server_label": "s"}]}),
    "a tool's headers": ("responses", {"tools": [{"type": "mcp", "headers": {"x-key": CANARY}, "server_label": "s"}]}),
    "headers that are no object": ("responses", {"tools": [{"type": "mcp", "headers": [CANARY]}]}),
    "a server's token": ("messages", {"mcp_servers": [{"name": "s", "authorization_token": CANARY}]}),
    "of a request that only counts": ("count_tokens", {"mcp_servers": [{"name": "s", "authorization_token": CANARY}]}),
    "also where chat has no such tool": ("chat", {"tools": [{"type": "mcp", "authorization": CANARY}]}),
    "among other tools": (
        "responses",
        {"tools": [{"type": "function", "name": "f"}, 1, {"type": "mcp", "authorization": CANARY}]},
    ),
}


def view_of(operation: str, body: bytes):
    request = TracedRequest(
        operation=operation, model="m", stream=False, body=body, content_type="application/json", headers={}
    )
    return READERS[operation].request(request)


@pytest.mark.parametrize("case", BODIES)
def test_nothing_of_a_credential_is_left(case):
    operation, members = BODIES[case]
    body = {"model": "m", "input": "hallo", "messages": [], **members}
    view = view_of(operation, json.dumps(body).encode())
    assert CANARY not in repr(view)
    assert "[REDACTED]" in view.text
    # All else is still there.
    assert json.loads(view.text).keys() == body.keys()


def test_escaped_names_do_not_hide_one():
    body = b'{"model": "m", "tools": [{"type": "mcp", "\\u0061uthorization": "%s"}]}' % CANARY.encode()
    assert CANARY not in repr(view_of("responses", body))


def test_a_body_without_one_stays_as_it_is_spelled():
    body = b'{"model" : "m",  "tools": [{"type": "function", "name": "f", "parameters": {"headers": {}}}], "seed": 1.0}'
    assert view_of("responses", body).text == body.decode()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_an_answer_that_repeats_the_tools_has_none(stream):
    answer = {"id": "r", "object": "response", "model": "m", "output": [], **BODIES["a tool's authorization"][1]}
    data = json.dumps(answer).encode()
    if stream:
        data = b"data: " + json.dumps({"type": "response.completed", "response": answer}).encode() + b"\n\n"
    request = TracedRequest(
        operation="responses", model="m", stream=stream, body=b"{}", content_type="application/json", headers={}
    )
    reader = READERS["responses"].answer(request, stream=stream)
    reader.feed(data)
    view = reader.close()
    assert view.id == "r"
    assert CANARY not in repr(view)
