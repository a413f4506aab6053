"""Vertex AI: Gemini under the publisher google, Claude under the publisher anthropic, in one project and location."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from deploy.demo.providers import anthropic, gemini, gemini_replies, messages
from deploy.demo.providers.gemini_shapes import GenerateRequest
from deploy.demo.providers.messages_replies import count, events, framed, message
from deploy.demo.providers.messages_replies import fault as anthropic_fault
from deploy.demo.providers.messages_shapes import VertexCount, VertexRequest
from deploy.demo.providers.service import (
    Call,
    Refused,
    Reply,
    allow_query,
    answered,
    bearer,
    json_reply,
    stream_reply,
)

_PATH: Final = re.compile(
    r"/v1/projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)"
    r"/publishers/(?P<publisher>[^/]+)/models/(?P<model>[^/:]+):(?P<method>[A-Za-z]+)"
)
# Of the publisher anthropic; it counts for the others.
_COUNTER: Final = "count-tokens"
_STATUS: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexAI:
    """``<location>-aiplatform.googleapis.com``, for whoever brings ``token``."""

    project: str
    location: str
    token: str

    def answer(self, method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes) -> Reply:
        return answered(self._serve, error, method=method, target=target, headers=headers, body=body)

    def _serve(self, call: Call) -> Reply:
        found = _PATH.fullmatch(call.path)
        serve = _METHODS.get((found["publisher"], found["method"])) if found is not None else None
        if found is None or serve is None:
            raise Refused(f"there is no {call.path}", status=404)
        if bearer(call) != self.token:
            raise Refused("the access token is missing or wrong", status=401)
        if (unquote(found["project"]), unquote(found["location"])) != (self.project, self.location):
            raise Refused("no permission for this project and location", status=403)
        model = unquote(found["model"])
        if serve is _raw_predict and model == _COUNTER:
            return _count_tokens(call)
        if {"google": "gemini", "anthropic": "claude"}[found["publisher"]] not in model:
            raise Refused(f"the publisher has no model {model!r}", status=404)
        return serve(call, model)


def _generate(call: Call, model: str) -> Reply:
    allow_query(call)
    request, asked = gemini.read(call.body, model)
    thoughts = _shows_thoughts(request)
    signed = asked.thinking or "gemini-3" in model
    return json_reply(gemini_replies.response(asked.answer(), model=model, thoughts=thoughts, signed=signed))


def _generate_stream(call: Call, model: str) -> Reply:
    allow_query(call, "alt")
    if call.query.get("alt") != "sse":
        raise Refused("only alt=sse is served here; the real service would send one JSON array")
    request, asked = gemini.read(call.body, model)
    thoughts = _shows_thoughts(request)
    signed = asked.thinking or "gemini-3" in model
    return stream_reply(gemini_replies.events(asked.answer(), model=model, thoughts=thoughts, signed=signed))


def _shows_thoughts(request: GenerateRequest) -> bool:
    config = request.generation_config
    return config is not None and config.thinking_config is not None and bool(config.thinking_config.include_thoughts)


def _raw_predict(call: Call, model: str) -> Reply:
    return _of_claude(call, model, stream=False)


def _stream_raw_predict(call: Call, model: str) -> Reply:
    return _of_claude(call, model, stream=True)


def _of_claude(call: Call, model: str, *, stream: bool) -> Reply:
    allow_query(call)
    try:
        request, asked = messages.read(call.body, VertexRequest)
        messages.check_version(request, request.anthropic_version)
    except Refused as refused:
        return _said_by_its_maker(refused)
    if request.stream != stream:
        raise Refused(f"stream: has to be {str(stream).lower()} with this method")
    said = asked.answer()
    if stream:
        return stream_reply(framed(events(said, model=model)))
    return json_reply(message(said, model=model))


def _count_tokens(call: Call) -> Reply:
    allow_query(call)
    try:
        request, asked = messages.read_count(call.body, VertexCount)
        messages.check_version(request, request.anthropic_version)
    except Refused as refused:
        return _said_by_its_maker(refused)
    if "claude" not in request.model or request.model.endswith(("@default", "@latest")):
        raise Refused(f"the publisher has no model {request.model!r}", status=404)
    return json_reply(count(asked.answer()))


def _said_by_its_maker(refused: Refused) -> Reply:
    """What the model refuses is said in the words of Anthropic."""
    kind = anthropic.KINDS.get(refused.status, "invalid_request_error")
    return json_reply(anthropic_fault(kind, refused.message), status=refused.status)


_METHODS: Final[Mapping[tuple[str, str], Callable[[Call, str], Reply]]] = {
    ("google", "generateContent"): _generate,
    ("google", "streamGenerateContent"): _generate_stream,
    ("anthropic", "rawPredict"): _raw_predict,
    ("anthropic", "streamRawPredict"): _stream_raw_predict,
}


def error(refused: Refused) -> Reply:
    """Google's error object."""
    name = refused.kind or _STATUS.get(refused.status, "INVALID_ARGUMENT")
    return json_reply(gemini_replies.fault(refused.status, name, refused.message), status=refused.status)
