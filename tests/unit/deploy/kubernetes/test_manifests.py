"""The manifests and the chart's renderings: that what refers to something finds it, and what pods and roles may do."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import deploy
from deploy.controller.flags import Flags, flag_names
from deploy.controller.permissions import CLUSTER_RIGHTS, LEASE_RIGHTS, WATCHED_RIGHTS, WEBHOOK_RIGHTS, Right
from deploy.extension_server.hooks import HOOKS
from deploy.kubernetes.__main__ import main
from deploy.kubernetes.files import render

DEPLOY = Path(deploy.__file__).parent
BASE = DEPLOY / "kubernetes" / "base"
CERT_MANAGER = DEPLOY / "kubernetes" / "overlays" / "cert-manager"
CHART = DEPLOY / "helm" / "envoy-llm-extproc"
CRD_CHART = DEPLOY / "helm" / "envoy-llm-extproc-crds"
RENDERED = Path(__file__).parent / "rendered"
NAMESPACE = "envoy-ai-gateway-system"

Object = dict[str, Any]


def documents(text: str) -> list[Object]:
    return [value for value in yaml.load_all(text, Loader=yaml.CSafeLoader) if value]


def kustomized(directory: Path) -> list[Object]:
    """What kustomize makes of a directory that only gathers files."""
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text())
    assert set(kustomization) == {"apiVersion", "kind", "resources"}
    found = []
    for name in kustomization["resources"]:
        path = directory / name
        found += kustomized(path) if path.is_dir() else documents(path.read_text())
    return found


# --- renderings of the chart: made by Helm, and kept, so that they are looked at where there is no Helm, too ---

VALUES = {
    path.name.removesuffix(".values.yaml"): yaml.safe_load(path.read_text()) for path in RENDERED.glob("*.values.yaml")
}


def digest(name: str) -> str:
    """Of everything that a rendering is made of."""
    hashed = hashlib.sha256()
    # Dashboards and alerts are in no kept rendering.
    rules = CHART.glob("files/cluster-*.yaml")
    for path in sorted([*CHART.glob("templates/*"), CHART / "Chart.yaml", CHART / "values.yaml", *rules]):
        hashed.update(f"{path.relative_to(CHART)}\n".encode() + path.read_bytes())
    hashed.update((RENDERED / f"{name}.values.yaml").read_bytes())
    return hashed.hexdigest()


def helm(*arguments: str) -> str:
    program = shutil.which("helm")
    if program is None:
        pytest.skip("no helm on the PATH")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def template(name: str, *more: str) -> str:
    values = str(RENDERED / f"{name}.values.yaml")
    where = ("--namespace", NAMESPACE, "--kube-version", "1.33.0")
    return helm("template", "aieg", str(CHART), *where, "--values", values, *more)


@pytest.mark.parametrize("name", VALUES)
def test_a_rendering_is_what_helm_makes_of_the_chart(name, pytestconfig):
    path = RENDERED / f"{name}.yaml"
    mark = f"# sha256 of chart and values: {digest(name)}\n"
    if pytestconfig.getoption("--update-golden"):
        path.write_text(mark + template(name))
    # Without Helm: it was made of this very chart.
    assert path.read_text().startswith(mark), "render it again: pytest --update-golden, with helm on the PATH"
    if shutil.which("helm") is not None:
        assert documents(path.read_text()) == documents(template(name))


@pytest.mark.parametrize("chart", [CHART, CRD_CHART], ids=lambda path: path.name)
def test_helm_finds_nothing_wrong_with_a_chart(chart):
    helm("lint", "--strict", "--kube-version", "1.33.0", str(chart))


def test_dashboards_and_alerts_are_in_the_chart():
    made = documents(template("least", "--set", "dashboards.enabled=true,alerts.enabled=true"))
    by_kind = {value["kind"]: value for value in made}
    (text,) = by_kind["ConfigMap"]["data"].values()
    assert json.loads(text) == json.loads((DEPLOY / "grafana" / "envoy-llm-extproc.json").read_text())
    assert by_kind["ConfigMap"]["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert by_kind["PrometheusRule"]["spec"] == yaml.safe_load((DEPLOY / "grafana" / "alerts.yaml").read_text())


def test_the_chart_of_definitions_has_all_of_them_and_keeps_them():
    made = documents(helm("template", "crds", str(CRD_CHART), "--kube-version", "1.33.0"))
    stored = kustomized(BASE / "crds")
    assert all(value["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"} for value in made)
    by_name = {value["metadata"]["name"]: value for value in made}
    assert by_name == {value["metadata"]["name"]: value for value in stored}


# --- what is in all of them ---

RENDERINGS: dict[str, list[Object]] = {
    "kustomize": kustomized(BASE),
    **{f"helm {name}": documents((RENDERED / f"{name}.yaml").read_text()) for name in VALUES},
}
KNOWN = {
    ("v1", "Namespace"),
    ("v1", "ServiceAccount"),
    ("v1", "Service"),
    ("v1", "Secret"),
    ("apps/v1", "Deployment"),
    ("policy/v1", "PodDisruptionBudget"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("cert-manager.io/v1", "Issuer"),
    ("cert-manager.io/v1", "Certificate"),
    *(
        (("rbac.authorization.k8s.io/v1", kind))
        for kind in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
    ),
}
OF_THE_CLUSTER = {
    "Namespace",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "MutatingWebhookConfiguration",
}

every_rendering = pytest.mark.parametrize("objects", RENDERINGS.values(), ids=RENDERINGS)


def of(objects: list[Object], kind: str) -> Iterator[Object]:
    return (value for value in objects if value["kind"] == kind)


def one(objects: list[Object], kind: str) -> Object:
    (value,) = of(objects, kind)
    return value


def pod(objects: list[Object]) -> Object:
    return one(objects, "Deployment")["spec"]["template"]["spec"]


def container(objects: list[Object]) -> Object:
    (value,) = pod(objects)["containers"]
    return value


def flags(objects: list[Object]) -> dict[str, str]:
    command, *arguments = container(objects)["args"]
    assert command == "controller"
    pairs = [argument.removeprefix("--").split("=", 1) for argument in arguments]
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(pairs)


@every_rendering
def test_objects_are_of_kinds_that_clusters_have_and_named_once(objects):
    assert {(value["apiVersion"], value["kind"]) for value in objects} <= KNOWN
    names = [(value["kind"], value["metadata"].get("namespace"), value["metadata"]["name"]) for value in objects]
    assert len(set(names)) == len(names)
    for value in objects:
        namespace = value["metadata"].get("namespace")
        # Rights are given where they are used.
        watched = value["kind"] == "RoleBinding" and value["metadata"]["name"].endswith("-watched")
        assert watched or namespace == (None if value["kind"] in OF_THE_CLUSTER else NAMESPACE)


@every_rendering
def test_selectors_select_the_controllers_pods(objects):
    deployment = one(objects, "Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"].items()
    (spread,) = pod(objects)["topologySpreadConstraints"]
    selectors = [
        deployment["selector"]["matchLabels"],
        one(objects, "Service")["spec"]["selector"],
        spread["labelSelector"]["matchLabels"],
        *(value["spec"]["selector"]["matchLabels"] for value in of(objects, "PodDisruptionBudget")),
        *(value["spec"]["podSelector"]["matchLabels"] for value in of(objects, "NetworkPolicy")),
    ]
    assert all(selector and selector.items() <= labels for selector in selectors)


@every_rendering
def test_the_service_has_the_names_and_ports_that_others_were_told(objects):
    service = one(objects, "Service")
    assert service["metadata"]["name"] == "ai-gateway-controller"
    ports = {port["name"]: port["port"] for port in service["spec"]["ports"]}
    assert ports == {"mutating-webhook": 9443, "grpc": 1063, "http-metrics": 8080, "ratelimit-xds": 18002}
    assert {port["targetPort"] for port in service["spec"]["ports"]} == {p["name"] for p in container(objects)["ports"]}


@every_rendering
def test_ports_are_named_and_named_ports_exist(objects):
    named = {port["name"]: port["containerPort"] for port in container(objects)["ports"]}
    # The API server takes longer names for ports of services only.
    assert all(len(name) <= 15 for name in named)
    probes = ("startupProbe", "livenessProbe", "readinessProbe")
    assert {container(objects)[probe]["httpGet"]["port"] for probe in probes} == {"http-metrics"}


@every_rendering
def test_the_network_lets_through_what_is_needed_and_nothing_else(objects):
    spec = one(objects, "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    allowed = {port["port"]: entry.get("from") for entry in spec["ingress"] for port in entry["ports"]}
    assert set(allowed) == {port["name"] for port in container(objects)["ports"]}
    # Nobody but Envoy Gateway and rate limit services is told, or tells, what is in gateways.
    gateway = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "envoy-gateway-system"}}}
    assert allowed["grpc"] == allowed["ratelimit-xds"]
    assert allowed["grpc"][0] == gateway
    assert all(port["protocol"] == "TCP" for entry in spec["ingress"] for port in entry["ports"])
    out = {(port["port"], port["protocol"]) for entry in spec["egress"] for port in entry["ports"]}
    names = {(port, protocol) for port in (53, 5353) for protocol in ("UDP", "TCP")}
    assert out - names == {(port, "TCP") for port in (443, 6443, 8443, 16443)}
    assert names <= out


@every_rendering
def test_the_webhook_finds_the_service_and_looks_at_envoys_alone(objects):
    configuration = one(objects, "MutatingWebhookConfiguration")
    assert configuration["metadata"]["name"] == f"envoy-ai-gateway-gateway-pod-mutator.{NAMESPACE}"
    (webhook,) = configuration["webhooks"]
    service = one(objects, "Service")["metadata"]
    assert webhook["clientConfig"] == {
        "service": {"name": service["name"], "namespace": NAMESPACE, "port": 9443, "path": "/mutate"}
    }
    assert webhook["name"] == f"{service['name']}.{NAMESPACE}.svc.cluster.local"
    assert webhook["objectSelector"]["matchLabels"] == {
        "app.kubernetes.io/managed-by": "envoy-gateway",
        "app.kubernetes.io/component": "proxy",
    }
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"], webhook["sideEffects"]) == ("Fail", 10, "None")
    (entry,) = webhook["rules"]
    assert (entry["resources"], entry["operations"], entry["apiVersions"]) == (["pods"], ["CREATE"], ["v1"])


@every_rendering
def test_the_pod_can_do_nothing_that_it_need_not(objects):
    assert pod(objects)["securityContext"]["runAsNonRoot"] is True
    assert pod(objects)["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(objects)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container(objects)["resources"]["limits"]["memory"]


@every_rendering
def test_mounts_have_volumes_and_variables_of_arguments_exist(objects):
    mounts = container(objects)["volumeMounts"]
    assert {mount["name"] for mount in mounts} == {volume["name"] for volume in pod(objects)["volumes"]}
    assert {"/certs", "/tmp"} <= {mount["mountPath"] for mount in mounts}
    variables = {entry["name"] for entry in container(objects)["env"]}
    used = {value[2:-1] for value in flags(objects).values() if value.startswith("$(")}
    assert used <= variables
    assert flags(objects)["extProcImage"] == "$(EXTPROC_IMAGE)"


@every_rendering
def test_the_certificate_is_kept_by_the_controller_or_mounted(objects):
    (volume,) = [volume for volume in pod(objects)["volumes"] if volume["name"] == "certs"]
    (mount,) = [mount for mount in container(objects)["volumeMounts"] if mount["name"] == "certs"]
    managed = "tlsCertSecretName" in flags(objects)
    assert ("emptyDir" in volume, "secret" in volume) == (managed, not managed)
    assert mount.get("readOnly", False) is not managed
    assert flags(objects)["tlsCertDir"] == mount["mountPath"]
    for certificate in of(objects, "Certificate"):
        assert certificate["spec"]["secretName"] == volume["secret"]["secretName"]
        webhook = one(objects, "MutatingWebhookConfiguration")["metadata"]["annotations"]
        assert webhook["cert-manager.io/inject-ca-from"] == f"{NAMESPACE}/{certificate['metadata']['name']}"


@every_rendering
def test_flags_are_those_that_the_controller_has_and_can_be_read(objects):
    variables = {entry["name"]: entry.get("value", "from a Secret") for entry in container(objects)["env"]}
    _, *arguments = container(objects)["args"]
    expanded = [re.sub(r"\$\((\w+)\)", lambda name: variables[name[1]], argument) for argument in arguments]
    read = Flags.parse(expanded, {"POD_NAMESPACE": NAMESPACE})
    assert read.namespace == NAMESPACE
    assert read.envoy_gateway_namespace == "envoy-gateway-system"
    assert flags(objects)["endpointPrefixes"] == "openai:,cohere:/cohere,anthropic:/anthropic"


# Addresses are the container's ports; the namespace is the pod's own.
NOT_PASSED = {"port", "metricsAddress", "ratelimitXdsAddress", "namespace", "configVersion", "drainTime"}


def test_every_value_of_the_chart_reaches_its_flag():
    given = flags(RENDERINGS["helm everything"])
    assert set(given) == flag_names() - NOT_PASSED - {"tlsCertSecretName"}
    assert {name: given[name] for name in ("enableLeaderElection", "watchNamespaces", "extProcExtraEnvVars")} == {
        "enableLeaderElection": "false",
        "watchNamespaces": "team-a,team-b",
        "extProcExtraEnvVars": "OTEL_SERVICE_NAME=gateway;OTEL_TRACES_EXPORTER=otlp",
    }
    assert given["spanRequestHeaderAttributes"] == ""
    assert given["extensionServerEndpointsHook"] == "false"
    assert given["extProcMaxRecvMsgSize"] == "536870912"
    assert given["mcpSessionEncryptionSeed"] == "$(MCP_SESSION_ENCRYPTION_SEED)"


def test_the_ports_of_the_container_are_those_that_the_controller_listens_on():
    read = Flags.parse([], {})
    ports = {port["name"]: port["containerPort"] for port in container(RENDERINGS["kustomize"])["ports"]}
    assert ports == {
        "webhook": read.webhook_port,
        "grpc": read.port[1],
        "http-metrics": read.metrics_address[1],
        "ratelimit-xds": read.ratelimit_xds_address[1],
    }
    grace = pod(RENDERINGS["kustomize"])["terminationGracePeriodSeconds"]
    assert read.drain_time < grace


# --- what the controller may do ---


def rights(role: Object) -> set[Right]:
    """What a role grants of all objects, and not of one by its name."""
    rules = [rule for rule in role["rules"] if "resourceNames" not in rule]
    found = [
        Right(verb, group, resource)
        for rule in rules
        for group, resource, verb in product(rule["apiGroups"], rule["resources"], rule["verbs"])
    ]
    assert len(set(found)) == len(found)
    assert all("*" not in right for right in found)
    return set(found)


def cluster_role(objects: list[Object], suffix: str = "") -> Object:
    name = f"ai-gateway-controller{suffix}"
    (found,) = [role for role in of(objects, "ClusterRole") if role["metadata"]["name"] == name]
    return found


@every_rendering
def test_roles_grant_what_the_controller_says_that_it_asks_for(objects):
    assert rights(cluster_role(objects)) == WATCHED_RIGHTS
    assert rights(cluster_role(objects, "-cluster")) == CLUSTER_RIGHTS
    assert rights(one(objects, "Role")) == LEASE_RIGHTS


@every_rendering
def test_of_webhook_configurations_one_may_be_changed(objects):
    named = [rule for role in of(objects, "ClusterRole") for rule in role["rules"] if "resourceNames" in rule]
    (rule,) = named
    assert rule["resourceNames"] == [one(objects, "MutatingWebhookConfiguration")["metadata"]["name"]]
    asked = product(rule["verbs"], rule["apiGroups"], rule["resources"])
    assert {Right(*each) for each in asked} == WEBHOOK_RIGHTS


@every_rendering
def test_every_role_is_bound_to_somebody_who_exists(objects):
    account = one(objects, "ServiceAccount")["metadata"]
    assert pod(objects)["serviceAccountName"] == account["name"]
    roles = {(role["kind"], role["metadata"]["name"]) for kind in ("Role", "ClusterRole") for role in of(objects, kind)}
    bindings = [*of(objects, "RoleBinding"), *of(objects, "ClusterRoleBinding")]
    assert {(each["roleRef"]["kind"], each["roleRef"]["name"]) for each in bindings} == roles
    subjects = {(who["namespace"], who["name"]) for each in bindings for who in each["subjects"]}
    assert subjects == {(NAMESPACE, account["name"]), ("envoy-gateway-system", "envoy-gateway")}


def test_where_some_namespaces_are_watched_nothing_is_granted_in_others():
    objects = RENDERINGS["helm everything"]
    watched = cluster_role(objects)["metadata"]["name"]
    everywhere = {binding["roleRef"]["name"] for binding in of(objects, "ClusterRoleBinding")}
    assert watched not in everywhere
    bound = [each for each in of(objects, "RoleBinding") if each["roleRef"] == {**each["roleRef"], "name": watched}]
    places = [each["metadata"]["namespace"] for each in bound if each["roleRef"]["kind"] == "ClusterRole"]
    assert sorted(places) == sorted([*flags(objects)["watchNamespaces"].split(","), "envoy-gateway-system", NAMESPACE])
    for other in ("kustomize", "helm least", "helm peer"):
        bindings = of(RENDERINGS[other], "ClusterRoleBinding")
        assert watched in {binding["roleRef"]["name"] for binding in bindings}


# --- kustomize ---


@pytest.mark.parametrize("directory", [BASE, CERT_MANAGER], ids=lambda path: path.name)
def test_kubectl_builds_a_kustomization(directory):
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("no kubectl on the PATH")
    done = subprocess.run([program, "kustomize", directory], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    objects = documents(done.stdout)
    plain = {(value["kind"], value["metadata"]["name"]) for value in RENDERINGS["kustomize"]}
    assert plain <= {(value["kind"], value["metadata"]["name"]) for value in objects}
    test_the_certificate_is_kept_by_the_controller_or_mounted(objects)
    assert ("tlsCertSecretName" in flags(objects)) is (directory == BASE)


# --- values and generated files ---

SCHEMA = jsonschema.Draft7Validator(json.loads((CHART / "values.schema.json").read_text()))
BAD_VALUES: dict[str, tuple[str, Any]] = {
    "a misspelled key": ("controller.replicas", 3),
    "an unknown level": ("controller.logLevel", "verbose"),
    "a level that the processor does not know": ("extProc.logLevel", "trace"),
    "a prefix without a slash": ("endpointConfig.cohere", "cohere"),
    "a semicolon in a variable": ("extProc.extraEnvVars", [{"name": "A", "value": "b;c"}]),
    "a mapping without an attribute": ("controller.requestHeaderAttributes", "x-tenant"),
    "variables in a form that is no more": ("controller.podEnv", {"key": "A"}),
    "a part that there is not": ("controller.only", ["webhook"]),
    "no iterations": ("controller.mcp.sessionEncryption.iterations", 0),
    "a key in a nested part": ("controller.mutatingWebhook.certManager.enabled", True),
    "a part that the chart does not have": ("gateway.enabled", True),
    "a tag that YAML made a number of": ("controller.image.tag", 1.1),
    "a policy that does not exist": ("controller.mutatingWebhook.failurePolicy", "Sometimes"),
    "a port that does not exist": ("controller.mutatingWebhook.port", 70000),
    "an egress without a port": ("networkPolicy.egress.ports", []),
    "a peer that is no peer": ("networkPolicy.from", [{"namespace": "x"}]),
    "a label that is no text": ("controller.podLabels", {"number": 1}),
    "a volume without a name": ("controller.extraVolumes", [{"emptyDir": {}}]),
    "an argument that is no flag": ("controller.extraArgs", ["configVersion=v1"]),
    "no room for messages": ("controller.maxRecvMsgSize", "0"),
    "a disruption of what share": ("podDisruptionBudget.maxUnavailable", "half"),
    "a name that no Service has": ("controller.fullnameOverride", "AI_Gateway"),
    "a Secret that cannot be": ("controller.mutatingWebhook.tlsCertSecretName", "certs_"),
    "a namespace that cannot be": ("envoyGateway.namespace", "Envoy"),
    "an image with space in it": ("extProc.image.repository", "a b"),
    "the metrics' port for the webhook": ("controller.mutatingWebhook.port", 8080),
    "no time to list": ("controller.watch.cacheSyncTimeout", "0s"),
    "a limit service at no port": ("controller.quotaRateLimitServiceHost", "limits:http"),
    "two seeds": ("controller.mcp.sessionEncryption", {"existingSecret": "s", "seed": "x"}),
    "a Secret with a seed under no key": ("controller.mcp.sessionEncryption.existingSecretKey", ""),
    "a seed of before beside a Secret": (
        "controller.mcp.sessionEncryption",
        {"existingSecret": "s", "fallback": {"seed": "x"}},
    ),
    "a seed of before without one of now": ("controller.mcp.sessionEncryption.fallback.seed", "x"),
    "a key of before without a Secret": ("controller.mcp.sessionEncryption.fallback.existingSecretKey", "old"),
    "several writers": ("controller", {"replicaCount": 2, "leaderElection": {"enabled": False}}),
}


def test_the_charts_own_values_fit_their_schema():
    SCHEMA.validate(yaml.safe_load((CHART / "values.yaml").read_text()))


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_values_that_are_used_fit_the_schema(values):
    SCHEMA.validate(values)


@pytest.mark.parametrize(("path", "value"), BAD_VALUES.values(), ids=BAD_VALUES)
def test_a_bad_value_does_not(path, value):
    for key in reversed(path.split(".")):
        value = {key: value}
    assert not SCHEMA.is_valid(value)


GOOD_VALUES: dict[str, tuple[str, Any]] = {
    "a limit service by name": ("controller.quotaRateLimitServiceHost", "limits.ns"),
    "a limit service at a port": ("controller.quotaRateLimitServiceHost", "limits.ns:9"),
    "a limit service by an address": ("controller.quotaRateLimitServiceHost", "fd00::1"),
    "a limit service by an address at a port": ("controller.quotaRateLimitServiceHost", "[fd00::1]:9"),
    "a Secret with both seeds": (
        "controller.mcp.sessionEncryption",
        {"existingSecret": "s", "seed": "", "fallback": {"existingSecretKey": "old", "seed": ""}},
    ),
    "both seeds": (
        "controller.mcp.sessionEncryption",
        {"existingSecret": "", "seed": "x", "fallback": {"existingSecretKey": "", "seed": "y"}},
    ),
    "half a second to list": ("controller.watch.cacheSyncTimeout", "0.5s"),
}


@pytest.mark.parametrize(("path", "value"), GOOD_VALUES.values(), ids=GOOD_VALUES)
def test_a_good_value_does(path, value):
    for key in reversed(path.split(".")):
        value = {key: value}
    SCHEMA.validate(value)


@pytest.mark.parametrize(("only", "registered"), [("{controller}", False), ("{injector,extension-server}", True)])
def test_no_webhook_is_registered_that_nobody_answers(only, registered):
    made = documents(template("least", "--set", f"controller.only={only}"))
    assert ("MutatingWebhookConfiguration" in {value["kind"] for value in made}) is registered


# Objects in Kubernetes' own form, or of names that are up to somebody else.
OPEN_VALUES = {
    "global", "controller.resources", "controller.affinity", "controller.podSecurityContext",
    "controller.securityContext", "controller.podAnnotations", "controller.podLabels", "controller.nodeSelector",
    "controller.podEnv", "controller.mutatingWebhook.objectSelector", "controller.mutatingWebhook.namespaceSelector",
    "controller.serviceAccount.annotations", "controller.service.annotations", "dashboards.labels", "alerts.labels",
}  # fmt: skip


def test_only_what_is_kubernetes_own_takes_unknown_keys():
    def objects(schema: Object, path: str = "") -> Iterator[tuple[str, Object]]:
        if schema.get("type") == "object":
            yield path, schema
        for name, part in schema.get("properties", {}).items():
            yield from objects(part, f"{path}.{name}" if path else name)

    assert {
        path for path, part in objects(SCHEMA.schema) if part.get("additionalProperties") is not False
    } == OPEN_VALUES


def test_helm_asks_the_schema():
    program = shutil.which("helm")
    if program is None:
        pytest.skip("no helm on the PATH")
    done = subprocess.run(
        [program, "template", "aieg", CHART, "--set", "controller.replicas=3"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "replicas" in done.stderr


def test_every_value_has_a_default_and_every_default_a_schema():
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    # Of the peer's values, without an effect here: see the descriptions in the schema.
    unused = {"controller.podEnv", "controller.volumes", "controller.service.ports"}
    assert set(paths(SCHEMA.schema["properties"])) - unused == set(keys(defaults))


def paths(properties: Object, above: str = "") -> Iterator[str]:
    for name, schema in properties.items():
        if "properties" in schema:
            yield from paths(schema["properties"], f"{above}{name}.")
        else:
            yield f"{above}{name}"


def keys(values: Object, above: str = "") -> Iterator[str]:
    known = set(paths(SCHEMA.schema["properties"]))
    for name, value in values.items():
        if isinstance(value, dict) and f"{above}{name}" not in known:
            yield from keys(value, f"{above}{name}.")
        else:
            yield f"{above}{name}"


def test_envoy_gateway_is_told_of_the_service_and_of_every_list():
    values = yaml.safe_load((DEPLOY / "helm" / "envoy-gateway-values.yaml").read_text())
    manager = values["config"]["envoyGateway"]["extensionManager"]
    service = one(RENDERINGS["kustomize"], "Service")
    host = f"{service['metadata']['name']}.{NAMESPACE}.svc.cluster.local"
    assert manager["service"] == {"fqdn": {"hostname": host, "port": 1063}}
    hooks = manager["hooks"]["xdsTranslator"]
    assert hooks["translation"] == {part: {"includeAll": True} for part in ("listener", "route", "cluster", "secret")}
    # Those that are answered, and no other: Envoy Gateway would take their refusal for a failure.
    messages = {"Translation": "PostTranslateModify"}
    assert {messages.get(name, f"Post{name}Modify") for name in hooks["post"]} == set(HOOKS)
    size = manager["maxMessageSize"]
    for rendering in ("kustomize", "helm least"):
        assert size == f"{int(flags(RENDERINGS[rendering])['maxRecvMsgSize']) >> 20}Mi"


def test_generated_files_are_as_they_are_generated():
    for name, text in render().items():
        assert (DEPLOY / name).read_text() == text


def test_a_stale_file_is_told_and_then_written(tmp_path, capsys):
    assert main(["--check", "--directory", str(tmp_path)]) == 1
    assert "quotapolicies.yaml: out of date" in capsys.readouterr().err
    assert main(["--directory", str(tmp_path)]) == 0
    assert main(["--check", "--directory", str(tmp_path)]) == 0
