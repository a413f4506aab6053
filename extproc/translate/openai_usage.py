"""Reading the usage and the model that OpenAI-like backends report.

Readers are lenient: what cannot be read is treated as not reported, because an observation must never break an
answer that the client can use.
"""

from __future__ import annotations

import msgspec

from extproc.usage import NO_USAGE, TokenUsage, as_count


class Report(msgspec.Struct, frozen=True):
    """The members of an answer, or of a chunk of one, that the processor reads."""

    model: object = None
    usage: object = None
    choices: msgspec.Raw = msgspec.Raw(b"[]")

    def has_choices(self) -> bool:
        """Whether the chunk carries more than its usage."""
        return bytes(self.choices).translate(None, b" \t\r\n") not in (b"[]", b"null")

    def model_name(self) -> str:
        return self.model if isinstance(self.model, str) else ""


_decoder = msgspec.json.Decoder(Report)


def read_report(data: bytes) -> Report | None:
    """Decode one JSON document, or ``None`` when it is not an object."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def chat_usage(usage: object) -> TokenUsage:
    """Usage of chat completions and completions (contract 3.17, 9.2).

    ``prompt_tokens`` includes the cached tokens, so the counts are taken as they are. A total that a backend leaves
    out is the sum of the two others.
    """
    if not isinstance(usage, dict):
        return NO_USAGE
    prompt = as_count(usage.get("prompt_tokens"))
    completion = as_count(usage.get("completion_tokens"))
    total = as_count(usage.get("total_tokens"))
    if total is None and (prompt is not None or completion is not None):
        total = (prompt or 0) + (completion or 0)
    cached = creation = reasoning = None
    if isinstance(details := usage.get("prompt_tokens_details"), dict):
        cached = as_count(details.get("cached_tokens", 0))
        creation = as_count(details.get("cache_creation_input_tokens", 0))
    if isinstance(details := usage.get("completion_tokens_details"), dict):
        reasoning = as_count(details.get("reasoning_tokens", 0))
    return TokenUsage(
        input=prompt,
        output=completion,
        total=total,
        cached_input=cached,
        cache_creation_input=creation,
        reasoning=reasoning,
    )


def embeddings_usage(usage: object) -> TokenUsage:
    """Usage of embeddings: input and total; there is no output (contract, embeddings 10.2)."""
    if not isinstance(usage, dict):
        return NO_USAGE
    prompt = as_count(usage.get("prompt_tokens"))
    total = as_count(usage.get("total_tokens"))
    return TokenUsage(input=prompt, total=prompt if total is None else total)
