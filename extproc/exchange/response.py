"""The answer of an attempt, on its way back through the router-level stream.

Observation must not harm: a body that cannot be decoded or read passes as it came, with its usage unknown. Usage is
handed to Envoy as soon as it is known, and again at the end: a client that hangs up in between is charged all the
same, and since metadata overwrites, nobody is charged twice.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import msgspec
import structlog

from extproc.errors import StreamFailure, UnreadableAnswer
from extproc.exchange import replies
from extproc.exchange.accounts import Outcome
from extproc.exchange.attempt import Attempt
from extproc.exchange.context import ExchangeContext
from extproc.exchange.headers import HeaderDict
from extproc.exchange.replies import EncodedMetadata, Metadata, Reply
from extproc.formats.encoding import DecodeError, Decoder, decoder_for
from extproc.telemetry.tracing.base import Span
from extproc.translate.base import TranslatedResponse
from extproc.translate.observe import named_error
from extproc.usage import NO_USAGE
from protos.ext_proc_pb2 import STREAMED

_log = structlog.get_logger(__name__)

_JSON = (("content-type", "application/json"),)
_MAX_DOCUMENT_BYTES = 256 * 1024
_STATUS_CODES: Final = {f"{code:03}": code for code in range(1000)}


class ResponseExchange:
    """Headers, body and trailers of one answer.

    Attributes:
        streamed: the body comes piece by piece, and the client has the headers already.
    """

    __slots__ = (
        *("_attempt", "_complete", "_context", "_decoder", "_ended", "_failure", "_headers", "_held", "_readable"),
        *("_span", "_status", "_successful", "_told", "streamed"),
    )

    def __init__(
        self,
        context: ExchangeContext,
        attempt: Attempt,
        headers: HeaderDict,
        body_mode: int | None,
        span: Span | None = None,
    ) -> None:
        self.streamed = body_mode == STREAMED
        self._context = context
        self._attempt = attempt
        self._span = span
        self._headers = headers
        self._status = headers.get(":status", "")
        status = status_code(self._status)
        self._successful = status // 100 == 2
        attempt.headers_came(status)
        self._decoder: Decoder | None = None
        # Whether the body can be read; if not, it passes untouched and unmetered.
        self._readable = True
        self._complete = False
        self._failure = ""
        self._ended = False
        self._held: list[bytes] = []
        # The error that was held has been given to the client; what still comes of it is not.
        self._told = False

    def headers(self, *, end_of_stream: bool) -> Reply:
        coding = self._headers.get("content-encoding", "")
        if coding:
            self._choose_decoder(coding)
        if not self._successful:
            if (auth := self._attempt.plan.backend.auth) is not None:
                auth.refused(self._headers, self._context.now())
            # Once more: of an attempt that failed to connect, Envoy may not have taken what was said at its start.
            named = self._attempt.plan.names
            if end_of_stream:
                self._finish()
            elif self._holds_error:
                # An Envoy that streams bodies sends the headers now; the error that follows will be another one.
                untrue = self._untrue_of_a_stream(rewritten=True)
                return replies.common("response_headers", sets=_JSON, removes=untrue, metadata=named)
            return replies.neutral("response_headers", named)
        translator = self._attempt.translator
        sets = translator.response_headers(self._headers)
        if end_of_stream:
            if translator.rebuilds_body:
                self._attempt.fail()
                raise UnreadableAnswer("it is empty")
            self._complete = True
            self._finish()
            return replies.common("response_headers", sets=sets, metadata=self._metadata())
        stream = self._attempt.plan.stream and self._status == "200"
        self.streamed = self.streamed or stream
        if not (sets or self.streamed):
            return replies.neutral("response_headers")
        return replies.common(
            "response_headers",
            sets=sets,
            removes=self._untrue_of_a_stream(rewritten=translator.rewrites_stream) if self.streamed else (),
            stream_response_body=stream,
        )

    @property
    def _holds_error(self) -> bool:
        """Whether the pieces of an error are kept, as the backend's own error means nothing to the client."""
        return self.streamed and self._readable and self._attempt.translator.rebuilds_body

    def _untrue_of_a_stream(self, *, rewritten: bool) -> list[str]:
        """Headers that will not hold for the pieces; once the first piece is out, they could not be taken back."""
        untrue = []
        if rewritten or self._attempt.plan.stream:
            untrue.append("content-length")
        if rewritten and self._decoder is not None:
            untrue.append("content-encoding")
        return untrue

    def _choose_decoder(self, coding: str) -> None:
        self._decoder = decoder_for(coding)
        if self._decoder is None:
            self._readable = False
            self._context.metrics.unknown_encoding(coding)
            _log.warning("response in an unknown content coding", coding=coding, **self._attempt.log_fields())

    def body(self, piece: bytes, *, end_of_stream: bool) -> Reply:
        if self._told:
            return replies.common("response_body", body=b"")
        if self._ended or self._attempt.outcome is not None:
            return replies.neutral("response_body")
        # A buffered body is one message, without `end_of_stream` when trailers follow it.
        whole = end_of_stream or not self.streamed
        self._ended = whole
        if not self._successful:
            return self._error_piece(piece, whole=whole)
        result = self._translate(piece, end_of_stream=whole)
        news = self._take(result)
        if whole:
            self._complete = True
            self._finish()
        return self._body_reply(result, self._metadata() if news or whole else None)

    def _take(self, result: TranslatedResponse) -> bool:
        """Take in what a piece has said; whether Envoy is to know of it now.

        A client that has read an error leaves before the stream has ended, as it does after the usage.
        """
        self._complete = self._complete or (result.complete and not result.failure)
        failed = bool(result.failure) and not self._failure
        if failed:
            self._failure = result.failure
            _log.warning("the backend's stream has failed", failure=result.failure, **self._attempt.log_fields())
        if result.unknown_stop:
            self._attempt.stopped_strangely(result.unknown_stop)
        return self._attempt.answered(result.usage, result.model) or failed

    def _translate(self, piece: bytes, *, end_of_stream: bool) -> TranslatedResponse:
        attempt = self._attempt
        if not self._readable:
            if attempt.translator.rebuilds_body:
                self._unreadable("its content coding is unknown")
            return TranslatedResponse(model=attempt.response_model)
        try:
            data = piece if self._decoder is None else self._decoder.feed(piece)
        except DecodeError as error:
            self._read_to_the_end(left=True)
            self._unreadable(str(error))
            return TranslatedResponse(model=attempt.response_model)
        if end_of_stream:
            self._check_coding_end()
        try:
            result = attempt.translator.response_body(data, end_of_stream=end_of_stream)
        except UnreadableAnswer:
            attempt.fail()
            raise
        self._show(data, result)
        return result

    def _show(self, data: bytes, result: TranslatedResponse) -> None:
        """Tell the span what the client reads."""
        if self._span is not None:
            self._span.piece(data if result.body is None else result.body)

    def _unreadable(self, reason: str) -> None:
        """The body cannot be decoded: let it pass, unless the client is to have another one.

        Raises:
            StreamFailure: pieces were sent decoded, and the next cannot be; ending the stream shows it.
            UnreadableAnswer: the backend's own body means nothing to the client.
        """
        _log.warning("response body cannot be decoded", error=reason, **self._attempt.log_fields())
        self._readable = False
        translator = self._attempt.translator
        if self.streamed and (translator.rewrites_stream or translator.rebuilds_body):
            self._attempt.fail()
            raise StreamFailure(StreamFailure.INTERNAL, "failed to decode the response body of a translated stream")
        if translator.rebuilds_body and self._successful:
            self._attempt.fail()
            raise UnreadableAnswer(reason)

    def _check_coding_end(self) -> None:
        """Say so when a coding is cut short; all that can be decoded has been, so it goes on."""
        if self._decoder is not None:
            try:
                self._decoder.finish()
            except DecodeError as error:
                _log.warning("response body ends early", error=str(error), **self._attempt.log_fields())

    def _error_piece(self, piece: bytes, *, whole: bool) -> Reply:
        """An error is translated as a whole; one in pieces that means something to the client passes."""
        if self._holds_error:
            return self._held_error(piece, whole=whole)
        if self.streamed:
            if whole:
                self._finish()
            return replies.neutral("response_body")
        result = TranslatedResponse()
        data = b""
        if self._readable:
            try:
                data = piece
                if self._decoder is not None:
                    data = self._decoder.feed(piece)
                    self._decoder.finish()
            except DecodeError as error:
                self._unreadable(str(error))
            else:
                result = self._attempt.translator.response_error(self._status, self._headers, data)
                self._show(data, result)
        if result.recovered:
            self._attempt.succeed()
            return self._body_reply(result)
        self._finish()
        return self._body_reply(result, _error_metadata(data if result.body is None else result.body))

    def _held_error(self, piece: bytes, *, whole: bool) -> Reply:
        """Tell of an error in pieces as soon as it is whole.

        Where trailers end a body, no piece says that it is the last one; a JSON document says so itself.
        """
        try:
            self._held.append(piece if self._decoder is None else self._decoder.feed(piece))
        except DecodeError as error:
            self._unreadable(str(error))
        if whole:
            self._check_coding_end()
        elif not _is_document(self._held):
            return replies.common("response_body", body=b"")
        self._told = True
        data = b"".join(self._held)
        self._held.clear()
        result = self._attempt.translator.response_error(self._status, self._headers, data)
        self._show(data, result)
        self._finish()
        return self._body_reply(result, _error_metadata(data if result.body is None else result.body))

    def _body_reply(self, result: TranslatedResponse, metadata: Metadata | EncodedMetadata | None = None) -> Reply:
        if result.body is None:
            return replies.neutral("response_body", metadata)
        if self.streamed:
            if metadata is None:
                return replies.piece("response_body", result.body)
            return replies.common("response_body", body=result.body, metadata=metadata)
        return replies.common(
            "response_body",
            # Envoy refuses a body whose length differs from its header; the processor must set it.
            sets=[*result.headers, ("content-length", str(len(result.body)))],
            removes=("content-encoding",) if self._decoder is not None else (),
            body=result.body,
            metadata=metadata,
        )

    def trailers(self) -> Reply:
        """Trailers end a body whose last piece could not say so."""
        if self._ended:
            return replies.neutral("response_trailers")
        self._ended = True
        if self._successful:
            self._read_to_the_end()
        self._complete = True
        self._finish()
        return replies.neutral("response_trailers", self._metadata() if self._successful else None)

    def close(self) -> None:
        """The stream is over. Without an end of the body, either trailers came or the client went away."""
        if self._attempt.outcome is not None:
            return
        if self._successful and self._readable and not self._ended:
            self._read_to_the_end(left=True)
        self._finish()

    def _read_to_the_end(self, *, left: bool = False) -> None:
        """Read what came as if it were all: it may hold the usage, and its last event may lack its end.

        Of an answer that was ``left`` it says nothing that this is no end.
        """
        with suppress(UnreadableAnswer):
            result = self._attempt.translator.response_body(b"", end_of_stream=True)
            if not (left and result.failure):
                self._take(result)
            elif result.usage is not NO_USAGE:
                self._attempt.answered(result.usage, result.model)

    def _finish(self) -> None:
        if self._failure or not self._successful:
            self._attempt.fail()
        elif self._complete:
            self._attempt.succeed()
        else:
            self._attempt.fail(Outcome.CLIENT_CANCELLED)

    def _metadata(self) -> EncodedMetadata | None:
        """Costs, and what access logs want to know beside them (contract 3.16)."""
        attempt = self._attempt
        return attempt.report(self._failure) if attempt.plan.metered else None


def _error_metadata(body: bytes) -> Metadata | None:
    """What access logs are told of the error that the client reads."""
    name = named_error(body)
    return {"response_error": name} if name else None


def status_code(text: str) -> int:
    """The value of ``:status``; 0 for what is none."""
    return _STATUS_CODES.get(text, 0)


def _is_document(pieces: list[bytes]) -> bool:
    """Whether pieces make a whole JSON document; of a very long one that is not asked."""
    if not pieces[-1].rstrip().endswith((b"}", b"]")) or sum(map(len, pieces)) > _MAX_DOCUMENT_BYTES:
        return False
    try:
        msgspec.json.decode(b"".join(pieces))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True
