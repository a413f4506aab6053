"""What may be shown: header values, bodies and configuration values, with the secrets taken out.

The peer's rule (contract, redaction 8.1) lets Azure, Google and cookie credentials through (quirk Q59); the sets below
add them. Everything here works on copies: what goes over the wire is never touched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from filter_config.redact import Secret

REDACTED: Final = "[REDACTED]"

_SENSITIVE_NAMES: Final = frozenset(
    {
        "api-key",
        "authorization",
        "cookie",
        "proxy-authorization",
        "set-cookie",
        "x-amz-security-token",
        "x-api-key",
        "x-goog-api-key",
    }
)
_SENSITIVE_PREFIXES: Final = ("x-aigw-",)
_SENSITIVE_SUFFIXES: Final = (
    "-access-key-id",
    "-api-key",
    "-auth-token",
    "-authorization",
    "-secret-access-key",
    "-security-token",
    "-session-token",
)

# Keys of the filter config, of log fields and of OAuth answers that carry a credential, without case, "-" and "_".
_SENSITIVE_KEYS: Final = frozenset(
    {
        "accesskeyid",
        "accesstoken",
        "clientsecret",
        "credentialfileliteral",
        "idtoken",
        "key",
        "password",
        "refreshtoken",
        "secret",
        "secretaccesskey",
        "sessiontoken",
        "token",
    }
)


@lru_cache(maxsize=1024)
def is_sensitive_header(name: str) -> bool:
    """Whether the value of a header may not be shown; the case of the name does not matter."""
    lower = name.lower()
    return lower in _SENSITIVE_NAMES or lower.startswith(_SENSITIVE_PREFIXES) or lower.endswith(_SENSITIVE_SUFFIXES)


def is_sensitive_key(key: str) -> bool:
    """Whether a field of a log line or of the configuration holds a credential."""
    return is_sensitive_header(key) or key.lower().replace("-", "").replace("_", "") in _SENSITIVE_KEYS


def redact_headers(headers: Iterable[tuple[str, str]], secret: frozenset[str] = frozenset()) -> list[tuple[str, str]]:
    """The same headers in the same order, with the value of each sensitive one replaced.

    Args:
        headers: names and values.
        secret: lower-case names that are sensitive by configuration.
    """
    return [
        (name, REDACTED if name.lower() in secret or is_sensitive_header(name) else value) for name, value in headers
    ]


def body_placeholder(body: str | bytes) -> str:
    """What stands for a body or a string in it: its length in bytes and the start of its SHA-256; empty for empty."""
    raw = body.encode("utf-8", "surrogateescape") if isinstance(body, str) else body
    if not raw:
        return ""
    return f"[REDACTED LENGTH={len(raw)} HASH={hashlib.sha256(raw).hexdigest()[:16]}]"


def redact_tree(value: object) -> object:
    """A copy of nested dicts and lists with secrets, and the values of sensitive keys, replaced."""
    match value:
        case Secret():
            return REDACTED
        case Mapping():
            return {
                key: REDACTED if item and is_sensitive_key(str(key)) else redact_tree(item)
                for key, item in value.items()
            }
        case list() | tuple() | set() | frozenset():
            return [redact_tree(item) for item in value]
        case _:
            return value
