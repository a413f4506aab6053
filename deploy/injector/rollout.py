"""Which pods of a gateway are annotated, and whether its workloads roll (contract, control plane 5).

A function of what the API server holds: no clock, no client. Two things go before the peer's order. Pods are annotated
whatever else is the case, as the kubelet refreshes mounted Secrets for that. And a rollout in progress does not hold up
a change of the injection's inputs: when it hangs, for an image that does not exist perhaps, that change is the cure.

NB: the annotations of ``Pod`` and ``Workload`` are evaluated, so there is no ``from __future__ import annotations``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import msgspec

from deploy.injector import names

REQUEUE_SECONDS: Final = 5.0
ATTEMPTS: Final = 3
"""How often a gateway rolls for one config because its pods come back other than they should."""

_DEPLOYMENT: Final = "Deployment"
_ENDED: Final = frozenset({"Succeeded", "Failed"})


# --- what the API server holds ---


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of an object of Kubernetes: the fields of interest, and whatever else."""


class _Container(_Part, frozen=True, kw_only=True):
    name: str = ""
    image: str = ""
    args: tuple[str, ...] = ()


class _PodSpec(_Part, frozen=True, kw_only=True):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()


class _Metadata(_Part, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    deletion_timestamp: str | None = None
    generation: int = 0


class _Phase(_Part, frozen=True, kw_only=True):
    phase: str = ""


class Pod(_Part, frozen=True, kw_only=True):
    """A pod of a gateway."""

    metadata: _Metadata
    spec: _PodSpec = _PodSpec()
    status: _Phase = _Phase()

    @property
    def counts(self) -> bool:
        """Whether it serves or will; one that is being deleted, or was evicted, does not."""
        return self.metadata.deletion_timestamp is None and self.status.phase not in _ENDED


class _Template(_Part, frozen=True, kw_only=True):
    metadata: _Metadata = _Metadata()


class _WorkloadSpec(_Part, frozen=True, kw_only=True):
    template: _Template = _Template()


class _Condition(_Part, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""


class _WorkloadStatus(_Part, frozen=True, kw_only=True):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    current_number_scheduled: int = 0
    updated_number_scheduled: int = 0
    conditions: tuple[_Condition, ...] = ()


class Workload(_Part, frozen=True, kw_only=True):
    """A Deployment or DaemonSet of a gateway. ``kind`` has to be there, which lists of the API server leave out."""

    kind: str
    metadata: _Metadata
    spec: _WorkloadSpec = _WorkloadSpec()
    status: _WorkloadStatus = _WorkloadStatus()

    @property
    def template_annotations(self) -> Mapping[str, str]:
        """Those that its pods begin with."""
        return self.spec.template.metadata.annotations

    @property
    def is_rolling(self) -> bool:
        """Whether pods of an older template are being replaced, or soon will."""
        observed, wanted, status = self.status.observed_generation, self.metadata.generation, self.status
        if self.kind == _DEPLOYMENT:
            return observed < wanted or status.replicas > status.updated_replicas
        return 0 < observed < wanted or status.current_number_scheduled > status.updated_number_scheduled

    @property
    def is_stuck(self) -> bool:
        """Whether Kubernetes has given up waiting for the rollout; it says so of Deployments only."""
        given_up = any(
            (condition.type, condition.status, condition.reason) == ("Progressing", "False", "ProgressDeadlineExceeded")
            for condition in self.status.conditions
        )
        return given_up and self.status.observed_generation >= self.metadata.generation


def pods(objects: Sequence[Any]) -> tuple[Pod, ...]:
    """Pods as the API server writes them, parsed from JSON.

    Raises:
        msgspec.ValidationError: one is none.
    """
    return msgspec.convert(objects, tuple[Pod, ...])


def workloads(objects: Sequence[Any]) -> tuple[Workload, ...]:
    """Deployments and DaemonSets, likewise."""
    return msgspec.convert(objects, tuple[Workload, ...])


# --- the decision ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """What a gateway's pods should be.

    Attributes:
        uuid: id of the compiled config.
        effective: whether anything is attached, so that there should be a sidecar.
        hash: see ``hashing.config_hash``.
        image: of the processor, see ``sidecar.image``.
        log_level: of the processor.
        native: whether the sidecar is an init container.
        mcp: whether an MCPRoute is attached.
    """

    uuid: str
    effective: bool
    hash: str
    image: str
    log_level: str
    native: bool
    mcp: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotate:
    """Annotations to merge into those of a pod, or of a workload's template; ``kind`` is Pod for the former."""

    kind: str
    namespace: str
    name: str
    annotations: Mapping[str, str]

    @property
    def merge_patch(self) -> dict[str, Any]:
        """The JSON merge patch (RFC 7396) of the object."""
        inner = {"metadata": {"annotations": dict(self.annotations)}}
        return inner if self.kind == "Pod" else {"spec": {"template": inner}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is to be done, in this order: annotate pods, patch templates, look again.

    Attributes:
        pods: annotations of pods.
        templates: annotations of templates, each of which begins a rollout.
        requeue_after: seconds, where there is something to wait for.
        problem: why the gateway is not as it should be and nothing more is done about it.
    """

    pods: tuple[Annotate, ...] = ()
    templates: tuple[Annotate, ...] = ()
    requeue_after: float | None = None
    problem: str = ""


def has_sidecar(pod: Pod, desired: Desired) -> bool:
    """Whether a pod has the sidecar that it should have, as far as can be seen; any at all, if it should have none."""
    if not desired.effective:
        return any(container.name == names.CONTAINER for container in pod.spec.init_containers + pod.spec.containers)
    places = pod.spec.init_containers if desired.native else pod.spec.containers
    return any(_is_desired(container, desired) for container in places)


def _is_desired(container: _Container, desired: Desired) -> bool:
    return (
        (container.name, container.image) == (names.CONTAINER, desired.image)
        and _value(container.args, "-logLevel") == desired.log_level
        # One that is not needed any more does no harm.
        and (not desired.mcp or "-mcpAddr" in container.args)
    )


def _value(args: Sequence[str], flag: str) -> str | None:
    return next((value for name, value in pairwise(args) if name == flag), None)


def decide(pods: Sequence[Pod], workloads: Sequence[Workload], desired: Desired) -> Decision:
    """What is to be done about a gateway's pods."""
    alive = [pod for pod in pods if pod.counts]
    wrong = any(has_sidecar(pod, desired) != desired.effective for pod in alive)
    outdated = desired.effective and not _all_stamped(alive, desired)
    rolling = any(workload.is_rolling and not workload.is_stuck for workload in workloads)
    templates: list[Annotate] = []
    exhausted = False
    for workload in workloads:
        annotations = _hash_rollout(workload, desired) if outdated else {}
        if wrong and not rolling:
            state = _state_rollout(workload, desired, fresh=bool(annotations))
            exhausted = exhausted or not state
            annotations = {**state, **annotations}
        if annotations:
            templates.append(_annotate(workload.kind, workload.metadata, annotations))
    return Decision(
        pods=tuple(_annotate_pods(alive, desired)),
        templates=tuple(templates),
        requeue_after=REQUEUE_SECONDS if rolling else None,
        problem=_problem(desired) if exhausted else "",
    )


def _all_stamped(alive: Sequence[Pod], desired: Desired) -> bool:
    """Whether the webhook made every pod from today's inputs; then a template without their hash is no reason to roll.

    That is so for a gateway whose pods came after its config, or are still to come.
    """
    return all(pod.metadata.annotations.get(names.HASH_ANNOTATION) == desired.hash for pod in alive)


def _hash_rollout(workload: Workload, desired: Desired) -> dict[str, str]:
    if workload.template_annotations.get(names.HASH_ANNOTATION) == desired.hash:
        return {}
    return {names.HASH_ANNOTATION: desired.hash}


def _state_rollout(workload: Workload, desired: Desired, *, fresh: bool) -> dict[str, str]:
    """A value that the template does not have yet: a merge patch of what is there begins no rollout.

    The config's id is a hash of its content, so that the template may well have it from an earlier rollout. Then the
    attempts are counted behind it. Nothing when there were enough.
    """
    current = workload.template_annotations.get(names.UUID_ANNOTATION, "")
    uuid, _, count = current.partition(".")
    if fresh or uuid != desired.uuid:
        return {names.UUID_ANNOTATION: desired.uuid}
    attempts = int(count) if count.isascii() and count.isdigit() else 1
    return {names.UUID_ANNOTATION: f"{desired.uuid}.{attempts + 1}"} if attempts < ATTEMPTS else {}


def _problem(desired: Desired) -> str:
    with_or_without = "without" if desired.effective else "with"
    return (
        f"pods come back {with_or_without} the sidecar of this config after {ATTEMPTS} rollouts: "
        "look at the webhook's configuration, its log and the warnings of the pods"
    )


def _annotate_pods(alive: Sequence[Pod], desired: Desired) -> Iterator[Annotate]:
    for pod in alive:
        if pod.metadata.annotations.get(names.UUID_ANNOTATION) != desired.uuid:
            yield _annotate("Pod", pod.metadata, {names.UUID_ANNOTATION: desired.uuid})


def _annotate(kind: str, of: _Metadata, annotations: Mapping[str, str]) -> Annotate:
    return Annotate(kind=kind, namespace=of.namespace, name=of.name, annotations=annotations)
