"""What may be shown: header values, bodies and configuration values, with the secrets taken out.

The peer's rule (contract, redaction 8.1) lets Azure, Google and cookie credentials through (quirk Q59); the sets below
add them. Everything here works on copies: what goes over the wire is never touched.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from filter_config.redact import Secret

REDACTED: Final = "[REDACTED]"

_MAX_PARSED_BYTES: Final = 1024 * 1024

# Members of the APIs whose texts are words of the API, or ids. A text under any other key counts as content.
_SHOWN_TEXTS: Final = frozenset(
    {
        *("model", "role", "type", "object", "id", "status", "code", "param", "event", "mode", "modelVersion"),
        *("call_id", "tool_call_id", "tool_use_id", "toolUseId", "responseId", "previous_response_id", "item_id"),
        *("finish_reason", "native_finish_reason", "stop_reason", "finishReason", "stopReason", "blockReason"),
        *("tool_choice", "effort", "reasoning_effort", "service_tier", "verbosity", "truncation", "truncate"),
        *("format", "encoding_format", "response_format", "output_format", "detail", "media_type", "mimeType"),
        *("size", "quality", "style", "background", "moderation", "voice", "language", "input_type"),
        *("modalities", "include", "timestamp_granularities", "system_fingerprint", "anthropic_version"),
        *("anthropic_beta", "trafficType", "category", "probability", "modality"),
    }
)
# Definitions of tools and of the form of the answer.
_DEFINITIONS: Final = frozenset(
    {"tools", "functions", "toolConfig", "response_format", "json_schema", "output_config", "inputSchema"}
)
# Objects of whoever talks: arguments of calls, results of tools, and what clients say about a request.
_ARGUMENTS: Final = frozenset({"arguments", "args", "input", "json", "metadata", "variables", "labels"})
# What stands beside the name of a tool that is called or chosen.
_OF_TOOLS: Final = frozenset({"type", "arguments", "args", "input", "parameters", "toolUseId", "response"})
_EVENT: Final = re.compile(rb"[a-z_.]{1,64}")
_ACCESS: Final = frozenset({"headers", "url", "server_url", "authorization"})

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

# What credentials of the providers look like, and where texts have them: after a scheme, or in a query.
_CREDENTIAL: Final = re.compile(
    r"\b(?:sk-[\w-]{8,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[\w-]{30,}|ya29\.[\w.-]+|eyJ[\w-]{10,}\.[\w.-]+)"
    r"|(?<=Bearer )[^\s\"',;]{8,}"
    r"|(?<=[?&]key=)[^\s\"'&#]+"
)
_SCHEMES: Final = ("bearer", "basic")
_SHORTEST: Final = 8

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


def bare_credential(value: str) -> str:
    """The credential in a header's value, without its scheme; empty for one too short to be told from other words."""
    scheme, space, rest = value.partition(" ")
    bare = rest.strip() if space and scheme.lower() in _SCHEMES else value
    return bare if len(bare) >= _SHORTEST else ""


def without_credentials(text: str, known: Iterable[str] = ()) -> str:
    """A text of a backend, which may quote the key that it was sent: without what is ``known``, or looks like one."""
    for credential in known:
        text = text.replace(credential, REDACTED)
    return _CREDENTIAL.sub(REDACTED, text)


def body_placeholder(body: str | bytes) -> str:
    """What stands for a body or a string in it: its length in bytes and the start of its SHA-256; empty for empty."""
    raw = body.encode("utf-8", "surrogateescape") if isinstance(body, str) else body
    if not raw:
        return ""
    return f"[REDACTED LENGTH={len(raw)} HASH={hashlib.sha256(raw).hexdigest()[:16]}]"


def redacted_body(body: bytes) -> str:
    """A body of any LLM API, with its shape shown and its content not.

    JSON, and the JSON of server-sent events, is shown as it is but for its texts: each is a placeholder unless its
    key is one of those that are known to hold no content. Numbers, booleans and keys stay. What is neither is a
    placeholder as a whole.
    """
    if not body or len(body) > _MAX_PARSED_BYTES:
        return body_placeholder(body)
    if body.startswith((b"data:", b"event:", b"id:", b"retry:", b":")):
        return "\n".join([_redacted_line(line) for line in body.split(b"\n")])
    return _redacted_json(body)


def _redacted_line(line: bytes) -> str:
    """A line of an event stream; the last one of a piece may be cut."""
    name, colon, value = line.partition(b":")
    if name == b"data" and colon:
        data = value.strip()
        return f"data: {'[DONE]' if data == b'[DONE]' else _redacted_json(data)}"
    if name == b"event" and _EVENT.fullmatch(value.strip()):
        return f"event: {value.strip().decode()}"
    return body_placeholder(line)


def _redacted_json(data: bytes) -> str:
    try:
        value = msgspec.json.decode(data)
        return msgspec.json.encode(_without_content("", value)).decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return body_placeholder(data)


def _without_content(key: str, value: object) -> object:
    match value:
        case str():
            return value if key in _SHOWN_TEXTS else body_placeholder(value)
        case dict():
            if key in _DEFINITIONS:
                return _definition("", value)
            if key in _ARGUMENTS:
                return _without_any("", value)
            return {name: _member(name, item, value) for name, item in value.items()}
        case list():
            if key in _DEFINITIONS:
                return _definition("", value)
            return [_without_content(key if isinstance(item, str) else "", item) for item in value]
        case _:
            return value


def _member(name: str, value: object, siblings: Mapping[str, object]) -> object:
    # Other things have names, too: people, files.
    if name == "name" and isinstance(value, str) and "role" not in siblings:
        return value if len(siblings) == 1 or not _OF_TOOLS.isdisjoint(siblings) else body_placeholder(value)
    # What a tool gave to Gemini, and not an event's report of an answer.
    if name == "response" and "type" not in siblings:
        return _without_any(name, value)
    return _without_content(name, value)


def _without_any(_key: str, value: object) -> object:
    """What the model says to a tool, or a client about itself: whatever its members are called."""
    match value:
        case str():
            return body_placeholder(value)
        case dict():
            return {name: _without_any(name, item) for name, item in value.items()}
        case list():
            return [_without_any("", item) for item in value]
        case _:
            return value


def _definition(key: str, value: object) -> object:
    """Tools and schemas are shown, but not how to get at a tool."""
    if key in _ACCESS or is_sensitive_key(key):
        return _without_any(key, value)
    match value:
        case dict():
            return {name: _definition(name, item) for name, item in value.items()}
        case list():
            return [_definition("", item) for item in value]
        case _:
            return value


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
