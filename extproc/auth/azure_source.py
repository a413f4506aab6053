"""Tokens of Microsoft Entra ID for Azure OpenAI: the client-credentials grant, made anew each time.

An application proves itself with a secret, or with a token of a provider that Entra trusts, such as that of a
Kubernetes service account (workload identity). One POST does not need Azure's own library, which is 21 MB.
"""

from __future__ import annotations

import http.client
import os
import ssl
import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

from extproc.auth.oauth import CALL_SECONDS, Answer, host_of, proxy_of, read_body, token_from
from extproc.auth.sources import Fetched, Source, SourceError
from extproc.errors import BackendFault
from filter_config.checks import is_authority, is_tenant
from filter_config.model import AzureAuth
from filter_config.redact import Secret
from filter_config.volume import read_file

_AUTHORITY: Final = "https://login.microsoftonline.com"
_SCOPE: Final = "https://cognitiveservices.azure.com/.default"
# Sovereign clouds have a scope of their own.
_SCOPES: Final = {
    "login.microsoftonline.us": "https://cognitiveservices.azure.us/.default",
    "login.partner.microsoftonline.cn": "https://cognitiveservices.azure.cn/.default",
    "login.chinacloudapi.cn": "https://cognitiveservices.azure.cn/.default",
}
_PROXY: Final = "AI_GATEWAY_AZURE_PROXY_URL"
_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_MAX_ASSERTION_BYTES: Final = 1 << 16
_FAILED: Final = "failed to get Azure access token"


def azure_source(auth: AzureAuth, environ: Mapping[str, str] = os.environ) -> Source[Secret]:
    """Where the tokens of a backend without ``accessToken`` come from; asks nobody yet.

    What the config does not give is taken from ``AZURE_CLIENT_ID``, ``AZURE_TENANT_ID``, ``AZURE_CLIENT_SECRET``,
    ``AZURE_FEDERATED_TOKEN_FILE`` and ``AZURE_AUTHORITY_HOST``. A secret and the application that it is of come from
    the same place, and a secret goes before a file.

    Raises:
        BackendFault: too little is known to ask for a token, or it cannot be asked for so.
    """
    tenant = auth.tenant_id.strip() or environ.get("AZURE_TENANT_ID", "").strip()
    client = auth.client_id.strip() or environ.get("AZURE_CLIENT_ID", "").strip()
    authority = auth.authority_host.strip() or environ.get("AZURE_AUTHORITY_HOST", "").strip() or _AUTHORITY
    secret, file = _proof(auth, environ)
    _check(tenant=tenant, client=client, proven=bool(secret or file), authority=authority)
    return EntraSource(
        tenant=tenant,
        client=client,
        authority=authority.rstrip("/"),
        secret=secret,
        file=file,
        proxy=proxy_of(environ, _PROXY),
    )


def _proof(auth: AzureAuth, environ: Mapping[str, str]) -> tuple[Secret, Path | None]:
    """A secret, or a file; neither where there is none."""
    if auth.client_secret and (secret := auth.client_secret.reveal().strip()):
        if not auth.client_id.strip():
            raise BackendFault("auth.azure has a clientSecret and no clientID that it is of")
        return Secret(secret), None
    if auth.federated_token_file:
        return Secret(), Path(auth.federated_token_file)
    # Sent for an application that the config names, it would be another's.
    if not auth.client_id.strip() and (secret := environ.get("AZURE_CLIENT_SECRET", "").strip()):
        return Secret(secret), None
    file = environ.get("AZURE_FEDERATED_TOKEN_FILE", "")
    return Secret(), Path(file) if file else None


def _check(*, tenant: str, client: str, proven: bool, authority: str) -> None:
    needed = {
        "tenantID (AZURE_TENANT_ID)": tenant,
        "clientID (AZURE_CLIENT_ID)": client,
        "clientSecret (AZURE_CLIENT_SECRET) or federatedTokenFile (AZURE_FEDERATED_TOKEN_FILE)": proven,
    }
    if missing := [name for name, value in needed.items() if not value]:
        raise BackendFault(f"auth.azure has no accessToken, and to ask for one no {', no '.join(missing)}")
    if not is_tenant(tenant):
        raise BackendFault("auth.azure: the tenant ID is neither an ID nor a domain")
    if not is_authority(authority):
        raise BackendFault("auth.azure: the authority host is no URL that a secret may be sent to, https://host")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntraSource:
    """A source of tokens for one application of one tenant.

    Attributes:
        authority: URL without a slash at its end.
        secret: empty when ``file`` proves who asks.
        file: holds the assertion; read each time, since whoever writes it renews it.
        proxy: URL; empty for that of the environment.
        seconds: how long a call may take.
    """

    tenant: str
    client: str
    authority: str
    secret: Secret
    file: Path | None
    proxy: Secret
    seconds: float = field(default=CALL_SECONDS)

    @property
    def name(self) -> str:
        how = "client-secret" if self.file is None else "federated-token"
        return f"azure-{how}/{self.tenant}/{self.client}"

    @property
    def key(self) -> Hashable:
        return self

    @property
    def watches(self) -> tuple[Path, ...]:
        return () if self.file is None else (self.file,)

    def fetch(self) -> Fetched[Secret]:
        try:
            return self._fetch()
        except SourceError as error:
            raise SourceError(f"{_FAILED}: {error}") from None

    def _fetch(self) -> Fetched[Secret]:
        proof = self._proof()
        form = {
            "client_id": self.client,
            "scope": _SCOPES.get(urlsplit(self.authority).hostname or "", _SCOPE),
            "grant_type": "client_credentials",
            **{name: value.reveal() for name, value in proof.items()},
        }
        asked_at = time.time()
        answer = self._post(f"{self.authority}/{quote(self.tenant, safe='')}/oauth2/v2.0/token", form)
        return token_from(answer, asked_at=asked_at, sent=[value.reveal() for value in proof.values()])

    def _proof(self) -> dict[str, Secret]:
        """What the form proves the application with; RFC 7523, 2.2 for an assertion."""
        if self.file is None:
            return {"client_secret": self.secret}
        return {
            "client_assertion_type": Secret(_ASSERTION_TYPE),
            "client_assertion": _assertion(self.file),
        }

    def _post(self, url: str, form: Mapping[str, str]) -> Answer:
        host = host_of(url)
        deadline = time.monotonic() + self.seconds
        request = Request(url, data=urlencode(form).encode(), headers={"Accept": "application/json"})  # noqa: S310 - https, or loopback
        try:
            with self._opener().open(request, timeout=self.seconds) as response:
                return Answer(host, response.status, read_body(response.read1, host=host, deadline=deadline))
        except TimeoutError:
            raise SourceError(f"{host} did not answer within {self.seconds:g} s") from None
        except URLError as error:
            raise SourceError(f"{host} {self._unreached(error.reason)}") from None
        except (OSError, http.client.HTTPException) as error:
            raise SourceError(f"{host} broke off the call: {type(error).__name__}") from None

    def _opener(self) -> OpenerDirector:
        """Takes an answer of any status, and follows no redirection: the proof is for its authority alone."""
        # Without one given, the handler reads the environment.
        proxies = {"http": self.proxy.reveal(), "https": self.proxy.reveal()} if self.proxy else None
        opener = OpenerDirector()
        for handler in (ProxyHandler(proxies), HTTPHandler(), HTTPSHandler()):
            opener.add_handler(handler)
        return opener

    def _unreached(self, reason: object) -> str:
        match reason:
            case TimeoutError():
                return f"did not answer within {self.seconds:g} s"
            case ssl.SSLCertVerificationError():
                return f"has no certificate that is trusted: {reason.verify_message}"
            case ssl.SSLError():
                return f"cannot be reached by TLS: {reason.reason}"
            case OSError(strerror=str(words)):
                return f"cannot be reached: {words}"
            case OSError():
                # urllib's word for a proxy that does not let the call through.
                return "cannot be reached through the proxy"
            case _:
                return "cannot be reached"


def _assertion(file: Path) -> Secret:
    try:
        token = read_file(file, limit=_MAX_ASSERTION_BYTES).decode("ascii").strip()
    except OSError as error:
        raise SourceError(f"the federated token file {file} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        token = ""
    if not token:
        raise SourceError(f"the federated token file {file} holds no token")
    return Secret(token)
