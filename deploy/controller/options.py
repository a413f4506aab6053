"""What the controller is told by its flags (contract, control plane 0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from deploy.controller.closure import CONTROLLER
from deploy.injector.options import SidecarOptions
from filter_config.load import DEVELOPMENT_VERSION
from filter_config.redact import Secret

LEASE_NAME: Final = "envoy-ai-gateway-controller"
"""Id of the leader election; the peer's, so that the two never lead at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """How resources become objects.

    Attributes:
        sidecar: how the webhook injects; None: nobody injects, and no workload is rolled.
        mcp_seeds: seeds of MCP sessions by their keys in Secrets, to which the sidecar refers; empty: it does not.
        version: of the processors that read the filter configs.
        root_prefix: path prefix of every generated match.
        envoy_gateway_namespace: where Envoy Gateway puts its proxies unless they are in their Gateways' namespaces.
        controller: name by which GatewayClasses are Envoy Gateway's.
        native_sidecars: whether the cluster gets the sidecar as an init container.
    """

    sidecar: SidecarOptions | None = None
    mcp_seeds: Mapping[str, Secret] = field(default_factory=dict)
    version: str = DEVELOPMENT_VERSION
    root_prefix: str = "/"
    envoy_gateway_namespace: str = "envoy-gateway-system"
    controller: str = CONTROLLER
    native_sidecars: bool = True
