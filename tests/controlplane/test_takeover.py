"""A cluster as the peer's control plane leaves it, and our controller in its place (contract, control plane 2 to 5).

Gateways go on serving, so nothing that pods or Envoy Gateway use may go, be renamed, or mean something else, and pods
roll once: the hash of what is injected is another one.
"""

from __future__ import annotations

import base64
import copy
import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
import yaml

from deploy.controller import rotation
from deploy.controller.api import FIELD_MANAGER
from deploy.controller.kinds import Key
from deploy.controller.options import ControllerOptions
from deploy.injector.admission import mutate
from deploy.injector.options import SidecarOptions
from deploy.injector.review import AdmissionRequest, GroupVersionResource, Result
from filter_config.load import decode
from filter_config.sources.emit import object_names
from tests.support import gateway_resources as g
from tests.support.kube_cluster import Cluster, Object, Place
from tests.support.kube_controlled import LEASE, Running, controlling, run, until
from tests.support.kube_server import KubeServer, running
from tests.support.kube_world import create, gateway, gateway_class, namespace, place_of
from tests.unit.deploy.injector import json_patch

EG = "envoy-gateway-system"
PEER = "controller"
"""The field manager of a controller that updates objects and says no name."""
PEERS_IMAGE = "docker.io/envoyproxy/ai-gateway-extproc:v1.1.0"
VERSION = "v1.1.0"
BORN = "2026-01-01T00:00:00Z"
NAMES = object_names("default", "gw")
PLAIN = object_names("default", "plain")
FINALIZER = "aigateway.envoyproxy.io/finalizer"
UUID = "aigateway.envoyproxy.io/uuid"
HASH = "aigateway.envoyproxy.io/extproc-config-hash"
GATEWAY = Key("Gateway", "default", "gw")
LEASE_PLACE = Place("coordination.k8s.io", "leases", LEASE.namespace, LEASE.name)
AZURE = {"clientID": "c", "tenantID": "t", "clientSecretRef": {"name": "entra"}}

# What the peer makes of the resources below, from section 2 of the contract.
CONFIG = f"""\
backends:
- auth:
    apiKey:
      key: the-key
  modelNameOverride: ""
  name: default/b/route/r/rule/0/ref/0
  schema:
    name: OpenAI
    prefix: v1
- auth:
    azure:
      accessToken: a-token
  modelNameOverride: gpt
  name: default/z/route/r/rule/0/ref/1
  schema:
    name: AzureOpenAI
    version: 2025-01-01
llmRequestCosts:
- metadataKey: tokens
  routeName: default/r
  type: TotalToken
mcpConfig:
  backendListenerAddr: http://127.0.0.1:10088
  routes:
  - backends:
    - name: s
    name: default/m
models:
- CreatedAt: "{BORN}"
  Name: m
  OwnedBy: Envoy AI Gateway
uuid: 8d0e9a52-3f5c-4a44-9a0e-2b1f0f6e1a11
version: {VERSION}
"""


# --- what people wrote ---


def held(value: Object) -> Object:
    """A resource as the peer leaves it: with its finalizer, and of an age."""
    metadata = {**value["metadata"], "creationTimestamp": BORN, "finalizers": [FINALIZER]}
    return {**value, "metadata": metadata}


def resources() -> Iterator[Object]:
    azure = {"name": "AzureOpenAI", "version": "2025-01-01"}
    yield from (
        gateway_class(),
        namespace(),
        gateway(annotations={"aigateway.envoyproxy.io/gateway-config": "c"}),
        gateway("plain"),
        g.endpoint("b"),
        g.endpoint("z"),
        g.secret("k", apiKey="the-key"),
        g.secret("entra", **{"client-secret": "s"}),
    )
    costs = [{"metadataKey": "tokens", "type": "TotalToken"}]
    meta = {"labels": {"team": "a"}, "annotations": {"example.com/note": "n"}}
    yield from map(
        held,
        (
            g.route(
                "r", g.rule("b", g.ref("z", modelNameOverride="gpt", priority=1)), llmRequestCosts=costs, meta=meta
            ),
            g.service("b"),
            g.service("z", schema=azure),
            g.api_key("k", "b"),
            g.policy("p", "AzureCredentials", "z", azureCredentials=AZURE),
            g.resource(f"{g.AI}/v1beta1", "GatewayConfig", "c", spec={}),
            g.mcp(g.server(securityPolicy={"apiKey": {"secretRef": {"name": "k"}}})),
        ),
    )


# --- what the peer made of it ---


def owned(kind: str, name: str, owner: Object, api_version: str, **fields: Any) -> Object:
    value = g.resource(api_version, kind, name, **fields)
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    value["metadata"]["ownerReferences"] = [reference]
    return value


def extension(name: str) -> Object:
    ref = {"group": g.ENVOY_GATEWAY, "kind": "HTTPRouteFilter", "name": name}
    return {"type": "ExtensionRef", "extensionRef": ref}


def http_route(name: str, owner: Object, rules: list[Object], **meta: Any) -> Object:
    spec = {"parentRefs": [{"group": g.GATEWAY_API, "kind": "Gateway", "name": "gw"}], "rules": rules}
    return owned("HTTPRoute", name, owner, f"{g.GATEWAY_API}/v1", spec=spec, metadata=meta)


def http_route_filter(name: str, owner: Object, **spec: Any) -> Object:
    return owned("HTTPRouteFilter", name, owner, f"{g.ENVOY_GATEWAY}/v1alpha1", spec=spec)


def of_route(route: Object) -> Iterator[Object]:
    """Sections 3.2 and 3.3."""
    yield http_route_filter("ai-eg-host-rewrite-r", route, urlRewrite={"hostname": {"type": "Backend"}})
    text = (
        "No matching route found. It is likely because the model specified in your request is not configured in the "
        "Gateway."
    )
    response = {"statusCode": 404, "body": {"type": "Inline", "inline": text}}
    yield http_route_filter("ai-eg-route-not-found-response-r", route, directResponse=response)
    path = {"path": {"value": "/"}}
    backend = {"group": g.ENVOY_GATEWAY, "kind": "Backend", "weight": 1}
    rules = [
        {
            "matches": [{**path, "headers": [{"name": "x-ai-eg-model", "value": "m"}]}],
            "filters": [extension("ai-eg-host-rewrite-r")],
            "timeouts": {"request": "60s"},
            "backendRefs": [{**backend, "name": "b"}, {**backend, "name": "z"}],
        },
        {
            "name": "route-not-found",
            "matches": [path],
            "filters": [extension("ai-eg-route-not-found-response-r")],
        },
    ]
    annotations = {
        "example.com/note": "n",
        # The route had it once; the peer never takes one back.
        "example.com/gone": "g",
        "gateway.envoyproxy.io/backend-ref-priority": "0:b:0,0:z:1",
        "gateway.envoyproxy.io/ai-gateway-generated": "true",
    }
    yield http_route("r", route, rules, labels={"team": "a"}, annotations=annotations)


def of_mcp_route(route: Object) -> Iterator[Object]:
    """Sections 3.6.1 to 3.6.3."""
    managed = {"labels": {"app.kubernetes.io/managed-by": "envoy-ai-gateway"}}
    address = {"endpoints": [{"ip": {"address": "192.0.2.42", "port": 9856}}]}
    yield g.resource(f"{g.ENVOY_GATEWAY}/v1alpha1", "Backend", "ai-eg-mcp-proxy", spec=address, metadata=managed)
    route_header = {"name": "x-ai-eg-mcp-route", "value": "default/m"}
    timeouts = {"request": "30m", "backendRequest": "30m"}
    proxy = {"group": g.ENVOY_GATEWAY, "kind": "Backend", "name": "ai-eg-mcp-proxy", "namespace": "default"}
    main = {
        "matches": [{"path": {"type": "Exact", "value": "/mcp"}}],
        "filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [route_header]}}],
        "backendRefs": [{**proxy, "port": 9856}],
        "timeouts": timeouts,
    }
    yield http_route("ai-eg-mcp-main-m", route, [main])
    credential = base64.b64encode(b"Bearer the-key").decode()
    data = {"credential": credential}
    yield owned("Secret", "ai-eg-mcp-cred-m-s", route, "v1", type="Opaque", data=data)
    injection = {
        "overwrite": True,
        "credential": {"valueRef": {"group": "", "kind": "Secret", "name": "ai-eg-mcp-cred-m-s"}},
    }
    rewrite = {"hostname": {"type": "Backend"}}
    yield http_route_filter("ai-eg-mcp-brf-m-s", route, urlRewrite=rewrite, credentialInjection=injection)
    headers = [{"name": "x-ai-eg-mcp-backend", "value": "s"}, route_header]
    full = {"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplaceFullPath", "replaceFullPath": "/mcp"}}}
    to_server = {
        "matches": [{"path": {"value": "/"}, "headers": headers}],
        "filters": [extension("ai-eg-mcp-brf-m-s"), full],
        "backendRefs": [{"name": "s", "port": 80}],
        "timeouts": timeouts,
    }
    yield http_route("ai-eg-mcp-br-m-s", route, [to_server])


def secrets(config: str, names: Any = NAMES) -> Iterator[Object]:
    """Section 2.10: no labels, no owner."""
    part = {"name": names.parts[0], "path": "parts/000", "sizeBytes": len(config)}
    index = {
        "checksum": hashlib.sha256(config.encode()).hexdigest(),
        "parts": [part],
        "uuid": yaml.safe_load(config)["uuid"],
        "version": VERSION,
    }
    yield g.secret(names.parts[0], EG, chunk=config)
    yield g.secret(names.index, EG, **{"index.yaml": yaml.safe_dump(index)})
    yield g.secret(names.legacy, EG, **{"filter-config.yaml": config})


def rotated(policy: Object) -> Object:
    """Section 8.3."""
    data = {"azureAccessToken": base64.b64encode(b"a-token").decode()}
    meta = {"annotations": {"rotators/expiration-time": "2026-02-01T01:00:00Z"}}
    value = owned("Secret", "ai-eg-bsp-p", policy, "v1", type="Opaque", data=data)
    return {**value, "metadata": {**value["metadata"], **meta}}


def labels(name: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/managed-by": "envoy-gateway",
        "app.kubernetes.io/component": "proxy",
        "gateway.envoyproxy.io/owning-gateway-name": name,
        "gateway.envoyproxy.io/owning-gateway-namespace": "default",
    }


def bare(name: str, of: str, **annotations: str) -> Object:
    """A pod as Envoy Gateway's Deployment makes it."""
    meta = {"labels": labels(of), "annotations": annotations}
    spec = {"containers": [{"name": "envoy", "volumeMounts": []}], "volumes": []}
    return g.resource("v1", "Pod", name, EG, spec=spec, metadata=meta)


def injected(name: str) -> Object:
    """Section 4.3, what the peer's webhook put beside Envoy."""
    pod = bare(name, "gw", **{UUID: yaml.safe_load(CONFIG)["uuid"]})
    socket = {"name": "ai-gateway-extproc-uds", "mountPath": "/etc/ai-gateway-extproc-uds"}
    volume = f"ai-gateway-gw-default-{NAMES.index[-12:]}-bundle"
    sources = [{"secret": {"name": NAMES.index}}, *({"secret": {"name": part}} for part in NAMES.parts)]
    pod["spec"]["volumes"] = [
        {"name": "ai-gateway-extproc-uds", "emptyDir": {}},
        {"name": volume, "projected": {"sources": sources}},
    ]
    pod["spec"]["containers"][0]["volumeMounts"] = [socket]
    args = ["-configBundlePath", "/etc/filter-config-bundle", "-logLevel", "info", "-mcpAddr", ":9856"]
    mounts = [socket, {"name": volume, "mountPath": "/etc/filter-config-bundle", "readOnly": True}]
    container = {"name": "ai-gateway-extproc", "image": PEERS_IMAGE, "args": args, "volumeMounts": mounts}
    pod["spec"]["initContainers"] = [{**container, "restartPolicy": "Always"}]
    return pod


def deployment(of: str, **annotations: str) -> Object:
    spec = {"template": {"metadata": {"labels": labels(of), "annotations": annotations}}}
    value = g.resource("apps/v1", "Deployment", f"envoy-{of}", EG, spec=spec, metadata={"labels": labels(of)})
    return {**value, "status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2}}


def peers(cluster: Cluster, value: Object) -> Object:
    metadata = value["metadata"]
    place = place_of(value["kind"], metadata["namespace"], metadata["name"])
    return cluster.create(place, value, PEER)


def left_by_the_peer(server: KubeServer) -> None:
    cluster = server.cluster
    there = {value["metadata"]["name"]: create(cluster, value) for value in resources() if value["kind"] != "Gateway"}
    for value in resources():
        if value["kind"] == "Gateway":
            create(cluster, value)
    accepted = {"type": "Accepted", "status": "True", "reason": "ReconciliationSucceeded", "message": "m"}
    for place, value in list(cluster.objects.items()):
        if value["metadata"].get("finalizers"):
            cluster.set_status(place, {"conditions": [{**accepted, "lastTransitionTime": BORN}]})
    for value in (*of_route(there["r"]), *of_mcp_route(there["m"]), *secrets(CONFIG), rotated(there["p"])):
        peers(cluster, value)
    empty = f"uuid: 0f0e9a52-3f5c-4a44-9a0e-2b1f0f6e1a11\nversion: {VERSION}\n"
    for value in secrets(empty, PLAIN):
        peers(cluster, value)
    for value in (injected("one"), injected("two"), deployment("gw", **{HASH: "of-the-peer"})):
        create(cluster, value)
    for value in (bare("three", "plain"), deployment("plain")):
        create(cluster, value)
    # Somebody else's note on an object of the peer.
    route = place_of("HTTPRoute", "default", "r")
    cluster.apply(route, {"metadata": {"annotations": {"example.com/seen": "yes"}}}, "somebody")


# --- what is looked at ---


SIDECAR = SidecarOptions(image="registry.example.com/envoy-llm-extproc:0.1.0")
OPTIONS = ControllerOptions(sidecar=SIDECAR, version=VERSION)


@dataclass
class Before:
    """The cluster when our controller came."""

    server: KubeServer

    def __post_init__(self) -> None:
        self.objects = copy.deepcopy(self.server.cluster.objects)
        self.events = len(self.server.cluster.log)

    @property
    def happened(self) -> list[tuple[str, Place]]:
        return [(event.type, event.place) for event in self.server.cluster.log[self.events :]]

    def specs_changed(self) -> set[Place]:
        """What is not what it was, but for what is noted about it."""
        now = self.server.cluster.objects
        return {place for place, value in self.objects.items() if meaning(now[place]) != meaning(value)}


def meaning(value: Object) -> Object:
    return {name: part for name, part in value.items() if name not in ("metadata", "status")}


def config_of(server: KubeServer, name: str = NAMES.parts[0], key: str = "chunk") -> bytes:
    return base64.b64decode(server.cluster.get(place_of("Secret", EG, name))["data"][key])


def meant(payload: bytes) -> Any:
    config = decode(payload).config
    assert config is not None
    return msgspec.structs.replace(config, uuid="")


def template(server: KubeServer, of: str = "gw") -> dict[str, str]:
    spec = server.cluster.get(place_of("Deployment", EG, f"envoy-{of}"))["spec"]
    return dict(spec["template"]["metadata"]["annotations"])


def roll(made: Running) -> None:
    """Kubernetes makes new pods of the template, with our webhook."""
    cluster = made.server.cluster
    for name in ("one", "two"):
        cluster.delete(place_of("Pod", EG, name))
        pod = bare(name, "gw", **template(made.server))
        request = AdmissionRequest(
            uid="u",
            resource=GroupVersionResource(version="v1", resource="pods"),
            operation="CREATE",
            namespace=EG,
            object=pod,
        )
        answer = mutate(request, made.controller.facts, SIDECAR)
        assert answer.result == Result.INJECTED
        create(cluster, json_patch.apply(pod, answer.patch))
    generation = cluster.get(place_of("Deployment", EG, "envoy-gw"))["metadata"]["generation"]
    rolled = {"observedGeneration": generation, "replicas": 2, "updatedReplicas": 2}
    cluster.set_status(place_of("Deployment", EG, "envoy-gw"), rolled)


@asynccontextmanager
async def taken_over() -> AsyncIterator[Running]:
    """Our controller after its first look at what the peer has left."""
    async with running() as server:
        left_by_the_peer(server)
        async with controlling(server, options=OPTIONS) as made:
            await made.settled()
            yield made


# --- the tests ---


def test_nothing_that_is_used_goes_or_means_something_else():
    async def scenario() -> None:
        async with running() as server:
            left_by_the_peer(server)
            before = Before(server)
            async with controlling(server, options=OPTIONS) as made:
                await made.settled()
                # Nothing goes, and nothing comes: all the names are the same.
                assert {event for event, _ in before.happened} == {"MODIFIED"}
                # Envoy Gateway, which looks at specs, sees nothing; the Secrets hold the same in other words.
                templates = {place_of("Deployment", EG, "envoy-gw")}
                written = {place_of("Secret", EG, name) for name in (NAMES.parts[0], NAMES.index, NAMES.legacy)}
                assert before.specs_changed() == templates | written
                assert meant(config_of(server)) == meant(CONFIG.encode())
                index = yaml.safe_load(config_of(server, NAMES.index, "index.yaml"))
                assert index["version"] == VERSION
                assert index["checksum"] == hashlib.sha256(config_of(server)).hexdigest()
                assert config_of(server, NAMES.legacy, "filter-config.yaml") == config_of(server)

    run(scenario())


def test_fields_stay_whoever_they_are_of():
    async def scenario() -> None:
        async with running() as server:
            left_by_the_peer(server)
            before = Before(server)
            async with controlling(server, options=OPTIONS) as made:
                await made.settled()
                for place, value in before.objects.items():
                    now = server.cluster.get(place)["metadata"]
                    for part in ("labels", "annotations"):
                        kept = {key: text for key, text in (value["metadata"].get(part) or {}).items() if key != UUID}
                        assert kept.items() <= (now.get(part) or {}).items(), place
                    assert now["uid"] == value["metadata"]["uid"]
                    assert now.get("ownerReferences") == value["metadata"].get("ownerReferences")
                    assert now.get("finalizers") == value["metadata"].get("finalizers")
                managers = server.cluster.get(place_of("HTTPRoute", "default", "r"))["metadata"]["managedFields"]
                assert {each["manager"] for each in managers} == {PEER, "somebody", FIELD_MANAGER}

    run(scenario())


def test_a_credential_that_the_peer_rotated_is_used_until_it_is_due():
    async def scenario() -> None:
        async with taken_over() as made:
            policy = Key("BackendSecurityPolicy", "default", "p")
            found = made.controller.planner.store.get(rotation.secret_key(policy))
            assert not rotation.is_taken(found, policy)
            due = rotation.due_at(found)
            assert due is not None
            assert due.isoformat() == "2026-02-01T00:55:00+00:00"

    run(scenario())


def test_pods_roll_once_and_others_do_not():
    async def scenario() -> None:
        async with taken_over() as made:
            server = made.server
            config = made.controller.planner.config(GATEWAY)
            assert config is not None
            # The pods that serve know of the new config at once.
            for name in ("one", "two"):
                pod = server.cluster.get(place_of("Pod", EG, name))
                assert pod["metadata"]["annotations"][UUID] == config.uuid
            wanted = template(server)
            assert wanted[HASH] != "of-the-peer"
            roll(made)
            await made.settled()
            assert template(server) == wanted
            assert template(server, "plain") == {}
            for name in ("one", "two"):
                pod = server.cluster.get(place_of("Pod", EG, name))
                (sidecar,) = pod["spec"]["initContainers"]
                assert sidecar["image"] == SIDECAR.image
                assert pod["metadata"]["annotations"][HASH] == wanted[HASH]

    run(scenario())


def test_when_it_is_over_there_is_silence():
    async def scenario() -> None:
        async with taken_over() as made:
            server = made.server
            roll(made)
            await made.settled()
            version, written = server.cluster.version, made.writes
            made.controller.resync()
            await made.settled()
            assert made.writes == written
            async with controlling(server, options=OPTIONS) as again:
                await again.settled()
                assert again.writes == 0
            assert server.cluster.version == version

    run(scenario())


def test_as_long_as_the_peer_leads_nothing_is_written():
    def lease(holder: str) -> Object:
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3, "renewTime": BORN}
        return g.resource("coordination.k8s.io/v1", "Lease", LEASE.name, LEASE.namespace, spec=spec)

    async def scenario() -> None:
        async with running() as server:
            left_by_the_peer(server)
            server.cluster.create(LEASE_PLACE, lease("peer_1"), PEER)
            version = server.cluster.version
            async with controlling(server, identity="ours", options=OPTIONS) as made:
                looks = 0

                def count(request: Any) -> bool:
                    nonlocal looks
                    looks += request.resource.plural == "leases"
                    return False

                server.trouble(count, lambda _: None, 1)
                await made.controller.ready.wait()
                await until(lambda: looks > 5, "more looks at the lease")
                assert made.controller.planner.config(GATEWAY) is not None
                assert server.cluster.version == version
                server.cluster.replace(LEASE_PLACE, lease(""))
                await until(lambda: made.writes > 0, "a new leader")
                await made.settled()
                spec = server.cluster.get(LEASE_PLACE)["spec"]
                assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("ours", 4)

    run(scenario())


@pytest.mark.parametrize("turns", [1, 2])
def test_back_and_forth_ends_as_once(turns: int):
    """The peer writes its objects as a whole when it is back."""

    async def scenario() -> None:
        async with running() as server:
            left_by_the_peer(server)
            wanted = b""
            for _ in range(turns):
                async with controlling(server, options=OPTIONS) as made:
                    await made.settled()
                wanted = wanted or config_of(server)
                assert config_of(server) == wanted
                for value in secrets(CONFIG):
                    place = place_of("Secret", EG, value["metadata"]["name"])
                    now = server.cluster.get(place)
                    server.cluster.replace(place, {**now, "stringData": value["stringData"]}, PEER)
                assert meant(config_of(server)) == meant(wanted)
            async with controlling(server, options=OPTIONS) as made:
                await made.settled()
                assert config_of(server) == wanted

    run(scenario())


def test_what_is_deleted_afterwards_goes_with_the_peers_finalizer():
    async def scenario() -> None:
        async with taken_over() as made:
            server = made.server
            server.cluster.delete(place_of("AIGatewayRoute", "default", "r"))
            gone = [place_of("AIGatewayRoute", "default", "r"), place_of("HTTPRoute", "default", "r")]
            await until(lambda: not any(place in server.cluster.objects for place in gone), "no route")
            server.cluster.delete(place_of("MCPRoute", "default", "m"))
            config = [place_of("Secret", EG, name) for name in (NAMES.parts[0], NAMES.index, NAMES.legacy)]
            await until(lambda: not any(place in server.cluster.objects for place in config), "no config")

    run(scenario())
