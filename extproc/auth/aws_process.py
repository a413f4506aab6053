"""A process that asks for AWS credentials once: ``python -m extproc.auth.aws_process REGION``.

It writes an ``Answer`` as JSON to its standard output, which is a pipe to the processor (``extproc.auth.aws_chain``),
and ends. Only here is botocore loaded.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from extproc.headertext import has_control_character
from extproc.priority import give_way

# botocore would wait a minute, five times.
_CONNECT_SECONDS: Final = 5
_READ_SECONDS: Final = 10
_ATTEMPTS: Final = 2
_MAX_MESSAGE: Final = 300

FILES: Final = {
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
    "AWS_CONFIG_FILE": "~/.aws/config",
}
"""Variables that name the shared files, and where these are otherwise."""
TOKEN_FILES: Final = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
"""Variables that name files with a token, which is exchanged for credentials."""
_TOKEN_VARIABLES: Final = ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials, or the reason why there are none.

    NB: these are plain texts, for the pipe; ``repr`` shows no field of them.

    Attributes:
        expires_at: in seconds since the epoch; ``None`` for credentials that last.
        reason: shows nothing secret; empty when there are credentials.
    """

    access_key_id: str = ""
    secret_access_key: str = ""
    session_token: str = ""
    expires_at: float | None = None
    reason: str = ""

    def __repr__(self) -> str:
        return f"Answer(reason={self.reason!r})"


def ask(region: str) -> Answer:
    """Go through the chain."""
    # Its debug lines show whole answers, and its warnings their remains; every failure is reported here anyway.
    logging.getLogger("botocore").setLevel(logging.CRITICAL)
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - the other process shares this module

    try:
        found = _session(region).get_credentials()
        return _NONE if found is None else _answer(found)
    except (BotoCoreError, ClientError, OSError, ValueError, KeyError, RuntimeError) as error:
        return Answer(reason=_reason(error))


_NONE: Final = Answer(
    reason="the default chain found no AWS credentials: none in the environment, in shared files, "
    "by web identity, from a container agent or from instance metadata"
)


def _session(region: str) -> Any:  # noqa: ANN401 - botocore has no types
    from botocore.config import Config  # noqa: PLC0415 - loaded when it is needed
    from botocore.session import Session  # noqa: PLC0415

    session = Session()
    if region:
        session.set_config_variable("region", region)
    session.set_default_client_config(
        Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            retries={"total_max_attempts": _ATTEMPTS, "mode": "standard"},
        )
    )
    return session


def _answer(found: Any) -> Answer:  # noqa: ANN401 - botocore has no types
    """What botocore found, asked for now if it has been put off until it is needed."""
    # They are fresh: renewing what ends within a quarter of an hour, as botocore does, would be a second request.
    found._advisory_refresh_timeout = found._mandatory_refresh_timeout = 0  # noqa: SLF001 - no public name
    frozen = found.get_frozen_credentials()
    if not frozen.access_key or not frozen.secret_key:
        return Answer(reason="the default chain found AWS credentials without one half of the key")
    parts = [text or "" for text in (frozen.access_key, frozen.secret_key, frozen.token)]
    if any(map(has_control_character, parts)):
        return Answer(reason="the default chain found AWS credentials that hold a control character")
    # Only credentials that are renewed have an end, and it has no public name.
    end: datetime | None = getattr(found, "_expiry_time", None)
    return Answer(
        access_key_id=parts[0],
        secret_access_key=parts[1],
        session_token=parts[2],
        expires_at=None if end is None else end.timestamp(),
    )


# --- failures ---


def _reason(error: Exception) -> str:
    """What went wrong, in words that show no secret: only messages of known kinds are taken over, and only in part."""
    kinds = [kind.__name__ for kind in type(error).__mro__]
    describe = next((_REASONS[kind] for kind in kinds if kind in _REASONS), None)
    return f"{kinds[0]}{describe(error) if describe is not None else ''}"


def _refusal(error: Any) -> str:  # noqa: ANN401 - botocore has no types
    answer = error.response.get("Error", {})
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", "no status")
    return f": {error.operation_name} answered {status}, {answer.get('Code')}: {_clean(str(answer.get('Message')))}"


def _retrieval(error: Any) -> str:  # noqa: ANN401 - botocore has no types
    provider = error.kwargs.get("provider")
    if provider == "container-role":
        return _status_of_agent(error)
    return f": by {provider}; what it said is not shown"


def _status_of_agent(error: Exception) -> str:
    """A container agent's failure: the status alone, since the message quotes the whole body."""
    found = re.search(r"non 200 response (\d+)", str(error))
    if found:
        return f": the container agent answered {found.group(1)}"
    return ": the container agent cannot be reached" if "Received error" in str(error) else ": no credentials in it"


def _text(error: Exception) -> str:
    return f": {_clean(str(error))}"


def _file(error: Any) -> str:  # noqa: ANN401
    return f": {error.strerror}: {error.filename}"


def _lacking(error: Exception) -> str:
    return f": the answer has no {_clean(str(error))}"


_REASONS: Final[dict[str, Callable[[Any], str]]] = {
    "ClientError": _refusal,
    "CredentialRetrievalError": _retrieval,
    "MetadataRetrievalError": _status_of_agent,
    "ConfigNotFound": _text,
    "ConfigParseError": _text,
    "ConnectTimeoutError": _text,
    "EndpointConnectionError": _text,
    "FileNotFoundError": _file,
    "InfiniteLoopConfigError": _text,
    "InvalidConfigError": _text,
    "InvalidRegionError": _text,
    "IsADirectoryError": _file,
    "KeyError": _lacking,
    "NoRegionError": _text,
    "ParamValidationError": lambda _: ": what would be asked is not valid; are role and token file right?",
    "PartialCredentialsError": _text,
    "PermissionError": _file,
    "ProfileNotFound": _text,
    "ReadTimeoutError": _text,
    "UnauthorizedSSOTokenError": _text,
}


def _clean(text: str) -> str:
    """A message of another party without what this process sent to it, in one line of bounded length."""
    for secret in _sent():
        text = text.replace(secret, "[REDACTED]")
    return " ".join(text.split())[:_MAX_MESSAGE]


def _sent() -> Iterator[str]:
    """What an answer could repeat."""
    yield from filter(None, map(os.environ.get, _TOKEN_VARIABLES))
    for name in TOKEN_FILES:
        if path := os.environ.get(name):
            try:
                token = Path(path).read_text(encoding="utf-8").strip()
            except (OSError, ValueError):
                continue
            if token:
                yield token


def main(argv: Sequence[str]) -> None:
    give_way()
    sys.stdout.buffer.write(msgspec.json.encode(ask(*argv)))


if __name__ == "__main__":
    main(sys.argv[1:])
