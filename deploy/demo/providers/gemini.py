"""The rules that Gemini has for requests, and what a request asks."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from deploy.demo.providers import gemini_shapes as shapes
from deploy.demo.providers.schemas import check_parameters, check_schema
from deploy.demo.providers.script import ANY, AUTO, NONE, Conversation, Tool, is_signature
from deploy.demo.providers.service import Refused, document
from deploy.demo.providers.shapes import check_range, decode

_FUNCTION_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_MOST_OUTPUT: Final = 65_536
_MOST_THINKING: Final = 32_768
_DATA: Final = ("text", "inline_data", "file_data", "function_call", "function_response")
_FREE_PASSES: Final = (b"skip_thought_signature_validator", b"context_engineering_is_the_way_to_go")
_CHOICES: Final = {"ANY": ANY, "NONE": NONE}
_NO_CONFIG: Final = shapes.GenerationConfig()


def read(body: bytes, model: str) -> tuple[shapes.GenerateRequest, Conversation]:
    """The request, and what it asks of ``model``.

    Raises:
        Refused: it breaks a rule of the API.
    """
    request = decode(body, shapes.GenerateRequest)
    _check_config(request.generation_config or _NO_CONFIG, model)
    _check_tools(request)
    if request.system_instruction is not None:
        _check_parts(request.system_instruction, "systemInstruction")
    _check_contents(request.contents or [])
    if "gemini-3" in model:
        _check_signatures(request.contents or [])
    return request, _conversation(request)


def _check_config(config: shapes.GenerationConfig, model: str) -> None:
    check_range("generationConfig.maxOutputTokens", config.max_output_tokens, 1, _MOST_OUTPUT)
    check_range("generationConfig.temperature", config.temperature, 0, 2)
    check_range("generationConfig.topP", config.top_p, 0, 1)
    check_range("generationConfig.candidateCount", config.candidate_count, 1, 1)
    check_range("generationConfig.logprobs", config.logprobs, 0, 20)
    if config.logprobs is not None and not config.response_logprobs:
        raise Refused("generationConfig.logprobs: responseLogprobs has to be true")
    if len(config.stop_sequences or ()) > 5:
        raise Refused("generationConfig.stopSequences: five at most")
    _check_format(config)
    thinking = config.thinking_config
    if thinking is not None:
        check_range("generationConfig.thinkingConfig.thinkingBudget", thinking.thinking_budget, -1, _MOST_THINKING)
        if thinking.thinking_budget is not None and thinking.thinking_level is not None:
            raise Refused("generationConfig.thinkingConfig: either thinkingBudget or thinkingLevel")
        if thinking.thinking_level is not None and "gemini-3" not in model:
            raise Refused("generationConfig.thinkingConfig: this model has no thinkingLevel")


def _check_format(config: shapes.GenerationConfig) -> None:
    structured = config.response_schema is not None or config.response_json_schema is not None
    if structured and config.response_mime_type not in ("application/json", "text/x.enum"):
        raise Refused("generationConfig.responseMimeType: a schema needs application/json or text/x.enum")
    if config.response_schema is not None:
        if config.response_json_schema is not None:
            raise Refused("generationConfig: either responseSchema or responseJsonSchema")
        _check_schema(config.response_schema, "generationConfig.responseSchema")
    check_schema(config.response_json_schema or {}, "generationConfig.responseJsonSchema")


def _check_tools(request: shapes.GenerateRequest) -> None:
    names = []
    for index, tool in enumerate(request.tools or ()):
        given = [name for name in tool.__struct_fields__ if getattr(tool, name) is not None]
        if len(given) != 1:
            raise Refused(f"tools.{index}: exactly one kind of tool has to be set, found {given or 'none'}")
        for position, function in enumerate(tool.function_declarations or ()):
            names.append(function.name)
            _check_function(function, f"tools.{index}.functionDeclarations.{position}")
    if len(set(names)) != len(names):
        raise Refused("tools: names of functions have to be unique")
    calling = request.tool_config.function_calling_config if request.tool_config is not None else None
    for name in (calling.allowed_function_names if calling is not None else None) or ():
        if name not in names:
            raise Refused(f"toolConfig.functionCallingConfig.allowedFunctionNames: there is no function {name!r}")


def _check_function(function: shapes.FunctionDeclaration, where: str) -> None:
    if not _FUNCTION_NAME.fullmatch(function.name):
        raise Refused(f"{where}.name: has to start with a letter or an underscore, found {function.name!r}")
    if function.parameters_json_schema is not msgspec.UNSET:
        if function.parameters is not None:
            raise Refused(f"{where}: either parameters or parametersJsonSchema")
        check_parameters(function.parameters_json_schema, f"{where}.parametersJsonSchema")
    if function.parameters is not None:
        if str(function.parameters.type).upper() != "OBJECT":
            raise Refused(f"{where}.parameters: the schema has to be of the type OBJECT")
        _check_schema(function.parameters, f"{where}.parameters")


def _check_schema(schema: shapes.Schema, where: str) -> None:
    kind = str(schema.type).upper()
    if schema.type is None and not schema.any_of and schema.ref is None:
        raise Refused(f"{where}: the type is missing")
    if kind == "ARRAY" and schema.items is None:
        raise Refused(f"{where}.items: is missing")
    if schema.enum is not None and kind != "STRING":
        raise Refused(f"{where}.enum: allowed only for the type STRING")
    if unknown := set(schema.required or ()) - (schema.properties or {}).keys():
        raise Refused(f"{where}.required: not among the properties: {', '.join(sorted(unknown))}")
    for name, member in (schema.properties or {}).items():
        _check_schema(member, f"{where}.properties.{name}")
    for index, alternative in enumerate(schema.any_of or ()):
        _check_schema(alternative, f"{where}.anyOf.{index}")
    if schema.items is not None:
        _check_schema(schema.items, f"{where}.items")


def _check_contents(contents: Sequence[shapes.Content]) -> None:
    if not contents:
        raise Refused("contents: at least one is required")
    for index, (before, content) in enumerate(zip([None, *contents[:-1]], contents, strict=True)):
        where = f"contents.{index}"
        if content.role not in ("user", "model"):
            raise Refused(f"{where}.role: has to be user or model, found {content.role!r}")
        _check_parts(content, where)
        _check_responses(before, content, where)
    if contents[-1].role != "user":
        raise Refused("contents: the last one has to be a turn of the user or of function responses")


def _check_parts(content: shapes.Content, where: str) -> None:
    if not content.parts:
        raise Refused(f"{where}.parts: at least one is required")
    for index, part in enumerate(content.parts):
        _check_part(part, content.role, f"{where}.parts.{index}")


def _check_part(part: shapes.Part, role: str | None, where: str) -> None:
    given = [name for name in _DATA if getattr(part, name) is not None]
    if len(given) != 1:
        raise Refused(f"{where}: exactly one kind of data has to be set, found {given or 'none'}")
    if part.text == "" and part.thought_signature is None:
        raise Refused(f"{where}.text: must not be empty")
    if part.function_call is not None and role != "model":
        raise Refused(f"{where}.functionCall: only a turn of the model can have one")
    if part.function_response is not None and role != "user":
        raise Refused(f"{where}.functionResponse: only a turn of the user can have one")
    if part.inline_data is not None:
        _decoded(part.inline_data.data, f"{where}.inlineData.data")
    if part.thought_signature is not None:
        signature = _decoded(part.thought_signature, f"{where}.thoughtSignature")
        if signature not in _FREE_PASSES and not is_signature(signature):
            raise Refused(f"{where}.thoughtSignature: is not valid")


def _decoded(data: str, where: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        raise Refused(f"{where}: not base64") from None


def _check_responses(before: shapes.Content | None, content: shapes.Content, where: str) -> None:
    calls = [] if before is None else _calls(before)
    responses = [part.function_response.name for part in content.parts or () if part.function_response is not None]
    if len(calls) != len(responses):
        raise Refused(
            f"{where}: {len(responses)} function responses for {len(calls)} function calls in the turn before"
        )
    if set(responses) - {call.name for call in calls}:
        raise Refused(f"{where}: a function response has a name that was not called")
    if _calls(content) and (before is None or before.role != "user"):
        raise Refused(f"{where}: function calls have to follow a turn of the user or of function responses")


def _calls(content: shapes.Content) -> list[shapes.FunctionCall]:
    return [part.function_call for part in content.parts or () if part.function_call is not None]


def _check_signatures(contents: Sequence[shapes.Content]) -> None:
    """From the last words of the user on, the first call of every step has to bring its signature back."""
    for index in range(len(contents) - 1, -1, -1):
        parts = contents[index].parts or []
        if contents[index].role == "user" and any(part.text is not None for part in parts):
            return
        first = next((part for part in parts if part.function_call is not None), None)
        if first is not None and first.thought_signature is None:
            raise Refused(f"contents.{index}: a function call has no thought_signature")


def _conversation(request: shapes.GenerateRequest) -> Conversation:
    config = request.generation_config or _NO_CONFIG
    asked = Conversation(
        tools=tuple(
            Tool(name=function.name, parameters=_parameters(function))
            for tool in request.tools or ()
            for function in tool.function_declarations or ()
        ),
        choice=_choice(request.tool_config),
        thinking=_thinks(config.thinking_config),
        limit=config.max_output_tokens,
        schema=_wanted(config),
    )
    for part in (request.system_instruction.parts if request.system_instruction is not None else None) or ():
        asked.system(part.text or "")
    for content in request.contents or ():
        for part in content.parts or ():
            _tell(asked, content.role, part)
    return asked


def _parameters(function: shapes.FunctionDeclaration) -> Mapping[str, Any]:
    if function.parameters is None:
        return function.parameters_json_schema or {}
    return _plain(function.parameters)


def _plain(schema: shapes.Schema) -> dict[str, Any]:
    """The schema as JSON, without the members that are not there."""

    def filled(value: object) -> object:
        if isinstance(value, dict):
            return {name: filled(member) for name, member in value.items() if member is not None}
        return [filled(member) for member in value] if isinstance(value, list) else value

    found: dict[str, Any] = filled(msgspec.json.decode(document(schema)))  # type: ignore[assignment] # of an object
    return found


def _choice(config: shapes.ToolConfig | None) -> str:
    calling = config.function_calling_config if config is not None else None
    if calling is None:
        return AUTO
    if calling.allowed_function_names:
        return calling.allowed_function_names[0]
    return _CHOICES.get(calling.mode or "", AUTO)


def _thinks(config: shapes.ThinkingConfig | None) -> bool:
    if config is None or config.thinking_budget == 0:
        return False
    return bool(config.thinking_budget or config.thinking_level or config.include_thoughts)


def _wanted(config: shapes.GenerationConfig) -> Mapping[str, Any] | None:
    if config.response_schema is not None:
        return _plain(config.response_schema)
    if isinstance(config.response_json_schema, dict):
        return config.response_json_schema
    return {"type": "object"} if config.response_mime_type == "application/json" else None


def _tell(asked: Conversation, role: str | None, part: shapes.Part) -> None:
    match part:
        case shapes.Part(thought=True):
            pass
        case shapes.Part(text=str(text)):
            (asked.user if role == "user" else asked.assistant)(text)
        case shapes.Part(function_call=shapes.FunctionCall(name=name)):
            asked.call(name)
        case shapes.Part(function_response=shapes.FunctionResponse(response=response)):
            asked.result(_output(response))
        case _:
            asked.image()


def _output(response: Mapping[str, Any]) -> str:
    """What a function gave back; plain text is under ``output``."""
    output = response.get("output")
    return output if isinstance(output, str) and len(response) == 1 else document(response).decode()
