"""MCPRoutes to what Envoy Gateway makes listeners and routes of (contract, control plane 3.6.1 to 3.6.3).

Requests of clients go to the MCP proxy in the processor; the proxy calls each server through a route of its own, which
the extension server takes off the public listener. A route whose protection cannot be made is not made at all.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

from deploy.controller import indexes, mcp_security
from deploy.controller.config_secrets import MANAGED_LABEL, MANAGER
from deploy.controller.http_routes import copied, extension, object_of, parents
from deploy.controller.kinds import KINDS, Key, Object, key_of
from deploy.controller.mcp_security import name_of
from deploy.controller.ownership import Made, differs, is_controlled_by
from deploy.controller.store import Entry, View
from deploy.controller.writes import Apply, Delete, Write
from filter_config.sources.envoy_ai_gateway.fields import ENVOY_GATEWAY_GROUP
from filter_config.sources.envoy_ai_gateway.mcp_resources import MCPAPIKey, MCPBackendRef, MCPRoute

PROXY_NAME: Final = "ai-eg-mcp-proxy"
PROXY_PORT: Final = 9856
# From the block for documentation: the extension server puts the proxy's own address in its place.
_PROXY_ADDRESS: Final = "192.0.2.42"
_ROUTE_HEADER: Final = "x-ai-eg-mcp-route"
_BACKEND_HEADER: Final = "x-ai-eg-mcp-backend"
_TIMEOUTS: Final = {"request": "30m", "backendRequest": "30m"}
_CREDENTIAL_KEY: Final = "credential"


class _Unusable(Exception):
    """A server cannot be reached as its route says; the text says why."""


def objects(view: View, entry: Entry, route: MCPRoute, foreign: frozenset[int]) -> Made:
    """What a route is made into."""
    to = parents(entry, foreign)
    if not to:
        return Made()
    try:
        security = mcp_security.objects(entry, route)
    except mcp_security.Unprotected as error:
        return Made(problems=(str(error),))
    taken = [key for key in map(key_of, security) if _is_taken(view, entry, key)]
    if taken:
        return Made(problems=tuple(_taken(entry, key) for key in taken))
    made: list[Object] = [*security]
    problems: list[str] = []
    for ref in route.spec.backend_refs:
        try:
            made += _backend(view, entry, ref, to)
        except _Unusable as error:
            problems.append(f"MCP server {ref.name}: {error}")
    made.append(_main(entry, route, to))
    return Made(objects=tuple(made), problems=tuple(problems))


def _is_taken(view: View, entry: Entry, key: Key) -> bool:
    """Whether the name of a policy that protects a route is another's."""
    found = view.live(*key) if key.kind == "SecurityPolicy" else None
    return found is not None and not is_controlled_by(found.value, entry.key)


def _taken(entry: Entry, key: Key) -> str:
    return f"{key} is there and was not made of {entry.key}; rename one of them. The route is not served"


def _route_id(entry: Entry) -> str:
    return f"{entry.key.namespace}/{entry.key.name}"


# --- the proxy ---


def proxy(view: View, namespace: str) -> Iterator[Write]:
    """The writes for the Backend that leads to the proxy: there as long as the namespace has a route."""
    routes = view.found(indexes.mcp_routes_in(namespace))
    found = view.live("Backend", namespace, PROXY_NAME)
    if any(not route.is_deleting for route in routes):
        value = _proxy(namespace)
        if found is None or (not found.is_deleting and differs(value, found.value)):
            yield Apply(value=value)
    elif found is not None and not found.is_deleting and _is_managed(found):
        yield Delete(key=found.key, uid=found.uid)


def _is_managed(found: Entry) -> bool:
    return bool((found.metadata.get("labels") or {}).get(MANAGED_LABEL) == MANAGER)


def _proxy(namespace: str) -> Object:
    return {
        "apiVersion": KINDS["Backend"].api_version,
        "kind": "Backend",
        "metadata": {"name": PROXY_NAME, "namespace": namespace, "labels": {MANAGED_LABEL: MANAGER}},
        "spec": {"endpoints": [{"ip": {"address": _PROXY_ADDRESS, "port": PROXY_PORT}}]},
    }


# --- the main route ---


def _main(entry: Entry, route: MCPRoute, to: list[Object]) -> Object:
    match: Object = {"path": {"type": "Exact", "value": route.spec.path}}
    if route.spec.headers:
        match["headers"] = [{"type": each.type, "name": each.name, "value": each.value} for each in route.spec.headers]
    ref = {
        "group": ENVOY_GATEWAY_GROUP,
        "kind": "Backend",
        "name": PROXY_NAME,
        "namespace": entry.key.namespace,
        "port": PROXY_PORT,
        "weight": 1,
    }
    rule = {
        "matches": [match],
        "filters": [_set_header(_ROUTE_HEADER, _route_id(entry))],
        "backendRefs": [ref],
        "timeouts": _TIMEOUTS,
    }
    return _http_route(entry, name_of("main", entry.key.name), to, [rule, *mcp_security.rules(entry, route)])


def _http_route(entry: Entry, name: str, to: list[Object], rules: list[Object]) -> Object:
    spec: Object = {"parentRefs": to, "rules": rules}
    hostnames = entry.value["spec"].get("hostnames")
    if hostnames:
        spec["hostnames"] = list(hostnames)
    return object_of("HTTPRoute", entry, name, meta=copied(entry, {}), spec=spec)


def _set_header(name: str, value: str) -> Object:
    return {"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": name, "value": value}]}}


# --- servers ---


def _backend(view: View, entry: Entry, ref: MCPBackendRef, to: list[Object]) -> Iterator[Object]:
    """The route to a server, behind the filter and the Secret that it needs."""
    if ref.namespace and ref.namespace != entry.key.namespace:
        raise _Unusable(f"it is in namespace {ref.namespace}, and must be in that of the route")
    key = ref.security_policy.api_key if ref.security_policy is not None else None
    credential = _credential(view, entry, key) if key is not None else ""
    filter_name = name_of("brf", entry.key.name, ref.name)
    rewrite: Object = {"urlRewrite": {"hostname": {"type": "Backend"}}}
    path, filters = ref.path, [extension(filter_name)]
    if key is not None and key.query_param is not None:
        path += f"{'&' if '?' in path else '?'}{quote(key.query_param, safe='')}={quote(credential, safe='')}"
    elif key is not None and key.inline is not None:
        filters.append(_set_header(key.header or "Authorization", _header_value(key, credential)))
    elif key is not None:
        secret = name_of("cred", entry.key.name, ref.name)
        data = {_CREDENTIAL_KEY: base64.b64encode(_header_value(key, credential).encode()).decode()}
        yield object_of("Secret", entry, secret, type="Opaque", data=data)
        rewrite["credentialInjection"] = _injection(key, secret)
    yield object_of("HTTPRouteFilter", entry, filter_name, spec=rewrite)
    filters.append({"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplaceFullPath", "replaceFullPath": path}}})
    rule = {
        "matches": [
            {
                "path": {"type": "PathPrefix", "value": "/"},
                "headers": [
                    {"type": "Exact", "name": _BACKEND_HEADER, "value": ref.name},
                    {"type": "Exact", "name": _ROUTE_HEADER, "value": _route_id(entry)},
                ],
            }
        ],
        "filters": filters,
        "backendRefs": [_reference(ref)],
        "timeouts": _TIMEOUTS,
    }
    yield _http_route(entry, name_of("br", entry.key.name, ref.name), to, [rule])


def _reference(ref: MCPBackendRef) -> Object:
    made: Object = {"group": ref.group, "kind": ref.kind, "name": ref.name, "weight": 1}
    if ref.namespace:
        made["namespace"] = ref.namespace
    if ref.port is not None:
        made["port"] = ref.port
    return made


def _header_value(key: MCPAPIKey, credential: str) -> str:
    """Header names have no case, and neither has the rule about this one."""
    bearer = (key.header or "Authorization").lower() == "authorization"
    return f"Bearer {credential}" if bearer else credential


def _injection(key: MCPAPIKey, secret: str) -> Object:
    made: dict[str, Any] = {
        "overwrite": True,
        "credential": {"valueRef": {"group": "", "kind": "Secret", "name": secret}},
    }
    if key.header is not None:
        made["header"] = key.header
    return made


def _credential(view: View, entry: Entry, key: MCPAPIKey) -> str:
    """The key of a server, out of the route or of a Secret in its namespace."""
    if key.inline is not None:
        return key.inline.reveal()
    ref = key.secret_ref
    assert ref is not None  # exactly one source is given: the rules of the kind
    here = entry.key.namespace
    if ref.namespace and ref.namespace != here:
        raise _Unusable(f"Secret {ref.namespace}/{ref.name} must be in namespace {here}")
    found = view.get("Secret", here, ref.name)
    encoded = (found.value.get("data") or {}).get("apiKey") if found is not None else None
    if encoded is None:
        raise _Unusable(f"Secret {here}/{ref.name} does not exist, or has no key apiKey")
    try:
        return base64.b64decode(encoded, validate=True).decode().strip()
    except ValueError:
        raise _Unusable(f"Secret {here}/{ref.name}: data.apiKey is no text") from None
