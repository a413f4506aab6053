"""Watching as Kubernetes updates a mounted Secret, and as files are changed otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog

from filter_config import watch as watch_module
from filter_config.bundle import write_bundle
from filter_config.watch import BundleSource, ConfigUnavailable, FileSource, Reason, Snapshot, watch

# Longer than any test waits for: whatever arrives, arrives because a change was reported.
NEVER = 3600.0
PATIENCE = 20.0


class Volume:
    """A mounted Secret: each update is a new directory, and a link that is swapped to it."""

    def __init__(self, root: Path, name: str = "config.yaml") -> None:
        self.root = root
        self.name = name
        self.generation = 0
        self.path = root / name

    def update(self, content: bytes, *, mtime: float | None = None) -> None:
        self.generation += 1
        directory = self.root / f"..2026_{self.generation}"
        directory.mkdir()
        (directory / self.name).write_bytes(content)
        if mtime is not None:
            os.utime(directory / self.name, (mtime, mtime))
            os.utime(directory, (mtime, mtime))
        data = self.root / "..data"
        old = data.readlink() if data.is_symlink() else None
        new = self.root / "..data_tmp"
        new.symlink_to(directory.name)
        new.rename(data)
        if old is not None:
            shutil.rmtree(self.root / old)
        if not self.path.is_symlink():
            self.path.symlink_to(f"..data/{self.name}")


@pytest.fixture
def volume(tmp_path):
    volume = Volume(tmp_path)
    volume.update(b"first")
    return volume


class Watched:
    """What a watch has yielded so far, and waiting for more."""

    def __init__(self) -> None:
        self.states: list[Snapshot | ConfigUnavailable] = []
        self.changed = asyncio.Condition()

    async def add(self, state: Snapshot | ConfigUnavailable) -> None:
        async with self.changed:
            self.states.append(state)
            self.changed.notify_all()

    async def until(self, count: int) -> Snapshot | ConfigUnavailable:
        """Waits until so many states have come and gives the last of them."""
        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(lambda: len(self.states) >= count), PATIENCE)
        return self.states[count - 1]

    async def until_content(self, content: bytes) -> None:
        def arrived() -> bool:
            return isinstance(self.states[-1], Snapshot) and self.states[-1].data == content

        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(arrived), PATIENCE)


@asynccontextmanager
async def watching(source, poll_interval=NEVER):
    """Runs a watch and stops it in an orderly way."""
    watched, stop = Watched(), asyncio.Event()

    async def run() -> None:
        async for state in watch(source, poll_interval=poll_interval, stop=stop):
            await watched.add(state)

    task = asyncio.create_task(run())
    try:
        await watched.until(1)
        yield watched
    finally:
        stop.set()
        await asyncio.wait_for(task, PATIENCE)


def test_the_first_content_comes_at_once(volume):
    async def story():
        async with watching(FileSource(volume.path)) as watched:
            state = await watched.until(1)
            assert state.data == b"first"
            assert state.digest == "a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e"

    asyncio.run(story())


def test_swaps_one_by_one(volume):
    async def story():
        async with watching(FileSource(volume.path)) as watched:
            for number in range(8):
                await asyncio.to_thread(volume.update, f"content {number}".encode())
                assert (await watched.until(number + 2)).data == f"content {number}".encode()

    asyncio.run(story())


def test_fifty_swaps_within_a_second_end_at_the_last(volume):
    async def story():
        async with watching(FileSource(volume.path)) as watched:

            def swap_many():
                pause = threading.Event()
                for number in range(50):
                    volume.update(f"content {number}".encode())
                    pause.wait(0.01)

            await asyncio.to_thread(swap_many)
            await watched.until_content(b"content 49")
            seen = [state.data for state in watched.states if isinstance(state, Snapshot)]
            assert seen == sorted(seen, key=lambda data: -1 if data == b"first" else int(data.split()[1]))

    asyncio.run(story())


def test_modification_times_do_not_matter(volume):
    async def story():
        volume.update(b"now", mtime=2_000_000_000)
        async with watching(FileSource(volume.path)) as watched:
            await asyncio.to_thread(volume.update, b"same", mtime=2_000_000_000)
            assert (await watched.until(2)).data == b"same"
            await asyncio.to_thread(volume.update, b"older", mtime=1_000_000_000)
            assert (await watched.until(3)).data == b"older"

    asyncio.run(story())


def test_the_same_content_is_not_given_twice(volume):
    async def story():
        async with watching(FileSource(volume.path)) as watched:
            await asyncio.to_thread(volume.update, b"first")
            await asyncio.to_thread(volume.update, b"first")
            await asyncio.to_thread(volume.update, b"second")
            assert (await watched.until(2)).data == b"second"

    asyncio.run(story())


def test_a_half_written_file_is_a_content_and_so_is_the_whole(tmp_path):
    async def story():
        path = tmp_path / "config.yaml"
        path.write_bytes(b"version: dev\n")
        async with watching(FileSource(path)) as watched:
            with path.open("wb") as file:
                file.write(b"backends: [{na")
                file.flush()
                await watched.until_content(b"backends: [{na")
                file.write(b"me: b}]\n")
            await watched.until_content(b"backends: [{name: b}]\n")

    asyncio.run(story())


def test_a_file_replaced_by_rename(tmp_path):
    async def story():
        path = tmp_path / "config.yaml"
        path.write_bytes(b"one")
        async with watching(FileSource(path)) as watched:
            (tmp_path / "other").write_bytes(b"two")
            (tmp_path / "other").rename(path)
            await watched.until_content(b"two")

    asyncio.run(story())


def test_deleted_and_back(volume):
    async def story():
        async with watching(FileSource(volume.path)) as watched:
            volume.path.unlink()
            gone = await watched.until(2)
            assert isinstance(gone, ConfigUnavailable)
            assert gone.reason is Reason.MISSING
            assert str(gone) == f"config file does not exist: {volume.path}"
            (volume.root / "unrelated").touch()
            # The content is the last good one, and is given again: the receiver has an error to clear.
            volume.path.symlink_to("..data/config.yaml")
            assert (await watched.until(3)).data == b"first"

    asyncio.run(story())


def test_a_file_that_does_not_exist_yet(tmp_path):
    async def story():
        path = tmp_path / "a" / "b" / "config.yaml"
        async with watching(FileSource(path)) as watched:
            assert isinstance(await watched.until(1), ConfigUnavailable)
            path.parent.mkdir(parents=True)
            path.write_bytes(b"now")
            await watched.until_content(b"now")

    asyncio.run(story())


def test_a_directory_that_is_taken_away_and_put_back(tmp_path):
    async def story():
        directory = tmp_path / "etc"
        directory.mkdir()
        (directory / "config.yaml").write_bytes(b"one")
        async with watching(FileSource(directory / "config.yaml")) as watched:
            shutil.rmtree(directory)
            assert isinstance(await watched.until(2), ConfigUnavailable)
            directory.mkdir()
            (directory / "config.yaml").write_bytes(b"two")
            await watched.until_content(b"two")

    asyncio.run(story())


def test_a_target_elsewhere_is_watched_too(tmp_path):
    async def story():
        for name in ("etc", "data"):
            (tmp_path / name).mkdir()
        (tmp_path / "data/real").write_bytes(b"one")
        (tmp_path / "etc/config.yaml").symlink_to("../data/real")
        async with watching(FileSource(tmp_path / "etc/config.yaml")) as watched:
            (tmp_path / "data/real").write_bytes(b"two")
            await watched.until_content(b"two")

    asyncio.run(story())


def test_unreadable(tmp_path):
    async def story():
        (tmp_path / "config.yaml").mkdir()
        async with watching(FileSource(tmp_path / "config.yaml")) as watched:
            state = await watched.until(1)
            assert state.reason is Reason.UNREADABLE

    asyncio.run(story())


# --- bundles ---


def test_a_bundle_is_watched_through_its_writes(tmp_path):
    async def story():
        write_bundle(tmp_path, b"one", "v", "u")
        async with watching(BundleSource(tmp_path)) as watched:
            await asyncio.to_thread(write_bundle, tmp_path, b"two" * 300_000, "v", "u")
            await watched.until_content(b"two" * 300_000)
            await asyncio.to_thread(write_bundle, tmp_path, b"three", "v", "u")
            await watched.until_content(b"three")

    asyncio.run(story())


def test_mixed_generations_of_index_and_parts(tmp_path):
    async def story():
        write_bundle(tmp_path, b"one", "v", "u")
        old_index = (tmp_path / "index.yaml").read_bytes()
        async with watching(BundleSource(tmp_path)) as watched:
            # The part arrives before its index.
            (tmp_path / "parts/000").write_bytes(b"two")
            mixed = await watched.until(2)
            assert mixed.reason is Reason.CHECKSUM
            assert mixed.transient
            write_bundle(tmp_path, b"two", "v", "u")
            await watched.until_content(b"two")
            # The index arrives before its part.
            new_index = (tmp_path / "index.yaml").read_bytes()
            (tmp_path / "parts/000").unlink()
            assert (await watched.until(4)).reason is Reason.PART_MISSING
            (tmp_path / "parts/000").write_bytes(b"two")
            assert (await watched.until(5)).data == b"two"
            assert new_index != old_index

    asyncio.run(story())


def test_a_bundle_in_a_kubernetes_volume(tmp_path):
    volume = tmp_path / "volume"

    def generation(name: str, payload: bytes) -> None:
        write_bundle(volume / name, payload, "v", "u")
        (volume / "..data_tmp").symlink_to(name)
        (volume / "..data_tmp").rename(volume / "..data")

    async def story():
        volume.mkdir()
        generation("..a", b"one")
        (volume / "index.yaml").symlink_to("..data/index.yaml")
        (volume / "parts").symlink_to("..data/parts")
        async with watching(BundleSource(volume)) as watched:
            assert (await watched.until(1)).data == b"one"
            generation("..b", b"two")
            await watched.until_content(b"two")
            shutil.rmtree(volume / "..a")
            generation("..c", b"three")
            await watched.until_content(b"three")

    asyncio.run(story())


def test_directories_of_a_bundle(tmp_path):
    (tmp_path / "chunks").mkdir()
    (tmp_path / "index.yaml").write_text("checksum: a\nparts: [{path: chunks/a}, {path: chunks/b}, {path: c}]")
    assert BundleSource(tmp_path).directories() == (tmp_path, tmp_path / "chunks")
    (tmp_path / "index.yaml").unlink()
    assert BundleSource(tmp_path).directories() == (tmp_path,)


# --- where changes are not reported, and the end ---


def test_the_poll_finds_what_nobody_reported(tmp_path, monkeypatch):
    path = tmp_path / "config.yaml"
    path.write_bytes(b"one")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    # The wrong directory is watched: no event will come.
    monkeypatch.setattr(FileSource, "directories", lambda _source: (elsewhere,))

    async def story():
        async with watching(FileSource(path), poll_interval=0.05) as watched:
            path.write_bytes(b"two")
            await watched.until_content(b"two")

    asyncio.run(story())


def test_without_change_reports_the_checksum_is_polled(tmp_path, monkeypatch):
    path = tmp_path / "config.yaml"
    path.write_bytes(b"one")

    async def refuse(*_paths, **_options):
        raise OSError("inotify watch limit reached")
        yield

    monkeypatch.setattr(watch_module, "awatch", refuse)
    monkeypatch.setattr(watch_module, "_UNREPORTED_INTERVAL", 0.02)

    async def story():
        with structlog.testing.capture_logs() as logs:
            async with watching(FileSource(path)) as watched:
                path.write_bytes(b"two")
                await watched.until_content(b"two")
                path.write_bytes(b"three")
                await watched.until_content(b"three")
        assert logs == [
            {
                "event": "config_changes_not_reported",
                "log_level": "warning",
                "reason": "inotify watch limit reached",
                "poll_seconds": 0.02,
            },
        ]

    asyncio.run(story())


def test_directories_that_vanish_under_our_hands(tmp_path, monkeypatch):
    path = tmp_path / "config.yaml"
    path.write_bytes(b"one")
    real = watch_module.awatch
    failures = iter(range(25))

    def vanish(*paths, **options):
        return real(*paths, **options) if next(failures, None) is None else real("/does/not/exist", **options)

    monkeypatch.setattr(watch_module, "awatch", vanish)
    monkeypatch.setattr(watch_module, "_UNREPORTED_INTERVAL", 0.02)

    async def story():
        async with watching(FileSource(path)) as watched:
            path.write_bytes(b"two")
            await watched.until_content(b"two")

    asyncio.run(story())


def test_stop_before_the_start(volume):
    async def story():
        stop = asyncio.Event()
        stop.set()
        assert [state async for state in watch(FileSource(volume.path), stop=stop)] == []

    asyncio.run(story())


def test_cancelling_the_receiver_ends_the_watch_and_stops_nothing_else(volume):
    async def story():
        stop, started = asyncio.Event(), asyncio.Event()

        async def run():
            async for _ in watch(FileSource(volume.path), poll_interval=NEVER, stop=stop):
                started.set()

        task = asyncio.create_task(run())
        await asyncio.wait_for(started.wait(), PATIENCE)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE)
        assert task.cancelled()
        assert not stop.is_set()

    asyncio.run(story())


def test_leaving_the_iteration_ends_the_watch(volume):
    async def story():
        stop = asyncio.Event()
        async with contextlib.aclosing(watch(FileSource(volume.path), poll_interval=NEVER, stop=stop)) as states:
            async for state in states:
                assert state.data == b"first"
                break
        assert not stop.is_set()

    asyncio.run(story())


def test_a_snapshot_does_not_show_its_data():
    assert "sk-secret" not in repr(Snapshot(b"sk-secret", "digest"))
