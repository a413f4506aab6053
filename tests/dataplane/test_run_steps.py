"""The steps of an edit on real processes: what stays in between, what is taken away, and what a refusal leaves."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import httpx
import msgspec
import pytest

from deploy.local.envoy_updates import UpdateRejected
from deploy.local.served import ConfigRefused, Options, Room, ServedGateway
from filter_config.sources.faults import Faults
from tests.dataplane.harness.client import CHAT, question
from tests.dataplane.harness.replies import chat_completion, json_reply
from tests.support.gateway_resources import compiled, endpoint, gateway, only, route, rule, service


@pytest.fixture(scope="module")
def upstream(start_upstream):
    upstream = start_upstream()
    upstream.always(lambda received: json_reply(chat_completion(received.json()["model"])))
    return upstream


@pytest.fixture(scope="module")
def resources(upstream):
    """``resources(*models)``: the gateway with a route for each."""
    address = {"endpoints": [{"ip": {"address": "127.0.0.1", "port": upstream.port}}]}

    def make(*models):
        routes = (route(f"route-{model}", rule("b", model=model)) for model in models)
        return only(compiled(gateway(), service("b"), endpoint("b", **address), *routes))

    return make


@pytest.fixture(scope="module")
def served(tmp_path_factory, socket_directory, resources):
    room = Room(files=tmp_path_factory.mktemp("served"), socket=socket_directory / "steps.sock")
    made = ServedGateway(room, Options(), ports={"http": 0})
    try:
        made.start(resources("stays"), Faults())
        made.port = made.envoy.port("default/gw/http")
        yield made
    finally:
        made.stop()


@pytest.fixture(autouse=True)
def _as_it_was(served, resources):
    yield
    served.apply(resources("stays"), Faults())
    served.settle(at=math.inf)


def status(served, model):
    return httpx.post(f"http://127.0.0.1:{served.port}{CHAT}", json=question(model), trust_env=False).status_code


def backends(served):
    """Those that the processor knows, by their routes."""
    config = json.loads(served.processor.admin("/config")[1])["live"]["config"]
    return {backend["name"].split("/")[3] for backend in config["backends"]}


def clusters(served):
    """Those that Envoy has, by their routes."""
    page = json.loads(served.envoy.admin("/clusters?format=json"))
    names = (status["name"] for status in page["cluster_statuses"])
    return {name.split("/")[2] for name in names if name.startswith("httproute/")}


def test_what_goes_is_known_until_its_requests_are_over(served, resources):
    assert served.apply(resources("stays", "goes"), Faults())
    assert status(served, "goes") == 200

    assert served.apply(resources("stays"), Faults())

    assert status(served, "goes") == 404
    assert backends(served) == clusters(served) == {"route-stays", "route-goes"}
    served.settle(at=0.0)
    assert backends(served) == {"route-stays", "route-goes"}
    served.settle(at=math.inf)
    assert backends(served) == clusters(served) == {"route-stays"}
    assert status(served, "stays") == 200


def test_what_comes_leaves_nothing_to_do(served, resources):
    assert served.apply(resources("stays", "comes"), Faults())
    before = served.digest

    served.settle(at=math.inf)

    assert served.digest == before
    assert status(served, "comes") == 200


def test_the_same_again_is_nothing_new(served, resources):
    assert not served.apply(resources("stays"), Faults())


def test_a_config_that_the_processor_refuses_leaves_all_as_it_was(served, resources):
    other = resources("stays", "comes")
    foreign = replace(other, config=msgspec.structs.replace(other.config, version="v99"))

    with pytest.raises(ConfigRefused, match="config version mismatch"):
        served.apply(foreign, Faults())

    assert (status(served, "stays"), status(served, "comes")) == (200, 404)
    assert served.apply(other, Faults())
    assert status(served, "comes") == 200


def test_a_configuration_that_envoy_refuses_leaves_all_as_it_was(served, resources, monkeypatch):
    real = served._envoy_files.documents

    def broken(made):
        # A prefix that is no text, and so no field of a message.
        return {name: data.replace(b"\x0a\x01/", b"\x0a\x01\xff") for name, data in real(made).items()}

    with monkeypatch.context() as patched:
        patched.setattr(served._envoy_files, "documents", broken)
        with pytest.raises(UpdateRejected, match="Envoy refused its configuration"):
            served.apply(resources("stays", "comes"), Faults())

    assert (status(served, "stays"), status(served, "comes")) == (200, 404)
    assert served.apply(resources("stays", "comes"), Faults())
    assert status(served, "comes") == 200
