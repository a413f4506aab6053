"""The decision about one pod: unchanged, or with the processor beside Envoy (contract, control plane 4.2).

A pod is never refused here. Whatever is not understood passes unchanged with a warning, and the controller's rollout
repairs it when it is understood: a gateway without a processor still serves what needs none. Mutating twice is the same
as once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from deploy.injector import names
from deploy.injector.facts import ClusterFacts, FactsUnknown
from deploy.injector.hashing import config_hash
from deploy.injector.patch import Operation, append, pointer, put
from deploy.injector.review import AdmissionRequest, Answer, Result
from deploy.injector.sidecar import Sidecar, Subject, build
from filter_config.sources.emit import object_names

if TYPE_CHECKING:
    from deploy.injector.options import SidecarOptions

_LISTS: Final = ("containers", "initContainers", "volumes", "imagePullSecrets")


class _Unchanged(Exception):
    """There is nothing to do; the text says why."""


class _NotUnderstood(Exception):
    """Something is not as expected; the text says what."""


def mutate(request: AdmissionRequest, facts: ClusterFacts, options: SidecarOptions) -> Answer:
    """The answer to a request of the API server."""
    try:
        return _inject(request, facts, options)
    except _Unchanged as reason:
        return Answer(uid=request.uid, result=Result.UNCHANGED, reason=str(reason))
    except (_NotUnderstood, FactsUnknown) as reason:
        return passed(request, str(reason))


def passed(request: AdmissionRequest, reason: str) -> Answer:
    """A pod as it is, with a warning."""
    warning = f"{names.CONTAINER} was not injected: {reason}"
    return Answer(uid=request.uid, result=Result.PASSED, warnings=(warning,), reason=reason)


def _inject(request: AdmissionRequest, facts: ClusterFacts, options: SidecarOptions) -> Answer:
    _expect_new_pod(request)
    pod = _Pod.of(request.object)
    gateway = _gateway(pod.labels)
    if pod.has_sidecar:
        raise _Unchanged("the sidecar is there")
    attached = facts.attached(gateway)
    if not attached:
        raise _Unchanged("no route is attached to the gateway")
    envoy = pod.envoy_index()
    bundle, legacy = _config_secrets(facts, request.namespace, gateway)
    if not (bundle or legacy):
        raise _Unchanged("the gateway's filter config is not there yet")
    version = facts.kubernetes_version()
    native = version is not None and version.has_native_sidecars
    config = facts.extproc_container(gateway)
    subject = Subject(
        gateway=gateway,
        attached=attached,
        bundle=bundle,
        legacy=legacy,
        native=native,
        grace=pod.grace,
        volumes=frozenset(pod.volumes),
    )
    sidecar = build(subject, options, config)
    digest = config_hash(options, config, native=native, mcp=attached.mcp_routes)
    unknown = () if version is not None else ("the version of Kubernetes is unknown, so the sidecar is a container",)
    return Answer(
        uid=request.uid,
        result=Result.INJECTED,
        patch=tuple(_patch(pod, envoy, sidecar, native=native, digest=digest)),
        warnings=unknown + sidecar.warnings,
    )


def _expect_new_pod(request: AdmissionRequest) -> None:
    resource = request.resource
    if (resource.group, resource.resource, request.sub_resource) != ("", "pods", ""):
        raise _NotUnderstood("the webhook is registered for something else than pods")
    if request.operation != "CREATE":
        raise _NotUnderstood(
            f"the webhook is registered for {request.operation or 'no operation'}, not only for CREATE"
        )


def _gateway(labels: Mapping[str, Any]) -> names.GatewayRef:
    """Whose pod it is. Without both labels nothing is looked up at all."""
    name, namespace = labels.get(names.GATEWAY_NAME_LABEL), labels.get(names.GATEWAY_NAMESPACE_LABEL)
    if not (isinstance(name, str) and name and isinstance(namespace, str) and namespace):
        raise _Unchanged("it is no pod of one gateway")
    return names.GatewayRef(namespace=namespace, name=name)


def _config_secrets(facts: ClusterFacts, namespace: str, gateway: names.GatewayRef) -> tuple[bool, bool]:
    """Whether the bundle's index and the single Secret are in the pod's namespace, where alone it can mount them."""
    secrets = object_names(gateway.namespace, gateway.name)
    bundle = facts.secret_exists(namespace, secrets.index)
    return bundle, bool(secrets.legacy) and facts.secret_exists(namespace, secrets.legacy)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pod:
    """The parts of a pod that are looked at; None is what it does not have."""

    labels: Mapping[str, Any]
    annotations: Mapping[str, Any] | None
    lists: Mapping[str, Sequence[Mapping[str, Any]] | None]
    grace: int | None

    @classmethod
    def of(cls, value: object) -> _Pod:
        pod = _mapping(value, "the object")
        metadata = _mapping(pod.get("metadata", {}), "metadata")
        labels = _mapping(metadata.get("labels") or {}, "metadata.labels")
        # Whose pod it is comes first: nothing else is said about pods of others.
        _gateway(labels)
        spec = _mapping(pod.get("spec"), "spec")
        annotations = metadata.get("annotations")
        grace = spec.get("terminationGracePeriodSeconds")
        return cls(
            labels=labels,
            annotations=None if annotations is None else _mapping(annotations, "metadata.annotations"),
            lists={key: _objects(spec.get(key), f"spec.{key}") for key in _LISTS},
            grace=grace if isinstance(grace, int) and not isinstance(grace, bool) else None,
        )

    @property
    def has_sidecar(self) -> bool:
        places = [*(self.lists["containers"] or ()), *(self.lists["initContainers"] or ())]
        return any(container.get("name") == names.CONTAINER for container in places)

    @property
    def volumes(self) -> dict[str, Mapping[str, Any]]:
        return {str(volume.get("name")): volume for volume in self.lists["volumes"] or ()}

    def envoy_index(self) -> int:
        for index, container in enumerate(self.lists["containers"] or ()):
            if container.get("name") == names.ENVOY_CONTAINER:
                return index
        raise _NotUnderstood(f"the pod has no container {names.ENVOY_CONTAINER!r}")


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    raise _NotUnderstood(f"{what} of the pod is no mapping")


def _objects(value: object, what: str) -> Sequence[Mapping[str, Any]] | None:
    if value is None:
        return None
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return value
    raise _NotUnderstood(f"{what} of the pod is no list of mappings")


def _patch(pod: _Pod, envoy: int, sidecar: Sidecar, *, native: bool, digest: str) -> Iterator[Operation]:
    yield from put("/metadata/annotations", pod.annotations, names.HASH_ANNOTATION, digest)
    yield from _append(pod, "volumes", _missing(sidecar.volumes, pod.volumes))
    there = pod.lists["imagePullSecrets"] or ()
    yield from _append(pod, "imagePullSecrets", [secret for secret in sidecar.pull_secrets if secret not in there])
    yield from _append(pod, "initContainers" if native else "containers", [sidecar.container])
    containers = pod.lists["containers"] or ()
    mounts = _objects(containers[envoy].get("volumeMounts"), "volumeMounts of Envoy")
    # Half of an injection may be there, in a pod that somebody copied: what is as it should be stays.
    taken = {str(mount.get("mountPath")): mount for mount in mounts or ()}
    wanted = _missing((sidecar.envoy_mount,), taken, key="mountPath")
    yield from append(pointer("spec", "containers", envoy, "volumeMounts"), mounts, wanted)


def _append(pod: _Pod, key: str, items: Sequence[Any]) -> Iterator[Operation]:
    return append(pointer("spec", key), pod.lists[key], items)


def _missing(
    items: Sequence[dict[str, Any]], there: Mapping[str, Mapping[str, Any]], *, key: str = "name"
) -> list[dict[str, Any]]:
    """The items that are not there yet. One that is there and is different belongs to somebody else."""
    missing = [item for item in items if item[key] not in there]
    for item in items:
        if item not in missing and there[item[key]] != item:
            raise _NotUnderstood(f"the pod has something else called {item[key]}")
    return missing
