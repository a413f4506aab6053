"""The responses API on backends that are reached through chat completions.

The peer serves it only where the backend speaks it. A request that needs what only OpenAI keeps is refused; all else
is said as a chat completion, and the answer is told as a response.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import UNSET

from extproc.endpoints.base import ParsedRequest
from extproc.endpoints.responses_request import ResponsesRequest, decode_responses_request
from extproc.errors import UnprocessableRequest
from extproc.translate.base import Factory, Target, TranslatedRequest, Translator
from extproc.translate.chat.anthropic.dialects import anthropic_chat, aws_anthropic_chat, gcp_anthropic_chat
from extproc.translate.chat.bedrock.dialect import bedrock_chat
from extproc.translate.chat.gemini.dialect import gcp_vertex_ai_chat
from extproc.translate.count_tokens.aws import is_claude
from extproc.translate.openai_errors import bounded_error
from extproc.translate.responses import wire
from extproc.translate.responses.output import Output
from extproc.translate.responses.request import chat_body
from extproc.translate.responses.stream import AnswerWriter, document
from extproc.translate.responses.thoughts import family
from extproc.translate.responses.tools import read_tools, told_format
from extproc.translate.via_chat.answers import Answer, ErrorObject
from extproc.translate.via_chat.translator import StreamWriter, ViaChat
from extproc.usage import TokenUsage


class ResponsesCarrier:
    """How a request of the responses API is said in chat completions, and its answer back.

    Args:
        target: the backend.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._family = family(target.schema.name)

    def chat_body(self, request: ParsedRequest, *, model: str) -> bytes:
        self._request = decode_responses_request(request.body)
        self._tools = read_tools(self._request)
        self._begun = _begun(self._request, self._tools.told, model=model)
        return chat_body(
            self._request,
            self._tools,
            model=model,
            stream=request.stream,
            family=self._family,
            # The member that Converse has for it is an object to Claude, which refuses a word there.
            takes_effort=not (self._target.schema.name == "AWSBedrock" and is_claude(model)),
        )

    def document(self, answer: Answer, usage: TokenUsage) -> bytes:
        return document(answer, usage, self._writer())

    def stream(self) -> StreamWriter:
        return self._writer()

    def error(self, status: str, error: ErrorObject) -> bytes:
        return bounded_error(error.type or "OpenAIBackendError", error.code or status, error.message)

    def _writer(self) -> AnswerWriter:
        target, request = self._target, self._request
        new_id = _ids(target.new_id())
        begun = msgspec.structs.replace(self._begun, id=new_id("resp"), created_at=int(target.now()))

        def output(number: Callable[[], int]) -> Output:
            return Output(
                new_id=new_id,
                number=number,
                family=self._family,
                tools=self._tools.offered,
                summarized=request.reasoning is not None and request.reasoning.summarized,
                with_logprobs=request.wants_logprobs,
            )

        return AnswerWriter(begun, now=target.now, output=output)


def _ids(uuid: str) -> Callable[[str], str]:
    """What makes the ids of one response. They do not depend on when each of its items is known to begin."""
    unique, numbers = uuid.replace("-", ""), itertools.count()
    return lambda prefix: f"{prefix}_{unique}{next(numbers):04x}"


def _begun(request: ResponsesRequest, tools: list[wire.Tool], *, model: str) -> wire.Response:
    """The response before its begin: nothing but what the client asked for, still without id and time.

    Raises:
        MalformedRequest: a schema is not JSON.
    """
    reasoning, text = request.reasoning, request.text
    return wire.Response(
        id="",
        created_at=0,
        status=wire.IN_PROGRESS,
        instructions=request.instructions,
        max_output_tokens=request.max_output_tokens,
        max_tool_calls=request.max_tool_calls,
        model=model,
        output=[],
        parallel_tool_calls=request.parallel_tool_calls is not False,
        prompt_cache_key=request.prompt_cache_key,
        reasoning=wire.ReasoningConfig()
        if reasoning is None
        else wire.ReasoningConfig(effort=reasoning.effort, summary=reasoning.summary or reasoning.generate_summary),
        safety_identifier=request.safety_identifier,
        service_tier=request.service_tier,
        temperature=request.temperature,
        text=wire.TextConfig(
            format=told_format(None if text is None else text.format),
            verbosity=UNSET if text is None else text.verbosity or UNSET,
        ),
        tool_choice="auto" if request.tool_choice is None else request.tool_choice,
        tools=tools,
        top_logprobs=request.top_logprobs,
        top_p=request.top_p,
        user=request.user,
        metadata=request.metadata or {},
    )


_NAMES: Final = {
    "max_completion_tokens": "max_output_tokens",
    "max_tokens": "max_output_tokens",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
    "logprobs": "top_logprobs",
    "verbosity": "text.verbosity",
}
_NAME: Final = re.compile(rf"\b({'|'.join(_NAMES)})\b(?:\.json_(?:schema|object)\b)?")
_PREFIX: Final = str(UnprocessableRequest(""))
_CONVERSATION: Final = re.compile(r"\bmessages\[\d+\]")


class ResponsesViaChat(ViaChat):
    """An attempt whose refusals speak of the client's members, not of those of chat completions."""

    def request(self, request: ParsedRequest, *, query: str, force: bool) -> TranslatedRequest:
        try:
            return super().request(request, query=query, force=force)
        except UnprocessableRequest as error:
            raise UnprocessableRequest(_in_the_clients_words(error)) from error


def _in_the_clients_words(error: UnprocessableRequest) -> str:
    text = _NAME.sub(lambda match: _NAMES[match[1]], str(error).removeprefix(_PREFIX))
    # Messages are numbered otherwise than items.
    return f"input, as chat completions: {text}" if _CONVERSATION.search(text) else text


def carried(target: Target, chat: Factory) -> Translator:
    """An attempt at a backend that ``chat`` knows how to reach."""
    return ResponsesViaChat(ResponsesCarrier(target), chat(target), model_override=target.model_override)


def _over(chat: Factory) -> Factory:
    return lambda target: carried(target, chat)


CARRIED: Final[Mapping[str, Factory]] = {
    "AWSBedrock": _over(bedrock_chat),
    "GCPVertexAI": _over(gcp_vertex_ai_chat),
    "Anthropic": _over(anthropic_chat),
    "AWSAnthropic": _over(aws_anthropic_chat),
    "GCPAnthropic": _over(gcp_anthropic_chat),
}
"""Backend schema → translator."""
