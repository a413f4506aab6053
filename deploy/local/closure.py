"""What one route is compiled from: the documents that it leads to, and no others.

A route compiled with its closure is what it is among all documents. That is what makes an edit cheap among thousands of
routes, and a test compares both. NB: a resource that the compiler comes to read has to be added here.

``deploy.controller.closure`` is the same for a cluster, where certificates, TLS and retries are Envoy Gateway's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import is_
from typing import TypeAlias

import msgspec

from deploy.local import marks
from deploy.local.marks import Key, Mark
from deploy.local.reading import Judging
from filter_config.sources.envoy_ai_gateway.compile_backends import target_of
from filter_config.sources.envoy_ai_gateway.compile_gateways import CONFIG_ANNOTATION
from filter_config.sources.envoy_ai_gateway.documents import Document
from filter_config.sources.envoy_ai_gateway.fields import ParentReference, SecretReference
from filter_config.sources.envoy_ai_gateway.kubernetes import Backend, BackendTLSPolicy, Gateway, LocalReference
from filter_config.sources.envoy_ai_gateway.mcp_resources import MCPRoute
from filter_config.sources.envoy_ai_gateway.resources import (
    AIGatewayRoute,
    AIServiceBackend,
    BackendSecurityPolicy,
    BackendSecurityPolicySpec,
    RouteBackendRef,
)
from filter_config.sources.envoy_ai_gateway.secrets import generated_name

Documents: TypeAlias = Sequence[Document]


class Library:
    """Documents as they are now, by their keys and marks. Several of one key contradict each other."""

    def __init__(self, judging: Judging) -> None:
        self.judging = judging
        self._documents: dict[Key, Documents] = {}
        self._marks: dict[Key, frozenset[Mark]] = {}
        self._marked: dict[Mark, dict[Key, None]] = {}

    def become(self, documents: dict[Key, Documents]) -> set[Mark]:
        """Takes all documents in the place of those before; gives what has changed."""
        before, self._documents = self._documents, documents
        changed = [key for key, there in documents.items() if _differ(before.get(key, ()), there)]
        gone = before.keys() - documents.keys()
        return {mark for key in (*changed, *gone) for mark in self._mark(key, documents.get(key, ()))}

    def documents(self, key: Key) -> Documents:
        """The documents of a key."""
        return self._documents.get(key, ())

    def found(self, mark: Mark) -> tuple[Key, ...]:
        """The keys with a mark."""
        return tuple(self._marked.get(mark, ()))

    def _mark(self, key: Key, documents: Documents) -> set[Mark]:
        """Finds a key by the marks of its documents from now on; gives what has changed."""
        old = self._marks.pop(key, frozenset())
        new = frozenset(mark for document in documents for mark in self.judging.facts(document).marks)
        if new:
            self._marks[key] = new
        for mark in old - new:
            found = self._marked[mark]
            del found[key]
            if not found:
                del self._marked[mark]
        for mark in new - old:
            self._marked.setdefault(mark, {})[key] = None
        return {key, *old, *new}


def _differ(before: Documents, after: Documents) -> bool:
    """Whether the values are others."""
    if len(before) != len(after):
        return True
    # Documents that have not moved are the very same.
    return not all(map(is_, before, after)) and not all(
        _is_same(one.value, other.value) for one, other in zip(before, after, strict=True)
    )


def _is_same(one: object, other: object) -> bool:
    """Whether values are equal and of the same types, which ``1`` and ``true`` are not."""
    return one is other or repr(one) == repr(other)


class Closure:
    """Collects the documents of one route.

    Attributes:
        documents: what was found.
        reads: what was asked for, found or not.
    """

    def __init__(self, library: Library, key: Key) -> None:
        self._library = library
        self.documents: dict[Key, Documents] = {}
        self.reads: set[Mark] = set()
        for route in self._take(*key):
            match route:
                case AIGatewayRoute(spec=spec):
                    self._parents(spec.parent_refs, key.namespace)
                    self._all(marks.traffic_for(key.namespace, "HTTPRoute", key.name))
                    for rule in spec.rules:
                        for ref in rule.backend_refs:
                            self._backend(ref, key.namespace)
                case MCPRoute(spec=spec):
                    self._parents(spec.parent_refs, key.namespace)

    def _take(self, kind: str, namespace: str, name: str) -> list[msgspec.Struct]:
        """Takes the documents of a key; gives the resources as far as they can be read, valid or not."""
        key = Key(kind, namespace, name)
        self.reads.add(key)
        found = self._library.documents(key)
        if found:
            self.documents[key] = found
        judged = [self._library.judging.facts(document).judged for document in found]
        return [each.value for each in judged if each is not None and each.value is not None]

    def _all(self, mark: Mark) -> list[tuple[Key, msgspec.Struct]]:
        self.reads.add(mark)
        return [(key, resource) for key in self._library.found(mark) for resource in self._take(*key)]

    def _grants(self, from_namespace: str, to_namespace: str) -> None:
        if from_namespace != to_namespace:
            self._all(marks.grants_of(to_namespace))

    # --- gateways ---

    def _parents(self, refs: tuple[ParentReference, ...], namespace: str) -> None:
        self._take("Namespace", "", namespace)
        for ref in refs:
            where = ref.namespace or namespace
            self._all(marks.traffic_for(where, "Gateway", ref.name))
            for gateway in self._take("Gateway", where, ref.name):
                if isinstance(gateway, Gateway):
                    self._gateway(gateway, where)

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
