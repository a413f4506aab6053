"""Certificates that renew themselves, at any time of their lives, judged by OpenSSL."""

from __future__ import annotations

import datetime as dt
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.x509 import verification

from deploy.injector import certificates
from deploy.injector.certificates import (
    AUTHORITY_LIFE,
    SERVER_LIFE,
    SETTLE,
    UnusableCertificates,
    from_secret,
    maintain,
    next_look,
    service_names,
)
from filter_config.redact import Secret

NAMES = service_names("ai-gateway-controller", "system")
NOW = datetime(2024, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture(scope="module")
def fresh():
    return maintain(None, NAMES, NOW)


def trusts(bundle, shown, now, name=NAMES[0]):
    """Whether who has a bundle trusts a server's certificate at a time, by the rules of RFC 5280."""
    store = verification.Store(x509.load_pem_x509_certificates(bundle.encode()))
    verifier = verification.PolicyBuilder().store(store).time(now).build_server_verifier(x509.DNSName(name))
    try:
        verifier.verify(shown.server.certificate, [])
    except verification.VerificationError:
        return False
    return True


@pytest.mark.parametrize("name", NAMES)
def test_the_api_server_trusts_it_by_each_name(fresh, name):
    assert trusts(fresh.bundle, fresh, NOW, name)
    assert not trusts(fresh.bundle, fresh, NOW, "other.svc")


def test_names_of_a_service():
    assert set(service_names("svc", "ns")) == {"svc", "svc.ns", "svc.ns.svc", "svc.ns.svc.cluster.local"}


def test_it_lives_as_long_as_the_contract_says(fresh):
    (authority,) = fresh.authorities

    assert fresh.ends == NOW + SERVER_LIFE == NOW + timedelta(days=365)
    assert authority.ends == NOW + AUTHORITY_LIFE == NOW + timedelta(days=3650)
    assert fresh.server.begins < NOW


def test_nothing_changes_while_all_is_well(fresh):
    for later in (timedelta(), MINUTE, 2 * SETTLE, timedelta(days=200)):
        assert maintain(fresh, NAMES, NOW + later) is fresh


def test_the_server_is_renewed_well_before_the_end(fresh):
    renewed = maintain(fresh, NAMES, NOW + timedelta(days=250))

    assert renewed.server != fresh.server
    assert renewed.server.key != fresh.server.key
    assert renewed.authorities == fresh.authorities
    assert trusts(fresh.bundle, renewed, NOW + timedelta(days=250))


def test_other_names_need_another_certificate(fresh):
    renewed = maintain(fresh, (*NAMES, "more.svc"), NOW)

    assert trusts(fresh.bundle, renewed, NOW, "more.svc")
    assert maintain(renewed, NAMES, NOW) is renewed


def test_over_thirty_years_no_api_server_meets_a_certificate_that_it_does_not_trust(fresh):
    """The bundle reaches API servers some time after it is written, or the certificate reaches the webhook later."""
    now, current, before = NOW, fresh, fresh
    written = 0
    while now < NOW + timedelta(days=365 * 30):
        looked_at = next_look(current, now)
        assert looked_at > now, "it would never come to rest"
        now = looked_at
        renewed = maintain(current, NAMES, now)
        if renewed is not current:
            before, current, written = current, renewed, written + 1
        assert trusts(before.bundle, current, now)
        assert trusts(current.bundle, before, now)
        assert trusts(current.bundle, current, now)
        assert current.ends - now > timedelta(days=60)
        assert len(current.authorities) <= 2
        # As it is kept between two looks.
        assert from_secret(current.to_secret()).to_secret() == current.to_secret()
    # A server certificate every eight months, and four authorities.
    assert 45 < written < 70


def test_a_look_that_comes_late_still_heals(fresh):
    for late in (timedelta(days=364), timedelta(days=400), timedelta(days=3649), timedelta(days=3700)):
        healed = maintain(fresh, NAMES, NOW + late)

        assert trusts(healed.bundle, healed, NOW + late)
        assert healed.ends == NOW + late + SERVER_LIFE


def test_a_new_authority_is_trusted_before_it_issues(fresh):
    late = NOW + timedelta(days=2600)
    with_successor = maintain(fresh, NAMES, late)
    assert len(with_successor.authorities) == 2
    assert trusts(fresh.bundle, with_successor, late)

    settled = late + SETTLE + MINUTE
    switched = maintain(with_successor, NAMES, settled)
    assert not trusts(fresh.bundle, switched, settled)
    assert trusts(with_successor.bundle, switched, settled)

    # The old one goes when it ends.
    assert len(maintain(switched, NAMES, NOW + timedelta(days=3651)).authorities) == 1


def test_when_there_is_something_to_do(fresh):
    in_the_last_third = NOW + timedelta(days=2600)
    with_successor = maintain(maintain(fresh, NAMES, in_the_last_third - MINUTE), NAMES, in_the_last_third)
    switched = maintain(with_successor, NAMES, in_the_last_third + 2 * SETTLE)

    # A third of a year before the end.
    assert timedelta(days=120) < fresh.ends - next_look(fresh, NOW + 2 * SETTLE) < timedelta(days=123)
    assert next_look(fresh, NOW + timedelta(days=300)) == NOW + timedelta(days=300)
    # A successor has settled.
    settled = next_look(with_successor, in_the_last_third + MINUTE)
    assert maintain(with_successor, NAMES, settled - MINUTE).server == with_successor.server
    assert maintain(with_successor, NAMES, settled).server != with_successor.server
    # An authority ends, while the server's certificate is new.
    end = switched.authorities[0].ends
    renewed = maintain(switched, NAMES, end - timedelta(days=1))
    assert next_look(renewed, end - timedelta(days=1)) == end
    assert len(maintain(renewed, NAMES, end).authorities) == 1


# --- the Secret ---


def test_the_secret_has_the_keys_of_the_peers(fresh):
    content = fresh.to_secret()

    assert content.keys() == {"tls.crt", "tls.key", "ca.crt", "ca.key"}
    assert from_secret(content) == fresh
    assert from_secret(content).to_secret() == content
    assert "PRIVATE" not in repr(content)


def test_the_order_in_the_secret_does_not_matter(fresh):
    both = maintain(fresh, NAMES, NOW + timedelta(days=2600))
    content = both.to_secret()
    for key in ("ca.crt", "ca.key"):
        first, second = content[key].reveal().split("-----BEGIN")[1:]
        content[key] = Secret(f"-----BEGIN{second}-----BEGIN{first}")

    assert from_secret(content) == both


def pem(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def pem_key(key):
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    return key.private_bytes(*form).decode()


@pytest.fixture(scope="module")
def of_the_peer():
    """As the peer's chart makes them: RSA, and the authority's key is thrown away."""
    keys = [rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2)]
    authority = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "peer")])
    found = []
    for key, name, is_ca in ((keys[0], authority, True), (keys[1], x509.Name([]), False)):
        found.append(
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(authority)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - MINUTE)
            .not_valid_after(NOW + timedelta(days=365))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(each) for each in NAMES]), critical=False)
            .sign(keys[0], hashes.SHA256())
        )
    texts = {"tls.crt": pem(found[1]), "tls.key": pem_key(keys[1]), "ca.crt": pem(found[0])}
    return {key: Secret(text) for key, text in texts.items()}


def test_the_peers_secret_is_taken_over_without_a_gap(of_the_peer):
    theirs = from_secret(of_the_peer)
    taken_over = maintain(theirs, NAMES, NOW)

    # At first only trust is added, later the certificate is ours.
    assert taken_over.server == theirs.server
    assert [authority.key is None for authority in taken_over.authorities] == [True, False]
    settled = NOW + SETTLE + timedelta(minutes=10)
    ours = maintain(from_secret(taken_over.to_secret()), NAMES, settled)
    assert ours.server != theirs.server
    assert trusts(taken_over.bundle, ours, settled)


UNUSABLE = {
    "nothing": ({"tls.crt": None}, "tls.crt is missing"),
    "empty": ({"ca.crt": ""}, "ca.crt is missing"),
    "no key": ({"tls.key": None}, "tls.key is missing"),
    "a certificate that is none": (
        {"tls.crt": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
        "tls.crt holds no",
    ),
    "a text": ({"ca.crt": "canary"}, "ca.crt holds no certificate in PEM"),
    "a key that is none": (
        {"tls.key": "-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n"},
        "tls.key holds no private",
    ),
    "no key in it": ({"tls.key": "canary"}, "tls.key is not the key of tls.crt"),
    "authority keys that are none": ({"ca.key": "-----BEGIN canary"}, "ca.key holds no private key"),
}


@pytest.mark.parametrize(("change", "message"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_a_secret_that_cannot_be_used(fresh, change, message):
    content = dict(fresh.to_secret())
    for key, text in change.items():
        content |= {key: Secret(text or "")}

    with pytest.raises(UnusableCertificates, match=f"^{message}") as caught:
        from_secret(content)
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_key_of_another_certificate(fresh):
    other = maintain(None, NAMES, NOW)
    content = {**fresh.to_secret(), "tls.key": other.to_secret()["tls.key"]}

    with pytest.raises(UnusableCertificates, match="is not the key of"):
        from_secret(content)


def test_a_kind_of_key_that_cannot_be_used_here(fresh):
    key = ed25519.Ed25519PrivateKey.generate()
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    content = {**fresh.to_secret(), "tls.key": Secret(key.private_bytes(*form).decode())}

    with pytest.raises(UnusableCertificates, match="is not the key of"):
        from_secret(content)


def test_a_certificate_without_names_is_replaced(fresh):
    issuer = fresh.authorities[0]
    nameless = certificates._Pair(
        certificate=x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(issuer.certificate.subject)
        .public_key(fresh.server.key.public_key())
        .serial_number(1)
        .not_valid_before(NOW - dt.timedelta(days=1))
        .not_valid_after(NOW + SERVER_LIFE)
        .sign(issuer.key, hashes.SHA256()),
        key=fresh.server.key,
    )

    healed = maintain(certificates.Certificates(authorities=fresh.authorities, server=nameless), NAMES, NOW)

    assert trusts(fresh.bundle, healed, NOW)


def test_a_handshake_by_the_strictest_rules(tmp_path):
    """Of Python 3.13, which demands key identifiers and the usage of keys."""
    current = maintain(None, ["localhost"], datetime.now(UTC))
    content = current.to_secret()
    files = [tmp_path / "tls.crt", tmp_path / "tls.key"]
    for file in files:
        file.write_text(content[file.name].reveal())
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*files)
    client = ssl.create_default_context(cadata=current.bundle)
    client.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue

    assert ends[0].getpeercert()["subjectAltName"] == (("DNS", "localhost"),)
