"""What the controller's flags say about the processor's container (contract, control plane 0)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

DEFAULT_MAX_RECV_MSG_SIZE: Final = 512 * 1024 * 1024
DEFAULT_ITERATIONS: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """A seed of MCP session encryption. Only where it is, never the seed: pods and their arguments can be read widely.

    Attributes:
        secret: name of the Secret, in the namespace of the pod, without the gateway's hash that ends it.
        key: the key in it.
        iterations: PBKDF2 iterations.
        version: any text that changes when the seed does, so that pods roll for it.
    """

    secret: str
    key: str
    iterations: int = DEFAULT_ITERATIONS
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderAttributes:
    """Mappings of headers to attributes, in the processor's grammar. None is not given, empty says "none"."""

    request: str | None = None
    span: str | None = None
    metrics: str | None = None
    log: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarOptions:
    """How processors are run that no GatewayConfig says anything else about.

    Attributes:
        image: the processor's image, built by ``deploy/Dockerfile``.
        extra_env: environment variables, name and value.
        pull_secrets: Secrets for pulling the image, in the namespace of the pod.
        mcp_seed: without one, the processor uses its default, which everybody knows.
        mcp_fallback_seed: the seed before a rotation.
    """

    image: str
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    log_level: str = "info"
    log_format: Literal["text", "json"] = "text"
    enable_redaction: bool = False
    root_prefix: str = "/"
    endpoint_prefixes: str = ""
    header_attributes: HeaderAttributes = field(default_factory=HeaderAttributes)
    max_recv_msg_size: int = DEFAULT_MAX_RECV_MSG_SIZE
    extra_env: tuple[tuple[str, str], ...] = ()
    pull_secrets: tuple[str, ...] = ()
    mcp_seed: Seed | None = None
    mcp_fallback_seed: Seed | None = None
