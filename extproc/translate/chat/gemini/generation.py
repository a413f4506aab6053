"""``generationConfig``: sampling, limits, output format and thinking (contract, chat 9.6)."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.endpoints import chat_request as chat
from extproc.endpoints.chat_request import ChatRequest
from extproc.errors import UnprocessableRequest
from extproc.formats.jsonvalue import JSONValueError, decode, decode_object
from extproc.translate.chat.gemini.models import GeminiModel
from extproc.translate.chat.gemini.schema import Schema, SchemaConverter, SchemaError

_INT32_MAX: Final = 2**31 - 1


class ThinkingConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    include_thoughts: bool | UnsetType = UNSET
    thinking_budget: int | UnsetType = UNSET
    thinking_level: str | UnsetType = UNSET


class GenerationConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    response_json_schema: Raw | UnsetType = UNSET
    candidate_count: int | UnsetType = UNSET
    frequency_penalty: float | UnsetType = UNSET
    logprobs: int | UnsetType = UNSET
    max_output_tokens: int | UnsetType = UNSET
    media_resolution: str | UnsetType = UNSET
    presence_penalty: float | UnsetType = UNSET
    response_logprobs: bool | UnsetType = UNSET
    response_mime_type: str | UnsetType = UNSET
    response_schema: Schema | UnsetType = UNSET
    seed: int | UnsetType = UNSET
    stop_sequences: list[str] | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    thinking_config: ThinkingConfig | UnsetType = UNSET
    top_p: float | UnsetType = UNSET


class OutputMode(Enum):
    """What the text of an answer is wrapped in, beside what was asked for."""

    PLAIN = auto()
    ENUM = auto()
    """White space around one of the choices."""
    REGEX = auto()
    """A JSON string, in its quotes."""


def output_mode(request: ChatRequest) -> OutputMode:
    if request.guided_choice is not None:
        return OutputMode.ENUM
    return OutputMode.REGEX if request.guided_regex else OutputMode.PLAIN


def generation_config(request: ChatRequest, model: GeminiModel, schemas: SchemaConverter) -> GenerationConfig:
    """Build it.

    Raises:
        UnprocessableRequest: a member is out of range, or two of them cannot go together; the text names it.
    """
    output = _output(request, model, schemas)
    resolution = request.generation_config.media_resolution if request.generation_config is not None else None
    return GenerationConfig(
        response_json_schema=output.json_schema,
        candidate_count=_count(request.n, "n") or UNSET,
        frequency_penalty=_number(request.frequency_penalty),
        logprobs=_count(request.top_logprobs, "top_logprobs"),
        max_output_tokens=_limit(request),
        media_resolution=resolution if resolution and model.takes_media_resolution else UNSET,
        presence_penalty=_number(request.presence_penalty),
        response_logprobs=True if request.logprobs else UNSET,
        response_mime_type=output.mime_type,
        response_schema=output.schema,
        seed=UNSET if request.seed is None else _as_int32(request.seed),
        stop_sequences=request.stop_sequences or UNSET,
        temperature=_number(request.temperature),
        thinking_config=_thinking(request, model),
        top_p=_number(request.top_p),
    )


def _number(value: float | None) -> float | UnsetType:
    """A whole number is written without a fraction, as the peer does."""
    if value is None:
        return UNSET
    return int(value) if value.is_integer() else value


def _count(value: int | None, member: str) -> int | UnsetType:
    if value is None:
        return UNSET
    if not 0 <= value <= _INT32_MAX:
        raise UnprocessableRequest(f"{member}: {value} is out of range")
    return value


def _limit(request: ChatRequest) -> int | UnsetType:
    """The limit of tokens; one beyond what the API can say is none that an answer could reach."""
    limit = request.max_output_tokens
    if limit is not None and limit < 0:
        member = "max_tokens" if request.max_completion_tokens is None else "max_completion_tokens"
        raise UnprocessableRequest(f"{member}: {limit} is out of range")
    return min(limit, _INT32_MAX) if limit else UNSET


def _as_int32(seed: int) -> int:
    """Folded, as the peer does: a seed has no meaning but that the same one gives the same answer."""
    return (seed + 2**31) % 2**32 - 2**31


# --- output format ---


class _Output(Struct, frozen=True, kw_only=True):
    mime_type: str | UnsetType = UNSET
    json_schema: Raw | UnsetType = UNSET
    schema: Schema | UnsetType = UNSET


_JSON: Final = "application/json"


def _output(request: ChatRequest, model: GeminiModel, schemas: SchemaConverter) -> _Output:
    found: list[_Output] = []
    match request.response_format:
        case chat.TextFormat():
            found.append(_Output(mime_type="text/plain"))
        case chat.JSONObjectFormat():
            found.append(_Output(mime_type=_JSON))
        case chat.SchemaFormat(json_schema=given):
            found.append(_schema_output(given, model, schemas))
    if request.guided_choice is not None:
        found.append(_Output(mime_type="text/x.enum", schema={"enum": request.guided_choice, "type": "STRING"}))
    if request.guided_regex:
        found.append(_Output(mime_type=_JSON, schema={"pattern": request.guided_regex, "type": "STRING"}))
    if isinstance(request.guided_json, Raw) and bytes(request.guided_json) != b"null":
        found.append(_Output(mime_type=_JSON, json_schema=_checked(request.guided_json)))
    if len(found) > 1:
        raise UnprocessableRequest(
            "only one of response_format, guided_choice, guided_regex and guided_json can be specified"
        )
    return found[0] if found else _Output()


def _schema_output(given: chat.JSONSchemaFormat, model: GeminiModel, schemas: SchemaConverter) -> _Output:
    where = "response_format.json_schema.schema"
    if given.schema is UNSET:
        raise UnprocessableRequest(f"{where}: invalid json schema: there is none")
    try:
        schema = decode_object(bytes(given.schema))
        if model.takes_json_schema:
            return _Output(mime_type=_JSON, json_schema=given.schema)
        return _Output(mime_type=_JSON, schema=schemas.convert(schema) or UNSET)
    except JSONValueError as error:
        raise UnprocessableRequest(f"{where}: invalid json schema: {error}") from error
    except SchemaError as error:
        raise UnprocessableRequest(f"{where}: invalid JSON schema: {error}") from error


def _checked(given: Raw) -> Raw:
    try:
        decode(bytes(given))
    except JSONValueError as error:
        raise UnprocessableRequest(f"guided_json: {error}") from error
    return given


# --- thinking ---

_LEVELS: Final = {"none": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH"}
# Pro models know two levels.
_PRO_LEVELS: Final = {"low": "LOW", "medium": "HIGH", "high": "HIGH"}


def _thinking(request: ChatRequest, model: GeminiModel) -> ThinkingConfig | UnsetType:
    level = _thinking_level(request.reasoning_effort, model)
    match request.thinking:
        case chat.ThinkingEnabled() as enabled:
            # A budget of nothing is no budget: 0 would switch off what the client switches on.
            budget = max(-(2**31), min(enabled.budget_tokens, _INT32_MAX))
            return ThinkingConfig(
                include_thoughts=True if enabled.include_thoughts else UNSET, thinking_budget=budget or UNSET
            )
        case chat.ThinkingDisabled():
            return ThinkingConfig(thinking_budget=0)
        case chat.ThinkingAdaptive():
            # How hard to think is the model's to decide, within the effort that is asked for.
            return ThinkingConfig(thinking_level=level)
    return UNSET if level is UNSET else ThinkingConfig(thinking_level=level)


def _thinking_level(effort: str | None, model: GeminiModel) -> str | UnsetType:
    if not effort or not model.takes_thinking_level:
        return UNSET
    if (level := (_LEVELS if model.is_flash else _PRO_LEVELS).get(effort)) is not None:
        return level
    if effort in _LEVELS:
        raise UnprocessableRequest(
            f"reasoning_effort: reasoning effort '{effort}' is only supported for Gemini Flash models"
        )
    raise UnprocessableRequest(f"reasoning_effort: invalid reasoning effort: {effort}")
