"""What one route is compiled from: the documents that it leads to, and no others.

A route compiled with its closure is what it is among all resources. That is what makes a change cheap among thousands
of routes, and a test compares both. NB: a resource that the compiler comes to read has to be added here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from deploy.controller import indexes
from deploy.controller.judging import Judging
from deploy.controller.kinds import Key
from deploy.controller.store import Entry, View
from filter_config.sources.envoy_ai_gateway.compile_backends import target_of
from filter_config.sources.envoy_ai_gateway.compile_gateways import CONFIG_ANNOTATION
from filter_config.sources.envoy_ai_gateway.documents import Document
from filter_config.sources.envoy_ai_gateway.fields import ParentReference, SecretReference
from filter_config.sources.envoy_ai_gateway.mcp_resources import MCPRoute
from filter_config.sources.envoy_ai_gateway.resources import (
    AIGatewayRoute,
    AIServiceBackend,
    BackendSecurityPolicy,
    BackendSecurityPolicySpec,
    RouteBackendRef,
)
from filter_config.sources.envoy_ai_gateway.secrets import generated_name

CONTROLLER: Final = "gateway.envoyproxy.io/gatewayclass-controller"
"""Name by which GatewayClasses are Envoy Gateway's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closure:
    """The documents of a route.

    Attributes:
        foreign: parents that are Gateways of somebody else, by their places in ``spec.parentRefs``.
    """

    documents: tuple[Document, ...]
    foreign: dict[int, Key]


class Reading:
    """Collects the closure of one route."""

    def __init__(self, view: View, judging: Judging, controller: str = CONTROLLER) -> None:
        self._view = view
        self._judging = judging
        self._controller = controller
        self._documents: dict[Key, Document] = {}
        self._foreign: dict[int, Key] = {}

    def of(self, key: Key) -> Closure:
        """The closure of an AIGatewayRoute or MCPRoute; empty when there is none of that name."""
        entry = self._take(*key)
        route = self._judging.resource(entry) if entry is not None else None
        match route:
            case AIGatewayRoute():
                self._parents(route.spec.parent_refs, key.namespace)
                for rule in route.spec.rules:
                    for ref in rule.backend_refs:
                        self._backend(ref, key.namespace)
            case MCPRoute():
                self._parents(route.spec.parent_refs, key.namespace)
        return Closure(documents=tuple(self._documents.values()), foreign=self._foreign)

    def _take(self, kind: str, namespace: str, name: str) -> Entry | None:
        entry = self._view.get(kind, namespace, name)
        if entry is not None:
            self._documents[entry.key] = entry.document
        return entry

    # --- gateways ---

    def _parents(self, refs: tuple[ParentReference, ...], namespace: str) -> None:
        self._take("Namespace", "", namespace)
        for place, ref in enumerate(refs):
            key = Key("Gateway", ref.namespace or namespace, ref.name)
            entry = self._view.get(*key)
            if entry is None:
                continue
            if not is_ours(self._view, entry, self._controller):
                self._foreign[place] = key
                continue
            self._documents[key] = _without_tls(entry.document)
            name = (entry.metadata.get("annotations") or {}).get(CONFIG_ANNOTATION)
            if name:
                self._take("GatewayConfig", key.namespace, name)

    # --- backends ---

    def _backend(self, ref: RouteBackendRef, namespace: str) -> None:
        target = target_of(ref, namespace)
        self._grants(namespace, target.namespace)
        entry = self._take(target.kind, target.namespace, target.name)
        resource = self._judging.resource(entry) if entry is not None else None
        if isinstance(resource, AIServiceBackend):
            to = resource.spec.backend_ref
            where = to.namespace or target.namespace
            self._grants(namespace, where)
            self._take("Backend", where, to.name)
        for policy in self._view.found(indexes.policies_for(target.namespace, target.kind, target.name)):
            self._policy(policy)
        for quota in self._view.found(indexes.quotas_for(target.namespace, target.name)):
            self._documents[quota.key] = quota.document

    def _policy(self, entry: Entry) -> None:
        self._documents[entry.key] = entry.document
        policy = self._judging.resource(entry)
        if not isinstance(policy, BackendSecurityPolicy):
            return
        here = entry.key.namespace
        self._take("Secret", here, generated_name(entry.key.name))
        for secret in secret_refs(policy.spec):
            self._grants(here, secret.namespace or here)
            self._take("Secret", secret.namespace or here, secret.name)

    def _grants(self, from_namespace: str, to_namespace: str) -> None:
        if from_namespace != to_namespace:
            for grant in self._view.found(indexes.grants_of(to_namespace)):
                self._documents[grant.key] = grant.document


def is_ours(view: View, gateway: Entry, controller: str = CONTROLLER) -> bool:
    """Whether Envoy Gateway serves a Gateway; one whose class is not there is served by nobody."""
    spec = gateway.value.get("spec") or {}
    found = view.get("GatewayClass", "", str(spec.get("gatewayClassName") or ""))
    return found is not None and (found.value.get("spec") or {}).get("controllerName") == controller


def secret_refs(spec: BackendSecurityPolicySpec) -> Iterator[SecretReference]:
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


def _without_tls(gateway: Document) -> Document:
    """A Gateway without its certificates, which are Envoy Gateway's to read and to judge."""
    value = gateway.value
    assert isinstance(value, dict)
    listeners = (value.get("spec") or {}).get("listeners")
    if not isinstance(listeners, list) or not any(isinstance(item, dict) and "tls" in item for item in listeners):
        return gateway
    kept = [
        {name: part for name, part in item.items() if name != "tls"} if isinstance(item, dict) else item
        for item in listeners
    ]
    return Document(file="", line=0, value={**value, "spec": {**value["spec"], "listeners": kept}})
