"""Tokens of Google Cloud by Application Default Credentials, through google-auth.

Looked for in this order: the file that ``GOOGLE_APPLICATION_CREDENTIALS`` names, that of ``gcloud auth
application-default login``, the metadata server. The file is read and its credentials are made anew each time: nothing
outlives a fetch, so that a replaced file counts at once and no credential type can hold on to something that has ended
(quirk Q53). google-auth is loaded by the first fetch, in its thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from extproc.auth.oauth import (
    ASSUMED_SECONDS,
    CALL_SECONDS,
    Answer,
    clock_offset,
    host_of,
    no_token,
    proxy_of,
    read_body,
    redacted,
    refusal,
    token_from,
    usable_token,
)
from extproc.auth.sources import Fetched, Source, SourceError
from extproc.errors import BackendFault
from filter_config.model import GCPAuth
from filter_config.redact import Secret
from filter_config.volume import read_file

SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_JWT_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_JWT_SECONDS: Final = 3600
_ACCOUNT_FIELDS: Final = ("client_email", "private_key", "token_uri")
_UNIVERSE: Final = "googleapis.com"
_BACKDATED: Final = 10  # seconds, so that an assertion is not of the future for a clock that is a little behind
_TOLERATED_OFFSET: Final = 30.0  # seconds between two clocks that make no difference
_ALL_CALLS_SECONDS: Final = 25.0
_MAX_FILE_BYTES: Final = 1 << 20
_FILE_VARIABLE: Final = "GOOGLE_APPLICATION_CREDENTIALS"
_WELL_KNOWN: Final = "application_default_credentials.json"
_PROXY: Final = "AI_GATEWAY_GCP_AUTH_PROXY_URL"
_METADATA_HOST: Final = "metadata.google.internal"
_FAILED: Final = "failed to get GCP access token"

# What a credentials file and a call hold that nobody may see.
_FILE_SECRETS: Final = ("private_key", "client_secret", "refresh_token")
_FORM_SECRETS: Final = frozenset(("assertion", "client_secret", "refresh_token", "subject_token", "actor_token"))

# What google-auth lets through when a file or an answer is not as it expects.
_MALFORMED: Final = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)


def gcp_source(_auth: GCPAuth, environ: Mapping[str, str] = os.environ) -> Source[Secret]:
    """Where the tokens of a backend without ``accessToken`` come from; asks nobody yet.

    Project and region have no part in a token: all backends of a process share this source.

    Raises:
        BackendFault: the package that knows the flows is not installed, or the configured proxy cannot be one.
    """
    if find_spec("google.auth") is None or find_spec("requests") is None:
        raise BackendFault(
            "auth.gcp without accessToken needs Application Default Credentials; "
            "install them: pip install 'envoy-llm-extproc[gcp]'"
        )
    return DefaultCredentials(
        explicit=_path(environ.get(_FILE_VARIABLE)),
        well_known=_well_known(environ),
        metadata_host=environ.get("GCE_METADATA_HOST") or environ.get("GCE_METADATA_ROOT") or _METADATA_HOST,
        metadata=environ.get("NO_GCE_CHECK") != "true",
        proxy=proxy_of(environ, _PROXY),
        certificates=_path(environ.get("SSL_CERT_FILE") or environ.get("REQUESTS_CA_BUNDLE")),
    )


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _well_known(environ: Mapping[str, str]) -> Path | None:
    if directory := environ.get("CLOUDSDK_CONFIG"):
        return Path(directory, _WELL_KNOWN)
    return Path(home, ".config", "gcloud", _WELL_KNOWN) if (home := environ.get("HOME")) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultCredentials:
    """The source of tokens of this process.

    Attributes:
        explicit: must exist where it is given.
        well_known: is used if it exists.
        metadata_host: with a port perhaps.
        metadata: whether the metadata server may be asked at all.
        proxy: URL; empty for that of the environment.
        certificates: of the authorities that are trusted instead of the usual ones.
        seconds: how long a call may take.
    """

    explicit: Path | None
    well_known: Path | None
    metadata_host: str
    metadata: bool
    proxy: Secret
    certificates: Path | None
    seconds: float = field(default=CALL_SECONDS)

    @property
    def name(self) -> str:
        return "gcp-default-credentials"

    @property
    def key(self) -> Hashable:
        return self

    @property
    def watches(self) -> tuple[Path, ...]:
        """The credentials file, and the file with the subject token that it names."""
        file = self.explicit or self.well_known
        if file is None:
            return ()
        try:
            source = _read(file).get("credential_source")
        except SourceError:
            return (file,)
        match source:
            case {"file": str(name)} if name:
                return (file, Path(name))
            case _:
                return (file,)

    def fetch(self) -> Fetched[Secret]:
        try:
            return self._fetch()
        except SourceError as error:
            raise SourceError(f"{_FAILED}: {error}") from None

    def _fetch(self) -> Fetched[Secret]:
        requests = import_module("requests")
        with requests.Session() as session:
            # Its own reading of the environment lets a .netrc replace a token.
            session.trust_env = False
            calls = _Calls(session, self)
            file = self.explicit or self.well_known
            if file is None or (self.explicit is None and not file.exists()):
                return self._from_metadata(calls)
            return _from_file(file, calls)

    def _from_metadata(self, calls: _Calls) -> Fetched[Secret]:
        absent = f"{_FILE_VARIABLE} is not set" + (f", {self.well_known} does not exist" if self.well_known else "")
        if not self.metadata:
            raise SourceError(f"no Application Default Credentials: {absent}, NO_GCE_CHECK is set")
        errors = import_module("google.auth.exceptions")
        compute_engine = import_module("google.auth.compute_engine")
        try:
            return _refreshed(compute_engine.Credentials(scopes=[SCOPE]), calls)
        except errors.GoogleAuthError as error:
            raise SourceError(f"the metadata server cannot be asked: {_said(error, calls)}") from None
        except SourceError as error:
            if calls.answered:
                raise
            raise SourceError(f"no Application Default Credentials: {absent}, {error}") from None


# --- files ---


def _read(file: Path) -> dict[str, Any]:
    """The object in a credentials file.

    Raises:
        SourceError: it holds none.
    """
    try:
        content = read_file(file, limit=_MAX_FILE_BYTES)
    except OSError as error:
        raise SourceError(f"the credentials file {file} cannot be read: {error.strerror or error}") from None
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise SourceError(f"the credentials file {file} holds no JSON object") from None


def _from_file(file: Path, calls: _Calls) -> Fetched[Secret]:
    info = _read(file)
    calls.sent.update(_secrets(info))
    flow = _FLOWS.get(str(info.get("type")))
    if flow is None:
        raise SourceError(f"the credentials file {file} has none of the types {', '.join(_FLOWS)}")
    errors = import_module("google.auth.exceptions")
    try:
        return flow(info, calls)
    except errors.GoogleAuthError as error:
        raise SourceError(f"the credentials file {file}: {_said(error, calls)}") from None
    except OSError as error:
        raise SourceError(f"the credentials file {file}: {error.filename}: {error.strerror}") from None
    except _MALFORMED:
        raise SourceError(f"the credentials file {file} is malformed") from None


def _said(error: Exception, calls: _Calls) -> str:
    """What google-auth says before it has made a call: of files, what is missing; of answers it would quote some."""
    said = error.args[0] if error.args and isinstance(error.args[0], str) else type(error).__name__
    return redacted(said, calls.sent)


def _secrets(info: Mapping[str, Any]) -> Iterator[str]:
    """What of a credentials file must not be shown."""
    yield from (value for name in _FILE_SECRETS if isinstance(value := info.get(name), str) and value)
    if isinstance(inner := info.get("source_credentials"), dict):
        yield from _secrets(inner)
    match info.get("credential_source"):
        case {"headers": dict(headers)}:
            yield from (value for value in headers.values() if isinstance(value, str) and value)


# --- flows ---


def _service_account(info: dict[str, Any], calls: _Calls) -> Fetched[Secret]:
    """RFC 7523, 2.1: an assertion that the account's key signs; again by the endpoint's clock where ours is wrong."""
    errors = import_module("google.auth.exceptions")
    if info.get("universe_domain", _UNIVERSE) != _UNIVERSE:
        # Other universes have no token endpoint: the assertion is itself the token.
        service_account = import_module("google.oauth2.service_account")
        return _refreshed(service_account.Credentials.from_service_account_info(info, scopes=[SCOPE]), calls)
    if missing := [name for name in _ACCOUNT_FIELDS if not isinstance(info.get(name), str) or not info[name]]:
        raise errors.MalformedError(f"the service account has no {', no '.join(missing)}")
    try:
        signer = _signer(Secret(info["private_key"]), info.get("private_key_id"))
    except Exception:  # noqa: BLE001 - whatever the cryptography library thinks of a key
        raise errors.MalformedError("the private_key is no RSA key in PEM form") from None
    try:
        return _jwt_grant(signer, info, calls, ahead=0.0)
    except SourceError:
        if abs(calls.ahead) < _TOLERATED_OFFSET:
            raise
        return _jwt_grant(signer, info, calls, ahead=calls.ahead)


@lru_cache(maxsize=4)
def _signer(private_key: Secret, key_id: object) -> Any:  # noqa: ANN401 - google-auth has no types
    """Signs with the key of a service account.

    google-auth's reading of a key proves its primes for 55 ms, in which no other thread runs: each replaced file would
    hold up streams. That the key's signature verifies says as much of its use, in 1 ms.
    """
    crypt = import_module("google.auth.crypt")
    if find_spec("cryptography") is None:
        # An older google-auth has another library for want of it, and that one proves nothing.
        return crypt.RSASigner.from_string(private_key.reveal(), key_id)
    serialization = import_module("cryptography.hazmat.primitives.serialization")
    scheme = import_module("cryptography.hazmat.primitives.asymmetric.padding").PKCS1v15()
    digest = import_module("cryptography.hazmat.primitives.hashes").SHA256()
    key = serialization.load_pem_private_key(
        private_key.reveal().encode(), password=None, unsafe_skip_rsa_key_validation=True
    )
    key.public_key().verify(key.sign(b"", scheme, digest), b"", scheme, digest)
    return crypt.RSASigner(key, key_id)


def _jwt_grant(signer: Any, info: Mapping[str, str], calls: _Calls, *, ahead: float) -> Fetched[Secret]:  # noqa: ANN401
    asked_at = time.time()
    issued_at = int(asked_at + ahead) - _BACKDATED
    claims = {
        "iss": info["client_email"],
        "scope": SCOPE,
        "aud": info["token_uri"],
        "iat": issued_at,
        "exp": issued_at + _JWT_SECONDS,
    }
    assertion = import_module("google.auth.jwt").encode(signer, claims).decode()
    answer = calls.post(info["token_uri"], {"grant_type": _JWT_GRANT, "assertion": assertion})
    return token_from(answer, asked_at=asked_at, sent=calls.sent)


def _authorized_user(info: dict[str, Any], calls: _Calls) -> Fetched[Secret]:
    # A person's consent has its own scopes, and more are not given for the asking.
    module = import_module("google.oauth2.credentials")
    return _refreshed(module.Credentials.from_authorized_user_info(info), calls)


def _external_account(info: dict[str, Any], calls: _Calls) -> Fetched[Secret]:
    """Workload identity federation; the kind of subject token decides on the class."""
    match info:
        case {"subject_token_type": "urn:ietf:params:aws:token-type:aws4_request"}:
            module = import_module("google.auth.aws")
        case {"credential_source": {"executable": _}}:
            module = import_module("google.auth.pluggable")
        case _:
            module = import_module("google.auth.identity_pool")
    impersonated = bool(info.get("service_account_impersonation_url"))
    return _refreshed(module.Credentials.from_info(info, scopes=[SCOPE]), calls, ends_by_their_clock=impersonated)


def _external_authorized_user(info: dict[str, Any], calls: _Calls) -> Fetched[Secret]:
    module = import_module("google.auth.external_account_authorized_user")
    return _refreshed(module.Credentials.from_info(info), calls)


def _impersonated(info: dict[str, Any], calls: _Calls) -> Fetched[Secret]:
    module = import_module("google.auth.impersonated_credentials")
    credentials = module.Credentials.from_impersonated_service_account_info(info, scopes=[SCOPE])
    return _refreshed(credentials, calls, ends_by_their_clock=True)


_FLOWS: Final[dict[str, Callable[[dict[str, Any], _Calls], Fetched[Secret]]]] = {
    "service_account": _service_account,
    "authorized_user": _authorized_user,
    "external_account": _external_account,
    "external_account_authorized_user": _external_authorized_user,
    "impersonated_service_account": _impersonated,
}


def _refreshed(credentials: Any, calls: _Calls, *, ends_by_their_clock: bool = False) -> Fetched[Secret]:  # noqa: ANN401
    """The token that google-auth gets for credentials.

    Args:
        credentials: of any type, without a token.
        calls: make its requests.
        ends_by_their_clock: the end came as a time, not as a number of seconds.
    """
    errors = import_module("google.auth.exceptions")
    asked_at = time.time()
    try:
        credentials.refresh(calls)
    except (errors.GoogleAuthError, *_MALFORMED):
        if not calls.answered:
            raise
        raise no_token(calls.host) from None
    token = usable_token(credentials.token, calls.host)
    if credentials.expiry is None:
        return Fetched(token, asked_at + ASSUMED_SECONDS)
    expires_at = credentials.expiry.replace(tzinfo=UTC).timestamp()
    if ends_by_their_clock and abs(calls.ahead) >= _TOLERATED_OFFSET:
        expires_at -= calls.ahead
    if expires_at <= asked_at:
        raise SourceError(f"{calls.host} answered with a token that has expired")
    return Fetched(token, expires_at)


# --- calls ---


class _Response(NamedTuple):
    """What google-auth reads of an answer (its ``transport.Response``)."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class _Calls:
    """Makes the calls of one fetch (google-auth's ``transport.Request``), within a time for each and one for all.

    Anything but a success ends the fetch: google-auth would sleep and try again, and a cell has a schedule of its own.

    Attributes:
        session: where google-auth adds client certificates for the metadata server.
        sent: secrets that have been sent.
        host: whom the last call went to.
        answered: whether a call has succeeded.
        ahead: seconds by which the clock of the last that answered is ahead of ours.
    """

    def __init__(self, session: Any, source: DefaultCredentials) -> None:  # noqa: ANN401 - requests has no types
        self.session = session
        self.sent: set[str] = set()
        self.host = ""
        self.answered = False
        self.ahead = 0.0
        self._source = source
        self._deadline = time.monotonic() + _ALL_CALLS_SECONDS

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **options: object,
    ) -> _Response:
        self.answered = False
        self.host = host = host_of(url)
        self._note(body, headers or {})
        seconds = min(timeout or self._source.seconds, self._source.seconds, self._deadline - time.monotonic())
        if seconds <= 0:
            raise SourceError(f"no time is left to ask {host}")
        response = self._send(method, url, data=body, headers=headers, seconds=seconds, **options)
        if response.status != 200:
            raise refusal(Answer(host, response.status, response.data), self.sent)
        if host == self._source.metadata_host and response.headers.get("metadata-flavor") != "Google":
            raise SourceError(f"{host} is no metadata server of Google")
        self.answered = True
        return response

    def post(self, url: str, form: Mapping[str, str]) -> Answer:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        response = self(url, "POST", urlencode(form).encode(), headers)
        return Answer(self.host, response.status, response.data)

    def _send(
        self,
        method: str,
        url: str,
        *,
        seconds: float,
        **options: object,
    ) -> _Response:
        requests = import_module("requests")
        deadline = time.monotonic() + seconds
        try:
            with self.session.request(
                method,
                url,
                timeout=seconds,
                # Tokens and assertions are for this host alone.
                allow_redirects=False,
                proxies=self._proxies(url),
                verify=str(self._source.certificates) if self._source.certificates else True,
                stream=True,
                **options,
            ) as response:
                self.ahead = clock_offset(response.headers.get("date"), time.time())
                # Byte by byte, since requests waits until a longer piece is full.
                pieces = response.iter_content(1)
                data = read_body(lambda _: next(pieces, b""), host=self.host, deadline=deadline)
                return _Response(response.status_code, response.headers, data)
        except (requests.exceptions.RequestException, OSError) as error:
            raise SourceError(f"{self.host} {_unreached(error, seconds)}") from None

    def _proxies(self, url: str) -> Mapping[str, str]:
        """The metadata server is beside this process, and asks who calls."""
        host = urlsplit(url).hostname or ""
        if self.host == self._source.metadata_host or _is_link_local(host):
            return {}
        if self._source.proxy:
            return {"http": self._source.proxy.reveal(), "https": self._source.proxy.reveal()}
        found: dict[str, str] = import_module("requests.utils").get_environ_proxies(url)
        return found

    def _note(self, body: bytes | None, headers: Mapping[str, str]) -> None:
        if isinstance(body, bytes) and "urlencoded" in headers.get("Content-Type", ""):
            fields = parse_qsl(body.decode("ascii", "replace"))
            self.sent.update(value for name, value in fields if name in _FORM_SECRETS)
        for name, value in headers.items():
            if name.lower() == "authorization":
                self.sent.add(value.rpartition(" ")[2])


def _is_link_local(host: str) -> bool:
    try:
        return ip_address(host).is_link_local
    except ValueError:
        return False


def _unreached(error: Exception, seconds: float) -> str:
    """Why there is no answer; the text of requests would show the path, and perhaps the proxy's password."""
    exceptions = import_module("requests.exceptions")
    slow = f"did not answer within {seconds:.3g} s"
    # While a body is read, requests makes a lost connection of a timeout.
    if error.args and type(error.args[0]).__name__ == "ReadTimeoutError":
        return slow
    match error:
        case exceptions.Timeout():
            return slow
        case exceptions.ProxyError():
            return "cannot be reached through the proxy"
        case exceptions.SSLError():
            return "cannot be reached by TLS, or has no certificate that is trusted"
        case exceptions.ConnectionError():
            return "cannot be reached"
        case _:
            return f"broke off the call: {type(error).__name__}"
