"""The filter config as msgspec structs: the schema that the control plane writes and the external processor reads.

Attribute names are the document's keys in snake case; :func:`document_key` is the one rule between the two. Every field
has a default, because the peer's loader requires none (contract, filter config 2.2): what a document must say to make
sense is :mod:`filter_config.validate`'s business. Lists are tuples and secrets are
:class:`~filter_config.redact.Secret`, so a config is immutable and can be shown.

NB: annotations are evaluated here, the JSON Schema and the decoder are built from them.
"""

from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Annotated, Final, final

from msgspec import Meta, Struct, field

from filter_config.redact import REDACTED, Secret

ZERO_TIME: Final = datetime(1, 1, 1, tzinfo=UTC)
"""The creation time of a model that gives none, ``0001-01-01T00:00:00Z`` (contract, filter config 2.3)."""

# Words that the document's keys spell in capitals when they do not come first.
_INITIALISMS: Final = frozenset({"llm", "api", "url", "id"})


@final
class CostType(StrEnum):
    """How a cost rule gets its number: a token counter, or a CEL expression over the counters."""

    INPUT_TOKEN = "InputToken"  # noqa: S105 - a counter's name
    CACHED_INPUT_TOKEN = "CachedInputToken"  # noqa: S105
    CACHE_CREATION_INPUT_TOKEN = "CacheCreationInputToken"  # noqa: S105
    OUTPUT_TOKEN = "OutputToken"  # noqa: S105
    TOTAL_TOKEN = "TotalToken"  # noqa: S105
    REASONING_TOKEN = "ReasoningToken"  # noqa: S105
    CEL = "CEL"


@final
class SchemaName(StrEnum):
    """The API schemas that a backend may speak."""

    OPENAI = "OpenAI"
    COHERE = "Cohere"
    AWS_BEDROCK = "AWSBedrock"
    AZURE_OPENAI = "AzureOpenAI"
    GCP_VERTEX_AI = "GCPVertexAI"
    GCP_ANTHROPIC = "GCPAnthropic"
    ANTHROPIC = "Anthropic"
    AWS_ANTHROPIC = "AWSAnthropic"


@cache
def document_key(attribute: str) -> str:
    """The document's key of an attribute: camel case, initialisms in capitals, ``azure_api_key`` → ``azureAPIKey``."""
    first, *rest = attribute.split("_")
    return first + "".join(word.upper() if word in _INITIALISMS else word.capitalize() for word in rest)


def _go_name(attribute: str) -> str:
    """Key of a model: the emitted name of a Go field without a tag, ``owned_by`` → ``OwnedBy``."""
    return "".join(word.capitalize() for word in attribute.split("_"))


def _values(closed: type[StrEnum]) -> dict[str, object]:
    """Schema hint for a closed set that the loader does not enforce."""
    return {"enum": [member.value for member in closed]}


class Document(Struct, frozen=True, kw_only=True, omit_defaults=True, rename=document_key):
    """Base of every struct of the document: immutable, keys in camel case, zero values left out when written."""


# --- models ---


class Model(Document, frozen=True, kw_only=True, omit_defaults=False, rename=_go_name):
    """A model that the models endpoints list. Keys may be in any letter case, `createdAt` as well as `CreatedAt`."""

    name: Annotated[str, Meta(description="Model name that clients ask for.")] = ""
    owned_by: Annotated[str, Meta(description="Owner shown in the models list.")] = ""
    created_at: Annotated[
        datetime,
        Meta(description="Creation time, an RFC 3339 timestamp with a time zone; missing or null is the year 1."),
    ] = ZERO_TIME


# --- costs ---

_METADATA_KEY = Meta(
    description="Key of the dynamic metadata namespace `io.envoy.ai_gateway` that the cost is written to."
)
_COST_TYPE = Meta(description="Where the number comes from.", extra_json_schema=_values(CostType))
_CEL = Meta(
    description=(
        "CEL expression for type `CEL`. Strings `model`, `backend`, `route_name`; unsigned integers `input_tokens`, "
        "`cached_input_tokens`, `cache_creation_input_tokens`, `output_tokens`, `total_tokens`, `reasoning_tokens`. "
        "The result must be an integer and not negative. It is compiled and tried at load."
    ),
)


class GlobalLLMRequestCost(Document, frozen=True, kw_only=True):
    """A cost rule for every request of the gateway; it yields to a route's rule for the same metadata key."""

    metadata_key: Annotated[str, _METADATA_KEY] = ""
    type: Annotated[str, _COST_TYPE] = ""
    cel: Annotated[str, _CEL] = ""


class LLMRequestCost(Document, frozen=True, kw_only=True):
    """A cost rule for the requests of one route."""

    metadata_key: Annotated[str, _METADATA_KEY] = ""
    type: Annotated[str, _COST_TYPE] = ""
    cel: Annotated[str, _CEL] = ""
    route_name: Annotated[str, Meta(description="`<namespace>/<route>` that the rule applies to; required.")] = ""
    backend: Annotated[
        str, Meta(description="Only requests sent to this backend, `<namespace>/<name>`; empty: any.")
    ] = ""
    model: Annotated[str, Meta(description="Only requests for this effective model; empty: any.")] = ""


# --- backends ---


class VersionedAPISchema(Document, frozen=True, kw_only=True):
    """The API that a backend speaks."""

    name: Annotated[str, Meta(description="API schema.", extra_json_schema=_values(SchemaName))] = ""
    version: Annotated[str, Meta(description="API version of the provider, where its schema has one.")] = ""
    prefix: Annotated[str, Meta(description="Path prefix of the API, such as `v1`, used as it is given.")] = ""
    chat_only: Annotated[
        bool,
        Meta(
            description=(
                "Of schema `OpenAI` or `AzureOpenAI`: the backend serves chat completions and not the Responses API, "
                "whose requests are then carried over chat completions."
            )
        ),
    ] = False

    @property
    def anthropic_prefix(self) -> str:
        """The prefix as schema Anthropic uses it: ``v1`` when none is given (contract, filter config 10.5)."""
        return self.prefix or "v1"


class AWSAuth(Document, frozen=True, kw_only=True):
    """Requests are signed with AWS Signature Version 4."""

    credential_file_literal: Annotated[
        Secret,
        Meta(description="Content of an AWS shared credentials file; empty: the default credential chain."),
    ] = field(default_factory=Secret)
    region: Annotated[str, Meta(description="AWS region.")] = ""


class APIKeyAuth(Document, frozen=True, kw_only=True):
    """`Authorization: Bearer <key>`."""

    key: Annotated[Secret, Meta(description="The API key; surrounding white space is dropped.")] = field(
        default_factory=Secret
    )


class AzureAPIKeyAuth(Document, frozen=True, kw_only=True):
    """`api-key: <key>`."""

    key: Annotated[Secret, Meta(description="The Azure API key, required; surrounding white space is dropped.")] = (
        field(default_factory=Secret)
    )


class AzureAuth(Document, frozen=True, kw_only=True):
    """`Authorization: Bearer <token>` with a token of Microsoft Entra ID, given or asked for with client credentials.

    Only `accessToken` is the peer's; what else is not given is taken from the `AZURE_*` environment.
    """

    access_token: Annotated[
        Secret,
        Meta(
            description="The token; surrounding white space is dropped. Empty: one is asked for and kept fresh, with "
            "the client credentials here or in the environment."
        ),
    ] = field(default_factory=Secret)
    client_id: Annotated[
        str, Meta(description="Application (client) ID; empty: `AZURE_CLIENT_ID` of the environment.")
    ] = ""
    tenant_id: Annotated[
        str, Meta(description="Tenant, an ID or a domain; empty: `AZURE_TENANT_ID` of the environment.")
    ] = ""
    # Not an empty secret, which would be written: the peer's documents have no such key.
    client_secret: Annotated[
        Secret | None,
        Meta(description="Secret of the application `clientID`; surrounding white space is dropped."),
    ] = None
    federated_token_file: Annotated[
        str,
        Meta(
            description="File with a token that Entra takes for the application, such as a Kubernetes service account "
            "token; empty: `AZURE_FEDERATED_TOKEN_FILE` of the environment."
        ),
    ] = ""
    authority_host: Annotated[
        str,
        Meta(
            description="URL of the Entra authority; empty: `AZURE_AUTHORITY_HOST` of the environment, or else "
            "`https://login.microsoftonline.com`. Decides on the scope in sovereign clouds."
        ),
    ] = ""


class GCPAuth(Document, frozen=True, kw_only=True):
    """`Authorization: Bearer <token>` and a path that names project and region."""

    access_token: Annotated[
        Secret,
        Meta(description="The token, used as it is; empty: Application Default Credentials."),
    ] = field(default_factory=Secret)
    region: Annotated[str, Meta(description="GCP region.")] = ""
    project_name: Annotated[str, Meta(description="GCP project.")] = ""


class AnthropicAPIKeyAuth(Document, frozen=True, kw_only=True):
    """`x-api-key: <key>`."""

    key: Annotated[Secret, Meta(description="The Anthropic API key; surrounding white space is dropped.")] = field(
        default_factory=Secret
    )


class CredentialOverride(Document, frozen=True, kw_only=True):
    """The credential comes with the request, in a header or in dynamic metadata."""

    header_name: Annotated[
        str,
        Meta(
            description="Request header with the credential; for AWS the prefix of three headers. Wins over metadata."
        ),
    ] = ""
    dynamic_metadata_namespace: Annotated[str, Meta(description="Envoy metadata namespace with the credential.")] = ""
    dynamic_metadata_key: Annotated[str, Meta(description="Key in that namespace.")] = ""
    fallback_to_configured: Annotated[
        bool,
        Meta(description="A request without a credential uses the configured one; false: it is answered 401."),
    ] = False
    input_headers_to_remove: Annotated[
        tuple[str, ...],
        Meta(description="Request headers that carried the credential and must not reach the provider."),
    ] = ()


class BackendAuth(Document, frozen=True, kw_only=True):
    """How the processor authenticates to a backend. One method; of several the first one here is used."""

    aws: AWSAuth | None = None
    api_key: APIKeyAuth | None = None
    azure_api_key: AzureAPIKeyAuth | None = None
    azure: AzureAuth | None = None
    gcp: GCPAuth | None = None
    anthropic_api_key: AnthropicAPIKeyAuth | None = None
    credential_override: CredentialOverride | None = None


AUTH_METHODS: Final = ("aws", "api_key", "azure_api_key", "azure", "gcp", "anthropic_api_key")
"""The methods of :class:`BackendAuth`, the one that wins first (contract, filter config 2.6)."""


class HTTPHeader(Document, frozen=True, kw_only=True):
    """A header and its value."""

    name: Annotated[str, Meta(description="Header name, in lower case.")] = ""
    value: Annotated[Secret, Meta(description="Header value.")] = field(default_factory=Secret)


class HTTPHeaderMutation(Document, frozen=True, kw_only=True):
    """Changes to the headers of the request to the backend."""

    set: Annotated[tuple[HTTPHeader, ...], Meta(description="Headers to set, replacing what is there.")] = ()
    remove: Annotated[tuple[str, ...], Meta(description="Names of headers to remove.")] = ()


class HTTPBodyField(Document, frozen=True, kw_only=True):
    """A field of the JSON body and its value."""

    path: Annotated[str, Meta(description="Path of the field; `.` separates levels, a number indexes an array.")] = ""
    value: Annotated[
        str,
        Meta(
            description='Value as text: JSON when it looks like JSON (`1`, `true`, `{…}`, `[…]`, `"…"`), else a string.'
        ),
    ] = ""

    def __repr__(self) -> str:
        # A value may carry a secret (contract, filter config 8.5 hides header values for the same reason).
        return f"HTTPBodyField(path={self.path!r}, value={REDACTED})"


class HTTPBodyMutation(Document, frozen=True, kw_only=True):
    """Changes to the JSON body of the request to the backend: all removals, then all sets."""

    set: Annotated[tuple[HTTPBodyField, ...], Meta(description="Fields to set.")] = ()
    remove: Annotated[tuple[str, ...], Meta(description="Paths of fields to remove.")] = ()


class Backend(Document, frozen=True, kw_only=True):
    """A provider's API that requests are sent to."""

    name: Annotated[str, Meta(description="Name that Envoy's endpoint metadata refers to; unique.")] = ""
    model_name_override: Annotated[
        str, Meta(description="Model name sent to the backend; empty: the requested one.")
    ] = ""
    schema: VersionedAPISchema = VersionedAPISchema()
    auth: BackendAuth | None = None
    http_header_mutation: HTTPHeaderMutation | None = None
    http_body_mutation: HTTPBodyMutation | None = None


# --- MCP ---


class MCPToolSelector(Document, frozen=True, kw_only=True):
    """Which names are allowed: exclusions first; then a given `include` list alone decides, else `includeRegex`."""

    include: Annotated[tuple[str, ...], Meta(description="Allowed names.")] = ()
    include_regex: Annotated[tuple[str, ...], Meta(description="RE2 patterns of allowed names, unanchored.")] = ()
    exclude: Annotated[tuple[str, ...], Meta(description="Denied names.")] = ()
    exclude_regex: Annotated[tuple[str, ...], Meta(description="RE2 patterns of denied names, unanchored.")] = ()


class MCPForwardHeader(Document, frozen=True, kw_only=True):
    """A request header that is forwarded to an MCP backend."""

    name: Annotated[str, Meta(description="Name of the request header.")] = ""
    backend_header: Annotated[str, Meta(description="Name towards the backend; empty: the same.")] = ""

    @property
    def forwarded_name(self) -> str:
        """The name towards the backend (contract, filter config 10.5)."""
        return self.backend_header or self.name


class MCPBackend(Document, frozen=True, kw_only=True):
    """An MCP server behind a route."""

    name: Annotated[str, Meta(description="Value of `x-ai-eg-mcp-backend`.")] = ""
    tool_selector: MCPToolSelector | None = None
    forward_headers: Annotated[
        tuple[MCPForwardHeader, ...], Meta(description="Headers forwarded to this backend.")
    ] = ()


class MCPClaim(Document, frozen=True, kw_only=True):
    """A claim of the token that must hold."""

    name: Annotated[str, Meta(description="Dotted path of the claim.")] = ""
    value_type: Annotated[
        str,
        Meta(description="Type of the claim.", extra_json_schema={"enum": ["String", "StringArray"]}),
    ] = ""
    values: Annotated[tuple[str, ...], Meta(description="Accepted values.")] = ()


class MCPJWTSource(Document, frozen=True, kw_only=True):
    """What the caller's token must carry."""

    scopes: Annotated[tuple[str, ...], Meta(description="Scopes, all required.")] = ()
    claims: Annotated[tuple[MCPClaim, ...], Meta(description="Claims, all required.")] = ()


class MCPAuthorizationSource(Document, frozen=True, kw_only=True):
    """Who may call."""

    jwt: MCPJWTSource | None = None


class MCPToolReference(Document, frozen=True, kw_only=True):
    """A tool of an MCP backend."""

    backend: Annotated[str, Meta(description="Name of the MCP backend.")] = ""
    tool: Annotated[str, Meta(description="Name of the tool.")] = ""


class MCPAuthorizationTarget(Document, frozen=True, kw_only=True):
    """What is called."""

    tools: Annotated[tuple[MCPToolReference, ...], Meta(description="The tools; empty: all.")] = ()


_ACTION = {"enum": ["Allow", "Deny"]}


class MCPAuthorizationRule(Document, frozen=True, kw_only=True):
    """A rule for tool calls; the first one that matches decides."""

    action: Annotated[str, Meta(description="What the rule decides.", extra_json_schema=_ACTION)] = ""
    cel: Annotated[str, Meta(description="CEL expression over the request that must be true; empty: true.")] = ""
    source: MCPAuthorizationSource | None = None
    target: MCPAuthorizationTarget | None = None


class MCPAuthorization(Document, frozen=True, kw_only=True):
    """Which tool calls of a route are allowed, or which of its servers are offered to a client."""

    default_action: Annotated[
        str, Meta(description="What happens when no rule decides.", extra_json_schema=_ACTION)
    ] = ""
    resource_metadata_url: Annotated[str, Meta(description="URL put into the `WWW-Authenticate` challenge.")] = ""
    rules: Annotated[tuple[MCPAuthorizationRule, ...], Meta(description="Rules in order.")] = ()


class MCPRoute(Document, frozen=True, kw_only=True):
    """A route to MCP servers."""

    name: Annotated[str, Meta(description="Value of `x-ai-eg-mcp-route`.")] = ""
    backends: Annotated[tuple[MCPBackend, ...], Meta(description="The MCP servers of the route.")] = ()
    authorization: MCPAuthorization | None = None
    backend_selector: Annotated[
        MCPAuthorization | None, Meta(description="Which servers are offered when a session begins.")
    ] = None
    forward_headers: Annotated[tuple[str, ...], Meta(description="Request headers forwarded to all backends.")] = ()


class MCPConfig(Document, frozen=True, kw_only=True):
    """Configuration of the MCP proxy."""

    backend_listener_addr: Annotated[str, Meta(description="Base URL of Envoy's local backend listener.")] = ""
    routes: Annotated[tuple[MCPRoute, ...], Meta(description="The MCP routes.")] = ()


# --- the document ---


class Config(Document, frozen=True, kw_only=True):
    """The filter config of one gateway."""

    version: Annotated[
        str,
        Meta(description="Version of the gateway that wrote the config; must equal the processor's own."),
    ] = ""
    uuid: Annotated[str, Meta(description="Id of this revision, for logs.")] = ""
    global_llm_request_costs: Annotated[
        tuple[GlobalLLMRequestCost, ...],
        Meta(description="Cost rules of the gateway."),
    ] = ()
    llm_request_costs: Annotated[tuple[LLMRequestCost, ...], Meta(description="Cost rules of routes.")] = ()
    backends: Annotated[tuple[Backend, ...], Meta(description="All backends.")] = ()
    models: Annotated[tuple[Model, ...], Meta(description="All declared models.")] = ()
    models_by_host: Annotated[
        dict[str, tuple[Model, ...]],
        Meta(description="Models per host, `api.example.com` or `*.example.com`, each list complete."),
    ] = {}
    unscoped_models: Annotated[tuple[Model, ...], Meta(description="Models of routes without host names.")] = ()
    mcp_config: MCPConfig | None = None


# --- the bundle's index ---


class BundlePart(Document, frozen=True, kw_only=True):
    """A piece of a bundled config."""

    name: Annotated[str, Meta(description="Where the piece comes from, such as a Secret's name; informational.")] = ""
    path: Annotated[str, Meta(description="Path of the piece, relative to the bundle's directory.")] = ""
    size_bytes: Annotated[int, Meta(description="Size of the piece; informational.")] = 0


class BundleIndex(Document, frozen=True, kw_only=True):
    """`index.yaml` of a bundle: the pieces in order, and the digest of the whole (contract, filter config 2.9)."""

    version: Annotated[str, Meta(description="Version of the gateway that wrote the bundle; informational.")] = ""
    uuid: Annotated[str, Meta(description="Id of this revision; informational.")] = ""
    checksum: Annotated[str, Meta(description="Hex SHA-256 of the joined pieces.")] = ""
    parts: Annotated[tuple[BundlePart, ...], Meta(description="The pieces in order.")] = ()
    created_at: Annotated[datetime | None, Meta(description="When the bundle was written; informational.")] = None
