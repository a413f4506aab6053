"""TLS of the listener: HTTP/2 and nothing else, certificates that may be replaced while it serves."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

_log = structlog.get_logger(__name__)

# RFC 9113, 9.2.2 forbids what has no forward secrecy or no authenticated encryption; TLS 1.3 has nothing else.
_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"


class TlsError(Exception):
    """The certificate, the key or the client CA cannot be used; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files of a server.

    Attributes:
        certificate: the chain, leaf first.
        key: the private key, not encrypted.
        client_ca: issuers of the clients' certificates; when given, a client has to show one.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def version(self) -> tuple[int, ...]:
        """Changes when one of the files does; also when the link that leads to it does, as in a Secret volume."""
        found = [path.stat() for path in (self.certificate, self.key)]
        return tuple(number for status in found for number in (status.st_ino, status.st_mtime_ns, status.st_size))


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """The TLS of a server. A new certificate is used from the next handshake on; a broken one leaves the old.

    Raises:
        TlsError: the files cannot be used.
    """
    context = _load(files)
    live = (files.version(), context)

    def on_handshake(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        nonlocal live
        try:
            version = files.version()
            if version != live[0]:
                # Remembered first: a broken certificate is reported once, not at each handshake.
                live = (version, live[1])
                live = (version, _load(files))
                _log.info("certificate replaced", certificate=str(files.certificate))
        except (TlsError, OSError) as error:
            _log.error("certificate not replaced", error=str(error))
        connection.context = live[1]

    context.sni_callback = on_handshake
    return context


def _load(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(["h2"])
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    _look_at("certificate", files.certificate, b"-----BEGIN CERTIFICATE-----")
    _look_at("key", files.key, b" PRIVATE KEY-----")
    try:
        # Asked for a passphrase, OpenSSL would read it from the terminal.
        context.load_cert_chain(files.certificate, files.key, password=lambda: b"")
    except (OSError, ValueError) as error:
        raise TlsError(f"cannot use certificate {files.certificate} with key {files.key}: {_reason(error)}") from error
    if files.client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(files.client_ca)
        except (OSError, ValueError) as error:
            raise TlsError(f"cannot use client CA {files.client_ca}: {_reason(error)}") from error
    return context


def _look_at(what: str, file: Path, mark: bytes) -> None:
    """Say which file is not what it should be; OpenSSL does not."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise TlsError(f"cannot read {what} {file}: {_reason(error)}") from error
    if mark not in content:
        raise TlsError(f"{what} {file} is no PEM file with a {what}")


def _reason(error: Exception) -> str:
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        return "the key is not that of the certificate"
    return getattr(error, "strerror", None) or str(error)
