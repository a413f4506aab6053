"""What is said of a request before it is sent: the core's own answers, the routes, the costs."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.explain import cli
from extproc.explain.request import RequestError, parse_usage, read_request
from extproc.usage import TokenUsage
from tests.support.gateway_resources import (
    Resource,
    api_key,
    endpoint,
    gateway,
    listener,
    policy,
    route,
    rule,
    secret,
    served,
    service,
    text,
)

KEY = "sk-canary-explained"
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def run(tmp_path, capsys):
    """Runs the command on resources; gives its exit code, what it printed, and its complaints."""

    def run(resources: list[Resource], request: Any = CHAT, *arguments: str) -> tuple[int, str, str]:
        (tmp_path / "resources.json").write_bytes(text(*resources).data)
        (tmp_path / "request.json").write_text(request if isinstance(request, str) else json.dumps(request))
        code = cli.main([str(tmp_path / "resources.json"), "--request", str(tmp_path / "request.json"), *arguments])
        printed = capsys.readouterr()
        assert KEY not in printed.out + printed.err
        return code, printed.out, printed.err

    return run


@pytest.fixture
def document(run):
    """The explanation as a document."""

    def document(resources: list[Resource], request: Any = CHAT, *arguments: str) -> dict[str, Any]:
        _, out, err = run(resources, request, *arguments, "--json")
        assert err == ""
        return json.loads(out)

    return document


def costs(*entries: tuple[str, str]) -> dict[str, Any]:
    return {"llmRequestCosts": [{"metadataKey": key, "type": "CEL", "cel": cel} for key, cel in entries]}


def test_a_translated_request_with_its_credential_taken_out(document):
    resources = [
        gateway(),
        route("r", rule("b", model="m")),
        service("b", schema="Anthropic"),
        endpoint("b"),
        policy("p", "AnthropicAPIKey", "b", anthropicAPIKey={"secretRef": {"name": "s"}}),
        secret("s", apiKey=KEY),
    ]
    said = document(resources)
    (backend,) = said["backends"]
    assert (said["route"], said["rule"], said["model"]) == ("default/r", 0, "m")
    assert backend["path"] == "/v1/messages"
    assert backend["address"] == "b.example.com:443"
    assert ["x-api-key", "[REDACTED]"] in backend["headers"]
    assert json.loads(backend["body"])["messages"] == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    assert backend["metadata"]["ai_service_backend_name"] == "default/b"


def test_backends_are_listed_as_they_are_tried_with_their_share(document):
    refs = [
        {"name": "last", "priority": 1},
        {"name": "third", "weight": 3},
        {"name": "one", "weight": 1},
        {"name": "none", "weight": 0, "priority": 2},
    ]
    said = document([gateway(), route("r", rule(*refs)), *served("last", "third", "one", "none")])
    shown = [(each["backend"].split("/")[1], each["priority"], each["share"]) for each in said["backends"]]
    assert shown == [("third", 0, 0.75), ("one", 0, 0.25), ("last", 1, 1.0), ("none", 2, 0.0)]


def test_each_backend_is_asked_for_its_own_model(document):
    refs = [{"name": "b", "modelNameOverride": "big"}, {"name": "c", "priority": 1}]
    said = document([gateway(), route("r", rule(*refs)), *served("b", "c")])
    assert [json.loads(each["body"])["model"] for each in said["backends"]] == ["big", "m"]


def test_costs_are_those_of_the_usage(run):
    resources = [
        gateway(),
        route(
            "r",
            rule("b"),
            **costs(("spent", "input_tokens * 2u"), ("broken", "input_tokens > 0u ? input_tokens - 50u : 0u")),
        ),
        *served("b"),
    ]
    _, out, err = run(resources, {"body": CHAT, "usage": {"input": 10, "output": 5}}, "--json")
    assert "warning: the expression fails" in err
    (backend,) = json.loads(out)["backends"]
    assert backend["costs"] == {"spent": 20}
    assert list(backend["cost_faults"]) == ["broken"]


def test_usage_of_the_command_line_wins(document):
    resources = [gateway(), route("r", rule("b"), **costs(("all", "total_tokens"))), *served("b")]
    said = document(resources, {"body": CHAT, "usage": {"input": 1}}, "--usage", "input=10,output=5")
    assert said["backends"][0]["costs"] == {"all": 15}


def test_a_credential_that_is_fetched_while_serving_is_not_fetched(document):
    resources = [
        gateway(),
        route("r", rule("b")),
        service("b", schema="AWSBedrock"),
        endpoint("b"),
        policy("p", "AWSCredentials", "b", awsCredentials={"region": "eu-west-1"}),
    ]
    (backend,) = document(resources)["backends"]
    assert backend["credential_fetched_from"] == "aws-default-chain/eu-west-1"
    assert backend["path"] == "/model/m/converse"
    assert backend["refusal"] is None


REFUSALS = {
    "no route": ({"model": "other", "messages": []}, 404, "envoy"),
    "no such path": ({"path": "/v1/nothing", "body": CHAT}, 404, "processor"),
    "a model that is no text": ({"model": 1, "messages": []}, 400, "processor"),
    "no JSON within a text": ({"body": "{"}, 400, "processor"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(run, case):
    request, status, by = REFUSALS[case]
    code, out, _ = run([gateway(), route("r", rule("b")), *served("b")], request, "--json")
    said = json.loads(out)
    assert code == 1
    assert (said["refusal"]["status"], said["refusal"]["by"]) == (status, by)
    assert said["backends"] == []


def test_what_a_backend_cannot_be_asked_is_said_at_the_backend(run):
    resources = [gateway(), route("r", rule("a", "b")), service("a", schema="AWSBedrock"), endpoint("a"), *served("b")]
    request = {"path": "/v1/audio/speech", "body": {"model": "m", "input": "x", "voice": "alloy"}}
    code, out, _ = run(resources, request, "--json")
    refused, asked = json.loads(out)["backends"]
    assert refused["refusal"]["by"] == "processor"
    assert asked["refusal"] is None
    assert code == 0


def test_the_host_decides(document):
    resources = [
        gateway(),
        route("a", rule("a"), hostnames=["a.example.com"]),
        route("every", rule("b")),
        *served("a", "b"),
    ]
    assert document(resources, CHAT, "--host", "a.example.com")["route"] == "default/a"
    assert document(resources, {"host": "other.org", "body": CHAT})["route"] == "default/every"


def test_a_header_decides(document):
    tenant = {"matches": [{"headers": [{"name": "X-Tenant", "value": "a"}, {"name": "x-ai-eg-model", "value": "m"}]}]}
    resources = [gateway(), route("r", rule("b"), {**rule("a"), **tenant}), *served("a", "b")]
    assert document(resources)["rule"] == 0
    assert document(resources, CHAT, "--header", "x-tenant: a")["rule"] == 1


def test_the_nearest_listener_takes_the_request(document):
    listeners = [listener("all"), listener("own", hostname="a.example.com")]
    resources = [gateway(listeners=listeners), route("r", rule("b")), *served("b")]
    assert document(resources, CHAT, "--host", "a.example.com")["listener"] == "own"
    assert document(resources, CHAT, "--host", "b.example.com")["listener"] == "all"
    assert document(resources, CHAT, "--listener", "own")["listener"] == "own"


ROUTES_OF_LISTENERS = (
    gateway(
        listeners=[
            listener("wild", hostname="*.example.com"),
            listener("deeper", hostname="*.a.example.com"),
            listener("also", hostname="*.example.com"),
            listener("other", port=81),
        ]
    ),
    route("wild", rule("b"), parentRefs=[{"name": "gw", "sectionName": "wild"}]),
    route("also", rule("b", model="also"), parentRefs=[{"name": "gw", "sectionName": "also"}]),
    route("deeper", rule("b"), parentRefs=[{"name": "gw", "sectionName": "deeper"}]),
    route("outside", rule("b"), hostnames=["*.a.example.com"], parentRefs=[{"name": "gw", "sectionName": "wild"}]),
    route("other", rule("b"), hostnames=["a.org"], parentRefs=[{"name": "gw", "sectionName": "other"}]),
    *served("b"),
)

# arguments, model: listener, virtual host, route
LISTENED = {
    "the first without a host": ([], "m", ("wild", "*.example.com", "default/wild")),
    "the nearest": (["--host", "x.a.example.com"], "m", ("deeper", "*.a.example.com", "default/deeper")),
    "another with the same hostname": (["--host", "c.example.com"], "also", ("wild", "*.example.com", "default/also")),
    "none": (["--host", "a.org"], "m", ("", "a.org", None)),
    "of another port": (["--host", "a.org", "--listener", "other"], "m", ("other", "a.org", "default/other")),
    "by its own hostname": (["--listener", "deeper"], "m", ("deeper", "*.a.example.com", "default/deeper")),
}


@pytest.mark.parametrize(("arguments", "model", "taken"), LISTENED.values(), ids=LISTENED)
def test_a_port_takes_a_request_where_envoy_does(document, arguments, model, taken):
    said = document(list(ROUTES_OF_LISTENERS), {**CHAT, "model": model}, *arguments)
    assert (said["listener"], said["host"], said["route"]) == taken


def test_patterns_are_those_of_envoy(document):
    def by(pattern: str) -> dict[str, Any]:
        header = {"name": "x-team", "value": pattern, "type": "RegularExpression"}
        return {**rule("b"), "matches": [{"headers": [header]}]}

    resources = [gateway(), route("r", by(r"[[:upper:]]+\z"), by("r..d"), by("(?=x)")), *served("b")]
    assert document(resources, CHAT, "--header", "x-team: RED")["rule"] == 0
    assert document(resources, CHAT, "--header", "x-team: rêd")["rule"] == 1
    assert document(resources, CHAT, "--header", "x-team: x")["refusal"]["status"] == 404


NOBODY = {"without weight": {"name": "b", "weight": 0}, "without an address": {"name": "unknown"}}


@pytest.mark.parametrize("reference", NOBODY.values(), ids=NOBODY)
def test_a_backend_that_gets_nothing_is_not_asked(run, reference):
    resources = [gateway(), route("r", rule(reference)), *served("b"), service("unknown")]
    code, out, _ = run(resources)
    assert code == 1
    assert "answer   500 from Envoy" in out
    assert "(0% of its priority)" in out


def test_a_share_is_of_those_that_can_be_reached(run):
    resources = [gateway(), route("r", rule("unknown", "b")), *served("b"), service("unknown")]
    code, out, _ = run(resources, CHAT, "--json")
    assert code == 0
    assert [backend["share"] for backend in json.loads(out)["backends"]] == [0, 1]


def test_text_says_the_same(run):
    resources = [gateway(), route("r", rule("b", {"name": "c", "priority": 1})), *served("b", "c"), api_key("k", "b")]
    resources.append(secret("k", apiKey=KEY))
    code, out, err = run(resources)
    assert (code, err) == (0, "")
    assert "route    default/r, rule 0" in out
    assert "match    x-ai-eg-model = m" in out
    assert "   POST /v1/chat/completions" in out
    assert "   authorization: [REDACTED]" in out
    assert out.index("default/b/route") < out.index("default/c/route")


def test_faults_of_the_resources_are_told_and_the_rest_is_explained(run):
    code, out, err = run([gateway(), route("r", rule("missing", model="x"), rule("b")), *served("b")])
    assert code == 0
    assert "AIServiceBackend default/missing" in err
    assert "rule 1" in out


MISUSES = {
    "no request": (["x.json"], "--request"),
    "no such file": (["x.json", "--request", "absent.json"], "absent.json"),
    "a header without a value": (["x", "--header", "x"], "NAME:VALUE"),
    "a header without a name": (["x", "--header", ":path:/v1"], '":path:/v1"'),
    "a usage that is none": (["x", "--usage", "input"], "explain: --usage: usage: "),
    "a host that is no UTF-8": (["x", "--host", "a\udcff"], "--host"),
    "both from stdin": (["-", "--request", "-"], "stdin"),
}


@pytest.mark.parametrize("case", MISUSES)
def test_misuse_is_one_line(case, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "request.json").write_text(json.dumps(CHAT))
    arguments, told = MISUSES[case]
    if "--request" not in arguments and case != "no request":
        arguments = [*arguments, "--request", "request.json"]
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("arguments", [("-", "--request", "{request}"), ("{resources}", "--request", "-")])
def test_a_standard_input_that_was_closed_is_no_traceback(arguments, tmp_path, capsys, monkeypatch):
    files = {"request": tmp_path / "q.json", "resources": tmp_path / "r.json"}
    files["request"].write_text('{"model": "m"}')
    files["resources"].write_text("{}")
    monkeypatch.setattr("sys.stdin", None)
    assert cli.main([argument.format(**files) for argument in arguments]) == cli.USAGE
    assert "-: there is no standard input here; name a file\n" in capsys.readouterr().err


def test_a_full_disk_is_no_traceback(tmp_path, capsys, monkeypatch):
    (tmp_path / "r.json").write_bytes(text(gateway(), *served("b"), route("r", rule("b"))).data)
    (tmp_path / "q.json").write_text('{"model": "m"}')
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        monkeypatch.setattr("sys.stdout", full)
        status = cli.main([str(tmp_path / "r.json"), "--request", str(tmp_path / "q.json")])
        monkeypatch.undo()
        # What could not be written must not be tried again when it is closed.
        with pytest.raises(OSError, match="No space left"):
            full.close()
    assert status == cli.USAGE
    assert capsys.readouterr().err == (
        "extproc explain: the standard output cannot be written: No space left on device\n"
    )


def test_several_gateways_want_a_name(run):
    resources = [gateway("gw"), gateway("two"), route("r", rule("b")), route("s", rule("b")), *served("b")]
    resources[3]["spec"]["parentRefs"] = [{"name": "two"}]
    code, _, err = run(resources)
    assert code == 2
    assert "default/gw, default/two" in err
    assert run(resources, CHAT, "--gateway", "two")[0] == 0
    assert run(resources, CHAT, "--gateway", "three")[0] == 2


BAD_REQUESTS = {
    "no JSON": (b"{", "no JSON"),
    "a list": (b"[]", "must be a JSON object"),
    "an unknown member": (b'{"body": {}, "pth": "/"}', "pth"),
    "a header that is no text": (b'{"body": {}, "headers": {"a": 1}}', "headers"),
    "an unknown count": (b'{"body": {}, "usage": {"tokens": 1}}', "cached_input"),
    "a negative count": (b'{"body": {}, "usage": {"input": -1}}', "between 0 and"),
    "a body alone that is no UTF-8": (b'{"model": "\xff"}', "no JSON"),
}


@pytest.mark.parametrize("case", BAD_REQUESTS)
def test_requests_that_cannot_be_read(case):
    data, told = BAD_REQUESTS[case]
    with pytest.raises(RequestError, match=told):
        read_request(data)


@given(st.binary())
def test_any_bytes_are_a_request_or_a_reason(data):
    try:
        request = read_request(data)
    except RequestError:
        return
    assert request.body


def test_usage_as_text():
    assert parse_usage("input=3, output=4,cached_input=1") == TokenUsage(input=3, output=4, cached_input=1, total=7)
    assert parse_usage("total=9") == TokenUsage(total=9)
    for wrong in ("", "input", "input=x", "other=1", "input=1,"):
        with pytest.raises(RequestError):
            parse_usage(wrong)
