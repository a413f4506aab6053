"""Identity tokens and what clouds give for them (contract, control plane 8.4).

Every exchange is plain HTTP and waits: for threads only. Lifetimes count from the question, by our own clock.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from deploy.controller.rotation import Credential, Provider
from deploy.controller.token_http import Caller, RotationFailed
from filter_config.checks import is_tenant
from filter_config.redact import Secret
from filter_config.sources.envoy_ai_gateway.fields import OIDCExchangeToken
from filter_config.sources.envoy_ai_gateway.resources import (
    AWSCredentials,
    AzureCredentials,
    BackendSecurityPolicySpec,
    GCPCredentials,
    GCPWorkloadIdentity,
)

AZURE_SCOPE: Final = "https://cognitiveservices.azure.com/.default"
GCP_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
ASSUMED_SECONDS: Final = 300.0
"""How long a token is taken to live when its endpoint does not say."""
PROXIES: Final[Mapping[Provider, str]] = {
    "aws": "AI_GATEWAY_STS_PROXY_URL",
    "azure": "AI_GATEWAY_AZURE_PROXY_URL",
    "gcp": "AI_GATEWAY_GCP_AUTH_PROXY_URL",
}
"""Variables that name the proxies."""
_JWT_BEARER: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_JWT_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:"  # noqa: S105 - the name of a type
_MAX_SESSION: Final = 64
_REGION: Final = re.compile(r"[a-z0-9-]{1,32}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """Where the clouds are; the region of AWS is put in place of ``{region}``."""

    aws: str = "https://sts.{region}.amazonaws.com{suffix}"
    azure: str = "https://login.microsoftonline.com"
    gcp_sts: str = "https://sts.googleapis.com"
    gcp_iam: str = "https://iamcredentials.googleapis.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A policy whose credential is due, with all that was read for it before.

    Attributes:
        secrets: values of Secrets by what they are for: ``client-secret``, ``client-id``, ``azure-secret``, ``file``.
    """

    name: str
    spec: BackendSecurityPolicySpec
    secrets: Mapping[str, Secret] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanges:
    """The exchanges of all providers.

    Args:
        callers: by provider.
        now: the time of day in seconds.
    """

    callers: Mapping[Provider, Caller]
    hosts: Hosts = Hosts()
    now: Callable[[], float] = time.time

    def get(self, provider: Provider, request: Request) -> Credential:
        """A new credential.

        Raises:
            RotationFailed: there is none.
        """
        return _EXCHANGES[provider](self, self.callers[provider], request)

    # --- identity ---

    def identity(self, caller: Caller, token: OIDCExchangeToken, request: Request) -> str:
        """A token of the identity provider by client credentials (RFC 6749, 4.4), for the configured scopes alone."""
        oidc = token.oidc
        endpoint = oidc.provider.token_endpoint
        if not endpoint:
            issuer = oidc.provider.issuer.removesuffix("/")
            endpoint = str(caller.json(f"{issuer}/.well-known/openid-configuration").get("token_endpoint") or "")
            if not endpoint:
                raise RotationFailed(f"{urlsplit(issuer).netloc} does not tell its token endpoint")
        client = oidc.client_id if oidc.client_id is not None else request.secrets["client-id"].reveal()
        form = {
            "grant_type": token.grant_type or "client_credentials",
            "client_id": client,
            "client_secret": request.secrets["client-secret"].reveal(),
        }
        if oidc.scopes:
            form["scope"] = " ".join(oidc.scopes)
        if token.aud:
            form["audience"] = token.aud
        return _token(caller.json(endpoint, form=form), endpoint)

    # --- AWS ---

    def aws(self, caller: Caller, request: Request) -> Credential:
        """AssumeRoleWithWebIdentity of STS."""
        aws = _given(request.spec.aws_credentials, AWSCredentials)
        assert aws.oidc_exchange_token is not None
        if not _REGION.match(aws.region):
            raise RotationFailed("spec.awsCredentials.region is no region")
        token = self.identity(caller, aws.oidc_exchange_token, request)
        url = self.hosts.aws.format(region=aws.region, suffix=".cn" if aws.region.startswith("cn-") else "")
        issued = self._moment()
        form = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": aws.oidc_exchange_token.aws_role_arn,
            "RoleSessionName": f"ai-gateway-{request.name}"[:_MAX_SESSION],
            "WebIdentityToken": token,
        }
        answer = caller.text(f"{url}/", form=form).decode(errors="replace")
        found = {
            name: _element(answer, name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
        }
        if not found["AccessKeyId"] or not found["SecretAccessKey"]:
            raise RotationFailed(f"{urlsplit(url).netloc} answered without credentials")
        lines = [
            "[default]",
            f"aws_access_key_id = {found['AccessKeyId']}",
            f"aws_secret_access_key = {found['SecretAccessKey']}",
            *([f"aws_session_token = {found['SessionToken']}"] if found["SessionToken"] else []),
            f"region = {aws.region}",
        ]
        text = "".join(f"{line}\n" for line in lines)
        return Credential(data={"credentials": Secret(text)}, issued=issued, expires=_moment(found["Expiration"], url))

    # --- Azure ---

    def azure(self, caller: Caller, request: Request) -> Credential:
        """A token of Entra, by a secret or by the token of another identity provider."""
        azure = _given(request.spec.azure_credentials, AzureCredentials)
        if not is_tenant(azure.tenant_id):
            raise RotationFailed("spec.azureCredentials.tenantID is no tenant")
        form = {"grant_type": "client_credentials", "client_id": azure.client_id, "scope": AZURE_SCOPE}
        if azure.oidc_exchange_token is not None:
            form["client_assertion_type"] = _JWT_BEARER
            form["client_assertion"] = self.identity(caller, azure.oidc_exchange_token, request)
        else:
            form["client_secret"] = request.secrets["azure-secret"].reveal()
        url = f"{self.hosts.azure}/{quote(azure.tenant_id)}/oauth2/v2.0/token"
        return self._token_credential(caller, url, form, "azureAccessToken")

    # --- GCP ---

    def gcp(self, caller: Caller, request: Request) -> Credential:
        """A token of Google, by a federated identity or by the key of a service account."""
        gcp = _given(request.spec.gcp_credentials, GCPCredentials)
        federation = gcp.workload_identity_federation_config
        if federation is None:
            return self._service_account(caller, request.secrets["file"])
        found = self._federated(caller, federation, gcp.project_name, request)
        more = {"projectName": Secret(gcp.project_name), "region": Secret(gcp.region)}
        return Credential(data={**found.data, **more}, issued=found.issued, expires=found.expires)

    def _federated(self, caller: Caller, federation: GCPWorkloadIdentity, project: str, request: Request) -> Credential:
        pool, provider = federation.workload_identity_pool_name, federation.workload_identity_provider_name
        form = {
            "grant_type": _EXCHANGE,
            "audience": (
                f"//iam.googleapis.com/projects/{federation.project_id}/locations/global/"
                f"workloadIdentityPools/{pool}/providers/{provider}"
            ),
            # Vertex AI takes no token of a narrower scope, and impersonation asks for its own.
            "scope": GCP_SCOPE,
            "requested_token_type": f"{_TOKEN_TYPE}access_token",
            "subject_token_type": f"{_TOKEN_TYPE}jwt",
            "subject_token": self.identity(caller, federation.oidc_exchange_token, request),
        }
        found = self._token_credential(caller, f"{self.hosts.gcp_sts}/v1/token", form, "gcpAccessToken")
        if federation.service_account_impersonation is None:
            return found
        account = f"{federation.service_account_impersonation.service_account_name}@{project}.iam.gserviceaccount.com"
        url = f"{self.hosts.gcp_iam}/v1/projects/-/serviceAccounts/{quote(account, safe='@')}:generateAccessToken"
        headers = {"Authorization": f"Bearer {found.data['gcpAccessToken'].reveal()}"}
        issued = self._moment()
        answer = caller.json(url, body={"scope": [GCP_SCOPE], "lifetime": "3600s"}, headers=headers)
        token = _token({"access_token": answer.get("accessToken")}, url)
        return Credential(
            data={"gcpAccessToken": Secret(token)}, issued=issued, expires=_moment(answer.get("expireTime"), url)
        )

    def _service_account(self, caller: Caller, file: Secret) -> Credential:
        """The JWT grant (RFC 7523, 2.1) with the key of a service account."""
        try:
            info = json.loads(file.reveal())
            email, url, pem = info["client_email"], info["token_uri"], info["private_key"]
            key = serialization.load_pem_private_key(str(pem).encode(), password=None)
        except (ValueError, TypeError, KeyError, UnsupportedAlgorithm):
            raise RotationFailed("the key service_account.json is no file of a service account") from None
        if not isinstance(key, rsa.RSAPrivateKey):
            raise RotationFailed("the key of the service account is no RSA key")
        begin = int(self.now())
        header = {"alg": "RS256", "typ": "JWT", **({"kid": info["private_key_id"]} if "private_key_id" in info else {})}
        claims = {"iss": email, "scope": GCP_SCOPE, "aud": url, "iat": begin, "exp": begin + 3600}
        signed = b".".join(_encoded(json.dumps(part).encode()) for part in (header, claims))
        signature = key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
        assertion = b".".join((signed, _encoded(signature))).decode()
        form = {"grant_type": _JWT_GRANT, "assertion": assertion}
        return self._token_credential(caller, str(url), form, "gcpAccessToken")

    # --- answers ---

    def _token_credential(self, caller: Caller, url: str, form: Mapping[str, str], name: str) -> Credential:
        issued = self._moment()
        answer = caller.json(url, form=form)
        expires = issued + timedelta(seconds=_lifetime(answer.get("expires_in")))
        return Credential(data={name: Secret(_token(answer, url))}, issued=issued, expires=expires)

    def _moment(self) -> datetime:
        return datetime.fromtimestamp(self.now(), tz=UTC)


_EXCHANGES: Final[Mapping[Provider, Callable[[Exchanges, Caller, Request], Credential]]] = {
    "aws": Exchanges.aws,
    "azure": Exchanges.azure,
    "gcp": Exchanges.gcp,
}


def _given(value: Any, _kind: type[Any]) -> Any:  # noqa: ANN401 - the member of the policy's type
    assert value is not None  # the rules of the kind
    return value


def _encoded(part: bytes) -> bytes:
    return base64.urlsafe_b64encode(part).rstrip(b"=")


def _token(answer: Mapping[str, Any], url: str) -> str:
    token = answer.get("access_token")
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise RotationFailed(f"{urlsplit(url).netloc} answered without a token")
    return token


def _lifetime(given: object) -> float:
    """``expires_in``, which some endpoints write as a text."""
    try:
        seconds = float(given) if isinstance(given, int | float | str) else ASSUMED_SECONDS
    except ValueError:
        seconds = ASSUMED_SECONDS
    # Longer than any token lives, and short enough for a date.
    return min(seconds, 10 * 365 * 86400.0) if seconds > 0 else ASSUMED_SECONDS


def _moment(given: object, url: str) -> datetime:
    try:
        return datetime.fromisoformat(str(given)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise RotationFailed(f"{urlsplit(url).netloc} does not tell when its credential expires") from None


def _element(answer: str, name: str) -> str:
    """The text of the first element of this name. Values of STS need no entities."""
    found = re.search(rf"<{name}>([^<&]+)</{name}>", answer)
    return found[1] if found else ""


def callers(environ: Mapping[str, str]) -> dict[Provider, Caller]:
    """The callers of the providers with their proxies.

    Raises:
        ValueError: a variable names no HTTP proxy; it is told at the start, for all three.
    """
    return {provider: Caller(proxy=_proxy(environ, variable)) for provider, variable in PROXIES.items()}


def _proxy(environ: Mapping[str, str], variable: str) -> Secret:
    url = environ.get(variable, "").strip()
    try:
        parts = urlsplit(url)
        usable = not url or (parts.scheme == "http" and bool(parts.hostname) and (parts.port or 1) > 0)
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"{variable} is not the URL of an HTTP proxy, http://host:port")
    return Secret(url)
