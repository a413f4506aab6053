"""Google tokens by Application Default Credentials: every flow, and what a failure may say (BR-99, BR-100, Q53)."""

from __future__ import annotations

import base64
import json
import logging
import re
import socket
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from extproc.auth import gcp_source as module
from extproc.auth.gcp_source import SCOPE, gcp_source
from extproc.auth.sources import SourceError
from extproc.errors import BackendFault
from filter_config.model import GCPAuth
from tests.support.google_endpoints import (
    ACCOUNT,
    REFRESH_TOKEN,
    SUBJECT_TOKEN,
    SUBJECT_TYPE,
    GoogleEndpoints,
    key,
    pem,
)
from tests.support.token_endpoints import Drip, HangUp, Reply, Silence, html, json_reply, redirect

SHORT = 0.2  # seconds, where nobody answers
PRIVATE = "MII"  # how the text of a private key begins
METADATA_HOST = "google.auth.compute_engine._metadata._GCE_METADATA_HOST"


@pytest.fixture(autouse=True)
def google_endpoints(monkeypatch):
    """A stand-in, where google-auth looks for Google itself; waiting between its own attempts is an error."""

    def waits(_):
        raise AssertionError("google-auth waits")

    # In that module alone: others wait as well, `subprocess` for a program to end.
    monkeypatch.setattr("google.auth._exponential_backoff.time", SimpleNamespace(sleep=waits))
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with GoogleEndpoints() as endpoints:
        monkeypatch.setattr("google.oauth2.credentials._GOOGLE_OAUTH2_TOKEN_ENDPOINT", f"{endpoints.url}/token")
        monkeypatch.setattr("google.auth.iam._IAM_ENDPOINT", endpoints.impersonation_url.replace(ACCOUNT, "{}"))
        monkeypatch.setattr(METADATA_HOST, endpoints.host)
        yield endpoints


@pytest.fixture
def stand_in(google_endpoints):
    return google_endpoints


@pytest.fixture
def nobody():
    """A host at which nobody listens, and nobody else can."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "adc.json"


@pytest.fixture
def source_of(file):
    """Makes the source of a credentials file."""

    def make(info, **environ):
        file.write_text(info if isinstance(info, str) else json.dumps(info))
        return gcp_source(GCPAuth(), {"GOOGLE_APPLICATION_CREDENTIALS": str(file), **environ})

    return make


def fails(source):
    with pytest.raises(SourceError) as caught:
        source.fetch()
    shown = f"{caught.value} {caught.value!r} {source!r} {source.name}"
    assert "canary" not in shown
    assert PRIVATE not in shown
    assert caught.value.__cause__ is None
    assert str(caught.value).startswith("failed to get GCP access token: ")
    return str(caught.value).removeprefix("failed to get GCP access token: ")


# --- flows ---


def subject_file(tmp_path):
    path = tmp_path / "subject"
    path.write_text(SUBJECT_TOKEN)
    return path


FLOWS = {
    "a service account": (lambda stand_in, _: stand_in.service_account(), ["token"]),
    "an authorized user": (lambda stand_in, _: stand_in.authorized_user(), ["token"]),
    "federation by a file": (
        lambda stand_in, path: stand_in.external_account({"file": str(subject_file(path))}),
        ["sts"],
    ),
    "federation by a URL": (
        lambda stand_in, _: stand_in.external_account(stand_in.url_source),
        ["subject", "sts"],
    ),
    "federation with impersonation": (
        lambda stand_in, path: stand_in.external_account({"file": str(subject_file(path))}, impersonated=True),
        ["sts", "impersonate"],
    ),
    "federation by a URL with impersonation": (
        lambda stand_in, _: stand_in.external_account(stand_in.url_source, impersonated=True),
        ["subject", "sts", "impersonate"],
    ),
    "a user who impersonates": (
        lambda stand_in, _: stand_in.impersonated_account(stand_in.authorized_user()),
        ["token", "impersonate"],
    ),
}


@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_a_flow_gets_a_token(stand_in, source_of, tmp_path, flow):
    info, calls = flow
    source = source_of(info(stand_in, tmp_path))
    answer = source.fetch()
    assert answer.credential.reveal() == stand_in.issued[-1]
    assert answer.expires_at == pytest.approx(time.time() + 3600, abs=30)
    assert [call.endpoint for call in stand_in.calls] == calls
    assert "canary" not in repr(answer)


@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_each_fetch_asks_anew(stand_in, source_of, tmp_path, flow):
    info, calls = flow
    source = source_of(info(stand_in, tmp_path))
    tokens = {source.fetch().credential.reveal() for _ in range(3)}
    assert len(tokens) == 3
    assert [call.endpoint for call in stand_in.calls] == calls * 3


@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_nothing_secret_is_logged(stand_in, source_of, tmp_path, caplog, flow):
    info, calls = flow
    with caplog.at_level(logging.DEBUG):
        source_of(info(stand_in, tmp_path)).fetch()
        stand_in.always(calls[-1], json_reply(400, {"error": "e", "error_description": "canary"}))
        with pytest.raises(SourceError):
            source_of(info(stand_in, tmp_path)).fetch()
    assert "canary" not in caplog.text
    assert PRIVATE not in caplog.text


AWS_SOURCE = {
    "environment_id": "aws1",
    "regional_cred_verification_url": "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15",
}
AWS_TYPE = "urn:ietf:params:aws:token-type:aws4_request"


def test_an_aws_identity_is_exchanged(stand_in, source_of, monkeypatch):
    for name, value in (("ACCESS_KEY_ID", "AKID"), ("SECRET_ACCESS_KEY", "canary"), ("REGION", "eu-west-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    stand_in.script("sts", json_reply(200, {"access_token": "t", "expires_in": 60}))
    source = source_of(stand_in.external_account(AWS_SOURCE, subject_token_type=AWS_TYPE))
    assert source.fetch().credential.reveal() == "t"
    (call,) = stand_in.calls
    assert call.form["subject_token_type"] == AWS_TYPE
    assert "AKID" in call.form["subject_token"]
    assert "canary" not in call.form["subject_token"]


def test_an_executable_may_give_the_subject_token(stand_in, source_of, tmp_path, monkeypatch):
    answer = {"version": 1, "success": True, "token_type": SUBJECT_TYPE, "id_token": SUBJECT_TOKEN}
    script = tmp_path / "give"
    script.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    script.chmod(0o700)
    source = source_of(stand_in.external_account({"executable": {"command": str(script), "timeout_millis": 5000}}))
    monkeypatch.delenv("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", raising=False)
    assert "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES" in fails(source)
    monkeypatch.setenv("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "1")
    assert source.fetch().credential.reveal() == stand_in.issued[0]


def test_a_user_of_another_provider_gets_a_token(stand_in, source_of):
    stand_in.script("sts", json_reply(200, {"access_token": "t", "expires_in": 60}))
    info = {
        "type": "external_account_authorized_user",
        "audience": "//iam.googleapis.com/locations/global/workforcePools/pool/providers/provider",
        "refresh_token": "canary-refresh",
        "token_url": f"{stand_in.url}/v1/token",
        "token_info_url": f"{stand_in.url}/v1/introspect",
        "client_id": "client",
        "client_secret": "canary-secret",
    }
    assert source_of(info).fetch().credential.reveal() == "t"
    assert stand_in.calls[0].form == {"grant_type": "refresh_token", "refresh_token": "canary-refresh"}


def test_the_metadata_server_gets_a_token(stand_in):
    source = gcp_source(GCPAuth(), {"GCE_METADATA_HOST": stand_in.host})
    answer = source.fetch()
    assert answer.credential.reveal() == stand_in.issued[0]
    assert answer.expires_at == pytest.approx(time.time() + 3600, abs=30)
    assert all(call.headers["metadata-flavor"] == "Google" for call in stand_in.calls)
    assert source.watches == ()


def test_the_file_of_gcloud_is_used_where_none_is_named(stand_in, tmp_path):
    known = tmp_path / ".config/gcloud/application_default_credentials.json"
    source = gcp_source(GCPAuth(), {"HOME": str(tmp_path), "GCE_METADATA_HOST": stand_in.host})
    assert source.watches == (known,)
    source.fetch()
    assert stand_in.calls[-1].endpoint == "metadata"
    known.parent.mkdir(parents=True)
    with GoogleEndpoints() as other:
        known.write_text(json.dumps(other.service_account()))
        source.fetch()
    assert [call.endpoint for call in other.calls] == ["token"]


def test_gcloud_may_keep_its_files_elsewhere(stand_in, tmp_path):
    (tmp_path / "application_default_credentials.json").write_text(json.dumps(stand_in.authorized_user()))
    gcp_source(GCPAuth(), {"HOME": "/absent", "CLOUDSDK_CONFIG": str(tmp_path)}).fetch()
    assert [call.endpoint for call in stand_in.calls] == ["token"]


def test_another_universe_needs_no_endpoint(stand_in, source_of):
    token = source_of(stand_in.service_account(universe_domain="example.org")).fetch().credential
    assert token.reveal().count(".") == 2
    assert stand_in.calls == []


# --- identity and rotation ---


def test_all_backends_of_a_process_share_one_source(file):
    environ = {"GOOGLE_APPLICATION_CREDENTIALS": str(file)}
    one, other = gcp_source(GCPAuth(region="global"), environ), gcp_source(GCPAuth(project_name="p"), environ)
    assert one.key == other.key
    assert hash(one.key) == hash(other.key)
    assert one.name == "gcp-default-credentials"
    assert one.key != gcp_source(GCPAuth(), {}).key


def test_a_replaced_credentials_file_counts_at_once(stand_in, source_of, file):
    source = source_of(stand_in.service_account())
    assert source.watches == (file,)
    source.fetch()
    file.write_text(json.dumps(stand_in.authorized_user()))
    source.fetch()
    assert stand_in.calls[-1].form["refresh_token"] == REFRESH_TOKEN


def test_a_replaced_subject_token_counts_at_once(stand_in, source_of, file, tmp_path):
    subject = subject_file(tmp_path)
    source = source_of(stand_in.external_account({"file": str(subject)}))
    assert source.watches == (file, subject)
    source.fetch()
    stand_in.subject_token = "canary-next"
    assert fails(source).startswith(f"{stand_in.host} answered 400: invalid_grant: The given credential is rejected")
    subject.write_text("canary-next")
    assert source.fetch().credential.reveal() == stand_in.issued[-1]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"credential_source": {"file": ""}}', '{"credential_source": 5}'])
def test_a_file_that_names_none_is_watched_alone(source_of, file, content):
    assert source_of(content).watches == (file,)


# --- clocks ---


@pytest.mark.parametrize("ahead", [-300, 300])
@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_a_clock_that_is_off_loses_no_token(stand_in, source_of, tmp_path, flow, ahead):
    info, _ = flow
    stand_in.ahead = ahead
    answer = source_of(info(stand_in, tmp_path)).fetch()
    assert answer.credential.reveal() == stand_in.issued[-1]
    assert answer.expires_at == pytest.approx(time.time() + 3600, abs=30)


def test_an_assertion_is_made_again_only_for_a_clock_that_is_off(stand_in, source_of):
    stand_in.always("token", json_reply(400, {"error": "invalid_grant"}))
    source = source_of(stand_in.service_account())
    fails(source)
    assert len(stand_in.calls) == 1
    stand_in.ahead = 300
    fails(source)
    assert len(stand_in.calls) == 3


# --- nothing to ask with ---


def test_without_any_credentials_all_places_are_named(tmp_path, monkeypatch, nobody):
    monkeypatch.setattr(METADATA_HOST, nobody)
    source = gcp_source(GCPAuth(), {"HOME": str(tmp_path), "GCE_METADATA_HOST": nobody})
    assert fails(source) == (
        "no Application Default Credentials: GOOGLE_APPLICATION_CREDENTIALS is not set, "
        f"{tmp_path}/.config/gcloud/application_default_credentials.json does not exist, {nobody} cannot be reached"
    )


def test_the_metadata_server_may_be_left_out(stand_in):
    source = gcp_source(GCPAuth(), {"NO_GCE_CHECK": "true", "GCE_METADATA_HOST": stand_in.host})
    assert fails(source).endswith("GOOGLE_APPLICATION_CREDENTIALS is not set, NO_GCE_CHECK is set")
    assert stand_in.calls == []


def test_another_server_is_no_metadata_server(stand_in):
    stand_in.flavor = "Other"
    source = gcp_source(GCPAuth(), {"GCE_METADATA_HOST": stand_in.host})
    assert fails(source).endswith(f"{stand_in.host} is no metadata server of Google")


def test_a_named_file_must_exist(stand_in, tmp_path):
    environ = {"GOOGLE_APPLICATION_CREDENTIALS": "/absent/adc.json", "GCE_METADATA_HOST": stand_in.host}
    assert fails(gcp_source(GCPAuth(), environ)) == (
        "the credentials file /absent/adc.json cannot be read: No such file or directory"
    )
    assert stand_in.calls == []


def test_a_missing_package_is_a_fault(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(BackendFault, match=r"install them: pip install 'envoy-llm-extproc\[gcp\]'"):
        gcp_source(GCPAuth(), {})


PROXIES = ["canary", "ftp://canary", "https://canary:1", "http://u:canary@h:x", "http://"]


@pytest.mark.parametrize("proxy", PROXIES)
def test_a_proxy_that_is_none_is_a_fault(proxy):
    with pytest.raises(BackendFault, match="AI_GATEWAY_GCP_AUTH_PROXY_URL is not the URL of an HTTP proxy") as caught:
        gcp_source(GCPAuth(), {"AI_GATEWAY_GCP_AUTH_PROXY_URL": proxy})
    assert "canary" not in str(caught.value)


# --- files that cannot be used ---

WITHOUT_KEY = {"type": "service_account", "client_email": "a", "token_uri": "http://127.0.0.1:1/"}
NO_KEY = "the private_key is no RSA key in PEM form"
FILES = {
    "empty": ("", "holds no JSON object"),
    "no JSON": ("canary", "holds no JSON object"),
    "a list": ('["canary"]', "holds no JSON object"),
    "deep": ("[" * 50_000, "holds no JSON object"),
    "no type": ({"private_key": "canary"}, "has none of the types service_account, authorized_user, external_account,"),
    "another type": ({"type": "canary"}, "has none of the types service_account"),
    "a type of another kind": ({"type": ["canary"]}, "has none of the types service_account"),
    "no fields": ({"type": "service_account"}, "the service account has no client_email, no private_key, no token_uri"),
    "a user without fields": ({"type": "authorized_user", "client_secret": "canary"}, "is malformed"),
    "no key": ({**WITHOUT_KEY, "private_key": ""}, "the service account has no private_key"),
    "a key that is none": ({**WITHOUT_KEY, "private_key": "canary"}, NO_KEY),
    "a key of another kind": ({**WITHOUT_KEY, "private_key": 5}, "the service account has no private_key"),
    "half a key": ({**WITHOUT_KEY, "private_key": "-----BEGIN PRIVATE KEY-----\nMIIcanary\n"}, NO_KEY),
    "a key of another universe": ({**WITHOUT_KEY, "universe_domain": "example.org", "private_key": "canary"}, ""),
    "a source of no kind": (
        {"type": "external_account", "audience": "a", "subject_token_type": "t", "credential_source": {"canary": 1}},
        "Missing credential_source",
    ),
    "no source": ({"type": "external_account", "audience": "a", "subject_token_type": "t"}, ""),
    "a source of another type": (
        {"type": "external_account", "audience": "a", "subject_token_type": "t", "credential_source": "canary"},
        "",
    ),
    "no subject token": (
        {
            "type": "external_account",
            "audience": "a",
            "subject_token_type": "t",
            "token_url": "http://127.0.0.1:1/canary",
            "credential_source": {"file": "/absent/token"},
        },
        "File '/absent/token' was not found",
    ),
    "impersonation of nobody": ({"type": "impersonated_service_account"}, "is malformed"),
    "impersonation by another type": (
        {"type": "impersonated_service_account", "source_credentials": {"type": "x", "private_key": "canary"}},
        "source credential of type x is not supported",
    ),
}


@pytest.mark.parametrize(("info", "reason"), FILES.values(), ids=FILES)
def test_a_file_that_cannot_be_used_is_told_without_its_content(stand_in, source_of, file, info, reason):
    told = fails(source_of(info))
    assert told.startswith(f"the credentials file {file}")
    assert reason in told
    assert stand_in.calls == []


def test_a_subject_token_file_that_may_not_be_read_is_told(stand_in, source_of, file, tmp_path):
    source = source_of(stand_in.external_account({"file": str(tmp_path)}))
    assert fails(source) == f"the credentials file {file}: {tmp_path}: Is a directory"


def test_a_key_that_is_another_s_is_refused_in_google_s_words(stand_in, source_of):
    other = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    source = source_of(stand_in.service_account(private_key=pem(other)))
    assert fails(source) == f"{stand_in.host} answered 400: invalid_grant: Invalid JWT Signature."


def _integer(value):
    octets = value.to_bytes(value.bit_length() // 8 + 1, "big")
    return b"\x02" + _length(octets) + octets


def _length(octets):
    size = len(octets)
    if size < 128:
        return bytes([size])
    long = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([128 + len(long)]) + long


def _pkcs1(**changes):
    """The key of the account with other numbers (RFC 8017, A.1.2)."""
    own = key().private_numbers()
    numbers = {
        "version": 0,
        "n": own.public_numbers.n,
        "e": own.public_numbers.e,
        "d": own.d,
        "p": own.p,
        "q": own.q,
        "dp": own.dmp1,
        "dq": own.dmq1,
        "qi": own.iqmp,
    }
    octets = b"".join(map(_integer, {**numbers, **changes}.values()))
    text = base64.encodebytes(b"\x30" + _length(octets) + octets).decode()
    return f"-----BEGIN RSA PRIVATE KEY-----\n{text}-----END RSA PRIVATE KEY-----\n"


def test_a_key_is_judged_by_its_signature_and_its_primes_are_not_proven(stand_in, source_of):
    """To prove them keeps every other thread waiting for 55 ms, and this key signs rightly without its ``p``."""
    wrong = _pkcs1(p=key().private_numbers().p + 2)
    with pytest.raises(ValueError, match="Invalid private key"):
        serialization.load_pem_private_key(wrong.encode(), password=None)
    assert source_of(stand_in.service_account(private_key=wrong)).fetch().credential.reveal() == stand_in.issued[-1]


@pytest.mark.parametrize("number", ["n", "e"])
def test_a_key_that_signs_wrongly_is_told(stand_in, source_of, number):
    own = getattr(key().public_key().public_numbers(), number)
    source = source_of(stand_in.service_account(private_key=_pkcs1(**{number: own + 2})))
    assert fails(source).endswith(f": {NO_KEY}")
    assert stand_in.calls == []


def test_a_key_of_another_algorithm_is_told(stand_in, source_of):
    source = source_of(stand_in.service_account(private_key=pem(ec.generate_private_key(ec.SECP256R1()))))
    assert fails(source).endswith(f": {NO_KEY}")


# --- failures ---

NO_TOKEN = "answered with something that is no token"
BAD = {
    "a refusal": (
        json_reply(400, {"error": "invalid_grant", "error_description": "Token has been revoked."}),
        "answered 400: invalid_grant: Token has been revoked.",
    ),
    "a refusal of an API": (
        json_reply(403, {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "denied", "details": []}}),
        "answered 403: PERMISSION_DENIED: denied",
    ),
    "a refusal to prove oneself again": (
        json_reply(400, {"error": "invalid_grant", "error_subtype": "invalid_rapt", "error_description": "reauth"}),
        "answered 400: invalid_grant: reauth",
    ),
    "a page of a proxy": (html(502), "answered 502"),
    "a page with success": (html(200), NO_TOKEN),
    "a server that is busy": (
        json_reply(503, {"error": "temporarily_unavailable"}),
        "answered 503: temporarily_unavai",
    ),
    "throttling": (Reply(status=429), "answered 429"),
    "nothing": (Reply(headers={"Content-Type": "application/json"}), NO_TOKEN),
    "no content": (Reply(status=204), "answered 204"),
    "no UTF-8": (Reply(body=b'"canary\xff"', headers={"Content-Type": "application/json"}), NO_TOKEN),
    "a list": (json_reply(200, ["canary"]), NO_TOKEN),
    "null": (json_reply(200, None), NO_TOKEN),
    "no token": (json_reply(200, {"expires_in": 5, "email": "e"}), NO_TOKEN),
    "other types": (
        json_reply(200, {"access_token": 5, "accessToken": 5, "expires_in": [], "expireTime": 5}),
        NO_TOKEN,
    ),
    "no lifetime left": (
        json_reply(
            200,
            {
                "access_token": "canary",
                "expires_in": -5,
                "accessToken": "canary",
                "expireTime": "2001-01-01T00:00:00Z",
            },
        ),
        "answered with a token that has expired",
    ),
    "a token that no header holds": (
        json_reply(
            200,
            {
                "access_token": "canary\r\n",
                "expires_in": 60,
                "accessToken": "canary\n",
                "expireTime": "2999-01-01T00:00:00Z",
            },
        ),
        NO_TOKEN,
    ),
    "half an answer": (HangUp(after=10), ""),
    "a connection that ends": (HangUp(), "cannot be reached"),
    "a redirection": (redirect("http://127.0.0.1:1/canary"), "answered 307"),
}
# One flow for each class of google-auth that reads answers, and our own.
READERS = {
    name: FLOWS[name]
    for name in ("a service account", "an authorized user", "federation by a file", "federation with impersonation")
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("flow", READERS.values(), ids=READERS)
def test_an_answer_without_a_token_is_told_without_secrets(stand_in, source_of, tmp_path, flow, bad):
    (info, calls), (fault, reason) = flow, bad
    stand_in.script(calls[-1], fault)
    source = source_of(info(stand_in, tmp_path))
    assert fails(source).startswith(f"{stand_in.host} {reason}")
    assert source.fetch().credential.reveal() == stand_in.issued[-1]


def test_an_answer_without_an_end_is_broken_off(stand_in, source_of):
    stand_in.script("token", Reply(body=b" " * 66_000))
    assert fails(source_of(stand_in.authorized_user())) == f"{stand_in.host} answered with more than 65536 bytes"


ENDLESS = json_reply(200, {"access_token": "t", "expires_in": 10**18, "accessToken": "t", "expireTime": "9" * 20})


@pytest.mark.parametrize("flow", READERS.values(), ids=READERS)
def test_a_lifetime_without_an_end_is_cut_or_refused(stand_in, source_of, tmp_path, flow):
    info, calls = flow
    stand_in.script(calls[-1], ENDLESS)
    source = source_of(info(stand_in, tmp_path))
    if calls == ["token"] and info is FLOWS["a service account"][0]:
        assert source.fetch().expires_at < time.time() + 11 * 365 * 86400
    else:
        assert fails(source) == f"{stand_in.host} {NO_TOKEN}"


@pytest.mark.parametrize("name", ["a page with success", "nothing", "a list", "no token", "other types", "null"])
def test_the_metadata_server_may_answer_anything(stand_in, name):
    (fault, _) = BAD[name]
    fault = replace(fault, headers={**fault.headers, "Metadata-Flavor": "Google"})
    source = gcp_source(GCPAuth(), {"GCE_METADATA_HOST": stand_in.host})
    stand_in.script("metadata", stand_in.answer, fault)
    assert NO_TOKEN in fails(source) or name == "a page with success"
    source.fetch()


def test_an_answer_that_repeats_what_was_sent_is_not_repeated(stand_in, source_of, tmp_path):
    def echo(call):
        sent = call.form
        return json_reply(400, {"error": "e", "error_description": f"{sent.get('subject_token')} {call.body.decode()}"})

    stand_in.script("sts", echo)
    assert "[REDACTED]" in fails(source_of(stand_in.external_account({"file": str(subject_file(tmp_path))})))
    stand_in.script("impersonate", lambda call: json_reply(403, {"error": {"message": call.headers["authorization"]}}))
    source = source_of(stand_in.external_account({"file": str(tmp_path / "subject")}, impersonated=True))
    assert fails(source) == f"{stand_in.host} answered 403: Bearer [REDACTED]"


# Even the head of an answer may be late on a busy machine.
SLOW = {
    "no answer": (Silence(), "did not answer within 0.2 s"),
    "an answer that drips": (Drip(), "did not (finish its answer in time|answer within 0.2 s)"),
}


@pytest.mark.parametrize("slow", SLOW.values(), ids=SLOW)
@pytest.mark.parametrize("name", ["a service account", "federation with impersonation"])
def test_a_slow_endpoint_is_not_waited_for(stand_in, source_of, tmp_path, name, slow):
    (info, calls), (fault, reason) = FLOWS[name], slow
    stand_in.always(calls[-1], fault)
    told = fails(replace(source_of(info(stand_in, tmp_path)), seconds=SHORT))
    assert re.fullmatch(f"{stand_in.host} {reason}", told)


def test_many_slow_calls_have_one_end(stand_in, source_of, monkeypatch):
    monkeypatch.setattr(module, "_ALL_CALLS_SECONDS", 0.0)
    assert fails(source_of(stand_in.service_account())) == f"no time is left to ask {stand_in.host}"
    assert stand_in.calls == []


# --- proxies ---


def elsewhere(stand_in):
    """A service account whose endpoint only a proxy can reach: the stand-in takes its place."""
    return stand_in.service_account(token_uri="http://oauth2.invalid/token")


def accepts(stand_in):
    stand_in.always("token", json_reply(200, {"access_token": "t", "expires_in": 60}))


def test_the_configured_proxy_goes_before_the_environment_s(stand_in, source_of, monkeypatch, nobody):
    monkeypatch.setenv("http_proxy", f"http://{nobody}")
    monkeypatch.setenv("no_proxy", "oauth2.invalid")
    accepts(stand_in)
    proxy = f"http://user:canary@{stand_in.host}"
    source = source_of(elsewhere(stand_in), AI_GATEWAY_GCP_AUTH_PROXY_URL=proxy)
    assert source.fetch().credential.reveal() == "t"
    assert stand_in.calls[0].headers["proxy-authorization"].startswith("Basic ")
    assert "canary" not in repr(source)


def test_without_one_the_environment_s_proxy_is_used(stand_in, source_of, monkeypatch):
    monkeypatch.setenv("http_proxy", stand_in.url)
    accepts(stand_in)
    assert source_of(elsewhere(stand_in)).fetch().credential.reveal() == "t"


def test_a_proxy_that_is_not_there_is_told(stand_in, source_of, nobody):
    proxy = f"http://user:canary@{nobody}"
    source = source_of(elsewhere(stand_in), AI_GATEWAY_GCP_AUTH_PROXY_URL=proxy)
    assert fails(source) == "oauth2.invalid cannot be reached through the proxy"


def test_the_metadata_server_is_asked_directly(stand_in, nobody):
    proxy = f"http://{nobody}"
    environ = {"GCE_METADATA_HOST": stand_in.host, "AI_GATEWAY_GCP_AUTH_PROXY_URL": proxy}
    assert gcp_source(GCPAuth(), environ).fetch().credential


def test_a_netrc_replaces_no_token(stand_in, source_of, tmp_path, monkeypatch):
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login user password other\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    info, _ = FLOWS["federation with impersonation"]
    assert source_of(info(stand_in, tmp_path)).fetch().credential


def test_an_endpoint_without_tls_is_told(stand_in, source_of):
    source = source_of(stand_in.service_account(token_uri=f"https://{stand_in.host}/token"))
    assert fails(source).startswith(f"{stand_in.host} cannot be reached by TLS")


def test_the_scope_is_that_of_the_platform():
    assert SCOPE == "https://www.googleapis.com/auth/cloud-platform"
