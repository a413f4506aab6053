"""The messages API on Amazon Bedrock's Converse API (contract, messages 5.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extproc.endpoints.base import ParsedRequest
from extproc.endpoints.messages import PATH
from extproc.errors import UnprocessableRequest
from extproc.translate.aws import anthropic_betas, model_path
from extproc.translate.base import Factory, Headers, Target, TranslatedRequest, TranslatedResponse, media_type
from extproc.translate.count_tokens.aws import is_claude
from extproc.translate.messages.bedrock.answer import read_answer
from extproc.translate.messages.bedrock.errors import service_error
from extproc.translate.messages.bedrock.request import build_request, encode, read_request
from extproc.translate.messages.bedrock.stream import MessageStream
from extproc.usage import NO_USAGE


class BedrockMessages:
    """One attempt at a message on an AWSBedrock backend."""

    rewrites_stream = True
    rebuilds_body = True

    def __init__(self, target: Target) -> None:
        self._target = target
        self._model = target.model_override
        self._request_id = ""
        self._stream: MessageStream | None = None
        self._reported = NO_USAGE
        self._held: list[bytes] = []

    def request(self, request: ParsedRequest, *, query: str, force: bool) -> TranslatedRequest:  # noqa: ARG002
        """The client's query belongs to its own API, so it stays here."""
        self._model = self._target.model_override or request.model
        if not self._model:
            raise UnprocessableRequest("model is required")
        betas = anthropic_betas(self._target, request.body) if is_claude(self._model) else []
        body = encode(build_request(read_request(request.body, PATH), betas=betas))
        if request.stream:
            self._stream = MessageStream(self._model, request_id=lambda: self._request_id, target=self._target)
        action = "converse-stream" if request.stream else "converse"
        return TranslatedRequest(path=model_path(self._model, action), removes=("anthropic-beta",), body=body)

    def response_headers(self, headers: Mapping[str, str]) -> Headers:
        self._request_id = headers.get("x-amzn-requestid", "")
        wanted = "application/json" if self._stream is None else "text/event-stream"
        return [] if media_type(headers) == wanted else [("content-type", wanted)]

    def response_body(self, piece: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        if self._stream is not None:
            return self._stream_piece(self._stream, piece, end_of_stream=end_of_stream)
        self._held.append(piece)
        if not end_of_stream:
            return TranslatedResponse(body=b"", model=self._model)
        document = b"".join(self._held)
        self._held.clear()
        return read_answer(document, model=self._model, request_id=self._request_id, target=self._target)

    def _stream_piece(self, stream: MessageStream, piece: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        stream.feed(piece)
        if end_of_stream:
            stream.end()
        usage = NO_USAGE if stream.usage is self._reported else stream.usage
        self._reported = stream.usage
        return TranslatedResponse(
            # Never `None`: what the backend sent must not reach the client.
            body=stream.take(),
            usage=usage,
            model=self._model,
            complete=stream.ended,
            failure=stream.failure,
            unknown_stop=stream.unknown_stop,
        )

    def response_error(self, status: str, headers: Mapping[str, str], body: bytes) -> TranslatedResponse:
        return service_error(status, headers, body)


BEDROCK: Final[Mapping[str, Factory]] = {"AWSBedrock": BedrockMessages}
"""Backend schema → translator."""
