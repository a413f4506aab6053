"""Watching answers that pass as they are: what one reports of usage and model.

Readers are lenient: what cannot be read is treated as not reported, because an observation must never break an answer
that the client can use.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Struct

from extproc.formats.sse import SSEEvent
from extproc.translate.openai_errors import MAX_TYPE_LENGTH
from extproc.translate.openai_usage import UNREADABLE, UsageReport
from extproc.usage import NO_USAGE, TokenUsage


class Observation(Struct, frozen=True, kw_only=True):
    """What a document, or one event of a stream, reports.

    Attributes:
        usage: the counts that it has; an event's take the place of those before it, count by count.
        reports_usage: it has a report, whether or not that says anything.
        model: the model that the backend says it used, or empty.
        complete: nothing that matters can follow.
        failure: the name of the error that the answer ended with, as the client reads it there; empty without one.
    """

    usage: TokenUsage = NO_USAGE
    reports_usage: bool = False
    model: str = ""
    complete: bool = False
    failure: str = ""


UNREMARKABLE = Observation()


class Observer(Protocol):
    """Reads the answers of one API. An instance serves one attempt and may keep state of it."""

    def reads(self, content_type: str) -> bool:
        """Whether a document of this type can report anything, so that it is worth keeping until it is whole."""
        ...

    def document(self, data: bytes) -> Observation | None:
        """Read a whole answer; ``None`` when it is none of this API."""
        ...

    def event(self, event: SSEEvent) -> Observation:
        """Read one event of a stream."""
        ...


MODEL_MEMBER = re.compile(rb'"model"\s*:\s*"([^"\\]*)"')
"""The member that names the model, as requests have it and chunks repeat it, if it is spelled without escapes."""

DONE = Observation(complete=True)
"""What ``[DONE]`` says."""


class UsageObserver(Struct, eq=False):
    """An API whose documents and events have ``model`` and ``usage`` at their top, as OpenAI's older ones do.

    Args:
        read: reads a document.
        unreported: input, output and total of a document that reports none.
    """

    read: Callable[[bytes], UsageReport | None]
    unreported: TokenUsage = NO_USAGE
    _model_text: bytes = b""

    def reads(self, content_type: str) -> bool:  # noqa: ARG002 - the type may be wrong
        return True

    def document(self, data: bytes) -> Observation | None:
        report = self.read(data)
        if report is None:
            return None
        usage = report.usage
        if usage.total is None or usage.input is None or usage.output is None:
            usage = self.unreported.merge(usage)
        return Observation(usage=usage, reports_usage=True, model=report.model, complete=True)

    def event(self, event: SSEEvent) -> Observation:
        data = event.data
        if data == b"[DONE]":
            return DONE
        if data.find(b'"error"') >= 0 and (failure := _failure(data)):
            return msgspec.structs.replace(self._reported(data), complete=True, failure=failure)
        return self._reported(data)

    def _reported(self, data: bytes) -> Observation:
        if may_hold(data, b'"usage"'):
            report = self._observe(data)
            if report is None:
                return UNREMARKABLE
            return Observation(usage=report.usage, reports_usage=report.reports_usage, model=report.model)
        # Chunks repeat the model's name; one that repeats it to the letter need not be parsed.
        if may_hold(data, b'"model"') and not (self._model_text and data.find(self._model_text) >= 0):
            report = self._observe(data)
            if report is not None and report.model:
                return Observation(model=report.model)
        return UNREMARKABLE

    def _observe(self, data: bytes) -> UsageReport | None:
        report = self.read(data)
        if report is not None and report.model:
            named = MODEL_MEMBER.search(data)
            self._model_text = named.group() if named and named.group(1) == report.model.encode() else b""
        return report


def may_hold(data: bytes, key: bytes) -> bool:
    """Whether JSON text may have this member, quotes included in ``key``: a cheap look that is never wrong in a no.

    A key may be spelled with escapes; so those of lower-case letters begin.
    """
    # `in` takes twice as long: it asks first whether the key is a number.
    return data.find(key) >= 0 or data.find(b"\\u006") >= 0 or data.find(b"\\u007") >= 0


class _Failed(Struct, frozen=True):
    error: object = None
    code: object = None


_MAX_ERROR_BYTES = 256 * 1024
_decode_failed = msgspec.json.Decoder(_Failed).decode


def _failure(data: bytes) -> str:
    """The name of the error that an event tells of; empty for an event of another kind."""
    try:
        told = _decode_failed(data)
    except UNREADABLE:
        return ""
    return error_name(told.error, told.code) if told.error else ""


def error_name(error: object, code: object) -> str:
    """What an error of OpenAI's APIs is called: by its code, else by its type.

    Args:
        error: the member ``error`` of what tells of it.
        code: the member ``code`` beside that.
    """
    told = error if isinstance(error, dict) else {}
    names = (told.get("code"), code, told.get("type"))
    return next((each for each in names if isinstance(each, str) and each), "server_error")[:MAX_TYPE_LENGTH]


def named_error(body: bytes) -> str:
    """What the error that a client reads is called, in OpenAI's or Anthropic's shape; empty without a name.

    A code that only repeats the status is no name.
    """
    if len(body) > _MAX_ERROR_BYTES:
        return ""
    try:
        error = _decode_failed(body).error
    except UNREADABLE:
        return ""
    names = (error.get("code"), error.get("type")) if isinstance(error, dict) else ()
    named = (each for each in names if isinstance(each, str) and each and not each.isdecimal())
    return next(named, "")[:MAX_TYPE_LENGTH]
