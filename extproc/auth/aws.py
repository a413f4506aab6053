"""Amazon Bedrock: every request is signed (contract, AWS SigV4 6.2).

A configured credentials file is used alone. The peer lets the environment of the process win over it (quirk Q52), so
that a request could be made in the name of the wrong account.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from extproc.auth.aws_chain import default_chain
from extproc.auth.base import CLIENT_CREDENTIALS, CredentialCell, FixedCell, Headers, UpstreamCall
from extproc.auth.sigv4 import AWSCredentials, SigningScope, sign
from extproc.auth.skew import PROCESS, ClockSkew
from extproc.auth.sources import Cells
from extproc.errors import BackendFault, BackendUnavailable, IncompleteCredential
from extproc.headertext import has_control_character
from filter_config.redact import Secret

_SERVICE = "bedrock"
# The host of the upstream as Envoy knows it; the exchange puts it among the headers of a call.
_UPSTREAM_HOST = "x-ai-eg-upstream-host"
# Of a client's own signature, which covers another request.
_SIGNATURE_HEADERS = frozenset({"x-amz-date", "x-amz-security-token", "x-amz-content-sha256"})

# A port behind the name does not match (contract 6.2).
_BEDROCK_HOST = re.compile(
    r"(?:^|\.)bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.(?:vpce\.amazonaws\.com|amazonaws\.com|api\.aws)\Z"
)

_LITERAL = "auth.aws.credentialFileLiteral"
_PROFILE = "default"
_ACCESS_KEY_ID = "aws_access_key_id"
_SECRET_ACCESS_KEY = "aws_secret_access_key"  # noqa: S105 - the name of a setting
_SESSION_TOKEN = "aws_session_token"  # noqa: S105
_OPTIONS = (_ACCESS_KEY_ID, _SECRET_ACCESS_KEY, _SESSION_TOKEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class BedrockScheme:
    """Signs for the host that Envoy sends the request to, and for the region in that host's name.

    Attributes:
        region: for hosts that name none.
        skew: what signatures add to the time.
    """

    region: str
    skew: ClockSkew = PROCESS
    strips: frozenset[str] = field(default=CLIENT_CREDENTIALS | _SIGNATURE_HEADERS, init=False)
    constant: bool = field(default=False, init=False)

    def apply(self, call: UpstreamCall, credential: AWSCredentials) -> Headers:
        host = call.headers.get(_UPSTREAM_HOST) or f"bedrock-runtime.{self.region}.amazonaws.com"
        region = region_of(host) or self.region
        if not region:
            raise BackendUnavailable("the AWS region of the backend is neither configured nor part of its host name")
        return sign(
            credential,
            SigningScope(region=region, service=_SERVICE),
            method=call.headers.get(":method") or "GET",
            path=call.headers[":path"],
            headers={"host": host},
            body=call.body,
            now=call.now + self.skew.seconds,
        )

    def refused(self, headers: Mapping[str, str], now: float) -> None:
        self.skew.refused(headers, now)


@lru_cache(maxsize=256)
def region_of(host: str) -> str:
    """The region that a Bedrock host is in; empty for another host, and for one with a port."""
    found = _BEDROCK_HOST.search(host)
    return found.group(1) if found else ""


def credentials_cell(literal: Secret, region: str, cells: Cells) -> CredentialCell[AWSCredentials]:
    """The cell of the configured credentials file; without one, that of the default chain.

    Raises:
        BackendFault: the file is not usable, or the chain is not installed.
    """
    if not literal:
        return cells.of(default_chain(region))
    return FixedCell(read_credentials_file(literal))


def read_credentials_file(literal: Secret) -> AWSCredentials:
    """Profile ``default`` of an AWS shared credentials file.

    Raises:
        BackendFault: the file or the profile is not usable; the message says where, and shows nothing of the content.
    """
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(literal.reveal())
    except configparser.Error as error:
        # The parser's own message quotes the line.
        raise BackendFault(f"{_LITERAL} is not an AWS credentials file{_place(error)}") from None
    if not parser.has_section(_PROFILE):
        raise BackendFault(f"{_LITERAL} has no profile [{_PROFILE}]")
    options = {name: parser.get(_PROFILE, name, fallback="") for name in _OPTIONS}
    for name, value in options.items():
        if has_control_character(value):
            raise BackendFault(f"{_LITERAL}: {name} holds a line break or another control character")
    missing = [name for name in (_ACCESS_KEY_ID, _SECRET_ACCESS_KEY) if not options[name]]
    if missing:
        raise BackendFault(f"{_LITERAL}: profile [{_PROFILE}] has no {' and no '.join(missing)}")
    return AWSCredentials(
        access_key_id=Secret(options[_ACCESS_KEY_ID]),
        secret_access_key=Secret(options[_SECRET_ACCESS_KEY]),
        session_token=Secret(options[_SESSION_TOKEN]),
    )


def _place(error: configparser.Error) -> str:
    match error:
        case (
            configparser.MissingSectionHeaderError(lineno=line)
            | configparser.DuplicateSectionError(lineno=line)
            | configparser.DuplicateOptionError(lineno=line)
        ):
            return f": line {line} does not belong there"
        case configparser.ParsingError(errors=[(line, _), *_]):
            return f": line {line} has no value"
        case _:
            return ""


def credentials_of(access_key_id: str, secret_access_key: str, session_token: str) -> AWSCredentials:
    """Credentials from the parts that a request brought, at least one of them.

    Raises:
        IncompleteCredential: without both halves of the key.
    """
    if not access_key_id or not secret_access_key:
        raise IncompleteCredential(
            "incomplete per-request AWS credential: access key ID and secret access key must both be present"
        )
    return AWSCredentials(
        access_key_id=Secret(access_key_id),
        secret_access_key=Secret(secret_access_key),
        session_token=Secret(session_token),
    )
