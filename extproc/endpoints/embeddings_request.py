"""The body of ``POST /v1/embeddings`` as typed values, for backends that speak another API (contract, embeddings 10.1).

Backends of the client's own API never see this: their bytes are edited in place. Beside OpenAI's own members there are
those of Google's models (``task_type``, ``title``, ``auto_truncate``), and the ``input_type`` of Cohere's.

NB: annotations are evaluated here, the decoders are built from them.
"""

from collections.abc import Iterator
from typing import Self, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from extproc.endpoints.chat_request import Message
from extproc.endpoints.text_or_tokens import FORMS, Form, Forms, Kind, malformed, read
from extproc.errors import MalformedRequest

PATH = "/v1/embeddings"


class Item(Struct, frozen=True, kw_only=True):
    """An input with a purpose of its own.

    Attributes:
        content: a text, or texts that share the purpose.
        title: of the document that the text is from.
    """

    content: str | list[str] = ""
    task_type: str | None = None
    title: str | None = None

    @property
    def text(self) -> str:
        """The text of an item that has only one."""
        return self.content if isinstance(self.content, str) else self.content[0]

    def split(self) -> Iterator[Self]:
        """One item for each of the texts."""
        for text in [self.content] if isinstance(self.content, str) else self.content:
            yield replace(self, content=text)


_FORMS: Forms = {
    **FORMS,
    b"{": Form(Kind.ITEM, msgspec.json.Decoder(Item)),
    b"[{": Form(Kind.ITEMS, msgspec.json.Decoder(list[Item])),
}


class Input(Struct, frozen=True, kw_only=True):
    """What is to be embedded.

    Attributes:
        kind: how it was given.
        items: one for each embedding, so each with one text; none for tokens.
    """

    kind: Kind
    items: tuple[Item, ...] = ()

    @property
    def texts(self) -> list[str]:
        return [item.text for item in self.items]


def check_input(raw: Raw) -> tuple[Kind, object]:
    """The form of the member ``input`` and its value: text, texts, tokens, lists of them, an `Item`, or items.

    Raises:
        MalformedRequest: it has none of the forms that the API knows.
    """
    kind, value = read(raw, member="input", path=PATH, forms=_FORMS, or_object=", object, or")
    if kind is Kind.ITEM and not cast("Item", value).content:
        raise malformed(PATH, "invalid input type (must be string, object, or array): an object needs content")
    if kind is Kind.ITEMS and not all(item.content for item in cast("list[Item]", value)):
        raise malformed(PATH, "invalid input array element: an object needs content")
    return kind, value


def read_input(raw: Raw) -> Input:
    """Read the member ``input``; raises as `check_input`."""
    kind, value = check_input(raw)
    match kind:
        case Kind.TEXT | Kind.TEXTS:
            texts = [value] if kind is Kind.TEXT else value
            return Input(kind=kind, items=tuple(Item(content=text) for text in cast("list[str]", texts)))
        case Kind.ITEM | Kind.ITEMS:
            items = cast("list[Item]", [value] if kind is Kind.ITEM else value)
            return Input(kind=kind, items=tuple(single for item in items for single in item.split()))
    return Input(kind=kind)


class EmbeddingsRequest(Struct, frozen=True, kw_only=True):
    """The request. A member that is absent or null is ``None``, but for ``input`` and ``messages``.

    Attributes:
        input: read it with ``read_input``.
        messages: a conversation to embed, in place of an input.
        dimensions: length of the vectors.
        auto_truncate: whether texts that are too long are cut, rather than refused.
        input_type: Cohere's own word for the purpose.
    """

    input: Raw | UnsetType = UNSET
    messages: list[Message] | UnsetType | None = UNSET
    encoding_format: str | None = None
    dimensions: int | None = None
    auto_truncate: bool | None = None
    task_type: str | None = None
    title: str | None = None
    input_type: str | None = None


_decoder = msgspec.json.Decoder(EmbeddingsRequest)


def decode_embeddings_request(body: bytes) -> EmbeddingsRequest:
    """Read a request that has to be rebuilt for another API.

    Raises:
        MalformedRequest: it is not JSON, or a member does not have the type that the API gives it.
    """
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise MalformedRequest(f"failed to parse JSON for {PATH}: {error}") from error
