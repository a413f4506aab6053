"""A stand-in for Google: OAuth token endpoint, STS, IAM credentials, metadata server, and a provider of subject tokens.

It checks what it is sent as Google does: the signature and the claims of an assertion, the subject token and its type,
the token that asks to impersonate, the header that a metadata server wants.
"""

from __future__ import annotations

import base64
import json
import re
import time
from functools import cache
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.support.token_endpoints import Received, Refused, Reply, TokenEndpoints, json_reply

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
IAM_SCOPE = "https://www.googleapis.com/auth/iam"
ACCOUNT = "gateway@test-project.iam.gserviceaccount.com"
KEY_ID = "key-1"
CLIENT = "canary-client.apps.googleusercontent.com"
CLIENT_SECRET = "canary-GOCSPX+client/secret&"
REFRESH_TOKEN = "1//canary-refresh+token/&"
SUBJECT_TOKEN = "canary-subject.eyJzdWIi.token"
AUDIENCE = "//iam.googleapis.com/projects/123456/locations/global/workloadIdentityPools/pool/providers/provider"
SUBJECT_TYPE = "urn:ietf:params:oauth:token-type:jwt"
SUBJECT_HEADER = "canary-subject-header"

_ACCOUNT_PATH = "/v1/projects/-/serviceAccounts/"
_METADATA = "/computeMetadata/v1/instance/service-accounts/"
_TOLERANCE_SECONDS = 60  # between the clocks

_ENDPOINTS = (
    ("token", re.compile(r"/token")),
    ("sts", re.compile(r"/v1/token")),
    ("impersonate", re.compile(re.escape(_ACCOUNT_PATH) + r"[^/]+:generateAccessToken")),
    ("subject", re.compile(r"/subject")),
    ("metadata", re.compile(r"/computeMetadata/.*")),
)


@cache
def key() -> rsa.RSAPrivateKey:
    """The key of the account; making one takes a while."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def pem(private_key: rsa.RSAPrivateKey) -> str:
    return private_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


class GoogleEndpoints(TokenEndpoints):
    """Endpoints ``token``, ``sts``, ``impersonate``, ``subject`` and ``metadata``.

    Attributes:
        subject_token: what the provider gives out, and STS takes.
        refresh_token: what the token endpoint takes.
        flavor: what the metadata server says that it is.
    """

    token_prefix = "ya29.canary-google"

    def __init__(self) -> None:
        super().__init__()
        self.subject_token = SUBJECT_TOKEN
        self.refresh_token = REFRESH_TOKEN
        self.flavor = "Google"

    # Credentials files that lead here.

    def service_account(self, **changes: Any) -> dict[str, Any]:
        return {
            "type": "service_account",
            "project_id": "test-project",
            "private_key_id": KEY_ID,
            "private_key": pem(key()),
            "client_email": ACCOUNT,
            "client_id": "1234567890",
            "token_uri": f"{self.url}/token",
            **changes,
        }

    def authorized_user(self, **changes: Any) -> dict[str, Any]:
        """NB: google-auth asks Google's own endpoint, whatever such a file says."""
        return {
            "type": "authorized_user",
            "client_id": CLIENT,
            "client_secret": CLIENT_SECRET,
            "refresh_token": self.refresh_token,
            **changes,
        }

    def external_account(self, source: dict[str, Any], *, impersonated: bool = False, **changes: Any) -> dict[str, Any]:
        info = {
            "type": "external_account",
            "audience": AUDIENCE,
            "subject_token_type": SUBJECT_TYPE,
            "token_url": f"{self.url}/v1/token",
            "credential_source": source,
        }
        if impersonated:
            info["service_account_impersonation_url"] = self.impersonation_url
        return {**info, **changes}

    def impersonated_account(self, source: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "impersonated_service_account",
            "service_account_impersonation_url": self.impersonation_url,
            "source_credentials": source,
        }

    @property
    def impersonation_url(self) -> str:
        return f"{self.url}{_ACCOUNT_PATH}{ACCOUNT}:generateAccessToken"

    @property
    def url_source(self) -> dict[str, Any]:
        return {
            "url": f"{self.url}/subject",
            "headers": {"X-Subject": SUBJECT_HEADER},
            "format": {"type": "json", "subject_token_field_name": "value"},
        }

    # What it answers.

    def endpoint_of(self, path: str) -> str:
        return next((name for name, pattern in _ENDPOINTS if pattern.fullmatch(path)), "")

    def answer(self, call: Received) -> Reply:
        answers = {
            "token": self._token,
            "sts": self._sts,
            "impersonate": self._impersonate,
            "subject": self._subject,
            "metadata": self._metadata,
        }
        return answers[call.endpoint](call) if call.endpoint else Reply(status=404)

    def _token(self, call: Received) -> Reply:
        form = call.form
        match form.get("grant_type"):
            case "urn:ietf:params:oauth:grant-type:jwt-bearer":
                self._check_assertion(form.get("assertion", ""))
            case "refresh_token":
                self._check_refresh(form)
            case _:
                raise _refused("unsupported_grant_type", "Invalid grant_type")
        return json_reply(200, {"access_token": self.issue(), "expires_in": self.lifetime, "token_type": "Bearer"})

    def _check_assertion(self, assertion: str) -> None:
        try:
            head, body, signature = (base64.urlsafe_b64decode(f"{part}==") for part in assertion.split("."))
            header, claims = json.loads(head), json.loads(body)
        except ValueError:
            raise _refused("invalid_grant", "Bad Request") from None
        if header.get("alg") != "RS256" or header.get("kid") != KEY_ID or claims.get("iss") != ACCOUNT:
            raise _refused("invalid_grant", "Invalid grant: account not found")
        signed = assertion.rpartition(".")[0].encode()
        try:
            key().public_key().verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            raise _refused("invalid_grant", "Invalid JWT Signature.") from None
        if claims.get("aud") != f"{self.url}/token":
            raise _refused("invalid_grant", "Invalid JWT: Failed audience check.")
        if claims.get("scope") != SCOPE:
            raise _refused("invalid_scope", "Invalid OAuth scope or ID token audience provided.")
        now, issued, ends = self.now(), claims["iat"], claims["exp"]
        if issued > now + _TOLERANCE_SECONDS or not now < ends <= issued + 3600:
            text = "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe."
            raise _refused("invalid_grant", text)

    def _check_refresh(self, form: dict[str, str]) -> None:
        if (form.get("client_id"), form.get("client_secret")) != (CLIENT, CLIENT_SECRET):
            raise _refused("invalid_client", "The OAuth client was not found.", status=401)
        if form.get("refresh_token") != self.refresh_token:
            raise _refused("invalid_grant", "Token has been expired or revoked.")

    def _sts(self, call: Received) -> Reply:
        form = call.form
        expected = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "audience": AUDIENCE,
            "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "subject_token_type": SUBJECT_TYPE,
        }
        for name, value in expected.items():
            if form.get(name) != value:
                raise _refused("invalid_request", f"Invalid value for {name}.")
        if form.get("scope") not in {SCOPE, IAM_SCOPE}:
            raise _refused("invalid_scope", "The scope is not valid.")
        if form.get("subject_token") != self.subject_token:
            raise _refused("invalid_grant", "The given credential is rejected by the attribute condition.")
        document = {
            "access_token": self.issue(),
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "token_type": "Bearer",
            "expires_in": self.lifetime,
        }
        return json_reply(200, document)

    def _impersonate(self, call: Received) -> Reply:
        scheme, _, token = call.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or token not in self.issued:
            raise _api_error(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
        request = json.loads(call.body)
        if request.get("scope") != [SCOPE] or not re.fullmatch(r"\d+s", request.get("lifetime", "")):
            raise _api_error(400, "INVALID_ARGUMENT", "Request contains an invalid argument.")
        if not call.path.endswith(f"/{ACCOUNT}:generateAccessToken"):
            raise _api_error(403, "PERMISSION_DENIED", "Permission 'iam.serviceAccounts.getAccessToken' denied.")
        ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.now() + self.lifetime))
        return json_reply(200, {"accessToken": self.issue(), "expireTime": ends})

    def _subject(self, call: Received) -> Reply:
        if call.headers.get("x-subject") != SUBJECT_HEADER:
            return Reply(status=401)
        return json_reply(200, {"value": self.subject_token})

    def _metadata(self, call: Received) -> Reply:
        if call.headers.get("metadata-flavor") != "Google":
            return Reply(status=403, headers={"Metadata-Flavor": self.flavor})
        if call.path == f"{_METADATA}default/" and call.query.get("recursive") == "true":
            document: dict[str, Any] = {"aliases": ["default"], "email": ACCOUNT, "scopes": [SCOPE]}
        elif call.path == f"{_METADATA}default/token" and call.query.get("scopes") == SCOPE:
            document = {"access_token": self.issue(), "expires_in": self.lifetime, "token_type": "Bearer"}
        else:
            return Reply(status=404, headers={"Metadata-Flavor": self.flavor})
        return json_reply(200, document, Metadata_Flavor=self.flavor)


def _refused(error: str, text: str, *, status: int = 400) -> Refused:
    return Refused(json_reply(status, {"error": error, "error_description": text}))


def _api_error(code: int, status: str, message: str) -> Refused:
    return Refused(json_reply(code, {"error": {"code": code, "message": message, "status": status}}))
