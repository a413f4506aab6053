"""Certificates of the webhook that it manages itself: an authority, what it issues, and when both are renewed.

Sans-IO: Secrets in, Secrets out, with the time given. The peer's chart makes a server certificate that ends after a
year, and then no pod of a gateway can be created any more (contract, control plane 4.1). Here ``maintain`` is called
now and then, renews the server's certificate when a third of its life is left, and the authority long before a
certificate of its could outlive it. A new authority is trusted for a while before it issues anything, so that no API
server meets a certificate that it does not know yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from filter_config.redact import Secret

AUTHORITY_LIFE: Final = timedelta(days=3650)
SERVER_LIFE: Final = timedelta(days=365)
SETTLE: Final = timedelta(hours=1)
"""How long a new authority is in the bundle before it issues: API servers take a new bundle within seconds."""

_Key: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
"""Ours are of the first kind; certificates that others made, the peer's chart above all, of either."""

_CLOCK_SKEW: Final = timedelta(minutes=5)
_MARK: Final = b"-----BEGIN "

CERTIFICATE_KEY: Final = "tls.crt"
PRIVATE_KEY_KEY: Final = "tls.key"
BUNDLE_KEY: Final = "ca.crt"
AUTHORITY_KEYS_KEY: Final = "ca.key"
"""Keys of the Secret. The first three are those of the peer's, so that one Secret does for both."""


class UnusableCertificates(ValueError):
    """The Secret holds something else than certificates and keys; the text says what, never showing it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """A certificate and its private key; an authority of somebody else's has none here, and issues nothing."""

    certificate: x509.Certificate
    # The certificate says whose key it is; a key that was read again is another object.
    key: _Key | None = field(compare=False)

    @property
    def begins(self) -> datetime:
        return self.certificate.not_valid_before_utc

    @property
    def ends(self) -> datetime:
        return self.certificate.not_valid_after_utc


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """What the webhook needs.

    Attributes:
        authorities: oldest first; all are trusted.
        server: what the webhook shows.
    """

    authorities: tuple[_Pair, ...]
    server: _Pair

    @property
    def bundle(self) -> str:
        """The authorities, PEM: ``caBundle`` of the webhook's configuration, before it is encoded."""
        return "".join(_pem(authority.certificate) for authority in self.authorities)

    @property
    def ends(self) -> datetime:
        """When the server's certificate ends."""
        return self.server.ends

    def to_secret(self) -> dict[str, Secret]:
        """The content of the Secret that keeps them, not encoded."""
        keys = "".join(_key_pem(authority.key) for authority in self.authorities if authority.key is not None)
        assert self.server.key is not None
        return {
            CERTIFICATE_KEY: Secret(_pem(self.server.certificate)),
            PRIVATE_KEY_KEY: Secret(_key_pem(self.server.key)),
            BUNDLE_KEY: Secret(self.bundle),
            AUTHORITY_KEYS_KEY: Secret(keys),
        }


def from_secret(content: Mapping[str, Secret]) -> Certificates:
    """What ``to_secret`` wrote, or the peer's chart, which keeps no key of the authority.

    Raises:
        UnusableCertificates: something is missing or is not what it should be.
    """
    server = _certificates(content, CERTIFICATE_KEY)[0]
    keys = _keys(content, PRIVATE_KEY_KEY)
    authority_keys = _keys(content, AUTHORITY_KEYS_KEY) if content.get(AUTHORITY_KEYS_KEY) else []
    authorities = [_paired(certificate, authority_keys) for certificate in _certificates(content, BUNDLE_KEY)]
    pair = _paired(server, keys)
    if pair.key is None:
        raise UnusableCertificates(f"{PRIVATE_KEY_KEY} is not the key of {CERTIFICATE_KEY}")
    return Certificates(authorities=tuple(sorted(authorities, key=lambda each: each.begins)), server=pair)


def maintain(current: Certificates | None, names: Sequence[str], now: datetime) -> Certificates:
    """The certificates as they should be now: the same object when nothing has to change.

    Args:
        current: those that there are, if they can be used.
        names: DNS names of the webhook's service, the first of which is the subject.
        now: the time, with its zone.
    """
    authorities = _renewed_authorities(current.authorities if current else (), now)
    issuer = _issuer(authorities, now)
    server = current.server if current else None
    if server is None or not _is_good(server, issuer, authorities, names, now):
        server = _issue(issuer, names, now)
    if current and (authorities, server) == (current.authorities, current.server):
        return current
    return Certificates(authorities=authorities, server=server)


def next_look(certificates: Certificates, now: datetime) -> datetime:
    """When ``maintain`` will have something to do, unless somebody changes something before."""
    settling = [authority.begins + _CLOCK_SKEW + SETTLE for authority in certificates.authorities]
    moments = [
        _renewal(certificates.server),
        _renewal(certificates.authorities[-1]),
        *(authority.ends for authority in certificates.authorities),
        *(moment for moment in settling if moment > now),
    ]
    return max(now, min(moments))


def with_trusted(bundle: str, before: str, now: datetime) -> str:
    """A bundle, and behind it what else was trusted before and has not ended: others may still show what it issued.

    Args:
        bundle: authorities, PEM.
        before: what was trusted; where it is no PEM it is not kept.
        now: the time, with its zone.
    """
    try:
        others = x509.load_pem_x509_certificates(before.encode())
    except ValueError:
        others = []
    mine = x509.load_pem_x509_certificates(bundle.encode())
    kept = [each for each in others if each not in mine and now < each.not_valid_after_utc]
    return bundle + "".join(_pem(each) for each in kept)


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """The DNS names by which the API server and others call a Service."""
    return (
        f"{service}.{namespace}.svc",
        service,
        f"{service}.{namespace}",
        f"{service}.{namespace}.svc.cluster.local",
    )


# --- renewal ---


def _renewal(pair: _Pair) -> datetime:
    """A third of its life before the end."""
    return pair.ends - (pair.ends - pair.begins) / 3


def _renewed_authorities(authorities: tuple[_Pair, ...], now: datetime) -> tuple[_Pair, ...]:
    trusted = tuple(authority for authority in authorities if now < authority.ends)
    if any(authority.key is not None and now < _renewal(authority) for authority in trusted):
        return trusted
    return (*trusted, _new_authority(now))


def _issuer(authorities: Sequence[_Pair], now: datetime) -> _Pair:
    """The newest authority that everybody knows by now; in want of one, the newest."""
    able = [authority for authority in authorities if authority.key is not None]
    settled = [authority for authority in able if authority.begins + _CLOCK_SKEW + SETTLE <= now]
    return settled[-1] if settled else able[-1]


def _is_good(server: _Pair, issuer: _Pair, authorities: Iterable[_Pair], names: Sequence[str], now: datetime) -> bool:
    """Whether a server's certificate may stay: of the issuer, or of one without a key while the issuer settles."""
    settled = issuer.begins + _CLOCK_SKEW + SETTLE <= now
    issuers = [issuer] if settled else [issuer, *authorities]
    return (
        server.begins <= now < _renewal(server)
        and set(names) <= set(_names_of(server.certificate))
        and any(_issued(server.certificate, authority) for authority in issuers)
    )


def _issued(certificate: x509.Certificate, authority: _Pair) -> bool:
    try:
        certificate.verify_directly_issued_by(authority.certificate)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _names_of(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return names.get_values_for_type(x509.DNSName)


# --- making ---


def _new_authority(now: datetime) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # The serial in the name keeps two authorities apart where a chain is built by names.
    serial = x509.random_serial_number()
    subject = _name(f"envoy-llm-extproc webhook authority {serial:x}"[:64])
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder(subject, subject, key, now, AUTHORITY_LIFE)
        .serial_number(serial)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    return _Pair(certificate=certificate, key=key)


def _issue(issuer: _Pair, names: Sequence[str], now: datetime) -> _Pair:
    assert issuer.key is not None
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    # A common name has at most 64 characters; who checks names looks at the alternatives.
    certificate = (
        _builder(_name(names[0][:64]), issuer.certificate.subject, key, now, SERVER_LIFE)
        .serial_number(x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(alternatives, critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key()),
            critical=False,
        )
        .sign(issuer.key, hashes.SHA256())
    )
    return _Pair(certificate=certificate, key=key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: _Key, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        # Other clocks may be a little behind.
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


# --- PEM ---


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: _Key) -> str:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form).decode()


def _certificates(content: Mapping[str, Secret], key: str) -> list[x509.Certificate]:
    text = _text(content, key)
    try:
        return x509.load_pem_x509_certificates(text)
    except ValueError:
        raise UnusableCertificates(f"{key} holds no certificate in PEM") from None


def _keys(content: Mapping[str, Secret], key: str) -> list[_Key]:
    pieces = _text(content, key).split(_MARK)[1:]
    try:
        keys = [serialization.load_pem_private_key(_MARK + piece, password=None) for piece in pieces]
    except (ValueError, TypeError):
        raise UnusableCertificates(f"{key} holds no private key in PEM, without a passphrase") from None
    return [key for key in keys if isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey)]


def _text(content: Mapping[str, Secret], key: str) -> bytes:
    text = content.get(key)
    if not text:
        raise UnusableCertificates(f"{key} is missing")
    return text.reveal().encode()


def _paired(certificate: x509.Certificate, keys: Iterable[_Key]) -> _Pair:
    public = certificate.public_key()
    return _Pair(certificate=certificate, key=next((key for key in keys if key.public_key() == public), None))
