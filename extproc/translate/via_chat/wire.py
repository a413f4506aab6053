"""What requests of every carried API have in common, once they are chat completion requests.

Members stand in the contract's order (JSON output 3.3).
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType

# --- content ---


class TextPart(Struct, frozen=True):
    text: str
    type: Literal["text"] = "text"


class ImageURL(Struct, frozen=True):
    url: str
    detail: str | UnsetType = UNSET


class ImagePart(Struct, frozen=True):
    image_url: ImageURL
    type: Literal["image_url"] = "image_url"


# --- calls ---


class FunctionCall(Struct, frozen=True, kw_only=True):
    """Attributes: ``arguments``: the text of a JSON object."""

    arguments: str
    name: str


class ToolCall(Struct, frozen=True, kw_only=True):
    id: str
    function: FunctionCall
    type: Literal["function"] = "function"


# --- tools ---


class Function(Struct, frozen=True, kw_only=True):
    """Attributes: ``parameters``: a JSON Schema, as the client spelled it."""

    name: str
    description: str | UnsetType = UNSET
    parameters: Raw | UnsetType = UNSET
    strict: bool | UnsetType = UNSET


class Tool(Struct, frozen=True, kw_only=True):
    type: Literal["function"] = "function"
    function: Function


class FunctionName(Struct, frozen=True):
    name: str


class NamedToolChoice(Struct, frozen=True, kw_only=True):
    type: Literal["function"] = "function"
    function: FunctionName


# --- streams ---


class StreamOptions(Struct, frozen=True):
    include_usage: bool = True
