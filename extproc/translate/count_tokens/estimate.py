"""How many tokens a request may have, for a backend that cannot count them.

The rule, whatever the model: a token for every three bytes of text in UTF-8 that the model reads, and a few for what
frames it. English and code have between three and five bytes to a token, Chinese and Japanese about three, so the
count is rather too high than too low: who decides by it whether a conversation still fits shortens it early, not late.
Images count as the largest do, files by their size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from msgspec import UNSET

from extproc.translate.messages import chat_wire as chat
from extproc.translate.via_chat import wire as common

BYTES_PER_TOKEN: Final = 3
IMAGE_TOKENS: Final = 1600
"""Of an image that is as large as providers leave one."""
FILE_BYTES_PER_TOKEN: Final = 20
"""Of a file's data as it is sent: a page is some tens of kilobytes, and a few thousand tokens as text and image."""
MESSAGE_TOKENS: Final = 4
"""Of what stands around a message, a call, or a tool."""


def estimate(body: chat.ChatBody) -> int:
    """The estimated count of tokens of a request's input."""
    texts = sum(len(text.encode()) for text in _texts(body))
    frames = len(body.messages) + sum(1 for _ in _calls(body)) + len(body.tools or ())
    media = sum(_media_tokens(part) for message in body.messages for part in _parts(message))
    return math.ceil(texts / BYTES_PER_TOKEN) + frames * MESSAGE_TOKENS + media


def _parts(message: chat.ChatMessage) -> list[chat.Part]:
    return message.content if isinstance(message.content, list) else []


def _media_tokens(part: chat.Part) -> int:
    match part:
        case common.ImagePart():
            return IMAGE_TOKENS
        case chat.FilePart():
            return math.ceil(len(part.file.file_data) / FILE_BYTES_PER_TOKEN)
        case common.TextPart():
            return 0


def _calls(body: chat.ChatBody) -> Iterator[common.ToolCall]:
    for message in body.messages:
        if isinstance(message, chat.AssistantMessage):
            yield from message.tool_calls or ()


def _texts(body: chat.ChatBody) -> Iterator[str]:
    for message in body.messages:
        if isinstance(message.content, str):
            yield message.content
        yield from (part.text for part in _parts(message) if isinstance(part, common.TextPart))
    for call in _calls(body):
        yield from (call.function.name, call.function.arguments)
    for tool in body.tools or ():
        function = tool.function
        yield function.name
        yield function.description or ""
        yield "" if function.parameters is UNSET else bytes(function.parameters).decode()
    if body.response_format is not UNSET:
        yield bytes(body.response_format.json_schema.schema).decode()
