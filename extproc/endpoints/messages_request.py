"""The body of ``POST /v1/messages`` as typed values, for backends that speak another API.

Backends of Anthropic's API never see this: their bytes are edited in place. Blocks, tools and choices of unknown types
are read as far as their members are known; what becomes of them is up to the translator. Free-form JSON (tool input,
schemas) stays text, so that no number changes on its way (contract, the Anthropic schema 4).

NB: annotations are evaluated here, the decoder is built from them.
"""

from collections.abc import Iterator

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.errors import MalformedRequest

PATH = "/v1/messages"


class CacheControl(Struct, frozen=True, kw_only=True):
    """Asks the provider to cache the prompt up to here; only type ``ephemeral`` does.

    Attributes:
        ttl: ``5m`` or ``1h``; the provider's default without it.
    """

    type: str
    ttl: str | None = None


class _Cacheable(Struct, frozen=True, kw_only=True):
    cache_control: CacheControl | None = None

    @property
    def cached(self) -> bool:
        return self.cache_control is not None and self.cache_control.type == "ephemeral"


# --- content ---


class Source(Struct, frozen=True, kw_only=True):
    """Where an image or a document is.

    Attributes:
        type: ``base64``, ``url``, ``text``, ``content`` or ``file``.
        data: base64, or the text itself.
        content: blocks of a document that is made of them, or its text.
    """

    type: str
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    content: "str | list[Block] | None" = None


class Block(_Cacheable, frozen=True, kw_only=True):
    """A block of content; which members it has depends on its type (contract, message content 4.2).

    Attributes:
        source: of an image or a document; of a search result, its address.
        content: of a tool result: text, or blocks; of a provider's own tools also other objects.
        data: the opaque content of ``redacted_thinking``.
        input: of a tool use, as the client spelled it.
        citations: of a text a list, of a document whether they are wanted.
        tool_name: of a ``tool_reference``, which tells the model of a tool that it may now call.
    """

    type: str
    text: str | None = None
    source: Source | str | None = None
    title: str | None = None
    context: str | None = None
    citations: object = None
    content: "str | list[Block] | dict[str, object] | None" = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw | UnsetType = UNSET
    tool_use_id: str | None = None
    tool_name: str | None = None
    is_error: bool | None = None


class Message(Struct, frozen=True, kw_only=True):
    role: str
    content: str | list[Block] | None = None


# --- tools ---


class Tool(_Cacheable, frozen=True, kw_only=True):
    """A tool; one without a type, or of type ``custom``, is the client's own, any other one is the provider's."""

    name: str = ""
    type: str | None = None
    description: str | None = None
    input_schema: Raw | UnsetType = UNSET
    strict: bool | None = None

    @property
    def custom(self) -> bool:
        return not self.type or self.type == "custom"


class ToolChoice(Struct, frozen=True, kw_only=True):
    """``auto``, ``any``, ``tool`` (with its ``name``) or ``none``."""

    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


# --- the request ---


class Thinking(Struct, frozen=True, kw_only=True):
    """``enabled`` with a budget of tokens, ``adaptive`` or ``disabled``.

    Attributes:
        display: ``summarized`` or ``omitted``.
    """

    type: str
    budget_tokens: int | float | None = None
    display: str | None = None


class OutputFormat(Struct, frozen=True, kw_only=True):
    """The form that the answer must have: ``json_schema`` with its schema."""

    type: str
    schema: Raw | UnsetType = UNSET


class OutputConfig(Struct, frozen=True, kw_only=True):
    """Attributes: ``effort``: ``low``, ``medium``, ``high``, ``xhigh`` or ``max``."""

    effort: str | None = None
    format: OutputFormat | None = None


class Metadata(Struct, frozen=True, kw_only=True):
    user_id: str | None = None


class MessagesRequest(Struct, frozen=True, kw_only=True):
    """The request (contract, request fields 4.1). A member that is absent or null is ``None``."""

    model: str | None = None
    messages: list[Message] | None = None
    max_tokens: int | float | None = None
    metadata: Metadata | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    service_tier: str | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    system: str | list[Block] | None = None
    temperature: float | None = None
    thinking: Thinking | None = None
    tool_choice: ToolChoice | None = None
    tools: list[Tool] | None = None
    top_k: int | None = None
    top_p: float | None = None

    @property
    def output_limit(self) -> int | None:
        """``max_tokens``, whole; ``None`` when it is not given."""
        return None if self.max_tokens is None else int(self.max_tokens)

    def system_blocks(self) -> Iterator[Block]:
        """The system prompt as text blocks, and after it what messages of role ``system`` say; empty ones not.

        Some clients put the system prompt into the conversation, as other APIs have it.
        """
        yield from text_blocks(self.system)
        for message in self.messages or ():
            if message.role == "system":
                yield from text_blocks(message.content)


def text_blocks(content: str | list[Block] | None) -> Iterator[Block]:
    """The text blocks of a content that hold some text."""
    if isinstance(content, str):
        if content:
            yield Block(type="text", text=content)
        return
    for block in content or ():
        if block.type == "text" and block.text:
            yield block


_decoder = msgspec.json.Decoder(MessagesRequest)


def decode_messages_request(body: bytes) -> MessagesRequest:
    """Read a request that has to be rebuilt for another API.

    Raises:
        MalformedRequest: it is not JSON, or a member does not have the type that the API gives it.
    """
    try:
        return _decoder.decode(body)
    # Also nested deeper than the interpreter's stack, or with a number of absurd length.
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MalformedRequest(f"failed to parse JSON for {PATH}: {error}") from error
