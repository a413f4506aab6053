"""How a request of the responses API is refused that chat completions cannot say."""

from __future__ import annotations

from extproc.errors import UnprocessableRequest


def unsupported(what: str) -> UnprocessableRequest:
    """The refusal; ``what`` begins with the member."""
    return UnprocessableRequest(f"{what} is not supported by backends that are reached through chat completions")
