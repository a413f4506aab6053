"""What Envoy would refuse of certificates: one that cannot be read refuses all that it comes with.

OpenSSL judges here as BoringSSL does there.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from tempfile import TemporaryDirectory


def authorities_problem(pem: str) -> str:
    """Why certificates to trust cannot be used; empty: they can."""
    with TemporaryDirectory() as directory:
        # From a file, which may have comments in any language.
        path = Path(directory) / "ca.pem"
        path.write_text(pem, encoding="utf-8")
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
        except ssl.SSLError:
            return "the certificates to trust cannot be read"
    return ""


def certificate_problem(chain_pem: str, key_pem: str) -> str:
    """Why a certificate cannot be shown to clients; empty: it can. What is wrong is told without the key."""
    # The library reads files only; these are their owner's, and gone at once.
    with TemporaryDirectory() as directory:
        chain, key = Path(directory) / "chain.pem", Path(directory) / "key.pem"
        key.touch(mode=0o600)
        chain.write_text(chain_pem, encoding="utf-8")
        key.write_text(key_pem, encoding="utf-8")
        try:
            # An empty password fails where one is needed; without one OpenSSL would ask for it.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain, key, password="")
        except ssl.SSLError:
            return "the certificate and its key cannot be read, or do not go together"
    return ""
