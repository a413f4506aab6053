"""A gateway's pods: what they should be, and the writes that make them so (contract, control plane 5).

The decision is the injector's, whose sidecar it is about. Pods are annotated before anything else is asked, so that
config updates reach processors at once also while a rollout hangs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from deploy.controller.kinds import WORKLOADS, Key, Object
from deploy.controller.options import ControllerOptions
from deploy.controller.store import Entry
from deploy.controller.writes import Patch, Write
from deploy.injector import names, rollout, sidecar
from deploy.injector.hashing import config_hash
from deploy.injector.options import SidecarOptions
from filter_config.sources.envoy_ai_gateway.resources import ExtProcContainer


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is to be done about the pods of a gateway."""

    writes: tuple[Write, ...] = ()
    requeue_after: float | None = None
    problem: str = ""


def decide(
    options: ControllerOptions,
    pods: Iterable[Entry],
    workloads: Iterable[Entry],
    *,
    uuid: str,
    container: ExtProcContainer | None,
    mcp: bool,
) -> Outcome:
    """The outcome for a gateway whose config has this id; none without a config."""
    if options.sidecar is None:
        return Outcome()
    desired = _desired(options, options.sidecar, uuid, container, mcp=mcp)
    there = rollout.pods([entry.value for entry in pods])
    if not uuid and not any(_has_any_sidecar(pod) for pod in there):
        # A gateway that never had anything to do with models.
        return Outcome()
    made = rollout.workloads([{**entry.value, "kind": entry.key.kind} for entry in workloads])
    decision = rollout.decide(there, made, desired)
    annotations = (*(decision.pods if uuid else ()), *decision.templates)
    return Outcome(writes=tuple(_patches(annotations)), requeue_after=decision.requeue_after, problem=decision.problem)


def _desired(
    options: ControllerOptions, injected: SidecarOptions, uuid: str, container: ExtProcContainer | None, *, mcp: bool
) -> rollout.Desired:
    native = options.native_sidecars
    return rollout.Desired(
        uuid=uuid,
        effective=bool(uuid),
        hash=config_hash(injected, container, native=native, mcp=mcp),
        image=sidecar.image(injected, container),
        log_level=injected.log_level,
        native=native,
        mcp=mcp,
    )


def _has_any_sidecar(pod: rollout.Pod) -> bool:
    return pod.counts and any(
        each.name == names.CONTAINER for each in (*pod.spec.containers, *pod.spec.init_containers)
    )


def _patches(annotations: Iterable[rollout.Annotate]) -> Iterator[Write]:
    for each in annotations:
        patch: Object = each.merge_patch
        yield Patch(key=Key(each.kind, each.namespace, each.name), patch=patch)


def namespaces(pods: Sequence[Entry], workloads: Sequence[Entry], envoy_gateway: str) -> list[str]:
    """Where a gateway runs: the namespaces of its workloads, or else those of its pods.

    When one of them is Envoy Gateway's own, where few may write, it is the only one.
    """
    live = [entry for entry in workloads if not entry.is_deleting] or [entry for entry in pods if not entry.is_deleting]
    assert all(entry.key.kind in (*WORKLOADS, "Pod") for entry in live)
    found = {entry.key.namespace for entry in live}
    return [envoy_gateway] if envoy_gateway in found else sorted(found)
