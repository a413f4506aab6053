"""Credentials are renewed when they have to be, exchanged as the clouds want it, and shown nowhere."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from deploy.controller import rotation
from deploy.controller.exchanges import Exchanges, Hosts, Request, callers
from deploy.controller.kinds import Key
from deploy.controller.rotation import EXPIRY, ISSUED, Credential, due_at, is_taken, provider_of, secret_of
from deploy.controller.store import Entry, Store
from deploy.controller.token_http import Caller, RotationFailed
from filter_config.redact import Secret
from filter_config.sources.envoy_ai_gateway.resources import BackendSecurityPolicy
from tests.support import gateway_resources as g
from tests.support import google_endpoints as google
from tests.support.azure_endpoints import CLIENT as AZURE_CLIENT
from tests.support.azure_endpoints import SECRET as AZURE_SECRET
from tests.support.azure_endpoints import TENANT, AzureEndpoints
from tests.support.google_endpoints import GoogleEndpoints
from tests.support.identity_endpoints import CLIENT, CLIENT_SECRET, ROLE, IdentityEndpoints
from tests.support.kube_world import World
from tests.support.token_endpoints import Drip, HangUp, Reply, Silence, html, json_reply, redirect

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
POLICY = Key("BackendSecurityPolicy", "default", "p")


def entry(value: dict[str, Any]) -> Entry:
    store = Store()
    store.put(value)
    found = store.of_kind(value["kind"])
    return found[0]


def generated(**annotations: str) -> Entry:
    value = g.secret("ai-eg-bsp-p")
    value["metadata"]["annotations"] = annotations
    return entry(value)


def policy(kind: str, **spec: Any) -> Any:
    return msgspec.convert(g.policy("p", kind, "b", **spec), BackendSecurityPolicy).spec


def oidc(url: str, **more: Any) -> dict[str, Any]:
    provider = {"issuer": url}
    given = {"provider": provider, "clientID": CLIENT, "clientSecret": {"name": "s"}, "scopes": ["a", "b"]}
    return {"oidc": {**given, **more.pop("oidc", {})}, **more}


# --- when ---


@pytest.mark.parametrize(
    ("life", "window"),
    [
        (timedelta(hours=1), timedelta(minutes=5)),
        (timedelta(minutes=10), timedelta(minutes=2)),
        (timedelta(minutes=1), timedelta(seconds=12)),
        (timedelta(seconds=2), timedelta(seconds=-3)),
    ],
    ids=str,
)
def test_the_window_is_in_proportion_to_the_life(life: timedelta, window: timedelta):
    secret = generated(**{ISSUED: NOON.isoformat(), EXPIRY: (NOON + life).isoformat()})
    assert due_at(secret) == NOON + life - window


def test_of_a_secret_of_the_peer_only_the_end_is_known():
    assert due_at(generated(**{EXPIRY: "2026-01-01T12:00:00Z"})) == NOON - timedelta(minutes=5)


ENDS_OF_THE_CALENDAR = ("0001-01-01T00:01:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-10:00")


@pytest.mark.parametrize(
    "text",
    [None, "", "tomorrow", "2026-01-01T12:00:00", "2026-13-01T12:00:00Z", *ENDS_OF_THE_CALENDAR],
)
def test_without_an_end_that_can_be_read_it_is_due(text: str | None):
    assert due_at(None) is None
    assert due_at(generated(**({EXPIRY: text} if text is not None else {}))) is None


def test_what_was_issued_when_time_ends_is_due():
    assert due_at(generated(**{ISSUED: "9999-12-31T23:59:58Z", EXPIRY: "9999-12-31T23:59:59Z"})) is None


def test_only_some_policies_rotate():
    azure = {"clientID": "c", "tenantID": "t"}
    aws = {"region": "r"}
    exchange = {**oidc("https://id"), "awsRoleArn": ROLE}
    gcp = {"projectName": "p", "region": "r"}
    assert provider_of(policy("APIKey", apiKey={"secretRef": {"name": "s"}})) is None
    assert provider_of(policy("AWSCredentials", awsCredentials=aws)) is None
    assert provider_of(policy("AWSCredentials", awsCredentials={**aws, "oidcExchangeToken": exchange})) == "aws"
    assert provider_of(policy("AzureCredentials", azureCredentials=azure)) == "azure"
    assert provider_of(policy("GCPCredentials", gcpCredentials=gcp)) is None
    file = {"secretRef": {"name": "s"}}
    assert provider_of(policy("GCPCredentials", gcpCredentials={**gcp, "credentialsFile": file})) == "gcp"


def test_a_secret_says_when_it_expires_and_goes_with_its_policy():
    owner = entry({**g.policy("p", "APIKey"), "metadata": {"name": "p", "namespace": "default", "uid": "u"}})
    credential = Credential(data={"k": Secret("canary")}, issued=NOON, expires=NOON + timedelta(hours=1))
    made = secret_of(owner, credential)
    assert made["metadata"]["annotations"] == {EXPIRY: "2026-01-01T13:00:00Z", ISSUED: "2026-01-01T12:00:00Z"}
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert base64.b64decode(made["data"]["k"]) == b"canary"
    assert due_at(entry(made)) == NOON + timedelta(minutes=55)
    assert not is_taken(entry(made), POLICY)
    assert "canary" not in repr(credential)


def test_the_secret_of_somebody_else_is_not_taken():
    assert is_taken(generated(), POLICY)
    assert not is_taken(generated(**{EXPIRY: "?"}), POLICY)
    assert not is_taken(None, POLICY)


def test_a_policy_that_rotates_no_more_loses_its_secret():
    made = World()
    azure = {"clientID": "c", "tenantID": "t", "clientSecretRef": {"name": "s"}}
    made.put(g.policy("p", "AzureCredentials", "b", azureCredentials=azure), *g.served("b"))
    made.settle()
    owner = made.planner.store.get(POLICY)
    assert owner is not None
    made.put(secret_of(owner, Credential(data={}, issued=NOON, expires=NOON)))
    made.settle()
    assert made.has("Secret", "ai-eg-bsp-p")
    made.put(g.api_key("p", "b"))
    made.settle()
    assert not made.has("Secret", "ai-eg-bsp-p")


def test_why_a_credential_is_not_fresh_is_in_the_status():
    made = World()
    made.put(
        g.policy(
            "p",
            "AzureCredentials",
            "b",
            azureCredentials={"clientID": "c", "tenantID": "t", "clientSecretRef": {"name": "s"}},
        )
    )
    made.settle()
    made.planner.refused(POLICY, "no answer in time", source="rotation")
    made.settle()
    assert made.accepted("BackendSecurityPolicy", "p") == "no answer in time"
    made.planner.refused(POLICY, "", source="rotation")
    made.settle()
    assert made.accepted("BackendSecurityPolicy", "p") == ""


# --- how ---


@pytest.fixture
def identity():
    with IdentityEndpoints() as endpoints:
        yield endpoints


@pytest.fixture
def azure():
    with AzureEndpoints() as endpoints:
        yield endpoints


@pytest.fixture
def gcp():
    with GoogleEndpoints() as endpoints:
        yield endpoints


def exchange(provider: Any, spec: Any, hosts: Hosts | None = None, **secrets: str) -> Credential:
    quick = Caller(seconds=5.0)
    exchanges = Exchanges(
        callers={"aws": quick, "azure": quick, "gcp": quick},
        hosts=hosts or Hosts(),
        now=NOON.timestamp if provider != "gcp" else (lambda: datetime.now(tz=UTC).timestamp()),
    )
    given = {name.replace("_", "-"): Secret(value) for name, value in secrets.items()}
    return exchanges.get(provider, Request(name="p", spec=spec, secrets=given))


def aws_policy(identity: IdentityEndpoints, **more: Any) -> Any:
    token = {**oidc(identity.url, **more), "awsRoleArn": ROLE}
    return policy("AWSCredentials", awsCredentials={"region": "us-east-1", "oidcExchangeToken": token})


def test_aws_gives_a_credentials_file_for_an_identity_token(identity: IdentityEndpoints):
    found = exchange("aws", aws_policy(identity), Hosts(aws=identity.url), client_secret=CLIENT_SECRET)
    assert found.data["credentials"].reveal() == (
        "[default]\naws_access_key_id = AKIA1\naws_secret_access_key = canary-aws-secret/0+=\n"
        "aws_session_token = canary-session\nregion = us-east-1\n"
    )
    (call,) = identity.called("sts")
    assert call.form["RoleSessionName"] == "ai-gateway-p"
    (token,) = identity.called("token")
    assert token.form["scope"] == "a b"
    assert token.form["grant_type"] == "client_credentials"
    assert "audience" not in token.form


def test_the_fields_of_the_exchange_are_honoured(identity: IdentityEndpoints):
    more = {
        "grantType": "custom",
        "aud": "sts",
        "oidc": {"provider": {"issuer": "https://nowhere.invalid", "tokenEndpoint": f"{identity.url}/token"}},
    }
    exchange("aws", aws_policy(identity, **more), Hosts(aws=identity.url), client_secret=CLIENT_SECRET)
    (token,) = identity.called("token")
    assert (token.form["grant_type"], token.form["audience"]) == ("custom", "sts")
    assert identity.called("discovery") == []


def test_a_client_that_a_secret_names_is_taken(identity: IdentityEndpoints):
    given = {"provider": {"issuer": identity.url}, "clientIDRef": {"name": "s"}, "clientSecret": {"name": "s"}}
    token = {"oidc": given, "awsRoleArn": ROLE}
    spec = policy("AWSCredentials", awsCredentials={"region": "us-east-1", "oidcExchangeToken": token})
    exchange("aws", spec, Hosts(aws=identity.url), client_secret=CLIENT_SECRET, client_id=CLIENT)
    assert len(identity.keys) == 1


def test_regions_of_china_have_hosts_of_their_own():
    assert Hosts().aws.format(region="cn-north-1", suffix=".cn") == "https://sts.cn-north-1.amazonaws.com.cn"
    assert Hosts().aws.format(region="eu-west-1", suffix="") == "https://sts.eu-west-1.amazonaws.com"


def test_azure_gives_a_token_for_a_secret(azure: AzureEndpoints):
    spec = policy(
        "AzureCredentials",
        azureCredentials={"clientID": AZURE_CLIENT, "tenantID": TENANT, "clientSecretRef": {"name": "s"}},
    )
    found = exchange("azure", spec, Hosts(azure=azure.url), azure_secret=AZURE_SECRET)
    assert found.data["azureAccessToken"].reveal() == azure.issued[0]
    assert found.issued == NOON
    assert found.expires == NOON + timedelta(seconds=azure.lifetime)


def test_azure_gives_a_token_for_an_identity_token(azure: AzureEndpoints, identity: IdentityEndpoints):
    azure.assertions = {"canary-identity-1"}
    given = {"clientID": AZURE_CLIENT, "tenantID": TENANT, "oidcExchangeToken": oidc(identity.url)}
    spec = policy("AzureCredentials", azureCredentials=given)
    found = exchange("azure", spec, Hosts(azure=azure.url), client_secret=CLIENT_SECRET)
    assert found.data["azureAccessToken"].reveal() == azure.issued[0]


def gcp_policy(identity: IdentityEndpoints, **more: Any) -> Any:
    audience = google.AUDIENCE.split("/")
    federation = {
        "projectID": audience[4],
        "workloadIdentityPoolName": audience[8],
        "workloadIdentityProviderName": audience[10],
        "oidcExchangeToken": oidc(identity.url),
        **more,
    }
    project = google.ACCOUNT.partition("@")[2].partition(".")[0]
    given = {"projectName": project, "region": "r", "workloadIdentityFederationConfig": federation}
    return policy("GCPCredentials", gcpCredentials=given)


@pytest.mark.parametrize("impersonated", [False, True], ids=["itself", "another"])
def test_google_gives_a_token_for_a_federated_identity(
    gcp: GoogleEndpoints, identity: IdentityEndpoints, *, impersonated: bool
):
    gcp.subject_token = "canary-identity-1"
    name = google.ACCOUNT.partition("@")[0]
    more = {"serviceAccountImpersonation": {"serviceAccountName": name}} if impersonated else {}
    hosts = Hosts(gcp_sts=gcp.url, gcp_iam=gcp.url)
    found = exchange("gcp", gcp_policy(identity, **more), hosts, client_secret=CLIENT_SECRET)
    assert found.data["gcpAccessToken"].reveal() == gcp.issued[-1]
    assert len(gcp.issued) == 1 + impersonated
    assert found.data["region"].reveal() == "r"
    (sts,) = gcp.called("sts")
    assert sts.form["scope"] == "https://www.googleapis.com/auth/cloud-platform"
    assert timedelta(minutes=59) < found.expires - found.issued < timedelta(minutes=61)


def test_google_gives_a_token_for_the_key_of_a_service_account(gcp: GoogleEndpoints):
    file = json.dumps(gcp.service_account())
    given = {"projectName": "p", "region": "r", "credentialsFile": {"secretRef": {"name": "s"}}}
    found = exchange("gcp", policy("GCPCredentials", gcpCredentials=given), file=file)
    assert found.data["gcpAccessToken"].reveal() == gcp.issued[0]


@pytest.mark.parametrize("file", ["", "{", "{}", '{"client_email":"e","token_uri":"u","private_key":"canary-key"}'])
def test_a_file_that_is_none_of_a_service_account_is_told_without_its_content(file: str):
    given = {"projectName": "p", "region": "r", "credentialsFile": {"secretRef": {"name": "s"}}}
    with pytest.raises(RotationFailed, match="no file of a service account") as caught:
        exchange("gcp", policy("GCPCredentials", gcpCredentials=given), file=file)
    assert "canary" not in str(caught.value)


TROUBLE = {
    "refused, and repeated what was sent": (None, "answered 401: invalid_client"),
    "a page": (html(), "answered 502"),
    "a page that says all is well": (html(200), "answered with something that is no JSON object"),
    "a redirect": (redirect("http://127.0.0.1:1/"), "answered 307"),
    "no token": (json_reply(200, {"expires_in": 1}), "answered without a token"),
    "a token that is no header": (json_reply(200, {"access_token": "a\nb"}), "answered without a token"),
    "a code that is a text": (json_reply(400, {"error": "canary is wrong"}), "answered 400"),
    "too much": (Reply(body=b"[" * (1 << 19)), "answered with more than"),
    "an end": (HangUp(), "cannot be reached"),
}


@pytest.mark.parametrize(("fault", "says"), TROUBLE.values(), ids=TROUBLE)
def test_trouble_is_told_without_what_was_sent(identity: IdentityEndpoints, fault: Any, says: str):
    if fault is not None:
        identity.script("token", fault)
    secret = CLIENT_SECRET if fault is not None else "canary-wrong"
    with pytest.raises(RotationFailed, match=says) as caught:
        exchange("aws", aws_policy(identity), Hosts(aws=identity.url), client_secret=secret)
    assert "canary" not in str(caught.value)


def test_a_refusal_of_sts_is_told_by_its_code(identity: IdentityEndpoints):
    spec = aws_policy(identity)
    identity.script("token", json_reply(200, {"access_token": "another"}))
    with pytest.raises(RotationFailed, match="answered 400: InvalidIdentityToken"):
        exchange("aws", spec, Hosts(aws=identity.url), client_secret=CLIENT_SECRET)


@pytest.mark.parametrize("fault", [Silence(), Drip()], ids=["silence", "drip"])
def test_nobody_waits_for_ever(identity: IdentityEndpoints, fault: Any):
    identity.script("token", fault)
    caller = Caller(seconds=0.3)
    with pytest.raises(RotationFailed, match=r"no answer in time|did not finish|cannot be reached"):
        caller.json(f"{identity.url}/token", form={})


def test_what_is_no_address_is_not_asked():
    for url in ("file:///etc/passwd", "nothing", "ftp://host/", "https://[host", "https://host]/"):
        with pytest.raises(RotationFailed, match="is no address of an HTTP server"):
            Caller().json(url)


def test_calls_go_through_the_proxy(identity: IdentityEndpoints):
    caller = Caller(proxy=Secret(identity.url), seconds=5.0)
    with pytest.raises(RotationFailed, match=r"id\.example\.com answered"):
        caller.json("http://id.example.com/somewhere")
    assert identity.calls


def test_proxies_are_judged_at_the_start():
    assert set(callers({})) == {"aws", "azure", "gcp"}
    for variable in ("AI_GATEWAY_STS_PROXY_URL", "AI_GATEWAY_AZURE_PROXY_URL", "AI_GATEWAY_GCP_AUTH_PROXY_URL"):
        with pytest.raises(ValueError, match=f"{variable} is not the URL of an HTTP proxy"):
            callers({variable: "socks5://canary@host"})


@pytest.mark.parametrize("given", [None, "x", -1, 0, [], "1800", 1800, 1e300])
def test_a_life_that_cannot_be_read_is_taken_for_a_short_one(azure: AzureEndpoints, given: Any):
    azure.script("token", json_reply(200, {"access_token": "t", "expires_in": given}))
    spec = policy(
        "AzureCredentials", azureCredentials={"clientID": "c", "tenantID": TENANT, "clientSecretRef": {"name": "s"}}
    )
    found = exchange("azure", spec, Hosts(azure=azure.url), azure_secret="s")
    seconds = (found.expires - found.issued).total_seconds()
    assert seconds == {"1800": 1800, 1800: 1800, 1e300: 10 * 365 * 86400}.get(
        given if not isinstance(given, list) else "", 300
    )


def test_the_name_of_the_generated_secret_is_the_peers():
    assert rotation.secret_key(POLICY) == Key("Secret", "default", "ai-eg-bsp-p")
