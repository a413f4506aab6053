"""A stand-in for an identity provider, and for the STS of AWS that trusts it."""

from __future__ import annotations

import time
from typing import Any
from xml.sax.saxutils import escape

from tests.support.token_endpoints import Received, Refused, Reply, TokenEndpoints, json_reply

CLIENT = "client"
CLIENT_SECRET = "canary-client-secret&+"
ROLE = "arn:aws:iam::123456789012:role/extproc"


class IdentityEndpoints(TokenEndpoints):
    """Endpoints ``discovery``, ``token`` and ``sts``.

    Attributes:
        issued: identity tokens.
        keys: secret access keys that STS gave out.
    """

    token_prefix = "canary-identity"

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[str] = []

    def endpoint_of(self, path: str) -> str:
        return {"/.well-known/openid-configuration": "discovery", "/token": "token", "/": "sts"}.get(path, "")

    def answer(self, call: Received) -> Reply:
        match call.endpoint:
            case "discovery":
                document: dict[str, Any] = {"issuer": self.url, "token_endpoint": f"{self.url}/token"}
                return json_reply(200, {**document, "scopes_supported": ["everything"]})
            case "token":
                return self._token(call.form)
            case "sts":
                return self._assume(call.form)
        return Reply(status=404)

    def _token(self, form: dict[str, str]) -> Reply:
        if (form.get("client_id"), form.get("client_secret")) != (CLIENT, CLIENT_SECRET):
            document = {"error": "invalid_client", "error_description": f"no {form.get('client_secret')}"}
            raise Refused(json_reply(401, document))
        return json_reply(200, {"access_token": self.issue(), "token_type": "Bearer", "expires_in": 60})

    def _assume(self, form: dict[str, str]) -> Reply:
        expected = {"Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15", "RoleArn": ROLE}
        if any(form.get(name) != value for name, value in expected.items()):
            raise Refused(Reply(status=400, body=b"<Error><Code>ValidationError</Code></Error>"))
        if form.get("WebIdentityToken") not in self.issued:
            raise Refused(Reply(status=400, body=b"<Error><Code>InvalidIdentityToken</Code></Error>"))
        self.keys.append(f"canary-aws-secret/{len(self.keys)}+=")
        ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.now() + self.lifetime))
        body = (
            "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
            f"<AccessKeyId>AKIA{len(self.keys)}</AccessKeyId>"
            f"<SecretAccessKey>{escape(self.keys[-1])}</SecretAccessKey>"
            f"<SessionToken>canary-session</SessionToken><Expiration>{ends}</Expiration>"
            "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
        )
        return Reply(body=body.encode(), headers={"Content-Type": "text/xml"})
