"""Signature Version 4: AWS's published cases, and agreement with botocore for anything that can be sent."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote, quote_plus

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from extproc.auth.sigv4 import AWSCredentials, SigningScope, canonical_query, canonical_uri, sign
from filter_config.redact import Secret

NOW = 1_440_938_160.0
TIMESTAMP = "20150830T123600Z"

# The test suite that AWS publishes: its key, its token, its signatures. Left out are its cases of paths with dot
# segments and repeated slashes: paths are signed here as they are sent (contract, AWS SigV4 6.2).
KEY_ID = "AKIDEXAMPLE"
SECRET_KEY = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
TOKEN = (
    "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwth"
    "Ax7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY"
    "9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="
)
UNRESERVED = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@dataclass
class Case:
    signature: str
    method: str = "GET"
    path: str = "/"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    token: str = ""


FORM = "application/x-www-form-urlencoded"

PUBLISHED = {
    "get-vanilla": Case("5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    "get-unreserved": Case("07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f", path=f"/{UNRESERVED}"),
    "get-utf8": Case("8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85", path="/\u1234"),
    "get-space": Case("652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741", path="/example space/"),
    "get-vanilla-empty-query-key": Case(
        "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb", path="/?Param1=value1"
    ),
    "get-vanilla-query-order-key-case": Case(
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500", path="/?Param2=value2&Param1=value1"
    ),
    "get-vanilla-query-order-key": Case(
        "eedbc4e291e521cf13422ffca22be7d2eb8146eecf653089df300a15b2382bd1", path="/?Param1=value2&Param1=Value1"
    ),
    "get-vanilla-query-order-value": Case(
        "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694", path="/?Param1=value2&Param1=value1"
    ),
    "get-vanilla-query-unreserved": Case(
        "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197", path=f"/?{UNRESERVED}={UNRESERVED}"
    ),
    "get-vanilla-utf8-query": Case(
        "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04", path="/?\u1234=bar"
    ),
    "get-header-key-duplicate": Case(
        "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
        headers={"my-header1": "value2,value2,value1"},
    ),
    "get-header-value-multiline": Case(
        "cfd34249e4b1c8d6b91ef74165d41a32e5fab3306300901bb65a51a73575eefd",
        headers={"my-header1": "value1\n  value2\n     value3"},
    ),
    "get-header-value-order": Case(
        "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01",
        headers={"my-header1": "value4,value1,value3,value2"},
    ),
    "get-header-value-trim": Case(
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
        headers={"my-header1": " value1", "my-header2": ' "a   b   c"'},
    ),
    "post-vanilla": Case("5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b", method="POST"),
    "post-vanilla-query": Case(
        "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11", method="POST", path="/?Param1=value1"
    ),
    "post-header-key-sort": Case(
        "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
        method="POST",
        headers={"my-header1": "value1"},
    ),
    "post-header-value-case": Case(
        "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
        method="POST",
        headers={"my-header1": "VALUE1"},
    ),
    "post-x-www-form-urlencoded": Case(
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        method="POST",
        headers={"content-type": FORM},
        body=b"Param1=value1",
    ),
    "post-x-www-form-urlencoded-parameters": Case(
        "1a72ec8f64bd914b0e42e42607c7fbce7fb2c7465f63e3092b3b0d39fa77a6fe",
        method="POST",
        headers={"content-type": f"{FORM}; charset=utf8"},
        body=b"Param1=value1",
    ),
    "post-sts-header-before": Case(
        "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead", method="POST", token=TOKEN
    ),
}


def credentials(key_id: str = KEY_ID, secret: str = SECRET_KEY, token: str = "") -> AWSCredentials:
    return AWSCredentials(access_key_id=Secret(key_id), secret_access_key=Secret(secret), session_token=Secret(token))


@pytest.mark.parametrize("case", PUBLISHED.values(), ids=PUBLISHED)
def test_the_signatures_that_aws_publishes(case):
    signed = sign(
        credentials(token=case.token),
        SigningScope(region="us-east-1", service="service"),
        method=case.method,
        path=case.path,
        headers={"host": "example.amazonaws.com", **case.headers},
        body=case.body,
        now=NOW,
    )
    names = ["host", "x-amz-date", *case.headers, *(["x-amz-security-token"] if case.token else [])]
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={KEY_ID}/20150830/us-east-1/service/aws4_request, "
        f"SignedHeaders={';'.join(sorted(names))}, Signature={case.signature}"
    )
    assert signed == [
        ("Authorization", authorization),
        ("X-Amz-Date", TIMESTAMP),
        *([("X-Amz-Security-Token", case.token)] if case.token else []),
    ]


# --- agreement with botocore ---

PRINTABLE = st.characters(min_codepoint=0x20, exclude_categories=("Cs", "Cc"))
# botocore takes dot segments and empty ones out of a path, and cuts a URL at its fragment.
SEGMENTS = st.text(PRINTABLE.filter(lambda char: char not in "/?#"), min_size=1).filter(
    lambda segment: segment not in (".", "..")
)
PATHS = st.lists(SEGMENTS | SEGMENTS.map(lambda segment: quote(segment, safe=":")), max_size=5).map(
    lambda segments: "/" + "/".join(segments)
)
PARAMETERS = st.lists(st.tuples(st.text(PRINTABLE), st.text(PRINTABLE)), max_size=5)
ASCII = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1)
HEADERS = st.dictionaries(
    st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1).map("h-".__add__),
    st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)),
    max_size=4,
)


@dataclass
class Sent:
    method: str
    path: str
    parameters: list[tuple[str, str]]
    spelling: Callable[[str], str]
    headers: dict[str, str]
    body: bytes
    now: int

    @property
    def wire_path(self) -> str:
        query = "&".join(f"{self.spelling(name)}={self.spelling(value)}" for name, value in self.parameters)
        return f"{self.path}?{query}" if query else self.path


REQUESTS = st.builds(
    Sent,
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
    path=PATHS,
    parameters=PARAMETERS,
    spelling=st.sampled_from([quote, quote_plus]),
    headers=HEADERS.map(lambda headers: {"host": "bedrock-runtime.us-east-1.amazonaws.com", **headers}),
    body=st.binary(),
    now=st.integers(0, 4_000_000_000),
)


@given(sent=REQUESTS, keys=st.tuples(ASCII, ASCII), token=st.just("") | ASCII, region=st.text("abc-123", min_size=1))
def test_botocore_computes_the_same(sent, keys, token, region):
    signed = dict(
        sign(
            credentials(*keys, token),
            SigningScope(region=region, service="bedrock"),
            method=sent.method,
            path=sent.wire_path,
            headers=sent.headers,
            body=sent.body,
            now=sent.now,
        )
    )
    theirs = SigV4Auth(Credentials(*keys), "bedrock", region)
    request = AWSRequest(
        method=sent.method,
        url=f"https://{sent.headers['host']}{sent.path}",
        params=sent.parameters,
        data=sent.body,
        headers=sent.headers | {name: value for name, value in signed.items() if name != "Authorization"},
    )
    request.context["timestamp"] = datetime.fromtimestamp(sent.now, UTC).strftime("%Y%m%dT%H%M%SZ")
    signature = theirs.signature(theirs.string_to_sign(request, theirs.canonical_request(request)), request)
    assert signed["Authorization"] == (
        f"AWS4-HMAC-SHA256 Credential={theirs.scope(request)}, "
        f"SignedHeaders={theirs.signed_headers(theirs.headers_to_sign(request))}, Signature={signature}"
    )


# --- canonical forms ---

URIS = {
    "empty": ("", "/"),
    "root": ("/", "/"),
    "BR-96, a raw colon": (
        "/model/anthropic.claude-3-5-sonnet-20240620-v1:0/converse",
        "/model/anthropic.claude-3-5-sonnet-20240620-v1%3A0/converse",
    ),
    "BR-96, an escaped colon": ("/model/a-v1%3A0/converse-stream", "/model/a-v1%253A0/converse-stream"),
    "an ARN with an escaped slash": (
        "/model/arn:aws:bedrock:eu-west-1:111122223333:inference-profile%2Feu.x-v1:0/converse",
        "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A111122223333%3Ainference-profile%252Feu.x-v1%3A0/converse",
    ),
    "other reserved characters": ("/a$b&c+d=e@f,g;h!i*j'k(l)", "/a%24b%26c%2Bd%3De%40f%2Cg%3Bh%21i%2Aj%27k%28l%29"),
    "unreserved characters": ("/a-b.c_d~e", "/a-b.c_d~e"),
    "an escape in lower case": ("/a%2fb", "/a%252fb"),
    "not normalised": ("//a/../b//", "//a/../b//"),
}


@pytest.mark.parametrize(("wire", "canonical"), URIS.values(), ids=URIS)
def test_a_path_is_escaped_once_more(wire, canonical):
    assert canonical_uri(wire) == canonical


QUERIES = {
    "empty": ("", ""),
    "sorted by name": ("b=1&a=2&B=3", "B=3&a=2&b=1"),
    "sorted by the escaped name": ("z=1&%C3%A9=2&-=3", "%C3%A9=2&-=3&z=1"),
    "then by value": ("a=2&a=10&a=1", "a=1&a=10&a=2"),
    "no value": ("alt&x=", "alt=&x="),
    "a plus is a blank": ("q=a+b", "q=a%20b"),
    "an escaped plus stays one": ("q=a%2Bb", "q=a%2Bb"),
    "escapes in one spelling": ("%61=%2f%7E", "a=%2F~"),
    "an equals sign in a value": ("a=b=c", "a=b%3Dc"),
    "no parameters between ampersands": ("&&a=1&", "a=1"),
    "a broken escape": ("a=%zz", "a=%25zz"),
    "bytes that are no text": ("a=%ff", "a=%FF"),
}


@pytest.mark.parametrize(("wire", "canonical"), QUERIES.values(), ids=QUERIES)
def test_a_query_has_one_spelling(wire, canonical):
    assert canonical_query(wire) == canonical


# --- the cached key ---

OTHERS = {
    "secret": {"secret": "another"},
    "day": {"now": NOW + 86_400},
    "region": {"region": "eu-west-1"},
    "service": {"service": "other"},
}


def signature_of(*, secret: str = SECRET_KEY, now: float = NOW, region: str = "us-east-1", service: str = "s") -> str:
    signed = sign(
        credentials(secret=secret),
        SigningScope(region=region, service=service),
        method="GET",
        path="/",
        headers={"host": "h"},
        body=b"",
        now=now,
    )
    return signed[0][1].rpartition("=")[2]


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_each_secret_day_region_and_service_has_its_own_key(other):
    first = signature_of()
    assert signature_of(**other) != first
    assert signature_of() == first


def test_midnight_is_of_the_new_day():
    midnight = 1_440_979_200.0
    scope = SigningScope(region="us-east-1", service="s")
    before, after = (
        dict(sign(credentials(), scope, method="GET", path="/", headers={"host": "h"}, body=b"", now=now))
        for now in (midnight - 0.001, midnight)
    )
    assert before["X-Amz-Date"] == "20150830T235959Z"
    assert after["X-Amz-Date"] == "20150831T000000Z"
    assert "/20150830/" in before["Authorization"]
    assert "/20150831/" in after["Authorization"]


def test_credentials_do_not_show():
    shown = credentials("AKIACANARY", "secret-canary", "token-canary")
    assert not any(canary in text for text in (repr(shown), str(shown)) for canary in ("CANARY", "canary"))
