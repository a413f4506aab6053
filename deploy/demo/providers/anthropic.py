"""Anthropic's own API: messages and counts of their tokens, with the model in the body and the version in a header."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from deploy.demo.providers.messages import REVISED, check_version, read, read_count
from deploy.demo.providers.messages_replies import count, events, fault, framed, message
from deploy.demo.providers.messages_shapes import FirstPartyCount, FirstPartyRequest
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

_VERSIONS: Final = frozenset({"2023-06-01", REVISED})
_REQUEST_ID: Final = ("request-id", "req_standin")
KINDS: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Anthropic:
    """``api.anthropic.com``. ``key`` is the one key that it takes."""

    key: str

    def answer(self, method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes) -> Reply:
        return answered(self._serve, error, method=method, target=target, headers=headers, body=body)

    def _serve(self, call: Call) -> Reply:
        serve = _ENDPOINTS.get(call.path)
        if serve is None:
            raise Refused(f"there is no {call.path}", status=404)
        allow_query(call, "beta")
        self._check_key(call)
        return serve(call, _version(call))

    def _check_key(self, call: Call) -> None:
        """The key comes in either header. The service looks at one; two that differ are somebody else's here."""
        keys = {call.headers.get("x-api-key"), bearer(call)} - {None}
        if keys != {self.key}:
            raise Refused("x-api-key, or the token of authorization, is missing or wrong", status=401)


def _version(call: Call) -> str:
    version = call.headers.get("anthropic-version")
    if version is None:
        raise Refused("anthropic-version: header is required")
    if version not in _VERSIONS:
        raise Refused(f'anthropic-version: "{version}" is not a valid version')
    return version


def _messages(call: Call, version: str) -> Reply:
    request, asked = read(call.body, FirstPartyRequest)
    check_version(request, version)
    said = asked.answer()
    if request.stream:
        return stream_reply(framed(events(said, model=request.model)), headers=[_REQUEST_ID])
    return json_reply(message(said, model=request.model), headers=[_REQUEST_ID])


def _count_tokens(call: Call, version: str) -> Reply:
    request, asked = read_count(call.body, FirstPartyCount)
    check_version(request, version)
    return json_reply(count(asked.answer()), headers=[_REQUEST_ID])


_ENDPOINTS: Final[Mapping[str, Callable[[Call, str], Reply]]] = {
    "/v1/messages": _messages,
    "/v1/messages/count_tokens": _count_tokens,
}


def error(refused: Refused) -> Reply:
    """Anthropic's error object, with the id of the request."""
    kind = refused.kind or KINDS.get(refused.status, "invalid_request_error")
    told = {**fault(kind, refused.message), "request_id": _REQUEST_ID[1]}
    return json_reply(told, status=refused.status, headers=[_REQUEST_ID])
