"""Listeners of gateways with what they show to clients (Gateway API, Listener and GatewayTLSConfig)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from filter_config.sources.envoy_ai_gateway.context import GATEWAY, Context
from filter_config.sources.envoy_ai_gateway.kubernetes import Gateway
from filter_config.sources.envoy_ai_gateway.kubernetes import Listener as Spec
from filter_config.sources.envoy_ai_gateway.load import Found
from filter_config.sources.envoy_ai_gateway.secrets import Unusable, read_secret
from filter_config.sources.model import Certificate, Listener

_CHAIN: Final = "tls.crt"
_KEY: Final = "tls.key"


def compile_listeners(context: Context, gateway: Found[Gateway]) -> tuple[Listener, ...]:
    """The listeners in order. One whose certificates cannot be read is in the model without them."""
    return tuple(
        Listener(
            name=spec.name,
            port=spec.port,
            protocol=spec.protocol,
            hostname=spec.hostname or "",
            certificates=tuple(_certificates(context, gateway, index, spec)),
        )
        for index, spec in enumerate(gateway.value.spec.listeners)
    )


def _certificates(context: Context, gateway: Found[Gateway], index: int, spec: Spec) -> Iterator[Certificate]:
    if spec.tls is None:
        return
    at = gateway.origin.at(f"spec.listeners[{index}].tls")
    if spec.tls.mode != "Terminate":
        context.faults.error(at.below("mode"), f"a listener for {spec.tls.mode} does not see requests", "use Terminate")
        return
    for number, ref in enumerate(spec.tls.certificate_refs):
        try:
            yield Certificate(
                chain_pem=read_secret(context, gateway.namespace, ref, _CHAIN, referrer=GATEWAY).reveal(),
                key=read_secret(context, gateway.namespace, ref, _KEY, referrer=GATEWAY),
            )
        except Unusable as error:
            context.faults.error(at.below(f"certificateRefs[{number}]"), str(error), error.fix)
