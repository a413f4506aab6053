"""Anthropic's own API: the Messages API with the model in the body and the version in a header."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from deploy.demo.providers.messages import read
from deploy.demo.providers.messages_replies import events, fault, framed, message
from deploy.demo.providers.messages_shapes import FirstPartyRequest
from deploy.demo.providers.service import Call, Refused, Reply, allow_query, answered, json_reply, stream_reply

_PATH: Final = "/v1/messages"
_VERSION: Final = "2023-06-01"
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
        if call.path != _PATH:
            raise Refused(f"there is no {call.path}", status=404)
        allow_query(call, "beta")
        self._check_headers(call)
        request, asked = read(call.body, FirstPartyRequest)
        said = asked.answer()
        if request.stream:
            return stream_reply(framed(events(said, model=request.model)), headers=[_REQUEST_ID])
        return json_reply(message(said, model=request.model), headers=[_REQUEST_ID])

    def _check_headers(self, call: Call) -> None:
        if "authorization" in call.headers:
            raise Refused("an API key is sent as x-api-key alone, not with authorization", status=401)
        if call.headers.get("x-api-key") != self.key:
            raise Refused("x-api-key is missing or wrong", status=401)
        if call.headers.get("anthropic-version") != _VERSION:
            raise Refused(f"anthropic-version: the header is required, and has to be {_VERSION}")


def error(refused: Refused) -> Reply:
    """Anthropic's error object, with the id of the request."""
    kind = refused.kind or KINDS.get(refused.status, "invalid_request_error")
    told = {**fault(kind, refused.message), "request_id": _REQUEST_ID[1]}
    return json_reply(told, status=refused.status, headers=[_REQUEST_ID])
