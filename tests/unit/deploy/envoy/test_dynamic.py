"""The Envoy in pieces: the same as the whole one, and written so that Envoy sees every change and no other."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from deploy.envoy.bootstrap import bootstrap
from deploy.envoy.compile import Serving, envoy_gateway
from deploy.envoy.dynamic import documents, write
from deploy.envoy.model import PipeAddress, Processor, RateLimitService, SocketAddress
from deploy.envoy.text import to_document
from tests.support.neutral import HTTP, backend, gateway, route, rule

SERVING = Serving(
    processor=Processor(address=PipeAddress(path="/run/extproc.sock")),
    rate_limit=RateLimitService(address=SocketAddress(host="127.0.0.1", port=8081)),
    admin=SocketAddress(host="127.0.0.1", port=0),
)
LISTENERS = (HTTP, replace(HTTP, name="other", port=9090))


def made(*routes, listeners=LISTENERS):
    return envoy_gateway(gateway(*routes, listeners=listeners), SERVING)


@pytest.fixture(scope="module")
def envoy():
    return made(route(rule(backend("a"), backend("b", priority=1)), name="one"), route(name="two"))


def read(texts):
    return {name: yaml.safe_load(text) for name, text in texts.items()}


def test_the_pieces_are_the_whole(envoy, tmp_path):
    pieces = read(documents(envoy, tmp_path))
    whole = to_document(bootstrap(envoy))["static_resources"]

    services = pieces["bootstrap.yaml"]["static_resources"]["clusters"]
    assert without_types(pieces["cds.yaml"]) + services == whole["clusters"]
    listeners = without_types(pieces["lds.yaml"])
    for listener, file in zip(listeners, ("rds-ns-gw-http.yaml", "rds-ns-gw-other.yaml"), strict=True):
        manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
        assert manager.pop("rds")["route_config_name"] == listener["name"]
        (manager["route_config"],) = without_types(pieces[file])
    assert listeners == whole["listeners"]


def test_the_bootstrap_has_what_outlives_every_change(envoy, tmp_path):
    document = read(documents(envoy, tmp_path))["bootstrap.yaml"]

    assert set(document) == {"node", "static_resources", "dynamic_resources", "admin"}
    assert [cluster["name"] for cluster in document["static_resources"]["clusters"]] == [
        "ai-gateway-extproc-uds",
        "ai_gateway_ratelimit_cluster",
    ]
    assert document["dynamic_resources"] == {
        f"{kind}_config": {
            "path_config_source": {
                "path": str(tmp_path / f"{kind}.yaml"),
                "watched_directory": {"path": str(tmp_path)},
            },
            "resource_api_version": "V3",
        }
        for kind in ("lds", "cds")
    }


def test_paths_are_absolute(envoy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert documents(envoy, Path("here")) == documents(envoy, tmp_path / "here")


def test_clusters_come_before_the_routes_that_need_them(envoy, tmp_path):
    assert list(documents(envoy, tmp_path)) == [
        "cds.yaml",
        "rds-ns-gw-http.yaml",
        "rds-ns-gw-other.yaml",
        "lds.yaml",
        "bootstrap.yaml",
    ]


def test_the_same_gateway_gives_the_same_text(envoy, tmp_path):
    again = made(route(rule(backend("a"), backend("b", priority=1)), name="one"), route(name="two"))

    assert documents(envoy, tmp_path) == documents(again, tmp_path)


def test_a_new_route_is_a_new_version_of_routes_and_clusters_only(envoy, tmp_path):
    more = made(route(rule(backend("a"), backend("b", priority=1)), name="one"), route(name="two"), route(name="three"))
    before, after = documents(envoy, tmp_path), documents(more, tmp_path)

    assert [name for name in before if before[name] != after[name]] == [
        "cds.yaml",
        "rds-ns-gw-http.yaml",
        "rds-ns-gw-other.yaml",
    ]
    assert all(read(before)[name]["version_info"] != read(after)[name]["version_info"] for name in ("cds.yaml",))


def test_files_are_named_apart(tmp_path):
    listeners = (replace(HTTP, name="a b"), replace(HTTP, name="a/b", port=2))

    first, second = (name for name in documents(made(listeners=listeners), tmp_path) if name.startswith("rds-"))

    assert first == "rds-ns-gw-a-b.yaml"
    assert second.startswith("rds-ns-gw-a-b-")


# --- files ---


def test_only_what_has_changed_is_written(tmp_path):
    directory = tmp_path / "envoy"

    assert write(directory, {"cds.yaml": "1", "lds.yaml": "1"}) == ["cds.yaml", "lds.yaml"]
    before = (directory / "lds.yaml").stat()
    assert write(directory, {"cds.yaml": "2", "lds.yaml": "1"}) == ["cds.yaml"]

    after = (directory / "lds.yaml").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert (directory / "cds.yaml").read_text() == "2"


def test_a_file_is_replaced_and_never_written_over(tmp_path):
    write(tmp_path, {"cds.yaml": "1"})
    with (tmp_path / "cds.yaml").open() as held:
        write(tmp_path, {"cds.yaml": "2"})
        assert held.read() == "1"


def test_nothing_is_left_beside_the_files(tmp_path):
    write(tmp_path, {"cds.yaml": "1", "rds-a.yaml": "1"})

    assert sorted(path.name for path in tmp_path.iterdir()) == ["cds.yaml", "rds-a.yaml"]


def test_a_failure_leaves_nothing_beside_the_files(tmp_path):
    (tmp_path / "cds.yaml").mkdir()

    with pytest.raises(OSError, match="cds"):
        write(tmp_path, {"cds.yaml": "1"})

    assert [path.name for path in tmp_path.iterdir()] == ["cds.yaml"]


def test_routes_of_listeners_that_are_gone_go_and_nothing_else(tmp_path):
    write(tmp_path, {"cds.yaml": "1", "rds-a.yaml": "1", "rds-b.yaml": "1"})
    (tmp_path / "notes.yaml").write_text("mine")

    assert write(tmp_path, {"cds.yaml": "1", "rds-b.yaml": "1"}) == ["rds-a.yaml"]

    assert sorted(path.name for path in tmp_path.iterdir()) == ["cds.yaml", "notes.yaml", "rds-b.yaml"]


def test_others_may_not_read_them(tmp_path):
    write(tmp_path, {"lds.yaml": "with a key"})

    assert stat.S_IMODE((tmp_path / "lds.yaml").stat().st_mode) == 0o600


def without_types(document):
    """The resources of a response."""
    for resource in document["resources"]:
        del resource["@type"]
    return document["resources"]
