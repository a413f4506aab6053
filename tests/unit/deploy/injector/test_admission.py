"""Which pods get the sidecar. What they get is in the golden files and in ``test_sidecar``."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.injector import names, review
from deploy.injector.facts import Attached
from deploy.injector.review import Result
from filter_config.sources.emit import object_names
from tests.unit.deploy.injector.cluster import (
    GATEWAY,
    NAMES,
    NAMESPACE,
    NEW,
    OLD,
    OPTIONS,
    Cluster,
    admitted,
    answer,
    container_of,
    injected,
    mount_faults,
    pod,
)


def labelled(**labels):
    value = pod()
    value["metadata"]["labels"] |= labels
    value["metadata"]["labels"] = {key: label for key, label in value["metadata"]["labels"].items() if label != ""}
    return value


WITHOUT_A_LABEL = {
    "no name": labelled(**{names.GATEWAY_NAME_LABEL: ""}),
    "no namespace": labelled(**{names.GATEWAY_NAMESPACE_LABEL: ""}),
    "no labels": {**pod(), "metadata": {}},
    "labels that are null": {**pod(), "metadata": {"labels": None}},
    "a label that is no text": labelled(**{names.GATEWAY_NAME_LABEL: 3}),
}


@pytest.mark.parametrize("value", WITHOUT_A_LABEL.values(), ids=WITHOUT_A_LABEL.keys())
def test_without_a_label_nothing_is_looked_up(value):
    cluster = Cluster()

    assert answer(value, cluster).result is Result.UNCHANGED
    assert cluster.asked == []


@pytest.mark.parametrize("place", ["containers", "initContainers"])
def test_a_pod_with_the_sidecar_is_left_alone(place):
    value = pod()
    value["spec"].setdefault(place, []).append({"name": "ai-gateway-extproc", "image": "peer:v1"})
    cluster = Cluster()

    assert answer(value, cluster).result is Result.UNCHANGED
    assert cluster.asked == []


ATTACHED = {
    "AI routes": (Attached(ai_routes=True), Result.INJECTED),
    "MCP routes": (Attached(mcp_routes=True), Result.INJECTED),
    "none": (Attached(), Result.UNCHANGED),
}


@pytest.mark.parametrize(("attached", "result"), ATTACHED.values(), ids=ATTACHED.keys())
def test_any_route_is_a_reason(attached, result):
    assert answer(pod(), Cluster(routes={GATEWAY: attached})).result is result


SECRETS = {
    "both": ({NAMES.index, NAMES.legacy}, "-configBundlePath"),
    "the bundle": ({NAMES.index}, "-configBundlePath"),
    "the single one": ({NAMES.legacy}, "-configPath"),
}


@pytest.mark.parametrize(("secrets", "flag"), SECRETS.values(), ids=SECRETS.keys())
def test_the_config_comes_from_the_secrets_that_there_are(secrets, flag):
    after, sidecar = injected(pod(), Cluster(secrets={(NAMESPACE, name) for name in secrets}))

    assert sidecar["args"][0] == flag
    mounted = {mount["mountPath"] for mount in sidecar["volumeMounts"]}
    assert ("/etc/filter-config-bundle" in mounted) is (NAMES.index in secrets)
    assert ("/etc/filter-config" in mounted) is (NAMES.legacy in secrets)
    assert mount_faults(after) == []


def test_secrets_of_another_namespace_do_not_count():
    cluster = Cluster(secrets={(GATEWAY.namespace, NAMES.index), (GATEWAY.namespace, NAMES.legacy)})

    assert answer(pod(), cluster).result is Result.UNCHANGED
    assert answer(pod(), cluster, namespace=GATEWAY.namespace).result is Result.INJECTED


def test_a_gateway_whose_name_is_too_long_for_the_single_secret():
    gateway = names.GatewayRef(namespace="ns1", name="g" * 253)
    cluster = Cluster(
        routes={gateway: Attached(ai_routes=True)},
        secrets={(NAMESPACE, object_names(gateway.namespace, gateway.name).index)},
    )

    after, sidecar = injected(labelled(**{names.GATEWAY_NAME_LABEL: gateway.name}), cluster)

    assert [mount["mountPath"] for mount in sidecar["volumeMounts"]] == [
        "/etc/ai-gateway-extproc-uds",
        "/etc/filter-config-bundle",
    ]
    assert mount_faults(after) == []


@pytest.mark.parametrize("unknown", ["routes", "secrets", "version", "config"])
def test_what_is_not_known_of_the_cluster_lets_the_pod_pass(unknown):
    given_answer = answer(pod(), Cluster(unknown=unknown))

    assert given_answer.result is Result.PASSED
    assert given_answer.patch == ()
    assert given_answer.warnings == (
        f"ai-gateway-extproc was not injected: the {unknown} cannot be read: the watch is broken",
    )


def changed(path, value):
    result = pod()
    target = result
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return result


NOT_UNDERSTOOD = {
    "no object": (None, {}, "the object of the pod is no mapping"),
    "no spec": (changed(["spec"], None), {}, "spec of the pod is no mapping"),
    "metadata that is a list": ({"metadata": []}, {}, "metadata of the pod is no mapping"),
    "annotations that are a text": (changed(["metadata", "annotations"], "a"), {}, "metadata.annotations of the pod"),
    "containers that are a mapping": (changed(["spec", "containers"], {}), {}, "spec.containers of the pod is no list"),
    "a volume that is a text": (changed(["spec", "volumes"], ["a"]), {}, "spec.volumes of the pod is no list"),
    "no Envoy": (changed(["spec", "containers"], [{"name": "other"}]), {}, "the pod has no container 'envoy'"),
    "mounts that are a text": (
        changed(["spec", "containers"], [{"name": "envoy", "volumeMounts": "a"}]),
        {},
        "volumeMounts of Envoy of the pod is no list",
    ),
    "something else at the socket's place": (
        changed(
            ["spec", "containers"],
            [{"name": "envoy", "volumeMounts": [{"name": "x", "mountPath": "/etc/ai-gateway-extproc-uds"}]}],
        ),
        {},
        "the pod has something else called /etc/ai-gateway-extproc-uds",
    ),
    "an update": (pod(), {"operation": "UPDATE"}, "registered for UPDATE"),
    "a subresource": (pod(), {"subResource": "ephemeralcontainers"}, "something else than pods"),
}


@pytest.mark.parametrize(("value", "members", "warning"), NOT_UNDERSTOOD.values(), ids=NOT_UNDERSTOOD.keys())
def test_what_is_not_understood_passes_with_a_warning(value, members, warning):
    given_answer = answer(value, **members)

    assert given_answer.result is Result.PASSED
    assert given_answer.patch == ()
    assert warning in given_answer.warnings[0]


def test_what_is_half_there_is_completed():
    after, _ = injected(pod())
    half = copy.deepcopy(after)
    half["spec"]["initContainers"] = []

    again, _ = injected(half)

    assert again == after


def test_null_is_as_good_as_nothing():
    value = pod(initContainers=[], imagePullSecrets=[])
    value["spec"] |= {"initContainers": None, "volumes": None}
    value["metadata"]["annotations"] = None

    after, sidecar = injected(value)

    assert after["spec"]["initContainers"] == [sidecar]
    assert after["metadata"]["annotations"].keys() == {names.HASH_ANNOTATION}


def test_the_pod_says_what_it_was_injected_from():
    one, _ = injected(pod())
    same, _ = injected(pod())
    other, _ = injected(pod(), Cluster(containers={GATEWAY: container_of({"image": "other"})}))

    digests = [value["metadata"]["annotations"][names.HASH_ANNOTATION] for value in (one, same, other)]
    assert digests[0] == digests[1] != digests[2]


def test_the_annotation_of_the_template_is_replaced_by_what_is_true():
    value = pod()
    value["metadata"]["annotations"] = {names.HASH_ANNOTATION: "of yesterday", "a": "b"}

    after, _ = injected(value)

    assert after["metadata"]["annotations"][names.HASH_ANNOTATION] != "of yesterday"
    assert after["metadata"]["annotations"]["a"] == "b"


CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["envoy", "shutdown-manager", "other"])},
        optional={
            "volumeMounts": st.lists(
                st.fixed_dictionaries({"name": st.just("sds"), "mountPath": st.sampled_from(["/a", "/b"])}),
                max_size=2,
                unique_by=lambda mount: mount["mountPath"],
            ),
            "tomorrow": st.integers(),
        },
    ),
    max_size=3,
    unique_by=lambda container: container["name"],
)
VOLUMES = st.lists(
    st.sampled_from([{"name": "scratch", "emptyDir": {}}, {"name": "other", "configMap": {"name": "a"}}]),
    unique_by=lambda volume: volume["name"],
).map(lambda more: [{"name": "sds", "emptyDir": {}}, *more])
PODS = st.builds(
    pod,
    containers=CONTAINERS,
    volumes=VOLUMES,
    initContainers=st.none() | st.just([]) | st.just([{"name": "first"}]),
    imagePullSecrets=st.none() | st.just([{"name": "one"}]),
    terminationGracePeriodSeconds=st.none() | st.integers(0, 10_000),
)
MOUNTS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "name": st.sampled_from(["sds", "scratch", "nowhere", "ai-gateway-extproc-uds"]),
            "mountPath": st.sampled_from(["/tmp", "/x", "/etc/filter-config", "/etc/ai-gateway-extproc-uds", ""]),
        },
    )
    | st.just("text"),
    max_size=4,
)
CLUSTERS = st.builds(
    Cluster,
    routes=st.builds(Attached, ai_routes=st.booleans(), mcp_routes=st.booleans()).map(lambda some: {GATEWAY: some}),
    secrets=st.sets(st.sampled_from([(NAMESPACE, NAMES.index), (NAMESPACE, NAMES.legacy)])),
    version=st.sampled_from([NEW, OLD, None]),
    containers=st.fixed_dictionaries(
        {}, optional={"volumeMounts": MOUNTS, "env": st.lists(st.just({"name": "A"}))}
    ).map(lambda value: {GATEWAY: container_of(value)}),
)


@settings(max_examples=60)
@given(PODS, CLUSTERS)
def test_any_pod_is_one_that_the_api_server_takes_and_a_second_time_changes_nothing(value, cluster):
    before = json.dumps(value)

    once = admitted(value, review.write(answer(value, cluster)))
    again = answer(once, cluster, OPTIONS)

    assert json.dumps(value) == before
    assert again.patch == ()
    assert mount_faults(once) == []
    # What was there is there, where it was.
    for key in ("containers", "volumes", "initContainers", "imagePullSecrets"):
        was = [item.get("name") for item in value["spec"].get(key) or []]
        assert [item.get("name") for item in once["spec"].get(key) or []][: len(was)] == was
