"""What the synchronous core costs by itself, for pairs of a client's API and a backend's: no transport, no socket.

Messages are made once and fed again and again, which the core cannot tell from fresh ones. A first request of each kind
is looked at before anything is timed: a figure of an error would be worth nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from extproc.endpoints.base import Operation
from extproc.exchange import names
from extproc.exchange.replies import Reply
from extproc.exchange.stream import Processor
from extproc.runtime import build_runtime
from extproc.telemetry.metrics import Metrics
from extproc.translate.table import TRANSLATORS
from filter_config.load import decode
from protos.ext_proc_pb2 import ProcessingResponse
from tests.bench.answers import ANSWERS, Answer
from tests.bench.loads import LoadFailed, chat_body
from tests.bench.results import RowState, Sample
from tests.support.playbook import (
    BACKEND,
    DEFAULT_HEADERS,
    ROUTE,
    request_body,
    request_headers,
    response_body,
    response_headers,
)

COLUMN = "translators"
_SIZE = 2000
_ID = "bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The messages of one request, encoded: those of the router-level stream around the one of the attempt."""

    before: Sequence[bytes]
    attempt: bytes
    after: Sequence[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A client's API on a backend.

    Attributes:
        schema: of the backend, as the filter config has it; its name is the key of its answers.
        body: the client's request of some 2 KB, plain or for a stream.
    """

    operation: Operation
    path: str
    schema: Mapping[str, object]
    body: Callable[[bool], bytes]


def _chat_request(stream: bool) -> bytes:  # noqa: FBT001 - the only question
    body = chat_body(_SIZE)
    asked = b'{"stream":true,"stream_options":{"include_usage":true},"model"'
    return body.replace(b'{"model"', asked, 1) if stream else body


def _messages_request(stream: bool) -> bytes:  # noqa: FBT001 - the only question
    start = b'{"stream":true,"max_tokens":200,"model"' if stream else b'{"max_tokens":200,"model"'
    return chat_body(_SIZE).replace(b'{"model"', start, 1)


def _responses_request(stream: bool) -> bytes:  # noqa: FBT001 - the only question
    body = chat_body(_SIZE).replace(b'"messages"', b'"input"', 1)
    return body.replace(b'{"model"', b'{"stream":true,"model"', 1) if stream else body


def _chat(schema: str) -> Pair:
    return Pair(
        operation=Operation.CHAT,
        path="/v1/chat/completions",
        schema={"name": schema, "prefix": "v1"},
        body=_chat_request,
    )


def _messages(schema: str) -> Pair:
    return Pair(
        operation=Operation.MESSAGES,
        path="/v1/messages",
        schema={"name": schema, "prefix": "v1"},
        body=_messages_request,
    )


PAIRS: Final[Mapping[str, Pair]] = {
    **{schema: _chat(schema) for schema in ANSWERS},
    **{f"messages on {schema}": _messages(schema) for schema in ("OpenAI", "AWSBedrock", "Anthropic", "AWSAnthropic")},
    "responses on OpenAI, over chat": Pair(
        operation=Operation.RESPONSES,
        path="/v1/responses",
        schema={"name": "OpenAI", "prefix": "v1", "chatOnly": True},
        body=_responses_request,
    ),
}
"""By the names of their rows; a schema alone is chat completions."""


def states() -> list[RowState]:
    """The pairs, and whether this build has their translators."""
    return [
        RowState(
            name=name,
            meaning=f"chat completions on {name}" if pair.operation is Operation.CHAT else name,
            missing="" if (pair.operation, pair.schema["name"]) in TRANSLATORS else "no translator",
        )
        for name, pair in PAIRS.items()
    ]


def measure(
    pairs: Sequence[str], *, requests: int, chunks: int, turns: int, failed: Callable[[str], None]
) -> list[Sample]:
    """CPU per request and per chunk of each pair, in turn.

    Args:
        pairs: the names of those that this build has.
        requests: how many are timed, plain ones, in a turn.
        chunks: pieces of each streamed answer; a tenth of ``requests`` of them are timed.
        turns: how often each pair's turn comes.
        failed: takes what is wrong with a pair, which is then left out.
    """
    subjects = {}
    for name in pairs:
        try:
            subjects[name] = Subject(PAIRS[name], chunks)
        except LoadFailed as error:
            failed(f"{name}, {COLUMN}: {error}")
    samples = []
    for turn in range(turns):
        for name, subject in subjects.items():
            figures = {
                "request_us": subject.per_request(requests) * 1e6,
                "chunk_us": subject.per_chunk(max(requests // 10, 1)) * 1e6,
            }
            samples.append(Sample(row=name, column=COLUMN, turn=turn, figures=figures))
    return samples


class Subject:
    """A core with one backend.

    Raises:
        LoadFailed: its answer is not the one that is to be measured.
    """

    def __init__(self, pair: Pair, chunks: int) -> None:
        self._processor = _processor(pair.schema)
        self._chunks = chunks
        answer = ANSWERS[str(pair.schema["name"])]
        self._plain = script(pair, answer, stream=False)
        self._stream = script(pair, answer, stream=True)
        self._piece = response_body(answer.piece, eos=False).SerializeToString()
        self._ending = response_body(answer.ending).SerializeToString()
        self._check(self._play(self._plain))
        self._check([*self._play_stream()[1]])

    def per_request(self, count: int) -> float:
        """CPU seconds of a plain request."""
        started = time.thread_time()
        for _ in range(count):
            self._play(self._plain)
        return (time.thread_time() - started) / count

    def per_chunk(self, count: int) -> float:
        """CPU seconds of one piece of a streamed answer, over so many requests."""
        return sum(self._play_stream()[0] for _ in range(count)) / count / self._chunks

    def _play(self, messages: Script) -> list[Reply | None]:
        router, attempt = self._processor.open(), self._processor.open()
        replies = [router.feed(message) for message in messages.before]
        replies.append(attempt.feed(messages.attempt))
        replies += [router.feed(message) for message in messages.after]
        attempt.close()
        router.close()
        return replies

    def _play_stream(self) -> tuple[float, list[Reply | None]]:
        router, attempt = self._processor.open(), self._processor.open()
        replies = [router.feed(message) for message in self._stream.before]
        replies.append(attempt.feed(self._stream.attempt))
        replies += [router.feed(message) for message in self._stream.after]
        feed, piece = router.feed, self._piece
        started = time.thread_time()
        for _ in range(self._chunks):
            feed(piece)
        spent = time.thread_time() - started
        replies.append(feed(self._ending))
        attempt.close()
        router.close()
        return spent, replies

    @staticmethod
    def _check(encoded: Sequence[Reply | None]) -> None:
        replies = [reply and ProcessingResponse.FromString(reply.SerializeToString()) for reply in encoded]
        for reply in replies:
            if reply is None or reply.WhichOneof("response") == "immediate_response":
                body = "" if reply is None else reply.immediate_response.body.decode("utf-8", "replace")
                raise LoadFailed(f"the request is refused: {body[:200]}")
        last = replies[-1]
        fields = last.dynamic_metadata.fields[names.METADATA_NAMESPACE].struct_value.fields if last else {}
        # 12 tokens in, and 200 out at twice the price.
        if fields["cost"].number_value != 412:
            raise LoadFailed(f"the cost is {fields['cost'].number_value:g}, not 412")


def _processor(schema: Mapping[str, object]) -> Processor:
    config = {
        "version": "dev",
        "backends": [{"name": BACKEND, "schema": schema, "modelNameOverride": ""}],
        "llmRequestCosts": [
            {"metadataKey": "cost", "type": "CEL", "cel": "input_tokens + output_tokens * 2u", "routeName": ROUTE}
        ],
    }
    decoded = decode(json.dumps(config).encode())
    if decoded.config is None:
        raise LoadFailed(f"the config is refused: {decoded.problems}")
    # The same id for every request: they come one after the other, and the messages can be made beforehand.
    processor = Processor(metrics=Metrics(), ids=lambda: _ID)
    processor.runtime = build_runtime(decoded.config, digest="bench", problems=decoded.problems)
    return processor


def script(pair: Pair, answer: Answer, *, stream: bool) -> Script:
    """The messages of a request and its answer; of a streamed one only the beginning."""
    headers = {**DEFAULT_HEADERS, ":path": pair.path}
    carried = {
        **headers,
        names.INTERNAL_REQUEST_ID: f"{headers[names.REQUEST_ID]}-{_ID}",
        names.MODEL: "bench",
        names.ORIGINAL_PATH: headers[":path"],
    }
    content_type = answer.stream_type if stream else "application/json"
    first = answer.opening if stream else answer.plain
    attempt = request_headers(carried, attributes={names.BACKEND_OF_HOST: BACKEND, names.ROUTE_NAME: ROUTE})
    answered = response_headers([(":status", "200"), ("content-type", content_type)])
    before = (request_headers(headers), request_body(pair.body(stream)))
    after = (answered, response_body(first, eos=not stream))
    return Script(
        before=[message.SerializeToString() for message in before],
        attempt=attempt.SerializeToString(),
        after=[message.SerializeToString() for message in after],
    )
