"""What one route is compiled from: the documents that it leads to, and no others.

A route compiled with its closure is what it is among all documents. That is what makes a change cheap among thousands
of routes, and tests compare both. NB: a resource that the compiler comes to read has to be added here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeAlias

import msgspec

from filter_config.sources.envoy_ai_gateway import marks
from filter_config.sources.envoy_ai_gateway.compile_backends import target_of
from filter_config.sources.envoy_ai_gateway.compile_gateways import CONFIG_ANNOTATION
from filter_config.sources.envoy_ai_gateway.documents import Document
from filter_config.sources.envoy_ai_gateway.fields import SecretReference
from filter_config.sources.envoy_ai_gateway.kubernetes import Backend, BackendTLSPolicy, Gateway, LocalReference
from filter_config.sources.envoy_ai_gateway.marks import Key
from filter_config.sources.envoy_ai_gateway.mcp_resources import MCPRoute
from filter_config.sources.envoy_ai_gateway.resources import (
    AIGatewayRoute,
    AIServiceBackend,
    BackendSecurityPolicy,
    BackendSecurityPolicySpec,
    RouteBackendRef,
)
from filter_config.sources.envoy_ai_gateway.secrets import generated_name
from filter_config.sources.graph import Mark

Documents: TypeAlias = Sequence[Document]
"""The documents of a key; more than one contradict each other."""


class Finder(Protocol):
    """Where documents are found. What is asked for and not there is part of the answer: its coming changes it."""

    def documents(self, key: Key) -> Documents:
        """The documents of a key; empty: it is not there."""

    def found(self, mark: Mark) -> Iterable[Key]:
        """The keys of the documents with a mark."""

    def resource(self, document: Document) -> msgspec.Struct | None:
        """A document as far as it can be read, valid or not; None: not at all."""


def closure_of(route: Key, finder: Finder) -> dict[Key, Documents]:
    """The documents of a route; empty when there is none of that key."""
    walk = _Walk(finder)
    walk.begin(route)
    return walk.documents


def gateways_of(route: AIGatewayRoute | MCPRoute, namespace: str) -> list[Key]:
    """The Gateways that a route of a namespace names, by their places in ``spec.parentRefs``."""
    return [Key("Gateway", ref.namespace or namespace, ref.name) for ref in route.spec.parent_refs]


class _Walk:
    """Collects documents."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self.documents: dict[Key, Documents] = {}

    def begin(self, key: Key) -> None:
        """Follows everything that a route refers to."""
        for route in self._take(*key):
            match route:
                case AIGatewayRoute():
                    self._parents(gateways_of(route, key.namespace), key.namespace)
                    self._all(marks.traffic_for(key.namespace, "HTTPRoute", key.name))
                    for rule in route.spec.rules:
                        for ref in rule.backend_refs:
                            self._backend(ref, key.namespace)
                case MCPRoute():
                    self._parents(gateways_of(route, key.namespace), key.namespace)

    def _take(self, kind: str, namespace: str, name: str) -> list[msgspec.Struct]:
        """Takes the documents of a key; gives the resources."""
        key = Key(kind, namespace, name)
        found = self._finder.documents(key)
        if found:
            self.documents[key] = found
        resources = [self._finder.resource(document) for document in found]
        return [resource for resource in resources if resource is not None]

    def _all(self, mark: Mark) -> list[tuple[Key, msgspec.Struct]]:
        return [(key, resource) for key in self._finder.found(mark) for resource in self._take(*key)]

    def _grants(self, from_namespace: str, to_namespace: str) -> None:
        if from_namespace != to_namespace:
            self._all(marks.grants_of(to_namespace))

    # --- gateways ---

    def _parents(self, gateways: Iterable[Key], namespace: str) -> None:
        self._take("Namespace", "", namespace)
        for key in gateways:
            self._all(marks.traffic_for(key.namespace, key.kind, key.name))
            for gateway in self._take(*key):
                if isinstance(gateway, Gateway):
                    self._gateway(gateway, key.namespace)

    def _gateway(self, gateway: Gateway, namespace: str) -> None:
        config = gateway.metadata.annotations.get(CONFIG_ANNOTATION)
        if config:
            self._take("GatewayConfig", namespace, config)
        for listener in gateway.spec.listeners:
            for ref in listener.tls.certificate_refs if listener.tls is not None else ():
                self._secret(ref.namespace or namespace, ref.name, namespace)

    # --- backends ---

    def _backend(self, ref: RouteBackendRef, namespace: str) -> None:
        target = target_of(ref, namespace)
        self._grants(namespace, target.namespace)
        for service in self._take(target.kind, target.namespace, target.name):
            if isinstance(service, AIServiceBackend):
                to = service.spec.backend_ref
                self._endpoint(to.namespace or target.namespace, to.name, namespace)
        for key, policy in self._all(marks.policies_for(target.namespace, target.kind, target.name)):
            if isinstance(policy, BackendSecurityPolicy):
                self._policy(key, policy)
        self._all(marks.quotas_for(target.namespace, target.name))

    def _endpoint(self, namespace: str, name: str, route_namespace: str) -> None:
        self._grants(route_namespace, namespace)
        for backend in self._take("Backend", namespace, name):
            if isinstance(backend, Backend) and backend.spec.tls is not None:
                self._authorities(backend.spec.tls.ca_certificate_refs, namespace)
        for key, policy in self._all(marks.tls_for(namespace, name)):
            if isinstance(policy, BackendTLSPolicy):
                self._authorities(policy.spec.validation.ca_certificate_refs, key.namespace)

    def _authorities(self, refs: Iterable[LocalReference], namespace: str) -> None:
        for ref in refs:
            self._take("ConfigMap", namespace, ref.name)

    def _policy(self, key: Key, policy: BackendSecurityPolicy) -> None:
        self._take("Secret", key.namespace, generated_name(key.name))
        for ref in _secret_refs(policy.spec):
            self._secret(ref.namespace or key.namespace, ref.name, key.namespace)

    def _secret(self, namespace: str, name: str, from_namespace: str) -> None:
        self._grants(from_namespace, namespace)
        self._take("Secret", namespace, name)


def _secret_refs(spec: BackendSecurityPolicySpec) -> Iterator[SecretReference]:
    """The Secrets that the compiler reads for a policy."""
    for credential in (spec.api_key, spec.azure_api_key, spec.anthropic_api_key):
        if credential is not None:
            yield credential.secret_ref
    if spec.aws_credentials is not None and spec.aws_credentials.credentials_file is not None:
        yield spec.aws_credentials.credentials_file.secret_ref
    if spec.azure_credentials is not None and spec.azure_credentials.client_secret_ref is not None:
        yield spec.azure_credentials.client_secret_ref
    if spec.gcp_credentials is not None and spec.gcp_credentials.credentials_file is not None:
        yield spec.gcp_credentials.credentials_file.secret_ref
