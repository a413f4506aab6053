"""The official SDKs on both sides: what our stand-ins answer is real, and what we make of it can be read."""

import json

import anthropic
import httpx
import httpx2
import openai
import pytest
from anthropic.lib.bedrock._stream_decoder import AWSEventStreamDecoder
from anthropic.types import Message, RawMessageStreamEvent
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import TypeAdapter

from tests.support.golden import cases, read_reply
from tests.unit.translate.chat.anthropic.attempts import (
    CONVERSATION,
    SCHEMAS,
    chunks,
    frames,
    read,
    sse,
    start,
    text_block,
    wire,
)

PLAIN_TEXT = "Hello wörld \n"


def as_anthropic_reads(stream):
    """The message that Anthropic's own SDK gathers from a stream."""

    def answer(request):
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    http_client = httpx2.Client(transport=httpx2.MockTransport(answer))
    client = anthropic.Anthropic(api_key="none", http_client=http_client, max_retries=0)
    question = [{"role": "user", "content": "q"}]
    with client.messages.stream(model="claude-x", max_tokens=10, messages=question) as events:
        return events.get_final_message()


def as_openai_reads(text):
    """The completion that OpenAI's own SDK gathers from a stream."""

    def answer(request):
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=text.encode())

    client = openai.OpenAI(
        api_key="none", http_client=httpx.Client(transport=httpx.MockTransport(answer)), max_retries=0
    )
    state = ChatCompletionStreamState()
    question = [{"role": "user", "content": "q"}]
    for chunk in client.chat.completions.create(model="claude-x", messages=question, stream=True):
        state.handle_chunk(chunk)
    return state.get_final_completion()


def test_both_sdks_gather_the_same_answer():
    said = as_anthropic_reads(sse(CONVERSATION))
    heard = as_openai_reads(read("Anthropic", sse(CONVERSATION))[0])
    message = heard.choices[0].message
    assert message.content == "".join(block.text for block in said.content if block.type == "text") == PLAIN_TEXT
    calls = [(call.id, call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls]
    assert calls == [(block.id, block.name, block.input) for block in said.content if block.type == "tool_use"]
    thoughts = [block.model_dump() for block in said.content if "thinking" in block.type]
    assert message.model_extra["thinking_blocks"] == thoughts
    assert message.model_extra["reasoning_content"] == thoughts[0]["thinking"]
    assert heard.choices[0].finish_reason == "tool_calls"
    assert heard.usage.completion_tokens == said.usage.output_tokens
    assert heard.usage.prompt_tokens == said.usage.input_tokens + said.usage.cache_read_input_tokens
    assert heard.usage.completion_tokens_details.reasoning_tokens == said.usage.output_tokens_details.thinking_tokens


def test_openai_s_sdk_raises_what_broke_the_stream():
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(openai.APIError, match="Overloaded"):
        as_openai_reads(read("GCPAnthropic", sse([start(), *text_block(0, "Hi"), error]))[0])


def test_frames_of_bedrock_are_read_by_its_own_decoder():
    told = [json.loads(event.data) for event in AWSEventStreamDecoder().iter_bytes(iter([frames(CONVERSATION)]))]
    assert told == CONVERSATION


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_chunk_is_one_of_the_api(schema):
    text, _, _ = read(schema, wire(schema, CONVERSATION))
    for chunk in chunks(text):
        ChatCompletionChunk.model_validate(chunk, strict=True)


# --- golden files ---

STREAM_EVENT = TypeAdapter(RawMessageStreamEvent)
NOT_REAL = ("answer-that-is-none", "stream-garbage", "stream-broken-checksum", "stream-exception")
# Of what is not in the types yet, which is what these are about.
NEWER = ("finish-unknown", "finish-unknown-stream")
GOLDEN = [
    pytest.param(case, id=f"{folder}: {case.name}")
    for folder in ("anthropic", "gcp-anthropic", "aws-anthropic")
    for case in cases(f"chat/{folder}")
    if case.name not in NOT_REAL + NEWER and (reply := read_reply(case)) is not None and reply.status == "200"
]


def _events(reply):
    if "eventstream" in reply.headers["content-type"]:
        return [json.loads(each.data) for each in AWSEventStreamDecoder().iter_bytes(iter([reply.body]))]
    return [json.loads(line.removeprefix("data: ")) for line in reply.body.decode().splitlines() if line[:5] == "data:"]


@pytest.mark.parametrize("case", GOLDEN)
def test_the_answers_of_golden_files_are_real(case):
    reply = read_reply(case)
    if reply.headers["content-type"] == "application/json":
        Message.model_validate_json(reply.body, strict=True)
        return
    for event in _events(reply):
        if event["type"] not in {"ping", "error"}:
            STREAM_EVENT.validate_python(event)


@pytest.mark.parametrize("case", GOLDEN)
def test_openai_s_types_read_what_golden_files_say(case):
    head, _, body = (case / "reply.txt").read_text(encoding="utf-8").partition("\n\n")
    body = body[: body.rindex("\n-- usage")]
    if "text/event-stream" not in head:
        ChatCompletion.model_validate_json(body, strict=True)
        return
    for chunk in chunks(body.rstrip("\n") + "\n\n"):
        if chunk.get("type") != "error":
            ChatCompletionChunk.model_validate(chunk, strict=True)
