"""Static keys and tokens: one header with a configured value (contract, static handlers 6.1)."""

from __future__ import annotations

from dataclasses import dataclass, field

from extproc.auth.base import CLIENT_CREDENTIALS, Emitter, UpstreamCall
from extproc.errors import BackendFault
from extproc.headertext import has_control_character
from filter_config.redact import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticCredential:
    """Sends the same credential with every request.

    Raises:
        BackendFault: the credential cannot stand in a header.
    """

    credential: Secret
    emit: Emitter
    strips: frozenset[str] = field(default=CLIENT_CREDENTIALS, init=False)

    def __post_init__(self) -> None:
        if has_control_character(self.credential.reveal()):
            raise BackendFault("the configured credential holds a control character; a header cannot carry it")

    def authenticate(self, _call: UpstreamCall) -> list[tuple[str, str]]:
        return self.emit(self.credential.reveal())
