"""OpenAI and Azure OpenAI: the same chat completions under different paths, credentials and a few extra members."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from deploy.demo.providers.openai_chat import Extras, chunks, completion, read
from deploy.demo.providers.service import (
    Call,
    Refused,
    Reply,
    allow_query,
    answered,
    bearer,
    event,
    json_reply,
    stream_reply,
)

_PATH: Final = "/v1/chat/completions"
_AZURE_PATH: Final = re.compile(r"/openai/deployments/(?P<deployment>[^/]+)/chat/completions")
_API_VERSION: Final = re.compile(r"\d{4}-\d{2}-\d{2}(-preview)?")
_KINDS: Final = {401: "invalid_request_error", 403: "invalid_request_error", 429: "requests", 500: "server_error"}
_CODES: Final = {401: "invalid_api_key", 404: "unknown_url", 429: "rate_limit_exceeded"}
_REQUEST_ID: Final = ("x-request-id", "req_standin")
_FILTERED: Final = {
    name: {"filtered": False, "severity": "safe"} for name in ("hate", "self_harm", "sexual", "violence")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAI:
    """``api.openai.com``. ``key`` is the one key that it takes."""

    key: str

    def answer(self, method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes) -> Reply:
        return answered(self._serve, error, method=method, target=target, headers=headers, body=body)

    def _serve(self, call: Call) -> Reply:
        if call.path != _PATH:
            raise Refused(f"there is no {call.path}", status=404)
        allow_query(call)
        if bearer(call) != self.key:
            raise Refused("the API key is missing or wrong", status=401)
        return _reply(call.body, model=None, azure=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureOpenAI:
    """A resource of Azure OpenAI. It takes ``key`` as ``api-key``, or ``token`` as a bearer token; not both."""

    key: str
    token: str = ""

    def answer(self, method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes) -> Reply:
        return answered(self._serve, azure_error, method=method, target=target, headers=headers, body=body)

    def _serve(self, call: Call) -> Reply:
        found = _AZURE_PATH.fullmatch(call.path)
        if found is None:
            raise Refused("Resource not found", status=404, code="404")
        allow_query(call, "api-version")
        if not _API_VERSION.fullmatch(call.query.get("api-version", "")):
            raise Refused("Resource not found: the query parameter api-version is missing or no version", status=404)
        self._check_credential(call)
        return _reply(call.body, model=unquote(found["deployment"]), azure=True)

    def _check_credential(self, call: Call) -> None:
        token, key = bearer(call), call.headers.get("api-key")
        if token is not None and key is not None:
            raise Refused("a token and a key at the same time", status=401)
        if not ((self.key and key == self.key) or (self.token and token == self.token)):
            raise Refused("the subscription key or token is missing or wrong", status=401)


def _reply(body: bytes, *, model: str | None, azure: bool) -> Reply:
    """Answer a body that the rules allow; ``model`` is the deployment where the path names it."""
    request, asked = read(body)
    said, named = asked.answer(), model or request.model
    filtered: Extras = {"content_filter_results": _FILTERED} if azure else {}
    prompt_filtered: Extras = {"prompt_filter_results": [{"prompt_index": 0, "content_filter_results": _FILTERED}]}
    if not request.stream:
        extras = prompt_filtered if azure else {}
        return json_reply(completion(said, model=named, choice_extras=filtered, extras=extras), headers=[_REQUEST_ID])
    include_usage = request.stream_options is not None and request.stream_options.include_usage
    events = list(chunks(said, model=named, include_usage=include_usage, choice_extras=filtered))
    if azure:
        # What Azure thinks of the prompt comes first, in a chunk that has no choice.
        events.insert(0, event({"id": "", "object": "", "created": 0, "model": "", "choices": [], **prompt_filtered}))
    return stream_reply(events, headers=[_REQUEST_ID])


def error(refused: Refused) -> Reply:
    """OpenAI's error object."""
    kind = refused.kind or _KINDS.get(refused.status, "invalid_request_error")
    code = refused.code or _CODES.get(refused.status)
    fault = {"message": refused.message, "type": kind, "param": None, "code": code}
    return json_reply({"error": fault}, status=refused.status, headers=[_REQUEST_ID])


def azure_error(refused: Refused) -> Reply:
    """Azure's gateway says only code and message; what the model refuses is said as OpenAI says it."""
    if refused.status not in (401, 404):
        return error(refused)
    return json_reply({"error": {"code": str(refused.status), "message": refused.message}}, status=refused.status)
