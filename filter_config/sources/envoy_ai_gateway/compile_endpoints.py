"""Where backends are: Backends of Envoy Gateway with their TLS, and pools with their pickers.

The filter config needs none of it, so a backend without a known endpoint stays in the model, and only the Envoy side
cannot reach it. What is missing is reported at the resource that names it.

Whoever asks for TLS gets no connection rather than one without it: neither in clear text because a policy has a fault,
nor to whomever the system trusts because an authority is missing (Gateway API, BackendTLSPolicy).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

from filter_config.sources.envoy_ai_gateway.context import HTTP_ROUTE, Context, Target, grant_fix
from filter_config.sources.envoy_ai_gateway.fields import ENVOY_GATEWAY_GROUP
from filter_config.sources.envoy_ai_gateway.kubernetes import (
    Backend,
    BackendEndpoint,
    BackendTLS,
    BackendTLSPolicy,
    ConfigMap,
    InferencePool,
    LocalReference,
)
from filter_config.sources.envoy_ai_gateway.load import FAULTY, Found, raw_targets
from filter_config.sources.envoy_ai_gateway.resources import AIServiceBackend
from filter_config.sources.faults import Origin
from filter_config.sources.model import Address, Endpoint, Pool, UpstreamTLS

_CA_KEY: Final = "ca.crt"
_DEFAULT_PICKER_PORT: Final = 9002
_MAX_PORT: Final = 65535
_BODY_MODE: Final = "aigateway.envoyproxy.io/processing-body-mode"
_MODE_OVERRIDE: Final = "aigateway.envoyproxy.io/allow-mode-override"


class _Unsafe(Exception):
    """There is no safe way to a backend; who is to blame has been told."""


class Endpoints:
    """Resolves references to what Envoy connects to."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._built: dict[tuple[str, str], Endpoint | None] = {}
        self._policies: defaultdict[tuple[str, str], list[Found[BackendTLSPolicy]]] = defaultdict(list)
        self._faulty: dict[tuple[str, str], Origin] = {}
        for policy in context.resources.with_invalid(BackendTLSPolicy):
            for ref in policy.value.spec.target_refs:
                if (ref.group, ref.kind) != (ENVOY_GATEWAY_GROUP, "Backend"):
                    continue
                if policy.valid:
                    self._policies[policy.namespace, ref.name].append(policy)
                else:
                    self._faulty[policy.namespace, ref.name] = policy.origin
        for origin, value in context.resources.unread(BackendTLSPolicy):
            for kind, name in raw_targets(value):
                if kind == "Backend":
                    self._faulty[origin.namespace, name] = origin

    def of(self, backend: Found[AIServiceBackend], route_namespace: str) -> Endpoint | None:
        """The endpoint of a backend for routes of a namespace, or None and a fault."""
        ref = backend.value.spec.backend_ref
        target = Target(ENVOY_GATEWAY_GROUP, "Backend", ref.namespace or backend.namespace, ref.name)
        origin = backend.origin.at("spec.backendRef")
        if not self._context.grants.allow(HTTP_ROUTE, route_namespace, target):
            message = f"routes of namespace {route_namespace} cannot reach {target}, whose namespace does not allow it"
            self._context.faults.error(origin, message, grant_fix(HTTP_ROUTE, route_namespace, target))
            return None
        key = (target.namespace, target.name)
        found = self._context.resources.get(Backend, *key)
        if found is None:
            reason = self._context.resources.absence(Backend, *key)
            message = f"{target} {reason}, so that no endpoint is known"
            report = self._context.faults.warning if reason == FAULTY else self._context.faults.error
            report(origin, message, "add it, or refer to another")
            return None
        if key not in self._built:
            self._built[key] = self._build(found)
        return self._built[key]

    def _build(self, backend: Found[Backend]) -> Endpoint | None:
        addresses = []
        for index, endpoint in enumerate(backend.value.spec.endpoints):
            address = _address(endpoint)
            if address is None:
                at = backend.origin.at(f"spec.endpoints[{index}]")
                self._context.faults.error(at, "has no address", "give fqdn, ip or unix")
            else:
                addresses.append(address)
        if not addresses:
            self._context.faults.error(backend.origin.at("spec.endpoints"), "no endpoint to connect to", "add one")
            return None
        try:
            return Endpoint(addresses=tuple(addresses), tls=self._tls(backend, addresses))
        except _Unsafe:
            return None

    # --- TLS ---

    def _tls(self, backend: Found[Backend], addresses: list[Address]) -> UpstreamTLS | None:
        faulty = self._faulty.get((backend.namespace, backend.name))
        if faulty is not None:
            message = f"Backend {backend.namespace}/{backend.name} gets no requests while its TLS policy has faults"
            self._context.faults.warning(faulty, message)
            raise _Unsafe
        policies = sorted(
            self._policies.get((backend.namespace, backend.name), ()),
            key=lambda policy: (_created(policy), policy.name),
        )
        for ignored in policies[1:]:
            message = f"{policies[0].name} is older and about the same Backend {backend.name}: this one is ignored"
            self._context.faults.warning(ignored.origin, message, "keep one")
        if policies:
            policy = policies[0]
            validation = policy.value.spec.validation
            at = policy.origin.at("spec.validation.caCertificateRefs")
            return UpstreamTLS(
                server_name=validation.hostname, ca_pem=self._ca(policy.namespace, validation.ca_certificate_refs, at)
            )
        tls = backend.value.spec.tls
        return None if tls is None else self._own_tls(backend, tls, addresses)

    def _own_tls(self, backend: Found[Backend], tls: BackendTLS, addresses: list[Address]) -> UpstreamTLS:
        at = backend.origin.at("spec.tls.caCertificateRefs")
        return UpstreamTLS(
            server_name=tls.sni or next((address.host for address in addresses if _is_name(address.host)), ""),
            ca_pem=self._ca(backend.namespace, tls.ca_certificate_refs, at),
            verify=not tls.insecure_skip_verify,
        )

    def _ca(self, namespace: str, refs: Sequence[LocalReference], origin: Origin) -> str:
        certificates = []
        for ref in refs:
            found = self._context.resources.get(ConfigMap, namespace, ref.name) if ref.kind == "ConfigMap" else None
            pem = found.value.data.get(_CA_KEY, "") if found is not None else ""
            if pem:
                certificates.append(pem)
            else:
                message = f"{ref.kind} {namespace}/{ref.name} gives no certificates"
                self._context.faults.error(origin, message, f"add a ConfigMap with the key {_CA_KEY}")
        if refs and not certificates:
            raise _Unsafe
        return "\n".join(certificates)

    # --- pools ---

    def pool(self, target: Target, origin: Origin) -> Pool:
        """The pool that a rule refers to; one that is not among the resources has a picker that is not known."""
        found = self._context.resources.get(InferencePool, target.namespace, target.name)
        if found is None:
            reason = self._context.resources.absence(InferencePool, target.namespace, target.name)
            self._context.faults.warning(origin, f"{target} {reason}, so that its picker is not known", "add it")
            return Pool(namespace=target.namespace, name=target.name)
        picker = found.value.spec.endpoint_picker_ref
        port = picker.port.number if picker is not None and picker.port is not None else None
        annotations = found.meta.annotations
        return Pool(
            namespace=target.namespace,
            name=target.name,
            picker_service=picker.name if picker is not None else "",
            picker_port=port if port is not None and 0 <= port <= _MAX_PORT else _DEFAULT_PICKER_PORT,
            body_mode=annotations.get(_BODY_MODE, "duplex"),
            allow_mode_override=annotations.get(_MODE_OVERRIDE) == "true",
        )


def _created(policy: Found[BackendTLSPolicy]) -> str:
    created = policy.meta.creation_timestamp
    return created.isoformat() if created is not None else ""


def _address(endpoint: BackendEndpoint) -> Address | None:
    hostname = endpoint.hostname or ""
    if endpoint.fqdn is not None:
        return Address(host=endpoint.fqdn.hostname, port=endpoint.fqdn.port, hostname=hostname)
    if endpoint.ip is not None:
        return Address(host=endpoint.ip.address, port=endpoint.ip.port, hostname=hostname)
    if endpoint.unix is not None:
        return Address(pipe=endpoint.unix.path, hostname=hostname)
    return None


def _is_name(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return bool(host)
    return False
