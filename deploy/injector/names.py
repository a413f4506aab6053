"""Names and paths in gateway pods, fixed by the contract (control plane 4.3, 10.2): both control planes write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from filter_config.sources.emit import object_names

CONTAINER: Final = "ai-gateway-extproc"
ENVOY_CONTAINER: Final = "envoy"

GATEWAY_NAME_LABEL: Final = "gateway.envoyproxy.io/owning-gateway-name"
GATEWAY_NAMESPACE_LABEL: Final = "gateway.envoyproxy.io/owning-gateway-namespace"
UUID_ANNOTATION: Final = "aigateway.envoyproxy.io/uuid"
HASH_ANNOTATION: Final = "aigateway.envoyproxy.io/extproc-config-hash"

SOCKET_VOLUME: Final = "ai-gateway-extproc-uds"
SOCKET_DIRECTORY: Final = "/etc/ai-gateway-extproc-uds"
SOCKET_ADDRESS: Final = f"unix://{SOCKET_DIRECTORY}/run.sock"
LEGACY_DIRECTORY: Final = "/etc/filter-config"
LEGACY_FILE: Final = "filter-config.yaml"
BUNDLE_DIRECTORY: Final = "/etc/filter-config-bundle"

ADMIN_PORT: Final = 1064
ADMIN_PORT_NAME: Final = "aigw-admin"
MCP_ADDRESS: Final = ":9856"

_MAX_VOLUME_NAME: Final = 63
_BUNDLE_SUFFIX: Final = "-bundle"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRef:
    """A Gateway."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeNames:
    """Names of the volumes with a gateway's filter config."""

    legacy: str
    bundle: str


def seed_secret(prefix: str, gateway: GatewayRef) -> str:
    """The Secret with a gateway's seeds of MCP sessions. Each gateway has its own, which goes with it."""
    return f"{prefix}-{_digest(gateway)}"


def volume_names(gateway: GatewayRef) -> VolumeNames:
    """The names for a gateway.

    A volume's name is a DNS label, a gateway's may have dots; the hash keeps apart what then reads the same.
    """
    digest = _digest(gateway)
    base = f"ai-gateway-{gateway.name}-{gateway.namespace}".replace(".", "-").strip("-")
    return VolumeNames(
        legacy=_shortened(base, digest, _MAX_VOLUME_NAME),
        bundle=_shortened(base, digest, _MAX_VOLUME_NAME - len(_BUNDLE_SUFFIX)) + _BUNDLE_SUFFIX,
    )


def _digest(gateway: GatewayRef) -> str:
    # The index Secret's name ends in the hash of the gateway.
    return object_names(gateway.namespace, gateway.name).index.rpartition("-")[2]


def _shortened(base: str, digest: str, room: int) -> str:
    return f"{base[: room - len(digest) - 1].strip('-')}-{digest}"
