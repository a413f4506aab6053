"""The verifier that stands in for AWS must notice whatever has changed since a request was signed."""

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.support.sigv4_verifier import SignatureRefused, verify

HOST = "bedrock-runtime.us-east-1.amazonaws.com"
SECRETS = {"AKIAEXAMPLE": "secret"}
BODY = b'{"messages":[]}'
PATH = "/model/a-v1%3A0/converse?b=2&a=1"


@pytest.fixture(scope="module")
def signed():
    """A request that botocore itself has signed."""
    request = AWSRequest(method="POST", url=f"https://{HOST}{PATH}", data=BODY, headers={"Host": HOST})
    # In the query's own order botocore signs it sorted.
    SigV4Auth(Credentials("AKIAEXAMPLE", "secret", "token"), "bedrock", "us-east-1").add_auth(request)
    return dict(request.headers)


def received(signed, **changes):
    request = {"method": "POST", "path": PATH, "headers": {**signed, "accept": "*/*"}, "body": BODY, "secrets": SECRETS}
    return verify(**{**request, **changes})


def test_a_request_signed_by_botocore_is_taken(signed):
    signature = received(signed)
    assert (signature.access_key_id, signature.region, signature.service) == ("AKIAEXAMPLE", "us-east-1", "bedrock")
    assert signature.session_token == "token"
    assert signature.signed_headers == ("host", "x-amz-date", "x-amz-security-token")


def test_the_host_may_be_an_authority(signed):
    pairs = [(":authority" if name == "Host" else name, value) for name, value in signed.items()]
    assert received(signed, headers=pairs) == received(signed)


CHANGES = {
    "method": ({"method": "PUT"}, {}, "does not match"),
    "path": ({"path": "/model/a-v1:0/converse?b=2&a=1"}, {}, "does not match"),
    "query": ({"path": "/model/a-v1%3A0/converse?b=2"}, {}, "does not match"),
    "body": ({"body": BODY + b" "}, {}, "does not match"),
    "host": ({}, {"Host": "gateway.example"}, "does not match"),
    "secret": ({"secrets": {"AKIAEXAMPLE": "other"}}, {}, "does not match"),
    "caller": ({"secrets": {}}, {}, "unknown access key id"),
    "token": ({}, {"X-Amz-Security-Token": "other"}, "does not match"),
    "content hash": ({}, {"X-Amz-Content-SHA256": "0" * 64}, "not signed: ['x-amz-content-sha256']"),
    "another x-amz header": ({}, {"x-amz-target": "t"}, "not signed: ['x-amz-target']"),
    "no date": ({}, {"X-Amz-Date": "yesterday"}, "no timestamp"),
    "another day": ({}, {"X-Amz-Date": "20150830T123600Z"}, "another day"),
    "age": ({"now": 0}, {}, "not of now"),
    "no authorization": ({}, {"Authorization": ""}, "no AWS4-HMAC-SHA256"),
    "two authorizations": ({}, {"authorization": "Bearer client"}, "no AWS4-HMAC-SHA256"),
}


@pytest.mark.parametrize(("changes", "headers", "reason"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_noticed(signed, changes, headers, reason):
    with pytest.raises(SignatureRefused) as caught:
        received(signed, headers=[*{**signed, **headers}.items()], **changes)
    assert reason in str(caught.value)


def test_a_signed_header_that_did_not_arrive_is_noticed(signed):
    without = {name: value for name, value in signed.items() if name != "X-Amz-Security-Token"}
    with pytest.raises(SignatureRefused, match="did not arrive"):
        received(signed, headers=without)
