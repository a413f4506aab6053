"""Fuzz target of the readers of traces: any octets, cut anywhere, give the same view of an answer, and none raises."""

from __future__ import annotations

import json
import random
from contextlib import suppress

import msgspec

from extproc.endpoints.base import Operation
from extproc.telemetry.tracing.base import TracedRequest
from extproc.telemetry.tracing.readers.table import READERS
from extproc.telemetry.tracing.views import AnswerView, RequestView
from tests.fuzz.driver import drive

OPERATIONS = tuple(Operation)


def _seed(operation: Operation, text: bytes, *, stream: bool = False) -> bytes:
    return bytes([OPERATIONS.index(operation) + (len(OPERATIONS) if stream else 0), 7]) + text


# The first octet chooses the API and whether it streams, the second seeds the cut.
SEEDS = (
    _seed(
        Operation.CHAT,
        b'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi","tool_calls":[{"index":0,'
        b'"id":"t","function":{"name":"f","arguments":"{}"}}]}}]}\n\ndata: {"choices":[{"index":0,"delta":{},'
        b'"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"prompt_tokens_details":{"audio_tokens":2}}}\n\n'
        b"data: [DONE]\n\n",
        stream=True,
    ),
    _seed(
        Operation.CHAT,
        b'{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url",'
        b'"image_url":{"url":"u"}}]},{"role":"tool","tool_call_id":"t","content":"r"}],"tools":[{"a":1.0}],"stop":"s"}',
    ),
    _seed(
        Operation.CHAT, b'{"choices":[{"message":{"content":"\\ud800\xff","reasoning":"r"},"finish_reason":"stop"}]}'
    ),
    _seed(
        Operation.COMPLETION,
        b'data: {"choices":[{"text":"a","index":1}]}\n\ndata: {"choices":[{"text":"b"}]}',
        stream=True,
    ),
    _seed(
        Operation.MESSAGES,
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","content":[]}}\n\n'
        b'data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","input":{}}}\n\n'
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}\n\n'
        b'data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"x"}}\n\n'
        b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}\n\n',
        stream=True,
    ),
    _seed(
        Operation.MESSAGES,
        b'{"system":"s","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[]},'
        b'{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]}]}',
    ),
    _seed(
        Operation.RESPONSES,
        b'data: {"type":"response.created","response":{"id":"r","output":[]}}\n\n'
        b'data: {"type":"response.output_item.added","output_index":0,"item":{"type":"message","content":[]}}\n\n'
        b'data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"x"}\n\n'
        b'data: {"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}\n\n',
        stream=True,
    ),
    _seed(
        Operation.RESPONSES,
        b'{"instructions":"i","input":[{"type":"function_call_output","call_id":"c","output":"o"}]}',
    ),
    _seed(Operation.EMBEDDINGS, b'{"data":[{"index":0,"embedding":"AACAPwAAAEA="},{"embedding":[1,2.5]}],"model":"m"}'),
    _seed(Operation.TRANSCRIPTION, b'data: {"type":"transcript.text.delta","delta":"x"}\r\n\r\n', stream=True),
    _seed(Operation.TRANSCRIPTION, b'--q\r\nContent-Disposition: form-data; name="a[]"\r\n\r\nx\r\n--q--\r\n'),
    _seed(Operation.SPEECH, b'{"stream_format":"sse","input":"x","response_format":"wav"}', stream=True),
    _seed(
        Operation.IMAGE_GENERATION, b'data: {"type":"image_generation.completed","b64_json":"AA=="}\n\n', stream=True
    ),
    _seed(Operation.RERANK, b'{"query":"q","documents":["a",{"text":"b"},1],"results":[{"relevance_score":1e400}]}'),
    _seed(Operation.TOKENIZE, b'{"prompt":"p","count":3,"tokens":[1,2,3]}'),
)


def traced(operation: Operation, body: bytes = b"", *, content_type: str = "application/json") -> TracedRequest:
    return TracedRequest(operation=operation, model="m", stream=False, body=body, content_type=content_type, headers={})


def read_request(operation: Operation, body: bytes, *, content_type: str = "application/json") -> RequestView:
    return READERS[operation].request(traced(operation, body, content_type=content_type))


def read_answer(operation: Operation, *pieces: bytes, stream: bool = False, request: bytes = b"") -> AnswerView:
    reader = READERS[operation].answer(traced(operation, request), stream=stream)
    for piece in pieces:
        reader.feed(piece)
    return reader.close()


def one_input(data: bytes) -> None:
    """Read as request and as answer. Raises nothing; asserts that views are text, and the same however it is cut."""
    head, text = data[:2].ljust(2, b"\0"), data[2:]
    streams, chosen = divmod(head[0], len(OPERATIONS))
    operation, stream = OPERATIONS[chosen], streams % 2 == 1
    for content_type in ("application/json", "multipart/form-data; boundary=q"):
        _check(read_request(operation, text, content_type=content_type))
    # What a speech request asks for is in its own body.
    for request in (b"", b'{"stream_format":"sse"}') if operation is Operation.SPEECH else (b"",):
        whole = read_answer(operation, text, stream=stream, request=request)
        pieces = _cut(text, random.Random(head[1]))
        # Not a number is not itself.
        assert repr(read_answer(operation, *pieces, stream=stream, request=request)) == repr(whole)
        _check(whole)


def _check(view: RequestView | AnswerView) -> None:
    # It holds nothing that is no Unicode.
    msgspec.json.encode(view)
    if isinstance(view, RequestView):
        with suppress(RecursionError):
            # Numbers may have any length.
            assert isinstance(json.loads(view.invocation, parse_int=str), dict)


def _cut(stream: bytes, chance: random.Random) -> list[bytes]:
    pieces = []
    while stream:
        size = chance.randint(1, 12)
        pieces.append(stream[:size])
        stream = stream[size:]
    return pieces


if __name__ == "__main__":
    drive(one_input, name="trace_readers", package="extproc.telemetry.tracing.readers", seeds=SEEDS)
