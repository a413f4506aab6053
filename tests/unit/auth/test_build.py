"""From configuration to authenticator: every method, their order, what is checked when (contract 2.6, 6.1, 10.9)."""

import logging
from typing import Any

import msgspec
import pytest

from extproc.auth.build import _METHODS, build_authenticator, credential_headers
from extproc.auth.sources import Cells
from extproc.errors import BackendFault, BackendUnavailable
from filter_config.model import AUTH_METHODS, BackendAuth, document_key
from filter_config.redact import dec_hook

FILE = (
    "[default]\naws_access_key_id = AKIACANARY\naws_secret_access_key = secret-canary\naws_session_token = token-canary"
)


def read(auth: dict[str, Any]) -> BackendAuth:
    return msgspec.convert(auth, BackendAuth, dec_hook=dec_hook)


METHODS = {
    "aws": {"credentialFileLiteral": FILE, "region": "us-east-1"},
    "apiKey": {"key": "key-canary"},
    "azureAPIKey": {"key": "key-canary"},
    "azure": {"accessToken": "token-canary"},
    "gcp": {"accessToken": "token-canary", "region": "r", "projectName": "p"},
    "anthropicAPIKey": {"key": "key-canary"},
}

STATIC = {
    "api key, trimmed": ({"apiKey": {"key": "test \n"}}, ("Authorization", "Bearer test")),
    "azure token, trimmed": ({"azure": {"accessToken": " a-token \n"}}, ("Authorization", "Bearer a-token")),
    "azure api key, trimmed": ({"azureAPIKey": {"key": " k\t"}}, ("api-key", "k")),
    "azure api key of blanks": ({"azureAPIKey": {"key": " "}}, ("api-key", "")),
    "anthropic, trimmed": ({"anthropicAPIKey": {"key": "\nk "}}, ("x-api-key", "k")),
    "an empty api key": ({"apiKey": {}}, ("Authorization", "Bearer ")),
}


@pytest.mark.parametrize(("auth", "expected"), STATIC.values(), ids=STATIC)
def test_keys_and_tokens(call, auth, expected):
    assert build_authenticator(read(auth), Cells()).authenticate(call()) == [expected]


def test_every_method_of_the_schema_is_there():
    assert tuple(_METHODS) == AUTH_METHODS
    assert tuple(METHODS) == tuple(map(document_key, AUTH_METHODS))


@pytest.mark.parametrize("first", range(len(METHODS)), ids=METHODS)
def test_of_several_methods_the_first_counts(call, first):
    (name, section), *rest = list(METHODS.items())[first:]
    alone = build_authenticator(read({name: section}), Cells()).authenticate(call())
    assert build_authenticator(read({**dict(rest), name: section}), Cells()).authenticate(call()) == alone


FAULTS = {
    "no method": ({}, "no backend auth handler found"),
    "an override alone": ({"credentialOverride": {"headerName": "x-k"}}, "no backend auth handler found"),
    "no azure key": ({"azureAPIKey": {}}, "azure API key is required"),
    "a key that no header can carry": ({"apiKey": {"key": "a\rb"}}, "control character"),
}


@pytest.mark.parametrize(("auth", "fault"), FAULTS.values(), ids=FAULTS)
def test_faults(auth, fault):
    with pytest.raises(BackendFault, match=fault):
        build_authenticator(read(auth), Cells())


UNUSABLE = {
    "aws, a broken file": {"aws": {"region": "us-east-1", "credentialFileLiteral": "x"}},
    "azureAPIKey": {"azureAPIKey": {}},
    "apiKey": {"apiKey": {"key": "a\nb"}},
}


@pytest.mark.parametrize("auth", UNUSABLE.values(), ids=UNUSABLE)
def test_a_configured_credential_must_be_usable_only_where_a_request_may_fall_back_to_it(auth):
    override = {"headerName": "x-k", "fallbackToConfigured": False}
    build_authenticator(read({**auth, "credentialOverride": override}), Cells())
    with pytest.raises(BackendFault):
        build_authenticator(read({**auth, "credentialOverride": {**override, "fallbackToConfigured": True}}), Cells())


FETCHED = {
    "aws": ({"aws": {"region": "us-east-1"}}, "aws-default-chain/us-east-1"),
    "gcp": ({"gcp": {"region": "r", "projectName": "p"}}, "gcp-"),
    "azure": (
        {"azure": {"clientID": "c", "tenantID": "t", "clientSecret": "s", "accessToken": " "}},
        "azure-client-secret/t/c",
    ),
}


@pytest.mark.parametrize(("auth", "name"), FETCHED.values(), ids=FETCHED)
def test_what_the_config_does_not_hold_is_fetched_and_by_one_cell_for_all_backends(call, auth, name):
    cells = Cells()
    authenticators = [build_authenticator(read(auth), cells) for _ in range(2)]
    (cell,) = cells.used
    assert cell.source.name.startswith(name)
    for authenticator in authenticators:
        with pytest.raises(BackendUnavailable, match="has not been fetched yet"):
            authenticator.authenticate(call())


@pytest.mark.parametrize(("auth", "name"), FETCHED.values(), ids=FETCHED)
def test_what_every_request_brings_is_not_fetched(auth, name):
    cells = Cells()
    override = {"headerName": "x-k", "fallbackToConfigured": False}
    build_authenticator(read({**auth, "credentialOverride": override}), cells)
    assert cells.used == ()
    build_authenticator(read({**auth, "credentialOverride": {**override, "fallbackToConfigured": True}}), cells)
    assert len(cells.used) == 1


def test_project_and_region_are_needed_also_for_a_credential_of_the_request():
    with pytest.raises(BackendFault, match=r"auth\.gcp has no projectName and no region"):
        build_authenticator(read({"gcp": {}, "credentialOverride": {"headerName": "x-k"}}), Cells())


HEADERS = {
    "none": ({}, ()),
    "metadata": ({"credentialOverride": {"dynamicMetadataNamespace": "n", "dynamicMetadataKey": "k"}}, ()),
    "a token": ({"apiKey": {}, "credentialOverride": {"headerName": "X-Key"}}, ("x-key",)),
    "a prefix": (
        {"aws": {}, "credentialOverride": {"headerName": "X-Aigw-Aws-"}},
        ("x-aigw-aws-access-key-id", "x-aigw-aws-secret-access-key", "x-aigw-aws-session-token"),
    ),
    "aws wins": (
        {"aws": {}, "apiKey": {}, "credentialOverride": {"headerName": "p"}},
        ("paccess-key-id", "psecret-access-key", "psession-token"),
    ),
}


@pytest.mark.parametrize(("auth", "expected"), HEADERS.values(), ids=HEADERS)
def test_the_headers_that_may_bring_a_credential(auth, expected):
    assert credential_headers(read(auth)) == expected


@pytest.mark.parametrize("fallback", [None, False, True], ids=["static", "override", "override with fallback"])
@pytest.mark.parametrize("method", METHODS)
def test_no_authenticator_shows_its_credential(call, caplog, method, fallback):
    auth = {method: METHODS[method]}
    if fallback is not None:
        auth["credentialOverride"] = {"headerName": "x-k-", "fallbackToConfigured": fallback}
    caplog.set_level(logging.DEBUG)
    authenticator = build_authenticator(read(auth), Cells())
    if fallback is not False:
        assert "canary" in str(authenticator.authenticate(call())).lower()
    shown = f"{authenticator!r} {authenticator} {authenticator!s:>10} {caplog.text}"
    assert "canary" not in shown.lower()
