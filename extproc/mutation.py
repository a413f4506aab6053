"""Configured header and body mutations of a backend.

Mutations come from the filter config (contract, body mutator 3.11 and header mutator 3.12). They are compiled once
per config; a body is edited as bytes, so everything that a rule does not name stays as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog

from extproc.errors import BackendFault
from extproc.formats import jsonedit
from filter_config.checks import is_protected
from filter_config.model import HTTPBodyMutation, HTTPHeaderMutation

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderMutator:
    """Headers to remove from, then to set on, the request to the backend. Names are lower case."""

    remove: tuple[str, ...] = ()
    # A value may be a credential.
    set: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def compile(cls, mutation: HTTPHeaderMutation | None) -> HeaderMutator:
        if mutation is None:
            return NO_HEADER_MUTATION
        remove = (name.lower() for name in mutation.remove)
        set_ = ((header.name.lower(), header.value.reveal()) for header in mutation.set)
        return cls(
            remove=tuple(name for name in remove if not is_protected(name)),
            set=tuple((name, value) for name, value in set_ if not is_protected(name)),
        )


NO_HEADER_MUTATION = HeaderMutator()


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyMutator:
    """JSON members to remove from, then to set in, the body sent to the backend."""

    remove: tuple[jsonedit.Path, ...] = ()
    set: tuple[tuple[jsonedit.Path, bytes], ...] = ()

    @classmethod
    def compile(cls, mutation: HTTPBodyMutation) -> BodyMutator:
        """Compile the rules.

        A path that names more than one place is a rule that can never be applied; it is left out.

        Raises:
            BackendFault: a raw JSON value is not valid; nothing of it may reach a provider.
        """
        removed = (_path(path) for path in mutation.remove)
        try:
            placed = [(_path(field.path), jsonedit.raw_value(field.value)) for field in mutation.set]
        except jsonedit.JSONEditError as error:
            raise BackendFault(f"invalid httpBodyMutation: {error}") from error
        return cls(
            remove=tuple(path for path in removed if path is not None),
            set=tuple((path, raw) for path, raw in placed if path is not None),
        )

    def apply(self, body: bytes) -> bytes:
        """The mutated body; where a rule cannot be applied, the body as it was before all rules (contract 3.11)."""
        mutated = body
        try:
            for path in self.remove:
                mutated = jsonedit.delete(mutated, path)
            for path, raw in self.set:
                mutated = jsonedit.set_value(mutated, path, raw)
        except jsonedit.JSONEditError as error:
            _log.error("failed to apply body mutation", error=str(error))
            return body
        return mutated


def _path(text: str) -> jsonedit.Path | None:
    if not text:
        return None
    try:
        return jsonedit.parse_path(text)
    except jsonedit.JSONEditError as error:
        _log.warning("body mutation rule is left out", path=text, error=str(error))
        return None
