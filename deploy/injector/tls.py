"""TLS of the webhook: certificates that are replaced while it serves."""

from __future__ import annotations

import os
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

import structlog

from filter_config.redact import Secret

_log = structlog.get_logger(__name__)


class TlsError(Exception):
    """The certificate or the key cannot be used; the text says why, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files of the server: its certificate chain, leaf first, and the private key, not encrypted."""

    certificate: Path
    key: Path

    def version(self) -> tuple[object, ...]:
        """Changes when one of the files does; also when the link that leads to it does, as in a Secret volume."""
        return tuple(_version(path) for path in (self.certificate, self.key))


def write(files: TlsFiles, certificate: str, key: Secret) -> None:
    """Put a certificate and its key, both PEM, where a server finds them. The key is for the owner only.

    Raises:
        OSError: they cannot be written; what was there is still there.
    """
    for path, text in ((files.key, key.reveal()), (files.certificate, certificate)):
        # Renamed into place, so that nobody reads half a file. A new temporary file has mode 0600.
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(text)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """The TLS of a server. A new certificate is used from the next handshake on; a broken one leaves the old.

    Open connections are not touched: who trusted the old certificate at the handshake still does.

    Raises:
        TlsError: the files cannot be used.
    """
    version = files.version()
    context = _load(files)
    live = (version, context)

    def on_handshake(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        nonlocal live
        version = files.version()
        if version != live[0]:
            # Remembered first: a broken certificate is reported once, not at each handshake. The two files are
            # replaced one after the other; when the second one is, the version changes again.
            live = (version, live[1])
            try:
                live = (version, _load(files))
                _log.info("certificate of the webhook replaced", certificate=str(files.certificate))
            except TlsError as error:
                _log.error("certificate of the webhook not replaced", error=str(error))
        connection.context = live[1]

    context.sni_callback = on_handshake
    return context


def _version(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        # Who loads it says what is wrong.
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_size


def _load(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    try:
        # Asked for a passphrase, OpenSSL would read it from the terminal.
        context.load_cert_chain(files.certificate, files.key, password=lambda: b"")
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise TlsError(f"cannot use certificate {files.certificate} with key {files.key}: {reason}") from error
    return context
