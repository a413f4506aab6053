"""A cluster in memory, pods as Envoy Gateway makes them, and what the API server makes of the webhook's answers."""

from __future__ import annotations

import base64
import copy
import json
import re
from dataclasses import dataclass, field

import msgspec

from deploy.injector import names, review
from deploy.injector.admission import mutate
from deploy.injector.facts import Attached, FactsUnknown, KubernetesVersion
from deploy.injector.names import GatewayRef
from deploy.injector.options import SidecarOptions
from filter_config.sources.emit import object_names
from filter_config.sources.envoy_ai_gateway.resources import ExtProcContainer
from tests.unit.deploy.injector import json_patch

GATEWAY = GatewayRef(namespace="ns1", name="gateway")
NAMES = object_names("ns1", "gateway")
NAMESPACE = "envoy-gateway-system"
OPTIONS = SidecarOptions(image="registry.test/envoy-llm-extproc:1.2.3")
NEW = KubernetesVersion(1, 33)
OLD = KubernetesVersion(1, 32)


@dataclass(kw_only=True)
class Cluster:
    """Implements ``ClusterFacts``, and keeps what was asked."""

    routes: dict = field(default_factory=lambda: {GATEWAY: Attached(ai_routes=True)})
    secrets: set = field(default_factory=lambda: {(NAMESPACE, NAMES.index), (NAMESPACE, NAMES.legacy)})
    containers: dict = field(default_factory=dict)
    version: KubernetesVersion | None = NEW
    unknown: str = ""
    asked: list = field(default_factory=list)

    def attached(self, gateway):
        self._ask("routes")
        return self.routes.get(gateway, Attached())

    def secret_exists(self, namespace, name):
        assert name, "no Secret is called nothing"
        self._ask("secrets")
        return (namespace, name) in self.secrets

    def extproc_container(self, gateway):
        self._ask("config")
        return self.containers.get(gateway)

    def kubernetes_version(self):
        self._ask("version")
        return self.version

    def _ask(self, what):
        self.asked.append(what)
        if what == self.unknown:
            raise FactsUnknown(f"the {what} cannot be read: the watch is broken")


def container_of(value):
    """``spec.extProc.kubernetes`` of a GatewayConfig, as it is read from JSON."""
    return msgspec.convert(value, ExtProcContainer)


def pod(**spec):
    """A proxy's pod, cut down to what matters, with changes to its spec; None removes a member."""
    value = {
        "metadata": {
            "generateName": "envoy-ns1-gateway-",
            "labels": {
                "app.kubernetes.io/component": "proxy",
                names.GATEWAY_NAME_LABEL: GATEWAY.name,
                names.GATEWAY_NAMESPACE_LABEL: GATEWAY.namespace,
            },
        },
        "spec": {
            "containers": [
                {"name": "shutdown-manager", "image": "gateway:v1"},
                {"name": "envoy", "image": "envoy:v1", "volumeMounts": [{"name": "sds", "mountPath": "/sds"}]},
            ],
            "volumes": [{"name": "sds", "configMap": {"name": "sds"}}],
            "terminationGracePeriodSeconds": 360,
            **spec,
        },
    }
    value["spec"] = {key: item for key, item in value["spec"].items() if item is not None}
    return value


def asks(obj, **members):
    """The review of a new pod, as bytes."""
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": NAMESPACE,
        "object": obj,
        **members,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def answer(obj, cluster=None, options=OPTIONS, **members):
    """The webhook's answer about an object."""
    return mutate(review.read(asks(obj, **members)), cluster or Cluster(), options)


def admitted(obj, reply):
    """The object as the API server goes on with it, after an answer's bytes."""
    response = json.loads(reply)["response"]
    assert response["allowed"] is True
    if "patch" not in response:
        return copy.deepcopy(obj)
    assert response["patchType"] == "JSONPatch"
    return json_patch.apply(obj, json.loads(base64.b64decode(response["patch"])))


def injected(obj, cluster=None, options=OPTIONS):
    """The pod after the webhook, and its sidecar."""
    given = answer(obj, cluster, options)
    after = admitted(obj, review.write(given))
    places = [*after["spec"]["containers"], *after["spec"].get("initContainers", [])]
    return after, next((item for item in places if item["name"] == names.CONTAINER), None)


def command_line(container, secrets=None):
    """Arguments and environment as the kubelet hands them to the process: variables put in, Secrets read."""
    environ = {}
    for entry in container["env"]:
        if "value" in entry:
            environ[entry["name"]] = _expanded(entry["value"], environ)
        elif ref := entry.get("valueFrom", {}).get("secretKeyRef"):
            environ[entry["name"]] = (secrets or {})[ref["name"], ref["key"]]
    return [_expanded(argument, environ) for argument in container["args"]], environ


def _expanded(text, environ):
    """``$(NAME)`` is a variable if there is one, ``$$`` a dollar sign (Kubernetes, container arguments)."""

    def one(match):
        if match[0] == "$$":
            return "$"
        return environ.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^()]*)\)", one, text)


def mount_faults(after):
    """Why the API server would refuse a pod for its volumes and mounts; empty when it would not."""
    faults = []
    volumes = [volume["name"] for volume in after["spec"].get("volumes", [])]
    faults += [f"volume {name} twice" for name in set(volumes) if volumes.count(name) > 1]
    # A volume's name is a DNS label.
    faults += [f"volume {name}" for name in volumes if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name)]
    containers = [*after["spec"]["containers"], *after["spec"].get("initContainers", [])]
    named = [container["name"] for container in containers]
    faults += [f"container {name} twice" for name in set(named) if named.count(name) > 1]
    for container in containers:
        mounts = container.get("volumeMounts", [])
        paths = [mount["mountPath"] for mount in mounts]
        faults += [f"path {path} twice" for path in set(paths) if paths.count(path) > 1]
        faults += [f"no volume {mount['name']}" for mount in mounts if mount["name"] not in volumes]
    return faults
