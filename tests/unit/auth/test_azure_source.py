"""Entra tokens for Azure: what proves the application, what is asked, and what a failure may say (BR-99, BR-100)."""

from __future__ import annotations

import re
import socket
import time
from dataclasses import replace

import pytest

from extproc.auth.azure_source import azure_source
from extproc.auth.sources import SourceError
from extproc.errors import BackendFault
from filter_config.model import AzureAuth
from filter_config.redact import Secret
from tests.support.azure_endpoints import CLIENT, SECRET, TENANT, AzureEndpoints
from tests.support.token_endpoints import Drip, HangUp, Reply, Silence, html, json_reply, redirect

ASSERTION = "canary.eyJzdWIiOiJzeXN0ZW0ifQ.assertion"
SHORT = 0.2  # seconds, where nobody answers


@pytest.fixture
def entra():
    with AzureEndpoints() as endpoints:
        yield endpoints


@pytest.fixture
def nobody():
    """A host at which nobody listens, and nobody else can."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def configured(entra, **changes):
    keys = {"client_id": CLIENT, "tenant_id": TENANT, "client_secret": Secret(SECRET), "authority_host": entra.url}
    return AzureAuth(**{**keys, **changes})


def fetched(entra, environ=None, **changes):
    return azure_source(configured(entra, **changes), environ or {}).fetch()


def fails(source):
    with pytest.raises(SourceError) as caught:
        source.fetch()
    assert "canary" not in f"{caught.value} {caught.value!r} {source!r} {source.name}"
    assert caught.value.__cause__ is None
    return str(caught.value).removeprefix("failed to get Azure access token: ")


# --- flows ---


def test_a_client_secret_gets_a_token(entra):
    before = time.time()
    answer = fetched(entra)
    assert answer.credential.reveal() == entra.issued[0]
    assert before + 3600 <= answer.expires_at <= time.time() + 3600


def test_a_federated_token_gets_a_token(entra, tmp_path):
    entra.assertions.add(ASSERTION)
    file = tmp_path / "token"
    file.write_text(f"{ASSERTION}\n")
    source = azure_source(configured(entra, client_secret=Secret(), federated_token_file=str(file)), {})
    assert source.watches == (file,)
    assert source.fetch().credential.reveal() == entra.issued[0]


def test_a_rotated_federated_token_is_read_again(entra, tmp_path):
    entra.assertions = {ASSERTION}
    file = tmp_path / "token"
    file.write_text(ASSERTION)
    source = azure_source(configured(entra, client_secret=Secret(), federated_token_file=str(file)), {})
    source.fetch()
    entra.assertions = {"canary.next.assertion"}
    assert "AADSTS700024" in fails(source)
    file.write_text("canary.next.assertion")
    assert source.fetch().credential.reveal() == entra.issued[1]


def test_white_space_around_the_values_is_dropped(entra):
    changes = {"client_id": f" {CLIENT}\n", "tenant_id": f"{TENANT} ", "client_secret": Secret(f"{SECRET}\n")}
    assert fetched(entra, **changes, authority_host=f" {entra.url}/ ").credential


ENVIRONMENTS = {
    "a secret": {"AZURE_CLIENT_SECRET": SECRET},
    "a file": {"AZURE_FEDERATED_TOKEN_FILE": "{file}"},
    "a secret before a file": {"AZURE_CLIENT_SECRET": SECRET, "AZURE_FEDERATED_TOKEN_FILE": "/absent"},
}


@pytest.mark.parametrize("proof", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_everything_may_come_from_the_environment(entra, tmp_path, proof):
    entra.assertions.add(ASSERTION)
    (tmp_path / "token").write_text(ASSERTION)
    environ = {
        "AZURE_CLIENT_ID": CLIENT,
        "AZURE_TENANT_ID": TENANT,
        "AZURE_AUTHORITY_HOST": f"{entra.url}/",
        **{name: value.replace("{file}", str(tmp_path / "token")) for name, value in proof.items()},
    }
    assert azure_source(AzureAuth(), environ).fetch().credential.reveal() == entra.issued[0]


def test_the_config_goes_before_the_environment(entra):
    environ = {
        "AZURE_CLIENT_ID": "another",
        "AZURE_TENANT_ID": "another",
        "AZURE_CLIENT_SECRET": "another",
        "AZURE_FEDERATED_TOKEN_FILE": "/absent",
        "AZURE_AUTHORITY_HOST": "https://login.invalid",
    }
    assert fetched(entra, environ).credential


def test_another_application_uses_the_workload_s_file(entra, tmp_path):
    entra.assertions.add(ASSERTION)
    file = tmp_path / "token"
    file.write_text(ASSERTION)
    # The secret is of the environment's application, not of the one that the config names.
    environ = {"AZURE_CLIENT_SECRET": SECRET, "AZURE_CLIENT_ID": "other", "AZURE_FEDERATED_TOKEN_FILE": str(file)}
    fetched(entra, environ, client_secret=Secret())
    assert "client_secret" not in entra.calls[0].form


def test_each_fetch_asks_anew(entra):
    source = azure_source(configured(entra), {})
    tokens = [source.fetch().credential.reveal() for _ in range(3)]
    assert tokens == entra.issued
    assert len(set(tokens)) == 3


SCOPES = {
    "https://login.microsoftonline.us": "https://cognitiveservices.azure.us/.default",
    "https://login.partner.microsoftonline.cn/": "https://cognitiveservices.azure.cn/.default",
    "https://login.microsoftonline.com": "https://cognitiveservices.azure.com/.default",
    "": "https://cognitiveservices.azure.com/.default",
}


@pytest.mark.parametrize(("authority", "scope"), SCOPES.items())
def test_a_sovereign_cloud_has_its_own_scope(entra, monkeypatch, authority, scope):
    source = azure_source(configured(entra, authority_host=authority), {})
    posted = []
    monkeypatch.setattr(type(source), "_post", lambda _, url, form: posted.append((url, form)) or entra_answer())
    source.fetch()
    ((url, form),) = posted
    assert form["scope"] == scope
    assert url == f"{authority.rstrip('/') or 'https://login.microsoftonline.com'}/{TENANT}/oauth2/v2.0/token"


def entra_answer():
    from extproc.auth.oauth import Answer

    return Answer("login", 200, b'{"access_token":"t","expires_in":60}')


# --- identity ---


def test_equal_sections_are_one_source(entra):
    one, other = (azure_source(configured(entra), {}) for _ in range(2))
    assert one.key == other.key
    assert hash(one.key) == hash(other.key)
    assert one.name == f"azure-client-secret/{TENANT}/{CLIENT}"
    assert one.watches == ()


OTHERS = {
    "another secret": {"client_secret": Secret("other")},
    "another application": {"client_id": "other"},
    "another tenant": {"tenant_id": "other"},
    "another authority": {"authority_host": "https://login.microsoftonline.us"},
    "another proof": {"client_secret": Secret(), "federated_token_file": "/var/run/token"},
}


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
def test_another_section_is_another_source(entra, changes):
    assert azure_source(configured(entra), {}).key != azure_source(configured(entra, **changes), {}).key


# --- what cannot be asked ---

SECTION = {"client_id": CLIENT, "tenant_id": TENANT, "client_secret": Secret("canary")}
FAULTS = {
    "nothing": ({}, {}, "no tenantID .AZURE_TENANT_ID., no clientID .AZURE_CLIENT_ID., no clientSecret"),
    "no proof": (
        {"client_id": CLIENT, "tenant_id": TENANT},
        {},
        "to ask for one no clientSecret .* or federatedTokenFile",
    ),
    "a secret of no application": (
        {"tenant_id": TENANT, "client_secret": Secret("canary")},
        {"AZURE_CLIENT_ID": CLIENT},
        "a clientSecret and no clientID",
    ),
    "a secret of another application": (
        {"client_id": CLIENT, "tenant_id": TENANT},
        {"AZURE_CLIENT_SECRET": "canary", "AZURE_CLIENT_ID": "other"},
        "no clientSecret",
    ),
    "a tenant that leaves the path": ({**SECTION, "tenant_id": "../canary"}, {}, "neither an ID nor a domain"),
    "an authority without TLS": (
        {**SECTION, "authority_host": "http://canary.example"},
        {},
        "no URL that a secret may",
    ),
    "an authority with a path": ({**SECTION, "authority_host": "https://h/canary"}, {}, "no URL that a secret may"),
    "an authority with a password": ({**SECTION, "authority_host": "https://u:canary@h"}, {}, "no URL that a secret"),
    "an authority in the environment": (SECTION, {"AZURE_AUTHORITY_HOST": "canary"}, "no URL that a secret may"),
    "a proxy that is none": (SECTION, {"AI_GATEWAY_AZURE_PROXY_URL": "canary:80"}, "AI_GATEWAY_AZURE_PROXY_URL is not"),
    "a proxy with a wrong port": (SECTION, {"AI_GATEWAY_AZURE_PROXY_URL": "http://u:canary@h:99999"}, "is not the URL"),
}


@pytest.mark.parametrize(("section", "environ", "reason"), FAULTS.values(), ids=FAULTS)
def test_a_section_that_cannot_work_is_a_fault(section, environ, reason):
    with pytest.raises(BackendFault, match=reason) as caught:
        azure_source(AzureAuth(**section), environ)
    assert "canary" not in str(caught.value)


# --- failures ---

ANSWERS = {
    "a refusal": (
        json_reply(401, {"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret."}),
        "answered 401: invalid_client: AADSTS7000215: Invalid client secret.",
    ),
    "a refusal without a description": (json_reply(400, {"error": "invalid_request"}), "answered 400: invalid_request"),
    "a refusal that repeats the secret": (
        json_reply(401, {"error": "invalid_client", "error_description": f"secret '{SECRET}' is wrong"}),
        "answered 401: invalid_client: secret '[REDACTED]' is wrong",
    ),
    "a refusal that repeats the form": (
        json_reply(400, {"error": "e", "error_description": "client_secret=canary~Q8~entra.secret%2B%2F%3D%26%25&x"}),
        "answered 400: e: client_secret=[REDACTED]&x",
    ),
    "a refusal with a token": (
        json_reply(400, {"error": "e", "error_description": f"got eyJ{'0canary' * 20} {'A1b' * 30}"}),
        "answered 400: e: got [REDACTED] [REDACTED]",
    ),
    "a refusal in other types": (json_reply(400, {"error": ["canary"], "error_description": 5}), "answered 400"),
    "a refusal with line breaks": (
        json_reply(400, {"error": "e", "error_description": "a\r\nTrace ID: b\x00"}),
        "answered 400: e: a Trace ID: b",
    ),
    "a refusal as a list": (json_reply(400, [1]), "answered 400"),
    "a deep refusal": (Reply(status=400, body=b"[" * 50_000), "answered 400"),
    "a page of a proxy": (html(502), "answered 502"),
    "a page with success": (html(200), "answered with something that is no token"),
    "throttling": (json_reply(429, {"error": "too_many_requests"}), "answered 429: too_many_requests"),
    "nothing": (Reply(), "answered with something that is no token"),
    "no content": (Reply(status=204), "answered 204"),
    "no JSON": (Reply(body=b"canary"), "answered with something that is no token"),
    "no UTF-8": (Reply(body=b'{"access_token":"canary\xff"}'), "answered with something that is no token"),
    "a list": (json_reply(200, ["canary"]), "answered with something that is no token"),
    "no token": (json_reply(200, {"expires_in": 5}), "answered with something that is no token"),
    "an empty token": (json_reply(200, {"access_token": ""}), "answered with something that is no token"),
    "a token of another type": (json_reply(200, {"access_token": 5}), "answered with something that is no token"),
    "a token that no header holds": (
        json_reply(200, {"access_token": "canary\r\nx: y"}),
        "answered with something that is no token",
    ),
    "a lifetime of another type": (
        json_reply(200, {"access_token": "canary", "expires_in": True}),
        "answered with something that is no token",
    ),
    "a lifetime that is no number": (
        json_reply(200, {"access_token": "canary", "expires_in": "soon"}),
        "answered with something that is no token",
    ),
    "no lifetime left": (
        json_reply(200, {"access_token": "canary", "expires_in": 0}),
        "answered with a token that has expired",
    ),
    "a lifetime below zero": (
        json_reply(200, {"access_token": "canary", "expires_in": -1}),
        "answered with a token that has expired",
    ),
    "too much": (Reply(body=b" " * 70_000), "answered with more than 65536 bytes"),
    "half an answer": (HangUp(after=10), "answered with something that is no token"),
    "a redirection": (redirect("http://127.0.0.1:1/canary"), "answered 307"),
}


@pytest.mark.parametrize(("answer", "reason"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_without_a_token_is_told_without_secrets(entra, answer, reason):
    entra.script("token", answer)
    source = azure_source(configured(entra), {})
    assert fails(source) == f"{entra.host} {reason}"
    assert source.fetch().credential.reveal() == entra.issued[-1]


REFUSALS = {
    "a wrong secret": (
        {"client_secret": Secret("canary")},
        "answered 401: invalid_client: AADSTS7000215: Invalid client",
    ),
    "a wrong application": ({"client_id": "other"}, "answered 400: unauthorized_client: AADSTS700016"),
    "a wrong tenant": (
        {"tenant_id": "contoso.example"},
        "answered 400: invalid_request: AADSTS90002: Tenant 'contoso.",
    ),
}


@pytest.mark.parametrize(("changes", "reason"), REFUSALS.values(), ids=REFUSALS)
def test_what_entra_refuses_is_told_in_its_words(entra, changes, reason):
    told = fails(azure_source(configured(entra, **changes), {}))
    assert told.startswith(f"{entra.host} {reason}")
    assert "Correlation ID: 55555555-6666-7777-8888-999999999999" in told


LIFETIMES = {
    "a number": (60, 60),
    "a text": ("60", 60),
    "a fraction": (59.5, 59.5),
    "none": (None, 300),
    "absurdly many": (1e300, 10 * 365 * 86400),
}


@pytest.mark.parametrize(("given", "seconds"), LIFETIMES.values(), ids=LIFETIMES)
def test_the_lifetime_counts_from_the_question(entra, given, seconds):
    entra.script("token", json_reply(200, {"access_token": "t", "expires_in": given}))
    before = time.time()
    assert before + seconds <= fetched(entra).expires_at <= time.time() + seconds


@pytest.mark.parametrize("ahead", [-300, 300])
def test_a_clock_that_is_off_changes_nothing(entra, ahead):
    entra.ahead = ahead
    assert fetched(entra).expires_at == pytest.approx(time.time() + 3600, abs=30)


# Even the head of an answer may be late on a busy machine.
SLOW = {
    "no answer": (Silence(), "did not answer within 0.2 s"),
    "an answer that drips": (Drip(), "did not (finish its answer in time|answer within 0.2 s)"),
}


@pytest.mark.parametrize(("fault", "reason"), SLOW.values(), ids=SLOW)
def test_a_slow_endpoint_is_not_waited_for(entra, fault, reason):
    entra.script("token", fault)
    told = fails(replace(azure_source(configured(entra), {}), seconds=SHORT))
    assert re.fullmatch(f"{entra.host} {reason}", told)


def test_an_endpoint_that_hangs_up_is_told(entra):
    entra.script("token", HangUp())
    assert fails(azure_source(configured(entra), {})) == f"{entra.host} broke off the call: RemoteDisconnected"


def test_an_endpoint_that_is_not_there_is_told(entra, nobody):
    source = azure_source(configured(entra, authority_host=f"http://{nobody}"), {})
    assert fails(source) == f"{nobody} cannot be reached: Connection refused"


def test_an_endpoint_without_tls_is_told(entra):
    source = azure_source(configured(entra, authority_host=f"https://{entra.host}"), {})
    assert fails(source).startswith(f"{entra.host} cannot be reached by TLS: ")


FILES = {
    "absent": (None, "cannot be read: No such file or directory"),
    "empty": (b" \n", "holds no token"),
    "no text": (b"canary\xff", "holds no token"),
    "too large": (b"canary" * 20_000, "cannot be read: larger than 65536 bytes"),
}


@pytest.mark.parametrize(("content", "reason"), FILES.values(), ids=FILES)
def test_a_file_that_holds_no_token_is_told(entra, tmp_path, content, reason):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    source = azure_source(configured(entra, client_secret=Secret(), federated_token_file=str(file)), {})
    assert fails(source).startswith(f"the federated token file {file} {reason}")
    assert entra.calls == []


# --- proxies ---


def test_the_configured_proxy_is_used(entra, monkeypatch, nobody):
    monkeypatch.setenv("http_proxy", f"http://{nobody}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    # The stand-in takes the place of a proxy: it is asked for a whole URL, of a host that is not there.
    proxy = f"http://user:canary@{entra.host}"
    source = azure_source(configured(entra, authority_host=f"http://{nobody}"), {"AI_GATEWAY_AZURE_PROXY_URL": proxy})
    assert source.fetch().credential.reveal() == entra.issued[0]
    assert entra.calls[0].headers["proxy-authorization"].startswith("Basic ")
    assert "canary" not in repr(source)


def test_without_one_the_environment_s_proxy_is_used(entra, monkeypatch, nobody):
    monkeypatch.setenv("http_proxy", entra.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    source = azure_source(configured(entra, authority_host=f"http://{nobody}"), {})
    assert source.fetch().credential.reveal() == entra.issued[0]


def test_a_proxy_that_refuses_is_told(entra):
    environ = {"AI_GATEWAY_AZURE_PROXY_URL": f"http://user:canary@{entra.host}"}
    source = azure_source(configured(entra, authority_host="https://login.microsoftonline.us"), environ)
    assert fails(source) == "login.microsoftonline.us cannot be reached through the proxy"
