from __future__ import annotations

import asyncio
import hashlib
import statistics
import time

import pytest
from structlog.testing import capture_logs

from extproc import reload as module
from extproc.decoder import Decoder, DecoderFailed
from extproc.reload import ConfigError, ConfigManager, VersionRule
from extproc.telemetry.exposition import render
from extproc.telemetry.metrics import Metrics
from filter_config.bundle import write_bundle
from filter_config.load import decode
from filter_config.watch import BundleSource, FileSource

MISMATCH = 'config version mismatch: expected "v1", got "v2". Likely in the middle of rolling update'


def document(name="a", version="v1"):
    return f"version: {version}\nuuid: u-{name}\nmodels: [{{Name: {name}}}]\n".encode()


def replace(path, data):
    temporary = path.with_suffix(".new")
    temporary.write_bytes(data)
    temporary.rename(path)


def digest(data):
    return hashlib.sha256(data).hexdigest()


class InProcess:
    async def decode(self, data):
        return decode(data)


class Holder:
    runtime = None


class Scene:
    """A config file or bundle, and a manager of it that runs while the scene is open."""

    def __init__(self, source, *, decoder=None, own="v1", relaxed=False):
        self.processor = Holder()
        self.metrics = Metrics()
        self.manager = ConfigManager(
            source,
            processor=self.processor,
            metrics=self.metrics,
            version=VersionRule(own=own, relaxed=relaxed),
            decoder=decoder or InProcess(),
            poll_interval=0.2,
            clock=lambda: 1000.0,
        )

    async def __aenter__(self):
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self.manager.follow(self._stop))
        return self

    async def __aexit__(self, *_):
        self._stop.set()
        await asyncio.wait_for(self._task, 10)

    @property
    def status(self):
        return self.manager.status

    @property
    def live(self):
        return None if self.processor.runtime is None else self.processor.runtime.config.uuid

    async def until(self, condition):
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110 - the state of a system with a file watcher in it
                await asyncio.sleep(0.002)

    def metric(self, line):
        return line in render(self.metrics.registry).splitlines()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "config" / "filter-config.yaml"
    path.parent.mkdir()
    path.write_bytes(document())
    return path


def test_the_first_config(path):
    scene = Scene(FileSource(path))
    with capture_logs() as logs:
        scene.manager.load_first()
    assert scene.live == "u-a"
    assert scene.status.live.digest == digest(document())
    assert scene.status.live.since == 1000.0
    assert (scene.status.loads, scene.status.refusals, scene.status.failing) == (1, 0, False)
    assert scene.metric(f'extproc_config_info{{digest="{digest(document())}"}} 1')
    assert scene.metric('extproc_config_reloads_total{result="ok"} 1')
    assert logs[0] == {
        "event": "start watching the config file",
        "path": str(path),
        "interval": "200ms",
        "log_level": "info",
    }


FATAL = {
    "missing": (None, "failed to load initial config: config file does not exist: "),
    "not YAML": (b"{: :", "failed to load initial config: failed to load config: "),
    "wrong type": (b"version: v1\nbackends: 5\n", "failed to load initial config: failed to load config: backends: "),
}


@pytest.mark.parametrize("name", FATAL)
def test_a_first_file_that_cannot_be_used_is_fatal(path, name):
    data, text = FATAL[name]
    path.unlink() if data is None else path.write_bytes(data)
    scene = Scene(FileSource(path))
    with pytest.raises(ConfigError) as caught:
        scene.manager.load_first()
    assert str(caught.value).startswith(text)
    assert scene.live is None
    assert scene.status.failing
    assert scene.status.refused.reason in str(caught.value)


def test_a_first_config_of_another_version_is_served(path):
    """Field report BR-108 (b): at a cold start there is nothing to fall back on."""
    path.write_bytes(document(version="v2") + b"somethingNew: 1\n")
    scene = Scene(FileSource(path))
    with capture_logs() as logs:
        scene.manager.load_first()
    assert scene.live == "u-a"
    assert {"event": "serving a config of another version", "error": MISMATCH, "log_level": "warning"} in logs
    assert scene.metric("extproc_config_version_mismatch_total 1")


@pytest.fixture
def bundle(tmp_path):
    write_bundle(tmp_path, document(), version="v1", uuid="u")
    return tmp_path


def spoil_checksum(directory):
    (directory / "parts" / "000").write_bytes(b"half a generation")


def remove_part(directory):
    (directory / "parts" / "000").unlink()


@pytest.mark.parametrize("spoil", [spoil_checksum, remove_part])
def test_a_bundle_that_does_not_fit_together_yet_is_awaited(bundle, spoil):
    spoil(bundle)

    async def story():
        scene = Scene(BundleSource(bundle))
        with capture_logs() as logs:
            scene.manager.load_first()
        assert scene.live is None
        assert scene.status.failing
        assert [line["event"] for line in logs] == [
            "start watching the config bundle",
            "failed to load initial bundled config; will retry on next watch tick",
        ]
        assert scene.metric('extproc_config_reloads_total{result="unavailable"} 1')
        async with scene:
            write_bundle(bundle, document("b"), version="v1", uuid="u")
            await scene.until(lambda: scene.live == "u-b")
        assert not scene.status.failing

    asyncio.run(story())


def test_a_bundle_without_an_index_is_fatal(bundle):
    (bundle / "index.yaml").unlink()
    with pytest.raises(ConfigError, match=r"^failed to load initial bundled config: "):
        Scene(BundleSource(bundle)).manager.load_first()


def following(path, **options):
    scene = Scene(FileSource(path), **options)
    scene.manager.load_first()
    return scene


def test_a_change_goes_live(path):
    async def story():
        async with following(path) as scene:
            before = scene.processor.runtime
            replace(path, document("b"))
            await scene.until(lambda: scene.live == "u-b")
            assert scene.status.live.digest == digest(document("b"))
            assert scene.status.loads == 2
            assert before.config.uuid == "u-a"

    with capture_logs() as logs:
        asyncio.run(story())
    assert {
        "event": "loading a new config",
        "path": str(path),
        "digest": digest(document("b")),
        "log_level": "info",
    } in logs


def test_a_refused_config_leaves_the_last_good_one(path):
    bad = b"version: v1\nbackends: 5\nmodels: 6\n"

    async def story():
        async with following(path) as scene:
            replace(path, bad)
            await scene.until(lambda: scene.status.failing)
            assert scene.live == "u-a"
            refused = scene.status.refused
            assert refused.digest == digest(bad)
            assert refused.at == 1000.0
            assert {problem.path for problem in refused.problems} == {"backends", "models"}
            assert refused.reason.startswith("failed to load config: backends: ")
            assert refused.reason.endswith("(and 1 more)")
            assert scene.metric('extproc_config_reloads_total{result="refused"} 1')
            replace(path, document("c"))
            await scene.until(lambda: scene.live == "u-c")
            assert not scene.status.failing
            assert scene.status.refused is refused

    with capture_logs() as logs:
        asyncio.run(story())
    (line,) = [line for line in logs if line["log_level"] == "error"]
    assert line["event"] == "failed to update config"
    assert line["path"] == str(path)


@pytest.mark.parametrize("data", [b"", b"\n"])
def test_an_empty_document_never_goes_live(path, data):
    async def story():
        async with following(path) as scene:
            replace(path, data)
            await scene.until(lambda: scene.status.failing)
            assert scene.live == "u-a"
            assert scene.status.refused.reason == "failed to load config: the document is empty"

    asyncio.run(story())


def test_going_back_to_the_live_config_clears_the_refusal(path):
    async def story():
        async with following(path) as scene:
            runtime = scene.processor.runtime
            replace(path, b"[]")
            await scene.until(lambda: scene.status.failing)
            replace(path, document())
            await scene.until(lambda: not scene.status.failing)
            assert scene.processor.runtime is runtime
            assert scene.status.loads == 1

    asyncio.run(story())


def test_a_file_that_goes_away_is_reported_once(path):
    async def story():
        async with following(path) as scene:
            path.unlink()
            await scene.until(lambda: scene.status.failing)
            assert scene.live == "u-a"
            assert scene.status.refused.digest is None
            assert scene.metric('extproc_config_reloads_total{result="unavailable"} 1')
            path.write_bytes(document("b"))
            await scene.until(lambda: scene.live == "u-b")

    with capture_logs() as logs:
        asyncio.run(story())
    assert len([line for line in logs if line["log_level"] == "error"]) == 1


VERSIONS = {
    "another version is refused": ("v1", False, "u-a", 1),
    "a relaxed check takes it": ("v1", True, "u-b", 1),
    "the successor of what was taken at the cold start": ("v2", False, "u-b", 2),
}


@pytest.mark.parametrize("name", VERSIONS)
def test_another_version_in_a_reload(path, name):
    first, relaxed, live, mismatches = VERSIONS[name]
    path.write_bytes(document(version=first))

    async def story():
        async with following(path, relaxed=relaxed) as scene:
            replace(path, document("b", version="v2"))
            await scene.until(lambda: scene.status.failing or scene.live == "u-b")
            assert scene.live == live
            assert scene.metric(f"extproc_config_version_mismatch_total {mismatches}")
            if scene.status.failing:
                assert scene.status.refused.reason == f"failed to load config: {MISMATCH}"

    asyncio.run(story())


def test_a_rejection_while_compiling_is_shown(path, monkeypatch):
    def reject(*_, **__):
        raise module.ExtProcError("cannot create CEL program for cost: no")

    async def story():
        async with following(path) as scene:
            monkeypatch.setattr(module, "build_runtime", reject)
            replace(path, document("b"))
            await scene.until(lambda: scene.status.failing)
            assert scene.status.refused.reason == (
                "failed to load config: cannot create runtime filter config: cannot create CEL program for cost: no"
            )
            assert not scene.status.refused.passing

    asyncio.run(story())


class FailsTwice:
    def __init__(self, error):
        self._error = error
        self.calls = 0

    def check(self):
        self.calls += 1
        if self.calls < 3:
            raise self._error


def test_a_fault_of_ours_is_tried_again(path, monkeypatch):
    monkeypatch.setattr(module, "FIRST_RETRY", 0.01)
    fails, build = FailsTwice(KeyError("boom")), module.build_runtime

    def sometimes(*args, **kwargs):
        fails.check()
        return build(*args, **kwargs)

    async def story():
        async with following(path) as scene:
            monkeypatch.setattr(module, "build_runtime", sometimes)
            replace(path, document("b"))
            await scene.until(lambda: scene.live == "u-b")
            assert scene.status.refusals == 2
            assert not scene.status.failing

    with capture_logs() as logs:
        asyncio.run(story())
    assert fails.calls == 3
    assert [line["error"] for line in logs if line["event"] == "failed to update config"] == [
        "failed to load config: internal error: KeyError"
    ] * 2


def test_a_failing_decoder_is_tried_again(path, monkeypatch):
    monkeypatch.setattr(module, "FIRST_RETRY", 0.01)
    fails = FailsTwice(DecoderFailed("it died"))

    class Sometimes:
        async def decode(self, data):
            fails.check()
            return decode(data)

    async def story():
        async with following(path, decoder=Sometimes()) as scene:
            replace(path, document("b"))
            await scene.until(lambda: scene.live == "u-b")
            assert scene.status.refused.reason == "failed to load config: it died"

    asyncio.run(story())
    assert fails.calls == 3


def test_a_watcher_that_breaks_is_started_again(path, monkeypatch):
    fails, watch = FailsTwice(OSError("no inotify for you")), module.watch

    async def sometimes(*args, **kwargs):
        fails.check()
        async for change in watch(*args, **kwargs):
            yield change

    monkeypatch.setattr(module, "watch", sometimes)

    async def story():
        async with following(path) as scene:
            replace(path, document("b"))
            await scene.until(lambda: scene.live == "u-b")

    with capture_logs() as logs:
        asyncio.run(story())
    events = [line["event"] for line in logs if line["log_level"] == "error"]
    assert events == ["the config watcher failed; starting it again"] * 2


def test_faults_and_warnings_are_logged(path):
    path.write_bytes(
        b"version: v1\nunheard: 1\nbackends:\n- name: ns/b\n  schema: {name: OpenAI}\n"
        b"  auth: {azureAPIKey: {key: sk-secret}, apiKey: {}}\n"
    )
    scene = Scene(FileSource(path))
    with capture_logs() as logs:
        scene.manager.load_first()
    assert "config warning" in [line["event"] for line in logs]
    assert "sk-secret" not in str(logs)
    disabled = [line["backend"] for line in logs if line["event"] == "backend disabled"]
    assert disabled == list(scene.processor.runtime.faults)


def test_how_long_a_change_takes(path, capsys):
    """The figure is for people: asserted is only that every change goes live."""

    async def story():
        decoder = Decoder()
        taken = []
        async with following(path, decoder=decoder) as scene:
            await decoder.warm_up()
            for number in range(15):
                replace(path, document(f"n{number}"))
                started = time.perf_counter()
                await scene.until(lambda uuid=f"u-n{number}": scene.live == uuid)
                taken.append(time.perf_counter() - started)
        await decoder.close()
        return taken

    taken = asyncio.run(story())
    with capsys.disabled():
        print(f"\nrename to live: median {statistics.median(taken) * 1000:.0f} ms, most {max(taken) * 1000:.0f} ms")
    assert len(taken) == 15
