"""What a backend makes of each member of a chat completion request: mapped, ignored or refused.

Every dialect has such a table and is held to it: refused members are refused here, by the table, and tests show for
each of the others that it does, or does not, change what goes upstream. The reference page is written from the
tables as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from extproc.endpoints import chat_request as chat
from extproc.endpoints.chat_request import ChatRequest
from extproc.errors import UnprocessableRequest


class Support(StrEnum):
    MAPPED = "mapped"
    """The backend's API can say it."""
    IGNORED = "ignored"
    """The backend's API cannot say it, and the answer means the same without it."""
    REFUSED = "refused"
    """The backend's API cannot say it, and an answer without it would not be what was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSupport:
    """Args: ``note``: how it is mapped, or on which models; for people."""

    support: Support
    note: str = ""


def mapped(note: str = "") -> FieldSupport:
    return FieldSupport(support=Support.MAPPED, note=note)


def ignored(note: str = "") -> FieldSupport:
    return FieldSupport(support=Support.IGNORED, note=note)


def refused(note: str = "") -> FieldSupport:
    return FieldSupport(support=Support.REFUSED, note=note)


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportTable:
    """The table of one backend schema.

    Attributes:
        backend: the schema, as messages to clients name it.
        fields: every key of ``FIELDS``.
    """

    backend: str
    fields: Mapping[str, FieldSupport]
    _checks: tuple[tuple[str, Callable[[ChatRequest], bool]], ...] = ()

    @classmethod
    def of(cls, backend: str, fields: Mapping[str, FieldSupport]) -> SupportTable:
        """Build the table.

        Raises:
            ValueError: a member is missing, or is none.
        """
        if wrong := FIELDS.keys() ^ fields.keys():
            raise ValueError(f"{backend}: missing or unknown members: {', '.join(sorted(wrong))}")
        checks = tuple((name, FIELDS[name]) for name, each in fields.items() if each.support is Support.REFUSED)
        return cls(backend=backend, fields=fields, _checks=checks)

    def refusals(self, request: ChatRequest) -> Iterator[str]:
        """The members that the request uses and that must be refused."""
        return (name for name, is_used in self._checks if is_used(request))


def refuse_unsupported(request: ChatRequest, table: SupportTable) -> None:
    """Refuse a request that the backend could only answer as if something in it had not been said.

    Raises:
        UnprocessableRequest: the text names the member.
    """
    for name in table.refusals(request):
        raise UnprocessableRequest(f"{name} is not supported by {table.backend} backends")


def _given(attribute: str) -> Callable[[ChatRequest], bool]:
    return lambda request: getattr(request, attribute) is not None


def _filled(attribute: str) -> Callable[[ChatRequest], bool]:
    return lambda request: bool(getattr(request, attribute))


def _format(kind: type) -> Callable[[ChatRequest], bool]:
    return lambda request: isinstance(request.response_format, kind)


def _thinking(kind: type) -> Callable[[ChatRequest], bool]:
    return lambda request: isinstance(request.thinking, kind)


def _user_part(kind: type) -> Callable[[ChatRequest], bool]:
    return lambda request: any(
        isinstance(part, kind)
        for message in request.messages or ()
        if isinstance(message, chat.UserMessage) and isinstance(message.content, list)
        for part in message.content
    )


def _text_parts(request: ChatRequest) -> Iterator[chat.TextPart]:
    for message in request.messages or ():
        if isinstance(message, chat.SystemMessage | chat.DeveloperMessage | chat.ToolMessage) and isinstance(
            message.content, list
        ):
            yield from message.content


def _assistant_part(kind: str) -> Callable[[ChatRequest], bool]:
    def is_used(request: ChatRequest) -> bool:
        for message in request.messages or ():
            if isinstance(message, chat.AssistantMessage):
                parts = message.content if isinstance(message.content, list) else [message.content]
                if any(isinstance(part, chat.AssistantPart) and part.type == kind for part in parts):
                    return True
        return False

    return is_used


def _assistant(attribute: str) -> Callable[[ChatRequest], bool]:
    return lambda request: any(
        bool(getattr(message, attribute))
        for message in request.messages or ()
        if isinstance(message, chat.AssistantMessage)
    )


def _tool(*kinds: str) -> Callable[[ChatRequest], bool]:
    return lambda request: any(tool.type in kinds for tool in request.tools or ())


def _caches(request: ChatRequest) -> bool:
    return b'"ephemeral"' in msgspec.json.encode(request)


_KNOWN_TOOLS = ("function", "google_search", "enterprise_search", "image_generation")

FIELDS: Mapping[str, Callable[[ChatRequest], bool]] = {
    "messages": _filled("messages"),
    "messages.user.image_url": _user_part(chat.UserImage),
    "messages.user.input_audio": _user_part(chat.UserAudio),
    "messages.user.audio_url": _user_part(chat.UserAudioURL),
    "messages.user.video_url": _user_part(chat.UserVideoURL),
    "messages.user.file": _user_part(chat.UserFile),
    # Only text may stand in these; a part of another type would be sent as an empty text.
    "messages.system, developer, tool: parts that are not text": lambda request: any(
        part.type != "text" for part in _text_parts(request)
    ),
    "messages.assistant.tool_calls": _assistant("tool_calls"),
    "messages.assistant.thinking": _assistant_part("thinking"),
    "messages.assistant.redacted_thinking": _assistant_part("redacted_thinking"),
    "messages.assistant.thinking_blocks": _assistant("thinking_blocks"),
    "messages.assistant.refusal": _assistant_part("refusal"),
    "cache_control": _caches,
    "audio": _given("audio"),
    "frequency_penalty": _given("frequency_penalty"),
    "generationConfig": _given("generation_config"),
    "guardrailConfig": _given("guardrail_config"),
    "guided_choice": _given("guided_choice"),
    "guided_json": lambda request: request.guided_json is not msgspec.UNSET and bytes(request.guided_json) != b"null",
    "guided_regex": _filled("guided_regex"),
    "logit_bias": _filled("logit_bias"),
    "logprobs": lambda request: request.logprobs is True,
    "max_completion_tokens": _given("max_completion_tokens"),
    "max_tokens": _given("max_tokens"),
    "modalities": lambda request: any(each != "text" for each in request.modalities or ()),
    "n": lambda request: request.n is not None and request.n > 1,
    "parallel_tool_calls": _given("parallel_tool_calls"),
    "prediction": _given("prediction"),
    "presence_penalty": _given("presence_penalty"),
    "reasoning_effort": _filled("reasoning_effort"),
    "response_format.json_object": _format(chat.JSONObjectFormat),
    "response_format.json_schema": _format(chat.SchemaFormat),
    "safetySettings": _filled("safety_settings"),
    "seed": _given("seed"),
    "service_tier": _filled("service_tier"),
    "stop": _given("stop"),
    "temperature": _given("temperature"),
    "thinking.enabled": _thinking(chat.ThinkingEnabled),
    "thinking.disabled": _thinking(chat.ThinkingDisabled),
    "thinking.adaptive": _thinking(chat.ThinkingAdaptive),
    "tool_choice": _given("tool_choice"),
    "tools.function": _tool("function"),
    "tools.google_search": _tool("google_search"),
    "tools.enterprise_search": _tool("enterprise_search"),
    "tools.image_generation": _tool("image_generation"),
    "tools of any other type": lambda request: any(tool.type not in _KNOWN_TOOLS for tool in request.tools or ()),
    "tools.function.strict": lambda request: any(
        tool.function is not None and tool.function.strict is True for tool in request.tools or ()
    ),
    "top_logprobs": _filled("top_logprobs"),
    "top_p": _given("top_p"),
    "user": _filled("user"),
    "verbosity": _filled("verbosity"),
    "web_search_options": _given("web_search_options"),
}
"""The members that tables speak of, and whether a request uses one in a way that means something."""
