"""Authentication in its place: over the final request, on every attempt, in no log (contract 3.14, 6; BR-96, BR-98)."""

import json
from email.utils import formatdate
from typing import Any

import pytest
import structlog

from extproc.auth.sigv4 import AWSCredentials
from extproc.auth.sources import Fetched
from extproc.endpoints.base import Operation
from extproc.exchange import names
from extproc.translate.base import TranslatedRequest
from extproc.translate.table import TRANSLATORS
from filter_config.redact import Secret
from protos.ext_proc_pb2 import Metadata
from tests.support.playbook import (
    BACKEND,
    NOW,
    SECOND_BACKEND,
    Exchange,
    Gateway,
    Reply,
    cost,
    openai_backend,
    request_headers,
)
from tests.support.sigv4_verifier import Signature, verify

HOST = "bedrock-runtime.eu-west-1.amazonaws.com"
FILE = "[default]\naws_access_key_id = AKIASTATIC\naws_secret_access_key = static-canary\n"
AWS = {"aws": {"credentialFileLiteral": FILE, "region": "us-east-1"}}
GCP = {"gcp": {"accessToken": "token-canary", "region": "global", "projectName": "p"}}
SECRETS = {"AKIASTATIC": "static-canary", "AKIAMINE": "mine-canary"}
MINE = {
    "x-tenant-aws-access-key-id": "AKIAMINE",
    "x-tenant-aws-secret-access-key": "mine-canary",
    "x-tenant-aws-session-token": "session-canary",
}
BODY = b'{"model":"m","stream":true,"messages":[]}'


def gateway(*backends: dict[str, Any], **options: Any) -> Gateway:
    config = {"version": "dev", "backends": list(backends), "llmRequestCosts": [cost("total")]}
    return Gateway(config, **options)


def verified(exchange: Exchange, body: bytes | None, host: str = HOST) -> Signature:
    """Check what Envoy would send now, with the host rewritten to that of the upstream."""
    headers = {**exchange.carried, ":authority": host}
    return verify(method=headers[":method"], path=headers[":path"], headers=headers, body=body or b"", secrets=SECRETS)


def paths(reply: Reply) -> list[str]:
    return [value for name, value in reply.set_list if name == ":path"]


def test_the_signature_covers_what_override_forced_usage_and_mutation_made_of_the_body():
    backend = openai_backend(
        modelNameOverride="anthropic.claude-3-5-sonnet-20240620-v1:0",
        auth=AWS,
        httpBodyMutation={"set": [{"path": "tier", "value": "priority"}], "remove": ["internal"]},
    )
    exchange = gateway(backend).exchange()
    exchange.request(b'{"model":"m","internal":1,"stream":true,"messages":[]}')
    reply = exchange.attempt(host=HOST)
    sent = json.loads(reply.body)
    assert sent["model"] == "anthropic.claude-3-5-sonnet-20240620-v1:0"
    assert sent["stream_options"] == {"include_usage": True}
    assert sent["tier"] == "priority"
    assert "internal" not in sent
    signature = verified(exchange, reply.body)
    assert (signature.access_key_id, signature.region, signature.service) == ("AKIASTATIC", "eu-west-1", "bedrock")


def test_a_body_that_goes_on_as_it_came_is_signed_as_well():
    exchange = gateway(openai_backend(auth=AWS)).exchange()
    body = b'{"model":"m","messages":[]}'
    exchange.request(body)
    reply = exchange.attempt(host=HOST)
    assert reply.body is None
    verified(exchange, body)


def test_a_clients_own_signature_does_not_go_along():
    stale = {
        "authorization": "AWS4-HMAC-SHA256 Credential=client",
        "x-amz-date": "20150830T123600Z",
        "x-amz-security-token": "client",
        "x-amz-content-sha256": "0" * 64,
    }
    exchange = gateway(openai_backend(auth=AWS)).exchange()
    exchange.request(BODY, stale)
    reply = exchange.attempt(host=HOST)
    assert {"x-amz-security-token", "x-amz-content-sha256"} <= set(reply.remove)
    assert verified(exchange, reply.body).session_token is None


MODEL_PATHS = {
    "BR-96, a colon": "/model/anthropic.claude-3-5-sonnet-20240620-v1:0/converse",
    "BR-96, an escaped colon": "/model/anthropic.claude-3-5-sonnet-20240620-v1%3A0/converse-stream",
    "an ARN": "/model/arn:aws:bedrock:eu-west-1:111122223333:inference-profile%2Feu.x-v1:0/converse",
}


def translate_to(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Let chat requests to the backend go to ``path``."""
    key = (Operation.CHAT, "OpenAI")
    make = TRANSLATORS[key]

    def translator(*args: Any, **kwargs: Any) -> Any:
        made = make(*args, **kwargs)
        made.request = lambda *_args, **_kwargs: TranslatedRequest(path=path)
        return made

    monkeypatch.setitem(TRANSLATORS, key, translator)


@pytest.mark.parametrize("path", MODEL_PATHS.values(), ids=MODEL_PATHS)
def test_the_path_is_sent_as_the_translator_wrote_it_and_signed_so(monkeypatch, path):
    translate_to(monkeypatch, path)
    exchange = gateway(openai_backend(auth=AWS)).exchange()
    exchange.request(BODY)
    reply = exchange.attempt(host=HOST)
    assert paths(reply) == [path]
    verified(exchange, reply.body)


# --- Google ---

RELATIVE = "publishers/google/models/gemini-pro:generateContent"
GCP_PATHS = {
    "relative": (RELATIVE, GCP, f"/v1/projects/p/locations/global/{RELATIVE}"),
    "absolute": (f"/{RELATIVE}", GCP, f"/v1/projects/p/locations/global/{RELATIVE}"),
    "relative, without authentication": (RELATIVE, None, f"/{RELATIVE}"),
    "absolute, without authentication": (f"/{RELATIVE}", None, f"/{RELATIVE}"),
    "relative, with a key": (RELATIVE, {"apiKey": {"key": "k"}}, f"/{RELATIVE}"),
}


@pytest.mark.parametrize(("path", "auth", "expected"), GCP_PATHS.values(), ids=GCP_PATHS)
def test_one_absolute_path_is_set(monkeypatch, path, auth, expected):
    translate_to(monkeypatch, path)
    exchange = gateway(openai_backend(auth=auth)).exchange()
    exchange.request(BODY)
    assert paths(exchange.attempt()) == [expected]


def test_a_google_token_replaces_the_clients(monkeypatch):
    translate_to(monkeypatch, RELATIVE)
    exchange = gateway(openai_backend(auth=GCP)).exchange()
    exchange.request(BODY, {"authorization": "Bearer client", "x-goog-api-key": "client"})
    reply = exchange.attempt()
    assert reply.set["Authorization"] == "Bearer token-canary"
    assert "x-goog-api-key" in reply.remove
    assert "authorization" not in reply.remove


def test_what_authentication_sets_replaces_what_a_mutation_set_under_the_name():
    mutation = {"set": [{"name": "Authorization", "value": "configured"}]}
    exchange = gateway(openai_backend(auth=AWS, httpHeaderMutation=mutation)).exchange()
    exchange.request(BODY)
    reply = exchange.attempt(host=HOST)
    assert [name for name, _ in reply.set_list if name.lower() == "authorization"] == ["Authorization"]
    verified(exchange, reply.body)


def test_logs_see_the_translated_path_and_not_the_authenticated_one():
    exchange = gateway(openai_backend(auth=GCP), log_attributes={":path": "path"}).exchange()
    exchange.request(BODY)
    assert exchange.attempt().metadata["path"] == "/v1/chat/completions"


# --- credentials of the request ---


def override(method: dict[str, Any] = AWS, **extra: Any) -> dict[str, Any]:
    return {**method, "credentialOverride": {"headerName": "X-Tenant-Aws-", **extra}}


def test_a_key_of_the_request_signs_every_attempt_and_goes_nowhere():
    exchange = gateway(
        openai_backend(auth=override()),
        openai_backend(SECOND_BACKEND, auth=override(), modelNameOverride="second"),
    ).exchange()
    exchange.request(BODY, MINE)
    for backend, host in ((BACKEND, HOST), (SECOND_BACKEND, "bedrock-runtime.us-west-2.api.aws")):
        reply = exchange.attempt(backend, host=host)
        assert set(MINE) <= set(reply.remove)
        assert not set(MINE) & set(exchange.carried)
        signature = verified(exchange, reply.body, host)
        assert signature.access_key_id == "AKIAMINE"
        assert signature.session_token == "session-canary"


def test_a_configured_removal_of_the_source_headers_is_not_doubled():
    backend = openai_backend(auth=override(), httpHeaderMutation={"remove": list(MINE)})
    exchange = gateway(backend).exchange()
    exchange.request(BODY, MINE)
    reply = exchange.attempt(host=HOST)
    assert sorted(reply.remove) == sorted([*MINE, "x-ai-eg-upstream-host"])
    assert verified(exchange, reply.body).access_key_id == "AKIAMINE"


def test_a_retry_elsewhere_takes_nothing_of_the_signature_along():
    exchange = gateway(
        openai_backend(auth=override()), openai_backend(SECOND_BACKEND, auth={"anthropicAPIKey": {"key": "k"}})
    ).exchange()
    exchange.request(BODY, MINE)
    exchange.attempt(host=HOST)
    reply = exchange.attempt(SECOND_BACKEND)
    assert reply.set["x-api-key"] == "k"
    assert not [
        name for name in exchange.carried if name.startswith(("x-amz-", "x-tenant-")) or name == "authorization"
    ]


def test_a_retry_with_the_configured_key_drops_the_session_token():
    exchange = gateway(openai_backend(auth=override()), openai_backend(SECOND_BACKEND, auth=AWS)).exchange()
    exchange.request(BODY, MINE)
    exchange.attempt(host=HOST)
    reply = exchange.attempt(SECOND_BACKEND, host=HOST)
    assert "x-amz-security-token" in reply.remove
    signature = verified(exchange, reply.body)
    assert (signature.access_key_id, signature.session_token) == ("AKIASTATIC", None)


def test_a_key_for_one_backend_does_not_reach_another():
    exchange = gateway(openai_backend(auth=override()), openai_backend(SECOND_BACKEND)).exchange()
    exchange.request(BODY, MINE)
    assert set(MINE) <= set(exchange.attempt(SECOND_BACKEND).remove)


def test_a_struct_in_dynamic_metadata_signs():
    auth = {**AWS, "credentialOverride": {"dynamicMetadataNamespace": "ns", "dynamicMetadataKey": "aws"}}
    exchange = gateway(openai_backend(auth=auth)).exchange()
    exchange.request(BODY)
    attributes = {names.BACKEND_OF_HOST: BACKEND, names.HOST_OF_UPSTREAM: HOST}
    message = request_headers(exchange.carried, attributes=attributes)
    brought = {"accessKeyId": "AKIAMINE", "secretAccessKey": "mine-canary"}
    metadata = Metadata()
    metadata.filter_metadata["ns"].update({"aws": brought})
    message.metadata_context = metadata.SerializeToString()
    reply = exchange.send(exchange.gateway.stream(), message)
    headers = {**exchange.carried, **reply.set, ":authority": HOST}
    signature = verify(method="POST", path=headers[":path"], headers=headers, body=reply.body, secrets=SECRETS)
    assert signature.access_key_id == "AKIAMINE"


REFUSALS = {
    "absent": ({}, "missing upstream credential"),
    "incomplete": (
        {"x-tenant-aws-access-key-id": "AKIAMINE"},
        "incomplete per-request AWS credential: access key ID and secret access key must both be present",
    ),
}


@pytest.mark.parametrize(("headers", "message"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_a_401_that_passes_back_untouched(headers, message):
    exchange = gateway(openai_backend(auth=override())).exchange()
    exchange.request(BODY, headers)
    reply = exchange.attempt(host=HOST)
    assert reply.status == 401
    assert reply.json == {"type": "error", "error": {"type": "Unauthorized", "code": "401", "message": message}}
    assert exchange.response({"content-type": "application/json"}, status="401").is_neutral


def test_a_backend_whose_credential_cannot_be_had_is_disabled_alone():
    missing = {"aws": {"region": "us-east-1"}}
    exchange = gateway(openai_backend(auth=missing), openai_backend(SECOND_BACKEND, auth=AWS)).exchange()
    exchange.request(BODY)
    assert exchange.attempt().status == 503
    reply = exchange.attempt(SECOND_BACKEND, host=HOST)
    assert verified(exchange, reply.body).access_key_id == "AKIASTATIC"


def test_a_credential_that_has_not_been_fetched_yet_fails_only_the_requests_that_need_it():
    chain = {"aws": {"region": "us-east-1"}}
    open_ = gateway(openai_backend(auth=chain), openai_backend(SECOND_BACKEND, auth=AWS))
    exchange = open_.exchange()
    exchange.request(BODY)
    reply = exchange.attempt(host=HOST)
    assert (reply.status, reply.json["error"]["message"]) == (
        503,
        "the credential of the backend has not been fetched yet (aws-default-chain/us-east-1)",
    )
    assert verified(exchange, exchange.attempt(SECOND_BACKEND, host=HOST).body).access_key_id == "AKIASTATIC"
    (cell,) = open_.processor.runtime.cells
    key = AWSCredentials(access_key_id=Secret("AKIAMINE"), secret_access_key=Secret("mine-canary"))
    cell.succeeded(Fetched(key), {})
    later = open_.exchange()
    later.request(BODY)
    assert verified(later, later.attempt(host=HOST).body).access_key_id == "AKIAMINE"


def test_a_refused_signature_teaches_the_time_to_the_requests_after_it(monkeypatch):
    monkeypatch.setattr("extproc.auth.skew.PROCESS.seconds", 0.0)
    open_ = gateway(openai_backend(auth=AWS))
    dates = []
    for _ in range(2):
        exchange = open_.exchange()
        exchange.request(BODY)
        dates.append(exchange.attempt(host=HOST).set["X-Amz-Date"])
        answer = {"date": formatdate(NOW + 600, usegmt=True), "x-amzn-errortype": "InvalidSignatureException"}
        assert exchange.response(answer, status="403").is_neutral
    assert dates == ["20231114T221320Z", "20231114T222320Z"]


# --- secrecy ---

SHOWN = {
    "a configured key": (AWS, {}),
    "a configured token": (GCP, {}),
    "a key of the request": (override(), MINE),
    # No suffix of these names is known to be secret; the configuration says that they are.
    "under a name of one's own": (
        {**AWS, "credentialOverride": {"headerName": "mine"}},
        {"mineaccess-key-id": "AKIAMINE", "minesecret-access-key": "mine-canary", "minesession-token": "s-canary"},
    ),
    "half a key of the request": (override(), {"x-tenant-aws-secret-access-key": "mine-canary"}),
}


@pytest.mark.parametrize(("auth", "headers"), SHOWN.values(), ids=SHOWN)
def test_no_log_line_shows_a_credential(auth, headers):
    with structlog.testing.capture_logs() as logs:
        exchange = gateway(openai_backend(auth=auth), debug=True, redact=False).exchange()
        exchange.request(BODY, headers)
        exchange.attempt(host=HOST)
        exchange.close()
    assert logs
    assert "canary" not in str(logs)
    assert "canary" not in repr(exchange.gateway.processor.runtime)
