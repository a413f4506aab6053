"""Writes the chunks of a streamed chat completion.

A stream ends in exactly one of two ways: whole, with the usage for a client that asked and ``[DONE]``; or with an
error in the client's shape and nothing after it, so that a broken answer is never taken for a whole one.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from extproc.translate.chat.completion import DONE, Chunk, ChunkChoice, Delta, Usage, encode
from extproc.translate.openai_errors import MAX_TYPE_LENGTH, bounded_error


class ChunkWriter:
    """Collects output between two pieces of the upstream's stream.

    Attributes:
        id: of the completion, once it is known.
        created: Unix seconds, once known.
        model: the name that the client reads in every chunk.
        service_tier: shown in the chunk with the usage.
        ended: the stream has had its end; what is written after it is dropped.
        failure: the name of the error that it ended with; empty while there is none.
        native_stop: the provider's reason for stopping, where the API has no word for it; else empty.
    """

    __slots__ = ("_include_usage", "_out", "created", "ended", "failure", "id", "model", "native_stop", "service_tier")

    def __init__(self, *, model: str, include_usage: bool) -> None:
        self.id: str | UnsetType = UNSET
        self.created: int | UnsetType = UNSET
        self.model = model
        self.service_tier: str | UnsetType = UNSET
        self.ended = False
        self.failure = ""
        self.native_stop = ""
        self._include_usage = include_usage
        self._out: list[bytes] = []

    def delta(
        self,
        delta: Delta,
        *,
        index: int = 0,
        finish_reason: str | UnsetType = UNSET,
        native_finish_reason: str | UnsetType = UNSET,
    ) -> None:
        """Write a chunk with one choice."""
        self.choices(
            [
                ChunkChoice(
                    index=index, delta=delta, finish_reason=finish_reason, native_finish_reason=native_finish_reason
                )
            ]
        )

    def choices(self, choices: list[ChunkChoice]) -> None:
        """Write a chunk with these choices."""
        for choice in choices:
            if choice.native_finish_reason:
                self.native_stop = choice.native_finish_reason
        if not self.ended:
            self._write(Chunk(id=self.id, choices=choices, created=self.created, model=self.model))

    def finish(self, usage: Usage | None) -> None:
        """The answer is whole: write the usage, if the client asked for it and it is known, and the end."""
        if self.ended:
            return
        self.ended = True
        if usage is not None and self._include_usage:
            self._write(
                Chunk(
                    id=self.id,
                    choices=[],
                    created=self.created,
                    model=self.model,
                    service_tier=self.service_tier,
                    usage=usage,
                )
            )
        self._out.append(DONE)

    def fail(self, error_type: str, message: str, *, code: str) -> None:
        """The answer has broken off: tell the client in its own shape, and end without ``[DONE]``.

        Args:
            error_type: the provider's name of the error.
            message: what the provider says, or what is wrong with its answer.
            code: HTTP status that the provider would have given, as text.
        """
        if self.ended:
            return
        self.ended = True
        self.failure = error_type[:MAX_TYPE_LENGTH] or "_OTHER"
        self._out.append(b"data: " + bounded_error(error_type, code, message) + b"\n\n")

    def take(self) -> bytes:
        """The output since the last call."""
        out = b"".join(self._out)
        self._out.clear()
        return out

    def _write(self, chunk: Chunk) -> None:
        self._out.append(b"data: " + encode(chunk) + b"\n\n")
