"""Lists of models, answered without a backend (contract, models 4)."""

import json

import pytest

from extproc.endpoints.models import normalise_host
from extproc.endpoints.table import EndpointTable
from extproc.paths import EndpointPrefixes
from tests.support.playbook import (
    Gateway,
    Reply,
    fed,
    request_headers,
)


def model(name: str, created: str = "2024-01-02T03:04:05Z") -> dict[str, str]:
    return {"Name": name, "OwnedBy": "us", "CreatedAt": created}


CONFIG = {
    "version": "dev",
    "models": [model("b"), model("a", "2024-01-02T05:04:05.5+02:00"), model("b")],
    "modelsByHost": {
        "api.example.com": [model("exact")],
        "*.example.com": [model("wild")],
        "*.com": [model("wider")],
        "EMPTY.example.com": [],
    },
    "unscopedModels": [model("unscoped")],
}


def get(path: str, **headers: str) -> Reply:
    gateway = Gateway(CONFIG)
    sent = {":method": "GET", ":path": path, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return fed(gateway.stream(), request_headers(sent, eos=True))


def test_openai_form():
    reply = get("/v1/models?limit=1")
    assert reply.status == 200
    assert reply.message.immediate_response.grpc_status.status == 0
    assert reply.body == (
        b'{"data":[{"id":"b","created":1704164645,"object":"model","owned_by":"us"},'
        b'{"id":"a","created":1704164645,"object":"model","owned_by":"us"}],"object":"list"}'
    )
    assert reply.set == {"content-type": "application/json", "content-length": str(len(reply.body))}


def test_anthropic_form():
    reply = get("/anthropic/v1/models")
    assert reply.json == {
        "data": [
            {"id": "b", "type": "model", "display_name": "b", "created_at": "2024-01-02T03:04:05Z"},
            {"id": "a", "type": "model", "display_name": "a", "created_at": "2024-01-02T03:04:05Z"},
        ],
        "first_id": "b",
        "has_more": False,
        "last_id": "a",
    }


def test_empty_lists():
    assert json.loads(get("/v1/models", host="empty.example.com").body) == {"data": [], "object": "list"}
    assert json.loads(get("/anthropic/v1/models", host="empty.example.com").body) == {"data": [], "has_more": False}


def test_a_model_without_a_date_has_the_zero_time():
    gateway = Gateway({"version": "dev", "models": [{"Name": "m"}]})
    reply = fed(gateway.stream(), request_headers({":path": "/v1/models"}))
    assert reply.json["data"][0]["created"] == -62135596800
    reply = fed(gateway.stream(), request_headers({":path": "/anthropic/v1/models"}))
    assert reply.json["data"][0]["created_at"] == "0001-01-01T00:00:00Z"


HOSTS = {
    "exact": ("api.example.com", "exact"),
    "case and port": ("API.Example.COM:8443", "exact"),
    "wildcard": ("chat.example.com", "wild"),
    "the apex is not its wildcard": ("example.com", "wider"),
    "another suffix": ("evilexample.com", "wider"),
    "one label only": ("a.chat.example.com", "unscoped"),
    "an empty label": (".example.com", "unscoped"),
    "no dot": ("localhost", "unscoped"),
    "no host": ("", "b"),
    "port only": (":80", "b"),
}


@pytest.mark.parametrize(("host", "first"), HOSTS.values(), ids=HOSTS)
def test_lists_by_host(host, first):
    assert get("/v1/models", host=host).json["data"][0]["id"] == first


def test_the_authority_goes_before_host():
    assert (
        get("/v1/models", **{":authority": "api.example.com", "host": "chat.example.com"}).json["data"][0]["id"]
        == "exact"
    )


NORMALISED = {
    "Api.Bentoml.COM": "api.bentoml.com",
    "[2001:db8::1]:8443": "2001:db8::1",
    "[2001:db8::1]": "[2001:db8::1]",
    "2001:db8::1": "2001:db8::1",
    "a:1:2": "a:1:2",
    "": "",
}


@pytest.mark.parametrize(("authority", "host"), NORMALISED.items(), ids=list(NORMALISED))
def test_hosts_are_normalised(authority, host):
    assert normalise_host(authority) == host


def test_equal_prefixes_are_told_apart_by_the_clients_header():
    gateway = Gateway(CONFIG, endpoints=EndpointTable.build(EndpointPrefixes(anthropic="/")))
    plain = fed(gateway.stream(), request_headers({":path": "/v1/models"}))
    assert plain.json["object"] == "list"
    anthropic = fed(gateway.stream(), request_headers({":path": "/v1/models", "anthropic-version": "2023-06-01"}))
    assert anthropic.json["has_more"] is False
