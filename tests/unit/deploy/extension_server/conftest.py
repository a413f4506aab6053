"""A gateway with its resources, and the hook asked about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from deploy.extension_server.findings import Findings
from deploy.extension_server.knowledge import Snapshot
from deploy.extension_server.options import Options
from deploy.extension_server.server import encode
from deploy.extension_server.translate import modify_translation
from tests.support import envoy_gateway as eg
from tests.support import gateway_resources as resources


@dataclass
class Translated:
    """What the hook answered, as documents."""

    lists: dict[str, list[eg.Document]]
    findings: list[tuple[str, str]]
    response: Any = field(repr=False)

    def cluster(self, name):
        (found,) = [each for each in self.lists["clusters"] if each["name"] in (name, f"httproute/{name}")]
        return found

    @property
    def cluster_names(self):
        return [each["name"] for each in self.lists["clusters"]]

    def listener(self, name="default/gw/http"):
        (found,) = [each for each in self.lists["listeners"] if each["name"] == name]
        return found

    def managers(self, name="default/gw/http"):
        """The HTTP connection managers of a listener, the default one last."""
        found = self.listener(name)
        chains = list(found.get("filter_chains", ()))
        if "default_filter_chain" in found:
            chains.append(found["default_filter_chain"])
        managers = [each["filters"][0]["typed_config"] for each in chains]
        return [each for each in managers if each["@type"].endswith("HttpConnectionManager")]

    def filters(self, name="default/gw/http"):
        """The names of the HTTP filters of a listener's only chain, without what they have in common."""
        (manager,) = self.managers(name)
        return [each["name"].removeprefix("envoy.filters.http.") for each in manager["http_filters"]]

    def routes(self, name="default/gw/http"):
        """The routes of a route configuration, by the rule and match in their names."""
        (found,) = [each for each in self.lists["routes"] if each["name"] == name]
        return {
            each["name"].removeprefix("httproute/"): each
            for host in found["virtual_hosts"]
            for each in host.get("routes", ())
        }


@pytest.fixture
def knowledge():
    """``knowledge(*resources) -> Snapshot`` of AI Gateway resources, compiled as users' files are."""

    def compiled(*given):
        return Snapshot(made.model for made in resources.compiled(*given).gateways)

    return compiled


@pytest.fixture
def translate():
    """``translate(knowledge, options=…, clusters=…, listeners=…, routes=…) -> Translated``.

    Whatever a test is about: the hook does not change what it has answered.
    """

    def run(known, *, options=None, **lists):
        findings = Findings()
        options = options or Options()
        response = modify_translation(eg.request(**lists), known, options, findings)
        assert encode(modify_translation(eg.again(response), known, options, Findings())) == encode(response)
        found = [(finding.resource, finding.message) for finding in findings.closed()]
        return Translated(eg.documents(response), found, response)

    return run
