"""Amazon Bedrock's runtime: Converse and InvokeModel of Claude, both also as a stream, and counts of their tokens.

Whether a signature fits its request is not checked here, only whose it is and what it is for.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from deploy.demo.providers import converse, messages
from deploy.demo.providers.converse_replies import frames, response
from deploy.demo.providers.eventstream import CONTENT_TYPE, event_frame
from deploy.demo.providers.messages_replies import events, message
from deploy.demo.providers.messages_shapes import BedrockRequest
from deploy.demo.providers.script import Conversation, Said, Tokens
from deploy.demo.providers.service import Call, Refused, Reply, allow_query, answered, document, json_reply
from deploy.demo.providers.shapes import Shape, decode

_PATH: Final = re.compile(r"/model/(?P<model>[^/]+)/(?P<operation>[a-z-]+)")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.~$&+:=@%-]")
_MODEL: Final = re.compile(
    r"arn:aws(-[^:]+)?:bedrock:[a-z0-9-]{1,20}:(\d{12})?:[a-z-]+/[a-zA-Z0-9:./-]+|[a-zA-Z0-9:._-]+"
)
_PROFILE: Final = re.compile(r"inference-profile/|^[a-z-]+\.(?=[a-z0-9]+\.)")
# Models that are named by a version of Bedrock's know the first version of the API alone.
_VERSIONED: Final = re.compile(r"-v\d+(:\d+)?$")
_AUTHORIZATION: Final = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/,\s]+)/(?P<day>\d{8})/(?P<region>[^/]+)/bedrock/aws4_request, "
    r"SignedHeaders=(?P<signed>[a-z0-9;-]+), Signature=[0-9a-f]{64}"
)
_REQUEST_ID: Final = ("x-amzn-requestid", "8f2d1b62-4c3e-4c59-9e0f-000000000000")
_KINDS: Final = {
    403: "UnrecognizedClientException",
    404: "UnknownOperationException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    500: "InternalServerException",
    503: "ServiceUnavailableException",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bedrock:
    """``bedrock-runtime.<region>.amazonaws.com``, for the holders of these access keys."""

    access_key_ids: frozenset[str]
    region: str

    def answer(self, method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes) -> Reply:
        return answered(self._serve, error, method=method, target=target, headers=headers, body=body)

    def _serve(self, call: Call) -> Reply:
        found = _PATH.fullmatch(call.path)
        if found is None or found["operation"] not in _OPERATIONS:
            raise Refused("", status=404)
        allow_query(call)
        self._check_signature(call)
        model = unquote(found["model"])
        # A client that does not escape the name as it signs it gets a 403 from the real service.
        if _UNSAFE.search(found["model"]) or not _MODEL.fullmatch(model):
            raise Refused("the provided model identifier is invalid")
        return _OPERATIONS[found["operation"]](call, model)

    def _check_signature(self, call: Call) -> None:
        signature = _AUTHORIZATION.fullmatch(call.headers.get("authorization", ""))
        if signature is None:
            raise Refused("missing authentication token", status=403, kind="MissingAuthenticationTokenException")
        if signature["key"] not in self.access_key_ids:
            raise Refused("the security token included in the request is invalid", status=403)
        if signature["region"] != self.region:
            wrong = f"credential should be scoped to the region {self.region}, not {signature['region']}"
            raise Refused(wrong, status=403, kind="InvalidSignatureException")
        signed = set(signature["signed"].split(";"))
        if not {"host", "x-amz-date"} <= signed or not call.headers.get("x-amz-date", "").startswith(signature["day"]):
            raise Refused("host and x-amz-date have to be signed", status=403, kind="InvalidSignatureException")


def _converse(call: Call, model: str) -> Reply:
    return json_reply(response(_asked_converse(call, model)), headers=[_REQUEST_ID])


def _converse_stream(call: Call, model: str) -> Reply:
    return _frames(frames(_asked_converse(call, model)))


def _asked_converse(call: Call, model: str) -> Said:
    _, asked = converse.read(call.body, model)
    return asked.answer()


def _invoke(call: Call, model: str) -> Reply:
    said = _asked_invoke(call, model)
    counts = _counts(said.tokens, "x-amzn-bedrock-{}-token-count", "input", "output", "cache-read-input")
    return json_reply(
        message(said, model=_short(model)), headers=[_REQUEST_ID, *((k, str(v)) for k, v in counts.items())]
    )


def _invoke_stream(call: Call, model: str) -> Reply:
    said = _asked_invoke(call, model)
    return _frames(_chunks(said, _short(model)), ("x-amzn-bedrock-content-type", "application/json"))


def _asked_invoke(call: Call, model: str) -> Said:
    if "claude" not in model:
        raise Refused("malformed input request: this model does not speak the Messages API")
    return _read_invoke(call.body, model).answer()


def _read_invoke(body: bytes, model: str) -> Conversation:
    request, asked = messages.read(body, BedrockRequest)
    if request.anthropic_version == messages.REVISED and _VERSIONED.search(model):
        raise Refused(f"anthropic_version: {messages.REVISED} is not supported for this model")
    messages.check_version(request, request.anthropic_version)
    return asked


class _InvokeModel(Shape, frozen=True, kw_only=True):
    body: bytes


class _CountInput(Shape, frozen=True, kw_only=True, rename="camel"):
    invoke_model: _InvokeModel | None = None
    converse: dict[str, Any] | None = None


class _CountTokens(Shape, frozen=True, kw_only=True):
    input: _CountInput


def _count_tokens(call: Call, model: str) -> Reply:
    """Of base models alone: a profile says where to run, and nothing is run."""
    if _PROFILE.search(model):
        raise Refused("the provided model doesn't support counting tokens")
    asked = decode(call.body, _CountTokens).input
    if asked.invoke_model is not None and asked.converse is None:
        if "claude" not in model:
            raise Refused("malformed input request: this model does not speak the Messages API")
        said = _read_invoke(asked.invoke_model.body, model).answer()
    elif asked.converse is not None and asked.invoke_model is None:
        said = converse.read(document(asked.converse), model)[1].answer()
    else:
        raise Refused("input: exactly one member has to be set")
    return json_reply({"inputTokens": said.tokens.prompt}, headers=[_REQUEST_ID])


_OPERATIONS: Final[Mapping[str, Callable[[Call, str], Reply]]] = {
    "converse": _converse,
    "count-tokens": _count_tokens,
    "converse-stream": _converse_stream,
    "invoke": _invoke,
    "invoke-with-response-stream": _invoke_stream,
}


def chunk(event: Mapping[str, Any]) -> bytes:
    """One event of a model, as InvokeModelWithResponseStream wraps it."""
    return event_frame("chunk", {"bytes": base64.b64encode(document(event)).decode()})


def _chunks(said: Said, model: str) -> Iterator[bytes]:
    for event in events(said, model=model):
        if event["type"] == "message_stop":
            metrics = _counts(said.tokens, "{}TokenCount", "input", "output", "cacheReadInput")
            event["amazon-bedrock-invocationMetrics"] = {**metrics, "invocationLatency": 420, "firstByteLatency": 210}
        yield chunk(event)


def _counts(tokens: Tokens, form: str, *names: str) -> dict[str, int]:
    values = (tokens.fresh, tokens.output, tokens.cached)
    return {form.format(name): value for name, value in zip(names, values, strict=True)}


def _short(model: str) -> str:
    """``claude-x`` of ``us.anthropic.claude-x-v1:0``: what the model calls itself."""
    return re.sub(r"-v\d+:\d+$", "", model.rpartition("anthropic.")[2])


def _frames(stream: Iterator[bytes], *headers: tuple[str, str]) -> Reply:
    return Reply(headers=(("content-type", CONTENT_TYPE), _REQUEST_ID, *headers), pieces=tuple(stream))


def error(refused: Refused) -> Reply:
    """A message, and the name of the error in a header."""
    kind = refused.kind or _KINDS.get(refused.status, "ValidationException")
    headers = [_REQUEST_ID, ("x-amzn-errortype", kind)]
    return json_reply({"message": refused.message}, status=refused.status, headers=headers)
