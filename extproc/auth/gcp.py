"""Vertex AI: a token, and a path that names project and location (contract, GCP 6.3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote

from extproc.auth.api_key import BEARER, token_cell
from extproc.auth.base import CLIENT_CREDENTIALS, FixedCell, Headers, UpstreamCall
from extproc.errors import BackendFault
from filter_config.redact import Secret

# RFC 3986, 3.3: what a path segment may hold unescaped; projects of a domain have a colon, `example.com:project`.
_SEGMENT = "!$&'()*+,;=:@"


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexAIScheme:
    """Puts the token into ``Authorization``, and ``prefix`` before the path of the model."""

    prefix: str
    strips: frozenset[str] = field(default=CLIENT_CREDENTIALS, init=False)

    def apply(self, call: UpstreamCall, credential: Secret) -> Headers:
        return [(":path", self.prefix + call.headers[":path"].lstrip("/")), *BEARER.apply(call, credential)]


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


def access_token_cell(token: Secret) -> FixedCell[Secret]:
    """The cell of the configured token, which is used as it is.

    Raises:
        BackendFault: there is none, or no header can carry it.
    """
    if not token:
        raise BackendFault(
            "auth.gcp without accessToken needs Application Default Credentials, "
            "which are not available in this version"
        )
    return token_cell(token)
