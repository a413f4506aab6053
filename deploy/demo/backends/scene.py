"""The seven backends as data: what clients call each, where it is, what it speaks, and who is let in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from deploy.demo.providers.anthropic import Anthropic
from deploy.demo.providers.bedrock import Bedrock
from deploy.demo.providers.openai import AzureOpenAI, OpenAI
from deploy.demo.providers.service import Provider
from deploy.demo.providers.vertex import VertexAI
from deploy.envoy.model import AccessLog, Backend, Gateway, Listener, PipeAddress, Processor, Route, Rule, SocketAddress

COST_KEY: Final = "llm_total_token"

_COSTS: Final = (
    {"metadataKey": "llm_input_token", "type": "InputToken"},
    {"metadataKey": "llm_output_token", "type": "OutputToken"},
    {"metadataKey": COST_KEY, "type": "TotalToken"},
)
_OPENAI_KEY: Final = "sk-demo-openai-0001"
_AZURE_KEY: Final = "az-demo-0002"
_ANTHROPIC_KEY: Final = "sk-ant-demo-0003"
_TOKEN: Final = "ya29.demo-0004"  # noqa: S105 - nobody but the stand-in takes it
_PROJECT: Final = "demo-project"
ACCESS_KEY_ID: Final = "AKIADEMO000000000005"
SECRET_ACCESS_KEY: Final = "demo-secret-0006"  # noqa: S105 - as above
_CREDENTIALS: Final = f"[default]\naws_access_key_id={ACCESS_KEY_ID}\naws_secret_access_key={SECRET_ACCESS_KEY}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """One backend.

    Attributes:
        schema: of the filter config.
        asked_as: the model as clients name it.
        model: what it is called at the backend.
        host: the provider's, at which the stand-in ``provider`` is found.
        auth: of the filter config.
    """

    schema: Mapping[str, str]
    asked_as: str
    model: str
    host: str
    auth: Mapping[str, Any]
    provider: Provider

    @property
    def name(self) -> str:
        return self.schema["name"]


def _bedrock(region: str) -> Bedrock:
    return Bedrock(access_key_ids=frozenset({ACCESS_KEY_ID}), region=region)


def _aws(region: str) -> Mapping[str, Any]:
    return {"aws": {"credentialFileLiteral": _CREDENTIALS, "region": region}}


def _gcp(region: str) -> Mapping[str, Any]:
    return {"gcp": {"accessToken": _TOKEN, "region": region, "projectName": _PROJECT}}


SPEAKERS: Final = (
    Speaker(
        schema={"name": "OpenAI", "prefix": "v1"},
        asked_as="demo-openai",
        model="gpt-5",
        host="api.openai.com",
        auth={"apiKey": {"key": _OPENAI_KEY}},
        provider=OpenAI(key=_OPENAI_KEY),
    ),
    Speaker(
        schema={"name": "AzureOpenAI", "version": "2025-01-01-preview"},
        asked_as="demo-azure",
        model="gpt-5-eu",
        host="demo.openai.azure.com",
        auth={"azureAPIKey": {"key": _AZURE_KEY}},
        provider=AzureOpenAI(key=_AZURE_KEY),
    ),
    Speaker(
        schema={"name": "AWSBedrock"},
        asked_as="demo-bedrock",
        model="us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        host="bedrock-runtime.us-east-1.amazonaws.com",
        auth=_aws("us-east-1"),
        provider=_bedrock("us-east-1"),
    ),
    Speaker(
        schema={"name": "GCPVertexAI"},
        asked_as="demo-gemini",
        model="gemini-2.5-pro",
        host="us-central1-aiplatform.googleapis.com",
        auth=_gcp("us-central1"),
        provider=VertexAI(project=_PROJECT, location="us-central1", token=_TOKEN),
    ),
    Speaker(
        schema={"name": "GCPAnthropic"},
        asked_as="demo-claude-gcp",
        model="claude-sonnet-4-5",
        host="us-east5-aiplatform.googleapis.com",
        auth=_gcp("us-east5"),
        provider=VertexAI(project=_PROJECT, location="us-east5", token=_TOKEN),
    ),
    Speaker(
        schema={"name": "AWSAnthropic"},
        asked_as="demo-claude-aws",
        # An inference profile: its name has a slash, which has to be escaped and signed as it is sent.
        model="arn:aws:bedrock:eu-west-1:111122223333:inference-profile/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
        host="bedrock-runtime.eu-west-1.amazonaws.com",
        auth=_aws("eu-west-1"),
        provider=_bedrock("eu-west-1"),
    ),
    Speaker(
        schema={"name": "Anthropic"},
        asked_as="demo-claude",
        model="claude-sonnet-4-5",
        host="api.anthropic.com",
        auth={"anthropicAPIKey": {"key": _ANTHROPIC_KEY}},
        provider=Anthropic(key=_ANTHROPIC_KEY),
    ),
)


def route(providers: SocketAddress) -> Route:
    """One rule a model. All hosts are at one address, where the Host header tells them apart."""
    rules = (
        Rule(
            models=(speaker.asked_as,),
            backends=(Backend(name=speaker.name.lower(), address=providers, hostname=speaker.host),),
        )
        for speaker in SPEAKERS
    )
    return Route(name="backends", namespace="demo", rules=tuple(rules))


def gateway(
    providers: SocketAddress, *, listener: SocketAddress, processor: PipeAddress, admin: SocketAddress, log: Path
) -> Gateway:
    return Gateway(
        listener=Listener(address=listener, trust_request_id=True, exclusive=True),
        routes=(route(providers),),
        processor=Processor(address=processor),
        access_log=AccessLog(path=str(log), cost_keys=tuple(rule["metadataKey"] for rule in _COSTS)),
        admin=admin,
    )


def filter_config(providers: SocketAddress) -> dict[str, Any]:
    """The filter config whose backends are those of ``gateway``, under the very names that the gateway gives them."""
    there = route(providers)
    return {
        "version": "dev",
        "uuid": "demo-backends",
        "backends": [
            {
                "name": there.backend_name(rule, 0),
                "modelNameOverride": speaker.model,
                "schema": dict(speaker.schema),
                "auth": speaker.auth,
            }
            for rule, speaker in enumerate(SPEAKERS)
        ],
        "globalLLMRequestCosts": [dict(rule) for rule in _COSTS],
        "models": [
            {"Name": speaker.asked_as, "OwnedBy": "demo", "CreatedAt": "2026-01-01T00:00:00Z"} for speaker in SPEAKERS
        ],
    }
