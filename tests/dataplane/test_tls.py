"""TLS towards a backend: server name, verification, and clear text beside it in the same rule."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from deploy.envoy.model import Backend, Retry, Route, Rule, SocketAddress, UpstreamTLS
from tests.dataplane.harness.documents import backend, filter_config
from tests.dataplane.harness.replies import chat_completion, json_reply

QUESTION = {"messages": [{"role": "user", "content": "Hello?"}]}
HOST = "api.secure.test"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A self-signed certificate for ``HOST``, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName(HOST), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture(scope="module")
def asked_for():
    """The server names that clients have asked for."""
    return []


@pytest.fixture(scope="module")
def secure(start_upstream, certificate, asked_for):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.sni_callback = lambda _, name, __: asked_for.append(name)
    return start_upstream("secure", tls=context)


@pytest.fixture(scope="module")
def plain(start_upstream):
    return start_upstream("plain")


@pytest.fixture(scope="module")
def stack(start_stack, secure, plain, certificate):
    def over_tls(name, server_name):
        address = SocketAddress(host="127.0.0.1", port=secure.port)
        tls = UpstreamTLS(server_name=server_name, ca_file=str(certificate))
        return Backend(name=name, address=address, hostname=HOST, tls=tls)

    clear = Backend(name="plain", address=SocketAddress(host="127.0.0.1", port=plain.port), priority=1)
    where = Route(
        name="llm",
        rules=(
            Rule(models=("secure",), backends=(over_tls("secure", HOST), clear), retry=Retry()),
            Rule(models=("wrong",), backends=(over_tls("wrong", "another.test"),)),
        ),
    )
    return start_stack(routes=[where], config=filter_config(*(backend(name) for name, _ in where.backend_names())))


def post(stack, model):
    return httpx.post(f"{stack.base_url}/v1/chat/completions", json=QUESTION | {"model": model}, timeout=30)


def test_the_server_is_asked_for_by_name_and_verified(stack, secure, asked_for):
    secure.always(json_reply(chat_completion("m")))

    assert post(stack, "secure").status_code == 200
    assert asked_for[-1] == HOST
    assert secure.last.header("host") == HOST


def test_a_server_with_another_name_gets_nothing(stack, secure):
    secure.always(json_reply(chat_completion("m")))

    assert post(stack, "wrong").status_code == 503
    assert secure.requests == []


def test_failover_from_tls_to_clear_text(stack, secure, plain):
    secure.always(json_reply({"error": "overloaded"}, status=503))
    plain.always(json_reply(chat_completion("m")))

    assert post(stack, "secure").status_code == 200
    assert len(secure.requests) == len(plain.requests) == 1
