"""Images and documents of a chat request as blocks of the Messages API (contract, chat 11.2)."""

from __future__ import annotations

import binascii
import re
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from extproc.endpoints.chat_request import File
from extproc.errors import UnprocessableRequest
from extproc.formats.datauri import DataURIError, is_data_uri, read_data_uri

_IMAGES: Final = {
    "image/jpeg": "image/jpeg",
    # Common, but not registered.
    "image/jpg": "image/jpeg",
    "image/png": "image/png",
    "image/gif": "image/gif",
    "image/webp": "image/webp",
}
_PDF: Final = "application/pdf"
_PDF_IN_BASE64: Final = "JVBERi"
_MAX_TITLE: Final = 500


class CacheControl(Struct, frozen=True, kw_only=True, gc=False):
    """A breakpoint: the prompt up to here is worth caching."""

    ttl: str | UnsetType = UNSET
    type: str = "ephemeral"


class Base64Source(Struct, frozen=True, kw_only=True, gc=False):
    data: str
    media_type: str
    type: str = "base64"


class TextSource(Struct, frozen=True, kw_only=True, gc=False):
    data: str
    media_type: str = "text/plain"
    type: str = "text"


class URLSource(Struct, frozen=True, kw_only=True, gc=False):
    url: str
    type: str = "url"


class Image(Struct, frozen=True, kw_only=True):
    source: Base64Source | URLSource
    cache_control: CacheControl | UnsetType = UNSET
    type: str = "image"


class Document(Struct, frozen=True, kw_only=True):
    source: Base64Source | TextSource | URLSource
    cache_control: CacheControl | UnsetType = UNSET
    title: str | UnsetType = UNSET
    type: str = "document"


def image_block(url: str, cache_control: CacheControl | UnsetType, *, where: str) -> Image | Document:
    """The block for an ``image_url``: a data URI, or the address of an image or PDF.

    Raises:
        UnprocessableRequest: neither, or of a type that Claude does not take; the text begins with ``where``.
    """
    if url[:5].lower() == "data:":
        return _inline(url, cache_control, title=UNSET, where=where)
    if not url[:8].lower().startswith(("https://", "http://")):
        raise UnprocessableRequest(f"{where}: expected a data URI or an http address")
    path = re.split("[?#]", url, maxsplit=1)[0]
    if path.lower().endswith(".pdf") or url.lower().endswith(".pdf"):
        return Document(source=URLSource(url=url), cache_control=cache_control)
    return Image(source=URLSource(url=url), cache_control=cache_control)


def file_block(file: File, cache_control: CacheControl | UnsetType, *, where: str) -> Image | Document:
    """The block for a ``file``: its data is a data URI, or the base64 of a PDF.

    Raises:
        UnprocessableRequest: it was uploaded elsewhere, or is of a type that Claude does not take.
    """
    if file.file_id:
        raise UnprocessableRequest(f"{where}.file_id: files that were uploaded to OpenAI are not there for Anthropic")
    data, where = file.file_data or "", f"{where}.file_data"
    title = file.filename[:_MAX_TITLE] if file.filename and file.filename.strip() else UNSET
    if not is_data_uri(data):
        if not (data.startswith(_PDF_IN_BASE64) or (file.filename or "").lower().endswith(".pdf")):
            raise UnprocessableRequest(f"{where}: expected a data URI or the base64 of a PDF")
        data = f"data:{_PDF};base64,{data}"
    return _inline(data, cache_control, title=title, where=where)


def _inline(
    uri: str, cache_control: CacheControl | UnsetType, *, title: str | UnsetType, where: str
) -> Image | Document:
    try:
        read = read_data_uri(uri)
    except DataURIError as error:
        raise UnprocessableRequest(f"{where}: {error}") from error
    if not read.data:
        raise UnprocessableRequest(f"{where}: the data is empty")
    if (image := _IMAGES.get(read.media_type)) is not None:
        return Image(source=Base64Source(data=read.data, media_type=image), cache_control=cache_control)
    source: Base64Source | TextSource
    if read.media_type == _PDF:
        source = Base64Source(data=read.data, media_type=_PDF)
    elif read.media_type == "text/plain":
        source = TextSource(data=binascii.a2b_base64(read.data).decode(errors="replace"))
    else:
        raise UnprocessableRequest(f"{where}: unsupported media type {read.media_type or '(none)'}")
    return Document(source=source, cache_control=cache_control, title=title)
