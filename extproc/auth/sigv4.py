"""AWS Signature Version 4 over a request as it goes on the wire; for every service but S3.

Pure functions of the request, the credentials and the time, without any SDK: this runs for each request. The path is
signed in the form in which it is sent, each byte of it escaped once more, and is sent untouched, so a model id with a
colon or an escaped slash cannot come out differently on the two sides (contract, AWS SigV4 6.2). It is not normalised.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from urllib.parse import quote, unquote_to_bytes

from filter_config.redact import Secret

_ALGORITHM = "AWS4-HMAC-SHA256"
_TERMINATOR = "aws4_request"


@dataclass(frozen=True, slots=True, kw_only=True)
class AWSCredentials:
    """An AWS access key. ``session_token`` is empty for long-lived ones."""

    access_key_id: Secret
    secret_access_key: Secret
    session_token: Secret = field(default_factory=Secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningScope:
    """Where a signature is valid, beside its day."""

    region: str
    service: str


def sign(
    credentials: AWSCredentials,
    scope: SigningScope,
    *,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    now: float,
) -> list[tuple[str, str]]:
    """The headers that sign a request: date, session token if there is one, and authorization.

    Args:
        credentials: whose signature it is.
        scope: region and service.
        method: HTTP method in capitals.
        path: as on the wire, with its query.
        headers: what is signed beside the headers given back, by lower-case name; ``host`` must be among it.
        body: the payload that the backend receives.
        now: seconds since 1970.
    """
    timestamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    signed = {**headers, "x-amz-date": timestamp}
    added = [("X-Amz-Date", timestamp)]
    if token := credentials.session_token.reveal():
        signed["x-amz-security-token"] = token
        added.append(("X-Amz-Security-Token", token))
    names = sorted(signed)
    signed_names = ";".join(names)
    bare_path, _, query = path.partition("?")
    canonical_request = "\n".join(
        (
            method,
            canonical_uri(bare_path),
            canonical_query(query),
            # Blanks around and repeated within a value do not count.
            *(f"{name}:{' '.join(signed[name].split())}" for name in names),
            "",
            signed_names,
            sha256(body).hexdigest(),
        )
    )
    date = timestamp[:8]
    valid = f"{date}/{scope.region}/{scope.service}/{_TERMINATOR}"
    digest = sha256(canonical_request.encode()).hexdigest()
    key = _signing_key(credentials.secret_access_key, date, scope.region, scope.service)
    signature = hmac.digest(key, f"{_ALGORITHM}\n{timestamp}\n{valid}\n{digest}".encode(), "sha256").hex()
    credential = f"{credentials.access_key_id.reveal()}/{valid}"
    authorization = f"{_ALGORITHM} Credential={credential}, SignedHeaders={signed_names}, Signature={signature}"
    return [("Authorization", authorization), *added]


def canonical_uri(path: str) -> str:
    """The path, escaped once more: a raw ``:`` is signed as ``%3A``, an escaped one as ``%253A``."""
    return quote(path) or "/"


def canonical_query(query: str) -> str:
    """The parameters in the one spelling that counts, sorted by name, then value, both as they are spelt.

    A ``+`` stands for a blank.
    """
    if not query:
        return ""
    parameters = [parameter.partition("=") for parameter in query.split("&") if parameter]
    return "&".join(f"{name}={value}" for name, value in sorted((_respelt(p[0]), _respelt(p[2])) for p in parameters))


def _respelt(text: str) -> str:
    return quote(unquote_to_bytes(text.replace("+", " ")), safe="")


# A key lasts a day; without the cache, deriving it is a third of the work of signing a small request.
@lru_cache(maxsize=256)
def _signing_key(secret: Secret, date: str, region: str, service: str) -> bytes:
    key = f"AWS4{secret.reveal()}".encode()
    for part in (date, region, service, _TERMINATOR):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
