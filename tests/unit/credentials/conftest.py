"""Surroundings in which no cloud is, and credentials of every kind are planted."""

from __future__ import annotations

import json
import os

import pytest

from tests.support.playbook import openai_backend

AWS_FILE = (
    "[default]\naws_access_key_id = AKIACANARYFILE\naws_secret_access_key = canary-file\naws_session_token = canary-s\n"
)
AUTHS = {
    "aws-file": {"aws": {"region": "us-east-1", "credentialFileLiteral": AWS_FILE}},
    "aws-chain": {"aws": {"region": "us-east-1"}},
    "api-key": {"apiKey": {"key": "canary-api-key"}},
    "azure-key": {"azureAPIKey": {"key": "canary-azure-key"}},
    "azure-token": {"azure": {"accessToken": "canary-azure-token"}},
    "azure-secret": {
        "azure": {
            "clientID": "client",
            "tenantID": "tenant",
            "clientSecret": "canary-client-secret",
            "authorityHost": "http://127.0.0.1:1",
        }
    },
    "gcp-token": {"gcp": {"accessToken": "canary-gcp-token", "region": "r", "projectName": "p"}},
    "gcp-default": {"gcp": {"region": "r", "projectName": "p"}},
    "anthropic": {"anthropicAPIKey": {"key": "canary-anthropic"}},
    "own-token": {
        "apiKey": {"key": "canary-fallback"},
        "credentialOverride": {"headerName": "x-mine", "fallbackToConfigured": True},
    },
    "own-aws": {"aws": {"region": "us-east-1"}, "credentialOverride": {"headerName": "x-my-aws-"}},
}
"""By short name of a backend: every kind of credential, each with "canary" in it."""


@pytest.fixture
def auths():
    return AUTHS


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No credential of whoever runs the tests, and no way to a real service."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "GCE_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    return monkeypatch


@pytest.fixture
def planted(nowhere, tmp_path):
    """As above, and with credentials in environment and files: those of AWS can be used, Google's are broken."""
    nowhere.setenv("AWS_ACCESS_KEY_ID", "AKIACANARYENV")
    nowhere.setenv("AWS_SECRET_ACCESS_KEY", "canary-env-secret")
    nowhere.setenv("AWS_SESSION_TOKEN", "canary-env-session")
    adc = tmp_path / "adc.json"
    adc.write_text(
        json.dumps(
            {
                "type": "service_account",
                "client_email": "a@b.example",
                "token_uri": "http://127.0.0.1:1/token",
                "private_key": "-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n",
            }
        )
    )
    nowhere.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(adc))
    return nowhere


@pytest.fixture
def document(auths):
    backends = [openai_backend(f"default/{name}/rule/0", auth=auth) for name, auth in auths.items()]
    return {"version": "dev", "uuid": "u", "backends": backends}
