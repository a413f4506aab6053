"""What the tests of authentication share."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct

from extproc.auth.base import UpstreamCall
from tests.support.aws_endpoints import aws_endpoints

NOW = 1_440_938_160.0  # 2015-08-30T12:36:00Z


@pytest.fixture
def call() -> Callable[..., UpstreamCall]:
    """Makes the call that an authenticator sees."""

    def make(
        headers: Mapping[str, str] | None = None,
        *,
        body: bytes = b'{"messages":[]}',
        metadata: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> UpstreamCall:
        namespaces = {name: Struct() for name in metadata or {}}
        for name, values in (metadata or {}).items():
            namespaces[name].update(values)
        defaults = {":method": "POST", ":path": "/model/m/converse", ":authority": "gateway.example"}
        return UpstreamCall(headers={**defaults, **(headers or {})}, body=body, metadata=namespaces, now=NOW)

    return make


# --- what the tests of the default chain of AWS share ---


@pytest.fixture
def endpoints():
    """What gives out AWS credentials."""
    with aws_endpoints() as running:
        yield running


@pytest.fixture
def no_aws(monkeypatch, tmp_path):
    """No credential of whoever runs the tests, no way to a real service, and no pause between attempts."""
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text("token-canary-from-a-file")
    return path


@pytest.fixture
def environment(no_aws, monkeypatch):
    """Sets environment variables, where AWS credentials come from nowhere else."""

    def use(variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return use
