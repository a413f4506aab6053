"""Backends that speak the client's own API, OpenAI's: the body is edited as bytes and never rebuilt.

Answers pass unchanged and are only observed, with one exception: where usage was asked for by us, the client's
stream is cleaned of the report that it did not ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from extproc.endpoints.base import ParsedRequest
from extproc.formats import jsonedit
from extproc.formats.sse import SSEEvent, SSEReader, encode_event
from extproc.paths import join_path
from extproc.translate.base import Headers, TranslatedRequest, TranslatedResponse
from extproc.translate.openai_errors import pass_or_wrap
from extproc.translate.openai_usage import Report, read_report
from extproc.usage import NO_USAGE, TokenUsage

UsageReader = Callable[[object], TokenUsage]

_MODEL = jsonedit.parse_path("model")
_USAGE = jsonedit.parse_path("usage")

# An answer that is not a stream is kept until it is whole; one beyond this is passed on unobserved.
MAX_OBSERVED_BYTES = 256 * 1024 * 1024


def override_model(body: bytes, model: str) -> bytes:
    """The body with its top-level ``model`` replaced, every spelling of it, so that no duplicate slips past."""
    return jsonedit.set_value(body, _MODEL, jsonedit.encode_string(model), every=True)


class OpenAIPassThrough:
    """An OpenAI endpoint on a backend of schema ``OpenAI``.

    Args:
        suffix: the endpoint's path below the backend's prefix.
        prefix: the backend's path prefix.
        model_override: the backend's name for the model, or empty.
        read_usage: how this endpoint reports usage.
        unreported: the usage of an answer that reports none.
    """

    def __init__(
        self,
        *,
        suffix: str,
        prefix: str,
        model_override: str,
        read_usage: UsageReader,
        unreported: TokenUsage = NO_USAGE,
    ) -> None:
        self._path = join_path(prefix, suffix)
        self._model_override = model_override
        self._read_usage = read_usage
        self._unreported = unreported
        self._model = model_override
        self._model_reported = False
        self._stream = False
        self._hide_usage = False
        self._reader: SSEReader | None = None
        self._held: list[bytes] = []
        self._held_bytes = 0

    def request(self, request: ParsedRequest, *, query: str, force: bool) -> TranslatedRequest:
        self._model = self._model_override or request.model
        self._stream = request.stream
        self._hide_usage = request.hide_usage
        body: bytes | None = None
        if self._model_override:
            body = override_model(request.body, self._model_override)
        elif force:
            body = request.body
        return TranslatedRequest(path=f"{self._path}?{query}" if query else self._path, body=body)

    @property
    def rewrites_stream(self) -> bool:
        return self._hide_usage

    def response_headers(self, headers: Mapping[str, str]) -> Headers:
        # The type of the answer decides before what was asked for: some backends ignore `stream`, some always stream.
        content_type = headers.get("content-type", "").lower()
        if "event-stream" in content_type or (self._stream and "json" not in content_type):
            self._reader = SSEReader()
        return []

    def response_body(self, piece: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        if self._reader is not None:
            return self._stream_piece(self._reader, piece, end_of_stream=end_of_stream)
        return self._document_piece(piece, end_of_stream=end_of_stream)

    def response_error(self, status: str, headers: Mapping[str, str], body: bytes) -> TranslatedResponse:
        return pass_or_wrap(status, headers, body)

    def _document_piece(self, piece: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        if self._held_bytes or not end_of_stream:
            self._hold(piece)
        if not end_of_stream:
            return TranslatedResponse(model=self._model)
        report = read_report(b"".join(self._held) if self._held_bytes else piece)
        if report is None:
            return TranslatedResponse(model=self._model)
        self._model = report.model_name() or self._model
        usage = self._unreported.merge(self._read_usage(report.usage))
        return TranslatedResponse(usage=usage, model=self._model, complete=True)

    def _hold(self, piece: bytes) -> None:
        self._held_bytes += len(piece)
        if self._held_bytes > MAX_OBSERVED_BYTES:
            self._held.clear()
        else:
            self._held.append(piece)

    def _stream_piece(self, reader: SSEReader, piece: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        events = reader.feed(piece)
        if end_of_stream:
            events += reader.flush()
        usage, complete = NO_USAGE, False
        output: list[bytes] = []
        for event in events:
            raw: bytes = event.raw
            if event.data == b"[DONE]":
                complete = True
            elif b'"usage"' in event.data:
                report = self._observe(event)
                if report is not None and report.usage is not None:
                    usage = usage.merge(self._read_usage(report.usage))
                    raw = _without_usage(event, report) if self._hide_usage else raw
            elif not self._model_reported and b'"model"' in event.data:
                self._observe(event)
            output.append(raw)
        body = b"".join(output) if self._hide_usage else None
        return TranslatedResponse(body=body, usage=usage, model=self._model, complete=complete)

    def _observe(self, event: SSEEvent) -> Report | None:
        report = read_report(event.data)
        if report is not None and (model := report.model_name()):
            self._model = model
            self._model_reported = True
        return report


def _without_usage(event: SSEEvent, report: Report) -> bytes:
    """An event cleaned of a usage report: gone when it says nothing else, else kept without it."""
    if report.has_choices():
        return encode_event(jsonedit.delete(event.data, _USAGE), event.event)
    return b""
