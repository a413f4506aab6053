"""The processor's container and volumes in a gateway pod (contract, control plane 4.3; server 1.11).

Arguments are those of the peer's controller, so that its image can be injected as well. What the peer's processor does
not know, and what must not be seen, goes by environment variables: each flag of ours has one. So the peer's image gets
no seeds of MCP sessions, and should not be given any MCPRoute here.

The container's root file system is read-only without a writable directory beside it: the processor writes nothing but
its socket, which is in a volume of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from deploy.injector import names
from filter_config.sources.emit import object_names

if TYPE_CHECKING:
    from deploy.injector.facts import Attached
    from deploy.injector.options import Seed, SidecarOptions
    from filter_config.sources.envoy_ai_gateway.resources import ExtProcContainer

Json = dict[str, Any]

SECURITY_CONTEXT: Final[Mapping[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "privileged": False,
    "readOnlyRootFilesystem": True,
    "runAsGroup": 65532,
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""The default; a GatewayConfig's replaces it as a whole."""

_SOCKET_MOUNT: Final[Mapping[str, Any]] = {"name": names.SOCKET_VOLUME, "mountPath": names.SOCKET_DIRECTORY}
# One slow answer must not take a whole gateway pod out of service, as the peer's threshold of 1 does.
_READINESS: Final[Mapping[str, Any]] = {
    "httpGet": {"path": "/health", "port": names.ADMIN_PORT, "scheme": "HTTP"},
    "initialDelaySeconds": 2,
    "timeoutSeconds": 5,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}

_SEED: Final = "EXTPROC_MCP_SESSION_ENCRYPTION_SEED"
_FALLBACK_SEED: Final = "EXTPROC_MCP_FALLBACK_SESSION_ENCRYPTION_SEED"
_DRAIN: Final = "EXTPROC_DRAIN_SECONDS"

# Seconds. The processor's own default, what it may take after the drain, how long Envoy drains unless it is told, and
# what Envoy Gateway adds to that for the pod's grace period. Without one, Kubernetes gives 30.
_LEAST_DRAIN: Final = 15
_AFTER_DRAIN: Final = 35
_ENVOY_DRAIN: Final = 60
_ENVOY_GATEWAY_MARGIN: Final = 300
_DEFAULT_GRACE: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What the sidecar of one pod depends on.

    Attributes:
        bundle: whether the Secret with the index of the sharded config exists.
        legacy: whether the Secret with the config as one document exists.
        native: whether the container is an init container that goes on running.
        grace: seconds that the pod gets to end, where it says so.
        volumes: names of the volumes that the pod has.
    """

    gateway: names.GatewayRef
    attached: Attached
    bundle: bool
    legacy: bool
    native: bool
    grace: int | None = None
    volumes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """What is added to a pod."""

    container: Json
    volumes: tuple[Json, ...]
    pull_secrets: tuple[Json, ...]
    envoy_mount: Json = field(default_factory=lambda: dict(_SOCKET_MOUNT))
    warnings: tuple[str, ...] = ()


def build(subject: Subject, options: SidecarOptions, config: ExtProcContainer | None) -> Sidecar:
    """The sidecar of a pod. What a GatewayConfig says and cannot be used is left out, with a warning."""
    volumes, mounts = _config_volumes(subject)
    warnings: list[str] = []
    extra = _Extra(config, warnings)
    known = subject.volumes | {volume["name"] for volume in volumes}
    container: Json = {
        "name": names.CONTAINER,
        "image": image(options, config),
        "imagePullPolicy": options.image_pull_policy,
        "ports": [{"name": names.ADMIN_PORT_NAME, "containerPort": names.ADMIN_PORT, "protocol": "TCP"}],
        "args": list(_arguments(subject, options)),
        "env": _environment(subject, options, extra.env()),
        "volumeMounts": [dict(_SOCKET_MOUNT), *extra.mounts(known, mounts), *mounts],
        "securityContext": extra.mapping("security_context", "securityContext") or dict(SECURITY_CONTEXT),
        "readinessProbe": dict(_READINESS),
        "resources": extra.mapping("resources", "resources") or {},
    }
    if subject.native:
        container["restartPolicy"] = "Always"
    if subject.attached.mcp_routes and options.mcp_seed is None:
        warnings.append("MCP sessions are encrypted with a seed that everybody knows: the controller has none")
    return Sidecar(
        container=container,
        volumes=tuple(volumes),
        pull_secrets=tuple({"name": name} for name in options.pull_secrets),
        warnings=tuple(warnings),
    )


# --- image ---


def image(options: SidecarOptions, config: ExtProcContainer | None) -> str:
    """The image of a gateway's processor."""
    if config is not None and config.image:
        return config.image
    if config is not None and config.image_repository:
        return config.image_repository + _tag(options.image)
    return options.image


def _tag(reference: str) -> str:
    """The tag or digest of an image, with what separates it. A colon before the last slash is a port's."""
    name, at, digest = reference.partition("@")
    if at:
        return at + digest
    _, colon, tag = name.rpartition("/")[2].partition(":")
    return colon + tag


# --- volumes ---


def _config_volumes(subject: Subject) -> tuple[list[Json], list[Json]]:
    """The socket's volume and those of the config that there are, and where the processor has the latter."""
    secrets = object_names(subject.gateway.namespace, subject.gateway.name)
    mine = names.volume_names(subject.gateway)
    volumes: list[Json] = [{"name": names.SOCKET_VOLUME, "emptyDir": {}}]
    mounts: list[Json] = []
    if subject.legacy:
        volumes.append({"name": mine.legacy, "secret": {"secretName": secrets.legacy}})
        mounts.append({"name": mine.legacy, "mountPath": names.LEGACY_DIRECTORY, "readOnly": True})
    if subject.bundle:
        index = {"secret": {"name": secrets.index, "items": [{"key": "index.yaml", "path": "index.yaml"}]}}
        # Every slot, used or not, so that a config may grow without a new pod.
        parts = [_part(name, number) for number, name in enumerate(secrets.parts)]
        volumes.append({"name": mine.bundle, "projected": {"sources": [index, *parts]}})
        mounts.append({"name": mine.bundle, "mountPath": names.BUNDLE_DIRECTORY, "readOnly": True})
    return volumes, mounts


def _part(secret: str, number: int) -> Json:
    return {
        "secret": {"name": secret, "items": [{"key": "chunk", "path": f"parts/{number:03d}"}], "optional": True},
    }


# --- arguments and environment ---


def _arguments(subject: Subject, options: SidecarOptions) -> Iterator[str]:
    return (_literal(argument) for argument in _plain_arguments(subject, options))


def _literal(argument: str) -> str:
    """An argument that Kubernetes, which replaces ``$(NAME)`` by a variable, passes on as it is."""
    return argument.replace("$", "$$")


def _plain_arguments(subject: Subject, options: SidecarOptions) -> Iterator[str]:
    if subject.bundle:
        yield from ("-configBundlePath", names.BUNDLE_DIRECTORY)
    else:
        yield from ("-configPath", f"{names.LEGACY_DIRECTORY}/{names.LEGACY_FILE}")
    yield from ("-logLevel", options.log_level, "-extProcAddr", names.SOCKET_ADDRESS)
    yield from ("-adminPort", str(names.ADMIN_PORT), "-rootPrefix", options.root_prefix)
    yield from ("-maxRecvMsgSize", str(options.max_recv_msg_size))
    if options.log_format != "text":
        yield from ("-logFormat", options.log_format)
    if subject.attached.mcp_routes:
        yield from ("-mcpAddr", names.MCP_ADDRESS)
        yield from _iterations("-mcpSessionEncryptionIterations", options.mcp_seed)
        yield from _iterations("-mcpFallbackSessionEncryptionIterations", options.mcp_fallback_seed)
    attributes = options.header_attributes
    for flag, value in (
        ("-requestHeaderAttributes", attributes.request),
        ("-spanRequestHeaderAttributes", attributes.span),
        ("-metricsRequestHeaderAttributes", attributes.metrics),
        ("-logRequestHeaderAttributes", attributes.log),
    ):
        if value is not None:
            yield from (flag, value)
    if options.endpoint_prefixes:
        yield from ("-endpointPrefixes", options.endpoint_prefixes)
    if options.enable_redaction:
        yield "-enableRedaction"


def _iterations(flag: str, seed: Seed | None) -> Iterator[str]:
    if seed is not None:
        yield from (flag, str(seed.iterations))


def _environment(subject: Subject, options: SidecarOptions, own: Iterable[Json]) -> list[Json]:
    """Ours, then the controller's, then the GatewayConfig's; a later one takes the place of an earlier one's value."""
    ours: list[Json] = [{"name": _DRAIN, "value": str(drain_seconds(native=subject.native, grace=subject.grace))}]
    if subject.attached.mcp_routes:
        seeds = ((_SEED, options.mcp_seed), (_FALLBACK_SEED, options.mcp_fallback_seed))
        ours += [_from_secret(name, seed, subject.gateway) for name, seed in seeds if seed is not None]
    extra = ({"name": name, "value": value} for name, value in options.extra_env)
    by_name: dict[str, Json] = {}
    for entry in (*ours, *extra, *own):
        by_name[entry["name"]] = entry
    return list(by_name.values())


def _from_secret(name: str, seed: Seed, gateway: names.GatewayRef) -> Json:
    # Not optional: without its seed the processor would take the one that everybody knows.
    secret = names.seed_secret(seed.secret, gateway)
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": seed.key}}}


def drain_seconds(*, native: bool, grace: int | None) -> int:
    """How long the processor goes on serving after SIGTERM.

    A native sidecar is told to end when Envoy has ended, so nobody sends it anything any more. A plain container is
    told while Envoy begins to drain, and has to outlast that (field report BR-107). How long Envoy drains is not in the
    pod, but Envoy Gateway gives the pod 300 s more than that to end.

    Args:
        native: whether Kubernetes ends the container after Envoy.
        grace: seconds that the pod gets to end, where it says so.
    """
    if native:
        return 0
    given = _DEFAULT_GRACE if grace is None else grace
    return max(_LEAST_DRAIN, min(given - _AFTER_DRAIN, max(_ENVOY_DRAIN, given - _ENVOY_GATEWAY_MARGIN)))


# --- what a GatewayConfig adds ---


class _Extra:
    """Parts of a GatewayConfig that are passed on, as far as the API server would take them.

    It refuses a pod whose mount has no volume, or two mounts of one path, and then there is no gateway at all.
    """

    def __init__(self, config: ExtProcContainer | None, warnings: list[str]) -> None:
        self._config = config
        self._warnings = warnings

    def env(self) -> Iterator[Json]:
        for index, entry in enumerate(self._config.env if self._config else ()):
            if isinstance(entry, dict) and isinstance(entry.get("name"), str) and entry["name"]:
                yield entry
            else:
                self._ignore(f"env[{index}]", "it has no name")

    def mapping(self, attribute: str, key: str) -> Json | None:
        value: Any = getattr(self._config, attribute, None)
        if value is None or isinstance(value, dict):
            return value
        self._ignore(key, "it is no mapping")
        return None

    def mounts(self, volumes: frozenset[str], ours: Iterable[Json]) -> Iterator[Json]:
        taken = {names.SOCKET_DIRECTORY, *(mount["mountPath"] for mount in ours)}
        for index, entry in enumerate(self._config.volume_mounts if self._config else ()):
            fault = _mount_fault(entry, volumes, taken)
            if fault:
                self._ignore(f"volumeMounts[{index}]", fault)
            else:
                taken.add(entry["mountPath"])
                yield entry

    def _ignore(self, where: str, why: str) -> None:
        self._warnings.append(f"GatewayConfig: spec.extProc.kubernetes.{where} is ignored: {why}")


def _mount_fault(entry: Any, volumes: frozenset[str], taken: set[str]) -> str:  # noqa: ANN401 - any JSON
    if not isinstance(entry, dict):
        return "it is no mapping"
    name, path = entry.get("name"), entry.get("mountPath")
    if not isinstance(path, str) or not path:
        return "it has no mountPath"
    if path in taken:
        return f"something else is mounted at {path}"
    if not isinstance(name, str) or name not in volumes:
        return f"the pod has no volume {name!r}; EnvoyProxy can add one"
    return ""
