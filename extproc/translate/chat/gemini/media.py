"""Images, sound, video and files of a chat request as parts of Gemini's contents (contract, chat 3.2 and 9.4).

Bytes go inline; an address goes as it is, with a media type guessed from the name at the end of its path.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from msgspec import UNSET, Struct, UnsetType

from extproc.endpoints.chat_request import File, ImageURL, InputAudio
from extproc.errors import UnprocessableRequest
from extproc.formats.datauri import DataURIError, checked_base64, read_data_uri


class MediaResolution(Struct, frozen=True, kw_only=True):
    level: str


class FileData(Struct, frozen=True, kw_only=True, rename="camel"):
    file_uri: str
    mime_type: str


class Blob(Struct, frozen=True, kw_only=True, rename="camel"):
    data: str
    mime_type: str


Media = FileData | Blob

_RESOLUTIONS: Final = {
    "low": "MEDIA_RESOLUTION_LOW",
    "medium": "MEDIA_RESOLUTION_MEDIUM",
    "high": "MEDIA_RESOLUTION_HIGH",
    "auto": "MEDIA_RESOLUTION_UNSPECIFIED",
}

# Not `mimetypes`: that reads files of the machine, and the same request must give the same bytes everywhere.
_BY_EXTENSION: Final = {
    "aac": "audio/aac",
    "aif": "audio/aiff",
    "aiff": "audio/aiff",
    "avi": "video/avi",
    "avif": "image/avif",
    "bmp": "image/bmp",
    "css": "text/css",
    "csv": "text/csv",
    "flac": "audio/flac",
    "flv": "video/x-flv",
    "gif": "image/gif",
    "heic": "image/heic",
    "heif": "image/heif",
    "htm": "text/html",
    "html": "text/html",
    "jpe": "image/jpeg",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "js": "text/javascript",
    "json": "application/json",
    "m4a": "audio/m4a",
    "md": "text/markdown",
    "mov": "video/quicktime",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "mpeg": "video/mpeg",
    "mpg": "video/mpeg",
    "oga": "audio/ogg",
    "ogg": "audio/ogg",
    "opus": "audio/opus",
    "pdf": "application/pdf",
    "png": "image/png",
    "svg": "image/svg+xml",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "txt": "text/plain",
    "wav": "audio/wav",
    "webm": "video/webm",
    "webp": "image/webp",
    "wmv": "video/wmv",
    "xml": "text/xml",
    "3gp": "video/3gpp",
}

# The two that the API documents, and what else the model hears.
_AUDIO_FORMATS: Final = {
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "aac": "audio/aac",
    "aiff": "audio/aiff",
    "flac": "audio/flac",
    "m4a": "audio/m4a",
    "ogg": "audio/ogg",
    "opus": "audio/opus",
    "webm": "audio/webm",
}

# RFC 3986: no controls, no spaces, percent signs only before two digits, no empty scheme.
_NO_URL: Final = re.compile(r"[\x00-\x20\x7f]|%(?![0-9A-Fa-f]{2})|^:")


def image(given: ImageURL, *, where: str) -> Media:
    """An ``image_url``: bytes of any type in a data URI, or an address.

    Raises:
        UnprocessableRequest: it is neither.
    """
    return _media(given.url, default="image/jpeg", what="image", where=f"{where}.image_url.url")


def resolution(given: ImageURL, *, where: str) -> MediaResolution | UnsetType:
    """How closely the model looks at an image.

    Raises:
        UnprocessableRequest: ``detail`` is none that the API has.
    """
    if not given.detail:
        return UNSET
    if (level := _RESOLUTIONS.get(given.detail)) is None:
        raise UnprocessableRequest(f"{where}.image_url.detail: invalid detail {given.detail}")
    return MediaResolution(level=level)


def sound_at(url: str, *, where: str) -> Media:
    """An ``audio_url``; raises as ``image``."""
    return _media(url, default="audio/mpeg", what="audio", where=f"{where}.audio_url.url")


def video_at(url: str, *, where: str) -> Media:
    """A ``video_url``; raises as ``image``."""
    return _media(url, default="video/mp4", what="video", where=f"{where}.video_url.url")


def sound(given: InputAudio, *, where: str) -> Blob:
    """An ``input_audio``.

    Raises:
        UnprocessableRequest: the format is none that the model hears, or the data is not base64.
    """
    if (mime_type := _AUDIO_FORMATS.get(given.format.lower())) is None:
        raise UnprocessableRequest(f"{where}.input_audio.format: unsupported audio format {given.format or '(none)'}")
    return Blob(data=_base64(given.data, where=f"{where}.input_audio.data"), mime_type=mime_type)


def file(given: File, *, where: str) -> Blob:
    """A ``file``: a data URI, or base64 whose type the file's name tells; without one it is a PDF.

    Raises:
        UnprocessableRequest: it was uploaded elsewhere, or its data cannot be read.
    """
    where = f"{where}.file"
    if given.file_id:
        raise UnprocessableRequest(f"{where}.file_id: files that were uploaded to OpenAI cannot be read by Gemini")
    default = _type_of(given.filename or "") or "application/pdf"
    data = given.file_data or ""
    where = f"{where}.file_data"
    if data[:5].lower() == "data:":
        return _inline(data, default=default, what="file", where=where)
    return Blob(data=_base64(data, where=where), mime_type=default)


def _media(url: str, *, default: str, what: str, where: str) -> Media:
    if url[:5].lower() == "data:":
        return _inline(url, default=default, what=what, where=where)
    if _NO_URL.search(url):
        raise UnprocessableRequest(f"{where}: invalid {what} URL")
    try:
        path = urlsplit(url).path
    except ValueError as error:
        raise UnprocessableRequest(f"{where}: invalid {what} URL") from error
    return FileData(file_uri=url, mime_type=_type_of(path) or default)


def _type_of(path: str) -> str | None:
    _, dot, extension = path.rpartition("/")[2].rpartition(".")
    return _BY_EXTENSION.get(extension.lower()) if dot else None


def _inline(uri: str, *, default: str, what: str, where: str) -> Blob:
    try:
        found = read_data_uri(uri)
    except DataURIError as error:
        raise UnprocessableRequest(f"{where}: invalid {what} data URI: {error}") from error
    if not found.data:
        raise UnprocessableRequest(f"{where}: invalid {what} data URI: it has no data")
    return Blob(data=found.data, mime_type=found.media_type or default)


def _base64(text: str, *, where: str) -> str:
    try:
        if checked := checked_base64(text):
            return checked
    except DataURIError as error:
        raise UnprocessableRequest(f"{where}: {error}") from error
    raise UnprocessableRequest(f"{where}: there is no data")
