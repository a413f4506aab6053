"""Token endpoints of OAuth 2.0 (RFC 6749): what an answer is worth, and how much of it may be told.

An answer is another party's text. It may be a page of a proxy, and it may repeat what it was sent, so an error takes
over only the fields that are meant for people, cut, and without anything that is or looks like a credential.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote, quote_plus, urlsplit

import msgspec

from extproc.auth.sources import Fetched, SourceError
from extproc.errors import BackendFault
from extproc.headertext import has_control_character
from filter_config.redact import REDACTED, Secret

CALL_SECONDS: Final = 10.0
"""How long one call may take (contract, GCP 6.3)."""
MAX_ANSWER_BYTES: Final = 1 << 16
ASSUMED_SECONDS: Final = 300.0
"""How long a token is taken to last when its endpoint does not say."""
_MAX_SECONDS: Final = 10 * 365 * 86400.0
_MAX_DESCRIPTION: Final = 300

_RUN: Final = re.compile(r"[0-9A-Za-z+/=_~.-]{32,}")
# A JWT, a key or a token, and no path and no name.
_OPAQUE: Final = (re.compile(r"[0-9A-Fa-f]+\Z"), re.compile(r"(?=.{40})(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])"))


class Answer(NamedTuple):
    """What an endpoint said. ``host`` is shown in errors, the rest is not."""

    host: str
    status: int
    body: bytes

    def __repr__(self) -> str:
        return f"Answer(host={self.host!r}, status={self.status})"


class _Token(msgspec.Struct):
    """RFC 6749, 5.1. Some endpoints write the lifetime as a text."""

    access_token: str
    expires_in: int | float | str | None = None


class _Body(Protocol):
    """Gives what has arrived, at most so many bytes and at least one, or nothing at the end."""

    def __call__(self, limit: int, /) -> bytes: ...


def read_body(read: _Body, *, host: str, deadline: float) -> bytes:
    """A whole body, by ``deadline`` of ``time.monotonic``, however slowly it drips.

    Raises:
        SourceError: it takes too long, or is longer than any answer with a token.
    """
    body = bytearray()
    while chunk := read(MAX_ANSWER_BYTES):
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise SourceError(f"{host} answered with more than {MAX_ANSWER_BYTES} bytes")
        if time.monotonic() > deadline:
            raise SourceError(f"{host} did not finish its answer in time")
    return bytes(body)


def host_of(url: str) -> str:
    """The host of a URL for an error: with its port, without a path, which may hold a name, and without a password."""
    return urlsplit(url).netloc.rpartition("@")[2]


def proxy_of(environ: Mapping[str, str], variable: str) -> Secret:
    """The HTTP proxy that a variable names, with a password perhaps; empty where it is not set.

    Raises:
        BackendFault: no proxy can be at what it says; the peer ignores that for Azure, and ends for GCP.
    """
    url = environ.get(variable, "").strip()
    try:
        parts = urlsplit(url)
        usable = not url or (parts.scheme == "http" and bool(parts.hostname) and (parts.port or 1) > 0)
    except ValueError:
        usable = False
    if not usable:
        raise BackendFault(f"{variable} is not the URL of an HTTP proxy, http://host:port")
    return Secret(url)


# --- answers ---


def token_from(answer: Answer, *, asked_at: float, sent: Iterable[str]) -> Fetched[Secret]:
    """The token of an answer. Its lifetime counts from the question, by our own clock, whatever the endpoint's says.

    Raises:
        SourceError: it holds none.
    """
    if answer.status != 200:
        raise refusal(answer, sent)
    try:
        token = msgspec.json.decode(answer.body, type=_Token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise no_token(answer.host) from None
    return Fetched(usable_token(token.access_token, answer.host), asked_at + _lifetime(token.expires_in, answer.host))


def no_token(host: str) -> SourceError:
    return SourceError(f"{host} answered with something that is no token")


def usable_token(token: object, host: str) -> Secret:
    """A token that a header can carry.

    Raises:
        SourceError: it is none.
    """
    if not isinstance(token, str) or not token or not token.isascii() or has_control_character(token):
        raise no_token(host)
    return Secret(token)


def _lifetime(given: float | str | None, host: str) -> float:
    match given:
        case None:
            return ASSUMED_SECONDS
        case str() if given.isdecimal() and len(given) < 12:
            seconds = float(given)
        case int() | float():
            seconds = float(min(given, _MAX_SECONDS))
        case _:
            raise no_token(host)
    if seconds <= 0:
        raise SourceError(f"{host} answered with a token that has expired")
    return seconds


def refusal(answer: Answer, sent: Iterable[str]) -> SourceError:
    """Why there is no token, as far as the endpoint says.

    Args:
        answer: with whatever status.
        sent: what must not be seen, if it should be repeated.
    """
    words = [word for word in _reason(answer.body) if word]
    told = redacted(": ".join(words), sent)
    return SourceError(f"{answer.host} answered {answer.status}{f': {told}' if told else ''}")


def _reason(body: bytes) -> tuple[str, str]:
    """Error code and description: RFC 6749, 5.2, or those of a Google API."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "", ""
    match document:
        case {"error": {"message": message, **details}}:
            return _text(details.get("status")), _text(message)
        case {"error": str(code)}:
            return code, _text(document.get("error_description"))
        case _:
            return "", ""


def _text(value: Any) -> str:  # noqa: ANN401 - whatever the endpoint wrote
    return value if isinstance(value, str) else ""


def redacted(text: str, secrets: Iterable[str]) -> str:
    """One line of bounded length without the secrets, in any of the ways in which a form holds them."""
    for secret in secrets:
        for spelling in filter(None, {secret, secret.strip(), quote(secret, safe=""), quote_plus(secret)}):
            text = text.replace(spelling, REDACTED)
    line = " ".join(_RUN.sub(_unless_opaque, text).split())
    return "".join(char for char in line if char.isprintable())[:_MAX_DESCRIPTION]


def _unless_opaque(run: re.Match[str]) -> str:
    return REDACTED if any(kind.match(run[0]) for kind in _OPAQUE) else run[0]


# --- clocks ---


def clock_offset(date: str | None, now: float) -> float:
    """Seconds by which an endpoint's clock, as its ``Date`` header tells it, is ahead of ours; 0 when it does not."""
    if not date:
        return 0.0
    try:
        return parsedate_to_datetime(date).timestamp() - now
    except (ValueError, OverflowError):
        return 0.0
