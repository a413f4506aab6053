"""Images, documents, search results and results of tools of a messages request as Converse blocks.

All travel within the request: the service fetches nothing from the web, and knows nothing of files that were uploaded
elsewhere (contract, messages 5.5).
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Final

from msgspec import UNSET, UnsetType

from extproc.endpoints.messages_request import Block, Source
from extproc.errors import UnprocessableRequest
from extproc.translate.chat.bedrock import wire
from extproc.translate.chat.bedrock.media import DOCUMENTS, IMAGES, DocumentNames, standard_base64

_NAMELESS_ERROR: Final = "error"


def image_block(block: Block, where: str) -> wire.ImageBlock:
    """The block for an image.

    Raises:
        UnprocessableRequest: it is elsewhere, or of a type that Converse does not take.
    """
    source = _source(block, where)
    if source.type != "base64":
        raise UnprocessableRequest(f"only base64 image sources are supported ({where}.source.type)")
    media_type = (source.media_type or "").strip().lower()
    if media_type not in IMAGES:
        raise UnprocessableRequest(
            f"unsupported image format {media_type or 'without a media type'} ({where}.source.media_type)"
        )
    return wire.ImageBlock(wire.Image(format=IMAGES[media_type], source=_bytes(source, where)))


def document_block(block: Block, names: DocumentNames, where: str) -> wire.DocumentBlock:
    """The block for a document, named after its title.

    Args:
        block: the document.
        names: names the request's documents.
        where: its place, for messages.

    Raises:
        UnprocessableRequest: it is elsewhere, or of a type that Converse does not take.
    """
    source = _source(block, where)
    format_: str | UnsetType = UNSET
    content: wire.Bytes | wire.DocumentContent
    match source.type:
        case "base64":
            format_, content = _document_format(source, where), _bytes(source, where)
        case "text":
            # As a file of text, which all models take that take documents.
            format_, content = "txt", wire.Bytes(b64encode(_text(source, where).encode()).decode())
        case "content":
            content = _chunks(source, where)
        case other:
            raise UnprocessableRequest(f"document sources of type {other} are not supported ({where}.source.type)")
    return wire.DocumentBlock(
        wire.Document(
            format=format_,
            # A title is no path.
            name=names.name(re.sub(r"[/\\]", " ", block.title or "")),
            source=content,
            context=block.context or UNSET,
            citations=_wants_citations(block),
        )
    )


def search_result_block(block: Block, where: str) -> wire.SearchResultBlock:
    """The block for a search result of the client's own.

    Raises:
        UnprocessableRequest: it lacks what Converse demands.
    """
    if not isinstance(block.source, str) or not isinstance(block.content, list) or block.title is None:
        raise UnprocessableRequest(f"{where} needs a source, a title, and a list of texts as its content")
    result = wire.SearchResult(
        source=block.source,
        title=block.title,
        content=_texts(block.content, f"{where}.content"),
        citations=_wants_citations(block),
    )
    return wire.SearchResultBlock(result)


def tool_result_block(block: Block, names: DocumentNames, where: str) -> wire.ToolResultBlock:
    """The block for the result of a call; ``names`` as for documents. A result that says nothing is an empty list.

    Raises:
        UnprocessableRequest: Converse cannot express it.
    """
    if not block.tool_use_id:
        raise UnprocessableRequest(f"{where}.tool_use_id is missing")
    if isinstance(block.content, dict):
        raise UnprocessableRequest(f"{where}.content must be text or a list of blocks")
    parts = [Block(type="text", text=block.content)] if isinstance(block.content, str) else block.content or []
    content: list[wire.ToolResultContent] = []
    for number, part in enumerate(parts):
        at = f"{where}.content[{number}]"
        match part.type:
            case "text":
                content += [] if blank(part.text) else [wire.Text(part.text or "")]
            case "image":
                content.append(image_block(part, at))
            case "document":
                content.append(document_block(part, names, at))
            case "search_result":
                content.append(search_result_block(part, at))
            case other:
                raise UnprocessableRequest(f"{at} of type {other} is not supported by AWSBedrock backends")
    failed = block.is_error is True
    if failed and not content:
        # The service does not take an error that says nothing.
        content.append(wire.Text(_NAMELESS_ERROR))
    return wire.ToolResultBlock(
        wire.ToolResult(content=content, status="error" if failed else UNSET, tool_use_id=block.tool_use_id)
    )


def blank(text: str | None) -> bool:
    """Whether it is a text that the service would refuse: nothing, or nothing but white space."""
    return not text or not text.strip()


def _source(block: Block, where: str) -> Source:
    if not isinstance(block.source, Source):
        raise UnprocessableRequest(f"{where}.source is missing")
    return block.source


def _bytes(source: Source, where: str) -> wire.Bytes:
    if not source.data:
        raise UnprocessableRequest(f"{where}.source.data is missing")
    return wire.Bytes(standard_base64(source.data, where=f"{where}.source.data"))


def _document_format(source: Source, where: str) -> str:
    media_type = (source.media_type or "").partition(";")[0].strip().lower()
    if media_type not in DOCUMENTS:
        raise UnprocessableRequest(
            f"unsupported document format {media_type or 'without a media type'} ({where}.source.media_type)"
        )
    return DOCUMENTS[media_type]


def _text(source: Source, where: str) -> str:
    if blank(source.data):
        raise UnprocessableRequest(f"{where}.source.data is missing")
    return source.data or ""


def _chunks(source: Source, where: str) -> wire.DocumentContent:
    content = source.content
    parts = [Block(type="text", text=content)] if isinstance(content, str) else content or []
    return wire.DocumentContent(_texts(parts, f"{where}.source.content"))


def _texts(parts: list[Block], where: str) -> list[wire.Text]:
    """The texts of blocks that must all be text; citations speak of them by number, so that none may be left out."""
    if not parts:
        raise UnprocessableRequest(f"{where} is empty")
    for number, part in enumerate(parts):
        if part.type != "text":
            raise UnprocessableRequest(f"{where}[{number}] of type {part.type} is not supported by AWSBedrock backends")
        if blank(part.text):
            raise UnprocessableRequest(f"{where}[{number}].text is empty")
    return [wire.Text(part.text or "") for part in parts]


def _wants_citations(block: Block) -> wire.Citations | UnsetType:
    wanted = isinstance(block.citations, dict) and block.citations.get("enabled") is True
    return wire.Citations(enabled=True) if wanted else UNSET
