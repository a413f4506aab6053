"""Names of the schema: attributes in snake case, keys as in the document."""

from __future__ import annotations

import msgspec
import pytest

from filter_config.model import (
    AUTH_METHODS,
    AzureAuth,
    Backend,
    BackendAuth,
    Config,
    CredentialOverride,
    LLMRequestCost,
    MCPAuthorization,
    MCPForwardHeader,
    Model,
    VersionedAPISchema,
    document_key,
)
from filter_config.redact import dec_hook

KEYS = {
    "Config": (
        Config,
        [
            "version",
            "uuid",
            "globalLLMRequestCosts",
            "llmRequestCosts",
            "backends",
            "models",
            "modelsByHost",
            "unscopedModels",
            "mcpConfig",
        ],
    ),
    "Model": (Model, ["Name", "OwnedBy", "CreatedAt"]),
    "LLMRequestCost": (LLMRequestCost, ["metadataKey", "type", "cel", "routeName", "backend", "model"]),
    "Backend": (
        Backend,
        ["name", "modelNameOverride", "schema", "auth", "httpHeaderMutation", "httpBodyMutation"],
    ),
    "BackendAuth": (
        BackendAuth,
        ["aws", "apiKey", "azureAPIKey", "azure", "gcp", "anthropicAPIKey", "credentialOverride"],
    ),
    "AzureAuth": (
        AzureAuth,
        ["accessToken", "clientID", "tenantID", "clientSecret", "federatedTokenFile", "authorityHost"],
    ),
    "CredentialOverride": (
        CredentialOverride,
        [
            "headerName",
            "dynamicMetadataNamespace",
            "dynamicMetadataKey",
            "fallbackToConfigured",
            "inputHeadersToRemove",
        ],
    ),
    "MCPAuthorization": (MCPAuthorization, ["defaultAction", "resourceMetadataURL", "rules"]),
}


@pytest.mark.parametrize(("struct", "keys"), KEYS.values(), ids=KEYS)
def test_keys(struct, keys):
    assert [field.encode_name for field in msgspec.structs.fields(struct)] == keys


def test_methods_come_in_the_order_that_wins():
    fields = [field.name for field in msgspec.structs.fields(BackendAuth)]
    assert fields == [*AUTH_METHODS, "credential_override"]
    assert document_key("azure_api_key") == "azureAPIKey"


def test_defaults_are_zero_values():
    config = Config()
    assert (config.version, config.backends, config.models_by_host, config.mcp_config) == ("", (), {}, None)
    assert CredentialOverride().fallback_to_configured is False
    assert Model().created_at.isoformat() == "0001-01-01T00:00:00+00:00"


def test_a_section_of_the_peer_s_stays_as_it_is():
    document = b'{"accessToken":"t"}'
    section = msgspec.json.decode(document, type=AzureAuth, dec_hook=dec_hook)
    assert msgspec.json.encode(section, enc_hook=lambda secret: secret.reveal()) == document


def test_a_config_cannot_be_changed():
    with pytest.raises(AttributeError, match="immutable"):
        Config().version = "x"


def test_anthropic_prefix():
    assert VersionedAPISchema().anthropic_prefix == "v1"
    assert VersionedAPISchema(prefix="gateway/v1").anthropic_prefix == "gateway/v1"


@pytest.mark.parametrize(
    ("document", "chat_only"), [(b'{"chatOnly":true}', True), (b'{"chatOnly":false}', False), (b"{}", False)]
)
def test_a_backend_may_serve_chat_completions_only(document, chat_only):
    schema = msgspec.json.decode(document, type=VersionedAPISchema)
    assert schema.chat_only is chat_only
    assert msgspec.json.encode(schema) == (document if chat_only else b"{}")


def test_forwarded_name():
    assert MCPForwardHeader(name="x-a").forwarded_name == "x-a"
    assert MCPForwardHeader(name="x-a", backend_header="x-b").forwarded_name == "x-b"
