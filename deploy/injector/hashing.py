"""A hash of everything that decides what the webhook injects (contract, control plane 5.3).

When it changes, pods that were injected earlier are not what they would be today, and the gateway rolls. Which of the
config Secrets exist is not part of it: they come and go without a new pod. The peer's hash is another, so a gateway
rolls once when it changes hands.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from deploy.injector import names

if TYPE_CHECKING:
    from deploy.injector.options import SidecarOptions
    from filter_config.sources.envoy_ai_gateway.resources import ExtProcContainer

FORM: Final = 1
"""Counted up when the same inputs give another sidecar, so that a new controller rolls the pods of an old one."""


def config_hash(options: SidecarOptions, config: ExtProcContainer | None, *, native: bool, mcp: bool) -> str:
    """The value of the annotation ``aigateway.envoyproxy.io/extproc-config-hash``.

    Args:
        options: what the controller's flags say.
        config: what the GatewayConfig says, if there is one.
        native: whether the cluster gets native sidecars.
        mcp: whether an MCPRoute is attached; what only concerns MCP counts then alone.
    """
    if not mcp:
        options = dataclasses.replace(options, mcp_seed=None, mcp_fallback_seed=None)
    inputs = (FORM, names.SOCKET_ADDRESS, options, native, mcp, config)
    return hashlib.sha256(msgspec.json.encode(inputs, order="deterministic")).hexdigest()
