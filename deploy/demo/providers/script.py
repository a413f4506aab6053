"""What the stand-in model says: a function of the conversation, and the same whichever API it came through.

It calls a tool when it is offered one and asked something, reports what the tools said, and else says what it has read.
Words count as tokens. What stands before the first answer of a conversation is in the prompt cache from then on.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from deploy.demo.providers.schemas import object_of, value_of

_TOOL_TOKENS: Final = 12
_CALL_TOKENS: Final = 6
_IMAGE_TOKENS: Final = 85
_SIGNATURE: Final = b"standin-"

ANY: Final = "*any*"
NONE: Final = "*none*"
AUTO: Final = "*auto*"


class Stop(Enum):
    """Why an answer is at its end."""

    END = auto()
    TOOLS = auto()
    LENGTH = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    name: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """``id`` has no prefix; every API puts its own before it."""

    id: str
    name: str
    arguments: Mapping[str, Any]

    @property
    def json(self) -> str:
        return json.dumps(self.arguments, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """``prompt`` counts all of the prompt: ``cached`` of it was read from the cache, ``written`` was put there."""

    prompt: int
    cached: int
    written: int
    answer: int
    thinking: int

    @property
    def fresh(self) -> int:
        """What of the prompt has nothing to do with the cache."""
        return self.prompt - self.cached - self.written

    @property
    def output(self) -> int:
        return self.answer + self.thinking

    @property
    def total(self) -> int:
        return self.prompt + self.output


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """An answer, in the order of its parts."""

    id: str
    thinking: str
    text: str
    calls: tuple[ToolCall, ...]
    stop: Stop
    tokens: Tokens

    @property
    def signature(self) -> str:
        return sign(self.thinking)

    def words(self) -> list[str]:
        return pieces(self.text)


@dataclass(slots=True, kw_only=True)
class Conversation:
    """What was asked, told in order by whoever reads a provider's request; and then how to answer.

    Attributes:
        choice: ``AUTO``, ``ANY``, ``NONE``, or the name of the tool to call.
        parallel: whether more than one call at a time is welcome.
        limit: most tokens of the answer, thinking included.
        schema: of the JSON that the answer has to be.
        caching: whether the system prompt is marked for the cache; then writing it there is told, and charged.
    """

    tools: tuple[Tool, ...] = ()
    choice: str = AUTO
    parallel: bool = True
    thinking: bool = False
    limit: int | None = None
    schema: Mapping[str, Any] | None = None
    caching: bool = False
    _asked: list[str] = field(default_factory=list)
    _results: list[str] = field(default_factory=list)
    _last: str = ""
    _prompt: int = 0
    _cacheable: int = 0
    _cached: int = 0
    _read: list[str] = field(default_factory=list)

    def system(self, text: str) -> None:
        self._count(text)
        self._cacheable += _tokens(text)

    def user(self, text: str) -> None:
        if self._last != "user":
            self._asked = []
        self._asked.append(text)
        self._follow("user", text)

    def image(self) -> None:
        self._prompt += _IMAGE_TOKENS
        self._read.append("image")

    def assistant(self, text: str) -> None:
        self._follow("assistant", text)
        self._cached = self._cacheable

    def call(self, name: str) -> None:
        self._follow("assistant", name)
        self._prompt += _CALL_TOKENS - 1
        self._cached = self._cacheable

    def result(self, text: str) -> None:
        if self._last != "result":
            self._results = []
        self._results.append(text)
        self._follow("result", text)

    def answer(self) -> Said:
        said, calls = self._answer()
        thinking = f"The user wants to know: {self._question()}" if self.thinking else ""
        stop = Stop.TOOLS if calls else Stop.END
        tokens = self._tokens(said, calls, thinking)
        if self.limit is not None and tokens.output > self.limit:
            words = pieces(said)[: max(0, self.limit - tokens.thinking)]
            said, calls, stop = "".join(words).rstrip(" "), (), Stop.LENGTH
            tokens = self._tokens(said, calls, thinking)
        return Said(id=_id(*self._read, said), thinking=thinking, text=said, calls=calls, stop=stop, tokens=tokens)

    def _answer(self) -> tuple[str, tuple[ToolCall, ...]]:
        if self._last == "result":
            return f"The tools say: {'; '.join(self._results)}", ()
        if self.schema is not None:
            return json.dumps(value_of(self.schema, self._names()[0]), separators=(",", ":")), ()
        if self.tools and self.choice != NONE:
            return "Let me look that up.", self._calls()
        return f"You said: {self._question()}", ()

    def _calls(self) -> tuple[ToolCall, ...]:
        named = [tool for tool in self.tools if tool.name == self.choice] or list(self.tools)
        both = self.parallel and "both" in self._question().lower().split()
        words = self._names()
        chosen = [(named[0], words[0])]
        if both:
            chosen.append((named[1 % len(named)], words[1 % len(words)]))
        return tuple(
            ToolCall(
                id=_id(*self._read, tool.name, word, str(index)),
                name=tool.name,
                arguments=object_of(tool.parameters, word),
            )
            for index, (tool, word) in enumerate(chosen)
        )

    def _question(self) -> str:
        return "\n".join(self._asked)

    def _names(self) -> list[str]:
        """The names in the question: its words with a capital, but for the first."""
        words = [word.strip(".,;:!?") for word in self._question().split()]
        return [word for word in words[1:] if word[:1].isupper()] or words[-1:] or ["nothing"]

    def _tokens(self, said: str, calls: tuple[ToolCall, ...], thinking: str) -> Tokens:
        return Tokens(
            prompt=self._prompt + _TOOL_TOKENS * len(self.tools),
            cached=self._cached,
            written=self._cacheable if self.caching and not self._cached else 0,
            answer=_tokens(said) + _CALL_TOKENS * len(calls),
            thinking=_tokens(thinking),
        )

    def _follow(self, what: str, text: str) -> None:
        self._last = what
        self._count(text)

    def _count(self, text: str) -> None:
        self._prompt += _tokens(text)
        self._read.append(text)


def pieces(text: str) -> list[str]:
    """The text cut where a tokenizer might: each piece but the first starts with its blank."""
    words = text.split(" ")
    return [word if index == 0 else f" {word}" for index, word in enumerate(words)] if text else []


def halves(text: str) -> tuple[str, str]:
    """The text cut in the middle, as arguments are streamed."""
    return text[: len(text) // 2], text[len(text) // 2 :]


def sign(thought: str) -> str:
    """The signature that a thought must come back with, in base64."""
    return base64.b64encode(_SIGNATURE + hashlib.sha256(thought.encode()).digest()).decode()


def is_signature(data: bytes) -> bool:
    """Whether these are the bytes of a signature that was made here."""
    return data.startswith(_SIGNATURE)


def _tokens(text: str) -> int:
    return len(text.split())


def _id(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:22]
