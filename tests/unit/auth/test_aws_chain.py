"""The source that asks the default chain of AWS, in another process (field reports BR-99 and BR-100)."""

import subprocess
import sys
import time

import pytest

from extproc.auth import aws_chain
from extproc.auth.aws_chain import DefaultChain, default_chain
from extproc.auth.sources import SourceError, digests
from extproc.errors import BackendFault

pytestmark = pytest.mark.usefixtures("no_aws")

CHAIN = DefaultChain(region="eu-west-3")


@pytest.mark.parametrize("kind", ["sts", "agent", "imds"])
def test_credentials_come_with_their_end_and_by_one_call(endpoints, environment, token_file, kind):
    environment(endpoints.environment(kind, token_file))
    fetched = CHAIN.fetch()
    found = fetched.credential
    parts = [part.reveal() for part in (found.access_key_id, found.secret_access_key, found.session_token)]
    assert parts == ["AKIACANARY0001", "secret-canary-1", "session-canary-1"]
    assert 3500 < fetched.expires_at - time.time() <= 3600
    assert endpoints.calls == {kind: 1}
    assert "canary" not in f"{fetched!r} {found!r} {CHAIN!r}".lower()


def test_credentials_without_an_end(environment):
    environment({"AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "s"})
    assert CHAIN.fetch().expires_at is None


def test_a_failure_is_the_reason_that_the_process_gave(endpoints, environment, token_file):
    environment(endpoints.environment("sts", token_file))
    endpoints.tokens = {"another"}
    with pytest.raises(SourceError, match="InvalidIdentityToken") as raised:
        CHAIN.fetch()
    assert "canary" not in str(raised.value)


class Ended:
    """A process that does as it is told."""

    def __init__(self, result):
        self._result = result

    def __call__(self, *_, **__):
        if isinstance(self._result, Exception):
            raise self._result
        return subprocess.CompletedProcess([], 0, stdout=self._result)


ENDS = {
    "too late": (subprocess.TimeoutExpired("canary", 45), "gave no answer within 45 seconds"),
    "killed": (subprocess.CalledProcessError(-9, "canary"), "ended with status -9"),
    "no answer": (b"", "gave no answer that can be read"),
    "another answer": (b'{"access_key_id":"canary","reason":5}', "gave no answer that can be read"),
    "no process": (OSError(12, "Cannot allocate memory"), "cannot be started: Cannot allocate memory"),
}


@pytest.mark.parametrize(("result", "reason"), ENDS.values(), ids=ENDS)
def test_a_process_that_fails_is_a_failure_of_the_source(monkeypatch, result, reason):
    monkeypatch.setattr(aws_chain.subprocess, "run", Ended(result))
    with pytest.raises(SourceError, match=reason) as raised:
        CHAIN.fetch()
    assert "canary" not in f"{raised.value!r} {raised.value.__cause__!r}"


def test_what_is_watched(environment, tmp_path, monkeypatch):
    environment({"AWS_WEB_IDENTITY_TOKEN_FILE": "/t", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/c"})
    assert list(map(str, CHAIN.watches)) == [str(tmp_path / "credentials"), str(tmp_path / "config"), "/t", "/c"]
    monkeypatch.delenv("AWS_SHARED_CREDENTIALS_FILE")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert str(CHAIN.watches[0]) == "/home/somebody/.aws/credentials"
    assert set(digests(CHAIN.watches).values()) == {""}


def test_one_source_for_each_region():
    assert default_chain("us-east-1 ").key == default_chain("us-east-1").key != default_chain("").key
    assert default_chain("us-east-1").name == "aws-default-chain/us-east-1"
    assert default_chain("").name == "aws-default-chain"


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setattr(aws_chain, "find_spec", lambda name: None)
    with pytest.raises(BackendFault, match=r"pip install 'envoy-llm-extproc\[aws\]'"):
        default_chain("us-east-1")


def test_requests_do_not_load_the_sdk():
    script = "import sys, extproc.runtime; print('botocore' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "False"
