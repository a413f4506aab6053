"""Replies read by the providers' own libraries, and told in one way: text, thinking, calls, why it ended, tokens.

No client is made and no network is there: only the types and parsers of the libraries are used.
"""

from __future__ import annotations

import base64
import json
import warnings
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any

from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from botocore.eventstream import EventStream
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.parsers import EventStreamJSONParser, RestJSONParser
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import TypeAdapter

with warnings.catch_warnings():
    # The library still inherits from a class that a dependency of its has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from google.genai.types import GenerateContentResponse

_EVENT = TypeAdapter(RawMessageStreamEvent)


@dataclass(kw_only=True)
class Heard:
    """An answer as a client understands it. ``tokens`` are prompt, what of it was cached, and output."""

    text: str = ""
    thinking: str = ""
    signature: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    stop: str = ""
    tokens: tuple[int, ...] = ()
    written: int = 0


@cache
def bedrock():
    """The model of Bedrock's runtime that comes with botocore."""
    return ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"), "bedrock-runtime")


def hear(schema, reply, *, stream=False):
    """The answer of a reply of this backend schema."""
    return (_STREAMS if stream else _DOCUMENTS)[schema](reply)


def _chat_completion(reply):
    return _of_completion(ChatCompletion.model_validate_json(reply.body))


def _chat_chunks(reply):
    state = ChatCompletionStreamState()
    *chunks, done = [data for _, data in server_sent(reply)]
    assert done == "[DONE]"
    for data in chunks:
        # The chunk with which Azure starts says what it thinks of the prompt, and is not one of a completion.
        if "prompt_filter_results" not in json.loads(data):
            state.handle_chunk(ChatCompletionChunk.model_validate_json(data))
    return _of_completion(state.current_completion_snapshot)


def _of_completion(completion):
    (choice,) = completion.choices
    usage = completion.usage
    return Heard(
        text=choice.message.content,
        calls=[(call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls or ()],
        stop=choice.finish_reason,
        tokens=(usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens, usage.completion_tokens),
    )


def _converse(reply):
    return _of_converse(_parsed(reply, "Converse"))


def _of_converse(parsed):
    usage = parsed["usage"]
    heard = Heard(stop=parsed["stopReason"], tokens=_converse_tokens(usage), written=usage["cacheWriteInputTokens"])
    for block in parsed["output"]["message"]["content"]:
        if "text" in block:
            heard.text += block["text"]
        elif "toolUse" in block:
            heard.calls.append((block["toolUse"]["name"], block["toolUse"]["input"]))
        else:
            heard.thinking += block["reasoningContent"]["reasoningText"]["text"]
            heard.signature += block["reasoningContent"]["reasoningText"]["signature"]
    return heard


def _converse_tokens(usage):
    prompt = usage["inputTokens"] + usage["cacheReadInputTokens"] + usage["cacheWriteInputTokens"]
    assert usage["totalTokens"] == prompt + usage["outputTokens"]
    return prompt, usage["cacheReadInputTokens"], usage["outputTokens"]


def _converse_stream(reply):
    heard, arguments = Heard(), {}
    for event in frames(reply, "ConverseStream"):
        match event:
            case {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": {"name": name}}}}:
                heard.calls.append((name, index))
                arguments[index] = ""
            case {"contentBlockDelta": {"contentBlockIndex": index, "delta": {"toolUse": {"input": part}}}}:
                arguments[index] += part
            case {"contentBlockDelta": {"delta": {"text": part}}}:
                heard.text += part
            case {"contentBlockDelta": {"delta": {"reasoningContent": {"text": part}}}}:
                heard.thinking += part
            case {"contentBlockDelta": {"delta": {"reasoningContent": {"signature": signature}}}}:
                heard.signature += signature
            case {"messageStop": {"stopReason": reason}}:
                heard.stop = reason
            case {"metadata": {"usage": usage}}:
                heard.tokens = _converse_tokens(usage)
                heard.written = usage["cacheWriteInputTokens"]
    heard.calls = [(name, json.loads(arguments[index])) for name, index in heard.calls]
    return heard


def _messages(reply):
    return _of_message(Message.model_validate_json(reply.body))


def _invoke_stream(reply):
    events = frames(reply, "InvokeModelWithResponseStream")
    return _of_events([json.loads(event["chunk"]["bytes"]) for event in events])


def _messages_events(reply):
    named = [(name, json.loads(data)) for name, data in server_sent(reply)]
    assert [name for name, _ in named] == [event["type"] for _, event in named]
    return _of_events([event for _, event in named])


def _of_events(events):
    snapshot, json_bufs = None, {}
    for event in events:
        if event["type"] == "ping":
            # Named in the documentation, left out of the library's types.
            continue
        read = _EVENT.validate_python(event)
        snapshot = accumulate_event(event=read, current_snapshot=snapshot, json_bufs=json_bufs)
    return _of_message(snapshot)


def _of_message(message):
    usage = message.usage
    heard = Heard(
        stop=message.stop_reason,
        written=usage.cache_creation_input_tokens,
        tokens=(
            usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens,
            usage.cache_read_input_tokens,
            usage.output_tokens,
        ),
    )
    for block in message.content:
        if block.type == "text":
            heard.text += block.text
        elif block.type == "tool_use":
            heard.calls.append((block.name, block.input))
        else:
            heard.thinking += block.thinking
            heard.signature += block.signature
    return heard


def _gemini(reply):
    return _of_gemini([GenerateContentResponse.model_validate_json(reply.body)])


def _gemini_events(reply):
    answers = [GenerateContentResponse.model_validate_json(data) for _, data in server_sent(reply)]
    totals = [answer.usage_metadata.total_token_count for answer in answers]
    assert totals == sorted(totals)
    return _of_gemini(answers)


def _of_gemini(answers):
    usage = answers[-1].usage_metadata
    output = usage.candidates_token_count + (usage.thoughts_token_count or 0)
    assert usage.total_token_count == usage.prompt_token_count + output
    heard = Heard(
        stop=answers[-1].candidates[0].finish_reason.value,
        tokens=(usage.prompt_token_count, usage.cached_content_token_count or 0, output),
    )
    for part in (part for answer in answers for part in answer.candidates[0].content.parts):
        if part.function_call is not None:
            heard.calls.append((part.function_call.name, part.function_call.args))
        elif part.thought:
            heard.thinking += part.text
        else:
            heard.text += part.text
        heard.signature += base64.b64encode(part.thought_signature or b"").decode()
    return heard


def server_sent(reply):
    """Name and data of every event of a stream, each of which is a piece."""
    assert reply.header("content-type") == "text/event-stream"
    for piece in reply.pieces:
        lines = dict(line.split(": ", 1) for line in piece.decode().splitlines() if line)
        yield lines.get("event"), lines["data"]


def frames(reply, operation):
    """The events of a binary stream, as botocore gives them to its callers."""
    assert reply.header("content-type") == "application/vnd.amazon.eventstream"
    shape = bedrock().operation_model(operation).get_event_stream_output()
    raw = SimpleNamespace(stream=lambda: iter(reply.pieces))
    return list(EventStream(raw, shape, EventStreamJSONParser(), operation))


def _parsed(reply, operation):
    shape = bedrock().operation_model(operation).output_shape
    response = {"status_code": reply.status, "headers": dict(reply.headers), "body": reply.body, "context": {}}
    return RestJSONParser().parse(response, shape)


_DOCUMENTS = {
    "OpenAI": _chat_completion,
    "AzureOpenAI": _chat_completion,
    "AWSBedrock": _converse,
    "GCPVertexAI": _gemini,
    "GCPAnthropic": _messages,
    "AWSAnthropic": _messages,
    "Anthropic": _messages,
}
_STREAMS = {
    "OpenAI": _chat_chunks,
    "AzureOpenAI": _chat_chunks,
    "AWSBedrock": _converse_stream,
    "GCPVertexAI": _gemini_events,
    "GCPAnthropic": _messages_events,
    "AWSAnthropic": _invoke_stream,
    "Anthropic": _messages_events,
}
