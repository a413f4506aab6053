"""What a reload does to credentials, and what ``/config`` says of them."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from extproc.admin.status import config_page
from extproc.auth.sources import Fetched
from extproc.credentials import CredentialKeeper
from extproc.decoder import Decoder
from extproc.reload import ConfigManager, VersionRule
from extproc.telemetry.metrics import Metrics
from filter_config.load import decode
from filter_config.redact import Secret
from filter_config.watch import FileSource, Snapshot
from tests.support import virtual_time
from tests.support.playbook import openai_backend

EAST, WEST = ({"aws": {"region": region}} for region in ("us-east-1", "us-west-2"))
AZURE = {
    "azure": {
        "clientID": "c",
        "tenantID": "t",
        "clientSecret": "canary-one",
        "authorityHost": "http://127.0.0.1:1",
    }
}
ROTATED = {"azure": {**AZURE["azure"], "clientSecret": "canary-two"}}


def document(*auths, **fields):
    backends = [openai_backend(f"b{number}", auth=auth) for number, auth in enumerate(auths)]
    return msgspec.json.encode({"version": "v", "backends": backends, **fields})


class Holder:
    runtime = None


class InProcess(Decoder):
    async def decode(self, data):
        return decode(data)


class Scene:
    def __init__(self, path, *auths):
        path.write_bytes(document(*auths))
        metrics = Metrics()
        self.processor = Holder()
        self.keeper = CredentialKeeper(metrics)
        self.manager = ConfigManager(
            FileSource(path),
            processor=self.processor,
            metrics=metrics,
            version=VersionRule(own="v"),
            decoder=InProcess(),
            credentials=self.keeper,
        )
        self.manager.load_first()

    async def reload(self, data):
        await self.manager._reload(Snapshot(data, str(hash(data))))

    @property
    def kept(self):
        return {cell.source.name: cell for cell in self.keeper.known.values()}


@pytest.fixture
def scene(nowhere, tmp_path):
    return lambda *auths: Scene(tmp_path / "config.json", *auths)


def live(coroutine):
    asyncio.run(coroutine)


def test_the_cells_of_the_live_config_are_kept_and_are_those_that_requests_read(scene):
    made = scene(EAST, EAST, WEST)
    assert set(made.kept) == {"aws-default-chain/us-east-1", "aws-default-chain/us-west-2"}
    runtime = made.processor.runtime
    assert runtime.faults == {}
    assert (
        runtime.backends["b0"].auth.cell is runtime.backends["b1"].auth.cell is made.kept["aws-default-chain/us-east-1"]
    )


def test_a_reload_keeps_the_cells_of_unchanged_sources_and_drops_others(scene):
    made = scene(EAST, WEST)
    before = made.kept
    live(made.reload(document(WEST, uuid="second")))
    assert made.processor.runtime.config.uuid == "second"
    assert made.kept == {"aws-default-chain/us-west-2": before["aws-default-chain/us-west-2"]}
    assert made.processor.runtime.backends["b0"].auth.cell is before["aws-default-chain/us-west-2"]


def test_a_refused_config_changes_nothing(scene):
    made = scene(EAST)
    before = made.kept
    broken = {"metadataKey": "k", "type": "CEL", "cel": "(", "routeName": "r"}
    live(made.reload(document(WEST, llmRequestCosts=[broken])))
    assert made.manager.status.failing
    assert made.kept == before


def test_a_rotated_client_secret_in_the_config_loses_no_request(scene):
    made = scene(AZURE)
    (old,) = made.kept.values()
    old.succeeded(Fetched(Secret("token")), {})
    live(made.reload(document(ROTATED)))
    (new,) = made.kept.values()
    assert new is not old
    assert new.due == 0
    assert made.processor.runtime.backends["b0"].auth.cell is new
    assert new.read() == Secret("token")


def test_the_page(scene):
    made = scene(EAST, WEST)
    east, west = (made.kept[f"aws-default-chain/{region}"] for region in ("us-east-1", "us-west-2"))
    now = virtual_time.EPOCH
    for cell in (east, west):
        cell._clock = lambda: now
    east.succeeded(Fetched("canary", now + 90.5), {})
    west.failed("AccessDenied", {})
    page = config_page(made.manager.status, claimed="v", started_at=now, now=now, credentials=made.keeper.states())
    assert page["credentials"] == [
        {
            "source": "aws-default-chain/us-east-1",
            "usable": True,
            "refreshed": "2027-01-15T08:00:00.000Z",
            "expires_in_seconds": 90.5,
            "last_error": None,
        },
        {
            "source": "aws-default-chain/us-west-2",
            "usable": False,
            "refreshed": None,
            "expires_in_seconds": None,
            "last_error": "AccessDenied",
        },
    ]
    assert config_page(made.manager.status, claimed="v", started_at=now, now=now)["credentials"] is None
