"""What a provider refuses, breaks off or garbles: the SDK raises as it does for OpenAI, and sees no cut answer."""

from __future__ import annotations

import json

import httpx
import openai
import pytest

from deploy.demo.providers.eventstream import CONTENT_TYPE
from tests.dataplane.harness.client import new_id
from tests.dataplane.harness.documents import cost
from tests.dataplane.harness.providers import (
    BY_SCHEMA,
    ERROR_OF_CLAUDE,
    ERRORS_IN_STREAMS,
    TRANSLATED,
    error_of,
    framed,
    one_rule_each,
    start_all,
)
from tests.dataplane.harness.replies import Abort, Reply, body_reply

QUESTION = {"role": "user", "content": "What is the weather in Paris?"}
EVERYWHERE = pytest.mark.parametrize("schema", BY_SCHEMA)
WHERE_TRANSLATED = pytest.mark.parametrize("schema", TRANSLATED)
BOTH_WAYS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
RAISED = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    429: openai.RateLimitError,
    500: openai.InternalServerError,
    503: openai.InternalServerError,
}


@pytest.fixture(scope="module")
def upstreams(start_upstream):
    return start_all(start_upstream)


@pytest.fixture(scope="module")
def stack(start_stack, upstreams):
    where, config = one_rule_each(upstreams, globalLLMRequestCosts=[cost("total")])
    return start_stack(routes=[where], config=config, cost_keys=["total"])


@pytest.fixture(scope="module")
def client(stack):
    with openai.OpenAI(base_url=f"{stack.base_url}/v1", api_key="sk-of-the-client", max_retries=0, timeout=30) as made:
        yield made


def answer_of(upstream, schema, client):
    """The pieces of a whole stream, taken from the provider itself."""
    list(client.chat.completions.create(model=schema, messages=[QUESTION], stream=True))
    received = upstream.last
    return BY_SCHEMA[schema].provider.answer(received.method, received.target, received.headers, received.body)


def broken(client, schema, wanted=openai.APIError):
    """The text that came before the stream raised."""
    text = ""
    with pytest.raises(wanted) as raised:  # noqa: PT012 - what comes before the error counts, too
        for chunk in client.chat.completions.create(model=schema, messages=[QUESTION], stream=True):
            text += "".join(choice.delta.content or "" for choice in chunk.choices)
            assert not [choice for choice in chunk.choices if choice.finish_reason]
    return text, raised.value


@EVERYWHERE
@BOTH_WAYS
@pytest.mark.parametrize("status", RAISED)
def test_an_error_of_the_provider(client, upstreams, schema, stream, status):
    upstreams[schema].reply(error_of(schema, status, 'it said "no"\n'))

    with pytest.raises(RAISED[status]) as raised:
        client.chat.completions.create(model=schema, messages=[QUESTION], stream=stream)

    assert raised.value.status_code == status
    assert 'it said "no"\n' in raised.value.body["message"]
    assert raised.value.response.headers["content-type"] == "application/json"


@EVERYWHERE
@BOTH_WAYS
def test_what_the_provider_refuses_itself(client, schema, stream):
    """A call without its result: all have this rule, and each says it in its own words."""
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    messages = [QUESTION, {"role": "assistant", "content": None, "tool_calls": [call]}, QUESTION]

    with pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(model=schema, messages=messages, tools=tools, stream=stream)

    assert "call" in raised.value.body["message"]


INTERMEDIARIES = {
    "HTML": body_reply(b"<html>busy</html>", status=503, content_type="text/html"),
    "nothing": body_reply(b"", status=503),
    "half a document": body_reply(b"[1", status=503),
    "text": body_reply(b"no", status=503, content_type="text/plain"),
}


@EVERYWHERE
@BOTH_WAYS
@pytest.mark.parametrize("reply", INTERMEDIARIES.values(), ids=INTERMEDIARIES)
def test_an_error_of_something_before_the_provider(client, upstreams, schema, stream, reply):
    upstreams[schema].reply(reply)

    with pytest.raises(openai.InternalServerError) as raised:
        client.chat.completions.create(model=schema, messages=[QUESTION], stream=stream)

    assert raised.value.status_code == 503


NO_ANSWERS = {"half of one": b"{", "HTML": b"<html>", "null": b"null", "a list": b"[]", "an empty one": b"{}"}


@WHERE_TRANSLATED
@pytest.mark.parametrize("body", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_a_document_that_is_no_answer(client, upstreams, schema, body):
    upstreams[schema].reply(body_reply(body))

    with pytest.raises(openai.InternalServerError) as raised:
        client.chat.completions.create(model=schema, messages=[QUESTION])

    assert raised.value.status_code == 502
    assert json.loads(raised.value.response.content)["error"]["message"]


@WHERE_TRANSLATED
@BOTH_WAYS
def test_no_answer_at_all(client, upstreams, schema, stream):
    upstreams[schema].reply(body_reply(b""))

    with pytest.raises(openai.APIError):
        list(client.chat.completions.create(model=schema, messages=[QUESTION], stream=stream) or ())


@EVERYWHERE
def test_an_error_in_the_middle_of_a_stream(client, stack, upstreams, schema):
    whole = answer_of(upstreams[schema], schema, client)
    upstreams[schema].reply(framed(whole, ERRORS_IN_STREAMS[schema], upto=-4))

    text, error = broken(client, schema)

    assert text
    assert "You said: What is the weather in Paris?".startswith(text)
    assert "the model is busy" in str(error)


def test_an_error_of_claude_in_a_stream_of_amazon(client, upstreams):
    whole = answer_of(upstreams["AWSAnthropic"], "AWSAnthropic", client)
    upstreams["AWSAnthropic"].reply(framed(whole, ERROR_OF_CLAUDE, upto=6))

    text, error = broken(client, "AWSAnthropic")

    assert text.startswith("You said:")
    assert "the model is busy" in str(error)


@WHERE_TRANSLATED
def test_an_error_instead_of_a_stream(client, upstreams, schema):
    """The status is 200, and the first thing in the stream is the error."""
    whole = answer_of(upstreams[schema], schema, client)
    upstreams[schema].reply(framed(whole, ERRORS_IN_STREAMS[schema], upto=0))

    text, error = broken(client, schema)

    assert text == ""
    assert "the model is busy" in str(error)


@WHERE_TRANSLATED
@pytest.mark.parametrize("upto", [0, 1, 5, -1])
def test_a_stream_that_stops_before_its_end(client, upstreams, schema, upto):
    whole = answer_of(upstreams[schema], schema, client)
    # ConverseStream has said everything but the usage by its last event.
    upto = -2 if (schema, upto) == ("AWSBedrock", -1) else upto
    upstreams[schema].reply(framed(whole, upto=upto))

    text, _ = broken(client, schema) if upto >= 0 else broken_after_all(client, schema)

    assert "You said: What is the weather in Paris?".startswith(text)


def broken_after_all(client, schema):
    """As ``broken``, where the reason may have come, but not the end."""
    text = ""
    with pytest.raises(openai.APIError) as raised:  # noqa: PT012 - as above
        for chunk in client.chat.completions.create(model=schema, messages=[QUESTION], stream=True):
            text += "".join(choice.delta.content or "" for choice in chunk.choices)
    return text, raised.value


@WHERE_TRANSLATED
def test_a_connection_that_breaks(client, upstreams, schema):
    whole = answer_of(upstreams[schema], schema, client)
    upstreams[schema].reply(framed(whole, Abort(), upto=5))

    broken(client, schema, (openai.APIError, httpx.TransportError))


@pytest.mark.parametrize("schema", ["AWSBedrock", "AWSAnthropic"])
def test_a_frame_with_a_wrong_checksum(client, upstreams, schema):
    whole = answer_of(upstreams[schema], schema, client)
    garbled = bytearray(whole.pieces[4])
    garbled[-6] ^= 1
    upstreams[schema].reply(
        Reply(
            headers=(("content-type", CONTENT_TYPE),),
            pieces=(*whole.pieces[:4], bytes(garbled), *whole.pieces[5:]),
            framing="chunked",
        )
    )

    broken(client, schema)


@WHERE_TRANSLATED
def test_a_failed_stream_is_charged_for_what_was_reported(client, stack, upstreams, schema):
    whole = answer_of(upstreams[schema], schema, client)
    upstreams[schema].reply(framed(whole, ERRORS_IN_STREAMS[schema], upto=-1))
    request_id = new_id()

    with pytest.raises(openai.APIError):
        list(
            client.chat.completions.create(
                model=schema, messages=[QUESTION], stream=True, extra_headers={"x-request-id": request_id}
            )
        )

    entry = stack.access_log.wait_for(request_id)
    assert entry["status"] == 200
    # ConverseStream tells its usage last of all, and nobody can know it before.
    assert (entry["costs"]["total"] or 0) == (0 if schema == "AWSBedrock" else 14)


@WHERE_TRANSLATED
@pytest.mark.parametrize("size", [1, 7, 64])
def test_a_stream_in_other_pieces(client, upstreams, schema, size):
    whole = answer_of(upstreams[schema], schema, client)
    body = whole.body
    pieces = tuple(body[start : start + size] for start in range(0, len(body), size))
    upstreams[schema].reply(Reply(headers=whole.headers, pieces=pieces, framing="chunked"))

    chunks = client.chat.completions.create(model=schema, messages=[QUESTION], stream=True)

    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == "You said: What is the weather in Paris?"
