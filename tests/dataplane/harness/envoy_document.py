"""Changing a built Envoy configuration in one place, to see what Envoy does without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EXT_PROC = "envoy.filters.http.ext_proc/aigateway"


def edited(change: Callable[[dict[str, Any]], None]) -> Callable[[str], str]:
    """A ``rewrite`` for a stack: the document is parsed, changed in place and written again."""

    def rewrite(text: str) -> str:
        document = yaml.safe_load(text)
        change(document)
        return yaml.safe_dump(document, sort_keys=False)

    return rewrite


def manager(document: dict[str, Any]) -> dict[str, Any]:
    """The HTTP connection manager."""
    found: dict[str, Any] = document["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0][
        "typed_config"
    ]
    return found


def clusters(document: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document["static_resources"]["clusters"]
    return found


def upstream_filters(document: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """The filter chain of every cluster that has one."""
    for cluster in clusters(document):
        for options in cluster["typed_extension_protocol_options"].values():
            if "http_filters" in options:
                yield options["http_filters"]


def ext_procs(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The configuration of every filter that speaks to the processor, of either level."""
    for chain in (manager(document)["http_filters"], *upstream_filters(document)):
        for entry in chain:
            if entry["name"] == EXT_PROC:
                yield entry["typed_config"]


def routes(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every route of every virtual host."""
    for host in manager(document)["route_config"]["virtual_hosts"]:
        yield from host["routes"]
