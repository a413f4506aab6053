"""Where a translated request goes, and with whose credential: model names, signatures, failover between schemas."""

from __future__ import annotations

import json
from urllib.parse import unquote

import openai
import pytest

from deploy.demo.backends.scene import ACCESS_KEY_ID
from deploy.demo.providers.bedrock import error as amazon_error
from deploy.demo.providers.service import Refused
from deploy.envoy.model import Retry
from tests.dataplane.harness.broken import Absent
from tests.dataplane.harness.client import CHAT, connect, new_id, question
from tests.dataplane.harness.documents import cost, filter_config, route
from tests.dataplane.harness.providers import (
    BY_SCHEMA,
    CALLERS,
    configured,
    error_of,
    framed,
    place,
    rule_of,
    start_all,
)
from tests.dataplane.harness.replies import Abort
from tests.support.sigv4_verifier import verify

QUESTION = {"role": "user", "content": "What is the weather in Paris?"}
SAID = "You said: What is the weather in Paris?"
PROFILE = "arn:aws:bedrock:us-east-1:111122223333:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0"
AWS = ("AWSBedrock", "AWSAnthropic")
NAMES = {
    "a deployment with a blank and a slash": ("AzureOpenAI", "my gpt/5", "/openai/deployments/my%20gpt%2F5/"),
    "a version after an at sign": ("GCPAnthropic", "claude-sonnet-4-5@20250929", "claude-sonnet-4-5@20250929:"),
    "a profile of Converse": ("AWSBedrock", PROFILE, f"/model/{PROFILE.replace('/', '%2F')}/converse"),
    "a model with a colon": ("AWSAnthropic", "anthropic.claude-3-haiku-20240307-v1:0", "-v1:0/invoke"),
}
CHAINS = {
    "from Converse to Anthropic": ("AWSBedrock", "Anthropic"),
    "from Gemini to Converse": ("GCPVertexAI", "AWSBedrock"),
    "from OpenAI to Claude at Amazon": ("OpenAI", "AWSAnthropic"),
    "from Anthropic to OpenAI": ("Anthropic", "OpenAI"),
    "from Claude at Google to Azure": ("GCPAnthropic", "AzureOpenAI"),
    "from Azure to Gemini": ("AzureOpenAI", "GCPVertexAI"),
}
OWN = {"credentialOverride": {"headerName": "x-aigw-aws-", "fallbackToConfigured": True}}
OWN_ONLY = {"credentialOverride": {"headerName": "x-aigw-aws-"}}
COSTS = [cost("total"), cost("input", "InputToken"), cost("output", "OutputToken")]


@pytest.fixture(scope="module")
def upstreams(start_upstream):
    return start_all(start_upstream)


@pytest.fixture(scope="module")
def absent():
    with Absent() as absent:
        yield absent


@pytest.fixture(scope="module")
def stack(start_stack, upstreams, absent):
    """Names of models, chains of backends, and credentials of the client: each is a model to ask for."""
    rules, entries = [], []

    def add(model, *speakers, retry=None, named=None, hosts=None, **auth):
        hosts = hosts or [upstreams[speaker.name] for speaker in speakers]
        rules.append(
            rule_of(
                *(
                    place(host, speaker, priority=rank)
                    for rank, (host, speaker) in enumerate(zip(hosts, speakers, strict=True))
                ),
                model=model,
                retry=retry,
            )
        )
        entries.extend((len(rules) - 1, ref, speaker, named, auth) for ref, speaker in enumerate(speakers))

    for case, (schema, named, _) in NAMES.items():
        add(case, BY_SCHEMA[schema], named=named)
    for case, (first, second) in CHAINS.items():
        add(case, BY_SCHEMA[first], BY_SCHEMA[second], retry=Retry(attempts=2))
    for schema in AWS:
        add(schema, BY_SCHEMA[schema])
        add(f"{schema}, own", BY_SCHEMA[schema], **OWN)
        add(f"{schema}, own only", BY_SCHEMA[schema], **OWN_ONLY)
        add(
            f"{schema}, again",
            BY_SCHEMA[schema],
            BY_SCHEMA[schema],
            retry=Retry(attempts=2),
            hosts=[absent, upstreams[schema]],
        )
    where = route(*rules)
    backends = [
        configured(where.backend_name(rule, ref), speaker, model=named, **auth)
        for rule, ref, speaker, named, auth in entries
    ]
    return start_stack(
        routes=[where],
        config=filter_config(*backends, globalLLMRequestCosts=COSTS),
        cost_keys=[rule["metadataKey"] for rule in COSTS],
    )


@pytest.fixture(scope="module")
def client(stack):
    with openai.OpenAI(base_url=f"{stack.base_url}/v1", api_key="sk-of-the-client", max_retries=0, timeout=30) as made:
        yield made


@pytest.fixture
def ask(client, stack):
    """``ask(model, stream=…, **headers)``: the text, and the entry of the access log."""

    def ask(model, *, stream, **headers):
        request_id = new_id()
        call = {"model": model, "messages": [QUESTION], "extra_headers": {"x-request-id": request_id, **headers}}
        if stream:
            chunks = client.chat.completions.create(**call, stream=True)
            text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
        else:
            text = client.chat.completions.create(**call).choices[0].message.content
        return text, stack.access_log.wait_for(request_id)

    return ask


BOTH_WAYS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def signature_of(received):
    return verify(
        method=received.method,
        path=received.target,
        headers=received.headers,
        body=received.body,
        secrets=CALLERS,
    )


@pytest.mark.parametrize("case", NAMES)
@BOTH_WAYS
def test_the_name_of_a_model_in_a_path(ask, upstreams, case, stream):
    schema, named, part = NAMES[case]

    text, entry = ask(case, stream=stream)

    received = upstreams[schema].last
    assert text == SAID
    assert part in received.target
    assert named in unquote(received.target)
    assert entry["model"] == named


@pytest.mark.parametrize("schema", AWS)
@BOTH_WAYS
def test_a_signature_covers_what_came(ask, upstreams, schema, stream):
    ask(schema, stream=stream)

    received = upstreams[schema].last
    signature = signature_of(received)
    assert signature.access_key_id == ACCESS_KEY_ID
    assert signature.service == "bedrock"
    assert signature.region in received.header("host")
    assert signature.session_token is None


@pytest.mark.parametrize("schema", AWS)
def test_a_spoofed_host_is_not_signed_for(ask, upstreams, schema):
    text, _ = ask(schema, stream=False, **{"x-ai-eg-upstream-host": "bedrock-runtime.ap-south-1.amazonaws.com"})

    received = upstreams[schema].last
    assert text == SAID
    assert received.header("host") == BY_SCHEMA[schema].host
    assert received.header("x-ai-eg-upstream-host") is None
    assert signature_of(received).region != "ap-south-1"


OF_THE_CLIENT = {
    "x-aigw-aws-access-key-id": "AKIAOFTHECLIENT",
    "x-aigw-aws-secret-access-key": "secret-of-the-client",
}
TOKENS = {"with a session": {"x-aigw-aws-session-token": "session-of-the-client"}, "without": {}}


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
@pytest.mark.parametrize("schema", AWS)
@BOTH_WAYS
def test_a_credential_of_the_client(ask, upstreams, schema, token, stream):
    text, _ = ask(f"{schema}, own", stream=stream, **OF_THE_CLIENT, **token)

    received = upstreams[schema].last
    signature = signature_of(received)
    assert text == SAID
    assert signature.access_key_id == "AKIAOFTHECLIENT"
    assert signature.session_token == (token.get("x-aigw-aws-session-token") or None)
    assert not [name for name in received.names() if name.startswith("x-aigw-")]
    assert "secret-of-the-client" not in str(received.headers)


@pytest.mark.parametrize("schema", AWS)
def test_without_a_credential_of_the_client_the_configured_one_signs(ask, upstreams, schema):
    ask(f"{schema}, own", stream=False)

    signature = signature_of(upstreams[schema].last)
    assert (signature.access_key_id, signature.session_token) == (ACCESS_KEY_ID, None)


@pytest.mark.parametrize("schema", AWS)
def test_without_a_credential_where_the_client_has_to_bring_one(client, upstreams, schema):
    with pytest.raises(openai.AuthenticationError) as raised:
        client.chat.completions.create(model=f"{schema}, own only", messages=[QUESTION])

    assert "missing upstream credential" in raised.value.body["message"]
    assert upstreams[schema].requests == []


@pytest.mark.parametrize("schema", AWS)
def test_a_credential_of_nobody_is_refused_by_the_provider(client, upstreams, schema):
    stranger = OF_THE_CLIENT | {"x-aigw-aws-secret-access-key": "not-the-secret"}

    with pytest.raises(openai.PermissionDeniedError) as raised:
        client.chat.completions.create(model=f"{schema}, own", messages=[QUESTION], extra_headers=stranger)

    assert raised.value.body["type"] == "InvalidSignatureException"


@pytest.mark.parametrize("schema", AWS)
@BOTH_WAYS
def test_another_attempt_is_signed_anew(ask, upstreams, schema, stream):
    text, entry = ask(f"{schema}, again", stream=stream)

    assert (text, entry["attempts"]) == (SAID, 2)
    assert signature_of(upstreams[schema].last).access_key_id == ACCESS_KEY_ID


@pytest.mark.parametrize("case", CHAINS)
@pytest.mark.parametrize("status", [429, 500, 503])
@BOTH_WAYS
def test_a_backend_of_another_schema_answers_for_one_that_fails(ask, upstreams, case, status, stream):
    first, second = CHAINS[case]
    upstreams[first].reply(error_of(first, status, "not now"))

    text, entry = ask(case, stream=stream)

    assert text == SAID
    assert (entry["attempts"], entry["status"]) == (2, 200)
    assert (len(upstreams[first].requests), len(upstreams[second].requests)) == (1, 1)
    assert entry["model"] == BY_SCHEMA[second].model
    assert entry["costs"] == {"input": 6, "output": 8, "total": 14}
    received = upstreams[second].last
    assert received.header("host") == BY_SCHEMA[second].host
    of_first = {name for name, _ in upstreams[first].last.headers} & {"x-amz-date", "x-api-key", "api-key"}
    wanted = {"AWSBedrock": {"x-amz-date"}, "AWSAnthropic": {"x-amz-date"}, "Anthropic": {"x-api-key"}}
    allowed = wanted.get(second, {"api-key"} if second == "AzureOpenAI" else set())
    assert not [name for name in received.names() if name in of_first - allowed]


@pytest.mark.parametrize("case", CHAINS)
def test_the_first_backend_is_the_one_that_answers_when_it_can(ask, upstreams, case):
    first, second = CHAINS[case]

    text, entry = ask(case, stream=False)

    assert (text, entry["attempts"]) == (SAID, 1)
    assert upstreams[second].requests == []
    assert entry["model"] == BY_SCHEMA[first].model


@pytest.mark.parametrize("case", CHAINS)
def test_a_client_sees_the_error_of_the_last_backend(client, upstreams, case):
    first, second = CHAINS[case]
    upstreams[first].reply(error_of(first, 503, "first is busy"))
    upstreams[second].reply(error_of(second, 503, "second is busy"))

    with pytest.raises(openai.InternalServerError) as raised:
        client.chat.completions.create(model=case, messages=[QUESTION])

    assert "second is busy" in raised.value.body["message"]


def test_amazons_full_name_of_an_error_is_shortened(client, upstreams):
    kind = "ThrottlingException:http://internal.amazon.com/coral/com.amazon.bedrock/"
    upstreams["AWSBedrock"].reply(framed(amazon_error(Refused("slow down", status=429, kind=kind))))

    with pytest.raises(openai.RateLimitError) as raised:
        client.chat.completions.create(model="AWSBedrock", messages=[QUESTION])

    assert raised.value.body["type"] == "ThrottlingException"


def test_a_first_backend_that_breaks_off_before_its_answer(ask, upstreams):
    first, second = CHAINS["from Converse to Anthropic"]
    upstreams[first].reply(framed(amazon_error(Refused("", status=500)), Abort(), upto=0))

    text, entry = ask("from Converse to Anthropic", stream=True)

    assert (text, entry["attempts"]) == (SAID, 2)
    assert json.loads(upstreams[second].last.body)["stream"] is True


@pytest.mark.parametrize("schema", AWS)
def test_the_length_of_the_body_is_known(stack, upstreams, schema):
    with connect(stack) as plain:
        answer = plain.post(CHAT, json=question(schema))

    assert answer.status_code == 200
    assert upstreams[schema].refused == []
    received = upstreams[schema].last
    assert received.header("content-length") == str(len(received.body))
