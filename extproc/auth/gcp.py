"""Vertex AI: a token, and a path that names project and location (contract, GCP 6.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from extproc.auth.api_key import BEARER
from extproc.auth.base import CLIENT_CREDENTIALS, Headers, UpstreamCall
from extproc.errors import BackendFault
from filter_config.redact import Secret

# RFC 3986, 3.3: what a path segment may hold unescaped; projects of a domain have a colon, `example.com:project`.
_SEGMENT = "!$&'()*+,;=:@"


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexAIScheme:
    """Puts the token into ``Authorization``, and ``prefix`` before the path of the model."""

    prefix: str
    strips: frozenset[str] = field(default=CLIENT_CREDENTIALS, init=False)
    constant: bool = field(default=False, init=False)

    def apply(self, call: UpstreamCall, credential: Secret) -> Headers:
        return [(":path", self.prefix + call.headers[":path"].lstrip("/")), *BEARER.apply(call, credential)]

    def refused(self, _headers: Mapping[str, str], _now: float) -> None:
        """A token does not depend on what a backend answers."""


def vertex_ai(*, project: str, region: str) -> VertexAIScheme:
    """The scheme for one project and location; ``global`` is a location as any other.

    Raises:
        BackendFault: one of the two is missing.
    """
    missing = [name for name, value in (("projectName", project), ("region", region)) if not value.strip()]
    if missing:
        raise BackendFault(f"auth.gcp has no {' and no '.join(missing)}")
    return VertexAIScheme(
        prefix=f"/v1/projects/{quote(project, safe=_SEGMENT)}/locations/{quote(region, safe=_SEGMENT)}/"
    )
