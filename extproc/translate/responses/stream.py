"""An answer of chat completions as one of the responses API: the document, or the events that tell it.

Both are written from the same items, so a client that streams ends up with what another one reads at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from extproc.errors import UnreadableAnswer
from extproc.translate.responses import wire
from extproc.translate.responses.details import failure, usage_object
from extproc.translate.responses.output import Output
from extproc.translate.via_chat.answers import Answer, ErrorObject
from extproc.usage import TokenUsage

_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Finish reasons of an answer that is not whole, and the API's words for them."""


class AnswerWriter:
    """Writes one answer; a ``StreamWriter``.

    Args:
        begun: the response at its begin, which tells the client what it asked for.
        now: the time, in seconds since 1970.
        output: makes the collector of its items, given what numbers its events.
    """

    def __init__(
        self,
        begun: wire.Response,
        *,
        now: Callable[[], float],
        output: Callable[[Callable[[], int]], Output],
    ) -> None:
        self._response = begun
        self._now = now
        self._output = output(self._next)
        self._number = 0
        self._begun = False
        self._finish_reason = ""
        self._events: list[wire.Event] = []

    @property
    def response(self) -> wire.Response:
        """The response as far as it has come."""
        return self._response

    def chunk(self, answer: Answer) -> None:
        self._identify(answer)
        choice = answer.first
        # What Azure thinks of the prompt, or the usage; the answer has not begun with it.
        if choice is None:
            return
        self._begin()
        self._finish_reason = choice.finish_reason or self._finish_reason
        if choice.delta is not None:
            self._output.add(choice, choice.delta)
            self._events += self._output.take()

    def finish(self, usage: TokenUsage) -> None:
        self._begin()
        reason = _INCOMPLETE.get(self._finish_reason)
        status = wire.COMPLETED if reason is None else wire.INCOMPLETE
        items = self._output.close(status)
        self._events += self._output.take()
        self._change(
            status=status,
            completed_at=int(self._now()) if reason is None else None,
            incomplete_details=None if reason is None else wire.IncompleteDetails(reason=reason),
            output=items,
            usage=usage_object(usage),
        )
        self._tell(wire.Completed if reason is None else wire.Incomplete)

    def fail(self, error: ErrorObject) -> None:
        self._begin()
        self._change(status=wire.FAILED, error=failure(error), output=self._output.so_far())
        self._tell(wire.Failed)

    def take(self) -> bytes:
        written = b"".join(wire.event_bytes(event) for event in self._events)
        self._events.clear()
        return written

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._tell(wire.Created)
            self._tell(wire.InProgress)

    def _identify(self, answer: Answer) -> None:
        if answer.model and answer.model != self._response.model:
            self._change(model=answer.model)
        if answer.service_tier and answer.service_tier != self._response.service_tier:
            self._change(service_tier=answer.service_tier)

    def _change(self, **members: object) -> None:
        self._response = msgspec.structs.replace(self._response, **members)

    def _tell(self, event: Callable[..., wire.Event]) -> None:
        self._events.append(event(sequence_number=self._next(), response=self._response))

    def _next(self) -> int:
        number = self._number
        self._number += 1
        return number


def document(answer: Answer, usage: TokenUsage, writer: AnswerWriter) -> bytes:
    """The response of a whole answer.

    Args:
        answer: the chat completion.
        usage: what it reports.
        writer: a fresh one, whose events nobody reads.

    Raises:
        UnreadableAnswer: it has no message.
    """
    choice = answer.first
    if choice is None or choice.message is None:
        raise UnreadableAnswer("it has no message")
    said = msgspec.structs.replace(choice, delta=choice.message)
    writer.chunk(msgspec.structs.replace(answer, choices=[said]))
    writer.finish(usage)
    return wire.encode(writer.response)
