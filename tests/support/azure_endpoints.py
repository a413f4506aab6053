"""A stand-in for Microsoft Entra ID: client-credentials grants with a secret or with a federated token."""

from __future__ import annotations

import re

from tests.support.token_endpoints import Received, Refused, Reply, TokenEndpoints, json_reply

TENANT = "11111111-2222-3333-4444-555555555555"
CLIENT = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
SECRET = "canary~Q8~entra.secret+/=&%"
SCOPE = "https://cognitiveservices.azure.com/.default"

_PATH = re.compile(r"/(?P<tenant>[^/]+)/oauth2/v2\.0/token")
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class AzureEndpoints(TokenEndpoints):
    """Endpoint ``token``. It refuses what Entra would, in its words and with its codes.

    Attributes:
        secrets: of the application; several while one is replaced.
        assertions: federated tokens that are trusted.
        scope: the only one that is given.
    """

    token_prefix = "eyJ0eXAi.canary-entra"

    def __init__(self, *, secrets=(SECRET,), assertions=(), scope: str = SCOPE) -> None:
        super().__init__()
        self.secrets = set(secrets)
        self.assertions = set(assertions)
        self.scope = scope

    def endpoint_of(self, path: str) -> str:
        return "token" if _PATH.fullmatch(path) else ""

    def answer(self, call: Received) -> Reply:
        match = _PATH.fullmatch(call.path)
        if match is None or call.method != "POST":
            return Reply(status=404)
        form = call.form
        if match["tenant"] != TENANT:
            raise _refused("invalid_request", 90002, f"Tenant '{match['tenant']}' not found.")
        if form.get("grant_type") != "client_credentials":
            raise _refused("unsupported_grant_type", 70003, "The app requested an unsupported grant type.")
        if form.get("client_id") != CLIENT:
            raise _refused("unauthorized_client", 700016, "Application with identifier was not found.")
        if form.get("scope") != self.scope:
            raise _refused("invalid_scope", 70011, "The provided value for the input parameter 'scope' is not valid.")
        self._authenticate(form)
        document = {
            "token_type": "Bearer",
            "expires_in": self.lifetime,
            "ext_expires_in": self.lifetime,
            "access_token": self.issue(),
        }
        return json_reply(200, document)

    def _authenticate(self, form: dict[str, str]) -> None:
        if {"client_secret", "client_assertion"} <= form.keys():
            raise _refused("invalid_request", 900144, "The request body must contain one credential.")
        if "client_secret" in form:
            if form["client_secret"] not in self.secrets:
                raise _refused("invalid_client", 7000215, "Invalid client secret provided.", status=401)
        elif form.get("client_assertion_type") != _ASSERTION_TYPE:
            raise _refused("invalid_request", 900144, "The request body must contain 'client_assertion_type'.")
        elif form.get("client_assertion") not in self.assertions:
            raise _refused("invalid_client", 700024, "Client assertion is not within its valid time range.", status=401)


def _refused(error: str, code: int, text: str, *, status: int = 400) -> Refused:
    trace = "Trace ID: 00000000-1111-2222-3333-444444444444 Correlation ID: 55555555-6666-7777-8888-999999999999"
    document = {
        "error": error,
        "error_description": f"AADSTS{code}: {text} {trace} Timestamp: 2026-01-02 03:04:05Z",
        "error_codes": [code],
        "error_uri": f"https://login.microsoftonline.com/error?code={code}",
    }
    return Refused(json_reply(status, document))
