"""The rules that Anthropic's Messages API has for requests, wherever it is hosted, and what a request asks."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from deploy.demo.providers import messages_shapes as shapes
from deploy.demo.providers.schemas import check_parameters, check_schema
from deploy.demo.providers.script import ANY, AUTO, NONE, Conversation, Tool, sign
from deploy.demo.providers.service import Refused
from deploy.demo.providers.shapes import check_range, decode

_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_LEAST_BUDGET: Final = 1024
_CHOICES: Final[Mapping[type, str]] = {
    type(None): AUTO,
    shapes.ChooseAuto: AUTO,
    shapes.ChooseAny: ANY,
    shapes.ChooseNone: NONE,
}

_THOUGHTS: Final = (shapes.Thinking, shapes.RedactedThinking)

REVISED: Final = "2026-10-21"
"""The version of the API that knows no sampling, whichever host has it; all before it do."""

RequestT = TypeVar("RequestT", bound=shapes.MessagesRequest)
PromptT = TypeVar("PromptT", bound=shapes.Prompt)
Block = shapes.UserBlock | shapes.AssistantBlock


def read(body: bytes, shape: type[RequestT]) -> tuple[RequestT, Conversation]:
    """The request, and what it asks.

    Raises:
        Refused: it breaks a rule of the API.
    """
    request = decode(body, shape)
    if request.max_tokens < 1:
        raise Refused(f"max_tokens: has to be at least 1, found {request.max_tokens}")
    check_range("temperature", request.temperature, 0, 1)
    check_range("top_p", request.top_p, 0, 1)
    for index, sequence in enumerate(request.stop_sequences or ()):
        if not sequence.strip():
            raise Refused(f"stop_sequences.{index}: has to hold more than white space")
    _check_prompt(request, limit=request.max_tokens)
    _check_sampling(request)
    return request, _conversation(request, limit=request.max_tokens)


def read_count(body: bytes, shape: type[PromptT]) -> tuple[PromptT, Conversation]:
    """A request for a count, and what it would ask; rules as for ``read``."""
    request = decode(body, shape)
    _check_prompt(request, limit=None)
    return request, _conversation(request, limit=None)


def check_version(request: shapes.Prompt, version: str) -> None:
    """What a version of the API no longer takes (Anthropic's guide to 2026-10-21).

    Raises:
        Refused: the request has it.
    """
    if version != REVISED:
        return
    for name in ("temperature", "top_p", "top_k"):
        if getattr(request, name, None) is not None:
            raise Refused(f"{name}: Extra inputs are not permitted")
    for index, message in enumerate(request.messages):
        texts = _blocks(message, shapes.Text) if isinstance(message, shapes.UserMessage) else []
        if any(text.citations for text in texts):
            raise Refused(f"messages.{index}: a text of the user cannot have citations")


def _check_prompt(request: shapes.Prompt, *, limit: int | None) -> None:
    for index, block in enumerate(request.system if isinstance(request.system, list) else ()):
        _check_text(block.text, f"system.{index}")
    _check_tools(request)
    if isinstance(request.thinking, shapes.ThinkingEnabled):
        check_budget(request.thinking.budget_tokens, limit=limit)
    _check_messages(request)


def _check_tools(request: shapes.Prompt) -> None:
    names = [tool.name for tool in request.tools or ()]
    if len(set(names)) != len(names):
        raise Refused("tools: names have to be unique")
    for index, tool in enumerate(request.tools or ()):
        if not _TOOL_NAME.fullmatch(tool.name):
            raise Refused(f"tools.{index}.name: does not match {_TOOL_NAME.pattern}")
        check_parameters(tool.input_schema, f"tools.{index}.custom.input_schema")
    choice = request.tool_choice
    if choice is not None and not names:
        raise Refused("tool_choice: allowed only with tools")
    if isinstance(choice, shapes.ChooseTool) and choice.name not in names:
        raise Refused(f"tool_choice: there is no tool {choice.name!r}")
    if request.output_config is not None and request.output_config.format is not None:
        check_schema(request.output_config.format.schema, "output_config.format.schema")


def _check_sampling(request: shapes.MessagesRequest) -> None:
    if _thinks(request):
        forced = isinstance(request.tool_choice, shapes.ChooseAny | shapes.ChooseTool)
        check_sampling(request.temperature, request.top_p, forced=forced)
        if request.top_k is not None:
            raise Refused("top_k: cannot be set while thinking is on")


def check_budget(budget: int, *, limit: int | None) -> None:
    """The budget of a model that is told to think (Bedrock asks the same of the same models)."""
    if budget < _LEAST_BUDGET:
        raise Refused(f"thinking.enabled.budget_tokens: has to be at least {_LEAST_BUDGET}, found {budget}")
    if limit is not None and budget >= limit:
        raise Refused("max_tokens: has to be greater than thinking.budget_tokens")


def check_sampling(temperature: float | None, top_p: float | None, *, forced: bool) -> None:
    """What cannot be asked of a thinking model."""
    if temperature not in (None, 1):
        raise Refused("temperature: has to be 1 while thinking is on")
    if top_p is not None and top_p < 0.95:
        raise Refused("top_p: has to be at least 0.95 while thinking is on")
    if forced:
        raise Refused("tool_choice: no tool can be forced while thinking is on")


def _check_messages(request: shapes.Prompt) -> None:
    messages = request.messages
    if not messages:
        raise Refused("messages: at least one message is needed")
    if not isinstance(messages[0], shapes.UserMessage):
        raise Refused("messages: the first one has to be of the role user")
    for index, (before, message) in enumerate(zip([None, *messages[:-1]], messages, strict=True)):
        if type(before) is type(message):
            raise Refused(f"messages.{index}: roles have to alternate between user and assistant")
        _check_content(message, f"messages.{index}", last=message is messages[-1])
        _check_results(before, message, f"messages.{index}")
    if _blocks(messages[-1], shapes.ToolUse):
        raise Refused(f"messages.{len(messages) - 1}: calls need their results in the next message")
    if isinstance(request.thinking, shapes.ThinkingEnabled):
        _check_thought_of_last_turn(messages)


def _check_content(message: shapes.Message, where: str, *, last: bool) -> None:
    if not message.content and not (last and isinstance(message, shapes.AssistantMessage)):
        raise Refused(f"{where}: content must not be empty")
    if isinstance(message.content, str):
        return
    for index, block in enumerate(message.content):
        _check_block(block, f"{where}.content.{index}")
    prefill = message.content[-1] if last and message.content and isinstance(message, shapes.AssistantMessage) else None
    if isinstance(prefill, shapes.Text) and prefill.text != prefill.text.rstrip():
        raise Refused(f"{where}: the last assistant message must not end in white space")


def _check_block(block: Block, where: str) -> None:
    match block:
        case shapes.Text(text=text):
            _check_text(text, where)
        case shapes.Image(source=shapes.ImageData(data=data)) | shapes.Document(source=shapes.DocumentData(data=data)):
            _check_base64(data, where)
        case shapes.ToolUse(id=call_id, name=name):
            if not _CALL_ID.fullmatch(call_id) or not _TOOL_NAME.fullmatch(name):
                raise Refused(f"{where}: id or name is not of the allowed characters")
        case shapes.ToolResult(content=list(content)):
            for index, inner in enumerate(content):
                _check_block(inner, f"{where}.content.{index}")
        case shapes.Thinking(thinking=thought, signature=signature):
            if signature != sign(thought):
                raise Refused(f"{where}: the signature is not that of this thinking")
        case _:
            pass


def _check_text(text: str, where: str) -> None:
    if not text.strip():
        raise Refused(f"{where}: text content blocks have to hold more than white space")


def _check_base64(data: str, where: str) -> None:
    try:
        base64.b64decode(data, validate=True)
    except ValueError:
        raise Refused(f"{where}.source.data: not base64") from None


def _check_results(before: shapes.Message | None, message: shapes.Message, where: str) -> None:
    calls = [block.id for block in _blocks(before, shapes.ToolUse)]
    results = [block.tool_use_id for block in _blocks(message, shapes.ToolResult)]
    if missing := [call for call in calls if call not in results]:
        raise Refused(f"{where}: the calls before it have no tool_result: {', '.join(missing)}")
    for result in results:
        if result not in calls:
            raise Refused(f"{where}: the message before it has no tool_use with the id {result}")
    if len(set(results)) != len(results):
        raise Refused(f"{where}: more than one tool_result for a call")
    if results and not isinstance(message.content[0], shapes.ToolResult):
        raise Refused(f"{where}: tool_result blocks have to come first")


def _check_thought_of_last_turn(messages: Sequence[shapes.Message]) -> None:
    """While thinking is on, the turn that called tools has to show the thought that led to the calls."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, shapes.UserMessage) and not _blocks(message, shapes.ToolResult):
            return
        if _blocks(message, shapes.ToolUse) and not isinstance(message.content[0], _THOUGHTS):
            raise Refused(f"messages.{index}.content.0: has to be thinking or redacted_thinking")


BlockT = TypeVar("BlockT", bound=Block)


def _blocks(message: shapes.Message | None, kind: type[BlockT]) -> list[BlockT]:
    if message is None or isinstance(message.content, str):
        return []
    return [block for block in message.content if isinstance(block, kind)]


def _thinks(request: shapes.Prompt) -> bool:
    return isinstance(request.thinking, shapes.ThinkingEnabled | shapes.ThinkingAdaptive)


def _conversation(request: shapes.Prompt, *, limit: int | None) -> Conversation:
    choice = request.tool_choice
    wanted = request.output_config.format if request.output_config is not None else None
    asked = Conversation(
        tools=tuple(Tool(name=tool.name, parameters=tool.input_schema) for tool in request.tools or ()),
        choice=choice.name if isinstance(choice, shapes.ChooseTool) else _CHOICES[type(choice)],
        parallel=not getattr(choice, "disable_parallel_tool_use", False),
        thinking=_thinks(request),
        limit=limit,
        schema=None if wanted is None else wanted.schema,
        caching=isinstance(request.system, list) and any(block.cache_control is not None for block in request.system),
    )
    for text in _texts(request.system or ()):
        asked.system(text)
    for message in request.messages:
        _tell(asked, message)
    return asked


def _tell(asked: Conversation, message: shapes.Message) -> None:
    say = asked.user if isinstance(message, shapes.UserMessage) else asked.assistant
    for block in [message.content] if isinstance(message.content, str) else message.content:
        match block:
            case str(text) | shapes.Text(text=text):
                say(text)
            case shapes.Image() | shapes.Document():
                asked.image()
            case shapes.ToolUse(name=name):
                asked.call(name)
            case shapes.ToolResult(content=content):
                asked.result("\n".join(_texts(content)))
            case _:
                pass


def _texts(content: str | Iterable[Block]) -> list[str]:
    if isinstance(content, str):
        return [content] if content else []
    return [block.text for block in content if isinstance(block, shapes.Text)]
