"""Bedrock: which host and region are signed for, and the credentials file (contract 6.2, 10.9)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.auth.aws import BedrockScheme, read_credentials_file, region_of
from extproc.auth.aws_chain import default_chain
from extproc.auth.base import ConfiguredCredential
from extproc.auth.build import build_authenticator
from extproc.auth.sigv4 import AWSCredentials
from extproc.auth.sources import Cells, Fetched
from extproc.errors import BackendFault, BackendUnavailable
from filter_config.model import AWSAuth, BackendAuth
from filter_config.redact import Secret
from tests.support.sigv4_verifier import verify

KEY_ID = "AKIAEXAMPLE"
SECRET_KEY = "secret/key+of=example"
FILE = f"[default]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET_KEY}\n"
WITH_TOKEN = f"{FILE}aws_session_token = token-of-example\nregion = eu-west-1\n"


def authenticator(literal: str = FILE, region: str = "us-east-1"):
    return build_authenticator(
        BackendAuth(aws=AWSAuth(credential_file_literal=Secret(literal), region=region)), Cells()
    )


def received(call, signed, host):
    return verify(
        method=call.headers[":method"],
        path=call.headers[":path"],
        headers=[("host", host), *signed],
        body=call.body,
        secrets={KEY_ID: SECRET_KEY},
        now=call.now,
    )


# --- what is signed ---

DEFAULT_HOST = "bedrock-runtime.us-east-1.amazonaws.com"
VPCE = "vpce-0a1b-2c.bedrock-runtime.us-west-2.vpce.amazonaws.com"

HOSTS = {
    "none is known": (None, DEFAULT_HOST, "us-east-1"),
    "an empty one": ("", DEFAULT_HOST, "us-east-1"),
    "another region": ("bedrock-runtime.eu-central-1.amazonaws.com", None, "eu-central-1"),
    "VPC endpoint": (VPCE, None, "us-west-2"),
    "FIPS": ("bedrock-runtime-fips.us-west-2.amazonaws.com", None, "us-west-2"),
    "dual stack": ("bedrock-runtime.us-west-2.api.aws", None, "us-west-2"),
    "a name of one's own": ("bedrock.corp.internal", None, "us-east-1"),
    "with a port": ("bedrock-runtime.us-west-2.amazonaws.com:8443", None, "us-east-1"),
}


@pytest.mark.parametrize(("host", "signed_host", "region"), HOSTS.values(), ids=HOSTS)
def test_the_signature_is_for_the_host_that_envoy_sends_to(call, host, signed_host, region):
    made = call({} if host is None else {"x-ai-eg-upstream-host": host})
    signed = authenticator().authenticate(made)
    signature = received(made, signed, signed_host or host)
    assert (signature.region, signature.service) == (region, "bedrock")
    assert signature.signed_headers == ("host", "x-amz-date")
    assert [name for name, _ in signed] == ["Authorization", "X-Amz-Date"]


def test_the_clients_host_does_not_matter(call):
    signed = authenticator().authenticate(call())
    assert authenticator().authenticate(call({":authority": "other.example", "host": "other.example"})) == signed
    assert authenticator().authenticate(call({"x-ai-eg-upstream-host": "other.example"})) != signed


REGIONS = {
    "plain": ("bedrock-runtime.us-east-1.amazonaws.com", "us-east-1"),
    "at the end of a longer name": ("x.bedrock-runtime.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
    "not after a dot": ("my-bedrock-runtime.us-east-1.amazonaws.com", ""),
    "two labels": ("bedrock-runtime.us.east.amazonaws.com", ""),
    "another suffix": ("bedrock-runtime.cn-north-1.amazonaws.com.cn", ""),
    "a line break behind it": ("bedrock-runtime.us-east-1.amazonaws.com\n", ""),
    "another service": ("bedrock-agent-runtime.us-east-1.amazonaws.com", ""),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("host", "region"), REGIONS.values(), ids=REGIONS)
def test_the_region_in_a_host(host, region):
    assert region_of(host) == region


REQUESTS = {
    "POST": ({":method": "POST"}, b'{"a":1}'),
    "GET": ({":method": "GET"}, b""),
    "PUT": ({":method": "PUT"}, b"x"),
    "no body": ({}, b""),
    "BR-96, converse": ({":path": "/model/anthropic.claude-3-5-sonnet-20240620-v1:0/converse"}, b"{}"),
    "BR-96, converse-stream": ({":path": "/model/anthropic.claude-3-5-sonnet-20240620-v1%3A0/converse-stream"}, b"{}"),
    "an ARN": (
        {":path": "/model/arn:aws:bedrock:eu-west-1:111122223333:inference-profile%2Feu.x-v1:0/converse"},
        b"{}",
    ),
    "a query": ({":path": "/model/m/converse?b=2&a=x+y&a=%3A"}, b"{}"),
}


@pytest.mark.parametrize(("headers", "body"), REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("region", ["us-east-1", "ap-southeast-2"])
def test_an_independent_computation_agrees(call, headers, body, region):
    made = call(headers, body=body)
    signed = authenticator(region=region).authenticate(made)
    assert received(made, signed, f"bedrock-runtime.{region}.amazonaws.com").access_key_id == KEY_ID


def test_a_request_without_a_method_is_signed_as_a_get(call):
    assert authenticator().authenticate(call({":method": ""})) == authenticator().authenticate(call({":method": "GET"}))


def test_a_session_token_is_sent_and_signed(call):
    made = call()
    signed = authenticator(WITH_TOKEN).authenticate(made)
    signature = received(made, signed, DEFAULT_HOST)
    assert signature.session_token == "token-of-example"
    assert signature.signed_headers == ("host", "x-amz-date", "x-amz-security-token")


def test_a_clients_own_signature_is_not_passed_on():
    assert authenticator().strips >= {"authorization", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256"}


def test_without_any_region_a_request_is_refused(call):
    made = call({"x-ai-eg-upstream-host": VPCE})
    assert received(made, authenticator(region="").authenticate(made), VPCE).region == "us-west-2"
    for headers in ({}, {"x-ai-eg-upstream-host": "bedrock.corp.internal"}):
        with pytest.raises(BackendUnavailable, match="AWS region"):
            authenticator(region="").authenticate(call(headers))


def test_a_cell_is_read_for_each_request(call):
    class Rotating:
        key_id = "AKIAFIRST"

        def read(self):
            return AWSCredentials(access_key_id=Secret(self.key_id), secret_access_key=Secret("s"))

    cell = Rotating()
    rotated = ConfiguredCredential(cell=cell, scheme=BedrockScheme(region="us-east-1"))
    assert "AKIAFIRST" in dict(rotated.authenticate(call()))["Authorization"]
    cell.key_id = "AKIASECOND"
    assert "AKIASECOND" in dict(rotated.authenticate(call()))["Authorization"]


# --- the credentials file ---

FILES = {
    "as the control plane writes it": (WITH_TOKEN, (KEY_ID, SECRET_KEY, "token-of-example")),
    "without a token": (FILE, (KEY_ID, SECRET_KEY, "")),
    "an empty token": (f"{FILE}aws_session_token =\n", (KEY_ID, SECRET_KEY, "")),
    "names in capitals, colons, no blanks": (
        "[default]\nAWS_ACCESS_KEY_ID:a\nAws_Secret_Access_Key=b",
        ("a", "b", ""),
    ),
    "comments and other profiles": (
        """\
# c
[other]
aws_access_key_id=x
aws_secret_access_key=y
; c

[default]
aws_access_key_id=a
# c
aws_secret_access_key=b
region=r
""",
        ("a", "b", ""),
    ),
    "a percent sign means nothing": (
        "[default]\naws_access_key_id=a\naws_secret_access_key=%(b)s%\n",
        ("a", "%(b)s%", ""),
    ),
    "an equals sign in the secret": ("[default]\naws_access_key_id=a\naws_secret_access_key=b=c=\n", ("a", "b=c=", "")),
    "line ends of Windows": ("[default]\r\naws_access_key_id=a\r\naws_secret_access_key=b\r\n", ("a", "b", "")),
    "indented": ("  [default]\n  aws_access_key_id = a\n  aws_secret_access_key = b\n", ("a", "b", "")),
}


@pytest.mark.parametrize(("text", "expected"), FILES.values(), ids=FILES)
def test_a_credentials_file(text, expected):
    found = read_credentials_file(Secret(text))
    assert (
        found.access_key_id.reveal(),
        found.secret_access_key.reveal(),
        found.session_token.reveal(),
    ) == expected


@pytest.mark.parametrize("text", [FILE, WITH_TOKEN, FILES["indented"][0]], ids=["plain", "token", "indented"])
def test_botocore_reads_the_same(tmp_path, text):
    from botocore.credentials import SharedCredentialProvider

    file = tmp_path / "credentials"
    file.write_text(text)
    theirs = SharedCredentialProvider(str(file)).load()
    ours = read_credentials_file(Secret(text))
    assert (theirs.access_key, theirs.secret_key, theirs.token or "") == (
        ours.access_key_id.reveal(),
        ours.secret_access_key.reveal(),
        ours.session_token.reveal(),
    )


FAULTY_FILES = {
    "no section": ("aws_access_key_id = canary", "is not an AWS credentials file: line 1 "),
    "no value": ("[default]\naws_access_key_id = a\ncanary\n", "is not an AWS credentials file: line 3 "),
    "a key twice": (
        "[default]\naws_access_key_id = canary\naws_access_key_id = canary\n",
        "is not an AWS credentials file: line 3 ",
    ),
    "a profile twice": ("[default]\na = canary\n[default]\n", "is not an AWS credentials file: line 3 "),
    "blank": (" \n", "has no profile [default]"),
    "another profile": ("[canary]\naws_access_key_id = canary\n", "has no profile [default]"),
    "no secret": ("[default]\naws_access_key_id = canary\n", "profile [default] has no aws_secret_access_key"),
    "no id": ("[default]\naws_secret_access_key = canary\n", "profile [default] has no aws_access_key_id"),
    "nothing": (
        "[default]\naws_session_token = canary\n",
        "profile [default] has no aws_access_key_id and no aws_secret_access_key",
    ),
    "an empty id": (
        "[default]\naws_access_key_id =\naws_secret_access_key = canary\n",
        "profile [default] has no aws_access_key_id",
    ),
    "a value on the next line": (
        "[default]\naws_access_key_id =\n  canary\naws_secret_access_key = canary\n",
        "aws_access_key_id holds a line break",
    ),
    "a value of two lines": (
        "[default]\naws_access_key_id = canary\n  canary\naws_secret_access_key = canary\n",
        "aws_access_key_id holds a line break",
    ),
}


@pytest.mark.parametrize(("text", "fault"), FAULTY_FILES.values(), ids=FAULTY_FILES)
def test_an_unusable_file_is_a_fault_that_shows_nothing_of_it(text, fault):
    with pytest.raises(BackendFault) as caught:
        authenticator(text)
    assert fault in str(caught.value)
    assert str(caught.value).startswith("auth.aws.credentialFileLiteral")
    assert "canary" not in str(caught.value)
    # A log line with the traceback shows the cause as well.
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


@given(st.text(st.sampled_from("[]default=:#;% \n\rkey") | st.characters(exclude_categories=("Cs",))))
def test_any_text_is_a_file_or_a_fault(text):
    try:
        found = read_credentials_file(Secret(f"[default]\n{text}"))
    except BackendFault:
        return
    assert found.access_key_id
    assert found.secret_access_key


def test_the_environment_does_not_count(call, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "environment")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "environment")
    monkeypatch.setenv("AWS_PROFILE", "other")
    made = call()
    assert received(made, authenticator().authenticate(made), DEFAULT_HOST).session_token is None


def test_without_a_file_the_default_chain_is_asked_and_until_then_requests_fail(call):
    cells = Cells()
    auth = BackendAuth(aws=AWSAuth(region="us-east-1"))
    first, second = build_authenticator(auth, cells), build_authenticator(auth, cells)
    (cell,) = cells.used
    assert cell.source == default_chain("us-east-1")
    with pytest.raises(BackendUnavailable, match="has not been fetched yet"):
        first.authenticate(call())
    assert cell.succeeded(Fetched(AWSCredentials(access_key_id=Secret("AKIA"), secret_access_key=Secret("s"))), {})
    assert "AKIA" in str(second.authenticate(call()))


def test_a_file_needs_no_chain():
    cells = Cells()
    build_authenticator(BackendAuth(aws=AWSAuth(region="r", credential_file_literal=Secret(FILE))), cells)
    assert cells.used == ()
