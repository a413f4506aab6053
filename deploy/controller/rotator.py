"""The loop of rotation: policies whose credentials are due, exchanged in threads, written as Secrets.

What a policy is and which Secrets it refers to is read from the controller's store in every turn, so that nothing has
to be remembered but when to try again what failed.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

import structlog

from deploy.controller import rotation
from deploy.controller.backoff import Backoff
from deploy.controller.errors import ControllerError
from deploy.controller.exchanges import Exchanges, Request
from deploy.controller.judging import Judging
from deploy.controller.kinds import KINDS, Key, Kind, Object
from deploy.controller.metrics import ControllerMetrics
from deploy.controller.rotation import Provider
from deploy.controller.store import Entry, Store
from deploy.controller.token_http import RotationFailed
from filter_config.redact import Secret
from filter_config.sources.envoy_ai_gateway.context import POLICY, Grants, Target
from filter_config.sources.envoy_ai_gateway.fields import CORE_GROUP, OIDCExchangeToken, SecretReference
from filter_config.sources.envoy_ai_gateway.marks import grants_of
from filter_config.sources.envoy_ai_gateway.resources import BackendSecurityPolicy, BackendSecurityPolicySpec
from filter_config.sources.faults import Faults

TURN: Final = 1.0
"""Seconds between two looks at what is due."""
KIND: Final = "BackendSecurityPolicy"
_log = structlog.get_logger(__name__)

Told = Callable[[Key, str], None]


class SecretServer(Protocol):
    """The request that rotation takes."""

    async def apply(self, kind: Kind, value: Object) -> Object: ...


@dataclass(slots=True, kw_only=True)
class Rotator:
    """Keeps generated Secrets fresh.

    Args:
        store: of the controller.
        leads: whether this replica writes at the moment.
        seen: takes a Secret that was written.
        told: takes why a policy has no fresh credential, empty when it has.
    """

    store: Store
    server: SecretServer
    exchanges: Exchanges
    metrics: ControllerMetrics
    leads: Callable[[], bool]
    seen: Callable[[Object], None]
    told: Told
    backoff: Backoff = field(default_factory=lambda: Backoff(first=5.0, most=60.0))
    now: Callable[[], datetime] = lambda: datetime.now(tz=UTC)
    turn: float = TURN
    _failures: dict[Key, int] = field(default_factory=dict)
    _again: dict[Key, datetime] = field(default_factory=dict)
    _busy: dict[Key, asyncio.Task[None]] = field(default_factory=dict)
    _judging: Judging = field(default_factory=Judging)

    async def run(self) -> None:
        """Rotates until it is cancelled."""
        try:
            while True:
                if self.leads():
                    self.look()
                await asyncio.sleep(self.turn)
        finally:
            for task in self._busy.values():
                task.cancel()

    def look(self) -> None:
        """Begins everything that is due."""
        policies = {entry.key: entry for entry in self.store.of_kind(KIND)}
        for key in [key for key in (*self._again, *self._failures) if key not in policies]:
            self._again.pop(key, None)
            self._failures.pop(key, None)
        for entry in policies.values():
            self._look_at(entry)
        self._judging.keep({id(entry.document.value) for entry in policies.values()})

    def _look_at(self, entry: Entry) -> None:
        key = entry.key
        try:
            provider = self._provider(entry)
            if provider is None or key in self._busy or not self._is_due(key):
                return
        except Exception:  # noqa: BLE001 - whatever the fault, it harms this policy alone
            _log.error("policy not looked at", policy=str(key), exc_info=True)
            return
        self._busy[key] = asyncio.create_task(self._rotate(entry, provider), name=f"rotate {key}")

    def _provider(self, entry: Entry) -> Provider | None:
        if entry.is_deleting or not self._judging.is_valid(entry):
            return None
        policy = self._judging.resource(entry)
        return rotation.provider_of(policy.spec) if isinstance(policy, BackendSecurityPolicy) else None

    def _is_due(self, key: Key) -> bool:
        now = self.now()
        if key in self._again and now < self._again[key]:
            return False
        at = rotation.due_at(self.store.get(rotation.secret_key(key)))
        return at is None or at <= now

    async def _rotate(self, entry: Entry, provider: Provider) -> None:
        try:
            await self._renew(entry, provider)
        finally:
            del self._busy[entry.key]

    async def _renew(self, entry: Entry, provider: Provider) -> None:
        try:
            request = self._request(entry)
            credential = await asyncio.to_thread(self.exchanges.get, provider, request)
            answer = await self.server.apply(KINDS["Secret"], rotation.secret_of(entry, credential))
        except (RotationFailed, ControllerError) as error:
            self._failed(entry.key, provider, str(error))
            return
        except Exception:  # noqa: BLE001 - whatever the fault, it is told, and not tried again in every turn
            _log.error("rotation broke", policy=str(entry.key), exc_info=True)
            self._failed(entry.key, provider, "a fault of the controller, see its log")
            return
        self._failures.pop(entry.key, None)
        # The watch may be late with the Secret, and another credential need not be had meanwhile.
        self._again[entry.key] = self.now() + rotation.LEAST
        self.seen({**answer, "kind": "Secret"})
        self.metrics.rotations.labels(provider, "success").inc()
        self.told(entry.key, "")
        _log.info("credential rotated", policy=str(entry.key), expires=credential.expires.isoformat())

    def _failed(self, key: Key, provider: Provider, problem: str) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self._again[key] = self.now() + timedelta(seconds=self.backoff.seconds(failures))
        self.metrics.rotations.labels(provider, "failure").inc()
        self.told(key, f"the credential is not rotated: {problem}")
        _log.warning("credential not rotated", policy=str(key), error=problem, failures=failures)

    # --- what is read for an exchange ---

    def _request(self, entry: Entry) -> Request:
        taken = self.store.get(rotation.secret_key(entry.key))
        if rotation.is_taken(taken, entry.key):
            raise RotationFailed(f"{rotation.secret_key(entry.key)} is there and belongs to somebody else")
        policy = self._judging.resource(entry)
        secrets = {
            purpose: self._secret(entry.key.namespace, ref, name) for purpose, ref, name in _references(policy.spec)
        }
        return Request(name=entry.key.name, spec=policy.spec, secrets=secrets)

    def _secret(self, here: str, ref: SecretReference, name: str) -> Secret:
        where = ref.namespace or here
        target = Target(CORE_GROUP, "Secret", where, ref.name)
        if not self._grants(here, where).allow(POLICY, here, target):
            raise RotationFailed(f"{target} is in another namespace, which does not allow it")
        found = self.store.get(Key("Secret", where, ref.name))
        encoded = (found.value.get("data") or {}).get(name) if found is not None else None
        if encoded is None:
            raise RotationFailed(f"{target} does not exist, or has no key {name}")
        try:
            return Secret(base64.b64decode(encoded, validate=True).decode().strip())
        except ValueError:
            raise RotationFailed(f"{target}: {name} is no text") from None

    def _grants(self, here: str, where: str) -> Grants:
        found = self.store.found(grants_of(where)) if here != where else []
        return Grants(self._judging.load(tuple(entry.document for entry in found), Faults()))


def _references(spec: BackendSecurityPolicySpec) -> Iterator[tuple[str, SecretReference, str]]:
    """What Secrets are for, the references to them, and the keys in them."""
    for token in _tokens(spec):
        yield "client-secret", token.oidc.client_secret, "client-secret"
        if token.oidc.client_id_ref is not None:
            yield "client-id", token.oidc.client_id_ref, "client-id"
    azure, gcp = spec.azure_credentials, spec.gcp_credentials
    if azure is not None and azure.client_secret_ref is not None:
        yield "azure-secret", azure.client_secret_ref, "client-secret"
    if gcp is not None and gcp.credentials_file is not None:
        yield "file", gcp.credentials_file.secret_ref, "service_account.json"


def _tokens(spec: BackendSecurityPolicySpec) -> Iterator[OIDCExchangeToken]:
    aws, azure, gcp = spec.aws_credentials, spec.azure_credentials, spec.gcp_credentials
    if aws is not None and aws.oidc_exchange_token is not None:
        yield aws.oidc_exchange_token
    if azure is not None and azure.oidc_exchange_token is not None:
        yield azure.oidc_exchange_token
    if gcp is not None and gcp.workload_identity_federation_config is not None:
        yield gcp.workload_identity_federation_config.oidc_exchange_token
