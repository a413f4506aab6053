"""Keys and tokens: one header with the credential in it (contract, static handlers 6.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from extproc.auth.base import CLIENT_CREDENTIALS, FixedCell, Headers, UpstreamCall
from extproc.errors import BackendFault
from extproc.headertext import has_control_character
from filter_config.redact import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderScheme:
    """Sends the credential in the header ``name``, after ``prefix``."""

    name: str
    prefix: str = ""
    strips: frozenset[str] = field(default=CLIENT_CREDENTIALS, init=False)
    constant: bool = field(default=True, init=False)

    def apply(self, _call: UpstreamCall, credential: Secret) -> Headers:
        return [(self.name, self.prefix + credential.reveal())]

    def refused(self, _headers: Mapping[str, str], _now: float) -> None:
        """A key does not depend on what a backend answers."""


BEARER = HeaderScheme(name="Authorization", prefix="Bearer ")
AZURE_API_KEY = HeaderScheme(name="api-key")
ANTHROPIC_API_KEY = HeaderScheme(name="x-api-key")


def token_cell(token: Secret) -> FixedCell[Secret]:
    """The cell of a key or token of the filter config.

    Raises:
        BackendFault: no header can carry it.
    """
    if has_control_character(token.reveal()):
        raise BackendFault("the configured credential holds a control character; a header cannot carry it")
    return FixedCell(token)


def trimmed(token: Secret) -> Secret:
    return Secret(token.reveal().strip())
