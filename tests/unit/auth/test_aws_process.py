"""What the default chain of AWS finds, against stand-ins of what it asks (field report BR-99)."""

import logging
import re
import time

import pytest

from extproc.auth.aws_chain import default_chain
from extproc.auth.aws_process import Answer, ask

pytestmark = pytest.mark.usefixtures("no_aws")

TOKEN = "token-canary-from-a-file"
KINDS = ("sts", "agent", "imds")


def found():
    answer = ask("eu-west-3")
    assert not answer.reason
    return answer


def reason():
    answer = ask("eu-west-3")
    assert (answer.access_key_id, answer.secret_access_key, answer.session_token) == ("", "", "")
    assert "canary" not in answer.reason.lower()
    return answer.reason


def parts(answer):
    return (answer.access_key_id, answer.secret_access_key, answer.session_token)


@pytest.mark.parametrize("kind", KINDS)
def test_temporary_credentials_come_with_their_end_and_by_one_call(endpoints, environment, token_file, kind):
    environment(endpoints.environment(kind, token_file))
    fetched = found()
    assert parts(fetched) == ("AKIACANARY0001", "secret-canary-1", "session-canary-1")
    assert 3500 < fetched.expires_at - time.time() <= 3600
    assert endpoints.calls == {kind: 1}


@pytest.mark.parametrize("kind", KINDS)
def test_each_fetch_asks_once_however_short_credentials_last(endpoints, environment, token_file, kind):
    endpoints.lifetime = 30
    environment(endpoints.environment(kind, token_file))
    assert [found().access_key_id for _ in range(2)] == ["AKIACANARY0001", "AKIACANARY0002"]


@pytest.mark.parametrize("kind", ["sts", "agent"])
def test_the_token_file_is_read_anew(endpoints, environment, token_file, kind):
    environment(endpoints.environment(kind, token_file))
    found()
    token_file.write_text("another-token")
    found()
    assert endpoints.seen_tokens == [TOKEN, "another-token"]


def test_the_environment_goes_first(endpoints, environment, token_file):
    environment(endpoints.environment("sts", token_file))
    environment({"AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"})
    fetched = found()
    assert parts(fetched) == ("AKIAENV", "s", "t")
    assert fetched.expires_at is None
    assert endpoints.calls == {}


def test_a_profile_is_read_anew(tmp_path, environment):
    environment({"AWS_PROFILE": "prod"})
    for key in ("AKIAONE", "AKIATWO"):
        (tmp_path / "credentials").write_text(f"[prod]\naws_access_key_id={key}\naws_secret_access_key=s\n")
        fetched = found()
        assert parts(fetched) == (key, "s", "")
        assert fetched.expires_at is None


def test_a_profile_may_name_role_and_token_file(endpoints, environment, tmp_path, token_file):
    variables = endpoints.environment("sts", token_file)
    (tmp_path / "config").write_text(
        f"[default]\nrole_arn={variables.pop('AWS_ROLE_ARN')}\nweb_identity_token_file = {token_file}\n"
    )
    environment({"AWS_ENDPOINT_URL_STS": endpoints.url})
    assert found().access_key_id == "AKIACANARY0001"
    assert token_file in default_chain("").watches


def without_key(endpoints):
    endpoints.body = '{"AccessKeyId":"AKIACANARY"}'


def without_json(endpoints):
    endpoints.body = "session-canary"


def down(endpoints):
    endpoints.status = 503


def distrustful(endpoints):
    endpoints.tokens = {"the-other-token"}


FAILURES = {
    "STS is down": ("sts", down, "ClientError: AssumeRoleWithWebIdentity answered 503, ServiceUnavailable: not now"),
    "STS refuses the token": (
        "sts",
        distrustful,
        r"InvalidIdentityTokenException: .* answered 400, InvalidIdentityToken: the token \[REDACTED\] is not",
    ),
    "the agent is down": ("agent", down, "CredentialRetrievalError: the container agent answered 503"),
    "the agent refuses the token": ("agent", distrustful, "the container agent answered 400"),
    "the agent answers no JSON": ("agent", without_json, "CredentialRetrievalError: no credentials in it"),
    "the agent answers half": ("agent", without_key, "KeyError: the answer has no 'SecretAccessKey'"),
    "metadata is down": ("imds", down, "the default chain found no AWS credentials"),
}


@pytest.mark.parametrize("case", FAILURES.values(), ids=FAILURES)
def test_a_failure_has_a_reason_without_a_secret(endpoints, environment, token_file, caplog, case):
    kind, failing, expected = case
    caplog.set_level(logging.DEBUG)
    environment(endpoints.environment(kind, token_file))
    failing(endpoints)
    assert re.search(expected, reason())


def test_no_credentials_anywhere():
    assert re.search("found no AWS credentials: none in the environment, in shared files", reason())


MISCONFIGURED = {
    "no such token file": (
        {"AWS_ROLE_ARN": "arn:x", "AWS_WEB_IDENTITY_TOKEN_FILE": "/nowhere/token"},
        "FileNotFoundError: No such file or directory: /nowhere/token",
    ),
    "no role": ({"AWS_WEB_IDENTITY_TOKEN_FILE": "/t"}, "InvalidConfigError: .*no role ARN"),
    "no such profile": ({"AWS_PROFILE": "missing"}, "ProfileNotFound: .*missing"),
    "half a key": ({"AWS_ACCESS_KEY_ID": "AKIACANARY"}, "PartialCredentialsError: .*AWS_SECRET_ACCESS_KEY"),
    "a line break in a key": (
        {"AWS_ACCESS_KEY_ID": "AKIACANARY", "AWS_SECRET_ACCESS_KEY": "a\rb"},
        "hold a control character",
    ),
    "an agent that is somewhere else": (
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://canary.example/"},
        "ValueError$",
    ),
}


@pytest.mark.parametrize(("variables", "expected"), MISCONFIGURED.values(), ids=MISCONFIGURED)
def test_a_chain_that_is_configured_and_cannot_work_says_so(environment, variables, expected):
    environment(variables)
    assert re.search(expected, reason())


def test_an_empty_token_file_is_pointed_at(endpoints, environment, token_file):
    environment(endpoints.environment("sts", token_file))
    token_file.write_text("")
    assert re.search("ParamValidationError: .*token file", reason())
    assert endpoints.calls == {}


def test_what_a_process_of_the_user_writes_is_not_shown(tmp_path):
    (tmp_path / "config").write_text("[default]\ncredential_process = sh -c 'echo secret-canary >&2; exit 1'\n")
    assert re.search("by custom-process; what it said is not shown", reason())


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_a_success_is_logged(endpoints, environment, token_file, caplog, kind):
    caplog.set_level(logging.DEBUG)
    environment(endpoints.environment(kind, token_file))
    assert "canary" not in f"{caplog.text} {found()!r}".lower()


def test_an_answer_shows_no_field():
    assert "canary" not in repr(Answer(access_key_id="canary", secret_access_key="canary", session_token="canary"))
