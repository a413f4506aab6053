"""The webhook's certificate in a cluster: the Secret that keeps it, the files that serve it, and who trusts it.

Every replica does the same: it reads the Secret, makes it what ``certificates.maintain`` says, sees to it that the
API server trusts the authorities, and only then puts the certificate where the webhook reads it. A write names the
version that it was made of, so of two replicas one writes and the other reads what it wrote. NB: in that order no
admission fails in a renewal: a certificate is not shown before its authority is trusted.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Protocol

import structlog

from deploy.controller.api import Page
from deploy.controller.backoff import Backoff
from deploy.controller.cache import Changes, Reflector
from deploy.controller.config_secrets import MANAGED_LABEL, MANAGER
from deploy.controller.errors import ApiFailed, ControllerError
from deploy.controller.kinds import KINDS, Key, Kind, Object, key_of
from deploy.injector import certificates, tls
from deploy.injector.certificates import SETTLE, Certificates, UnusableCertificates
from deploy.injector.tls import TlsFiles
from filter_config.redact import Secret

CONFIGURATION: Final = Kind(
    group="admissionregistration.k8s.io",
    version="v1",
    name="MutatingWebhookConfiguration",
    plural="mutatingwebhookconfigurations",
    namespaced=False,
)
LOOK: Final = 60.0
"""Seconds between two looks at what the API server trusts, which anybody's `kubectl replace` may take away."""
LOOK_AT_FILES: Final = 10.0
"""Seconds between two looks at a bundle that is mounted."""
_NAME: Final = "envoy-ai-gateway-gateway-pod-mutator"
_MISSING: Final = 404
_CONFLICT: Final = 409
_log = structlog.get_logger(__name__)


class NotRegistered(ControllerError):
    """The webhook's configuration is not there, or is not ours; the text says which and why."""


class Server(Protocol):
    """The requests that this takes."""

    async def list(self, kind: Kind, namespace: str = "", *, after: str = "") -> Page: ...
    async def get(self, kind: Kind, key: Key) -> Object: ...
    async def create(self, kind: Kind, value: Object) -> Object: ...
    async def patch(self, kind: Kind, key: Key, patch: Object, *, subresource: str = "") -> Object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The configuration as it was read."""

    value: Object

    @property
    def webhook(self) -> Object:
        """Its only webhook."""
        webhook: Object = self.value["webhooks"][0]
        return webhook

    @property
    def names(self) -> tuple[str, ...]:
        """DNS names by which the webhook is called.

        Raises:
            NotRegistered: it is not called by a Service.
        """
        service = (self.webhook.get("clientConfig") or {}).get("service")
        if not service:
            raise NotRegistered(f"{key_of(self.value)} names no Service, so nobody can say what to issue")
        return certificates.service_names(service["name"], service["namespace"])

    @property
    def bundle(self) -> str:
        """The authorities that are trusted, PEM; empty for none."""
        encoded = (self.webhook.get("clientConfig") or {}).get("caBundle") or ""
        try:
            return base64.b64decode(encoded, validate=True).decode()
        except ValueError:
            return ""


class Registration:
    """The webhook's configuration at the API server.

    Args:
        server: the API server.
        namespace: of the controller, which ends the configuration's name.
    """

    def __init__(self, server: Server, namespace: str) -> None:
        self._server = server
        self._key = Key(CONFIGURATION.name, "", f"{_NAME}.{namespace}")

    async def read(self) -> Registered:
        """The configuration.

        Raises:
            NotRegistered: it is not there, or not of one webhook.
            ControllerError: it cannot be read.
        """
        try:
            value = await self._server.get(CONFIGURATION, self._key)
        except ApiFailed as error:
            if error.status == _MISSING:
                raise NotRegistered(f"{self._key} is not there") from error
            raise
        count = len(value.get("webhooks") or ())
        if count != 1:
            raise NotRegistered(f"{self._key} has {count} webhooks, and should have one")
        return Registered(value={**value, "kind": CONFIGURATION.name})

    async def trust(self, registered: Registered, bundle: str) -> None:
        """Makes the API server trust these authorities, if it does not yet.

        Raises:
            ControllerError: it cannot be written, for instance as somebody else was faster.
        """
        if registered.bundle == bundle:
            return
        config = {**registered.webhook["clientConfig"], "caBundle": base64.b64encode(bundle.encode()).decode()}
        patch = {
            "metadata": {"resourceVersion": registered.value["metadata"]["resourceVersion"]},
            "webhooks": [{**registered.webhook, "clientConfig": config}],
        }
        await self._server.patch(CONFIGURATION, self._key, patch)
        _log.info("authorities of the webhook written", configuration=self._key.name)


class _Loop:
    """Looks at something again and again.

    Attributes:
        ready: set when all was well once.
        problem: what is wrong now; empty for nothing.
    """

    def __init__(self, backoff: Backoff | None) -> None:
        self.ready = asyncio.Event()
        self.problem = "not looked at yet"
        self._backoff = backoff or Backoff()
        self._failures = 0

    async def _look(self) -> float:
        """Makes it right, and gives the seconds until it may be wrong."""
        raise NotImplementedError

    async def _pause(self) -> float:
        try:
            pause = await self._look()
        except (ControllerError, OSError) as error:
            self._failures += 1
            self.problem = str(error)
            if isinstance(error, ApiFailed) and error.status == _CONFLICT:
                _log.debug("another replica was faster", error=self.problem)
            else:
                _log.warning("certificate of the webhook not as it should be", error=self.problem)
            return self._backoff.seconds(self._failures)
        self._failures, self.problem = 0, ""
        self.ready.set()
        return pause


class KeptCertificate(_Loop):
    """A certificate that this process makes, keeps in a Secret, and renews.

    Args:
        server: the API server.
        watch: follows the Secret; see :func:`watching`.
        secret: its key.
        registration: who is to trust it.
        files: where the webhook reads it.
        now: the time, with its zone.
        backoff: between failures.
    """

    def __init__(
        self,
        server: Server,
        watch: Reflector,
        secret: Key,
        registration: Registration,
        files: TlsFiles,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(tz=UTC),
        backoff: Backoff | None = None,
    ) -> None:
        super().__init__(backoff)
        self._server = server
        self._watch = watch
        self._secret = secret
        self._registration = registration
        self._files = files
        self._now = now
        self._live: Certificates | None = None
        self._served: Certificates | None = None
        self._others_until: datetime | None = None

    async def run(self) -> None:
        """Keeps it until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch.run())
            while True:
                self._watch.changes.drain()
                await _arrival(self._watch.changes, await self._pause())

    async def _look(self) -> float:
        now = self._now()
        registered = await self._registration.read()
        kept = await self._kept(registered.names, now)
        if self._others_until is None:
            # Another controller's pods may show a certificate of another authority while they are replaced.
            self._others_until = now + SETTLE
        overlap = now < self._others_until
        bundle = certificates.with_trusted(kept.bundle, registered.bundle, now) if overlap else kept.bundle
        await self._registration.trust(registered, bundle)
        if self._served is None or self._served.server != kept.server:
            content = kept.to_secret()
            certificate, key = content[certificates.CERTIFICATE_KEY], content[certificates.PRIVATE_KEY_KEY]
            tls.write(self._files, certificate.reveal(), key)
            _log.info("certificate of the webhook written", ends=kept.ends.isoformat(), kept_in=str(self._secret))
        self._live = self._served = kept
        due = certificates.next_look(kept, now) - now
        return max(min(due, timedelta(seconds=LOOK)).total_seconds(), 1.0)

    async def _kept(self, names: tuple[str, ...], now: datetime) -> Certificates:
        """The certificates as the Secret has them now; it is written when they should be others."""
        found = await self._read()
        # A Secret that was deleted, or spoilt, comes back as it was: what others serve goes on being trusted.
        stored = _certificates(found, self._secret) if found is not None else None
        kept = certificates.maintain(stored or self._live, names, now)
        if kept is stored:
            return kept
        data = {
            key: base64.b64encode(value.reveal().encode()).decode() for key, value in sorted(kept.to_secret().items())
        }
        metadata = {"name": self._secret.name, "namespace": self._secret.namespace, "labels": {MANAGED_LABEL: MANAGER}}
        kind = KINDS["Secret"]
        if found is None:
            value = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, "type": "Opaque"}
            await self._server.create(kind, {**value, "data": data})
        else:
            version = {"resourceVersion": found["metadata"]["resourceVersion"]}
            await self._server.patch(kind, self._secret, {"metadata": version, "data": data})
        return kept

    async def _read(self) -> Object | None:
        """The Secret as it is now. Not what the watch last told, which may be of before somebody's write."""
        page = await self._server.list(self._watch.kind, self._secret.namespace)
        return next((item for item in page.items if item["metadata"]["name"] == self._secret.name), None)


class MountedCertificate(_Loop):
    """A certificate that somebody else mounts and renews, and perhaps the bundle of who issued it.

    Args:
        registration: who is to trust it.
        bundle: the file.
        backoff: between failures.
    """

    def __init__(self, registration: Registration, bundle: Path, *, backoff: Backoff | None = None) -> None:
        super().__init__(backoff)
        self._registration = registration
        self._bundle = bundle

    async def run(self) -> None:
        """Follows the file until cancelled."""
        while True:
            pause = await self._pause()
            await asyncio.sleep(pause)

    async def _look(self) -> float:
        try:
            bundle = self._bundle.read_text(encoding="ascii")
        except FileNotFoundError:
            # Then it is cert-manager, or a person, who says whom to trust.
            return LOOK_AT_FILES
        except UnicodeDecodeError:
            raise NotRegistered(f"{self._bundle} holds no certificates in PEM") from None
        await self._registration.trust(await self._registration.read(), bundle)
        return LOOK_AT_FILES


def watching(api: Any, secret: Key, metrics: Any) -> Reflector:  # noqa: ANN401 - what a Reflector takes
    """Follows one Secret."""
    kind = replace(KINDS["Secret"], fields=f"metadata.name={secret.name}")
    return Reflector(api, kind, Changes(), metrics, namespace=secret.namespace)


def _certificates(found: Object, secret: Key) -> Certificates | None:
    try:
        content = {
            key: Secret(base64.b64decode(value, validate=True).decode())
            for key, value in (found.get("data") or {}).items()
        }
        return certificates.from_secret(content)
    except (ValueError, UnusableCertificates) as error:
        _log.warning("certificates of the webhook cannot be used", kept_in=str(secret), error=str(error))
        return None


async def _arrival(changes: Changes, seconds: float) -> None:
    """Until something changes, ``seconds`` at most."""
    try:
        async with asyncio.timeout(seconds):
            await changes.arrived.wait()
    except TimeoutError:
        return
