"""Gateways compared without what depends on who compiled them: files, lines, and the uuid of the filter config."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import msgspec

from filter_config.sources.envoy_ai_gateway import CompiledGateway
from filter_config.sources.faults import Origin


def comparable(gateways: Iterable[CompiledGateway]) -> list[CompiledGateway]:
    """The gateways without those."""
    return [
        CompiledGateway(model=_placeless(made.model), config=msgspec.structs.replace(made.config, uuid=""))
        for made in gateways
    ]


def _placeless(value: Any) -> Any:
    if isinstance(value, Origin):
        return dataclasses.replace(value, file="", line=0)
    if isinstance(value, tuple):
        return tuple(_placeless(item) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: _placeless(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **fields)
    return value
