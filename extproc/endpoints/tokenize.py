"""``POST /tokenize`` as vLLM serves it (contract, tokenize 15).

Its two forms are told apart by a member: ``messages`` makes it a chat, else it is a prompt. Only what tells them apart,
and what the API forbids in either, is read here; the rest is up to the backend.
"""

from __future__ import annotations

import msgspec

from extproc.endpoints.base import Operation, ParsedRequest
from extproc.endpoints.openai import check_model, client_error_body, decode
from extproc.errors import ClientError, MalformedRequest

PATH = "/tokenize"


class _Request(msgspec.Struct, frozen=True):
    """``prompt`` is a text; SGLang takes a list of them as well."""

    model: str | None = None
    prompt: str | list[msgspec.Raw] | None = None
    messages: list[msgspec.Raw] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None

    @property
    def contradicts_itself(self) -> bool:
        """The answer that is to be continued cannot be followed by another one, which is the default of a chat."""
        return (
            self.messages is not None
            and self.continue_final_message is True
            and self.add_generation_prompt is not False
        )


_decoder = msgspec.json.Decoder(_Request)


class Tokenize:
    operation = Operation.TOKENIZE

    def parse(self, body: bytes, *, content_type: str, metering: bool) -> ParsedRequest:  # noqa: ARG002 - never streams
        request = decode(body, _decoder, path=PATH, content_type=content_type)
        if request.prompt is not None and request.messages is not None:
            raise MalformedRequest(
                f"failed to parse JSON for {PATH}: tokenize request must have either 'prompt' or 'messages', not both"
            )
        model = check_model(request.model)
        if not model:
            raise MalformedRequest("invalid tokenize request: model is required")
        if request.contradicts_itself:
            raise MalformedRequest(
                "invalid tokenize request: cannot set both continue_final_message and add_generation_prompt to true"
            )
        return ParsedRequest(model=model, stream=False, body=body)

    def error_body(self, error: ClientError) -> bytes:
        return client_error_body(error)
