"""The webhook's certificate: made once, renewed in time, trusted before it is shown, by however many replicas."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from deploy.controller.api import Page
from deploy.controller.backoff import Backoff
from deploy.controller.errors import ApiFailed, ControllerError, ServerUnreachable
from deploy.controller.kinds import Key, Kind
from deploy.controller.metrics import ControllerMetrics
from deploy.controller.webhook_certificates import (
    LOOK,
    KeptCertificate,
    MountedCertificate,
    NotRegistered,
    Registration,
    watching,
)
from deploy.injector import certificates
from deploy.injector.certificates import SERVER_LIFE, SETTLE, maintain, service_names
from deploy.injector.tls import TlsFiles
from filter_config.redact import Secret
from tests.support.kube_cluster import Cluster, Object, Place, Refused
from tests.support.kube_command import CERTIFICATE, CONFIGURATION, HOME, SECRET, SERVICE, configuration

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = service_names(SERVICE, HOME)
KEY = Key("Secret", HOME, SECRET)


def place(kind: Kind, namespace: str, name: str) -> Place:
    return Place(kind.group, kind.plural, namespace, name)


@dataclass
class Server:
    """An API server: each request, and what happens between a read and a write."""

    cluster: Cluster = field(default_factory=Cluster)
    requests: list[str] = field(default_factory=list)
    between: Callable[[], Awaitable[None]] | None = None

    async def list(self, kind: Kind, namespace: str = "", *, after: str = "") -> Page:
        assert not after
        self.requests.append(f"list {kind.plural}")
        return Page(items=self.cluster.list(kind.group, kind.plural, namespace))

    async def get(self, kind: Kind, key: Key) -> Object:
        self.requests.append(f"get {kind.plural}")
        return self._do(lambda: self.cluster.get(place(kind, key.namespace, key.name)))

    async def create(self, kind: Kind, value: Object) -> Object:
        await self._interrupted()
        self.requests.append(f"create {kind.plural}")
        metadata = value["metadata"]
        return self._do(lambda: self.cluster.create(place(kind, metadata["namespace"], metadata["name"]), value))

    async def patch(self, kind: Kind, key: Key, patch: Object, *, subresource: str = "") -> Object:
        await self._interrupted()
        self.requests.append(f"patch {kind.plural}")
        return self._do(lambda: self.cluster.merge_patch(place(kind, key.namespace, key.name), patch))

    async def _interrupted(self) -> None:
        between, self.between = self.between, None
        if between is not None:
            await between()

    @staticmethod
    def _do(act: Callable[[], Object]) -> Object:
        try:
            return act()
        except Refused as refused:
            raise ApiFailed(refused.status, str(refused), reason=refused.reason) from None

    @property
    def writes(self) -> list[str]:
        return [each for each in self.requests if each.split()[0] in ("create", "patch")]

    @property
    def trusted(self) -> str:
        (webhook,) = self.cluster.get(CONFIGURATION)["webhooks"]
        return base64.b64decode(webhook["clientConfig"].get("caBundle", "")).decode()

    @property
    def kept(self) -> certificates.Certificates:
        data = self.cluster.get(CERTIFICATE)["data"]
        return certificates.from_secret({key: Secret(base64.b64decode(text).decode()) for key, text in data.items()})


class Replica:
    """A process that keeps the certificate, with a clock of ours."""

    def __init__(self, server: Server, directory: Path, now: datetime = NOW) -> None:
        directory.mkdir(exist_ok=True)
        self.now = now
        self.files = TlsFiles(certificate=directory / "tls.crt", key=directory / "tls.key")
        watch = watching(None, KEY, ControllerMetrics())
        registration = Registration(server, HOME)
        self.kept = KeptCertificate(server, watch, KEY, registration, self.files, now=lambda: self.now)

    def look(self) -> float:
        return asyncio.run(self.kept._look())

    @property
    def shown(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.files.certificate.read_bytes())


@pytest.fixture
def server():
    made = Server()
    made.cluster.create(CONFIGURATION, configuration())
    return made


@pytest.fixture
def replica(server, tmp_path):
    return Replica(server, tmp_path / "one")


def put(server: Server, made: certificates.Certificates, *without: str) -> None:
    """Somebody else's Secret, in place of what is there."""
    data = {
        key: base64.b64encode(text.reveal().encode()).decode()
        for key, text in made.to_secret().items()
        if key not in without
    }
    value = {"apiVersion": "v1", "kind": "Secret", "metadata": {}, "type": "kubernetes.io/tls", "data": data}
    if CERTIFICATE in server.cluster.objects:
        server.cluster.delete(CERTIFICATE)
    server.cluster.create(CERTIFICATE, value)


def trusts(bundle: str, certificate: x509.Certificate) -> bool:
    return certificate.issuer in [each.subject for each in x509.load_pem_x509_certificates(bundle.encode())]


def test_a_certificate_is_made_trusted_and_shown(server, replica):
    pause = replica.look()

    assert server.writes == ["create secrets", "patch mutatingwebhookconfigurations"]
    assert replica.shown == server.kept.server.certificate
    assert server.trusted == server.kept.bundle
    names = replica.shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(names.get_values_for_type(x509.DNSName)) == set(NAMES)
    assert pause <= LOOK


def test_the_rest_of_the_configuration_stays(server, replica):
    before = server.cluster.get(CONFIGURATION)["webhooks"][0]
    replica.look()
    after = server.cluster.get(CONFIGURATION)["webhooks"][0]

    assert {**after, "clientConfig": {**after["clientConfig"], "caBundle": None}} == {
        **before,
        "clientConfig": {**before["clientConfig"], "caBundle": None},
    }


def test_nothing_is_written_while_all_is_well(server, replica):
    replica.look()
    before, shown = list(server.writes), replica.shown
    for _ in range(3):
        replica.now += timedelta(hours=2)
        replica.look()

    assert server.writes == before
    assert replica.shown == shown


def test_two_replicas_show_the_same(server, replica, tmp_path):
    replica.look()
    other = Replica(server, tmp_path / "two")
    other.look()

    assert other.shown == replica.shown
    assert len(server.writes) == 2


def test_of_two_that_make_one_at_once_the_slower_one_reads(server, replica, tmp_path):
    other = Replica(server, tmp_path / "two")

    async def faster() -> None:
        put(server, maintain(None, NAMES, NOW))

    # It has made its own when the other one's is there already.
    server.between = faster
    with pytest.raises(ApiFailed, match="already exists"):
        replica.look()

    assert not replica.files.certificate.exists()
    assert not server.trusted
    other.look()
    replica.look()
    assert replica.shown == other.shown == server.kept.server.certificate


def test_of_two_that_renew_one_at_once_the_slower_one_reads(server, replica, tmp_path):
    replica.look()
    shown = replica.shown
    late = NOW + timedelta(days=300)
    other = Replica(server, tmp_path / "two", late)

    async def faster() -> None:
        await other.kept._look()

    server.between, replica.now = faster, late
    with pytest.raises(ApiFailed, match="has been modified"):
        replica.look()
    assert replica.shown == shown
    replica.look()
    assert replica.shown == other.shown == server.kept.server.certificate != shown


def test_over_years_whoever_is_shown_one_trusts_it(server, replica, tmp_path):
    """Two replicas look at different times; API servers have the bundle of before the last write, or of after it."""
    other = Replica(server, tmp_path / "two")
    replica.look()
    other.look()
    known = [server.trusted]
    changes = 0
    for day in range(0, 3700, 7):
        for hour, each in ((0, replica), (1, other), (3, replica), (5, other)):
            before = each.shown
            each.now = NOW + timedelta(days=day, hours=hour)
            each.look()
            changes += each.shown != before
            for one in (replica, other):
                assert trusts(known[-1], one.shown)
                assert one.shown.not_valid_after_utc > each.now
            if server.trusted != known[-1]:
                known.append(server.trusted)
    # A certificate every eight months, in each replica; a third authority, or a fourth.
    assert changes > 20
    assert len(known) > 2


def test_a_certificate_is_not_shown_when_it_cannot_be_trusted(server, replica):
    replica.look()
    shown = replica.shown
    put(server, maintain(None, NAMES, NOW))

    async def refuse(*_: object, **__: object) -> Object:
        raise ServerUnreachable("no answer")

    server.patch = refuse
    with pytest.raises(ServerUnreachable):
        replica.look()
    assert replica.shown == shown
    del server.patch
    replica.look()
    assert replica.shown == server.kept.server.certificate != shown


def test_who_was_trusted_before_is_trusted_for_a_while(server, replica):
    """Pods of another controller show their certificates until they are gone."""
    others = maintain(None, NAMES, NOW)
    webhook = server.cluster.get(CONFIGURATION)["webhooks"][0]
    config = {**webhook["clientConfig"], "caBundle": base64.b64encode(others.bundle.encode()).decode()}
    server.cluster.merge_patch(CONFIGURATION, {"webhooks": [{**webhook, "clientConfig": config}]})
    replica.look()
    assert server.trusted == server.kept.bundle + others.bundle
    replica.now += SETTLE
    replica.look()
    assert server.trusted == server.kept.bundle


def test_a_secret_of_the_peers_chart_goes_on_being_shown(server, replica):
    theirs = maintain(None, NAMES, NOW - timedelta(days=10))
    put(server, theirs, "ca.key")
    replica.look()

    assert replica.shown == theirs.server.certificate
    assert trusts(server.trusted, theirs.server.certificate)
    # Its authority cannot issue: one of ours is trusted from now on, and issues when all know it.
    assert len(server.kept.authorities) == 2
    replica.now += 2 * SETTLE
    replica.look()
    assert replica.shown != theirs.server.certificate
    assert server.cluster.get(CERTIFICATE)["type"] == "kubernetes.io/tls"


GONE: dict[str, Callable[[Server], object]] = {
    "deleted": lambda server: server.cluster.delete(CERTIFICATE),
    "emptied": lambda server: server.cluster.merge_patch(CERTIFICATE, {"data": None}),
    "no certificate": lambda server: server.cluster.merge_patch(CERTIFICATE, {"data": {"tls.crt": "bm9uZQ=="}}),
    "no base64": lambda server: server.cluster.merge_patch(CERTIFICATE, {"data": {"tls.crt": "!"}}),
    "beyond ASCII": lambda server: server.cluster.merge_patch(CERTIFICATE, {"data": {"tls.crt": "é"}}),
    "no text": lambda server: server.cluster.merge_patch(CERTIFICATE, {"data": {"tls.crt": "/w=="}}),
}


@pytest.mark.parametrize("spoil", GONE.values(), ids=GONE)
def test_a_secret_that_is_spoilt_comes_back_as_it_was(server, replica, spoil):
    replica.look()
    before, trusted = server.kept, server.trusted
    spoil(server)
    replica.look()

    assert server.kept == before
    assert server.trusted == trusted
    assert replica.shown == before.server.certificate


def test_a_spoilt_secret_of_nobody_we_know_is_made_anew(server, replica):
    put(server, maintain(None, NAMES, NOW), "tls.key")
    replica.look()

    assert replica.shown == server.kept.server.certificate
    assert replica.shown.not_valid_after_utc == NOW + SERVER_LIFE


def test_an_authority_that_somebody_took_away_is_written_again(server, replica):
    replica.look()
    server.cluster.replace(CONFIGURATION, configuration())
    assert not server.trusted
    replica.look()

    assert server.trusted == server.kept.bundle


NOT_REGISTERED: dict[str, tuple[Object | None, str]] = {
    "none": (None, "is not there"),
    "no webhook": ({**configuration(), "webhooks": []}, "has 0 webhooks, and should have one"),
    "two": (configuration("one", "two"), "has 2 webhooks, and should have one"),
    "one by address": (
        {**configuration(), "webhooks": [{"name": "one", "clientConfig": {"url": "https://example.com/mutate"}}]},
        "names no Service",
    ),
}


@pytest.mark.parametrize(("value", "says"), NOT_REGISTERED.values(), ids=NOT_REGISTERED)
def test_a_configuration_that_is_not_ours_is_told(value, says, tmp_path):
    server = Server()
    if value is not None:
        server.cluster.create(CONFIGURATION, value)
    replica = Replica(server, tmp_path / "one")

    with pytest.raises(NotRegistered, match=says) as told:
        replica.look()

    assert CONFIGURATION.name in str(told.value)
    assert server.writes == []


def test_a_failure_is_a_problem_until_it_is_over(server, tmp_path):
    server.cluster.delete(CONFIGURATION)
    mounted = MountedCertificate(Registration(server, HOME), tmp_path / "ca.crt", backoff=Backoff(first=3.0, most=3.0))
    (tmp_path / "ca.crt").write_text(maintain(None, NAMES, NOW).bundle)

    assert asyncio.run(mounted._pause()) <= 3.0
    assert not mounted.ready.is_set()
    assert "is not there" in mounted.problem

    server.cluster.create(CONFIGURATION, configuration())
    asyncio.run(mounted._pause())
    assert mounted.ready.is_set()
    assert mounted.problem == ""


def test_a_bundle_that_is_no_text_is_told(server, tmp_path):
    (tmp_path / "ca.crt").write_bytes(b"\xff")
    mounted = MountedCertificate(Registration(server, HOME), tmp_path / "ca.crt")

    with pytest.raises(ControllerError, match="holds no certificates in PEM"):
        asyncio.run(mounted._look())


def test_the_loop_looks_again_when_the_secret_changes(server, replica):
    """The watch only says when to look."""

    class Watch:
        def __init__(self, watch: Any) -> None:
            self.kind, self.changes = watch.kind, watch.changes

        async def run(self) -> None:
            await asyncio.Event().wait()

    async def scenario() -> None:
        watch = Watch(replica.kept._watch)
        replica.kept._watch = watch
        running = asyncio.create_task(replica.kept.run())
        async with asyncio.timeout(30):
            await replica.kept.ready.wait()
            put(server, maintain(None, NAMES, NOW))
            looked = asyncio.Event()

            async def look() -> None:
                looked.set()

            server.between = look
            watch.changes.put({**server.cluster.get(CERTIFICATE), "kind": "Secret"})
            await looked.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())
