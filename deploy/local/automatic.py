"""Resources made of environment variables, for a gateway that nobody has written any for (contract, control plane 7.5).

The variables are those of the providers' own SDKs. A credential is not copied: the Secret names the variable, and the
compiler reads it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import yaml

from filter_config.sources.envoy_ai_gateway.documents import Text
from filter_config.sources.envoy_ai_gateway.substitution import VARIABLE

NAME: Final = "aigw-run"
"""The name of what is made: GatewayClass, Gateway and AIGatewayRoute."""
PORT: Final = 1975
SOURCE: Final = "environment"
"""What messages say in place of a file's name."""
WANTED: Final = "OPENAI_API_KEY, OPENAI_BASE_URL, AZURE_OPENAI_API_KEY or ANTHROPIC_API_KEY"

_NAMESPACE: Final = "default"
_AI: Final = "aigateway.envoyproxy.io"
_GATEWAY_API: Final = "gateway.networking.k8s.io"
_ENVOY_GATEWAY: Final = "gateway.envoyproxy.io"
_MODEL_HEADER: Final = "x-ai-eg-model"
_OPENAI_URL: Final = "https://api.openai.com/v1"
_ANTHROPIC_URL: Final = "https://api.anthropic.com/v1"
_PORTS: Final = {"http": 80, "https": 443}
_API_VERSION: Final = "v1"
_ANTHROPIC_VERSION: Final = "2023-06-01"
_ANTHROPIC_PAGE: Final = 1000

Resource = dict[str, Any]


class EnvironmentIncomplete(ValueError):
    """The variables do not say enough for a gateway; the text says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Provider:
    """A provider as the variables describe it."""

    name: str
    models: str
    """Regular expression of the models that go there."""
    schema: Mapping[str, str]
    url: SplitResult
    key: tuple[str, str, str] | None = None
    """Variable of the key, with the type of its policy and the policy's field; None for a provider without one."""
    headers: Mapping[str, str]
    models_path: str = ""
    """Where it lists its models; empty for one whose list has other names than requests have."""

    @property
    def port(self) -> int:
        return self.url.port or _PORTS[self.url.scheme]

    @property
    def address(self) -> str:
        """Where it is, for people; nothing of a credential that its URL may hold."""
        host = self.url.hostname or ""
        return f"{self.url.scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    def asking_headers(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The headers, credential included, with which it is asked for its models."""
        key = environ.get(self.key[0], "").strip() if self.key is not None else ""
        if self.schema["name"] == "Anthropic":
            return {"anthropic-version": _ANTHROPIC_VERSION, "x-api-key": key}
        return {**self.headers, **({"authorization": f"Bearer {key}"} if key else {})}


def resources(environ: Mapping[str, str]) -> Text:
    """The resources as a file would have them.

    Raises:
        EnvironmentIncomplete: no provider is named, or one only in part.
    """
    named = providers(environ)
    made = [*_gateway(named), *(resource for provider in named for resource in _backend(provider))]
    return Text(name=SOURCE, data=yaml.safe_dump_all(made, sort_keys=False, allow_unicode=True).encode())


# --- providers ---


def providers(environ: Mapping[str, str]) -> Sequence[Provider]:
    """Who the variables name; the first one that takes a model gets it.

    Raises:
        EnvironmentIncomplete: nobody, or somebody only in part.
    """
    named = tuple(_providers(environ))
    if not named:
        raise EnvironmentIncomplete(f"name files of resources, or set {WANTED}")
    return named


def _providers(environ: Mapping[str, str]) -> Iterator[Provider]:
    """Models that nobody else has go to the last one."""
    first = _azure(environ) if environ.get("AZURE_OPENAI_API_KEY") else _openai(environ)
    # Another server than OpenAI's own may well have models of these names.
    if environ.get("ANTHROPIC_API_KEY") and (first is None or not _elsewhere(environ)):
        yield _anthropic(environ, models=".*" if first is None else "claude-.*")
    if first is not None:
        yield first


def _elsewhere(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("OPENAI_BASE_URL")) and not environ.get("AZURE_OPENAI_API_KEY")


def _azure(environ: Mapping[str, str]) -> Provider:
    missing = [name for name in ("AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION") if not environ.get(name)]
    if missing:
        raise EnvironmentIncomplete(f"AZURE_OPENAI_API_KEY is set and {' and '.join(missing)} not")
    return Provider(
        name="openai",
        models=".*",
        schema={"name": "AzureOpenAI", "version": environ["OPENAI_API_VERSION"]},
        url=_url("AZURE_OPENAI_ENDPOINT", environ["AZURE_OPENAI_ENDPOINT"]),
        key=("AZURE_OPENAI_API_KEY", "AzureAPIKey", "azureAPIKey"),
        headers=_tenant(environ),
    )


def _openai(environ: Mapping[str, str]) -> Provider | None:
    has_key = bool(environ.get("OPENAI_API_KEY"))
    if not has_key and not environ.get("OPENAI_BASE_URL"):
        return None
    url = _url("OPENAI_BASE_URL", environ.get("OPENAI_BASE_URL") or _OPENAI_URL)
    path = url.path.strip("/")
    return Provider(
        name="openai",
        models=".*",
        schema={"name": "OpenAI", **_prefix(path)},
        url=url,
        key=("OPENAI_API_KEY", "APIKey", "apiKey") if has_key else None,
        headers=_tenant(environ),
        models_path=f"/{path or _API_VERSION}/models",
    )


def _anthropic(environ: Mapping[str, str], *, models: str) -> Provider:
    url = _url("ANTHROPIC_BASE_URL", environ.get("ANTHROPIC_BASE_URL") or _ANTHROPIC_URL)
    path = url.path.strip("/")
    # The provider's own SDK adds the version to what it is given; here it may be there already.
    if path and path.rpartition("/")[2] != _API_VERSION:
        path = f"{path}/{_API_VERSION}"
    return Provider(
        name="anthropic",
        models=models,
        schema={"name": "Anthropic", **_prefix(path)},
        url=url,
        key=("ANTHROPIC_API_KEY", "AnthropicAPIKey", "anthropicAPIKey"),
        headers={},
        models_path=f"/{path or _API_VERSION}/models?limit={_ANTHROPIC_PAGE}",
    )


def _tenant(environ: Mapping[str, str]) -> dict[str, str]:
    names = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
    return {header: environ[name] for header, name in names.items() if environ.get(name)}


def _prefix(path: str) -> dict[str, str]:
    """The path of a base URL, where it is not the one that APIs have anyway."""
    return {"prefix": path} if path not in {"", _API_VERSION} else {}


def _url(variable: str, text: str) -> SplitResult:
    try:
        url = urlsplit(text)
        usable = url.scheme in _PORTS and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise EnvironmentIncomplete(f"{variable} is no URL such as {_OPENAI_URL}")
    return url


# --- resources ---


def _resource(api_version: str, kind: str, name: str, **fields: Any) -> Resource:  # noqa: ANN401 - any field of a kind
    metadata = {"name": name, "namespace": _NAMESPACE, **fields.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def _gateway(named: Iterable[Provider]) -> Iterator[Resource]:
    yield _resource(
        f"{_GATEWAY_API}/v1",
        "Gateway",
        NAME,
        spec={"gatewayClassName": NAME, "listeners": [{"name": "http", "protocol": "HTTP", "port": PORT}]},
    )
    counters = {
        "llm_input_token": "InputToken",
        "llm_output_token": "OutputToken",
        "llm_reasoning_token": "ReasoningToken",
    }
    yield _resource(
        f"{_AI}/v1beta1",
        "AIGatewayRoute",
        NAME,
        spec={
            "parentRefs": [{"name": NAME, "kind": "Gateway", "group": _GATEWAY_API}],
            "rules": [_rule(provider) for provider in named],
            "llmRequestCosts": [{"metadataKey": key, "type": kind} for key, kind in counters.items()],
        },
    )


def _rule(provider: Provider) -> Resource:
    header = {"type": "RegularExpression", "name": _MODEL_HEADER, "value": provider.models}
    return {
        "matches": [{"headers": [header]}],
        "backendRefs": [{"name": provider.name}],
        "timeouts": {"request": "120s"},
    }


def _backend(provider: Provider) -> Iterator[Resource]:
    url, name = provider.url, provider.name
    yield _resource(f"{_ENVOY_GATEWAY}/v1alpha1", "Backend", name, spec={"endpoints": [_endpoint(url, provider.port)]})
    headers = [{"name": header, "value": value} for header, value in provider.headers.items()]
    yield _resource(
        f"{_AI}/v1beta1",
        "AIServiceBackend",
        name,
        spec={
            "schema": dict(provider.schema),
            "backendRef": {"name": name, "kind": "Backend", "group": _ENVOY_GATEWAY},
            **({"headerMutation": {"set": headers}} if headers else {}),
        },
    )
    if url.scheme == "https":
        validation = {"wellKnownCACertificates": "System", "hostname": url.hostname}
        targets = _targets(_ENVOY_GATEWAY, "Backend", name)
        yield _resource(
            f"{_GATEWAY_API}/v1", "BackendTLSPolicy", f"{name}-tls", spec={**targets, "validation": validation}
        )
    if provider.key is not None:
        yield from _credential(name, *provider.key)


def _credential(backend: str, variable: str, kind: str, field: str) -> Sequence[Resource]:
    name = f"{backend}-apikey"
    secret = _resource(
        "v1",
        "Secret",
        name,
        metadata={"annotations": {f"{VARIABLE}apiKey": variable}},
        stringData={"apiKey": ""},
    )
    spec = {
        **_targets(_AI, "AIServiceBackend", backend),
        "type": kind,
        field: {"secretRef": {"name": name, "namespace": _NAMESPACE}},
    }
    return secret, _resource(f"{_AI}/v1beta1", "BackendSecurityPolicy", name, spec=spec)


def _targets(group: str, kind: str, name: str) -> Resource:
    return {"targetRefs": [{"group": group, "kind": kind, "name": name}]}


def _endpoint(url: SplitResult, port: int) -> Resource:
    host = url.hostname or ""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return {"fqdn": {"hostname": host, "port": port}}
    return {"ip": {"address": host, "port": port}}
