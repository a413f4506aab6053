"""Seeds of MCP sessions, in Secrets where pods find them (contract, control plane 4.3).

The peer writes seeds into the arguments of containers, which many may read. Here a gateway with MCPRoutes gets a Secret
beside its filter config, and its processors a reference to it. Pods that have the reference keep the Secret also when
the last MCPRoute goes, as a container that starts again could not without.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from deploy.controller import config_secrets
from deploy.controller.kinds import Key, Object
from deploy.controller.store import Entry
from deploy.injector import names
from deploy.injector.options import Seed
from filter_config.redact import Secret

SEED_KEY: Final = "seed"
FALLBACK_KEY: Final = "fallbackSeed"

_PREFIX: Final = "ai-eg-mcp-seed"
# Who may read pods sees a hash that this goes into, and could try seeds; each try costs a tenth of a second.
_VERSION_SALT: Final = b"envoy-llm-extproc: version of an MCP seed"
_VERSION_ITERATIONS: Final = 200_000


def seed(key: str, value: Secret, iterations: int) -> Seed:
    """What pods are told of a seed: where it is, and a version that is another for another seed."""
    digest = hashlib.pbkdf2_hmac("sha256", value.reveal().encode(), _VERSION_SALT, _VERSION_ITERATIONS)
    return Seed(secret=_PREFIX, key=key, iterations=iterations, version=digest.hex())


def objects(
    gateway: Key, namespaces: Sequence[str], seeds: Mapping[str, Secret], pods: Iterable[Entry], *, mcp: bool
) -> Iterator[Object]:
    """The Secrets with the seeds of a gateway.

    Args:
        gateway: that they are for.
        namespaces: where it runs.
        seeds: by key; empty for none.
        pods: of the gateway.
        mcp: whether it has an MCPRoute.
    """
    name = names.seed_secret(_PREFIX, names.GatewayRef(namespace=gateway.namespace, name=gateway.name))
    if seeds and (mcp or any(_refers(entry.value, name) for entry in pods)):
        content = {key: value.reveal().encode() for key, value in seeds.items()}
        for namespace in namespaces:
            yield config_secrets.secret(gateway, namespace, name, content)


def _refers(pod: Mapping[str, Any], secret: str) -> bool:
    spec = pod.get("spec") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    sources = [variable.get("valueFrom") or {} for each in containers for variable in each.get("env") or ()]
    return any((source.get("secretKeyRef") or {}).get("name") == secret for source in sources)
