"""The messages API on backends that speak it: first-party, on Vertex AI and on Amazon Bedrock.

Bodies and answers are the same everywhere; where model, stream and version are said, and in which frames a stream
comes, is not (contract, messages 5.2 to 5.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec

from extproc.endpoints.base import ParsedRequest
from extproc.formats import jsonedit
from extproc.paths import join_path
from extproc.translate import aws, gcp
from extproc.translate.anthropic import BEDROCK_VERSION, VERSION, VERTEX_VERSION
from extproc.translate.base import (
    Factory,
    Headers,
    Target,
    TranslatedRequest,
    TranslatedResponse,
    Translator,
    media_type,
)
from extproc.translate.messages.native_body import TopLevel, bedrock_betas, header_betas, may_repeat, version
from extproc.translate.messages.native_errors import messages_error
from extproc.translate.messages.native_frames import CONTENT_TYPE, FrameReader
from extproc.translate.messages.observer import MessageObserver
from extproc.translate.observe import Observer
from extproc.translate.passthrough import PassThrough


class Place(Protocol):
    """Where the API is served, as far as requests depend on it."""

    def path(self, model: str, query: str, *, stream: bool) -> str:
        """The ``:path`` for the effective model and the client's query."""
        ...

    def request(self, request: ParsedRequest, model: str) -> tuple[Headers, bytes | None]:
        """Headers to set, and the body for the effective model; ``None`` leaves it as it is."""
        ...


class FirstParty:
    """Anthropic's own API, and servers that have it: the body names the model, a header the version.

    Args:
        target: the backend.
        suffix: of the endpoint, behind the prefix.
    """

    def __init__(self, target: Target, suffix: str) -> None:
        self._target = target
        self._suffix = suffix

    def path(self, model: str, query: str, *, stream: bool) -> str:  # noqa: ARG002 - they stand in the body
        """The client's query speaks the same API, so it goes along."""
        path = join_path(self._target.schema.anthropic_prefix, self._suffix)
        return f"{path}?{query}" if query else path

    def request(self, request: ParsedRequest, model: str) -> tuple[Headers, bytes | None]:
        return self._headers(), self._body(request, model)

    def _headers(self) -> Headers:
        if self._target.headers.get("anthropic-version"):
            return []
        return [("anthropic-version", self._target.schema.version or VERSION)]

    def _body(self, request: ParsedRequest, model: str) -> bytes | None:
        """The model by its name here; and what was routed on is what is asked for, however often it is said."""
        body = request.body
        if model == request.model and not may_repeat(body, *_SAID):
            return None
        members = TopLevel(body)
        sets = {name: said(request, model) for name, said in _SAID.items() if len(members.members(name)) > 1}
        if model != request.model:
            sets["model"] = jsonedit.encode_string(model)
        return members.edited(sets=sets) if sets else None


class VertexAI:
    """Vertex AI: the path names the model, and says beside the body whether to stream; the body has the version."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def path(self, model: str, query: str, *, stream: bool) -> str:  # noqa: ARG002 - a query is not Google's
        return gcp.model_path("anthropic", model, "streamRawPredict" if stream else "rawPredict")

    def request(self, request: ParsedRequest, model: str) -> tuple[Headers, bytes | None]:  # noqa: ARG002
        members = TopLevel(request.body)
        sets = {}
        if len(members.members("stream")) > 1:
            sets["stream"] = _boolean(request.stream)
        return self._edited(members, sets, ["model"])

    def _edited(self, members: TopLevel, sets: dict[str, bytes], cuts: list[str]) -> tuple[Headers, bytes]:
        """With the version, and with beta flags in the header, where Google looks for them."""
        sets["anthropic_version"] = version(members, self._target.schema.version, VERTEX_VERSION)
        betas = header_betas(members, self._target.headers)
        if betas is not None:
            cuts.append("anthropic_beta")
        return [("anthropic-beta", ",".join(betas))] if betas else [], members.edited(sets=sets, cuts=cuts)


class Bedrock:
    """Bedrock's InvokeModel: the path has model and stream, the body the version and the beta flags."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def path(self, model: str, query: str, *, stream: bool) -> str:  # noqa: ARG002 - a query is not Amazon's
        return aws.model_path(model, "invoke-with-response-stream" if stream else "invoke")

    def request(self, request: ParsedRequest, model: str) -> tuple[Headers, bytes | None]:  # noqa: ARG002
        members = TopLevel(request.body)
        sets = {"anthropic_version": version(members, self._target.schema.version, BEDROCK_VERSION)}
        cuts = ["model", "stream"]
        betas = bedrock_betas(members, self._target)
        if betas is None:
            cuts.append("anthropic_beta")
        else:
            sets["anthropic_beta"] = betas
        return [], members.edited(sets=sets, cuts=cuts)


def _boolean(value: bool) -> bytes:  # noqa: FBT001 - the value is what it is about
    return b"true" if value else b"false"


# Members that must not be there twice with different values, and what they are to say.
_SAID: Final[Mapping[str, Callable[[ParsedRequest, str], bytes]]] = {
    "model": lambda _, model: jsonedit.encode_string(model),
    "stream": lambda request, _: _boolean(request.stream),
}


class NativeTranslator(PassThrough):
    """One attempt at a place that serves the client's API: answers pass as they are and are only watched.

    Args:
        place: where it is.
        target: the backend.
        observer: reads what answers report.
    """

    _removes: tuple[str, ...] = ()

    def __init__(self, place: Place, target: Target, observer: Observer) -> None:
        super().__init__(
            path=lambda model, query: place.path(model, query, stream=self._stream),
            observer=observer,
            model_override=target.model_override,
            edit=self._edit_for_place,
            error=messages_error,
        )
        self._place = place
        self._headers: Headers = []

    def _edit_for_place(self, request: ParsedRequest, model_override: str) -> bytes | None:
        self._headers, body = self._place.request(request, model_override or request.model)
        return body

    def request(self, request: ParsedRequest, *, query: str, force: bool) -> TranslatedRequest:
        translated = super().request(request, query=query, force=force)
        return msgspec.structs.replace(translated, headers=tuple(self._headers), removes=self._removes)


class CloudTranslator(NativeTranslator):
    """The same at a cloud, whose own errors mean nothing to the client until they are translated."""

    def __init__(self, place: Place, target: Target, observer: Observer) -> None:
        super().__init__(place, target, observer)
        # Of an error, of which headers say nothing here.
        self.rebuilds_body = True

    def response_headers(self, headers: Mapping[str, str]) -> Headers:
        self.rebuilds_body = False
        return super().response_headers(headers)

    def response_error(self, status: str, headers: Mapping[str, str], body: bytes) -> TranslatedResponse:
        """Never without a body: Envoy may have sent none of its pieces."""
        told = super().response_error(status, headers, body)
        return told if told.body is not None else msgspec.structs.replace(told, body=body)


class BedrockTranslator(CloudTranslator):
    """The same at Bedrock, whose streams are framed."""

    # The flags stand in the body.
    _removes = ("anthropic-beta",)
    _frames: FrameReader | None = None

    @property
    def rewrites_stream(self) -> bool:
        return self._frames is not None

    def response_headers(self, headers: Mapping[str, str]) -> Headers:
        changes = super().response_headers(headers)
        if not self._stream or media_type(headers) != CONTENT_TYPE:
            return changes
        self._frames = FrameReader(self._observer, model=self._model)
        self.rebuilds_body = True
        return [("content-type", "text/event-stream")]

    def response_body(self, piece: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        if self._frames is not None:
            return self._frames.feed(piece, end_of_stream=end_of_stream)
        return super().response_body(piece, end_of_stream=end_of_stream)


def anthropic_messages(target: Target) -> Translator:
    return NativeTranslator(FirstParty(target, "messages"), target, MessageObserver())


def gcp_anthropic_messages(target: Target) -> Translator:
    return CloudTranslator(VertexAI(target), target, MessageObserver())


def aws_anthropic_messages(target: Target) -> Translator:
    return BedrockTranslator(Bedrock(target), target, MessageObserver())


NATIVE: Final[Mapping[str, Factory]] = {
    "Anthropic": anthropic_messages,
    "GCPAnthropic": gcp_anthropic_messages,
    "AWSAnthropic": aws_anthropic_messages,
}
"""Backend schema → translator."""
