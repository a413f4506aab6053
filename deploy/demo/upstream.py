"""A stand-in for a provider with the OpenAI API: it answers from the question, counts words as tokens, and remembers.

The answers are a function of the request, so whoever watches can tell what came through: the text names the model that
was asked for and the stand-in that answered. It can be told to fail, which is what makes a failover visible.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Route

from deploy.command_line import Parser, port
from deploy.demo.hosting import Hosted
from deploy.demo.seen import Seen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

_REMEMBERED: Final = 100
_CREATED: Final = 1_700_000_000
_LOWEST_FAILURE: Final = 400
_HIGHEST_FAILURE: Final = 599
_LONGEST_PAUSE: Final = 60


@dataclass(slots=True, kw_only=True)
class Script:
    """How the stand-in behaves, and what it remembers.

    ``failing`` is a status to answer with, ``pause`` the seconds between pieces; ``usages`` is what it has counted.
    """

    name: str
    failing: int | None = None
    pause: float = 0.0
    seen: deque[Seen] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    usages: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    def follow(self, wanted: Mapping[str, Any]) -> None:
        """Behave as told: without ``failing`` it stops to fail, without ``pause`` it keeps its pace."""
        self.failing = wanted.get("failing")
        self.pause = wanted.get("pause", self.pause)

    def state(self) -> dict[str, Any]:
        """How it behaves now."""
        return {"name": self.name, "failing": self.failing, "pause": self.pause}


def application(script: Script) -> Starlette:
    """The OpenAI API, and beside it ``/standin`` to read what was seen and to change how it behaves."""

    async def completion(request: Request) -> Response:
        seen = await _remember(script, request)
        if script.failing is not None:
            message = f"{script.name} has been told to fail"
            return _error(script.failing, message, "server_error")
        asked = seen.json()
        if not asked.get("model"):
            return _error(400, "you must provide a model parameter", "invalid_request_error")
        answer = _ANSWERS[request.url.path](script, asked)
        script.usages.append(answer["usage"])
        if asked.get("stream"):
            pieces = _pieces(script, asked, answer)
            return StreamingResponse(pieces, media_type="text/event-stream")
        return JSONResponse(answer)

    async def models(request: Request) -> Response:
        await _remember(script, request)
        return JSONResponse({"object": "list", "data": [{"id": "standin", "object": "model", "owned_by": script.name}]})

    async def standin(request: Request) -> Response:
        if request.method == "PUT":
            try:
                script.follow(_behaviour(await request.body()))
            except ValueError as error:
                return PlainTextResponse(f"{error}\n", 400)
            return JSONResponse(script.state())
        return JSONResponse(script.state() | {"seen": [_as_document(seen) for seen in script.seen]})

    routes = [Route(path, completion, methods=["POST"]) for path in _ANSWERS]
    routes += [Route("/v1/models", models), Route("/standin", standin, methods=["GET", "PUT"])]
    return Starlette(routes=routes)


class Upstream(Hosted):
    """The stand-in on a port of its own."""

    def __init__(self, name: str, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.script = Script(name=name)
        super().__init__(f"upstream {name}", application(self.script), host=host, port=port)

    @property
    def last(self) -> Seen:
        """The request that came last; there must have been one."""
        return self.script.seen[-1]


def _behaviour(body: bytes) -> dict[str, Any]:
    """What a ``PUT /standin`` wants.

    Raises:
        ValueError: it is not what it should be; the message is a line for the one who typed it.
    """
    try:
        wanted = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("the body is not JSON") from None
    if not isinstance(wanted, dict) or not wanted.keys() <= {"failing", "pause"}:
        raise ValueError('an object is needed: {"failing": 503} or {"failing": null}, and "pause" in seconds')
    failing, pause = wanted.get("failing"), wanted.get("pause", 0)
    if failing is not None and (type(failing) is not int or not _LOWEST_FAILURE <= failing <= _HIGHEST_FAILURE):
        raise ValueError(f"failing: a status from {_LOWEST_FAILURE} to {_HIGHEST_FAILURE} is needed, or null")
    # NaN, too, is JSON for this parser; it is neither above nor below anything.
    if type(pause) not in (int, float) or not 0 <= pause <= _LONGEST_PAUSE:
        raise ValueError(f"pause: seconds from 0 to {_LONGEST_PAUSE} are needed")
    return wanted


async def _remember(script: Script, request: Request) -> Seen:
    headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw)
    path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    seen = Seen(method=request.method, path=path, headers=headers, body=await request.body())
    script.seen.append(seen)
    return seen


def _as_document(seen: Seen) -> dict[str, object]:
    return {
        "method": seen.method,
        "path": seen.path,
        "headers": [list(header) for header in seen.headers],
        "body": seen.body.decode("utf-8", "replace"),
    }


def _error(status: int, message: str, kind: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "type": kind, "code": None, "param": None}}, status)


def _words(value: object) -> int:
    """Words in all the texts of a value: a crude tokenizer, but the same for everyone."""
    if isinstance(value, str):
        return len(value.split())
    if isinstance(value, dict):
        return sum(_words(item) for item in value.values())
    if isinstance(value, list):
        return sum(_words(item) for item in value)
    return 0


def _usage(prompt: int, text: str) -> dict[str, Any]:
    completion = _words(text)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _text(script: Script, asked: Mapping[str, Any]) -> str:
    return f"This is {asked['model']} at {script.name}: I have read what you wrote."


def _chat(script: Script, asked: Mapping[str, Any]) -> dict[str, Any]:
    text = _text(script, asked)
    prompt = _words([message.get("content") for message in asked.get("messages", ()) if isinstance(message, dict)])
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return _envelope("chat.completion", "chatcmpl-standin", asked) | {
        "choices": [choice],
        "usage": _usage(prompt, text),
    }


def _completions(script: Script, asked: Mapping[str, Any]) -> dict[str, Any]:
    text = _text(script, asked)
    choice = {"index": 0, "text": text, "finish_reason": "stop", "logprobs": None}
    usage = _usage(_words(asked.get("prompt")), text)
    return _envelope("text_completion", "cmpl-standin", asked) | {"choices": [choice], "usage": usage}


def _embeddings(_: Script, asked: Mapping[str, Any]) -> dict[str, Any]:
    inputs = asked.get("input")
    texts = inputs if isinstance(inputs, list) else [inputs]
    vectors = [
        {"object": "embedding", "index": index, "embedding": [float(_words(text)), 0.5, -0.5]}
        for index, text in enumerate(texts)
    ]
    prompt = _words(inputs)
    usage = {"prompt_tokens": prompt, "total_tokens": prompt}
    return {"object": "list", "data": vectors, "model": asked["model"], "usage": usage}


def _envelope(kind: str, identifier: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": identifier, "object": kind, "created": _CREATED, "model": asked["model"]}


_ANSWERS: Final = {
    "/v1/chat/completions": _chat,
    "/v1/completions": _completions,
    "/v1/embeddings": _embeddings,
}


async def _pieces(script: Script, asked: Mapping[str, Any], answer: Mapping[str, Any]) -> AsyncIterator[bytes]:
    """The answer as server-sent events, a word at a time; the usage at the end for those who asked for it."""
    chat = answer["object"] == "chat.completion"
    choice = answer["choices"][0]
    text = choice["message"]["content"] if chat else choice["text"]
    head = {key: answer[key] for key in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk" if chat else "text_completion"
    words = text.split(" ")
    for index, word in enumerate(words):
        part = word if index == len(words) - 1 else f"{word} "
        piece: dict[str, Any] = {"delta": {"content": part}} if chat else {"text": part}
        yield _event(head | {"choices": [{"index": 0, "finish_reason": None} | piece]})
        await asyncio.sleep(script.pause)
    last: dict[str, Any] = {"delta": {}} if chat else {"text": ""}
    yield _event(head | {"choices": [{"index": 0, "finish_reason": "stop"} | last]})
    if (asked.get("stream_options") or {}).get("include_usage"):
        yield _event(head | {"choices": [], "usage": answer["usage"]})
    yield b"data: [DONE]\n\n"


def _event(document: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m deploy.demo.upstream``: one stand-in, until SIGTERM or Ctrl-C."""
    parser = Parser(prog="python -m deploy.demo.upstream", description="A stand-in OpenAI upstream.")
    parser.add_argument("--name", default="standin", help="what it calls itself in its answers (default %(default)s)")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (default %(default)s)")
    parser.add_argument("--port", type=port, default=8000, help="port (default %(default)s)")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between pieces of a stream")
    arguments = parser.parse_args(argv)
    family = socket.AF_INET6 if ":" in arguments.host else socket.AF_INET
    try:
        # First: the configuration that follows sets up the log of this process.
        bound = socket.create_server((arguments.host, arguments.port), family=family)
    except OSError:
        print(f"upstream: cannot listen on {arguments.host}:{arguments.port}", file=sys.stderr)
        return 1
    print(f"upstream {arguments.name} listens on {arguments.host}:{bound.getsockname()[1]}", flush=True)
    script = Script(name=arguments.name, pause=arguments.pause)
    uvicorn.Server(uvicorn.Config(application(script), lifespan="off")).run(sockets=[bound])
    return 0


if __name__ == "__main__":
    sys.exit(main())
