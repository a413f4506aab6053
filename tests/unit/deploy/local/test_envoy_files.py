"""The fast way to documents gives what the slow one gives, for every kind of gateway that there is a sample of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from envoy_data_plane.envoy.service.discovery.v3 import DiscoveryResponse

from deploy.envoy import dynamic
from deploy.envoy.compile import Serving, Unservable, envoy_gateway
from deploy.envoy.model import AccessLog, PipeAddress, Processor, RateLimitService, SocketAddress
from deploy.envoy.text import to_document
from deploy.local import envoy_files, patterns
from deploy.local.compiling import Compiler
from deploy.local.envoy_files import EnvoyFiles, version_of
from deploy.local.envoy_updates import write
from deploy.local.files import Files

ROOT = Path(__file__).parents[4]
SAMPLES = {path.parent.name: path for path in ROOT.glob("tests/golden/resources/*/resources.yaml")}
BASIC = ROOT / "examples" / "basic.yaml"
SERVING = Serving(
    processor=Processor(address=PipeAddress(path="/run/p.sock")),
    rate_limit=RateLimitService(address=SocketAddress(host="127.0.0.1", port=1)),
    access_log=AccessLog(path="/tmp/access.log", cost_keys=("tokens",)),
    admin=SocketAddress(host="127.0.0.1", port=0),
    exclusive=True,
)


def gateways(path):
    content = Files([str(path)]).read()
    for made in Compiler({}).compile(content.texts, content.faults).gateways:
        try:
            yield envoy_gateway(made.model, SERVING)
        except Unservable:
            continue


def comparable(name, data):
    """A document without what is the business of the fast way: versions, and how files are watched."""
    document = to_document(DiscoveryResponse.parse(data)) if name.endswith(".pb") else yaml.safe_load(data)
    if "type_url" in document:
        document.pop("version_info")
        document.setdefault("resources", [])
    return without_watching(document)


def without_watching(node):
    if isinstance(node, dict):
        return {
            key: value.rpartition(".")[0] if key == "path" and str(value).startswith("/e/") else without_watching(value)
            for key, value in node.items()
            if key != "watched_directory"
        }
    return [without_watching(item) for item in node] if isinstance(node, list) else node


@pytest.mark.parametrize("path", SAMPLES.values(), ids=SAMPLES)
def test_the_documents_are_those_of_the_builders(path):
    files = EnvoyFiles(Path("/e"))
    for gateway in gateways(path):
        slow = dynamic.documents(gateway, Path("/e"))

        fast = files.documents(gateway)

        assert [Path(name).stem for name in fast] == [Path(name).stem for name in slow]
        for (file, one), (name, other) in zip(fast.items(), slow.items(), strict=True):
            assert comparable(file, one) == comparable(name, other)
        assert files.documents(gateway) == fast


def test_a_name_is_a_name_whatever_it_looks_like():
    """Whatever its length and letters, and what looks like a mark is none."""
    (gateway,) = gateways(BASIC)
    odd = 'a"b\\c zq-value-0-qz\u2028é' + "long" * 99
    route = gateway.routes[0]
    (match,) = route.rules[0].matches
    header = match.headers[0]

    rule = replace(route.rules[0], matches=(replace(match, headers=(replace(header, value=odd),)),))
    gateway = replace(gateway, routes=(replace(route, rules=(rule,)),))

    documents = EnvoyFiles(Path("/e")).documents(gateway).items()
    (document,) = (comparable(name, data) for name, data in documents if name.startswith("rds"))

    (made,) = document["resources"][0]["virtual_hosts"]
    assert made["routes"][0]["match"]["headers"][0]["string_match"] == {"exact": odd}


def test_an_edit_builds_only_what_is_of_a_new_shape(monkeypatch):
    (gateway,) = gateways(BASIC)
    files = EnvoyFiles(Path("/e"))
    before = files.documents(gateway)
    for builder in ("rule_cluster", "route_configuration"):
        monkeypatch.setattr(envoy_files, builder, None)
    monkeypatch.setattr(dynamic, "documents", None)

    after = files.documents(replace(gateway, routes=(replace(gateway.routes[0], name="other"),)))

    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"cds.pb", "rds-default-llm-http.pb"}
    assert all(version_of(after[name]) != version_of(before[name]) for name in changed)


def test_a_route_that_stays_is_not_filled_in_again(monkeypatch):
    (gateway,) = gateways(BASIC)
    files = EnvoyFiles(Path("/e"))
    first = gateway.routes[0]
    before = files.documents(gateway)
    monkeypatch.setattr(envoy_files, "Pattern", None)
    filled = []
    monkeypatch.setattr(patterns.Pattern, "filled", lambda _, names: filled.append(names) or b"")
    listener = replace(gateway.listener, hosts=gateway.listener.hosts)

    assert files.documents(replace(gateway, listener=listener)) == before
    assert filled == []
    files.documents(replace(gateway, routes=(replace(first, name="other"), *gateway.routes[1:])))
    assert len(filled) == 2 * len(first.rules)


def test_only_what_has_changed_is_written(tmp_path):
    assert write(tmp_path, {"a.json": b"1", "b.json": b"2"}) == ["a.json", "b.json"]
    assert write(tmp_path, {"a.json": b"1", "b.json": b"3", "c.json": b"4"}) == ["b.json", "c.json"]
    assert write(tmp_path, {"a.json": b"1"}) == []

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.json": b"1"}
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o600
