"""Backends that speak another API than the client: how each is configured, and what its provider answers.

One story, told by every provider: an answer that begins with a text, may go on with calls, and reports its usage. So a
test of the exchange is one table over all of them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support import eventstream
from tests.support.playbook import BACKEND, cost

CLAUDE = ("Anthropic", "GCPAnthropic", "AWSAnthropic")
TRANSLATED = ("AWSBedrock", "GCPVertexAI", *CLAUDE)
ALL = ("AzureOpenAI", *TRANSLATED)

SECRET = "canary-of-a-secret"
"""In every credential of these backends."""

_AUTH: dict[str, dict[str, Any]] = {
    "AzureOpenAI": {"azureAPIKey": {"key": f"azure-{SECRET}"}},
    "AWSBedrock": {},
    "AWSAnthropic": {},
    "GCPVertexAI": {"gcp": {"accessToken": f"gcp-{SECRET}", "region": "r", "projectName": "p"}},
    "GCPAnthropic": {"gcp": {"accessToken": f"gcp-{SECRET}", "region": "r", "projectName": "p"}},
    "Anthropic": {"anthropicAPIKey": {"key": f"anthropic-{SECRET}"}},
}
_AWS = {
    "aws": {
        "credentialFileLiteral": f"[default]\naws_access_key_id=AKIA{SECRET}\naws_secret_access_key=aws-{SECRET}\n",
        "region": "us-east-1",
    }
}
_VERSIONS = {"AzureOpenAI": "2025-01-01-preview"}

COSTS = [
    cost("in", "InputToken"),
    cost("out", "OutputToken"),
    cost("total", "TotalToken"),
    cost("cached", "CachedInputToken"),
    cost("creation", "CacheCreationInputToken"),
    cost("reasoning", "ReasoningToken"),
    cost(
        "bill",
        "CEL",
        cel="(input_tokens - cached_input_tokens - cache_creation_input_tokens) + cached_input_tokens * 1000u"
        " + cache_creation_input_tokens * 1000000u + output_tokens * 1000000000u",
    ),
]


def backend(schema: str, name: str = BACKEND, *, override: str = "", signs: bool = True) -> dict[str, Any]:
    """A backend of the filter config; without ``signs``, one of AWS has no credential."""
    auth = _AWS if signs and schema.startswith("AWS") else _AUTH[schema]
    return {
        "name": name,
        "schema": {"name": schema, "version": _VERSIONS.get(schema, "")},
        "modelNameOverride": override,
        **({"auth": auth} if auth else {}),
    }


def config(*backends: Mapping[str, Any]) -> dict[str, Any]:
    return {"version": "dev", "backends": list(backends), "llmRequestCosts": COSTS}


# --- what a provider answers ---


@dataclass(frozen=True, kw_only=True)
class Counts:
    """A report; ``fresh`` input was neither read from the cache nor written to it."""

    fresh: int = 7
    read: int = 3
    written: int = 2
    output: int = 5
    reasoning: int = 0

    def costs(self, schema: str) -> dict[str, int]:
        """What access logs and rate limits are to see of it, beside the bill."""
        written = 0 if schema in {"GCPVertexAI", "AzureOpenAI"} else self.written
        reasoning = 0 if schema == "AWSBedrock" else self.reasoning
        spent = self.fresh + self.read + written
        return {
            "in": spent,
            "out": self.output,
            "total": spent + self.output,
            "cached": self.read,
            "creation": written,
            "reasoning": reasoning,
            "bill": self.fresh + self.read * 1000 + written * 10**6 + self.output * 10**9,
        }

    def usage(self, schema: str) -> dict[str, Any]:
        """The ``usage`` that a client reads, without details of nothing."""
        costs = self.costs(schema)
        prompt = {"cached_tokens": costs["cached"], "cache_creation_input_tokens": costs["creation"]}
        return {
            "prompt_tokens": costs["in"],
            "completion_tokens": costs["out"],
            "total_tokens": costs["total"],
            "prompt_tokens_details": {name: count for name, count in prompt.items() if count},
            "completion_tokens_details": {"reasoning_tokens": costs["reasoning"]} if costs["reasoning"] else {},
        }

    def report(self, schema: str) -> dict[str, Any]:
        """As the provider says it."""
        match schema:
            case "AWSBedrock":
                return {
                    "inputTokens": self.fresh,
                    "outputTokens": self.output,
                    "totalTokens": self.fresh + self.read + self.written + self.output,
                    "cacheReadInputTokens": self.read,
                    "cacheWriteInputTokens": self.written,
                }
            case "GCPVertexAI":
                return {
                    "promptTokenCount": self.fresh + self.read,
                    "candidatesTokenCount": self.output - self.reasoning,
                    "thoughtsTokenCount": self.reasoning,
                    "cachedContentTokenCount": self.read,
                    "totalTokenCount": self.fresh + self.read + self.output,
                }
            case "AzureOpenAI":
                return {
                    "prompt_tokens": self.fresh + self.read,
                    "completion_tokens": self.output,
                    "total_tokens": self.fresh + self.read + self.output,
                    "prompt_tokens_details": {"cached_tokens": self.read},
                    "completion_tokens_details": {"reasoning_tokens": self.reasoning},
                }
        return {
            "input_tokens": self.fresh,
            "output_tokens": self.output,
            "cache_read_input_tokens": self.read,
            "cache_creation_input_tokens": self.written,
            "output_tokens_details": {"thinking_tokens": self.reasoning},
        }


COUNTS = Counts()
STOPS = {"AWSBedrock": "end_turn", "GCPVertexAI": "STOP", "AzureOpenAI": "stop"}
CALLS = {"AWSBedrock": "tool_use", "GCPVertexAI": "STOP", "AzureOpenAI": "tool_calls"}
LENGTHS = {"GCPVertexAI": "MAX_TOKENS", "AzureOpenAI": "length"}

Call = tuple[str, dict[str, Any]]


def stop_of(schema: str, *, calls: bool) -> str:
    return CALLS.get(schema, "tool_use") if calls else STOPS.get(schema, "end_turn")


def document(
    schema: str, text: str = "Hello", calls: Sequence[Call] = (), *, usage: Any = COUNTS, stop: str | None = None
) -> bytes:
    """A whole answer; ``usage`` may be the provider's object itself, right or wrong."""
    reported = usage.report(schema) if isinstance(usage, Counts) else usage
    stop = stop or stop_of(schema, calls=bool(calls))
    answer: dict[str, Any]
    match schema:
        case "AWSBedrock":
            blocks: list[dict[str, Any]] = [{"text": text}]
            blocks += [{"toolUse": {"toolUseId": f"t{i}", "name": n, "input": a}} for i, (n, a) in enumerate(calls)]
            message = {"role": "assistant", "content": blocks}
            answer = {"output": {"message": message}, "stopReason": stop, "usage": reported}
        case "GCPVertexAI":
            parts: list[dict[str, Any]] = [{"text": text}]
            parts += [{"functionCall": {"name": n, "args": a}} for n, a in calls]
            candidate = {"content": {"role": "model", "parts": parts}, "finishReason": stop}
            answer = {"candidates": [candidate], "usageMetadata": reported, "modelVersion": "said"}
        case "AzureOpenAI":
            answer = {"model": "said", "choices": [{"index": 0, "message": {"content": text}}], "usage": reported}
        case _:
            uses = [{"type": "tool_use", "id": f"t{i}", "name": n, "input": a} for i, (n, a) in enumerate(calls)]
            answer = {
                "id": "msg",
                "type": "message",
                "role": "assistant",
                "model": "said",
                "content": [{"type": "text", "text": text}, *uses],
                "stop_reason": stop,
                "usage": reported,
            }
    return json.dumps(answer).encode()


def events(
    schema: str, text: str = "Hello", calls: Sequence[Call] = (), *, usage: Any = COUNTS, stop: str | None = None
) -> list[bytes]:
    """The messages of a streamed answer, in order; the last one or two report the usage and the end."""
    reported = usage.report(schema) if isinstance(usage, Counts) else usage
    stop = stop or stop_of(schema, calls=bool(calls))
    tell = {"AWSBedrock": _converse, "GCPVertexAI": _gemini, "AzureOpenAI": _openai}.get(schema, _claude)
    return [framed(schema, message) for message in tell(text, calls, reported, stop)]


def framed(schema: str, message: Any) -> bytes:
    """A message as it travels: the JSON alone, or for Converse the type of the event before it."""
    match schema:
        case "AWSBedrock":
            kind, payload = message
            return eventstream.event(kind, payload)
        case "AWSAnthropic":
            return eventstream.event("chunk", {"bytes": base64.b64encode(json.dumps(message).encode()).decode()})
        case "Anthropic" | "GCPAnthropic":
            return f"event: {message['type']}\ndata: {json.dumps(message)}\n\n".encode()
    return b"data: " + (message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n\n"


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _converse(text: str, calls: Sequence[Call], usage: Any, stop: str) -> Iterator[tuple[str, Any]]:
    yield "messageStart", {"role": "assistant"}
    for half in _halves(text):
        yield "contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": half}}
    yield "contentBlockStop", {"contentBlockIndex": 0}
    for number, (name, arguments) in enumerate(calls):
        index = number + 1
        use = {"toolUseId": f"t{number}", "name": name}
        yield "contentBlockStart", {"contentBlockIndex": index, "start": {"toolUse": use}}
        for half in _halves(json.dumps(arguments)):
            yield "contentBlockDelta", {"contentBlockIndex": index, "delta": {"toolUse": {"input": half}}}
        yield "contentBlockStop", {"contentBlockIndex": index}
    yield "messageStop", {"stopReason": stop}
    yield "metadata", {"usage": usage, "metrics": {"latencyMs": 1}}


def _claude(text: str, calls: Sequence[Call], usage: Any, stop: str) -> Iterator[dict[str, Any]]:
    first = {**usage, "output_tokens": 1} if isinstance(usage, dict) else usage
    yield {"type": "message_start", "message": {"id": "msg", "role": "assistant", "model": "said", "usage": first}}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for half in _halves(text):
        yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": half}}
    yield {"type": "content_block_stop", "index": 0}
    for number, (name, arguments) in enumerate(calls):
        index, use = number + 1, {"type": "tool_use", "id": f"t{number}", "name": name, "input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": use}
        for half in _halves(json.dumps(arguments)):
            delta = {"type": "input_json_delta", "partial_json": half}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


def _gemini(text: str, calls: Sequence[Call], usage: Any, stop: str) -> Iterator[dict[str, Any]]:
    for half in _halves(text):
        yield {"candidates": [{"content": {"role": "model", "parts": [{"text": half}]}}]}
    for name, arguments in calls:
        part = {"functionCall": {"name": name, "args": arguments}}
        yield {"candidates": [{"content": {"role": "model", "parts": [part]}}]}
    yield {"candidates": [{"content": {"parts": [{"text": ""}]}, "finishReason": stop}], "usageMetadata": usage}


def _openai(text: str, calls: Sequence[Call], usage: Any, stop: str) -> Iterator[Any]:
    assert not calls, "calls pass as they are"
    for half in _halves(text):
        yield {"id": "c", "model": "said", "choices": [{"index": 0, "delta": {"content": half}}]}
    yield {"id": "c", "model": "said", "choices": [{"index": 0, "delta": {}, "finish_reason": stop}]}
    yield {"id": "c", "model": "said", "choices": [], "usage": usage}
    yield b"[DONE]"


def streams_as(schema: str) -> dict[str, str]:
    """The headers of a streamed answer."""
    return {
        "content-type": "application/vnd.amazon.eventstream" if schema.startswith("AWS") else "text/event-stream",
        "x-amzn-requestid": "rid",
    }


def overload(schema: str, message: str = "slow down") -> bytes:
    """What breaks a stream off when the provider is overloaded."""
    match schema:
        case "AWSBedrock" | "AWSAnthropic":
            return eventstream.exception("throttlingException", {"message": message})
        case "GCPVertexAI":
            return framed(schema, {"error": {"code": 429, "status": "throttlingException", "message": message}})
    return framed(schema, {"type": "error", "error": {"type": "throttlingException", "message": message}})


# --- what the client reads ---


@dataclass(frozen=True)
class Read:
    """A stream as a client gathers it.

    Attributes:
        done: it ends as a whole one does.
        error: what it ends with otherwise.
    """

    chunks: list[dict[str, Any]]
    done: bool
    error: dict[str, Any] | None

    @classmethod
    def of(cls, output: bytes) -> Read:
        *blocks, rest = output.split(b"\n\n")
        assert rest == b"", "the last event has no end"
        assert all(block.startswith(b"data: ") for block in blocks), output
        data = [block.removeprefix(b"data: ") for block in blocks]
        done = bool(data) and data[-1] == b"[DONE]"
        chunks = [json.loads(each) for each in (data[:-1] if done else data)]
        error = chunks.pop()["error"] if chunks and "error" in chunks[-1] else None
        assert not (done and error), "an error, and yet whole"
        return cls(chunks, done, error)

    @property
    def choices(self) -> list[dict[str, Any]]:
        return [choice for chunk in self.chunks for choice in chunk["choices"]]

    def joined(self, member: str = "content") -> str:
        return "".join(choice["delta"].get(member, "") for choice in self.choices)

    @property
    def finish_reasons(self) -> list[str]:
        return [choice["finish_reason"] for choice in self.choices if "finish_reason" in choice]

    @property
    def usages(self) -> list[dict[str, Any]]:
        return [chunk["usage"] for chunk in self.chunks if "usage" in chunk]

    @property
    def thinking_blocks(self) -> list[dict[str, Any]]:
        return [block for choice in self.choices for block in choice["delta"].get("thinking_blocks", ())]

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        """Id, name and arguments of each call, gathered by index."""
        found: list[list[str]] = []
        for choice in self.choices:
            for piece in choice["delta"].get("tool_calls", ()):
                function = piece["function"]
                if "id" in piece:
                    assert piece["index"] == len(found), "indexes are not dense"
                    found.append([piece["id"], function["name"], function["arguments"]])
                else:
                    assert "name" not in function
                    found[piece["index"]][2] += function["arguments"]
        return [(each[0], each[1], each[2]) for each in found]
