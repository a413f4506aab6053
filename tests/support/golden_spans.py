"""Golden spans: one folder per operation and case, so that a person can read what a trace tells of a request.

By hand::

    request.json          what the client sends; a form, with the boundary ``golden``, is in request.form
    answer.json           what it gets; also answer.txt, answer.events (a stream of events) and answer.sound
    cut-off.events        the same, of an answer that breaks off
    error-<status>.json   the same, of one that is an error; also .txt
    metered.json          optional: the model that answered, and its usage, as they are known after the answer
    hidden/               optional, a folder: whether the spans with something hidden are kept as well

Written by ``--update-golden``, and then read line by line against the contract (7.8 and 7.9)::

    openinference.json, gen_ai.json, gen_ai_content.json
    hidden/<variant>.json

JSON is sent without its spaces. An attribute that is JSON as text is shown as ``{"JSON": …}``, which says no less: it
is compact JSON, or not shown so.
The answer is read whole, byte by byte and in odd pieces, which must not make a difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from extproc.endpoints.base import Endpoint, Operation
from extproc.endpoints.table import EndpointTable
from extproc.telemetry.tracing.base import Attributes, Convention, Event, TracedRequest
from extproc.telemetry.tracing.readers.table import READERS
from extproc.telemetry.tracing.switches import conventions
from extproc.telemetry.tracing.views import AnswerView
from extproc.usage import NO_USAGE, TokenUsage
from tests.support.golden import GOLDEN

TRACES = GOLDEN / "traces"

ENDPOINTS: Mapping[Operation, Endpoint] = {
    endpoint.operation: endpoint for endpoint in EndpointTable.build().endpoints.values()
}
FORM = "multipart/form-data; boundary=golden"
PROVIDERS = {
    Operation.MESSAGES: "anthropic",
    Operation.COUNT_TOKENS: "anthropic",
    Operation.RERANK: "cohere",
}

_GEN_AI = {"AI_GATEWAY_TRACING_SEMCONV": "gen_ai"}
SHOWN: Mapping[str, Mapping[str, str]] = {
    "openinference.json": {},
    "gen_ai.json": _GEN_AI,
    "gen_ai_content.json": {**_GEN_AI, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"},
}


def _hiding(*names: str) -> Mapping[str, str]:
    return {f"OPENINFERENCE_HIDE_{name}": "true" for name in names}


HIDDEN: Mapping[str, Mapping[str, str]] = {
    "hidden/inputs.json": _hiding("INPUTS"),
    "hidden/outputs.json": _hiding("OUTPUTS"),
    "hidden/parts.json": _hiding(
        "INPUT_TEXT", "INPUT_IMAGES", "OUTPUT_TEXT", "PROMPTS", "CHOICES", "EMBEDDINGS_TEXT", "EMBEDDINGS_VECTORS"
    ),
    "hidden/everything.json": _hiding(
        "INPUTS", "OUTPUTS", "INPUT_MESSAGES", "OUTPUT_MESSAGES", "LLM_INVOCATION_PARAMETERS", "LLM_TOOLS"
    ),
}


def cases() -> list[Path]:
    """All cases, to be parametrised with ``ids=name_of``."""
    found = sorted({path.parent for path in TRACES.glob("*/*/request.*")})
    assert found, "no golden spans"
    return found


def name_of(case: Path) -> str:
    return f"{case.parent.name}/{case.name}"


def check(case: Path, *, update: bool) -> None:
    """Make the spans of a case and compare with its files, or rewrite them."""
    variants = {**SHOWN, **(HIDDEN if (case / "hidden").exists() else {})}
    for name, environ in variants.items():
        text = _shown(span(case, conventions(environ)))
        if update:
            (case / name).write_bytes(text.encode())
        kept = (case / name).read_text(encoding="utf-8") if (case / name).exists() else ""
        assert kept == text, f"{name_of(case)}/{name} is not what a trace tells; see --update-golden"


def span(case: Path, convention: Convention) -> dict[str, object]:
    """What a span says of the case: name, kind, status, attributes and events."""
    request = _request(case)
    view = READERS[Operation(request.operation)].request(request)
    provider = PROVIDERS.get(Operation(request.operation), "openai")
    told: dict[str, object] = {"name": convention.name(view), "kind": convention.kind}
    attributes = convention.request(view) | convention.bound(provider)
    [answer] = [path for kind in ("answer", "cut-off", "error-") for path in case.glob(f"{kind}*")]
    if answer.stem.startswith("error-"):
        return told | _failed(
            convention, attributes, [], int(answer.stem.removeprefix("error-")), _compact(answer).decode()
        )
    answered, usage, model = _answer(request, _compact(answer)), *_metered(case)
    attributes |= convention.answer(view, answered, usage, model)
    first = convention.first_piece(view)
    events = [first] if first else []
    if answer.stem == "cut-off":
        return told | _failed(convention, attributes, events, 0, "")
    events += convention.events(view, answered)
    return told | {"status": "ok", "attributes": attributes, "events": events}


def _request(case: Path) -> TracedRequest:
    operation = Operation(case.parent.name)
    [path] = case.glob("request.*")
    content_type = FORM if path.suffix == ".form" else "application/json"
    body = _compact(path)
    parsed = ENDPOINTS[operation].parse(body, content_type=content_type, metering=False)
    return TracedRequest(
        operation=operation,
        model=parsed.model,
        stream=parsed.stream,
        body=body,
        content_type=content_type,
        headers={},
    )


def _compact(path: Path) -> bytes:
    """A file's content; JSON without the spaces that it has for us."""
    content = path.read_bytes()
    return msgspec.json.format(content, indent=-1) if path.suffix == ".json" else content


def _answer(request: TracedRequest, body: bytes) -> AnswerView:
    views = [_read(request, pieces) for pieces in _cuts(body)]
    assert all(view == views[0] for view in views), "the cut of an answer must not make a difference"
    return views[0]


def _read(request: TracedRequest, pieces: list[bytes]) -> AnswerView:
    reader = READERS[Operation(request.operation)].answer(request, stream=request.stream)
    for piece in pieces:
        reader.feed(piece)
    return reader.close()


def _cuts(body: bytes) -> Iterator[list[bytes]]:
    for size in (len(body) or 1, 1, 7):
        yield [body[at : at + size] for at in range(0, len(body), size)]


def _metered(case: Path) -> tuple[TokenUsage, str]:
    path = case / "metered.json"
    if not path.exists():
        return NO_USAGE, ""
    metered = json.loads(path.read_text(encoding="utf-8"))
    return TokenUsage(**metered["usage"]), metered["model"]


def _failed(
    convention: Convention, attributes: Attributes, events: list[Event], status: int, body: str
) -> dict[str, object]:
    failure = convention.failure(status, body)
    return {
        "status": f"error: {failure.description}",
        "attributes": attributes | failure.attributes,
        "events": [*events, failure.event] if failure.event else events,
    }


def _shown(told: dict[str, object]) -> str:
    attributes, events = told["attributes"], told["events"]
    assert isinstance(attributes, dict)
    assert isinstance(events, list)
    told = {
        **told,
        "attributes": {key: _readable(value) for key, value in attributes.items()},
        "events": [event._asdict() for event in events],
    }
    return json.dumps(told, indent=2, ensure_ascii=False) + "\n"


def _readable(value: object) -> object:
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            decoded = json.loads(value)
        except ValueError:
            return value
        if msgspec.json.encode(decoded).decode() == value:
            return {"JSON": decoded}
    return value
