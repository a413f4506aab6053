"""Signed thoughts of a model, kept in the ``encrypted_content`` of a reasoning item, which clients send back as it is.

Providers that think check a thought by its signature when a conversation goes on after a call, and this API has no
other place for one. What another provider, or another family of models, has made is of no use to this one: left out.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from extproc.translate.via_chat.answers import ThinkingBlock

_FAMILIES: Final = {"OpenAI": "chat", "AzureOpenAI": "chat", "GCPVertexAI": "gemini"}


def family(schema: str) -> str:
    """Whose thoughts a backend can take back: Claude's are the same wherever it runs."""
    return _FAMILIES.get(schema, "claude")


class _Block(Struct, kw_only=True):
    """A block of thought; it grows until its signature comes, which is its end."""

    type: str = "thinking"
    thinking: str | UnsetType = UNSET
    signature: str | UnsetType = UNSET
    data: str | UnsetType = UNSET


_encode = msgspec.json.Encoder().encode
_read_blocks = msgspec.json.Decoder(list[_Block]).decode


class Thoughts:
    """Collects the thoughts of an answer, whole or in pieces.

    Args:
        family: of the model that has them.
    """

    def __init__(self, family: str) -> None:
        self._family = family
        self._blocks: list[_Block] = []
        self._growing: _Block | None = None
        self._text: list[str] = []
        # Whether the backend tells its thoughts as text as well; blocks then only repeat it.
        self._told = False

    def add(self, text: str, blocks: Sequence[ThinkingBlock]) -> str:
        """Add what a piece of the answer has of thoughts, and say what of it is news for the client."""
        for block in blocks:
            self._collect(block)
        self._told = self._told or bool(text)
        news = text if self._told else "".join(block.thinking or "" for block in blocks)
        self._text.append(news)
        return news

    def _collect(self, block: ThinkingBlock) -> None:
        if block.data:
            self._blocks.append(_Block(type=block.type or "redacted_thinking", data=block.data))
            return
        if self._growing is None:
            self._growing = _Block(type=block.type or "thinking")
            self._blocks.append(self._growing)
        if block.thinking:
            self._growing.thinking = (self._growing.thinking or "") + block.thinking
        if block.signature:
            self._growing.signature = block.signature
            self._growing = None

    def sealed(self) -> str | None:
        """The thoughts as text, to be opened by ``unseal``; ``None`` when the provider does not want them back."""
        kept = [each for each in self._blocks if each.signature or each.data]
        if not kept:
            return None
        if len(kept) == 1 and kept[0].signature and not kept[0].thinking:
            # Some tell the thought as text and sign it in a block of its own.
            kept[0].thinking = "".join(self._text)
        return f"{self._family}.{base64.b64encode(_encode(kept)).decode()}"


def unseal(text: str | None, family: str) -> list[Raw]:
    """The blocks of a text that was sealed for this family; none in any other text."""
    maker, _, sealed = (text or "").partition(".")
    if maker != family:
        return []
    try:
        blocks = _read_blocks(base64.b64decode(sealed, validate=True))
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return []
    return [Raw(_encode(block)) for block in blocks]
