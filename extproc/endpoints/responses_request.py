"""The body of ``POST /v1/responses`` as typed values, for backends that are reached through chat completions.

Backends that speak the responses API never see this: their bytes are edited in place. Items are read in two steps:
what members one has depends on its type, and types that are not known here have to be told from broken items.
Free-form JSON (parameters, schemas) stays text, so that no number changes on its way (contract, responses 7.1).

NB: annotations are evaluated here, the decoders are built from them.
"""

from typing import TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.errors import MalformedRequest

PATH = "/v1/responses"

T = TypeVar("T")


# --- content ---


class InputAudio(Struct, frozen=True, kw_only=True):
    data: str = ""
    format: str = ""


class Part(Struct, frozen=True, kw_only=True):
    """A part of a content; which members it has depends on its type.

    Attributes:
        type: ``input_text``, ``input_image``, ``input_file``, ``input_audio``; of the model's own words ``output_text``
            or ``refusal``.
        image_url: an address or a data URI.
        file_data: a data URI or base64.
        file_id: a file, or an image, that was uploaded to OpenAI.
    """

    type: str = ""
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None
    detail: str | None = None
    file_data: str | None = None
    file_id: str | None = None
    file_url: str | None = None
    filename: str | None = None
    input_audio: InputAudio | None = None


Content = str | list[Part]

# --- items ---


class ItemHead(Struct, frozen=True, kw_only=True):
    """What tells items apart. A message may be without a type, and so may a reference to an item by its ``id``."""

    type: str | None = None
    role: str | None = None
    id: str | None = None


class MessageItem(Struct, frozen=True, kw_only=True):
    role: str
    content: Content


class FunctionCallItem(Struct, frozen=True, kw_only=True):
    """A call that the model has made. Attributes: ``namespace``: of the function, where it is in one."""

    call_id: str
    name: str
    arguments: str = ""
    namespace: str | None = None


class CustomCallItem(Struct, frozen=True, kw_only=True):
    """A call of a ``custom`` tool, which takes a text of its own form."""

    call_id: str
    name: str
    input: str = ""
    namespace: str | None = None


class LocalShellAction(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command that the client is to run: the program and its arguments."""

    command: list[str] = []
    env: dict[str, str] = {}
    timeout_ms: int | None = None
    user: str | None = None
    working_directory: str | None = None


class LocalShellCallItem(Struct, frozen=True, kw_only=True):
    call_id: str
    action: LocalShellAction
    id: str | None = None


class CallOutputItem(Struct, frozen=True, kw_only=True):
    """What came of a call, of whichever kind of tool."""

    call_id: str
    output: Content


class LocalShellOutputItem(Struct, frozen=True, kw_only=True):
    """Attributes: ``id``: of the call, or its ``call_id``."""

    output: str
    id: str | None = None
    call_id: str | None = None


class ReasoningItem(Struct, frozen=True, kw_only=True):
    """Attributes: ``encrypted_content``: opaque text of whoever made the item."""

    encrypted_content: str | None = None


# --- tools ---


class InputFormat(Struct, frozen=True, kw_only=True):
    """What the input of a custom tool must be like: any ``text``, or a ``grammar`` in ``lark`` or ``regex``."""

    type: str = "text"
    syntax: str | None = None
    definition: str | None = None


class Tool(Struct, frozen=True, kw_only=True):
    """A tool; which members it has depends on its type.

    Attributes:
        parameters: of a ``function``, a JSON Schema as the client spelled it.
        format: of a ``custom`` tool.
        tools: of a ``namespace``.
        allowed_callers: ``direct``, ``programmatic``; without, the model calls it.
    """

    type: str = ""
    name: str = ""
    description: str | None = None
    parameters: Raw | UnsetType = UNSET
    strict: bool | None = None
    format: InputFormat | None = None
    tools: "list[Tool] | None" = None
    allowed_callers: list[str] | None = None


class ToolReference(Struct, frozen=True, kw_only=True, omit_defaults=True):
    type: str = ""
    name: str = ""


class ToolChoice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A choice that is not a word: one function, or the tools that are allowed, of which it may or must call one.

    Attributes:
        mode: of ``allowed_tools``: ``auto`` or ``required``.
    """

    type: str = ""
    name: str = ""
    mode: str = ""
    tools: list[ToolReference] = []


# --- output ---


class Format(Struct, frozen=True, kw_only=True):
    """The form that the text must have: ``text``, ``json_object``, or ``json_schema`` with the members after it."""

    type: str = "text"
    name: str | UnsetType = UNSET
    schema: Raw | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    strict: bool | UnsetType | None = UNSET


class TextConfig(Struct, frozen=True, kw_only=True):
    format: Format | None = None
    verbosity: str | None = None


class Reasoning(Struct, frozen=True, kw_only=True):
    """How much to think, and what to tell of it.

    Attributes:
        generate_summary: the older name of ``summary``.
        mode: ``standard``, or one that takes more effort.
    """

    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None
    mode: str | None = None

    @property
    def summarized(self) -> bool:
        """The client asks for a summary of the reasoning."""
        return bool(self.summary or self.generate_summary)


# --- the request ---


class ResponsesRequest(Struct, frozen=True, kw_only=True):
    """The request (contract, responses 7.1). A member that is absent or null is ``None``.

    Attributes:
        input: the user's words, or items, each to be read with ``read_item``.
        tools: each to be read as a ``Tool``.
        thinking: not of this API: asks models to think, as in this gateway's chat completions.
    """

    background: bool | None = None
    context_management: list[Raw] | None = None
    conversation: object = None
    frequency_penalty: int | float | None = None
    include: list[str] | None = None
    input: str | list[Raw] | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    metadata: dict[str, str] | None = None
    moderation: object = None
    parallel_tool_calls: bool | None = None
    presence_penalty: int | float | None = None
    previous_response_id: str | None = None
    prompt: object = None
    prompt_cache_key: str | None = None
    reasoning: Reasoning | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    temperature: int | float | None = None
    text: TextConfig | None = None
    thinking: Raw | UnsetType = UNSET
    tool_choice: str | ToolChoice | None = None
    tools: list[Raw] | None = None
    top_logprobs: int | None = None
    top_p: int | float | None = None
    user: str | None = None

    @property
    def wants_logprobs(self) -> bool:
        return self.top_logprobs is not None or "message.output_text.logprobs" in (self.include or ())


_decoder = msgspec.json.Decoder(ResponsesRequest)
_read_head = msgspec.json.Decoder(ItemHead)


def decode_responses_request(body: bytes) -> ResponsesRequest:
    """Read a request that has to be said in another API.

    Raises:
        MalformedRequest: it is not JSON in UTF-8, or a member does not have the type that the API gives it.
    """
    request = _decode(_decoder, body, "")
    try:
        # Free-form JSON in it has not been looked at, and is to be sent on.
        body.decode()
    except UnicodeDecodeError as error:
        raise MalformedRequest(f"failed to parse JSON for {PATH}: {error}") from error
    return request


def read_head(item: Raw, where: str) -> ItemHead:
    """What kind of item this is.

    Raises:
        MalformedRequest: it is none; the text has ``where``.
    """
    return _decode(_read_head, item, where)


def read_item(decoder: msgspec.json.Decoder[T], item: Raw, where: str) -> T:
    """Read an item of a known kind.

    Raises:
        MalformedRequest: a member is missing or does not have its type; the text has ``where``.
    """
    return _decode(decoder, item, where)


def _decode(decoder: msgspec.json.Decoder[T], data: bytes | Raw, where: str) -> T:
    try:
        return decoder.decode(data)
    # Also nested deeper than the interpreter's stack, or with a number of absurd length.
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        place = f"{where}: " if where else ""
        raise MalformedRequest(f"failed to parse JSON for {PATH}: {place}{error}") from error
