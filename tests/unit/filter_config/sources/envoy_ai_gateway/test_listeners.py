"""What listeners show to clients."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gateway_resources import (
    GATEWAY_API,
    compiled,
    faults,
    gateway,
    grant,
    listener,
    only,
    route,
    rule,
    secret,
    served,
)

PAIR = {"tls.crt": "CHAIN", "tls.key": "KEY"}


def resources(*others: Any, refs: Any = ({"name": "cert"},), **tls: Any) -> list[Any]:
    https = listener("https", port=443, protocol="HTTPS", hostname="a.example.com")
    https["tls"] = {"certificateRefs": list(refs), **tls}
    return [gateway(listeners=[listener(), https]), route("r", rule("b")), *served("b"), *others]


def test_a_certificate_comes_from_its_secret():
    plain, https = only(compiled(*resources(secret("cert", **PAIR)))).model.listeners
    (certificate,) = https.certificates
    assert (certificate.chain_pem, certificate.key.reveal()) == ("CHAIN", "KEY")
    assert plain.certificates == ()
    assert "KEY" not in repr(https)


def test_another_namespace_must_allow_it():
    refs = [{"name": "cert", "namespace": "other"}]
    granted = grant("other", source=(GATEWAY_API, "Gateway", "default"), target=("", "Secret"))
    made = only(compiled(*resources(secret("cert", "other", **PAIR), granted, refs=refs)))
    assert made.model.listeners[1].certificates


FAULTS = {
    "no such secret": ([], {}, "Secret default/cert"),
    "no key": ([secret("cert", **{"tls.crt": "CHAIN"})], {}, "has no key tls.key"),
    "no grant": (
        [secret("cert", "other", **PAIR)],
        {"refs": [{"name": "cert", "namespace": "other"}]},
        "does not allow it",
    ),
    "passed through": ([secret("cert", **PAIR)], {"mode": "Passthrough"}, "does not see requests"),
}


@pytest.mark.parametrize(("others", "fields", "told"), FAULTS.values(), ids=FAULTS)
def test_what_cannot_be_shown(others, fields, told):
    made = compiled(*resources(*others, **fields))
    (fault,) = faults(made)
    assert told in fault
    assert "Gateway default/gw: spec.listeners[1].tls" in fault
    assert made.gateways[0].model.listeners[1].certificates == ()
