"""Annotations and rollouts of a gateway, by the state of its pods and workloads."""

from __future__ import annotations

import copy
import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.injector import names, rollout
from deploy.injector.hashing import config_hash
from deploy.injector.rollout import ATTEMPTS, Desired, decide
from deploy.injector.sidecar import image
from tests.unit.deploy.injector.cluster import GATEWAY, NEW, OPTIONS, Cluster, container_of, injected
from tests.unit.deploy.injector.cluster import pod as bare_pod

UUID = "ab12"
DESIRED = Desired(uuid=UUID, effective=True, hash="h1", image="x:1", log_level="info", native=True, mcp=False)
NOT_ANY_MORE = dataclasses.replace(DESIRED, effective=False)
BEFORE = {names.UUID_ANNOTATION: "of yesterday"}
DONE = {names.HASH_ANNOTATION: "h1"}


def pod(
    name="p",
    *,
    sidecar=True,
    native=True,
    called="ai-gateway-extproc",
    image="x:1",
    args=("-logLevel", "info"),
    annotations=None,
    **more,
):
    spec = {"containers": [{"name": "envoy"}], "initContainers": []}
    if sidecar:
        container = {"name": called, "image": image, "args": list(args)}
        spec["initContainers" if native else "containers"].append(container)
    metadata = {"name": name, "namespace": "ns", "annotations": {names.UUID_ANNOTATION: UUID, **(annotations or {})}}
    return {"metadata": {**metadata, **more.pop("metadata", {})}, "spec": spec, **more}


def deployment(annotations=None, *, replicas=1, updated=1, generation=1, observed=1, conditions=()):
    return {
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "ns", "generation": generation},
        "spec": {"template": {"metadata": {"creationTimestamp": None, "annotations": dict(annotations or {})}}},
        "status": {
            "replicas": replicas,
            "updatedReplicas": updated,
            "observedGeneration": observed,
            "conditions": list(conditions),
        },
    }


def daemon_set(annotations=None, *, current=1, updated=1, generation=1, observed=1):
    return {
        **deployment(annotations, generation=generation),
        "kind": "DaemonSet",
        "status": {
            "currentNumberScheduled": current,
            "updatedNumberScheduled": updated,
            "observedGeneration": observed,
        },
    }


def decided(pods, workloads, desired=DESIRED):
    return decide(rollout.pods(pods), rollout.workloads(workloads), desired)


def templates(decision):
    return [dict(patch.annotations) for patch in decision.templates]


STATE = {names.UUID_ANNOTATION: UUID}
HASH = {names.HASH_ANNOTATION: "h1"}

# pods, annotations of the template, desired, what the template gets
DECISIONS = {
    "all is well": ([pod()], DONE, DESIRED, None),
    "no pod yet": ([], DONE, DESIRED, None),
    "no pod yet, and no inputs noted": ([], {}, DESIRED, None),
    "something else runs the image": ([pod(called="other")], DONE, DESIRED, STATE),
    "the sidecar is missing": ([pod(sidecar=False)], DONE, DESIRED, STATE),
    "it is in the wrong place": ([pod(native=False)], DONE, DESIRED, STATE),
    "it is another image": ([pod(image="x:2")], DONE, DESIRED, STATE),
    "another log level": ([pod(args=("-logLevel", "debug"))], DONE, DESIRED, STATE),
    "a value that reads like the flag": ([pod(args=("-rootPrefix", "-logLevel", "info"))], DONE, DESIRED, None),
    "no log level": ([pod(args=("-logLevel",))], DONE, DESIRED, STATE),
    "one of two is missing": ([pod(), pod("q", sidecar=False)], DONE, DESIRED, STATE),
    "the other has been evicted": ([pod(), pod("q", sidecar=False, status={"phase": "Failed"})], DONE, DESIRED, None),
    "the other is being deleted": (
        [pod(), pod("q", sidecar=False, metadata={"deletionTimestamp": "2024-01-01T00:00:00Z"})],
        DONE,
        DESIRED,
        None,
    ),
    "MCP is missing": ([pod()], DONE, dataclasses.replace(DESIRED, mcp=True), STATE),
    "MCP is there": (
        [pod(args=("-logLevel", "info", "-mcpAddr", ":9856"))],
        DONE,
        dataclasses.replace(DESIRED, mcp=True),
        None,
    ),
    "MCP is not needed any more": ([pod(args=("-logLevel", "info", "-mcpAddr", ":9856"))], DONE, DESIRED, None),
    "the inputs changed": ([pod()], {names.HASH_ANNOTATION: "h0"}, DESIRED, HASH),
    "the inputs were never noted": ([pod()], {}, DESIRED, HASH),
    "but every pod was made from them": ([pod(annotations=HASH)], {}, DESIRED, None),
    "not every pod was": ([pod(annotations=HASH), pod("q")], {}, DESIRED, HASH),
    "the inputs and the image changed": ([pod(image="x:2")], {names.HASH_ANNOTATION: "h0"}, DESIRED, STATE | HASH),
    "the last route is gone": ([pod()], DONE, NOT_ANY_MORE, STATE),
    "it went with another image": ([pod(image="x:0")], DONE, NOT_ANY_MORE, STATE),
    "it went long ago": ([pod(sidecar=False)], {names.HASH_ANNOTATION: "h0"}, NOT_ANY_MORE, None),
    "it is gone from one of two": ([pod(), pod("q", sidecar=False)], DONE, NOT_ANY_MORE, STATE),
}


@pytest.mark.parametrize("make", [deployment, daemon_set])
@pytest.mark.parametrize(("pods", "annotations", "desired", "expected"), DECISIONS.values(), ids=DECISIONS.keys())
def test_whether_a_gateway_rolls(pods, annotations, desired, expected, make):
    decision = decided(pods, [make(BEFORE | annotations)], desired)

    assert templates(decision) == ([expected] if expected else [])
    assert decision.requeue_after is None
    assert decision.problem == ""


ROLLING = {
    "a generation that is not observed": deployment(BEFORE, generation=2),
    "replicas of an older template": deployment(BEFORE, replicas=3, updated=2),
    "a DaemonSet's generation": daemon_set(BEFORE, generation=2),
    "a DaemonSet's older pods": daemon_set(BEFORE, current=3, updated=1),
}
STEADY = {
    "a Deployment": deployment(BEFORE),
    "a Deployment that is scaled down": deployment(BEFORE, replicas=1, updated=2),
    "a DaemonSet": daemon_set(BEFORE),
    "a DaemonSet that nobody observed yet": daemon_set(BEFORE, generation=2, observed=0),
}


@pytest.mark.parametrize("workload", ROLLING.values(), ids=ROLLING.keys())
def test_while_pods_are_replaced_it_waits_but_annotates(workload):
    pods = [pod(annotations={names.UUID_ANNOTATION: "old"}), pod("q", sidecar=False)]
    workload = copy.deepcopy(workload)
    workload["spec"]["template"]["metadata"]["annotations"] |= DONE

    decision = decided(pods, [workload])

    assert decision.templates == ()
    assert decision.requeue_after == 5.0
    assert [(patch.name, patch.merge_patch) for patch in decision.pods] == [
        ("p", {"metadata": {"annotations": {names.UUID_ANNOTATION: UUID}}})
    ]


@pytest.mark.parametrize("workload", ROLLING.values(), ids=ROLLING.keys())
def test_a_change_of_the_inputs_cures_a_rollout_that_hangs(workload):
    decision = decided([pod(image="does-not:exist"), pod("q", image="x:0")], [workload])

    assert templates(decision) == [HASH]
    assert decision.requeue_after == 5.0


@pytest.mark.parametrize("workload", STEADY.values(), ids=STEADY.keys())
def test_what_is_no_rollout(workload):
    assert decided([pod(sidecar=False)], [workload]).templates != ()
    assert decided([pod(sidecar=False)], [workload]).requeue_after is None


GIVEN_UP = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}


@pytest.mark.parametrize(
    ("condition", "rolls"),
    [(GIVEN_UP, True), ({**GIVEN_UP, "status": "True"}, False), ({**GIVEN_UP, "reason": "Other"}, False)],
)
def test_a_rollout_that_kubernetes_gave_up_is_none(condition, rolls):
    workload = deployment(BEFORE | DONE, replicas=2, updated=1, conditions=[condition])

    decision = decided([pod(), pod("q", sidecar=False)], [workload])

    assert templates(decision) == ([STATE] if rolls else [])
    assert (decision.requeue_after is None) is rolls


def test_a_deadline_of_an_older_template_does_not_count():
    workload = deployment(BEFORE | DONE, generation=2, conditions=[GIVEN_UP])

    assert decided([pod(sidecar=False)], [workload]).templates == ()


def test_the_patch_of_a_template():
    (patch,) = decided([pod(sidecar=False)], [deployment(BEFORE | DONE)]).templates

    assert (patch.kind, patch.namespace, patch.name) == ("Deployment", "ns", "d")
    assert patch.merge_patch == {"spec": {"template": {"metadata": {"annotations": STATE}}}}


def test_pods_that_keep_coming_back_without_it_are_not_rolled_forever():
    workload = deployment(DONE)
    seen = []
    for _ in range(ATTEMPTS + 2):
        decision = decided([pod(sidecar=False)], [workload])
        for patch in decision.templates:
            # Each value is new, as the same again would begin no rollout.
            assert patch.annotations[names.UUID_ANNOTATION] not in seen
            seen.append(patch.annotations[names.UUID_ANNOTATION])
            workload["spec"]["template"]["metadata"]["annotations"].update(patch.annotations)

    assert seen == ["ab12", "ab12.2", "ab12.3"]
    assert decision.templates == ()
    assert "without the sidecar" in decision.problem


def test_another_config_is_another_chance():
    workload = deployment(DONE | {names.UUID_ANNOTATION: f"{UUID}.{ATTEMPTS}"})
    assert decided([pod(sidecar=False)], [workload]).problem

    other = decided([pod(sidecar=False)], [workload], dataclasses.replace(DESIRED, uuid="cd34"))
    changed = decided([pod(sidecar=False)], [workload], dataclasses.replace(DESIRED, hash="h2"))

    assert templates(other) == [{names.UUID_ANNOTATION: "cd34"}]
    assert templates(changed) == [{names.UUID_ANNOTATION: UUID, names.HASH_ANNOTATION: "h2"}]


def test_an_annotation_of_somebody_else_is_an_attempt():
    workload = deployment(DONE | {names.UUID_ANNOTATION: f"{UUID}.x"})

    assert templates(decided([pod(sidecar=False)], [workload])) == [{names.UUID_ANNOTATION: f"{UUID}.2"}]


def test_every_workload_rolls():
    workloads = [deployment(BEFORE | DONE), daemon_set(BEFORE)]

    decision = decided([pod(sidecar=False)], workloads)

    assert [patch.kind for patch in decision.templates] == ["Deployment", "DaemonSet"]
    assert templates(decision) == [STATE, STATE | HASH]


def test_pods_that_were_injected_are_what_is_desired():
    config = container_of({"imageRepository": "mirror.test/x"})
    cluster = Cluster(containers={GATEWAY: config})
    after, _ = injected(bare_pod(), cluster)
    desired = Desired(
        uuid=UUID,
        effective=True,
        hash=config_hash(OPTIONS, config, native=NEW.has_native_sidecars, mcp=False),
        image=image(OPTIONS, config),
        log_level=OPTIONS.log_level,
        native=True,
        mcp=False,
    )

    decision = decided([after], [deployment()], desired)

    assert decision.templates == ()


WORKLOADS = st.lists(
    st.builds(
        deployment,
        st.fixed_dictionaries(
            {},
            optional={
                names.UUID_ANNOTATION: st.sampled_from(["", UUID, f"{UUID}.2", f"{UUID}.3", "old", "old.3"]),
                names.HASH_ANNOTATION: st.sampled_from(["h0", "h1"]),
            },
        ),
    )
    | st.builds(daemon_set, st.just({})),
    max_size=2,
)
PODS = st.lists(
    st.builds(
        pod,
        sidecar=st.booleans(),
        image=st.sampled_from(["x:1", "x:2"]),
        annotations=st.sampled_from([{}, {names.UUID_ANNOTATION: "old"}, HASH]),
    ),
    max_size=3,
)


@settings(max_examples=60)
@given(PODS, WORKLOADS, st.booleans())
def test_a_gateway_comes_to_rest(pods, workloads, effective):
    """Whatever the start, when pods are made as they should be, two rounds later nothing is written any more."""
    desired = dataclasses.replace(DESIRED, effective=effective)
    pods, workloads = copy.deepcopy(pods), copy.deepcopy(workloads)
    for _ in range(2):
        decision = decided(pods, workloads, desired)
        for patch in decision.templates:
            workload = next(each for each in workloads if each["kind"] == patch.kind)
            workload["spec"]["template"]["metadata"]["annotations"].update(patch.annotations)
        for each in pods:
            each["metadata"]["annotations"][names.UUID_ANNOTATION] = UUID
        if decision.templates:
            pods = [pod(f"new-{index}", sidecar=effective) for index, _ in enumerate(pods)]
    kinds = [each["kind"] for each in workloads]
    if len(set(kinds)) == len(kinds):
        # Pods without a workload that could make them anew stay as they are; no gateway has such ones.
        decision = decided(pods, workloads, desired)
        assert decision.templates == () or decision.problem
        assert decision.pods == ()
