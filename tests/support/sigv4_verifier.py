"""Does a request bear a valid AWS signature? Recomputed by botocore from what was received, as AWS would.

A stand-in upstream calls ``verify`` with the request as it came off the wire. It knows the secret keys of its callers
and nothing of how the request was made, so whatever changed after signing (host, path, body, a header) is found.
"""

from __future__ import annotations

import calendar
import hashlib
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 "
    r"Credential=(?P<key>[^/,\s]+)/(?P<date>\d{8})/(?P<region>[^/,\s]*)/(?P<service>[^/,\s]+)/aws4_request, "
    r"SignedHeaders=(?P<headers>[^,\s]+), Signature=(?P<signature>[0-9a-f]{64})"
)
_TIMESTAMP = "%Y%m%dT%H%M%SZ"
# AWS refuses an older or a later signature.
_TOLERANCE_SECONDS = 300


class SignatureRefused(Exception):
    """What AWS would answer with 403; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Who signed, and for what."""

    access_key_id: str
    region: str
    service: str
    timestamp: str
    signed_headers: tuple[str, ...]
    session_token: str | None


def verify(
    *,
    method: str,
    path: str,
    headers: Mapping[str, str] | Iterable[tuple[str, str]],
    body: bytes,
    secrets: Mapping[str, str],
    now: float | None = None,
) -> Signature:
    """Check a signature.

    Args:
        method: of the request.
        path: as received, with its query.
        headers: as received; the host may stand in ``host`` or ``:authority``.
        body: as received.
        secrets: access key id to secret access key.
        now: seconds since 1970, to check the signature's age; ``None`` takes any.

    Raises:
        SignatureRefused: the request is not signed, or not for what it is.
    """
    received = _by_name(headers)
    match = _AUTHORIZATION.fullmatch(received.get("authorization", ""))
    if match is None:
        raise SignatureRefused("no AWS4-HMAC-SHA256 authorization")
    signature = Signature(
        access_key_id=match["key"],
        region=match["region"],
        service=match["service"],
        timestamp=received.get("x-amz-date", ""),
        signed_headers=tuple(match["headers"].split(";")),
        session_token=received.get("x-amz-security-token"),
    )
    if signature.access_key_id not in secrets:
        raise SignatureRefused("unknown access key id")
    _check_headers(signature, received)
    _check_time(signature, match["date"], now)
    body_hash = hashlib.sha256(body).hexdigest()
    if received.get("x-amz-content-sha256", body_hash) != body_hash:
        raise SignatureRefused("x-amz-content-sha256 is not the hash of the body")
    request = _request(method, path, {name: received[name] for name in signature.signed_headers}, body)
    if match["signature"] != _recompute(signature, secrets[signature.access_key_id], request):
        raise SignatureRefused("the signature does not match the request")
    return signature


def _by_name(headers: Mapping[str, str] | Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers by lower-case name, with the values of a repeated one joined as in a canonical request."""
    received: dict[str, str] = {}
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        lower = "host" if name == ":authority" else name.lower()
        received[lower] = f"{received[lower]},{value}" if lower in received else value
    return received


def _check_headers(signature: Signature, received: Mapping[str, str]) -> None:
    signed = set(signature.signed_headers)
    if list(signature.signed_headers) != sorted(signed):
        raise SignatureRefused("signed headers are not in order")
    if lacking := signed - received.keys():
        raise SignatureRefused(f"signed headers did not arrive: {sorted(lacking)}")
    required = {"host", "x-amz-date"} | {name for name in received if name.startswith("x-amz-")}
    if unsigned := required - signed:
        raise SignatureRefused(f"headers are not signed: {sorted(unsigned)}")


def _check_time(signature: Signature, date: str, now: float | None) -> None:
    try:
        signed_at = calendar.timegm(time.strptime(signature.timestamp, _TIMESTAMP))
    except ValueError:
        raise SignatureRefused("x-amz-date is no timestamp") from None
    if signature.timestamp[:8] != date:
        raise SignatureRefused("the scope is of another day than x-amz-date")
    if now is not None and abs(now - signed_at) > _TOLERANCE_SECONDS:
        raise SignatureRefused("the signature is not of now")


def _request(method: str, path: str, headers: Mapping[str, str], body: bytes) -> AWSRequest:
    bare_path, _, query = path.partition("?")
    return AWSRequest(
        method=method,
        url=f"https://{headers['host']}{bare_path}",
        params=parse_qsl(query, keep_blank_values=True),
        data=body,
        headers=headers,
    )


def _recompute(signature: Signature, secret: str, request: AWSRequest) -> str:
    request.context["timestamp"] = signature.timestamp
    auth = SigV4Auth(Credentials(signature.access_key_id, secret), signature.service, signature.region)
    return auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
