"""Token counting where Claude is: first-party, on Vertex AI and on Amazon Bedrock (contract, count_tokens 6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from extproc.endpoints.base import ParsedRequest
from extproc.formats import jsonedit
from extproc.formats.sse import SSEEvent
from extproc.translate import gcp
from extproc.translate.base import Factory, Headers, Target, TranslatedResponse, Translator
from extproc.translate.count_tokens.aws import AWSCountTokens, invoke_model_request
from extproc.translate.messages.native import CloudTranslator, FirstParty, NativeTranslator, VertexAI
from extproc.translate.messages.native_body import TopLevel
from extproc.translate.observe import UNREMARKABLE, Observation
from extproc.usage import TokenUsage, as_count


class _Count(Struct, frozen=True):
    input_tokens: object = None


_decode_count = msgspec.json.Decoder(_Count).decode

# What decoding bytes of a stranger may raise: no JSON, no text, nested too deep, a number of absurd length.
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError)


class CountObserver:
    """Reads a count, which is all the input and nothing else."""

    def reads(self, content_type: str) -> bool:  # noqa: ARG002 - the type may be wrong
        return True

    def document(self, data: bytes) -> Observation | None:
        try:
            count = as_count(_decode_count(data).input_tokens)
        except _UNREADABLE:
            return None
        return Observation(usage=TokenUsage(input=count), reports_usage=count is not None, complete=True)

    def event(self, event: SSEEvent) -> Observation:  # noqa: ARG002 - no count comes as a stream
        return UNREMARKABLE


class VertexCounter(VertexAI):
    """Vertex AI counts by a model of its own, so the one that is asked about stands in the body."""

    def path(self, model: str, query: str, *, stream: bool) -> str:  # noqa: ARG002
        return gcp.model_path("anthropic", "count-tokens", "rawPredict")

    def request(self, request: ParsedRequest, model: str) -> tuple[Headers, bytes | None]:
        return self._edited(TopLevel(request.body), {"model": jsonedit.encode_string(counted_model(model))}, [])


def counted_model(model: str) -> str:
    """The model as the counter knows it: without a publisher, and without a version that means the newest."""
    return gcp.model_name("anthropic", model).removesuffix("@default").removesuffix("@latest")


def _unnamed(response: TranslatedResponse) -> TranslatedResponse:
    """A count is no answer of a model (contract, count_tokens 6.3)."""
    return msgspec.structs.replace(response, model="")


class _FirstPartyCount(NativeTranslator):
    def response_body(self, piece: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        return _unnamed(super().response_body(piece, end_of_stream=end_of_stream))


class _VertexCount(CloudTranslator):
    def response_body(self, piece: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        return _unnamed(super().response_body(piece, end_of_stream=end_of_stream))


def anthropic_count(target: Target) -> Translator:
    return _FirstPartyCount(FirstParty(target, "messages/count_tokens"), target, CountObserver())


def gcp_anthropic_count(target: Target) -> Translator:
    return _VertexCount(VertexCounter(target), target, CountObserver())


def aws_anthropic_count(target: Target) -> Translator:
    return AWSCountTokens(target, invoke_model_request)


NATIVE: Final[Mapping[str, Factory]] = {
    "Anthropic": anthropic_count,
    "GCPAnthropic": gcp_anthropic_count,
    "AWSAnthropic": aws_anthropic_count,
}
"""Backend schema → translator."""
