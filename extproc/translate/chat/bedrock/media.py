"""Images, videos and documents of a chat request as Converse blocks (contract, chat 8.3.1).

All travel within the request: the service fetches nothing from the web.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

from extproc.endpoints.chat_request import File
from extproc.errors import UnprocessableRequest
from extproc.formats.datauri import DataURI, DataURIError, checked_base64, is_data_uri, read_data_uri
from extproc.translate.chat.bedrock import wire

IMAGES: Final[Mapping[str, str]] = {
    "image/png": "png",
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
}
"""Media types of images → Converse's ``format``."""

_VIDEOS: Final[Mapping[str, str]] = {
    "video/mp4": "mp4",
    "video/quicktime": "mov",
    "video/x-matroska": "mkv",
    "video/matroska": "mkv",
    "video/webm": "webm",
    "video/x-flv": "flv",
    "video/mpeg": "mpeg",
    "video/x-ms-wmv": "wmv",
    "video/3gpp": "three_gp",
}
DOCUMENTS: Final[Mapping[str, str]] = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
"""Media types of documents → Converse's ``format``."""

_DOCUMENT_FORMATS: Final = frozenset(DOCUMENTS.values())
# Types that say nothing, so that the file's name decides.
_VAGUE: Final = frozenset({"", "application/octet-stream"})
_PDF_IN_BASE64: Final = "JVBERi"

# The service takes letters and digits, single spaces, hyphens, parentheses and brackets, at most 200 in all.
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9 ()\[\]-]+")
_MAX_NAME: Final = 200
_ROOM_FOR_NUMBER: Final = len(" (1000000)")
_UNNAMED: Final = "document"


def image_block(url: str, *, where: str) -> wire.ImageBlock:
    """The block for an ``image_url``, which must be a data URI.

    Raises:
        UnprocessableRequest: it is another kind of address, or of a type that Converse does not take.
    """
    uri = _data_uri(url, "image", where=where)
    if uri.media_type not in IMAGES:
        raise UnprocessableRequest(f"unsupported image format {uri.media_type or 'without a media type'} in {where}")
    return wire.ImageBlock(wire.Image(format=IMAGES[uri.media_type], source=wire.Bytes(uri.data)))


def video_block(url: str, *, where: str) -> wire.VideoBlock:
    """The block for a ``video_url``, which must be a data URI.

    Raises:
        UnprocessableRequest: as for images.
    """
    uri = _data_uri(url, "video", where=where)
    if uri.media_type not in _VIDEOS:
        raise UnprocessableRequest(f"unsupported video format {uri.media_type or 'without a media type'} in {where}")
    return wire.VideoBlock(wire.Video(format=_VIDEOS[uri.media_type], source=wire.Bytes(uri.data)))


def file_block(file: File, names: DocumentNames, *, where: str) -> wire.DocumentBlock | wire.ImageBlock:
    """The block for a ``file``, whose data is a data URI or base64.

    Args:
        file: the file.
        names: names the request's documents.
        where: the file's place, for messages.

    Raises:
        UnprocessableRequest: it was uploaded elsewhere, or is of a type that Converse does not take.
    """
    if not file.file_data:
        raise UnprocessableRequest(f"{where} has no file_data; uploaded files cannot be read by AWSBedrock backends")
    if is_data_uri(file.file_data):
        uri = _data_uri(file.file_data, "file", where=f"{where}.file_data")
    else:
        uri = DataURI("", standard_base64(file.file_data, where=f"{where}.file_data"))
    if uri.media_type in IMAGES:
        return wire.ImageBlock(wire.Image(format=IMAGES[uri.media_type], source=wire.Bytes(uri.data)))
    name = names.name(file.filename or "")
    format_ = _document_format(uri, file.filename or "", where=where)
    return wire.DocumentBlock(wire.Document(format=format_, name=name, source=wire.Bytes(uri.data)))


def _document_format(uri: DataURI, filename: str, *, where: str) -> str:
    if uri.media_type in DOCUMENTS:
        return DOCUMENTS[uri.media_type]
    suffix = PurePath(filename).suffix.lower().removeprefix(".")
    if uri.media_type in _VAGUE:
        if suffix in _DOCUMENT_FORMATS:
            return suffix
        if uri.data.startswith(_PDF_IN_BASE64):
            return "pdf"
    raise UnprocessableRequest(f"unsupported file format {uri.media_type or suffix or 'without a name'} in {where}")


class DocumentNames:
    """Names the documents of a request: each once, and as the service takes them.

    Time is linear in the documents, however alike they are called.
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        # The last number that was given out, by what stands before it.
        self._numbers: dict[str, int] = {}

    def name(self, filename: str) -> str:
        """The name for a file, without its suffix; a number tells it from those before it."""
        path = PurePath(filename.replace("\\", "/"))
        stem = path.stem if path.suffix.lower().removeprefix(".") in _DOCUMENT_FORMATS else path.name
        name = " ".join(_NOT_IN_NAMES.sub(" ", stem)[:_MAX_NAME].split()) or _UNNAMED
        if name in self._taken:
            name = self._numbered(name[: _MAX_NAME - _ROOM_FOR_NUMBER].rstrip())
        self._taken.add(name)
        return name

    def _numbered(self, base: str) -> str:
        number = self._numbers.get(base, 1)
        name = base
        while name in self._taken or name == base:
            number += 1
            name = f"{base} ({number})"
        self._numbers[base] = number
        return name


def _data_uri(text: str, kind: str, *, where: str) -> DataURI:
    try:
        uri = read_data_uri(text)
    except DataURIError as error:
        raise UnprocessableRequest(f"invalid {kind} data URI in {where}: {error}") from error
    if not uri.data:
        raise UnprocessableRequest(f"invalid {kind} data URI in {where}: it has no data")
    return uri


def standard_base64(text: str, *, where: str) -> str:
    """The text, which must be base64.

    Raises:
        UnprocessableRequest: it is not.
    """
    try:
        return checked_base64(text)
    except DataURIError as error:
        raise UnprocessableRequest(f"{where}: {error}") from error
