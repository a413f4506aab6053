"""How endpoints are connected to: TLS, an HTTP proxy on the way, or both; without either it is TCP.

Envoy keeps transports beside the endpoints of a cluster, and a label joins the two.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from envoy_data_plane.envoy.config.core.v3 import DataSource, TransportSocket
from envoy_data_plane.envoy.extensions.transport_sockets.http_11_proxy.v3 import Http11ProxyUpstreamTransport
from envoy_data_plane.envoy.extensions.transport_sockets.raw_buffer.v3 import RawBuffer
from envoy_data_plane.envoy.extensions.transport_sockets.tls.v3 import (
    CertificateValidationContext,
    CommonTlsContext,
    DownstreamTlsContext,
    SubjectAltNameMatcher,
    SubjectAltNameMatcherSanType,
    TlsCertificate,
    UpstreamTlsContext,
)
from envoy_data_plane.envoy.type.matcher.v3 import StringMatcher

from deploy.envoy.model import SocketAddress, is_ip
from deploy.envoy.wire import address, pack

if TYPE_CHECKING:
    from deploy.envoy.model import Backend, Endpoint, ServerTLS, UpstreamTLS

_TLS: Final = "envoy.transport_sockets.tls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """The way to an endpoint."""

    tls: UpstreamTLS | None
    proxy: SocketAddress | None

    @classmethod
    def of(cls, backend: Backend, endpoint: Endpoint) -> Self:
        """That of an endpoint of a backend. A socket of this machine is not behind a proxy."""
        proxy = backend.proxy if isinstance(endpoint.address, SocketAddress) else None
        return cls(tls=endpoint.tls, proxy=proxy)

    @property
    def label(self) -> dict[str, str]:
        """What joins an endpoint to its transport; one without a label is reached in clear text."""
        label = {}
        if self.tls is not None:
            label["tls"] = f"{self.tls.server_name} {_trust(self.tls)}"
        if self.proxy is not None:
            label["proxy"] = f"{self.proxy.host}:{self.proxy.port}"
        return label

    def socket(self) -> TransportSocket:
        """Envoy's configuration of it."""
        inner = _clear_text() if self.tls is None else _tls(self.tls)
        if self.proxy is None:
            return inner
        wrapped = Http11ProxyUpstreamTransport(transport_socket=inner, default_proxy_address=address(self.proxy))
        return TransportSocket(name="envoy.transport_sockets.http_11_proxy", typed_config=pack(wrapped))


def server_socket(tls: ServerTLS) -> TransportSocket:
    """TLS towards clients."""
    certificates = [
        TlsCertificate(
            certificate_chain=DataSource(inline_string=certificate.chain_pem),
            private_key=DataSource(inline_string=certificate.key_pem),
        )
        for certificate in tls.certificates
    ]
    context = DownstreamTlsContext(
        common_tls_context=CommonTlsContext(tls_certificates=certificates, alpn_protocols=["h2", "http/1.1"])
    )
    return TransportSocket(name=_TLS, typed_config=pack(context))


def _clear_text() -> TransportSocket:
    return TransportSocket(name="envoy.transport_sockets.raw_buffer", typed_config=pack(RawBuffer()))


def _tls(tls: UpstreamTLS) -> TransportSocket:
    context = UpstreamTlsContext(
        sni="" if is_ip(tls.server_name) else tls.server_name,
        common_tls_context=CommonTlsContext(validation_context=_validation(tls) if tls.verify else None),
    )
    return TransportSocket(name=_TLS, typed_config=pack(context))


def _trust(tls: UpstreamTLS) -> str:
    if not tls.verify:
        return "unverified"
    return hashlib.sha256(tls.ca_pem.encode()).hexdigest()[:12] if tls.ca_pem else tls.ca_file


def _validation(tls: UpstreamTLS) -> CertificateValidationContext:
    ca = DataSource(inline_string=tls.ca_pem) if tls.ca_pem else DataSource(filename=tls.ca_file)
    return CertificateValidationContext(
        trusted_ca=ca, match_typed_subject_alt_names=[_san(tls.server_name)] if tls.server_name else []
    )


def _san(name: str) -> SubjectAltNameMatcher:
    kind = SubjectAltNameMatcherSanType.IP_ADDRESS if is_ip(name) else SubjectAltNameMatcherSanType.DNS
    return SubjectAltNameMatcher(san_type=kind, matcher=StringMatcher(exact=name))
