"""Backends that speak the client's own API, OpenAI's or Azure's: the body is edited as bytes and never rebuilt.

Answers pass unchanged and are only observed, with one exception: where usage was asked for by us, the client's
stream is cleaned of the report that it did not ask for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from urllib.parse import quote

from extproc.endpoints.base import ParsedRequest
from extproc.errors import UnprocessableRequest
from extproc.formats import jsonedit
from extproc.formats.sse import SSEEvent, SSEReader, encode_event
from extproc.paths import join_path
from extproc.translate.base import Headers, TranslatedRequest, TranslatedResponse
from extproc.translate.openai_errors import pass_or_wrap
from extproc.translate.openai_usage import Report, only_reports_usage, read_report
from extproc.usage import NO_USAGE, TokenUsage

UsageReader = Callable[[object], TokenUsage]

_MODEL = jsonedit.parse_path("model")
_USAGE = jsonedit.parse_path("usage")

# The member that names the model, as chunks repeat it.
_MODEL_MEMBER = re.compile(rb'"model"\s*:\s*"([^"\\]*)"')

# An answer that is not a stream is kept until it is whole; one beyond this is passed on unobserved.
MAX_OBSERVED_BYTES = 256 * 1024 * 1024


def override_model(body: bytes, model: str, *, former: str = "") -> bytes:
    """The body with its top-level ``model`` replaced, every spelling of it, so that no duplicate slips past.

    Args:
        body: a JSON object.
        model: the new name.
        former: the name that is known to be there, or empty.
    """
    # The name is spelled once, and cannot be spelled otherwise: this is it. A general edit takes ten times as long.
    if former and body.count(b'"model"') == 1 and b"\\u" not in body and (member := _MODEL_MEMBER.search(body)):
        start, end = member.span(1)
        return b"".join((body[: start - 1], jsonedit.encode_string(model), body[end + 1 :]))
    return jsonedit.set_value(body, _MODEL, jsonedit.encode_string(model), every=True)


PathRule = Callable[[str, str], str]
"""The effective model and the client's query → the ``:path`` at the backend."""


@lru_cache(maxsize=1024)
def openai_path(prefix: str, suffix: str) -> PathRule:
    """Below the backend's prefix; the client's query speaks the same API, so it goes along."""
    path = join_path(prefix, suffix)
    return lambda _model, query: f"{path}?{query}" if query else path


@lru_cache(maxsize=1024)
def azure_path(version: str, suffix: str) -> PathRule:
    """Azure takes the model from the path, as the name of a deployment (contract, chat 7).

    A client's query goes along, but the API version that is configured wins.
    """

    def path(model: str, query: str) -> str:
        if not model:
            raise UnprocessableRequest("model is required, it names the deployment")
        parameters = [] if not version else [f"api-version={quote(version, safe='')}"]
        parameters += [
            each for each in query.split("&") if each and not (version and each.partition("=")[0] == "api-version")
        ]
        deployment = quote(model, safe="")
        if deployment in {".", ".."}:
            # Whoever resolves dot segments would send the request to another resource.
            deployment = deployment.replace(".", "%2E")
        path = f"/openai/deployments/{deployment}/{suffix}"
        return f"{path}?{'&'.join(parameters)}" if parameters else path

    return path


class OpenAIPassThrough:
    """An OpenAI endpoint on a backend of schema ``OpenAI`` or ``AzureOpenAI``.

    Args:
        path: where the endpoint is at the backend.
        names_model_in_body: the backend takes the model from the body, so an override goes there.
        model_override: the backend's name for the model, or empty.
        read_usage: how this endpoint reports usage.
        unreported: the usage of an answer that reports none.
    """

    rebuilds_body = False

    def __init__(
        self,
        *,
        path: PathRule,
        names_model_in_body: bool = True,
        model_override: str,
        read_usage: UsageReader,
        unreported: TokenUsage = NO_USAGE,
    ) -> None:
        self._path = path
        self._names_model_in_body = names_model_in_body
        self._model_override = model_override
        self._read_usage = read_usage
        self._unreported = unreported
        self._model = model_override
        self._model_text = b""
        self._usage = NO_USAGE
        self._stream = False
        self._hide_usage = False
        self._reader: SSEReader | None = None
        self._document: bool | None = None
        self._cleans = False
        self._held: list[bytes] = []
        self._held_bytes = 0

    def request(self, request: ParsedRequest, *, query: str, force: bool) -> TranslatedRequest:
        self._model = self._model_override or request.model
        self._stream = request.stream
        self._hide_usage = request.hide_usage
        body: bytes | None = None
        if self._model_override and self._names_model_in_body:
            try:
                body = override_model(request.body, self._model_override, former=request.model)
            except jsonedit.JSONEditError as error:
                raise UnprocessableRequest(f"the model cannot be replaced: {error}") from error
        elif force:
            body = request.body
        return TranslatedRequest(path=self._path(self._model, query), body=body)

    @property
    def rewrites_stream(self) -> bool:
        return self._cleans

    def response_headers(self, headers: Mapping[str, str]) -> Headers:
        content_type = headers.get("content-type", "").lower()
        self._cleans = self._hide_usage and "json" not in content_type
        if "event-stream" in content_type:
            self._reader = SSEReader()
        return []

    def response_body(self, piece: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        if self._reader is None and not self._is_document(piece):
            self._reader = SSEReader()
        if self._reader is not None:
            return self._stream_piece(self._reader, piece, end_of_stream=end_of_stream)
        return self._document_piece(piece, end_of_stream=end_of_stream)

    def _is_document(self, piece: bytes) -> bool:
        """Whether the answer is one JSON document rather than events.

        Backends mislabel answers, and some ignore ``stream``; how the body begins tells what it is.
        """
        if self._document is None and (start := piece.lstrip()[:1]):
            self._document = not self._stream or start in (b"{", b"[")
        return self._document is not False

    def response_error(self, status: str, headers: Mapping[str, str], body: bytes) -> TranslatedResponse:
        return pass_or_wrap(status, headers, body)

    def _document_piece(self, piece: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        if self._held_bytes or not end_of_stream:
            self._hold(piece)
        usage, complete = NO_USAGE, False
        if end_of_stream:
            report = read_report(b"".join(self._held) if self._held_bytes else piece)
            self._held.clear()
            if report is not None:
                self._model = report.model_name() or self._model
                usage, complete = self._unreported.merge(self._read_usage(report.usage)), True
        # Where pieces were announced as rewritten, they go on as they were read.
        body = piece if self._cleans else None
        return TranslatedResponse(body=body, usage=usage, model=self._model, complete=complete)

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
            elif _may_hold(event.data, b'"usage"'):
                report = self._observe(event)
                if report is not None and report.usage is not None:
                    usage = self._usage = self._usage.merge(self._read_usage(report.usage))
                    raw = _without_usage(event) if self._cleans else raw
            elif self._may_name_another_model(event.data):
                self._observe(event)
            output.append(raw)
        body = b"".join(output) if self._cleans else None
        return TranslatedResponse(body=body, usage=usage, model=self._model, complete=complete)

    def _may_name_another_model(self, data: bytes) -> bool:
        """Chunks repeat the model's name; one that repeats it to the letter need not be parsed."""
        return _may_hold(data, b'"model"') and not (self._model_text and self._model_text in data)

    def _observe(self, event: SSEEvent) -> Report | None:
        report = read_report(event.data)
        if report is not None and (model := report.model_name()):
            self._model = model
            named = _MODEL_MEMBER.search(event.data)
            self._model_text = named.group() if named and named.group(1) == model.encode() else b""
        return report


def _may_hold(data: bytes, key: bytes) -> bool:
    # A key may be spelled with escapes; so those of lower-case letters begin.
    return key in data or b"\\u006" in data or b"\\u007" in data


def _without_usage(event: SSEEvent) -> bytes:
    """An event cleaned of a usage report: gone when it says nothing else, else kept without it."""
    if only_reports_usage(event.data):
        return b""
    data = event.data
    for _ in range(jsonedit.duplicate_keys(data, "usage")):
        data = jsonedit.delete(data, _USAGE)
    return encode_event(data, event.event)
