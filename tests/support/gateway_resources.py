"""Resources of an AI gateway in a line each, and what the compiler makes of a set of them."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from filter_config.load import decode
from filter_config.sources.envoy_ai_gateway import Compiled, CompiledGateway, compile_texts
from filter_config.sources.envoy_ai_gateway.documents import Document, Text
from filter_config.sources.envoy_ai_gateway.load import load
from filter_config.sources.faults import Faults

AI = "aigateway.envoyproxy.io"
GATEWAY_API = "gateway.networking.k8s.io"
ENVOY_GATEWAY = "gateway.envoyproxy.io"
INFERENCE = "inference.networking.k8s.io"

Resource = dict[str, Any]


def resource(api_version: str, kind: str, name: str, namespace: str = "default", **fields: Any) -> Resource:
    """A resource; ``metadata`` among the fields is merged with name and namespace."""
    metadata = {"name": name, "namespace": namespace, **fields.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def gateway(
    name: str = "gw", namespace: str = "default", *, listeners: list[Any] | None = None, **meta: Any
) -> Resource:
    spec = {"listeners": listeners if listeners is not None else [listener()]}
    return resource(f"{GATEWAY_API}/v1", "Gateway", name, namespace, spec=spec, metadata=meta)


def listener(name: str = "http", **fields: Any) -> Resource:
    return {"name": name, "protocol": "HTTP", "port": 80, **fields}


def ref(name: str, **fields: Any) -> Resource:
    return {"name": name, **fields}


def rule(*refs: Resource | str, model: str | None = "m", **fields: Any) -> Resource:
    """A rule for a model with references to backends by name."""
    matches = {"matches": [{"headers": [{"name": "x-ai-eg-model", "value": model}]}]} if model else {}
    backends = [{"name": entry} if isinstance(entry, str) else entry for entry in refs]
    return {**matches, "backendRefs": backends, **fields}


def route(
    name: str = "r", *rules: Resource, namespace: str = "default", meta: Resource | None = None, **spec: Any
) -> Resource:
    spec = {"parentRefs": [{"name": "gw"}], "rules": list(rules), **spec}
    return resource(f"{AI}/v1beta1", "AIGatewayRoute", name, namespace, spec=spec, metadata=meta or {})


def service(name: str = "b", namespace: str = "default", *, schema: Any = "OpenAI", **spec: Any) -> Resource:
    """An AIServiceBackend that refers to the Backend of the same name."""
    backend = {"name": name, "kind": "Backend", "group": ENVOY_GATEWAY}
    spec = {"schema": {"name": schema} if isinstance(schema, str) else schema, "backendRef": backend, **spec}
    return resource(f"{AI}/v1beta1", "AIServiceBackend", name, namespace, spec=spec)


def endpoint(name: str = "b", namespace: str = "default", **spec: Any) -> Resource:
    spec = {"endpoints": [{"fqdn": {"hostname": f"{name}.example.com", "port": 443}}], **spec}
    return resource(f"{ENVOY_GATEWAY}/v1alpha1", "Backend", name, namespace, spec=spec)


def served(*names: str, namespace: str = "default") -> list[Resource]:
    """AIServiceBackends with their Backends."""
    return [made for name in names for made in (service(name, namespace), endpoint(name, namespace))]


def policy(name: str, kind: str, *targets: str, namespace: str = "default", **spec: Any) -> Resource:
    refs = [{"group": AI, "kind": "AIServiceBackend", "name": target} for target in targets]
    spec = {"type": kind, "targetRefs": refs, **spec}
    return resource(f"{AI}/v1beta1", "BackendSecurityPolicy", name, namespace, spec=spec)


def api_key(name: str, *targets: str, namespace: str = "default", **spec: Any) -> Resource:
    """A policy with the API key of the Secret of the same name."""
    return policy(name, "APIKey", *targets, namespace=namespace, **{"apiKey": {"secretRef": {"name": name}}, **spec})


def secret(name: str, namespace: str = "default", **values: str) -> Resource:
    return resource("v1", "Secret", name, namespace, stringData=values)


def grant(namespace: str, *, source: tuple[str, str, str], target: tuple[str, ...]) -> Resource:
    """``source``: group, kind, namespace; ``target``: group, kind, and perhaps a name."""
    spec = {
        "from": [dict(zip(("group", "kind", "namespace"), source, strict=True))],
        "to": [dict(zip(("group", "kind", "name"), target, strict=False))],
    }
    name = "-".join((source[1], *target)).lower()
    return resource(f"{GATEWAY_API}/v1beta1", "ReferenceGrant", name, namespace, spec=spec)


def text(*resources: Resource) -> Text:
    items = {"apiVersion": "v1", "kind": "List", "items": list(resources)}
    return Text(name="r.json", data=msgspec.json.encode(items))


def compiled(*resources: Resource) -> Compiled:
    """What becomes of resources. Whatever is wrong with them, the processor must be able to use the configs."""
    result = compile_texts([text(*resources)])
    for made in result.gateways:
        problems = [problem for problem in decode(made.payload).problems if problem.severity != "warning"]
        assert problems == []
    return result


def only(result: Compiled) -> CompiledGateway:
    """The one gateway, which has no faults."""
    assert faults(result) == []
    (made,) = result.gateways
    return made


def faults(result: Compiled) -> list[str]:
    """The faults without file and remedy."""
    return [
        f"{fault.severity} {fault.origin.resource}: {fault.origin.path}: {fault.message}" for fault in result.faults
    ]


def document(made: CompiledGateway) -> dict[str, Any]:
    """The filter config as builtins, without what is the same in every one."""
    value: dict[str, Any] = yaml.safe_load(made.payload)
    del value["version"], value["uuid"]
    return value


# --- what the CRDs say ---


def found(value: Any) -> list[str]:
    """The findings of one resource: severity when it is a warning, path, message."""
    faults = Faults()
    load([Document(file="f", line=1, value=value)], faults)
    marks = {"error": "", "warning": "warning "}
    return [f"{marks[fault.severity]}{fault.origin.path}: {fault.message}" for fault in faults.closed()]


def header(name: str, value: str = "v", **fields: str) -> dict[str, str]:
    return {"name": name, "value": value, **fields}


def mcp(*refs: dict[str, Any], **spec: Any) -> dict[str, Any]:
    spec = {"parentRefs": [{"name": "gw"}], "backendRefs": list(refs) or [{"name": "s", "port": 80}], **spec}
    return resource(f"{AI}/v1beta1", "MCPRoute", "m", spec=spec)


def server(**fields: Any) -> dict[str, Any]:
    return {"name": "s", "port": 80, **fields}


def secured(**policies: Any) -> dict[str, Any]:
    return mcp(securityPolicy=policies)


def quota(targets: Any = (), **definition: Any) -> dict[str, Any]:
    spec = {"targetRefs": list(targets), "perModelQuotas": [{"modelName": "m", "quota": definition}]}
    return resource(f"{AI}/v1alpha1", "QuotaPolicy", "q", spec=spec)
