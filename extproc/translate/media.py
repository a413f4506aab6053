"""What the APIs for images and sound share on backends of OpenAI's kind: where they are, forms, and usage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from extproc.endpoints.base import ParsedRequest
from extproc.errors import UnprocessableRequest
from extproc.formats import multipart
from extproc.formats.multipart import MultipartError
from extproc.formats.sse import SSEEvent
from extproc.translate.base import Factory, Target
from extproc.translate.observe import DONE, UNREMARKABLE, Observation, Observer, error_name
from extproc.translate.openai_usage import UNREADABLE, chat_usage, read_report
from extproc.translate.passthrough import PassThrough, azure_path, name_model, openai_path
from extproc.usage import NO_USAGE, TokenUsage, as_count


def name_model_in_form(request: ParsedRequest, model_override: str) -> bytes | None:
    """An override goes into the parts that name the model; a body that is no form is JSON.

    The content type, and with it the boundary, stays the client's, so that every attempt sends the same.
    """
    if not request.content_type:
        return name_model(request, model_override)
    if not model_override:
        return None
    try:
        form = multipart.read(request.body, multipart.boundary_of(request.content_type))
        return form.replace(form.named("model"), model_override)
    except MultipartError as error:
        raise UnprocessableRequest(f"the model cannot be replaced: {error}") from error


# Details of the input have two names in these APIs.
_INPUT_DETAILS: Final = ("input_tokens_details", "input_token_details")


def media_usage(usage: object) -> TokenUsage:
    """Usage of images and sound: by input and output tokens, or in the words of chat completions.

    A duration is not counted in tokens, and what has another shape is no report (contract, images 11 and audio 13.3).
    """
    if not isinstance(usage, dict) or usage.get("type") not in (None, "tokens"):
        return NO_USAGE
    counts = _token_counts(usage) if "input_tokens" in usage or "output_tokens" in usage else chat_usage(usage)
    return NO_USAGE if counts == NO_USAGE else counts


def _token_counts(usage: Mapping[str, object]) -> TokenUsage:
    cached = None
    for name in _INPUT_DETAILS:
        if isinstance(details := usage.get(name), dict):
            cached = as_count(details.get("cached_tokens"))
    return TokenUsage(
        input=as_count(usage.get("input_tokens")),
        output=as_count(usage.get("output_tokens")),
        total=as_count(usage.get("total_tokens")),
        cached_input=cached,
    )


class _Event(msgspec.Struct, frozen=True):
    type: object = None
    usage: object = None
    error: object = None
    code: object = None


_read_event = msgspec.json.Decoder(_Event).decode


class MediaObserver:
    """Reads documents with ``usage`` at their top, and events by their ``type``; the model they may name is not read.

    Args:
        *ends: types of events after which nothing matters.
    """

    def __init__(self, *ends: str) -> None:
        self._ends = frozenset(ends)

    def reads(self, content_type: str) -> bool:  # noqa: ARG002 - the type may be wrong
        return True

    def document(self, data: bytes) -> Observation | None:
        report = read_report(data)
        return None if report is None else _observed(report.usage, complete=True)

    def event(self, event: SSEEvent) -> Observation:
        if not event.data:
            return UNREMARKABLE
        if event.data == b"[DONE]":
            return DONE
        try:
            read = _read_event(event.data)
        except UNREADABLE:
            return UNREMARKABLE
        kind = read.type if isinstance(read.type, str) else (event.event or b"").decode(errors="replace")
        # An SDK takes any event that has an `error` for the end.
        if kind == "error" or read.error:
            return _observed(read.usage, complete=True, failure=error_name(read.error, read.code))
        return _observed(read.usage, complete=kind in self._ends)


def _observed(usage: object, *, complete: bool, failure: str = "") -> Observation:
    counts = media_usage(usage)
    return Observation(usage=counts, reports_usage=counts is not NO_USAGE, complete=complete, failure=failure)


def on_openai_and_azure(suffix: str, observer: Callable[[], Observer]) -> Mapping[str, Factory]:
    """The backends of an API, by schema.

    Args:
        suffix: the end of its path.
        observer: makes what reads the answers of one attempt.
    """

    def openai(target: Target) -> PassThrough:
        return PassThrough(
            path=openai_path(target.schema.prefix, suffix),
            observer=observer(),
            model_override=target.model_override,
            edit=name_model_in_form,
        )

    def azure(target: Target) -> PassThrough:
        # The path names the deployment. The name in the body follows it, as the client's name means nothing there.
        return PassThrough(
            path=azure_path(target.schema.version, suffix),
            observer=observer(),
            model_override=target.model_override,
            edit=name_model_in_form,
        )

    return {"OpenAI": openai, "AzureOpenAI": azure}
