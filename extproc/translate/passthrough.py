"""Backends that speak the client's own API: the body is edited as bytes and never rebuilt.

Answers pass unchanged and are only observed, with one exception: where usage was asked for by us, the client's
stream is cleaned of the report that it did not ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from urllib.parse import quote

from extproc.endpoints.base import ParsedRequest
from extproc.errors import UnprocessableRequest
from extproc.formats import jsonedit
from extproc.formats.sse import SSEEvent, SSEReader, encode_event
from extproc.paths import join_path
from extproc.translate.base import Headers, TranslatedRequest, TranslatedResponse
from extproc.translate.observe import MODEL_MEMBER, Observer
from extproc.translate.openai_errors import pass_or_wrap
from extproc.translate.openai_usage import only_reports_usage
from extproc.usage import NO_USAGE

_MODEL = jsonedit.parse_path("model")
_USAGE = jsonedit.parse_path("usage")

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
    if former and body.count(b'"model"') == 1 and b"\\u" not in body and (member := MODEL_MEMBER.search(body)):
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


RequestEdit = Callable[[ParsedRequest, str], bytes | None]
"""The client's request and the backend's name for the model, or empty → the body; ``None`` leaves it as it is.

Raises ``jsonedit.JSONEditError`` or ``UnprocessableRequest`` when that cannot be done.
"""

ErrorRule = Callable[[str, Mapping[str, str], bytes], TranslatedResponse]
"""Status, headers and body of an error answer → what the client gets."""


def name_model(request: ParsedRequest, model_override: str) -> bytes | None:
    """The backend takes the model from the JSON body, so an override goes there."""
    return override_model(request.body, model_override, former=request.model) if model_override else None


def leave_body(_request: ParsedRequest, _model_override: str) -> bytes | None:
    """The backend takes the model from elsewhere."""
    return None


class PassThrough:
    """One attempt at a backend of the client's own API.

    Args:
        path: where the endpoint is at the backend.
        observer: reads what answers report.
        model_override: the backend's name for the model, or empty.
        edit: what the body needs.
        error: what becomes of error answers.
    """

    rebuilds_body = False

    _model = ""
    _usage = NO_USAGE
    _stream = False
    _hide_usage = False
    _reader: SSEReader | None = None
    _document: bool | None = None
    _observes = True
    _cleans = False
    _held_bytes = 0

    def __init__(
        self,
        path: PathRule,
        observer: Observer,
        model_override: str,
        *,
        edit: RequestEdit = name_model,
        error: ErrorRule = pass_or_wrap,
    ) -> None:
        self._path = path
        self._observer = observer
        self._model_override = model_override
        self._edit = edit
        self._error = error
        self._held: list[bytes] = []

    def request(self, request: ParsedRequest, *, query: str, force: bool) -> TranslatedRequest:
        self._model = self._model_override or request.model
        self._stream = request.stream
        self._hide_usage = request.hide_usage
        try:
            body = self._edit(request, self._model_override)
        except jsonedit.JSONEditError as error:
            raise UnprocessableRequest(f"the model cannot be replaced: {error}") from error
        if body is None and force:
            body = request.body
        return TranslatedRequest(path=self._path(self._model, query), body=body)

    @property
    def rewrites_stream(self) -> bool:
        return self._cleans

    def response_headers(self, headers: Mapping[str, str]) -> Headers:
        content_type = headers.get("content-type", "").lower()
        self._cleans = self._hide_usage and "json" not in content_type
        if "event-stream" in content_type:
            # As if it had been asked for; a document that is called a stream is found out by how it begins.
            self._stream = True
        else:
            self._observes = self._observer.reads(content_type)
            if not self._observes:
                # How it begins says nothing: sound, for instance, may begin with any byte.
                self._document = True
        return []

    def response_body(self, piece: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        if self._reader is None and not self._is_document(piece):
            self._reader = SSEReader()
        if self._reader is not None:
            return self._stream_piece(self._reader, piece, end_of_stream=end_of_stream)
        return self._document_piece(piece, end_of_stream=end_of_stream)

    def _is_document(self, piece: bytes) -> bool:
        """Whether the answer is one document rather than events.

        Backends mislabel answers, and some ignore ``stream``; how the body begins tells what it is.
        """
        if self._document is None and (start := piece.lstrip()[:1]):
            self._document = not self._stream or start in (b"{", b"[")
        return self._document is not False

    def response_error(self, status: str, headers: Mapping[str, str], body: bytes) -> TranslatedResponse:
        return self._error(status, headers, body)

    def _document_piece(self, piece: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        if self._observes and (self._held_bytes or not end_of_stream):
            self._hold(piece)
        usage, complete, failure = NO_USAGE, False, ""
        if end_of_stream and self._observes:
            seen = self._observer.document(b"".join(self._held) if self._held_bytes else piece)
            self._held.clear()
            if seen is not None:
                self._model = seen.model or self._model
                usage, complete, failure = seen.usage, seen.complete, seen.failure
        # Where pieces were announced as rewritten, they go on as they were read.
        body = piece if self._cleans else None
        return TranslatedResponse(body=body, usage=usage, model=self._model, complete=complete, failure=failure)

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
        usage, complete, failure = NO_USAGE, False, ""
        output: list[bytes] = []
        for event in events:
            seen = self._observer.event(event)
            raw: bytes = event.raw
            if seen.reports_usage:
                usage = self._usage = self._usage.merge(seen.usage)
                raw = _without_usage(event) if self._cleans else raw
            self._model = seen.model or self._model
            complete = complete or seen.complete
            failure = failure or seen.failure
            output.append(raw)
        body = b"".join(output) if self._cleans else None
        return TranslatedResponse(body=body, usage=usage, model=self._model, complete=complete, failure=failure)


def _without_usage(event: SSEEvent) -> bytes:
    """An event cleaned of a usage report: gone when it says nothing else, else kept without it."""
    if only_reports_usage(event.data):
        return b""
    data = event.data
    for _ in range(jsonedit.duplicate_keys(data, "usage")):
        data = jsonedit.delete(data, _USAGE)
    return encode_event(data, event.event)
