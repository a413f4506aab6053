"""The rules that Bedrock's Converse has for requests, and what a request asks."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from deploy.demo.providers import converse_shapes as shapes
from deploy.demo.providers.messages import check_budget, check_sampling
from deploy.demo.providers.messages_shapes import ThinkingAdaptive, ThinkingConfig, ThinkingDisabled, ThinkingEnabled
from deploy.demo.providers.schemas import check_parameters, check_schema
from deploy.demo.providers.script import ANY, AUTO, Conversation, Tool, sign
from deploy.demo.providers.service import Refused
from deploy.demo.providers.shapes import Shape, check_range, decode

_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_DOCUMENT_NAME: Final = re.compile(r"[a-zA-Z0-9 ()\[\]-]{1,200}")


def read(body: bytes, model: str) -> tuple[shapes.ConverseRequest, Conversation]:
    """The request, and what it asks of ``model``.

    Raises:
        Refused: it breaks a rule of the API, or of the family of models.
    """
    request = decode(body, shapes.ConverseRequest)
    limits = request.inference_config or shapes.InferenceConfig()
    if limits.max_tokens is not None and limits.max_tokens < 1:
        raise Refused(f"inferenceConfig.maxTokens: has to be at least 1, found {limits.max_tokens}")
    check_range("inferenceConfig.temperature", limits.temperature, 0, 1)
    check_range("inferenceConfig.topP", limits.top_p, 0, 1)
    if any(not sequence for sequence in limits.stop_sequences or ()):
        raise Refused("inferenceConfig.stopSequences: a sequence is empty")
    for index, block in enumerate(request.system or ()):
        if _member(block, f"system.{index}") == "text":
            _check_text(block.text, f"system.{index}")
    _check_tools(request)
    _check_messages(request)
    if "claude" in model:
        _check_claude(request, limits)
    elif "thinking" in (request.additional_model_request_fields or {}):
        raise Refused("additionalModelRequestFields: extraneous key [thinking] is not permitted")
    return request, _conversation(request, limits)


def _member(union: Shape, where: str) -> str:
    """The name of the one member that a union has."""
    given = [name for name in union.__struct_fields__ if getattr(union, name) is not None]
    if len(given) != 1:
        raise Refused(f"{where}: exactly one member has to be set, found {given or 'none'}")
    return given[0]


def _check_text(text: str | None, where: str) -> None:
    if text is None or not text.strip():
        raise Refused(f"{where}: the text is blank")


def _check_tools(request: shapes.ConverseRequest) -> None:
    config = request.tool_config
    if config is None:
        return
    if not config.tools:
        raise Refused("toolConfig.tools: at least one tool is needed")
    names = []
    for index, tool in enumerate(config.tools):
        where = f"toolConfig.tools.{index}"
        _member(tool, where)
        if tool.tool_spec is None:
            continue
        names.append(tool.tool_spec.name)
        if not _TOOL_NAME.fullmatch(tool.tool_spec.name):
            raise Refused(f"{where}.toolSpec.name: does not match {_TOOL_NAME.pattern}")
        if tool.tool_spec.description == "":
            raise Refused(f"{where}.toolSpec.description: must not be empty")
        check_parameters(tool.tool_spec.input_schema.json, f"{where}.toolSpec.inputSchema.json")
    if len(set(names)) != len(names):
        raise Refused("toolConfig.tools: names have to be unique")
    if config.tool_choice is not None:
        _member(config.tool_choice, "toolConfig.toolChoice")
        if config.tool_choice.tool is not None and config.tool_choice.tool.name not in names:
            raise Refused("toolConfig.toolChoice.tool: there is no such tool")


def _check_messages(request: shapes.ConverseRequest) -> None:
    messages = request.messages or []
    if not messages or messages[0].role != "user":
        raise Refused("messages: a conversation starts with a message of the user")
    for index, (before, message) in enumerate(zip([None, *messages[:-1]], messages, strict=True)):
        where = f"messages.{index}"
        if before is not None and before.role == message.role:
            raise Refused(f"{where}: roles have to alternate between user and assistant")
        if not message.content:
            raise Refused(f"{where}.content: must not be empty")
        for position, block in enumerate(message.content):
            _check_block(block, message.role, f"{where}.content.{position}")
        _check_results(before, message, where)
    if _calls(messages[-1]):
        raise Refused(f"messages.{len(messages) - 1}: calls need their toolResult in the next message")
    if request.tool_config is None and any(_calls(each) or _results(each) for each in messages):
        raise Refused("toolConfig: has to be defined where messages have toolUse or toolResult blocks")


_ROLES: Final = {"tool_use": "assistant", "reasoning_content": "assistant", "tool_result": "user", "image": "user"}


def _check_block(block: shapes.Content, role: str, where: str) -> None:
    member = _member(block, where)
    if _ROLES.get(member, role) != role:
        raise Refused(f"{where}: a message of the {role} cannot have {member}")
    match block:
        case shapes.Content(text=str(text)):
            _check_text(text, where)
        case shapes.Content(image=shapes.Image(source=source)) | shapes.Content(video=shapes.Video(source=source)):
            _check_media(source, where)
        case shapes.Content(document=shapes.Document() as document):
            if not _DOCUMENT_NAME.fullmatch(document.name):
                raise Refused(f"{where}.document.name: does not match {_DOCUMENT_NAME.pattern}")
            _check_media(document.source, where)
        case shapes.Content(tool_use=shapes.ToolUse(tool_use_id=call_id, name=name)):
            if not _CALL_ID.fullmatch(call_id) or not _TOOL_NAME.fullmatch(name):
                raise Refused(f"{where}.toolUse: id or name is not of the allowed characters")
        case shapes.Content(tool_result=shapes.ToolResult() as result):
            _check_result(result, f"{where}.toolResult")
        case shapes.Content(reasoning_content=shapes.Reasoning() as reasoning):
            _check_reasoning(reasoning, f"{where}.reasoningContent")
        case _:
            pass


def _check_media(source: shapes.MediaSource | shapes.DocumentSource, where: str) -> None:
    _member(source, f"{where}.source")
    try:
        base64.b64decode(source.bytes or "", validate=True)
    except ValueError:
        raise Refused(f"{where}.source.bytes: not base64") from None


def _check_result(result: shapes.ToolResult, where: str) -> None:
    if not result.content and result.status == "error":
        raise Refused(f"{where}.content: must not be empty where the status is error")
    for index, content in enumerate(result.content):
        if _member(content, f"{where}.content.{index}") == "text":
            _check_text(content.text, f"{where}.content.{index}")


def _check_reasoning(reasoning: shapes.Reasoning, where: str) -> None:
    _member(reasoning, where)
    text = reasoning.reasoning_text
    if text is not None and text.signature != sign(text.text):
        raise Refused(f"{where}: the signature is not that of this reasoning")


def _check_results(before: shapes.Message | None, message: shapes.Message, where: str) -> None:
    calls = [] if before is None else _calls(before)
    results = _results(message)
    if len(results) > len(calls):
        raise Refused(f"{where}.content: more toolResult blocks than toolUse blocks in the turn before")
    if missing := [call for call in calls if call not in results]:
        raise Refused(f"{where}.content: toolResult blocks are missing for {', '.join(missing)}")


def _calls(message: shapes.Message) -> list[str]:
    return [block.tool_use.tool_use_id for block in message.content if block.tool_use is not None]


def _results(message: shapes.Message) -> list[str]:
    return [block.tool_result.tool_use_id for block in message.content if block.tool_result is not None]


def _check_claude(request: shapes.ConverseRequest, limits: shapes.InferenceConfig) -> None:
    """Fields of the model itself: thinking, under the rules of Claude."""
    fields = request.additional_model_request_fields or {}
    if unknown := fields.keys() - {"thinking", "top_k", "anthropic_beta", "output_config", "reasoning_config"}:
        raise Refused(f"additionalModelRequestFields: extraneous key {sorted(unknown)} is not permitted")
    thinking = _thinking(fields)
    if thinking is None or isinstance(thinking, ThinkingDisabled):
        return
    choice = request.tool_config.tool_choice if request.tool_config is not None else None
    if isinstance(thinking, ThinkingEnabled):
        check_budget(thinking.budget_tokens, limit=limits.max_tokens)
        _check_thought_of_last_turn(request.messages or ())
    check_sampling(limits.temperature, limits.top_p, forced=choice is not None and choice.auto is None)


def _check_thought_of_last_turn(messages: Sequence[shapes.Message]) -> None:
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role == "user" and not _results(message):
            return
        if _calls(message) and message.content[0].reasoning_content is None:
            raise Refused(f"messages.{index}.content.0: has to be reasoningContent while thinking is on")


def _thinking(fields: Mapping[str, Any] | None) -> ThinkingConfig | None:
    """How the model is told to think, in the words of the Messages API."""
    given = (fields or {}).get("thinking")
    if given is None:
        return None
    try:
        told: ThinkingConfig = msgspec.convert(given, ThinkingConfig)
    except msgspec.ValidationError as error:
        raise Refused(f"additionalModelRequestFields.thinking: {error}") from None
    return told


def _conversation(request: shapes.ConverseRequest, limits: shapes.InferenceConfig) -> Conversation:
    config = request.tool_config
    asked = Conversation(
        tools=tuple(
            Tool(name=tool.tool_spec.name, parameters=tool.tool_spec.input_schema.json)
            for tool in (config.tools if config is not None else ())
            if tool.tool_spec is not None
        ),
        choice=_choice(config.tool_choice if config is not None else None),
        thinking=isinstance(_thinking(request.additional_model_request_fields), ThinkingEnabled | ThinkingAdaptive),
        limit=limits.max_tokens,
        schema=_schema(request.output_config),
        caching=any(block.cache_point is not None for block in request.system or ()),
    )
    for block in request.system or ():
        if block.text is not None:
            asked.system(block.text)
    for message in request.messages or ():
        for content in message.content:
            _tell(asked, message.role, content)
    return asked


def _choice(choice: shapes.ToolChoice | None) -> str:
    if choice is not None and choice.tool is not None:
        return choice.tool.name
    return ANY if choice is not None and choice.any is not None else AUTO


def _schema(wanted: shapes.OutputConfig | None) -> dict[str, Any] | None:
    if wanted is None or wanted.text_format is None:
        return None
    try:
        schema = json.loads(wanted.text_format.structure.json_schema.schema)
    except ValueError:
        raise Refused("outputConfig.textFormat.structure.jsonSchema.schema: not JSON") from None
    check_schema(schema, "outputConfig.textFormat.structure.jsonSchema.schema")
    return schema if isinstance(schema, dict) else {}


def _tell(asked: Conversation, role: str, content: shapes.Content) -> None:
    match content:
        case shapes.Content(text=str(text)):
            (asked.user if role == "user" else asked.assistant)(text)
        case shapes.Content(image=shapes.Image()) | shapes.Content(document=shapes.Document()):
            asked.image()
        case shapes.Content(tool_use=shapes.ToolUse(name=name)):
            asked.call(name)
        case shapes.Content(tool_result=shapes.ToolResult(content=parts)):
            asked.result("\n".join(_result_text(part) for part in parts))
        case _:
            pass


def _result_text(part: shapes.ToolResultContent) -> str:
    return msgspec.json.encode(part.json).decode() if part.json is not None else part.text or ""
