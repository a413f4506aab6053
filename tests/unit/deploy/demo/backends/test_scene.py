"""The seven backends belong to the gateway, and are all that there are."""

from __future__ import annotations

from pathlib import Path

import yaml

from deploy.demo.backends import scene
from deploy.demo.ensemble import as_yaml
from deploy.envoy.model import PipeAddress, SocketAddress
from extproc.endpoints.base import Operation
from extproc.translate.table import TRANSLATORS
from filter_config.load import decode

PROVIDERS = SocketAddress(host="127.0.0.1", port=1)


def test_every_schema_that_chat_is_translated_to_is_shown():
    served = {schema for operation, schema in TRANSLATORS if operation is Operation.CHAT}

    assert {speaker.name for speaker in scene.SPEAKERS} == served


def test_every_backend_of_the_gateway_is_in_the_filter_config_under_its_name():
    in_envoy = [name for name, _ in scene.route(PROVIDERS).backend_names()]

    assert [backend["name"] for backend in scene.filter_config(PROVIDERS)["backends"]] == in_envoy


def test_the_filter_config_has_no_problem():
    decoded = decode(as_yaml(scene.filter_config(PROVIDERS)).encode())

    assert decoded.problems == ()
    assert decoded.config is not None
    assert all(backend.auth is not None for backend in decoded.config.backends)


def test_every_provider_is_found_by_a_host_of_its_own():
    hosts = [backend.hostname for _, backend in scene.route(PROVIDERS).backend_names()]

    assert len(set(hosts)) == len(scene.SPEAKERS)


def test_the_gateway_logs_what_it_charges():
    built = scene.gateway(
        PROVIDERS, listener=PROVIDERS, processor=PipeAddress(path="/s"), admin=PROVIDERS, log=Path("/log")
    )

    assert scene.COST_KEY in built.access_log.cost_keys
    assert yaml.safe_load(as_yaml({"keys": built.access_log.cost_keys})) == {"keys": list(built.access_log.cost_keys)}
