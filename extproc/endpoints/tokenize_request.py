"""The body of ``POST /tokenize`` as typed values, for backends that count tokens in another API (contract, 15.1).

Backends of the client's own API never see this: their bytes are edited in place. What only a tokenizer of one's own
could do, render another template or add special tokens or not, is not modelled: a provider renders a conversation in
its one way, and its count is that of the same conversation as a chat completion there.

NB: annotations are evaluated here, the decoder is built from them.
"""

import msgspec
from msgspec import Struct

from extproc.endpoints.chat_request import ChatRequest, GenerationConfig, Message, Tool, UserMessage
from extproc.errors import MalformedRequest

PATH = "/tokenize"


class TokenizeRequest(Struct, frozen=True, kw_only=True):
    """The request. A member that is absent or null is ``None``.

    Attributes:
        prompt: of the completion form; ``messages``, ``tools`` and ``media_resolution`` are those of the chat form.
        return_token_strs: ask for the text of each token.
    """

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None
    tools: list[Tool] | None = None
    media_resolution: str | None = None
    return_token_strs: bool | None = None

    def as_chat(self) -> ChatRequest:
        """The chat whose tokens are to be counted; a prompt is what a user says."""
        if self.messages is None:
            return ChatRequest(model=self.model, messages=[UserMessage(content=self.prompt or "")])
        resolution = GenerationConfig(media_resolution=self.media_resolution) if self.media_resolution else None
        return ChatRequest(model=self.model, messages=self.messages, tools=self.tools, generation_config=resolution)


_decoder = msgspec.json.Decoder(TokenizeRequest)


def decode_tokenize_request(body: bytes) -> TokenizeRequest:
    """Read a request that has to be rebuilt for another API.

    Raises:
        MalformedRequest: it is not JSON, or a member does not have the type that the API gives it.
    """
    try:
        return _decoder.decode(body)
    # Also nested deeper than the interpreter's stack, or with a number of absurd length.
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MalformedRequest(f"failed to parse JSON for {PATH}: {error}") from error
