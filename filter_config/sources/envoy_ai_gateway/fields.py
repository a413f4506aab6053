"""Types that several kinds share: texts with their patterns, object metadata, references (contract, control plane 1).

A limit stands in the annotation of its field, where the C decoder enforces it, and where :mod:`.reading` finds it again
to say what is wrong. NB: annotations are evaluated, so there is no ``from __future__ import annotations`` here.
"""

from datetime import datetime
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct, field

from filter_config.model import document_key
from filter_config.redact import Secret

AI_GROUP: Final = "aigateway.envoyproxy.io"
GATEWAY_GROUP: Final = "gateway.networking.k8s.io"
ENVOY_GATEWAY_GROUP: Final = "gateway.envoyproxy.io"
INFERENCE_GROUP: Final = "inference.networking.k8s.io"
CORE_GROUP: Final = ""

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"

Hostname: TypeAlias = Annotated[str, Meta(min_length=1, max_length=253, pattern=rf"^(\*\.)?{_SUBDOMAIN}\Z")]
SectionName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=253, pattern=rf"^{_SUBDOMAIN}\Z")]
Namespace: TypeAlias = Annotated[str, Meta(min_length=1, max_length=63, pattern=rf"^{_LABEL}\Z")]
# An empty namespace is that of the referring object.
OptionalNamespace: TypeAlias = Annotated[str, Meta(max_length=63, pattern=rf"^({_LABEL})?\Z")]
ObjectName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=253)]
Group: TypeAlias = Annotated[str, Meta(max_length=253, pattern=rf"^({_SUBDOMAIN})?\Z")]
Kind: TypeAlias = Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?\Z")]
HeaderName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[A-Za-z0-9!#$%&'*+\-.^_`|~]+\Z")]
Duration: TypeAlias = Annotated[str, Meta(pattern=r"^([0-9]{1,5}(h|m|s|ms)){1,4}\Z")]
Port: TypeAlias = Annotated[int, Meta(ge=1, le=65535)]
Text: TypeAlias = Annotated[str, Meta(min_length=1)]
Time: TypeAlias = Annotated[datetime, Meta(tz=True)]


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=document_key):
    """Base of what is known in full: a field that is not here is a mistake."""


class Excerpt(Struct, frozen=True, kw_only=True, rename=document_key):
    """Base of what other APIs define: the fields of interest, and whatever else."""


class ObjectMeta(Excerpt, frozen=True, kw_only=True):
    """Metadata of an object."""

    name: SectionName
    namespace: OptionalNamespace = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None


class Resource(Part, frozen=True, kw_only=True):
    """An object of a kind that is known in full. Its status is another's to write."""

    api_version: str
    kind: str
    metadata: ObjectMeta


class Foreign(Excerpt, frozen=True, kw_only=True):
    """An object of another API."""

    api_version: str
    kind: str
    metadata: ObjectMeta


# --- references ---


class ParentReference(Part, frozen=True, kw_only=True):
    """The gateway, or one listener of it, that a route attaches to."""

    group: Group = GATEWAY_GROUP
    kind: Kind = "Gateway"
    name: ObjectName
    namespace: OptionalNamespace = ""
    section_name: SectionName | None = None
    port: Port | None = None


class BackendObjectReference(Part, frozen=True, kw_only=True):
    """A reference to what Envoy Gateway sends requests to; by default a Service."""

    group: Group = CORE_GROUP
    kind: Kind = "Service"
    name: ObjectName
    namespace: OptionalNamespace = ""
    port: Port | None = None


class SecretReference(Part, frozen=True, kw_only=True):
    """A reference to a Secret; an empty namespace is that of the referring object."""

    group: Group = CORE_GROUP
    kind: Kind = "Secret"
    name: ObjectName
    namespace: OptionalNamespace = ""


class PolicyTarget(Part, frozen=True, kw_only=True):
    """What a policy of the same namespace is about."""

    group: Group
    kind: Kind
    name: ObjectName


class PolicyTargetWithSection(Excerpt, frozen=True, kw_only=True):
    """What a policy of another API is about: an object, or a named part of it."""

    group: str = ""
    kind: str
    name: str
    section_name: str | None = None


# --- mutations ---


class Header(Part, frozen=True, kw_only=True):
    """A header to set. Its value may be a credential."""

    name: HeaderName
    value: Secret


class HeaderMutation(Part, frozen=True, kw_only=True):
    """Changes to the headers of the request to the backend."""

    set: Annotated[tuple[Header, ...], Meta(max_length=16)] = ()
    remove: Annotated[tuple[str, ...], Meta(max_length=16)] = ()


class BodyField(Part, frozen=True, kw_only=True):
    """A field of the JSON body to set, and the text of its JSON value, which may be a credential."""

    path: Text
    value: Secret


class BodyMutation(Part, frozen=True, kw_only=True):
    """Changes to the JSON body of the request to the backend."""

    set: Annotated[tuple[BodyField, ...], Meta(max_length=16)] = ()
    remove: Annotated[tuple[str, ...], Meta(max_length=16)] = ()


# --- OIDC, as Envoy Gateway defines it ---


class OIDCProvider(Excerpt, frozen=True, kw_only=True):
    """An identity provider."""

    issuer: Text
    token_endpoint: str | None = None


class OIDC(Excerpt, frozen=True, kw_only=True):
    """How a token is had from an identity provider."""

    provider: OIDCProvider
    client_id: str | None = None
    client_id_ref: SecretReference | None = None
    client_secret: SecretReference
    scopes: tuple[str, ...] = ()


class OIDCExchangeToken(Part, frozen=True, kw_only=True):
    """A token of an identity provider that is exchanged for a credential."""

    oidc: OIDC
    grant_type: str | None = None
    aud: str | None = None


class AWSOIDCExchangeToken(OIDCExchangeToken, frozen=True, kw_only=True):
    """The same for a role of AWS."""

    aws_role_arn: Text
