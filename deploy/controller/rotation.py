"""When credentials are due, and the Secrets that they are kept in: no clock, no network (contract, control plane 8).

A credential is renewed a while before it expires: the peer's five minutes, or a fifth of its life where that is less,
so that one that lives for a minute is renewed every 48 seconds and not in every turn. A Secret that does not say when
it expires is due.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from deploy.controller.kinds import Key, Object
from deploy.controller.ownership import is_controlled_by, owner_reference
from deploy.controller.store import Entry
from filter_config.redact import Secret
from filter_config.sources.envoy_ai_gateway.resources import BackendSecurityPolicySpec
from filter_config.sources.envoy_ai_gateway.secrets import generated_name

EXPIRY: Final = "rotators/expiration-time"
"""Annotation of a generated Secret, the peer's."""
ISSUED: Final = "aigateway.envoyproxy.io/credential-issued-at"
"""Annotation of ours: without it the life of a credential is not known."""
WINDOW: Final = timedelta(minutes=5)
LEAST: Final = timedelta(seconds=5)
"""The least time between two credentials of one policy, however short they live."""
_SHARE: Final = 5

Provider = Literal["aws", "azure", "gcp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What a provider gave."""

    data: Mapping[str, Secret] = field(repr=False)
    issued: datetime
    expires: datetime


def provider_of(spec: BackendSecurityPolicySpec) -> Provider | None:
    """Whose credentials are rotated for a policy; None: none are (8.1)."""
    aws, gcp = spec.aws_credentials, spec.gcp_credentials
    if spec.type == "AWSCredentials" and aws is not None and aws.oidc_exchange_token is not None:
        return "aws"
    if spec.type == "AzureCredentials" and spec.azure_credentials is not None:
        return "azure"
    if spec.type == "GCPCredentials" and gcp is not None:
        sources = (gcp.credentials_file, gcp.workload_identity_federation_config)
        return "gcp" if any(source is not None for source in sources) else None
    return None


def secret_key(policy: Key) -> Key:
    """The generated Secret of a policy."""
    return Key("Secret", policy.namespace, generated_name(policy.name))


def due_at(secret: Entry | None) -> datetime | None:
    """When the credential of a generated Secret is to be renewed; None: at once."""
    if secret is None or secret.is_deleting:
        return None
    annotations = secret.metadata.get("annotations") or {}
    expires, issued = _time(annotations.get(EXPIRY)), _time(annotations.get(ISSUED))
    if expires is None:
        return None
    try:
        if issued is None or issued >= expires:
            return expires - WINDOW
        return max(expires - min(WINDOW, (expires - issued) / _SHARE), issued + LEAST)
    except OverflowError:
        # At the end of the calendar, where nothing was issued.
        return None


def _time(text: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
        return found.astimezone(UTC) if found is not None and found.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def is_taken(secret: Entry | None, policy: Key) -> bool:
    """Whether the name of a generated Secret is that of somebody else's. The peer's tell when they expire."""
    if secret is None or is_controlled_by(secret.value, policy):
        return False
    return EXPIRY not in (secret.metadata.get("annotations") or {})


def secret_of(policy: Entry, credential: Credential) -> Object:
    """The generated Secret, which goes with its policy (8.3)."""
    key = secret_key(policy.key)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "annotations": {EXPIRY: _told(credential.expires), ISSUED: _told(credential.issued)},
            "ownerReferences": [owner_reference(policy)],
        },
        "type": "Opaque",
        "data": {
            name: base64.b64encode(value.reveal().encode()).decode() for name, value in sorted(credential.data.items())
        },
    }


def _told(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
