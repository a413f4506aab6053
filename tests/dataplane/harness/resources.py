"""Resources of an AI gateway in front of upstreams of a test: compiled as a user's files are, for both planes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deploy.envoy.bootstrap import LISTENER
from deploy.envoy.compile import Serving, envoy_gateway
from tests.support import gateway_resources as resources

if TYPE_CHECKING:
    from collections.abc import Callable

    from deploy.envoy.model import Gateway
    from tests.dataplane.harness.stack import Stack
    from tests.support.gateway_resources import Resource


def provider(name: str, *upstreams: Any, tls: Resource | None = None, **spec: Any) -> list[Resource]:
    """A backend with the addresses of upstreams, under the host name ``<name>.test``."""
    addresses = [
        {"ip": {"address": "127.0.0.1", "port": upstream.port}, "hostname": f"{name}.test"} for upstream in upstreams
    ]
    fields = {"endpoints": addresses, **({"tls": tls} if tls is not None else {})}
    return [resources.service(name, **spec), resources.endpoint(name, **fields)]


def serve(
    start_stack: Callable[..., Stack],
    *given: Resource,
    adjust: Callable[[Gateway], Gateway] = lambda gateway: gateway,
    faults: int | None = 0,
    **fields: Any,
) -> Stack:
    """A stack of the one gateway of the resources. Every port is one of Envoy's choice.

    The first listener is the stack's; ``adjust`` may change the Envoy before it is built. As many ``faults`` are
    meant, None: however many there are.
    """
    result = resources.compiled(*given)
    assert faults is None or len(result.faults) == faults, resources.faults(result)
    (made,) = result.gateways

    def compiled(gateway: Gateway) -> Gateway:
        serving = Serving(
            processor=gateway.processor,
            rate_limit=gateway.rate_limit,
            access_log=gateway.access_log,
            admin=gateway.admin,
            ports={listener.name: 0 for listener in made.model.listeners},
            trust_request_id=True,
        )
        found = envoy_gateway(made.model, serving)
        return adjust(replace(found, listener=replace(found.listener, name=LISTENER)))

    return start_stack(config=made.payload, routes=(), adjust=compiled, **fields)
