"""The manifests and the chart's renderings: that what refers to something finds it, and what pods and roles may do."""

from __future__ import annotations

import hashlib
import json
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
from deploy.controller.kinds import KINDS
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
    rules = CHART / "files" / "cluster-role-rules.yaml"
    for path in sorted([*CHART.glob("templates/*"), CHART / "Chart.yaml", CHART / "values.yaml", rules]):
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
    names = [(value["kind"], value["metadata"]["name"]) for value in objects]
    assert len(set(names)) == len(names)
    for value in objects:
        namespace = value["metadata"].get("namespace")
        assert namespace == (None if value["kind"] in OF_THE_CLUSTER else NAMESPACE)


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
    for policy in of(objects, "NetworkPolicy"):
        assert {port["port"] for entry in policy["spec"]["ingress"] for port in entry["ports"]} == set(named)


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


# Flags of the controller (contract, control plane 0), and two that the contract does not have: which of the three parts
# run, and the Secret that the controller keeps the webhook's certificate in.
FLAGS = {
    "only", "tlsCertSecretName", "envoyGatewayNamespace", "extProcImage", "extProcImagePullPolicy",
    "extProcLogLevel", "logLevel", "extProcLogFormat", "logFormat", "extProcEnableRedaction",
    "extProcExtraEnvVars", "extProcImagePullSecrets", "extProcMaxRecvMsgSize", "maxRecvMsgSize",
    "enableLeaderElection", "port", "webhookPort", "tlsCertDir", "tlsCertName", "tlsKeyName", "caBundleName",
    "requestHeaderAttributes", "spanRequestHeaderAttributes", "logRequestHeaderAttributes",
    "metricsRequestHeaderAttributes", "endpointPrefixes", "rootPrefix", "watchNamespaces", "cacheSyncTimeout",
    "mcpSessionEncryptionSeed", "mcpSessionEncryptionIterations", "mcpFallbackSessionEncryptionSeed",
    "mcpFallbackSessionEncryptionIterations", "quotaRateLimitServiceAddr", "quotaRateLimitTimeout",
    "quotaRateLimitFailureModeDeny",
}  # fmt: skip


@every_rendering
def test_flags_are_those_that_the_controller_has(objects):
    assert set(flags(objects)) <= FLAGS
    assert flags(objects)["endpointPrefixes"] == "openai:,cohere:/cohere,anthropic:/anthropic"


def test_every_value_of_the_chart_reaches_its_flag():
    given = flags(RENDERINGS["helm everything"])
    assert set(given) == FLAGS - {"port", "tlsCertSecretName"}
    assert {name: given[name] for name in ("enableLeaderElection", "watchNamespaces", "extProcExtraEnvVars")} == {
        "enableLeaderElection": "false",
        "watchNamespaces": "team-a,team-b",
        "extProcExtraEnvVars": "OTEL_SERVICE_NAME=gateway;OTEL_TRACES_EXPORTER=otlp",
    }
    assert given["spanRequestHeaderAttributes"] == ""
    assert given["extProcMaxRecvMsgSize"] == "536870912"
    assert given["mcpSessionEncryptionSeed"] == "$(MCP_SESSION_ENCRYPTION_SEED)"


# --- what the controller may do ---


def rights(role: Object) -> set[tuple[str, str, str]]:
    found = [right for rule in role["rules"] for right in product(rule["apiGroups"], rule["resources"], rule["verbs"])]
    assert len(set(found)) == len(found)
    assert all("*" not in right for right in found)
    return set(found)


def role_of_the_controller(objects: list[Object]) -> Object:
    return next(role for role in of(objects, "ClusterRole") if role["metadata"]["name"] == "ai-gateway-controller")


@every_rendering
def test_what_is_watched_may_be_read_and_nothing_else(objects):
    given = rights(role_of_the_controller(objects))
    readable = {(group, resource) for group, resource, verb in given if verb == "watch"}
    assert readable == {(kind.group, kind.plural) for kind in KINDS.values()}
    for group, resource in readable:
        assert {(group, resource, verb) for verb in ("get", "list", "watch")} <= given
    parts = {(group, resource.partition("/")[0]) for group, resource, _ in given}
    assert parts == readable


@every_rendering
def test_only_what_the_controller_makes_may_be_created_and_deleted(objects):
    given = rights(role_of_the_controller(objects))
    made = {"httproutes", "backends", "httproutefilters", "securitypolicies", "backendtrafficpolicies", "secrets"}
    for verb in ("create", "delete"):
        assert {resource for _, resource, granted in given if granted == verb} == made
    assert {verb for *_, verb in given} == {"get", "list", "watch", "create", "patch", "delete"}


@every_rendering
def test_the_cluster_is_changed_at_one_name_and_leases_in_one_namespace(objects):
    (webhook,) = [role for role in of(objects, "ClusterRole") if role["metadata"]["name"].endswith("-webhook")]
    (rule,) = webhook["rules"]
    assert rule["resourceNames"] == [one(objects, "MutatingWebhookConfiguration")["metadata"]["name"]]
    assert rule["verbs"] == ["get", "patch"]
    assert rights(one(objects, "Role")) == {
        ("coordination.k8s.io", "leases", verb) for verb in ("get", "create", "update")
    }


@every_rendering
def test_every_role_is_bound_to_somebody_who_exists(objects):
    account = one(objects, "ServiceAccount")["metadata"]
    assert pod(objects)["serviceAccountName"] == account["name"]
    roles = {(role["kind"], role["metadata"]["name"]) for kind in ("Role", "ClusterRole") for role in of(objects, kind)}
    bindings = [*of(objects, "RoleBinding"), *of(objects, "ClusterRoleBinding")]
    assert {(each["roleRef"]["kind"], each["roleRef"]["name"]) for each in bindings} == roles
    subjects = {(who["namespace"], who["name"]) for each in bindings for who in each["subjects"]}
    assert subjects == {(NAMESPACE, account["name"]), ("envoy-gateway-system", "envoy-gateway")}


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
    "a prefix without a slash": ("endpointConfig.cohere", "cohere"),
    "a semicolon in a variable": ("extProc.extraEnvVars", [{"name": "A", "value": "b;c"}]),
    "a mapping without an attribute": ("controller.requestHeaderAttributes", "x-tenant"),
    "variables in a form that is no more": ("controller.podEnv", {"key": "A"}),
    "a part that there is not": ("controller.only", ["webhook"]),
    "no iterations": ("controller.mcp.sessionEncryption.iterations", 0),
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
    assert hooks["post"] == ["Translation", "Cluster", "Route"]
    size = manager["maxMessageSize"]
    assert size == f"{int(flags(RENDERINGS['helm least'])['maxRecvMsgSize']) >> 20}Mi"


def test_generated_files_are_as_they_are_generated():
    for name, text in render().items():
        assert (DEPLOY / name).read_text() == text


def test_a_stale_file_is_told_and_then_written(tmp_path, capsys):
    assert main(["--check", "--directory", str(tmp_path)]) == 1
    assert "quotapolicies.yaml: out of date" in capsys.readouterr().err
    assert main(["--directory", str(tmp_path)]) == 0
    assert main(["--check", "--directory", str(tmp_path)]) == 0
