"""Calls to token endpoints: small, bounded, through a proxy where one is given, and silent about what was sent.

An answer may repeat what it was asked with. Of a refusal only the status and an error code are told, which RFC 6749
(5.2) and the clouds restrict to a word.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn
from urllib.error import URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

import msgspec

from filter_config.redact import Secret

SECONDS: Final = 30.0
"""How long one call may take."""
MAX_BYTES: Final = 1 << 18
_NO_PROXY: Final = Secret()
_CODE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}\Z")


class RotationFailed(Exception):
    """There is no new credential; the text says why, and shows none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Calls through a proxy, or directly. Waits: for threads only."""

    proxy: Secret = _NO_PROXY
    seconds: float = SECONDS

    def json(
        self,
        url: str,
        *,
        form: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """The answer, an object of JSON. With a form or a body it is a POST.

        Raises:
            RotationFailed: there was none, or another status than 200.
        """
        text = self.text(url, form=form, body=body, headers=headers)
        try:
            found = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            found = None
        if not isinstance(found, dict):
            raise RotationFailed(f"{_host(url)} answered with something that is no JSON object")
        return found

    def text(
        self,
        url: str,
        *,
        form: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """The answer as it is; see :meth:`json`."""
        given = dict(headers or {})
        data = None
        if form is not None:
            data = urlencode(form).encode()
            given["Content-Type"] = "application/x-www-form-urlencoded"
        elif body is not None:
            data = json.dumps(body).encode()
            given["Content-Type"] = "application/json"
        if not _is_address(url):
            raise RotationFailed(f"{_host(url) or 'an endpoint'} is no address of an HTTP server")
        status, answer = self._send(Request(url, data=data, headers=given), _host(url))  # noqa: S310 - checked above
        if status != 200:
            _refused(_host(url), status, answer)
        return answer

    def _send(self, request: Request, host: str) -> tuple[int, bytes]:
        deadline = time.monotonic() + self.seconds
        try:
            with self._opener().open(request, timeout=self.seconds) as response:
                return response.status, _read(response, host, deadline)
        except (URLError, http.client.HTTPException, OSError, ValueError) as error:
            raise RotationFailed(f"{host} cannot be reached: {_reason(error)}") from None

    def _opener(self) -> OpenerDirector:
        """One that follows no redirect: what is sent is for the endpoint alone."""
        opener = OpenerDirector()
        proxies = {"http": self.proxy.reveal(), "https": self.proxy.reveal()} if self.proxy else {}
        for handler in (ProxyHandler(proxies), HTTPHandler(), HTTPSHandler(context=ssl.create_default_context())):
            opener.add_handler(handler)
        return opener


def _read(response: http.client.HTTPResponse, host: str, deadline: float) -> bytes:
    body = bytearray()
    while chunk := response.read1(MAX_BYTES):
        body += chunk
        if len(body) > MAX_BYTES:
            raise RotationFailed(f"{host} answered with more than {MAX_BYTES} bytes")
        if time.monotonic() > deadline:
            raise RotationFailed(f"{host} did not finish its answer in time")
    return bytes(body)


def _reason(error: Exception) -> str:
    """Of the system, never of a URL or a header."""
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "its certificate is not trusted"
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    return (cause.strerror or type(cause).__name__) if isinstance(cause, OSError) else type(error).__name__


def _refused(host: str, status: int, answer: bytes) -> NoReturn:
    code = _code(answer)
    raise RotationFailed(f"{host} answered {status}{f': {code}' if code else ''}")


def _code(answer: bytes) -> str:
    """The error code of OAuth, of Google's APIs, or of AWS."""
    try:
        said = msgspec.json.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = re.search(rb"<Code>([A-Za-z.]{1,64})</Code>", answer)
        return found[1].decode() if found else ""
    error = said.get("error") if isinstance(said, dict) else None
    code = error.get("status") if isinstance(error, dict) else error
    return code if isinstance(code, str) and _CODE.match(code) else ""


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        # Brackets that hold no address of IPv6.
        return False


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return ""
