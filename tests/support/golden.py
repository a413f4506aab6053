"""Golden files of translations: one folder per case, so that a person can read what becomes of a request.

By hand::

    request.json              what the client sends; a body that is not JSON is in request.body
    headers.json              optional: headers of the client that matter
    backend.json              optional: members of the backend's schema (``version``, ``prefix``) and ``model_override``
    upstream-reply.txt        what the provider answers: status, headers, an empty line, the body as it is
    upstream-reply.events     the same as an AWS event stream: status, headers, an empty line, a message per line:
                                  event <type> <payload>        exception <type> <payload>
                                  chunk <JSON>                  an event whose payload holds the JSON in base64
                                  error <code> <message>        broken

Written by ``--update-golden``, and then read line by line against the contract::

    upstream.txt              what the provider is sent, or the error that the client is told at once
    reply.txt                 what the client reads, and what is known of it for costs

A streamed reply is translated whole, byte by byte and in odd pieces, which must not make a difference.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from extproc.endpoints.base import Endpoint, Operation, ParsedRequest
from extproc.endpoints.chat_completions import ChatCompletions
from extproc.errors import ClientError
from extproc.translate.base import Target, TranslatedRequest, TranslatedResponse, Translator
from extproc.translate.table import factory_for
from extproc.usage import NO_USAGE, TokenUsage
from filter_config.model import VersionedAPISchema
from tests.support import eventstream

GOLDEN = Path(__file__).parents[1] / "golden"
NOW = 1_700_000_000.5
CHAT = ChatCompletions()

Accepts = Callable[[str, bytes], object]
"""Raises when the provider's own types refuse what is sent: the path and the body."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    status: str
    headers: Mapping[str, str]
    body: bytes


def cases(folder: str) -> list[Path]:
    """The cases in a folder, to be parametrised with ``ids=lambda case: case.name``.

    Args:
        folder: the client's API and the backend, ``chat/bedrock``.
    """
    found = sorted({path.parent for path in (GOLDEN / folder).glob("*/request.*")})
    assert found, f"no golden files in {folder}"
    return found


def check(case: Path, schema: str, accepts: Accepts, *, update: bool, endpoint: Endpoint = CHAT) -> None:
    """Translate the case and compare with its files, or rewrite them."""
    upstream, stream = _upstream(case, schema, endpoint, accepts)
    _compare(case / "upstream.txt", upstream, update=update)
    reply = read_reply(case)
    if reply is not None:
        _compare(case / "reply.txt", _replied(case, schema, endpoint, reply, stream=stream), update=update)


def make_translator(
    schema: str,
    backend: Mapping[str, str],
    *,
    operation: Operation = Operation.CHAT,
    headers: Mapping[str, str] | None = None,
) -> Translator:
    """A translator with a clock that stands still, and ids that count.

    Args:
        schema: name of the backend's schema.
        backend: members of the schema, and ``model_override``.
        operation: what the client asks for.
        headers: of the client.
    """
    counter = itertools.count(1)
    members = {name: value for name, value in backend.items() if name != "model_override"}
    target = Target(
        schema=VersionedAPISchema(name=schema, **members),
        model_override=backend.get("model_override", ""),
        now=lambda: NOW,
        new_id=lambda: f"00000000-0000-4000-8000-{next(counter):012}",
        headers=headers or {},
    )
    return factory_for(operation, target.schema.name, backend="golden")(target)


def read_reply(case: Path) -> Reply | None:
    """What the provider answers; ``None`` where it is not asked."""
    for path in (case / "upstream-reply.txt", case / "upstream-reply.events"):
        if path.exists():
            head, _, body = path.read_bytes().partition(b"\n\n")
            status, *lines = head.decode().splitlines()
            headers = dict(line.split(": ", 1) for line in lines)
            content = _events(body.decode()) if path.suffix == ".events" else body
            return Reply(status=status, headers={":status": status, **headers}, body=content)
    return None


def _events(text: str) -> bytes:
    return b"".join(_event(*line.split(" ", 1)) for line in text.splitlines() if line)


def _event(kind: str, rest: str = "") -> bytes:
    name, _, payload = rest.partition(" ")
    match kind:
        case "event":
            # Through JSON, so that padding is put beside what is written here.
            return eventstream.event(name, json.loads(payload))
        case "chunk":
            return eventstream.event("chunk", {"bytes": base64.b64encode(rest.encode()).decode()})
        case "exception":
            return eventstream.exception(name, payload.encode())
        case "error":
            return eventstream.error(name, payload)
        case "broken":
            whole = eventstream.event("contentBlockDelta", {})
            return whole[:-1] + bytes([whole[-1] ^ 1])
    raise ValueError(f"unknown kind of message: {kind}")


def _upstream(case: Path, schema: str, endpoint: Endpoint, accepts: Accepts) -> tuple[str, bool]:
    """What the provider is sent, as text, and whether it is asked for a stream."""
    try:
        _, parsed, translated = _asked(case, schema, endpoint)
    except ClientError as error:
        return f"refused with {error.status} {error.reason}\n\n{error}\n", False
    # Without one of its own, the client's goes on.
    body = parsed.body if translated.body is None else translated.body
    accepts(translated.path, body)
    lines = [f"POST {translated.path}", *(f"{name}: {value}" for name, value in translated.headers)]
    return "\n".join([*lines, "", _pretty(body), ""]), parsed.stream


def _replied(case: Path, schema: str, endpoint: Endpoint, reply: Reply, *, stream: bool) -> str:
    streamed = stream and reply.status == "200"
    texts = {
        _read(_asked(case, schema, endpoint)[0], reply, pieces, streamed=streamed)
        for pieces in _cuts(reply.body, streamed)
    }
    assert len(texts) == 1, "the cut of a stream must not make a difference"
    return texts.pop()


def _asked(case: Path, schema: str, endpoint: Endpoint) -> tuple[Translator, ParsedRequest, TranslatedRequest]:
    """A fresh translator that has sent the case's request, the request and what became of it."""
    headers = json.loads(_text(case / "headers.json") or "{}")
    backend = json.loads(_text(case / "backend.json") or "{}")
    translator = make_translator(schema, backend, operation=endpoint.operation, headers=headers)
    [request] = case.glob("request.*")
    content_type = headers.get("content-type", "application/json")
    parsed = endpoint.parse(request.read_bytes(), content_type=content_type, metering=False)
    return translator, parsed, translator.request(parsed, query="", force=False)


def _cuts(body: bytes, streamed: bool) -> Iterator[list[bytes]]:  # noqa: FBT001 - private, and named at the call
    yield [body]
    if streamed:
        for size in (1, 7, 100):
            yield [*(body[at : at + size] for at in range(0, len(body), size)), b""]


def _read(translator: Translator, reply: Reply, pieces: list[bytes], *, streamed: bool) -> str:
    lines = [f"HTTP {reply.status}"]
    try:
        if reply.status == "200":
            headers = translator.response_headers(reply.headers)
            results = [
                translator.response_body(piece, end_of_stream=number == len(pieces) - 1)
                for number, piece in enumerate(pieces)
            ]
        else:
            pieces = [reply.body]
            results = [translator.response_error(reply.status, reply.headers, reply.body)]
            headers = []
    except ClientError as error:
        return f"refused with {error.status} {error.reason}\n\n{error}\n"
    headers += [header for result in results for header in result.headers]
    body = b"".join(
        piece if result.body is None else result.body for piece, result in zip(pieces, results, strict=True)
    )
    lines += [f"{name}: {value}" for name, value in headers]
    lines += ["", body.decode() if streamed else _pretty(body), *_known(results)]
    return "\n".join([*lines, ""])


def _known(results: list[TranslatedResponse]) -> Iterator[str]:
    usage = NO_USAGE
    for result in results:
        usage = usage.merge(result.usage)
    counts = {name: count for name in TokenUsage.__struct_fields__ if (count := getattr(usage, name)) is not None}
    yield "-- usage: " + (", ".join(f"{name} {count}" for name, count in counts.items()) or "unknown")
    yield f"-- model: {results[-1].model or 'unknown'}"
    if failure := next((result.failure for result in results if result.failure), ""):
        yield f"-- failed with: {failure}"


def _pretty(body: bytes) -> str:
    try:
        return msgspec.json.format(body, indent=2).decode()
    except msgspec.DecodeError:
        return body.decode(errors="backslashreplace")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _compare(path: Path, text: str, *, update: bool) -> None:
    if update:
        path.write_bytes(text.encode())
    assert _text(path) == text, f"{path.name} is not what the translation gives; see --update-golden"
